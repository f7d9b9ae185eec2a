"""Compaction: the values of a page without its NULLs, by one compiled pass into memory that is used again."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from sssp_pipeline.base.numba_cache import njit

#: Memory that the last writers no longer need. Each array is as large as a row group.
_free_scratch: deque[np.ndarray] = deque(maxlen=16)


def scratch_of(n_bytes: int) -> np.ndarray:
    """Return at least `n_bytes` of memory, (n,) uint8. New memory would cost as much as compacting into it."""
    try:
        scratch = _free_scratch.pop()
    except IndexError:
        scratch = np.empty(0, np.uint8)
    return scratch if len(scratch) >= n_bytes else np.empty(n_bytes, np.uint8)


def give_back(scratch: list[np.ndarray]) -> None:
    """Take memory that nothing refers to any more, for later calls of `scratch_of`."""
    _free_scratch.extend(scratch)


@njit(nogil=True)
def compact(values: np.ndarray, null: Any, bits: np.ndarray, present: np.ndarray) -> int:
    """Write the values (n,) that are not `null` to the front of `present` (n,); return their number.

    `bits` gets a bit for each value, the lowest first: 1 if it is not NULL. NumPy takes 3 to 10 times as long.
    """
    n_present = 0
    whole = len(values) // 8
    for byte in range(whole):
        there = 0
        for bit in range(8):
            value = values[8 * byte + bit]
            present[n_present] = value  # the next value overwrites a NULL
            is_there = value != null
            there |= is_there << bit
            n_present += is_there
        bits[byte] = there
    there = 0
    for i in range(8 * whole, len(values)):
        present[n_present] = values[i]
        is_there = values[i] != null
        there |= is_there << (i - 8 * whole)
        n_present += is_there
    if len(values) > 8 * whole:
        bits[whole] = there
    return n_present


@njit()
def joined_bytes(n_bits: int) -> int:
    """Return how much memory `joined_bits` takes. The upper half of its last shifted word may be behind all bits."""
    return 4 * (n_bits // 32 + 2)


@njit(nogil=True)
def joined_bits(
    bits: np.ndarray, n_present: np.ndarray, lengths: np.ndarray, scratch: np.ndarray
) -> np.ndarray:
    """Return the bits of all values of some rows, one row after the other: (n,) uint8, the lowest bit first.

    Parameters
    ----------
    bits
        (S, W), as in `RowFacts`: each segment but the last one of a row has whole words.
    n_present, lengths
        (S * K,) int64: how many values of each segment are present, and how many it has.
    scratch
        At least `joined_bytes` of memory, for what is returned.
    """
    n_bits = int(np.sum(lengths))
    words = scratch[: joined_bytes(n_bits)].view(np.uint32)
    per_row = len(lengths) // len(bits)
    at = first = 0
    for k in range(len(lengths)):
        first = 0 if k % per_row == 0 else first
        n_words, shift = (lengths[k] + 31) // 32, at % 32
        segment, into = bits[k // per_row, first : first + n_words], words[at // 32 : at // 32 + n_words + 1]
        if n_present[k] == lengths[k]:
            before = into[0] if shift else np.uint32(0)
            into[:] = 0xFFFFFFFF
            into[0] = before | np.uint32(0xFFFFFFFF << shift & 0xFFFFFFFF)
        elif shift == 0:
            into[:n_words] = segment
        else:
            into[0] |= np.uint32(segment[0] << shift)
            for j in range(1, n_words):  # vector instructions: no step needs the one before
                into[j] = np.uint32(segment[j] << shift | segment[j - 1] >> (32 - shift))
            into[n_words] = np.uint32(segment[n_words - 1] >> (32 - shift))
        at += lengths[k]
        first += n_words
        words[at // 32] &= np.uint32((1 << at % 32) - 1)  # what is behind the last value of a segment
    return words.view(np.uint8)[: (n_bits + 7) // 8]
