"""The needs of a run: the one record that says what a worker must have, on the driver and on the workers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from sssp_pipeline.kernels import SOLVERS


@dataclass(frozen=True)
class Needs:
    """What the tasks of a run need from the workers."""

    #: The graph store that every worker reads, and the graph that it must find there.
    store: str
    content_id: str
    #: The run folder that every worker writes to.
    run: str
    #: The solver that a worker must be able to run.
    solver: str
    #: Batches of the run that are still to do.
    n_batches: int
    #: Host memory of the graph in each process.
    graph_bytes: int
    #: Host memory of the distances of one batch.
    batch_bytes: int
    #: Batches of one task.
    batches_per_task: int = 1
    #: Batches of one task if a single GPU solves all of them.
    batches_of_one_gpu: int = 1
    #: Memory that a GPU must have free, if the solver runs on one.
    gpu_bytes: int = 0
    #: Seconds that the plan expects for all batches.
    expected_s: float = 0.0
    #: Host memory that a process needs in addition to the graph, even with one thread. A task of `verify` may need more
    #: than a task that solves.
    least_bytes: int = 0

    @property
    def on_gpu(self) -> bool:
        """Whether the solver runs on a GPU."""
        return SOLVERS.device_of(self.solver) == "gpu"

    @property
    def n_tasks(self) -> int:
        return -(-self.n_batches // self.batches_per_task)

    @property
    def batch_memory(self) -> int:
        """Host memory of a batch in bytes. The distances are there twice: from the solver, and encoded for the file."""
        return max(1, 2 * self.batch_bytes)

    @property
    def task_memory(self) -> int:
        """Host memory of one task in bytes."""
        return min(self.batches_per_task, most_under_way(self.batch_bytes)) * self.batch_memory

    def process_bytes(self, n_threads: int) -> int:
        """Return the host memory of a process with `n_threads` for the graph and its tasks."""
        return self.graph_bytes + max(n_threads * self.task_memory, self.least_bytes)


@dataclass(frozen=True, eq=False)
class IngestNeeds:
    """What the tasks of an ingest need from the workers."""

    #: The folder in which every worker reads and writes, where a file `here` is.
    folder: str
    #: URLs and fingerprints of files that every worker can read.
    inputs: tuple[tuple[str, dict[str, Any]], ...]
    #: Memory of one task.
    task_bytes: int

    def process_bytes(self, n_threads: int) -> int:
        """Return the memory of a process with `n_threads`. Ingest uses half of it, as it does on one machine."""
        return 2 * n_threads * self.task_bytes


def most_under_way(batch_bytes: int) -> int:
    """Return how many batches of a task are on the host at a time, from the solver's copy to the end of the file."""
    return max(_LEAST_UNDER_WAY, min(_MOST_UNDER_WAY, _UNDER_WAY_BYTES // max(batch_bytes, 1)))


#: Enough for the threads that write, for a copy, and for a batch that waits.
_LEAST_UNDER_WAY, _MOST_UNDER_WAY = 4, 32
#: The most bytes of distances of a task on the host, beyond the least number of batches.
_UNDER_WAY_BYTES = 3 * 2**29


#: CPU seconds of Dask's client and scheduler for a task (benchmarks/results/scheduling.jsonl).
SCHEDULING_S = 2.5e-3
#: The share of a run's time that scheduling may take.
_SCHEDULING_SHARE = 0.05
#: Scheduling may always take this many seconds.
_SCHEDULING_FREE_S = 1.0
#: With several batches per task, each thread or GPU gets at least this many tasks, so that all end at about one time.
_TASKS_EACH = 4
#: The most bytes of distances in a task of several small batches: as many as a large batch has.
_SHARED_BYTES = 2**26


def with_shared_tasks(needs: Needs, n_solving: int) -> Needs:
    """Return `needs` with the number of batches per task that suits `n_solving` GPUs or threads of Dask workers.

    Dask takes some milliseconds for each task, for any number of workers. Shorter batches would wait for Dask, so they
    share a task. With few batches, each GPU gets a task before one GPU gets a full call.
    """
    most_s = max(_SCHEDULING_SHARE * needs.expected_s, _SCHEDULING_FREE_S)
    wanted = ceil(needs.n_batches * SCHEDULING_S / most_s)
    fit = min(needs.n_batches // (_TASKS_EACH * n_solving), _SHARED_BYTES // max(needs.batch_bytes, 1))
    shared = min(max(needs.batches_per_task, min(wanted, fit)), -(-needs.n_batches // n_solving))
    return replace(needs, batches_per_task=shared)
