"""The workers of an ingest. They are on other machines, and solve later."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from sssp_pipeline.base.errors import SsspError
from sssp_pipeline.base.progress import Progress, plural
from sssp_pipeline.pipeline.ingest.tasks.tasks import TaskPool
from sssp_pipeline.pipeline.solving.dispatch import scatter
from sssp_pipeline.pipeline.solving.task import Attempt
from sssp_pipeline.pipeline.solving.workers.interface import Workers
from sssp_pipeline.pipeline.solving.workers.needs import IngestNeeds
from sssp_pipeline.pipeline.solving.workers.source import OneCluster

#: The least memory of a task: a part of the store takes up to 192 MiB.
_LEAST_TASK_BYTES = 256 << 20
#: The most files that a worker is asked for.
_MOST_CHECKED = 20


@dataclass(frozen=True, eq=False)
class _PoolTask(Attempt):
    work: Callable[[Any], Any]
    #: A task of an ingest.
    task: Any

    noun: ClassVar[str] = "part"
    plural: ClassVar[str] = "parts"

    @property
    def numbers(self) -> tuple[int, ...]:
        return (self.task.number,)


def _do(task: _PoolTask) -> tuple[int, Any]:
    return task.task.number, task.work(task.task)


@dataclass(frozen=True, eq=False)
class DaskPool:
    """The workers of a cluster as an `on_workers.TaskPool`."""

    workers: Workers
    task_bytes: int
    retries: int
    progress: Progress

    @property
    def n_threads(self) -> int:
        return self.workers.n_threads

    def do(
        self, work: Callable[[Any], Any], tasks: Iterable[Any], on_done: Callable[[int, Any], None]
    ) -> None:
        failed = scatter(
            self.workers,
            (_PoolTask(work, task) for task in tasks),
            self.retries,
            lambda done: on_done(*done),
            self.progress,
            work=_do,
        )
        if failed:
            number, reason = min(failed.items())
            raise SsspError(
                f"{plural(len(failed), 'task')} of the ingest failed; part {number}: {reason}",
                hint="run the same command again",
            )


@dataclass(frozen=True, eq=False)
class ClusterForIngest:
    """The workers of a cluster as `on_workers.IngestWorkers`."""

    cluster: OneCluster
    #: How many times a failed task is tried again.
    retries: int
    progress: Progress

    @contextmanager
    def pool(self, folder: str, inputs: list[tuple[str, dict[str, Any]]]) -> Iterator[TaskPool | str]:
        # The import of Dask takes as long as the ingest of a small graph.
        from sssp_pipeline.pipeline.solving.workers.dask_workers import DaskCluster

        source = self.cluster.source()
        assert isinstance(source, DaskCluster), "the workers are on other machines"
        asked = tuple(inputs[:_MOST_CHECKED])
        fault, task_bytes = source.ingest_faults(IngestNeeds(folder, asked, _LEAST_TASK_BYTES))
        if fault is not None:
            yield fault
            return
        with source.workers(IngestNeeds(folder, asked, task_bytes)) as workers:
            self.progress.say(
                f"ingest on {plural(workers.n_processes, 'worker')}, {plural(workers.n_threads, 'thread')}",
                "ingest_on_workers",
                workers=workers.n_processes,
                threads=workers.n_threads,
            )
            yield DaskPool(workers, task_bytes, self.retries, self.progress)
