"""Ingest: edge lists in, a graph store out; the input is read once, in chunks.

The edges pass through a nameless temporary file, so that memory holds the CSR arrays, a table of ids where one is
needed, and a few chunks; nothing grows with the text. Nothing in the store changes before the whole input has
proved good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa

from sssp_pipeline.csr import MAX_VERTICES, CsrGraph
from sssp_pipeline.errors import InputError
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.pipeline.formats.registry import EdgeChunk, EdgeList
from sssp_pipeline.pipeline.graph_store.store import (
    FORMAT,
    SKIPPED,
    VERSION,
    Counts,
    Manifest,
    StoreWriter,
    WeightFacts,
    is_complete,
    newest_version,
    older_versions,
    remove_older_versions,
)
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


def ingest(
    spec: workflow.Graph, store: str, progress: Progress, *, remove_old_versions: bool = False
) -> tuple[Manifest, bool]:
    """Return the manifest of the stored graph, and whether it had to be ingested.

    An unchanged input is not ingested again. One whose content has changed becomes a new version of the graph, and
    the older versions stay, unless their removal is asked for. While another process ingests into the store, this
    one waits.

    Raises
    ------
    InputError
        The input cannot be used, the store holds another graph or files of another kind, or it cannot be written;
        the store is as it was before.
    """
    urls, inputs = input_files(spec)
    current = _stored_if_current(spec, store, inputs)
    if current is not None and not remove_old_versions:
        return current, False
    if current is None:
        open_input(spec, urls)  # what is no edge list makes no folder

    def waits(who: str) -> None:
        shown = files.redacted(store)
        progress.say(f"{who} is writing to the graph store `{shown}`: waiting until it ends", "waiting")

    with exclusive(store, waits) as check_held:
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
    """Return the manifest of the graph in the store if it is that of `spec` and up to date; raises as `ingest`."""
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
    """Return the manifest of the graph that `spec` describes after writing it to the store, which is held."""
    files.check_writable(store)
    threads = usable_cores()
    edge_list = open_input(spec, urls)
    with Spill() as spill, StoreWriter(store) as writer:
        ids = collector(edge_list.id_kind, edge_list.n_vertices, edge_list.first_id)
        sample: list[tuple] = []
        weights = _read_edges(edge_list, ids, spill, spec, threads, progress, sample)
        dtype, why = weights.dtype(spec.weights, edge_list.weight_dtype, _input_name(spec))
        vertex_ids = ids.finish()
        if vertex_ids.n_vertices > MAX_VERTICES:
            raise InputError(
                f"the graph has {vertex_ids.n_vertices} vertices, at most {MAX_VERTICES} are possible",
                hint="leave out vertices, or contract them",
            )
        graph, counts = _build_graph(
            spill, ids, vertex_ids, weights, dtype, spec, edge_list, threads, progress
        )
        one_way = _first_one_way(graph, threads)
        if one_way is not None and edge_list.symmetric == "both-listed":
            u, v = (vertex_ids.original(end) for end in one_way)
            raise InputError(
                f"`{files.redacted(urls[0])}` lists the edge from `{u}` to `{v}`, but not from `{v}` to `{u}` with "
                "the same weight",
                hint="a METIS graph lists every edge in the lines of both its ends; set `graph.format: text` if each "
                "row is an edge",
            )
        progress.stage("write graph store")
        row_offsets, edges = writer.write_graph(graph, threads)
        coordinates = edge_list.coordinates()
        vertices = []
        columns = {} if vertex_ids.table is None else {"original_id": vertex_ids.table}
        if coordinates is not None:
            columns |= {"x": pa.array(coordinates[0]), "y": pa.array(coordinates[1])}
        if columns:
            vertices = writer.write_vertices(pa.table(columns))
        facts = graph.traits
        manifest = Manifest(
            format=FORMAT,
            version=VERSION,
            n_vertices=graph.n_vertices,
            n_edges=graph.n_edges,
            degree_skew=facts.degree_skew,
            weights=WeightFacts(
                dtype=graph.weight_dtype.name,
                unit=spec.weights.unit and without_secrets(spec.weights.unit),
                scale=spec.weights.scale,
                min=facts.min_weight,
                max=facts.max_weight,
                mean=facts.mean_weight,
                zero=bool((graph.weights == 0).any()),
                negative=facts.min_weight < 0,
            ),
            symmetric=one_way is None,
            ids=vertex_ids.mapping,
            coordinates=coordinates is not None,
            counts=counts,
            inputs=inputs,
            options=options_of(spec),
            reading=complete_reading(edge_list, spec, sample, f"{dtype.name}: {why}"),
            row_offsets=row_offsets,
            edges=edges,
            vertices=vertices,
        )
        _write_skipped(store, edge_list)
        check_held()  # what it removes may be what another ingest is about to commit
        writer.commit(manifest)
    return manifest


def _read_edges(
    edge_list: EdgeList,
    ids: IdCollector,
    spill: Spill,
    spec: workflow.Graph,
    threads: int,
    progress: Progress,
    sample: list[tuple],
) -> WeightRange:
    progress.stage("read edges")
    seen = WeightRange()
    place = _input_name(spec)
    if not edge_list.has_weights:
        seen.add(default_weight(spec.weights))
    for chunk in chunks_of(edge_list, spec, threads):
        group = [ids.add(end) for end in (chunk.src, chunk.dst)]
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
        spill.append(group)
        progress.advance(seen.n_edges, None, "edges")
    if 0 < seen.n_weighted < seen.n_edges:
        raise InputError(
            f"{seen.n_weighted} edges have a weight and {seen.n_edges - seen.n_weighted} have none",
            hint="name files of one kind, or set `graph.weights.column: none`",
        )
    return seen


def _input_name(spec: workflow.Graph) -> str:
    """Return the words for the input."""
    return f"`{files.redacted(spec.inputs[0])}`" if len(spec.inputs) == 1 else "the input"


def _build_graph(
    spill: Spill,
    ids: IdCollector,
    vertex_ids: VertexIds,
    seen: WeightRange,
    dtype: np.dtype,
    spec: workflow.Graph,
    edge_list: EdgeList,
    threads: int,
    progress: Progress,
) -> tuple[CsrGraph, Counts]:
    """Return the CSR graph of the spilled edges, by the policies of `spec`, and what became of the edges."""
    progress.stage("build rows")
    drop_loops = spec.self_loops == "drop"
    mirror = adds_reverses(edge_list, spec)
    _check_memory(vertex_ids.n_vertices, seen.n_edges * (2 if mirror else 1), dtype)
    row_offsets = np.zeros(vertex_ids.n_vertices + 1, np.int64)
    loops = 0
    for src, dst, _ in _translate(spill, ids):
        loops += csr_build.count_rows(src, dst, drop_loops, mirror, row_offsets)
    np.cumsum(row_offsets, out=row_offsets)
    n_placed = int(row_offsets[-1])
    col_indices = np.empty(n_placed, np.uint32)
    weights = np.empty(n_placed, dtype)
    default = spec.weights.default
    if spec.weights.scale is not None:
        default = int(default_weight(spec.weights)[0])
    _place_edges(
        spill,
        ids,
        default,
        (drop_loops, mirror, row_offsets[:-1].copy(), col_indices, weights),
        threads,
    )
    csr_build.in_parallel(csr_build.sort_rows, row_offsets, threads, col_indices, weights)
    n_edges = n_placed
    if spec.duplicates == "error" and (e := csr_build.first_duplicate(row_offsets, col_indices)) >= 0:
        u = int(np.searchsorted(row_offsets, e, side="right")) - 1
        raise InputError(
            f"{_input_name(spec)}: the edge from `{vertex_ids.original(u)}` to "
            f"`{vertex_ids.original(int(col_indices[e]))}` is listed twice",
            hint="`graph.duplicates: keep-min` keeps the lighter one, `keep-all` keeps both",
        )
    if spec.duplicates == "keep-min":
        n_edges = csr_build.keep_first(row_offsets, col_indices, weights)
    counts = Counts(
        edges_read=seen.n_edges,
        rows_skipped=edge_list.skipped.count,
        self_loops_dropped=loops if drop_loops else 0,
        reverses_added=seen.n_edges - loops if mirror else 0,
        duplicates_dropped=n_placed - n_edges,
    )
    return CsrGraph(row_offsets, col_indices[:n_edges], weights[:n_edges]).check(), counts


def _check_memory(n_vertices: int, n_edges: int, dtype: np.dtype) -> None:
    """Raise `InputError` if the graph cannot be held while it is built."""
    needed = 2 * 8 * (n_vertices + 1) + n_edges * (4 + dtype.itemsize)
    free = free_memory_bytes()
    if needed > free:
        raise InputError(
            f"a graph of {n_vertices:,} vertices and {n_edges:,} edges takes {in_bytes(needed)} to build, and "
            f"{in_bytes(free)} of memory are free",
            hint="give the run more memory; if the input declares too many vertices, correct its header",
        )


def _place_edges(spill: Spill, ids: IdCollector, default: float, rows: tuple, threads: int) -> None:
    """Write every spilled edge to its row; each thread has rows of its own, all threads read the same edges."""
    *_, cursors, col_indices, weights = rows
    ranges = csr_build.row_ranges(np.append(cursors, len(col_indices)), threads)
    with ThreadPoolExecutor(threads) as pool:
        for src, dst, given in _translate(spill, ids):
            values = given if given is not None else np.full(len(src), default)
            if weights.dtype.kind == "f":
                # Integers of one chunk stand as decimals in another, cut elsewhere: both are rounded the same way.
                values = values.astype(np.float64)
            edges = src, dst, values.astype(weights.dtype)
            list(pool.map(lambda r, e=edges: csr_build.place_edges(*r, *e, *rows), ranges))


def _translate(spill: Spill, ids: IdCollector) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray | None]]:
    """Yield the vertices at both ends of the spilled edges, and the weights, translated one group ahead."""
    with ThreadPoolExecutor(2) as pool:
        ahead: tuple[Future, Future, np.ndarray | None] | None = None
        for src, dst, *given in spill:
            coming = (
                pool.submit(ids.vertices, src),
                pool.submit(ids.vertices, dst),
                given[0] if given else None,
            )
            if ahead is not None:
                yield ahead[0].result(), ahead[1].result(), ahead[2]
            ahead = coming
        if ahead is not None:
            yield ahead[0].result(), ahead[1].result(), ahead[2]


def _first_one_way(graph: CsrGraph, threads: int) -> tuple[int, int] | None:
    """Return the ends of the first edge that has no reverse of the same weight, None if every edge has one."""
    found = csr_build.in_parallel(
        csr_build.first_one_way, graph.row_offsets, threads, graph.col_indices, graph.weights
    )
    edge = next((e for e in found if e >= 0), None)
    if edge is None:
        return None
    return int(np.searchsorted(graph.row_offsets, edge, side="right")) - 1, int(graph.col_indices[edge])


def _write_skipped(store: str, edge_list: EdgeList) -> None:
    """Write the first rows that were left out beside the graph; remove those of an earlier ingest."""
    url = files.join(store, SKIPPED)
    if edge_list.skipped.count:
        files.write_atomic(url, "".join(line + "\n" for line in edge_list.skipped.lines).encode())
    else:
        files.remove(url)
