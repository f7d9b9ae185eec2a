"""Cut: a stream of rows is cut into the parts of a store, which threads write while more rows come."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.csr import GraphTraits
from sssp_pipeline.parquet.arrow_arrays import arrow_array
from sssp_pipeline.pipeline.graph_store.manifest import StoredPart
from sssp_pipeline.pipeline.graph_store.writing import part_files
from sssp_pipeline.pipeline.graph_store.writing.edges_files import (
    Columns,
    EdgesFiles,
    EdgesPart,
    WantedParts,
    WrittenEdges,
)
from sssp_pipeline.pipeline.graph_store.writing.part_files import WeightSums
from sssp_pipeline.pipeline.graph_store.writing.writer import StoreWriter

#: Row offsets whose differences are computed at a time.
_OFFSETS = 1 << 20
#: The threads that copy rows to the next part while other parts are written.
_COPIERS = 4


def write_edges(
    writer: StoreWriter,
    rows: Iterable[tuple[np.ndarray, np.ndarray, np.ndarray]],
    wanted: WantedParts,
    threads: int,
) -> WrittenEdges:
    """Write the rows of a graph to a store as they come, and return the parts and their facts.

    `threads` parts are written at a time while the next one is filled. With 0, nothing else is done meanwhile.

    Parameters
    ----------
    rows
        Row offsets from 0, targets and weights of the next vertices, as in a `CsrGraph`.
    wanted
        Which parts to write.

    Raises
    ------
    InputError
        The store cannot be written; or what `rows` raises.
    """
    with ThreadPoolExecutor(threads + _COPIERS) as pool:
        cut = Cut(writer, wanted, pool, threads)
        try:
            for row_offsets, col_indices, weights in rows:
                cut.add(row_offsets, col_indices, weights)
            return cut.finish()
        except BaseException:
            pool.shutdown()
            cut.abandon()
            raise


class Cut:
    """Cuts a stream of rows into parts, which threads write.

    A part of edges has as many rows as fit into `PART_EDGES`, but at least one. So the parts do not depend on how the
    rows come.
    """

    def __init__(
        self, writer: StoreWriter, wanted: WantedParts, pool: ThreadPoolExecutor, threads: int
    ) -> None:
        self._writer, self._wanted, self._pool, self._threads = writer, wanted, pool, threads
        self._n_vertices = self._n_edges = 0
        #: The rows of the next part: its first vertex, the number of its edges, and its two columns.
        self._first = self._filled = 0
        self._columns: Columns | None = None
        #: The files of the next part, and the last of the tasks that write its full row groups.
        self._files: EdgesFiles | None = None
        self._group: Future[None] | None = None
        self._grouped = 0
        #: Columns that were written and are filled again: new memory takes longer to get than to fill.
        self._free: list[Columns] = []
        #: The copies to the columns of the next part.
        self._copies: list[Future[None]] = []
        #: The next part of `row_offsets/`, how many it has, the number of those in the parts before it, and their last.
        self._offsets = np.zeros(part_files.PART_ROWS, np.int64)
        self._n_offsets, self._first_offset, self._last_offset = 1, 0, 0
        #: By the number of that part: the sum of the squared degrees of its rows.
        self._squared_degrees: dict[int, int] = {}
        self._pending: deque[Future[None]] = deque()
        self._parts: dict[str, dict[int, StoredPart]] = {"row_offsets": {}, "edges": {}, "edge_weights": {}}
        self._sums: dict[int, WeightSums] = {}
        self._dtype = np.dtype(np.uint32)
        self._numbers: Counter[str] = Counter()

    def add(self, row_offsets: np.ndarray, col_indices: Any, weights: Any) -> None:
        """Add the next rows, and write the parts that are full; `_take` gets the columns."""
        self._dtype = weights.dtype
        self._add_offsets(row_offsets)
        row, n_rows = 0, len(row_offsets) - 1
        while row < n_rows:
            room = part_files.PART_EDGES - self._filled
            end = int(np.searchsorted(row_offsets, row_offsets[row] + room, side="right")) - 1
            if end == row and self._n_vertices == self._first:
                end += 1
            if end > row:
                edges = slice(int(row_offsets[row]), int(row_offsets[end]))
                filled = self._filled + edges.stop - edges.start
                self._take(col_indices, weights, edges, filled)
                self._n_vertices += end - row
                self._filled, row = filled, end
            if row < n_rows:
                self._write_edges()
        self._n_edges += int(row_offsets[-1])

    def _take(self, col_indices: Any, weights: Any, edges: slice, filled: int) -> None:
        """Add these edges to the next part, which then has `filled` edges.

        Several threads copy them, unless there is no memory for that.
        """
        columns, here = self._columns_for(filled), slice(self._filled, filled)

        def copy() -> None:
            columns[0][here] = col_indices[edges]
            columns[1][here] = weights[edges]

        if not self._threads:
            copy()
            return
        self._copies.append(self._pool.submit(copy))
        if len(self._copies) > 2 * _COPIERS:
            self._copies[-2 * _COPIERS].result()
        self._write_full_groups(columns, filled)

    def _write_full_groups(self, columns: Columns, filled: int) -> None:
        """Write the full row groups of the next part: so little is left to write when all rows are made."""
        end = filled - filled % part_files.ROW_GROUP_ROWS
        if end == self._grouped:
            return
        if self._files is None:
            self._files = EdgesFiles(self._writer, self._wanted, self._numbers["edges"], columns)
        # A task waits only for tasks that were submitted before it.
        edges_files, before, copies = self._files, self._group, list(self._copies)

        def write() -> None:
            if before is not None:
                before.result()
            for copy in copies:
                copy.result()
            edges_files.write_until(end)

        self._group, self._grouped = self._pool.submit(write), end

    def _add_offsets(self, row_offsets: np.ndarray) -> None:
        """Add the ends of the next rows, which are counted from the first of these rows on."""
        ends = row_offsets[1:]
        while len(ends):
            here = ends[: part_files.PART_ROWS - self._n_offsets]
            filled = self._n_offsets + len(here)
            np.add(here, self._n_edges, out=self._offsets[self._n_offsets : filled])
            self._n_offsets, ends = filled, ends[len(here) :]
            if len(ends):
                self._write_offsets()

    def _write_offsets(self) -> None:
        offsets, first, before = self._offsets[: self._n_offsets], self._first_offset, self._last_offset
        number = self._next_number("row_offsets")
        self._first_offset, self._last_offset = first + len(offsets), int(offsets[-1])
        self._offsets, self._n_offsets = np.empty(part_files.PART_ROWS, np.int64), 0

        def write() -> None:
            self._squared_degrees[number] = _squared_degrees(before, offsets)
            if self._wanted.structure:
                table = pa.table({"row_offset": arrow_array(offsets)})
                part = self._writer.write_part("row_offsets", number, table, first, first + len(table))
                self._parts["row_offsets"][number] = part

        self._submit(write)

    def _columns_for(self, n_edges: int) -> Columns:
        """Return the columns of the next part, with room for `n_edges`."""
        if n_edges > part_files.PART_EDGES:  # a part with one row
            self._columns = None
        if self._columns is None:
            size = max(n_edges, part_files.PART_EDGES)
            if size == part_files.PART_EDGES and self._free:
                self._columns = self._free.pop()
            else:
                self._columns = np.empty(size, np.uint32), np.empty(size, self._dtype)
        return self._columns

    def _write_edges(self) -> None:
        columns = self._columns or self._columns_for(0)
        filled, vertices = self._filled, self._next_rows()
        number = self._next_number("edges")
        edges_files, group = self._files, self._group
        self._files, self._group, self._grouped = None, None, 0
        # They were submitted before `write`, so they never wait for it.
        copies, self._copies = self._copies, []
        # No task writes to the files when the last group has ended, well or not.
        before = [*([group] if group else []), *copies]

        def write() -> None:
            opened = edges_files or EdgesFiles(self._writer, self._wanted, number, columns)
            try:
                for task in before:
                    task.result()
                self.keep(number, opened.finish(vertices, filled))
            except BaseException:
                opened.abandon()
                raise
            if len(columns[0]) == part_files.PART_EDGES:
                self._free.append(columns)

        self._submit(write)

    def _next_rows(self) -> tuple[int, int]:
        """Begin the next part, and return the rows of the one before it."""
        first, last = self._first, self._n_vertices
        self._columns, self._first, self._filled = None, last, 0
        return first, last

    def keep(self, number: int, part: EdgesPart) -> None:
        """Take in a part of the edges that was written."""
        for folder, written in part.parts.items():
            self._parts[folder][number] = written
        if part.sums is not None:
            self._sums[number] = part.sums

    def _next_number(self, folder: str) -> int:
        self._numbers[folder] += 1
        return self._numbers[folder] - 1

    def _submit(self, write: Callable[[], None]) -> None:
        self._pending.append(self._pool.submit(write))
        while len(self._pending) > self._threads:
            self._pending.popleft().result()

    def abandon(self) -> None:
        """Remove the files of the next part; no task of the pool may run."""
        if self._files is not None:
            self._files.abandon()

    def finish_edges(self) -> None:
        """Write the last part of the edges."""
        if self._n_vertices > self._first:
            self._write_edges()

    def finish(self) -> WrittenEdges:
        """Write what is left, and return the parts and the facts of the whole graph."""
        self.finish_edges()
        self._write_offsets()
        for write in self._pending:
            write.result()
        parts = {folder: [found[i] for i in sorted(found)] for folder, found in self._parts.items()}
        sums = [self._sums[i] for i in sorted(self._sums)]
        self._writer.first_weight_part += len(parts["edge_weights"])
        weights = parts["edge_weights"] if self._wanted.weights_apart else None
        zero = any(one.zero for one in sums)
        return WrittenEdges(parts["row_offsets"], parts["edges"], weights, self._traits(sums), zero)

    def _traits(self, sums: list[WeightSums]) -> GraphTraits:
        n_vertices, n_edges = self._n_vertices, self._n_edges
        low: float = 0
        high: float = 0
        mean, skew = 0.0, 1.0
        if n_edges:
            low, high = min(one.low for one in sums), max(one.high for one in sums)
            try:
                mean = math.fsum(one.total for one in sums) / n_edges
            except (OverflowError, ValueError):
                mean = math.inf
            if not math.isfinite(mean):
                shares = math.fsum(one.total_of_shares * (one.n / n_edges) for one in sums)
                mean = min(max(shares, low), high)
            skew = sum(self._squared_degrees.values()) / n_vertices / (n_edges / n_vertices) ** 2
        return GraphTraits(n_vertices, n_edges, self._dtype, low, high, mean, skew)


def _squared_degrees(before: int, offsets: np.ndarray) -> int:
    """Return the sum of the squared degrees of rows that end at `offsets` (n,); the first one begins at `before`."""
    total = 0
    for begin in range(0, len(offsets), _OFFSETS):
        some = offsets[begin : begin + _OFFSETS]
        degrees = np.diff(some, prepend=before)
        # Numbers of 64 bits hold the square of their sum, or numbers of any size are needed.
        degrees = degrees.astype(np.uint64 if some[-1] - before < 2**32 else object)
        total += int(np.dot(degrees, degrees))
        before = int(some[-1])
    return total
