"""The search of `parallel-delta-stepping`: delta-stepping from one source on all cores at once.

Returns the distance row lowered to the true distances, added in the weights' own type.

The idea: every thread has its own buckets and enters there the vertices that it lowers, so no thread waits to write.
In each round all threads agree on the least bucket that is not empty in every thread. They move its entries into one
frontier and take chunks of that frontier until none is left. The GAP benchmarks do the same. The paper's baseline is
Galois', with finer buckets and less order. Some choices are less usual:

- A thread that finds the frontier empty continues with the entries that fell back into its own part of this bucket,
  if they are few. On roads that saves most rounds, and a round costs two barriers.
- A smaller frontier is cut into smaller chunks, so that there is one for every thread.
- Each thread's buckets are a window with a radix heap behind it (`buckets.py`). All windows move at the same time:
  they are empty then, and the least entry of all is in the new window.
- Several threads may be slower than one: where the frontier stays small, or where other processes use the cores. Then
  all threads hand their entries to the first thread, which continues without them. So a search takes at most about
  twice the time of one thread.

As in `delta_stepping.py`, light and heavy edges are treated alike, and an entry is stale when its distance is not the
distance of its vertex.

Needs
    weights of zero or more (`supports`), a row filled with the distance limit (`CpuSolver`).
Keeps
    I1. No entry stands in a bucket before the current one: sums are monotone, and so is `bucket_of`.
    I2. `tails[s]` is a free place: an entry is written first and the room for the next one made afterwards.
    I3. Each lowering of a distance is done by one thread, and that thread makes the entry for it. So a vertex has at
        most one live entry, in the buckets of the thread that lowered it last. While no thread relaxes edges, the
        frontier has room for all live entries.
    I4. Before a thread processes a vertex or deals entries out, it has as many free blocks as that can take. It
        makes more by itself.
    I5. All entries of a thread, stale ones too, count for the least bucket. So no level below the one that is dealt
        out has an entry.
Memory order
    distances are read and lowered relaxed: a stale read costs a lowering that fails, or an entry that another thread
    makes anyway. The frontier is written between two barriers and read after the second (`kernel_threads.py`).
Ends
    as `delta_stepping.py`; no thread waits for a thread that failed.

References
----------
U. Meyer, P. Sanders, "Delta-stepping: a parallelizable shortest path algorithm", 2003. S. Beamer, K. Asanovic,
D. Patterson, "The GAP benchmark suite", 2015. K. Wang, D. Fussell, C. Lin, "A fast work-efficient SSSP algorithm
for GPUs", 2021, section 6.1.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.cpu.buckets import (
    BLOCK,
    BLOCK_BITS,
    FIRST_FREE,
    N_FREE,
    NO_BUCKET,
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
)
from sssp_pipeline.kernels.cpu.delta_stepping import AHEAD
from sssp_pipeline.kernels.host.kernel_threads import (
    FAILED,
    LAST,
    LINE,
    KernelThreads,
    release_barrier,
    wait_at_barrier,
)
from sssp_pipeline.kernels.host.numba_tools import (
    ONE,
    ZERO,
    atomic_add,
    atomic_min,
    bit_length,
    clock_ns,
    load_relaxed,
    prefetch,
)
from sssp_pipeline.kernels.host.search import Search
from sssp_pipeline.kernels.host.search_graph import SearchGraph

#: Vertices of the frontier that a thread takes at once, at most and at least.
LARGEST_CHUNK, SMALLEST_CHUNK = np.uint64(64), np.uint64(8)
#: The threads are slow if they have taken more than `SLOW_NS` for each vertex and edge done so far. A share of the
#: graph, `HEAD_START`, counts as done from the beginning. A search on one thread takes 4 to 10 ns.
SLOW_NS, HEAD_START = 20.0, 1 / 8
#: Chunks of a small frontier for each thread. Several, since chunks do not take equally long.
CHUNKS_EACH = np.uint64(4)
#: Entries that a thread keeps to itself.
OWN = np.uint64(1 << 10)
#: Blocks that a thread begins with.
FIRST_BLOCKS = 4 * int(SLOTS)
#: Words that the threads of a search share, by their positions. `TAKEN`: vertices of the frontier that are taken.
#: `SIZE`: vertices in it. `CURRENT`: the current bucket. `BEGAN`: when the search began. `SLOW`: whether it is slow.
#: From `LEAST` on, each thread has a line: its least bucket, and at `DONE` the vertices and edges it has done.
TAKEN, SIZE, CURRENT, LEAST = (np.uint64(i) * LINE for i in range(4))
BEGAN, SLOW, DONE = CURRENT + ONE, CURRENT + np.uint64(2), LEAST + ONE


class SharedSearch(Search):
    """The memory that the threads share: 8 or 12 bytes a vertex. Each thread allocates its buckets by itself."""

    def __init__(self, graph: CsrGraph, delta: float, n_threads: int) -> None:
        self.delta = delta
        self.n_threads = n_threads
        self._graph = SearchGraph.of(graph)
        self._buckets_per_unit = min(1 / delta, sys.float_info.max)
        self.slow_ns = SLOW_NS
        self._threads = KernelThreads(n_threads)
        n_places = graph.n_vertices + n_threads * int(OWN)
        distances = np.empty(n_places, self._graph.weights.dtype)
        self._frontier = Frontier(np.zeros(n_places, np.uint32), distances)
        self._shared = np.zeros(int(LEAST) + n_threads * int(LINE), np.uint64)

    def run(self, distances: np.ndarray, source: int) -> tuple[int, int]:
        distances[source] = 0
        self._shared[:] = 0
        threads = self._threads
        given = (np.uint64(threads.size), self._graph, distances, np.uint32(source), self._buckets_per_unit)
        shared = (self._frontier, self._shared, threads.barrier, self.slow_ns)

        def part(number: int) -> Any:
            return _search(np.uint64(number), *given, *shared, empty_buckets(FIRST_BLOCKS, distances.dtype))

        found = threads.run(part)
        processed, edges_relaxed = zip(*found, strict=True)
        return sum(processed), sum(edges_relaxed)


@njit(nogil=True)
def _search(
    number: Any,
    n_threads: Any,
    graph: SearchGraph,
    distances: np.ndarray,
    source: Any,
    buckets_per_unit: float,
    frontier: Frontier,
    shared: np.ndarray,
    barrier: np.ndarray,
    slow_ns: float,
    buckets: Buckets,
) -> Any:
    """Run thread `number` of a search; return the vertices it processed and the edges it relaxed."""
    row_offsets = graph.row_offsets
    n_vertices = np.uint64(len(distances))
    own = n_vertices + number * OWN  # from here on only this thread uses the frontier
    tails, free, least_on = buckets.tails, buckets.free, buckets.least_on
    window = slot = ZERO
    position = end = ZERO
    n_shared = taken = chunk = ZERO
    has_more = False
    processed = edges_relaxed = ZERO
    n_elements = np.float64(n_vertices + np.uint64(len(graph.col_indices)))
    if number == ZERO:
        shared[BEGAN] = clock_ns()
        buckets.vertices[0], buckets.distances[0], tails[0] = source, 0, 1

    while True:
        # ---- relax the edges of a chunk of the frontier; after the last, entries that fell back into the bucket ----
        if taken < n_shared:
            taken = atomic_add(shared, TAKEN, chunk)
            position, end = taken, min(taken + chunk, n_shared)
        is_last = taken >= n_shared
        while True:
            position, end, slot, has_more, n_processed, n_relaxed = _relax(
                position, end, is_last, n_threads == ONE, graph, distances,
                buckets_per_unit, frontier, own, window, slot, has_more, buckets,
            )  # fmt: skip
            processed += n_processed
            edges_relaxed += n_relaxed
            if position >= end:
                break
            buckets = _twice_the_blocks(buckets)
        if not is_last:
            continue

        # ---- agree on the least bucket ----
        s = slot
        while s < SLOTS and tails[s] == s << BLOCK_BITS:
            s += ONE
        least = NO_BUCKET
        if s < WINDOW:
            least = window << WINDOW_BITS | s
        elif s < SLOTS:
            least = least_on[s - WINDOW]
        shared[LEAST + number * LINE], shared[DONE + number * LINE] = least, processed + edges_relaxed
        arrival = wait_at_barrier(barrier, n_threads)
        if arrival == LAST:
            done = ZERO
            for i in range(n_threads):
                line = np.uint64(i) * LINE
                least = min(least, shared[LEAST + line])
                done += shared[DONE + line]
            shared[TAKEN], shared[SIZE], shared[CURRENT] = ZERO, ZERO, least
            allowed_ns = slow_ns * (done + n_elements * HEAD_START)
            shared[SLOW] = n_threads > ONE and clock_ns() - shared[BEGAN] > allowed_ns
            release_barrier(barrier)
        least = shared[CURRENT]
        if arrival == FAILED or least == NO_BUCKET:
            break

        # ---- slower than one thread: all threads hand their entries to the first ----
        if shared[SLOW]:
            if number != ZERO:
                for s in range(SLOTS):
                    _pour(s, distances, row_offsets, frontier, own, buckets, shared)
            arrival = wait_at_barrier(barrier, n_threads)
            if arrival == LAST:
                release_barrier(barrier)
            if arrival == FAILED or number != ZERO:
                break
            n_threads = ONE
            size = shared[SIZE]
            while free[N_FREE] < (size >> BLOCK_BITS) + SLOTS:  # I4
                buckets = _twice_the_blocks(buckets)
            deal_out(ZERO, size, buckets_per_unit, frontier, window, buckets)
            n_shared = ZERO
            continue

        # ---- move the window to that bucket, and deal out the level that held its entries (I5) ----
        differs = (least >> WINDOW_BITS) ^ window
        window, slot = least >> WINDOW_BITS, least & (WINDOW - ONE)
        if differs != ZERO:
            level = WINDOW + bit_length(differs) - ONE
            least_on[level - WINDOW] = NO_BUCKET
            while tails[level] != level << BLOCK_BITS:
                if free[N_FREE] < (OWN >> BLOCK_BITS) + SLOTS:  # I4
                    buckets = _twice_the_blocks(buckets)
                size = take(level, distances, row_offsets, frontier, own, OWN, buckets)
                deal_out(own, own + size, buckets_per_unit, frontier, window, buckets)

        # ---- pour the bucket into the frontier ----
        _pour(slot, distances, row_offsets, frontier, own, buckets, shared)
        arrival = wait_at_barrier(barrier, n_threads)
        if arrival == LAST:
            release_barrier(barrier)
        elif arrival == FAILED:
            break
        n_shared, taken, has_more = shared[SIZE], ZERO, False
        chunk = min(max(n_shared // (CHUNKS_EACH * n_threads), SMALLEST_CHUNK), LARGEST_CHUNK)
    return processed, edges_relaxed


@njit(nogil=True)
def _relax(
    position: Any,
    end: Any,
    is_last: bool,
    is_alone: bool,
    graph: SearchGraph,
    distances: np.ndarray,
    buckets_per_unit: float,
    frontier: Frontier,
    own: Any,
    window: Any,
    slot: Any,
    has_more: bool,
    buckets: Buckets,
) -> Any:
    """Relax the edges of the frontier from `position` to `end`.

    If that chunk `is_last`, go on with the thread's own entries of the bucket while they are few. A thread that
    `is_alone` goes on to the next buckets of the window. All of this is one function because on a path a round is a
    single vertex.

    Returns
    -------
    tuple
        `position` and `end`, the same unless there are too few blocks for the vertex at `position` (I4); `slot`,
        `has_more`, vertices processed and edges relaxed.
    """
    row_offsets, col_indices, weights = graph
    vertices, entered = frontier
    tails, entry_vertices, entry_distances, below, free, least_on = buckets
    processed = edges_relaxed = ZERO
    while True:
        short_of_blocks = False
        while position < end:
            u, d = vertices[position], entered[position]
            first, last = row_offsets[u], row_offsets[np.uint64(u) + ONE]
            if free[N_FREE] < ((last - first) >> BLOCK_BITS) + SLOTS:
                short_of_blocks = True
                break
            position += ONE
            ahead = row_offsets[vertices[min(position + AHEAD, end - ONE)]]
            prefetch(col_indices, ahead)
            prefetch(weights, ahead)
            if load_relaxed(distances, u) != d:
                continue
            processed += ONE
            edges_relaxed += last - first
            for e in range(first, last):
                v = col_indices[e]
                candidate = d + weights[e]
                # 32-bit sums are formed in 64 bits; a 64-bit one that wrapped is smaller than its summand.
                if d <= candidate < load_relaxed(distances, v):
                    if candidate >= atomic_min(distances, v, candidate):
                        continue
                    # The entry is made here and, by the same lines, in `deal_out`. A function for both, with the
                    # arrays as arguments, makes the search much slower.
                    bucket = bucket_of(candidate, buckets_per_unit)
                    into = slot_of(bucket, window)
                    if into >= WINDOW:
                        least_on[into - WINDOW] = min(least_on[into - WINDOW], bucket)
                    place = tails[into]
                    entry_vertices[place], entry_distances[place] = v, candidate  # I2, I3
                    place += ONE
                    if place & (BLOCK - ONE) == ZERO:
                        place = next_block(place, below, free)
                    tails[into] = place
        if short_of_blocks or not is_last or has_more:
            break
        if is_alone:
            while slot < WINDOW and tails[slot] == slot << BLOCK_BITS:
                slot += ONE
            if slot == WINDOW:
                break
        elif tails[slot] == slot << BLOCK_BITS:
            break
        size = take(slot, distances, row_offsets, frontier, own, OWN, buckets)
        # Entries beyond `OWN` wait for the next round, in which all threads share them.
        has_more = tails[slot] != slot << BLOCK_BITS
        position, end = own, own + size
    return position, end, slot, has_more, processed, edges_relaxed


@njit(nogil=True)
def _pour(
    slot: Any,
    distances: np.ndarray,
    row_offsets: np.ndarray,
    frontier: Frontier,
    own: Any,
    buckets: Buckets,
    shared: np.ndarray,
) -> None:
    """Move the live entries of `slot` to the part of the frontier that all threads share (I3)."""
    vertices, entered = frontier
    while buckets.tails[slot] != slot << BLOCK_BITS:
        size = take(slot, distances, row_offsets, frontier, own, OWN, buckets)
        place = atomic_add(shared, SIZE, size)
        for i in range(size):
            vertices[place + i], entered[place + i] = vertices[own + i], entered[own + i]


@njit(nogil=True)
def _twice_the_blocks(buckets: Buckets) -> Buckets:
    """Do what `buckets.twice_the_blocks` does."""
    n_blocks = np.uint64(len(buckets.below))
    longer = _twice_as_long(buckets.below)
    for block in range(n_blocks, np.uint64(len(longer))):
        longer[block] = block + ONE
    longer[np.uint64(len(longer)) - ONE] = buckets.free[FIRST_FREE]
    buckets.free[FIRST_FREE] = n_blocks
    buckets.free[N_FREE] += n_blocks
    vertices, distances = _twice_as_long(buckets.vertices), _twice_as_long(buckets.distances)
    return Buckets(buckets.tails, vertices, distances, longer, buckets.free, buckets.least_on)


@njit(nogil=True)
def _twice_as_long(array: np.ndarray) -> np.ndarray:
    longer = np.empty(2 * len(array), array.dtype)
    for i in range(len(array)):  # assigning to a slice takes seconds to compile
        longer[i] = array[i]
    return longer
