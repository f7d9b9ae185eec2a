"""A fork server: one process imports what every worker needs, and the workers on this machine are forks of it.

A worker that starts as a new Python process takes a second of processor time for its imports. The server takes that
second once, on another core, while the run plans. `benchmarks/start_up.py` measures it.

Only the command line starts the server. A script or a notebook may have a fork server of its own, and it may need
pandas, which `worker_imports` leaves out. Workers of kind `local-cuda` are new processes too.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sssp_pipeline.workflow.cluster import Cluster

#: The module that the server imports before it forks.
IMPORTED = "sssp_pipeline.pipeline.run.worker_imports"
#: What Dask sets in the environment before it starts a worker: its setting `distributed.nanny.pre-spawn-environ`. The C
#: library and OpenBLAS read these variables when a process starts. After a fork it is too late.
ENVIRONMENT = {
    "MALLOC_TRIM_THRESHOLD_": "65536",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
#: The kinds of cluster whose workers on this machine are forks.
_KINDS = ("auto", "local-cpu")

_is_started = False


def start_for(spec: Cluster) -> None:
    """Start the server if `spec` needs worker processes on this machine. It imports in the background.

    If it cannot start, for example because the path of the temporary folder is too long for a socket, workers start as
    new processes.
    """
    global _is_started
    starts_processes = spec.workers != "auto" or spec.memory_limit != "auto"
    if sys.platform != "linux" or spec.kind not in _KINDS or not starts_processes:
        return
    import multiprocessing
    from multiprocessing import forkserver, resource_tracker

    multiprocessing.set_forkserver_preload([IMPORTED])
    resource_tracker.ensure_running()  # the next lines would start it too, and it would unblock the signal
    # A terminal sends Ctrl-C to every process. The server and its forks inherit the blocked signal.
    blocked_before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    added = ENVIRONMENT.keys() - os.environ.keys()
    os.environ.update({name: ENVIRONMENT[name] for name in added})
    try:
        with suppress(OSError):
            forkserver.ensure_running()
            _is_started = True
    finally:
        for name in added:
            del os.environ[name]
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked_before)


def serves(kind: str) -> bool:
    """Return whether workers of this kind of cluster are forks of the server."""
    return _is_started and kind in _KINDS


def remove_socket() -> None:
    """Remove the folder of the server's socket. Python does this at a normal exit, but not in `os._exit`."""
    if _is_started:
        from multiprocessing import util

        shutil.rmtree(util.get_temp_dir(), ignore_errors=True)
