"""Parquet and Arrow tables: Parquet files, Arrow (Feather) files and Arrow streams, whose columns have types."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.error_text import Either, Text, key
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.ordered import map_in_order
from sssp_pipeline.parquet.arrow_arrays import numpy_type
from sssp_pipeline.pipeline.formats.arrow_compute import pc, true_rows
from sssp_pipeline.pipeline.formats.columns.column_names import are_numbered
from sssp_pipeline.pipeline.formats.columns.edge_columns import (
    EdgeColumns,
    check_same_columns,
    choose_columns,
    refuse_unused_numbers,
)
from sssp_pipeline.pipeline.formats.edge_list import EdgeChunk, InputEdges, ReadOptions, SkippedRows
from sssp_pipeline.pipeline.formats.parsing.fault_errors import no_edges_error
from sssp_pipeline.pipeline.formats.parsing.line_reader import MAX_ID
from sssp_pipeline.pipeline.formats.reading import Reading
from sssp_pipeline.pipeline.formats.tables.csv_cells import RowErrors, to_weights
from sssp_pipeline.pipeline.formats.tables.record_batches import (
    BatchesOf,
    checked_batches,
    decoded,
    is_numeric,
    record_batches,
)
from sssp_pipeline.storage import files

#: What is known of a table.
Known = TypeVar("Known")
#: Bytes of an edge: source, target and weight of 8 bytes each.
_EDGE_BYTES = 24


@dataclass(frozen=True)
class TypedTable:
    """An edge list in a table whose columns have types, and how it is read."""

    #: Its URL, or what messages call it.
    url: str
    columns: EdgeColumns
    id_kind: str
    ids_why: str
    #: None without weights, and for decimals: they are read as in text.
    weight_dtype: np.dtype | None
    options: ReadOptions

    @property
    def used(self) -> list[str]:
        """The names of the columns to be read."""
        return [self.columns.names[i] for i in self.columns.used]


def open_parquet(urls: list[str], options: ReadOptions) -> InputEdges:
    """Return the edge list in the Parquet or Arrow files `urls`, one after the other.

    Raises
    ------
    InputError
        A file is damaged or compressed as a whole, lacks a requested column, can be read in two ways, or has a column
        of a wrong type; or files differ in their columns or ids.
    """
    tables = [(_open_table(url, options), partial(checked_batches, url)) for url in urls]
    found = typed_edge_list("parquet", urls, tables)

    def piece_of(table: TypedTable, batches_of: BatchesOf) -> InputEdges:
        skipped = SkippedRows()
        read = partial(read_tables, [_rows_of(table, batches_of)], to_chunk, skipped, None)
        return replace(found, read=read, skipped=skipped)

    return replace(found, pieces=tuple(piece_of(*table) for table in tables))


def typed_edge_list(
    format_name: str, urls: list[str], tables: Sequence[tuple[TypedTable, BatchesOf]]
) -> InputEdges:
    """Return the edge list in `tables`, one after the other.

    Raises
    ------
    InputError
        The tables differ in their columns or ids.
    """
    check_same_columns(urls, [table.columns for table, _ in tables])
    first = tables[0][0]
    for table, _ in tables:
        if table.id_kind != first.id_kind:
            raise InputError(
                f"`{files.redacted(urls[0])}` has {first.id_kind} ids, "
                f"`{files.redacted(table.url)}` {table.id_kind} ids",
                hint="set `graph.ids: string` to read all of them as strings",
            )
    dtypes = [table.weight_dtype for table, _ in tables if table.weight_dtype is not None]
    skipped = SkippedRows()
    rows = [_rows_of(*table) for table in tables]
    read = partial(read_tables, rows, to_chunk, skipped, no_edges_error(urls[0]))
    return InputEdges(
        Reading(
            format=format_name, ids=first.id_kind, ids_why=first.ids_why, **first.columns.reading_fields()
        ),
        first.columns.weight is not None,
        read,
        weight_dtype=np.result_type(*dtypes) if dtypes else None,
        skipped=skipped,
    )


def _rows_of(table: TypedTable, batches_of: BatchesOf) -> tuple[TypedTable, Callable]:
    """Return a table, and a function that gives its rows."""
    return table, partial(batches_of, table.used, max(1, table.options.block_bytes // _EDGE_BYTES))


def read_tables(
    tables: Sequence[tuple[Known, Callable[[], Iterator[pa.RecordBatch]]]],
    to_chunk: Callable[[tuple[Known, int, pa.RecordBatch]], tuple[EdgeChunk, SkippedRows]],
    skipped: SkippedRows,
    if_empty: InputError | None,
    n_threads: int,
) -> Iterator[EdgeChunk]:
    """Give the edges of `tables` in order; add left-out rows to `skipped`.

    Each table has a function that gives its rows. `to_chunk` takes the table, the number of rows before these, and some
    rows. `if_empty` is raised if there are no edges.
    """

    def batches() -> Iterator[tuple[Known, int, pa.RecordBatch]]:
        for table, rows in tables:
            n_rows = 0
            for batch in rows():
                yield table, n_rows, batch
                n_rows += len(batch)

    n_edges = 0
    for chunk, left_out in map_in_order(to_chunk, batches(), n_threads):
        skipped.add_all(left_out)
        n_edges += len(chunk)
        yield chunk
    if not n_edges and if_empty is not None:
        raise if_empty


def _open_table(url: str, options: ReadOptions) -> TypedTable:
    with record_batches(url, 1) as (schema, _):
        return table_of(url, schema, options)


def table_of(url: str, schema: pa.Schema, options: ReadOptions) -> TypedTable:
    """Return how a table with this `schema` is read; raise `InputError` like `open_parquet`."""
    names: list[str] = schema.names
    numeric = {i for i, field in enumerate(schema) if is_numeric(field.type)}
    place = f"`{files.redacted(url)}`"
    by_name = not are_numbered(names)
    columns = choose_columns(place, names, options, numeric, by_name=by_name)
    if not by_name and options.weight_column == "auto":
        refuse_unused_numbers(place, columns, numeric, options)
    kinds = [_id_kind(url, schema.field(i)) for i in (columns.source, columns.target)]
    weight = None if columns.weight is None else weight_dtype_of(url, schema.field(columns.weight))
    source, target = names[columns.source], names[columns.target]
    why = f"column `{source}` holds {kinds[0]}s"
    if options.ids == "string":
        kinds, why = ["string", "string"], "as the workflow says"
    if options.ids == "integer" and "string" in kinds:
        name = (source, target)[kinds.index("string")]
        raise InputError(
            f"`{files.redacted(url)}`: column `{name}` holds strings, integer ids are asked for",
            hint="set `graph.ids: string`",
        )
    if kinds[0] != kinds[1]:
        raise InputError(
            f"`{files.redacted(url)}`: column `{source}` holds {kinds[0]} ids, "
            f"column `{target}` {kinds[1]} ids",
            hint=Text(
                Either(
                    "set `graph.ids: string` to read both as strings",
                    "convert one of them to the type of the other",
                )
            ),
        )
    return TypedTable(url, columns, kinds[0], why, weight, options)


def _id_kind(url: str, field: pa.Field) -> str:
    type_ = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    if pa.types.is_integer(type_):
        return "integer"
    is_text = pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_)
    if is_text or is_uuid(type_):
        return "string"
    raise InputError(
        f"`{files.redacted(url)}`: column `{field.name}` has type {field.type}, ids are integers, strings or UUIDs",
        hint=Text("choose other columns with ", key("graph.columns")),
    )


def is_uuid(type_: pa.DataType) -> bool:
    """Return whether a column of this type holds UUIDs."""
    return isinstance(type_, pa.UuidType)


def weight_dtype_of(url: str, field: pa.Field) -> np.dtype | None:
    """Return the type of the weights in the column `field`; None for decimals, which have no type of NumPy.

    Raises
    ------
    InputError
        The column does not hold numbers.
    """
    if pa.types.is_decimal(field.type):
        return None
    if not (pa.types.is_integer(field.type) or pa.types.is_floating(field.type)):
        raise InputError(
            f"`{files.redacted(url)}`: column `{field.name}` has type {field.type}, weights are integers, floats or "
            "decimals",
            hint=Text(
                "choose a column of numbers with ",
                key("graph.weights.column"),
                ", or convert this one; none gives every edge the same weight",
            ),
        )
    return numpy_type(field.type)


def to_chunk(item: tuple[TypedTable, int, pa.RecordBatch]) -> tuple[EdgeChunk, SkippedRows]:
    """Return the edges of some rows, and the rows that were left out.

    `item` is the table, the number of rows before these, and these rows.
    """
    table, n_before, batch = item
    bad: dict[int, tuple[str, str]] = {}
    for name in table.used:
        if batch[name].null_count:
            for i in true_rows(batch[name].is_null()):
                bad.setdefault(i, (f"column `{name}` is null", SKIP_HINT))
    ends = [
        (_to_names if table.id_kind == "string" else _to_ids)(batch[name], bad) for name in table.used[:2]
    ]
    weights, is_rounded = None, False
    lost: RowErrors = {}
    if table.columns.weight is not None:
        weights, is_rounded, lost = typed_weights(batch[table.used[2]], bad, table.options)
        if weights.dtype.kind == "f" and not np.isfinite(weights).all():
            for i in np.flatnonzero(~np.isfinite(weights)).tolist():
                bad.setdefault(i, (f"weight `{weights[i]}` is not finite", SKIP_HINT))
    left_out = SkippedRows()
    if lost and (table.options.skips or not bad or min(lost) < min(bad)):
        i = min(lost)
        raise lost[i](f"`{files.redacted(table.url)}` row {n_before + i + 1}")
    if bad:
        place = f"`{files.redacted(table.url)}` row"
        first = min(bad)
        if not table.options.skips:
            raise InputError(f"{place} {n_before + first + 1}: {bad[first][0]}", hint=bad[first][1])
        texts = (
            f"{place} {n_before + i + 1}: {why}: {list(batch.slice(i, 1).to_pylist()[0].values())}"
            for i, (why, _) in sorted(bad.items())
        )
        left_out.add(len(bad), texts)
        keep = np.ones(len(batch), bool)
        keep[list(bad)] = False
        ends = [end.filter(pa.array(keep)) if isinstance(end, pa.Array) else end[keep] for end in ends]
        weights = None if weights is None else weights[keep]
    return EdgeChunk(ends[0], ends[1], weights, is_rounded), left_out


def typed_weights(
    column: pa.Array, bad: Collection[int], options: ReadOptions
) -> tuple[np.ndarray, bool, RowErrors]:
    """Return the weights in `column` (n,), whether one is rounded as for `EdgeChunk`, and errors as `convert_cells`.

    The weights of the rows `bad` are meaningless. Decimals are read as they are written, so with the rules of text.
    """
    lost: RowErrors = {}
    if not pa.types.is_decimal(column.type):
        return np.asarray(column.fill_null(0)), False, lost
    is_good = np.ones(len(column), bool)
    is_good[list(bad)] = False
    texts = pc.if_else(
        pa.array(is_good), pc.cast(column, pa.large_string()), pa.scalar("0", pa.large_string())
    )
    # Zeros at the end are no digits: 2.500 has one place, and 2.000 is an integer.
    texts = pc.replace_substring_regex(texts, r"(\.[0-9]*?)0+$", r"\1")
    texts = pc.replace_substring_regex(texts, r"\.$", "")
    weights, is_rounded = to_weights(texts, options, {}, lost)
    return weights, is_rounded, lost


SKIP_HINT = Text(
    Either(
        "`graph.unreadable: skip` leaves such rows out and counts them", "leave such rows out of the table"
    )
)


def _to_names(column: pa.Array, bad: dict[int, tuple[str, str]]) -> pa.Array:
    plain = decoded(column)
    names = _uuid_texts(plain) if is_uuid(plain.type) else pc.cast(plain, pa.large_string())
    names = names.fill_null("")
    for i in true_rows(pc.equal(names, "")):
        bad.setdefault(i, ("a vertex id is empty", SKIP_HINT))
    return names


def _uuid_texts(column: pa.Array) -> pa.Array:
    """Return UUIDs (n,) in their canonical form, such as `00112233-4455-6677-8899-aabbccddeeff`.

    Nulls are texts without a meaning.
    """
    n, storage = len(column), column.storage
    content = np.frombuffer(storage.buffers()[1] or b"", np.uint8)
    values = content[16 * storage.offset : 16 * (storage.offset + n)].reshape(n, 16)
    texts = np.full((n, 36), ord("-"), np.uint8)
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    texts[:, _UUID_DIGITS] = digits[np.stack([values >> 4, values & 15], axis=2).reshape(n, 32)]
    offsets = np.arange(n + 1) * 36
    return pa.LargeStringArray.from_buffers(n, pa.py_buffer(offsets), pa.py_buffer(texts))


#: The places of the digits in the text of a UUID.
_UUID_DIGITS = np.delete(np.arange(36), (8, 13, 18, 23))


def _to_ids(column: pa.Array, bad: dict[int, tuple[str, str]]) -> np.ndarray:
    ids = np.asarray(decoded(column).fill_null(0))
    wrong = ids < 0 if ids.dtype.kind == "i" else ids > MAX_ID
    if wrong.any():
        fault = "negative" if ids.dtype.kind == "i" else "above 2^63 - 1"
        for i in np.flatnonzero(wrong).tolist():
            why = f"vertex id `{ids[i]}` is {fault}"
            bad.setdefault(i, (why, "ids are whole numbers from 0 to 2^63 - 1"))
        ids = np.where(wrong, 0, ids)
    return ids.astype(np.int64)
