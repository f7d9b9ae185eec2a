"""Stored parts: the parts of a graph store are cut from rows in storage, and tasks write them."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from sssp_pipeline.base.ordered import map_in_order
from sssp_pipeline.pipeline.graph_store.writing.cut import Cut
from sssp_pipeline.pipeline.graph_store.writing.edges_files import (
    EdgesFiles,
    EdgesPart,
    WantedParts,
    WrittenEdges,
)
from sssp_pipeline.pipeline.graph_store.writing.writer import StoreWriter
from sssp_pipeline.pipeline.ingest.damage import DamagedFileError
from sssp_pipeline.pipeline.ingest.tasks.stored_runs import Stored
from sssp_pipeline.pipeline.ingest.tasks.tasks import RowsMade, TaskFault, TaskPool
from sssp_pipeline.storage import files
from sssp_pipeline.storage.retries import mark_reachable


@dataclass(frozen=True, eq=False)
class PartTask:
    """Write a part of the edges."""

    writer: StoreWriter
    wanted: WantedParts
    number: int
    #: The first vertex, and the first one behind the part.
    vertices: tuple[int, int]
    dtype: np.dtype
    #: The targets and the weights of the edges, in pieces.
    columns: list[tuple[Stored, Stored]]


def part_task(task: PartTask) -> EdgesPart | TaskFault:
    """Write the part of a task to the store, and return it. Another attempt writes the same bytes.

    A damaged file of rows is a fault.

    Raises
    ------
    InputError
        The storage cannot be used.
    """
    mark_reachable(files.redacted(task.writer.store))
    n = sum(len(piece) for piece, _ in task.columns)
    col_indices, weights = np.empty(n, np.uint32), np.empty(n, task.dtype)
    at = 0
    for pieces in task.columns:
        here = slice(at, at + len(pieces[0]))
        try:
            col_indices[here], weights[here] = (piece.read() for piece in pieces)
        except DamagedFileError as error:
            return TaskFault(error)
        at = here.stop
    opened = EdgesFiles(task.writer, task.wanted, task.number, (col_indices, weights))
    try:
        return opened.finish(task.vertices, n)
    except BaseException:
        opened.abandon()
        raise


class _StoredCut(Cut):
    """Cuts rows in storage into the tasks that write the parts of the edges."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.tasks: list[PartTask] = []
        self._pieces: list[tuple[Stored, Stored]] = []

    def _take(self, col_indices: Stored, weights: Stored, edges: slice, filled: int) -> None:
        self._pieces.append(
            (col_indices.part(edges.start, edges.stop), weights.part(edges.start, edges.stop))
        )

    def _write_edges(self) -> None:
        pieces, self._pieces = self._pieces, []
        task = PartTask(
            self._writer, self._wanted, self._next_number("edges"), self._next_rows(), self._dtype, pieces
        )
        self.tasks.append(task)


def write_stored_edges(
    writer: StoreWriter, made: Iterable[RowsMade], wanted: WantedParts, threads: int, pool: TaskPool
) -> WrittenEdges:
    """Write rows in storage as `cut.write_edges` does; the tasks of `pool` write the edges.

    This process reads and writes the row offsets. It raises as `cut.write_edges` and `TaskPool.do`.
    """
    with ThreadPoolExecutor(max(1, threads)) as writing:
        cut = _StoredCut(writer, wanted, writing, threads)
        for rows, row_offsets in map_in_order(lambda m: (m, m.row_offsets.read()), iter(made), 2):
            cut.add(row_offsets, rows.col_indices, rows.weights)
        cut.finish_edges()

        def keep(number: int, part: EdgesPart | TaskFault) -> None:
            if isinstance(part, TaskFault):
                raise part.error
            cut.keep(number, part)

        pool.do(part_task, cut.tasks, keep)
        return cut.finish()
