"""Id mapping: collects the ids of an edge list while its edges are read, then translates them to vertex numbers.

Vertices are numbered in ascending order of their ids. So the numbering does not depend on the order of the edges, and
an id is found by bisection. Consecutive integer ids need no table.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa

from sssp_pipeline.numba_cache import njit
from sssp_pipeline.vertex_ids import IdMapping, VertexIds

#: Smaller ids are marked in a bitmap. The bitmap grows with the largest id, up to 256 MiB.
BITMAP_IDS = 2**31


class IdCollector(Protocol):
    """Collects all ids, chunk by chunk, and then translates them to vertices."""

    def add(self, ids: np.ndarray | pa.Array) -> np.ndarray:
        """Collect `ids`; return them as integers, uint32 if they fit, which the caller keeps for `vertices`."""
        ...

    def finish(self) -> VertexIds:
        """Return the ids of all vertices; `add` may not be called after that."""
        ...

    def vertices(self, kept: np.ndarray) -> np.ndarray:
        """Return the vertices (n,) uint32 of ids that `add` returned; only after `finish`."""
        ...


class DeclaredIds:
    """Ids of a format that declares its number of vertices: they count up from `first_id`."""

    def __init__(self, n_vertices: int, first_id: int) -> None:
        self._n_vertices, self._first_id = n_vertices, first_id

    def add(self, ids: np.ndarray) -> np.ndarray:
        return _narrow(ids)

    def finish(self) -> VertexIds:
        return VertexIds(
            IdMapping(kind="offset", type="int64", first_id=self._first_id), None, self._n_vertices
        )

    def vertices(self, kept: np.ndarray) -> np.ndarray:
        return _shifted(kept, self._first_id)


class IntegerIds:
    """Integer ids of a format that does not declare them."""

    def __init__(self) -> None:
        self._bits = np.zeros(1024, np.uint64)
        self._large: list[np.ndarray] = []  # sorted and unique, each at least twice as long as the next
        self._first_id: int | None = None
        self._ranks = np.empty(0, np.int64)
        self._n_small = 0

    def add(self, ids: np.ndarray) -> np.ndarray:
        largest = int(ids.max(initial=0))
        small = ids
        if largest >= BITMAP_IDS:
            self._add_large(np.unique(ids[ids >= BITMAP_IDS]))
            small = ids[ids < BITMAP_IDS]
            largest = int(small.max(initial=0))
        words = largest // 64 + 1
        if words > len(self._bits):
            grown = np.zeros(min(max(words, 2 * len(self._bits)), BITMAP_IDS // 64), np.uint64)
            grown[: len(self._bits)] = self._bits
            self._bits = grown
        narrow = np.empty(len(small), np.uint32)
        _mark(self._bits, small, narrow)
        return narrow if small is ids else ids

    def _add_large(self, unique: np.ndarray) -> None:
        # Only arrays of similar length are merged, so that the total work is O(n log n).
        while self._large and len(self._large[-1]) < 2 * len(unique):
            unique = np.union1d(self._large.pop(), unique)
        self._large.append(unique)

    def finish(self) -> VertexIds:
        per_word = np.bitwise_count(self._bits)
        self._ranks = np.zeros(len(per_word) + 1, np.int64)
        np.cumsum(per_word, out=self._ranks[1:])
        self._n_small = int(self._ranks[-1])
        large = np.unique(np.concatenate(self._large)) if self._large else np.empty(0, np.int64)
        self._large = [large]
        n_vertices = self._n_small + len(large)
        first, last = self._ends_of_small()
        if len(large):
            first, last = first if self._n_small else int(large[0]), int(large[-1])
        if last - first + 1 == n_vertices:
            self._first_id = first
            return VertexIds(IdMapping(kind="offset", type="int64", first_id=first), None, n_vertices)
        small = np.empty(self._n_small, np.int64)
        _write_marked_ids(self._bits, small)
        table = pa.array(np.concatenate([small, large]))
        return VertexIds(IdMapping(kind="table", type="int64"), table, n_vertices)

    def _ends_of_small(self) -> tuple[int, int]:
        """Return the smallest and the largest id in the bitmap; 0 and -1 without any."""
        used = np.flatnonzero(self._bits)
        if not len(used):
            return 0, -1
        low, high = int(self._bits[used[0]]), int(self._bits[used[-1]])
        lowest = 64 * int(used[0]) + (low & -low).bit_length() - 1
        return lowest, 64 * int(used[-1]) + high.bit_length() - 1

    def vertices(self, kept: np.ndarray) -> np.ndarray:
        if self._first_id is not None:
            return _shifted(kept, self._first_id)
        vertices = np.empty(len(kept), np.uint32)
        _write_ranks(kept, self._bits, self._ranks, vertices)
        if len(self._large[0]):
            beyond = np.flatnonzero(kept >= BITMAP_IDS)
            vertices[beyond] = self._n_small + np.searchsorted(self._large[0], kept[beyond])
        return vertices


class StringIds:
    """String ids; they are numbered in the order of their arrival, and in ascending order at the end."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._sorted_position = np.empty(0, np.uint32)

    def add(self, ids: pa.Array) -> np.ndarray:
        encoded = ids.dictionary_encode()
        numbers = self._numbers
        local = [numbers.setdefault(name, len(numbers)) for name in encoded.dictionary.to_pylist()]
        return _narrow(np.array(local, np.int64)[encoded.indices.to_numpy()])

    def finish(self) -> VertexIds:
        names = sorted(self._numbers)
        self._sorted_position = np.empty(len(names), np.uint32)
        self._sorted_position[[self._numbers[name] for name in names]] = np.arange(len(names))
        self._numbers.clear()
        return VertexIds(
            IdMapping(kind="table", type="string"), pa.array(names, pa.large_string()), len(names)
        )

    def vertices(self, kept: np.ndarray) -> np.ndarray:
        return self._sorted_position[kept]


def _narrow(kept: np.ndarray) -> np.ndarray:
    return kept.astype(np.uint32) if int(kept.max(initial=0)) < 2**32 else kept


def _shifted(kept: np.ndarray, first_id: int) -> np.ndarray:
    return (kept - kept.dtype.type(first_id) if first_id else kept).astype(np.uint32, copy=False)


def collector(id_kind: str, n_vertices: int | None, first_id: int) -> IdCollector:
    """Return the collector for ids of kind `id_kind`; `n_vertices` is None unless the format declares it."""
    if n_vertices is not None:
        return DeclaredIds(n_vertices, first_id)
    return StringIds() if id_kind == "string" else IntegerIds()


@njit(nogil=True)
def _mark(bits: np.ndarray, ids: np.ndarray, narrow: np.ndarray) -> None:
    """Set the bits of `ids` and write them to `narrow` (n,) uint32."""
    one = np.uint64(1)
    for i in range(len(ids)):
        v = np.uint64(ids[i])
        narrow[i] = v
        bits[v >> np.uint64(6)] |= one << (v & np.uint64(63))


@njit(nogil=True)
def _write_marked_ids(bits: np.ndarray, out: np.ndarray) -> None:
    n = 0
    for word in range(len(bits)):
        rest = bits[word]
        while rest:
            lowest = rest & (~rest + np.uint64(1))
            out[n] = 64 * word + _population(lowest - np.uint64(1))
            n += 1
            rest ^= lowest


@njit(nogil=True)
def _write_ranks(ids: np.ndarray, bits: np.ndarray, ranks: np.ndarray, out: np.ndarray) -> None:
    one = np.uint64(1)
    n_ids = np.uint64(64 * len(bits))
    for i in range(len(ids)):
        v = np.uint64(ids[i])
        if v >= n_ids:
            continue
        word = v >> np.uint64(6)
        below = bits[word] & ((one << (v & np.uint64(63))) - one)
        out[i] = ranks[word] + _population(below)


@njit(nogil=True, inline="always")
def _population(x: np.uint64) -> np.int64:
    # numba has no population count.
    x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((x * np.uint64(0x0101010101010101)) >> np.uint64(56))
