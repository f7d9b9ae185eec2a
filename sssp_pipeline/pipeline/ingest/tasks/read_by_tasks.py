"""Ingest by tasks: tasks read the edges, and this process leads them.

The input is divided by files, and large files by lines. The tasks leave what they have read in the folder of the
ingest (`stored_runs.py`). What is done here is done once for the whole graph: ids are numbered. So the graph store is
the same as without tasks.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np

from sssp_pipeline.base.progress import Progress
from sssp_pipeline.pipeline.formats.edge_list import InputEdges
from sssp_pipeline.pipeline.ingest.edges import EdgesSeen
from sssp_pipeline.pipeline.ingest.ids.id_mapping import IntegerIds
from sssp_pipeline.pipeline.ingest.job import Given, Job
from sssp_pipeline.pipeline.ingest.memory import Memory
from sssp_pipeline.pipeline.ingest.reading import Work, read_runs
from sssp_pipeline.pipeline.ingest.spill import Spill, SpilledArray
from sssp_pipeline.pipeline.ingest.tasks.stored_runs import StoredBits, StoredIds
from sssp_pipeline.pipeline.ingest.tasks.task_notes import Notes, Plan, TasksWithNotes, digest_of
from sssp_pipeline.pipeline.ingest.tasks.tasks import (
    FEWEST_EDGES,
    EdgesRead,
    ReadTask,
    Settings,
    TaskFault,
    TaskPool,
    job_of,
    joined,
)

#: Tasks for each thread. With several, all threads end at about the same time.
TASKS_EACH = 4
#: The bytes of input of a task, compressed or not.
_MOST_TASK_BYTES, _FEWEST_TASK_BYTES = 256 << 20, 4 << 20


class ByTasks(Work):
    """Reads edges by the tasks of `pool`, whose results are recorded in `folder`."""

    def __init__(
        self,
        pool: TaskPool,
        folder: str,
        notes: Notes,
        given: Given,
        memory: Memory,
        progress: Progress,
        resources: ExitStack,
    ) -> None:
        super().__init__(given, memory, progress, resources)
        spec, task_bytes = given.spec, pool.task_bytes
        if spec.memory != "auto":
            task_bytes = min(task_bytes, memory.n_bytes)
        settings = Settings(folder, spec, task_bytes, min(memory.n_bytes, task_bytes))
        row_edges = min(settings.most_edges, max(FEWEST_EDGES, memory.n_bytes // 64))
        plan = Plan.new(pool.n_threads, settings.id_bytes, row_edges)
        plan = notes.plan(plan, digest_of([given]))
        self.id_bytes = plan.id_bytes
        self.settings = replace(settings, id_bytes=plan.id_bytes)
        self.tasks = TasksWithNotes(pool, notes, plan, progress)
        #: What became of the tasks, in the order of the input.
        self.parts: list[EdgesRead] = []
        #: The codes of all ids of a part, by its number, and the chunk of the collector in which they are valid. A part
        #: whose ids are their own codes has no entry.
        self.codes: dict[int, list[tuple[SpilledArray, int]]] = {}

    @abstractmethod
    def task_function(self) -> Callable[[ReadTask], EdgesRead | TaskFault]:
        """Return the function that does a task."""

    def read(self, job: Job) -> EdgesSeen:
        groups = _grouped(self.given, job.edge_list.pieces, self.tasks.plan.n_threads)
        found, n_edges = EdgesSeen(), 0

        def task(number: int) -> ReadTask:
            return ReadTask(self.settings, number, groups[number].pieces)

        def advance(done: EdgesRead) -> None:
            nonlocal n_edges
            n_edges += done.seen.n_edges
            job.progress.advance(n_edges, None, "edges")

        keys = [(number, len(groups)) for number in range(len(groups))]
        work = self.task_function()
        self.parts, fault = self.tasks.results("parts were read", work, keys, task, advance)
        for part in self.parts:
            found.add(EdgesSeen(part.seen, part.n_loops, part.sample))
            job.edge_list.skipped.add(part.skipped.count, part.skipped.lines)
        if fault is not None:
            self._read_again(job, groups)
            raise fault.error  # only that worker could not read it
        if not found.seen.n_edges:
            for _ in job.edge_list.chunks():
                raise AssertionError("an edge appeared")
        return found

    def _read_again(self, job: Job, groups: list[_Group]) -> None:
        """Raise the error of the first group with a fault: here, the edges and lines before the group are counted."""
        group = groups[len(self.parts)]
        pieces, before = group.pieces, self.parts
        if group.is_part:
            pieces = (job.edge_list.pieces[group.file],)
            before = [part for other, part in zip(groups, before, strict=False) if other.file < group.file]
        with Spill(job.memory.spill_bytes) as spill:
            read_runs(job_of(self.settings, joined(pieces), spill), sum(part.seen.n_edges for part in before))

    def collect_ids(self, job: Job) -> None:
        for number, part in enumerate(self.parts):
            if isinstance(part.ids, StoredBits):
                assert isinstance(job.ids, IntegerIds)
                job.ids.mark(part.ids.read())
            elif isinstance(part.ids, StoredIds):
                self.codes[number] = []
                for block in part.ids.blocks():
                    found, _, chunk = job.ids.add(block, block[:0])
                    self.codes[number].append((job.spill.keep(found), chunk))

    def vertices(self, job: Job, part: int) -> np.ndarray:
        """Return the vertex (n,) uint32 of each code of a part that has `codes`."""
        return np.concatenate([job.ids.vertices(kept.read(), chunk) for kept, chunk in self.codes[part]])


@dataclass(frozen=True, eq=False)
class _Group:
    """The pieces of a task."""

    pieces: tuple[InputEdges, ...]
    #: The file of the first of them.
    file: int
    #: Whether it is a part of this file.
    is_part: bool = False


def _grouped(given: Given, pieces: tuple[InputEdges, ...], n_threads: int) -> list[_Group]:
    """Return the pieces of each task, of about as many bytes: consecutive files, or a part of a large file."""
    sizes = [file.get("size") or 0 for file, _ in zip(given.inputs, given.urls, strict=False)]
    wanted = sum(sizes) // (TASKS_EACH * n_threads)
    wanted = min(_MOST_TASK_BYTES, max(_FEWEST_TASK_BYTES, wanted))
    groups: list[_Group] = []
    room = 0
    for number, (piece, size) in enumerate(zip(pieces, sizes, strict=True)):
        parts = piece.divide(range(wanted, size - wanted // 2, wanted)) if size > 3 * wanted // 2 else ()
        if parts:
            groups += [_Group((part,), number, True) for part in parts]
            room = 0
            continue
        whole = replace(piece, divide=InputEdges.divide)
        if size > room:
            groups.append(_Group((whole,), number))
            room = wanted - size
        else:
            groups[-1] = replace(groups[-1], pieces=(*groups[-1].pieces, whole))
            room -= size
    return groups
