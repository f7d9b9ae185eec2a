"""Ingest: reads the input once, in chunks, and writes a graph store.

The edges are kept in a nameless temporary file until all ids are known. So memory holds the CSR arrays, the table of
ids if there is one, and a few chunks, whatever the size of the input. The store changes only after the whole input has
been read and checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sssp_pipeline.csr import MAX_VERTICES, CsrGraph
from sssp_pipeline.errors import InputError
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.pipeline.formats.edge_list import Coordinates, EdgeChunk, EdgeList
from sssp_pipeline.pipeline.formats.reading import Reading
from sssp_pipeline.pipeline.formats.vertex_positions import VertexPositions
from sssp_pipeline.pipeline.graph_store.manifest import (
    FORMAT,
    VERSION,
    Counts,
    Manifest,
    WeightFacts,
)
from sssp_pipeline.pipeline.graph_store.store import (
    SKIPPED,
    is_complete,
    newest_version,
    older_versions,
    remove_older_versions,
)
from sssp_pipeline.pipeline.graph_store.writer import StoreWriter
from sssp_pipeline.pipeline.ingest import csr_build
from sssp_pipeline.pipeline.ingest.graph_identity import check_same_graph, is_up_to_date, options_of
from sssp_pipeline.pipeline.ingest.id_mapping import IdCollector, collector
from sssp_pipeline.pipeline.ingest.input import (
    SAMPLE_EDGES,
    adds_reverses,
    chunks_of,
    complete_reading,
    input_files,
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
from sssp_pipeline.pipeline.storage.lease import exclusive
from sssp_pipeline.pipeline.storage.redaction import without_secrets
from sssp_pipeline.progress import Progress, in_bytes, plural
from sssp_pipeline.vertex_ids import VertexIds
from sssp_pipeline.workflow import models as workflow


@dataclass(frozen=True, eq=False)
class _Job:
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


def ingest(
    spec: workflow.Graph, store: str, progress: Progress, *, remove_old_versions: bool = False
) -> tuple[Manifest, bool]:
    """Return the manifest of the stored graph, and whether it had to be ingested.

    An unchanged input is not ingested again. If the content of the input has changed, the graph becomes a new version.
    Older versions are kept unless `remove_old_versions` is set. If another process is ingesting into the store, this
    function waits.

    Raises
    ------
    InputError
        The input cannot be used, the store has another graph or other files, or the store cannot be written. The
        store is left as it was.
    """
    urls, inputs = input_files(spec)
    current = _stored_if_current(spec, store, inputs)
    if current is not None and not remove_old_versions:
        return current, False
    if current is None:
        open_input(spec, urls)  # raises for a wrong input before the folder of the store is created

    def report_wait(holder: str) -> None:
        place = files.redacted(store)
        progress.say(f"{holder} is writing to the graph store `{place}`: waiting until it ends", "waiting")

    with exclusive(store, report_wait) as check_held:
        current = _stored_if_current(spec, store, inputs)  # another process may have ingested it meanwhile
        manifest = current or _ingest_into(spec, urls, inputs, store, check_held, progress)
        if remove_old_versions:
            check_held()
            remove_older_versions(store)
    if current is None and (older := older_versions(store, manifest)):
        held = in_bytes(sum(part.bytes for version in older.values() for part in version.parts))
        progress.say(
            f"{plural(len(older), 'older version')} of the graph: {held}, kept for the runs that were solved on them; "
            "`sssp-pipeline ingest WORKFLOW --remove-old-versions` removes them"
        )
    return manifest, current is None


def _stored_if_current(spec: workflow.Graph, store: str, inputs: list[dict[str, Any]]) -> Manifest | None:
    """Return the manifest of the stored graph if it is that of `spec` and up to date; raises as `ingest`."""
    newest = newest_version(store)
    if newest is None:
        return None
    check_same_graph(store, newest, spec)
    return newest if is_up_to_date(newest, inputs) and is_complete(store, newest) else None


def _ingest_into(
    spec: workflow.Graph,
    urls: list[str],
    inputs: list[dict[str, Any]],
    store: str,
    check_held: Callable[[], None],
    progress: Progress,
) -> Manifest:
    """Write the graph of `spec` to the store and return its manifest; the caller holds the store."""
    files.check_writable(store)
    edge_list = open_input(spec, urls)
    ids = collector(edge_list.reading.ids, edge_list.n_vertices, edge_list.first_id)
    with Spill() as spill, StoreWriter(store) as writer:
        job = _Job(spec, edge_list, ids, spill, usable_cores(), progress)
        positions = open_positions(spec, edge_list)
        seen, sample = _read_edges(job)
        dtype, why = seen.dtype(spec.weights, edge_list.weight_dtype, job.input_name)
        vertex_ids = ids.finish()
        _check_vertex_count(vertex_ids.n_vertices)
        graph, counts = _build_graph(job, vertex_ids, seen, dtype)
        one_way = _first_one_way(graph, job.threads)
        if one_way is not None and edge_list.symmetric == "both-listed":
            raise _one_way_error(urls[0], *(vertex_ids.original(end) for end in one_way))
        reading = complete_reading(edge_list, spec, sample, f"{dtype.name}: {why}")
        coordinates = _coordinates(job, positions, vertex_ids)
        manifest = _write_parts(
            job, writer, graph, vertex_ids, coordinates, counts, inputs, reading, one_way is None
        )
        _write_skipped(store, edge_list)
        check_held()  # a commit by a process that lost the store would remove the files of the new holder
        writer.commit(manifest)
    return manifest


def _read_edges(job: _Job) -> tuple[WeightRange, list[tuple]]:
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
    job: _Job, vertex_ids: VertexIds, seen: WeightRange, dtype: np.dtype
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


def _count_rows(job: _Job, n_vertices: int) -> tuple[np.ndarray, int]:
    """Return the row offsets (V+1,) int64 of the spilled edges, and the number of self-loops."""
    row_offsets = np.zeros(n_vertices + 1, np.int64)
    loops = 0
    for src, dst, _ in _translate(job):
        loops += csr_build.count_rows(src, dst, job.drops_loops, job.adds_reverses, row_offsets)
    np.cumsum(row_offsets, out=row_offsets)
    return row_offsets, loops


def _place_edges(job: _Job, row_offsets: np.ndarray, col_indices: np.ndarray, weights: np.ndarray) -> None:
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
    job: _Job,
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


def _translate(job: _Job) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray | None]]:
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


def _coordinates(job: _Job, positions: VertexPositions | None, vertex_ids: VertexIds) -> Coordinates | None:
    """Return x and y of the vertices, (V,) each; None if the input has no coordinates."""
    if positions is None:
        return job.edge_list.coordinates()
    x, y, n_others = positions.of(vertex_ids)
    if n_others:
        job.progress.say(
            f"{plural(n_others, 'row')} of {files.redacted(positions.url)} have positions of no vertex of the graph"
        )
    return x, y


def _write_parts(
    job: _Job,
    writer: StoreWriter,
    graph: CsrGraph,
    vertex_ids: VertexIds,
    coordinates: Coordinates | None,
    counts: Counts,
    inputs: list[dict[str, Any]],
    reading: Reading,
    is_symmetric: bool,
) -> Manifest:
    """Write the parts of the graph, and return the manifest that names them; nothing is committed yet."""
    job.progress.stage("write graph store")
    row_offsets, edges = writer.write_graph(graph, job.threads)
    columns = {} if vertex_ids.table is None else {"original_id": vertex_ids.table}
    if coordinates is not None:
        columns |= {"x": pa.array(coordinates[0]), "y": pa.array(coordinates[1])}
    return Manifest(
        format=FORMAT,
        version=VERSION,
        n_vertices=graph.n_vertices,
        n_edges=graph.n_edges,
        degree_skew=graph.traits.degree_skew,
        weights=_weight_facts(graph, job.spec.weights),
        symmetric=is_symmetric,
        ids=vertex_ids.mapping,
        coordinates=coordinates is not None,
        # A table is in degrees. A file of DIMACS and a generator do not say what their numbers are.
        coordinates_unit=None if coordinates is None or job.edge_list.read_coordinates else "degrees",
        counts=counts,
        inputs=inputs,
        options=options_of(job.spec),
        reading=reading,
        row_offsets=row_offsets,
        edges=edges,
        vertices=writer.write_vertices(pa.table(columns)) if columns else [],
    )


def _weight_facts(graph: CsrGraph, spec: workflow.Weights) -> WeightFacts:
    traits = graph.traits
    return WeightFacts(
        dtype=graph.weight_dtype.name,
        unit=spec.unit and without_secrets(spec.unit),
        scale=spec.scale,
        min=traits.min_weight,
        max=traits.max_weight,
        mean=traits.mean_weight,
        zero=bool((graph.weights == 0).any()),
        negative=traits.min_weight < 0,
    )


def _write_skipped(store: str, edge_list: EdgeList) -> None:
    """Write a file with the first rows that were left out; if there are none, remove the file of an earlier ingest."""
    url = files.join(store, SKIPPED)
    if edge_list.skipped.count:
        files.write_atomic(url, "".join(line + "\n" for line in edge_list.skipped.lines).encode())
    else:
        files.remove(url)
