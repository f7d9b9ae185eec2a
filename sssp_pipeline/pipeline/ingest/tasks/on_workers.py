"""Ingest on workers: tasks on the workers of a cluster read the edges and make the rows.

The rows are divided by ranges of vertices. This process cuts the parts of the store; workers write them, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.ordered import map_in_order
from sssp_pipeline.base.vertex_ids import IdMapping, VertexIds
from sssp_pipeline.pipeline.formats.edge_list import EdgeChunk, SkippedRows
from sssp_pipeline.pipeline.graph_store.writing.edges_files import WantedParts, WrittenEdges
from sssp_pipeline.pipeline.graph_store.writing.writer import StoreWriter
from sssp_pipeline.pipeline.ingest.edges import EdgeFacts, EdgesSeen, Range, ReadEdges, Rows
from sssp_pipeline.pipeline.ingest.ids.id_mapping import EVERYWHERE, DeclaredIds, IntegerIds, Numbering
from sssp_pipeline.pipeline.ingest.job import Job
from sssp_pipeline.pipeline.ingest.rows.edge_runs import EdgeRun
from sssp_pipeline.pipeline.ingest.rows.reverses import sum_of_differences
from sssp_pipeline.pipeline.ingest.spill import Spill
from sssp_pipeline.pipeline.ingest.tasks.read_by_tasks import TASKS_EACH, ByTasks
from sssp_pipeline.pipeline.ingest.tasks.stored_parts import write_stored_edges
from sssp_pipeline.pipeline.ingest.tasks.stored_runs import NUMBERED, part_of, store_arrays, store_bits
from sssp_pipeline.pipeline.ingest.tasks.task_notes import TasksWithNotes
from sssp_pipeline.pipeline.ingest.tasks.tasks import (
    ByFirstId,
    ByMarks,
    EdgesRead,
    NumberTask,
    ReadTask,
    RowsMade,
    RowsTask,
    Settings,
    TaskFault,
    TaskPool,
    edges_of,
    number_task,
    read_edges_task,
    rows_task,
)

#: The fewest edges of the rows of a task.
_FEWEST_ROW_EDGES = 1 << 18


class OnWorkers(ByTasks):
    """Reads edges and makes their rows by tasks on workers."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.block_bytes = self.settings.memory.block_bytes

    def task_function(self) -> Callable[[ReadTask], EdgesRead | TaskFault]:
        return read_edges_task

    def edges(self, job: Job, facts: EdgeFacts) -> ReadEdges:
        numbering, runs = self._numbered(job, facts.vertex_ids)
        job = replace(job, ids=DeclaredIds(facts.vertex_ids.n_vertices, 0))
        edges_made = EdgesOnWorkers(job, self.given, runs, facts)
        edges_made.make_rows(self.settings, self.tasks, numbering)
        return edges_made

    def _numbered(self, job: Job, vertex_ids: VertexIds) -> tuple[Numbering, list[EdgeRun]]:
        """Have workers replace the codes of parts; return the vertices of other codes, and all runs.

        The limits of these runs are vertices.
        """
        ids, settings = job.ids, self.settings
        keys = [(part, len(self.parts)) for part in self.codes]

        def task(number: int) -> NumberTask:
            part = keys[number][0]
            stored = store_arrays(settings.folder, "numbers", self.vertices(job, part))[0]
            return NumberTask(settings, number, self.parts[part].runs, stored)

        anew, fault = self.tasks.results("parts were numbered", number_task, keys, task)
        if fault is not None:
            raise fault.error
        runs = [run for runs in anew for run in runs]
        for number, part in enumerate(self.parts):
            if number not in self.codes:
                for run in part.runs:
                    limits = ids.vertices(run.limits.astype(np.uint32), EVERYWHERE)
                    runs.append(replace(run, limits=limits.astype(np.int64)))
        numbering: Numbering = ByFirstId(vertex_ids.mapping.first_id)
        if vertex_ids.table is not None and any(run.chunk != NUMBERED for run in runs):
            assert isinstance(ids, IntegerIds)
            numbering = ByMarks(store_bits(settings.folder, ids.marked))
        return numbering, runs


class EdgesOnWorkers(ReadEdges):
    """The edges with one weight after workers have read them and made their rows, which are in storage."""

    _made: list[RowsMade]
    _pool: TaskPool

    def make_rows(self, settings: Settings, tasks: TasksWithNotes, numbering: Numbering) -> None:
        """Have the workers make all rows; raises as `ReadEdges.all_rows`."""
        self._pool, plan = tasks.pool, tasks.plan
        job = self.job
        total = sum(run.n_edges for run in self.runs)
        n_edges = max(_FEWEST_ROW_EDGES, total // (TASKS_EACH * plan.n_threads))
        n_edges = min(n_edges, plan.row_edges)
        # Only this process knows the ids.
        numbers = VertexIds(IdMapping(kind="offset", type="int64"), None, self.facts.vertex_ids.n_vertices)
        facts = EdgeFacts(EdgesSeen(self.facts.found.seen), numbers, self.facts.weight_type)
        without_edges = replace(
            job.edge_list,
            read=_read_nothing,
            read_and_work=None,
            positions_of=None,
            read_coordinates=None,
            skipped=SkippedRows(),
            pieces=(),
        )
        ranges = list(self.ranges(n_edges))

        def task(number: int) -> RowsTask:
            between = ranges[number].vertices
            return RowsTask(
                settings,
                number,
                without_edges,
                [part for run in self.runs if (part := part_of(run, *between)).n_edges],
                numbering,
                Range(between, between),
                facts,
                plan.keys,
            )

        n_done = 0

        def advance(_: RowsMade) -> None:
            nonlocal n_done
            n_done += 1
            job.progress.advance(n_done, len(ranges), "ranges")

        keys = [each.vertices for each in ranges]
        self._made, fault = tasks.results("ranges were made", rows_task, keys, task, advance)
        if fault is not None and isinstance(fault.error, InputError):
            with Spill(0) as spill:
                named = replace(task(len(self._made)), facts=self.facts)
                for _ in edges_of(named, spill).all_rows(named.within):
                    pass
        if fault is not None:
            raise fault.error
        self._n_edges = sum(len(made.col_indices) for made in self._made)
        self._reverse_difference = sum_of_differences(made.reverse_difference for made in self._made)

    def all_rows(self, within: Range | None = None, keys: np.ndarray | None = None) -> Iterator[Rows]:
        """Give all rows, range by range in ascending order."""
        assert within is None, "rows are made once"
        return map_in_order(RowsMade.rows, iter(self._made), 2)

    def rows_again(self, edges_a_range: int) -> Iterator[Rows]:
        """Give all rows, in the ranges in which they were made."""
        del edges_a_range
        return self.all_rows()

    def write(self, writer: StoreWriter, wanted: WantedParts) -> WrittenEdges:
        """Have the workers write all rows to a store; raises as `cut.write_edges`."""
        threads = self.job.memory.parts_in_flight
        return write_stored_edges(writer, self._made, wanted, threads, self._pool)


def _read_nothing(_: int) -> Iterator[EdgeChunk]:
    return iter(())
