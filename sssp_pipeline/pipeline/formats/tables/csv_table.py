"""CSV tables: columns separated by a comma, a semicolon, `|` or tab, read by Arrow.

Arrow reads all cells as strings, and `csv_cells` converts them. So numbers are exact, and a column may change from
integers to decimals anywhere in the file.
"""

from __future__ import annotations

import csv
import io
import re
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import IO, Any, TypeAlias

import numpy as np
import pyarrow as pa
from pyarrow import csv as pa_csv

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.ordered import map_in_order
from sssp_pipeline.pipeline.formats.columns.layout import (
    DELIMITERS,
    RowLayout,
    cells_of,
    decide_layout,
    delimiter_of,
    read_sample,
    refuse_different,
)
from sssp_pipeline.pipeline.formats.edge_list import (
    MAX_LINE_BYTES,
    EdgeChunk,
    InputEdges,
    ReadOptions,
    SkippedRows,
)
from sssp_pipeline.pipeline.formats.parsing.fault_errors import (
    carriage_return_error,
    control_error,
    line_place,
    mark_error,
    no_edges_error,
)
from sssp_pipeline.pipeline.formats.parsing.line_blocks import BYTE_ORDER_MARK, long_line_error, read_lines
from sssp_pipeline.pipeline.formats.reading import Reading
from sssp_pipeline.pipeline.formats.streams.decompressed import open_decompressed, text_encoding
from sssp_pipeline.pipeline.formats.tables.csv_cells import convert_cells
from sssp_pipeline.storage import files


@dataclass(frozen=True, eq=False)
class _Table:
    """A file and how it is read."""

    layout: RowLayout
    delimiter: str
    #: The number of lines before the first row of edges: comments and the header.
    n_skipped: int
    options: ReadOptions
    #: For each row that was left out for its number of columns: how many rows precede it, and its text.
    malformed: list[tuple[int, str]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.layout.sample.url


#: A table, some of its rows, and how many rows with the right number of columns precede them.
_Rows: TypeAlias = tuple[_Table, pa.RecordBatch, int]


def open_csv(urls: list[str], options: ReadOptions) -> InputEdges:
    """Return the edge list in the tables `urls`, one after the other.

    Raises
    ------
    InputError
        A table has no rows, lacks a requested column, or can be read in two ways; or the tables differ.
    """
    tables = [_open_table(url, options) for url in urls]
    first = tables[0]
    refuse_different(urls, [table.layout for table in tables])
    for table in tables:
        if table.delimiter != first.delimiter:
            raise InputError(
                f"`{files.redacted(first.url)}` is separated by {DELIMITERS[first.delimiter]}, "
                f"`{files.redacted(table.url)}` by {DELIMITERS[table.delimiter]}",
                hint="files read together need the same delimiter: set `graph.delimiter`",
            )
    layout = first.layout
    reading = Reading(
        format="csv",
        encoding=text_encoding(urls[0], options.encoding),
        delimiter=DELIMITERS[first.delimiter],
        header=layout.has_header,
        ids=layout.ids,
        ids_why=layout.ids_why,
        **layout.columns.reading_fields(),
    )

    def edges_of(tables: list[_Table]) -> InputEdges:
        skipped = SkippedRows()
        read = partial(_read_tables, tables, layout.ids, options.block_bytes, skipped)
        return InputEdges(reading, layout.columns.weight is not None, read, skipped=skipped)

    return replace(edges_of(tables), pieces=tuple(edges_of([table]) for table in tables))


def _read_tables(
    tables: list[_Table], id_kind: str, block_bytes: int, skipped: SkippedRows, n_threads: int
) -> Iterator[EdgeChunk]:
    """Give the edges of `tables` in order; add left-out rows to `skipped`, table by table."""
    batches = (rows for table in tables for rows in _read_batches(table, block_bytes))
    unfinished = deque(tables)
    for table, (chunk, left_out) in map_in_order(
        lambda rows: (rows[0], _to_chunk(rows, id_kind)), batches, n_threads
    ):
        while unfinished[0] is not table:
            _skip_malformed(unfinished.popleft(), skipped)
        skipped.add_all(left_out)
        yield chunk
    for table in unfinished:
        _skip_malformed(table, skipped)


def _skip_malformed(table: _Table, skipped: SkippedRows) -> None:
    """Add the rows of a table that were left out for their number of columns to `skipped`."""
    for row, text in table.malformed:
        if "\n" in text:
            n_lines = text.count("\n") + 1
            raise InputError(
                f"{_line_of_row(table, row)}: a quoted cell takes {n_lines} lines, so these are not a row",
                hint="end its quotes; only then can the rows after it be read",
            )
    skipped.add(len(table.malformed), (_malformed_row_text(table, *row) for row in table.malformed))


def _open_table(url: str, options: ReadOptions) -> _Table:
    sample = read_sample(url, options, False)
    delimiter = delimiter_of(sample, options)
    if delimiter is None:
        raise InputError(
            f"{sample.place}: `{sample.rows[0][:60]}` has no comma, semicolon, `|` or tab between columns",
            hint="columns that white space separates are read by `graph.format: text`",
        )
    layout = decide_layout(sample, partial(cells_of, delimiter=delimiter), options)
    line = sample.lines[0]
    return _Table(layout, delimiter, line if layout.has_header else line - 1, options)


def _read_batches(table: _Table, block_bytes: int) -> Iterator[_Rows]:
    """Give the rows of a table in batches, all cells strings."""
    columns = table.layout.columns
    names = [str(i) for i in range(len(columns.names))]
    used = [names[i] for i in dict.fromkeys([*columns.used, 0])]  # a comment shows in the first column
    n_rows = 0
    block_bytes = max(block_bytes, table.options.table_row_bytes)
    if (longest := table.options.max_line_bytes) != MAX_LINE_BYTES:
        block_bytes = max(block_bytes, longest)  # Arrow cannot read a row that is longer than a block

    def leave_out(row: pa_csv.InvalidRow) -> str:
        table.malformed.append((row.number - table.n_skipped - 1, row.text))
        return "skip"

    with open_decompressed(table.url, table.options.encoding) as stream, _arrow_errors(table, block_bytes):
        reader = pa_csv.open_csv(
            _CheckedLines(stream, table.url),
            pa_csv.ReadOptions(
                # Only without threads does Arrow report the row of an error. Our threads convert the cells.
                use_threads=False,
                column_names=names,
                skip_rows=table.n_skipped,
                block_size=block_bytes,
            ),
            pa_csv.ParseOptions(
                delimiter=table.delimiter,
                newlines_in_values=True,
                invalid_row_handler=leave_out if table.options.skips else None,
            ),
            pa_csv.ConvertOptions(
                include_columns=used,
                column_types=dict.fromkeys(used, pa.large_binary()),
                strings_can_be_null=False,
            ),
        )
        for batch in reader:
            if len(batch):
                yield table, batch, n_rows
            n_rows += len(batch)
    if not n_rows:
        raise no_edges_error(table.url)


class _CheckedLines(io.RawIOBase):
    """A stream of text that refuses control characters, and carriage returns without a line feed.

    Arrow would take such a carriage return for a line end. It also refuses byte order marks inside of the text, which
    Arrow would take for a part of an id.
    """

    def __init__(self, stream: IO[bytes], url: str) -> None:
        self._stream, self._url = stream, url
        self._n_lines = self._n_quotes = 0
        self._last = b""
        #: The last bytes that were read, in which a line end and a mark may begin; empty at the beginning of the file.
        self._tail = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self._stream.read(len(buffer))
        buffer[: len(content)] = content
        if self._last or b"\r" in content:
            text = self._last + content
            # A carriage return at the end may be the first half of a line end.
            if (at := re.search(rb"\r(?!\n|\Z)", text)) is not None:
                raise carriage_return_error(self._place(text, at.start()))
            self._last = content[-1:] if content[-1:] == b"\r" else b""
        if len(content.translate(None, _CONTROLS)) != len(content):
            at = re.search(b"[" + re.escape(_CONTROLS) + b"]", content)
            assert at is not None
            raise control_error(self._place(content, at.start()), at[0][0])
        self._check_marks(content)
        self._n_lines += content.count(b"\n")
        self._n_quotes += content.count(b'"')
        if not content and self._n_quotes % 2:
            raise InputError(
                f"`{files.redacted(self._url)}` has an odd number of quotes, {self._n_quotes:,}: "
                "one of them does not end",
                hint='end the quote; a quote inside a quoted cell is written twice: `"5"" pipe"`',
            )
        return len(content)

    def _check_marks(self, content: bytes) -> None:
        """Raise `InputError` if a line begins with a byte order mark; the file may begin with one."""
        is_first = not self._tail
        allowed = len(BYTE_ORDER_MARK) if is_first and content.startswith(BYTE_ORDER_MARK) else 0
        before = b"\n" if is_first else self._tail
        text = before + content[allowed:]
        if (at := text.find(b"\n" + BYTE_ORDER_MARK)) >= 0:
            raise mark_error(self._place(content, max(0, at + 1 - len(before)) + allowed))
        self._tail = text[-len(BYTE_ORDER_MARK) :]

    def _place(self, text: bytes, position: int) -> str:
        return line_place(self._url, self._n_lines + text.count(b"\n", 0, position) + 1)


#: The control characters that no cell may contain.
_CONTROLS = bytes(byte for byte in range(32) if byte not in b"\t\n\r")


@contextmanager
def _arrow_errors(table: _Table, block_bytes: int) -> Iterator[None]:
    """Turn Arrow's errors about a table into `InputError`."""
    try:
        yield
    except pa.ArrowInvalid as error:
        found = re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", str(error))
        if found:
            row, wanted, got = map(int, found.groups())
            plural = "" if got == 1 else "s"
            raise InputError(
                f"{_line_of_row(table, row - table.n_skipped - 1)} has {got} column{plural}, wanted {wanted}",
                hint="every row has as many columns as the first: check separators and quotes; "
                "`graph.unreadable: skip` leaves others out",
            ) from error
        if "straddling object" in str(error):
            place = f"a row of `{files.redacted(table.url)}`"
            raise long_line_error(place, block_bytes) from error
        if "Empty CSV" in str(error):
            raise no_edges_error(table.url) from error
        raise InputError(
            f"`{files.redacted(table.url)}` cannot be read as a table: {error}",
            hint="check its separators and quotes",
        ) from error


def _to_chunk(rows: _Rows, id_kind: str) -> tuple[EdgeChunk, SkippedRows]:
    """Return the edges of some rows, and the rows that were left out."""
    table, batch, n_before = rows
    used = table.layout.columns.used
    convert = partial(convert_cells, used=used, options=table.options, id_kind=id_kind)
    left_out = SkippedRows()
    places = np.arange(len(batch))
    chunk, bad, lost = convert(batch.columns)
    if bad and table.options.skips:
        cells = batch.columns[: len(used)]
        texts = (
            table.delimiter.join(cell[row].as_py().decode("utf-8", "replace") for cell in cells)
            for row in sorted(bad)
        )
        problems = (bad[row](_row_place(table, n_before + row)).message for row in sorted(bad))
        left_out.add(len(bad), (f"{problem}: {text}" for problem, text in zip(problems, texts, strict=True)))
        places = np.delete(places, list(bad))
        # Converted again without the skipped rows, because they must not influence the type of the weights.
        chunk, bad, lost = convert(batch.take(pa.array(places)).columns)
    if found := bad | lost:
        row = min(found)
        raise found[row](_row_place(table, n_before + int(places[row])))
    return chunk, left_out


def _row_place(table: _Table, row: int) -> str:
    """Return the words for the line of the row that `row` rows with the right number of columns precede."""
    for n_before, _ in sorted(table.malformed):
        row += n_before <= row
    return _line_of_row(table, row)


def _line_of_row(table: _Table, row: int) -> str:
    """Return the words for the line of the row that `row` other rows precede; reads the file again up to that row."""
    options = table.options
    lines = read_lines(table.url, options.encoding, options.max_line_bytes)
    lines = islice(lines, table.n_skipped, None)
    reader = csv.reader((line.decode("utf-8", "replace") for line in lines), delimiter=table.delimiter)
    begins, n_rows = 1, 0
    with suppress(csv.Error):  # a cell is longer than the limit of the csv module
        for cells in reader:
            if cells:
                if n_rows == row:
                    return line_place(table.url, table.n_skipped + begins)
                n_rows += 1
            begins = reader.line_num + 1
    return f"`{files.redacted(table.url)}` row {row + 1}"


def _malformed_row_text(table: _Table, row: int, text: str) -> str:
    n_columns, wanted = len(cells_of(text, table.delimiter)), len(table.layout.columns.names)
    return f"{_line_of_row(table, row)} has {n_columns} columns, wanted {wanted}: {text[:500]}"
