"""Second costs: other weights of the edges, summed along the shortest path from the source to each vertex.

The path is that of `predecessors.py`, so every solver gives the same one. Of parallel edges that are tight, the path
takes the one with the smallest first second cost; if these are equal, the second one decides, and so on.

Phases
    1. `tight_edges.py` finds the first tight edge into each vertex, for several rows together. The edges into a vertex
       are in the order of their starts, so it comes from the smallest one, and the best of parallel edges is first.
       Where some vertex of a row has only tight edges from vertices at the same distance, `predecessors_of` chooses.
    2. `_sort` puts the vertices of a row into buckets by their distance. If only some vertices are wanted, these are
       taken as they come.
    3. `_sum_up` adds the costs of the edges: from each vertex it follows the path back to one whose sum is known. In
       the order of the buckets, that is nearly always the vertex before, and the next vertices are fetched ahead.

Needs
    The distances are true.
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
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import NO_VERTEX, CsrGraph, GraphTraits, largest_distance, unreached_distance
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.contract.forecast import graph_device_bytes
from sssp_pipeline.kernels.contract.kept import EveryVertex, KeptOfRow
from sssp_pipeline.kernels.contract.solver import Parts, Solution, SolveOptions, joined_metrics
from sssp_pipeline.kernels.host.incoming import Incoming
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO, fits, prefetch, sum_of
from sssp_pipeline.kernels.host.predecessors import predecessors_of
from sssp_pipeline.kernels.host.row_memory import RowMemory
from sssp_pipeline.kernels.host.search_graph import as_searched
from sssp_pipeline.kernels.host.tight_edges import LANES, EdgesByEnd, TightEdges, scan_bytes

#: If all vertices are wanted, a GPU begins a walk at one of so many; and the memory of a walk (`second_costs.cu`).
GPU_SPACING, GPU_WALK_BYTES = 4, 24
#: How many distances are told apart in the order of the sums.
_BUCKETS: Any = np.uint64(2**12)
#: How many vertices ahead the sums prefetch.
_AHEAD: Any = np.uint64(64)
#: The most bytes of whole rows at a time if they are not kept.
_ROWS_BYTES = 2**25


def cost_dtype(dtype: np.dtype) -> np.dtype:
    """Return the type of sums of second costs of type `dtype`: the type of its kind with 64 bits."""
    return np.dtype(f"{np.dtype(dtype).kind}8")


def call_bytes(traits: GraphTraits, kept: KeptOfRow, n_costs: int, n_rows: int, n_threads: int = 1) -> int:
    """Return the memory of second costs in a call of a solver. Its results are not counted."""
    row_bytes = traits.n_vertices * (traits.weight_dtype.itemsize + 8 * n_costs)
    rows_bytes = 0 if kept.is_whole_row else min(n_rows, rows_at_once(traits)) * row_bytes
    thread_bytes = 12 * traits.n_vertices + scan_bytes(traits, n_rows)
    return thread_bytes * n_threads + rows_bytes


def process_bytes(traits: GraphTraits, n_costs: int) -> int:
    """Return the memory that all calls of a process share: the edges into each vertex, and their costs."""
    return EdgesByEnd.n_bytes(traits) + 8 * n_costs * traits.n_edges


def row_s(traits: GraphTraits, n_costs: int) -> float:
    """Return the seconds of a core to sum up the second costs of a row (benchmarks/second_costs.py)."""
    return 1e-9 * traits.n_edges + (2e-9 + 5e-9 * n_costs) * traits.n_vertices


def gpu_graph_bytes(traits: GraphTraits, dtypes: Sequence[np.dtype]) -> int:
    """Return the device memory of the edges into each vertex, with second costs of these types."""
    if not (dtypes and are_for_gpus(traits, dtypes)):
        return 0
    return graph_device_bytes(traits) + 8 * len(dtypes) * traits.n_edges


def gpu_source_bytes(traits: GraphTraits, kept: KeptOfRow, dtypes: Sequence[np.dtype]) -> int:
    """Return the device memory for each source: the second costs in two buffers, and what their sums need."""
    if not (dtypes and are_for_gpus(traits, dtypes)):
        return 0
    n_columns = kept.n_costs(traits.n_vertices)
    return (
        2 * 8 * len(dtypes) * n_columns
        + 12 * traits.n_vertices
        + GPU_WALK_BYTES * n_walks(traits.n_vertices, kept)
    )


def gpu_row_s(traits: GraphTraits, kept: KeptOfRow) -> float:
    """Return the seconds of a GPU to sum up a second cost of a row (one H200, New York and the north-east)."""
    walked = 5.5e-12 * traits.n_vertices + 5e-9 * kept.n_costs(traits.n_vertices)
    return min(walked, 3e-10 * traits.n_vertices)


def n_walks(n_vertices: int, kept: KeptOfRow) -> int:
    """Return how many walks a GPU has for a row (`second_costs.cu`)."""
    return -(-n_vertices // GPU_SPACING) if kept.is_whole_row else kept.n_costs(n_vertices)


def are_for_gpus(traits: GraphTraits, dtypes: Sequence[np.dtype]) -> bool:
    """Return whether a GPU sums second costs of these types: integers, which may be added in any order.

    An edge of length zero may close a circle of tight edges, which `predecessors_of` resolves.
    """
    return traits.min_weight > 0 and all(np.dtype(dtype).kind in "iu" for dtype in dtypes)


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


def rows_at_once(traits: GraphTraits) -> int:
    """Return how many whole rows are held at a time if they are not kept: a multiple of those scanned together."""
    together = int(LANES)
    return (
        max(1, _ROWS_BYTES // max(1, together * traits.n_vertices * traits.weight_dtype.itemsize)) * together
    )


class _Scratch:
    """Memory of a thread for the paths of its rows, overwritten by each row."""

    def __init__(self, edges: EdgesByEnd) -> None:
        self.tight = TightEdges(edges)
        #: (V,) uint32: the vertex before each one, the vertices of a path, and an order of the vertices.
        self.before, self.stack, self.order = np.empty((3, len(edges.offsets) - 1), np.uint32)


@dataclass(frozen=True, eq=False)
class SharedCosts:
    """What all calls for a graph and its second costs share."""

    #: The second costs of the edges, (E,) each.
    weights: tuple[np.ndarray, ...]
    #: The edges into each vertex, the best of parallel ones first, and the second costs in this order.
    edges: EdgesByEnd
    costs: tuple[np.ndarray, ...]
    #: Memory that no thread uses now, and the memory of the sums.
    idle: list[_Scratch] = field(default_factory=list)
    rows: RowMemory = field(default_factory=RowMemory)

    def is_of(self, weights: tuple[np.ndarray, ...]) -> bool:
        """Return whether these arrays are its weights."""
        return list(map(id, self.weights)) == list(map(id, weights))


#: What `_shared` has made for each graph.
_kept: weakref.WeakKeyDictionary[CsrGraph, SharedCosts] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


class SecondCosts:
    """Sums up second costs along shortest paths.

    Parameters
    ----------
    graph
        Its edges are in any order.
    weights
        The second costs of its edges, (E,) each, of one of `csr.WEIGHT_DTYPES`.

    Raises
    ------
    InputError
        There are not as many costs as edges, or a path may cost more than 64 bits hold.
    """

    def __init__(self, graph: CsrGraph, weights: Sequence[np.ndarray]) -> None:
        self.dtypes = tuple(cost_dtype(of_edges.dtype) for of_edges in weights)
        self._graph = graph
        #: The edges into each vertex and their second costs, which a GPU copies.
        self.shared = _shared(graph, tuple(weights))

    def of_rows(
        self, sources: np.ndarray, rows: np.ndarray, n_threads: int = 1, wanted: np.ndarray | None = None
    ) -> tuple[np.ndarray, ...]:
        """Return the second costs, (S, V) each; `csr.unreached_distance` where there is no path.

        Parameters
        ----------
        sources
            (S,) integers.
        rows
            (S, V) true distances from them, in host memory; not changed.
        wanted
            (n,) integers: only the costs of these vertices are right. None for all vertices.
        """
        shared, together = self.shared, int(LANES)
        made = tuple(shared.rows.empty(rows.shape, dtype) for dtype in self.dtypes)

        def fill(first: int) -> None:
            try:
                scratch = shared.idle.pop()
            except IndexError:
                scratch = _Scratch(shared.edges)
            some = slice(first, first + together)
            self._fill(sources[some], rows[some], wanted, scratch, [costs[some] for costs in made])
            shared.idle.append(scratch)

        firsts = range(0, len(rows), together)
        if min(n_threads, len(firsts)) <= 1:
            list(map(fill, firsts))
        else:
            with ThreadPoolExecutor(min(n_threads, len(firsts)), "sssp-along") as pool:
                list(pool.map(fill, firsts))
        return made

    def _fill(
        self,
        sources: np.ndarray,
        rows: np.ndarray,
        wanted: np.ndarray | None,
        scratch: _Scratch,
        made: Sequence[np.ndarray],
    ) -> None:
        """Fill the second costs `made` of at most `LANES` rows."""
        shared = self.shared
        searched = as_searched(self._graph, rows)
        limit = searched.dtype.type(unreached_distance(rows.dtype))
        has_negative = self._graph.traits.min_weight < 0
        # The edges are in the second half of the rows of the last costs: `_sum_up` reads them before it writes there.
        memory = made[-1].view(np.uint32)
        if not has_negative:
            scratch.tight.of_rows(searched, limit, memory)
        tight = memory[:, rows.shape[1] :]
        order = scratch.order if wanted is None else wanted.astype(np.uint32)
        for i, source in enumerate(sources.tolist()):
            if has_negative or not _are_complete(source, searched[i], limit, tight[i]):
                predecessors_of(self._graph, source, rows[i], scratch.before)
                _find_edges(shared.edges, searched[i], scratch.before, tight[i])
            if wanted is None:
                _sort(searched[i], limit, scratch.before, order)
            for of_edges, costs in zip(shared.costs, made, strict=True):
                of_row = tight[i], order, scratch.before, scratch.stack
                _sum_up(source, shared.edges, of_edges, *of_row, unreached_distance(costs.dtype), costs[i])


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
    costs, kept, n = SecondCosts(graph, options.along), options.kept, len(sources)
    inner = replace(options, kept=EveryVertex(), row_facts=False, reached_only=False, along=())
    if kept.is_whole_row:
        groups = _groups(ends, int(LANES) * n_threads)
        first = 0
        with closing(solve_parts(graph, sources, inner, [group[-1] for group in groups])) as parts:
            for part, group in zip(parts, groups, strict=True):
                sums = costs.of_rows(sources[first : group[-1]], part.distances, n_threads)
                yield from replace(part, along=sums).parts([end - first for end in group])
                first = group[-1]
        return
    at_once = rows_at_once(graph.traits)
    made = np.empty((n, kept.n_columns(graph.n_vertices)), kept.dtype(graph.weight_dtype))
    along = tuple(np.empty((n, kept.n_costs(graph.n_vertices)), dtype) for dtype in costs.dtypes)
    metrics = []
    for begin in range(0, n, at_once):
        some = sources[begin : begin + at_once]
        (part,) = solve_parts(graph, some, inner, [len(some)])
        metrics.append(part.metrics)
        sums = costs.of_rows(some, part.distances, n_threads, kept.read_vertices)
        for i, row in enumerate(part.distances):
            kept.reduce(row, made[begin + i])
            for whole, into in zip(sums, along, strict=True):
                kept.take_costs(made[begin + i], whole[i], into[begin + i])
    yield from Solution(made, None, joined_metrics(metrics), along=along).parts(ends)


def _groups(ends: Sequence[int], most: int) -> list[list[int]]:
    """Return `ends` in groups: the parts of each group have at most `most` sources together, or it is a single part."""
    groups: list[list[int]] = []
    first = 0
    for end in ends:
        if groups and end - first <= most:
            groups[-1].append(end)
        else:
            first = groups[-1][-1] if groups else 0
            groups.append([end])
    return groups


def _shared(graph: CsrGraph, weights: tuple[np.ndarray, ...]) -> SharedCosts:
    """Return what all calls share. It is kept as long as the graph, or until the graph has other second costs."""
    with _lock:
        found = _kept.get(graph)
        if found is None or not found.is_of(weights):
            for of_edges in weights:
                _check(of_edges, graph)
            incoming = Incoming.of(graph, weights)
            costs = tuple(of_edges[incoming.edges] for of_edges in weights)
            found = _kept[graph] = SharedCosts(weights, EdgesByEnd.of(incoming), costs)
        return found


def _check(of_edges: np.ndarray, graph: CsrGraph) -> None:
    if len(of_edges) != graph.n_edges:
        raise InputError(
            f"a second cost has {len(of_edges):,} values, and the graph has {graph.n_edges:,} edges",
            hint="give one value for each edge",
        )
    if len(of_edges):
        check_sums(of_edges.min().item(), of_edges.max().item(), graph.n_vertices, of_edges.dtype)


@njit(nogil=True)
def _are_complete(source: Any, distances: np.ndarray, limit: Any, tight: np.ndarray) -> bool:
    """Return whether each reached vertex but the source has an edge in `tight` (V,)."""
    n_without = ZERO
    for v in range(np.uint64(len(distances))):
        n_without += np.uint64((distances[v] < limit) & (tight[v] == NO_VERTEX))
    return n_without == ONE and tight[source] == NO_VERTEX


@njit(nogil=True)
def _find_edges(edges: EdgesByEnd, distances: np.ndarray, before: np.ndarray, tight: np.ndarray) -> None:
    """Write the first tight edge from `before` (V,) into each vertex to `tight` (V,)."""
    offsets, starts, weights, _ = edges
    for v in range(np.uint64(len(distances))):
        tight[v] = NO_VERTEX
        first, end, u = offsets[v], offsets[v + ONE], before[v]
        for e in range(first, end if u != NO_VERTEX else first):
            total = sum_of(distances[u], weights[e])
            if starts[e] == u and total == distances[v] and fits(distances[u], weights[e], total):
                tight[v] = e - first
                break


@njit(nogil=True)
def _sort(distances: np.ndarray, limit: Any, buckets: np.ndarray, order: np.ndarray) -> None:
    """Write the vertices to `order` (V,), roughly by distance.

    `buckets` (V,) uint32 is overwritten.
    """
    n_vertices = np.uint64(len(distances))
    largest = distances.dtype.type(0)
    for d in distances:
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


@njit(nogil=True)
def _sum_up(
    source: Any,
    edges: EdgesByEnd,
    weights: np.ndarray,
    tight: np.ndarray,
    order: np.ndarray,
    before: np.ndarray,
    stack: np.ndarray,
    unreached: Any,
    costs: np.ndarray,
) -> None:
    """Fill `costs` for the vertices of `order`, which may have any order. `before` and `stack` are overwritten.

    `tight` (V,) may be the second half of `costs`: an edge is read before something is written over it.
    """
    offsets, starts, _, _ = edges
    for v in range(np.uint64(len(costs))):
        is_reached = tight[v] != NO_VERTEX
        e = offsets[v] + tight[v]
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
