"""The tasks of an ingest on workers. Each reads from storage and writes to storage, and returns a few numbers.

A task may be done several times, and by several workers at once: its files have new names each time, and only those
that it returns are read. A task does not decide what is wrong with the input: it returns that something is, and the
process that leads the ingest reads the same edges again, to say it in the words of an ingest without workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol, TypeVar

import numpy as np

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.pipeline.formats.edge_list import EdgeChunk, InputEdges, SkippedRows
from sssp_pipeline.pipeline.ingest.damage import DamagedFileError
from sssp_pipeline.pipeline.ingest.edges import EdgeFacts, Range, ReadEdges, Rows, joined_rows
from sssp_pipeline.pipeline.ingest.ids.id_mapping import (
    DeclaredIds,
    IntegerIds,
    MarkedIds,
    Numbering,
    collector,
)
from sssp_pipeline.pipeline.ingest.job import Given, Job
from sssp_pipeline.pipeline.ingest.memory import Memory
from sssp_pipeline.pipeline.ingest.reading import read_runs
from sssp_pipeline.pipeline.ingest.rows.edge_runs import EdgeRun, with_vertices
from sssp_pipeline.pipeline.ingest.spill import Spill
from sssp_pipeline.pipeline.ingest.tasks.stored_runs import (
    Stored,
    StoredBits,
    StoredIds,
    fetched,
    numbered,
    store_arrays,
    store_bits,
    store_ids,
    store_runs,
)
from sssp_pipeline.pipeline.ingest.weight_types import WeightRange
from sssp_pipeline.storage import files
from sssp_pipeline.storage.retries import mark_reachable
from sssp_pipeline.workflow.graph import Graph

#: What an edge takes in a task that joins runs or makes rows: twice in memory, with its row or with new groups.
_EDGE_BYTES = 64
#: The fewest edges that are worth a file, whatever the memory.
FEWEST_EDGES = 1 << 10


@dataclass(frozen=True, eq=False)
class Settings:
    """What all tasks of an ingest know."""

    #: The folder of their files.
    folder: str
    spec: Graph
    #: The memory of a task, and that by which the collectors of all tasks choose the ids that are their own codes.
    task_bytes: int
    id_bytes: int

    @property
    def memory(self) -> Memory:
        return Memory(self.task_bytes, 1)

    @property
    def most_edges(self) -> int:
        """The edges of a run, and of the rows of a task."""
        return max(FEWEST_EDGES, self.task_bytes // (2 * _EDGE_BYTES))


Task = TypeVar("Task", bound="Numbered")
Result = TypeVar("Result")


class Numbered(Protocol):
    """A task."""

    @property
    def number(self) -> int:
        """Its place among the tasks of a step."""
        ...


class TaskPool(Protocol):
    """Workers that do the tasks of an ingest."""

    @property
    def n_threads(self) -> int:
        """How many tasks are done at a time."""
        ...

    @property
    def task_bytes(self) -> int:
        """The memory that a task may take."""
        ...

    def do(
        self, work: Callable[[Task], Result], tasks: Iterable[Task], on_done: Callable[[int, Result], None]
    ) -> None:
        """Have the workers do all tasks; `on_done` gets the number of each and its result.

        Tasks are begun in order. A task whose worker died is done again.

        Raises
        ------
        InputError
            A task cannot use the storage.
        SsspError
            A task fails on every attempt, or no worker is left.
        """
        ...


@dataclass(frozen=True, eq=False)
class TaskFault:
    """Something is wrong with the input, or with a file of an earlier task; another attempt would find the same."""

    error: InputError | DamagedFileError


# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ReadTask:
    """Read some edges, and keep them as runs."""

    settings: Settings
    number: int
    pieces: tuple[InputEdges, ...]


@dataclass(frozen=True, eq=False)
class EdgesRead:
    """What became of a `ReadTask`."""

    #: Their codes are vertices of `ids`, or valid everywhere.
    runs: list[EdgeRun]
    #: Ids of the edges: a bitmap, or sorted ids. None if the format declares its ids.
    ids: StoredBits | StoredIds | None
    seen: WeightRange
    n_loops: int
    sample: list[tuple]
    skipped: SkippedRows


def read_edges_task(task: ReadTask) -> EdgesRead | TaskFault:
    """Read the edges of a task and keep them in storage.

    Raises
    ------
    InputError
        The storage or the temporary folder cannot be used.
    """
    settings = task.settings
    mark_reachable(files.redacted(settings.folder))
    with Spill(settings.memory.spill_bytes) as spill:
        return read_edges_of(
            task, spill, spill, lambda runs: store_runs(settings.folder, "edges", runs, settings.most_edges)
        )


def read_edges_of(
    task: ReadTask, ids_spill: Spill, edges_spill: Spill, keep: Callable[[list[EdgeRun]], list[EdgeRun]]
) -> EdgesRead | TaskFault:
    """Read the edges of a task, and `keep` their runs for later; raises as `read_edges_task`."""
    folder, edge_list = task.settings.folder, joined(task.pieces)
    job = replace(job_of(task.settings, edge_list, ids_spill), spill=edges_spill)
    try:
        runs, found = read_runs(job)
    except InputError as error:
        return TaskFault(error)
    ids: StoredBits | StoredIds | None = None
    if isinstance(job.ids, IntegerIds) and not job.ids.has_chunks:
        ids = store_bits(folder, job.ids.marked)
    elif not isinstance(job.ids, DeclaredIds):
        ids = store_ids(folder, "ids", job.ids.finish().column())
        runs = [with_vertices(run, job.ids) for run in runs]
    return EdgesRead(keep(runs), ids, found.seen, found.n_loops, found.sample, edge_list.skipped)


def joined(pieces: Sequence[InputEdges]) -> InputEdges:
    """Return an edge list of the edges of all `pieces`, one after the other, which is read only once."""
    skipped = SkippedRows()

    def read(n_threads: int) -> Iterator[EdgeChunk]:
        for piece in pieces:
            yield from piece.chunks(n_threads)
            skipped.add_all(piece.skipped)

    def read_and_work(work: Callable[[EdgeChunk], Any], n_threads: int) -> Iterator[Any]:
        for piece in pieces:
            yield from piece.map_chunks(work, n_threads)
            skipped.add_all(piece.skipped)

    return replace(pieces[0], read=read, read_and_work=read_and_work, skipped=skipped)


def job_of(settings: Settings, edge_list: InputEdges, spill: Spill) -> Job:
    """Return the job of a task."""
    given = edge_list.reading.ids, edge_list.n_vertices, edge_list.first_id
    ids = collector(*given, spill, settings.id_bytes, one_thread=settings.memory.threads == 1)
    return Job(settings.spec, edge_list, ids, spill, settings.memory, Quiet())


# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class NumberTask:
    """Replace the codes of runs by vertices."""

    settings: Settings
    number: int
    runs: list[EdgeRun]
    #: The vertex (n,) uint32 of each code.
    vertices: Stored


def number_task(task: NumberTask) -> list[EdgeRun] | TaskFault:
    """Return the runs of a task after they were written again; raises as `read_edges_task`."""
    mark_reachable(files.redacted(task.settings.folder))
    try:
        vertices = task.vertices.read()
        return [numbered(task.settings.folder, "vertices", run, vertices) for run in task.runs]
    except DamagedFileError as error:
        return TaskFault(error)


# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ByFirstId:
    """The vertices of ids that count up: the `Numbering` of most graphs."""

    first_id: int

    def vertices(self, codes: np.ndarray, chunk: int) -> np.ndarray:
        return codes - np.uint32(self.first_id) if self.first_id else codes


@dataclass(frozen=True)
class ByMarks:
    """The vertices of ids that are marked in a bitmap in storage, which each process reads once."""

    bits: StoredBits

    def vertices(self, codes: np.ndarray, chunk: int) -> np.ndarray:
        return _marked_ids(self.bits).vertices(codes, chunk)


@lru_cache(maxsize=1)
def _marked_ids(bits: StoredBits) -> MarkedIds:
    return MarkedIds(bits.read())


@dataclass(frozen=True, eq=False)
class RowsTask:
    """Make the rows of some vertices."""

    settings: Settings
    number: int
    #: Says what an edge list without edges of its own says.
    edge_list: InputEdges
    #: All edges from these vertices, and some others.
    runs: list[EdgeRun]
    numbering: Numbering
    #: The range of the vertices; these are their codes too.
    within: Range
    facts: EdgeFacts
    #: As for `reverses.reverse_difference`.
    keys: np.ndarray


@dataclass(frozen=True, eq=False)
class RowsMade:
    """The rows of consecutive vertices in storage."""

    first: int
    #: (R + 1,) int64 from 0.
    row_offsets: Stored
    #: (E,).
    col_indices: Stored
    weights: Stored
    #: As for `edges.Rows`.
    reverse_difference: int | None

    def rows(self) -> Rows:
        """Read the rows; raises as `Stored.read`."""
        arrays = self.row_offsets.read(), self.col_indices.read(), self.weights.read()
        return Rows(self.first, *arrays, self.reverse_difference)


def rows_task(task: RowsTask) -> RowsMade | TaskFault:
    """Make the rows of a task, and keep them in storage; raises as `read_edges_task`."""
    settings = task.settings
    mark_reachable(files.redacted(settings.folder))
    with Spill(0) as spill:
        try:
            made = list(edges_of(task, spill).all_rows(task.within, task.keys))
        except (InputError, DamagedFileError) as error:
            return TaskFault(error)
    rows = joined_rows(made)
    places = store_arrays(settings.folder, "rows", rows.row_offsets, rows.col_indices, rows.weights)
    return RowsMade(rows.first, places[0], places[1], places[2], rows.reverse_difference)


def edges_of(task: RowsTask, spill: Spill) -> ReadEdges:
    """Return the edges of a task in memory; raises as `stored_runs.fetched`."""
    settings = task.settings
    runs = fetched(task.runs, task.numbering)
    ids = DeclaredIds(task.facts.vertex_ids.n_vertices, 0)
    job = Job(settings.spec, task.edge_list, ids, spill, settings.memory, Quiet())
    return ReadEdges(job, Given(settings.spec, [], []), runs, task.facts)
