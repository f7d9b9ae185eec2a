"""Workers on this machine: threads of this process, or Dask workers that are started for the run.

Threads of this process solve a run that has the machine to itself and asks for nothing else. Then no process starts, no
scheduler stands between two batches, and memory holds the graph once. `docs/design/0003-who-solves.md` has the
measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from sssp_pipeline.errors import InputError
from sssp_pipeline.kernels.gpu.common.cupy_setup import gpu_count
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.pipeline.machine import free_memory_bytes, memory_bytes, this_machine
from sssp_pipeline.pipeline.solving.workers.interface import Workers, in_flight
from sssp_pipeline.pipeline.solving.workers.needs import Needs, with_shared_tasks
from sssp_pipeline.progress import plural
from sssp_pipeline.workflow.cluster import Cluster

#: `auto` takes all GPUs of this machine if that is expected to save this many seconds. A Dask cluster takes some
#: seconds to start, and each worker takes its own to load graph and kernels.
_SAVED_S = 15.0


@dataclass(frozen=True, eq=False)
class Threads:
    """Threads of this process, as `Workers`."""

    executor: Executor
    n_threads: int
    in_flight: int
    n_processes: int = 0
    n_left_out: int = 0
    scheduler: str | None = None
    dashboard: str | None = None

    def submit(self, function: Callable[[Any], Any], task: Any) -> Future:
        return self.executor.submit(function, task)

    def deaths(self, error: BaseException) -> int:
        return 0

    def watch(self) -> list[str]:
        return []


def check_gpus(spec: Cluster) -> None:
    """Raise `InputError` if this machine has fewer GPUs than `spec`, of kind `local-cuda`, asks for."""
    ThisMachine(spec)


class ThisMachine:
    """The machine of this process, as a `WorkerSource`."""

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

    def fitted(self, needs: Needs) -> Needs:
        spec = self._spec
        if not _is_this_process(spec):
            processes, threads = _size(spec, needs)
            needs = with_shared_tasks(needs, processes if needs.on_gpu else processes * threads)
        if needs.batches_per_task == 1:
            return needs
        processes, threads = (1, _threads(spec, needs, 1)) if _is_this_process(spec) else _size(spec, needs)
        fit = (_room(spec, processes) - needs.graph_bytes) // (threads * needs.batch_memory)
        return replace(needs, batches_per_task=max(1, min(needs.batches_per_task, fit)))

    @contextmanager
    def workers(self, needs: Needs) -> Iterator[Workers]:
        spec = _on_all_gpus(self._spec, needs)
        if _is_this_process(spec):
            threads = _threads(spec, needs, processes=1)
            _checked_memory(1, threads, needs)
            executor = ThreadPoolExecutor(threads, thread_name_prefix="solve")
            try:
                yield Threads(executor, threads, in_flight(spec, threads))
            finally:
                executor.shutdown(cancel_futures=True)
            return
        from sssp_pipeline.pipeline.solving.workers import cluster
        from sssp_pipeline.pipeline.solving.workers.dask_workers import DaskWorkers

        processes, threads = _size(spec, needs)
        needed = _checked_memory(processes, threads, needs)
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


def _on_all_gpus(spec: Cluster, needs: Needs) -> Cluster:
    """Return `spec` with kind `local-cuda` in place of `auto` where several GPUs have enough to do."""
    if spec.kind != "auto" or not needs.on_gpu or not _is_this_process(spec):
        return spec
    n_gpus = gpu_count()
    if needs.expected_s * (1 - 1 / max(n_gpus, 1)) < _SAVED_S:
        return spec
    from sssp_pipeline.pipeline.solving.workers import cluster

    return spec.model_copy(update={"kind": "local-cuda"}) if cluster.has_dask_cuda() else spec


def _is_this_process(spec: Cluster) -> bool:
    """Return whether threads of this process solve, and no workers."""
    return spec.kind != "local-cuda" and spec.workers == "auto" and spec.memory_limit == "auto"


def _size(spec: Cluster, needs: Needs) -> tuple[int, int]:
    """Return how many processes to start here and with how many threads each."""
    if spec.kind == "local-cuda":
        processes = _workers_on_gpus(spec)
        return processes, _threads(spec, needs, processes)
    if isinstance(spec.workers, int):
        return spec.workers, _threads(spec, needs, spec.workers)
    if spec.threads_per_worker == "auto":
        return 1, _threads(spec, needs, processes=1)
    return max(1, _most_threads(needs, 1) // spec.threads_per_worker), spec.threads_per_worker


def _most_threads(needs: Needs, processes: int) -> int:
    """Return how many threads have something to do in each of the processes here.

    Solvers run without the GIL, and so do encoding and writing. On a GPU one thread at a time solves, which takes
    hardly any core, while the others encode and write: so one more than there are cores. A task of several batches
    writes them on threads of its own: so one that solves, one that writes, and one that waits for the GPU.
    """
    wanted = usable_cores() // processes + needs.on_gpu if needs.batches_per_task == 1 else 3
    return max(1, min(wanted, -(-needs.n_tasks // processes)))


def _threads(spec: Cluster, needs: Needs, processes: int) -> int:
    """Return the threads of each process: those asked for, or as many as have work and fit the memory."""
    if spec.threads_per_worker != "auto":
        return spec.threads_per_worker
    fit = (_room(spec, processes) - needs.graph_bytes) // needs.task_memory
    return max(1, min(_most_threads(needs, processes), fit))


def _room(spec: Cluster, processes: int) -> int:
    """Return the bytes that each of the processes here has for its graph and batches."""
    free = free_memory_bytes() // processes
    if _is_this_process(spec):
        return free
    from sssp_pipeline.pipeline.solving.workers.memory import limit_here, usable_bytes, usable_share

    return min(free, usable_bytes(limit_here(spec.memory_limit, processes), usable_share()))


def _checked_memory(processes: int, threads: int, needs: Needs) -> int:
    """Return the bytes each process needs; raise `InputError` if this run may not use enough for all."""
    each = needs.graph_bytes + max(threads * needs.task_memory, needs.least_bytes)
    usable = memory_bytes()
    if processes * each > usable:
        who = f"{plural(processes, 'worker')} of {plural(threads, 'thread')}"
        raise InputError(
            f"{who} would take {processes * each / 2**30:.1f} GiB of memory, and this run may use "
            f"{usable / 2**30:.1f} GiB",
            hint="lower `cluster.workers`, `cluster.threads_per_worker` or `solve.batch`",
        )
    return each
