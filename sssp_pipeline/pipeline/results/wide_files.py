"""The wide layout of a run with several batches: a row for each vertex, and a column for each source of the run.

Batches are committed one by one, and each has other columns. Readers of several files take the columns of the first one
and append the rows of the others, which would be wrong here. So when all batches are there, they are replaced by files
that are cut along the vertices:

```
<run>/distances/wide-00000.parquet      the first vertices, all sources
<run>/distances/wide-00001.parquet      the next vertices, all sources
```

All files have the same columns, so any reader of several Parquet files reads them as one table. The number of rows in a
file depends only on the number of sources and the type of the distances, so the bytes are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.pipeline.results.distance_files import (
    DistanceFormat,
    as_solved,
    check_vertices,
    opened,
    wide_options,
)
from sssp_pipeline.pipeline.results.parquet_pages import CREATED_BY
from sssp_pipeline.pipeline.storage import files
from sssp_pipeline.vertex_ids import VertexIds

#: Bytes of distances in a file. The process that writes the files holds about twice as much, however long the run is.
PART_BYTES = 2**28
#: The fewest rows of a file, however many sources there are: the footer of each file describes every column.
LEAST_ROWS = 1024


def write_wide_files(batches: Sequence[str], folder: str, compression: str) -> Iterator[int]:
    """Write the columns of all `batches`, URLs of files in the wide layout, to files below `folder`.

    Yields the number of vertices that are written, after each file.

    Raises
    ------
    InputError
        A batch is damaged, or a file cannot be written.
    """
    parts = [_mapped(url) or _Encoded(url) for url in batches]
    n_rows, width = parts[0].n_rows, parts[0].type.bit_width // 8
    step = max(LEAST_ROWS, PART_BYTES // (sum(len(part.names) for part in parts) * width))
    names = ["vertex", *(name for part in parts for name in part.names)]
    with opened(batches[0]) as file:
        vertex = file.read(columns=["vertex"])["vertex"].combine_chunks()

    def write(first: int) -> int:
        slices = readers.map(lambda part: part.rows(first, first + step), parts)
        columns = [vertex.slice(first, step), *(column for some in slices for column in some)]
        table = pa.table(columns, names)
        with files.open_atomic(files.join(folder, f"wide-{first // step:05d}.parquet")) as handle:
            pq.write_table(table, handle, **wide_options(table.schema, compression))
        return min(first + step, n_rows)

    # Files of mapped batches take no memory, so several are written side by side.
    n_writers = usable_cores() if all(isinstance(part, _Mapped) for part in parts) else 1
    with ThreadPoolExecutor(usable_cores()) as readers, ThreadPoolExecutor(n_writers) as writers:
        yield from writers.map(write, range(0, n_rows, step))


def read_wide_files(
    urls: Sequence[str],
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
    for url in urls:
        with opened(url) as file:
            names = file.schema_arrow.names[1:]
            part = file.read(columns=["vertex", *(names[place] for place in wanted)])
            check_vertices(part["vertex"], vertex.slice(first, part.num_rows))
            first += part.num_rows
            parts.append(part.drop_columns("vertex"))
    with opened(urls[-1]):  # so that an error names the file
        check_vertices(pa.chunked_array([vertex.slice(0, first)]), vertex)
        table = pa.concat_tables(parts)
        for name in table.column_names:
            source = name if ids.mapping.type == "string" else int(name)
            yield source, as_solved(table[name], form, dtype)


class _Encoded:
    """The columns of a batch, decoded by pyarrow whenever rows are asked for."""

    def __init__(self, url: str) -> None:
        self.url = url
        with opened(url) as file:
            self.names, self.n_rows = file.schema_arrow.names[1:], file.metadata.num_rows
            self.type = file.schema_arrow.field(1).type

    def rows(self, first: int, last: int) -> list[pa.Array]:
        """Return the rows [first, last) of each column, fewer where the file ends."""
        with opened(self.url) as file:
            sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
            starts = np.cumsum([0, *sizes])
            begin = int(np.searchsorted(starts, first, "right")) - 1
            groups = range(begin, min(int(np.searchsorted(starts, last)), len(sizes)))
            table = file.read_row_groups(groups, columns=self.names, use_threads=False)
            rows = table.slice(first - int(starts[begin]), last - first).combine_chunks()
            return [column.chunk(0) for column in rows.columns]


class _Mapped(_Encoded):
    """The columns of a local batch without NULL and compression, which lie in the mapped file as in memory."""

    def __init__(self, url: str, file: pq.ParquetFile) -> None:
        super().__init__(url)
        groups = [file.metadata.row_group(group) for group in range(file.num_row_groups)]
        width = self.type.bit_width // 8
        self._starts = np.cumsum([0, *(group.num_rows for group in groups)])
        #: (groups, columns): where the values of each chunk begin. They are the last bytes of the chunk.
        self._offsets = np.array(
            [
                [
                    chunk.data_page_offset + chunk.total_compressed_size - group.num_rows * width
                    for chunk in map(group.column, range(1, group.num_columns))
                ]
                for group in groups
            ]
        )
        self._content = pa.memory_map(files.filesystem(url)[1]).read_buffer()

    def rows(self, first: int, last: int) -> list[pa.Array]:
        last, kind = min(last, self.n_rows), self.type.to_pandas_dtype()
        columns: list[list[pa.Array]] = [[] for _ in self.names]
        for begin, end, offsets in zip(self._starts, self._starts[1:], self._offsets, strict=False):
            low, high = max(first, begin), min(last, end)
            for column, offset in zip(columns, offsets.tolist(), strict=True):
                if low < high:
                    at = offset + (int(low) - int(begin)) * np.dtype(kind).itemsize
                    column.append(pa.array(np.frombuffer(self._content, kind, int(high - low), at)))
        return [pa.concat_arrays(column) if len(column) > 1 else column[0] for column in columns]


def _mapped(url: str) -> _Mapped | None:
    """Return the columns of `url` as mapped memory, None where they must be decoded."""
    if not files.is_local(url):
        return None
    with opened(url) as file:
        if file.metadata.created_by != CREATED_BY:  # another writer may cut a chunk into several pages
            return None
        groups = map(file.metadata.row_group, range(file.num_row_groups))
        for chunk in (group.column(place) for group in groups for place in range(1, group.num_columns)):
            has_null = chunk.statistics is None or chunk.statistics.null_count != 0
            if has_null or chunk.compression != "UNCOMPRESSED" or set(chunk.encodings) - {"PLAIN", "RLE"}:
                return None
        return _Mapped(url, file)
