"""What the command line shows while it works: a moving line on a terminal, a log line now and then otherwise.

All of it goes to standard error; standard output carries data only.
"""

from __future__ import annotations

import sys
import time
from typing import IO, Any

#: Seconds between two log lines about the same stage where nobody watches.
LOG_EVERY_S = 10.0
#: Seconds between two redraws of the moving line.
DRAW_EVERY_S = 0.2


class Console:
    """A `pipeline.progress.Progress` that writes to standard error."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._live = self._stream.isatty()
        self._stage = ""
        self._began = self._drawn = time.monotonic()
        self._first_done: int | None = None
        self._line = ""

    def __enter__(self) -> Console:
        return self

    def __exit__(self, *_: object) -> None:
        self._settle()

    def stage(self, name: str) -> None:
        """A stage begins."""
        self._settle()
        self._stage, self._began, self._first_done = name, time.monotonic(), None
        self._drawn = self._began if not self._live else 0.0
        self._draw(name)

    def advance(self, done: int, total: int | None, unit: str) -> None:
        """Show how far the stage is, its rate, and the time left when `total` is known."""
        now = time.monotonic()
        if self._first_done is None:
            # What an earlier run had done already says nothing about the rate of this one.
            self._first_done = done if total is not None else 0
            self._began = now if total is not None else self._began
        if now - self._drawn < (DRAW_EVERY_S if self._live else LOG_EVERY_S) and done != total:
            return
        self._drawn = now
        elapsed = now - self._began
        fresh = done - self._first_done
        line = f"{self._stage}: {done:,}" + (f" of {total:,}" if total is not None else "") + f" {unit}"
        if fresh > 0 and elapsed > 0:
            rate = fresh / elapsed
            line += f", {rate:,.0f}/s" if rate >= 10 else f", {rate:.2g}/s"
            if total is not None and done < total:
                line += f", {duration((total - done) / rate)} left"
        self._draw(line)

    def say(self, line: str) -> None:
        """Show a line that stays."""
        self._settle()
        self._write(line + "\n")

    def _draw(self, line: str) -> None:
        if self._live:
            self._write("\r\033[K" + line)
            self._line = line
        else:
            self._write(line + "\n")

    def _settle(self) -> None:
        if self._line:
            self._write("\r\033[K")
            self._line = ""

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def duration(seconds: float) -> str:
    """Return `seconds` as people say it: `42s`, `3m 10s`, `2h 05m`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    return f"{whole // 3600}h {whole % 3600 // 60:02d}m"


def table(facts: dict[str, Any]) -> str:
    """Return `facts` as aligned lines, nested ones as `outer.inner`."""
    rows = list(_flat(facts, ""))
    width = max((len(name) for name, _ in rows), default=0)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def _flat(facts: dict[str, Any], prefix: str) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for name, value in facts.items():
        if isinstance(value, dict):
            rows += _flat(value, f"{prefix}{name}.")
        else:
            rows.append((prefix + name, _shown(value)))
    return rows


def _shown(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "-"}[value]
    if isinstance(value, float):
        return f"{value:,.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
