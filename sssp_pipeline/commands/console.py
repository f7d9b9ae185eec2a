"""What the command line shows while it works: text for people, or JSON for programs that gather logs.

On a terminal, rich draws a moving line, and other lines appear above it. Without a terminal, a stage gets a line only
if it takes long. All of this goes to standard error. Standard output carries data only.
"""

from __future__ import annotations

import io
import json
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any, Literal, Self

from sssp_pipeline.base.progress import Level, Progress
from sssp_pipeline.base.shown import line_as_text, lines_as_text
from sssp_pipeline.storage.redaction import without_secrets

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

#: Seconds between two log lines about the same stage when the output is not a terminal.
LOG_EVERY_S = 10.0
#: Seconds after which a stage gets a line when the output is not a terminal.
LONG_STAGE_S = 2.0

LogFormat = Literal["text", "json"]
#: `quiet` shows errors only, `verbose` shows details too.
Loudness = Literal["quiet", "normal", "verbose"]


class Console(Progress):
    """A `Progress` that writes to standard error, and is also told how a command ends."""

    def __init__(self, stream: IO[str], loudness: Loudness = "normal") -> None:
        self._stream = stream
        self._loudness = loudness
        # Timers, and threads that log, write too.
        self._one_at_a_time = threading.RLock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def _put(self, text: str) -> None:
        """Write whole lines."""
        with self._one_at_a_time:
            self._stream.write(text)
            self._stream.flush()

    def about(self, **facts: Any) -> None:
        """Say what all that follows is about: `run`, `name`."""

    def settle(self) -> None:
        """Remove the moving line, so that the next output begins on a line of its own."""

    def succeeded(self) -> None:
        """The command has done what it was to do."""

    def failed(self, message: str, hint: str | None, exit_code: int) -> None:
        """The command ends with an expected error."""

    def crashed(self, error: Exception) -> None:
        """The command ends with an error that nobody expected; raise it if its traceback is not shown otherwise."""
        raise error

    def interrupted(self, again: str, exit_code: int) -> None:
        """The command ends with Ctrl-C or SIGTERM; `again` is how to go on."""


def console(log_format: LogFormat, stream: IO[str] | None = None, loudness: Loudness = "normal") -> Console:
    """Return what writes to `stream`, standard error by default, in this format."""
    stream = sys.stderr if stream is None else stream
    return JsonConsole(stream, loudness) if log_format == "json" else TextConsole(stream, loudness)


class Stream(io.TextIOWrapper):
    """A standard stream that does not fail: what cannot be written is lost, and `failure` says why.

    A command must do its work and end with its own exit code, also where its messages go to a full disk.
    """

    failure: OSError | None = None

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as error:
            self._lead_nowhere(error)
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            self._lead_nowhere(error)

    def _lead_nowhere(self, error: OSError) -> None:
        """Discard the buffer and all later output: Python would try to write the buffer when it ends."""
        self.failure = error
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)


def open_streams() -> None:
    """Make `Stream` of standard output and standard error; open the standard streams that are closed.

    The first file that is opened would get the number of a closed stream, and then what a library prints there.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free is this one.
            os.open(os.devnull, os.O_RDONLY if number == 0 else os.O_WRONLY)
    for number, name in ((1, "stdout"), (2, "stderr")):
        encoding = getattr(getattr(sys, name), "encoding", "utf-8")
        binary = open(number, "wb", closefd=False)  # noqa: SIM115
        stream = Stream(binary, encoding, "backslashreplace", line_buffering=number == 2 or binary.isatty())
        setattr(sys, name, stream)


class _Pace:
    """How fast the present stage goes on, counted from the first that was heard of it. `clock` returns seconds."""

    def __init__(
        self, every_s: float, end_after_s: float = 0.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._every_s, self._clock = every_s, clock
        #: The end of a stage that was shorter is not worth a line.
        self._end_after_s = end_after_s
        self.begin()

    def begin(self) -> None:
        self._stage_began = self._began = self._reported = self._clock()
        self._first_done: int | None = None

    def at(self, done: int, total: int | None) -> tuple[float | None, float | None] | None:
        """Return how many are done a second, and the seconds left, each where known; None if it is too soon to tell."""
        now = self._clock()
        if self._first_done is None:
            # What an earlier run had done already says nothing about the rate of this one.
            self._first_done = done if total is not None else 0
            self._began = now if total is not None else self._began
        at_end = done == total and now - self._stage_began >= self._end_after_s
        if now - self._reported < self._every_s and not at_end:
            return None
        self._reported = now
        elapsed, fresh = now - self._began, done - self._first_done
        if fresh <= 0 or elapsed <= 0:
            return None, None
        rate = fresh / elapsed
        return rate, None if total is None else (total - done) / rate


class _MovingLine:
    """The last line of a terminal, drawn by rich: the stage, how far it is, its rate, and the time left."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._rich: RichProgress | None = None

    def begin(self, stage: str) -> None:
        """Draw the line of a new stage."""
        from rich.console import Console as RichConsole
        from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self.remove()
        text = TextColumn("{task.description}{task.fields[count]}", markup=False)
        columns = SpinnerColumn(), text, BarColumn(), TimeRemainingColumn(compact=True)
        terminal = RichConsole(file=self._stream)
        self._rich = RichProgress(*columns, console=terminal, transient=True, redirect_stdout=False)
        self._rich.add_task(stage, total=None, count="")
        self._rich.start()

    def advance(self, done: int, total: int | None, unit: str) -> None:
        """Show how far the stage is."""
        if self._rich is None:
            return
        (task,) = self._rich.tasks
        if task.total is None and total is not None:
            # The rate counts from here: an earlier run may have done the first ones.
            self._rich.reset(task.id, total=total, completed=done)
        self._rich.update(task.id, completed=done, count=_count(done, total, unit, task.speed))

    def write(self, text: str) -> bool:
        """Write `text`, whole lines, above the moving line; return whether there is one."""
        if self._rich is not None:
            self._rich.console.out(text, end="", highlight=False)
        return self._rich is not None

    def remove(self) -> None:
        """Remove the line."""
        if self._rich is not None:
            self._rich.stop()
            self._rich = None


class TextConsole(Console):
    """A `Console` for people. The moving line says as much of events as they can follow. `clock` returns seconds."""

    def __init__(
        self, stream: IO[str], loudness: Loudness = "normal", clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(stream, loudness)
        self._line = _MovingLine(stream) if stream.isatty() and loudness != "quiet" else None
        self._pace = _Pace(LOG_EVERY_S, LONG_STAGE_S, clock)
        self._stage = ""
        #: Writes the line of a stage that takes long; None once it is written, and if there is a moving line.
        self._timer: threading.Timer | None = None

    def __exit__(self, *_: object) -> None:
        self.settle()
        self._no_line_for_the_stage()

    def stage(self, name: str) -> None:
        """A stage begins."""
        self._no_line_for_the_stage()
        self._stage = name
        self._pace.begin()
        if self._line is not None:
            self._line.begin(line_as_text(without_secrets(name)))
        elif self._loudness != "quiet":
            self._timer = threading.Timer(LONG_STAGE_S, self._stage_takes_long)
            self._timer.daemon = True
            self._timer.start()

    def advance(self, done: int, total: int | None, unit: str) -> None:
        """Show how far the stage is, its rate, and the time left if `total` is known."""
        if self._line is not None:
            self._line.advance(done, total, unit)
            return
        if self._loudness == "quiet" or (pace := self._pace.at(done, total)) is None:
            return
        rate, left_s = pace
        left = f", {duration(left_s)} left" if left_s else ""
        self._write(f"{self._stage}{_count(done, total, unit, rate)}{left}\n")

    def say(self, line: str, event: str = "note", *, level: Level = "info", **facts: Any) -> None:
        """Show a line that stays."""
        least = {"quiet": ("error",), "normal": ("info", "warning", "error")}.get(self._loudness)
        if least is None or level in least:
            self._write(line_as_text(line) + "\n")

    def settle(self) -> None:
        """Remove the moving line. On a terminal it would stand before the answer on standard output."""
        if self._line is not None:
            self._line.remove()

    def failed(self, message: str, hint: str | None, exit_code: int) -> None:
        self._write(f"error: {message}\n" + (f"\nhint: {hint}\n" if hint else ""))

    def interrupted(self, again: str, exit_code: int) -> None:
        is_whole = line_as_text(without_secrets(again)) == again
        how = ", run the same command again" if not is_whole else f":\n\n    {again}"
        self._write(f"\ninterrupted; what is committed is kept. To go on{how}\n")

    def _stage_takes_long(self) -> None:
        with self._one_at_a_time:
            if self._timer is threading.current_thread():
                self._write(self._stage + "\n")

    def _no_line_for_the_stage(self) -> None:
        with self._one_at_a_time:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _write(self, text: str) -> None:
        text = lines_as_text(without_secrets(text))
        with self._one_at_a_time:
            if self._line is None or not self._line.write(text):
                self._put(text)


def _count(done: int, total: int | None, unit: str, rate: float | None) -> str:
    """Return how far a stage is, and its rate if that is known."""
    count = f": {done:,}" + (f" of {total:,}" if total is not None else "") + f" {unit}"
    if rate is None:
        return count
    return f"{count}, {rate:,.0f}/s" if rate >= 10 else f"{count}, {rate:.2g}/s"


class JsonConsole(Console):
    """A `Console` for programs: a JSON object a line, also for Python's own log and warnings of this process."""

    def __init__(
        self, stream: IO[str], loudness: Loudness = "normal", clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(stream, loudness)
        self._pace = _Pace(LOG_EVERY_S, clock=clock)
        self._facts: dict[str, Any] = {}
        self._clock = clock
        self._began = clock()
        self._handler = _ToConsole(self)

    def __enter__(self) -> Self:
        logging.getLogger().addHandler(self._handler)
        logging.captureWarnings(True)
        return self

    def __exit__(self, *_: object) -> None:
        logging.captureWarnings(False)
        logging.getLogger().removeHandler(self._handler)

    def stage(self, name: str) -> None:
        self._facts["stage"] = name
        self._pace.begin()
        self.event("stage")

    def advance(self, done: int, total: int | None, unit: str) -> None:
        """Write how far the stage is every `LOG_EVERY_S`, and at its end."""
        if (pace := self._pace.at(done, total)) is None:
            return
        rate, left_s = pace
        self.event("progress", done=done, total=total, unit=unit, per_s=rate, left_s=left_s)

    def say(self, line: str, event: str = "note", *, level: Level = "info", **facts: Any) -> None:
        self.write("info" if level == "detail" else level, event, {"message": line, **facts})

    def event(self, name: str, **facts: Any) -> None:
        self.write("info", name, facts)

    def about(self, **facts: Any) -> None:
        self._facts |= facts

    def succeeded(self) -> None:
        self._end("info", "succeeded", exit_code=0)

    def failed(self, message: str, hint: str | None, exit_code: int) -> None:
        self._end("error", "failed", message=message, hint=hint, exit_code=exit_code)

    def crashed(self, error: Exception) -> None:
        lines = traceback.format_exception(error)
        self._end("error", "crashed", message=lines[-1].strip(), traceback="".join(lines), exit_code=1)

    def interrupted(self, again: str, exit_code: int) -> None:
        # The command is left out: with --set it may hold what must not come into a log.
        kept, hint = "interrupted; what is committed is kept", "to go on, run the same command again"
        self._end("warning", "interrupted", message=kept, hint=hint, exit_code=exit_code)

    def _end(self, level: Level, event: str, **facts: Any) -> None:
        self.write(level, event, {**facts, "seconds": self._clock() - self._began})

    def write(self, level: str, event: str, facts: dict[str, Any]) -> None:
        """Write a line of all the facts that are known; None is left out, seconds are rounded to microseconds."""
        if self._loudness == "quiet" and level != "error":
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        entry = {"time": now, "level": level, "event": event, **self._facts, **facts}
        known = {key: _logged(value) for key, value in entry.items() if value is not None}
        self._put(json.dumps(known, default=str) + "\n")


def _logged(value: Any) -> Any:
    if isinstance(value, str):
        return without_secrets(value)
    return round(value, 6) if isinstance(value, float) else value


class _ToConsole(logging.Handler):
    """Hands what Python's `logging` and `warnings` would print on to a console."""

    def __init__(self, console: JsonConsole) -> None:
        super().__init__(logging.WARNING)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        level = "warning" if record.levelno < logging.ERROR else "error"
        self._console.write(level, "log", {"message": record.getMessage(), "logger": record.name})


def duration(seconds: float) -> str:
    """Return `seconds` as people say it: `42s`, `3m 10s`, `2h 05m`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    return f"{whole // 3600}h {whole % 3600 // 60:02d}m"
