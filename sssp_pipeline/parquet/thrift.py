"""Thrift's compact protocol, as far as Parquet's page headers and footers need it.

No library is used. pyarrow writes these structures but does not offer them to Python. The package `thrift` needs the
compiled definitions of all structures of the format, and encodes them field by field in Python too. What a file of
distances needs is below.

A value is a pair: its type in the protocol, and its bytes. The functions return such pairs. Files repeat most of their
small values, so those are kept.

References
----------
The specification "Thrift Compact protocol" of Apache Thrift.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

Value = tuple[int, bytes]

#: Each byte on its own.
_BYTES = [bytes([value]) for value in range(256)]
_I8, _I16, _I32, _I64, _BINARY, _LIST, _STRUCT = 3, 4, 5, 6, 8, 9, 12
#: The truth value "false".
FALSE: Value = (2, b"")


def varint(value: int) -> bytes:
    """Return a whole number of 0 or more in groups of 7 bits, the lowest first."""
    if value < 0x80:
        return _BYTES[value]
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _zigzag(value: int) -> bytes:
    return varint(value << 1 if value >= 0 else -value * 2 - 1)


def i8(value: int) -> Value:
    """Return a number of 8 bits."""
    return _I8, value.to_bytes(1, "little", signed=True)


def i16(value: int) -> Value:
    """Return a number of 16 bits."""
    return _I16, _zigzag(value)


@lru_cache(2**12)
def i32(value: int) -> Value:
    """Return a number of 32 bits."""
    return _I32, _zigzag(value)


@lru_cache(2**12)
def i64(value: int) -> Value:
    """Return a number of 64 bits."""
    return _I64, _zigzag(value)


@lru_cache(2**12)
def binary(value: bytes | str) -> Value:
    """Return bytes, or a text as UTF-8."""
    content = value.encode() if isinstance(value, str) else value
    return _BINARY, varint(len(content)) + content


def list_of(values: Sequence[Value]) -> Value:
    """Return a list of one or more values, none of them a truth value."""
    kind, count = values[0][0], len(values)
    header = bytes([count << 4 | kind]) if count < 15 else bytes([0xF0 | kind]) + varint(count)
    return _LIST, header + b"".join(content for _, content in values)


def struct(fields: Mapping[int, Value | None]) -> Value:
    """Return a structure from its fields, by their numbers in rising order; a field that is None is left out."""
    parts: list[bytes] = []
    last = 0
    for number, value in fields.items():
        if value is None:
            continue
        kind, content = value
        step = number - last
        parts += (_BYTES[step << 4 | kind] if step <= 15 else _BYTES[kind] + _zigzag(number)), content
        last = number
    parts.append(b"\0")
    return _STRUCT, b"".join(parts)
