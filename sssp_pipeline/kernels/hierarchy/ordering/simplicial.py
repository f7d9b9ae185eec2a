"""Eliminates vertices whose neighbours are all neighbours of each other, before METIS orders the rest.

The idea: eliminating such a vertex joins nothing, so no order can do better. Webs and social networks have many: pages
that link to each other, people who got the same letter. METIS does not look for them. Without them METIS takes less
time, and its orders have fewer triangles.

Vertices are eliminated in rounds. A round takes all vertices that have the property when it begins, so threads look for
them at the same time. Each round makes ways up the hierarchy longer by one clique at most.

Keeps
    I1. A neighbour list rises and never changes. An entry is dead if its vertex is eliminated.
    I2. A vertex that has the property keeps it when other such vertices are eliminated.

References
----------
D. J. Rose, "Triangulated graphs and the elimination process", 1970.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from sssp_pipeline.base.compile_children import KernelGroup, wait_for
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.hierarchy.dividing.cuts import Remainder, subgraph_of
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO

#: The most neighbours of an eliminated vertex, since all pairs of them are looked up.
MOST_NEIGHBOURS: Any = np.uint64(32)
#: How many vertices a thread looks at, at least, before it takes the next ones; and the most parts for each thread.
_LEAST_PART, _MOST_PARTS = 2**10, 4
#: The most threads that sort rows, since each reads all neighbours, and about how many neighbours each sorts at least.
_MOST_READERS, _LEAST_READ = 8, 2**16
#: The most rounds. A long strip of cliques would need one for every two vertices, and become a tree as deep.
MOST_ROUNDS: Any = np.uint64(8)


def without_simplicial(offsets: np.ndarray, neighbours: np.ndarray) -> Remainder:
    """Return the graph of `offsets` (V+1,) uint64 and `neighbours` (N,) uint32 without vertices that join nothing.

    The neighbours of a vertex are distinct, and do not include the vertex. Each pair stands there in both directions.
    """
    wait_for(simplicial_kernels())
    n = len(offsets) - 1
    rising = np.empty_like(neighbours)
    is_eliminated = np.zeros(n, np.bool_)
    waiting, order = np.arange(n, dtype=np.uint32), np.empty(0, np.uint32)
    n_threads = usable_cores()
    with ThreadPoolExecutor(n_threads) as pool:
        n_parts = min(n_threads, _MOST_READERS, len(neighbours) // _LEAST_READ + 1)
        bounds = np.searchsorted(offsets, np.linspace(0, len(neighbours), n_parts + 1)).astype(np.uint64)
        bounds[0], bounds[-1] = 0, n
        list(pool.map(lambda ends: _sort_rows(offsets, neighbours, rising, *ends), pairwise(bounds)))
        for _ in range(MOST_ROUNDS):
            parts = np.array_split(waiting, min(len(waiting) // _LEAST_PART + 1, _MOST_PARTS * n_threads))
            found = np.concatenate(
                list(pool.map(lambda part: _joining_nothing(offsets, rising, is_eliminated, part), parts))
            )
            is_eliminated[found] = True
            order = np.concatenate([order, found])
            waiting = _left_around(offsets, rising, is_eliminated, found)
    left = subgraph_of(offsets, rising, np.flatnonzero(~is_eliminated).astype(np.uint32))
    return Remainder(left.vertices, left.offsets, left.neighbours, order)


@njit(nogil=True)
def _sort_rows(offsets: np.ndarray, neighbours: np.ndarray, rising: np.ndarray, first: Any, end: Any) -> None:
    """Fill the rows of `rising` from vertex `first` up to `end` with their neighbours in rising order."""
    places, n_rows = offsets[first:end].copy(), end - first
    for u in range(np.uint64(len(offsets)) - ONE):
        for e in range(offsets[u], offsets[u + ONE]):
            row = np.uint64(neighbours[e]) - first  # wraps for smaller vertices
            if row < n_rows:
                rising[places[row]] = u
                places[row] += ONE


@njit(nogil=True)
def _joining_nothing(
    offsets: np.ndarray, rising: np.ndarray, is_eliminated: np.ndarray, vertices: np.ndarray
) -> np.ndarray:
    """Return those of `vertices` (N,) uint32 that have few neighbours, which are all neighbours of each other."""
    found, size = np.empty(len(vertices), np.uint32), ZERO
    live = np.empty(MOST_NEIGHBOURS, np.uint32)
    for i in range(np.uint64(len(vertices))):
        if _joins_nothing(offsets, rising, is_eliminated, vertices[i], live):
            found[size] = vertices[i]
            size += ONE
    return found[:size]


@njit(nogil=True)
def _left_around(
    offsets: np.ndarray, rising: np.ndarray, is_eliminated: np.ndarray, vertices: np.ndarray
) -> np.ndarray:
    """Return the neighbours of `vertices` that are not eliminated, each once."""
    found, size = np.empty(len(is_eliminated), np.uint32), ZERO
    is_found = np.zeros(len(is_eliminated), np.bool_)
    for i in range(np.uint64(len(vertices))):
        v = np.uint64(vertices[i])
        for e in range(offsets[v], offsets[v + ONE]):
            u = rising[e]
            if not is_eliminated[u] and not is_found[u]:
                is_found[u] = True
                found[size] = u
                size += ONE
    return found[:size]


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
    return KernelGroup(compile_simplicial, _left_around)
