"""Buckets of a thread for distances anywhere in 64 bits: a window of them, and a radix heap behind it.

A bucket is `floor(distance / delta)`. `WINDOW` of them, from a multiple of `WINDOW` on, have a slot each. What lies
beyond waits on the level given by the highest bit in which its window number differs from the current one, as in a
radix heap; a level is a slot too. When the window is empty, the lowest level that is not is dealt out anew, around its
least entry. An entry moves to a lower level each time, so at most 64 times, and weights of 1 and 1e300 together
cost neither memory nor a walk over empty buckets: 200,000 far entries beside a path of 20,000 edges at a delta of 1
took 0.05 s, and 40 s with a single list for all that lies beyond the window.

An entry is a vertex with the distance it was made with; it is stale as soon as that is not the vertex's distance any
more. Slot `s` begins in block `s` and grows by further blocks, each linked to the one below it. `tails[s]` is a free
place, so an entry is written first and the room for the next one made afterwards.

NOTE: bucket numbers are formed in float64 and end at 2^62: whatever lies further shares the last bucket.

References
----------
R. Ahuja, K. Mehlhorn, J. Orlin, R. Tarjan, "Faster algorithms for the shortest path problem", 1990.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sssp_pipeline.kernels.host.numba_tools import (
    ONE,
    ZERO,
    bit_length,
    load_relaxed,
    prefetch,
)
from sssp_pipeline.numba_cache import njit

#: Buckets in the window: 1,024 keep road graphs off the levels; 256 to 2,048 measured within 10 % of it.
WINDOW_BITS = np.uint64(10)
WINDOW = np.uint64(1 << 10)
#: Every slot, a bucket of the window or a level beyond it, of which 64-bit numbers need at most 64.
SLOTS = np.uint64((1 << 10) + 64)
#: Entries in a block: 8 to 32 measured alike; each slot holds one for good, 139 KB of entries in all.
BLOCK_BITS = np.uint64(4)
BLOCK = np.uint64(1 << 4)
LAST_BUCKET = 2.0**62


@njit(nogil=True, inline="always")
def bucket_of(distance: Any, buckets_per_unit: float) -> Any:
    """Return the number of the bucket that `distance` falls into; monotone."""
    return np.uint64(min(np.float64(distance) * buckets_per_unit, LAST_BUCKET))


@njit(nogil=True, inline="always")
def slot_of(bucket: Any, window: Any) -> Any:
    """Return the bucket's slot in `window`, or the level on which it waits."""
    differs = (bucket >> WINDOW_BITS) ^ window
    return bucket & (WINDOW - ONE) if differs == ZERO else WINDOW + bit_length(differs) - ONE


@njit(nogil=True, inline="always")
def next_block(place: Any, below: np.ndarray, first_free: Any, n_free: Any) -> Any:
    """Return the first place of a free block, now on top of the block that ends at `place`."""
    block = first_free
    first_free = below[block]
    below[block] = (place - ONE) >> BLOCK_BITS
    return block << BLOCK_BITS, first_free, n_free - ONE


@njit(nogil=True, inline="always")
def take(
    slot: Any,
    distances: np.ndarray,
    row_offsets: np.ndarray,
    frontier: np.ndarray,
    frontier_distances: np.ndarray,
    own: Any,
    room: Any,
    tails: np.ndarray,
    entry_vertices: np.ndarray,
    entry_distances: np.ndarray,
    below: np.ndarray,
    first_free: Any,
    n_free: Any,
) -> Any:
    """Move the live entries of `slot` to the frontier from `own` on, until none is left or `room` may be too little.

    Blocks that are emptied go on the free list, but the last of them: a slot keeps a free place.
    """
    size = ZERO
    end = tails[slot]
    block = end >> BLOCK_BITS
    while True:
        for place in range(block << BLOCK_BITS, end):
            v, d = entry_vertices[place], entry_distances[place]
            prefetch(row_offsets, v)
            # Written always, kept only if live: a branch here would be guessed wrong too often.
            frontier[own + size], frontier_distances[own + size] = v, d
            if load_relaxed(distances, v) == d:
                size += ONE
        if block == slot or size > room - BLOCK:
            break
        lower_block = below[block]
        below[block] = first_free
        first_free = block
        n_free += ONE
        block = lower_block
        end = (block + ONE) << BLOCK_BITS
    tails[slot] = block << BLOCK_BITS
    return size, first_free, n_free


@njit(nogil=True)
def deal_out(
    position: Any,
    end: Any,
    buckets_per_unit: float,
    frontier: np.ndarray,
    frontier_distances: np.ndarray,
    window: Any,
    tails: np.ndarray,
    entry_vertices: np.ndarray,
    entry_distances: np.ndarray,
    below: np.ndarray,
    least_on: np.ndarray,
    first_free: Any,
    n_free: Any,
) -> Any:
    """Enter the frontier from `position` to `end` in the buckets; return `first_free` and `n_free`.

    `least_on` (64,) keeps of each level the least bucket that was entered since it was empty.
    """
    for i in range(position, end):
        v, d = frontier[i], frontier_distances[i]
        bucket = bucket_of(d, buckets_per_unit)
        into = slot_of(bucket, window)
        if into >= WINDOW:
            least_on[into - WINDOW] = min(least_on[into - WINDOW], bucket)
        place = tails[into]
        entry_vertices[place], entry_distances[place] = v, d
        place += ONE
        if place & (BLOCK - ONE) == ZERO:
            place, first_free, n_free = next_block(place, below, first_free, n_free)
        tails[into] = place
    return first_free, n_free


@njit(nogil=True)
def twice_as_long(array: np.ndarray) -> np.ndarray:
    """Return `array` with as much room again behind it."""
    longer = np.empty(2 * len(array), array.dtype)
    longer[: len(array)] = array
    return longer


@njit(nogil=True)
def more_blocks(below: np.ndarray, first_free: Any, n_free: Any) -> Any:
    """Return `below` for twice as many blocks, with the new ones on top of the free list."""
    n_blocks = np.uint64(len(below))
    longer = twice_as_long(below)
    for block in range(n_blocks, np.uint64(len(longer))):
        longer[block] = block + ONE
    longer[np.uint64(len(longer)) - ONE] = first_free
    return longer, n_blocks, n_free + n_blocks
