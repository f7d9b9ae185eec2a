"""Changes to the whole process, which may be a user's notebook: each is undone when no block needs it any more."""

from __future__ import annotations

import threading
from collections.abc import Callable


class WhileNeeded:
    """A change that is made when the first of several blocks begins, and undone when the last of them ends.

    Parameters
    ----------
    change
        Makes the change and returns what undoes it.
    """

    def __init__(self, change: Callable[[], Callable[[], None]]) -> None:
        self._change = change
        self._lock = threading.Lock()
        self._n_blocks = 0

    def __reduce__(self) -> tuple:
        return type(self), (self._change,)  # another process counts blocks of its own

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
