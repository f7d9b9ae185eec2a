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
    with opened(batches[0]) as file:
        n_rows, kind = file.metadata.num_rows, file.schema_arrow.field(1).type
    n_sources = sum(_n_columns(url) - 1 for url in batches)
    step = max(LEAST_ROWS, PART_BYTES // (n_sources * (kind.bit_width // 8)))
    with ThreadPoolExecutor(usable_cores()) as readers:
        for number, first in enumerate(range(0, n_rows, step)):
            slices = readers.map(lambda url, first=first: _rows(url, first, first + step), batches)
            names: list[str] = []
            columns: list[pa.ChunkedArray] = []
            for some in slices:
                # The vertices are the same in every batch.
                names += some.column_names[1 if names else 0 :]
                columns += some.columns[1 if columns else 0 :]
            table = pa.table(columns, names)
            with files.open_atomic(files.join(folder, f"wide-{number:05d}.parquet")) as handle:
                pq.write_table(table, handle, **wide_options(table.schema, compression))
            yield min(first + step, n_rows)


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


def _n_columns(url: str) -> int:
    with opened(url) as file:
        return int(file.metadata.num_columns)


def _rows(url: str, first: int, last: int) -> pa.Table:
    """Return the rows [first, last) of a file, fewer where it ends."""
    with opened(url) as file:
        sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        starts = np.cumsum([0, *sizes])
        holding = range(int(np.searchsorted(starts, first, "right")) - 1, int(np.searchsorted(starts, last)))
        groups = [group for group in holding if group < len(sizes)]
        table = file.read_row_groups(groups, use_threads=False)
        return table.slice(first - int(starts[groups[0]]), last - first).combine_chunks()
