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
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace

import numpy as np

from sssp_pipeline.errors import InputError, PathTooLongError
from sssp_pipeline.kernels import solver_named
from sssp_pipeline.kernels.solver import Solution, SolveOptions
from sssp_pipeline.pipeline.distance_files import DistanceFormat
from sssp_pipeline.pipeline.hardware import cpu_name, gpu_name, usable_cores
from sssp_pipeline.pipeline.results import Place, RunFolder
from sssp_pipeline.pipeline.stored_graph import resident
from sssp_pipeline.pipeline.workers import Workers

#: How long a thread that runs Python may keep another from it, in a process that solves. One that writes comes back
#: from Arrow many times a batch: beside a thread that made metrics, four took 52 ms for a batch of 256 x 1,000
#: distances at Python's usual 5 ms, and 10 ms like this.
_SWITCH_S = 0.5e-3


@dataclass(frozen=True, eq=False)
class SolveTask:
    """All a worker needs to solve some batches, and to commit each.

    Attributes
    ----------
    store, content_id
        The graph store and the identity of its graph.
    run
        The run folder.
    batches
        Numbers, each with its sources (n,) uint32.
    attempt
        Counts from 1.
    """

    store: str
    content_id: str
    run: str
    batches: tuple[tuple[int, np.ndarray], ...]
    solver: str
    options: SolveOptions
    form: DistanceFormat
    attempt: int = 1


@dataclass(frozen=True)
class TaskDone:
    """What a worker tells of committed batches; seconds are those of one thread.

    `source_s` is what a source took in the mean: of the thread, or of the GPU.
    """

    solver: str
    n_batches: int
    source_s: float
    load_s: float
    solve_s: float
    write_s: float


def solve_task(task: SolveTask) -> TaskDone:
    """Return what it took to solve a task's batches and commit them; runs on a worker.

    Raises
    ------
    InputError
        The store does not hold the expected graph, or a path is longer than the weights' type holds.
    """
    sys.setswitchinterval(_SWITCH_S)
    began = time.perf_counter()
    stored = resident(task.store, task.content_id)
    graph, ids = stored.graph(), stored.ids
    loaded = time.perf_counter()
    try:
        solver = solver_named(task.solver)
        sources = np.concatenate([sources for _, sources in task.batches])
        solution = solver.solve(graph, sources, task.options)
    except PathTooLongError as error:
        ends = ids.original(int(error.source)), ids.original(int(error.vertex))
        raise PathTooLongError(*ends, error.dtype, error.wider) from error
    solved = time.perf_counter()
    worker = f"{platform.node()}:{os.getpid()}"
    device = (gpu_name() if solver.device == "gpu" else None) or cpu_name()
    place = Place(worker, device, task.attempt)
    folder = RunFolder(task.run)

    def commit(number: int, sources: np.ndarray, part: Solution) -> float:
        began = time.perf_counter()
        folder.commit_batch(number, sources, part, place, ids, task.form, task.options.targets)
        return time.perf_counter() - began

    # The batches of one call are written side by side: writing takes many times as long as solving.
    with ThreadPoolExecutor(min(len(task.batches), usable_cores())) as writers:
        first, writing = 0, []
        for number, sources in task.batches:
            part = solution.part(first, first + len(sources))
            writing.append(writers.submit(commit, number, sources, part))
            first += len(sources)
        write_s = sum(future.result() for future in writing)
    source_s = sum(m.solve_s for m in solution.metrics) / len(sources)
    return TaskDone(task.solver, len(task.batches), source_s, loaded - began, solved - loaded, write_s)


def scatter(
    workers: Workers,
    tasks: Iterable[SolveTask],
    retries: int,
    on_done: Callable[[TaskDone], None],
    one_by_one: Callable[[], bool] = lambda: False,
) -> dict[int, str]:
    """Solve `tasks`; return the batches that failed for good, each with its last error.

    A task is asked for when it is submitted. One that fails is tried again `retries` times, and holds up no other.
    While `one_by_one()`, none is submitted before the last one has ended.

    Raises
    ------
    InputError
        A task cannot be done whoever tries. Nothing more is submitted then, and what is under way has ended.
    """
    waiting = iter(tasks)
    under_way: dict[Future[TaskDone], SolveTask] = {}
    failed: dict[int, str] = {}
    hopeless: InputError | None = None

    def submit(task: SolveTask) -> None:
        under_way[workers.executor.submit(solve_task, task)] = task

    def refill() -> None:
        while len(under_way) < (1 if one_by_one() else workers.in_flight):
            if (task := next(waiting, None)) is None:
                return
            submit(task)

    try:
        refill()
        while under_way:
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                task = under_way.pop(future)
                error = future.exception()
                if error is None:
                    on_done(future.result())
                elif isinstance(error, InputError):
                    hopeless = hopeless or error
                elif task.attempt <= retries and hopeless is None:
                    submit(replace(task, attempt=task.attempt + 1))
                else:
                    failed |= dict.fromkeys((n for n, _ in task.batches), str(error) or type(error).__name__)
            if hopeless is None:
                refill()
    finally:
        for future in under_way:
            future.cancel()
    if hopeless is not None:
        raise hopeless
    return failed
