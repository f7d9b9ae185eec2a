"""CSR build: compiled loops that turn edges into sorted rows, without the GIL.

Each chunk of edges is grouped by ranges of sources. For a range of rows, a first pass over its edges counts the edges
of each row. A second pass writes every edge to the next free place of its row. Then each row is sorted in place.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np

from sssp_pipeline.csr import CsrGraph
from sssp_pipeline.kernels.host.numba_tools import bit_length, prefetch
from sssp_pipeline.numba_cache import njit

#: Ranges with fewer edges are sorted by insertion.
_INSERTION = 24
#: Rows of keys with at most so many edges are sorted by insertion.
_SHORT = 40
#: How many edges in advance memory is prefetched: about as many as are placed during one cache miss.
_AHEAD = 16
#: The highest bits of the sources by which the edges of a chunk are grouped. The places where groups grow fit a cache.
_GROUP_BITS = 10
#: The most pending ranges of a quicksort. Its longer half always waits, so this is enough for 2^63 edges.
_STACK = 64


def csr_of_edges(
    src: np.ndarray, dst: np.ndarray, weights: np.ndarray, n_vertices: int, *, mirror: bool
) -> CsrGraph:
    """Return the graph of edges in memory, with rows sorted by target and weight; parallel edges are kept.

    Parameters
    ----------
    src, dst
        (E,) uint32 below `n_vertices`.
    weights
        (E,) of one of `csr.WEIGHT_DTYPES`.
    mirror
        Whether to add the reverse of every edge but self-loops.
    """
    if mirror:
        src, dst, bits, *_ = grouped_by_source(src, dst, bits_of(weights), False, True)
        weights = bits.view(weights.dtype)
    return CsrGraph(*rows_between(0, n_vertices, src, dst, weights)).check()


def sources_of_edges(graph: CsrGraph) -> np.ndarray:
    """Return the vertex where each edge starts, (E,) uint32."""
    return np.repeat(np.arange(graph.n_vertices, dtype=np.uint32), np.diff(graph.row_offsets))


@njit(nogil=True)
def grouped_by_source(
    src: np.ndarray,
    dst: np.ndarray,
    weights: np.ndarray,
    drop_loops: bool,
    mirror: bool,
    group_bits: int = _GROUP_BITS,
) -> tuple:
    """Return new arrays of the edges, grouped by ranges of sources: a stable partition by their highest bits.

    Parameters
    ----------
    src, dst
        (n,) uint32.
    weights
        (n,), or (0,) without weights.
    drop_loops, mirror
        Whether self-loops are left out, and whether the reverse of each other edge follows it.
    group_bits
        There are at most 2 to the power of so many groups.

    Returns
    -------
    tuple
        Sources, targets and weights; the positions (G + 1,) int64 where the groups begin; the first source of the first
        group; the number of sources in a group as a power of two; and the number of self-loops.
    """
    has_weights = len(weights) > 0
    loops = 0
    low, high = np.uint32(0xFFFFFFFF), np.uint32(0)
    for i in range(len(src)):
        loops += src[i] == dst[i]
        low, high = min(low, src[i]), max(high, src[i])
    if mirror:
        for i in range(len(src)):
            low, high = min(low, dst[i]), max(high, dst[i])
    if len(src) == 0:
        low = high
    n_bits: Any = np.int64(bit_length(np.uint64(high - low)))
    shift = np.uint32(max(0, n_bits - group_bits))
    low = (
        low >> shift
    ) << shift  # so the groups of most runs have the same limits, and a range reads no half group
    n_groups: Any = np.int64((high - low) >> shift) + 1
    starts = np.zeros(n_groups + 1, np.int64)
    for i in range(len(src)):
        if src[i] != dst[i]:
            starts[((src[i] - low) >> shift) + 1] += 1
            if mirror:
                starts[((dst[i] - low) >> shift) + 1] += 1
        elif not drop_loops:
            starts[((src[i] - low) >> shift) + 1] += 1
    for group in range(len(starts) - 1):
        starts[group + 1] += starts[group]
    n = starts[-1]
    sources, targets = np.empty(n, np.uint32), np.empty(n, np.uint32)
    values = np.empty(n if has_weights else 0, weights.dtype)
    cursors = starts.copy()
    for i in range(len(src)):
        u, v = src[i], dst[i]
        if u != v or not drop_loops:
            group = (u - low) >> shift
            at = cursors[group]
            cursors[group] = at + 1
            sources[at], targets[at] = u, v
            if has_weights:
                values[at] = weights[i]
        if mirror and u != v:
            group = (v - low) >> shift
            at = cursors[group]
            cursors[group] = at + 1
            sources[at], targets[at] = v, u
            if has_weights:
                values[at] = weights[i]
    return sources, targets, values, starts, low, shift, loops


@njit(nogil=True)
def count_rows(src: np.ndarray, first: int, last: int, row_ends: np.ndarray) -> None:
    """Add the number of edges from each vertex `v` of [first, last) to `row_ends[v - first + 1]`."""
    for i in range(len(src)):
        u = np.intp(src[i])
        if first <= u < last:
            row_ends[u - first + 1] += 1


@njit(nogil=True)
def place_edges(
    first: int,
    last: int,
    src: np.ndarray,
    dst: np.ndarray,
    bits: np.ndarray,
    cursors: np.ndarray,
    keys: np.ndarray,
    weights: np.ndarray,
) -> None:
    """Write the edges from the vertices [first, last) row by row.

    Parameters
    ----------
    bits
        (n,) uint32 or uint64; the bits of the weights.
    cursors
        (last - first,); the next free place of each row.
    keys, weights
        (E,) uint64 and (0,): a key is the target and the bits of the weight. Or, with bits of 8 bytes, (E,) uint32 the
        targets and (E,) uint64.
    """
    in_key = bits.itemsize == 4
    n = len(src)
    for i in range(n):
        # An edge causes two cache misses, one of which needs the result of the other: prefetch in two steps.
        if i + 2 * _AHEAD < n:
            soon = np.intp(src[i + 2 * _AHEAD])
            if first <= soon < last:
                prefetch(cursors, soon - first)
            soon = np.intp(src[i + _AHEAD])
            if first <= soon < last:
                prefetch(keys, cursors[soon - first])
        u = np.intp(src[i])
        if first <= u < last:
            at = cursors[u - first]
            cursors[u - first] = at + 1
            if in_key:
                keys[at] = (np.uint64(dst[i]) << np.uint64(32)) | np.uint64(bits[i])
            else:
                keys[at], weights[at] = dst[i], bits[i]


def rows_between(
    first: int, last: int, src: np.ndarray, dst: np.ndarray, weights: np.ndarray, *, lightest: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return row offsets, targets and weights of the rows [first, last), sorted by target and then by weight.

    Edges (E,) from other vertices are left out, and with `lightest` all but the lightest of the edges with equal ends.
    The row offsets (last - first + 1,) int64 begin with 0.
    """
    row_offsets = np.zeros(last - first + 1, np.int64)
    count_rows(src, first, last, row_offsets)
    np.cumsum(row_offsets, out=row_offsets)
    n = int(row_offsets[-1])
    cursors = row_offsets[:-1].copy()
    col_indices = np.empty(n, np.uint32)
    if weights.dtype.itemsize == 4:
        # Target and weight are one number, whose order is theirs.
        bits, keys = ordered_bits(weights), np.empty(n, np.uint64)
        place_edges(first, last, src, dst, bits, cursors, keys, keys[:0])
        sort_keys(row_offsets, keys)
        bits = np.empty(n, np.uint32)
        n = unpack_rows(row_offsets, keys, lightest, col_indices, bits)
        return row_offsets, col_indices[:n], from_ordered_bits(bits[:n], weights.dtype)
    placed = np.empty(n, weights.dtype)
    place_edges(first, last, src, dst, bits_of(weights), cursors, col_indices, bits_of(placed))
    sort_rows(row_offsets, 0, last - first, col_indices, placed)
    if lightest:
        n = int(keep_first(row_offsets, col_indices, placed))
    return row_offsets, col_indices[:n], placed[:n]


def ordered_bits(weights: np.ndarray) -> np.ndarray:
    """Return uint32 (n,) in the order of the 4-byte `weights`."""
    bits = bits_of(weights)
    if weights.dtype.kind == "u":
        return bits
    sign = np.uint32(1 << 31)
    # The bits of a negative float ascend with its magnitude.
    return np.where(bits & sign, ~bits, bits | sign) if weights.dtype.kind == "f" else bits ^ sign


def from_ordered_bits(bits: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return the weights (n,) whose `ordered_bits` are `bits`."""
    sign = np.uint32(1 << 31)
    if dtype.kind == "f":
        bits = np.where(bits & sign, bits ^ sign, ~bits)
    elif dtype.kind == "i":
        bits = bits ^ sign
    return bits.view(dtype)


@njit(nogil=True)
def sort_keys(row_offsets: np.ndarray, keys: np.ndarray) -> None:
    """Sort the keys of each row."""
    for v in range(len(row_offsets) - 1):
        begin, end = row_offsets[v], row_offsets[v + 1]
        if end - begin > _SHORT:
            keys[begin:end].sort()
            continue
        for i in range(begin + 1, end):
            key = keys[i]
            j = i
            while j > begin and keys[j - 1] > key:
                keys[j] = keys[j - 1]
                j -= 1
            keys[j] = key


@njit(nogil=True)
def unpack_rows(
    row_offsets: np.ndarray, keys: np.ndarray, lightest: bool, col_indices: np.ndarray, bits: np.ndarray
) -> int:
    """Write the two halves of sorted `keys` to `col_indices` and `bits`; return how many edges there are.

    With `lightest`, only the first edge of those with equal ends is written, and `row_offsets` become those of these.
    """
    write = 0
    begin = row_offsets[0]
    for v in range(len(row_offsets) - 1):
        end = row_offsets[v + 1]
        for e in range(begin, end):
            target = keys[e] >> np.uint64(32)
            if lightest and e > begin and target == keys[e - 1] >> np.uint64(32):
                continue
            col_indices[write] = target
            bits[write] = keys[e]
            write += 1
        begin = end
        row_offsets[v + 1] = write
    return write


def bits_of(weights: np.ndarray) -> np.ndarray:
    """Return the bits of `weights` (n,) as unsigned integers: so few types are enough for compiled loops."""
    return weights.view(f"u{weights.dtype.itemsize}")


def row_ranges(row_offsets: np.ndarray, pieces: int) -> list[tuple[int, int]]:
    """Return at most `pieces` half-open ranges that cover all rows, with about equally many edges."""
    targets = np.linspace(0, row_offsets[-1], pieces + 1)[1:-1]
    bounds = [0, *np.searchsorted(row_offsets, targets).tolist(), len(row_offsets) - 1]
    return [(a, b) for a, b in pairwise(bounds) if a < b]


def in_parallel(function: Callable, row_offsets: np.ndarray, threads: int, *args: np.ndarray) -> list:
    """Call `function(row_offsets, first, last, *args)` on several threads, for ranges that cover all rows."""
    with ThreadPoolExecutor(threads) as pool:
        return list(
            pool.map(lambda r: function(row_offsets, *r, *args), row_ranges(row_offsets, 8 * threads))
        )


@njit(nogil=True)
def sort_rows(
    row_offsets: np.ndarray, first: int, last: int, col_indices: np.ndarray, weights: np.ndarray
) -> None:
    """Sort the edges of each row in [first, last) by target and then by weight."""
    stack = np.empty(2 * _STACK, np.int64)
    for v in range(first, last):
        _sort_pairs(col_indices, weights, row_offsets[v], row_offsets[v + 1] - 1, stack)


@njit(nogil=True, inline="always")
def _less(col_a: int, weight_a: float, col_b: int, weight_b: float) -> bool:
    return col_a < col_b or (col_a == col_b and weight_a < weight_b)


@njit(nogil=True)
def _sort_pairs(cols: np.ndarray, weights: np.ndarray, lo: int, hi: int, stack: np.ndarray) -> None:
    depth = 0
    while True:
        while hi - lo >= _INSERTION:
            # Quicksort, pivot the median of three. Equal keys stop both scans, so ties give halves of equal size.
            mid = (lo + hi) >> 1
            for k in range(3):  # a loop with one call, because numba compiles every call on its own
                _order(cols, weights, mid if k == 1 else lo, hi if k == 1 else mid)
            pivot_col, pivot_weight = cols[mid], weights[mid]
            i, j = lo, hi
            while i <= j:
                while _less(cols[i], weights[i], pivot_col, pivot_weight):
                    i += 1
                while _less(pivot_col, pivot_weight, cols[j], weights[j]):
                    j -= 1
                if i <= j:
                    cols[i], cols[j] = cols[j], cols[i]
                    weights[i], weights[j] = weights[j], weights[i]
                    i += 1
                    j -= 1
            if j - lo < hi - i:
                stack[depth], stack[depth + 1] = i, hi
                hi = j
            else:
                stack[depth], stack[depth + 1] = lo, j
                lo = i
            depth += 2
        for i in range(lo + 1, hi + 1):
            col, weight = cols[i], weights[i]
            j = i
            while j > lo and _less(col, weight, cols[j - 1], weights[j - 1]):
                cols[j], weights[j] = cols[j - 1], weights[j - 1]
                j -= 1
            cols[j], weights[j] = col, weight
        if depth == 0:
            return
        depth -= 2
        lo, hi = stack[depth], stack[depth + 1]


@njit(nogil=True, inline="always")
def _order(cols: np.ndarray, weights: np.ndarray, a: int, b: int) -> None:
    if _less(cols[b], weights[b], cols[a], weights[a]):
        cols[a], cols[b] = cols[b], cols[a]
        weights[a], weights[b] = weights[b], weights[a]


@njit(nogil=True)
def first_duplicate(row_offsets: np.ndarray, col_indices: np.ndarray) -> int:
    """Return the index of the first edge that has the same target as the edge before it in its row, or -1."""
    for v in range(len(row_offsets) - 1):
        for e in range(row_offsets[v] + 1, row_offsets[v + 1]):
            if col_indices[e] == col_indices[e - 1]:
                return e
    return -1


@njit(nogil=True)
def keep_first(row_offsets: np.ndarray, col_indices: np.ndarray, weights: np.ndarray) -> int:
    """Keep only the first, lightest edge of those with equal ends; return how many edges remain."""
    write = 0
    begin = row_offsets[0]
    for v in range(len(row_offsets) - 1):
        end = row_offsets[v + 1]
        for e in range(begin, end):
            if e > begin and col_indices[e] == col_indices[e - 1]:
                continue
            col_indices[write] = col_indices[e]
            weights[write] = weights[e]
            write += 1
        begin = end
        row_offsets[v + 1] = write
    return write


@njit(nogil=True)
def first_one_way(
    row_offsets: np.ndarray,
    first: int,
    last: int,
    col_indices: np.ndarray,
    weights: np.ndarray,
    first_vertex: int = 0,
) -> int:
    """Return the index of the first edge in the rows [first, last) without a reverse of the same weight, or -1.

    Row 0 is that of `first_vertex`. Edges to vertices without a row are not looked at.
    """
    for u in range(first, last):
        for e in range(row_offsets[u], row_offsets[u + 1]):
            v = np.intp(col_indices[e]) - first_vertex
            if v < 0 or v >= len(row_offsets) - 1:
                continue
            lo, hi = row_offsets[v], row_offsets[v + 1]
            while lo < hi:
                mid = (lo + hi) >> 1
                if _less(col_indices[mid], weights[mid], u + first_vertex, weights[e]):
                    lo = mid + 1
                else:
                    hi = mid
            if lo == row_offsets[v + 1] or col_indices[lo] != u + first_vertex or weights[lo] != weights[e]:
                return e
    return -1


@njit(nogil=True)
def reverse_difference(
    first: int, row_offsets: np.ndarray, col_indices: np.ndarray, weights: np.ndarray, keys: np.ndarray
) -> Any:
    """Return the sum of the hashes of the edges in sorted rows, minus those of their reverses, modulo 2^64.

    If every edge has a reverse of the same weight, the sum over all rows is 0. Otherwise it is 0 by a chance of 2^-64.
    Equal edges count once.

    Parameters
    ----------
    first
        The vertex of the first row.
    weights
        (E,) the bits of the weights, uint32 or uint64.
    keys
        (2,) uint64, random; the first is odd.
    """
    total = np.uint64(0)
    for row in range(len(row_offsets) - 1):
        u = np.uint64(first + row)
        for e in range(row_offsets[row], row_offsets[row + 1]):
            if e > row_offsets[row] and col_indices[e] == col_indices[e - 1] and weights[e] == weights[e - 1]:
                continue
            v = np.uint64(col_indices[e])
            salt = np.uint64(weights[e]) * keys[0] + keys[1]
            total += _mixed(((u << np.uint64(32)) | v) ^ salt) - _mixed(((v << np.uint64(32)) | u) ^ salt)
    return total


@njit(nogil=True, inline="always")
def _mixed(x: np.uint64) -> np.uint64:
    """Return the bits of `x` mixed, as SplitMix64 does (Steele, Lea, Flood, OOPSLA 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
