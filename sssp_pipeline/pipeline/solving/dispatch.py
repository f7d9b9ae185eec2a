"""Sends tasks to the workers, a bounded number at a time, and tries failed tasks again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from typing import Any

from sssp_pipeline.base import interrupts
from sssp_pipeline.base.errors import (
    DeadlineError,
    DiskFullError,
    InputError,
    SsspError,
    StoreUnavailableError,
)
from sssp_pipeline.base.progress import Level, Progress, Quiet, shortened
from sssp_pipeline.pipeline.solving.solve_task import solve_task
from sssp_pipeline.pipeline.solving.task import Attempt
from sssp_pipeline.pipeline.solving.workers.interface import Workers
from sssp_pipeline.storage.redaction import error_text

#: Seconds between two looks at the workers while no task ends.
_WATCH_S = 1.0
#: A task is given up when this many workers died under it, the last one while no other suspect was under way.
MOST_DEATHS = 3
#: What ends a run: another attempt would fail in the same way.
_FATAL = (InputError, DeadlineError, DiskFullError)


@dataclass(eq=False)
class _TaskState:
    """A task, and what became of its attempts."""

    task: Attempt
    #: How many attempts ended with an error, and how many workers died while they ran it.
    errors: int = 0
    deaths: int = 0
    #: Whether it is the only suspect under way. A suspect is a task under which `MOST_DEATHS - 1` workers died.
    is_only_suspect: bool = False


def scatter(
    workers: Workers,
    tasks: Iterable[Attempt],
    retries: int,
    on_done: Callable[[Any], None],
    progress: Progress = Quiet(),  # noqa: B008
    one_by_one: Callable[[], bool] = lambda: False,
    work: Callable[[Any], Any] | None = None,
) -> dict[int, str]:
    """Have the workers do `tasks`; return the batches that failed for good, each with its last error.

    A failed task is tried again, while the others continue. If a worker dies, its tasks are tried again whatever
    `retries` says. Tasks whose workers keep dying are run one at a time, to find the one that is the cause.

    Parameters
    ----------
    workers
        Where the tasks run.
    tasks
        The next one is taken when it can be submitted.
    retries
        How many times a task is tried again after an error.
    on_done
        Gets what each task returns.
    progress
        Gets a line for each change of the workers and for each failed attempt.
    one_by_one
        While it returns true, a task is submitted only after the last one has ended.
    work
        What to call with a task, instead of `solve_task`.

    Raises
    ------
    InputError, DeadlineError, DiskFullError
        A task fails on every worker. Nothing more is submitted then, and the tasks under way have ended.
    SsspError
        No worker is left, or the storage cannot be reached any more.
    """
    return _Dispatch(workers, iter(tasks), retries, on_done, progress, one_by_one, work or solve_task).run()


@dataclass(eq=False)
class _Dispatch:
    """The tasks of one call of `scatter`, which documents the fields up to `work`."""

    workers: Workers
    waiting: Iterator[Attempt]
    retries: int
    on_done: Callable[[Any], None]
    progress: Progress
    one_by_one: Callable[[], bool]
    work: Callable[[Any], Any]
    #: Tasks to try again; the suspects among them are run one at a time.
    again: deque[_TaskState] = field(default_factory=deque)
    suspects: deque[_TaskState] = field(default_factory=deque)
    under_way: dict[Future, _TaskState] = field(default_factory=dict)
    ended: SimpleQueue[Future] = field(default_factory=SimpleQueue)
    #: The batches that failed for good, each with its last error.
    failed: dict[int, str] = field(default_factory=dict)
    #: Errors that end the run, each with the first batch of its task.
    fatal: list[tuple[int, SsspError]] = field(default_factory=list)
    all_taken: bool = False

    def run(self) -> dict[int, str]:
        """Do what `scatter` does."""
        try:
            self._refill()
            while self.under_way or (not self.fatal and (self.again or self.suspects or not self.all_taken)):
                interrupts.check()
                for line in self.workers.watch():
                    self.progress.say(line, "cluster")
                with suppress(Empty):
                    self._handle_end(self.ended.get(timeout=_WATCH_S))
                if not self.fatal:
                    self._refill()
        finally:
            for future in self.under_way:
                future.cancel()
        if self.fatal:  # the message must not depend on which came first
            raise min(self.fatal, key=lambda each: each[0])[1]
        return self.failed

    def _refill(self) -> None:
        while len(self.under_way) < (1 if self.one_by_one() else self.workers.in_flight):
            if (state := self._next_task()) is None:
                return
            future = self.workers.submit(self.work, state.task)
            self.under_way[future] = state
            future.add_done_callback(self.ended.put)

    def _next_task(self) -> _TaskState | None:
        if self.suspects and not any(state.is_only_suspect for state in self.under_way.values()):
            suspect = self.suspects.popleft()
            suspect.is_only_suspect = True
            return suspect
        if self.again:
            return self.again.popleft()
        task = next(self.waiting, None)
        self.all_taken = task is None
        return None if task is None else _TaskState(task)

    def _handle_end(self, future: Future) -> None:
        state = self.under_way.pop(future)
        if future.cancelled():
            self._report_retry(state.task, "its worker stopped or is paused")
            (self.suspects if state.is_only_suspect else self.again).append(state)
        elif (error := future.exception()) is None:
            self.on_done(future.result())
        elif isinstance(error, _FATAL):
            self.fatal.append((state.task.numbers[0], error))
        else:
            self._handle_failure(state, error)

    def _handle_failure(self, state: _TaskState, error: BaseException) -> None:
        tried = state.task
        state.task = replace(tried, attempt=tried.attempt + 1)
        if deaths := self.workers.deaths(error):
            state.deaths += deaths
            if state.deaths < MOST_DEATHS - 1:
                self.again.append(state)
            elif not state.is_only_suspect:
                self.suspects.append(state)
            else:
                self._give_up(tried, f"{state.deaths} workers died under it")
                return
            self._report_retry(tried, "its worker died")
            return
        state.errors += 1
        state.is_only_suspect = False
        reason = error_text(error)
        if state.errors <= self.retries:
            self.again.append(state)
            self._report_retry(tried, reason)
        elif isinstance(error, StoreUnavailableError):  # every other batch would fail in the same way
            self.fatal.append((tried.numbers[0], error))
        else:
            self._give_up(tried, reason)

    def _give_up(self, task: Attempt, reason: str) -> None:
        self.failed.update(dict.fromkeys(task.numbers, reason))
        self._report(task, "set_aside", "error", "is set aside", reason)

    def _report_retry(self, task: Attempt, reason: str) -> None:
        self._report(task, "retry", "warning", "will be tried again", reason)

    def _report(self, task: Attempt, event: str, level: Level, outcome: str, reason: str) -> None:
        name = task.noun if len(task.numbers) == 1 else task.plural
        line = f"{name} {shortened(task.numbers)} failed at attempt {task.attempt} and {outcome}: {reason}"
        facts = {task.plural: task.numbers, "attempt": task.attempt, "error": reason}
        self.progress.say(line, event, level=level, **facts)
