"""Reading: the edges with one weight are parsed, checked, grouped by source and kept, on every core.

Memory holds a limited part of the edges and a few chunks, whatever the size of the input. Edges that do not fit are in
a temporary file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial

import numpy as np

from sssp_pipeline.base.compile_children import wait_for
from sssp_pipeline.base.csr import MAX_VERTICES
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.progress import Progress, plural
from sssp_pipeline.base.vertex_ids import VertexIds
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.pipeline.formats.edge_list import Coordinates, EdgeChunk
from sssp_pipeline.pipeline.formats.vertex_files.vertex_positions import VertexPositions
from sssp_pipeline.pipeline.ingest.edges import EdgeFacts, EdgesSeen, ReadEdges
from sssp_pipeline.pipeline.ingest.ids.id_mapping import collector
from sssp_pipeline.pipeline.ingest.input import SAMPLE_EDGES, open_input, open_positions, sample_of
from sssp_pipeline.pipeline.ingest.job import Given, Job
from sssp_pipeline.pipeline.ingest.memory import Memory
from sssp_pipeline.pipeline.ingest.rows.compile_ahead import GROUPING
from sssp_pipeline.pipeline.ingest.rows.edge_runs import EdgeRun, keep_run, with_vertices
from sssp_pipeline.pipeline.ingest.spill import Spill
from sssp_pipeline.pipeline.ingest.weight_types import WeightRange, check_weights, default_weight, scaled
from sssp_pipeline.storage import files


class Work(ABC):
    """What differs between the ways to read the edges with one weight. `read_edges` calls the methods in their order.

    Parameters
    ----------
    given
        The input.
    memory
        The memory of this process.
    progress
        Gets what is told meanwhile.
    resources
        End when all edges were written to the store.
    """

    def __init__(self, given: Given, memory: Memory, progress: Progress, resources: ExitStack) -> None:
        self.given, self.memory, self.progress, self.resources = given, memory, progress, resources
        #: The bytes of the input that are read into one chunk.
        self.block_bytes = memory.block_bytes
        #: The memory by which the collector of ids chooses the ids that are their own codes.
        self.id_bytes = memory.n_bytes

    @abstractmethod
    def read(self, job: Job) -> EdgesSeen:
        """Read and keep all edges.

        Raises
        ------
        InputError
            The input cannot be used, or there is no room for the edges.
        """

    @abstractmethod
    def collect_ids(self, job: Job) -> None:
        """Give the collector of `job` the ids that it lacks."""

    @abstractmethod
    def edges(self, job: Job, facts: EdgeFacts) -> ReadEdges:
        """Return the edges, which can make their rows; the ids are numbered."""


class WholeInput(Work):
    """Reads the input as a whole in this process, and keeps the edges in the spill."""

    def read(self, job: Job) -> EdgesSeen:
        self._runs, seen = read_runs(job)
        return seen

    def collect_ids(self, job: Job) -> None:
        """Do nothing: the collector has all ids."""

    def edges(self, job: Job, facts: EdgeFacts) -> ReadEdges:
        runs = self._runs
        if job.ids.has_chunks:
            with ThreadPoolExecutor(job.threads) as pool:
                runs = list(pool.map(lambda run: with_vertices(run, job.ids), runs))
        return ReadEdges(job, self.given, runs, facts)


@contextmanager
def read_edges(
    work_of: Callable[[Given, Memory, Progress, ExitStack], Work],
    given: Given,
    progress: Progress,
    *,
    with_positions: bool = True,
) -> Iterator[ReadEdges]:
    """Read the edges with one weight, and give them; the coordinates only `with_positions`.

    `work_of` returns the way to read them: a new `Work`.

    Raises
    ------
    InputError
        The input cannot be used, or the temporary folder is full.
    """
    spec = given.spec
    memory = Memory.of(spec.memory, usable_cores())
    with ExitStack() as resources:
        work = work_of(given, memory, progress, resources)
        edge_list = open_input(spec, given.urls, work.block_bytes, spec.max_line_bytes)
        if edge_list.n_vertices is not None:
            _check_vertex_count(edge_list.n_vertices)
        spill = resources.enter_context(Spill(memory.spill_bytes))
        ids = collector(edge_list.reading.ids, edge_list.n_vertices, edge_list.first_id, spill, work.id_bytes)
        job = Job(spec, edge_list, ids, spill, memory, progress)
        positions = open_positions(spec, edge_list) if with_positions else None
        progress.stage("read edges")
        found = work.read(job)
        _check_all_have_weights(found.seen)
        weight_type = found.seen.type_of(spec.weights, edge_list.weight_dtype, job.input_name, given.wider)
        progress.stage("build rows")
        work.collect_ids(job)
        vertex_ids = ids.finish()
        _check_vertex_count(vertex_ids.n_vertices)
        coordinates = _coordinates_of(job, positions, vertex_ids) if with_positions else None
        yield work.edges(job, EdgeFacts(found, vertex_ids, weight_type, coordinates))


def read_runs(job: Job, before: int = 0) -> tuple[list[EdgeRun], EdgesSeen]:
    """Read and keep all edges; return their runs, and what is known of the edges.

    `before` is the number of edges before these, for messages.
    """
    found = EdgesSeen()
    runs: list[EdgeRun] = []
    if not job.edge_list.has_weights:
        found.seen.add(default_weight(job.spec.weights))
    for done in job.edge_list.map_chunks(partial(_kept, job), job.threads):
        if isinstance(done, EdgeChunk):
            # It has a fault, whose message needs the number of edges before it.
            _checked(job, done, job.ids.add(done.src, done.dst), before + found.seen.n_edges)
            raise AssertionError("a fault was found only once")
        run, seen = done
        found.add(seen)
        runs.append(run)
        job.progress.advance(found.seen.n_edges, None, "edges")
    return runs, found


def _check_all_have_weights(seen: WeightRange) -> None:
    """Raise `InputError` if only some of the edges have a weight."""
    if 0 < seen.n_weighted < seen.n_edges:
        raise InputError(
            f"{seen.n_weighted} edges have a weight and {seen.n_edges - seen.n_weighted} have none",
            hint="name files of one kind, or set `graph.weights.column: none`",
        )


def _kept(job: Job, chunk: EdgeChunk) -> tuple[EdgeRun, EdgesSeen] | EdgeChunk:
    """Check a chunk and keep it; return a copy of it if it has a fault."""
    if job.spec.directed == "reversed":
        chunk = chunk.reversed()
    ends = job.ids.add(chunk.src, chunk.dst)
    try:
        weights = _checked(job, chunk, ends, 0)
    except InputError:
        return chunk.copy()
    seen = WeightRange(len(chunk), 0 if weights is None else len(chunk))
    if weights is not None:
        weights = seen.add(weights, are_rounded=chunk.is_rounded)
    wait_for(GROUPING)
    run, n_loops = keep_run(
        job.spill,
        ends,
        weights,
        drop_loops=job.drops_loops,
        add_reverses=job.adds_reverses,
        scratch=job.scratch,
    )
    return run, EdgesSeen(seen, n_loops, sample_of(chunk, SAMPLE_EDGES))


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
        if isinstance(spec.weights.scale, int):
            weights = scaled(chunk, before, spec.weights.scale, place)
        check_weights(EdgeChunk(chunk.src, chunk.dst, weights), before, spec.weights.dtype, place)
    if spec.self_loops == "error" and (loops := np.flatnonzero(ends[0] == ends[1])).size:
        i = int(loops[0])
        raise InputError(
            f"{place}: edge {before + i + 1} is a self-loop of vertex `{chunk.src[i]}`",
            hint="`graph.self_loops: drop` leaves self-loops out, `keep` keeps them",
        )
    return weights


def _check_vertex_count(n_vertices: int) -> None:
    """Raise `InputError` if `n_vertices` is above the limit of a graph."""
    if n_vertices > MAX_VERTICES:
        raise InputError(
            f"the graph has {n_vertices} vertices, at most {MAX_VERTICES} are possible",
            hint="leave out vertices, or contract them",
        )


def _coordinates_of(job: Job, positions: VertexPositions | None, vertex_ids: VertexIds) -> Coordinates | None:
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
