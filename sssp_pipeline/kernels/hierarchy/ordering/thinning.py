"""Thins the core of a graph before METIS orders it: eliminates vertices that have few neighbours and add few edges.

The idea: METIS takes some microseconds for each vertex, and nearly all vertices of a road network have 3 neighbours in
the core. Such a vertex would be eliminated early by METIS too. Without these vertices METIS takes less than half the
time, and its orders have no more triangles.

A vertex is eliminated if it has at most `MOST_NEIGHBOURS`, and at most `MOST_ADDED` pairs of them are not neighbours
yet. So a vertex with 3 neighbours always is, and what is left is about as sparse as before. Vertices are eliminated in
rounds, and no two neighbours in the same round, so ways up the hierarchy stay short.

Keeps
    I1. A vertex with at most `PLACES` neighbours has them, without eliminated ones, at the beginning of its row of
        `lists`. The other places hold `NO_VERTEX`.
    I2. A vertex with more neighbours has no row. None of its neighbours is eliminated.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sssp_pipeline.base.csr import NO_VERTEX
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.hierarchy.dividing.cuts import Remainder
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO

#: With more neighbours or added edges METIS gets faster still, but triangulations get more triangles.
MOST_NEIGHBOURS: Any = np.uint32(5)
MOST_ADDED: Any = np.uint32(3)
#: The most neighbours that a vertex may get: as many as one SIMD instruction compares.
PLACES: Any = np.uint64(8)


def thinned(offsets: np.ndarray, neighbours: np.ndarray) -> Remainder:
    """Return the graph of `offsets` (V+1,) uint64 and `neighbours` (N,) uint32 without vertices that add few edges.

    The neighbours of a vertex are distinct, and do not include the vertex.
    """
    n = len(offsets) - 1
    lists = np.full((n, int(PLACES)), NO_VERTEX, np.uint32)
    lengths = np.diff(offsets).astype(np.uint32)
    eliminated = np.empty(n, np.uint32)
    is_eliminated = np.zeros(n, np.bool_)
    n_eliminated = int(_eliminate(offsets, neighbours, lists, lengths, eliminated, is_eliminated))
    left = np.flatnonzero(~is_eliminated).astype(np.uint32)
    places = np.full(n, NO_VERTEX)
    places[left] = np.arange(len(left), dtype=np.uint32)
    left_offsets = np.zeros(len(left) + 1, np.uint64)
    np.cumsum(lengths[left], out=left_offsets[1:])
    left_neighbours = np.empty(int(left_offsets[-1]), np.uint32)
    _list_left(offsets, neighbours, lists, lengths, left, places, left_neighbours)
    return Remainder(left, left_offsets, left_neighbours, eliminated[:n_eliminated].copy())


@njit(nogil=True)
def _eliminate(
    offsets: np.ndarray,
    neighbours: np.ndarray,
    lists: np.ndarray,
    lengths: np.ndarray,
    order: np.ndarray,
    is_eliminated: np.ndarray,
) -> Any:
    """Fill the beginning of `order`, mark what is there, and return its length."""
    n = np.uint64(len(order))
    waiting, following = np.empty(n, np.uint32), np.empty(n, np.uint32)
    is_waiting = np.zeros(n, np.bool_)
    touched = np.zeros(n, np.uint32)  # the last round in which a neighbour was eliminated
    n_waiting = n_done = ZERO
    for v in range(n):
        if np.uint64(lengths[v]) <= PLACES:
            for place in range(np.uint64(lengths[v])):
                lists[v, place] = neighbours[offsets[v] + place]
        if lengths[v] <= MOST_NEIGHBOURS:
            waiting[n_waiting] = v
            is_waiting[v] = True
            n_waiting += ONE
    this_round = np.uint32(0)
    while n_waiting > ZERO:
        this_round += np.uint32(1)
        n_following = ZERO
        for i in range(n_waiting):
            v = waiting[i]
            if touched[v] == this_round:
                following[n_following] = v
                n_following += ONE
                continue
            is_waiting[v] = False
            if lengths[v] > MOST_NEIGHBOURS or not _adds_few(lists, lengths, v):
                continue
            is_eliminated[v] = True
            order[n_done] = v
            n_done += ONE
            for place in range(np.uint64(lengths[v])):
                u = lists[v, place]
                _join(lists, lengths, u, v)
                touched[u] = this_round
                if lengths[u] <= MOST_NEIGHBOURS and not is_waiting[u]:
                    is_waiting[u] = True
                    following[n_following] = u
                    n_following += ONE
        waiting, following = following, waiting
        n_waiting = n_following
    return n_done


@njit(nogil=True, inline="always")
def _has(lists: np.ndarray, u: Any, vertex: Any) -> Any:
    """Return whether `vertex` is a neighbour of `u`."""
    found = False
    for place in range(PLACES):
        found |= lists[u, place] == vertex
    return found


@njit(nogil=True)
def _adds_few(lists: np.ndarray, lengths: np.ndarray, v: Any) -> bool:
    """Return whether `v` may be eliminated, as to its neighbours."""
    length = np.uint64(lengths[v])
    n_added = ZERO  # each edge is counted at both ends
    for i in range(length):
        u = lists[v, i]
        if np.uint64(lengths[u]) > PLACES:
            return False
        n_missing = ZERO
        for j in range(length):
            n_missing += np.uint64(j != i and not _has(lists, u, lists[v, j]))
        n_added += n_missing
        if np.uint64(lengths[u]) + n_missing > PLACES + ONE or n_added > np.uint64(2) * np.uint64(MOST_ADDED):
            return False
    return True


@njit(nogil=True)
def _join(lists: np.ndarray, lengths: np.ndarray, u: Any, eliminated: Any) -> None:
    """Replace `eliminated` in the row of `u` by the neighbours of `eliminated` that `u` lacks."""
    length = np.uint64(lengths[u]) - ONE
    place = ZERO
    while lists[u, place] != eliminated:
        place += ONE
    lists[u, place] = lists[u, length]
    lists[u, length] = NO_VERTEX
    for i in range(np.uint64(lengths[eliminated])):
        vertex = lists[eliminated, i]
        if vertex != u and not _has(lists, u, vertex):
            lists[u, length] = vertex
            length += ONE
    lengths[u] = length


@njit(nogil=True)
def _list_left(
    offsets: np.ndarray,
    neighbours: np.ndarray,
    lists: np.ndarray,
    lengths: np.ndarray,
    left: np.ndarray,
    places: np.ndarray,
    left_neighbours: np.ndarray,
) -> None:
    """Fill `left_neighbours` with the places of the neighbours of the vertices `left`."""
    size = ZERO
    for v in left:
        has_row = np.uint64(lengths[v]) <= PLACES
        for i in range(np.uint64(lengths[v])):
            u = lists[v, i] if has_row else neighbours[offsets[v] + i]
            left_neighbours[size] = places[u]
            size += ONE
