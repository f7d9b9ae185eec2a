"""Checksums of parts of an array in memory, for compiled loops: XXH64, of which the lower half is kept.

A CRC-32 of a part of 2 KiB takes a call of Python. These functions take all parts of an array in one call without
Python's lock, at some 10 GB/s.

References
----------
Collet, XXH64, the specification: `xxhash_spec.md` of Cyan4973/xxHash, release 0.2.0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.host.numba_tools import bytes_at

_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
#: The first values of the four lanes, with the seed 0: P1 + P2, P2, 0, -P1.
_LANE_1, _LANE_4 = np.uint64(0x60EA27EEADC0B5D6), np.uint64(0x61C8864E7A143579)


@njit(nogil=True, inline="always")
def _rotated(value: Any, left: int) -> Any:
    return (value << np.uint64(left)) | (value >> np.uint64(64 - left))


@njit(nogil=True, inline="always")
def _round(lane: Any, word: Any) -> Any:
    return _rotated(lane + word * _P2, 31) * _P1


@njit(nogil=True, inline="always")
def _merged(state: Any, lane: Any) -> Any:
    return (state ^ _round(np.uint64(0), lane)) * _P1 + _P4


@njit(nogil=True)
def xxh64(data: np.ndarray, begin: int, end: int) -> Any:
    """Return the XXH64, with the seed 0, of the bytes [begin, end) of `data` (n,) uint8."""
    at = np.int64(begin)
    if end - at >= 32:
        a, b, c, d = _LANE_1, _P2, np.uint64(0), _LANE_4
        while at + 32 <= end:
            a = _round(a, bytes_at(data, at))
            b = _round(b, bytes_at(data, at + 8))
            c = _round(c, bytes_at(data, at + 16))
            d = _round(d, bytes_at(data, at + 24))
            at += 32
        state = _rotated(a, 1) + _rotated(b, 7) + _rotated(c, 12) + _rotated(d, 18)
        state = _merged(_merged(_merged(_merged(state, a), b), c), d)
    else:
        state = _P5
    state += np.uint64(end - begin)
    while at + 8 <= end:
        state = _rotated(state ^ _round(np.uint64(0), bytes_at(data, at)), 27) * _P1 + _P4
        at += 8
    if at + 4 <= end:
        word = np.uint64(0)
        for i in range(4):
            word |= np.uint64(data[at + i]) << np.uint64(8 * i)
        state = _rotated(state ^ (word * _P1), 23) * _P2 + _P3
        at += 4
    while at < end:
        state = _rotated(state ^ (np.uint64(data[at]) * _P5), 11) * _P1
        at += 1
    state = (state ^ (state >> np.uint64(33))) * _P2
    state = (state ^ (state >> np.uint64(29))) * _P3
    return state ^ (state >> np.uint64(32))


@njit(nogil=True)
def sums_of_parts(data: np.ndarray, bounds: np.ndarray, itemsize: int) -> np.ndarray:
    """Return the checksums (k,) uint32 of consecutive parts of `data` (n,) uint8.

    Part `i` has the items `bounds[i]:bounds[i + 1]`, of `itemsize` bytes each; `bounds` is (k + 1,) int64.
    """
    sums = np.empty(len(bounds) - 1, np.uint32)
    for i in range(len(sums)):
        sums[i] = np.uint32(xxh64(data, bounds[i] * itemsize, bounds[i + 1] * itemsize))
    return sums


@njit(nogil=True)
def are_parts_whole(data: np.ndarray, bounds: np.ndarray, itemsize: int, sums: np.ndarray) -> Any:
    """Return whether all parts of `data` have the checksums `sums`; item 0 of `data` is item `bounds[0]`."""
    for i in range(len(sums)):
        begin, end = (bounds[i] - bounds[0]) * itemsize, (bounds[i + 1] - bounds[0]) * itemsize
        if np.uint32(xxh64(data, begin, end)) != sums[i]:
            return False
    return True
