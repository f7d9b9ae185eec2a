"""Delta-stepping within one thread: a window of buckets, a radix heap behind it, and no compare-and-swap.

Returns the distance row lowered to the true distances, added in the weights' own type.

The idea: a vertex whose distance fell is entered in the bucket `floor(distance / delta)`. Buckets are emptied in order,
each in rounds until it stays empty. Four choices are less usual.

- One source is solved by one thread. Parallelism comes from solving several sources at once.
- Light and heavy edges are treated alike. That split would save processing a vertex twice, which is rare with a small
  delta.
- An entry carries a distance. It is stale when its vertex has another distance by now. This also removes duplicates: a
  vertex has at most one live entry.
- A round first gathers the frontier and then relaxes it. So the next vertices are known in advance, and their offsets
  and edges can be prefetched. That makes the search much faster (`benchmarks/kernel_constants.md`).

Distances may lie anywhere in 64 bits, so behind a window of buckets stands a radix heap (`buckets.py`).

Needs
    Weights of zero or more (`supports`), a row filled with the distance limit (`CpuSolver`).
Keeps
    I1. No entry stands in a bucket before the current one: sums are monotone, and so is `bucket_of`.
    I2. `tails[s]` is a free place: an entry is written first and the room for the next one made afterwards.
    I3. Between sources every slot is empty and every further block is on the free list.
    I4. Before a vertex is processed, and before a level is dealt out, there are as many free blocks as that can
        take. Otherwise the kernel saves its position in `cursor` and returns, to be called again with more memory.
Ends
    A distance only falls, and takes finitely many values. To empty a bucket in rounds is Bellman and Ford's algorithm
    on its vertices, so no delta makes it slower than that.

References
----------
U. Meyer, P. Sanders, "Delta-stepping: a parallelizable shortest path algorithm", 2003.
"""

from __future__ import annotations

import sys

import numpy as np

from sssp_pipeline.base.csr import CsrGraph, GraphTraits
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.contract.forecast import Forecast, core_s
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.cpu.buckets import (
    BLOCK,
    BLOCK_BITS,
    N_FREE,
    SLOTS,
    WINDOW,
    WINDOW_BITS,
    Buckets,
    Frontier,
    bucket_of,
    deal_out,
    empty_buckets,
    next_block,
    slot_of,
    take,
    twice_the_blocks,
)
from sssp_pipeline.kernels.cpu.cpu_solver import CpuSolver
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO, prefetch
from sssp_pipeline.kernels.host.search import Search
from sssp_pipeline.kernels.host.search_graph import SearchGraph

#: How many vertices ahead edges are prefetched (`benchmarks/kernel_constants.md`).
AHEAD = np.uint64(4)

#: Delta in units of typical weight over mean degree. Factors from 2 to 8 differ little
#: (`benchmarks/kernel_constants.md`).
DELTA_FACTOR = 4.0
#: `pick_delta` reads about this many weights to find the typical one.
SAMPLED_WEIGHTS = 65536

#: The position of an interrupted search: `position` of `frontier_size` vertices of the frontier are done.
_FIELDS = "window slot position frontier_size processed edges_relaxed"
CURSOR = np.dtype([(name, np.uint64) for name in _FIELDS.split()])
#: Room for all entries of a slot.
ALL = np.uint64(2**64 - 1)


class DeltaStepping(CpuSolver):
    """The fastest CPU solver for many sources."""

    name = "delta-stepping"
    summary = "Delta-stepping with a window of buckets; one source a thread; the fast one without a GPU"
    lists_vertices = True

    def forecast(self, traits: GraphTraits, n_sources: int) -> Forecast:
        return Forecast(core_s(25.0, 3.0, traits))

    def start(self, graph: CsrGraph, options: SolveOptions) -> Search:
        return _BucketSearch(graph, pick_delta(graph) if options.delta is None else float(options.delta))


def pick_delta(graph: CsrGraph) -> float:
    """Return the bucket width for `graph`, in the unit of its weights.

    It is `DELTA_FACTOR` times the typical weight over the mean degree. A delta that is too small costs a walk over
    empty buckets. One that is too large makes the search process vertices many times. The typical weight is the lesser
    of mean and median, since a few huge weights raise the mean alone. A median of zero is ignored.
    """
    if graph.traits.max_weight <= 0:
        return 1.0
    sample = graph.weights[:: max(1, graph.n_edges // SAMPLED_WEIGHTS)].astype(np.float64)
    # The sum of float64 weights near the largest value overflows, and so does the mean.
    typical = float(min(graph.traits.mean_weight, graph.traits.max_weight))
    median = float(np.partition(sample, len(sample) // 2)[len(sample) // 2])
    if median > 0:
        typical = min(typical, median)
    delta = typical * (DELTA_FACTOR * graph.n_vertices / graph.n_edges)
    return min(max(delta, sys.float_info.min), sys.float_info.max)


class _BucketSearch(Search):
    """Scratch memory: 8 or 12 bytes for each vertex, and for each entry that waits at the same time."""

    def __init__(self, graph: CsrGraph, delta: float) -> None:
        self.delta = delta
        self._graph = SearchGraph.of(graph)
        self._buckets_per_unit = min(1 / delta, sys.float_info.max)
        weights = self._graph.weights
        n_places = graph.n_vertices + 1
        self._frontier = Frontier(np.zeros(n_places, np.uint32), np.empty(n_places, weights.dtype))
        self._buckets = empty_buckets(int(SLOTS), weights.dtype)

    def run(self, distances: np.ndarray, source: int) -> tuple[int, int]:
        distances[source] = 0
        # I3: the first slot is empty, and its first place free.
        self._buckets.vertices[0], self._buckets.distances[0], self._buckets.tails[0] = source, 0, 1
        cursor, per_unit = np.zeros(1, CURSOR), self._buckets_per_unit
        while not _search(
            self._graph, distances, per_unit, self._frontier, self._buckets, cursor, self.listed
        ):
            self._buckets = twice_the_blocks(self._buckets)
        return int(cursor["processed"][0]), int(cursor["edges_relaxed"][0])


@njit(nogil=True)
def _search(
    graph: SearchGraph,
    distances: np.ndarray,
    buckets_per_unit: float,
    frontier: Frontier,
    buckets: Buckets,
    cursor: np.ndarray,
    listed: np.ndarray,
) -> bool:
    """Continue from `cursor`; return True if the search is complete, False if it needs more blocks (I4)."""
    row_offsets, col_indices, weights = graph
    vertices, entered = frontier
    tails, entry_vertices, entry_distances, below, free, _ = buckets
    at = cursor[0]
    window, slot = at.window, at.slot
    position, size = at.position, at.frontier_size
    processed, edges_relaxed = at.processed, at.edges_relaxed
    n_listed = np.uint64(len(listed))
    complete = False

    while True:
        # ---- relax the edges of the frontier ----
        short_of_blocks = False
        while position < size:
            u, d = vertices[position], entered[position]
            first, end = row_offsets[u], row_offsets[np.uint64(u) + ONE]
            if free[N_FREE] < ((end - first) >> BLOCK_BITS) + SLOTS:
                short_of_blocks = True
                break
            position += ONE
            ahead = row_offsets[vertices[min(position + AHEAD, size)]]
            prefetch(col_indices, ahead)
            prefetch(weights, ahead)
            if distances[u] != d:
                continue
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
                    # The entry is made here and, by the same lines, in `deal_out`. A function for both, with the
                    # arrays as arguments, makes the search much slower.
                    into = slot_of(bucket_of(candidate, buckets_per_unit), window)
                    place = tails[into]
                    entry_vertices[place], entry_distances[place] = v, candidate  # I2
                    place += ONE
                    if place & (BLOCK - ONE) == ZERO:
                        place = next_block(place, below, free)
                    tails[into] = place
        if short_of_blocks:
            break

        # ---- gather the next frontier: another round of this bucket, or the next bucket that is not empty ----
        while slot < WINDOW and tails[slot] == slot << BLOCK_BITS:
            slot += ONE
        if slot < WINDOW:
            size = take(slot, distances, row_offsets, frontier, ZERO, ALL, buckets)
            position = ZERO
            continue

        # ---- the window is empty: deal out the lowest level around its least entry ----
        level = WINDOW
        while level < SLOTS and tails[level] == level << BLOCK_BITS:
            level += ONE
        complete = level == SLOTS
        if complete or free[N_FREE] < SLOTS:
            break
        size = take(level, distances, row_offsets, frontier, ZERO, ALL, buckets)
        position = size
        if size == ZERO:
            continue
        least = entered[ZERO]
        for i in range(ONE, size):  # numba compiles NumPy's `min` slowly
            if entered[i] < least:
                least = entered[i]
        bucket = bucket_of(least, buckets_per_unit)
        window, slot = bucket >> WINDOW_BITS, bucket & (WINDOW - ONE)
        deal_out(ZERO, size, buckets_per_unit, frontier, window, buckets)

    at.window, at.slot = window, slot
    at.position, at.frontier_size = position, size
    at.processed, at.edges_relaxed = processed, edges_relaxed
    return complete
