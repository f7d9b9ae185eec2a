"""Delta-stepping by all cores together, one source after another: the CPU baseline of the ADDS paper.

Returns the distance row lowered to the true distances, added in the weights' own type.

The idea: every thread has buckets of its own and enters there what it lowers, so nobody waits to write. Round by
round all agree on the least bucket that anyone has something in, pour what they have in it into one frontier, and
take chunks of that until none is left. This is how the GAP benchmarks do it; the paper's baseline is Galois', with
finer buckets and less order. Where the choices are less usual:

- A thread that finds the frontier empty goes on with what fell back into its own part of this bucket, as long as that
  is little. On roads that saves most rounds, and a round costs two meetings of all threads.
- Chunks get smaller with the frontier, so that a small one still has something for every thread.
- Each thread's buckets are a window with a radix heap behind it (`buckets.py`). All windows move at the same time:
  they are empty then, and the least entry of all is in the new one.
- A team may be slower than one thread: where the frontier stays small, and where others use the cores, so that at each
  meeting somebody has none. Then all hand over what they have to the first thread, which goes on alone. So a search
  takes about twice the time of one thread at the worst.

Light and heavy edges are not told apart and an entry is stale when its distance is not its vertex's, as in
`delta_stepping.py`.

Needs
    weights of zero or more (`supports`), a row filled with the distance limit (`CpuSolver`).
Keeps
    I1. No entry stands in a bucket before the current one: sums are monotone, and so is `bucket_of`.
    I2. `tails[s]` is a free place: an entry is written first and the room for the next one made afterwards.
    I3. Whoever lowers a distance makes the entry for it, and each lowering is one thread's. So a vertex has one live
        entry at most, in the buckets of whoever lowered it last, and while nobody relaxes the frontier has room for
        all that live.
    I4. Before a vertex is processed, and before entries are dealt out, a thread has as many free blocks as that can
        take; it makes more by itself.
    I5. All entries of a thread, stale ones too, count for the least bucket. So no level below the one that is dealt
        out has an entry.
Memory order
    distances are read and lowered relaxed: a stale read costs a lowering that fails, or an entry that another thread
    makes anyway. The frontier is written between two meetings and read after the second (`team.py`).
Ends
    as `delta_stepping.py`; no thread waits for one that failed.

References
----------
U. Meyer, P. Sanders, "Delta-stepping: a parallelizable shortest path algorithm", 2003. S. Beamer, K. Asanovic,
D. Patterson, "The GAP benchmark suite", 2015. K. Wang, D. Fussell, C. Lin, "A fast work-efficient SSSP algorithm
for GPUs", 2021, section 6.1.
"""

from __future__ import annotations

import sys
import threading
from contextlib import nullcontext
from typing import Any

import numpy as np

from sssp_pipeline.csr import CsrGraph, GraphTraits
from sssp_pipeline.kernels.cpu.buckets import (
    BLOCK,
    BLOCK_BITS,
    SLOTS,
    WINDOW,
    WINDOW_BITS,
    bucket_of,
    deal_out,
    more_blocks,
    next_block,
    slot_of,
    take,
    twice_as_long,
)
from sssp_pipeline.kernels.cpu.cpu_solver import CpuSolver
from sssp_pipeline.kernels.cpu.delta_stepping import AHEAD, pick_delta
from sssp_pipeline.kernels.forecast import Forecast, core_s, depth
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
from sssp_pipeline.kernels.host.team import (
    LAST,
    LEFT,
    LINE,
    Team,
    dismiss,
    meet,
    usable_cores,
)
from sssp_pipeline.kernels.host.views import SearchGraph
from sssp_pipeline.kernels.solver import SolveOptions, SourceMetrics
from sssp_pipeline.numba_cache import njit

#: Held by the source that has the cores. Two that shared them would wait for threads that have no core.
CORES_LOCK = threading.Lock()
#: A thread joins for so many edges: fewer are relaxed before it is awake.
EDGES_A_THREAD = 50_000
#: Delta over that of `delta-stepping`. Milliseconds a source with two threads at 1, 2 and 4: NY 6.2 5.8 5.2, roads
#: 5.3 4.3 4.7, wave 6.0 6.3 7.8, grid 1000x1000 21.0 22.1 23.1, R-MAT scale 18 18.7 20.7 21.4. More threads spend more
#: time in meetings, of which a larger delta needs fewer.
DELTA_TIMES = 2.0
#: What a thread takes of the frontier at once, at most and at least.
LARGEST_CHUNK, SMALLEST_CHUNK = np.uint64(64), np.uint64(8)
#: Nanoseconds that a team may take for each vertex and edge it has done, and for this share of the graph before that.
#: One thread alone takes 4 to 10.
PATIENCE_NS, HEAD_START = 20.0, 1 / 8
#: Chunks of a small frontier for each thread, since they do not take equally long.
CHUNKS_EACH = np.uint64(4)
#: Entries that a thread keeps to itself.
OWN = np.uint64(1 << 10)
#: Blocks that a thread begins with.
FIRST_BLOCKS = 4 * int(SLOTS)
#: Words that the threads of a search share: how much of the frontier is taken, how much there is; the current bucket,
#: when the search began, whether it is slow; and from `LEAST` on a line for each thread, with its least bucket and what
#: it has done.
TAKEN, SIZE, CURRENT, LEAST = (np.uint64(i) * LINE for i in range(4))
BEGAN, SLOW, DONE = CURRENT + ONE, CURRENT + np.uint64(2), LEAST + ONE
NO_BUCKET = np.uint64(2**64 - 1)


class ParallelDeltaStepping(CpuSolver):
    """The papers' baseline: a source after the other, each over all cores."""

    name = "parallel-delta-stepping"
    summary = "Delta-stepping by all cores together, one source after another; the papers' CPU baseline"

    def forecast(self, traits: GraphTraits, n_sources: int) -> Forecast:
        del n_sources
        # With 16 threads, 1.2 to 3.9 us on six graphs (`parallel_cpu.jsonl`); 1.7 is within 1.6 times of each.
        meeting_s = 1.7e-6 * depth(traits)
        return Forecast(core_s(9.5, traits), most_cores=threads_for(traits.n_edges), meeting_s=meeting_s)

    def start(self, graph: CsrGraph, options: SolveOptions) -> Search:
        delta = DELTA_TIMES * pick_delta(graph) if options.delta is None else float(options.delta)
        return SharedSearch(graph, delta, min(usable_cores(), threads_for(graph.n_edges)))

    def solve_source(
        self, graph: CsrGraph, search: Search, source: int, distances: np.ndarray, options: SolveOptions
    ) -> SourceMetrics:
        assert isinstance(search, SharedSearch)
        with CORES_LOCK if search.n_threads > 1 else nullcontext():
            return super().solve_source(graph, search, source, distances, options)


def threads_for(n_edges: int) -> int:
    """Return how many threads share a source at most on a graph of so many edges."""
    return max(1, n_edges // EDGES_A_THREAD)


class SharedSearch(Search):
    """Memory that the threads share: 8 or 12 bytes a vertex. Each takes its own when it begins."""

    def __init__(self, graph: CsrGraph, delta: float, n_threads: int) -> None:
        self.delta = delta
        self.n_threads = n_threads
        self._graph = SearchGraph.of(graph)
        self._buckets_per_unit = min(1 / delta, sys.float_info.max)
        self.patience_ns = PATIENCE_NS
        self._team = Team(n_threads)
        n_places = graph.n_vertices + n_threads * int(OWN)
        self._frontier = np.zeros(n_places, np.uint32)
        self._frontier_distances = np.empty(n_places, self._graph.weights.dtype)
        self._shared = np.zeros(int(LEAST) + n_threads * int(LINE), np.uint64)

    def run(self, distances: np.ndarray, source: int) -> tuple[int, int]:
        distances[source] = 0
        self._shared[:] = 0
        view, team = self._graph, self._team

        def part(number: int) -> tuple[int, int]:
            return _search(
                np.uint64(number),
                np.uint64(team.size),
                view.row_offsets,
                view.col_indices,
                view.weights,
                distances,
                np.uint32(source),
                self._buckets_per_unit,
                self._frontier,
                self._frontier_distances,
                self._shared,
                team.meeting,
                self.patience_ns,
            )

        processed, edges_relaxed = zip(*team.run(part), strict=True)
        return sum(processed), sum(edges_relaxed)


@njit(nogil=True)
def _search(
    number: Any,
    n_threads: Any,
    row_offsets: np.ndarray,
    col_indices: np.ndarray,
    weights: np.ndarray,
    distances: np.ndarray,
    source: Any,
    buckets_per_unit: float,
    frontier: np.ndarray,
    frontier_distances: np.ndarray,
    shared: np.ndarray,
    meeting: np.ndarray,
    patience_ns: float,
) -> Any:
    """Do the part of thread `number`; return vertices processed and edges relaxed by it."""
    n_vertices = np.uint64(len(distances))
    own = n_vertices + number * OWN  # from here on the frontier is this thread's alone
    tails = np.empty(SLOTS, np.uint64)
    for s in range(SLOTS):
        tails[s] = s << BLOCK_BITS
    entry_vertices = np.empty(FIRST_BLOCKS << BLOCK_BITS, np.uint32)
    entry_distances = np.empty(FIRST_BLOCKS << BLOCK_BITS, distances.dtype)
    below = np.empty(FIRST_BLOCKS, np.uint64)
    for block in range(np.uint64(FIRST_BLOCKS)):
        below[block] = block + ONE
    first_free, n_free = SLOTS, np.uint64(FIRST_BLOCKS) - SLOTS
    # Of each level the least bucket that was entered since it was empty.
    least_on = np.full(SLOTS - WINDOW, NO_BUCKET, np.uint64)
    window = slot = ZERO
    position = end = ZERO
    n_shared = taken = chunk = ZERO
    has_more = False
    processed = edges_relaxed = ZERO
    n_elements = np.float64(n_vertices + np.uint64(len(col_indices)))
    if number == ZERO:
        shared[BEGAN] = clock_ns()
        entry_vertices[0], entry_distances[0], tails[0] = source, 0, 1

    while True:
        # ---- relax the edges of a part of the frontier, or at last of what fell back into the own bucket ----
        if taken < n_shared:
            taken = atomic_add(shared, TAKEN, chunk)
            position, end = taken, min(taken + chunk, n_shared)
        is_last = taken >= n_shared
        while True:
            position, end, slot, has_more, first_free, n_free, n_processed, n_relaxed = _relax(
                position, end, is_last, n_threads == ONE, row_offsets, col_indices, weights, distances,
                buckets_per_unit, frontier, frontier_distances, own, window, slot, has_more, tails,
                entry_vertices, entry_distances, below, least_on, first_free, n_free,
            )  # fmt: skip
            processed += n_processed
            edges_relaxed += n_relaxed
            if position >= end:
                break
            entry_vertices, entry_distances = twice_as_long(entry_vertices), twice_as_long(entry_distances)
            below, first_free, n_free = more_blocks(below, first_free, n_free)
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
        met = meet(meeting, n_threads)
        if met == LAST:
            done = ZERO
            for other in range(n_threads):
                least = min(least, shared[LEAST + other * LINE])
                done += shared[DONE + other * LINE]
            shared[TAKEN], shared[SIZE], shared[CURRENT] = ZERO, ZERO, least
            allowed_ns = patience_ns * (done + n_elements * HEAD_START)
            shared[SLOW] = n_threads > ONE and clock_ns() - shared[BEGAN] > allowed_ns
            dismiss(meeting)
        least = shared[CURRENT]
        if met == LEFT or least == NO_BUCKET:
            break

        # ---- a team that is slower than one thread hands all it has to the first ----
        if shared[SLOW]:
            if number != ZERO:
                for s in range(SLOTS):
                    first_free, n_free = _pour(
                        s, distances, row_offsets, frontier, frontier_distances, own, tails, entry_vertices,
                        entry_distances, below, first_free, n_free, shared,
                    )  # fmt: skip
            met = meet(meeting, n_threads)
            if met == LAST:
                dismiss(meeting)
            if met == LEFT or number != ZERO:
                break
            n_threads = ONE
            size = shared[SIZE]
            while n_free < (size >> BLOCK_BITS) + SLOTS:  # I4
                entry_vertices, entry_distances = (
                    twice_as_long(entry_vertices),
                    twice_as_long(entry_distances),
                )
                below, first_free, n_free = more_blocks(below, first_free, n_free)
            first_free, n_free = deal_out(
                ZERO, size, buckets_per_unit, frontier, frontier_distances, window, tails, entry_vertices,
                entry_distances, below, least_on, first_free, n_free,
            )  # fmt: skip
            n_shared = ZERO
            continue

        # ---- move the window there: the level on which its buckets waited is dealt out (I5) ----
        differs = (least >> WINDOW_BITS) ^ window
        window, slot = least >> WINDOW_BITS, least & (WINDOW - ONE)
        if differs != ZERO:
            level = WINDOW + bit_length(differs) - ONE
            least_on[level - WINDOW] = NO_BUCKET
            while tails[level] != level << BLOCK_BITS:
                if n_free < (OWN >> BLOCK_BITS) + SLOTS:  # I4
                    entry_vertices, entry_distances = (
                        twice_as_long(entry_vertices),
                        twice_as_long(entry_distances),
                    )
                    below, first_free, n_free = more_blocks(below, first_free, n_free)
                size, first_free, n_free = take(
                    level, distances, row_offsets, frontier, frontier_distances, own, OWN, tails, entry_vertices,
                    entry_distances, below, first_free, n_free,
                )  # fmt: skip
                first_free, n_free = deal_out(
                    own, own + size, buckets_per_unit, frontier, frontier_distances, window, tails,
                    entry_vertices, entry_distances, below, least_on, first_free, n_free,
                )  # fmt: skip

        # ---- pour the bucket into the frontier ----
        first_free, n_free = _pour(
            slot, distances, row_offsets, frontier, frontier_distances, own, tails, entry_vertices,
            entry_distances, below, first_free, n_free, shared,
        )  # fmt: skip
        met = meet(meeting, n_threads)
        if met == LAST:
            dismiss(meeting)
        elif met == LEFT:
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
    row_offsets: np.ndarray,
    col_indices: np.ndarray,
    weights: np.ndarray,
    distances: np.ndarray,
    buckets_per_unit: float,
    frontier: np.ndarray,
    frontier_distances: np.ndarray,
    own: Any,
    window: Any,
    slot: Any,
    has_more: bool,
    tails: np.ndarray,
    entry_vertices: np.ndarray,
    entry_distances: np.ndarray,
    below: np.ndarray,
    least_on: np.ndarray,
    first_free: Any,
    n_free: Any,
) -> Any:
    """Relax the edges of the frontier from `position` to `end`.

    If that `is_last`, then of what is in the own part of the bucket, while it is little; who `is_alone` goes on to the
    next ones in the window. It is one function, as on a path each round is a vertex.

    Returns
    -------
    tuple
        `position` and `end`, the same unless there are too few blocks for the vertex at `position` (I4); `slot`,
        `has_more`, `first_free`, `n_free`, vertices processed and edges relaxed.
    """
    processed = edges_relaxed = ZERO
    while True:
        short_of_blocks = False
        while position < end:
            u, d = frontier[position], frontier_distances[position]
            first, last = row_offsets[u], row_offsets[np.uint64(u) + ONE]
            if n_free < ((last - first) >> BLOCK_BITS) + SLOTS:
                short_of_blocks = True
                break
            position += ONE
            ahead = row_offsets[frontier[min(position + AHEAD, end - ONE)]]
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
                    # The entry is made here and, in the same words, in `deal_out`: as a function of its own, with
                    # the arrays as arguments, it made `delta-stepping` 1.3 to 1.4 times as slow.
                    bucket = bucket_of(candidate, buckets_per_unit)
                    into = slot_of(bucket, window)
                    if into >= WINDOW:
                        least_on[into - WINDOW] = min(least_on[into - WINDOW], bucket)
                    place = tails[into]
                    entry_vertices[place], entry_distances[place] = v, candidate  # I2, I3
                    place += ONE
                    if place & (BLOCK - ONE) == ZERO:
                        place, first_free, n_free = next_block(place, below, first_free, n_free)
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
        size, first_free, n_free = take(
            slot, distances, row_offsets, frontier, frontier_distances, own, OWN, tails, entry_vertices,
            entry_distances, below, first_free, n_free,
        )  # fmt: skip
        # More than a thread keeps to itself waits for the next round, in which all share it.
        has_more = tails[slot] != slot << BLOCK_BITS
        position, end = own, own + size
    return position, end, slot, has_more, first_free, n_free, processed, edges_relaxed


@njit(nogil=True)
def _pour(
    slot: Any,
    distances: np.ndarray,
    row_offsets: np.ndarray,
    frontier: np.ndarray,
    frontier_distances: np.ndarray,
    own: Any,
    tails: np.ndarray,
    entry_vertices: np.ndarray,
    entry_distances: np.ndarray,
    below: np.ndarray,
    first_free: Any,
    n_free: Any,
    shared: np.ndarray,
) -> Any:
    """Move the live entries of `slot` to the part of the frontier that all share (I3)."""
    while tails[slot] != slot << BLOCK_BITS:
        size, first_free, n_free = take(
            slot, distances, row_offsets, frontier, frontier_distances, own, OWN, tails, entry_vertices,
            entry_distances, below, first_free, n_free,
        )  # fmt: skip
        place = atomic_add(shared, SIZE, size)
        for i in range(size):
            frontier[place + i], frontier_distances[place + i] = (
                frontier[own + i],
                frontier_distances[own + i],
            )
    return first_free, n_free
