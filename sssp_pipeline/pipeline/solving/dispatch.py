"""Scatter: batches of sources go out to the workers, a bounded number at a time; their distances go to storage.

A batch is what is committed, a task is what is solved by one call of a solver: several batches, where the solver is
faster the more sources it has.

A worker loads the graph itself, once, and keeps it. It writes what it solved and gives back a few numbers, so that
neither Dask's scheduler nor its client ever carries a graph or a distance.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from sssp_pipeline import interrupts
from sssp_pipeline.errors import (
    DeadlineError,
    InputError,
    NegativeCycleError,
    PathTooLongError,
    SsspError,
    StoreUnavailableError,
)
from sssp_pipeline.kernels import solver_named
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.kernels.options import Value
from sssp_pipeline.kernels.solver import Solution, SolveOptions, metrics_column
from sssp_pipeline.pipeline.graph_store.stored_graph import resident_graph
from sssp_pipeline.pipeline.machine import cpu_name, gpu_name
from sssp_pipeline.pipeline.results.outputs import RowOutput
from sssp_pipeline.pipeline.results.run_folder import Place, RunFolder
from sssp_pipeline.pipeline.solving import worker_metrics
from sssp_pipeline.pipeline.solving.task import Task
from sssp_pipeline.pipeline.solving.workers.interface import Workers
from sssp_pipeline.pipeline.solving.workers.process_wide import WhileNeeded
from sssp_pipeline.pipeline.storage import files
from sssp_pipeline.pipeline.storage.redaction import error_text
from sssp_pipeline.pipeline.storage.retries import mark_reachable
from sssp_pipeline.progress import (
    Level,
    Progress,
    Quiet,
    shortened,
)
from sssp_pipeline.vertex_ids import VertexIds

#: Distances of a task that are written by its own thread: to start others takes longer.
_SMALL_BYTES = 2**18
#: How long a thread that runs Python may keep another from it, in a process that solves. One that writes comes back
#: from Arrow many times a batch: beside a thread that made metrics, four took 52 ms for a batch of 256 x 1,000
#: distances at Python's usual 5 ms, and 10 ms like this.
_SWITCH_S = 0.5e-3


def _switch_sooner() -> Callable[[], None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    return lambda: sys.setswitchinterval(before)


_switching_sooner = WhileNeeded(_switch_sooner)


@dataclass(frozen=True, eq=False)
class SolveTask(Task):
    """All a worker needs to solve some batches, and to commit each.

    Attributes
    ----------
    options
        Without `kept`, which is that of `output`.
    output
        As `RowOutput.in_tasks` returns it. Targets may be many, and are the same for all tasks, so a worker reads them.
    tuning
        Options of the solver alone.
    limit_s
        If a source takes longer than this, or cannot be solved, the task is ended and its batches are not solved; None:
        that is an error.
    """

    solver: str
    options: SolveOptions
    output: RowOutput
    tuning: dict[str, Value] = field(default_factory=dict)
    limit_s: float | None = None


@dataclass(frozen=True)
class TaskDone:
    """What a worker tells of committed batches, at few bytes, which all go through Dask's scheduler.

    Attributes
    ----------
    batches, n_sources
        The numbers of the batches, and how many sources they have together.
    source_s
        What a source took in the mean: of the thread, or of the GPU.
    load_s, solve_s, write_s
        Seconds of one thread.
    n_bytes
        What was written, distances and metrics.
    worker, attempt
        Host and process, and which attempt it was.
    is_ended
        Whether a task with a limit was ended, and none of its batches was solved.
    """

    solver: str
    batches: tuple[int, ...]
    n_sources: int
    source_s: float
    load_s: float
    solve_s: float
    write_s: float
    n_bytes: int
    worker: str
    attempt: int
    is_ended: bool = False


@lru_cache(maxsize=1)
def _noted(run: str, identity: str) -> np.ndarray:
    """Return what is noted of the output of a run; this process keeps that of one run."""
    del identity  # of another run in the same folder, another array is kept
    return RunFolder(run).noted_output()


def solve_task(task: SolveTask) -> TaskDone:
    """Return what it took to solve a task's batches and commit them; runs on a worker.

    Raises
    ------
    InputError
        The store does not hold the expected graph, the folder no longer holds the run, or a path is longer than
        the weights' type holds.
    """
    mark_reachable(files.redacted(task.store), files.redacted(task.run))
    with _switching_sooner, worker_metrics.counted(task.attempt):
        done = _solved(task)
        worker_metrics.add(
            done.solver,
            0 if done.is_ended else len(done.batches),
            done.n_sources,
            solve_s=done.source_s * done.n_sources,
            load_s=done.load_s,
            write_s=done.write_s,
            n_bytes=done.n_bytes,
        )
    return done


def _solved(task: SolveTask) -> TaskDone:
    began = time.perf_counter()
    stored = resident_graph(task.store, task.content_id)
    graph, ids = stored.graph(), stored.ids
    loaded = time.perf_counter()
    try:
        solver = solver_named(task.solver, task.tuning)
        sources = np.concatenate([sources for _, sources in task.batches])
        output = task.output.for_solving(lambda: _noted(task.run, str(task.identity.get("targets"))))
        options = replace(task.options, kept=output.kept)
        if task.limit_s is not None:
            options = replace(options, deadline_s=min(task.limit_s, options.deadline_s))
        solution = solver.solve(graph, sources, options)
    except SsspError as error:
        if task.limit_s is None:
            if (named := _in_ids(error, ids)) is not error:
                raise named from error
            raise
        # It took too long, or has no memory: the run goes on without a solver that is only tried.
        solve_s = time.perf_counter() - loaded
        return TaskDone(
            task.solver, task.numbers, 0, 0.0, loaded - began, solve_s, 0.0, 0, _worker(), task.attempt, True
        )
    solved = time.perf_counter()
    device = (gpu_name() if solver.device == "gpu" else None) or cpu_name()
    place = Place(_worker(), device, task.attempt)
    folder = RunFolder(task.run)
    # One that was frozen, or that a killed driver left behind, may come to this when the run is over and done with,
    # or has made room for another.
    if not folder.awaits(task.identity):
        raise InputError(
            f"`{files.redacted(task.run)}` no longer holds the run of this batch",
            hint="run the same command again, and leave the folder to it until it ends",
        )

    refused: list[OSError] = []

    def commit(number: int, sources: np.ndarray, part: Solution) -> tuple[float, int]:
        began = time.perf_counter()
        try:
            n_bytes = folder.commit_batch(number, sources, part, place, ids, output)
        except OSError as error:  # those beside it are written all the same
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
        # The batches of one call are written side by side: writing takes many times as long as solving.
        with ThreadPoolExecutor(min(len(parts), usable_cores())) as writers:
            written = list(writers.map(lambda part: commit(*part), parts))
    if refused:
        raise refused[0]
    write_s, n_bytes = map(sum, zip(*written, strict=True))
    return TaskDone(
        task.solver,
        task.numbers,
        len(solution.metrics),
        float(np.mean(metrics_column(solution.metrics, "solve_s"))),
        loaded - began,
        solved - loaded,
        write_s,
        n_bytes,
        _worker(),
        task.attempt,
    )


def _in_ids(error: SsspError, ids: VertexIds) -> SsspError:
    """Return an error with the input's own ids in place of vertex numbers; `error` itself if it has none."""
    if isinstance(error, PathTooLongError):
        ends = ids.original(int(error.source)), ids.original(int(error.vertex))
        return type(error)(*ends, error.dtype, error.wider)
    if isinstance(error, NegativeCycleError):
        cycle = [ids.original(int(vertex)) for vertex in error.cycle]
        return NegativeCycleError(ids.original(int(error.source)), cycle, error.length)
    if isinstance(error, DeadlineError) and isinstance(error.source, int):
        return DeadlineError(
            error.solver, f"source {ids.original(error.source)}", error.deadline_s, error.state
        )
    return error


def _worker() -> str:
    return f"{platform.node()}:{os.getpid()}"


#: A batch under which so many workers have died, the last of them alone with it, is given up.
MOST_DEATHS = 3
#: Seconds between two looks after the workers where no task ends.
_TEND_S = 1.0


@dataclass(eq=False)
class _Given:
    """A task on its way; `errors` and `deaths` are what has become of it so far.

    `alone`: no other task that was there when several workers died is under way beside it.
    """

    task: Task
    errors: int = 0
    deaths: int = 0
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
    """Do `tasks`, by `solve_task` or `work`; return the batches that failed for good, each with its last error.

    `on_done` is given what a task returns.

    A task is asked for when it is submitted, and after each one that ends. One that fails is tried again `retries`
    times, and holds up no other.
    One that was there when a worker died is tried again whatever `retries` says, until it is the one to blame.
    While `one_by_one()`, none is submitted before the last one has ended. `progress` is told what becomes of the
    workers, and of every attempt that failed.

    Raises
    ------
    InputError, DeadlineError
        A task cannot be done whoever tries. Nothing more is submitted then, and what is under way has ended.
    SsspError
        There are no workers any more, or the storage is away for good.
    """
    waiting = iter(tasks)
    again: deque[_Given] = deque()
    suspects: deque[_Given] = deque()
    under_way: dict[Future, _Given] = {}
    ended: SimpleQueue[Future] = SimpleQueue()
    failed: dict[int, str] = {}
    # Errors that end the run, each with the first batch of its task.
    hopeless: list[tuple[int, SsspError]] = []
    all_asked_for = False

    def following() -> _Given | None:
        nonlocal all_asked_for
        if suspects and not any(given.alone for given in under_way.values()):
            suspect = suspects.popleft()
            suspect.alone = True
            return suspect
        if again:
            return again.popleft()
        task = next(waiting, None)
        all_asked_for = task is None
        return None if task is None else _Given(task)

    def refill() -> None:
        while len(under_way) < (1 if one_by_one() else workers.in_flight):
            if (given := following()) is None:
                return
            future = workers.submit(work or solve_task, given.task)
            under_way[future] = given
            future.add_done_callback(ended.put)

    def judge(given: _Given, error: BaseException) -> None:
        tried = given.task
        given.task = replace(tried, attempt=tried.attempt + 1)
        if deaths := workers.deaths(error):
            given.deaths += deaths
            reason = "its worker died"
            if given.deaths < MOST_DEATHS - 1:
                again.append(given)
            elif not given.alone:
                suspects.append(given)
            else:
                give_up(tried, f"{given.deaths} workers died under it")
                return
        else:
            given.errors += 1
            given.alone = False
            reason = error_text(error)
            if given.errors > retries:
                if isinstance(error, StoreUnavailableError):  # the batches after it would find it away, too
                    hopeless.append((tried.numbers[0], error))
                else:
                    give_up(tried, reason)
                return
            again.append(given)
        tell(tried, "retry", "warning", f"will be tried again: {reason}", reason)

    def give_up(task: Task, reason: str) -> None:
        failed.update(dict.fromkeys(task.numbers, reason))
        tell(task, "set_aside", "error", f"is set aside: {reason}", reason)

    def tell(task: Task, event: str, level: Level, outcome: str, reason: str) -> None:
        who = ("batch " if len(task.batches) == 1 else "batches ") + shortened(task.numbers)
        line = f"{who} failed at attempt {task.attempt} and {outcome}"
        progress.say(line, event, level=level, batches=task.numbers, attempt=task.attempt, error=reason)

    try:
        refill()
        while under_way or (not hopeless and (again or suspects or not all_asked_for)):
            interrupts.check()
            for line in workers.watch():
                progress.say(line, "cluster")
            with suppress(Empty):
                future = ended.get(timeout=_TEND_S)
                given = under_way.pop(future)
                if future.cancelled():
                    reason = "its worker stopped or is paused"
                    tell(given.task, "retry", "warning", f"will be tried again: {reason}", reason)
                    (suspects if given.alone else again).append(given)
                elif (error := future.exception()) is None:
                    on_done(future.result())
                elif isinstance(error, (InputError, DeadlineError)):  # another attempt fails too
                    hopeless.append((given.task.numbers[0], error))
                else:
                    judge(given, error)
            if not hopeless:
                refill()
    finally:
        for future in under_way:
            future.cancel()
    if hopeless:  # the message must not depend on which came first
        raise min(hopeless, key=lambda each: each[0])[1]
    return failed
