"""A Parquet file of column chunks that are ready to be written.

It is written from the front: a mark, the chunks of each row group, the footer, the mark again. Every column is
optional.

References
----------
The specification of Apache Parquet: file format, `parquet.thrift`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from sssp_pipeline import __version__
from sssp_pipeline.parquet import compaction, thrift
from sssp_pipeline.parquet.pages import Chunk
from sssp_pipeline.parquet.thrift import Value
from sssp_pipeline.storage.file_sums import PAGES_KEY

#: What a file says of its writer.
CREATED_BY = f"sssp-pipeline version {__version__}"
_MARK = b"PAR1"
#: Bytes that are written by one call, at least. Threads that write take turns in Python, so each does little there.
_AT_ONCE = 2**25
#: Numbers of the format: codecs, physical types and annotations of types.
_CODECS = {"none": 0, "snappy": 1, "zstd": 6, "lz4": 7}
_UTF8 = 0
_UNSIGNED = {"uint32": 13, "uint64": 14}
_NUMBERS = {"int32": 1, "uint32": 1, "int64": 2, "uint64": 2, "float": 4, "double": 5}
_TEXTS = {"string": 6, "large_string": 6}
_PHYSICAL = _NUMBERS | _TEXTS


class PageWriter:
    """Writes a Parquet file to `handle` from the chunks of its row groups.

    Parameters
    ----------
    handle
        A file that is open for writing bytes, such as a `BufferFile`; it stays open. Its `writelines` gets many buffers
        at a time. If its `keeps_buffers` is true, it refers to the buffers until it is closed. If it has a `sum`, as
        `SummedFile` has, the footer has the checksum of all pages.
    schema
        Names and types of the columns.
    compression
        As `output.compression` in the workflow: of all chunks.
    """

    def __init__(self, handle: Any, schema: pa.Schema, compression: str) -> None:
        self._handle, self._codec = handle, thrift.i32(_CODECS[compression])
        self._columns = [(column.name, str(column.type)) for column in schema]
        self._groups: list[Value] = []
        self._n_rows = 0
        self._at = 0
        #: Buffers that are not written yet.
        self._pending: list[memoryview] = []
        self._n_pending = 0
        self._scratch: list[np.ndarray] = []
        self._write(memoryview(_MARK))

    def write_group(self, chunks: Iterable[Chunk], sorted_by: Sequence[int] = ()) -> None:
        """Write a row group of one chunk for each column; its rows rise by the columns with the numbers `sorted_by`.

        Each chunk is written before the next is asked for.
        """
        begin, columns, n_rows, plain_bytes = self._at, [], 0, 0
        for (name, kind), chunk in zip(self._columns, chunks, strict=True):
            columns.append(self._write_chunk(name, kind, chunk))
            n_rows, plain_bytes = chunk.n_values, plain_bytes + chunk.uncompressed_bytes
        order = [thrift.struct({1: thrift.i32(n), 2: thrift.FALSE, 3: thrift.FALSE}) for n in sorted_by]
        self._groups.append(
            thrift.struct(
                {
                    1: thrift.list_of(columns),
                    2: thrift.i64(plain_bytes),
                    3: thrift.i64(n_rows),
                    4: thrift.list_of(order) if order else None,
                    5: thrift.i64(begin),
                    6: thrift.i64(self._at - begin),
                    7: thrift.i16(len(self._groups)) if len(self._groups) < 2**15 else None,
                }
            )
        )
        self._n_rows += n_rows

    def close(self) -> int:
        """Write the footer; return the bytes of the file."""
        names = [_schema_element(*column) for column in self._columns]
        root = thrift.struct({4: thrift.binary("schema"), 5: thrift.i32(len(names))})
        self._flush()
        about = []
        if (of_pages := getattr(self._handle, "sum", None)) is not None:
            pair = {1: thrift.binary(PAGES_KEY), 2: thrift.binary(f"{of_pages.crc32:08x}")}
            about.append(thrift.struct(pair))
        by_type = thrift.struct({1: thrift.struct({})})
        _, footer = thrift.struct(
            {
                1: thrift.i32(2),
                2: thrift.list_of([root, *names]),
                3: thrift.i64(self._n_rows),
                4: thrift.list_of(self._groups) if self._groups else (9, b"\x0c"),
                5: thrift.list_of(about) if about else None,
                6: thrift.binary(CREATED_BY),
                7: thrift.list_of([by_type] * len(names)),
            }
        )
        self._write(memoryview(footer + len(footer).to_bytes(4, "little") + _MARK))
        self._flush()
        return self._at

    def _write_chunk(self, name: str, kind: str, chunk: Chunk) -> Value:
        begin = self._at
        self._write(*chunk.buffers)
        if chunk.scratch is not None:
            self._scratch.append(chunk.scratch)
        statistics = {3: thrift.i64(chunk.n_null)}
        if chunk.limits is not None:
            least, largest = chunk.limits
            statistics |= {5: thrift.binary(largest), 6: thrift.binary(least)}
        metadata = thrift.struct(
            {
                1: thrift.i32(_PHYSICAL[kind]),
                2: _encodings(chunk.encodings),
                3: thrift.list_of([thrift.binary(name)]),
                4: self._codec,
                5: thrift.i64(chunk.n_values),
                6: thrift.i64(chunk.uncompressed_bytes),
                7: thrift.i64(self._at - begin),
                9: thrift.i64(begin + chunk.dictionary_bytes),
                11: thrift.i64(begin) if chunk.dictionary_bytes else None,
                12: thrift.struct(statistics),
            }
        )
        return thrift.struct({2: thrift.i64(0), 3: metadata})

    def _write(self, *buffers: memoryview) -> None:
        n_bytes = sum(map(len, buffers))
        self._pending += buffers
        self._at += n_bytes
        self._n_pending += n_bytes
        if self._n_pending > _AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        self._handle.writelines(self._pending)
        self._pending, self._n_pending = [], 0
        if not getattr(self._handle, "keeps_buffers", False):
            compaction.give_back(self._scratch)
        self._scratch = []


@lru_cache(2**8)
def _encodings(numbers: tuple[int, ...]) -> Value:
    return thrift.list_of([thrift.i32(number) for number in numbers])


@lru_cache(2**16)
def _schema_element(name: str, kind: str) -> Value:
    converted, logical = None, None
    if kind in _UNSIGNED:
        bits = thrift.i8(32 if kind == "uint32" else 64)
        converted = thrift.i32(_UNSIGNED[kind])
        logical = thrift.struct({10: thrift.struct({1: bits, 2: thrift.FALSE})})
    elif kind in _TEXTS:
        converted, logical = thrift.i32(_UTF8), thrift.struct({1: thrift.struct({})})
    return thrift.struct(
        {1: thrift.i32(_PHYSICAL[kind]), 3: thrift.i32(1), 4: thrift.binary(name), 6: converted, 10: logical}
    )
