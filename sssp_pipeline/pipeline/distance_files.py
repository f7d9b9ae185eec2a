"""The Parquet file of one batch's distances, in either layout, and how it is read back.

The encodings are chosen, not left to pyarrow: in the long layout a source is one dictionary entry, vertices are
differences of 1 and take next to nothing, distances are plain.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sssp_pipeline.csr import NO_VERTEX, unreached_distance
from sssp_pipeline.errors import InputError, UnsolvableError
from sssp_pipeline.kernels.solver import Solution
from sssp_pipeline.pipeline import storage
from sssp_pipeline.pipeline.vertex_ids import VertexIds

#: Rows of one row group in the long layout, at least one source; a reader of one source skips the others.
LONG_GROUP_ROWS = 2**20
WIDE_GROUP_ROWS = 2**20


@dataclass(frozen=True)
class DistanceFormat:
    """How distances are written; part of a run's identity."""

    layout: str
    unreached: float | None
    compression: str
    predecessors: bool


def write_distances(
    handle: Any, sources: np.ndarray, solution: Solution, ids: VertexIds, form: DistanceFormat
) -> None:
    """Write the distances (S, V) from `sources` (S,) to `handle`, in the layout of `form`.

    Raises
    ------
    UnsolvableError
        `form.unreached` is the distance of a reached vertex, or a source's id cannot name a column.
    """
    if form.layout == "wide":
        _write_wide(handle, sources, solution, ids, form)
    else:
        _write_long(handle, sources, solution, ids, form)


def _write_long(
    handle: Any, sources: np.ndarray, solution: Solution, ids: VertexIds, form: DistanceFormat
) -> None:
    vertex = ids.column()
    names = ids.originals(sources)
    per_group = max(1, LONG_GROUP_ROWS // max(1, ids.n_vertices))
    integer_ids = ids.mapping.type == "int64"
    distance_type = pa.from_numpy_dtype(solution.distances.dtype)
    columns = [("source", names.type), ("vertex", vertex.type), ("distance", distance_type)]
    encodings = {"distance": "PLAIN"}
    if integer_ids:
        encodings["vertex"] = "DELTA_BINARY_PACKED"
    if solution.predecessors is not None:
        columns.append(("predecessor", vertex.type))
        if integer_ids:
            encodings["predecessor"] = "PLAIN"
    with pq.ParquetWriter(
        handle,
        pa.schema(columns),
        compression=form.compression,
        use_dictionary=["source"] if integer_ids else ["source", "vertex", "predecessor"],
        column_encoding=encodings,
        write_statistics=True,
    ) as writer:
        for begin in range(0, len(sources), per_group):
            some = slice(begin, min(begin + per_group, len(sources)))
            count = some.stop - some.start
            which = np.repeat(np.arange(count, dtype=np.int32), ids.n_vertices)
            arrays = [
                pa.DictionaryArray.from_arrays(which, names[some.start : some.stop]).cast(names.type)
                if not integer_ids
                else np.repeat(names[some.start : some.stop].to_numpy(), ids.n_vertices),
                pa.concat_arrays([vertex] * count),
                _distance_array(solution.distances[some].reshape(-1), form.unreached),
            ]
            if solution.predecessors is not None:
                arrays.append(_predecessor_array(solution.predecessors[some].reshape(-1), ids))
            writer.write_table(
                pa.table(arrays, schema=pa.schema(columns)), row_group_size=count * ids.n_vertices or None
            )


def _write_wide(
    handle: Any, sources: np.ndarray, solution: Solution, ids: VertexIds, form: DistanceFormat
) -> None:
    names = [str(name) for name in ids.originals(sources).to_pylist()]
    if "vertex" in names:
        raise UnsolvableError(
            "a source has the id `vertex`, which is the name of another column of the wide layout",
            hint="set `output.layout: long`",
        )
    arrays = [ids.column(), *(_distance_array(row, form.unreached) for row in solution.distances)]
    integer_ids = ids.mapping.type == "int64"
    pq.write_table(
        pa.table(arrays, names=["vertex", *names]),
        handle,
        compression=form.compression,
        use_dictionary=False,
        column_encoding=dict.fromkeys(names, "PLAIN")
        | ({"vertex": "DELTA_BINARY_PACKED"} if integer_ids else {}),
        row_group_size=WIDE_GROUP_ROWS,
    )


def _distance_array(distances: np.ndarray, unreached: float | None) -> pa.Array:
    nobody = unreached_distance(distances.dtype)
    missing = distances == nobody
    if not missing.any():
        return pa.array(distances)
    if unreached is not None:
        stand_in = distances.dtype.type(unreached)
        if ((distances == stand_in) & ~missing).any():
            raise UnsolvableError(
                f"`output.unreached` is {unreached}, which is also the distance of a reached vertex",
                hint="choose a number that is no distance, or null",
            )
        return pa.array(np.where(missing, stand_in, distances))
    validity = pa.array(~missing).buffers()[1]
    kind = pa.from_numpy_dtype(distances.dtype)
    return pa.Array.from_buffers(
        kind, len(distances), [validity, pa.py_buffer(np.ascontiguousarray(distances))]
    )


def _predecessor_array(predecessors: np.ndarray, ids: VertexIds) -> pa.Array:
    none = predecessors == NO_VERTEX
    return pc.if_else(pa.array(none), None, ids.originals(np.where(none, 0, predecessors)))


def read_distances(
    url: str,
    ids: VertexIds,
    form: DistanceFormat,
    dtype: np.dtype,
    wanted: Container[int],
) -> Iterator[tuple[int | str, np.ndarray]]:
    """Yield the sources at the `wanted` places of the batch in the file `url`: their ids and distances (V,).

    Unreached vertices have `csr.unreached_distance(dtype)`, as a solver gives them.

    Raises
    ------
    InputError
        The file is damaged, or its vertices are not the graph's.
    """
    try:
        file = pq.ParquetFile(pa.BufferReader(storage.read_bytes(url)))
        rows = _wide_rows(file, ids, wanted) if form.layout == "wide" else _long_rows(file, ids, wanted)
        for source, stored in rows:
            yield source, _distances(stored, form.unreached, dtype)
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise InputError(
            f"`{storage.redacted(url)}` is damaged: {error}",
            hint="remove the run folder and run the same command again",
        ) from error


def _long_rows(
    file: pq.ParquetFile, ids: VertexIds, wanted: Container[int]
) -> Iterator[tuple[int | str, pa.ChunkedArray]]:
    n = ids.n_vertices
    place = 0
    for group in range(file.num_row_groups):
        n_rows = file.metadata.row_group(group).num_rows
        if n_rows % n:
            raise ValueError(f"row group {group} has {n_rows} rows, no multiple of {n} vertices")
        begins = [i * n for i in range(n_rows // n) if place + i in wanted]
        place += n_rows // n
        if not begins:
            continue
        table = file.read_row_group(group, columns=["source", "vertex", "distance"])
        for begin in begins:
            rows = table.slice(begin, n)
            source = rows["source"][0].as_py()
            if pc.any(pc.not_equal(rows["source"], rows["source"][0])).as_py():
                raise ValueError(f"the rows of source {source} are not together")
            _check_vertices(rows["vertex"], ids)
            yield source, rows["distance"]


def _wide_rows(
    file: pq.ParquetFile, ids: VertexIds, wanted: Container[int]
) -> Iterator[tuple[int | str, pa.ChunkedArray]]:
    _check_vertices(file.read(columns=["vertex"])["vertex"], ids)
    for place, name in enumerate(file.schema_arrow.names[1:]):
        if place in wanted:
            yield (name if ids.mapping.type == "string" else int(name)), file.read(columns=[name])[name]


def _check_vertices(column: pa.ChunkedArray, ids: VertexIds) -> None:
    if not column.combine_chunks().equals(pa.chunked_array([ids.column()]).combine_chunks()):
        raise ValueError("column vertex does not list the graph's vertices in order")


def _distances(column: pa.ChunkedArray, unreached: float | None, dtype: np.dtype) -> np.ndarray:
    nobody = unreached_distance(dtype)
    filled: np.ndarray = pc.fill_null(column, pa.scalar(nobody.item(), column.type)).to_numpy()
    if filled.dtype != dtype:
        raise ValueError(f"distances have type {filled.dtype}, the graph's weights {dtype}")
    return filled if unreached is None else np.where(filled == dtype.type(unreached), nobody, filled)


def check_unreached(unreached: float | None, dtype: np.dtype) -> None:
    """Raise `InputError` unless `unreached` can stand in a column of `dtype`."""
    if unreached is not None and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if not (float(unreached).is_integer() and limits.min <= unreached <= limits.max):
            raise InputError(
                f"`output.unreached` is {unreached}, which the distances' type {dtype} cannot hold",
                hint="null writes NULL",
            )
