"""The order in which Dijkstra's algorithm with a binary heap settles vertices, made from the distances.

The idea: a heap with entries (distance, count) settles vertices of equal distance in the order in which they got that
distance. A vertex gets its distance from the first settled vertex with a tight edge to it. So the vertices of one
distance fill a first-in-first-out queue. The queue of each distance has a fixed place in the result, since the number
of vertices with that distance is known.

Needs
    Weights of zero or more; no sum of a distance and a weight beyond the type.
"""

from __future__ import annotations

import numpy as np

from sssp_pipeline.base.csr import NO_VERTEX, CsrGraph, unreached_distance
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO, sum_of
from sssp_pipeline.kernels.host.search_graph import SearchGraph, as_searched


def settled_order(
    graph: CsrGraph, sources: np.ndarray, distances: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the order in which vertices are settled, and the predecessor that each has then.

    Parameters
    ----------
    sources
        (S,) uint32, different vertices in the order in which they enter the heap.
    distances
        (V,) true distances from the nearest source, in the weights' type; not changed.

    Returns
    -------
    order : ndarray
        (n,) uint32, the reached vertices.
    predecessors : ndarray
        (V,) uint32; `csr.NO_VERTEX` for sources and unreached vertices.
    """
    ascending = np.sort(distances[distances != unreached_distance(distances.dtype)])
    order = np.empty(len(ascending), np.uint32)
    predecessors = np.full(graph.n_vertices, NO_VERTEX)
    starts = np.searchsorted(ascending, distances).astype(np.uint64)
    _walk(SearchGraph.of(graph), as_searched(graph, distances), starts, sources, order, predecessors)
    return order, predecessors


@njit(nogil=True)
def _walk(
    graph: SearchGraph,
    distances: np.ndarray,
    queue_starts: np.ndarray,
    sources: np.ndarray,
    order: np.ndarray,
    predecessors: np.ndarray,
) -> None:
    """Fill `order` and `predecessors`; the queue of the distance of `v` begins at `order[queue_starts[v]]`."""
    row_offsets, col_indices, weights = graph
    is_queued = np.zeros(len(distances), np.bool_)
    lengths = np.zeros(len(order) + 1, np.uint64)  # of each queue, at its start
    for source in sources:
        is_queued[source] = True
        order[lengths[ZERO]] = source
        lengths[ZERO] += ONE
    for place in range(len(order)):
        u = order[place]
        d = distances[u]
        for e in range(row_offsets[u], row_offsets[np.uint64(u) + ONE]):
            v = col_indices[e]
            if not is_queued[v] and sum_of(d, weights[e]) == distances[v]:
                is_queued[v] = True
                predecessors[v] = u
                start = queue_starts[v]
                order[start + lengths[start]] = v
                lengths[start] += ONE
