"""Notifies a listener when the process first compiles a kernel: that takes seconds and looks like a hang."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: The line that users see.
COMPILING = "compiling, once: later runs find the compiled kernels"

_log = logging.getLogger(__name__)
_listeners: list[Callable[[], None]] = []
_has_notified = False


@contextmanager
def on_first_compilation(notify: Callable[[], None]) -> Iterator[None]:
    """Call `notify` in the `with` block if the process compiles its first kernel there."""
    _listeners.append(notify)
    try:
        yield
    finally:
        _listeners.remove(notify)


def log_compilation() -> None:
    """Notify users of Python, who have no console."""
    _log.warning(COMPILING)


def compilation_began() -> None:
    """Notify the innermost listener, once in a process. For callers that compile a kernel, not load it from a cache."""
    global _has_notified
    if _listeners and not _has_notified:
        _has_notified = True
        _listeners[-1]()
