"""Ingest by tasks in this process: threads read the edges of a graph that is larger than the memory.

The edges stay where the tasks wrote them, and this process makes the rows from there. So a killed ingest does not read
again what it has read.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from sssp_pipeline.base.ordered import map_in_order
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.pipeline.ingest.edges import EdgeFacts, ReadEdges
from sssp_pipeline.pipeline.ingest.ids.id_mapping import EVERYWHERE, DeclaredIds
from sssp_pipeline.pipeline.ingest.job import Job
from sssp_pipeline.pipeline.ingest.memory import Memory
from sssp_pipeline.pipeline.ingest.rows.edge_runs import EdgeRun, with_vertices_elsewhere
from sssp_pipeline.pipeline.ingest.spill import Readable, Spill, SpilledArray
from sssp_pipeline.pipeline.ingest.tasks.read_by_tasks import ByTasks
from sssp_pipeline.pipeline.ingest.tasks.stored_runs import Stored
from sssp_pipeline.pipeline.ingest.tasks.tasks import (
    EdgesRead,
    ReadTask,
    Result,
    Task,
    TaskFault,
    read_edges_of,
)
from sssp_pipeline.storage import files

#: The files that are open at a time. Many systems allow a process 1,024.
_MOST_FILES = 256


@dataclass(frozen=True)
class Threads:
    """The threads of this process as a `tasks.TaskPool`."""

    n_threads: int
    task_bytes: int

    @classmethod
    def of(cls, memory: str) -> Threads:
        """Return as many threads as there are cores, which share the `memory` of a workflow."""
        whole = Memory.of(memory, usable_cores())
        return cls(whole.threads, max(1, whole.n_bytes // whole.threads))

    def do(
        self, work: Callable[[Task], Result], tasks: Iterable[Task], on_done: Callable[[int, Result], None]
    ) -> None:
        for number, result in map_in_order(
            lambda task: (task.number, work(task)), iter(tasks), self.n_threads
        ):
            on_done(number, result)


class InThreads(ByTasks):
    """Reads edges by tasks in threads, and makes their rows as an ingest without tasks.

    A thread does one task, so all tasks have as many blocks as an ingest without tasks.
    """

    def task_function(self) -> Callable[[ReadTask], EdgesRead | TaskFault]:
        url = files.join(self.settings.folder, f"edges-{uuid.uuid4().hex[:12]}")
        edges = self.resources.enter_context(Spill(0, files.filesystem(url)[1]))

        def read(task: ReadTask) -> EdgesRead | TaskFault:
            with Spill(task.settings.memory.spill_bytes) as ids:
                return read_edges_of(task, ids, edges, partial(_stored_runs, url))

        return read

    def edges(self, job: Job, facts: EdgeFacts) -> ReadEdges:
        runs = [run for part in self.parts for run in part.runs]
        if self.codes:
            with ThreadPoolExecutor(job.threads) as pool:
                parts = pool.map(partial(self._numbered, job), range(len(self.parts)))
                runs = [run for part in parts for run in part]
            job = replace(job, ids=DeclaredIds(facts.vertex_ids.n_vertices, 0))
        opened = _OpenedFiles(self.resources, job.spill)
        return ReadEdges(job, self.given, [opened.run(run) for run in runs], facts)

    def _numbered(self, job: Job, part: int) -> list[EdgeRun]:
        """Return the runs of a part with vertices in place of codes. The part itself stays as it was recorded."""
        numbers = self.vertices(job, part) if part in self.codes else None

        def vertices(codes: np.ndarray) -> np.ndarray:
            return job.ids.vertices(codes, EVERYWHERE) if numbers is None else numbers[codes]

        def keep(ends: list[np.ndarray]) -> Iterable[Readable]:
            return map(job.spill.keep, ends)

        return [with_vertices_elsewhere(run, vertices, keep) for run in self.parts[part].runs]


def _stored_runs(url: str, runs: list[EdgeRun]) -> list[EdgeRun]:
    """Return runs that were kept on disk, in the file `url`, as runs that another process can read."""

    def stored(column: Readable) -> Stored:
        assert isinstance(column, SpilledArray), "the run is on this machine"
        return Stored(url, column.on_disk[1], len(column), column.dtype, None)

    return [replace(run, columns=tuple(map(stored, run.columns))) for run in runs if run.n_edges]


class _OpenedFiles:
    """Files of stored arrays, which compiled loops read; if they are many, their arrays are in `spill`.

    Each start of an ingest in threads has one file, but each task of workers has several.
    """

    def __init__(self, resources: ExitStack, spill: Spill) -> None:
        self._resources, self._spill = resources, spill
        self._descriptors: dict[str, int] = {}

    def run(self, run: EdgeRun) -> EdgeRun:
        """Return a run whose stored columns are opened until `resources` end; raises as `_kept`."""
        return replace(run, columns=tuple(map(self._kept, run.columns)))

    def _kept(self, column: Readable) -> Readable:
        if not isinstance(column, Stored):
            return column
        if column.url not in self._descriptors:
            if len(self._descriptors) == _MOST_FILES:
                return self._spill.keep(column.read())
            with files.reading(column.url):
                descriptor = os.open(files.filesystem(column.url)[1], os.O_RDONLY)
            self._descriptors[column.url] = descriptor
            self._resources.callback(os.close, descriptor)
        descriptor = self._descriptors[column.url]
        return SpilledArray(None, column.dtype, len(column), descriptor, column.begin, place=column.place)
