"""OpenStreetMap PBF, written by hand, so that every part of it can be odd: blocks, compression, and what is in them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pyarrow as pa

#: A node: its id, longitude and latitude in units of 1e-7 degrees, and whether it is not deleted.
Node = tuple[int, int, int, bool]
#: A way: its id, its nodes, its tags, and whether it is not deleted.
Way = tuple[int, list[int], list[tuple[str, str]], bool]


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def zigzag(value: int) -> int:
    return (value << 1) ^ (value >> 63)


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def data(field: int, content: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(content)) + content


def packed(field: int, values: Iterable[int], signed: bool = False) -> bytes:
    return data(field, b"".join(varint(zigzag(value) if signed else value) for value in values))


def deltas(values: list[int]) -> list[int]:
    return [value - before for before, value in zip([0, *values], values, strict=False)]


#: For each kind of compression the field of a blob, and what compresses.
COMPRESSIONS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "raw": (1, bytes),
    "zlib": (3, zlib.compress),
    "lzma": (4, lambda content: b"\xfd7zXZ\0" + content),
    "bzip2": (5, lambda content: b"BZh" + content),
    "lz4": (6, lambda content: pa.compress(content, "lz4_raw", asbytes=True)),
    "zstd": (7, lambda content: pa.compress(content, "zstd", asbytes=True)),
}


def block(kind: str, content: bytes, compression: str = "zlib", raw_size: int | None = None) -> bytes:
    """Return a block of a file: the length of its header, its header, and its content."""
    field, compress = COMPRESSIONS[compression]
    size = b"" if compression == "raw" else number(2, len(content) if raw_size is None else raw_size)
    blob = size + data(field, compress(content))
    head = data(1, kind.encode()) + number(3, len(blob))
    return struct.pack(">I", len(head)) + head + blob


def header(features: Iterable[str] = ("OsmSchema-V0.6", "DenseNodes")) -> bytes:
    return b"".join(data(4, feature.encode()) for feature in features) + data(16, b"made")


@dataclass
class Block:
    """What a block of data holds; positions are `granularity` * value + offset, in units of 1e-9 degrees."""

    nodes: list[Node]
    ways: list[Way]
    is_dense: bool = True
    granularity: int = 100
    lon_offset: int = 0
    lat_offset: int = 0
    has_info: bool = False
    #: What the block says about `granularity`.
    said: int | None = None

    def content(self) -> bytes:
        """Return the bytes of the block, which are not compressed."""
        texts = [""]
        groups = []
        if self.nodes:
            groups.append(self._dense() if self.is_dense else b"".join(map(self._node, self.nodes)))
        if self.ways:
            groups.append(b"".join(self._way(way, texts) for way in self.ways))
        out = data(1, b"".join(data(1, text.encode()) for text in texts))
        out += b"".join(data(2, group) for group in groups)
        if self.granularity != 100 or self.said is not None:
            out += number(17, self.granularity if self.said is None else self.said)
        for field, offset in ((19, self.lat_offset), (20, self.lon_offset)):
            out += number(field, offset) if offset else b""
        return out

    def _units(self, node: Node) -> tuple[int, int]:
        """Return longitude and latitude as the block counts them."""
        _, lon, lat, _ = node
        return (lon * 100 - self.lon_offset) // self.granularity, (
            lat * 100 - self.lat_offset
        ) // self.granularity

    def _info(self, is_visible: bool) -> bytes:
        return number(1, 1) + (b"" if is_visible else number(6, 0))

    def _node(self, node: Node) -> bytes:
        lon, lat = self._units(node)
        out = number(1, zigzag(node[0]))
        if self.has_info or not node[3]:
            out += data(4, self._info(node[3]))
        return data(1, out + number(8, zigzag(lat)) + number(9, zigzag(lon)))

    def _dense(self) -> bytes:
        lon, lat = (list(units) for units in zip(*map(self._units, self.nodes), strict=True))
        out = packed(1, deltas([node[0] for node in self.nodes]), signed=True)
        if self.has_info or not all(node[3] for node in self.nodes):
            zeros = [0] * len(self.nodes)
            info = packed(1, [1] * len(self.nodes)) + b"".join(packed(i, zeros) for i in (2, 3, 4, 5))
            out += data(5, info + packed(6, [int(node[3]) for node in self.nodes]))
        return data(2, out + packed(8, deltas(lat), signed=True) + packed(9, deltas(lon), signed=True))

    def _way(self, way: Way, texts: list[str]) -> bytes:
        number_, refs, tags, is_visible = way
        places = []
        for text in (text for tag in tags for text in tag):
            if text not in texts:
                texts.append(text)
            places.append(texts.index(text))
        out = number(1, number_)
        if tags:
            out += packed(2, places[::2]) + packed(3, places[1::2])
        if self.has_info or not is_visible:
            out += data(4, self._info(is_visible))
        return data(3, out + packed(8, deltas(refs), signed=True))
