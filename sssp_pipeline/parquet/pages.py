"""Column chunks whose pages are assembled, not encoded: what is in memory is what the file holds.

A row of distances in PLAIN encoding is the row itself. The vertices of every source are the same column chunk. The
source column is a dictionary of few entries. So a chunk of vertices is made once and written many times, and distances
are written as they are. Chunks that need an encoder come from pyarrow (`encoded_chunk`), and so do codecs. Every page
has a checksum. `page_writer.py` writes the chunks.

References
----------
The specification of Apache Parquet: encodings, `parquet.thrift`.
"""

from __future__ import annotations

import io
import struct
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.lazy import LazyModule
from sssp_pipeline.kernels.host.crc32 import appended, appended_of_any
from sssp_pipeline.parquet import compaction, thrift
from sssp_pipeline.parquet.thrift import Value, varint
from sssp_pipeline.storage.file_sums import crc32_of

if TYPE_CHECKING:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
else:
    pc, pq = LazyModule("pyarrow.compute"), LazyModule("pyarrow.parquet")

#: Numbers of the format: encodings, as far as `encoded_chunk` can meet them, and kinds of pages.
_PLAIN, _RLE, _RLE_DICTIONARY = 0, 3, 8
_ENCODINGS = {"PLAIN": _PLAIN, "RLE": _RLE, "DELTA_BINARY_PACKED": 5, "RLE_DICTIONARY": _RLE_DICTIONARY}
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2
#: The buffers of a page, and their bytes without compression.
_Page = tuple[tuple[memoryview, ...], int]


@dataclass(frozen=True)
class Chunk:
    """A column chunk, ready to be written."""

    #: Its bytes: pages with their headers.
    buffers: tuple[memoryview, ...]
    #: Rows, NULL included.
    n_values: int
    #: Numbers of all encodings in it.
    encodings: tuple[int, ...]
    #: Bytes of all buffers without compression.
    uncompressed_bytes: int
    #: Bytes of the dictionary page at its beginning; 0 without one.
    dictionary_bytes: int
    #: Rows that are NULL.
    n_null: int
    #: Its least and largest value in PLAIN encoding; None if that is not known.
    limits: tuple[bytes, bytes] | None
    #: Memory that is free again when the chunk is written.
    scratch: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Known:
    """What is known of values before a chunk is made of them."""

    #: The least and the largest value.
    limits: tuple[Any, Any]
    #: The checksum of a page continues the one of the header of its definition levels. What follows the header has
    #: parts: the bits of the levels if a value is NULL, then the values. Each part has a remainder, (k,) uint32
    #: (`crc32.py`), and a length in bits, (k,) int64.
    remainders: np.ndarray | None = None
    n_bits: np.ndarray | None = None


def plain_chunk(
    values: np.ndarray,
    compression: str,
    known: Known | None = None,
    *,
    null: np.generic | None = None,
    missing: np.ndarray | None = None,
) -> Chunk:
    """Return the chunk of `values` (n,) in PLAIN encoding.

    Parameters
    ----------
    values
        Of one of the weight types, or int64. The chunk refers to them if nothing is missing and nothing is compressed.
    compression
        As in `PageWriter`.
    known
        What is known of the values; only if none is NULL.
    null
        The value that stands for NULL; None if none does.
    missing
        (n,) which of them are NULL; None if none is.
    """
    n_values, present = len(values), np.ascontiguousarray(values)
    bits, scratch = np.empty(0, np.uint8), None
    if missing is not None:
        bits, present = np.packbits(~missing, bitorder="little"), values[~missing]
    elif null is not None:
        bits, scratch = np.empty((n_values + 7) // 8, np.uint8), compaction.scratch_of(values.nbytes)
        present = scratch[: values.nbytes].view(values.dtype)
        present = present[: compaction.compact(values, null, bits, present)]
    if known is None and len(present):
        limits = present.min(), present.max()
        if limits[0] == limits[0]:  # otherwise a value is NaN, and readers take no limits
            known = Known(limits)
    content = [present.data.cast("B")] if len(present) else []
    return packed_chunk(content, len(present), n_values, bits, compression, known, scratch)


def packed_chunk(
    present: Sequence[memoryview],
    n_present: int,
    n_values: int,
    bits: np.ndarray,
    compression: str,
    known: Known | None,
    scratch: np.ndarray | None = None,
) -> Chunk:
    """Return the chunk of `n_values` values in PLAIN encoding; `n_present` of them are not NULL.

    Parameters
    ----------
    present
        The bytes of the values that are not NULL, in pieces. The chunk refers to them if nothing is compressed.
    bits
        (ceil(n_values / 8),) uint8: a bit for each value, the lowest first: 1 if it is not NULL. It is not read if all
        values are present.
    compression, known
        As in `plain_chunk`. `known` is None if no value is present.
    scratch
        As in `Chunk`.
    """
    if n_present == n_values:
        levels = _all_there(n_values)
    else:  # a run of bit-packed levels, in groups of eight
        header = varint(len(bits) << 1 | 1)
        levels = [(len(header) + len(bits)).to_bytes(4, "little") + header, bits.data]
    buffers, plain_bytes = _page(_DATA_PAGE, _PLAIN, n_values, levels, present, compression, known)
    limits = _plain_limits(*known.limits) if known else None
    return Chunk(buffers, n_values, (_PLAIN, _RLE), plain_bytes, 0, n_values - n_present, limits, scratch)


def source_chunk(names: Sequence[int] | Sequence[str], n_rows: int, compression: str) -> Chunk:
    """Return the chunk in which each of `names` (k,) stands for `n_rows` rows, one name after the other."""
    n_values, entries = len(names) * n_rows, [_plain_value(name) for name in names]
    if isinstance(names[0], str):
        entries = [len(entry).to_bytes(4, "little") + entry for entry in entries]
    dictionary, plain_bytes = _page(
        _DICTIONARY_PAGE, _PLAIN, len(names), [], [b"".join(entries)], compression
    )
    data, of_data = _index_page(len(names), n_rows, compression)
    kinds, limits = (_PLAIN, _RLE, _RLE_DICTIONARY), (_plain_value(min(names)), _plain_value(max(names)))
    n_bytes = sum(map(len, dictionary))
    return Chunk((*dictionary, *data), n_values, kinds, plain_bytes + of_data, n_bytes, 0, limits)


@lru_cache(2**2)
def _index_page(n_entries: int, n_rows: int, compression: str) -> _Page:
    """Return the page in which each of the entries of a dictionary stands for `n_rows` rows, in their order."""
    width = (n_entries - 1).bit_length()
    run, n_bytes = varint(n_rows << 1), (width + 7) // 8
    indices = bytes([width]) + b"".join(run + i.to_bytes(n_bytes, "little") for i in range(n_entries))
    n_values = n_entries * n_rows
    return _page(_DATA_PAGE, _RLE_DICTIONARY, n_values, _all_there(n_values), [indices], compression)


def encoded_chunk(values: pa.Array, compression: str, encoding: str | None) -> Chunk:
    """Return the chunk of `values` as pyarrow encodes them: in `encoding`, or with a dictionary if it is None."""
    table, sink = pa.table({"values": values}), io.BytesIO()
    pq.write_table(
        table,
        sink,
        compression=compression,
        use_dictionary=encoding is None,
        column_encoding=None if encoding is None else {"values": encoding},
        row_group_size=max(1, len(values)),
        write_page_checksum=True,
        store_schema=False,
    )
    written = pq.ParquetFile(sink).metadata.row_group(0).column(0)
    begin = written.dictionary_page_offset or written.data_page_offset
    known = written.statistics
    limits = (_plain_value(known.min), _plain_value(known.max)) if known and known.has_min_max else None
    return Chunk(
        (memoryview(sink.getvalue())[begin : begin + written.total_compressed_size],),
        len(values),
        tuple(_ENCODINGS[name] for name in written.encodings),
        written.total_uncompressed_size,
        written.data_page_offset - begin,
        values.null_count,
        limits,
    )


@dataclass(frozen=True, eq=False)
class RepeatedColumn:
    """A column of ids that each source has again, and the chunks that were made of it."""

    ids: pa.Array
    compression: str
    _chunks: dict[tuple[int, int, int], Chunk] = field(default_factory=dict)
    _making: threading.Lock = field(default_factory=threading.Lock)

    @staticmethod
    def of(ids: pa.Array, compression: str) -> RepeatedColumn:
        """Return the column of `ids`. The last few are kept, because all batches of a run have the same vertices."""
        with _lock:
            for column in _columns:
                if column.compression == compression and (column.ids is ids or column.ids.equals(ids)):
                    return column
            _columns.append(RepeatedColumn(ids, compression))
            return _columns[-1]

    @cached_property
    def is_rising(self) -> bool:
        """Whether each id is larger than the one before."""
        return bool(pc.all(pc.less(self.ids[:-1], self.ids[1:]), min_count=0).as_py())

    def chunk(self, rows: slice, count: int) -> Chunk:
        """Return the chunk that has the ids of `rows` (first to last) `count` times."""
        key = rows.start, rows.stop, count
        if (made := self._chunks.get(key)) is not None:
            return made
        with self._making:  # the threads that write the first batches of a run ask together
            if key not in self._chunks:
                repeated = pa.concat_arrays([self.ids[rows]] * count)
                encoding = None if _is_text(repeated) else "DELTA_BINARY_PACKED"
                self._chunks[key] = encoded_chunk(repeated, self.compression, encoding)
            return self._chunks[key]


#: The columns that were used last.
_columns: deque[RepeatedColumn] = deque(maxlen=2)
_lock = threading.Lock()


def _page(
    kind: int,
    encoding: int,
    n_values: int,
    levels: Sequence[bytes | memoryview],
    content: Sequence[bytes | memoryview],
    compression: str,
    known: Known | None = None,
) -> _Page:
    """Return a page of `levels` and `content` with its header; `known` is what is known of the values before."""
    body = [memoryview(part) for part in (*levels, *content) if len(part)]
    n_plain = sum(map(len, body))
    if compression != "none":
        codec = pa.Codec("lz4_raw" if compression == "lz4" else compression)
        body = [memoryview(codec.compress(b"".join(body), asbytes=True))]
    if compression == "none" and known and known.remainders is not None and known.n_bits is not None:
        # If a value is NULL, the bits of the levels follow. Then each page has parts of other lengths.
        join = appended if len(levels) == 1 else appended_of_any
        checksum = join(crc32_of(levels[:1]), known.remainders, known.n_bits)
    else:
        checksum = crc32_of(body)
    if kind == _DICTIONARY_PAGE:
        about = {7: thrift.struct({1: thrift.i32(n_values), 2: thrift.i32(encoding)})}
    else:
        about = {5: _data_page(n_values, encoding)}
    _, header = thrift.struct(
        {
            1: thrift.i32(kind),
            2: thrift.i32(n_plain),
            3: thrift.i32(sum(map(len, body))),
            4: thrift.i32(checksum - (checksum >> 31 << 32)),
            **about,
        }
    )
    return (memoryview(header), *body), len(header) + n_plain


@lru_cache(2**8)
def _data_page(n_values: int, encoding: int) -> Value:
    levels = thrift.i32(_RLE)
    return thrift.struct({1: thrift.i32(n_values), 2: thrift.i32(encoding), 3: levels, 4: levels})


def _all_there(n_values: int) -> list[bytes | memoryview]:
    """Return the definition levels of a page without NULL, their length first."""
    levels = varint(n_values << 1) + b"\1"
    return [len(levels).to_bytes(4, "little") + levels]


def _plain_limits(least: Any, largest: Any) -> tuple[bytes, bytes]:
    """Return both in PLAIN encoding. By the specification, both zeros may be there when a limit is zero."""
    if least.dtype.kind == "f":
        least, largest = (-abs(least) if least == 0 else least), (abs(largest) if largest == 0 else largest)
    return least.tobytes(), largest.tobytes()


def _plain_value(value: float | str) -> bytes:
    """Return an id or a float64 in PLAIN encoding, without the length that stands before a text in a page."""
    if isinstance(value, float):
        return struct.pack("<d", value)
    return value.encode() if isinstance(value, str) else value.to_bytes(8, "little", signed=True)


def _is_text(values: pa.Array) -> bool:
    return bool(pa.types.is_string(values.type) or pa.types.is_large_string(values.type))
