"""The wide layout: a file for each batch, with a row for each vertex and a column for each source of the batch.

After the columns of distances come those of the first second cost, then those of the next one, in the same order.

The rows of all files are the same vertices in the same order, so files are joined by position. The column `vertex` of
each of them says so. `docs/design/0031-wide-files.md` has the idea.

Earlier releases wrote `distances/wide-*.parquet` when all batches were there: each has all sources, and some of the
vertices. Whatever reads a run reads these too. So a source may be in several files, one below the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.errors import UnsolvableError
from sssp_pipeline.base.vertex_ids import VertexIds
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
from sssp_pipeline.storage.file_sums import StoredFile

if TYPE_CHECKING:
    from sssp_pipeline.kernels.contract.solver import Solution

#: The most rows of a row group, a multiple of `row_facts.SEGMENT`. A reader of some vertices skips other groups. Each
#: column of a group takes some 40 µs of Python.
GROUP_ROWS = 2**20


class WideLayout(DistanceLayout):
    """A row for each vertex; a column for each source, and one for each source and second cost."""

    writer = "columns"
    has_columns = True
    query = "SELECT * FROM {} LIMIT 10"
    #: The first file of a run, of an earlier release too.
    files = "distances/*-00000.parquet"

    def id_bytes(self, n_columns: int, n_sources: int, n_files: int, *, rising: bool) -> int:
        # Ids in order take a few bits a row, and ids in any order about 4 bytes.
        return 0 if rising else 4 * n_columns * n_files

    def write(self, handle: Any, sources: np.ndarray, solution: Solution, ids: VertexIds) -> None:
        names, vertex = ids.of_sources(sources).to_pylist(), self.vertex_column(ids)
        tables = [("distance", self.form, solution.distances)]
        tables += [(cost.name, form, sums) for cost, form, sums in self.costs_of(solution)]
        columns: list[tuple[str, pa.DataType]] = [("vertex", vertex.type)]
        for column, form, values in tables:
            kind = pa.from_numpy_dtype(form.dtype(values.dtype))
            columns += [(_name(source_id, column), kind) for source_id in names]
        schema = pa.schema(columns)
        others = {"vertex", *schema.names[1 + len(names) :]}
        if (taken := next((name for name in names if name in others), None)) is not None:
            raise UnsolvableError(
                f"a source has the id `{taken}`, which is the name of another column of the wide layout",
                hint="set `output.layout: long`",
            )
        writer = page_writer.PageWriter(handle, schema, self.form.compression)
        ids_of_rows = pages.RepeatedColumn.of(vertex, self.form.compression)
        rows = [Rows.of(solution.distances, self.form, solution.facts)]
        rows += [Rows.of(sums, form, None) for _, form, sums in tables[1:]]
        for begin in range(0, len(vertex), GROUP_ROWS):
            part = slice(begin, min(begin + GROUP_ROWS, len(vertex)))
            of_sources = (
                values.chunk(slice(place, place + 1), part) for values in rows for place in range(len(names))
            )
            chunks = chain([ids_of_rows.chunk(part, 1)], of_sources)
            writer.write_group(chunks, (0,) if ids_of_rows.is_rising else ())
        writer.close()

    def read(self, stored: Files, places: Sequence[int], ids: VertexIds, dtype: np.dtype) -> StoredRows:
        # All of them are read at once, so each file is opened once.
        if not places:
            return
        vertex = self.vertex_column(ids)
        first, parts = 0, []
        for each in stored:
            with opened(each) as file:
                names = file.schema_arrow.names[1:]
                sources = [names[place] for place in places]
                part = file.read(columns=["vertex", *(_name(source, self.column) for source in sources)])
                check_vertices(part["vertex"], vertex.slice(first, part.num_rows))
                first += part.num_rows
                parts.append(part.drop_columns("vertex").rename_columns(sources))
        with opened(stored[-1]):  # so that an error names the file
            check_vertices(pa.chunked_array([vertex.slice(0, first)]), vertex)
            table = pa.concat_tables(parts)
            for name in table.column_names:
                source = name if ids.has_text_sources else int(name)
                yield source, self.form.as_solved(table[name], dtype)

    def tables(
        self, stored: Files, sources: pa.Array, vertices: pa.Array | None, columns: Sequence[str] | None
    ) -> Iterator[pa.Table]:
        names, kind = sources.to_pylist(), sources.type
        values = ["distance", *(cost.name for cost in self.form.along)]
        parts: dict[Any, list[pa.Table]] = {source_id: [] for source_id in names}
        for each in stored:
            with opened(each) as file:
                for group in groups_with(file, {"vertex": vertices}):
                    to_read = ["vertex", *(_name(each, column) for each in names for column in values)]
                    rows = file.read_row_group(group, to_read, use_threads=False)
                    if vertices is not None:
                        rows = rows.filter(pc.is_in(rows["vertex"].cast(vertices.type), value_set=vertices))
                    for source_id, of_source in parts.items():
                        source = pa.repeat(pa.scalar(source_id, kind), rows.num_rows)
                        found = {"source": source, "vertex": rows["vertex"]}
                        found |= {column: rows[_name(source_id, column)] for column in values}
                        of_source.append(pa.table({name: found[name] for name in columns or found}))
        yield from chain.from_iterable(parts.values())

    def vertex_ids(self, stored: StoredFile, n: int) -> pa.Array:
        with opened(stored) as file:
            return file.read(columns=["vertex"], use_threads=False)["vertex"].combine_chunks()

    def blocks(self, files: Sequence[FilesOfSources], n_vertices: int, n_rows: int) -> Iterator[Block]:
        vertices: pa.Array | None = None
        for of_batch in files:
            sources = of_batch.sources
            if vertices is None:
                vertices = pa.concat_arrays([self.vertex_ids(each, n_vertices) for each in of_batch.stored])
            with ExitStack() as resources:
                parts = [resources.enter_context(opened(each)) for each in of_batch.stored]
                for first in range(0, len(sources), n_rows):
                    some = sources[first : first + n_rows]
                    names = [str(name) for name in some.to_pylist()]
                    tables = [file.read(columns=names, use_threads=False) for file in parts]
                    rows = [chunk for name in names for table in tables for chunk in table[name].chunks]
                    yield Block(some, vertices, pa.chunked_array(rows))


def _name(source_id: Any, column: str) -> str:
    """Return the name of the column with the distances from a source, or with a second cost."""
    return str(source_id) if column == "distance" else f"{source_id}/{column}"
