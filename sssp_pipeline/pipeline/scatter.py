"""Scatter: batches of sources go out to the workers, a bounded number at a time; their distances go to storage.

A worker loads the graph itself, once, and keeps it. It writes what it solved and sends back a few numbers, so that
neither the scheduler nor the client ever carries a graph or a distance.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
from distributed import Future, as_completed, get_worker

from sssp_pipeline.csr import CsrGraph
from sssp_pipeline.errors import InputError, PathTooLongError
from sssp_pipeline.kernels import solver_named
from sssp_pipeline.kernels.solver import SolveOptions
from sssp_pipeline.pipeline import storage
from sssp_pipeline.pipeline.cluster import Connection
from sssp_pipeline.pipeline.distance_files import DistanceFormat
from sssp_pipeline.pipeline.graph_store import load_graph, load_ids, read_manifest
from sssp_pipeline.pipeline.hardware import cpu_name, gpu_name
from sssp_pipeline.pipeline.results import RunFolder, located
from sssp_pipeline.pipeline.vertex_ids import VertexIds


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
    graph, ids = _resident_graph(task.store, task.content_id)
    loaded = time.perf_counter()
    try:
        solver = solver_named(task.solver)
        solution = solver.solve(graph, task.sources, task.options)
    except PathTooLongError as error:
        ends = ids.original(int(error.source)), ids.original(int(error.vertex))
        raise PathTooLongError(*ends, error.dtype, error.wider) from error
    solved = time.perf_counter()
    worker = get_worker().name
    device = (gpu_name() if solver.device == "gpu" else None) or cpu_name()
    metrics = [
        located(m, ids.original(m.source), task.batch, str(worker), device, task.attempt)
        for m in solution.metrics
    ]
    RunFolder(task.run).commit_batch(task.batch, task.sources, solution, metrics, ids, task.form)
    return BatchDone(loaded - began, solved - loaded, time.perf_counter() - solved)


def scatter(
    connection: Connection,
    tasks: Iterable[BatchTask],
    retries: int,
    on_done: Callable[[BatchDone], None],
) -> dict[int, str]:
    """Solve `tasks` on the cluster; return the batches that failed for good, each with its last error.

    A batch that fails is tried again `retries` times, and holds up no other.

    Raises
    ------
    InputError
        A batch cannot be solved whoever tries. Nothing more is submitted then, and what is under way has ended.
    """
    waiting = iter(tasks)
    under_way: dict[Future, BatchTask] = {}
    completed = as_completed(loop=connection.client.loop)
    failed: dict[int, str] = {}
    hopeless: InputError | None = None

    def submit(task: BatchTask) -> None:
        future = connection.client.submit(solve_batch, task, pure=False)
        under_way[future] = task
        completed.add(future)

    def refill() -> None:
        while len(under_way) < connection.in_flight and (task := next(waiting, None)) is not None:
            submit(task)

    try:
        refill()
        for future in completed:
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
            future.release()
            if hopeless is None:
                refill()
    finally:
        connection.client.cancel(list(under_way))
    if hopeless is not None:
        raise hopeless
    return failed


class _Resident:
    """The graph this process keeps; one at a time, loaded by whichever thread asks first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._key: tuple[str, str] | None = None
        self._value: tuple[CsrGraph, VertexIds] | None = None

    def get(self, store: str, content_id: str) -> tuple[CsrGraph, VertexIds]:
        with self._lock:
            if self._key != (store, content_id) or self._value is None:
                self._value = None  # the old graph goes before the new one comes
                manifest = read_manifest(store)
                if manifest.content_id != content_id:
                    raise InputError(
                        f"`{storage.redacted(store)}` was ingested anew during the run",
                        hint="run the same command again",
                    )
                self._value = load_graph(store, manifest), load_ids(store, manifest)
                self._key = (store, content_id)
            return self._value


_resident = _Resident()


def _resident_graph(store: str, content_id: str) -> tuple[CsrGraph, VertexIds]:
    return _resident.get(store, content_id)
