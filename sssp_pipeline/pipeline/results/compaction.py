"""The values of a page beside its NULLs: one compiled pass, into memory that is used again."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from sssp_pipeline.numba_cache import njit

#: Memory that chunks no longer need: of the last writers, each as much as a row group has.
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
    """Write the values (n,) other than `null` to the front of `present` (n,); return how many they are.

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
