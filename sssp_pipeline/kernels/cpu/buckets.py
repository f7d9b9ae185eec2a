"""Buckets of a thread for distances anywhere in 64 bits: a window of buckets, and a radix heap behind it.

The bucket of a distance is `floor(distance / delta)`. The window is `WINDOW` buckets, from a multiple of `WINDOW` on,
with a slot each. An entry beyond the window waits on a level: the highest bit in which the number of its window differs
from the current one, as in a radix heap. A level is a slot too. When the window is empty, the lowest level that is not
empty is dealt out, around its least entry. An entry then moves to a lower level, so it moves at most 64 times. Thus
weights of 1 and 1e300 in one graph cost neither memory nor a walk over empty buckets
(`benchmarks/kernel_constants.md`).

An entry is a vertex with a distance. It is stale when the vertex has another distance by now. Slot `s` begins in entry
block `s` and grows by further blocks, each linked to the block below it. `tails[s]` is a free place: an entry is
written there first, and then room is made for the next.

NOTE: bucket numbers are computed in float64 and end at 2^62. All distances beyond share the last bucket.

References
----------
R. Ahuja, K. Mehlhorn, J. Orlin, R. Tarjan, "Faster algorithms for the shortest path problem", 1990.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO, bit_length, load_relaxed, prefetch

#: Buckets in the window. With 1,024, road graphs hardly need the levels.
WINDOW_BITS = np.uint64(10)
WINDOW = np.uint64(1 << 10)
#: All slots: the buckets of the window, and 64 levels for window numbers of 64 bits.
SLOTS = np.uint64((1 << 10) + 64)
#: Entries in a block. Each slot always has one block, 139 KB of entries in all.
BLOCK_BITS = np.uint64(4)
BLOCK = np.uint64(1 << 4)
LAST_BUCKET = 2.0**62
NO_BUCKET = np.uint64(2**64 - 1)
#: Places of `Buckets.free`.
FIRST_FREE, N_FREE = ZERO, ONE


class Frontier(NamedTuple):
    """Vertices to process (n,) uint32, each with the distance (n,) of its entry. numba passes it like single arrays."""

    vertices: np.ndarray
    distances: np.ndarray


class Buckets(NamedTuple):
    """The buckets of a thread. numba passes them like single arrays."""

    #: (SLOTS,) uint64: a free place of each slot.
    tails: np.ndarray
    #: (P,) uint32, and (P,) of the type of the distances: the entries.
    vertices: np.ndarray
    distances: np.ndarray
    #: (N,) uint64: for each block the block below it in its slot, or the next one that is free.
    below: np.ndarray
    #: (2,) uint64: the first free block, and how many are free.
    free: np.ndarray
    #: (64,) uint64: for each level the least bucket that was entered since the level was empty.
    least_on: np.ndarray


def empty_buckets(n_blocks: int, dtype: np.dtype) -> Buckets:
    """Return empty buckets for distances of type `dtype`, with at least one block for each slot.

    Not compiled: that would take a second, a third of what `delta-stepping` compiles.
    """
    tails = np.arange(SLOTS, dtype=np.uint64) << BLOCK_BITS
    n_places = n_blocks << int(BLOCK_BITS)
    return Buckets(
        tails,
        np.empty(n_places, np.uint32),
        np.empty(n_places, dtype),
        below=np.arange(1, n_blocks + 1, dtype=np.uint64),
        free=np.array([SLOTS, n_blocks - int(SLOTS)], np.uint64),  # FIRST_FREE, N_FREE
        least_on=np.full(int(SLOTS - WINDOW), NO_BUCKET, np.uint64),
    )


def twice_the_blocks(buckets: Buckets) -> Buckets:
    """Return the buckets with twice as many blocks. Entries keep their places; the new blocks come first when free.

    Not compiled: a kernel that allocates takes a second to compile, and longer to load than the search itself.
    """
    n_blocks = len(buckets.below)
    below = np.append(buckets.below, np.arange(n_blocks + 1, 2 * n_blocks + 1, dtype=np.uint64))
    below[-1] = buckets.free[FIRST_FREE]
    buckets.free[FIRST_FREE] = n_blocks
    buckets.free[N_FREE] += np.uint64(n_blocks)
    vertices, distances = _twice_as_long(buckets.vertices), _twice_as_long(buckets.distances)
    return Buckets(buckets.tails, vertices, distances, below, buckets.free, buckets.least_on)


def _twice_as_long(array: np.ndarray) -> np.ndarray:
    """Return a copy of `array` of twice its length; the new half is uninitialised."""
    longer = np.empty(2 * len(array), array.dtype)
    longer[: len(array)] = array
    return longer


@njit(nogil=True, inline="always")
def bucket_of(distance: Any, buckets_per_unit: float) -> Any:
    """Return the number of the bucket of `distance`; monotone."""
    return np.uint64(min(np.float64(distance) * buckets_per_unit, LAST_BUCKET))


@njit(nogil=True, inline="always")
def slot_of(bucket: Any, window: Any) -> Any:
    """Return the bucket's slot in `window`, or the level on which it waits."""
    differs = (bucket >> WINDOW_BITS) ^ window
    return bucket & (WINDOW - ONE) if differs == ZERO else WINDOW + bit_length(differs) - ONE


@njit(nogil=True, inline="always")
def next_block(place: Any, below: np.ndarray, free: np.ndarray) -> Any:
    """Link a free block to the block that ends at `place`, and return its first place."""
    block = free[FIRST_FREE]
    free[FIRST_FREE] = below[block]
    free[N_FREE] -= ONE
    below[block] = (place - ONE) >> BLOCK_BITS
    return block << BLOCK_BITS


@njit(nogil=True, inline="always")
def take(
    slot: Any,
    distances: np.ndarray,
    row_offsets: np.ndarray,
    frontier: Frontier,
    own: Any,
    room: Any,
    buckets: Buckets,
) -> Any:
    """Move the live entries of `slot` to the frontier from `own` on, until none is left or `room` may be too small.

    Emptied blocks go on the free list, except the last one: a slot keeps a free place. Return how many were moved.
    """
    tails, entry_vertices, entry_distances, below, free, _ = buckets
    frontier_vertices, frontier_distances = frontier
    size = ZERO
    end = tails[slot]
    block = end >> BLOCK_BITS
    while True:
        for place in range(block << BLOCK_BITS, end):
            v, d = entry_vertices[place], entry_distances[place]
            prefetch(row_offsets, v)
            # Every entry is written, but only live ones are kept: a branch here would be mispredicted too often.
            frontier_vertices[own + size], frontier_distances[own + size] = v, d
            if load_relaxed(distances, v) == d:
                size += ONE
        if block == slot or size > room - BLOCK:
            break
        lower_block = below[block]
        below[block] = free[FIRST_FREE]
        free[FIRST_FREE] = block
        free[N_FREE] += ONE
        block = lower_block
        end = (block + ONE) << BLOCK_BITS
    tails[slot] = block << BLOCK_BITS
    return size


@njit(nogil=True)
def deal_out(
    position: Any, end: Any, buckets_per_unit: float, frontier: Frontier, window: Any, buckets: Buckets
) -> None:
    """Enter the frontier from `position` to `end` in the buckets."""
    tails, vertices, distances, below, free, least_on = buckets
    for i in range(position, end):
        v, d = frontier.vertices[i], frontier.distances[i]
        bucket = bucket_of(d, buckets_per_unit)
        into = slot_of(bucket, window)
        if into >= WINDOW:
            least_on[into - WINDOW] = min(least_on[into - WINDOW], bucket)
        place = tails[into]
        vertices[place], distances[place] = v, d
        place += ONE
        if place & (BLOCK - ONE) == ZERO:
            place = next_block(place, below, free)
        tails[into] = place
