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
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from sssp_pipeline.base import interrupts
from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.errors import (
    DeadlineError,
    DiskFullError,
    InputError,
    SsspError,
    StoreUnavailableError,
)
from sssp_pipeline.base.progress import Level, Progress, Quiet, shortened
from sssp_pipeline.base.vertex_ids import VertexIds, error_in_ids
from sssp_pipeline.kernels import solver_named
from sssp_pipeline.kernels.contract.solver import Parts, Solution, SolveOptions, metrics_column
from sssp_pipeline.kernels.contract.tunable import Value
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.kernels.host.solver import Solver
from sssp_pipeline.pipeline.graph_store.stored_graph import resident_graph
from sssp_pipeline.pipeline.planning.machine import cpu_name, gpu_name
from sssp_pipeline.pipeline.results.batch_metrics import Place
from sssp_pipeline.pipeline.results.outputs import RowOutput
from sssp_pipeline.pipeline.results.run_folder import RunFolder
from sssp_pipeline.pipeline.solving import worker_metrics
from sssp_pipeline.pipeline.solving.task import Attempt, Task, TaskDone
from sssp_pipeline.pipeline.solving.workers.interface import Workers
from sssp_pipeline.pipeline.solving.workers.needs import most_under_way
from sssp_pipeline.pipeline.solving.workers.process_wide import WhileNeeded
from sssp_pipeline.storage import files
from sssp_pipeline.storage.redaction import error_text
from sssp_pipeline.storage.retries import mark_reachable

#: Up to this many bytes of what is kept, a task writes a batch itself: giving it to a thread would take longer.
_SMALL_BYTES = 2**18
#: Held by each thread that writes to a local disk. More threads than cores would only take turns.
_WRITERS = threading.BoundedSemaphore(usable_cores())
#: Held by each batch of any task that waits to be written or is written. More of them would only take memory.
_UNDER_WAY = threading.BoundedSemaphore(usable_cores() + 4)
#: Batches of a task that are on the host before they are given to threads: two are copied, one is handed over.
_BEFORE = 3
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
def _noted(run: str, identity: str, stays: bool, digest: str) -> np.ndarray:
    """Return what is noted of the output of a run; this process keeps that of one run."""
    del identity  # tells apart two runs in the same folder
    return RunFolder(run).noted_output(digest, stays=stays)


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
    output = task.output.for_solving(partial(_noted, task.run, str(task.identity), task.output.note_stays))
    solver = solver_named(task.solver, task.tuning)
    device = (gpu_name() if solver.device == "gpu" else None) or cpu_name()
    commits = _Commits(task, output, Place(_worker(), device, task.attempt), ids)
    source_s: list[np.ndarray] = []
    try:
        with commits, closing(_parts(task, solver, graph, output)) as parts:
            for (number, sources), part in zip(task.batches, parts, strict=True):
                source_s.append(np.asarray(metrics_column(part.metrics, "solve_s"), np.float64))
                commits.commit(number, sources, part)
                del part  # its memory is given back when it is written
    except SsspError as error:
        if task.limit_s is None:
            if (in_ids := error_in_ids(error, ids, stored.manifest.weights.scale)) is not error:
                raise in_ids from error
            raise
        # The solver of a trial was too slow or had too little memory: the run continues with another solver.
        took = loaded - began, time.perf_counter() - loaded
        return TaskDone(task.solver, task.numbers, _worker(), task.attempt, *took, is_ended=True)
    solve_s = time.perf_counter() - loaded - commits.waited_s
    of_sources = np.concatenate(source_s)
    return TaskDone(
        task.solver,
        task.numbers,
        _worker(),
        task.attempt,
        loaded - began,
        solve_s,
        commits.write_s,
        len(of_sources),
        float(np.mean(of_sources)),
        commits.n_bytes,
    )


def _parts(task: SolveTask, solver: Solver, graph: CsrGraph, output: RowOutput) -> Parts:
    """Yield the solution of each batch of a task."""
    sources = np.concatenate([sources for _, sources in task.batches])
    options = replace(task.options, kept=output.kept, row_facts=output.reads_facts)
    if task.limit_s is not None:
        options = replace(options, deadline_s=min(task.limit_s, options.deadline_s))
    ends = np.cumsum([len(sources) for _, sources in task.batches]).tolist()
    return solver.solve_parts(graph, sources, options, ends)


class _Commits:
    """Commits the batches of a task on threads, while the next ones are solved.

    At the end of a `with` block, it waits for the threads. Then it raises what a thread raised. If that is `OSError`,
    the other batches are committed all the same.
    """

    def __init__(self, task: SolveTask, output: RowOutput, place: Place, ids: VertexIds) -> None:
        self._folder, self._identity = RunFolder(task.run, task.identity), task.identity
        self._output, self._place, self._ids = output, place, ids
        self._turn = _WRITERS if files.is_local(task.run) else nullcontext()
        self._threads: ThreadPoolExecutor | None = None
        if len(task.batches) > 1:
            self._threads = ThreadPoolExecutor(min(len(task.batches), usable_cores()))
        #: As `_UNDER_WAY`, of this task.
        self._under_way: threading.Semaphore | None = None
        self._is_checked = False
        #: What writing raised. Another batch or attempt may succeed after `OSError`, but not after other errors.
        self._errors: list[Exception] = []
        self._lock = threading.Lock()
        #: Seconds of the threads that wrote, and the bytes that they wrote.
        self.write_s, self.n_bytes = 0.0, 0
        #: Seconds in which the calling thread did not solve.
        self.waited_s = 0.0

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        began = time.perf_counter()
        if self._threads is not None:
            self._threads.shutdown()
        self.waited_s += time.perf_counter() - began
        if self._errors and kind is None:
            raise min(self._errors, key=lambda error: isinstance(error, OSError))

    def commit(self, number: int, sources: np.ndarray, part: Solution) -> None:
        """Commit a batch, on another thread if the task has several; wait if too many are under way.

        Raises
        ------
        InputError
            The folder no longer holds the run, or an earlier batch cannot be stored in the way that was asked for.
        """
        began = time.perf_counter()
        for error in self._errors:
            if not isinstance(error, OSError):
                raise error
        if not self._is_checked:
            # A process that was paused, or that outlived its driver, may come here after the run has ended. The folder
            # may then hold another run.
            if not self._folder.awaits(self._identity):
                raise InputError(
                    f"`{files.redacted(self._folder.url)}` no longer holds the run of this batch",
                    hint="run the same command again, and leave the folder to it until it ends",
                )
            self._is_checked = True
        place = replace(self._place, solved_at=time.time())
        n_bytes = part.distances.nbytes + (0 if part.over_sources is None else part.over_sources.nbytes)
        if self._threads is None or n_bytes < _SMALL_BYTES:
            self._write(number, sources, part, place)
        else:
            if self._under_way is None:
                self._under_way = threading.Semaphore(most_under_way(n_bytes) - _BEFORE)
            self._under_way.acquire()
            _UNDER_WAY.acquire()
            writing = self._threads.submit(self._write, number, sources, part, place)
            writing.add_done_callback(self._written)
        self.waited_s += time.perf_counter() - began

    def _written(self, _: Future) -> None:
        assert self._under_way is not None
        self._under_way.release()
        _UNDER_WAY.release()

    def _write(self, number: int, sources: np.ndarray, part: Solution, place: Place) -> None:
        with self._turn:
            began = time.perf_counter()
            n_bytes = 0
            try:
                n_bytes = self._folder.commit_batch(number, sources, part, place, self._ids, self._output)
            except Exception as error:
                self._errors.append(error)
            with self._lock:
                self.write_s += time.perf_counter() - began
                self.n_bytes += n_bytes


def _worker() -> str:
    return f"{platform.node()}:{os.getpid()}"


#: A task is given up when this many workers died under it, the last one while no other suspect was under way.
MOST_DEATHS = 3
#: Seconds between two looks at the workers while no task ends.
_WATCH_S = 1.0


@dataclass(eq=False)
class _TaskState:
    """A task, and what became of its attempts."""

    task: Attempt
    #: How many attempts ended with an error, and how many workers died while they ran it.
    errors: int = 0
    deaths: int = 0
    #: Whether it is the only suspect under way. A suspect is a task under which `MOST_DEATHS - 1` workers died.
    alone: bool = False


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

    def give_up(task: Attempt, reason: str) -> None:
        failed.update(dict.fromkeys(task.numbers, reason))
        report(task, "set_aside", "error", f"is set aside: {reason}", reason)

    def report(task: Attempt, event: str, level: Level, outcome: str, reason: str) -> None:
        name = task.noun if len(task.numbers) == 1 else task.plural
        line = f"{name} {shortened(task.numbers)} failed at attempt {task.attempt} and {outcome}"
        facts = {task.plural: task.numbers, "attempt": task.attempt, "error": reason}
        progress.say(line, event, level=level, **facts)

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
                elif isinstance(
                    error, (InputError, DeadlineError, DiskFullError)
                ):  # another attempt fails too
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
