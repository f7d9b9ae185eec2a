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
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.csr import unreached_distance
from sssp_pipeline.base.errors import InputError, UnsolvableError
from sssp_pipeline.base.host_memory import free_memory_bytes
from sssp_pipeline.base.vertex_ids import VertexIds
from sssp_pipeline.kernels.contract import row_facts
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.pipeline.results.distance_files import (
    DistanceFormat,
    as_solved,
    as_written,
    check_vertices,
    opened,
    with_stand_in,
)
from sssp_pipeline.pipeline.results.run_files import AGAIN
from sssp_pipeline.storage import files
from sssp_pipeline.storage.file_sums import FileSum, StoredFile, write_parquet, write_summed

#: Vertices of a tile. Another number needs another `writer` in the identity of a run.
TILE = 2**14
#: Bytes of distances in a wide file, at least `LEAST_ROWS` rows.
PART_BYTES = 2**28
#: The fewest rows of a wide file, however many sources there are: the footer of each file describes every column.
LEAST_ROWS = 1024
#: Parts of batches that are requested from an object store at a time.
_READERS = 16


def write_rows(
    handle: Any, sources: np.ndarray, distances: np.ndarray, ids: VertexIds, form: DistanceFormat
) -> None:
    """Write `distances` (S, n) from `sources` (S,), as they were solved: in tiles if `handle` keeps its buffers.

    Raises
    ------
    UnsolvableError
        A wide file cannot hold them: `form.unreached` is the distance of a reached vertex, or the id of a source is
        the name of another column.
    """
    if "vertex" in ids.names(sources):
        raise UnsolvableError(
            "a source has the id `vertex`, which is the name of another column of the wide layout",
            hint="set `output.layout: long`",
        )
    if form.unreached is not None:
        with_stand_in(as_written(distances, form), form.unreached)
    rows = np.ascontiguousarray(distances)
    if getattr(handle, "keeps_buffers", False):  # it will be an object
        tiles = (rows[:, begin : begin + TILE] for begin in range(0, rows.shape[1], TILE))
        handle.writelines(list(chain.from_iterable(tiles)))
    else:
        handle.write(rows)


@dataclass(frozen=True)
class StoredRows:
    """What `write_rows` wrote, in tiles unless the file is local."""

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
    batches: Sequence[StoredRows],
    folder: str,
    names: Sequence[str],
    vertex: pa.Array,
    form: DistanceFormat,
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

    def write(first: int) -> tuple[int, str, FileSum]:
        last = min(first + step, len(vertex))
        blocks = readers.map(lambda batch: batch.block(first, last), batches)
        columns = chain.from_iterable(_columns(block, form) for block in blocks)
        table = pa.table([vertex[first:last], *columns], ["vertex", *names])
        options, name = _options(table.schema, form.compression), f"wide-{first // step:05d}.parquet"
        url = files.join(folder, name)
        return last, name, write_summed(url, lambda file: write_parquet(table, file, **options))

    # Mapped rows take no memory. With NULL and stand-ins a file is in memory about twice, and so is one to upload.
    n_writers = min(usable_cores(), free_memory_bytes() // (4 * PART_BYTES)) if files.is_local(folder) else 1
    with (
        ThreadPoolExecutor(_READERS) as readers,
        ThreadPoolExecutor(max(1, n_writers)) as writers,
    ):
        yield from writers.map(write, range(0, len(vertex), step))


def _columns(block: np.ndarray, form: DistanceFormat) -> Iterator[pa.Array]:
    """Yield the column of each source of `block`, (S, n) as it was solved."""
    values = as_written(block, form)
    unreached = unreached_distance(values.dtype)
    for row, has_unreached in zip(values, values.max(axis=1, initial=0) == unreached, strict=True):
        if form.unreached is not None:
            yield pa.array(with_stand_in(row, form.unreached))
        else:
            yield pa.array(row, mask=row == unreached if has_unreached else None)


def _options(schema: pa.Schema, compression: str) -> dict[str, Any]:
    """Return the options of `write_parquet` for a table in the wide layout."""
    integer_ids = pa.types.is_integer(schema.field("vertex").type)
    encoding = {"vertex": "DELTA_BINARY_PACKED"} if integer_ids else {}
    return {
        "compression": compression,
        "use_dictionary": False,
        "column_encoding": dict.fromkeys(schema.names[1:], "PLAIN") | encoding,
        "row_group_size": row_facts.SEGMENT,
    }


def read_wide_files(
    stored: Sequence[StoredFile],
    ids: VertexIds,
    form: DistanceFormat,
    dtype: np.dtype,
    wanted: Sequence[int],
    vertex: pa.Array,
) -> Iterator[tuple[int | str, np.ndarray]]:
    """Yield the id and the distances of each source at the `wanted` places of a run, as `read_distances` does.

    All of them are read at once, so each file is opened once.

    Raises
    ------
    InputError
        A file is damaged, or the ids of the vertices are not `vertex` (n,).
    """
    if not wanted:
        return
    first, parts = 0, []
    for each in stored:
        with opened(each) as file:
            names = file.schema_arrow.names[1:]
            part = file.read(columns=["vertex", *(names[place] for place in wanted)])
            check_vertices(part["vertex"], vertex.slice(first, part.num_rows))
            first += part.num_rows
            parts.append(part.drop_columns("vertex"))
    with opened(stored[-1]):  # so that an error names the file
        check_vertices(pa.chunked_array([vertex.slice(0, first)]), vertex)
        table = pa.concat_tables(parts)
        for name in table.column_names:
            source = name if ids.mapping.type == "string" else int(name)
            yield source, as_solved(table[name], form, dtype)
