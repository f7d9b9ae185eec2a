"""Workers on this machine: threads of this process, or Dask workers that are started for the run.

Threads of this process solve if the workflow sets no number of workers and no memory limit. Then no process starts, no
scheduler delays a batch, and memory holds the graph once. `docs/design/0003-who-solves.md` has the measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent import futures
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sssp_pipeline.base import interrupts
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.host_memory import free_memory_bytes, memory_bytes
from sssp_pipeline.base.progress import plural
from sssp_pipeline.kernels.gpu.common.cuda.cupy_setup import gpu_count
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.pipeline.planning.machine import this_machine
from sssp_pipeline.pipeline.solving.workers.interface import Workers, in_flight
from sssp_pipeline.pipeline.solving.workers.needs import Needs, most_under_way, with_shared_tasks
from sssp_pipeline.workflow.cluster import Cluster

if TYPE_CHECKING:
    from distributed import Client

#: `auto` takes all GPUs of this machine if that is expected to save this many seconds. A Dask cluster takes some
#: seconds to start, and so does each worker to load graph and kernels.
_MIN_SAVED_S = 15.0
#: Seconds between two looks for an interrupt, while the last tasks end.
_LOOK_S = 0.2


@dataclass(frozen=True, eq=False)
class WorkerThreads(Workers):
    """Threads of this process, as `Workers`."""

    executor: Executor
    # The defaults take the place of abstract properties.
    n_threads: int = 1
    in_flight: int = 1
    _unfinished: set[Future] = field(default_factory=set)

    def submit(self, function: Callable[[Any], Any], task: Any) -> Future:
        future = self.executor.submit(function, task)
        self._unfinished.add(future)
        future.add_done_callback(self._unfinished.discard)
        return future

    def close(self) -> None:
        """Wait for the tasks under way; raise `KeyboardInterrupt` if one was raised before and dropped."""
        self.executor.shutdown(wait=False, cancel_futures=True)
        while futures.wait(self._unfinished.copy(), _LOOK_S).not_done:
            interrupts.check()
        self.executor.shutdown()


class ThisMachine:
    """The machine of this process, as a `WorkerSource`.

    Worker processes serve later calls of `workers` too, if these need equally many.

    Parameters
    ----------
    spec
        The cluster of the workflow.

    Raises
    ------
    InputError
        This machine has too few GPUs for kind `local-cuda`.
    """

    def __init__(self, spec: Cluster) -> None:
        self._spec, self._processes = spec, ExitStack()
        #: The worker processes: their kind, their number, the threads of each, and their client.
        self._running: tuple[str, int, int, Client] | None = None
        self.machine = this_machine()
        if spec.kind == "local-cuda":
            if self.machine.gpu_free_bytes is None:
                raise InputError(
                    f"kind `local-cuda` needs a GPU: {self.machine.no_gpu}",
                    hint="run `sssp-pipeline doctor`, or set `cluster.kind: local-cpu`",
                )
            self.machine = replace(self.machine, n_gpus=_workers_on_gpus(spec))

    def fitted(self, needs: Needs) -> Needs:
        spec = self._spec
        if _is_this_process(spec):
            if needs.on_gpu:
                most = max(needs.batches_per_task, needs.batches_of_one_gpu)
                needs = replace(needs, batches_per_task=most)
        else:
            processes, threads = _processes_and_threads(spec, needs)
            needs = with_shared_tasks(needs, processes if needs.on_gpu else processes * threads)
        if needs.batches_per_task == 1:
            return needs
        processes, threads = _processes_and_threads(spec, needs)
        fit = (_room(spec, processes) - needs.graph_bytes) // (threads * needs.batch_memory)
        if fit >= most_under_way(needs.batch_bytes):  # the rest of a task stays on the GPU
            return needs
        return replace(needs, batches_per_task=max(1, min(needs.batches_per_task, fit)))

    @contextmanager
    def workers(self, needs: Needs) -> Iterator[Workers]:
        spec = _on_all_gpus(self._spec, needs)
        processes, threads = _processes_and_threads(spec, needs)
        needed = _checked_memory(processes, threads, needs)
        if _is_this_process(spec):
            executor = ThreadPoolExecutor(threads, thread_name_prefix="solve")
            with closing(WorkerThreads(executor, threads, in_flight(spec, threads))) as of_this_process:
                yield of_this_process
            return
        from sssp_pipeline.pipeline.solving.workers.dask_workers import DaskWorkers

        yield DaskWorkers(self._client(spec, processes, threads, needed), spec)

    def _client(self, spec: Cluster, processes: int, threads: int, needed: int) -> Client:
        """Return the client of the running worker processes, or of others if those do not fit."""
        from sssp_pipeline.pipeline.solving.workers.local_cluster import started_here, worker_limit

        wanted = spec.kind, processes, threads
        if self._running is None or self._running[:3] != wanted:
            self.close()
            client = self._processes.enter_context(started_here(spec, processes, threads, needed))
            self._running = (*wanted, client)
        else:
            worker_limit(spec, processes, threads, needed)
        return self._running[3]

    def close(self) -> None:
        """End the worker processes."""
        self._running = None
        self._processes.close()


def has_one_gpu(spec: Cluster) -> bool:
    """Return whether threads of this process solve on the only GPU of this machine, if a solver for GPUs is taken."""
    return _is_this_process(spec) and gpu_count() == 1


def _workers_on_gpus(spec: Cluster) -> int:
    """Return the number of workers of `spec`, each with its own GPU; raise `InputError` if there are fewer GPUs."""
    n_gpus = gpu_count()
    if isinstance(spec.workers, int) and spec.workers > n_gpus:
        raise InputError(
            f"`cluster.workers` is {spec.workers}, and there {'is' if n_gpus == 1 else 'are'} {plural(n_gpus, 'GPU')}",
            hint="leave `workers` at `auto`, or lower it to the number of GPUs",
        )
    return spec.workers if isinstance(spec.workers, int) else n_gpus


def _on_all_gpus(spec: Cluster, needs: Needs) -> Cluster:
    """Return `spec` with kind `local-cuda` in place of `auto` if several GPUs save enough time."""
    if spec.kind != "auto" or not needs.on_gpu or not _is_this_process(spec):
        return spec
    n_gpus = gpu_count()
    if needs.expected_s * (1 - 1 / max(n_gpus, 1)) < _MIN_SAVED_S:
        return spec
    from sssp_pipeline.pipeline.solving.workers.local_cluster import has_dask_cuda

    return spec.model_copy(update={"kind": "local-cuda"}) if has_dask_cuda() else spec


def _is_this_process(spec: Cluster) -> bool:
    """Return whether threads of this process solve, without Dask."""
    return spec.kind != "local-cuda" and spec.workers == "auto" and spec.memory_limit == "auto"


def _processes_and_threads(spec: Cluster, needs: Needs) -> tuple[int, int]:
    """Return how many processes solve here, and the number of threads of each.

    If `spec` sets no number of threads, it is as many as can be busy and fit the memory.
    """
    processes = 1
    if spec.kind == "local-cuda":
        processes = _workers_on_gpus(spec)
    elif isinstance(spec.workers, int):
        processes = spec.workers
    elif spec.threads_per_worker != "auto" and not _is_this_process(spec):
        processes = max(1, _most_threads(needs, 1) // spec.threads_per_worker)
    if spec.threads_per_worker != "auto":
        return processes, spec.threads_per_worker
    fit = (_room(spec, processes) - needs.graph_bytes) // needs.task_memory
    return processes, max(1, min(_most_threads(needs, processes), fit))


def _most_threads(needs: Needs, processes: int) -> int:
    """Return how many threads can be busy in each of the processes here.

    Solvers, encoding and writing run without the GIL. On a GPU one thread at a time solves and uses hardly any core,
    so there is one thread more than there are cores. A task of several batches starts its own threads to write. Then
    five threads are enough for a GPU: three use it (`batch_solver.py`), and two wait for their last files.
    """
    wanted = usable_cores() // processes + needs.on_gpu
    if needs.on_gpu and needs.batches_per_task > 1:
        wanted = 5
    return max(1, min(wanted, -(-needs.n_tasks // processes)))


def _room(spec: Cluster, processes: int) -> int:
    """Return the bytes that each of the processes here can use for its graph and batches."""
    free = free_memory_bytes() // processes
    if _is_this_process(spec):
        return free
    from sssp_pipeline.pipeline.solving.workers.memory import limit_here

    return min(free, limit_here(spec.memory_limit, processes).usable_bytes)


def _checked_memory(processes: int, threads: int, needs: Needs) -> int:
    """Return the bytes that each process needs; raise `InputError` if all need more than this run may use."""
    needed = needs.process_bytes(threads)
    usable = memory_bytes()
    if processes * needed > usable:
        workers = f"{plural(processes, 'worker')} of {plural(threads, 'thread')}"
        raise InputError(
            f"{workers} would take {processes * needed / 2**30:.1f} GiB of memory, and this run may use "
            f"{usable / 2**30:.1f} GiB",
            hint="lower `cluster.workers`, `cluster.threads_per_worker`, or `solve.batch` or `output.columns_per_file`",
        )
    return needed
