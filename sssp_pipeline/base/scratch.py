"""Scratch memory: arrays that each thread uses again and again.

New memory comes from the operating system, which fills it with zeros first. For an array of some megabytes that takes
longer than most loops over it, and the threads of a process wait for each other meanwhile.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np


class Scratch(threading.local):
    """Named arrays, others in each thread. They are freed with the thread, or with this object."""

    def __init__(self) -> None:
        self._held: dict[str, np.ndarray] = {}

    def array(self, name: str, length: int, dtype: Any) -> np.ndarray:
        """Return an array (length,) of any content, which is valid until this thread asks for `name` again."""
        n_bytes = length * np.dtype(dtype).itemsize
        held = self._held.get(name)
        if held is None or len(held) < n_bytes:
            held = self._held[name] = np.empty(n_bytes, np.uint8)
        return held[:n_bytes].view(dtype)
