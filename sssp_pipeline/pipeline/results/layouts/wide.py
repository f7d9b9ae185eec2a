"""The wide layout of a run: a row for each vertex, and a column for each source.

A batch has some of the columns. Readers of several files take the columns of the first one and append the rows of the
others, which would be wrong here. So the rows of a batch are kept as they are in memory until the run has all batches.
Then these files are written, which are cut along the vertices:

```
<run>/distances/wide-00000.parquet      the first vertices, all sources
<run>/distances/wide-00001.parquet      the next vertices, all sources
```

All files have the same columns, so any reader of several Parquet files reads them as one table. The number of rows in a
file depends only on the number of sources and the type of the distances, so the bytes are the same on every machine.

In a local folder the rows of a batch are one buffer, and the wide files are written from the mapped file. In an object
store they are cut into tiles of `TILE` vertices. A tile has the distances of its vertices, one source after the other.
So what a wide file needs of a batch is one part of an object.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.csr import unreached_distance
from sssp_pipeline.base.errors import InputError, UnsolvableError
from sssp_pipeline.base.host_memory import free_memory_bytes
from sssp_pipeline.base.progress import Progress
from sssp_pipeline.base.vertex_ids import VertexIds
from sssp_pipeline.kernels.contract import row_facts
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.pipeline.formats.arrow_compute import pc
from sssp_pipeline.pipeline.results.distance_files import DistanceFormat, opened
from sssp_pipeline.pipeline.results.layouts.layout import (
    Block,
    DistanceLayout,
    Files,
    FilesOfSources,
    StoredRows,
    check_vertices,
    groups_with,
)
from sssp_pipeline.pipeline.results.run_files import AGAIN, tiles_file
from sssp_pipeline.storage import files
from sssp_pipeline.storage.file_sums import FileSum, StoredFile, write_parquet, write_summed

if TYPE_CHECKING:
    from sssp_pipeline.kernels.contract.solver import Solution
    from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
    from sssp_pipeline.pipeline.results.run_folder import RunFolder

#: Vertices of a tile. Another number needs another `writer` in the identity of a run.
TILE = 2**14
#: Bytes of distances in a wide file, at least `LEAST_ROWS` rows.
PART_BYTES = 2**28
#: The fewest rows of a wide file, however many sources there are: the footer of each file describes every column.
LEAST_ROWS = 1024
#: Parts of batches that are requested from an object store at a time.
_READERS = 16


class WideLayout(DistanceLayout):
    """A row for each vertex and a column for each source."""

    writer = "tiles"
    has_all_sources = True

    def batch_file(self, batch: int) -> str:
        return tiles_file(batch)

    def id_bytes(self, n_columns: int, n_sources: int, *, rising: bool) -> int:
        return 8 * n_columns

    def write(self, handle: Any, sources: np.ndarray, solution: Solution, ids: VertexIds) -> None:
        # They stay as they were solved until the wide files are written.
        if "vertex" in ids.of_sources(sources).to_pylist():
            raise UnsolvableError(
                "a source has the id `vertex`, which is the name of another column of the wide layout",
                hint="set `output.layout: long`",
            )
        if self.form.unreached is not None:  # or else the wide files could not be written
            self.form.with_stand_in(self.form.as_written(solution.distances))
        rows = np.ascontiguousarray(solution.distances)
        if getattr(handle, "keeps_buffers", False):  # it will be an object
            tiles = (rows[:, begin : begin + TILE] for begin in range(0, rows.shape[1], TILE))
            handle.writelines(list(chain.from_iterable(tiles)))
        else:
            handle.write(rows)

    def finish(
        self, folder: RunFolder, batches: Sequence[np.ndarray], stored: StoredGraph, progress: Progress
    ) -> None:
        """Write the wide files from the rows of all `batches`.

        Raises
        ------
        InputError
            A batch is cut, or a file cannot be written.
        """
        progress.stage("merge")
        ids, dtype = folder.named_ids(stored.ids, folder.identity), stored.manifest.traits.weight_dtype
        vertex = self.vertex_column(ids)
        rows = [
            TiledRows(folder.path(tiles_file(batch)), (len(sources), len(vertex)), dtype)
            for batch, sources in enumerate(batches)
        ]
        names = list(map(str, ids.of_sources(np.concatenate(batches)).to_pylist()))
        folder.merge(write_wide_files(rows, folder.path("distances"), names, vertex, self.form), progress)

    def read(self, stored: Files, places: Sequence[int], ids: VertexIds, dtype: np.dtype) -> StoredRows:
        # All sources are read at once, so each file is opened once.
        if not places:
            return
        vertex = self.vertex_column(ids)
        first, parts = 0, []
        for each in stored:
            with opened(each) as file:
                names = file.schema_arrow.names[1:]
                part = file.read(columns=["vertex", *(names[place] for place in places)])
                check_vertices(part["vertex"], vertex.slice(first, part.num_rows))
                first += part.num_rows
                parts.append(part.drop_columns("vertex"))
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
        parts: dict[Any, list[pa.Table]] = {source_id: [] for source_id in names}
        for each in stored:
            with opened(each) as file:
                for group in groups_with(file, {"vertex": vertices}):
                    to_read = ["vertex", *map(str, names)]
                    rows = file.read_row_group(group, to_read, use_threads=False)
                    if vertices is not None:
                        rows = rows.filter(pc.is_in(rows["vertex"].cast(vertices.type), value_set=vertices))
                    for source_id, of_source in parts.items():
                        source = pa.repeat(pa.scalar(source_id, kind), rows.num_rows)
                        found = {"source": source, "vertex": rows["vertex"], "distance": rows[str(source_id)]}
                        of_source.append(pa.table({name: found[name] for name in columns or found}))
        yield from chain.from_iterable(parts.values())

    def vertex_ids(self, stored: StoredFile, n: int) -> pa.Array:
        with opened(stored) as file:
            return file.read(columns=["vertex"], use_threads=False)["vertex"].combine_chunks()

    def blocks(self, files: Sequence[FilesOfSources], n_vertices: int, n_rows: int) -> Iterator[Block]:
        for of_run in files:
            sources = of_run.sources
            vertices = pa.concat_arrays([self.vertex_ids(each, n_vertices) for each in of_run.stored])
            with ExitStack() as resources:
                parts = [resources.enter_context(opened(each)) for each in of_run.stored]
                for first in range(0, len(sources), n_rows):
                    some = sources[first : first + n_rows]
                    names = [str(name) for name in some.to_pylist()]
                    tables = [file.read(columns=names, use_threads=False) for file in parts]
                    rows = [chunk for name in names for table in tables for chunk in table[name].chunks]
                    yield Block(some, vertices, pa.chunked_array(rows))


@dataclass(frozen=True)
class TiledRows:
    """The distances of a batch as `WideLayout.write` wrote them, in tiles unless the file is local."""

    url: str
    #: (S, n) of the distances, and their type.
    shape: tuple[int, int]
    dtype: np.dtype

    def block(self, first: int, last: int) -> np.ndarray:
        """Return the distances (S, last - first) to some vertices, mapped if the file is local.

        Raises
        ------
        InputError
            The file is cut or cannot be read.
        """
        try:
            is_local = files.is_local(self.url)
            return self._mapped[:, first:last] if is_local else self._from_tiles(first, last)
        except InputError:
            raise
        except ValueError as error:
            raise InputError(f"`{files.redacted(self.url)}` is cut", hint=AGAIN) from error

    @cached_property
    def _mapped(self) -> np.ndarray:
        # Rows of a `memmap` are slow to make: each is an object of that class.
        return np.asarray(np.memmap(files.filesystem(self.url)[1], self.dtype, "r", shape=self.shape))

    def _from_tiles(self, first: int, last: int) -> np.ndarray:
        n_sources, n_vertices = self.shape
        column_bytes = n_sources * self.dtype.itemsize
        parts = []
        for begin in range(first - first % TILE, last, TILE):
            end = min(begin + TILE, n_vertices)
            content = files.read_range(self.url, begin * column_bytes, end * column_bytes)
            tile = np.frombuffer(content, self.dtype).reshape(n_sources, end - begin)
            parts.append(tile[:, max(first - begin, 0) : last - begin])
        return np.concatenate(parts, axis=1)


def write_wide_files(
    batches: Sequence[TiledRows], folder: str, names: Sequence[str], vertex: pa.Array, form: DistanceFormat
) -> Iterator[tuple[int, str, FileSum]]:
    """Write all `batches` to files below `folder`, with the columns `names` (S,) and the ids `vertex` (n,) of the rows.

    Yields, after each file, the number of vertices that are written, the name of the file and its sum.

    Raises
    ------
    InputError
        A batch is cut, or a file cannot be written.
    """
    width = form.dtype(batches[0].dtype).itemsize
    step = max(LEAST_ROWS, PART_BYTES // (len(names) * width))
    step -= step % TILE if step > TILE else 0
    encodings = dict.fromkeys(names, "PLAIN")
    if pa.types.is_integer(vertex.type):
        encodings["vertex"] = "DELTA_BINARY_PACKED"
    options = {"compression": form.compression, "row_group_size": row_facts.SEGMENT}
    options |= {"use_dictionary": False, "column_encoding": encodings}

    def write(first: int) -> tuple[int, str, FileSum]:
        last = min(first + step, len(vertex))
        blocks = readers.map(lambda batch: batch.block(first, last), batches)
        columns = chain.from_iterable(_columns(block, form) for block in blocks)
        table = pa.table([vertex[first:last], *columns], ["vertex", *names])
        name = f"wide-{first // step:05d}.parquet"
        url = files.join(folder, name)
        return last, name, write_summed(url, lambda file: write_parquet(table, file, **options))

    # Mapped rows take no memory. With NULL and stand-ins a file is in memory about twice, and so is one to upload.
    n_writers = min(usable_cores(), free_memory_bytes() // (4 * PART_BYTES)) if files.is_local(folder) else 1
    with ThreadPoolExecutor(_READERS) as readers, ThreadPoolExecutor(max(1, n_writers)) as writers:
        yield from writers.map(write, range(0, len(vertex), step))


def _columns(block: np.ndarray, form: DistanceFormat) -> Iterator[pa.Array]:
    """Yield the column of each source of `block`, (S, n) as it was solved."""
    values = form.as_written(block)
    unreached = unreached_distance(values.dtype)
    for row, has_unreached in zip(values, values.max(axis=1, initial=0) == unreached, strict=True):
        if form.unreached is not None:
            yield pa.array(form.with_stand_in(row))
        else:
            yield pa.array(row, mask=row == unreached if has_unreached else None)
