"""The order of a hierarchy: the rank of every vertex, made from the pattern of the edges without their weights.

The idea: a vertex is eliminated by joining its neighbours. Vertices of degree 0, 1 and 2 are eliminated first: that
adds at most one edge for each, and leaves a much smaller graph, the core. Then vertices follow that add few edges
(`thinning.py`), and where the rest is dense, vertices that add none (`simplicial.py`). METIS orders what is left by
nested dissection: a small separator gets the highest ranks, and each side is ordered in the same way. Where METIS is
not installed, `dissection.py` does that.

Low degrees are eliminated in rounds. In a round, no neighbour of an eliminated vertex is eliminated. So a path of n
vertices takes about log2(n) rounds, and ways up the hierarchy stay short.

Keeps
    I1. An entry of a neighbour list is dead if its vertex is eliminated. `degrees` counts the others.
    I2. A list never grows: where two neighbours are joined, each takes the place of the eliminated vertex.

NOTE: a vertex of degree 2 next to a vertex with more than `LONGEST_SCAN` entries is left to METIS. Otherwise a star of
n leaves would take n^2 steps.

References
----------
G. Karypis, V. Kumar, "A fast and high quality multilevel scheme for partitioning irregular graphs", 1998 (METIS).
J. Dibbelt, B. Strasser, D. Wagner, "Customizable contraction hierarchies", 2016, section 4.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from itertools import pairwise
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import NO_VERTEX, CsrGraph
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.hierarchy.dividing.cuts import Remainder, subgraph_of
from sssp_pipeline.kernels.hierarchy.ordering import metis_processes
from sssp_pipeline.kernels.hierarchy.ordering.simplicial import without_simplicial
from sssp_pipeline.kernels.hierarchy.ordering.thinning import thinned
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO

#: The longest list in which an eliminated vertex of degree 2 is searched.
LONGEST_SCAN = np.uint64(32)
#: Up to this many vertices, what is left is eliminated as it stands. To start METIS would take longer than it saves.
FEW = 128
#: From this many neighbours of a vertex on, a thinned core is dense: its fronts will be large, so what follows takes
#: much longer than METIS. Roads have 5 neighbours there, triangulations 6; webs, social networks and solid meshes have
#: 9 to 24.
DENSE = 8
#: The most threads that list neighbours, since each reads all edges, and about how many edges each gets at least.
_MOST_PARTS, _LEAST_PART = 8, 2**16
_TWO: Any = np.uint64(2)


def neighbours_of(graph: CsrGraph, n_threads: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the neighbours of each vertex, by edges in either direction, each once and without the vertex itself.

    `n_threads` is all cores if it is None. The result is the same.

    Returns
    -------
    offsets : ndarray
        (V+1,) uint64.
    neighbours : ndarray
        (N,) uint32.
    """
    n = graph.n_vertices
    row_offsets = graph.row_offsets.view(np.uint64)
    n_parts = min(n_threads or usable_cores(), _MOST_PARTS, graph.n_edges // _LEAST_PART + 1)
    bounds = np.searchsorted(row_offsets, np.linspace(0, graph.n_edges, n_parts + 1)).astype(np.uint64)
    bounds[0], bounds[-1] = 0, n
    offsets = np.zeros(n + 1, np.uint64)
    with ThreadPoolExecutor(n_parts, "sssp-neighbours") as pool:
        found = pool.map(
            lambda ends: _neighbours_between(row_offsets, graph.col_indices, offsets, *ends), pairwise(bounds)
        )
        neighbours = np.concatenate(list(found))
    np.cumsum(offsets, out=offsets)
    return offsets, neighbours


def elimination_order(offsets: np.ndarray, neighbours: np.ndarray) -> np.ndarray:
    """Return the vertices (V,) uint32 in the order in which they are eliminated.

    Parameters
    ----------
    offsets, neighbours
        As `neighbours_of` returns them; not changed.

    Raises
    ------
    InputError, SsspError
        As `Metis.order`, or as `dissected` where METIS is not installed.
    """
    return ordered(core_of(offsets, neighbours))


def core_of(offsets: np.ndarray, neighbours: np.ndarray) -> Remainder:
    """Eliminate vertices of low degree, and return what is left; arguments as for `elimination_order`."""
    n = len(offsets) - 1
    lists = neighbours.copy()
    order = np.empty(n, np.uint32)
    is_eliminated = np.zeros(n, np.bool_)
    n_eliminated = int(_eliminate_low_degrees(offsets, lists, order, is_eliminated))
    core = subgraph_of(offsets, lists, np.flatnonzero(~is_eliminated).astype(np.uint32))
    return Remainder(core.vertices, core.offsets, core.neighbours, order[:n_eliminated].copy())


def ordered(core: Remainder, metis: metis_processes.Metis | None = None) -> np.ndarray:
    """Return what `elimination_order` does, for the core of the graph.

    Another thread may kill `metis`, which is not started yet. None means a new one.
    """
    by_metis = len(core.vertices) > FEW and metis_processes.package() is not None
    with (metis or metis_processes.Metis()) if by_metis else nullcontext() as metis:
        rest = thinned(core.offsets, core.neighbours)
        parts, left = [core.eliminated, core.vertices[rest.eliminated]], core.vertices[rest.vertices]
        is_dense = len(rest.neighbours) >= DENSE * len(left)
        if is_dense:
            rest = without_simplicial(rest.offsets, rest.neighbours)
            parts.append(left[rest.eliminated])
            left = left[rest.vertices]
        if metis is not None and len(left) > FEW:
            left = left[metis.order(rest.offsets, rest.neighbours, is_dense=is_dense)]
        elif len(left) > FEW:
            from sssp_pipeline.kernels.hierarchy.ordering.dissection import (
                dissected,  # not where METIS is installed
            )

            left = left[dissected(rest.offsets, rest.neighbours)]
    return np.concatenate([*parts, left])


@njit(nogil=True)
def _neighbours_between(
    row_offsets: np.ndarray, col_indices: np.ndarray, lengths: np.ndarray, first: Any, end: Any
) -> np.ndarray:
    """Return the neighbours of the vertices from `first` up to `end`.

    `lengths[v + 1]` gets the number of neighbours of vertex `v`. Edges into the vertices are found among all edges.
    """
    n, n_here = np.uint64(len(row_offsets)) - ONE, end - first
    into_offsets = np.zeros(n_here + ONE, np.uint64)
    for e in range(np.uint64(len(col_indices))):
        place = np.uint64(col_indices[e]) - first  # wraps for smaller vertices
        if place < n_here:
            into_offsets[place] += ONE
    total = ZERO
    for place in range(n_here):
        total += into_offsets[place]
        into_offsets[place] = total
    into_offsets[n_here] = total
    into = np.empty(total, np.uint32)
    for i in range(n):
        u = n - ONE - i
        for e in range(row_offsets[u], row_offsets[u + ONE]):
            place = np.uint64(col_indices[e]) - first
            if place < n_here:
                into_offsets[place] -= ONE
                into[into_offsets[place]] = u
    neighbours = np.empty(total + row_offsets[end] - row_offsets[first], np.uint32)
    last = np.full(n, NO_VERTEX, np.uint32)  # the last vertex that has this neighbour
    size = ZERO
    for u in range(first, end):
        last[u], before, place = u, size, u - first
        for e in range(row_offsets[u], row_offsets[u + ONE]):
            v = col_indices[e]
            if last[v] != u:
                last[v] = u
                neighbours[size] = v
                size += ONE
        for e in range(into_offsets[place], into_offsets[place + ONE]):
            v = into[e]
            if last[v] != u:
                last[v] = u
                neighbours[size] = v
                size += ONE
        lengths[u + ONE] = size - before
    return neighbours[:size]


@njit(nogil=True)
def _join(
    offsets: np.ndarray, lists: np.ndarray, degrees: np.ndarray, a: Any, eliminated: Any, b: Any
) -> None:
    """Put `b` in the place of `eliminated` in the list of `a`, or nothing if `b` is there already (I2)."""
    place = ZERO
    for e in range(offsets[a], offsets[np.uint64(a) + ONE]):
        if lists[e] == b:
            degrees[a] -= ONE
            return
        if lists[e] == eliminated:
            place = e
    lists[place] = b


@njit(nogil=True)
def _eliminate_low_degrees(
    offsets: np.ndarray, lists: np.ndarray, order: np.ndarray, is_eliminated: np.ndarray
) -> Any:
    """Fill the beginning of `order`, mark what is there, and return its length."""
    n = np.uint64(len(order))
    degrees = np.empty(n, np.uint64)
    waiting, following = np.empty(n, np.uint32), np.empty(n, np.uint32)
    is_waiting = np.zeros(n, np.bool_)
    touched = np.zeros(n, np.uint64)  # the last round in which a neighbour was eliminated
    n_waiting = n_done = ZERO
    for v in range(n):
        degrees[v] = offsets[v + ONE] - offsets[v]
        if degrees[v] <= _TWO:
            waiting[n_waiting] = v
            is_waiting[v] = True
            n_waiting += ONE
    this_round = ZERO
    ends = np.empty(2, np.uint32)
    while n_waiting > ZERO:
        this_round += ONE
        n_following = ZERO
        for i in range(n_waiting):
            v = waiting[i]
            if touched[v] == this_round:
                following[n_following] = v
                n_following += ONE
                continue
            is_waiting[v] = False
            n_ends = ZERO
            for e in range(offsets[v], offsets[np.uint64(v) + ONE]):
                if not is_eliminated[lists[e]]:
                    ends[n_ends] = lists[e]
                    n_ends += ONE
            if n_ends == _TWO:
                a, b = ends[0], ends[1]
                length_a = offsets[np.uint64(a) + ONE] - offsets[a]
                length_b = offsets[np.uint64(b) + ONE] - offsets[b]
                if max(length_a, length_b) > LONGEST_SCAN:
                    continue
                _join(offsets, lists, degrees, a, v, b)
                _join(offsets, lists, degrees, b, v, a)
            elif n_ends == ONE:
                degrees[ends[0]] -= ONE
            is_eliminated[v] = True
            order[n_done] = v
            n_done += ONE
            for j in range(n_ends):
                u = ends[j]
                touched[u] = this_round
                if degrees[u] <= _TWO and not is_waiting[u]:
                    is_waiting[u] = True
                    following[n_following] = u
                    n_following += ONE
        waiting, following = following, waiting
        n_waiting = n_following
    return n_done
