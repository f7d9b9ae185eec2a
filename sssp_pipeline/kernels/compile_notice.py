"""Tells that kernels are being compiled: this takes seconds once and looks like a hang."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_listeners: list[Callable[[], None]] = []
_is_told = False


@contextmanager
def on_first_compilation(tell: Callable[[], None]) -> Iterator[None]:
    """Call `tell` when the first kernel that this process compiles is compiled in the block."""
    _listeners.append(tell)
    try:
        yield
    finally:
        _listeners.remove(tell)


def compiling() -> None:
    """A kernel is not in the cache and is being compiled now."""
    global _is_told
    if _listeners and not _is_told:
        _is_told = True
        _listeners[-1]()
