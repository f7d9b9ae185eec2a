"""What every Dask cluster that a run starts has in common: settings, TLS, and a clear error if it does not start."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import dask
from distributed import Security

from sssp_pipeline.base.errors import InputError, SsspError
from sssp_pipeline.pipeline.planning.machine import profiler_may_deadlock
from sssp_pipeline.pipeline.solving.workers.certificates import check_certificates
from sssp_pipeline.pipeline.solving.workers.process_wide import WhileNeeded
from sssp_pipeline.workflow.cluster import Cluster

#: Only processes of the same machine or pod can connect to this address.
LOOPBACK = "127.0.0.1"
#: Dask settings of schedulers and workers. A task that kills its worker fails at once, because only the driver can tell
#: the batch that kills from other batches of the same worker. A worker that is silent for `worker-ttl` counts as dead.
SETTINGS = {
    "distributed.scheduler.allowed-failures": 0,
    "distributed.scheduler.worker-ttl": "60s",
    **({"distributed.worker.profile.enabled": False} if profiler_may_deadlock() else {}),
}
#: The kinds of cluster, as messages name them.
NAMES = {"local-cuda": "local", "slurm": "SLURM", "kubernetes": "Kubernetes"}
_KUBERNETES_HINT = "check that the Dask operator is installed, and that you may make a DaskCluster"
_LOCAL_HINT = 'a Python script that runs a workflow needs `if __name__ == "__main__":`'
#: Threads of a worker in a job or pod with a GPU: one solves, one writes and one waits. A task of one batch writes on
#: its own thread, so there is one more.
_GPU_THREADS = 4


def threads_of(spec: Cluster, gpus: int) -> int:
    """Return the number of threads of a worker in a job or pod with `gpus` GPUs."""
    if spec.threads_per_worker != "auto":
        return spec.threads_per_worker
    return _GPU_THREADS if gpus else 1


@contextmanager
def needed_for(kind: str, extra: str) -> Iterator[None]:
    """Turn an import error in the block into an `InputError` that names the `extra` to install."""
    try:
        yield
    except ImportError as error:
        raise InputError(
            f"kind `{kind}` cannot be started: {error}",
            hint=f"install the extra that starts it: pip install 'sssp-pipeline[{extra}]'",
        ) from error


def tls_options(spec: Cluster) -> dict[str, Any]:
    """Return the options of a cluster that communicates under TLS; none if `spec` wants no TLS."""
    if not spec.is_secured:
        return {}
    check_certificates()
    return {"security": Security.temporary(), "protocol": "tls://"}


@contextmanager
def dask_configured() -> Iterator[None]:
    """Apply `SETTINGS` and silence Dask's loggers during the block."""
    with _silent, dask.config.set(SETTINGS):
        yield


@contextmanager
def running(kind: str, cluster_class: Any, options: dict[str, Any]) -> Iterator[Any]:
    """Give the cluster that `cluster_class(**options)` starts. It ends with the block.

    Raises
    ------
    SsspError
        The cluster does not start.
    """
    try:
        with _interrupts_deferred():
            cluster = cluster_class(**options)
    except SsspError:
        raise
    except Exception as error:  # each of these packages has its own exceptions
        raise SsspError(
            f"the {NAMES.get(kind, 'local')} cluster does not start: {_cause_text(error)}",
            hint=_KUBERNETES_HINT if kind == "kubernetes" else _LOCAL_HINT,
        ) from error
    with cluster:
        yield cluster


def _cause_text(error: BaseException) -> str:
    """Return the text of the first cause of `error`, or its type if it has no text."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error) or type(error).__name__


def _silence() -> Callable[[], None]:
    """Silence Dask's loggers; return the function that restores them.

    When a worker dies, these loggers print pages about closed streams to the user's terminal.
    """
    # `distributed.client` has a level of its own.
    loggers = map(logging.getLogger, ("distributed", "distributed.client", "tornado.application"))
    levels = {logger: logger.level for logger in loggers}
    for logger in levels:
        logger.setLevel(logging.CRITICAL)

    def restore() -> None:
        for logger, level in levels.items():
            logger.setLevel(level)

    return restore


_silent = WhileNeeded(_silence)


@contextmanager
def _interrupts_deferred() -> Iterator[None]:
    """Delay Ctrl-C to the end of the block: a cluster that is still starting cannot be ended."""
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
