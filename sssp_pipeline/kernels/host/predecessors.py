"""Predecessors, made from distances alone, so that every solver gives the same ones.

The idea: an edge (u, v) is tight if d[u] + w == d[v], added in the weights' type. Every shortest path consists of tight
edges, and every reached vertex lies on one. A breadth-first walk from the source along tight edges, rows in order,
gives each vertex the first tight edge into it. Such a walk is a tree by construction. To pick any tight edge into each
vertex would close a loop on a cycle of length zero, or on weights so small that a sum rounds to d[u].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sssp_pipeline.csr import NO_VERTEX, CsrGraph, unreached_distance
from sssp_pipeline.kernels.host.numba_tools import (
    ONE,
    ZERO,
    fits,
    sum_of,
)
from sssp_pipeline.kernels.host.search_graph import SearchGraph, as_searched
from sssp_pipeline.numba_cache import njit


def predecessors_of(graph: CsrGraph, source: int, distances: np.ndarray, into: np.ndarray) -> None:
    """Write the predecessor of every vertex on its shortest path from `source` to `into`.

    Parameters
    ----------
    distances
        (V,) true distances from `source`, in the weights' type; not changed.
    into
        (V,) uint32, overwritten; `csr.NO_VERTEX` for the source and for unreached vertices.
    """
    view = SearchGraph.of(graph)
    row = as_searched(graph, distances)
    walk_tight_edges(
        view.row_offsets,
        view.col_indices,
        view.weights,
        row,
        row.dtype.type(unreached_distance(distances.dtype)),
        np.uint32(source),
        into,
    )


@njit(nogil=True)
def walk_tight_edges(
    row_offsets: np.ndarray,
    col_indices: np.ndarray,
    weights: np.ndarray,
    distances: np.ndarray,
    limit: Any,
    source: Any,
    predecessors: np.ndarray,
) -> None:
    """Fill `predecessors` from the tight edges between vertices nearer than `limit`.

    A vertex without a tight path from the source keeps `NO_VERTEX`.
    """
    predecessors[:] = NO_VERTEX
    queue = np.empty(len(distances), np.uint32)
    queue[0] = source
    head, tail = ZERO, ONE
    while head < tail:
        u = queue[head]
        head += ONE
        d = distances[u]
        for e in range(row_offsets[u], row_offsets[np.uint64(u) + ONE]):
            v = col_indices[e]
            sum_in_type = sum_of(d, weights[e])
            if (
                sum_in_type == distances[v]
                and sum_in_type < limit
                and fits(d, weights[e], sum_in_type)
                and predecessors[v] == NO_VERTEX
                and v != source
            ):
                predecessors[v] = u
                queue[tail] = v
                tail += ONE
