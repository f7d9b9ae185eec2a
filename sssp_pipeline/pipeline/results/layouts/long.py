"""The long layout: a file for each batch, with a row for each source and vertex.

Files are assembled from pages (`page_writer.py`). A source is one dictionary entry, vertices in order are differences
of 1 that take almost no space, and distances are plain.

The layout of reached pairs leaves out the rows of unreached vertices. It has few rows where a cutoff is short.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from operator import lt
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sssp_pipeline.base import csr
from sssp_pipeline.kernels.host.reached_values import reached_of
from sssp_pipeline.parquet import page_writer, pages
from sssp_pipeline.pipeline.formats.arrow_compute import pc
from sssp_pipeline.pipeline.results.folder.distance_files import opened
from sssp_pipeline.pipeline.results.layouts.layout import (
    Block,
    DistanceLayout,
    Files,
    FilesOfSources,
    StoredRows,
    check_vertices,
    groups_with,
)
from sssp_pipeline.pipeline.results.layouts.rows import Rows
from sssp_pipeline.storage import files
from sssp_pipeline.storage.file_sums import write_parquet

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from sssp_pipeline.base.vertex_ids import VertexIds
    from sssp_pipeline.kernels.contract.solver import Solution
    from sssp_pipeline.storage.file_sums import StoredFile

#: The most rows of a row group, a multiple of `row_facts.SEGMENT`: several whole sources, or a part of one. A reader of
#: one source skips other groups. A group takes some 100 µs of Python, and in that time no other thread writes, so
#: smaller groups would make Python the limit.
GROUP_ROWS = 2**22
#: The most rows of a row group of reached pairs.
REACHED_GROUP_ROWS = 2**20


class LongLayout(DistanceLayout):
    """A row for each source and vertex."""

    writer = "pages-3"
    query = "SELECT source, avg(distance) FROM {} GROUP BY source ORDER BY source"

    def id_bytes(self, n_columns: int, n_sources: int, n_files: int, *, rising: bool) -> int:
        # Ids in order take a few bits a row, and ids in any order about 4 bytes.
        return 0 if rising else 4 * n_columns * n_sources

    def write(self, handle: Any, sources: np.ndarray, solution: Solution, ids: VertexIds) -> None:
        source, vertex, compression = ids.of_sources(sources), self.vertex_column(ids), self.form.compression
        kind = pa.from_numpy_dtype(self.form.dtype(solution.distances.dtype))
        columns = [("source", source.type), ("vertex", vertex.type), ("distance", kind)]
        columns += [
            (cost.name, pa.from_numpy_dtype(form.dtype(sums.dtype)))
            for cost, form, sums in self.costs_of(solution)
        ]
        if solution.predecessors is not None:
            columns.append(("predecessor", vertex.type))
        writer = page_writer.PageWriter(handle, pa.schema(columns), compression)
        names = source.to_pylist()
        ids_of_rows = pages.RepeatedColumn.of(vertex, compression)
        values = [Rows.of(solution.distances, self.form, solution.facts)]
        values += [Rows.of(sums, form, None) for _, form, sums in self.costs_of(solution)]
        for some, part in _groups(len(sources), len(vertex)):
            n_sources, n_vertices = some.stop - some.start, part.stop - part.start
            chunks = [
                pages.source_chunk(names[some], n_vertices, compression),
                ids_of_rows.chunk(part, n_sources),
                *(rows.chunk(some, part) for rows in values),
            ]
            if solution.predecessors is not None:
                row = solution.predecessors[some, part].reshape(-1)
                chunks.append(_predecessor_chunk(row, ids, compression))
            sorted_by = (0, 1) if ids_of_rows.is_rising else (0,)
            writer.write_group(chunks, sorted_by if all(map(lt, names[some], names[some][1:])) else ())
        writer.close()

    def read(self, stored: Files, places: Sequence[int], ids: VertexIds, dtype: np.dtype) -> StoredRows:
        vertex = self.vertex_column(ids)
        with opened(stored[0]) as file:
            for source, row in _stored_rows(file, vertex, places, self.column):
                yield source, self.form.as_solved(row, dtype)

    def tables(
        self, stored: Files, sources: pa.Array, vertices: pa.Array | None, columns: Sequence[str] | None
    ) -> Iterator[pa.Table]:
        wanted = {"source": sources, "vertex": vertices}
        with opened(stored[0]) as file:
            for group in groups_with(file, wanted):
                rows = file.read_row_group(group, columns=columns, use_threads=False)
                for name, ids in wanted.items():
                    if ids is not None:
                        rows = rows.filter(pc.is_in(rows[name].cast(ids.type), value_set=ids))
                yield rows

    def vertex_ids(self, stored: StoredFile, n: int) -> pa.Array:
        ids: list[pa.Array] = []
        with opened(stored) as file:
            for group in range(file.num_row_groups):
                ids += file.read_row_group(group, columns=["vertex"], use_threads=False)["vertex"].chunks
                if sum(map(len, ids)) >= n:
                    break
        return pa.concat_arrays(ids)[:n]

    def blocks(self, files: Sequence[FilesOfSources], n_vertices: int, n_rows: int) -> Iterator[Block]:
        vertices: pa.Array | None = None
        for of_batch in files:
            (stored,), sources = of_batch.stored, of_batch.sources
            if vertices is None:
                vertices = self.vertex_ids(stored, n_vertices)
            with opened(stored) as file:
                rows = file.read(columns=["distance"], use_threads=False)["distance"]
                if len(rows) != len(sources) * n_vertices:
                    raise ValueError(f"it has {len(rows)} rows, not {len(sources)} times {n_vertices}")
            for first in range(0, len(sources), n_rows):
                some = sources[first : first + n_rows]
                yield Block(some, vertices, rows.slice(first * n_vertices, len(some) * n_vertices))


class ReachedLayout(LongLayout):
    """A row for each source and each vertex that it reaches. Every source reaches itself, so it has a row."""

    @property
    def reads_facts(self) -> bool:
        return True

    @property
    def reached_only(self) -> bool:
        return True

    def write(self, handle: Any, sources: np.ndarray, solution: Solution, ids: VertexIds) -> None:
        found = reached_of(solution)
        columns = {
            "source": ids.of_sources(sources).take(pa.array(found.places)),
            "vertex": ids.originals(found.vertices),
            "distance": pa.array(self.form.as_written(found.distances)),
        }
        for cost, form, sums in self.costs_of(solution):
            columns[cost.name] = pa.array(form.as_written(sums[found.places, found.vertices]))
        options = {"compression": self.form.compression, "row_group_size": REACHED_GROUP_ROWS}
        write_parquet(pa.table(columns), handle, **options)

    def read(self, stored: Files, places: Sequence[int], ids: VertexIds, dtype: np.dtype) -> StoredRows:
        place, row = -1, np.empty(0, dtype)
        name: Any = None
        with opened(stored[0]) as file:
            for group in range(file.num_row_groups):  # one at a time: a batch may have many rows
                table = file.read_row_group(group, columns=["source", "vertex", self.column])
                runs = pc.run_end_encode(table["source"].combine_chunks())
                begin = 0
                for source, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
                    if source != name:
                        if place in places:
                            yield name, row
                        place, name = place + 1, source
                        row = np.full(ids.n_vertices, csr.unreached_distance(dtype))
                    if place in places:
                        rows = table.slice(begin, end - begin)
                        reached = ids.vertices(
                            rows["vertex"].to_pylist(), f"`{files.redacted(stored[0].url)}`: vertex"
                        )
                        row[reached] = self.form.as_solved(rows[self.column], dtype)
                    begin = end
        if place in places:
            yield name, row


def _groups(n_sources: int, n_vertices: int) -> Iterator[tuple[slice, slice]]:
    """Yield the sources and the vertices of each row group: several whole sources, or part of one source."""
    per_group = max(1, GROUP_ROWS // n_vertices)
    for first in range(0, n_sources, per_group):
        some = slice(first, min(first + per_group, n_sources))
        for begin in range(0, n_vertices, GROUP_ROWS):
            yield some, slice(begin, min(begin + GROUP_ROWS, n_vertices))


def _predecessor_chunk(predecessors: np.ndarray, ids: VertexIds, compression: str) -> pages.Chunk:
    none = predecessors == csr.NO_VERTEX
    named = ids.originals(np.where(none, 0, predecessors))
    if ids.mapping.type == "int64":
        return pages.plain_chunk(named.to_numpy(), compression, missing=none)
    return pages.encoded_chunk(pc.if_else(pa.array(none), None, named), compression, None)


def _stored_rows(
    file: pq.ParquetFile, vertex: pa.Array, wanted: Container[int], column: str
) -> Iterator[tuple[int | str, pa.ChunkedArray]]:
    n = len(vertex)
    sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    starts = np.cumsum([0, *sizes])
    if starts[-1] % n:
        raise ValueError(f"it has {starts[-1]} rows, no multiple of {n} vertices")
    group, table = -1, pa.table({})
    for place in range(starts[-1] // n):
        if place not in wanted:
            continue
        first, last = place * n, (place + 1) * n
        holding = range(int(np.searchsorted(starts, first, "right")) - 1, int(np.searchsorted(starts, last)))
        source: Any = None
        values: list[pa.Array] = []
        for number in holding:  # one group at a time: the ids of a long row are not held together
            if number != group:  # a group with several sources is read once
                group, table = number, file.read_row_group(number, columns=["source", "vertex", column])
            begin = max(first - int(starts[group]), 0)
            rows = table.slice(begin, last - int(starts[group]) - begin)
            if not rows.num_rows:
                continue
            source = rows["source"][0] if source is None else source
            if pc.any(pc.not_equal(rows["source"], source)).as_py():
                raise ValueError(f"the rows of source {source} are not together")
            check_vertices(rows["vertex"], vertex.slice(int(starts[group]) + begin - first, rows.num_rows))
            values += rows[column].chunks
        yield source.as_py(), pa.chunked_array(values)
