"""A proof, in time linear in the edges, that distances are the true ones; or a vertex whose distance is not.

Distances from a source are true exactly if (a) the source has distance 0, (b) no edge can be relaxed, and (c) every
reached vertex is reached along tight edges, those with d[u] + w == d[v] in the weights' own type. Without (c), a
cycle of length zero, or weights so small that a sum rounds them away, can hold up distances that are too small:
nothing can be relaxed there, yet no path leads in.

The idea: walk the tight edges from the source first. What the walk meets has the length of a real path. Then look
at the edges that leave the walk's vertices for a vertex the walk did not meet, or that it met too far out. There
is none if the distances are true. Else the one with the smallest sum leads to a wrong vertex, and the sum is
its true distance: any shorter path would leave the walk earlier, by an edge with a smaller sum still. If there is
none, but some other vertex has a distance, then no path leads there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from sssp_pipeline.csr import NO_VERTEX, CsrGraph, unreached_distance
from sssp_pipeline.errors import InputError
from sssp_pipeline.kernels._numba import ONE
from sssp_pipeline.kernels._views import SearchGraph, distance_limit, unsigned
from sssp_pipeline.kernels.predecessors import walk_tight_edges


@dataclass(frozen=True)
class Fault:
    """A vertex whose distance is wrong.

    Attributes
    ----------
    vertex
        The vertex.
    stored
        The distance it was given; None if it was given none.
    true
        Its true distance; None if it has none, or none within the cutoff.
    reason
        In words, which of the three conditions fails there.
    """

    vertex: int
    stored: float | None
    true: float | None
    reason: str


def find_fault(
    graph: CsrGraph, source: int, distances: np.ndarray, cutoff: float | None = None
) -> Fault | None:
    """Return None if `distances` are exactly the true ones from `source`, else a vertex where they are not.

    Parameters
    ----------
    graph
        Weights of zero or more.
    distances
        (V,) in the weights' type; `csr.unreached_distance(dtype)` where there is no path; not changed.
    cutoff
        Vertices further than this must be unreached; None means no limit. A path that is longer than the type
        holds counts as no path.

    Raises
    ------
    InputError
        The graph has a negative weight, the source is not in it, or `distances` has another type or length.
    """
    if graph.traits.min_weight < 0:
        raise InputError(
            f"the certificate needs weights of zero or more: the smallest is {graph.traits.min_weight}"
        )
    if not 0 <= source < graph.n_vertices:
        raise InputError(
            f"source {source} is not in the graph",
            hint=f"its {graph.n_vertices} vertices are numbered from 0",
        )
    if distances.shape != (graph.n_vertices,) or distances.dtype != graph.weight_dtype:
        raise InputError(
            f"distances are {distances.dtype} of shape {distances.shape}, "
            f"wanted {graph.weight_dtype} of shape ({graph.n_vertices},)"
        )
    unreached = unreached_distance(distances.dtype)

    def fault(vertex: int, true: np.generic, reason: str) -> Fault:
        stored = distances[vertex]
        return Fault(
            vertex,
            None if stored == unreached else stored.item(),
            None if true == unreached else true.item(),
            reason,
        )

    if distances[source] != 0:
        return fault(source, distances.dtype.type(0), "the source is not at distance 0")
    view = SearchGraph.of(graph)
    row = unsigned(distances)
    limit = row.dtype.type(distance_limit(distances.dtype, cutoff))
    walked = np.empty(graph.n_vertices, np.uint32)
    walk_tight_edges(view.row_offsets, view.col_indices, view.weights, row, limit, np.uint32(source), walked)
    # The source has no predecessor, but the walk met it; any vertex will do to say so.
    walked[source] = source
    vertex, true = _least_crossing(view.row_offsets, view.col_indices, view.weights, row, limit, walked)
    if vertex >= 0:
        true = distances.dtype.type(true)
        too_large = distances[vertex] > true
        reason = "an edge into it can be relaxed" if too_large else "no path of tight edges leads to it"
        return fault(vertex, true, reason)
    unmet = np.flatnonzero((walked == NO_VERTEX) & (distances != unreached))
    if len(unmet):
        return fault(
            int(unmet[0]), unreached, "no path leads to it" + ("" if cutoff is None else " within the cutoff")
        )
    return None


@njit(nogil=True, cache=True)
def _least_crossing(
    row_offsets: np.ndarray,
    col_indices: np.ndarray,
    weights: np.ndarray,
    distances: np.ndarray,
    limit: Any,
    walked: np.ndarray,
) -> Any:
    """Return the vertex and the sum of the least edge that leaves the walk or can be relaxed; -1 without one."""
    vertex, least = np.int64(-1), limit
    for u in range(np.uint64(len(distances))):
        if walked[u] == NO_VERTEX:
            continue
        d = distances[u]
        for e in range(row_offsets[u], row_offsets[u + ONE]):
            v = col_indices[e]
            candidate = d + weights[e]
            if d <= candidate < least and (walked[v] == NO_VERTEX or candidate < distances[v]):
                vertex = np.int64(v)
                least = weights.dtype.type(candidate)
    return vertex, least
