"""Who solves the batches: threads of this process, Dask workers started on this machine, or a cluster's.

A run that has this machine to itself and asks for nothing else is solved by threads of its own process: no process
starts, no scheduler stands between two batches, and the graph is there once. `docs/design/0003-who-solves.md` has
the measurements.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from sssp_pipeline import workflow
from sssp_pipeline.errors import InputError, SsspError
from sssp_pipeline.pipeline.hardware import usable_cores
from sssp_pipeline.pipeline.progress import plural


@dataclass(frozen=True, eq=False)
class Load:
    """What the batches of a run ask of those who solve them.

    Attributes
    ----------
    n_batches
        How many there are to do.
    graph_bytes, batch_bytes
        Host memory of the graph in each process, and of the distances of a batch.
    together
        Batches of a task.
    on_gpu
        Whether the solver runs on a GPU.
    """

    n_batches: int
    graph_bytes: int
    batch_bytes: int
    together: int
    on_gpu: bool

    @property
    def n_tasks(self) -> int:
        return -(-self.n_batches // self.together)


@dataclass(frozen=True)
class Demands:
    """What workers of a cluster that was there before must be able to do.

    Attributes
    ----------
    store, content_id
        Read this graph store, and find this graph in it.
    run
        Write to this run folder, and see what this process wrote there.
    solver
        Run this solver: one for a GPU needs one.
    """

    store: str
    content_id: str
    run: str
    solver: str


def fitted(spec: workflow.Cluster, load: Load) -> Load:
    """Return `load` with as many batches in a task as fit the memory, where workers are started on this machine."""
    if spec.kind == "address" or load.together == 1:
        return load
    import psutil

    processes, threads = (1, _threads(spec, load, 1)) if _is_this_process(spec) else _local_size(spec, load)
    there = psutil.virtual_memory().available // processes
    if spec.memory_limit != "auto":
        from sssp_pipeline.pipeline import cluster

        there = min(there, cluster.usable_bytes(spec.memory_limit))
    fit = (there - load.graph_bytes) // (threads * _batch_bytes(load))
    return replace(load, together=max(1, min(load.together, fit)))


@dataclass(frozen=True, eq=False)
class Workers:
    """Ready for work.

    Attributes
    ----------
    executor
        Runs a function somewhere, and gives a future of what it returns.
    n_processes, n_threads
        Worker processes now there, and all threads together; no processes means threads of this one.
    dashboard
        URL of Dask's dashboard; None without Dask.
    in_flight
        How many tasks to keep submitted.
    n_aside
        Workers that get no task, since they have no GPU and the solver needs one.
    """

    executor: Executor
    n_processes: int
    n_threads: int
    dashboard: str | None
    in_flight: int
    n_aside: int = 0


@contextmanager
def hire(spec: workflow.Cluster, load: Load, demands: Demands) -> Iterator[Workers]:
    """Give the workers that `spec` describes; what was started here ends with the block.

    Threads of this process finish the batch they are at before the block ends, also after an error or Ctrl-C.

    Raises
    ------
    InputError
        No scheduler answers, no worker joins, a worker cannot meet the `demands`, or memory is too small.
    """
    if _is_this_process(spec):
        threads = _threads(spec, load, processes=1)
        _checked_memory(1, threads, load)
        executor = ThreadPoolExecutor(threads, thread_name_prefix="solve")
        try:
            yield Workers(executor, 0, threads, None, _in_flight(spec, threads))
        finally:
            executor.shutdown(cancel_futures=True)
        return
    # Dask takes as long to import as a small graph to ingest.
    from sssp_pipeline.pipeline import cluster

    if spec.kind == "address":
        assert spec.address is not None
        with cluster.existing(spec.address) as client:
            able, n_aside = cluster.able_workers(client, demands, load.graph_bytes, _thread_bytes(load))
            yield _of_cluster(spec, client, able, n_aside)
        return
    processes, threads = _local_size(spec, load)
    needed = _checked_memory(processes, threads, load)
    with cluster.started(processes, threads, spec.memory_limit, needed) as client:
        yield _of_cluster(spec, client, list(client.nthreads()), 0)


def _of_cluster(spec: workflow.Cluster, client: Any, able: list[str], n_aside: int) -> Workers:
    """Return the workers of a Dask `client` at the addresses `able`.

    Those that join later take part, unless some are left aside.
    """
    threads_of = client.nthreads()
    n_threads = sum(threads_of.get(address, 0) for address in able)
    if not n_threads:
        raise SsspError("the cluster has no workers")
    executor = client.get_executor(pure=False, **({"workers": able} if n_aside else {}))
    return Workers(
        executor, len(able), n_threads, client.dashboard_link, _in_flight(spec, n_threads), n_aside
    )


def _is_this_process(spec: workflow.Cluster) -> bool:
    """Return whether threads of this process solve, and no workers."""
    return spec.kind != "address" and spec.workers == "auto" and spec.memory_limit == "auto"


def _in_flight(spec: workflow.Cluster, n_threads: int) -> int:
    # Two a thread: one being solved, one waiting, so that no thread waits for the scheduler.
    return 2 * n_threads if spec.in_flight == "auto" else spec.in_flight


def _local_size(spec: workflow.Cluster, load: Load) -> tuple[int, int]:
    """Return how many processes to start and with how many threads each."""
    if spec.workers != "auto":
        return spec.workers, _threads(spec, load, spec.workers)
    if spec.threads_per_worker == "auto":
        return 1, _threads(spec, load, processes=1)
    return max(1, _most_threads(load) // spec.threads_per_worker), spec.threads_per_worker


def _most_threads(load: Load) -> int:
    """Return how many threads have something to do here.

    Solvers run without the GIL, and so do encoding and writing. On a GPU one thread at a time solves, which takes
    hardly any core, while the others encode and write: so one more than there are cores. A task of several batches
    writes them on threads of its own: so one that solves, one that writes, and one that waits for the GPU.
    """
    wanted = usable_cores() + load.on_gpu if load.together == 1 else 3
    return max(1, min(wanted, load.n_tasks))


def _threads(spec: workflow.Cluster, load: Load, processes: int) -> int:
    """Return the threads of each process: those asked for, or as many as have work and fit the memory."""
    if spec.threads_per_worker != "auto":
        return spec.threads_per_worker
    import psutil

    fit = (psutil.virtual_memory().available // processes - load.graph_bytes) // _thread_bytes(load)
    return max(1, min(_most_threads(load) // processes, fit))


def _thread_bytes(load: Load) -> int:
    return load.together * _batch_bytes(load)


def _batch_bytes(load: Load) -> int:
    # A batch is held twice for a moment: as the solver gives it, and as the row groups being written.
    return max(1, 2 * load.batch_bytes)


def _checked_memory(processes: int, threads: int, load: Load) -> int:
    """Return the bytes each process needs; raise `InputError` if this machine has not enough for all."""
    import psutil

    each = load.graph_bytes + threads * _thread_bytes(load)
    there = psutil.virtual_memory().total
    if processes * each > there:
        who = f"{plural(processes, 'worker')} of {plural(threads, 'thread')}"
        raise InputError(
            f"{who} would take {processes * each / 2**30:.1f} GiB of memory, this machine has {there / 2**30:.1f} GiB",
            hint="lower `cluster.workers`, `cluster.threads_per_worker` or `solve.batch`",
        )
    return each
