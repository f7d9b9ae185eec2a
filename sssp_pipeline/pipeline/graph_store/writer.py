"""Store writer: writes the parts of a graph as Parquet files, and commits them with a manifest."""

from __future__ import annotations

import math
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
import pyarrow as pa
from isal.isal_zlib import crc32

from sssp_pipeline.csr import GraphTraits
from sssp_pipeline.pipeline.arrow_arrays import arrow_array
from sssp_pipeline.pipeline.graph_store import part_files
from sssp_pipeline.pipeline.graph_store.manifest import Part, StoreManifest
from sssp_pipeline.pipeline.graph_store.part_files import PartFile, WeightSums
from sssp_pipeline.pipeline.graph_store.store import (
    MANIFEST,
    PART_FOLDERS,
    PART_PATH,
    VERSIONS_FOLDER,
    is_complete,
    keep_versions,
    older_versions,
    parse_manifest,
    version_url,
)
from sssp_pipeline.pipeline.storage import files

#: Edges of one part: 128 MB with 4-byte weights. A worker that loads a graph holds a few parts in addition to it.
PART_EDGES = 16 * 2**20
#: Rows of one part of `row_offsets/` or `vertices/`.
PART_ROWS = 16 * 2**20
#: Row offsets whose differences are computed at a time.
_OFFSETS = 1 << 20
#: The threads that copy rows to the next part while other parts are written.
_COPIERS = 4


class StoreWriter:
    """Writes one graph to a store; readers see no change before `commit`.

    If the `with` block ends with an error, the written files are removed.
    """

    def __init__(self, store: str) -> None:
        self.store = store
        self._id = uuid.uuid4().hex[:8]
        self._is_committed = False
        #: The number of the first part of `edge_weights/` of the next weight.
        self.first_weight_part = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and not self._is_committed:
            for name in files.list_files(self.store):
                if PART_PATH.fullmatch(name) and f"/part-{self._id}-" in name:
                    files.remove(files.join(self.store, name))
            for folder in PART_FOLDERS:
                files.remove_if_empty(files.join(self.store, folder))

    def write_edges(
        self, rows: Iterable[tuple[np.ndarray, np.ndarray, np.ndarray]], layout: Layout, threads: int
    ) -> WrittenEdges:
        """Write the rows of a graph as they come, and return the parts and their facts.

        `threads` parts are written at a time while the next one is filled. With 0, nothing else is done meanwhile.

        Parameters
        ----------
        rows
            Row offsets from 0, targets and weights of the next vertices, as in a `CsrGraph`.
        layout
            Which parts to write.

        Raises
        ------
        InputError
            The store cannot be written; or what `rows` raises.
        """
        with ThreadPoolExecutor(threads + _COPIERS) as pool:
            cut = Cut(self, layout, pool, threads)
            try:
                for row_offsets, col_indices, weights in rows:
                    cut.add(row_offsets, col_indices, weights)
                return cut.finish()
            except BaseException:
                pool.shutdown()
                cut.abandon()
                raise

    def write_vertices(self, table: pa.Table) -> list[Part]:
        """Write `table`, which has one row for each vertex, to `vertices/`, and return the parts."""
        starts = range(0, max(table.num_rows, 1), PART_ROWS)
        return [
            self.write_part(
                "vertices", i, table.slice(start, PART_ROWS), start, min(start + PART_ROWS, table.num_rows)
            )
            for i, start in enumerate(starts)
        ]

    def commit(self, manifest: StoreManifest) -> None:
        """Make the written parts the newest version of the graph, and remove the parts of no version.

        The previous version is kept, unless it is the same graph or lacks a part. Its manifest is copied before it is
        replaced, so that a kill at any moment loses no version.
        """
        url = files.join(self.store, MANIFEST)
        versions: dict[str, StoreManifest] = {}
        if (text := files.read_if_there(url)) is not None:
            before = parse_manifest(text, self.store, url)
            versions = older_versions(self.store, before)
            if is_complete(self.store, before):
                versions[before.content_id] = before
                files.write_atomic(version_url(self.store, before.content_id), text)
        files.write_atomic(url, manifest.model_dump_json(indent=1).encode())
        self._is_committed = True
        files.remove(version_url(self.store, manifest.content_id))
        versions[manifest.content_id] = manifest
        keep_versions(self.store, versions.values())
        files.remove_if_empty(files.join(self.store, VERSIONS_FOLDER))
        for folder in ("", *PART_FOLDERS, VERSIONS_FOLDER):
            files.remove_temporaries(files.join(self.store, folder) if folder else self.store)

    def write_part(
        self, folder: str, number: int, table: pa.Table, first: int, last: int, crc32_before: int = 0
    ) -> Part:
        """Write `table`, with the rows or vertices [first, last), to a file of `folder`; several threads may do so.

        `crc32_before` is the checksum of content that precedes that of the table.
        """
        file = self.part_file(folder, number, table.schema)
        file.add(table)
        return file.finish(table, first, last, crc32_before)

    def part_file(self, folder: str, number: int, schema: pa.Schema) -> PartFile:
        """Open the file of a part."""
        return PartFile(self.store, f"{folder}/part-{self._id}-{number:05d}.parquet", schema)


@dataclass(frozen=True)
class Layout:
    """Which parts `StoreWriter.write_edges` writes."""

    #: Row offsets and edges; otherwise these are those of another weight of the store.
    structure: bool = True
    #: Whether the weights are in `edge_weights/`, and not in `edges/`.
    several_weights: bool = False


@dataclass(frozen=True, eq=False)
class WrittenEdges:
    """The parts of a graph, and the facts about it."""

    row_offsets: list[Part]
    edges: list[Part]
    #: None with one weight.
    edge_weights: list[Part] | None
    traits: GraphTraits
    #: Whether a weight is 0.
    zero: bool


#: The targets (n,) uint32 and the weights (n,) of edges.
Columns: TypeAlias = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class EdgesPart:
    """The rows of a part of the edges, written to the folders that a `Layout` names."""

    parts: dict[str, Part]
    #: None if no row has an edge.
    sums: WeightSums | None


class EdgesFiles:
    """The files of a part of the edges, which are written row group by row group; raises as `write_edges`."""

    def __init__(self, writer: StoreWriter, layout: Layout, number: int, columns: Columns) -> None:
        self._columns, self._written = columns, 0
        self._files: dict[str, tuple[PartFile, tuple[str, ...]]] = {}
        weights = () if layout.several_weights else ("weight",)
        try:
            if layout.structure:
                self._open(writer, "edges", number, ("col_index", *weights))
            if layout.several_weights:
                self._open(writer, "edge_weights", writer.first_weight_part + number, ("weight",))
        except BaseException:
            self.abandon()
            raise

    def _open(self, writer: StoreWriter, folder: str, number: int, names: tuple[str, ...]) -> None:
        schema = self._table(names, 0, 0).schema
        self._files[folder] = writer.part_file(folder, number, schema), names

    def _table(self, names: tuple[str, ...], begin: int, end: int) -> pa.Table:
        arrays = dict(zip(("col_index", "weight"), self._columns, strict=True))
        return pa.table({name: arrow_array(arrays[name][begin:end]) for name in names})

    def write_until(self, end: int) -> None:
        """Write the next edges, those before `end`; each call but the last one writes whole row groups."""
        for file, names in self._files.values():
            file.add(self._table(names, self._written, end))
        self._written = end

    def finish(self, vertices: tuple[int, int], n: int) -> EdgesPart:
        """Write the last ones of the `n` edges, those of the rows of `vertices`, and return the part."""
        if self._written < n or n == 0:
            self.write_until(n)
        col_indices, weights = (column[:n] for column in self._columns)
        parts = {
            folder: file.finish(
                self._table(names, 0, n), *vertices, 0 if "col_index" in names else crc32(col_indices)
            )
            for folder, (file, names) in self._files.items()
        }
        return EdgesPart(parts, WeightSums.of(weights) if n else None)

    def abandon(self) -> None:
        """Remove the files that are not finished."""
        for file, _ in self._files.values():
            file.abandon()


class Cut:
    """Cuts a stream of rows into parts, which threads write.

    A part of edges has as many rows as fit into `PART_EDGES`, but at least one. So the parts do not depend on how the
    rows come.
    """

    def __init__(self, writer: StoreWriter, layout: Layout, pool: ThreadPoolExecutor, threads: int) -> None:
        self._writer, self._layout, self._pool, self._threads = writer, layout, pool, threads
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
        self._offsets = np.zeros(PART_ROWS, np.int64)
        self._n_offsets, self._first_offset, self._last_offset = 1, 0, 0
        #: By the number of that part: the sum of the squared degrees of its rows.
        self._squared_degrees: dict[int, int] = {}
        self._pending: deque[Future[None]] = deque()
        self._parts: dict[str, dict[int, Part]] = {"row_offsets": {}, "edges": {}, "edge_weights": {}}
        self._sums: dict[int, WeightSums] = {}
        self._dtype = np.dtype(np.uint32)
        self._numbers: Counter[str] = Counter()

    def add(self, row_offsets: np.ndarray, col_indices: Any, weights: Any) -> None:
        """Add the next rows, and write the parts that are full; `_take` gets the columns."""
        self._dtype = weights.dtype
        self._add_offsets(row_offsets)
        row, n_rows = 0, len(row_offsets) - 1
        while row < n_rows:
            room = PART_EDGES - self._filled
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
            self._files = EdgesFiles(self._writer, self._layout, self._numbers["edges"], columns)
        # A task waits for earlier tasks alone, which were submitted before it.
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
            here = ends[: PART_ROWS - self._n_offsets]
            filled = self._n_offsets + len(here)
            np.add(here, self._n_edges, out=self._offsets[self._n_offsets : filled])
            self._n_offsets, ends = filled, ends[len(here) :]
            if len(ends):
                self._write_offsets()

    def _write_offsets(self) -> None:
        offsets, first, before = self._offsets[: self._n_offsets], self._first_offset, self._last_offset
        number = self._next_number("row_offsets")
        self._first_offset, self._last_offset = first + len(offsets), int(offsets[-1])
        self._offsets, self._n_offsets = np.empty(PART_ROWS, np.int64), 0

        def write() -> None:
            self._squared_degrees[number] = _squared_degrees(before, offsets)
            if self._layout.structure:
                table = pa.table({"row_offset": arrow_array(offsets)})
                part = self._writer.write_part("row_offsets", number, table, first, first + len(table))
                self._parts["row_offsets"][number] = part

        self._submit(write)

    def _columns_for(self, n_edges: int) -> Columns:
        """Return the columns of the next part, with room for `n_edges`."""
        if n_edges > PART_EDGES:  # a part with one row
            self._columns = None
        if self._columns is None:
            size = max(n_edges, PART_EDGES)
            is_usual = n_edges <= PART_EDGES and len(self._free) > 0
            self._columns = (
                self._free.pop() if is_usual else (np.empty(size, np.uint32), np.empty(size, self._dtype))
            )
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
            opened = edges_files or EdgesFiles(self._writer, self._layout, number, columns)
            try:
                for task in before:
                    task.result()
                self.keep(number, opened.finish(vertices, filled))
            except BaseException:
                opened.abandon()
                raise
            if len(columns[0]) == PART_EDGES:
                self._free.append(columns)

        self._submit(write)

    def _next_rows(self) -> tuple[int, int]:
        """Begin the next part, and return the rows of the one before it."""
        first, last = self._first, self._n_vertices
        self._columns, self._first, self._filled = None, last, 0
        return first, last

    def keep(self, number: int, part: EdgesPart) -> None:
        """Note a part of the edges that was written."""
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
        weights = parts["edge_weights"] if self._layout.several_weights else None
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
