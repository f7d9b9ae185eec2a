"""The order of a graph by nested dissection in threads of this process, where METIS is not installed.

The idea: a separator gets the highest ranks, and each side is ordered in the same way, below it (`bisection.py`). No
edge joins the sides, so threads order them at the same time. Parts of at most `_SMALL` vertices are eliminated by the
least degree: the vertex with the fewest neighbours first, and then they are joined. Neighbours in separators count,
since they will be joined too: without them, orders have a tenth more triangles.

A part is a range of `vertices`, which becomes the order. `places` says where in it each vertex is, so a part needs no
graph of its own: its edges are those that lead into its range.

Keeps
    I1. A thread changes the places of the vertices of its range, within this range. So other threads see at any time
        that they are outside of theirs.
    I2. The order of a part depends on the order of its range and on its edges only. So the order of the graph does not
        depend on the number of threads.

References
----------
A. George, "Nested dissection of a regular finite element mesh", SIAM Journal on Numerical Analysis 10, 1973.
"""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import NO_VERTEX
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.hierarchy.dividing.bisection import bisected
from sssp_pipeline.kernels.hierarchy.dividing.separators import scratch_of
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO, one_bits, trailing_zeros

#: Weights of edges are added in 32 signed bits.
MOST = 2**31 - 1
#: A part of at most this many vertices is eliminated by the least degree.
_SMALL: Any = np.uint64(500)
#: The most neighbours outside of such a part that count. Parts of roads have some dozens.
_MOST_OUTSIDE: Any = np.uint64(4096)
#: A part of this many vertices becomes a task of its own.
_TASK: Any = np.uint64(4096)
#: The most parts that wait. A side has at most 0.6 of a part, so 2^32 vertices are divided 44 times.
_MOST_WAITING = 64
#: Spreads vertices over a table.
_PRIME: Any = np.uint64(2654435761)
_TWO: Any = np.uint64(2)
_BITS: Any = np.uint64(64)


def dissected(offsets: np.ndarray, neighbours: np.ndarray, n_threads: int | None = None) -> np.ndarray:
    """Return the vertices (V,) uint32 of a graph in the order in which they are eliminated.

    Parameters
    ----------
    offsets
        (V+1,) uint64; the neighbours of vertex `v` are `offsets[v]:offsets[v + 1]`.
    neighbours
        (N,) uint32; each pair of neighbours stands there in both directions.
    n_threads
        All cores if None. The order is the same.

    Raises
    ------
    InputError
        The graph has more than `MOST` pairs of neighbours.
    """
    if len(neighbours) > MOST:
        raise InputError(
            f"the graph has {len(neighbours)} pairs of neighbours, more than are ordered without METIS ({MOST})",
            hint="choose another solver; `sssp-pipeline solvers` lists all",
        )
    vertices, places = (np.arange(len(offsets) - 1, dtype=np.uint32) for _ in range(2))

    def order(first: int, end: int) -> list[list[int]]:
        """Order a part; return the ranges of the parts that are left."""
        left = np.empty((2, 2), np.uint64)
        n_left = _order(offsets, neighbours, vertices, places, np.uint64(first), np.uint64(end), left)
        found: list[list[int]] = left[: int(n_left)].tolist()
        return found

    pool = ThreadPoolExecutor(n_threads or usable_cores(), "sssp-order")
    try:
        running: set[Future[list[list[int]]]] = {pool.submit(order, 0, len(vertices))}
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            running |= {pool.submit(order, *part) for task in done for part in task.result()}
    finally:
        pool.shutdown(cancel_futures=True)
    return vertices


@njit(nogil=True)
def _order(
    offsets: np.ndarray,
    neighbours: np.ndarray,
    vertices: np.ndarray,
    places: np.ndarray,
    first: Any,
    end: Any,
    left: np.ndarray,
) -> Any:
    """Order the range from `first` to `end`, except for sides of `_TASK` vertices; return how many `left` has."""
    n_whole, n_left = end - first, ZERO
    scratch = scratch_of(n_whole)
    waiting = np.empty((_MOST_WAITING, 2), np.uint64)
    waiting[0, 0], waiting[0, 1] = first, end
    n_waiting = ONE
    while n_waiting > ZERO:
        n_waiting -= ONE
        first, end = waiting[n_waiting, 0], waiting[n_waiting, 1]
        if _TASK <= end - first < n_whole:
            left[n_left, 0], left[n_left, 1] = first, end
            n_left += ONE
            continue
        if end - first <= _SMALL:
            starts, heads, n_columns = _part(offsets, neighbours, vertices, places, first, end, _MOST_OUTSIDE)
            _permute(vertices, places, first, _by_least_degree(starts, heads, n_columns))
            continue
        starts, heads, _ = _part(offsets, neighbours, vertices, places, first, end, ZERO)
        order, n_first, n_both = _by_side(bisected(starts, heads, scratch))
        if min(n_first, n_both - n_first) == ZERO:
            continue  # nearly all are neighbours of each other, so that the order hardly matters
        _permute(vertices, places, first, order)
        waiting[n_waiting, 0], waiting[n_waiting, 1] = first, first + n_first
        waiting[n_waiting + ONE, 0], waiting[n_waiting + ONE, 1] = first + n_first, first + n_both
        n_waiting += _TWO
    return n_left


@njit(nogil=True)
def _part(
    offsets: np.ndarray,
    neighbours: np.ndarray,
    vertices: np.ndarray,
    places: np.ndarray,
    first: Any,
    end: Any,
    most_outside: Any,
) -> Any:
    """Return the graph of a range, `starts` and `heads`, and how many vertices it names.

    First come those of the range. Neighbours outside follow, up to `most_outside` of them; they have no rows.
    """
    n = end - first
    size = ZERO
    for i in range(first, end):
        size += offsets[np.uint64(vertices[i]) + ONE] - offsets[vertices[i]]
    starts, heads = np.zeros(n + ONE, np.uint64), np.empty(size, np.uint32)
    mask = ONE
    while mask < _TWO * min(size, most_outside):
        mask *= _TWO
    table = np.empty((mask, 2), np.uint32)  # vertices outside, and their new names
    table[:] = NO_VERTEX
    mask -= ONE
    n_named, size = n, ZERO
    for i in range(n):
        v = np.uint64(vertices[first + i])
        for e in range(offsets[v], offsets[v + ONE]):
            u = neighbours[e]
            place = np.uint64(places[u]) - first  # wraps for smaller places
            if place >= n:
                if most_outside == ZERO:
                    continue
                slot = (u * _PRIME >> np.uint64(8)) & mask
                while table[slot, 0] != u and table[slot, 0] != NO_VERTEX:
                    slot = (slot + ONE) & mask
                if table[slot, 0] == NO_VERTEX:
                    if n_named - n == most_outside:
                        continue
                    table[slot, 0], table[slot, 1] = u, n_named
                    n_named += ONE
                place = np.uint64(table[slot, 1])
            heads[size] = place
            size += ONE
        starts[i + ONE] = size
    return starts, heads[:size], n_named


@njit(nogil=True)
def _by_side(sides: np.ndarray) -> Any:
    """Return the vertices by their sides, the separator last, and how many are on side 0 and on both sides."""
    order = np.empty(len(sides), np.uint32)
    bounds = np.zeros(3, np.uint64)
    size = ZERO
    for side in range(np.uint64(3)):
        for v in range(np.uint64(len(sides))):
            if np.uint64(sides[v]) == side:
                order[size] = v
                size += ONE
        bounds[side] = size
    return order, bounds[0], bounds[1]


@njit(nogil=True)
def _permute(vertices: np.ndarray, places: np.ndarray, first: Any, order: np.ndarray) -> None:
    """Put the vertices of a range into the order (P,) uint32 of their places in it, which gets their names."""
    n = np.uint64(len(order))
    for i in range(n):
        order[i] = vertices[first + order[i]]
    for i in range(n):
        vertices[first + i], places[order[i]] = order[i], first + i


@njit(nogil=True)
def _by_least_degree(starts: np.ndarray, heads: np.ndarray, n_columns: Any) -> Any:
    """Return the vertices (P,) uint32 that have rows, the one with the fewest neighbours first; they are joined then.

    A row of bits has the neighbours of a vertex, and the vertex itself. Eliminated vertices stay in the rows.
    """
    n = np.uint64(len(starts)) - ONE
    n_words = (n_columns + _BITS - ONE) // _BITS
    rows, live = np.zeros((n, n_words), np.uint64), ~np.zeros(n_words, np.uint64)
    degrees, order = np.empty(n, np.uint64), np.empty(n, np.uint32)
    for v in range(n):
        order[v] = v
        rows[v, v // _BITS] |= ONE << v % _BITS
        for e in range(starts[v], starts[v + ONE]):
            rows[v, heads[e] // _BITS] |= ONE << heads[e] % _BITS
        degrees[v] = starts[v + ONE] - starts[v] + ONE
    for i in range(n):
        least = i
        for j in range(i + ONE, n):
            if degrees[order[j]] < degrees[order[least]]:
                least = j
        v = np.uint64(order[least])
        order[least], order[i] = order[i], v
        live[v // _BITS] &= ~(ONE << v % _BITS)
        for word in range(n_words):
            bits = rows[v, word] & live[word]
            while bits != ZERO:
                u = word * _BITS + trailing_zeros(bits)
                bits &= bits - ONE
                if u >= n:
                    break
                degree = ZERO
                for other in range(n_words):
                    rows[u, other] |= rows[v, other]
                    degree += one_bits(rows[u, other] & live[other])
                degrees[u] = degree
    return order
