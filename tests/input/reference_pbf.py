"""OpenStreetMap PBF, as the reference reader reads it: every field of the format, by its specification."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import pyarrow as pa
from reference_graph import Graph, Refused
from reference_osm import Place, Road, graph_of_roads

#: The largest header of a block, and the largest block.
MAX_HEADER, MAX_BLOCK = 64 << 10, 32 << 20
FEATURES = (b"OsmSchema-V0.6", b"DenseNodes")
#: Units of 1e-7 degrees in one degree, and of 1e-9 degrees in a unit.
PER_DEGREE, NANO = 10**7, 100

Value = int | bytes


def is_pbf(data: bytes) -> bool:
    return data[4:15] == b"\n\tOSMHeader"


def read_pbf(data: bytes, graph: dict) -> Graph:
    try:
        contents = list(_blocks(data))
        _check_header(contents[0])
        nodes: list[Place] = []
        ways: list[Road] = []
        for content in contents[1:]:
            _read_block(content, nodes, ways)
    except (IndexError, struct.error, ValueError, zlib.error, OSError) as error:
        raise Refused(f"damaged: {error}") from None
    return graph_of_roads(ways, lambda used: [node for node in nodes if node[0] in used], graph)


# The parts of a message.


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for i in range(10):
        value |= (data[at + i] & 127) << 7 * i
        if data[at + i] < 128:
            return value & 2**64 - 1, at + i + 1
    raise Refused("a number of more than 10 bytes")


def _fields(data: bytes) -> Iterator[tuple[int, Value]]:
    """Give number and value of each field; a field of a type that this format has not is an error."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        value: Value
        if kind == 0:
            value, at = _varint(data, at)
        elif kind in (1, 2, 5):
            size = {1: 8, 5: 4}.get(kind, 0)
            if kind == 2:
                size, at = _varint(data, at)
            if at + size > len(data):
                raise Refused("a field beyond the end")
            value, at = data[at : at + size], at + size
            if kind != 2:
                key = 0  # no field of this format
        else:
            raise Refused("a field of no known type")
        if key >> 3 == 0 and kind in (0, 2):
            raise Refused("a field without a number")
        yield key >> 3, value


def _of(data: bytes, field: int, kind: type) -> list:
    return [value for number, value in _fields(data) if number == field and isinstance(value, kind)]


def _last(data: bytes, field: int, kind: type, default: object) -> object:
    return [default, *_of(data, field, kind)][-1]


def _numbers(data: bytes, most: int = 2**63) -> list[int]:
    """Return the numbers in `data`, and no more than `most` of them: the rest is not read."""
    found, at = [], 0
    while at < len(data) and len(found) < most:
        value, at = _varint(data, at)
        found.append(value)
    return found


def _packed(data: bytes, field: int, most: int = 2**63) -> list[int]:
    return _numbers(_last(data, field, bytes, b""), most)


def _signed(value: int, bits: int = 64) -> int:
    value &= 2**bits - 1
    return value - (value >> bits - 1 << bits)


def _zigzag(value: int) -> int:
    return value >> 1 ^ -(value & 1)


def _sums(values: list[int]) -> list[int]:
    found, total = [], 0
    for value in values:
        total = _signed(total + _zigzag(value))
        found.append(total)
    return found


# Blocks.


def _blocks(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        (size,) = struct.unpack_from(">I", data, at)
        if size > MAX_HEADER or at + 4 + size > len(data):
            raise Refused("the header of a block is damaged")
        head, start = data[at + 4 : at + 4 + size], at + 4 + size
        kind, length = _last(head, 1, bytes, b""), _signed(_last(head, 3, int, 0), 32)
        # libosmium takes the beginning of a name for the name.
        if not (b"OSMData" if at else b"OSMHeader").startswith(kind) or not 0 < length <= MAX_BLOCK:
            raise Refused("a block of another type or without a size")
        at = start + length
        if at > len(data):
            raise Refused("cut short")
        yield _content(data[start:at])


def _content(blob: bytes) -> bytes:
    content, field, size = b"", 0, 0
    for number, value in _fields(blob):
        if number == 1 and isinstance(value, bytes):
            return value  # what follows is not read
        if number == 2 and isinstance(value, int):
            size = _signed(value, 32)
        elif number in (3, 4, 5, 6, 7) and isinstance(value, bytes):
            content, field = value, number
    if not 0 < size <= MAX_BLOCK:
        raise Refused("a block without a size")
    if field == 3:
        out = zlib.decompress(content)
    elif field == 6:
        try:
            out = pa.decompress(content, size, "lz4_raw", asbytes=True)
        except pa.ArrowException as error:
            raise Refused(f"damaged: {error}") from None
    else:
        raise Refused("a compression that is not read")
    if len(out) != size:
        raise Refused("a block of another size")
    return out


def _check_header(content: bytes) -> None:
    # libosmium takes the beginning of a name for the name here too.
    features = _of(content, 4, bytes)
    if not all(any(known.startswith(feature) for known in FEATURES) for feature in features):
        raise Refused(f"features {features}")


def _read_block(content: bytes, nodes: list, ways: list) -> None:
    tables = [table for table in _of(content, 1, bytes) if table]
    if len(tables) > 1:
        raise Refused("two tables of texts")
    texts = [text for table in tables for text in _of(table, 1, bytes)]
    if any(b"\0" in text for text in texts):
        raise Refused("a text with a zero byte")
    granularity = _signed(_last(content, 17, int, 100), 32)
    lat_offset, lon_offset = (_signed(_last(content, field, int, 0)) for field in (19, 20))

    def position(lon: int, lat: int) -> tuple[float, float] | None:
        # libosmium keeps the low 32 bits and does not show the others. No program writes such positions.
        units = [
            _signed(_toward_zero(_signed(value * granularity + offset), NANO), 32)
            for value, offset in ((lon, lon_offset), (lat, lat_offset))
        ]
        if abs(units[0]) > 180 * PER_DEGREE or abs(units[1]) > 90 * PER_DEGREE:
            return None
        return units[0] / PER_DEGREE, units[1] / PER_DEGREE

    for group in _of(content, 2, bytes):
        for number, value in _fields(group):
            if not isinstance(value, bytes):
                continue
            if number == 1:
                if not _of(value, 8, int) or not _of(value, 9, int):
                    raise Refused("a node without a position")
                lat, lon = (_zigzag(_last(value, field, int, 0)) for field in (8, 9))
                is_visible = _last(_last(value, 4, bytes, b""), 6, int, 1)
                nodes.append((_zigzag(_last(value, 1, int, 0)), position(lon, lat) if is_visible else None))
            elif number == 2:
                ids = _sums(_packed(value, 1))
                lats, lons = (_sums(_packed(value, field, len(ids))) for field in (8, 9))
                visible = _packed(_last(value, 5, bytes, b""), 6, len(ids))
                if len(ids) > min(len(lats), len(lons)):
                    raise Refused("nodes without positions")
                rows = zip(ids, lons, lats, visible + [1] * len(ids), strict=False)
                nodes += [(i, position(lon, lat) if shown else None) for i, lon, lat, shown in rows]
            elif number == 3:
                keys, values = (_packed(value, field) for field in (2, 3))
                # libosmium does not read a key without a value, nor a value without a key.
                tags = {
                    _text(texts[k]): _text(texts[v]) for k, v in reversed([*zip(keys, values, strict=False)])
                }
                is_visible = bool(_last(_last(value, 4, bytes, b""), 6, int, 1))
                refs = _sums(_packed(value, 8))[: _n_positions(value)]
                ways.append((_signed(_last(value, 1, int, 0)), refs, tags, is_visible))


def _n_positions(way: bytes) -> int | None:
    """Return how many nodes of a way libosmium reads: if it has positions, those with one. None is all."""
    found = [[v for number, v in _fields(way) if number == field][-1:] for field in (9, 10)]
    if found == [[], []]:
        return None
    return min(0 if not v else 2**31 if isinstance(v[0], int) else len(_numbers(v[0])) for v in found)


def _toward_zero(value: int, by: int) -> int:
    return abs(value) // by * (1 if value >= 0 else -1)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
