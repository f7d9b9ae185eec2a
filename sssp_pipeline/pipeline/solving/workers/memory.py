"""The memory of a Dask worker: what it can use for a run, and workers that Dask has paused because they use more.

Dask pauses a worker above a share of its memory limit, 80 % by default: the worker finishes its tasks, takes no other,
and stays alive. The pages of a graph that it maps count, so a large graph can pause a worker for good.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

import dask
from dask.utils import parse_bytes
from distributed import Client, Worker

from sssp_pipeline.base.errors import InputError, SsspError
from sssp_pipeline.base.host_memory import memory_bytes
from sssp_pipeline.base.progress import plural

#: Memory of a worker without a graph: Python, Dask, Arrow and the compiled solvers. With a lower limit, Dask ends the
#: worker again and again.
WORKER_BYTES = 400 * 10**6


def usable_share(pause: float | bool | None = None) -> float:
    """Return the share of its memory limit that a worker may use before Dask pauses or ends it.

    `pause` is the worker's own threshold to pause, False for none. The default is the threshold of workers started
    here.
    """
    memory = dask.config.get("distributed.worker.memory")
    thresholds = memory["pause"] if pause is None else pause, memory["terminate"]
    return min((float(share) for share in thresholds if share), default=1.0)


@dataclass(frozen=True)
class MemoryLimit:
    """The memory limit of a worker in bytes, and the share that the worker may use before Dask pauses or ends it."""

    bytes: int
    share: float

    @property
    def usable_bytes(self) -> int:
        """Memory for graph and batches; negative if the limit is too low for any graph."""
        return int(self.bytes * self.share) - WORKER_BYTES

    def needed_mb(self, n_bytes: int) -> str:
        """Return the limit in whole megabytes, as text, with which a worker can use `n_bytes`."""
        return f"{ceil((n_bytes + WORKER_BYTES) / self.share / 1e6):,} MB"

    def __str__(self) -> str:
        return f"{self.bytes / 1e6:,.0f} MB"


def limit_here(memory_limit: str, n_workers: int) -> MemoryLimit:
    """Return the memory limit of each of `n_workers` on this machine; `auto` is an equal share."""
    if memory_limit == "auto":
        return MemoryLimit(memory_bytes() // n_workers, usable_share())
    return MemoryLimit(min(int(parse_bytes(memory_limit)), memory_bytes()), usable_share())


def limit_of(worker: Worker) -> MemoryLimit:
    """Return the memory limit of the worker on which this runs."""
    # Dask does not see the control group of a SLURM job.
    limits = [MemoryLimit(memory_bytes(), 1.0)]
    if (limit := worker.memory_manager.memory_limit) is not None:
        limits.append(MemoryLimit(limit, usable_share(worker.memory_manager.memory_pause_fraction)))
    return min(limits, key=lambda each: each.usable_bytes)


def check_limit(memory_limit: str) -> None:
    """Raise `InputError` if a worker with this limit has no memory for any graph."""
    if memory_limit == "auto":
        return
    limit = MemoryLimit(int(parse_bytes(memory_limit)), usable_share())
    if limit.usable_bytes <= 0:
        raise InputError(
            f"`cluster.memory_limit` is {memory_limit}, but a worker needs {limit.needed_mb(0)} "
            "before it holds a graph",
            hint="raise it, or leave it at `auto`",
        )


@dataclass(frozen=True)
class PausedWorker:
    """A worker that Dask gives no task: its memory in use, its limit, and the number of tasks that it still runs."""

    used_bytes: int
    limit_bytes: int
    n_running: int

    def __str__(self) -> str:
        used_mb, limit_mb = self.used_bytes / 1e6, self.limit_bytes / 1e6
        return f"it uses {used_mb:,.0f} MB of its memory limit of {limit_mb:,.0f} MB"


def paused_workers(client: Client, timeout_s: float) -> dict[str, PausedWorker]:
    """Return the workers that Dask has paused, by address, with the numbers of their last heartbeats.

    The result is empty if the scheduler does not answer.
    """
    scheduler = client.scheduler
    try:
        running = client.sync(scheduler.ncores_running, callback_timeout=timeout_s)
        if running == client.nthreads(callback_timeout=timeout_s):
            return {}  # the next answer is large if there are many workers
        workers = client.sync(scheduler.identity, n_workers=-1, callback_timeout=timeout_s)["workers"]
    except (OSError, TimeoutError):
        return {}
    return {
        address: PausedWorker(
            worker["metrics"]["memory"],
            worker["memory_limit"],
            worker["metrics"]["task_counts"].get("executing", 0),
        )
        for address, worker in workers.items()
        if worker["status"] == "paused"
    }


def all_paused(workers: Mapping[str, PausedWorker], wait_s: int) -> SsspError:
    """Return the error of a run after `wait_s` seconds in which all workers were paused."""
    each = "; ".join(f"{address}: {worker}" for address, worker in sorted(workers.items()))
    return SsspError(
        f"Dask has paused {plural(len(workers), 'worker')} for lack of memory, and no other worker has joined in "
        f"{wait_s} s: {each}",
        hint="give the workers more memory, or restart them if other work fills it; then run the same command again",
    )
