"""Interrupts: a Ctrl-C that is never lost.

Python drops an exception that is raised in a finaliser. Dask's futures have finalisers, so a `KeyboardInterrupt` may be
dropped. This module remembers it, and `check` raises it again.
"""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType
from typing import Any

_pressed = threading.Event()


def install() -> None:
    """Make SIGTERM, and SIGINT unless it is ignored, raise `KeyboardInterrupt`; `check` raises it if it was dropped."""
    _pressed.clear()
    # Orchestrators send SIGTERM. It stops a run cleanly, like Ctrl-C.
    signal.signal(signal.SIGTERM, press)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, press)


def press(number: int, frame: FrameType | None) -> None:
    """Raise `KeyboardInterrupt`, and remember it for `check`."""
    _pressed.set()
    raise KeyboardInterrupt


def unraisable(dropped: Any) -> None:
    """Report an exception that Python drops, as `sys.unraisablehook`; not an interrupt, which `check` raises again."""
    if not isinstance(dropped.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(dropped)


def handled() -> None:
    """Forget the interrupt that is being handled. From now on, `check` raises only for a later one."""
    _pressed.clear()


def check() -> None:
    """Raise `KeyboardInterrupt` if one was raised before and dropped."""
    if _pressed.is_set():
        _pressed.clear()
        raise KeyboardInterrupt
