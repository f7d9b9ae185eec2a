"""Dijkstra's algorithm on an indexed 4-ary heap: the oracle that every other solver is compared with.

Returns the distance row lowered to the true distances, added in the weights' own type.

The idea: a heap holds each vertex at most once and lowers its key in place. So every reached vertex is taken exactly
once, and memory is bounded by the vertices, not the edges. An element of the heap has four children: the heap is half
as deep as a binary heap, and the children share a cache line.

Needs
    Weights of zero or more (`supports`), a row filled with the distance limit (`CpuSolver`).
Keeps
    I1. `places[v]` is the position of `v` in the heap, or `NO_PLACE` if it is not there. When a search ends, the heap
        is empty, so the next search finds every place unset.
    I2. The distance of a taken vertex never changes again: sums in a type are monotone, and weights are not negative.
Ends
    Each vertex is taken once.

References
----------
E. W. Dijkstra, "A note on two problems in connexion with graphs", 1959. D. B. Johnson, "Priority queues with
update and finding minimum spanning trees", 1975, for the d-ary heap.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sssp_pipeline.base.csr import CsrGraph, GraphTraits
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.contract.forecast import Forecast, core_s
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.cpu.cpu_solver import CpuSolver
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO
from sssp_pipeline.kernels.host.search import Search
from sssp_pipeline.kernels.host.search_graph import SearchGraph

NO_PLACE = np.uint32(2**32 - 1)
CHILDREN_BITS = np.uint64(2)
CHILDREN = np.uint64(4)


class Dijkstra(CpuSolver):
    """The oracle: slow, simple, and correct for every graph without negative weights."""

    name = "dijkstra"
    summary = "Dijkstra's algorithm on a 4-ary heap; one source a thread; the oracle of verify"
    no_delta = "it has no buckets and takes no delta"
    lists_vertices = True

    def forecast(self, traits: GraphTraits, n_sources: int) -> Forecast:
        return Forecast(core_s(90.0, 8.0, traits))

    def start(self, graph: CsrGraph, options: SolveOptions) -> Search:
        return _HeapSearch(graph)


class _HeapSearch(Search):
    def __init__(self, graph: CsrGraph) -> None:
        self._graph = SearchGraph.of(graph)
        self._heap = np.empty(graph.n_vertices, np.uint32)
        self._keys = np.empty(graph.n_vertices, self._graph.weights.dtype)
        self._places = np.full(graph.n_vertices, NO_PLACE, np.uint32)

    def run(self, distances: np.ndarray, source: int) -> tuple[int, int]:
        processed, edges_relaxed = _search(
            self._graph, distances, np.uint32(source), self._heap, self._keys, self._places, self.listed
        )
        return processed, edges_relaxed


@njit(nogil=True)
def _search(
    graph: SearchGraph,
    distances: np.ndarray,
    source: Any,
    heap: np.ndarray,
    keys: np.ndarray,
    places: np.ndarray,
    listed: np.ndarray,
) -> Any:
    row_offsets, col_indices, weights = graph
    processed = edges_relaxed = ZERO
    n_listed = np.uint64(len(listed))
    distances[source] = 0
    heap[0], keys[0], places[source] = source, ZERO, ZERO
    size = ONE
    while size > ZERO:
        u, d = heap[0], keys[0]
        places[u] = NO_PLACE
        size -= ONE
        if size > ZERO:
            _sift_down(heap, keys, places, size, heap[size], keys[size])
        first, end = row_offsets[u], row_offsets[np.uint64(u) + ONE]
        if processed < n_listed:
            listed[processed] = u
        processed += ONE
        edges_relaxed += end - first
        for e in range(first, end):
            v = col_indices[e]
            candidate = d + weights[e]
            # 32-bit sums are formed in 64 bits; a 64-bit one that wrapped is smaller than its summand.
            if d <= candidate < distances[v]:
                distances[v] = candidate
                if places[v] == NO_PLACE:
                    places[v] = size
                    size += ONE
                _sift_up(heap, keys, places, np.uint64(places[v]), v, distances[v])
    return processed, edges_relaxed


@njit(nogil=True)
def _sift_up(heap: np.ndarray, keys: np.ndarray, places: np.ndarray, place: Any, v: Any, key: Any) -> None:
    """Put `v` at the free `place`, or above it while its key is smaller."""
    while place > ZERO:
        parent = (place - ONE) >> CHILDREN_BITS
        if keys[parent] <= key:
            break
        heap[place], keys[place], places[heap[parent]] = heap[parent], keys[parent], place
        place = parent
    heap[place], keys[place], places[v] = v, key, place


@njit(nogil=True)
def _sift_down(heap: np.ndarray, keys: np.ndarray, places: np.ndarray, size: Any, v: Any, key: Any) -> None:
    """Put `v` at the free root of a heap of `size`, or below it while a child's key is smaller."""
    place = ZERO
    while True:
        child = (place << CHILDREN_BITS) + ONE
        if child >= size:
            break
        least = child
        for other in range(child + ONE, min(child + CHILDREN, size)):
            if keys[other] < keys[least]:
                least = other
        if keys[least] >= key:
            break
        heap[place], keys[place], places[heap[least]] = heap[least], keys[least], place
        place = least
    heap[place], keys[place], places[v] = v, key, place
