"""How stages report what they do, without knowing what shows it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Literal

#: How much a line matters; people see a detail only if they ask for more (`-v`), programs see it always.
Level = Literal["detail", "info", "warning", "error"]


class Progress:
    """Receives stages, how far the present stage is, facts worth a line, and events for programs.

    What a subclass does not override is not shown.

    Facts have plain JSON values, and the same name whenever they mean the same: `docs/guides/operations.md` lists them.
    """

    def stage(self, name: str) -> None:
        """A stage begins; the one before it is done."""

    def advance(self, done: int, total: int | None, unit: str) -> None:
        """`done` of `total` (None: unknown) are done in the present stage."""

    def say(self, line: str, event: str = "note", *, level: Level = "info", **facts: Any) -> None:
        """Something the user wants to know, in one line; a program knows it by its `event` and its `facts`."""

    def event(self, name: str, **facts: Any) -> None:
        """Something that only programs that read along want to know."""


class Quiet(Progress):
    """A `Progress` that shows nothing."""


class StartUp:
    """The steps of a run up to its first batch, and the wall seconds of each.

    Parameters
    ----------
    began
        The value of `time.perf_counter()` when the first step began; None means now.
    """

    def __init__(self, began: float | None = None) -> None:
        self._last = time.perf_counter() if began is None else began
        self._seconds: dict[str, float] = {}

    def end(self, step: str) -> None:
        """End a step; the next one begins. The seconds of a step that ends twice are added."""
        now = time.perf_counter()
        self._seconds[step] = self._seconds.get(step, 0.0) + now - self._last
        self._last = now

    def report(self, progress: Progress) -> None:
        """Report all steps in one line."""
        steps = ", ".join(
            f"{seconds:.2f} s {step.replace('_', ' ')}" for step, seconds in self._seconds.items()
        )
        facts = {f"{step}_s": seconds for step, seconds in self._seconds.items()}
        progress.say(f"start-up: {steps}", "started", level="detail", **facts)


def plural(count: int, noun: str) -> str:
    """Return `count` with `noun` in the number that fits it: `1 batch`, `2,000 vertices`."""
    many = noun[:-2] + "ices" if noun.endswith("ex") else noun + ("es" if noun.endswith("ch") else "s")
    return f"{count:,} {noun if count == 1 else many}"


def shortened(things: Sequence[int] | Sequence[str]) -> str:
    """Return the first few of `things`, for a message."""
    return ", ".join(map(str, things[:10])) + (", …" if len(things) > 10 else "")


def in_bytes(count: float) -> str:
    """Return `count` bytes as people say it: `0.4 MB`, `1,200.0 GB`."""
    return f"{count / 1e9:,.1f} GB" if count >= 1e9 else f"{count / 1e6:,.1f} MB"
