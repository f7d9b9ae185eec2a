"""Comma-, semicolon- and tab-separated tables, read by Arrow.

A first line without any number is the header; without a header the columns are called 1, 2, 3, …. Where ids are
names such a line may be an edge: it is the header only if it holds a usual name, or one asked for.

Cells are read as strings and turned into numbers here, so that a column is exact, and may turn from integers to
decimals anywhere in the file.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as pa_csv

from sssp_pipeline.errors import InputError
from sssp_pipeline.pipeline import storage
from sssp_pipeline.pipeline.formats.byte_streams import opened
from sssp_pipeline.pipeline.formats.detect import separator_of
from sssp_pipeline.pipeline.formats.edge_list import EdgeChunk, EdgeList, ReadOptions
from sssp_pipeline.pipeline.formats.line_reader import MAX_ID
from sssp_pipeline.pipeline.formats.ordered import map_in_order
from sssp_pipeline.pipeline.formats.tables import (
    SOURCE_NAMES,
    TARGET_NAMES,
    WEIGHT_NAMES,
    EdgeColumns,
    choose_columns,
    refuse_mixed_weights,
)
from sssp_pipeline.pipeline.formats.text import checked_lines, first_row, guess_id_kind

_USUAL_NAMES = {*SOURCE_NAMES, *TARGET_NAMES, *WEIGHT_NAMES}


@dataclass(frozen=True)
class _Table:
    """A file and its columns; the first `n_skipped` lines are comments and the header.

    `doubtful_header` is a header without a name that is known, else None.
    """

    url: str
    separator: str
    names: list[str]
    n_skipped: int
    columns: EdgeColumns
    doubtful_header: str | None


def open_csv(urls: list[str], options: ReadOptions) -> EdgeList:
    """Return the edge list in the tables `urls`, one after the other.

    Raises
    ------
    InputError
        A table holds no row, or lacks a column that is asked for; only some tables have weights; or the first
        row may be an edge as well as a header.
    """
    tables = [_open_table(url, options) for url in urls]
    has_weights = refuse_mixed_weights(urls, [table.columns for table in tables])
    id_kind = options.ids if options.ids != "auto" else _guess_id_kind(tables[0], options.block_bytes)
    if id_kind == "string":
        _refuse_doubtful_headers(tables)

    def convert(item: tuple[_Table, int, pa.RecordBatch]) -> EdgeChunk:
        table, row, batch = item
        return _to_chunk(table, row, batch, id_kind)

    def read(n_threads: int) -> Iterator[EdgeChunk]:
        batches = (
            (table, row, batch)
            for table in tables
            for row, batch in _read_batches(table, options.block_bytes)
        )
        return map_in_order(convert, batches, n_threads)

    return EdgeList("csv", id_kind, has_weights, read)


def _open_table(url: str, options: ReadOptions) -> _Table:
    found = first_row(checked_lines(url))
    if found is None:
        raise _no_rows(url)
    line, content = found
    row = content.decode("utf-8", "replace")
    separator = separator_of(row) or ("\t" if "\t" in row else None)
    if separator is None:
        raise InputError(
            f"`{storage.redacted(url)}` line {line}: `{row[:60]}` has no comma, semicolon or tab between columns",
            hint="columns that white space separates are read by `graph.format: text`",
        )
    cells = [cell.strip() for cell in next(csv.reader([row], delimiter=separator))]
    numbers = [str(i) for i in range(1, len(cells) + 1)]
    asked = {options.source_column, options.target_column, options.weight_column} - {"auto", "none"}
    is_known = not asked.isdisjoint(cells) or not _USUAL_NAMES.isdisjoint(cell.lower() for cell in cells)
    by_number = {options.source_column, options.target_column} <= set(numbers)
    has_header = not any(_is_number(cell) for cell in cells) and (is_known or not by_number)
    names = cells if has_header else numbers
    return _Table(
        url,
        separator,
        names,
        line if has_header else line - 1,
        choose_columns(url, names, options),
        doubtful_header=row if has_header and not is_known else None,
    )


def _refuse_doubtful_headers(tables: list[_Table]) -> None:
    for table in tables:
        # A row whose weight is no number is no edge.
        if table.doubtful_header is not None and table.columns.weight is None:
            raise InputError(
                f"`{storage.redacted(table.url)}`: the first row, `{table.doubtful_header[:60]}`, "
                "may be a header or an edge",
                hint="set `graph.columns.source` and `graph.columns.target`, to `'1'` and `'2'` if it is an edge",
            )


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _guess_id_kind(table: _Table, block_bytes: int) -> str:
    for _, batch in _read_batches(table, min(block_bytes, 1 << 20)):
        ends = [batch[name][0].as_py().strip() for name in (table.columns.source, table.columns.target)]
        return guess_id_kind(f"`{storage.redacted(table.url)}` row 1", ends)
    raise _no_rows(table.url)


def _read_batches(table: _Table, block_bytes: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Give the batches of a table, all cells strings, each with the number of rows before it."""
    n_rows = 0
    with opened(table.url) as stream, _arrow_errors(table):
        reader = pa_csv.open_csv(
            stream,
            pa_csv.ReadOptions(
                # Without threads Arrow tells the line of a fault; the cells are converted on ours.
                use_threads=False,
                column_names=table.names,
                skip_rows=table.n_skipped,
                block_size=block_bytes,
            ),
            pa_csv.ParseOptions(delimiter=table.separator),
            pa_csv.ConvertOptions(
                include_columns=table.columns.names(),
                column_types=dict.fromkeys(table.columns.names(), pa.large_string()),
                strings_can_be_null=False,
            ),
        )
        for batch in reader:
            if len(batch):
                yield n_rows, batch
            n_rows += len(batch)
    if not n_rows:
        raise _no_rows(table.url)


@contextmanager
def _arrow_errors(table: _Table) -> Iterator[None]:
    """Turn Arrow's complaint about a table into ours."""
    try:
        yield
    except pa.ArrowInvalid as error:
        found = re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", str(error))
        if found:
            row, wanted, got = map(int, found.groups())
            plural = "" if got == 1 else "s"
            raise InputError(
                f"`{storage.redacted(table.url)}` line {row} has {got} column{plural}, wanted {wanted}",
                hint="every row has as many columns as the first",
            ) from error
        if "Empty CSV" in str(error):
            raise _no_rows(table.url) from error
        hint = "save the file as UTF-8" if "UTF8" in str(error) else "check its separators and quotes"
        raise InputError(
            f"`{storage.redacted(table.url)}` cannot be read as a table: {error}", hint=hint
        ) from error


def _to_chunk(table: _Table, row: int, batch: pa.RecordBatch, id_kind: str) -> EdgeChunk:
    cells = [batch[name] for name in table.columns.names()]
    ends = [(_to_names if id_kind == "string" else _to_ids)(table, row, column) for column in cells[:2]]
    weights = _to_weights(table, row, cells[2]) if len(cells) > 2 else None
    return EdgeChunk(ends[0], ends[1], weights)


def _to_names(table: _Table, row: int, cells: pa.Array) -> pa.Array:
    names = pc.utf8_trim_whitespace(cells)
    empty = pc.index(names, "").as_py()
    if empty >= 0:
        raise InputError(
            f"{_place(table, row, empty)}: a vertex id is empty", hint="leave out rows without ids"
        )
    return names


def _to_ids(table: _Table, row: int, cells: pa.Array) -> np.ndarray:
    ids = _cast(cells, pa.int64())
    if ids is not None and int(ids.min()) >= 0:
        return ids
    for i, cell in enumerate(cells.to_pylist()):
        text, place = cell.strip(), _place(table, row, i)
        if not re.fullmatch(r"-?[0-9]+", text):
            hint = "ids are whole numbers from 0; for names set `graph.ids: string`"
            raise InputError(f"{place}: `{text}` is not a vertex id", hint=hint)
        if int(text) < 0:
            raise InputError(f"{place}: vertex id `{text}` is negative", hint="ids are whole numbers from 0")
        if int(text) > MAX_ID:
            raise InputError(f"{place}: vertex id `{text}` is above 2^63 - 1", hint="set `graph.ids: string`")
    return np.array([int(cell) for cell in cells.to_pylist()], np.int64)


def _to_weights(table: _Table, row: int, cells: pa.Array) -> np.ndarray:
    for type_ in (pa.int64(), pa.uint64(), pa.float64()):
        values = _cast(cells, type_)
        if values is not None and (type_ != pa.float64() or np.isfinite(values).all()):
            return values
    # What Arrow does not take: a plus sign, or a fault.
    numbers = np.empty(len(cells), np.float64)
    for i, cell in enumerate(cells.to_pylist()):
        text = cell.strip()
        try:
            numbers[i] = float(text.replace("_", "?"))  # Python would take `1_000` for 1000
        except ValueError:
            raise InputError(
                f"{_place(table, row, i)}: `{text}` is not a weight",
                hint="weights are numbers such as 12, 0.5 or 3e-2; `graph.weights.column: none` leaves them out",
            ) from None
        if not np.isfinite(numbers[i]):
            raise InputError(
                f"{_place(table, row, i)}: weight `{text}` is not finite",
                hint="leave out edges that cannot be used",
            )
    return numbers


def _cast(cells: pa.Array, type_: pa.DataType) -> np.ndarray | None:
    """Return the numbers that `cells` spell in decimal, or None where one of them is none of that type."""
    # Arrow would take `0x1f` for 31. The buffer may hold more than these cells: that costs time only.
    content = np.frombuffer(cells.buffers()[2] or b"", np.uint8)
    if ((content | 32) == ord("x")).any():
        return None
    try:
        return np.asarray(pc.cast(pc.utf8_trim_whitespace(cells), type_))
    except pa.ArrowInvalid:
        return None


def _place(table: _Table, row: int, i: int) -> str:
    return f"`{storage.redacted(table.url)}` row {row + i + 1}"


def _no_rows(url: str) -> InputError:
    return InputError(
        f"`{storage.redacted(url)}` holds no edges", hint="check that this is the file you mean"
    )
