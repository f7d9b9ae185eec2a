"""Ingest by tasks: tasks read the edges, and this process leads them.

The input is divided by files, and large files by lines. The tasks leave what they have read in the folder of the
ingest (`stored_runs.py`). What is done here is done once for the whole graph: ids are numbered. So the graph store is
the same as without tasks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

import numpy as np

from sssp_pipeline.base.progress import Progress
from sssp_pipeline.base.vertex_ids import VertexIds
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.pipeline.formats.edge_list import Coordinates, EdgeList
from sssp_pipeline.pipeline.ingest.edges import ReadEdges
from sssp_pipeline.pipeline.ingest.ids.id_mapping import IntegerIds, collector
from sssp_pipeline.pipeline.ingest.input import SAMPLE_EDGES, open_input, open_positions
from sssp_pipeline.pipeline.ingest.job import Given, Job
from sssp_pipeline.pipeline.ingest.memory import Memory
from sssp_pipeline.pipeline.ingest.reading import (
    check_all_have_weights,
    check_vertex_count,
    coordinates_of,
    read_runs,
)
from sssp_pipeline.pipeline.ingest.spill import Kept, Spill
from sssp_pipeline.pipeline.ingest.tasks.notes import NotedTasks, Notes, Plan, digest_of
from sssp_pipeline.pipeline.ingest.tasks.stored_runs import StoredBits, StoredIds
from sssp_pipeline.pipeline.ingest.tasks.tasks import (
    FEWEST_EDGES,
    EdgesRead,
    Fault,
    ReadTask,
    Settings,
    TaskPool,
    job_of,
    joined,
)
from sssp_pipeline.pipeline.ingest.weight_types import WeightRange, WeightType

#: Tasks for each thread. With several, all threads end at about the same time.
TASKS_EACH = 4
#: The bytes of input of a task, compressed or not.
_MOST_TASK_BYTES, _FEWEST_TASK_BYTES = 256 << 20, 4 << 20


@dataclass(frozen=True, eq=False)
class Found:
    """What is known when tasks have read all edges."""

    job: Job
    given: Given
    settings: Settings
    tasks: NotedTasks
    #: What became of the tasks, in the order of the input.
    parts: list[EdgesRead]
    #: The codes of all ids of a part, by its number, and the chunk of the collector of `job` in which they are valid.
    #: It lacks the parts whose ids are their own codes.
    codes: dict[int, list[tuple[Kept, int]]]
    vertex_ids: VertexIds
    #: The arguments of `ReadEdges` that follow the runs.
    facts: tuple[WeightRange, int, list[tuple], VertexIds, WeightType, Coordinates | None]

    def vertices(self, part: int) -> np.ndarray:
        """Return the vertex (n,) uint32 of each code of a part that has `codes`."""
        ids = self.job.ids
        return np.concatenate([ids.vertices(kept.read(), chunk) for kept, chunk in self.codes[part]])


@dataclass(frozen=True, eq=False)
class ByTasks(ABC):
    """Reads edges by the tasks of `pool`, which are noted in `folder`."""

    pool: TaskPool
    folder: str
    notes: Notes

    @contextmanager
    def read(self, given: Given, progress: Progress, *, with_positions: bool = True) -> Iterator[ReadEdges]:
        """Read the edges as `reading.read_edges`; raises as it does."""
        spec, task_bytes = given.spec, self.pool.task_bytes
        memory = Memory.of(spec.memory, usable_cores())
        if spec.memory != "auto":
            task_bytes = min(task_bytes, memory.n_bytes)
        settings = Settings(self.folder, spec, task_bytes, min(memory.n_bytes, task_bytes))
        row_edges = min(settings.most_edges, max(FEWEST_EDGES, memory.n_bytes // 64))
        plan = Plan.new(self.pool.n_threads, settings.id_bytes, row_edges)
        plan = self.notes.plan(plan, digest_of([given]))
        settings = replace(settings, id_bytes=plan.id_bytes)
        tasks = NotedTasks(self.pool, self.notes, plan, progress)
        edge_list = open_input(spec, given.urls, self.block_bytes(memory, settings), spec.max_line_bytes)
        if edge_list.n_vertices is not None:
            check_vertex_count(edge_list.n_vertices)
        with ExitStack() as resources:
            spill = resources.enter_context(Spill(memory.spill_bytes))
            ids = collector(
                edge_list.reading.ids, edge_list.n_vertices, edge_list.first_id, spill, settings.id_bytes
            )
            job = Job(spec, edge_list, ids, spill, memory, progress)
            positions = open_positions(spec, edge_list) if with_positions else None
            progress.stage("read edges")
            read = _Reading(job, given, settings, tasks, self.read_work(resources))
            read.read()
            check_all_have_weights(read.seen)
            weight_type = read.seen.type_of(spec.weights, edge_list.weight_dtype, job.input_name, given.wider)
            progress.stage("build rows")
            codes = _collected(job, read.parts)
            vertex_ids = ids.finish()
            check_vertex_count(vertex_ids.n_vertices)
            coordinates = coordinates_of(job, positions, vertex_ids) if with_positions else None
            facts = read.seen, read.n_loops, read.sample, vertex_ids, weight_type, coordinates
            yield self.edges(
                Found(job, given, settings, tasks, read.parts, codes, vertex_ids, facts), resources
            )

    @abstractmethod
    def block_bytes(self, memory: Memory, settings: Settings) -> int:
        """Return the bytes of the input that a task reads at a time; `memory` is that of this process."""

    @abstractmethod
    def read_work(self, resources: ExitStack) -> Callable[[ReadTask], EdgesRead | Fault]:
        """Return the function that does a task; `resources` end when all edges were written to the store."""

    @abstractmethod
    def edges(self, found: Found, resources: ExitStack) -> ReadEdges:
        """Return the edges, which can make their rows."""


def _collected(job: Job, parts: list[EdgesRead]) -> dict[int, list[tuple[Kept, int]]]:
    """Give the collector of `job` all ids, and return the `codes` of `Found`."""
    codes: dict[int, list[tuple[Kept, int]]] = {}
    for number, part in enumerate(parts):
        if isinstance(part.ids, StoredBits):
            assert isinstance(job.ids, IntegerIds)
            job.ids.mark(part.ids.read())
        elif isinstance(part.ids, StoredIds):
            codes[number] = []
            for block in part.ids.blocks():
                found, _, chunk = job.ids.add(block, block[:0])
                codes[number].append((job.spill.keep(found), chunk))
    return codes


class _Reading:
    """What the tasks that read edges have found, in the order of the input."""

    def __init__(
        self,
        job: Job,
        given: Given,
        settings: Settings,
        tasks: NotedTasks,
        work: Callable[[ReadTask], EdgesRead | Fault],
    ) -> None:
        self._work = work
        self._job, self._settings, self._tasks = job, settings, tasks
        self._groups = _grouped(given, job.edge_list.pieces, tasks.plan.n_threads)
        self.parts: list[EdgesRead] = []
        self.seen, self.n_loops = WeightRange(), 0
        self.sample: list[tuple] = []

    def read(self) -> None:
        """Read all edges; raises as `reading.read_runs`."""
        n_edges = 0

        def task(number: int) -> ReadTask:
            return ReadTask(self._settings, number, self._groups[number].pieces)

        def advance(done: EdgesRead) -> None:
            nonlocal n_edges
            n_edges += done.seen.n_edges
            self._job.progress.advance(n_edges, None, "edges")

        keys = [(number, len(self._groups)) for number in range(len(self._groups))]
        self.parts, fault = self._tasks.results("parts were read", self._work, keys, task, advance)
        for part in self.parts:
            self.sample += part.sample[: SAMPLE_EDGES - len(self.sample)]
            self.seen.merge(part.seen)
            self.seen.n_edges += part.seen.n_edges
            self.seen.n_weighted += part.seen.n_weighted
            self.n_loops += part.n_loops
            self._job.edge_list.skipped.add(part.skipped.count, part.skipped.lines)
        if fault is not None:
            self._read_again(self._groups[len(self.parts)])
            raise fault.error  # only that worker could not read it
        if not self.seen.n_edges:
            for _ in self._job.edge_list.chunks():
                raise AssertionError("an edge appeared")

    def _read_again(self, group: _Group) -> None:
        """Raise the error of a group that has a fault: here, the number of the edges and lines before it is known."""
        pieces, before = group.pieces, self.seen.n_edges
        if group.is_part:
            pieces = (self._job.edge_list.pieces[group.file],)
            read = zip(self._groups, self.parts, strict=False)
            before = sum(part.seen.n_edges for other, part in read if other.file < group.file)
        with Spill(self._job.memory.spill_bytes) as spill:
            read_runs(job_of(self._settings, joined(pieces), spill), before)


@dataclass(frozen=True, eq=False)
class _Group:
    """The pieces of a task."""

    pieces: tuple[EdgeList, ...]
    #: The file of the first of them.
    file: int
    #: Whether it is a part of this file.
    is_part: bool = False


def _grouped(given: Given, pieces: tuple[EdgeList, ...], n_threads: int) -> list[_Group]:
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
        whole = replace(piece, divide=EdgeList.divide)
        if size > room:
            groups.append(_Group((whole,), number))
            room = wanted - size
        else:
            groups[-1] = replace(groups[-1], pieces=(*groups[-1].pieces, whole))
            room -= size
    return groups
