"""Reading: the edges with one weight are parsed, checked, grouped by source and kept, on every core.

Memory holds a limited part of the edges and a few chunks, whatever the size of the input. Edges that do not fit are in
a temporary file.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np

from sssp_pipeline.base.csr import MAX_VERTICES
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.progress import Progress, plural
from sssp_pipeline.base.vertex_ids import VertexIds
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.pipeline.formats.edge_list import Coordinates, EdgeChunk
from sssp_pipeline.pipeline.formats.vertex_files.vertex_positions import VertexPositions
from sssp_pipeline.pipeline.ingest.edges import ReadEdges
from sssp_pipeline.pipeline.ingest.ids.id_mapping import collector
from sssp_pipeline.pipeline.ingest.input import (
    SAMPLE_EDGES,
    open_input,
    open_positions,
    sample_of,
)
from sssp_pipeline.pipeline.ingest.job import Given, Job
from sssp_pipeline.pipeline.ingest.memory import Memory
from sssp_pipeline.pipeline.ingest.rows.edge_runs import (
    EdgeRun,
    keep_run,
    with_vertices,
)
from sssp_pipeline.pipeline.ingest.spill import Spill
from sssp_pipeline.pipeline.ingest.weight_types import (
    WeightRange,
    check_weights,
    default_weight,
    scaled,
)
from sssp_pipeline.storage import files


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
        weight_type = seen.type_of(spec.weights, edge_list.weight_dtype, job.input_name, given.wider)
        progress.stage("build rows")
        vertex_ids = ids.finish()
        check_vertex_count(vertex_ids.n_vertices)
        if ids.has_chunks:
            with ThreadPoolExecutor(job.threads) as pool:
                runs = list(pool.map(lambda run: with_vertices(run, ids), runs))
        coordinates = coordinates_of(job, positions, vertex_ids) if with_positions else None
        yield ReadEdges(job, given, runs, seen, n_loops, sample, vertex_ids, weight_type, coordinates)


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
        weights = seen.add(weights, are_rounded=chunk.is_rounded)
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


def check_vertex_count(n_vertices: int) -> None:
    """Raise `InputError` if `n_vertices` is above the limit of a graph."""
    if n_vertices > MAX_VERTICES:
        raise InputError(
            f"the graph has {n_vertices} vertices, at most {MAX_VERTICES} are possible",
            hint="leave out vertices, or contract them",
        )


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
