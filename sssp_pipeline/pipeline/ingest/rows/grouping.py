"""Grouping: the edges of a chunk are grouped by ranges of sources, so that the edges of a range are read together."""

from __future__ import annotations

from typing import Any

import numpy as np

from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.host.numba_tools import bit_length

#: The highest bits of the sources by which the edges of a chunk are grouped. The places where groups grow fit a cache.
_GROUP_BITS = 10


def bits_of(weights: np.ndarray) -> np.ndarray:
    """Return the bits of `weights` (n,) as unsigned integers: so few types are enough for compiled loops."""
    return weights.view(f"u{weights.dtype.itemsize}")


def grouped_by_source(
    src: np.ndarray,
    dst: np.ndarray,
    weights: np.ndarray,
    drop_loops: bool,
    mirror: bool,
    room: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None,
    group_bits: int = _GROUP_BITS,
) -> tuple:
    """Return the edges grouped by ranges of sources: a stable partition by their highest bits.

    Parameters
    ----------
    src, dst
        (n,) uint32.
    weights
        (n,), or (0,) without weights.
    drop_loops, mirror
        Whether self-loops are left out, and whether the reverse of each other edge follows it.
    room
        Where sources, targets and weights are written, each long enough; without it there are new arrays.
    group_bits
        There are at most `2**group_bits` groups.

    Returns
    -------
    tuple
        Sources, targets and weights; the positions (G + 1,) int64 where the groups begin; the first source of the first
        group; the number of sources in a group as a power of two; and the number of self-loops.
    """
    if room is None:
        most = 2 * len(src) if mirror else len(src)
        values = np.empty(most if len(weights) else 0, weights.dtype)
        room = np.empty(most, np.uint32), np.empty(most, np.uint32), values
    starts, low, shift, loops = _group(src, dst, weights, drop_loops, mirror, group_bits, *room)
    return *(column[: starts[-1]] for column in room), starts, low, shift, loops


@njit(nogil=True)
def _group(
    src: np.ndarray,
    dst: np.ndarray,
    weights: np.ndarray,
    drop_loops: bool,
    mirror: bool,
    group_bits: int,
    sources: np.ndarray,
    targets: np.ndarray,
    values: np.ndarray,
) -> tuple:
    """Write the grouped edges to `sources`, `targets` and `values`; return what else `grouped_by_source` returns."""
    has_weights = len(weights) > 0
    loops = 0
    low, high = np.uint32(0xFFFFFFFF), np.uint32(0)
    for i in range(len(src)):
        loops += src[i] == dst[i]
        low, high = min(low, src[i]), max(high, src[i])
    if mirror:
        for i in range(len(src)):
            low, high = min(low, dst[i]), max(high, dst[i])
    if len(src) == 0:
        low = high
    n_bits: Any = np.int64(bit_length(np.uint64(high - low)))
    shift = np.uint32(max(0, n_bits - group_bits))
    low = (
        low >> shift
    ) << shift  # so the groups of most runs have the same limits, and a range reads no half group
    n_groups: Any = np.int64((high - low) >> shift) + 1
    starts = np.zeros(n_groups + 1, np.int64)
    for i in range(len(src)):
        if src[i] != dst[i]:
            starts[((src[i] - low) >> shift) + 1] += 1
            if mirror:
                starts[((dst[i] - low) >> shift) + 1] += 1
        elif not drop_loops:
            starts[((src[i] - low) >> shift) + 1] += 1
    for group in range(len(starts) - 1):
        starts[group + 1] += starts[group]
    cursors = starts.copy()
    for i in range(len(src)):
        u, v = src[i], dst[i]
        if u != v or not drop_loops:
            group = (u - low) >> shift
            at = cursors[group]
            cursors[group] = at + 1
            sources[at], targets[at] = u, v
            if has_weights:
                values[at] = weights[i]
        if mirror and u != v:
            group = (v - low) >> shift
            at = cursors[group]
            cursors[group] = at + 1
            sources[at], targets[at] = v, u
            if has_weights:
                values[at] = weights[i]
    return starts, low, shift, loops
