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

from typing import Any

import numpy as np

from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.host.numba_tools import (
    ONE,
    ZERO,
    bit_length,
    load_relaxed,
    prefetch,
)

#: Buckets in the window. With 1,024, road graphs hardly need the levels.
WINDOW_BITS = np.uint64(10)
WINDOW = np.uint64(1 << 10)
#: All slots: the buckets of the window, and 64 levels for window numbers of 64 bits.
SLOTS = np.uint64((1 << 10) + 64)
#: Entries in a block. Each slot always has one block, 139 KB of entries in all.
BLOCK_BITS = np.uint64(4)
BLOCK = np.uint64(1 << 4)
LAST_BUCKET = 2.0**62


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
def next_block(place: Any, below: np.ndarray, first_free: Any, n_free: Any) -> Any:
    """Link a free block to the block that ends at `place`, and return its first place."""
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
    """Move the live entries of `slot` to the frontier from `own` on, until none is left or `room` may be too small.

    Emptied blocks go on the free list, except the last one: a slot keeps a free place.
    """
    size = ZERO
    end = tails[slot]
    block = end >> BLOCK_BITS
    while True:
        for place in range(block << BLOCK_BITS, end):
            v, d = entry_vertices[place], entry_distances[place]
            prefetch(row_offsets, v)
            # Every entry is written, but only live ones are kept: a branch here would be mispredicted too often.
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

    `least_on` (64,) holds for each level the least bucket that was entered since the level was empty.
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
def twice_the_blocks(
    entry_vertices: np.ndarray, entry_distances: np.ndarray, below: np.ndarray, first_free: Any, n_free: Any
) -> Any:
    """Return the arguments for twice as many blocks. Entries keep their places; the new blocks come first when free."""
    n_blocks = np.uint64(len(below))
    longer = _twice_as_long(below)
    for block in range(n_blocks, np.uint64(len(longer))):
        longer[block] = block + ONE
    longer[np.uint64(len(longer)) - ONE] = first_free
    return (
        _twice_as_long(entry_vertices),
        _twice_as_long(entry_distances),
        longer,
        n_blocks,
        n_free + n_blocks,
    )


@njit(nogil=True)
def _twice_as_long(array: np.ndarray) -> np.ndarray:
    """Return a copy of `array` of twice its length; the new half is uninitialised."""
    longer = np.empty(2 * len(array), array.dtype)
    for i in range(len(array)):  # assigning to a slice takes seconds to compile
        longer[i] = array[i]
    return longer
