"""The needs of a run: the one record that says what a worker must have, on the driver and on the workers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from sssp_pipeline.kernels import SOLVERS


@dataclass(frozen=True)
class Needs:
    """What the tasks of a run need from the workers.

    Attributes
    ----------
    store, content_id
        The graph store that every worker reads, and the graph that it must find there.
    run
        The run folder that every worker writes to.
    solver
        The solver that a worker must be able to run.
    n_batches
        Batches of the run that are still to do.
    graph_bytes
        Host memory of the graph in each process.
    batch_bytes
        Host memory of the distances of one batch.
    batches_per_task
        Batches of one task.
    gpu_bytes
        Memory that a GPU must have free, if the solver runs on one.
    expected_s
        Seconds that the plan expects for all batches.
    least_bytes
        Host memory that a process needs beside the graph, however few its threads are. A task of `verify` may need more
        than a task that solves.
    """

    store: str
    content_id: str
    run: str
    solver: str
    n_batches: int
    graph_bytes: int
    batch_bytes: int
    batches_per_task: int = 1
    gpu_bytes: int = 0
    expected_s: float = 0.0
    least_bytes: int = 0

    @property
    def on_gpu(self) -> bool:
        """Whether the solver runs on a GPU."""
        return SOLVERS[self.solver].device == "gpu"

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
        return self.batches_per_task * self.batch_memory


#: CPU seconds of Dask's client and scheduler for a task (benchmarks/results/scheduling.jsonl).
SCHEDULING_S = 2.5e-3
#: The share of a run's time that scheduling may take.
_SCHEDULING_SHARE = 0.05
#: Scheduling may always take this many seconds.
_SCHEDULING_FREE_S = 1.0
#: With several batches per task, each thread or GPU gets at least this many tasks, so that all end at about one time.
_TASKS_EACH = 4
#: The most bytes of distances in a task of several small batches: as many as a large batch has.
_SHARED_BYTES = 32 * 2**20


def with_shared_tasks(needs: Needs, n_solving: int) -> Needs:
    """Return `needs` with the number of batches per task that suits `n_solving` GPUs or threads of Dask workers.

    Dask takes some milliseconds for each task, for any number of workers. Shorter batches would wait for Dask, so they
    share a task. With few batches, each GPU gets a task before one GPU gets a full call.
    """
    wanted = ceil(
        needs.n_batches * SCHEDULING_S / max(_SCHEDULING_SHARE * needs.expected_s, _SCHEDULING_FREE_S)
    )
    fit = min(needs.n_batches // (_TASKS_EACH * n_solving), _SHARED_BYTES // max(needs.batch_bytes, 1))
    shared = min(max(needs.batches_per_task, min(wanted, fit)), -(-needs.n_batches // n_solving))
    return replace(needs, batches_per_task=shared)
