"""Second costs: other weights of the edges, summed along the shortest path from the source to each vertex.

The path is that of `predecessors.py`, so every solver gives the same one. Of parallel edges that are tight, the path
takes the one with the smallest first second cost; if these are equal, the second one decides, and so on.

Phases, for each row
    1. `_find_edges` scans all edges and keeps the first tight one into each vertex. Edges are in the order of the
       vertices where they start, so it comes from the smallest one. Where some vertex has only tight edges from
       vertices at the same distance, `predecessors_of` chooses, and a second scan finds the edges.
    2. `_take_preferred` looks at the tight edges that have a parallel one.
    3. `_sum_up` adds the costs of the edges: from each vertex it follows the path back to one whose sum is known.

Needs
    Rows that are sorted by target. The distances are true.
NOTE
    Integers are summed in 64 bits. Costs are refused if a path could cost more than that. Floats are summed as float64,
    from the source on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import NO_VERTEX, CsrGraph, GraphTraits, largest_distance, unreached_distance
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.contract.kept import EveryVertex, KeptOfRow
from sssp_pipeline.kernels.contract.solver import Parts, Solution, SolveOptions, joined_metrics
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO, fits, sum_of
from sssp_pipeline.kernels.host.predecessors import predecessors_of
from sssp_pipeline.kernels.host.search_graph import SearchGraph, as_searched

_NO_EDGE: Any = np.uint64(2**64 - 1)
#: The most bytes of whole rows at a time if they are not kept.
_ROWS_BYTES = 2**25


def cost_dtype(dtype: np.dtype) -> np.dtype:
    """Return the type of sums of second costs of type `dtype`: the type of its kind with 64 bits."""
    return np.dtype(f"{np.dtype(dtype).kind}8")


def call_bytes(traits: GraphTraits, kept: KeptOfRow, n_costs: int, n_threads: int = 1) -> int:
    """Return the memory that a call of a solver takes for second costs, in addition to what is kept of each row."""
    row_bytes = traits.n_vertices * (traits.weight_dtype.itemsize + 8 * n_costs)
    rows_bytes = 0 if kept.is_whole_row else _n_rows(traits) * row_bytes
    return 4 * traits.n_edges + 16 * traits.n_vertices * n_threads + rows_bytes


def row_s(traits: GraphTraits, n_costs: int) -> float:
    """Return the seconds of a core to sum up the second costs of a row (benchmarks/second_costs.py)."""
    return 5e-9 * traits.n_edges + 15e-9 * n_costs * traits.n_vertices


def check_sums(
    least: float, most: float, n_vertices: int, dtype: np.dtype, largest: float | None = None
) -> None:
    """Raise `InputError` if a path over `n_vertices` may cost more than the type of sums of `dtype` holds.

    The costs are between `least` and `most`. `largest` is the largest sum if it is less.
    """
    held, farthest = cost_dtype(dtype), max(-least, most)
    longest = farthest * max(0, n_vertices - 1)
    if longest > (largest_distance(held) if largest is None else largest):
        raise InputError(
            f"a second cost is {farthest}, and the sum along a path of {n_vertices - 1:,} edges may be {longest}, "
            f"which {held if largest is None else 'float64'} cannot hold",
            hint="give the second cost in a larger unit",
        )


def _n_rows(traits: GraphTraits) -> int:
    """Return how many whole rows are held at a time if they are not kept."""
    return max(1, _ROWS_BYTES // max(1, traits.n_vertices * traits.weight_dtype.itemsize))


class SecondCosts:
    """Sums up second costs along shortest paths.

    Parameters
    ----------
    graph
        Its rows are sorted by target.
    weights
        The second costs of its edges, (E,) each, of one of `csr.WEIGHT_DTYPES`.

    Raises
    ------
    InputError
        There are not as many costs as edges, a path may cost more than 64 bits hold, or a row is not sorted.
    """

    def __init__(self, graph: CsrGraph, weights: Sequence[np.ndarray]) -> None:
        for of_edges in weights:
            _check(of_edges, graph)
        self.dtypes = tuple(cost_dtype(of_edges.dtype) for of_edges in weights)
        self._graph, self._weights = graph, tuple(weights)
        self._searched = SearchGraph.of(graph)
        self._starts = np.repeat(np.arange(graph.n_vertices, dtype=np.uint32), np.diff(graph.row_offsets))
        self._parallel = _parallel_edges(graph, weights)

    def of_rows(self, sources: np.ndarray, rows: np.ndarray, n_threads: int = 1) -> tuple[np.ndarray, ...]:
        """Return the second costs, (S, V) each; `csr.unreached_distance` where there is no path.

        Parameters
        ----------
        sources
            (S,) integers.
        rows
            (S, V) true distances from them, in host memory; not changed.
        """
        made = tuple(np.empty(rows.shape, dtype) for dtype in self.dtypes)

        def fill(places: range) -> None:
            edges = np.empty(rows.shape[1], np.uint64)
            before, stack = np.empty((2, rows.shape[1]), np.uint32)
            for i in places:
                source = int(sources[i])
                self._find_edges(source, rows[i], before, edges)
                for of_edges, costs in zip(self._weights, made, strict=True):
                    unreached = unreached_distance(costs.dtype)
                    _sum_up(source, edges, self._starts, of_edges, unreached, before, stack, costs[i])

        parts = [range(first, len(rows), n_threads) for first in range(min(n_threads, len(rows)))]
        if len(parts) <= 1:
            list(map(fill, parts))
        else:
            with ThreadPoolExecutor(len(parts), "sssp-along") as pool:
                list(pool.map(fill, parts))
        return made

    def _find_edges(self, source: int, row: np.ndarray, before: np.ndarray, edges: np.ndarray) -> None:
        """Write the edge by which the path enters each vertex to `edges`. `before` is overwritten."""
        distances = as_searched(self._graph, row)
        limit = distances.dtype.type(unreached_distance(row.dtype))
        of_row = self._searched, distances, limit
        is_found = False
        if self._graph.traits.min_weight >= 0:
            n_reached = int(_find_edges(*of_row, before[:0], edges))
            is_found = np.count_nonzero(edges != _NO_EDGE) + 1 == n_reached
        if not is_found:
            predecessors_of(self._graph, source, row, before)
            _find_edges(*of_row, before, edges)
        _take_preferred(*of_row, self._starts, self._parallel, edges)


def solved_along(
    solve_parts: Callable[[CsrGraph, np.ndarray, SolveOptions, Sequence[int]], Parts],
    graph: CsrGraph,
    sources: np.ndarray,
    options: SolveOptions,
    ends: Sequence[int],
    n_threads: int,
) -> Parts:
    """Yield what `Solver.solve_parts` yields, with the second costs `options.along`.

    A path leads through other vertices than those that are kept. So `solve_parts`, of a solver, gives whole rows: those
    of a part at a time, or about `_ROWS_BYTES` of them.
    """
    costs, kept = SecondCosts(graph, options.along), options.kept
    inner = replace(options, kept=EveryVertex(), row_facts=False, reached_only=False, along=())
    if kept.is_whole_row:
        first = 0
        with closing(solve_parts(graph, sources, inner, ends)) as parts:
            for part in parts:
                some = sources[first : first + len(part.distances)]
                first += len(some)
                yield replace(part, along=costs.of_rows(some, part.distances, n_threads))
        return
    at_once = _n_rows(graph.traits)
    for first, end in pairwise((0, *ends)):
        n = end - first
        made = np.empty((n, kept.n_columns(graph.n_vertices)), kept.dtype(graph.weight_dtype))
        along = tuple(np.empty((n, kept.n_costs(graph.n_vertices)), dtype) for dtype in costs.dtypes)
        metrics = []
        for begin in range(first, end, at_once):
            some = sources[begin : min(begin + at_once, end)]
            (part,) = solve_parts(graph, some, inner, [len(some)])
            metrics.append(part.metrics)
            sums = costs.of_rows(some, part.distances, n_threads)
            for i, row in enumerate(part.distances):
                at = begin - first + i
                kept.reduce(row, made[at])
                for whole, into in zip(sums, along, strict=True):
                    kept.take_costs(made[at], whole[i], into[at])
        yield Solution(made, None, joined_metrics(metrics), along=along)


def _check(of_edges: np.ndarray, graph: CsrGraph) -> None:
    if len(of_edges) != graph.n_edges:
        raise InputError(
            f"a second cost has {len(of_edges):,} values, and the graph has {graph.n_edges:,} edges",
            hint="give one value for each edge",
        )
    if len(of_edges):
        check_sums(of_edges.min().item(), of_edges.max().item(), graph.n_vertices, of_edges.dtype)


def _parallel_edges(graph: CsrGraph, weights: Sequence[np.ndarray]) -> np.ndarray:
    """Return the edges (n,) uint64 that have parallel ones, from the one that a path likes least to the best."""
    ends = graph.col_indices
    is_first = np.zeros(graph.n_edges + 1, np.bool_)
    is_first[graph.row_offsets] = True
    within = ~is_first[1:-1]
    if (within & (ends[1:] < ends[:-1])).any():
        raise InputError(
            "the edges of a vertex are not in the order of their ends",
            hint="sort them: `matrix.sort_indices()` of SciPy does",
        )
    same = within & (ends[1:] == ends[:-1])
    parallel = np.flatnonzero(np.append(same, False) | np.insert(same, 0, False))
    liked = np.lexsort([of_edges[parallel] for of_edges in reversed(weights)])
    return parallel[liked[::-1]].astype(np.uint64)


@njit(nogil=True)
def _find_edges(
    graph: SearchGraph, distances: np.ndarray, limit: Any, before: np.ndarray, edges: np.ndarray
) -> Any:
    """Write the first tight edge into each vertex to `edges`, and return how many vertices are reached.

    Tight edges are those from `before` (V,); if it is empty, those from vertices that are nearer.
    """
    row_offsets, col_indices, weights = graph
    is_known = len(before) > 0
    edges[:] = _NO_EDGE
    n_reached = ZERO
    for u in range(np.uint64(len(distances))):
        d = distances[u]
        if not d < limit:
            continue
        n_reached += ONE
        for e in range(row_offsets[u], row_offsets[u + ONE]):
            v = col_indices[e]
            total = sum_of(d, weights[e])
            is_tight = (total == distances[v]) & (total < limit)
            if is_known:
                is_tight &= (before[v] == u) & fits(d, weights[e], total)
            else:
                is_tight &= total > d
            # No branch: whether an edge is tight cannot be predicted.
            edges[v] = min(edges[v], e if is_tight else _NO_EDGE)
    return n_reached


@njit(nogil=True)
def _take_preferred(
    graph: SearchGraph,
    distances: np.ndarray,
    limit: Any,
    starts: np.ndarray,
    parallel: np.ndarray,
    edges: np.ndarray,
) -> None:
    """Put the best of parallel tight edges in the place of any other; the last one of `parallel` is the best."""
    _, col_indices, weights = graph
    for e in parallel:
        u, v = starts[e], col_indices[e]
        if edges[v] == _NO_EDGE or starts[edges[v]] != u:
            continue
        total = sum_of(distances[u], weights[e])
        if total == distances[v] and total < limit and fits(distances[u], weights[e], total):
            edges[v] = e


@njit(nogil=True)
def _sum_up(
    source: Any,
    edges: np.ndarray,
    starts: np.ndarray,
    weights: np.ndarray,
    unreached: Any,
    before: np.ndarray,
    stack: np.ndarray,
    costs: np.ndarray,
) -> None:
    """Fill `costs`. `before` and `stack`, (V,) uint32 both, are overwritten."""
    n_vertices = np.uint64(len(costs))
    for v in range(n_vertices):
        e = edges[v]
        before[v] = NO_VERTEX if e == _NO_EDGE else starts[e]
        costs[v] = unreached if e == _NO_EDGE else costs.dtype.type(weights[e])
    costs[source] = 0
    # A vertex without one before has its sum; until then, its cost is that of its edge.
    for start in range(n_vertices):
        v = np.uint64(start)
        n = ZERO
        while before[v] != NO_VERTEX:
            stack[n] = v
            n += ONE
            u = np.uint64(before[v])
            before[v] = NO_VERTEX
            v = u
        total = costs[v]
        while n > ZERO:
            n -= ONE
            v = np.uint64(stack[n])
            total = sum_of(total, costs[v])
            costs[v] = total
