"""Tables whose columns are separated by a comma, a semicolon, `|` or tab, read by Arrow.

Cells are read as strings and turned into numbers here, so that a column is exact, and may turn from integers to
decimals anywhere in the file.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import csv as pa_csv

from sssp_pipeline.errors import InputError
from sssp_pipeline.lazy import LazyModule
from sssp_pipeline.pipeline.formats.edge_list import (
    MAX_LINE_BYTES,
    EdgeChunk,
    EdgeList,
    ReadOptions,
    SkippedRows,
)
from sssp_pipeline.pipeline.formats.parsing import numbers_in_text as faults
from sssp_pipeline.pipeline.formats.parsing.byte_streams import (
    long_line_error,
    open_decompressed,
    read_lines,
    text_encoding,
)
from sssp_pipeline.pipeline.formats.parsing.layout import (
    BLANKS,
    Layout,
    Sample,
    cells_of_text,
    decide_layout,
    is_number,
    read_sample,
)
from sssp_pipeline.pipeline.formats.parsing.line_reader import (
    MAX_ID,
    ZERO_LED_HINT,
    carriage_return_error,
    control_error,
    float64_fault,
    line_place,
    not_utf8_error,
    weight_error,
    zero_led_problem,
)
from sssp_pipeline.pipeline.formats.parsing.ordered import map_in_order
from sssp_pipeline.pipeline.formats.reading import Reading
from sssp_pipeline.pipeline.formats.text import refuse_different
from sssp_pipeline.pipeline.storage import files

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = LazyModule("pyarrow.compute")

#: The delimiters of columns, and their names.
DELIMITERS = {",": "comma", ";": "semicolon", "|": "vertical bar", "\t": "tab"}
#: float64 distinguishes all decimals with fewer digits.
_SAFE_CHARACTERS = 15


@dataclass(frozen=True, eq=False)
class _Table:
    """A file and how it is read; `n_skipped` lines before its rows are comments and the header.

    `malformed` are the rows of another number of columns that were left out: how many rows came before each, and its
    text.
    """

    layout: Layout
    delimiter: str
    n_skipped: int
    options: ReadOptions
    malformed: list[tuple[int, str]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.layout.sample.url


@dataclass(frozen=True, eq=False)
class _Rows:
    """Some rows of a table after `n_before` others that have the right number of columns."""

    table: _Table
    n_before: int
    batch: pa.RecordBatch


def open_csv(urls: list[str], options: ReadOptions) -> EdgeList:
    """Return the edge list in the tables `urls`, one after the other.

    Raises
    ------
    InputError
        A table holds no row, lacks a column that is asked for, or can be read in two ways; or tables differ.
    """
    tables = [_open_table(url, options) for url in urls]
    first = tables[0]
    refuse_different(urls, [table.layout for table in tables])
    for table in tables:
        if table.delimiter != first.delimiter:
            raise InputError(
                f"`{files.redacted(first.url)}` is separated by {DELIMITERS[first.delimiter]}, "
                f"`{files.redacted(table.url)}` by {DELIMITERS[table.delimiter]}",
                hint="files read together are separated alike: set `graph.delimiter`",
            )
    layout = first.layout
    skipped = SkippedRows()
    convert = partial(_to_chunk, id_kind=layout.ids)

    def read(n_threads: int) -> Iterator[EdgeChunk]:
        batches = (rows for table in tables for rows in _read_batches(table, options.block_bytes))
        found = map_in_order(convert, batches, n_threads)
        for chunk, left_out in found:
            skipped.add(len(left_out), left_out)
            yield chunk
        for table in tables:
            for row, text in table.malformed:
                if "\n" in text:
                    n_lines = text.count("\n") + 1
                    raise InputError(
                        f"{_line_of_row(table, row)}: a quoted cell takes {n_lines} lines, so these are no row",
                        hint="end its quotes; only then can the rows after it be read",
                    )
            skipped.add(len(table.malformed), (_malformed_row_text(table, *row) for row in table.malformed))

    return EdgeList(
        Reading(
            format="csv",
            encoding=text_encoding(urls[0], options.encoding),
            delimiter=DELIMITERS[first.delimiter],
            header=layout.has_header,
            ids=layout.ids,
            ids_why=layout.ids_why,
            **layout.columns.reading_fields(),
        ),
        layout.columns.weight is not None,
        read,
        skipped=skipped,
    )


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


def cells_of(row: str, delimiter: str) -> list[str]:
    """Return the cells of a row, as Arrow sees them."""
    try:
        return next(csv.reader([row], delimiter=delimiter))
    except csv.Error:  # a cell beyond csv's limit
        return row.split(delimiter)


def delimiter_of(sample: Sample, options: ReadOptions) -> str | None:
    """Return what separates the columns of the rows of a file, None if they are no table.

    Raises
    ------
    InputError
        Two delimiters fit.
    """
    if options.delimiter != "auto":
        return "\t" if options.delimiter == "tab" else options.delimiter
    rows = sample.rows
    # A decimal comma separates no columns.
    possible = [d for d in DELIMITERS if d in rows[0] and d != options.point]
    possible = [d for d in possible if len(cells_of(rows[0], d)) > 1]
    if len(possible) > 1:
        widths = {d: {len(cells_of(row, d)) for row in rows} for d in possible}
        fitting = [d for d in possible if len(widths[d]) == 1]
        if len(fitting) == 1:
            return fitting[0]
        names = " or ".join(DELIMITERS[d] for d in fitting or possible)
        raise InputError(
            f"{sample.place}: the columns of `{rows[0][:60]}` may be separated by {names}",
            hint="set `graph.delimiter` to the one that is meant"
            + (", and `graph.decimal: comma` if 1,5 is a number" if "," in possible else ""),
        )
    return possible[0] if possible else None


def is_table_of_tabs(sample: Sample) -> bool:
    """Return whether tabs, and not white space, separate the columns: a cell is empty or has white space.

    Raises
    ------
    InputError
        Both fit, and make different columns.
    """
    rows = sample.rows
    cells = [row.split("\t") for row in rows]
    while len(cells[0]) > 1 and all(len(row) > 1 and not row[-1].strip(BLANKS) for row in cells):
        cells = [row[:-1] for row in cells]  # a tab at the end of every row
    if len(cells[0]) < 2 or any(len(row) != len(cells[0]) for row in cells):
        return False
    if all(len(cells_of_text(cell)) == 1 for row in cells for cell in row):
        return False
    if len({len(cells_of_text(row)) for row in rows}) == 1:
        raise InputError(
            f"{sample.place}: the columns of `{rows[0][:60]}` may be separated by tab, or by any white space",
            hint="set `graph.delimiter: tab` or `graph.format: text`",
        )
    return True


def _read_batches(table: _Table, block_bytes: int) -> Iterator[_Rows]:
    """Give the rows of a table in batches, all cells strings."""
    columns = table.layout.columns
    names = [str(i) for i in range(len(columns.names))]
    used = [names[i] for i in dict.fromkeys([*columns.used, 0])]  # the first one for comments
    n_rows = 0
    if (longest := table.options.max_line_bytes) != MAX_LINE_BYTES:
        block_bytes = max(block_bytes, longest)  # Arrow reads no row that is longer than a block

    def leave_out(row: pa_csv.InvalidRow) -> str:
        table.malformed.append((row.number - table.n_skipped - 1, row.text))
        return "skip"

    with open_decompressed(table.url, table.options.encoding) as stream, _arrow_errors(table, block_bytes):
        reader = pa_csv.open_csv(
            _CheckedLines(stream, table.url),
            pa_csv.ReadOptions(
                # Without threads Arrow tells the row of a fault; the cells are converted on ours.
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
                yield _Rows(table, n_rows, batch)
            n_rows += len(batch)
    if not n_rows:
        raise _no_edges_error(table.url)


class _CheckedLines(io.RawIOBase):
    """A stream of text that refuses what Arrow would read in its own way.

    That is a carriage return alone, which Arrow takes for a line end, and a control character.
    """

    def __init__(self, stream: IO[bytes], url: str) -> None:
        self._stream, self._url = stream, url
        self._n_lines = self._n_quotes = 0
        self._last = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self._stream.read(len(buffer))
        buffer[: len(content)] = content
        if self._last or b"\r" in content:
            text = self._last + content
            # A return at the end may be half of a line end.
            if (at := re.search(rb"\r(?!\n|\Z)", text)) is not None:
                raise carriage_return_error(self._place(text, at.start()))
            self._last = content[-1:] if content[-1:] == b"\r" else b""
        if len(content.translate(None, _CONTROLS)) != len(content):
            at = re.search(b"[" + re.escape(_CONTROLS) + b"]", content)
            assert at is not None
            raise control_error(self._place(content, at.start()), at[0][0])
        self._n_lines += content.count(b"\n")
        self._n_quotes += content.count(b'"')
        if not content and self._n_quotes % 2:
            raise InputError(
                f"`{files.redacted(self._url)}` has an odd number of quotes, {self._n_quotes:,}: "
                "one of them does not end",
                hint='end the quote; a quote inside a quoted cell is written twice: `"5"" pipe"`',
            )
        return len(content)

    def _place(self, text: bytes, position: int) -> str:
        return line_place(self._url, self._n_lines + text.count(b"\n", 0, position) + 1)


#: What no cell of a table holds.
_CONTROLS = bytes(byte for byte in range(32) if byte not in b"\t\n\r")


@contextmanager
def _arrow_errors(table: _Table, block_bytes: int) -> Iterator[None]:
    """Turn Arrow's complaint about a table into ours."""
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
            raise _no_edges_error(table.url) from error
        raise InputError(
            f"`{files.redacted(table.url)}` cannot be read as a table: {error}",
            hint="check its separators and quotes",
        ) from error


#: A row that is no edge, by its place in a batch, and what makes its error.
_Faults = dict[int, Callable[[str], InputError]]


def _to_chunk(rows: _Rows, id_kind: str) -> tuple[EdgeChunk, list[str]]:
    """Return the edges of some rows, and a line about each row that was left out.

    Raises
    ------
    InputError
        A row is no edge, and such rows are not left out.
    """
    table, cells = rows.table, rows.batch.columns
    n_used = len(table.layout.columns.used)
    bad: _Faults = {}
    lost: _Faults = {}
    left_out: list[str] = []
    places = np.arange(len(rows.batch))
    chunk = _converted(table, cells, id_kind, bad, lost)
    if bad and table.options.skips:
        for row in sorted(bad)[: SkippedRows.KEPT]:
            shown = table.delimiter.join(
                cell[row].as_py().decode("utf-8", "replace") for cell in cells[:n_used]
            )
            left_out.append(f"{bad[row](_row_place(table, rows.n_before + row)).message}: {shown}")
        left_out += [""] * (len(bad) - len(left_out))
        places = np.delete(places, list(bad))
        bad, lost = {}, {}
        # Once more without them, since a row that is left out must not decide the type of the weights.
        chunk = _converted(table, rows.batch.take(pa.array(places)).columns, id_kind, bad, lost)
    if found := bad | lost:
        row = min(found)
        raise found[row](_row_place(table, rows.n_before + int(places[row])))
    return chunk, left_out


def _converted(table: _Table, cells: list[pa.Array], id_kind: str, bad: _Faults, lost: _Faults) -> EdgeChunk:
    """Return the edges that `cells` spell, source, target and perhaps weight.

    The rows that are no edge are noted in `bad`; those whose weight cannot be kept as it is in `lost`.
    """
    used, options = table.layout.columns.used, table.options
    texts = [_texts(column, bad) for column in cells[: len(used)]]
    for column in cells[: len(used)]:
        for mark, pattern, fault in _FAULTS_OF_QUOTES:
            if _holds(column, mark):
                for row in _where(pc.match_substring_regex(column, pattern)):
                    text = column[row].as_py().decode("utf-8", "replace")
                    bad.setdefault(row, partial(fault, text=text))
    to_ends = _to_names if id_kind == "string" else _to_ids
    ends = [to_ends(texts[k], options, bad) for k in range(2)]
    weights = _to_weights(texts[2], options, bad, lost) if len(used) > 2 else None
    if not (options.ids == "string" and 0 in used[:2]):
        first = cells[used.index(0) if 0 in used else len(used)]
        if _holds(first, b"#%"):
            for row in _where(pc.match_substring_regex(first, "^[ \\t]*[#%]")):
                bad.setdefault(
                    row, partial(_comment_or_id, text=first[row].as_py().decode("utf-8", "replace"))
                )
    return EdgeChunk(ends[0], ends[1], weights)


def _texts(cells: pa.Array, bad: _Faults) -> pa.Array:
    """Return `cells` (n,) large_binary as trimmed text; note in `bad` a cell that is not UTF-8."""
    try:
        texts = pc.cast(cells, pa.large_string())
    except pa.ArrowInvalid:
        found = cells.to_pylist()
        for i, cell in enumerate(found):
            try:
                cell.decode()
            except UnicodeDecodeError:
                shown = cell.decode("utf-8", "replace"), cell.decode("latin-1")
                bad.setdefault(i, partial(not_utf8_error, shown=shown[0][:60], as_latin_1=shown[1]))
                found[i] = b""
        texts = pc.cast(pa.array(found, pa.large_binary()), pa.large_string())
    return pc.utf8_trim(texts, BLANKS) if _holds(texts, BLANKS.encode()) else texts


def _to_names(texts: pa.Array, options: ReadOptions, bad: _Faults) -> pa.Array:
    for row in _where(pc.equal(texts, "")):
        bad.setdefault(row, _empty_id)
    return texts


def _where(are: pa.Array) -> list[int]:
    """Return the places at which `are` (n,) is true."""
    return np.flatnonzero(are.to_numpy(zero_copy_only=False)).tolist()


def _to_ids(texts: pa.Array, options: ReadOptions, bad: _Faults) -> np.ndarray:
    ids = _cast(texts, pa.int64())
    keeps_zeros = options.ids == "integer"
    if ids is not None and (not len(ids) or int(ids.min()) >= 0) and not _has_odd_digits(texts, keeps_zeros):
        return ids
    ids = np.zeros(len(texts), np.int64)
    for i, text in enumerate(texts.to_pylist()):
        fault = _id_fault(text, keeps_zeros)
        if fault is None:
            ids[i] = int(text.lstrip("0") or "0")
        else:
            bad.setdefault(i, fault)
    return ids


def _has_odd_digits(texts: pa.Array, keeps_zeros: bool) -> bool:
    """Return whether an id has a sign, or a leading zero that would be lost."""
    offsets = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset : texts.offset + len(texts) + 1]
    lengths = np.diff(offsets)
    first = np.frombuffer(texts.buffers()[2] or b"\0", np.uint8)[np.minimum(offsets[:-1], offsets[-1] - 1)]
    odd = (first == ord("-")) | (first == ord("+"))
    if not keeps_zeros:
        odd |= (first == ord("0")) & (lengths > 1)
    return bool((odd & (lengths > 0)).any())


def _holds(texts: pa.Array, characters: bytes) -> bool:
    """Return whether one of `characters` may be in `texts`; the buffer may hold more than these cells."""
    content = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    return any(bool((content == character).any()) for character in characters)


def _id_fault(text: str, keeps_zeros: bool) -> Callable[[str], InputError] | None:
    """Return what makes the error of an integer id, None if it is one."""
    shown = text[:60]
    if not text:
        return _empty_id
    if re.fullmatch(r"-[0-9]+", text):
        return partial(
            _id_error, wrong=f"vertex id `{shown}` is negative", hint="ids are whole numbers from 0"
        )
    if not keeps_zeros and re.fullmatch(r"\+[0-9]+|0[0-9]+", text):
        return partial(_id_error, wrong=zero_led_problem(shown), hint=ZERO_LED_HINT)
    if not re.fullmatch(r"[0-9]+", text):
        hint = "ids are whole numbers from 0; for names set `graph.ids: string`"
        return partial(_id_error, wrong=f"`{shown}` is not a vertex id", hint=hint)
    if len(text.lstrip("0")) > 19 or int(text.lstrip("0") or "0") > MAX_ID:
        return partial(
            _id_error, wrong=f"vertex id `{shown}` is above 2^63 - 1", hint="set `graph.ids: string`"
        )
    return None


def _id_error(place: str, wrong: str, hint: str) -> InputError:
    return InputError(f"{place}: {wrong}", hint=hint)


def _several_lines(place: str, text: str) -> InputError:
    shown = text.replace("\n", "\\n")[:60]
    return InputError(
        f"{place}: `{shown}` in quotes goes over several lines", hint="end the quotes on the same line"
    )


def _blank_before_quote(place: str, text: str) -> InputError:
    return InputError(
        f"{place}: `{text[:60]}` has a blank before its quote, so the quotes belong to the cell",
        hint="remove the blank if they do not",
    )


#: A byte that the cells with such a fault hold, a pattern of the cell, and the fault.
_FAULTS_OF_QUOTES = ((b"\n", "\n", _several_lines), (b'"', '^[ \\t]+"', _blank_before_quote))


def _empty_id(place: str) -> InputError:
    return InputError(
        f"{place}: a vertex id is empty", hint="`graph.unreadable: skip` leaves out rows without ids"
    )


def _comment_or_id(place: str, text: str) -> InputError:
    return InputError(
        f"{place} begins with `{text[:60]}`: it may be a comment, or a cell",
        hint="remove comments after the first row; `graph.ids: string` takes it for an id if the first column has ids",
    )


def _to_weights(texts: pa.Array, options: ReadOptions, bad: _Faults, lost: _Faults) -> np.ndarray:
    if options.point == ",":
        for row in _where(pc.match_substring(texts, ".")):
            shown = texts[row].as_py()[:60]
            bad.setdefault(row, partial(weight_error, shown=shown, code=faults.BAD_WEIGHT))
        texts = pc.replace_substring(texts, ",", ".")
    # Arrow takes no plus sign.
    if _holds(texts, b"+"):
        texts = pc.replace_substring_regex(texts, r"^\+([0-9.])", r"\1")
    for type_ in (pa.int64(), pa.uint64(), pa.float64()):
        numbers = _cast(texts, type_)
        if numbers is not None:
            if type_ == pa.float64():
                _check_decimals(texts, numbers, options, bad, lost)
            return numbers
    values = np.ones(len(texts), np.float64)
    for row, text in enumerate(texts.to_pylist()):
        if is_number(text):
            values[row] = float(text)
        else:
            shown = text.replace(".", options.point)[:60]
            bad.setdefault(row, partial(weight_error, shown=shown, code=faults.BAD_WEIGHT))
    _check_decimals(texts, values, options, bad, lost)
    return values


def _check_decimals(
    texts: pa.Array, values: np.ndarray, options: ReadOptions, bad: _Faults, lost: _Faults
) -> None:
    """Note the weights that float64 does not hold as they are meant: not finite, or lost."""
    is_long = pc.greater(pc.binary_length(texts), _SAFE_CHARACTERS).to_numpy(zero_copy_only=False)
    for row in np.flatnonzero(~np.isfinite(values) | (values == 0) | is_long).tolist():
        if row in bad:
            continue
        text, value = texts[row].as_py(), float(values[row])
        code: int | None = faults.NOT_FINITE
        if np.isfinite(value):
            code = float64_fault(text, value, options.rounds, options.exact_scale)
        if code is not None:
            shown = text.replace(".", options.point)[:60]
            found = bad if code == faults.NOT_FINITE else lost
            found[row] = partial(weight_error, shown=shown, code=code, scale=options.exact_scale)


def _cast(texts: pa.Array, type_: pa.DataType) -> np.ndarray | None:
    """Return the numbers that `texts` spell in decimal, or None where one of them is none of that type."""
    # Arrow would take `0x1f` for 31. The buffer may hold more than these cells: that costs time only.
    content = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    if ((content | 32) == ord("x")).any():
        return None
    try:
        return np.asarray(pc.cast(texts, type_))
    except pa.ArrowInvalid:
        return None


def _row_place(table: _Table, row: int) -> str:
    """Return the words for the line of a row, with `row` rows of the right number of columns before it."""
    for n_before, _ in sorted(table.malformed):
        row += n_before <= row
    return _line_of_row(table, row)


def _line_of_row(table: _Table, row: int) -> str:
    """Return the words for the line of a row with `row` others before it; the file is read again up to there."""
    options = table.options
    lines = read_lines(table.url, options.encoding, options.max_line_bytes)
    lines = islice(lines, table.n_skipped, None)
    reader = csv.reader((line.decode("utf-8", "replace") for line in lines), delimiter=table.delimiter)
    begins, n_rows = 1, 0
    with suppress(csv.Error):  # a cell beyond csv's limit
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


def _no_edges_error(url: str) -> InputError:
    return InputError(f"`{files.redacted(url)}` holds no edges", hint="check that this is the file you mean")
