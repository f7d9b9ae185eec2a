"""Scatter: batches of sources go out to the workers, a bounded number at a time; their distances go to storage.

A worker loads the graph itself, once, and keeps it. It writes what it solved and gives back a few numbers, so that
neither Dask's scheduler nor its client ever carries a graph or a distance.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, replace

import numpy as np

from sssp_pipeline.errors import InputError, PathTooLongError
from sssp_pipeline.kernels import solver_named
from sssp_pipeline.kernels.solver import SolveOptions
from sssp_pipeline.pipeline.distance_files import DistanceFormat
from sssp_pipeline.pipeline.hardware import cpu_name, gpu_name
from sssp_pipeline.pipeline.results import RunFolder, located
from sssp_pipeline.pipeline.stored_graph import resident
from sssp_pipeline.pipeline.workers import Workers


@dataclass(frozen=True, eq=False)
class BatchTask:
    """All a worker needs to solve and commit one batch; `attempt` counts from 1."""

    store: str
    content_id: str
    run: str
    batch: int
    sources: np.ndarray
    solver: str
    options: SolveOptions
    form: DistanceFormat
    attempt: int = 1


@dataclass(frozen=True)
class BatchDone:
    """What a worker tells of a committed batch; seconds are those of one thread."""

    load_s: float
    solve_s: float
    write_s: float


def solve_batch(task: BatchTask) -> BatchDone:
    """Return what it took to solve a batch and commit it; runs on a worker.

    Raises
    ------
    InputError
        The store does not hold the expected graph, or a path is longer than the weights' type holds.
    """
    began = time.perf_counter()
    stored = resident(task.store, task.content_id)
    graph, ids = stored.graph(), stored.ids
    loaded = time.perf_counter()
    try:
        solver = solver_named(task.solver)
        solution = solver.solve(graph, task.sources, task.options)
    except PathTooLongError as error:
        ends = ids.original(int(error.source)), ids.original(int(error.vertex))
        raise PathTooLongError(*ends, error.dtype, error.wider) from error
    solved = time.perf_counter()
    worker = f"{platform.node()}:{os.getpid()}"
    device = (gpu_name() if solver.device == "gpu" else None) or cpu_name()
    metrics = [
        located(m, ids.original(m.source), task.batch, worker, device, task.attempt) for m in solution.metrics
    ]
    RunFolder(task.run).commit_batch(task.batch, task.sources, solution, metrics, ids, task.form)
    return BatchDone(loaded - began, solved - loaded, time.perf_counter() - solved)


def scatter(
    workers: Workers,
    tasks: Iterable[BatchTask],
    retries: int,
    on_done: Callable[[BatchDone], None],
) -> dict[int, str]:
    """Solve `tasks`; return the batches that failed for good, each with its last error.

    A batch that fails is tried again `retries` times, and holds up no other.

    Raises
    ------
    InputError
        A batch cannot be solved whoever tries. Nothing more is submitted then, and what is under way has ended.
    """
    waiting = iter(tasks)
    under_way: dict[Future[BatchDone], BatchTask] = {}
    failed: dict[int, str] = {}
    hopeless: InputError | None = None

    def submit(task: BatchTask) -> None:
        under_way[workers.executor.submit(solve_batch, task)] = task

    def refill() -> None:
        while len(under_way) < workers.in_flight and (task := next(waiting, None)) is not None:
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
                    failed[task.batch] = str(error) or type(error).__name__
            if hopeless is None:
                refill()
    finally:
        for future in under_way:
            future.cancel()
    if hopeless is not None:
        raise hopeless
    return failed
