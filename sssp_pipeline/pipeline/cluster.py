"""The Dask cluster a run works on: one started on this machine, or one that is already there."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import dask
from dask.utils import parse_bytes
from distributed import Client, LocalCluster, Worker, WorkerPlugin

from sssp_pipeline import __version__, workflow
from sssp_pipeline.errors import InputError, SsspError
from sssp_pipeline.pipeline.hardware import usable_cores

#: Seconds to wait for a scheduler to answer, and for a first worker to join it.
CONNECT_S = 20
#: What a worker takes before it holds a graph: Python, Dask, Arrow and the compiled solvers; with less, Dask
#: ends it again and again.
WORKER_BYTES = 400 * 10**6
#: How many workers may die under one batch before Dask gives it up.
_ALLOWED_DEATHS = 3


@dataclass(frozen=True, eq=False)
class Connection:
    """A cluster ready for work.

    Attributes
    ----------
    client
        Connected, with at least one worker.
    n_workers, n_threads
        Worker processes now there, and their threads together.
    dashboard
        URL of Dask's dashboard.
    in_flight
        How many batches to keep submitted.
    """

    client: Client
    n_workers: int
    n_threads: int
    dashboard: str
    in_flight: int


@contextmanager
def connect(
    spec: workflow.Cluster, max_tasks: int, graph_bytes: int, batch_bytes: int
) -> Iterator[Connection]:
    """Give a connection to the cluster that `spec` describes; what was started here ends with the block.

    Parameters
    ----------
    spec
        The workflow's `cluster`.
    max_tasks
        No more threads are started here than there are batches.
    graph_bytes, batch_bytes
        Memory each worker needs for the graph, and each thread for a batch.

    Raises
    ------
    InputError
        No scheduler answers, no worker joins, the workers run another release, or memory is too small.
    """
    # Without this a worker that dies under a task prints pages of stream closures on the user's terminal.
    for name in ("distributed", "tornado.application"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with dask.config.set({"distributed.scheduler.allowed-failures": _ALLOWED_DEATHS}):
        if spec.kind == "address":
            assert spec.address is not None
            with _connected(spec.address) as client:
                yield _describe(client, spec)
        else:
            workers, threads = _local_size(spec, max_tasks)
            _check_memory(spec, workers, threads, graph_bytes, batch_bytes)
            with (
                _start_local(workers, threads, spec.memory_limit) as cluster,
                Client(cluster, set_as_default=False) as client,
            ):
                client.register_plugin(_LeaveInterrupts(), name="leave-interrupts")
                yield _describe(client, spec)


def _start_local(workers: int, threads: int, memory_limit: str) -> LocalCluster:
    try:
        with _interrupts_deferred():
            return LocalCluster(
                n_workers=workers,
                threads_per_worker=threads,
                memory_limit=memory_limit,
                dashboard_address="127.0.0.1:0",
                silence_logs=logging.CRITICAL,
            )
    except RuntimeError as error:
        raise SsspError(
            f"the local cluster does not start: {error.__cause__ or error}",
            hint='a Python script that runs a workflow needs `if __name__ == "__main__":`',
        ) from error


class _LeaveInterrupts(WorkerPlugin):
    """Keeps Ctrl-C from a worker: a terminal sends it to every process, but only the client knows how to end."""

    def setup(self, worker: Worker) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _interrupts_deferred() -> Iterator[None]:
    """Let Ctrl-C take effect only at the end of the block: a cluster that is half there cannot be ended."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if pressed:
            raise KeyboardInterrupt


def _local_size(spec: workflow.Cluster, max_tasks: int) -> tuple[int, int]:
    """Return how many processes to start and with how many threads each.

    Solvers run without the GIL, so one process with all threads is as fast as many and holds the graph once.
    """
    cores = min(usable_cores(), max(1, max_tasks))
    if spec.workers == "auto":
        if spec.threads_per_worker == "auto":
            return 1, cores
        return max(1, cores // spec.threads_per_worker), spec.threads_per_worker
    if spec.threads_per_worker == "auto":
        return spec.workers, max(1, cores // spec.workers)
    return spec.workers, spec.threads_per_worker


def _check_memory(
    spec: workflow.Cluster, workers: int, threads: int, graph_bytes: int, batch_bytes: int
) -> None:
    import psutil

    # A batch is held twice for a moment: as the solver gives it, and as the row groups being written.
    a_worker = graph_bytes + 2 * threads * batch_bytes
    there = psutil.virtual_memory().total
    if workers * a_worker > there:
        raise InputError(
            f"{workers} workers of {threads} threads need {workers * a_worker / 2**30:.1f} GiB of memory, "
            f"this machine has {there / 2**30:.1f} GiB",
            hint="lower `cluster.workers`, `cluster.threads_per_worker` or `solve.batch`",
        )
    if spec.memory_limit != "auto" and parse_bytes(spec.memory_limit) < a_worker + WORKER_BYTES:
        raise InputError(
            f"`cluster.memory_limit` is {spec.memory_limit}, but a worker needs "
            f"{(a_worker + WORKER_BYTES) / 1e6:,.0f} MB",
            hint="raise it, or leave it at `auto`",
        )


@contextmanager
def _connected(address: str) -> Iterator[Client]:
    try:
        client = Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise InputError(
            f"no Dask scheduler answers at `{address}`: {error}",
            hint="check `cluster.address`; start one with `dask scheduler`",
        ) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=CONNECT_S)
        except TimeoutError as error:
            raise InputError(
                f"the scheduler at `{address}` has no workers", hint=f"start one with `dask worker {address}`"
            ) from error
        _check_releases(client)
        yield client


def _check_releases(client: Client) -> None:
    answers = client.run(_release, on_error="return")
    for worker, answer in sorted(answers.items()):
        if isinstance(answer, BaseException):
            raise InputError(
                f"worker {worker} cannot run sssp-pipeline: {answer}",
                hint="install it in the workers' environment",
            )
        if answer != __version__:
            raise InputError(
                f"worker {worker} runs sssp-pipeline {answer}, this is {__version__}",
                hint="install one release everywhere",
            )


def _release() -> str:
    import sssp_pipeline

    return sssp_pipeline.__version__


def _describe(client: Client, spec: workflow.Cluster) -> Connection:
    threads = client.nthreads()
    if not threads:
        raise SsspError("the cluster has no workers")
    n_threads = sum(threads.values())
    # Two a thread: one being solved, one waiting, so that no thread waits for the scheduler.
    in_flight = 2 * n_threads if spec.in_flight == "auto" else spec.in_flight
    return Connection(client, len(threads), n_threads, client.dashboard_link, in_flight)
