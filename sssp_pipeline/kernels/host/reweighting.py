"""Negative integer weights for solvers that need weights of zero or more: Johnson's algorithm.

The idea: potentials h satisfy w + h[u] - h[v] >= 0 for every edge (u, v). With these as weights, every path from s to t
is longer by h[s] - h[t], whichever way it takes. So shortest paths stay shortest, and a solver that needs weights of
zero or more finds them. A reweighted graph is made once and kept with the original graph.

This is exact for integers. It is not for floats: a reweighted edge is rounded, so a distance would not be the sum along
its path in the type of the weights.

A negative cycle that no source reaches does not affect distances, but then no potentials exist for all vertices. They
are made from the sources of the call, for the vertices in their reach.

References
----------
D. B. Johnson, "Efficient algorithms for shortest paths in sparse networks", 1977.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import CsrGraph, GraphTraits, unreached_distance
from sssp_pipeline.base.errors import NegativeCycleError, PathTooLongError, PathTooShortError
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.contract.kept import EveryVertex
from sssp_pipeline.kernels.contract.solver import Solution, SolveOptions
from sssp_pipeline.kernels.host.accumulator import Accumulator
from sssp_pipeline.kernels.host.kept_with_graph import kept_with_graph
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO
from sssp_pipeline.kernels.host.predecessors import predecessors_of
from sssp_pipeline.kernels.host.queue_search import Potentials, potentials
from sssp_pipeline.kernels.host.search import finish_row, path_error
from sssp_pipeline.kernels.host.search_graph import SearchGraph

#: At most this many bytes of rows are solved in one call of the inner solver.
_ROWS_BYTES = 2**28


def refusal(graph: GraphTraits, options: SolveOptions, takes_negative: bool) -> str | None:
    """Return why a solver cannot solve `graph`, or None.

    `takes_negative` says whether the search of the solver takes negative weights.
    """
    if graph.min_weight >= 0:
        return None
    if (options.predecessors or options.along) and options.cutoff is not None:
        wanted = "predecessors" if options.predecessors else "second costs"
        return (
            f"paths of negative weights (the smallest is {graph.min_weight}) may leave the cutoff and come back, "
            f"so there are {wanted} only without a cutoff"
        )
    if takes_negative or graph.weight_dtype.kind != "f":
        return None
    return (
        f"it needs weights of zero or more, and the smallest is {graph.min_weight}; "
        "floats cannot be reweighted without rounding"
    )


def host_bytes(graph: GraphTraits) -> int:
    """Return the most host memory that `reweighted` uses in addition to the graph. It keeps less than half of that."""
    return 12 * graph.n_edges + 21 * graph.n_vertices


@dataclass(frozen=True, eq=False)
class Reweighted:
    """A graph with the same vertices and edges and weights of zero or more, and the potentials behind them."""

    graph: CsrGraph
    potentials: Potentials


def reweighted(graph: CsrGraph, sources: np.ndarray) -> Reweighted:
    """Return `graph` reweighted, valid for searches from `sources` (S,). It raises the errors of `potentials`."""
    return _for_all_sources(graph) or _made(graph, potentials(graph, sources))


@kept_with_graph
def _for_all_sources(graph: CsrGraph) -> Reweighted | None:
    """Return `graph` reweighted for searches from any source; None if not all vertices have potentials."""
    try:
        return _made(graph, potentials(graph, None))
    except (NegativeCycleError, PathTooShortError):
        return None


def _made(graph: CsrGraph, found: Potentials) -> Reweighted:
    weights = np.empty(graph.n_edges, np.uint64)
    largest = _reweight(SearchGraph.of(graph), found.depths, found.reached, weights)
    # A distance d becomes d + h[s] - h[v]. If both are below 2^31, that fits 32 bits whenever d does.
    if graph.weight_dtype.itemsize == 4 and max(largest, found.depths.max(initial=0)) < 2**31:
        weights = weights.astype(np.uint32)
    return Reweighted(CsrGraph(graph.row_offsets, graph.col_indices, weights), found)


def solve(
    search: Callable[[CsrGraph, np.ndarray, SolveOptions], Solution],
    graph: CsrGraph,
    sources: np.ndarray,
    options: SolveOptions,
    accumulator: Accumulator | None = None,
) -> Solution:
    """Return what `Solver.solve` does for a graph with negative weights, using a solver that takes none.

    Parameters
    ----------
    search
        `Solver.solve` of a solver for weights of zero or more.
    sources
        (S,) uint32, checked, as `options.kept` is.
    accumulator
        Gets every row, if there is one.

    Raises
    ------
    NegativeCycleError, PathTooLongError
        As `Solver.solve` for a graph with negative weights.
    """
    dtype, kept = graph.weight_dtype, options.kept
    distances = np.empty((len(sources), kept.n_columns(graph.n_vertices)), kept.dtype(dtype))
    predecessors = np.empty(distances.shape, np.uint32) if options.predecessors else None
    metrics = []
    made = reweighted(graph, sources)
    inner = replace(
        options, cutoff=None, predecessors=False, kept=EveryVertex(), row_facts=False, reached_only=False
    )
    row = np.empty(graph.n_vertices, dtype)
    at_once = max(1, _ROWS_BYTES // max(1, graph.n_vertices * made.graph.weight_dtype.itemsize))
    for first in range(0, len(sources), at_once):
        some = sources[first : first + at_once]
        try:
            solution = search(made.graph, some, inner)
        except PathTooLongError as error:
            raise path_error(PathTooLongError, dtype, error.source, error.vertex) from error
        for i, source in enumerate(some.tolist()):
            _lengthen_back(dtype, made.potentials.depths, source, solution.distances[i], row)
            facts = finish_row(graph, source, row, options.cutoff)
            measured = solution.metrics[i]
            metrics.append(replace(measured, **facts.results(measured.solve_s)))
            kept.reduce(row, distances[first + i])
            if accumulator is not None:
                accumulator.add(row, source)
            if predecessors is not None:
                predecessors_of(graph, source, row, predecessors[first + i])
    return Solution(distances, predecessors, metrics)


def _lengthen_back(
    dtype: np.dtype, depths: np.ndarray, source: int, reweighted: np.ndarray, into: np.ndarray
) -> None:
    """Write the distances (V,) of `dtype` that belong to the `reweighted` ones (V,) to `into`."""
    unreached = unreached_distance(reweighted.dtype)
    most, least = np.uint64(np.iinfo(dtype).max), np.uint64(-int(np.iinfo(dtype).min))
    beyond = _undo(
        depths, np.uint64(source), reweighted, unreached, most, least, into.view(f"u{dtype.itemsize}")
    )
    if beyond:
        kind = PathTooLongError if beyond > 0 else PathTooShortError
        raise path_error(kind, dtype, source, abs(beyond) - 1)


@njit(nogil=True)
def _reweight(graph: SearchGraph, depths: np.ndarray, reached: np.ndarray, into: np.ndarray) -> Any:
    """Write w + h[u] - h[v], or 0 for unreached u, to `into`; return the largest. All sums are modulo 2^64."""
    row_offsets, col_indices, weights = graph
    largest = ZERO
    for u in range(np.uint64(len(depths))):
        for e in range(row_offsets[u], row_offsets[u + ONE]):
            added = ZERO
            if reached[u]:
                added = np.uint64(np.int64(weights[e])) - depths[u] + depths[col_indices[e]]
            into[e] = added
            largest = max(largest, added)
    return largest


@njit(nogil=True)
def _undo(
    depths: np.ndarray,
    source: Any,
    distances: np.ndarray,
    unreached: Any,
    most: Any,
    least: Any,
    into: np.ndarray,
) -> Any:
    """Write d' - h[s] + h[v] to `into`.

    Returns 0; or v + 1 for the first v whose distance is not below `most`, or -v - 1 if it is not above -`least`.
    """
    for v in range(np.uint64(len(distances))):
        if distances[v] == unreached:
            into[v] = most
            continue
        d, down = np.uint64(distances[v]), depths[v]
        up = d + depths[source]
        if up < d or (up >= down and up - down >= most):
            return np.int64(v) + 1
        if up < down and down - up >= least:
            return -np.int64(v) - 1
        into[v] = up - down
    return np.int64(0)
