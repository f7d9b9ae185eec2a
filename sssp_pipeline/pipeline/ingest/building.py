"""The graph with one weight is read and built in memory.

The edges are kept in a nameless temporary file until all ids are known. So memory holds the CSR arrays, the table of
ids if there is one, and a few chunks, whatever the size of the input.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from sssp_pipeline.csr import MAX_VERTICES, CsrGraph
from sssp_pipeline.errors import InputError
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.pipeline.formats.edge_list import Coordinates, EdgeChunk, EdgeList
from sssp_pipeline.pipeline.formats.reading import Reading
from sssp_pipeline.pipeline.formats.vertex_positions import VertexPositions
from sssp_pipeline.pipeline.graph_store.manifest import (
    Counts,
)
from sssp_pipeline.pipeline.ingest import csr_build
from sssp_pipeline.pipeline.ingest.id_mapping import IdCollector, collector
from sssp_pipeline.pipeline.ingest.input import (
    SAMPLE_EDGES,
    adds_reverses,
    chunks_of,
    complete_reading,
    open_input,
    open_positions,
    sample_of,
)
from sssp_pipeline.pipeline.ingest.spill import Spill
from sssp_pipeline.pipeline.ingest.weight_types import (
    WeightRange,
    check_weights,
    default_weight,
    scaled,
)
from sssp_pipeline.pipeline.machine import free_memory_bytes
from sssp_pipeline.pipeline.storage import files
from sssp_pipeline.progress import Progress, in_bytes, plural
from sssp_pipeline.vertex_ids import VertexIds
from sssp_pipeline.workflow import models as workflow


@dataclass(frozen=True, eq=False)
class Job:
    """What the steps of one ingest share."""

    spec: workflow.Graph
    edge_list: EdgeList
    ids: IdCollector
    spill: Spill
    threads: int
    progress: Progress

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


@dataclass(frozen=True, eq=False)
class Given:
    """What ingest reads for one weight: the section of the graph, its URLs, and their fingerprints."""

    spec: workflow.Graph
    urls: list[str]
    inputs: list[dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Built:
    """The graph with one weight, before it is written."""

    job: Job
    graph: CsrGraph
    vertex_ids: VertexIds
    coordinates: Coordinates | None
    counts: Counts
    reading: Reading
    is_symmetric: bool


def build(given: Given, progress: Progress, *, with_positions: bool = True) -> Built:
    """Read the edges with one weight, and return their graph; the coordinates only `with_positions`."""
    spec = given.spec
    edge_list = open_input(spec, given.urls)
    ids = collector(edge_list.reading.ids, edge_list.n_vertices, edge_list.first_id)
    with Spill() as spill:
        job = Job(spec, edge_list, ids, spill, usable_cores(), progress)
        positions = open_positions(spec, edge_list) if with_positions else None
        seen, sample = _read_edges(job)
        dtype, why = seen.dtype(spec.weights, edge_list.weight_dtype, job.input_name)
        vertex_ids = ids.finish()
        _check_vertex_count(vertex_ids.n_vertices)
        graph, counts = _build_graph(job, vertex_ids, seen, dtype)
    one_way = _first_one_way(graph, job.threads)
    if one_way is not None and edge_list.symmetric == "both-listed":
        raise _one_way_error(given.urls[0], *(vertex_ids.original(end) for end in one_way))
    reading = complete_reading(edge_list, spec, sample, f"{dtype.name}: {why}")
    coordinates = _coordinates(job, positions, vertex_ids) if with_positions else None
    return Built(job, graph, vertex_ids, coordinates, counts, reading, one_way is None)


def _read_edges(job: Job) -> tuple[WeightRange, list[tuple]]:
    """Read all edges into the spill; return what their weights need, and the first edges."""
    spec, place = job.spec, job.input_name
    job.progress.stage("read edges")
    seen = WeightRange()
    sample: list[tuple] = []
    if not job.edge_list.has_weights:
        seen.add(default_weight(spec.weights))
    for chunk in chunks_of(job.edge_list, spec, job.threads):
        group = [job.ids.add(end) for end in (chunk.src, chunk.dst)]
        if len(sample) < SAMPLE_EDGES:
            sample += sample_of(chunk, SAMPLE_EDGES - len(sample))
        if chunk.weights is not None:
            weights = chunk.weights
            if spec.weights.scale is not None:
                weights = scaled(chunk, seen.n_edges, spec.weights.scale, place)
            check_weights(EdgeChunk(chunk.src, chunk.dst, weights), seen.n_edges, spec.weights.dtype, place)
            group.append(seen.add(weights))
            seen.n_weighted += len(chunk)
        if spec.self_loops == "error" and (loops := np.flatnonzero(group[0] == group[1])).size:
            i = int(loops[0])
            raise InputError(
                f"{place}: edge {seen.n_edges + i + 1} is a self-loop of vertex `{chunk.src[i]}`",
                hint="`graph.self_loops: drop` leaves self-loops out, `keep` keeps them",
            )
        seen.n_edges += len(group[0])
        job.spill.append(group)
        job.progress.advance(seen.n_edges, None, "edges")
    if 0 < seen.n_weighted < seen.n_edges:
        raise InputError(
            f"{seen.n_weighted} edges have a weight and {seen.n_edges - seen.n_weighted} have none",
            hint="name files of one kind, or set `graph.weights.column: none`",
        )
    return seen, sample


def _check_vertex_count(n_vertices: int) -> None:
    if n_vertices > MAX_VERTICES:
        raise InputError(
            f"the graph has {n_vertices} vertices, at most {MAX_VERTICES} are possible",
            hint="leave out vertices, or contract them",
        )


def _build_graph(
    job: Job, vertex_ids: VertexIds, seen: WeightRange, dtype: np.dtype
) -> tuple[CsrGraph, Counts]:
    """Return the CSR graph of the spilled edges, and how many edges were dropped and added."""
    job.progress.stage("build rows")
    _check_memory(vertex_ids.n_vertices, seen.n_edges * (2 if job.adds_reverses else 1), dtype)
    row_offsets, loops = _count_rows(job, vertex_ids.n_vertices)
    n_placed = int(row_offsets[-1])
    col_indices = np.empty(n_placed, np.uint32)
    weights = np.empty(n_placed, dtype)
    _place_edges(job, row_offsets, col_indices, weights)
    csr_build.in_parallel(csr_build.sort_rows, row_offsets, job.threads, col_indices, weights)
    n_edges = _apply_duplicates(job, vertex_ids, row_offsets, col_indices, weights)
    counts = Counts(
        edges_read=seen.n_edges,
        rows_skipped=job.edge_list.skipped.count,
        self_loops_dropped=loops if job.drops_loops else 0,
        reverses_added=seen.n_edges - loops if job.adds_reverses else 0,
        duplicates_dropped=n_placed - n_edges,
    )
    return CsrGraph(row_offsets, col_indices[:n_edges], weights[:n_edges]).check(), counts


def _check_memory(n_vertices: int, n_edges: int, dtype: np.dtype) -> None:
    """Raise `InputError` if there is not enough free memory to build the graph."""
    needed = 2 * 8 * (n_vertices + 1) + n_edges * (4 + dtype.itemsize)
    free = free_memory_bytes()
    if needed > free:
        raise InputError(
            f"a graph of {n_vertices:,} vertices and {n_edges:,} edges takes {in_bytes(needed)} to build, and "
            f"{in_bytes(free)} of memory are free",
            hint="give the run more memory; if the input declares too many vertices, correct its header",
        )


def _count_rows(job: Job, n_vertices: int) -> tuple[np.ndarray, int]:
    """Return the row offsets (V+1,) int64 of the spilled edges, and the number of self-loops."""
    row_offsets = np.zeros(n_vertices + 1, np.int64)
    loops = 0
    for src, dst, _ in _translate(job):
        loops += csr_build.count_rows(src, dst, job.drops_loops, job.adds_reverses, row_offsets)
    np.cumsum(row_offsets, out=row_offsets)
    return row_offsets, loops


def _place_edges(job: Job, row_offsets: np.ndarray, col_indices: np.ndarray, weights: np.ndarray) -> None:
    """Write every spilled edge to its row. All threads read all edges, and each thread writes its own rows."""
    default = job.spec.weights.default
    if job.spec.weights.scale is not None:
        default = int(default_weight(job.spec.weights)[0])
    rows = job.drops_loops, job.adds_reverses, row_offsets[:-1].copy(), col_indices, weights
    ranges = csr_build.row_ranges(row_offsets, job.threads)
    with ThreadPoolExecutor(job.threads) as pool:
        for src, dst, given in _translate(job):
            values = given if given is not None else np.full(len(src), default)
            if weights.dtype.kind == "f":
                # The same weight may be an integer in one chunk and a decimal in another. Both go through float64, so
                # that both are rounded in the same way.
                values = values.astype(np.float64)
            edges = src, dst, values.astype(weights.dtype)
            list(pool.map(lambda r, e=edges: csr_build.place_edges(*r, *e, *rows), ranges))


def _apply_duplicates(
    job: Job,
    vertex_ids: VertexIds,
    row_offsets: np.ndarray,
    col_indices: np.ndarray,
    weights: np.ndarray,
) -> int:
    """Apply `graph.duplicates` to the sorted rows, in place; return the number of edges that remain."""
    if job.spec.duplicates == "error" and (e := csr_build.first_duplicate(row_offsets, col_indices)) >= 0:
        u = int(np.searchsorted(row_offsets, e, side="right")) - 1
        raise InputError(
            f"{job.input_name}: the edge from `{vertex_ids.original(u)}` to "
            f"`{vertex_ids.original(int(col_indices[e]))}` is listed twice",
            hint="`graph.duplicates: keep-min` keeps the lighter one, `keep-all` keeps both",
        )
    if job.spec.duplicates == "keep-min":
        return int(csr_build.keep_first(row_offsets, col_indices, weights))
    return len(col_indices)


def _translate(job: Job) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray | None]]:
    """Give source vertices, target vertices and weights of the spilled edges; one group is translated in advance."""
    with ThreadPoolExecutor(2) as pool:

        def submit(group: list[np.ndarray]) -> tuple[Future, Future, np.ndarray | None]:
            src, dst, *given = group
            vertices = job.ids.vertices
            return pool.submit(vertices, src), pool.submit(vertices, dst), given[0] if given else None

        coming = map(submit, job.spill)
        ahead = next(coming, None)
        while ahead is not None:
            (src, dst, given), ahead = ahead, next(coming, None)
            yield src.result(), dst.result(), given


def _first_one_way(graph: CsrGraph, threads: int) -> tuple[int, int] | None:
    """Return the ends of the first edge without a reverse of the same weight; None if every edge has one."""
    found = csr_build.in_parallel(
        csr_build.first_one_way, graph.row_offsets, threads, graph.col_indices, graph.weights
    )
    edge = next((e for e in found if e >= 0), None)
    if edge is None:
        return None
    return int(np.searchsorted(graph.row_offsets, edge, side="right")) - 1, int(graph.col_indices[edge])


def _one_way_error(url: str, u: int | str, v: int | str) -> InputError:
    return InputError(
        f"`{files.redacted(url)}` lists the edge from `{u}` to `{v}`, but not from `{v}` to `{u}` with "
        "the same weight",
        hint="a METIS graph lists every edge in the lines of both its ends; set `graph.format: text` if each "
        "row is an edge",
    )


def _coordinates(job: Job, positions: VertexPositions | None, vertex_ids: VertexIds) -> Coordinates | None:
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
