"""Ingest: edge lists in, a graph store out; the input is read once, in chunks.

The edges pass through a nameless temporary file, so that memory holds the CSR arrays, a table of ids where one is
needed, and a few chunks; nothing grows with the text. Nothing in the store changes before the whole input has
proved good.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa

from sssp_pipeline import __version__, workflow
from sssp_pipeline.csr import MAX_VERTICES, CsrGraph
from sssp_pipeline.errors import InputError
from sssp_pipeline.kernels._team import usable_cores
from sssp_pipeline.pipeline import csr_build, storage
from sssp_pipeline.pipeline.formats import EdgeList, ReadOptions, is_generated, open_edge_list
from sssp_pipeline.pipeline.graph_store import (
    FORMAT,
    MANIFEST,
    VERSION,
    Counts,
    Manifest,
    StoreWriter,
    WeightFacts,
    is_complete,
    read_manifest,
)
from sssp_pipeline.pipeline.id_mapping import IdCollector, collector
from sssp_pipeline.pipeline.lease import exclusive
from sssp_pipeline.pipeline.progress import Progress
from sssp_pipeline.pipeline.spill import Spill
from sssp_pipeline.pipeline.vertex_ids import VertexIds
from sssp_pipeline.pipeline.weight_types import WeightRange, check_weights, default_weight


def ingest(spec: workflow.Graph, store: str, progress: Progress) -> tuple[Manifest, bool]:
    """Return the manifest of the stored graph, and whether it had to be ingested.

    An unchanged input, with unchanged options, is not ingested again.

    Raises
    ------
    InputError
        The input cannot be used, or the store cannot be written; the store is as it was before.
    """
    urls, inputs = _inputs(spec)
    options = spec.model_dump(mode="json", exclude={"input", "store", "coordinates"}) | {
        "release": __version__
    }
    if storage.exists(storage.join(store, MANIFEST)):
        current = read_manifest(store)
        if current.inputs == inputs and current.options == options and is_complete(store, current):
            return current, False
    storage.check_writable(store)
    threads = usable_cores()
    edge_list = open_edge_list(urls, _read_options(spec))
    with exclusive(store) as still_ours, Spill() as spill, StoreWriter(store) as writer:
        ids = collector(edge_list.id_kind, edge_list.n_vertices, edge_list.first_id)
        weights = _read_edges(edge_list, ids, spill, spec, threads, progress)
        vertex_ids = ids.finish()
        if vertex_ids.n_vertices > MAX_VERTICES:
            raise InputError(
                f"the graph has {vertex_ids.n_vertices} vertices, at most {MAX_VERTICES} are possible",
                hint="leave out vertices, or contract them",
            )
        graph, counts = _build(spill, ids, vertex_ids, weights, spec, edge_list, threads, progress)
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
                unit=spec.weights.unit,
                min=facts.min_weight,
                max=facts.max_weight,
                mean=facts.mean_weight,
                zero=bool((graph.weights == 0).any()),
                negative=facts.min_weight < 0,
            ),
            symmetric=all(
                csr_build.in_parallel(
                    csr_build.rows_are_symmetric, graph.row_offsets, threads, graph.col_indices, graph.weights
                )
            ),
            ids=vertex_ids.mapping,
            coordinates=coordinates is not None,
            counts=counts,
            inputs=inputs,
            options=options,
            row_offsets=row_offsets,
            edges=edges,
            vertices=vertices,
        )
        still_ours()  # what it removes may be what another ingest is about to commit
        writer.commit(manifest)
    return manifest, True


def _inputs(spec: workflow.Graph) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the URLs to read, and what tells whether any of them has changed."""
    if any(is_generated(url) for url in spec.inputs):
        return spec.inputs, [{"url": url} for url in spec.inputs]
    urls = storage.expand(spec.inputs)
    read = [*urls, spec.coordinates] if spec.coordinates else urls
    return urls, [storage.fingerprint(url) for url in read]


def _read_options(spec: workflow.Graph) -> ReadOptions:
    return ReadOptions(
        format=spec.format,
        source_column=spec.columns.source,
        target_column=spec.columns.target,
        weight_column=str(spec.weights.column),
        weight_dtype=spec.weights.dtype,
        ids=spec.ids,
        coordinates=spec.coordinates,
    )


def _read_edges(
    edge_list: EdgeList,
    ids: IdCollector,
    spill: Spill,
    spec: workflow.Graph,
    threads: int,
    progress: Progress,
) -> WeightRange:
    progress.stage("read edges")
    seen = WeightRange()
    if not edge_list.has_weights:
        seen.add(default_weight(spec.weights))
        if spec.weights.column == "auto":
            progress.say(
                f"no weights found in the input: every edge weighs {spec.weights.default}", level="warning"
            )
    for chunk in edge_list.chunks(threads):
        group = [ids.add(end) for end in (chunk.src, chunk.dst)]
        if chunk.weights is not None:
            check_weights(chunk, seen.n_edges, spec.weights.dtype)
            group.append(seen.add(chunk.weights))
            seen.n_weighted += len(chunk)
        if spec.self_loops == "error" and (loops := np.flatnonzero(group[0] == group[1])).size:
            raise InputError(
                f"edge {seen.n_edges + int(loops[0]) + 1} is a self-loop of vertex `{chunk.src[int(loops[0])]}`",
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


def _build(
    spill: Spill,
    ids: IdCollector,
    vertex_ids: VertexIds,
    seen: WeightRange,
    spec: workflow.Graph,
    edge_list: EdgeList,
    threads: int,
    progress: Progress,
) -> tuple[CsrGraph, Counts]:
    """Return the CSR graph of the spilled edges, by the policies of `spec`, and what became of the edges."""
    progress.stage("build rows")
    drop_loops = spec.self_loops == "drop"
    mirror = edge_list.symmetric == "mirror" or not spec.directed
    row_offsets = np.zeros(vertex_ids.n_vertices + 1, np.int64)
    loops = 0
    for src, dst, _ in _translated(spill, ids):
        loops += csr_build.count_rows(src, dst, drop_loops, mirror, row_offsets)
    np.cumsum(row_offsets, out=row_offsets)
    n_placed = int(row_offsets[-1])
    dtype = seen.dtype(spec.weights, edge_list.weight_dtype)
    col_indices = np.empty(n_placed, np.uint32)
    weights = np.empty(n_placed, dtype)
    _place(
        spill,
        ids,
        spec.weights.default,
        (drop_loops, mirror, row_offsets[:-1].copy(), col_indices, weights),
        threads,
    )
    csr_build.in_parallel(csr_build.sort_rows, row_offsets, threads, col_indices, weights)
    n_edges = n_placed
    if spec.duplicates == "error" and (e := csr_build.first_duplicate(row_offsets, col_indices)) >= 0:
        u = int(np.searchsorted(row_offsets, e, side="right")) - 1
        raise InputError(
            f"the edge from `{vertex_ids.original(u)}` to `{vertex_ids.original(int(col_indices[e]))}` is listed twice",
            hint="`graph.duplicates: keep-min` keeps the lighter one, `keep-all` keeps both",
        )
    if spec.duplicates == "keep-min":
        n_edges = csr_build.keep_first(row_offsets, col_indices, weights)
    counts = Counts(
        edges_read=seen.n_edges,
        self_loops_dropped=loops if drop_loops else 0,
        reverses_added=seen.n_edges - loops if mirror else 0,
        duplicates_dropped=n_placed - n_edges,
    )
    return CsrGraph(row_offsets, col_indices[:n_edges], weights[:n_edges]).check(), counts


def _place(spill: Spill, ids: IdCollector, default: float, rows: tuple, threads: int) -> None:
    """Write every spilled edge to its row; each thread has rows of its own, all threads read the same edges."""
    *_, cursors, col_indices, weights = rows
    ranges = csr_build.row_ranges(np.append(cursors, len(col_indices)), threads)
    with ThreadPoolExecutor(threads) as pool:
        for src, dst, given in _translated(spill, ids):
            values = given if given is not None else np.full(len(src), default)
            if weights.dtype.kind == "f":
                # Integers of one chunk stand as decimals in another, cut elsewhere: both are rounded the same way.
                values = values.astype(np.float64)
            edges = src, dst, values.astype(weights.dtype)
            list(pool.map(lambda r, e=edges: csr_build.place_edges(*r, *e, *rows), ranges))


def _translated(spill: Spill, ids: IdCollector) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray | None]]:
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
