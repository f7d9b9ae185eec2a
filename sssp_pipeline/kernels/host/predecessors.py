"""Predecessors, made from the distances, so that every solver gives the same ones.

The idea: an edge (u, v) is tight if d[u] + w == d[v], added in the weights' type. Every shortest path consists of tight
edges, and every reached vertex lies on one. To pick any tight edge into each vertex would close a loop on a cycle of
length zero, or on weights so small that a sum rounds to d[u]. So these rules choose the predecessor of a vertex v:

1. It is the smallest vertex u with a tight edge into v and d[u] < d[v]. Distances fall along such predecessors, so they
   close no loop.
2. Some vertices have only tight edges from vertices at the same distance. A breadth-first walk along tight edges starts
   at the source and at all vertices of rule 1, and gives each of them the smallest vertex of the level before.
3. With negative weights, distances need not fall. There the walk starts only at the source, and rule 1 is left out.
   The paths are those with the fewest edges among the shortest.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sssp_pipeline.base.csr import NO_VERTEX, CsrGraph, unreached_distance
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO, fits, sum_of
from sssp_pipeline.kernels.host.search_graph import SearchGraph, as_searched


def predecessors_of(graph: CsrGraph, source: int, distances: np.ndarray, into: np.ndarray) -> None:
    """Write the predecessor of every vertex on its shortest path from `source` to `into`.

    Parameters
    ----------
    distances
        (V,) true distances from `source`, in the weights' type; not changed.
    into
        (V,) uint32, overwritten; `csr.NO_VERTEX` for the source and for unreached vertices.
    """
    row = as_searched(graph, distances)
    searched = SearchGraph.of(graph)
    limit = row.dtype.type(unreached_distance(distances.dtype))
    into[:] = NO_VERTEX
    starts = np.array([source], np.uint32)
    if graph.traits.min_weight >= 0:
        level = np.empty(len(distances), np.uint32)
        is_done, n_level = _take_nearer(searched, row, limit, into, level)
        if is_done:
            return
        # From other vertices of rule 1 the walk would lead nowhere.
        level = level[:n_level]
        starts = level[(into[level] != NO_VERTEX) | (level == source)]
    walk_tight_edges(searched, row, limit, np.uint32(source), starts, into)


@njit(nogil=True)
def _take_nearer(
    graph: SearchGraph, distances: np.ndarray, limit: Any, predecessors: np.ndarray, level: np.ndarray
) -> Any:
    """Fill `predecessors` by rule 1, and `level` with the vertices that have an edge of length zero to another one.

    Return whether only the source is left among the vertices nearer than `limit`, and how many are in `level`.
    """
    row_offsets, col_indices, weights = graph
    n_reached, n_found, n_level = ZERO, ZERO, ZERO
    for u in range(np.uint64(len(distances))):
        d = distances[u]
        if not d < limit:
            continue
        n_reached += ONE
        has_level_edge = False
        for e in range(row_offsets[u], row_offsets[u + ONE]):
            v = col_indices[e]
            sum_in_type = sum_of(d, weights[e])
            if sum_in_type == distances[v] and sum_in_type < limit and fits(d, weights[e], sum_in_type):
                if sum_in_type == d:
                    has_level_edge |= v != u
                elif predecessors[v] == NO_VERTEX:
                    predecessors[v] = u
                    n_found += ONE
        if has_level_edge:
            level[n_level] = u
            n_level += ONE
    return n_found + ONE == n_reached, n_level


@njit(nogil=True)
def walk_tight_edges(
    graph: SearchGraph,
    distances: np.ndarray,
    limit: Any,
    source: Any,
    starts: np.ndarray,
    predecessors: np.ndarray,
) -> None:
    """Fill `predecessors` where it is `NO_VERTEX`, by a walk from `starts` along tight edges below `limit`.

    A vertex to which no tight path leads keeps `NO_VERTEX`, and so does the source.
    """
    row_offsets, col_indices, weights = graph
    queue = np.empty(len(distances), np.uint32)
    queue[: len(starts)] = starts
    depth = np.zeros(len(distances), np.uint32)
    head, tail = ZERO, np.uint64(len(starts))
    while head < tail:
        u = queue[head]
        head += ONE
        d = distances[u]
        below = depth[u] + np.uint32(1)
        for e in range(row_offsets[u], row_offsets[np.uint64(u) + ONE]):
            v = col_indices[e]
            sum_in_type = sum_of(d, weights[e])
            if (
                sum_in_type == distances[v]
                and sum_in_type < limit
                and fits(d, weights[e], sum_in_type)
                and v != source
            ):
                if predecessors[v] == NO_VERTEX:
                    predecessors[v] = u
                    depth[v] = below
                    queue[tail] = v
                    tail += ONE
                elif depth[v] == below and u < predecessors[v]:
                    predecessors[v] = u
