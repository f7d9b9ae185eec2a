"""A proof, in time linear in the edges, that distances are correct; or a vertex whose distance is wrong.

Distances from a source are correct if and only if

(a) the source has distance 0,
(b) no edge can be relaxed, and
(c) every reached vertex is reached along tight edges, those with d[u] + w == d[v] in the weights' own type.

Condition (c) is needed: on a cycle of length zero, or with weights so small that a sum rounds them away, distances can
be too small although no edge can be relaxed, and no path leads there.

The idea: walk the tight edges from the source. The distance of each walked vertex is the length of a path. Then look at
the edges from a walked vertex to a vertex that was not walked, or whose distance they would lower. If the distances are
correct, there is no such edge. Otherwise the edge with the smallest sum leads to a wrong vertex, and the sum is the
true distance of that vertex: a shorter path would leave the walk earlier, by an edge with a smaller sum. If there is no
such edge, but an unwalked vertex has a distance, then no path leads to that vertex.

With negative weights the three conditions still prove that distances are correct. But if they fail, the smallest sum
says nothing, and a cutoff hides parts of paths. Then the distances are compared with the distances that
Bellman and Ford's algorithm finds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import NO_VERTEX, CsrGraph, distance_limit, unreached_distance
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.contract.kept import checked_vertices
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.cpu.queue_bellman_ford import QueueBellmanFord
from sssp_pipeline.kernels.host.numba_tools import ONE, fits, sum_of
from sssp_pipeline.kernels.host.predecessors import walk_tight_edges
from sssp_pipeline.kernels.host.search_graph import SearchGraph, as_searched


@dataclass(frozen=True)
class WrongDistance:
    """A vertex whose distance is wrong."""

    #: The vertex.
    vertex: int
    #: Its given distance; None for "unreached".
    stored: float | None
    #: Its true distance; None if no path leads to it within the cutoff.
    true: float | None
    #: A sentence that says which of the three conditions fails.
    reason: str


def find_wrong_distance(
    graph: CsrGraph, source: int, distances: np.ndarray, cutoff: float | None = None
) -> WrongDistance | None:
    """Return None if `distances` are exactly the true ones from `source`, else a vertex with a wrong distance.

    Parameters
    ----------
    distances
        (V,) in the weights' type; `csr.unreached_distance(dtype)` where there is no path; not changed.
    cutoff
        Vertices further than this must be unreached; None means no limit. A path that is longer than the type
        holds counts as no path.

    Raises
    ------
    InputError
        The source is not in the graph, `distances` has another type or length, or a negative cycle is in reach.
    """
    _check_arguments(graph, source, distances)
    unreached = unreached_distance(distances.dtype)

    def fault(vertex: int, true: np.generic, reason: str) -> WrongDistance:
        stored = distances[vertex]
        return WrongDistance(
            vertex,
            None if stored == unreached else stored.item(),
            None if true == unreached else true.item(),
            reason,
        )

    if distances[source] != 0:
        return fault(source, distances.dtype.type(0), "the source is not at distance 0")
    view = SearchGraph.of(graph)
    row = as_searched(graph, distances)
    limit = row.dtype.type(distance_limit(distances.dtype, cutoff))
    walked = np.full(graph.n_vertices, NO_VERTEX)
    starts = np.array([source], np.uint32)
    walk_tight_edges(view, row, limit, np.uint32(source), starts, walked)
    # The source was walked too. It has no predecessor, so any vertex marks it.
    walked[source] = source
    vertex, true = _least_crossing(view, row, limit, walked)
    unwalked = np.flatnonzero((walked == NO_VERTEX) & (distances != unreached))
    if graph.traits.min_weight < 0 and (vertex >= 0 or len(unwalked) or cutoff is not None):
        true_row = (
            QueueBellmanFord().solve(graph, np.array([source]), SolveOptions(cutoff=cutoff)).distances[0]
        )
        wrong = np.flatnonzero(distances != true_row)
        reason = "the algorithm of Bellman and Ford finds another distance"
        return fault(int(wrong[0]), true_row[wrong[0]], reason) if len(wrong) else None
    if vertex >= 0:
        true = distances.dtype.type(true)
        too_large = distances[vertex] > true
        reason = "an edge into it can be relaxed" if too_large else "no path of tight edges leads to it"
        return fault(vertex, true, reason)
    if len(unwalked):
        return fault(
            int(unwalked[0]),
            unreached,
            "no path leads to it" + ("" if cutoff is None else " within the cutoff"),
        )
    return None


def _check_arguments(graph: CsrGraph, source: int, distances: np.ndarray) -> None:
    checked_vertices(np.array([source]), graph.n_vertices, "source")
    if distances.shape != (graph.n_vertices,) or distances.dtype != graph.weight_dtype:
        raise InputError(
            f"distances are {distances.dtype} of shape {distances.shape}, "
            f"wanted {graph.weight_dtype} of shape ({graph.n_vertices},)",
            hint="give one distance for each vertex, in the type of the weights",
        )


@njit(nogil=True)
def _least_crossing(graph: SearchGraph, distances: np.ndarray, limit: Any, walked: np.ndarray) -> Any:
    """Return target and sum of the edge with the least sum that leaves the walk or can be relaxed; -1 if none."""
    row_offsets, col_indices, weights = graph
    vertex, least = np.int64(-1), limit
    for u in range(np.uint64(len(distances))):
        if walked[u] == NO_VERTEX:
            continue
        d = distances[u]
        for e in range(row_offsets[u], row_offsets[u + ONE]):
            v = col_indices[e]
            candidate = sum_of(d, weights[e])
            is_better = walked[v] == NO_VERTEX or candidate < distances[v]
            if is_better and candidate < least and fits(d, weights[e], candidate):
                vertex = np.int64(v)
                least = weights.dtype.type(candidate)
    return vertex, least
