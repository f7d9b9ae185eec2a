"""Store writer: writes the parts of a graph as Parquet files, and commits them with a manifest."""

from __future__ import annotations

import uuid
from typing import Self

import numpy as np
import pyarrow as pa

from sssp_pipeline.pipeline.graph_store.manifest import StoredPart, StoreManifest
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
from sssp_pipeline.pipeline.graph_store.writing import part_files
from sssp_pipeline.pipeline.graph_store.writing.part_files import PartFile
from sssp_pipeline.storage import files
from sssp_pipeline.storage.records import record_bytes


def parts_of(
    table: pa.Table, first_number: int = 0, most_rows: int | None = None
) -> list[tuple[int, pa.Table, int, int]]:
    """Return what `StoreWriter.write_part` takes for each part of a table: number, rows, first row and end.

    Parts have `PART_ROWS`, or `most_rows` if these are fewer.
    """
    size = min(part_files.PART_ROWS, most_rows or part_files.PART_ROWS)
    return [
        (number, table.slice(start, size), start, min(start + size, table.num_rows))
        for number, start in enumerate(range(0, max(table.num_rows, 1), size), first_number)
    ]


class StoreWriter:
    """Writes one graph to a store; readers see no change before `commit`.

    If the `with` block ends with an error, the written files are removed.
    """

    def __init__(self, store: str) -> None:
        self.store = store
        self._id = uuid.uuid4().hex[:8]
        self._is_committed = False
        #: The number of the first part of `edge_weights/` of the next weight.
        self.first_weight_part = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and not self._is_committed:
            for name in files.list_files(self.store):
                if PART_PATH.fullmatch(name) and f"/part-{self._id}-" in name:
                    files.remove(files.join(self.store, name))
            for folder in PART_FOLDERS:
                files.remove_if_empty(files.join(self.store, folder))

    def write_table(self, folder: str, table: pa.Table) -> list[StoredPart]:
        """Write `table` to `folder` in parts, and return the parts."""
        return [self.write_part(folder, *part) for part in parts_of(table)]

    def commit(self, manifest: StoreManifest) -> None:
        """Make the written parts the newest version of the graph, and remove the parts of no version.

        The previous version is kept, unless it is the same graph or lacks a part. Its manifest is copied before it is
        replaced, so that a kill at any moment loses no version.
        """
        url = files.join(self.store, MANIFEST)
        files.sync(self.store, [part.path for part in manifest.parts])
        versions: dict[str, StoreManifest] = {}
        if (text := files.read_if_there(url)) is not None:
            before = parse_manifest(text, self.store, url)
            versions = older_versions(self.store, before)
            if is_complete(self.store, before):
                versions[before.content_id] = before
                files.write_atomic(version_url(self.store, before.content_id), text, synced=True)
        files.write_atomic(url, record_bytes(manifest.content), synced=True)
        self._is_committed = True
        files.remove(version_url(self.store, manifest.content_id))
        versions[manifest.content_id] = manifest
        keep_versions(self.store, versions.values())
        files.remove_if_empty(files.join(self.store, VERSIONS_FOLDER))
        for folder in ("", *PART_FOLDERS, VERSIONS_FOLDER):
            files.remove_temporaries(files.join(self.store, folder) if folder else self.store)

    def write_part(
        self,
        folder: str,
        number: int,
        table: pa.Table,
        first: int,
        last: int,
        before: np.ndarray | None = None,
    ) -> StoredPart:
        """Write `table`, with the rows or vertices [first, last), to a file of `folder`; several threads may do so.

        `before` is as for `PartFile.finish`.
        """
        file = self.part_file(folder, number, table.schema)
        file.add(table)
        return file.finish(table, first, last, before)

    def part_file(self, folder: str, number: int, schema: pa.Schema) -> PartFile:
        """Open the file of a part."""
        return PartFile(self.store, f"{folder}/part-{self._id}-{number:05d}.parquet", schema)
