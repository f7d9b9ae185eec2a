"""Tables with types: Parquet files, and Arrow (Feather) files and streams."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sssp_pipeline.errors import InputError
from sssp_pipeline.pipeline import storage
from sssp_pipeline.pipeline.formats.byte_streams import is_compressed, opened
from sssp_pipeline.pipeline.formats.edge_list import EdgeChunk, EdgeList, ReadOptions
from sssp_pipeline.pipeline.formats.line_reader import MAX_ID
from sssp_pipeline.pipeline.formats.magic import ARROW_FILE_MAGIC, PARQUET_MAGIC
from sssp_pipeline.pipeline.formats.ordered import map_in_order
from sssp_pipeline.pipeline.formats.tables import EdgeColumns, choose_columns, refuse_mixed_weights

#: Source, target and weight of 8 bytes each.
_EDGE_BYTES = 24


@dataclass(frozen=True)
class _Table:
    url: str
    columns: EdgeColumns
    id_kind: str
    weight_dtype: np.dtype | None


def open_parquet(urls: list[str], options: ReadOptions) -> EdgeList:
    """Return the edge list in the Parquet or Arrow files `urls`, one after the other.

    Raises
    ------
    InputError
        A file is damaged or compressed as a whole, lacks a column that is asked for, has a column of a type
        that cannot serve, or files differ in what they hold.
    """
    tables = [_open_table(url, options) for url in urls]
    refuse_mixed_weights(urls, [table.columns for table in tables])
    for table in tables:
        if table.id_kind != tables[0].id_kind:
            raise InputError(
                f"`{storage.redacted(urls[0])}` has {tables[0].id_kind} ids, "
                f"`{storage.redacted(table.url)}` {table.id_kind} ids",
                hint="set `graph.ids: string` to read all of them as strings",
            )
    dtypes = [table.weight_dtype for table in tables if table.weight_dtype is not None]

    def read(n_threads: int) -> Iterator[EdgeChunk]:
        n_edges = 0
        batches = (item for table in tables for item in _read_batches(table, options.block_bytes))
        for chunk in map_in_order(_to_chunk, batches, n_threads):
            n_edges += len(chunk)
            yield chunk
        if not n_edges:
            raise InputError(
                f"`{storage.redacted(urls[0])}` holds no edges", hint="check that this is the file you mean"
            )

    return EdgeList(
        "parquet",
        tables[0].id_kind,
        bool(dtypes),
        read,
        weight_dtype=np.result_type(*dtypes) if dtypes else None,
    )


def _open_table(url: str, options: ReadOptions) -> _Table:
    with _record_batches(url, 1) as (schema, _):
        columns = choose_columns(url, schema.names, options)
        kinds = [_id_kind(url, schema.field(name)) for name in (columns.source, columns.target)]
        weight = None if columns.weight is None else _weight_dtype(url, schema.field(columns.weight))
    if options.ids == "string":
        kinds = ["string", "string"]
    if options.ids == "integer" and "string" in kinds:
        name = (columns.source, columns.target)[kinds.index("string")]
        raise InputError(
            f"`{storage.redacted(url)}`: column `{name}` holds strings, integer ids are asked for",
            hint="set `graph.ids: string`",
        )
    if kinds[0] != kinds[1]:
        raise InputError(
            f"`{storage.redacted(url)}`: column `{columns.source}` holds {kinds[0]} ids, "
            f"column `{columns.target}` {kinds[1]} ids",
            hint="set `graph.ids: string` to read both as strings",
        )
    return _Table(url, columns, kinds[0], weight)


def _id_kind(url: str, field: pa.Field) -> str:
    type_ = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    if pa.types.is_integer(type_):
        return "integer"
    if pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return "string"
    raise InputError(
        f"`{storage.redacted(url)}`: column `{field.name}` has type {field.type}, ids are integers or strings",
        hint="choose other columns with `graph.columns.source` and `graph.columns.target`",
    )


def _weight_dtype(url: str, field: pa.Field) -> np.dtype:
    if not (pa.types.is_integer(field.type) or pa.types.is_floating(field.type)):
        raise InputError(
            f"`{storage.redacted(url)}`: column `{field.name}` has type {field.type}, weights are integers or floats",
            hint="choose another column with `graph.weights.column`, or none",
        )
    dtype: np.dtype = np.dtype(field.type.to_pandas_dtype())
    return dtype


@contextmanager
def _record_batches(url: str, rows: int, names: list[str] | None = None) -> Iterator[tuple]:
    """Give the schema of a file and an iterator over its batches of at most `rows` rows, of the columns `names`."""
    with opened(url) as stream:
        magic = stream.read(6)
    is_stream = not magic.startswith((PARQUET_MAGIC, ARROW_FILE_MAGIC))
    if not is_stream and is_compressed(url):
        raise InputError(
            f"`{storage.redacted(url)}` is compressed as a whole, but such a table is read from its end",
            hint="decompress it: its columns are compressed inside",
        )
    with opened(url) as stream, _arrow_errors(url):
        if magic.startswith(PARQUET_MAGIC):
            file = pq.ParquetFile(stream)
            yield file.schema_arrow, file.iter_batches(rows, columns=names)
            return
        reader = pa.ipc.open_stream(stream) if is_stream else pa.ipc.open_file(stream)
        whole = reader if is_stream else (reader.get_batch(i) for i in range(reader.num_record_batches))
        yield reader.schema, _cut(whole, rows, names)


def _cut(batches: Iterator[pa.RecordBatch], rows: int, names: list[str] | None) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        chosen = batch.select(names) if names else batch
        for start in range(0, len(chosen), rows):
            yield chosen.slice(start, rows)


@contextmanager
def _arrow_errors(url: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise InputError(
            f"`{storage.redacted(url)}` is cut short or damaged: {error}", hint="fetch or write it again"
        ) from error


def _read_batches(table: _Table, block_bytes: int) -> Iterator[tuple[_Table, int, pa.RecordBatch]]:
    n_rows = 0
    rows = max(1, block_bytes // _EDGE_BYTES)
    with _record_batches(table.url, rows, table.columns.names()) as (_, batches):
        for batch in batches:
            yield table, n_rows, batch
            n_rows += len(batch)


def _to_chunk(item: tuple[_Table, int, pa.RecordBatch]) -> EdgeChunk:
    table, row, batch = item
    for name in table.columns.names():
        if batch[name].null_count:
            i = pc.index(pc.is_null(batch[name]), True).as_py()
            raise InputError(
                f"`{storage.redacted(table.url)}` row {row + i + 1}: column `{name}` is null",
                hint="leave out rows without a value",
            )
    to_ids = _to_names if table.id_kind == "string" else _to_ids
    ends = [to_ids(table, row, batch[name], name) for name in (table.columns.source, table.columns.target)]
    weights = None
    if table.columns.weight is not None:
        weights = np.asarray(batch[table.columns.weight])
        if weights.dtype.kind == "f" and not np.isfinite(weights).all():
            i = int(np.argmin(np.isfinite(weights)))
            raise InputError(
                f"`{storage.redacted(table.url)}` row {row + i + 1}: weight `{weights[i]}` is not finite",
                hint="leave out edges that cannot be used",
            )
    return EdgeChunk(ends[0], ends[1], weights)


def _to_names(table: _Table, row: int, column: pa.Array, name: str) -> pa.Array:
    return pc.cast(_plain(column), pa.large_string())


def _to_ids(table: _Table, row: int, column: pa.Array, name: str) -> np.ndarray:
    ids = np.asarray(_plain(column))
    bad = ids < 0 if ids.dtype.kind == "i" else ids > MAX_ID
    if bad.any():
        i = int(np.argmax(bad))
        fault = "negative" if ids.dtype.kind == "i" else "above 2^63 - 1"
        raise InputError(
            f"`{storage.redacted(table.url)}` row {row + i + 1}: vertex id `{ids[i]}` is {fault}",
            hint="ids are whole numbers from 0 to 2^63 - 1",
        )
    return ids.astype(np.int64)


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
