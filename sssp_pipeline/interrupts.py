"""Ctrl-C that is not lost: Python drops an exception that is raised in a finaliser, and Dask's futures have those."""

from __future__ import annotations

import signal
import threading
from types import FrameType

_pressed = threading.Event()


def install() -> None:
    """Let SIGTERM, and SIGINT unless it is ignored, raise `KeyboardInterrupt`, at the next `check` if not before."""
    _pressed.clear()
    # An orchestrator's SIGTERM ends a run as cleanly as Ctrl-C does.
    signal.signal(signal.SIGTERM, press)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, press)


def press(number: int, frame: FrameType | None) -> None:
    """Raise `KeyboardInterrupt`, and remember that."""
    _pressed.set()
    raise KeyboardInterrupt


def check() -> None:
    """Raise the `KeyboardInterrupt` that has been lost, if there was one."""
    if _pressed.is_set():
        _pressed.clear()
        raise KeyboardInterrupt
