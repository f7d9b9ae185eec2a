"""Second costs: other weights of the edges, summed along the shortest path from the source to each vertex.

The path is that of `predecessors.py`, so every solver gives the same one. Of parallel edges that are tight, the path
takes the one with the smallest first second cost; if these are equal, the second one decides, and so on.

Phases, for each row
    1. `_sort` puts the vertices into buckets by their distance.
    2. `_find_edges` scans all edges and keeps the first tight one into each vertex. Edges are in the order of the
       vertices where they start, so it comes from the smallest one. Where some vertex has only tight edges from
       vertices at the same distance, `predecessors_of` chooses, and a second scan finds the edges.
    3. `_take_preferred` looks at the tight edges that have a parallel one.
    4. `_sum_up` adds the costs of the edges: from each vertex it follows the path back to one whose sum is known. In
       the order of the buckets, that is nearly always the vertex before, and the next vertices are fetched ahead.

Needs
    Rows that are sorted by target. The distances are true.
NOTE
    Integers are summed in 64 bits. Costs are refused if a path could cost more than that. Floats are summed as float64,
    from the source on.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from sssp_pipeline.base.csr import NO_VERTEX, CsrGraph, GraphTraits, largest_distance, unreached_distance
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.contract.kept import EveryVertex, KeptOfRow
from sssp_pipeline.kernels.contract.solver import Parts, Solution, SolveOptions, joined_metrics
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO, fits, prefetch, sum_of
from sssp_pipeline.kernels.host.predecessors import predecessors_of
from sssp_pipeline.kernels.host.row_memory import RowMemory
from sssp_pipeline.kernels.host.search_graph import SearchGraph, as_searched

#: How many distances are told apart in the order of the sums.
_BUCKETS: Any = np.uint64(2**12)
#: How many vertices ahead the sums prefetch.
_AHEAD: Any = np.uint64(64)
#: The most bytes of whole rows at a time if they are not kept.
_ROWS_BYTES = 2**25


def cost_dtype(dtype: np.dtype) -> np.dtype:
    """Return the type of sums of second costs of type `dtype`: the type of its kind with 64 bits."""
    return np.dtype(f"{np.dtype(dtype).kind}8")


def call_bytes(traits: GraphTraits, kept: KeptOfRow, n_costs: int, n_threads: int = 1) -> int:
    """Return the memory that a call of a solver takes for second costs, in addition to what is kept of each row."""
    row_bytes = traits.n_vertices * (traits.weight_dtype.itemsize + 8 * n_costs)
    rows_bytes = 0 if kept.is_whole_row else _n_rows(traits) * row_bytes
    edge_bytes = 4 if traits.n_edges < NO_VERTEX else 8
    return (12 + edge_bytes) * traits.n_vertices * n_threads + rows_bytes


def process_bytes(traits: GraphTraits, n_costs: int) -> int:
    """Return the memory that all calls of a process share: the starts of the edges, and weights in up to 64 bits."""
    return (4 + 8 * n_costs) * traits.n_edges


def row_s(traits: GraphTraits, n_costs: int) -> float:
    """Return the seconds of a core to sum up the second costs of a row (benchmarks/second_costs.py)."""
    return 1.5e-9 * traits.n_edges + (3e-9 + 7e-9 * n_costs) * traits.n_vertices


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


class _Scratch(NamedTuple):
    """Memory for the paths of one row, overwritten by each row."""

    #: (V,) uint32: the vertex before each one, the vertices of a path, and an order of the vertices.
    before: np.ndarray
    stack: np.ndarray
    order: np.ndarray
    #: (V+1,) unsigned integers: the edge into each vertex, or the largest value; what the last one has means nothing.
    edges: np.ndarray

    @classmethod
    def of(cls, graph: CsrGraph) -> _Scratch:
        before, stack, order = np.empty((3, graph.n_vertices), np.uint32)
        of_edges = np.uint32 if graph.n_edges < NO_VERTEX else np.uint64
        return cls(before, stack, order, np.empty(graph.n_vertices + 1, of_edges))


@dataclass(frozen=True, eq=False)
class _Shared:
    """What all calls for a graph and its second costs share."""

    #: The second costs of the edges, (E,) each.
    weights: tuple[np.ndarray, ...]
    #: (E,) uint32: where each edge starts; and `_parallel_edges`.
    starts: np.ndarray
    parallel: np.ndarray
    #: Memory that no thread uses now, and the memory of the sums.
    idle: list[_Scratch] = field(default_factory=list)
    rows: RowMemory = field(default_factory=RowMemory)

    def is_of(self, weights: tuple[np.ndarray, ...]) -> bool:
        """Return whether these arrays are its weights."""
        return list(map(id, self.weights)) == list(map(id, weights))


#: What `_shared` has made for each graph.
_kept: weakref.WeakKeyDictionary[CsrGraph, _Shared] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


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
        self.dtypes = tuple(cost_dtype(of_edges.dtype) for of_edges in weights)
        self._graph, self._searched = graph, SearchGraph.of(graph)
        self._shared = _shared(graph, tuple(weights))

    def of_rows(self, sources: np.ndarray, rows: np.ndarray, n_threads: int = 1) -> tuple[np.ndarray, ...]:
        """Return the second costs, (S, V) each; `csr.unreached_distance` where there is no path.

        Parameters
        ----------
        sources
            (S,) integers.
        rows
            (S, V) true distances from them, in host memory; not changed.
        """
        shared = self._shared
        made = tuple(shared.rows.empty(rows.shape, dtype) for dtype in self.dtypes)

        def fill(places: range) -> None:
            try:
                scratch = shared.idle.pop()
            except IndexError:
                scratch = _Scratch.of(self._graph)
            for i in places:
                source = int(sources[i])
                self._find_edges(source, rows[i], scratch)
                for of_edges, costs in zip(shared.weights, made, strict=True):
                    unreached = unreached_distance(costs.dtype)
                    _sum_up(source, scratch, shared.starts, of_edges, unreached, costs[i])
            shared.idle.append(scratch)

        parts = [range(first, len(rows), n_threads) for first in range(min(n_threads, len(rows)))]
        if len(parts) <= 1:
            list(map(fill, parts))
        else:
            with ThreadPoolExecutor(len(parts), "sssp-along") as pool:
                list(pool.map(fill, parts))
        return made

    def _find_edges(self, source: int, row: np.ndarray, scratch: _Scratch) -> None:
        """Write the edge by which the path enters each vertex, and an order of the vertices, to `scratch`."""
        distances = as_searched(self._graph, row)
        limit = distances.dtype.type(unreached_distance(row.dtype))
        of_row = self._searched, self._shared.starts, distances, limit
        is_found = _find_paths(*of_row, self._shared.parallel, scratch)
        if self._graph.traits.min_weight < 0 or not is_found:
            predecessors_of(self._graph, source, row, scratch.before)
            _find_edges(*of_row, scratch.before, scratch.edges)
            _take_preferred(*of_row, self._shared.parallel, scratch.edges)


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
    at_once, n = _n_rows(graph.traits), len(sources)
    made = np.empty((n, kept.n_columns(graph.n_vertices)), kept.dtype(graph.weight_dtype))
    along = tuple(np.empty((n, kept.n_costs(graph.n_vertices)), dtype) for dtype in costs.dtypes)
    metrics = []
    for begin in range(0, n, at_once):
        some = sources[begin : begin + at_once]
        (part,) = solve_parts(graph, some, inner, [len(some)])
        metrics.append(part.metrics)
        sums = costs.of_rows(some, part.distances, n_threads)
        for i, row in enumerate(part.distances):
            kept.reduce(row, made[begin + i])
            for whole, into in zip(sums, along, strict=True):
                kept.take_costs(made[begin + i], whole[i], into[begin + i])
    yield from Solution(made, None, joined_metrics(metrics), along=along).parts(ends)


def _shared(graph: CsrGraph, weights: tuple[np.ndarray, ...]) -> _Shared:
    """Return what all calls share. It is kept as long as the graph, or until the graph has other second costs."""
    with _lock:
        found = _kept.get(graph)
        if found is None or not found.is_of(weights):
            for of_edges in weights:
                _check(of_edges, graph)
            starts = np.repeat(np.arange(graph.n_vertices, dtype=np.uint32), np.diff(graph.row_offsets))
            found = _kept[graph] = _Shared(weights, starts, _parallel_edges(graph, weights))
        return found


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
def _find_paths(
    graph: SearchGraph,
    starts: np.ndarray,
    distances: np.ndarray,
    limit: Any,
    parallel: np.ndarray,
    scratch: _Scratch,
) -> bool:
    """Fill the order and the edges of `scratch`; return whether each reached vertex has an edge from a nearer one."""
    before, _, order, edges = scratch
    n_reached = _sort(distances, limit, before, order)
    n_found = _find_edges(graph, starts, distances, limit, before[:0], edges)
    _take_preferred(graph, starts, distances, limit, parallel, edges)
    return n_found + ONE == n_reached


@njit(nogil=True)
def _find_edges(
    graph: SearchGraph,
    starts: np.ndarray,
    distances: np.ndarray,
    limit: Any,
    before: np.ndarray,
    edges: np.ndarray,
) -> Any:
    """Write the first tight edge into each vertex to `edges` (V+1,), and return how many vertices have one.

    Tight edges are those from `before` (V,); if it is empty, those from vertices that are nearer.
    """
    _, col_indices, weights = graph
    is_known = len(before) > 0
    nowhere = np.uint64(len(distances))
    no_edge = ~edges.dtype.type(0)
    edges[:] = no_edge
    e = np.uint64(len(col_indices))
    while e > ZERO:  # from the last edge on, so the first one stays
        e -= ONE
        u, v = np.uint64(starts[e]), np.uint64(col_indices[e])
        d = distances[u]
        total = sum_of(d, weights[e])
        is_tight = (total == distances[v]) & (total < limit)
        if is_known:
            is_tight &= (before[v] == u) & fits(d, weights[e], total)
        else:
            is_tight &= total > d
        # No branch: whether an edge is tight cannot be predicted.
        edges[v if is_tight else nowhere] = e
    n_found = ZERO
    for v in range(nowhere):
        n_found += np.uint64(edges[v] != no_edge)
    return n_found


@njit(nogil=True)
def _take_preferred(
    graph: SearchGraph,
    starts: np.ndarray,
    distances: np.ndarray,
    limit: Any,
    parallel: np.ndarray,
    edges: np.ndarray,
) -> None:
    """Put the best of parallel tight edges in the place of any other; the last one of `parallel` is the best."""
    _, col_indices, weights = graph
    for e in parallel:
        u, v = starts[e], col_indices[e]
        if edges[v] == ~edges.dtype.type(0) or starts[edges[v]] != u:
            continue
        total = sum_of(distances[u], weights[e])
        if total == distances[v] and total < limit and fits(distances[u], weights[e], total):
            edges[v] = e


@njit(nogil=True)
def _sort(distances: np.ndarray, limit: Any, buckets: np.ndarray, order: np.ndarray) -> Any:
    """Write the vertices to `order` (V,), roughly by distance, and return how many are reached.

    `buckets` (V,) uint32 is overwritten.
    """
    n_vertices = np.uint64(len(distances))
    n_reached, largest = ZERO, distances.dtype.type(0)
    for d in distances:
        n_reached += np.uint64(d < limit)
        largest = max(largest, d if d < limit else largest)
    last = np.float64(_BUCKETS - ONE)
    scale = last / np.float64(largest) if largest > 0 else 1.0
    if not scale < np.inf:
        scale = 1.0
    for v in range(n_vertices):
        place = np.float64(distances[v]) * scale
        buckets[v] = np.int32(max(0.0, min(place, last)))
    places = np.zeros(_BUCKETS, np.uint64)
    for bucket in buckets:
        places[np.uint64(bucket)] += ONE
    n = ZERO
    for bucket in range(_BUCKETS):
        count = places[bucket]
        places[bucket] = n
        n += count
    for v in range(n_vertices):
        bucket = np.uint64(buckets[v])
        order[places[bucket]] = v
        places[bucket] += ONE
    return n_reached


@njit(nogil=True)
def _sum_up(
    source: Any,
    scratch: _Scratch,
    starts: np.ndarray,
    weights: np.ndarray,
    unreached: Any,
    costs: np.ndarray,
) -> None:
    """Fill `costs`. Any order of the vertices is right."""
    before, stack, order, edges = scratch
    for v in range(np.uint64(len(costs))):
        e = edges[v]
        is_reached = e != ~edges.dtype.type(0)
        before[v] = starts[e] if is_reached else NO_VERTEX
        costs[v] = costs.dtype.type(weights[e]) if is_reached else unreached
    costs[source] = 0
    # A vertex without one before has its sum; until then, its cost is that of its edge.
    n_vertices = np.uint64(len(order))
    for i in range(n_vertices):
        ahead = order[min(i + _AHEAD, n_vertices - ONE)]
        prefetch(before, ahead)
        prefetch(costs, ahead)
        v = np.uint64(order[i])
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
