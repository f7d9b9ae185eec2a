"""The distances of a finished run as one file or Zarr group: a matrix with a row for each source, in their order.

The matrix is read and written in blocks of some sources, so it may be larger than memory. Its columns are the vertices,
or the targets in the order in which the workflow names them. Answers, and distances to reached vertices only, are no
matrix: they become a table with the rows that the run has. So does a table of distances with second costs; an array has
the distances only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.progress import Progress, Quiet
from sssp_pipeline.parquet.arrow_arrays import numpy_type
from sssp_pipeline.pipeline.formats.arrow_compute import pc
from sssp_pipeline.pipeline.results.exports.file_format import FileFormat, format_of
from sssp_pipeline.pipeline.results.exports.matrices.matrix import Matrix
from sssp_pipeline.pipeline.results.exports.matrices.npy_matrix import write_npy
from sssp_pipeline.pipeline.results.exports.matrices.omx_matrix import write_omx
from sssp_pipeline.pipeline.results.exports.matrices.zarr_matrix import write_zarr
from sssp_pipeline.pipeline.results.exports.tables import TABLE_FORMATS
from sssp_pipeline.pipeline.results.folder.distance_files import check_unreached
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.pipeline.results.layouts.layout import Block
from sssp_pipeline.pipeline.results.stored import StoredResults
from sssp_pipeline.storage.redaction import redacted

#: The formats that have numbers only. Their writers take the URL and a `Matrix`.
ARRAY_FORMATS = (
    FileFormat((".npy",), write_npy),
    FileFormat((".zarr",), write_zarr),
    FileFormat((".omx",), write_omx),
)
#: Names of the columns of a table, unless the user names others.
COLUMNS = ("source", "vertex", "distance")
#: Bytes of distances in a block.
BLOCK_BYTES = 2**24


def export_matrix(
    folder: RunFolder,
    url: str,
    *,
    columns: Sequence[str] = COLUMNS,
    sparse: bool = False,
    unreached: float | None = None,
    progress: Progress = Quiet(),  # noqa: B008
) -> None:
    """Write the distances or the answers of the finished run in `folder` to the file `url`.

    Parameters
    ----------
    url
        A name that ends like one of `TABLE_FORMATS` (a row for each pair) or of `ARRAY_FORMATS` (an array (S, n)).
    columns
        Names in a table: of the source, of the vertex and of the distance.
    sparse
        Leave out the pairs without a path; only in a table.
    unreached
        The number that stands for "no path". Without it a table has NULL, and an array of floats infinity.
    progress
        Gets the number of sources that are written.

    Raises
    ------
    InputError
        The run is not finished or has metrics only, the options contradict each other, `url` exists, a file of the
        run is damaged, `unreached` is the distance of a path or does not fit the type of the distances, or an array of
        integers has a pair without a path and `unreached` is None. Or a package for the format is missing.
    """
    record = folder.read_run()
    stored = StoredResults(folder, record)
    chosen = format_of(url, (*TABLE_FORMATS, *ARRAY_FORMATS)) if stored.output.is_matrix else None
    is_array = chosen in ARRAY_FORMATS
    if chosen is None or (stored.output.form.along and not is_array):
        if sparse or unreached is not None or tuple(columns) != COLUMNS:
            of_matrix, of_distances = ("a matrix", "holds none"), ("distances only", "has second costs too")
            what, fault = of_matrix if chosen is None else of_distances
            raise InputError(
                f"`columns`, `sparse` and `unreached` go with {what}, and `{stored.url}` {fault}",
                hint="leave them out: the file has the columns and rows of the run",
            )
        _export_rows(stored, url)
        return
    if is_array and (sparse or tuple(columns) != COLUMNS):
        raise InputError(
            f"an array ({chosen.suffixes[0]}) has no {'sparse form' if sparse else 'names of columns'}",
            hint="write a `.parquet` or `.csv` file, or leave the option out",
        )
    if sparse and unreached is not None:
        raise InputError(
            "`sparse` and `unreached` contradict each other: a sparse file has no pair without a path",
            hint="leave one of them out",
        )
    if len(columns) != len(COLUMNS) or len(set(columns)) != len(COLUMNS) or "" in columns:
        raise InputError(
            f"`columns` is {', '.join(columns)!r}, not three different names",
            hint="name the columns of source, vertex and distance: `otaz,dtaz,TIME`",
        )
    dtype = stored.dtype
    check_unreached(unreached, dtype, "unreached", "choose a whole number from {least} to {largest}")
    blocks = _blocks(stored, record["sources"], progress)
    if is_array:
        numbers = ((block.sources, block.vertices, _numbers(block, unreached, dtype)) for block in blocks)
        chosen.write(url, Matrix(numbers, (record["sources"], stored.n_columns), dtype, unreached))
        return
    types = stored.sources.type, stored.vertex_type, pa.from_numpy_dtype(dtype)
    schema = pa.schema(list(zip(columns, types, strict=True)))
    chosen.write(url, (_table(block, schema, sparse, unreached, dtype) for block in blocks), schema)


def _export_rows(stored: StoredResults, url: str) -> None:
    """Write the rows as the run has them."""
    if not stored.output.has_files:
        raise InputError(
            f"`{stored.url}` holds metrics only, in `metrics.parquet`",
            hint="run it with `output.distances: full`, `reached`, `reduced`, `nearest` or `pairs`",
        )
    if url.endswith(tuple(suffix for array in ARRAY_FORMATS for suffix in array.suffixes)):
        raise InputError(
            f"`{redacted(url)}` is an array of all distances, and `{stored.url}` holds none",
            hint="write a `.parquet` or `.csv` file: it has the columns and rows of the run",
        )
    chosen = format_of(url, TABLE_FORMATS)
    tables = stored.all_tables()
    first = next(tables)
    chosen.write(url, chain([first], tables), first.schema)


def _with_null(block: Block, unreached: float | None) -> Block:
    """Return `block` with NULL for the number that a run stored for pairs without a path, if it stored one."""
    if unreached is None:
        return block
    kind = block.distances.type
    is_reached = pc.not_equal(block.distances, pa.scalar(numpy_type(kind).type(unreached).item(), kind))
    return replace(block, distances=pc.if_else(is_reached, block.distances, pa.scalar(None, kind)))


def _filled(block: Block, unreached: float, dtype: np.dtype) -> pa.ChunkedArray:
    """Return the distances with `unreached` for NULL; raise `InputError` if it is the distance of a path."""
    stand_in = pa.scalar(dtype.type(unreached).item(), block.distances.type)
    place = pc.index(block.distances, stand_in).as_py()
    if place >= 0:
        source, vertex = divmod(place, len(block.vertices))
        raise InputError(
            f"`unreached` is {unreached}, which is also the distance from `{block.sources[source]}` to "
            f"`{block.vertices[vertex]}`",
            hint="choose a number that is no distance",
        )
    return block.distances.fill_null(stand_in)


def _blocks(stored: StoredResults, n_sources: int, progress: Progress) -> Iterator[Block]:
    done = 0
    for block in stored.blocks(BLOCK_BYTES):
        yield _with_null(block, stored.output.form.unreached)
        done += len(block.sources)
        progress.advance(done, n_sources, "sources")


def _table(
    block: Block, schema: pa.Schema, sparse: bool, unreached: float | None, dtype: np.dtype
) -> pa.Table:
    """Return a row for each pair of a block."""
    n_sources, n_vertices = len(block.sources), len(block.vertices)
    sources = block.sources.take(pa.array(np.repeat(np.arange(n_sources), n_vertices)))
    vertices = block.vertices.take(pa.array(np.tile(np.arange(n_vertices), n_sources)))
    distances = block.distances if unreached is None else _filled(block, unreached, dtype)
    table = pa.table([sources, vertices, distances], schema=schema)
    return table.filter(distances.is_valid()) if sparse else table


def _numbers(block: Block, unreached: float | None, dtype: np.dtype) -> np.ndarray:
    """Return the distances (k, n) as an array, which has no NULL; raise `InputError` if no number stands for NULL."""
    distances = block.distances
    stand_in = np.inf if unreached is None and dtype.kind == "f" else unreached
    if distances.null_count and stand_in is None:
        source, vertex = divmod(distances.is_valid().index(False).as_py(), len(block.vertices))
        raise InputError(
            f"there is no path from `{block.sources[source]}` to `{block.vertices[vertex]}`, and an array of "
            f"{dtype} has no number for that",
            hint="name one as `unreached`, such as 4294967295, or write a `.parquet` file",
        )
    if stand_in is not None:
        distances = _filled(block, stand_in, dtype)
    return distances.to_numpy().astype(dtype, copy=False).reshape(len(block.sources), -1)
