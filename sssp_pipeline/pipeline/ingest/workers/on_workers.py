"""Ingest on workers: tasks read the edges and make the rows, and this process leads them.

The input is divided by files, and the rows by ranges of vertices. The tasks pass their work on through a folder beside
the parts of the store (`stored_runs.py`). What is done here is done once for the whole graph: ids are numbered, parts
are cut, and the manifest is written. So the graph store is the same as without workers. A killed ingest leaves its
folder, and the next one goes on with it (`task_notes.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from sssp_pipeline.errors import InputError, SsspError
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.pipeline.formats.edge_list import EdgeChunk, EdgeList, SkippedRows
from sssp_pipeline.pipeline.formats.generated import is_generated
from sssp_pipeline.pipeline.graph_store.writer import Layout, StoreWriter, WrittenEdges
from sssp_pipeline.pipeline.ingest.building import (
    Given,
    Job,
    Range,
    ReadEdges,
    Rows,
    check_all_have_weights,
    check_vertex_count,
    coordinates_of,
    read_edges,
    read_runs,
)
from sssp_pipeline.pipeline.ingest.ids.id_mapping import (
    EVERYWHERE,
    DeclaredIds,
    IntegerIds,
    Numbering,
    collector,
)
from sssp_pipeline.pipeline.ingest.input import SAMPLE_EDGES, open_input, open_positions
from sssp_pipeline.pipeline.ingest.memory import Memory
from sssp_pipeline.pipeline.ingest.rows.edge_runs import EdgeRun
from sssp_pipeline.pipeline.ingest.spill import Kept, Spill
from sssp_pipeline.pipeline.ingest.weight_types import WeightRange
from sssp_pipeline.pipeline.ingest.workers.stored_parts import write_stored_edges
from sssp_pipeline.pipeline.ingest.workers.stored_runs import (
    NUMBERED,
    StoredBits,
    StoredIds,
    part_of,
    store_arrays,
    store_bits,
)
from sssp_pipeline.pipeline.ingest.workers.task_notes import NotedTasks, Notes, Plan, digest_of
from sssp_pipeline.pipeline.ingest.workers.worker_tasks import (
    FEWEST_EDGES,
    ByFirstId,
    ByMarks,
    EdgesRead,
    NumberTask,
    ReadTask,
    RowsMade,
    RowsTask,
    Settings,
    TaskPool,
    edges_of,
    job_of,
    joined,
    number_task,
    read_edges_task,
    rows_task,
    sum_of_differences,
)
from sssp_pipeline.pipeline.ordered import map_in_order
from sssp_pipeline.pipeline.storage import files
from sssp_pipeline.progress import Progress, in_bytes
from sssp_pipeline.vertex_ids import IdMapping, VertexIds

#: Smaller inputs are read before workers have started.
_LEAST_INPUT_BYTES = 64 << 20
#: Tasks for each thread of the workers. With several, all threads end at about the same time.
_TASKS_EACH = 4
#: The bytes of input of a task, compressed or not.
_MOST_TASK_BYTES, _FEWEST_TASK_BYTES = 256 << 20, 4 << 20
#: The bytes of a file that say whether it can be divided.
_HEAD_BYTES = 1 << 18
#: The fewest edges of the rows of a task.
_FEWEST_ROW_EDGES = 1 << 18
#: What begins the name of the folder of an ingest in the store. It is removed as a half-written file is.
_FOLDER = f"{files.TEMP_PREFIX}ingest-"


class IngestWorkers(Protocol):
    """Where an ingest gets its workers from."""

    def pool(
        self, folder: str, inputs: list[tuple[str, dict[str, Any]]]
    ) -> AbstractContextManager[TaskPool | str]:
        """Give workers that see `folder`, where a file is, and the `inputs`, or the reason why there are none.

        Each of `inputs` is a URL and its fingerprint.

        Raises
        ------
        SsspError
            The cluster cannot be started or reached.
        """
        ...


#: A function like `building.read_edges`.
EdgeReader = Callable[..., AbstractContextManager[ReadEdges]]


@contextmanager
def edge_reader(
    workers: IngestWorkers | None,
    store: str,
    given: Iterable[Given],
    progress: Progress,
    check_held: Callable[[], None],
) -> Iterator[EdgeReader]:
    """Give the function that reads the edges of each of `given`: on `workers`, if there are any and it is worth it.

    The caller holds the store, and `check_held` raises as soon as it does not. An ingest that is interrupted, or loses
    its workers or the storage, leaves what the workers have done; the next one of the same graph goes on with it.
    """
    if workers is None:
        yield read_edges
        return

    def say(reason: str) -> None:
        progress.say(f"ingest runs in this process: {reason}", "ingest_here")

    given = list(given)
    if (reason := _why_here(given)) is not None:
        say(reason)
        yield read_edges
        return
    name = _FOLDER + digest_of(given)
    folder = files.join(store, name)
    check_held()
    files.remove_temporaries(store, but=name)  # those of another graph may be as large as this one
    notes = Notes(folder)
    try:
        files.write_atomic(files.join(folder, "here"), b"")
        inputs = [each for one in given for each in zip(one.urls, one.inputs, strict=False)]
        with workers.pool(folder, inputs) as pool:
            if isinstance(pool, str):
                say(pool)
                yield read_edges
            else:
                yield _OnWorkers(pool, folder, notes).read
    except BaseException as error:
        if notes.any and _may_go_on(error):
            place = files.redacted(folder)
            progress.say(
                f"what the workers have done is kept in `{place}`: the same command goes on with it; without this "
                "folder it starts afresh",
                "ingest_kept",
                folder=place,
            )
            raise
        check_held()  # or else the folder is that of the process that took over the store
        files.remove(folder)
        raise
    files.remove(folder)


def _may_go_on(error: BaseException) -> bool:
    """Return whether the same command may succeed later, with the same input."""
    return isinstance(error, KeyboardInterrupt | SsspError) and not isinstance(error, InputError)


def _why_here(given: list[Given]) -> str | None:
    """Return why workers would not be faster, as far as that is known before they have started."""
    for one in given:
        if any(map(is_generated, one.urls)):
            return "it makes the graph itself"
        first = open_input(one.spec, one.urls[:1], _HEAD_BYTES)
        if not first.pieces:
            return f"a {first.reading.format} input is read as a whole"
        if len(one.urls) == 1 and not first.pieces[0].divide([1]):
            return "the input is one file, which cannot be divided"
    n_bytes = sum(file.get("size") or 0 for one in given for file in one.inputs)
    return f"the input has {in_bytes(n_bytes)}" if n_bytes < _LEAST_INPUT_BYTES else None


@dataclass(frozen=True, eq=False)
class _OnWorkers:
    pool: TaskPool
    folder: str
    notes: Notes

    @contextmanager
    def read(self, given: Given, progress: Progress, *, with_positions: bool = True) -> Iterator[ReadEdges]:
        """Read the edges as `building.read_edges`, and make their rows; raises as it does."""
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
        edge_list = open_input(spec, given.urls, settings.memory.block_bytes, spec.max_line_bytes)
        if edge_list.n_vertices is not None:
            check_vertex_count(edge_list.n_vertices)
        with Spill(memory.spill_bytes) as spill:
            ids = collector(
                edge_list.reading.ids, edge_list.n_vertices, edge_list.first_id, spill, settings.id_bytes
            )
            job = Job(spec, edge_list, ids, spill, memory, progress)
            positions = open_positions(spec, edge_list) if with_positions else None
            progress.stage("read edges")
            read = _Reading(job, given, settings, tasks)
            read.read()
            check_all_have_weights(read.seen)
            dtype, why = read.seen.dtype(spec.weights, edge_list.weight_dtype, job.input_name)
            progress.stage("build rows")
            vertex_ids, numbering, runs = _numbered(job, read, settings, tasks)
            check_vertex_count(vertex_ids.n_vertices)
            coordinates = coordinates_of(job, positions, vertex_ids) if with_positions else None
            job = replace(job, ids=DeclaredIds(vertex_ids.n_vertices, 0))
            facts = read.seen, read.n_loops, read.sample, vertex_ids, dtype, why, coordinates
            edges_made = EdgesOnWorkers(job, given, runs, *facts)
            edges_made.make_rows(settings, tasks, numbering)
            yield edges_made


class _Reading:
    """What the tasks that read edges have found, in the order of the input."""

    def __init__(self, job: Job, given: Given, settings: Settings, tasks: NotedTasks) -> None:
        self._job, self._settings, self._tasks = job, settings, tasks
        self._groups = _grouped(given, job.edge_list.pieces, tasks.plan.n_threads)
        self.parts: list[EdgesRead] = []
        self.seen, self.n_loops = WeightRange(), 0
        self.sample: list[tuple] = []

    def read(self) -> None:
        """Read all edges; raises as `building.read_runs`."""
        n_edges = 0

        def task(number: int) -> ReadTask:
            return ReadTask(self._settings, number, self._groups[number].pieces)

        def advance(done: EdgesRead) -> None:
            nonlocal n_edges
            n_edges += done.seen.n_edges
            self._job.progress.advance(n_edges, None, "edges")

        keys = [(number, len(self._groups)) for number in range(len(self._groups))]
        self.parts, fault = self._tasks.results("parts were read", read_edges_task, keys, task, advance)
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
    wanted = sum(sizes) // (_TASKS_EACH * n_threads)
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


def _numbered(
    job: Job, read: _Reading, settings: Settings, tasks: NotedTasks
) -> tuple[VertexIds, Numbering, list[EdgeRun]]:
    """Number all ids; return them, the vertices of codes, and the runs, whose limits are vertices."""
    ids = job.ids
    codes: dict[int, list[tuple[Kept, int]]] = {}
    for i, part in enumerate(read.parts):
        if isinstance(part.ids, StoredBits):
            assert isinstance(ids, IntegerIds)
            ids.mark(part.ids.read())
        elif isinstance(part.ids, StoredIds):
            codes[i] = []
            for block in part.ids.blocks():
                found, _, chunk = ids.add(block, block[:0])
                codes[i].append((job.spill.keep(found), chunk))
    vertex_ids = ids.finish()

    keys = [(i, len(read.parts)) for i in codes]

    def task(number: int) -> NumberTask:
        part = keys[number][0]
        vertices = np.concatenate([ids.vertices(kept.read(), chunk) for kept, chunk in codes[part]])
        stored = store_arrays(settings.folder, "numbers", vertices)[0]
        return NumberTask(settings, number, read.parts[part].runs, stored)

    anew, _ = tasks.results("parts were numbered", number_task, keys, task)
    runs = [run for runs in anew for run in runs]
    for i, part in enumerate(read.parts):
        if i not in codes:
            for run in part.runs:
                limits = ids.vertices(run.limits.astype(np.uint32), EVERYWHERE)
                runs.append(replace(run, limits=limits.astype(np.int64)))
    numbering: Numbering = ByFirstId(vertex_ids.mapping.first_id)
    if vertex_ids.table is not None and any(run.chunk != NUMBERED for run in runs):
        assert isinstance(ids, IntegerIds)
        numbering = ByMarks(store_bits(settings.folder, ids.marked))
    return vertex_ids, numbering, runs


class EdgesOnWorkers(ReadEdges):
    """The edges with one weight after workers have read them and made their rows, which are in storage."""

    _made: list[RowsMade]
    _pool: TaskPool

    def make_rows(self, settings: Settings, tasks: NotedTasks, numbering: Numbering) -> None:
        """Have the workers make all rows; raises as `ReadEdges.rows`."""
        self._pool, plan = tasks.pool, tasks.plan
        job, n_vertices = self.job, self.vertex_ids.n_vertices
        total = sum(int(run.starts[-1]) for run in self.runs)
        n_edges = max(_FEWEST_ROW_EDGES, total // (_TASKS_EACH * plan.n_threads))
        n_edges = min(n_edges, plan.row_edges)
        # Only this process knows the ids.
        numbers = VertexIds(IdMapping(kind="offset", type="int64"), None, n_vertices)
        without_edges = replace(
            job.edge_list,
            read=_read_nothing,
            read_and_work=None,
            positions_of=None,
            read_coordinates=None,
            skipped=SkippedRows(),
            pieces=(),
        )
        ranges = list(self.ranges(n_edges, 4 * n_edges))

        def task(number: int) -> RowsTask:
            between = ranges[number].vertices
            return RowsTask(
                settings,
                number,
                without_edges,
                [part for run in self.runs if (part := part_of(run, *between)).starts[-1]],
                numbering,
                numbers,
                Range(between, between),
                self.seen,
                self.dtype,
                plan.keys,
            )

        n_done = 0

        def advance(_: RowsMade) -> None:
            nonlocal n_done
            n_done += 1
            job.progress.advance(n_done, len(ranges), "ranges")

        keys = [each.vertices for each in ranges]
        self._made, fault = tasks.results("ranges were made", rows_task, keys, task, advance)
        if fault is not None:
            with Spill(0) as spill:
                named = replace(task(len(self._made)), vertex_ids=self.vertex_ids)
                for _ in edges_of(named, spill).rows(named.within):
                    pass
            raise fault.error
        self._n_edges = sum(len(made.col_indices) for made in self._made)
        self._reverse_difference = sum_of_differences(made.reverse_difference for made in self._made)

    def rows(self, within: Range | None = None, keys: np.ndarray | None = None) -> Iterator[Rows]:
        """Give all rows, range by range in ascending order."""
        assert within is None, "rows are made once"
        return map_in_order(RowsMade.rows, iter(self._made), 1)

    def write(self, writer: StoreWriter, layout: Layout) -> WrittenEdges:
        """Have the workers write all rows to a store; raises as `StoreWriter.write_edges`."""
        threads = self.job.memory.parts_in_flight
        return write_stored_edges(writer, self._made, layout, threads, self._pool)


def _read_nothing(_: int) -> Iterator[EdgeChunk]:
    return iter(())
