"""Reuses the memory of rows that are no longer used.

The pages of new memory are zeroed by the system. For a solver that fills a row in less than a millisecond, that takes
a large part of its time (`benchmarks/results/hierarchy.jsonl`).
"""

from __future__ import annotations

import math
import weakref
from collections import deque
from typing import Any

import numpy as np


class RowMemory:
    """Lends arrays, and takes their memory back when no array uses it any more; threads may share it.

    It keeps at most the memory that was lent at the same time, and frees it with itself.
    """

    def __init__(self) -> None:
        #: Only appended to and popped from: an array may end at any time, in any thread.
        self._idle: deque[np.ndarray] = deque()

    def empty(self, shape: tuple[int, int], dtype: np.dtype) -> np.ndarray:
        """Return an array whose values are undefined. Smaller memory than it needs is freed."""
        n_bytes = math.prod(shape) * dtype.itemsize
        try:
            memory = self._idle.pop()
        except IndexError:
            memory = np.empty(0, np.uint8)
        if memory.nbytes < n_bytes:
            memory = np.empty(n_bytes, np.uint8)
        lent = np.asarray(_Lent(memory, self._idle))
        return lent[:n_bytes].view(dtype).reshape(shape)


class _Lent:
    """Owns the memory of an array that was handed out. The array and its views keep this object alive."""

    def __init__(self, memory: np.ndarray, idle: deque[np.ndarray]) -> None:
        self._memory, self._idle = memory, weakref.ref(idle)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self._memory.__array_interface__

    def __del__(self) -> None:
        if (idle := self._idle()) is not None:
            idle.append(self._memory)
