"""Changes to the whole process that are undone, because the process may be a user's notebook."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

#: Python's switch interval in a process that solves. A thread that writes gives up Python's lock several times for each
#: batch and waits for it again. With Python's default of 5 ms, writing takes several times as long.
_SWITCH_S = 0.5e-3


class WhileNeeded:
    """A change that is made when the first block begins and undone when the last block ends; blocks may overlap.

    Parameters
    ----------
    change
        Makes the change and returns the function that undoes it.
    """

    def __init__(self, change: Callable[[], Callable[[], None]]) -> None:
        self._change = change
        self._lock = threading.Lock()
        self._n_blocks = 0

    def __reduce__(self) -> tuple:
        return type(self), (self._change,)  # another process counts its own blocks

    def __enter__(self) -> None:
        with self._lock:
            if self._n_blocks == 0:
                self._undo = self._change()
            self._n_blocks += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._n_blocks -= 1
            if self._n_blocks == 0:
                self._undo()


def _switch_sooner() -> Callable[[], None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    return lambda: sys.setswitchinterval(before)


#: While a block runs, threads wait less for Python's lock.
switching_sooner = WhileNeeded(_switch_sooner)
