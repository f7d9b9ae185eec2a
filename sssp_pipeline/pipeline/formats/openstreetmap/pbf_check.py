"""OpenStreetMap PBF: a check of its texts before libosmium reads them.

libosmium ends a text at a zero byte. If a tag has one, libosmium takes the rest of it for other tags, or reads beyond
the last tag, which ends the process. The texts of a block are in a table, mostly at its beginning. Only this table is
decompressed here.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TypeAlias

import pyarrow as pa

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.storage import files

#: What a field of a message holds: a number, or bytes.
_Value: TypeAlias = int | memoryview

#: The largest header of a block, and the largest block.
_MAX_HEADER_BYTES, _MAX_BLOCK_BYTES = 64 << 10, 32 << 20
#: Fields of the header of a block: how many bytes follow. Fields of what follows: its size when it is decompressed, and
#: its content, by the way it is compressed.
_DATA_BYTES, _RAW, _RAW_BYTES, _ZLIB, _LZ4 = 3, 1, 2, 3, 6
_NOT_READ = {4: "LZMA", 5: "bzip2", 7: "Zstandard"}
#: The table of texts in a block, and a text in the table.
_TABLE, _TEXT = 1, 1
#: A field begins with its number and its length, in no more bytes.
_PREFIX_BYTES = 20


class _OtherCompressionError(Exception):
    """A block is compressed in the named way, which is not read."""


def check_texts(url: str, path: str) -> None:
    """Check the texts in the PBF file `path`, which has the content of `url`.

    Raises
    ------
    InputError
        A text has a zero byte, or a block is damaged or compressed in a way that is not read.
    """
    n_blocks = 0
    with Path(path).open("rb") as stream:
        try:
            while blob := _next_blob(stream):
                # The first block has no table.
                if n_blocks and _has_zero_byte(_table_of(blob)):
                    raise ValueError("a text has a zero byte")
                n_blocks += 1
        except (ValueError, IndexError, struct.error, zlib.error, pa.ArrowException) as error:
            raise InputError(
                f"`{files.redacted(url)}` is cut short or damaged: block {n_blocks + 1}: {error}",
                hint="fetch it again",
            ) from error
        except _OtherCompressionError as error:
            raise InputError(
                f"`{files.redacted(url)}`: block {n_blocks + 1} is compressed with {error}, which is not read",
                hint="write it again, compressed with zlib",
            ) from error


def _next_blob(stream: BinaryIO) -> memoryview:
    """Return the content of the next block, without its header; empty at the end of the file."""
    if not (prefix := stream.read(4)):
        return memoryview(b"")
    (header_bytes,) = struct.unpack(">I", prefix)
    if header_bytes > _MAX_HEADER_BYTES:
        raise ValueError(f"its header has {header_bytes} bytes")
    header = dict(_fields(memoryview(stream.read(header_bytes))))
    size = header.get(_DATA_BYTES, 0)
    if not isinstance(size, int) or not 0 < size <= _MAX_BLOCK_BYTES:
        raise ValueError(f"it has {size} bytes")
    blob = stream.read(size)
    if len(blob) < size:
        raise ValueError(f"it has {size} bytes, and the file {len(blob)} of them")
    return memoryview(blob)


def _table_of(blob: memoryview) -> bytes:
    """Return the table of texts of a block, which may be compressed; empty if it has none."""
    fields = dict(_fields(blob))
    for field, name in _NOT_READ.items():
        if field in fields:
            raise _OtherCompressionError(name)
    if (raw := fields.get(_RAW)) is not None:
        return _table_in(raw)
    if (deflated := fields.get(_ZLIB)) is not None:
        return _table_of_deflated(deflated)
    size = fields.get(_RAW_BYTES, 0)
    if not isinstance(size, int) or not 0 < size <= _MAX_BLOCK_BYTES:
        raise ValueError(f"it has {size} bytes when it is decompressed")
    try:
        return _table_in(memoryview(pa.decompress(fields.get(_LZ4, b""), size, "lz4_raw", asbytes=True)))
    except OSError as error:
        raise ValueError(error) from error


def _table_of_deflated(content: _Value) -> bytes:
    inflater = zlib.decompressobj()
    begin = inflater.decompress(_bytes(content), _PREFIX_BYTES)
    # The table is mostly first. If it is elsewhere, or an empty one is before it, all is decompressed.
    if begin[0] != _TABLE << 3 | 2 or begin[1] == 0:
        rest = inflater.decompress(inflater.unconsumed_tail, _MAX_BLOCK_BYTES)
        return _table_in(memoryview(begin + rest))
    size, at = _varint(begin, 1)
    if size > _MAX_BLOCK_BYTES:
        raise ValueError(f"its texts have {size} bytes")
    if (missing := at + size - len(begin)) > 0:
        begin += inflater.decompress(inflater.unconsumed_tail, missing)
    return begin[at : at + size]


def _table_in(block: _Value) -> bytes:
    return b"".join(bytes(_bytes(value)) for field, value in _fields(_bytes(block)) if field == _TABLE)


def _has_zero_byte(table: bytes) -> bool:
    """Return whether a text of the table has a zero byte; an empty text has one as its length."""
    start = end = 0
    while (zero := table.find(0, start)) >= 0:
        # Up to the text that ends behind the zero byte.
        while end <= zero:
            key, start = _varint(table, end)
            size, start = _varint(table, start)
            end = start + size
            if key != _TEXT << 3 | 2:
                raise ValueError("its texts are damaged")
        if zero >= start:
            return True
    return False


# ---- messages of Protocol Buffers ----


def _bytes(value: _Value) -> memoryview:
    if isinstance(value, int):
        raise ValueError("a number in the place of bytes")
    return value


def _fields(message: memoryview) -> Iterator[tuple[int, _Value]]:
    """Give the number and the value of each field."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        if key & 7 == 0:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        if key & 7 == 2:
            size, at = _varint(message, at)
        else:
            size = {1: 8, 5: 4}.get(key & 7, len(message) + 1)
        if at + size > len(message):
            raise ValueError("a field leads beyond its end")
        yield key >> 3, message[at : at + size]
        at += size


def _varint(message: memoryview | bytes, at: int) -> tuple[int, int]:
    """Return the number at a place of a message, and the place behind it."""
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise ValueError("a number of more than 10 bytes")
