"""The edges with one weight are read, and their rows are made range by range.

Edges are parsed, checked, grouped by source and kept, on every core. Once all ids are known, the rows of one range of
vertices after another are made. So memory holds a limited part of the edges and a few chunks, whatever the size of the
input. Edges that do not fit are in a nameless temporary file.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from sssp_pipeline.csr import MAX_VERTICES, CsrGraph
from sssp_pipeline.errors import InputError
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.pipeline.formats.edge_list import Coordinates, EdgeChunk, EdgeList
from sssp_pipeline.pipeline.formats.reading import Reading
from sssp_pipeline.pipeline.formats.vertex_files.vertex_positions import VertexPositions
from sssp_pipeline.pipeline.graph_store.manifest import (
    Cleaning,
    Counts,
)
from sssp_pipeline.pipeline.ingest.ids.id_mapping import EVERYWHERE, IdCollector, collector
from sssp_pipeline.pipeline.ingest.input import (
    SAMPLE_EDGES,
    adds_reverses,
    complete_reading,
    open_input,
    open_positions,
    sample_of,
)
from sssp_pipeline.pipeline.ingest.memory import Memory
from sssp_pipeline.pipeline.ingest.rows import reverses, sorted_rows
from sssp_pipeline.pipeline.ingest.rows.edge_runs import (
    EdgeRun,
    RunTable,
    keep_run,
    limits_between,
    with_vertices,
)
from sssp_pipeline.pipeline.ingest.spill import Spill
from sssp_pipeline.pipeline.ingest.weight_types import (
    WeightRange,
    check_weights,
    default_weight,
    scaled,
)
from sssp_pipeline.pipeline.ordered import map_in_order
from sssp_pipeline.pipeline.scratch import Scratch
from sssp_pipeline.pipeline.storage import files
from sssp_pipeline.progress import Progress, plural
from sssp_pipeline.vertex_ids import VertexIds
from sssp_pipeline.workflow import models as workflow


@dataclass(frozen=True, eq=False)
class Given:
    """What ingest reads for one weight: the section of the graph, its URLs, and their fingerprints."""

    spec: workflow.Graph
    urls: list[str]
    inputs: list[dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Job:
    """What the steps of one ingest share."""

    spec: workflow.Graph
    edge_list: EdgeList
    ids: IdCollector
    spill: Spill
    memory: Memory
    progress: Progress
    scratch: Scratch = field(default_factory=Scratch)

    @property
    def threads(self) -> int:
        return self.memory.threads

    @property
    def input_name(self) -> str:
        """The words for the input in messages."""
        inputs = self.spec.inputs
        return f"`{files.redacted(inputs[0])}`" if len(inputs) == 1 else "the input"

    @property
    def drops_loops(self) -> bool:
        return self.spec.self_loops == "drop"

    @property
    def adds_reverses(self) -> bool:
        return adds_reverses(self.edge_list, self.spec)


@dataclass(frozen=True)
class Range:
    """Consecutive vertices, whose rows are made together."""

    #: A range of codes that has the codes of all these vertices.
    codes: tuple[int, int]
    #: The first vertex, and the first one behind the range.
    vertices: tuple[int, int]


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of consecutive vertices, as in a `CsrGraph`."""

    #: The first vertex.
    first: int
    #: (R+1,) int64 from 0.
    row_offsets: np.ndarray
    #: (E,) uint32 and (E,).
    col_indices: np.ndarray
    weights: np.ndarray
    #: As `reverses.reverse_difference` makes it; None if an edge without a reverse is known.
    reverse_difference: int | None


@dataclass(eq=False)
class ReadEdges:
    """The edges with one weight after they were read; `rows` makes their rows, as long as the spill is open."""

    job: Job
    given: Given
    runs: list[EdgeRun]
    seen: WeightRange
    n_loops: int
    sample: list[tuple]
    vertex_ids: VertexIds
    dtype: np.dtype
    why_dtype: str
    coordinates: Coordinates | None
    #: These two are complete when all rows were made.
    _n_edges: int = 0
    #: The sum of those of the rows; None as soon as an edge without a reverse is known.
    _reverse_difference: int | None = 0

    def ranges(self, edges_a_range: int, most_vertices: int, within: Range | None = None) -> Iterator[Range]:
        """Give ranges of about `edges_a_range` edges, and at most `most_vertices` vertices, in ascending order.

        They divide the range `within`, or all vertices.
        """
        if within is None:
            within = Range((0, 2**32), (0, self.vertex_ids.n_vertices))
        limits = limits_between(self.runs, edges_a_range)
        limits = limits[(limits > within.codes[0]) & (limits < within.codes[1])]
        vertices = limits.astype(np.uint32)
        if not self.job.ids.has_chunks:
            vertices = self.job.ids.vertices(vertices, EVERYWHERE)
        vertices = np.clip(vertices, *within.vertices)
        codes = pairwise([within.codes[0], *limits.tolist(), within.codes[1]])
        bounds = pairwise([within.vertices[0], *vertices.tolist(), within.vertices[1]])
        for between, (begin, end) in zip(codes, bounds, strict=True):
            # A range of many vertices with few edges is divided again.
            for first in range(begin, end, most_vertices):
                yield Range(between, (first, min(first + most_vertices, end)))

    def rows(self, within: Range | None = None, keys: np.ndarray | None = None) -> Iterator[Rows]:
        """Give the rows of the vertices in the range `within`, or of all, range by range in ascending order.

        `keys` are those of `reverse_difference`; without them, they are new.

        Raises
        ------
        InputError
            Two edges have equal ends, and `graph.duplicates` is `error`.
        """
        self._n_edges, self._reverse_difference = 0, 0
        job = self.job
        ranges = self.ranges(job.memory.range_edges, job.memory.range_vertices, within)
        # Without an edge, a run of an input with weights has none either.
        default = np.zeros(1) if job.edge_list.has_weights else default_weight(job.spec.weights)
        make = partial(
            self._rows_between,
            table=RunTable(self.runs),
            scratch=Scratch(),
            default=default,
            bounds=sorted_rows.Bounds.of(
                self.vertex_ids.n_vertices, self.seen.low, self.seen.high, self.dtype
            ),
            keys=reverses.random_keys() if keys is None else keys,
        )
        for rows in map_in_order(lambda r: make(r.codes, r.vertices), ranges, job.threads):
            self._n_edges += len(rows.col_indices)
            if self._reverse_difference is not None and rows.reverse_difference is not None:
                self._reverse_difference = (self._reverse_difference + rows.reverse_difference) % 2**64
            else:
                self._reverse_difference = None
            yield rows

    def _rows_between(
        self,
        codes: tuple[int, int],
        vertices: tuple[int, int],
        table: RunTable,
        scratch: Scratch,
        default: np.ndarray,
        bounds: sorted_rows.Bounds,
        keys: np.ndarray,
    ) -> Rows:
        """Return the rows of the vertices [first, last), whose codes are in the range `codes`."""
        job = self.job
        src, dst, weights = table.edges_between(*codes, self.dtype, default)
        if not job.ids.has_chunks:
            src, dst = job.ids.vertices(src, EVERYWHERE), job.ids.vertices(dst, EVERYWHERE)
        lightest = job.spec.duplicates == "keep-min"
        rows = sorted_rows.rows_between(
            *vertices, src, dst, weights, bounds=bounds, lightest=lightest, scratch=scratch
        )
        if job.spec.duplicates == "error":
            self._refuse_duplicates(vertices[0], *rows[:2])
        return Rows(vertices[0], *rows, self._reverse_difference_of(vertices[0], rows, keys))

    def _reverse_difference_of(
        self, first: int, rows: tuple[np.ndarray, np.ndarray, np.ndarray], keys: np.ndarray
    ) -> int | None:
        """Return the `reverse_difference` of the rows from vertex `first` on; None if an edge has no reverse."""
        if self.job.adds_reverses:
            return 0
        row_offsets, col_indices, weights = rows
        # Most graphs with one-way edges have one between two vertices of the first range: then no hashes are needed.
        if (
            self._reverse_difference is None
            or reverses.first_one_way(row_offsets, 0, len(row_offsets) - 1, col_indices, weights, first) >= 0
        ):
            return None
        return reverses.reverse_difference(first, row_offsets, col_indices, weights, keys)

    def _refuse_duplicates(self, first: int, row_offsets: np.ndarray, col_indices: np.ndarray) -> None:
        """Raise `InputError` if two edges of the sorted rows from vertex `first` on have equal ends."""
        e = sorted_rows.first_duplicate(row_offsets, col_indices)
        if e < 0:
            return
        u, v = first + int(np.searchsorted(row_offsets, e, side="right")) - 1, int(col_indices[e])
        raise InputError(
            f"{self.job.input_name}: the edge from `{self.vertex_ids.original(u)}` to "
            f"`{self.vertex_ids.original(v)}` is listed twice",
            hint="`graph.duplicates: keep-min` keeps the lighter one, `keep-all` keeps both",
        )

    #: Every vertex is kept.
    cleaning: ClassVar[Cleaning | None] = None

    @property
    def is_symmetric(self) -> bool:
        """Whether each edge has a reverse of the same weight."""
        return self.job.adds_reverses or self._reverse_difference == 0

    @property
    def counts(self) -> Counts:
        return Counts(
            edges_read=self.seen.n_edges,
            rows_skipped=self.job.edge_list.skipped.count,
            self_loops_dropped=self.n_loops if self.job.drops_loops else 0,
            reverses_added=self.seen.n_edges - self.n_loops if self.job.adds_reverses else 0,
            duplicates_dropped=sum(int(run.starts[-1]) for run in self.runs) - self._n_edges,
        )

    @property
    def reading(self) -> Reading:
        """How the input was understood."""
        return complete_reading(
            self.job.edge_list, self.given.spec, self.sample, f"{self.dtype.name}: {self.why_dtype}"
        )

    def check_both_listed(self) -> None:
        """Raise `InputError` if the format lists both directions of every edge, and one of them is missing."""
        if self.job.edge_list.symmetric != "both-listed" or self.is_symmetric:
            return
        rows = list(self.rows())
        degrees, col_indices, weights = (
            np.concatenate(arrays)
            for arrays in zip(
                *((np.diff(r.row_offsets), r.col_indices, r.weights) for r in rows), strict=True
            )
        )
        graph = CsrGraph(np.concatenate([np.zeros(1, np.int64), np.cumsum(degrees)]), col_indices, weights)
        u, v = (self.vertex_ids.original(end) for end in _first_one_way(graph, self.job.threads))
        raise InputError(
            f"`{files.redacted(self.given.urls[0])}` lists the edge from `{u}` to `{v}`, but not from `{v}` to `{u}` "
            "with the same weight",
            hint="a METIS graph lists every edge in the lines of both its ends; set `graph.format: text` if each "
            "row is an edge",
        )


@contextmanager
def read_edges(given: Given, progress: Progress, *, with_positions: bool = True) -> Iterator[ReadEdges]:
    """Read the edges with one weight, and give them; the coordinates only `with_positions`.

    Raises
    ------
    InputError
        The input cannot be used, or the temporary folder is full.
    """
    spec = given.spec
    memory = Memory.of(spec.memory, usable_cores())
    edge_list = open_input(spec, given.urls, memory.block_bytes, spec.max_line_bytes)
    if edge_list.n_vertices is not None:
        check_vertex_count(edge_list.n_vertices)
    with Spill(memory.spill_bytes) as spill:
        ids = collector(
            edge_list.reading.ids, edge_list.n_vertices, edge_list.first_id, spill, memory.n_bytes
        )
        job = Job(spec, edge_list, ids, spill, memory, progress)
        positions = open_positions(spec, edge_list) if with_positions else None
        progress.stage("read edges")
        runs, seen, n_loops, sample = read_runs(job)
        check_all_have_weights(seen)
        dtype, why = seen.dtype(spec.weights, edge_list.weight_dtype, job.input_name)
        progress.stage("build rows")
        vertex_ids = ids.finish()
        check_vertex_count(vertex_ids.n_vertices)
        if ids.has_chunks:
            with ThreadPoolExecutor(job.threads) as pool:
                runs = list(pool.map(lambda run: with_vertices(run, ids), runs))
        coordinates = coordinates_of(job, positions, vertex_ids) if with_positions else None
        yield ReadEdges(job, given, runs, seen, n_loops, sample, vertex_ids, dtype, why, coordinates)


@dataclass(frozen=True, eq=False)
class _Prepared:
    """A chunk after it was checked and kept."""

    n_edges: int
    sample: list[tuple]
    run: EdgeRun
    n_loops: int
    seen: WeightRange


def read_runs(job: Job, before: int = 0) -> tuple[list[EdgeRun], WeightRange, int, list[tuple]]:
    """Read and keep all edges; return their runs, what their weights need, the self-loops, and the first edges.

    `before` is the number of edges before these, for messages.
    """
    seen = WeightRange()
    runs: list[EdgeRun] = []
    sample: list[tuple] = []
    n_loops = 0
    if not job.edge_list.has_weights:
        seen.add(default_weight(job.spec.weights))
    for done in job.edge_list.map_chunks(partial(_prepared, job), job.threads):
        if isinstance(done, EdgeChunk):
            # It has a fault, whose message needs the number of edges before it.
            _checked(job, done, job.ids.add(done.src, done.dst), before + seen.n_edges)
            raise AssertionError("a fault was found only once")
        sample += done.sample[: SAMPLE_EDGES - len(sample)]
        seen.merge(done.seen)
        seen.n_edges += done.n_edges
        seen.n_weighted += done.n_edges if done.run.weights is not None else 0
        n_loops += done.n_loops
        runs.append(done.run)
        job.progress.advance(seen.n_edges, None, "edges")
    return runs, seen, n_loops, sample


def check_all_have_weights(seen: WeightRange) -> None:
    """Raise `InputError` if only some of the edges have a weight."""
    if 0 < seen.n_weighted < seen.n_edges:
        raise InputError(
            f"{seen.n_weighted} edges have a weight and {seen.n_edges - seen.n_weighted} have none",
            hint="name files of one kind, or set `graph.weights.column: none`",
        )


def _prepared(job: Job, chunk: EdgeChunk) -> _Prepared | EdgeChunk:
    """Check a chunk and keep it; return a copy of it if it has a fault."""
    if job.spec.directed == "reversed":
        chunk = chunk.reversed()
    ends = job.ids.add(chunk.src, chunk.dst)
    try:
        weights = _checked(job, chunk, ends, 0)
    except InputError:
        return chunk.copy()
    seen = WeightRange()
    if weights is not None:
        weights = seen.add(weights)
    run, n_loops = keep_run(
        job.spill,
        ends,
        weights,
        drop_loops=job.drops_loops,
        add_reverses=job.adds_reverses,
        scratch=job.scratch,
    )
    return _Prepared(len(chunk), sample_of(chunk, SAMPLE_EDGES), run, n_loops, seen)


def _checked(
    job: Job, chunk: EdgeChunk, ends: tuple[np.ndarray, np.ndarray, int], before: int
) -> np.ndarray | None:
    """Return the scaled weights of a chunk; `before` is the number of edges before it.

    Raises
    ------
    InputError
        A weight cannot be used, or there is a self-loop and `graph.self_loops` is `error`.
    """
    spec, place, weights = job.spec, job.input_name, chunk.weights
    if weights is not None:
        if spec.weights.scale is not None:
            weights = scaled(chunk, before, spec.weights.scale, place)
        check_weights(EdgeChunk(chunk.src, chunk.dst, weights), before, spec.weights.dtype, place)
    if spec.self_loops == "error" and (loops := np.flatnonzero(ends[0] == ends[1])).size:
        i = int(loops[0])
        raise InputError(
            f"{place}: edge {before + i + 1} is a self-loop of vertex `{chunk.src[i]}`",
            hint="`graph.self_loops: drop` leaves self-loops out, `keep` keeps them",
        )
    return weights


def check_vertex_count(n_vertices: int) -> None:
    """Raise `InputError` if `n_vertices` is above the limit of a graph."""
    if n_vertices > MAX_VERTICES:
        raise InputError(
            f"the graph has {n_vertices} vertices, at most {MAX_VERTICES} are possible",
            hint="leave out vertices, or contract them",
        )


def _first_one_way(graph: CsrGraph, threads: int) -> tuple[int, int]:
    """Return the ends of the first edge without a reverse of the same weight, of which there is one."""
    found = reverses.in_parallel(
        reverses.first_one_way, graph.row_offsets, threads, graph.col_indices, graph.weights
    )
    edge = next(e for e in found if e >= 0)
    return int(np.searchsorted(graph.row_offsets, edge, side="right")) - 1, int(graph.col_indices[edge])


def coordinates_of(job: Job, positions: VertexPositions | None, vertex_ids: VertexIds) -> Coordinates | None:
    """Return x and y of the vertices, (V,) each; None if the input has no coordinates."""
    if job.edge_list.positions_of is not None:
        return job.edge_list.positions_of(vertex_ids)
    if positions is None:
        return job.edge_list.coordinates()
    x, y, n_others = positions.of(vertex_ids)
    if n_others:
        job.progress.say(
            f"{plural(n_others, 'row')} of {files.redacted(positions.url)} have positions of no vertex of the graph"
        )
    return x, y
