"""Part files: the Parquet files of a graph store, with the checksums of their bytes and of their content."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

import numpy as np
import pyarrow as pa
from isal.isal_zlib import crc32

from sssp_pipeline.lazy import LazyModule
from sssp_pipeline.pipeline.arrow_arrays import number_bytes
from sssp_pipeline.pipeline.graph_store.manifest import Part
from sssp_pipeline.pipeline.parquet.page_writer import PageWriter
from sssp_pipeline.pipeline.parquet.pages import Chunk, encoded_chunk, plain_chunk
from sssp_pipeline.pipeline.storage import files

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
        self._path = path
        with ExitStack() as opened:
            handle = opened.enter_context(files.open_atomic(files.join(store, path), plain=True))
            self._sink = _Checksummed(handle)
            self._writer = PageWriter(self._sink, schema, "none")
            self._opened = opened.pop_all()

    def add(self, rows: pa.Table) -> None:
        """Write the next rows."""
        with self._opened as opened:
            for begin in range(0, rows.num_rows, ROW_GROUP_ROWS):
                group = rows.slice(begin, ROW_GROUP_ROWS)
                self._writer.write_group(map(_chunk, group.columns))
            self._opened = opened.pop_all()  # the file stays open

    def finish(self, content: pa.Table, first: int, last: int, crc32_before: int = 0) -> Part:
        """Close the file, and return the part: `content` is all of its rows, the rows or vertices [first, last).

        `crc32_before` is the checksum of content that precedes that of the table.
        """
        with self._opened:
            n_bytes = self._writer.close()
        return Part(
            path=self._path,
            rows=content.num_rows,
            first=first,
            last=last,
            bytes=n_bytes,
            crc32=self._sink.crc32,
            content_crc32=_content_crc32(content, crc32_before),
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


def _content_crc32(table: pa.Table, checksum: int = 0) -> int:
    for column in table.columns:
        for chunk in column.chunks:
            if not pa.types.is_large_string(chunk.type):
                checksum = crc32(number_bytes(chunk), checksum)
                continue
            # That of the strings with a zero byte between two, of which memory holds a few at a time.
            for begin in range(0, len(chunk), _STRINGS):
                strings = chunk.slice(begin, _STRINGS)
                listed = pa.ListArray.from_arrays([0, len(strings)], strings)
                joined = pc.binary_join(listed, pa.scalar("\0", strings.type))[0].as_buffer()
                checksum = crc32(joined, crc32(b"\0", checksum) if begin else checksum)
    return checksum


def _chunk(column: pa.ChunkedArray) -> Chunk:
    """Return the column chunk of the values of a row group."""
    values = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if pa.types.is_large_string(values.type):
        return encoded_chunk(values, "none", "PLAIN")
    return plain_chunk(values.to_numpy(), "none")


class _Checksummed:
    """A file that computes the CRC-32 of the bytes written to it."""

    def __init__(self, handle: IO[bytes]) -> None:
        self._handle = handle
        self.keeps_buffers = getattr(handle, "keeps_buffers", False)
        self.crc32 = 0

    def writelines(self, buffers: Iterable[memoryview]) -> None:
        for buffer in buffers:
            self.crc32 = crc32(buffer, self.crc32)
        self._handle.writelines(buffers)
