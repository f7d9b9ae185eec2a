"""Divides a graph into two sides of similar size and a small separator.

The idea: pairs of neighbours are merged, again and again, until few vertices are left. Each stands for many. On this
coarse graph a side grows from a vertex until it has half of the weight, and its boundary is the separator. Then the
merges are undone step by step. After each step the separator is refined where it lies now (`separators.py`).

One wrong turn on a coarse graph makes a separator a tenth larger. So a large graph is coarsened to a sixteenth first.
From there on the rest is tried several times, with other pairs, and the smallest separator goes on. A small graph is
tried twice.

The result depends on nothing but the graph: what stands for chance is a number of the try.

References
----------
G. Karypis, V. Kumar, "A fast and high quality multilevel scheme for partitioning irregular graphs", SIAM Journal on
Scientific Computing 20, 1998: heavy-edge matching, and tries on a coarse graph.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sssp_pipeline.base.csr import NO_VERTEX
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.hierarchy.dividing.separators import (
    SEPARATOR,
    Level,
    Scratch,
    clear,
    copy_sums,
    enter,
    is_better,
    move,
    refine,
)
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO

#: A graph is coarsened to this many vertices, and a side grows from this many of them in turn.
_COARSEST: Any = np.uint64(60)
_STARTS: Any = np.uint64(3)
#: From this many vertices on, a graph is tried often, from a coarse graph on. Smaller ones are tried less.
_LARGE: Any = np.uint64(5000)
_TRIES_OF_LARGE: Any = np.uint64(8)
_TRIES_OF_SMALL: Any = np.uint64(2)
_SHIFT_OF_LARGE: Any = np.uint64(4)
#: The most that a side may have of a graph.
_MOST_OF_SIDE: Any = 0.6
#: A vertex stands for at most this multiple of its share of the coarsest graph.
_MOST_SHARES: Any = 1.5
#: If more than one of this many vertices has no partner, vertices are merged that share a neighbour. Webs need that:
#: a hub has one partner among its many neighbours.
_SINGLE: Any = np.uint64(8)
#: A prime above 2^31: the multiples of it go through all numbers below any n, in an order that looks like chance.
_PRIME: Any = np.uint64(2654435761)


@njit(nogil=True)
def bisected(starts: np.ndarray, heads: np.ndarray, scratch: Scratch) -> Any:
    """Return the side (P,) uint8 of each vertex: 0, 1 or `SEPARATOR`. A side is empty if the graph is too dense.

    Parameters
    ----------
    starts, heads
        The graph of P vertices, as in a `Level`.
    scratch
        For P vertices at least.
    """
    n = np.uint64(len(starts)) - ONE
    edge_weights, weights = np.ones(len(heads), np.int32), np.ones(n, np.int32)
    levels = [Level(starts, heads, edge_weights, weights, np.empty(n, np.uint32))]
    n_tries = _TRIES_OF_SMALL
    if n >= _LARGE:
        n_tries = _TRIES_OF_LARGE
        _coarsen(levels, n >> _SHIFT_OF_LARGE, ZERO)
    shared = np.uint64(len(levels))
    most = np.int64(_MOST_OF_SIDE * len(weights))
    sums, best_sums = np.empty(3, np.int64), np.zeros(3, np.int64)
    best_sums[2] = len(weights) + 1
    best = np.empty(0, np.uint8)
    for number in range(n_tries):
        while np.uint64(len(levels)) > shared:
            levels.pop()
        _coarsen(levels, _COARSEST, number + ONE)
        sides = _grown(levels[len(levels) - 1], sums, most, number * _STARTS, scratch)
        sides = _refined(levels, np.uint64(len(levels)), shared, sides, sums, most, scratch)
        if is_better(sums, best_sums):
            best = sides
            copy_sums(sums, best_sums)
    return _refined(levels, shared, ONE, best, best_sums, most, scratch)


@njit(nogil=True)
def _coarsen(levels: Any, n_wanted: Any, number: Any) -> None:
    """Add coarser levels until one has at most `n_wanted` vertices, or hardly fewer than the one before."""
    most = max(np.int64(_MOST_SHARES * len(levels[0].weights) / max(n_wanted, _COARSEST)), np.int64(2))
    while True:
        level = levels[len(levels) - 1]
        n = np.uint64(len(level.weights))
        if n <= n_wanted:
            return
        partners = np.empty(n, np.uint32)
        partners[:] = NO_VERTEX
        n_single = _match_neighbours(level, most, number, partners)
        if n_single * _SINGLE > n:
            _match_others(level, most, number, partners)
        n_coarse = _number_pairs(partners, level.coarse)
        if np.uint64(20) * n_coarse > np.uint64(19) * n:
            return
        levels.append(_coarse_level(level, partners, n_coarse))


@njit(nogil=True)
def _match_neighbours(level: Level, most: Any, number: Any, partners: np.ndarray) -> Any:
    """Give vertices partners among their neighbours; return how many have none.

    Edges that stand for many edges come first, since a merged edge is in no separator, and light vertices.
    """
    starts, heads, edge_weights, weights, _ = level
    n = np.uint64(len(weights))
    n_single = ZERO
    for i in range(n):
        v = (i * _PRIME + number) % n
        if partners[v] != NO_VERTEX:
            continue
        partner, best = v, 0.0
        for e in range(starts[v], starts[v + ONE]):
            u = np.uint64(heads[e])
            if partners[u] == NO_VERTEX:
                rating = np.float64(edge_weights[e]) * edge_weights[e] / weights[u]
                if rating > best and weights[u] + weights[v] <= most:
                    partner, best = u, rating
        if partner == v:
            n_single += ONE
        else:
            partners[v], partners[partner] = partner, v
    return n_single


@njit(nogil=True)
def _match_others(level: Level, most: Any, number: Any, partners: np.ndarray) -> None:
    """Give vertices without a partner one that shares a neighbour, preferably one with few neighbours."""
    starts, heads, edge_weights, weights, _ = level
    n = np.uint64(len(weights))
    waiting = np.empty(n, np.uint32)  # for each neighbour, a vertex without a partner
    waiting[:] = NO_VERTEX
    for i in range(n):
        v = (i * _PRIME + number) % n
        if partners[v] != NO_VERTEX or starts[v] == starts[v + ONE]:
            continue
        shared, best = ZERO, 0.0
        for e in range(starts[v], starts[v + ONE]):
            u = np.uint64(heads[e])
            rating = np.float64(edge_weights[e]) / np.float64(starts[u + ONE] - starts[u])
            if rating > best:
                shared, best = u, rating
        other = waiting[shared]
        if other == NO_VERTEX or weights[other] + weights[v] > most:
            waiting[shared] = v
        else:
            partners[v], partners[other], waiting[shared] = other, v, NO_VERTEX


@njit(nogil=True)
def _number_pairs(partners: np.ndarray, coarse: np.ndarray) -> Any:
    """Fill `coarse` with a number for each pair, and for each vertex without a partner; return how many there are."""
    n_coarse = ZERO
    for v in range(np.uint64(len(partners))):
        if partners[v] == NO_VERTEX:
            partners[v] = v
        if v <= np.uint64(partners[v]):
            coarse[v] = coarse[partners[v]] = n_coarse
            n_coarse += ONE
    return n_coarse


@njit(nogil=True)
def _coarse_level(level: Level, partners: np.ndarray, n_coarse: Any) -> Level:
    """Return the graph in which each pair is one vertex. Parallel edges are one edge of the sum of their weights."""
    starts, heads, edge_weights, weights, coarse = level
    new_starts, new_weights = np.zeros(n_coarse + ONE, np.uint64), np.empty(n_coarse, np.int32)
    new_heads, new_edge_weights = np.empty(len(heads), np.uint32), np.empty(len(heads), np.int32)
    ends = np.zeros(n_coarse, np.uint64)  # the place after the last edge to each vertex
    size = c = ZERO
    for first in range(np.uint64(len(weights))):
        second = np.uint64(partners[first])
        if second < first:
            continue
        begin, v = size, first
        new_weights[c] = ZERO
        while True:
            new_weights[c] += weights[v]
            for e in range(starts[v], starts[v + ONE]):
                head = np.uint64(coarse[heads[e]])
                if ends[head] > begin:
                    new_edge_weights[ends[head] - ONE] += edge_weights[e]
                elif head != c:
                    new_heads[size], new_edge_weights[size] = head, edge_weights[e]
                    size += ONE
                    ends[head] = size
            if v == second:
                break
            v = second
        c += ONE
        new_starts[c] = size
    return Level(
        new_starts,
        new_heads[:size],
        new_edge_weights[:size],
        new_weights,
        np.empty(n_coarse, np.uint32),
    )


@njit(nogil=True)
def _grown(level: Level, sums: np.ndarray, most: Any, first_start: Any, scratch: Scratch) -> Any:
    """Return the sides of the smallest separator after a side grew from several vertices; `sums` gets its weights."""
    weights = level.weights
    n = np.uint64(len(weights))
    total = np.int64(0)
    for v in range(n):
        total += weights[v]
    best, sides = np.empty(n, np.uint8), np.empty(n, np.uint8)
    now = np.empty(3, np.int64)
    sums[0], sums[1], sums[2] = 0, 0, total + 1
    for start in range(first_start, first_start + _STARTS):
        sides[:] = np.uint8(1)
        now[0], now[1], now[2] = 0, total, 0
        v, n_logged = (start * _PRIME) % n, ZERO
        while now[0] < now[1]:
            if scratch.lengths[0] == ZERO:  # the next component
                while sides[v] != np.uint8(1):
                    v = (v + ONE) % n
                sides[v] = SEPARATOR
                now[1] -= weights[v]
                now[2] += weights[v]
                enter(level, sides, v, scratch)
            n_logged = move(level, sides, now, ZERO, n_logged, scratch)
        clear(n_logged, scratch)
        refine(level, sides, now, most, scratch)
        if is_better(now, sums):
            best, sides = sides, best
            copy_sums(now, sums)
    return best


@njit(nogil=True)
def _refined(
    levels: Any, n_levels: Any, n_left: Any, sides: np.ndarray, sums: np.ndarray, most: Any, scratch: Scratch
) -> Any:
    """Return the sides on the last of the first `n_left` levels, from `sides` on the last of the first `n_levels`."""
    while n_levels > n_left:
        level = levels[n_levels - np.uint64(2)]
        finer = np.empty(len(level.weights), np.uint8)
        for v in range(np.uint64(len(finer))):
            finer[v] = sides[level.coarse[v]]
        sides = finer
        refine(level, sides, sums, most, scratch)
        n_levels -= ONE
    return sides
