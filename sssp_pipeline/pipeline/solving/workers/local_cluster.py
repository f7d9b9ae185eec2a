"""Kinds `local-cpu` and `local-cuda` with Dask: worker processes on this machine."""

from __future__ import annotations

import importlib.util
import logging
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import dask
from distributed import Client, LocalCluster, Worker, WorkerPlugin
from distributed.utils import get_mp_context

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.lazy import hidden
from sssp_pipeline.base.progress import plural
from sssp_pipeline.pipeline.solving.workers import fork_server
from sssp_pipeline.pipeline.solving.workers.dask_start import (
    LOOPBACK,
    dask_configured,
    needed_for,
    running,
    tls_options,
)
from sssp_pipeline.pipeline.solving.workers.memory import limit_here
from sssp_pipeline.workflow.cluster import Cluster

#: How many files are open with no worker, and how many more with each worker. If the limit is lower, Dask waits for
#: ever, or logs the same error without end. Measured: two workers need 44 files, and eight need at most 128.
_FILES, _FILES_A_WORKER = 32, 16


def has_dask_cuda() -> bool:
    """Return whether dask-cuda is installed, which starts a worker for each GPU."""
    return importlib.util.find_spec("dask_cuda") is not None


@contextmanager
def started_here(spec: Cluster, workers: int, threads: int, needed_bytes: int) -> Iterator[Client]:
    """Give a client of `workers` processes on this machine. They end with the block.

    With kind `local-cuda` each worker has its own GPU.

    Parameters
    ----------
    spec
        The cluster of the workflow.
    workers, threads
        The number of workers, and of threads of each.
    needed_bytes
        Host memory for the graph and the batches of a worker.

    Raises
    ------
    InputError
        A worker cannot use `needed_bytes` of its memory limit, too few files may be open, or dask-cuda is not
        installed.
    SsspError
        The workers do not start.
    """
    limit = worker_limit(spec, workers, threads, needed_bytes)
    _allow_files(workers)
    options = {
        "n_workers": workers,
        "threads_per_worker": threads,
        "memory_limit": limit,
        "dashboard_address": f"{LOOPBACK}:0",
        "silence_logs": logging.CRITICAL,
        **tls_options(spec),
    }
    with (
        dask_configured(),
        _forks_if_served(spec.kind),
        running(spec.kind, cluster_class(spec.kind), options) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        client.register_plugin(_IgnoreInterrupts(), name="ignore-interrupts")
        yield client


def worker_limit(spec: Cluster, workers: int, threads: int, needed_bytes: int) -> int:
    """Return the memory limit of each worker in bytes; raise `InputError` if it cannot use `needed_bytes` of it."""
    limit = limit_here(spec.memory_limit, workers)
    if limit.usable_bytes < needed_bytes:
        raise InputError(
            f"a worker of {plural(threads, 'thread')} has {limit} of memory, but needs "
            f"{limit.needed_mb(needed_bytes)}, of which it can use {limit.share:.0%}",
            hint="raise `cluster.memory_limit`, or lower `workers` or `threads_per_worker` there, or `solve.batch` "
            "or `output.columns_per_file`",
        )
    return limit.bytes


def _allow_files(workers: int) -> None:
    """Let this process open the files that it needs for workers, if the hard limit allows it."""
    needed = _FILES + _FILES_A_WORKER * workers
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        if hard != resource.RLIM_INFINITY and hard < needed:
            raise InputError(
                f"this process may open {hard} files, and {plural(workers, 'worker')} here take up to {needed}",
                hint=f"raise the limit: `ulimit -n {needed}`; or leave out `cluster.workers`, so that threads solve",
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


@contextmanager
def _forks_if_served(kind: str) -> Iterator[None]:
    """Let Dask fork the workers of the block from the fork server, if it serves this kind of cluster."""
    if not fork_server.serves(kind):
        yield
        return
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        with hidden("pandas"):
            get_mp_context()  # the first call imports the packages that a server of Dask's own would import
        yield


def cluster_class(kind: str) -> type[LocalCluster]:
    """Return the class of a local cluster of this kind; raise `InputError` if its package is not installed."""
    if kind != "local-cuda":
        return LocalCluster
    with needed_for(kind, "gpu"):
        from dask_cuda import LocalCUDACluster
    return LocalCUDACluster


class _IgnoreInterrupts(WorkerPlugin):
    """Makes a worker ignore Ctrl-C: a terminal sends it to every process, and the client ends the workers."""

    def setup(self, worker: Worker) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
