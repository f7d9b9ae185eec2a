"""Part files: the Parquet files of a graph store, with the checksums of their bytes and of their content."""

from __future__ import annotations

import hashlib
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.lazy import LazyModule
from sssp_pipeline.parquet.arrow_arrays import number_bytes
from sssp_pipeline.parquet.page_writer import PageWriter
from sssp_pipeline.parquet.pages import Chunk, encoded_chunk, plain_chunk
from sssp_pipeline.pipeline.graph_store.manifest import StoredPart
from sssp_pipeline.storage import files
from sssp_pipeline.storage.durability import begin_sync
from sssp_pipeline.storage.file_sums import SummedFile

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = LazyModule("pyarrow.compute")

#: Edges of one part: 128 MB with 4-byte weights. A worker that loads a graph holds a few parts in addition to it.
PART_EDGES = 16 * 2**20
#: Rows of one part of `row_offsets/` or `vertices/`.
PART_ROWS = 16 * 2**20
ROW_GROUP_ROWS = 4 * 2**20
#: Strings that are joined at a time for their checksum.
_STRINGS = 1 << 16


class PartFile:
    """A file of a store that is written in steps, each in any thread; a step that fails removes it.

    The bytes do not depend on the steps if all but the last one add `ROW_GROUP_ROWS` rows. Numbers are written from
    where they are, so they must not change before the file is closed.
    """

    def __init__(self, store: str, path: str, schema: pa.Schema) -> None:
        self._url, self._path = files.join(store, path), path
        with ExitStack() as opened:
            handle = opened.enter_context(files.open_atomic(self._url, plain=True))
            self._sink = SummedFile(handle)
            self._writer = PageWriter(self._sink, schema, "none")
            self._opened = opened.pop_all()

    def add(self, rows: pa.Table) -> None:
        """Write the next rows."""
        with self._opened as opened:
            for begin in range(0, rows.num_rows, ROW_GROUP_ROWS):
                group = rows.slice(begin, ROW_GROUP_ROWS)
                self._writer.write_group(map(_chunk, group.columns))
            self._opened = opened.pop_all()  # the file stays open

    def finish(
        self, content: pa.Table, first: int, last: int, before: np.ndarray | None = None
    ) -> StoredPart:
        """Close the file, and return the part.

        `content` has all rows of the file, which are the rows or vertices [first, last). The checksum of the content
        is computed from the values `before` (n,) and then `content`.
        """
        with self._opened:
            n_bytes = self._writer.close()
        begin_sync(self._url)  # the manifest syncs all parts
        return StoredPart(
            path=self._path,
            rows=content.num_rows,
            first=first,
            last=last,
            bytes=n_bytes,
            crc32=self._sink.sum.crc32,
            content_sha256=content_sha256(content, before),
        )

    def abandon(self) -> None:
        """Remove the file, unless it is finished."""
        with suppress(_AbandonedError), self._opened:
            raise _AbandonedError


class _AbandonedError(Exception):
    """Ends the writing of a file that is not wanted any more."""


@dataclass(frozen=True)
class WeightSums:
    """The facts about the weights of a part that has edges."""

    low: float
    high: float
    #: Of integers, their exact sum.
    total: float
    #: The sum of the weights divided by their number, for weights whose sum is beyond float64.
    total_of_shares: float
    n: int
    zero: bool

    @classmethod
    def of(cls, weights: np.ndarray) -> WeightSums:
        n = len(weights)
        with np.errstate(over="ignore", invalid="ignore"):
            total = float(np.sum(weights, dtype=np.float64))
            shares = total / n if np.isfinite(total) else float((weights / n).sum())
        low, high = np.min(weights).item(), np.max(weights).item()
        return cls(low, high, total, shares, n, low == 0 or (low < 0 and bool((weights == 0).any())))


def content_sha256(table: pa.Table, before: np.ndarray | None = None) -> str:
    """Return the SHA-256 of the values `before` (n,) and then of the values of a table, in hexadecimal."""
    digest = hashlib.sha256(b"" if before is None else before.data)
    for column in table.columns:
        # The chunks of strings must not matter.
        strings_only = pa.types.is_large_string(column.type)
        for chunk in [column.combine_chunks()] if strings_only else column.chunks:
            if not pa.types.is_large_string(chunk.type):
                digest.update(number_bytes(chunk))
                continue
            # The lengths come first, so that no other strings have the same bytes.
            digest.update(np.asarray(pc.binary_length(chunk)).data)
            for begin in range(0, len(chunk), _STRINGS):
                strings = chunk.slice(begin, _STRINGS)
                listed = pa.ListArray.from_arrays([0, len(strings)], strings)
                joined = pc.binary_join(listed, pa.scalar("", strings.type))[0].as_buffer()
                digest.update(joined)
    return digest.hexdigest()


def _chunk(column: pa.ChunkedArray) -> Chunk:
    """Return the column chunk of the values of a row group."""
    values = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if pa.types.is_large_string(values.type):
        return encoded_chunk(values, "none", "PLAIN")
    return plain_chunk(values.to_numpy(), "none")
