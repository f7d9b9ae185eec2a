"""CSR build: compiled loops that turn a stream of edges into sorted rows, without the GIL and without allocating.

A first pass over all edges counts the edges of each row. A second pass writes every edge to the next free place of its
row. Then each row is sorted in place. So the CSR arrays are all the memory that this needs.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np

from sssp_pipeline.csr import CsrGraph
from sssp_pipeline.kernels.host.numba_tools import prefetch
from sssp_pipeline.numba_cache import njit

#: Ranges with fewer edges are sorted by insertion.
_INSERTION = 24
#: How many edges in advance memory is prefetched: about as many as are placed during one cache miss.
_AHEAD = 16
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
    row_offsets = np.zeros(n_vertices + 1, np.int64)
    count_rows(src, dst, False, mirror, row_offsets)
    np.cumsum(row_offsets, out=row_offsets)
    col_indices = np.empty(row_offsets[-1], np.uint32)
    placed = np.empty(row_offsets[-1], weights.dtype)
    place_edges(0, n_vertices, src, dst, weights, False, mirror, row_offsets[:-1].copy(), col_indices, placed)
    sort_rows(row_offsets, 0, n_vertices, col_indices, placed)
    return CsrGraph(row_offsets, col_indices, placed).check()


def sources_of_edges(graph: CsrGraph) -> np.ndarray:
    """Return the vertex where each edge starts, (E,) uint32."""
    return np.repeat(np.arange(graph.n_vertices, dtype=np.uint32), np.diff(graph.row_offsets))


@njit(nogil=True)
def count_rows(src: np.ndarray, dst: np.ndarray, drop_loops: bool, mirror: bool, row_ends: np.ndarray) -> int:
    """Add the number of edges from each vertex `v` to `row_ends[v + 1]`, (V+1,); return the number of self-loops."""
    loops = 0
    for i in range(len(src)):
        u, v = np.intp(src[i]), np.intp(dst[i])
        if u == v:
            loops += 1
            if not drop_loops:
                row_ends[u + 1] += 1
            continue
        row_ends[u + 1] += 1
        if mirror:
            row_ends[v + 1] += 1
    return loops


@njit(nogil=True)
def place_edges(
    first: int,
    last: int,
    src: np.ndarray,
    dst: np.ndarray,
    weights: np.ndarray,
    drop_loops: bool,
    mirror: bool,
    cursors: np.ndarray,
    col_indices: np.ndarray,
    out_weights: np.ndarray,
) -> None:
    """Write the edges of the rows [first, last) to these rows; `cursors[v]` is the next free place of row `v`.

    Several threads may work on the same edges at once if their ranges of rows do not overlap.
    """
    n = len(src)
    for i in range(n):
        # An edge causes three cache misses, each of which needs the result of the one before: prefetch in two steps.
        if i + 2 * _AHEAD < n:
            soon = np.intp(src[i + 2 * _AHEAD])
            if first <= soon < last:
                prefetch(cursors, soon)
            soon = np.intp(src[i + _AHEAD])
            if first <= soon < last:
                prefetch(col_indices, cursors[soon])
                prefetch(out_weights, cursors[soon])
        u, v = np.intp(src[i]), np.intp(dst[i])
        if u == v and drop_loops:
            continue
        if first <= u < last:
            at = cursors[u]
            cursors[u] = at + 1
            col_indices[at] = v
            out_weights[at] = weights[i]
        if mirror and u != v and first <= v < last:
            at = cursors[v]
            cursors[v] = at + 1
            col_indices[at] = u
            out_weights[at] = weights[i]


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
    row_offsets: np.ndarray, first: int, last: int, col_indices: np.ndarray, weights: np.ndarray
) -> int:
    """Return the index of the first edge in the rows [first, last) without a reverse of the same weight, or -1."""
    for u in range(first, last):
        for e in range(row_offsets[u], row_offsets[u + 1]):
            v = np.intp(col_indices[e])
            lo, hi = row_offsets[v], row_offsets[v + 1]
            while lo < hi:
                mid = (lo + hi) >> 1
                if _less(col_indices[mid], weights[mid], u, weights[e]):
                    lo = mid + 1
                else:
                    hi = mid
            if lo == row_offsets[v + 1] or col_indices[lo] != u or weights[lo] != weights[e]:
                return e
    return -1
