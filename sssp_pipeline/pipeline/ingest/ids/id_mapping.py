"""Id mapping: collects the ids of an edge list while its edges are read, then translates them to vertex numbers.

Vertices are numbered in ascending order of their ids. So the numbering does not depend on the order of the edges, and
an id is found by bisection. Consecutive integer ids need no table.

While edges are read, each id is kept as a code of 32 bits. Codes have the order of the ids. Small integers are their
own codes, and a bitmap marks them. Larger integers and strings have codes that are valid in one chunk only: `id_runs`
keeps the ids of each chunk, and numbers all of them at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.base.scratch import Scratch
from sssp_pipeline.base.vertex_ids import IdMapping, VertexIds
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.kernels.host.numba_tools import atomic_or, one_bits, trailing_zeros
from sssp_pipeline.pipeline.ingest.ids.id_runs import IntegerRuns, StringRuns, unique_strings
from sssp_pipeline.pipeline.ingest.spill import Spill

#: Smaller ids are marked in a bitmap of 256 MiB. Only its used pages take memory.
BITMAP_IDS = 2**31
#: The number of a chunk whose codes are valid in all chunks.
EVERYWHERE = -1
#: The words of the bitmap that are read at a time into the table of ids: 2^20 ids.
_WORDS = 1 << 14


class IdCollector(Protocol):
    """Collects all ids, chunk by chunk, and then translates them to vertices. Several threads may call `add`."""

    def add(
        self, src: np.ndarray | pa.Array, dst: np.ndarray | pa.Array
    ) -> tuple[np.ndarray, np.ndarray, int]:
        """Collect the ids of a chunk; return the codes of both ends, (n,) uint32 each, and the number of the chunk.

        The codes are valid until the same thread adds another chunk.
        """
        ...

    def finish(self) -> VertexIds:
        """Return the ids of all vertices; `add` may not be called after that."""
        ...

    @property
    def has_chunks(self) -> bool:
        """Whether a chunk has a number other than `EVERYWHERE`. Otherwise codes can be compared across chunks."""
        ...

    def vertices(self, codes: np.ndarray, chunk: int) -> np.ndarray:
        """Return the vertices (n,) uint32 of codes in a chunk; only after `finish`.

        For a code of `EVERYWHERE` that no id has, it is the first vertex with a larger id.
        """
        ...


class Numbering(Protocol):
    """The vertices of codes that are valid in all chunks."""

    def vertices(self, codes: np.ndarray, chunk: int) -> np.ndarray:
        """Return the vertices (n,) uint32 of codes; `chunk` is `EVERYWHERE`."""
        ...


class MarkedIds:
    """Integer ids that are marked in a bitmap, (W,) uint64; each is its own code."""

    def __init__(self, bits: np.ndarray) -> None:
        self._bits = bits
        self._ranks = np.zeros(len(bits) + 1, np.uint32)
        _count_ones(self._bits, self._ranks)

    def __len__(self) -> int:
        return int(self._ranks[-1])

    def vertices(self, codes: np.ndarray, chunk: int) -> np.ndarray:
        vertices = np.empty(len(codes), np.uint32)
        _write_ranks(codes, self._bits, self._ranks, vertices)
        return vertices

    def ends(self) -> tuple[int, int]:
        """Return the smallest and the largest id; 0 and -1 without any."""
        used = np.flatnonzero(self._bits)
        if not len(used):
            return 0, -1
        low, high = int(self._bits[used[0]]), int(self._bits[used[-1]])
        lowest = 64 * int(used[0]) + (low & -low).bit_length() - 1
        return lowest, 64 * int(used[-1]) + high.bit_length() - 1

    def blocks(self) -> Iterator[np.ndarray]:
        """Give all ids in ascending order, (n,) int64, some at a time."""
        for begin in range(0, len(self._bits), _WORDS):
            yield self._written(begin, np.empty(self._n_of(begin), np.int64))

    def all(self) -> np.ndarray:
        """Return all ids in ascending order, (n,) int64; every core writes some."""
        ids = np.empty(len(self), np.int64)

        def write(begin: int) -> None:
            first = int(self._ranks[begin])
            self._written(begin, ids[first : first + self._n_of(begin)])

        with ThreadPoolExecutor(usable_cores()) as pool:
            list(pool.map(write, range(0, len(self._bits), _WORDS)))
        return ids

    def _n_of(self, begin: int) -> int:
        """Return the number of ids in the words from `begin` on that are read at a time."""
        return int(self._ranks[min(begin + _WORDS, len(self._bits))] - self._ranks[begin])

    def _written(self, begin: int, ids: np.ndarray) -> np.ndarray:
        """Write the ids in these words to `ids` (n,) int64, and return it."""
        _write_marked_ids(self._bits[begin : begin + _WORDS], 64 * begin, ids)
        return ids


class DeclaredIds:
    """Ids of a format that declares its number of vertices: they count up from `first_id`."""

    has_chunks = False

    def __init__(self, n_vertices: int, first_id: int) -> None:
        self._n_vertices, self._first_id = n_vertices, first_id
        self._scratch = Scratch()

    def add(self, src: np.ndarray, dst: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
        codes = _codes(self._scratch, src, dst)
        codes[0][:], codes[1][:] = src, dst
        return *codes, EVERYWHERE

    def finish(self) -> VertexIds:
        return _counted(self._first_id, self._n_vertices)

    def vertices(self, codes: np.ndarray, chunk: int) -> np.ndarray:
        return _shifted(codes, self._first_id)


class IntegerIds:
    """Integer ids of a format that does not declare them; `one_thread` says that only one thread adds them."""

    def __init__(self, spill: Spill, memory_bytes: int, one_thread: bool = False) -> None:
        self._one_thread = one_thread
        # A bitmap of a fixed length never moves, so that several threads can mark ids in it.
        n_ids = min(BITMAP_IDS, max(64, 1 << (memory_bytes.bit_length() - 1)))
        self._n_ids = n_ids
        self._bits = np.zeros(n_ids // 64, np.uint64)
        self._n_words = 0
        self._lock = Lock()
        self._scratch = Scratch()
        self._large = IntegerRuns(spill, memory_bytes)
        self._first_id: int | None = None
        self._small = MarkedIds(self._bits[:0])

    @property
    def marked(self) -> np.ndarray:
        """The bitmap (W,) uint64 of the ids that are their own codes."""
        return self._bits[: self._n_words]

    def mark(self, bits: np.ndarray) -> None:
        """Collect the ids of `marked`, of a collector that may take as much memory; only one thread may do so."""
        self._n_words = max(self._n_words, len(bits))
        self._bits[: len(bits)] |= bits

    def add(self, src: np.ndarray, dst: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
        codes = _codes(self._scratch, src, dst)
        found = [
            _mark(self._bits, ids, code, self._one_thread)
            for ids, code in zip((src, dst), codes, strict=True)
        ]
        with self._lock:
            self._n_words = max(self._n_words, *(int(n_words) for n_words, _ in found))
        if max(int(largest) for _, largest in found) < self._n_ids:
            return *codes, EVERYWHERE
        beyond = [np.flatnonzero(ids >= self._n_ids) for ids in (src, dst)]
        unique, places = np.unique(np.concatenate([src[beyond[0]], dst[beyond[1]]]), return_inverse=True)
        codes[0][beyond[0]] = self._n_ids + places[: len(beyond[0])]
        codes[1][beyond[1]] = self._n_ids + places[len(beyond[0]) :]
        return *codes, self._large.add(unique)

    @property
    def has_chunks(self) -> bool:
        return len(self._large) > 0

    def finish(self) -> VertexIds:
        self._small = MarkedIds(self.marked)
        n_small = len(self._small)
        first, last = self._small.ends()
        if not self.has_chunks and last - first + 1 == n_small:
            self._first_id = first
            return _counted(first, n_small)
        for ids in [self._small.all()] if self._large.holds(n_small) else self._small.blocks():
            self._large.append(ids)
        n_vertices = n_small + self._large.merge(n_small)
        table = self._large.table()
        if table[-1].as_py() - table[0].as_py() + 1 == n_vertices:
            return _counted(table[0].as_py(), n_vertices)
        return VertexIds(IdMapping(kind="table", type="int64"), table, n_vertices)

    def vertices(self, codes: np.ndarray, chunk: int) -> np.ndarray:
        if self._first_id is not None:
            return _shifted(codes, self._first_id)
        vertices = self._small.vertices(codes, EVERYWHERE)
        if chunk != EVERYWHERE:
            beyond = np.flatnonzero(codes >= self._n_ids)
            vertices[beyond] = self._large.numbers(chunk)[codes[beyond] - self._n_ids]
        return vertices


class StringIds:
    """String ids."""

    def __init__(self, spill: Spill, memory_bytes: int) -> None:
        self._runs = StringRuns(spill, memory_bytes)

    def add(self, src: pa.Array, dst: pa.Array) -> tuple[np.ndarray, np.ndarray, int]:
        unique, places = unique_strings(pa.concat_arrays([src, dst]))
        return places[: len(src)], places[len(src) :], self._runs.add(unique)

    has_chunks = True

    def finish(self) -> VertexIds:
        n_vertices = self._runs.merge(0)
        return VertexIds(IdMapping(kind="table", type="string"), self._runs.table(), n_vertices)

    def vertices(self, codes: np.ndarray, chunk: int) -> np.ndarray:
        return self._runs.numbers(chunk)[codes]


def _codes(scratch: Scratch, src: np.ndarray, dst: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return room for the codes of both ends, of this thread."""
    return scratch.array("src", len(src), np.uint32), scratch.array("dst", len(dst), np.uint32)


def _counted(first_id: int, n_vertices: int) -> VertexIds:
    return VertexIds(IdMapping(kind="offset", type="int64", first_id=first_id), None, n_vertices)


def _shifted(codes: np.ndarray, first_id: int) -> np.ndarray:
    return codes - np.uint32(first_id) if first_id else codes


def collector(
    id_kind: str,
    n_vertices: int | None,
    first_id: int,
    spill: Spill,
    memory_bytes: int,
    one_thread: bool = False,
) -> IdCollector:
    """Return the collector for ids of kind `id_kind`; `n_vertices` is None unless the format declares it.

    It takes some part of `memory_bytes` itself, and keeps all else in `spill`. With `one_thread`, only one thread adds
    ids.
    """
    if n_vertices is not None:
        return DeclaredIds(n_vertices, first_id)
    if id_kind == "string":
        return StringIds(spill, memory_bytes)
    return IntegerIds(spill, memory_bytes, one_thread)


@njit(nogil=True)
def _mark(bits: np.ndarray, ids: np.ndarray, codes: np.ndarray, one_thread: bool) -> Any:
    """Set the bits of `ids` and write them to `codes` (n,) uint32; those beyond the bits are left.

    Return the number of words up to the last of these bits, and the largest id. Several threads may set bits at once,
    unless there is `one_thread`, which takes half as long.
    """
    one = np.uint64(1)
    n_ids = np.uint64(64 * len(bits))
    largest, largest_marked = np.uint64(0), np.int64(-64)
    for i in range(len(ids)):
        v = np.uint64(ids[i])
        largest = max(largest, v)
        codes[i] = v
        if v < n_ids:
            largest_marked = max(largest_marked, np.int64(v))
            word, bit = v >> np.uint64(6), one << (v & np.uint64(63))
            if one_thread:
                bits[word] |= bit
            elif not bits[word] & bit:
                atomic_or(bits, word, bit)
    return (largest_marked >> np.int64(6)) + 1, np.int64(largest)


@njit(nogil=True)
def _count_ones(bits: np.ndarray, ranks: np.ndarray) -> None:
    """Set `ranks`, (W + 1,), to the number of set bits before each word of `bits`, (W,), and last to their total."""
    n = np.uint64(0)
    for word in range(len(bits)):
        ranks[word] = n
        n += one_bits(bits[word])
    ranks[len(bits)] = n


@njit(nogil=True)
def _write_marked_ids(bits: np.ndarray, first: int, out: np.ndarray) -> None:
    n = 0
    for word in range(len(bits)):
        rest = bits[word]
        while rest:
            out[n] = first + 64 * word + np.int64(trailing_zeros(rest))
            n += 1
            rest &= rest - np.uint64(1)


@njit(nogil=True)
def _write_ranks(codes: np.ndarray, bits: np.ndarray, ranks: np.ndarray, out: np.ndarray) -> None:
    one = np.uint64(1)
    n_ids = np.uint64(64 * len(bits))
    for i in range(len(codes)):
        v = np.uint64(codes[i])
        word = v >> np.uint64(6)
        if v >= n_ids:
            out[i] = ranks[len(bits)]
        else:
            out[i] = ranks[word] + one_bits(bits[word] & ((one << (v & np.uint64(63))) - one))
