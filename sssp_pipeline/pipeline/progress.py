"""How stages tell what they are doing, without knowing who listens."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Told of stages, of how far the present one is, and of facts worth a line."""

    def stage(self, name: str) -> None:
        """A stage begins; the one before it is done."""
        ...

    def advance(self, done: int, total: int | None, unit: str) -> None:
        """`done` of `total` (None: unknown) are done in the present stage."""
        ...

    def say(self, line: str) -> None:
        """Something the user wants to know, in one line."""
        ...


class Quiet:
    """A listener that does nothing with what it hears."""

    def stage(self, name: str) -> None:
        """Ignore it."""

    def advance(self, done: int, total: int | None, unit: str) -> None:
        """Ignore it."""

    def say(self, line: str) -> None:
        """Ignore it."""


def plural(count: int, noun: str) -> str:
    """Return `count` with `noun` in the number that fits it: `1 batch`, `2,000 vertices`."""
    many = noun[:-2] + "ices" if noun.endswith("ex") else noun + ("es" if noun.endswith("ch") else "s")
    return f"{count:,} {noun if count == 1 else many}"


def in_bytes(count: float) -> str:
    """Return `count` bytes as people say it: `0.4 MB`, `1,200.0 GB`."""
    return f"{count / 1e9:,.1f} GB" if count >= 1e9 else f"{count / 1e6:,.1f} MB"
