"""Eliminates vertices whose neighbours are all neighbours of each other, before METIS orders the rest.

The idea: eliminating such a vertex joins nothing, so no order can do better. Webs and social networks have many: pages
that link to each other, people who got the same letter. METIS does not look for them. Without them METIS takes less
time, and its orders have fewer triangles.

Vertices are eliminated in rounds. A round takes all vertices that have the property when it begins. So each round makes
ways up the hierarchy longer by one clique at most.

Keeps
    I1. A neighbour list rises and never changes. An entry is dead if its vertex is eliminated.
    I2. A vertex that has the property keeps it when other such vertices are eliminated.

References
----------
D. J. Rose, "Triangulated graphs and the elimination process", 1970.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from sssp_pipeline.base.compile_children import KernelGroup, wait_for
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.hierarchy.cuts import Remainder, subgraph_of
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO

#: The most neighbours of an eliminated vertex, since all pairs of them are looked up.
MOST_NEIGHBOURS: Any = np.uint64(32)
#: The most rounds. A long strip of cliques would need one for every two vertices, and become a tree as deep.
MOST_ROUNDS: Any = np.uint64(8)


def without_simplicial(offsets: np.ndarray, neighbours: np.ndarray) -> Remainder:
    """Return the graph of `offsets` (V+1,) uint64 and `neighbours` (N,) uint32 without vertices that join nothing.

    The neighbours of a vertex are distinct, and do not include the vertex. Each pair stands there in both directions.
    """
    wait_for(simplicial_kernels())
    n = len(offsets) - 1
    rising = np.empty_like(neighbours)
    _sort_rows(offsets, neighbours, offsets[:-1].copy(), rising)
    is_eliminated, order = np.zeros(n, np.bool_), np.empty(n, np.uint32)
    n_eliminated = int(_eliminate(offsets, rising, is_eliminated, order))
    left = subgraph_of(offsets, rising, np.flatnonzero(~is_eliminated).astype(np.uint32))
    return Remainder(left.vertices, left.offsets, left.neighbours, order[:n_eliminated].copy())


@njit(nogil=True)
def _sort_rows(offsets: np.ndarray, neighbours: np.ndarray, places: np.ndarray, rising: np.ndarray) -> None:
    """Fill `rising` with the neighbours of each vertex in rising order; `places` are the next places of the rows."""
    for u in range(np.uint64(len(places))):
        for e in range(offsets[u], offsets[u + ONE]):
            v = neighbours[e]
            rising[places[v]] = u
            places[v] += ONE


@njit(nogil=True)
def _eliminate(offsets: np.ndarray, rising: np.ndarray, is_eliminated: np.ndarray, order: np.ndarray) -> Any:
    """Fill the beginning of `order`, mark what is there, and return its length."""
    n = np.uint64(len(order))
    waiting = np.arange(len(order)).astype(np.uint32)
    is_waiting = np.empty(n, np.bool_)
    live = np.empty(MOST_NEIGHBOURS, np.uint32)
    n_waiting, n_done = n, ZERO
    for _ in range(MOST_ROUNDS):
        first = n_done
        for i in range(n_waiting):
            v = waiting[i]
            is_waiting[v] = False
            if _joins_nothing(offsets, rising, is_eliminated, v, live):
                order[n_done] = v
                n_done += ONE
        for i in range(first, n_done):
            is_eliminated[order[i]] = True
        n_waiting = ZERO
        for i in range(first, n_done):
            v = np.uint64(order[i])
            for e in range(offsets[v], offsets[v + ONE]):
                u = rising[e]
                if not is_eliminated[u] and not is_waiting[u]:
                    is_waiting[u] = True
                    waiting[n_waiting] = u
                    n_waiting += ONE
    return n_done


@njit(nogil=True)
def _joins_nothing(
    offsets: np.ndarray, rising: np.ndarray, is_eliminated: np.ndarray, vertex: Any, live: np.ndarray
) -> bool:
    """Return whether `vertex` has few neighbours, which are all neighbours; they are written to `live`."""
    n_live = ZERO
    for e in range(offsets[vertex], offsets[np.uint64(vertex) + ONE]):
        u = rising[e]
        if not is_eliminated[u]:
            if n_live == MOST_NEIGHBOURS:
                return False
            live[n_live] = u
            n_live += ONE
    for i in range(n_live):
        for j in range(i):
            if not _are_neighbours(offsets, rising, live[i], live[j]):
                return False
    return True


@njit(nogil=True, inline="always")
def _are_neighbours(offsets: np.ndarray, rising: np.ndarray, a: Any, b: Any) -> Any:
    """Return whether the shorter row of the rows of `a` and `b` has the other vertex."""
    u, wanted = np.uint64(a), b
    if offsets[np.uint64(b) + ONE] - offsets[b] < offsets[u + ONE] - offsets[u]:
        u, wanted = np.uint64(b), a
    first, end = offsets[u], offsets[u + ONE]
    while first < end:
        middle = (first + end) >> ONE
        if rising[middle] < wanted:
            first = middle + ONE
        else:
            end = middle
    return first < offsets[u + ONE] and rising[first] == wanted


def compile_simplicial(dtype: np.dtype) -> None:
    """Compile the kernels of this module; the types do not depend on the weights."""
    without_simplicial(np.arange(3, dtype=np.uint64), np.array([1, 0], np.uint32))


@cache
def simplicial_kernels() -> KernelGroup:
    """Return the kernels of this module. They are not among those of each order, since only few graphs need them."""
    return KernelGroup(compile_simplicial, _eliminate)
