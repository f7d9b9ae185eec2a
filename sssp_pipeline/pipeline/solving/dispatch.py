"""Sends tasks to the workers, a bounded number at a time, and tries failed tasks again.

A batch is committed as a whole. A task is solved by one call of a solver. It has several batches if the solver is
faster with more sources.

A worker loads the graph itself, once, and keeps it. It writes distances to storage and returns a few numbers, so
neither Dask's scheduler nor its client carries a graph or a distance.
"""

from __future__ import annotations

import os
import platform
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from sssp_pipeline import interrupts
from sssp_pipeline.csr import CsrGraph
from sssp_pipeline.errors import (
    DeadlineError,
    InputError,
    SsspError,
    StoreUnavailableError,
)
from sssp_pipeline.kernels import solver_named
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.kernels.options import Value
from sssp_pipeline.kernels.solver import Solution, SolveOptions, Solver, metrics_column
from sssp_pipeline.pipeline.graph_store.stored_graph import resident_graph
from sssp_pipeline.pipeline.machine import cpu_name, gpu_name
from sssp_pipeline.pipeline.results.outputs import RowOutput
from sssp_pipeline.pipeline.results.run_folder import Place, RunFolder
from sssp_pipeline.pipeline.solving import worker_metrics
from sssp_pipeline.pipeline.solving.task import Task, TaskDone
from sssp_pipeline.pipeline.solving.workers.interface import Workers
from sssp_pipeline.pipeline.solving.workers.process_wide import WhileNeeded
from sssp_pipeline.pipeline.storage import files
from sssp_pipeline.pipeline.storage.redaction import error_text
from sssp_pipeline.pipeline.storage.retries import mark_reachable
from sssp_pipeline.progress import Level, Progress, Quiet, shortened
from sssp_pipeline.vertex_ids import VertexIds, error_in_ids

#: Up to this many bytes of distances, a task writes its batches itself: starting threads would take longer.
_SMALL_BYTES = 2**18
#: Held by each thread that writes to a local disk. More threads than cores would only take turns.
_WRITERS = threading.BoundedSemaphore(usable_cores())
#: Python's switch interval in a process that solves. A thread that writes gives up Python's lock several times for each
#: batch and waits for it again. With Python's default of 5 ms, writing takes several times as long.
_SWITCH_S = 0.5e-3


def _switch_sooner() -> Callable[[], None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    return lambda: sys.setswitchinterval(before)


_switching_sooner = WhileNeeded(_switch_sooner)


@dataclass(frozen=True, eq=False)
class SolveTask(Task):
    """All that a worker needs to solve some batches and commit them."""

    solver: str
    #: Without `kept`, which is that of `output`.
    options: SolveOptions
    #: As `RowOutput.in_tasks` returns it. Targets may be many, and are the same for all tasks, so a worker reads them.
    output: RowOutput
    #: Options of the solver alone.
    tuning: dict[str, Value] = field(default_factory=dict)
    #: The task of a trial ends without a result if a source takes longer than this, or cannot be solved. None for other
    #: tasks: a source that cannot be solved is an error.
    limit_s: float | None = None


@lru_cache(maxsize=1)
def _noted(run: str, identity: str) -> np.ndarray:
    """Return what is noted of the output of a run; this process keeps that of one run."""
    del identity  # tells apart two runs in the same folder
    return RunFolder(run).noted_output()


def solve_task(task: SolveTask) -> TaskDone:
    """Solve the batches of a task, commit them, and return what that took; runs on a worker.

    Raises
    ------
    InputError
        The store does not hold the expected graph, the folder no longer holds the run, or a path is longer than
        the weights' type holds.
    """
    mark_reachable(files.redacted(task.store), files.redacted(task.run))
    with _switching_sooner, worker_metrics.counted(task.attempt):
        done = _solved(task)
        worker_metrics.add(done)
    return done


def _solved(task: SolveTask) -> TaskDone:
    began = time.perf_counter()
    stored = resident_graph(task.store, task.content_id)
    graph, ids = stored.graph(), stored.ids
    loaded = time.perf_counter()
    output = task.output.for_solving(lambda: _noted(task.run, str(task.identity)))
    try:
        solver, solution = _solution(task, graph, output)
    except SsspError as error:
        if task.limit_s is None:
            if (in_ids := error_in_ids(error, ids)) is not error:
                raise in_ids from error
            raise
        # The solver of a trial was too slow or had too little memory: the run continues with another solver.
        took = loaded - began, time.perf_counter() - loaded
        return TaskDone(task.solver, task.numbers, _worker(), task.attempt, *took, is_ended=True)
    solved = time.perf_counter()
    device = (gpu_name() if solver.device == "gpu" else None) or cpu_name()
    write_s, n_bytes = _commit(task, solution, output, Place(_worker(), device, task.attempt), ids)
    return TaskDone(
        task.solver,
        task.numbers,
        _worker(),
        task.attempt,
        loaded - began,
        solved - loaded,
        write_s,
        len(solution.metrics),
        float(np.mean(metrics_column(solution.metrics, "solve_s"))),
        n_bytes,
    )


def _solution(task: SolveTask, graph: CsrGraph, output: RowOutput) -> tuple[Solver, Solution]:
    """Return the solver of a task, and its solution for the sources of all batches."""
    solver = solver_named(task.solver, task.tuning)
    sources = np.concatenate([sources for _, sources in task.batches])
    options = replace(task.options, kept=output.kept)
    if task.limit_s is not None:
        options = replace(options, deadline_s=min(task.limit_s, options.deadline_s))
    return solver, solver.solve(graph, sources, options)


def _commit(
    task: SolveTask, solution: Solution, output: RowOutput, place: Place, ids: VertexIds
) -> tuple[float, int]:
    """Commit each batch of a task; return the seconds of the threads that wrote, and the bytes written.

    Raises
    ------
    InputError
        The folder no longer holds the run.
    OSError
        A batch could not be written. The other batches are committed all the same.
    """
    folder = RunFolder(task.run)
    # A process that was paused, or that outlived its driver, may come here after the run has ended. The folder may then
    # hold another run.
    if not folder.awaits(task.identity):
        raise InputError(
            f"`{files.redacted(task.run)}` no longer holds the run of this batch",
            hint="run the same command again, and leave the folder to it until it ends",
        )
    refused: list[OSError] = []

    def commit(number: int, sources: np.ndarray, part: Solution) -> tuple[float, int]:
        with _WRITERS if files.is_local(task.run) else nullcontext():
            began = time.perf_counter()
            try:
                n_bytes = folder.commit_batch(number, sources, part, place, ids, output)
            except OSError as error:
                refused.append(error)
                n_bytes = 0
            return time.perf_counter() - began, n_bytes

    ends = np.cumsum([len(sources) for _, sources in task.batches]).tolist()
    parts = [
        (number, sources, solution.part(end - len(sources), end))
        for (number, sources), end in zip(task.batches, ends, strict=True)
    ]
    if solution.distances.nbytes < _SMALL_BYTES:
        written = [commit(*part) for part in parts]
    else:
        # Writing takes longer than solving, so the batches are written in parallel.
        with ThreadPoolExecutor(min(len(parts), usable_cores())) as writers:
            written = list(writers.map(lambda part: commit(*part), parts))
    if refused:
        raise refused[0]
    write_s, n_bytes = map(sum, zip(*written, strict=True))
    return write_s, n_bytes


def _worker() -> str:
    return f"{platform.node()}:{os.getpid()}"


#: A task is given up when this many workers died under it, the last one while no other suspect was under way.
MOST_DEATHS = 3
#: Seconds between two looks at the workers while no task ends.
_WATCH_S = 1.0


@dataclass(eq=False)
class _TaskState:
    """A task, and what became of its attempts."""

    task: Task
    #: How many attempts ended with an error, and how many workers died while they ran it.
    errors: int = 0
    deaths: int = 0
    #: Whether it is the only suspect under way. A suspect is a task under which `MOST_DEATHS - 1` workers died.
    alone: bool = False


def scatter(
    workers: Workers,
    tasks: Iterable[Task],
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
    InputError, DeadlineError
        A task fails on every worker. Nothing more is submitted then, and the tasks under way have ended.
    SsspError
        No worker is left, or the storage cannot be reached any more.
    """
    waiting = iter(tasks)
    again: deque[_TaskState] = deque()
    suspects: deque[_TaskState] = deque()
    under_way: dict[Future, _TaskState] = {}
    ended: SimpleQueue[Future] = SimpleQueue()
    failed: dict[int, str] = {}
    # Errors that end the run, each with the first batch of its task.
    fatal: list[tuple[int, SsspError]] = []
    all_taken = False

    def next_task() -> _TaskState | None:
        nonlocal all_taken
        if suspects and not any(state.alone for state in under_way.values()):
            suspect = suspects.popleft()
            suspect.alone = True
            return suspect
        if again:
            return again.popleft()
        task = next(waiting, None)
        all_taken = task is None
        return None if task is None else _TaskState(task)

    def refill() -> None:
        while len(under_way) < (1 if one_by_one() else workers.in_flight):
            if (state := next_task()) is None:
                return
            future = workers.submit(work or solve_task, state.task)
            under_way[future] = state
            future.add_done_callback(ended.put)

    def handle_failure(state: _TaskState, error: BaseException) -> None:
        tried = state.task
        state.task = replace(tried, attempt=tried.attempt + 1)
        if deaths := workers.deaths(error):
            state.deaths += deaths
            reason = "its worker died"
            if state.deaths < MOST_DEATHS - 1:
                again.append(state)
            elif not state.alone:
                suspects.append(state)
            else:
                give_up(tried, f"{state.deaths} workers died under it")
                return
        else:
            state.errors += 1
            state.alone = False
            reason = error_text(error)
            if state.errors > retries:
                if isinstance(error, StoreUnavailableError):  # every other batch would fail in the same way
                    fatal.append((tried.numbers[0], error))
                else:
                    give_up(tried, reason)
                return
            again.append(state)
        report(tried, "retry", "warning", f"will be tried again: {reason}", reason)

    def give_up(task: Task, reason: str) -> None:
        failed.update(dict.fromkeys(task.numbers, reason))
        report(task, "set_aside", "error", f"is set aside: {reason}", reason)

    def report(task: Task, event: str, level: Level, outcome: str, reason: str) -> None:
        batches = ("batch " if len(task.batches) == 1 else "batches ") + shortened(task.numbers)
        line = f"{batches} failed at attempt {task.attempt} and {outcome}"
        progress.say(line, event, level=level, batches=task.numbers, attempt=task.attempt, error=reason)

    try:
        refill()
        while under_way or (not fatal and (again or suspects or not all_taken)):
            interrupts.check()
            for line in workers.watch():
                progress.say(line, "cluster")
            with suppress(Empty):
                future = ended.get(timeout=_WATCH_S)
                state = under_way.pop(future)
                if future.cancelled():
                    reason = "its worker stopped or is paused"
                    report(state.task, "retry", "warning", f"will be tried again: {reason}", reason)
                    (suspects if state.alone else again).append(state)
                elif (error := future.exception()) is None:
                    on_done(future.result())
                elif isinstance(error, (InputError, DeadlineError)):  # another attempt fails too
                    fatal.append((state.task.numbers[0], error))
                else:
                    handle_failure(state, error)
            if not fatal:
                refill()
    finally:
        for future in under_way:
            future.cancel()
    if fatal:  # the message must not depend on which came first
        raise min(fatal, key=lambda each: each[0])[1]
    return failed
