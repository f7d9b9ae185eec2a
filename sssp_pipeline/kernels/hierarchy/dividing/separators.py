"""Makes a separator of a graph smaller: moves vertices out of it, and takes back what did not pay.

The idea: each vertex lies on side 0, on side 1 or in the separator. A vertex of the separator may move to a side. Its
neighbours on the other side then enter the separator. The gain is its weight without theirs. The vertex of the largest
gain moves, even if the gain is negative: a few bad moves may lead to many good ones. A pass ends after many moves
without a smaller separator. The moves after the smallest separator are undone.

Keeps
    I1. No edge joins the sides. `sums` has the weights of side 0, of side 1 and of the separator.
    I2. Between calls the heaps are empty, `places` has `NO_VERTEX` everywhere, and no vertex `has_moved`.
    I3. A vertex leaves the separator at most once in a pass, so it enters it at most twice.

Ends: by I3.

References
----------
C. M. Fiduccia, R. M. Mattheyses, "A linear-time heuristic for improving network partitions", 1982.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sssp_pipeline.base.csr import NO_VERTEX
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO

#: What `sides` has for a vertex of the separator, instead of 0 or 1.
SEPARATOR: Any = np.uint8(2)
#: The most passes. Most separators stay as they are after one to three.
_PASSES: Any = np.uint64(8)
#: A pass ends after this many moves without a smaller separator. Webs gain from more; all other graphs
#: only take longer.
_IDLE_MOVES: Any = np.uint64(100)
_TWO: Any = np.uint64(2)


class Level(NamedTuple):
    """A graph whose P vertices stand for one or more vertices of the graph that is divided."""

    #: (P+1,) uint64: the neighbours of vertex `v` are `heads[starts[v] : starts[v + 1]]`.
    starts: np.ndarray
    #: (N,) uint32.
    heads: np.ndarray
    #: (N,) int32: how many edges an edge stands for.
    edge_weights: np.ndarray
    #: (P,) int32: how many vertices a vertex stands for.
    weights: np.ndarray
    #: (P,) uint32: the vertex of the next level that stands for a vertex. It is written when that level is made.
    coarse: np.ndarray


class Scratch(NamedTuple):
    """Memory for graphs of at most P vertices."""

    #: (2, P) int64: what a vertex of the separator gains if it moves to side 0, and to side 1.
    gains: np.ndarray
    #: (2, P) uint32: for each side a heap of the vertices that may move to it, the largest gain first.
    heaps: np.ndarray
    #: (2, P) uint32: where a vertex is in each heap.
    places: np.ndarray
    #: (2,) uint64: how many vertices each heap has.
    lengths: np.ndarray
    #: (P,) bool: whether a vertex left the separator in this pass.
    has_moved: np.ndarray
    #: (3 * P, 2) uint32: the vertices whose side changed in this pass, and the sides they had before.
    log: np.ndarray


@njit(nogil=True)
def scratch_of(n: Any) -> Scratch:
    """Return memory for graphs of at most `n` vertices."""
    places = np.empty((2, n), np.uint32)
    places[:] = NO_VERTEX
    return Scratch(
        np.empty((2, n), np.int64),
        np.empty((2, n), np.uint32),
        places,
        np.zeros(2, np.uint64),
        np.zeros(n, np.bool_),
        np.empty((np.uint64(3) * n, 2), np.uint32),
    )


@njit(nogil=True)
def is_better(sums: np.ndarray, others: np.ndarray) -> bool:
    """Return whether a separator is smaller than another one, or as large and its sides differ less."""
    if sums[2] != others[2]:
        return sums[2] < others[2]
    return abs(sums[0] - sums[1]) < abs(others[0] - others[1])


@njit(nogil=True)
def copy_sums(sums: np.ndarray, to: np.ndarray) -> None:
    """Copy three sums; numba takes a second to compile an assignment of slices."""
    for i in range(np.uint64(3)):
        to[i] = sums[i]


@njit(nogil=True)
def refine(level: Level, sides: np.ndarray, sums: np.ndarray, most: Any, scratch: Scratch) -> None:
    """Make the separator in `sides` (P,) uint8 and `sums` (3,) int64 smaller; no side grows beyond `most`."""
    best = np.empty(3, np.int64)
    for _ in range(_PASSES):
        for v in range(np.uint64(len(sides))):
            if sides[v] == SEPARATOR:
                enter(level, sides, v, scratch)
        first = sums[2]
        copy_sums(sums, best)
        n_logged = n_kept = n_idle = ZERO
        while n_idle < _IDLE_MOVES:
            side = _next_side(level.weights, sums, most, scratch)
            if side == _TWO:
                break
            n_logged = move(level, sides, sums, side, n_logged, scratch)
            n_idle += ONE
            if is_better(sums, best):
                if sums[2] < best[2]:
                    n_idle = ZERO
                copy_sums(sums, best)
                n_kept = n_logged
        clear(n_logged, scratch)
        while n_logged > n_kept:
            n_logged -= ONE
            v, side = scratch.log[n_logged, 0], scratch.log[n_logged, 1]
            sides[v] = side
        copy_sums(best, sums)
        if sums[2] == first:
            break


@njit(nogil=True)
def _next_side(weights: np.ndarray, sums: np.ndarray, most: Any, scratch: Scratch) -> Any:
    """Return the side whose heap has the vertex that moves next, or 2 if none may move."""
    gains, heaps, lengths = scratch.gains, scratch.heaps, scratch.lengths
    may_0 = lengths[0] > ZERO and sums[0] + weights[heaps[0, 0]] <= most
    may_1 = lengths[1] > ZERO and sums[1] + weights[heaps[1, 0]] <= most
    if may_0 and may_1:
        gain_0, gain_1 = gains[0, heaps[0, 0]], gains[1, heaps[1, 0]]
        return np.uint64(sums[0] > sums[1] if gain_0 == gain_1 else gain_0 < gain_1)
    if may_0:
        return ZERO
    return ONE if may_1 else _TWO


@njit(nogil=True)
def move(
    level: Level, sides: np.ndarray, sums: np.ndarray, side: Any, n_logged: Any, scratch: Scratch
) -> Any:
    """Move the first vertex of the heap of a side to this side, and return the new length of the log."""
    starts, heads, _, weights, _ = level
    gains, heaps, places, lengths, has_moved, log = scratch
    other = ONE - side
    v = np.uint64(heaps[side, 0])
    for heap in range(_TWO):
        _take_out(gains[heap], heaps[heap], places[heap], lengths, heap, v)
    has_moved[v] = True
    log[n_logged, 0], log[n_logged, 1] = v, sides[v]
    n_logged += ONE
    sides[v] = side
    sums[side] += weights[v]
    sums[2] -= weights[v]
    for e in range(starts[v], starts[v + ONE]):
        u = np.uint64(heads[e])
        if sides[u] == SEPARATOR:
            if places[other, u] != NO_VERTEX:
                gains[other, u] -= weights[v]
                _sink(gains[other], heaps[other], places[other], lengths[other], u)
        elif sides[u] == other:
            log[n_logged, 0], log[n_logged, 1] = u, sides[u]
            n_logged += ONE
            sides[u] = SEPARATOR
            sums[other] -= weights[u]
            sums[2] += weights[u]
            for f in range(starts[u], starts[u + ONE]):
                t = heads[f]
                if places[side, t] != NO_VERTEX:
                    gains[side, t] += weights[u]
                    _rise(gains[side], heaps[side], places[side], t)
            if not has_moved[u]:
                enter(level, sides, u, scratch)
    return n_logged


@njit(nogil=True)
def enter(level: Level, sides: np.ndarray, v: Any, scratch: Scratch) -> None:
    """Put a vertex of the separator into both heaps."""
    gains, heaps, places, lengths = scratch.gains, scratch.heaps, scratch.places, scratch.lengths
    gains[0, v] = gains[1, v] = level.weights[v]
    for e in range(level.starts[v], level.starts[v + ONE]):
        u = level.heads[e]
        if sides[u] != SEPARATOR:
            gains[ONE - np.uint64(sides[u]), v] -= level.weights[u]
    for side in range(_TWO):
        heaps[side, lengths[side]], places[side, v] = v, lengths[side]
        lengths[side] += ONE
        _rise(gains[side], heaps[side], places[side], v)


@njit(nogil=True)
def clear(n_logged: Any, scratch: Scratch) -> None:
    """Restore I2 after moves; the log stays."""
    for side in range(_TWO):
        for i in range(scratch.lengths[side]):
            scratch.places[side, scratch.heaps[side, i]] = NO_VERTEX
        scratch.lengths[side] = ZERO
    for i in range(n_logged):
        scratch.has_moved[scratch.log[i, 0]] = False


@njit(nogil=True)
def _take_out(
    gains: np.ndarray, heap: np.ndarray, places: np.ndarray, lengths: np.ndarray, side: Any, v: Any
) -> None:
    """Take a vertex out of the heap of a side."""
    place = places[v]
    places[v] = NO_VERTEX
    lengths[side] -= ONE
    last = heap[lengths[side]]
    if last != v:
        heap[place], places[last] = last, place
        _rise(gains, heap, places, last)
        _sink(gains, heap, places, lengths[side], last)


@njit(nogil=True)
def _rise(gains: np.ndarray, heap: np.ndarray, places: np.ndarray, v: Any) -> None:
    """Restore the order of a heap after the gain of `v` grew."""
    place, gain = np.uint64(places[v]), gains[v]
    while place > ZERO:
        above = (place - ONE) >> ONE
        if gains[heap[above]] >= gain:
            break
        heap[place] = heap[above]
        places[heap[place]] = place
        place = above
    heap[place], places[v] = v, place


@njit(nogil=True)
def _sink(gains: np.ndarray, heap: np.ndarray, places: np.ndarray, length: Any, v: Any) -> None:
    """Restore the order of a heap after the gain of `v` shrank."""
    place, gain = np.uint64(places[v]), gains[v]
    while True:
        below = (place << ONE) + ONE
        if below >= length:
            break
        if below + ONE < length and gains[heap[below + ONE]] > gains[heap[below]]:
            below += ONE
        if gains[heap[below]] <= gain:
            break
        heap[place] = heap[below]
        places[heap[place]] = place
        place = below
    heap[place], places[v] = v, place
