"""Who solves the batches: threads of this process, Dask workers started for the run, or a cluster's.

A run that has this machine to itself and asks for nothing else is solved by threads of its own process: no process
starts, no scheduler stands between two batches, and the graph is there once. `docs/design/0003-who-solves.md` has
the measurements, `docs/design/0006-clusters.md` what is decided for more machines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Protocol

from sssp_pipeline.errors import InputError
from sssp_pipeline.kernels._cupy import gpu_count
from sssp_pipeline.kernels._team import usable_cores
from sssp_pipeline.pipeline.hardware import Machine, free_memory_bytes, memory_bytes, this_machine
from sssp_pipeline.pipeline.progress import plural
from sssp_pipeline.workflow_cluster import Cluster

#: `auto` takes all GPUs of the machine where that is expected to save so many seconds: a Dask cluster takes some to
#: start, and each worker its own to load graph and kernels.
_SAVED_S = 15.0


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
    expected_s
        About how long it takes on what the plan was made for.
    least_bytes
        What a process needs beside the graph, however few its threads: a task of `verify`, also of a later one.
    """

    n_batches: int
    graph_bytes: int
    batch_bytes: int
    together: int
    on_gpu: bool
    expected_s: float = 0.0
    least_bytes: int = 0

    @property
    def n_tasks(self) -> int:
        return -(-self.n_batches // self.together)


@dataclass(frozen=True)
class Demands:
    """What workers of other machines must be able to do.

    Attributes
    ----------
    store, content_id
        Read this graph store, and find this graph in it.
    run
        Write to this run folder, and see what this process wrote there.
    solver
        Run this solver: one for a GPU needs one.
    gpu_bytes
        Hold so much on the GPU, where the solver runs on one.
    """

    store: str
    content_id: str
    run: str
    solver: str
    gpu_bytes: int = 0


#: CPU seconds of Dask's client and scheduler for a task (benchmarks/results/scheduling.jsonl), the share of the time
#: of a run that they may take, and the seconds that nobody minds.
SCHEDULING_S = 2.5e-3
_SCHEDULING_SHARE = 0.05
_SCHEDULING_FREE_S = 1.0
#: Tasks that each of those who solve keeps where batches share them, so that all are done at about the same time.
_TASKS_EACH = 4
#: Most distances of small batches that share a task: as many as a large batch has.
_SHARED_BYTES = 32 * 2**20


def sharing(load: Load, n_solving: int) -> Load:
    """Return `load` with as many batches in a task as suit `n_solving` GPUs, or threads, of Dask workers.

    Dask takes some milliseconds for each task, whatever is in it and however many workers there are; batches that
    take less, all workers together, would wait for it. With few batches each GPU gets a task before one gets a full
    call.
    """
    wanted = ceil(
        load.n_batches * SCHEDULING_S / max(_SCHEDULING_SHARE * load.expected_s, _SCHEDULING_FREE_S)
    )
    fit = min(load.n_batches // (_TASKS_EACH * n_solving), _SHARED_BYTES // max(load.batch_bytes, 1))
    return replace(load, together=min(max(load.together, min(wanted, fit)), -(-load.n_batches // n_solving)))


class Workers(Protocol):
    """Ready for work: `Threads` of this process, or `roster.DaskWorkers`."""

    @property
    def n_processes(self) -> int:
        """Worker processes now there; 0 means threads of this one."""
        ...

    @property
    def n_threads(self) -> int:
        """All their threads."""
        ...

    @property
    def n_aside(self) -> int:
        """Workers that get no task."""
        ...

    @property
    def scheduler(self) -> str | None:
        """Address of Dask's scheduler; None without Dask."""
        ...

    @property
    def dashboard(self) -> str | None:
        """URL of Dask's dashboard; None without Dask."""
        ...

    @property
    def in_flight(self) -> int:
        """How many tasks to keep submitted."""
        ...

    def submit(self, function: Callable[[Any], Any], task: Any) -> Future:
        """Return the future of `function(task)`; it is cancelled if no worker is left to run it."""
        ...

    def deaths(self, error: BaseException) -> int:
        """Return how many workers died under a task that ended with `error`."""
        ...

    def tend(self) -> list[str]:
        """Look after the workers, now and then; return what is worth a line.

        Raises
        ------
        SsspError
            There are none, and none come.
        """
        ...


@dataclass(frozen=True, eq=False)
class Threads:
    """Threads of this process, as `Workers`."""

    executor: Executor
    n_threads: int
    in_flight: int
    n_processes: int = 0
    n_aside: int = 0
    scheduler: str | None = None
    dashboard: str | None = None

    def submit(self, function: Callable[[Any], Any], task: Any) -> Future:
        return self.executor.submit(function, task)

    def deaths(self, error: BaseException) -> int:
        return 0

    def tend(self) -> list[str]:
        return []


class Crew(Protocol):
    """Those who will solve, before it is known with what."""

    @property
    def machine(self) -> Machine:
        """What they have together."""
        ...

    def fitted(self, load: Load) -> Load:
        """Return `load` with fewer batches in a task where GPUs would go without, or they do not fit the memory."""
        ...

    def hired(self, load: Load, demands: Demands) -> AbstractContextManager[Workers]:
        """Give the workers; what was started for them ends with the block.

        Threads of this process finish the batch they are at before the block ends, also after an error or Ctrl-C.

        Raises
        ------
        InputError
            A worker cannot meet the `demands`, or memory is too small.
        """
        ...


@contextmanager
def assembled(spec: Cluster) -> Iterator[Crew]:
    """Give those who will solve what `spec` says: of another machine they are there already, here nothing has started.

    Raises
    ------
    InputError
        No scheduler answers, no worker joins, a worker runs another release, or what starts them is not installed.
    """
    if spec.kind in ("auto", "local-cpu", "local-cuda"):
        yield _Here(spec)
        return
    # Dask takes as long to import as a small graph to ingest.
    from sssp_pipeline.pipeline.roster import Elsewhere

    with Elsewhere.assembled(spec) as crew:
        yield crew


def check_gpus(spec: Cluster) -> None:
    """Raise `InputError` if this machine has fewer GPUs than `spec`, of kind `local-cuda`, asks for."""
    _Here(spec)


class _Here:
    """The machine of this process, as a `Crew`."""

    def __init__(self, spec: Cluster) -> None:
        self._spec = spec
        self.machine = this_machine()
        if spec.kind == "local-cuda":
            if self.machine.gpu_free_bytes is None:
                raise InputError(
                    f"kind `local-cuda` needs a GPU: {self.machine.no_gpu}",
                    hint="see what `sssp-pipeline doctor` says of it, or set `cluster.kind: local-cpu`",
                )
            self.machine = replace(self.machine, n_gpus=_workers_on_gpus(spec))

    def fitted(self, load: Load) -> Load:
        spec = self._spec
        if not _is_this_process(spec):
            processes, threads = _size(spec, load)
            load = sharing(load, processes if load.on_gpu else processes * threads)
        if load.together == 1:
            return load
        processes, threads = (1, _threads(spec, load, 1)) if _is_this_process(spec) else _size(spec, load)
        fit = (_room(spec, processes) - load.graph_bytes) // (threads * batch_memory(load))
        return replace(load, together=max(1, min(load.together, fit)))

    @contextmanager
    def hired(self, load: Load, demands: Demands) -> Iterator[Workers]:
        spec = _on_all_gpus(self._spec, load)
        if _is_this_process(spec):
            threads = _threads(spec, load, processes=1)
            _checked_memory(1, threads, load)
            executor = ThreadPoolExecutor(threads, thread_name_prefix="solve")
            try:
                yield Threads(executor, threads, in_flight(spec, threads))
            finally:
                executor.shutdown(cancel_futures=True)
            return
        from sssp_pipeline.pipeline import cluster
        from sssp_pipeline.pipeline.roster import DaskWorkers

        processes, threads = _size(spec, load)
        needed = _checked_memory(processes, threads, load)
        with cluster.started_here(spec, processes, threads, needed) as client:
            yield DaskWorkers(client, spec)


def _workers_on_gpus(spec: Cluster) -> int:
    """Return how many workers, each with a GPU of its own, `spec` asks for; raise `InputError` if that is too many."""
    n_gpus = gpu_count()
    if isinstance(spec.workers, int) and spec.workers > n_gpus:
        raise InputError(
            f"`cluster.workers` is {spec.workers}, and there {'is' if n_gpus == 1 else 'are'} {plural(n_gpus, 'GPU')}",
            hint="leave `workers` at `auto`, or ask for no more than there are",
        )
    return spec.workers if isinstance(spec.workers, int) else n_gpus


def _on_all_gpus(spec: Cluster, load: Load) -> Cluster:
    """Return `spec` with kind `local-cuda` in place of `auto` where several GPUs have enough to do."""
    if spec.kind != "auto" or not load.on_gpu or not _is_this_process(spec):
        return spec
    n_gpus = gpu_count()
    if load.expected_s * (1 - 1 / max(n_gpus, 1)) < _SAVED_S:
        return spec
    from sssp_pipeline.pipeline import cluster

    return spec.model_copy(update={"kind": "local-cuda"}) if cluster.has_dask_cuda() else spec


def _is_this_process(spec: Cluster) -> bool:
    """Return whether threads of this process solve, and no workers."""
    return spec.kind != "local-cuda" and spec.workers == "auto" and spec.memory_limit == "auto"


def in_flight(spec: Cluster, n_threads: int) -> int:
    """Return how many tasks to keep submitted: two a thread, one being solved, one waiting, unless `spec` says."""
    return 2 * n_threads if spec.in_flight == "auto" else spec.in_flight


def _size(spec: Cluster, load: Load) -> tuple[int, int]:
    """Return how many processes to start here and with how many threads each."""
    if spec.kind == "local-cuda":
        processes = _workers_on_gpus(spec)
        return processes, _threads(spec, load, processes)
    if isinstance(spec.workers, int):
        return spec.workers, _threads(spec, load, spec.workers)
    if spec.threads_per_worker == "auto":
        return 1, _threads(spec, load, processes=1)
    return max(1, _most_threads(load, 1) // spec.threads_per_worker), spec.threads_per_worker


def _most_threads(load: Load, processes: int) -> int:
    """Return how many threads have something to do in each of the processes here.

    Solvers run without the GIL, and so do encoding and writing. On a GPU one thread at a time solves, which takes
    hardly any core, while the others encode and write: so one more than there are cores. A task of several batches
    writes them on threads of its own: so one that solves, one that writes, and one that waits for the GPU.
    """
    wanted = usable_cores() // processes + load.on_gpu if load.together == 1 else 3
    return max(1, min(wanted, -(-load.n_tasks // processes)))


def _threads(spec: Cluster, load: Load, processes: int) -> int:
    """Return the threads of each process: those asked for, or as many as have work and fit the memory."""
    if spec.threads_per_worker != "auto":
        return spec.threads_per_worker
    fit = (_room(spec, processes) - load.graph_bytes) // thread_memory(load)
    return max(1, min(_most_threads(load, processes), fit))


def _room(spec: Cluster, processes: int) -> int:
    """Return the bytes that each of the processes here has for its graph and batches."""
    free = free_memory_bytes() // processes
    if _is_this_process(spec):
        return free
    from sssp_pipeline.pipeline.worker_memory import limit_here, usable_bytes, usable_share

    return min(free, usable_bytes(limit_here(spec.memory_limit, processes), usable_share()))


def thread_memory(load: Load) -> int:
    """Return the bytes that the task of a thread holds."""
    return load.together * batch_memory(load)


def batch_memory(load: Load) -> int:
    """Return the bytes that a batch takes: twice, as the solver gives it and as the row groups being written."""
    return max(1, 2 * load.batch_bytes)


def _checked_memory(processes: int, threads: int, load: Load) -> int:
    """Return the bytes each process needs; raise `InputError` if this run may not use enough for all."""
    each = load.graph_bytes + max(threads * thread_memory(load), load.least_bytes)
    usable = memory_bytes()
    if processes * each > usable:
        who = f"{plural(processes, 'worker')} of {plural(threads, 'thread')}"
        raise InputError(
            f"{who} would take {processes * each / 2**30:.1f} GiB of memory, and this run may use "
            f"{usable / 2**30:.1f} GiB",
            hint="lower `cluster.workers`, `cluster.threads_per_worker` or `solve.batch`",
        )
    return each
