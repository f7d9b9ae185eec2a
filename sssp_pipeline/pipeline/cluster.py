"""Dask's part: worker processes started on this machine, or a cluster that is already there."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import dask
from dask.utils import parse_bytes
from distributed import Client, LocalCluster, Worker, WorkerPlugin

from sssp_pipeline import __version__
from sssp_pipeline.errors import InputError, SsspError
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels._cupy import gpu_missing
from sssp_pipeline.pipeline import storage
from sssp_pipeline.pipeline.graph_store import read_manifest
from sssp_pipeline.pipeline.progress import plural
from sssp_pipeline.pipeline.results import RunFolder
from sssp_pipeline.pipeline.stored_graph import keep_within
from sssp_pipeline.pipeline.workers import Demands

#: Seconds to wait for a scheduler to answer, and for a first worker to join it.
CONNECT_S = 20
#: What a worker takes before it holds a graph: Python, Dask, Arrow and the compiled solvers; with less, Dask
#: ends it again and again.
WORKER_BYTES = 400 * 10**6
#: How many workers may die under one batch before Dask gives it up.
_ALLOWED_DEATHS = 3


def usable_bytes(memory_limit: str) -> int:
    """Return the bytes that a worker of this limit has for its graph and batches."""
    return int(parse_bytes(memory_limit)) - WORKER_BYTES


@contextmanager
def started(workers: int, threads: int, memory_limit: str, needed: int) -> Iterator[Client]:
    """Give a client of worker processes started on this machine, which end with the block.

    Raises
    ------
    InputError
        The limit is below the `needed` bytes of a worker's graph and batches, and what a worker itself takes.
    """
    if memory_limit != "auto" and usable_bytes(memory_limit) < needed:
        raise InputError(
            f"`cluster.memory_limit` is {memory_limit}, but a worker needs {(needed + WORKER_BYTES) / 1e6:,.0f} MB",
            hint="raise it, or leave it at `auto`",
        )
    with (
        _configured(),
        _start_local(workers, threads, memory_limit) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        client.register_plugin(_LeaveInterrupts(), name="leave-interrupts")
        yield client


@contextmanager
def existing(address: str) -> Iterator[Client]:
    """Give a client of the scheduler at `address`, with at least one worker.

    Raises
    ------
    InputError
        No scheduler answers, or no worker joins.
    """
    with _configured(), _connected(address) as client:
        yield client


@contextmanager
def _configured() -> Iterator[None]:
    # Without this a worker that dies under a task prints pages of stream closures on the user's terminal.
    for name in ("distributed", "tornado.application"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with dask.config.set({"distributed.scheduler.allowed-failures": _ALLOWED_DEATHS}):
        yield


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
        yield client


def able_workers(
    client: Client, demands: Demands, graph_bytes: int, thread_bytes: int
) -> tuple[list[str], int]:
    """Return the addresses of the workers that can do what is demanded, and how many are left aside without a GPU.

    Raises
    ------
    InputError
        A worker runs another release, cannot read the graph, write to the run folder, or hold `graph_bytes` and for
        each thread `thread_bytes`; or a GPU is needed and none has one. All that fail are named.
    """
    # Another release may not know `_faults`, so each is asked for its own first.
    _refuse_unfit(client.run(_release, on_error="return"), _release_fault)
    faults = client.run(_faults, demands, graph_bytes, thread_bytes, on_error="return")
    _refuse_unfit(faults, lambda found: _reason(found) if isinstance(found, BaseException) else found[0])
    without_gpu = {worker: found[1] for worker, found in faults.items() if found[1] is not None}
    if without_gpu and len(without_gpu) == len(faults):
        raise InputError(
            f"solver `{demands.solver}` needs a GPU, and no worker has one: {_each(without_gpu)}",
            hint="start workers where there is one, or set `solve.solver: delta-stepping`",
        )
    return sorted(faults.keys() - without_gpu.keys()), len(without_gpu)


def _refuse_unfit(answers: dict[str, Any], fault_of: Callable[[Any], str | None]) -> None:
    """Raise `InputError`, with all the faults, if there is one in the `answers` of the workers."""
    unfit = {worker: fault for worker, answer in answers.items() if (fault := fault_of(answer)) is not None}
    if unfit:
        raise InputError(
            f"{len(unfit)} of {plural(len(answers), 'worker')} cannot take part: {_each(unfit)}",
            hint="mend them, or stop them: the others can do without",
        )


def _release_fault(release: str | BaseException) -> str | None:
    if isinstance(release, BaseException):
        return f"it cannot run sssp-pipeline: {_reason(release)}"
    return None if release == __version__ else f"it runs sssp-pipeline {release}, this is {__version__}"


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _each(reasons: dict[str, str]) -> str:
    return "; ".join(f"{worker}: {reason}" for worker, reason in sorted(reasons.items()))


def _faults(
    demands: Demands, graph_bytes: int, thread_bytes: int, dask_worker: Worker
) -> tuple[str | None, str | None]:
    """Return why the worker on which this runs cannot take part at all, and why it has no GPU where one is needed."""
    limit = dask_worker.memory_manager.memory_limit
    n_threads = dask_worker.state.nthreads
    needed = graph_bytes + n_threads * thread_bytes + WORKER_BYTES
    if limit is not None and limit < needed:
        return (
            f"its memory limit is {limit / 1e6:,.0f} MB, and with {plural(n_threads, 'thread')} it needs "
            f"{needed / 1e6:,.0f} MB"
        ), None
    if limit is not None:
        keep_within(limit - needed + graph_bytes)
    try:
        if read_manifest(demands.store).content_id != demands.content_id:
            return f"`{storage.redacted(demands.store)}` holds another graph there", None
        folder = RunFolder(demands.run)
        if not folder.is_begun():
            return f"`{storage.redacted(demands.run)}` is another folder there: storage must be shared", None
        storage.check_writable(demands.run)
    except SsspError as error:
        return error.message, None
    return None, gpu_missing() if SOLVERS[demands.solver].device == "gpu" else None


def _release() -> str:
    import sssp_pipeline

    return sssp_pipeline.__version__
