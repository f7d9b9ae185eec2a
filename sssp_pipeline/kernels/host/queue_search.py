"""Bellman and Ford's algorithm with a queue, on one thread: for negative weights, and to find negative cycles.

Returns the distance row lowered to the true distances, added in the weights' own type.

The idea: a first-in-first-out queue holds each vertex whose distance fell, once. A vertex that leaves the queue relaxes
its edges. Each vertex keeps the edge that lowered it last. Without a negative cycle these edges form a tree. With one
in reach they form a circle sooner or later, and a circle of such edges has negative length. The search looks for a
circle each time V vertices have left the queue, by following these edges from every vertex. That costs no more than
processing those V vertices.

Needs
    Finite weights; a row in which each distance below the limit is the length of a walk.
Keeps
    I1. `is_queued[v]` iff `v` stands in the queue, so a ring of V places suffices.
    I2. A vertex with an edge that can be relaxed stands in the queue, or is the one being processed.
Ends
    Without a negative cycle, a distance only falls and takes finitely many values. With one, the search ends when it
    finds the circle. A sum below the least number of the type ends it too.
NOTE
    A sum of floats is rounded, so a cycle of length zero can lower distances without end. It is found like any other.

References
----------
R. Bellman, "On a routing problem", 1958. E. F. Moore, "The shortest path through a maze", 1959, for the queue.
B. V. Cherkassky, A. V. Goldberg, "Negative-cycle detection algorithms", 1999, section 3, for the checks of the tree.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, NoReturn

import numpy as np

from sssp_pipeline.base.csr import NO_VERTEX, CsrGraph, unreached_distance
from sssp_pipeline.base.errors import NegativeCycleError, PathTooShortError
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO, fits, sum_of
from sssp_pipeline.kernels.host.search import Search, path_error
from sssp_pipeline.kernels.host.search_graph import SearchGraph

#: How a search ended.
_DONE, _CYCLE, _TOO_SHORT = 0, 1, 2


class QueueSearch(Search):
    """Scratch memory: 13 bytes a vertex."""

    def __init__(self, graph: CsrGraph) -> None:
        self._graph = graph
        self._queue = np.empty(graph.n_vertices, np.uint32)
        self._is_queued = np.zeros(graph.n_vertices, np.bool_)
        self._parents = np.empty(graph.n_vertices, np.uint32)
        self._marks = np.empty(graph.n_vertices, np.uint32)

    def run(self, distances: np.ndarray, source: int) -> tuple[int, int]:
        distances[source] = 0
        self._queue[0] = source
        return self.go_on(distances, source, 1)

    def go_on(self, distances: np.ndarray, source: int | None, n_queued: int) -> tuple[int, int]:
        """Lower `distances`, starting from the first `n_queued` vertices of the queue; return what `run` does.

        Errors name `source`, or without one a vertex where the search failed.
        """
        view = SearchGraph.of(self._graph)
        dtype = self._graph.weight_dtype
        self._is_queued[:] = False
        self._is_queued[self._queue[:n_queued]] = True
        self._parents[:] = NO_VERTEX
        least = -np.inf if dtype.kind == "f" else int(np.iinfo(view.weights.dtype).min)
        outcome, vertex, processed, edges_relaxed = _search(
            view, distances, least, self._queue, self._is_queued, n_queued, self._parents, self._marks
        )
        if outcome == _CYCLE:
            self._refuse_cycle(source, vertex)
        if outcome == _TOO_SHORT:
            raise path_error(PathTooShortError, dtype, vertex if source is None else source, vertex)
        return processed, edges_relaxed

    def queue_all(self, distances: np.ndarray) -> int:
        """Queue every vertex that has a distance; return how many."""
        reached = np.flatnonzero(distances != unreached_distance(self._graph.weight_dtype))
        self._queue[: len(reached)] = reached
        return len(reached)

    def _refuse_cycle(self, source: int | None, vertex: int) -> NoReturn:
        """Raise `NegativeCycleError` for the circle of last edges that `vertex` is on."""
        cycle = [vertex]
        while (above := int(self._parents[cycle[-1]])) != vertex:
            cycle.append(above)
        cycle.reverse()
        least = cycle.index(min(cycle))
        cycle = cycle[least:] + cycle[:least]
        ends = zip(cycle, [*cycle[1:], cycle[0]], strict=True)
        length = math.fsum if self._graph.weight_dtype.kind == "f" else sum
        raise NegativeCycleError(
            cycle[0] if source is None else source, cycle, length(self._least_weight(u, v) for u, v in ends)
        )

    def _least_weight(self, u: int, v: int) -> int | float:
        row = slice(self._graph.row_offsets[u], self._graph.row_offsets[u + 1])
        weights = self._graph.weights[row][self._graph.col_indices[row] == v]
        lightest: int | float = weights.min().item()
        return lightest


def finished_distances(graph: CsrGraph, source: int, distances: np.ndarray) -> bool:
    """Look for a negative cycle while a search pauses; return whether that completed the search.

    Each distance is the length of a walk from the source. Its last edge (u, v) satisfies d[u] + w <= d[v]. So a walk
    along such edges reaches every vertex that has a distance, unless their last edges form a circle. Such a circle is
    negative.

    Parameters
    ----------
    distances
        (V,) of the weights' type. Lowered to the true distances if the result is True, else unchanged.

    Raises
    ------
    NegativeCycleError
        A negative cycle is in reach.
    PathTooShortError
        A distance is below what the type holds.
    """
    unreached = unreached_distance(distances.dtype)
    if distances[source] == 0 and _walk_reaches_all(
        SearchGraph.of(graph), distances, np.uint32(source), unreached
    ):
        return False
    search = QueueSearch(graph)
    search.go_on(distances, source, search.queue_all(distances))
    return True


def refuse_too_short(graph: CsrGraph, source: int, distances: np.ndarray) -> None:
    """Search again if a distance is the least number of its type; the search raises the cause.

    Raises
    ------
    NegativeCycleError, PathTooShortError
        As raised by a search from `source` whose sums do not fit the type.
    """
    dtype = graph.weight_dtype
    least = -np.inf if dtype.kind == "f" else np.iinfo(dtype).min
    if distances.min(initial=0) <= least:
        distances.fill(unreached_distance(dtype))
        QueueSearch(graph).run(distances, source)


class Potentials(NamedTuple):
    """Johnson's potentials: `depths` (V,) uint64 are the negated potentials, `reached` (V,) bool says which exist."""

    depths: np.ndarray
    reached: np.ndarray


def potentials(graph: CsrGraph, sources: np.ndarray | None) -> Potentials:
    """Return potentials for the vertices in reach of `sources`, or for every vertex if it is None.

    They are the distances from a vertex with an edge of weight zero to each of those vertices.

    Raises
    ------
    NegativeCycleError, PathTooShortError
        As raised by a search from the first of `sources` that has such a cycle in reach.
    """
    # With 32-bit weights, potentials may need 64 bits even if the distances asked for do not.
    graph = CsrGraph(graph.row_offsets, graph.col_indices, graph.weights.astype(np.int64, copy=False))
    unreached = unreached_distance(graph.weight_dtype)
    distances = np.full(graph.n_vertices, unreached, graph.weight_dtype)
    search = QueueSearch(graph)
    if sources is None:
        reached = np.ones(graph.n_vertices, np.bool_)
    else:
        distances[sources] = 0
        try:
            search.go_on(distances, None, search.queue_all(distances))
        except (NegativeCycleError, PathTooShortError):
            for source in sources.tolist():
                distances.fill(unreached)
                search.run(distances, source)
            raise
        reached = distances != unreached
    distances[reached] = 0
    search.go_on(distances, None, search.queue_all(distances))
    return Potentials((-np.where(reached, distances, 0)).view(np.uint64), reached)


@njit(nogil=True)
def _walk_reaches_all(graph: SearchGraph, distances: np.ndarray, source: Any, unreached: Any) -> bool:
    """Return whether a walk from `source` along edges with d[u] + w <= d[v] reaches every vertex with a distance."""
    row_offsets, col_indices, weights = graph
    is_walked = np.zeros(len(distances), np.bool_)
    queue = np.empty(len(distances), np.uint32)
    queue[0], is_walked[source] = source, True
    head, tail = ZERO, ONE
    while head < tail:
        u = queue[head]
        head += ONE
        d = distances[u]
        for e in range(row_offsets[u], row_offsets[np.uint64(u) + ONE]):
            v, weight = col_indices[e], weights[e]
            if not is_walked[v] and distances[v] != unreached:
                candidate = sum_of(d, weight)
                if candidate <= distances[v] and fits(d, weight, candidate):
                    is_walked[v] = True
                    queue[tail] = v
                    tail += ONE
    return not np.any((distances != unreached) & ~is_walked)


@njit(nogil=True)
def _search(
    graph: SearchGraph,
    distances: np.ndarray,
    least: Any,
    queue: np.ndarray,
    is_queued: np.ndarray,
    n_queued: int,
    parents: np.ndarray,
    marks: np.ndarray,
) -> Any:
    row_offsets, col_indices, weights = graph
    n_vertices = np.uint64(len(distances))
    processed = edges_relaxed = ZERO
    head, size = ZERO, np.uint64(n_queued)
    until_look = n_vertices
    while size > ZERO:
        u = queue[head]
        head = ZERO if head + ONE == n_vertices else head + ONE
        size -= ONE
        is_queued[u] = False
        d = distances[u]
        first, end = row_offsets[u], row_offsets[np.uint64(u) + ONE]
        processed += ONE
        edges_relaxed += end - first
        for e in range(first, end):
            v, weight = col_indices[e], weights[e]
            candidate = sum_of(d, weight)
            is_sum = fits(d, weight, candidate)
            if is_sum and candidate >= distances[v]:
                continue
            if weight < 0 and (candidate <= least or not is_sum):
                parents[v] = u
                on_cycle = _circle(parents, marks)
                if on_cycle >= 0:
                    return _CYCLE, on_cycle, processed, edges_relaxed
                return _TOO_SHORT, np.int64(v), processed, edges_relaxed
            if not is_sum:
                continue
            distances[v] = candidate
            parents[v] = u
            if not is_queued[v]:  # I1
                is_queued[v] = True
                place = head + size
                queue[place - n_vertices if place >= n_vertices else place] = v
                size += ONE
        until_look -= ONE
        if until_look == ZERO:
            until_look = n_vertices
            on_cycle = _circle(parents, marks)
            if on_cycle >= 0:
                return _CYCLE, on_cycle, processed, edges_relaxed
    return _DONE, np.int64(-1), processed, edges_relaxed


@njit(nogil=True)
def _circle(parents: np.ndarray, marks: np.ndarray) -> Any:
    """Return a vertex of a circle of `parents`, or -1; `marks` (V,) is scratch memory."""
    marks[:] = NO_VERTEX
    for start in range(np.uint64(len(parents))):
        v = np.uint32(start)
        while v != NO_VERTEX and marks[v] == NO_VERTEX:
            marks[v] = start
            v = parents[v]
        if v != NO_VERTEX and marks[v] == start:
            return np.int64(v)
    return np.int64(-1)
