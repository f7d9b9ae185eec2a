"""Store writer: writes the parts of a graph as Parquet files, and commits them with a manifest."""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import IO, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sssp_pipeline.csr import CsrGraph
from sssp_pipeline.pipeline.graph_store.manifest import Part, StoreManifest
from sssp_pipeline.pipeline.graph_store.store import (
    MANIFEST,
    PART_FOLDERS,
    PART_PATH,
    VERSIONS_FOLDER,
    is_complete,
    keep_versions,
    older_versions,
    parse_manifest,
    version_url,
)
from sssp_pipeline.pipeline.storage import files

#: Edges of one part: 128 MB with 4-byte weights. A worker that loads a graph holds a few parts in addition to it.
PART_EDGES = 16 * 2**20
#: Rows of one part of `row_offsets/` or `vertices/`.
PART_ROWS = 16 * 2**20
ROW_GROUP_ROWS = 4 * 2**20


class StoreWriter:
    """Writes one graph to a store; readers see no change before `commit`.

    If the `with` block ends with an error, the written files are removed.
    """

    def __init__(self, store: str) -> None:
        self._store = store
        self._id = uuid.uuid4().hex[:8]
        self._is_committed = False
        self._n_weight_parts = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and not self._is_committed:
            for name in files.list_files(self._store):
                if PART_PATH.fullmatch(name) and f"/part-{self._id}-" in name:
                    files.remove(files.join(self._store, name))

    def write_row_offsets(self, graph: CsrGraph) -> list[Part]:
        """Write the parts of `row_offsets/`, and return them."""
        return self._write_rows("row_offsets", pa.table({"row_offset": graph.row_offsets}))

    def write_edges(self, graph: CsrGraph, threads: int, *, with_weights: bool = True) -> list[Part]:
        """Write the parts of `edges/`, `threads` of them at a time, and return them."""

        def write(number: int, first: int, last: int, edges: slice) -> Part:
            columns = {"col_index": graph.col_indices[edges]}
            if with_weights:
                columns["weight"] = graph.weights[edges]
            return self._write_part("edges", number, pa.table(columns), first, last)

        return _in_parts(graph, threads, write)

    def write_edge_weights(self, graph: CsrGraph, threads: int) -> list[Part]:
        """Write the parts of `edge_weights/` of one more weight, `threads` of them at a time, and return them."""
        n_before = self._n_weight_parts

        def write(number: int, first: int, last: int, edges: slice) -> Part:
            table = pa.table({"weight": graph.weights[edges]})
            ends = zlib.crc32(graph.col_indices[edges].data)
            return self._write_part("edge_weights", n_before + number, table, first, last, ends)

        parts = _in_parts(graph, threads, write)
        self._n_weight_parts += len(parts)
        return parts

    def write_vertices(self, table: pa.Table) -> list[Part]:
        """Write `table`, which has one row for each vertex, to `vertices/`, and return the parts."""
        return self._write_rows("vertices", table)

    def commit(self, manifest: StoreManifest) -> None:
        """Make the written parts the newest version of the graph, and remove the parts of no version.

        The previous version is kept, unless it is the same graph or lacks a part. Its manifest is copied before it is
        replaced, so that a kill at any moment loses no version.
        """
        url = files.join(self._store, MANIFEST)
        versions: dict[str, StoreManifest] = {}
        if (text := files.read_if_there(url)) is not None:
            before = parse_manifest(text, self._store, url)
            versions = older_versions(self._store, before)
            if is_complete(self._store, before):
                versions[before.content_id] = before
                files.write_atomic(version_url(self._store, before.content_id), text)
        files.write_atomic(url, manifest.model_dump_json(indent=1).encode())
        self._is_committed = True
        files.remove(version_url(self._store, manifest.content_id))
        versions[manifest.content_id] = manifest
        keep_versions(self._store, versions.values())
        files.remove_if_empty(files.join(self._store, VERSIONS_FOLDER))
        for folder in ("", *PART_FOLDERS, VERSIONS_FOLDER):
            files.remove_temporaries(files.join(self._store, folder) if folder else self._store)

    def _write_rows(self, folder: str, table: pa.Table) -> list[Part]:
        starts = range(0, max(table.num_rows, 1), PART_ROWS)
        return [
            self._write_part(
                folder, i, table.slice(start, PART_ROWS), start, min(start + PART_ROWS, table.num_rows)
            )
            for i, start in enumerate(starts)
        ]

    def _write_part(
        self, folder: str, number: int, table: pa.Table, first: int, last: int, crc32_before: int = 0
    ) -> Part:
        path = f"{folder}/part-{self._id}-{number:05d}.parquet"
        with files.open_atomic(files.join(self._store, path)) as handle:
            sink = _Checksummed(handle)
            # Without dictionaries: the file becomes slightly larger, and writing is several times as fast.
            pq.write_table(
                table, sink, row_group_size=ROW_GROUP_ROWS, use_dictionary=False, compression="none"
            )
        return Part(
            path=path,
            rows=table.num_rows,
            first=first,
            last=last,
            bytes=sink.bytes,
            crc32=sink.crc32,
            content_crc32=_content_crc32(table, crc32_before),
        )


def _in_parts(graph: CsrGraph, threads: int, write: Callable[[int, int, int, slice], Part]) -> list[Part]:
    """Call `write` for ranges of vertices: its number, its first vertex, the one after its last, and its edges."""
    offsets = graph.row_offsets
    bounds = [0]
    while bounds[-1] < graph.n_vertices:
        # As many vertices as fit into PART_EDGES, but at least one.
        fit = int(np.searchsorted(offsets, offsets[bounds[-1]] + PART_EDGES, side="right")) - 1
        bounds.append(min(max(fit, bounds[-1] + 1), graph.n_vertices))
    edges = [slice(int(offsets[first]), int(offsets[last])) for first, last in pairwise(bounds)]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(write, range(len(edges)), bounds, bounds[1:], edges))


def _content_crc32(table: pa.Table, crc32: int = 0) -> int:
    for column in table.columns:
        for chunk in column.chunks:
            text = pa.types.is_large_string(chunk.type)
            crc32 = zlib.crc32(
                "\0".join(chunk.to_pylist()).encode() if text else chunk.to_numpy().data, crc32
            )
    return crc32


class _Checksummed:
    """A file for pyarrow that computes the CRC-32 and the length of the bytes written to it."""

    closed = False

    def __init__(self, handle: IO[bytes]) -> None:
        self._handle = handle
        self.crc32 = 0
        self.bytes = 0

    def write(self, data: Any) -> int:
        self.crc32 = zlib.crc32(data, self.crc32)
        self.bytes += len(data)
        return self._handle.write(data)

    def tell(self) -> int:
        return self.bytes

    def flush(self) -> None:
        self._handle.flush()

    def writable(self) -> bool:
        return True
