"""RowLayout: delimiter, header, columns and type of the ids of a text or a table, from its first 1,000 rows.

Every later row is checked against this layout. A row that contradicts it is an error.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.formats.columns.column_names import are_numbered
from sssp_pipeline.pipeline.formats.columns.edge_columns import (
    EdgeColumns,
    check_same_columns,
    choose_columns,
    names_both_ends,
    refuse_unused_numbers,
)
from sssp_pipeline.pipeline.formats.columns.matrix_layout import refuse_matrix
from sssp_pipeline.pipeline.formats.edge_list import ReadOptions
from sssp_pipeline.pipeline.formats.parsing.fault_errors import (
    carriage_return_error,
    control_error,
    line_place,
    mark_error,
    not_utf8_error,
)
from sssp_pipeline.pipeline.formats.parsing.line_blocks import (
    BYTE_ORDER_MARK,
    MOST_BYTES_BEFORE,
    MOST_LINES_BEFORE,
    check_not_endless,
    read_lines,
)
from sssp_pipeline.storage import files

COMMENTS = b"#%"
#: The number of rows in a sample.
SAMPLE_ROWS = 1000
#: With fewer rows than this, a column may have no repeated value by chance.
_ROWS_TO_DOUBT = 100
_NUMBER = re.compile(
    r"[-+]?(\d+([.]\d*)?|[.]\d+)([eE][-+]?\d+)?|[-+]?(nan|inf|infinity)", re.IGNORECASE | re.ASCII
)
#: A number that is written with digits. `nan` does not match, since it may be a name.
_NUMERAL = re.compile(r"[-+.]*[0-9][0-9.,]*([eE][-+]?[0-9]+)?")
_ZERO_LED = re.compile(r"\+[0-9]+|0[0-9]+")
#: A decimal comma in a cell in quotes, beside a comma between cells.
_QUOTED_DECIMAL = re.compile(r'(?:,|^(?=[^;|\t]*",))"[-+]?[0-9]*,[0-9]+([eE][-+]?[0-9]+)?"(?:,|$)')
_DIGITS = re.compile(r"\+?[0-9]+")


@dataclass(frozen=True)
class FirstRows:
    """The first rows of a file."""

    #: URL of the file.
    url: str
    #: The first rows as text, without line ends; at least one.
    rows: list[str]
    #: The line number of each row, from 1.
    lines: list[int]
    #: The number of bytes of the file up to the end of the first row's line.
    first_bytes: int
    #: The bytes of the first row.
    first_row: bytes

    @property
    def place(self) -> str:
        """The words for the line of the first row."""
        return line_place(self.url, self.lines[0])


@dataclass(frozen=True)
class RowLayout:
    """The layout of the rows of a file."""

    #: The rows from which the layout was derived.
    sample: FirstRows
    #: Whether the first row names the columns.
    has_header: bool
    #: Which columns are read.
    columns: EdgeColumns
    #: "integer" or "string".
    ids: str
    #: Why the ids have that type.
    ids_why: str


#: The white space between the cells of a text and around the cells of a table, as in the scans of `tokenizer`. It has
#: no no-break space.
BLANKS = " \t\v\f\r\n"
_CELLS = re.compile(rf"[^{BLANKS}]+")
#: The delimiters of columns, and their names.
DELIMITERS = {",": "comma", ";": "semicolon", "|": "vertical bar", "\t": "tab"}
#: The control characters that no text may contain.
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1f]")


def cells_of_text(row: str) -> list[str]:
    """Return the cells of a row that white space separates."""
    return _CELLS.findall(row)


def cells_of(row: str, delimiter: str) -> list[str]:
    """Return the cells of a row, as Arrow splits it."""
    try:
        return next(csv.reader([row], delimiter=delimiter))
    except csv.Error:  # a cell is longer than the limit of the csv module
        return row.split(delimiter)


def delimiter_of(sample: FirstRows, options: ReadOptions) -> str | None:
    """Return the delimiter of a file; None if its rows have no delimiter.

    Raises
    ------
    InputError
        Two delimiters are possible, or the first row may be the beginning of one that takes several lines.
    """
    if options.delimiter != "auto":
        return "\t" if options.delimiter == "tab" else options.delimiter
    rows = sample.rows
    possible = [d for d in DELIMITERS if d in rows[0] and d != options.point]
    # With decimal commas, a comma is a delimiter only if it stands beside a decimal in quotes.
    if not possible and options.point == "," and any(map(_QUOTED_DECIMAL.search, rows)):
        possible = [","]
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
    if not possible:
        _refuse_open_quote(sample)
    return possible[0] if possible else None


def _refuse_open_quote(sample: FirstRows) -> None:
    """Raise `InputError` if the first row may be the first line of a quoted cell, which would have its delimiters."""
    row = sample.rows[0]
    if (
        row.startswith('"')
        and row.count('"') % 2
        and any(d in row for row in sample.rows for d in DELIMITERS)
    ):
        raise InputError(
            f"{sample.place}: `{row[:60]}` begins with a quote that does not end on this line",
            hint="end the quotes on the same line; if the quote belongs to an id, set `graph.format: text`",
        )


def is_table_of_tabs(sample: FirstRows) -> bool:
    """Return whether tabs separate the columns, and not any white space: a cell is empty or contains white space.

    Raises
    ------
    InputError
        Both are possible, and give different columns.
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


def read_sample(url: str, options: ReadOptions, comments_anywhere: bool) -> FirstRows:
    """Return the first rows of `url` without comments; a table has comments only before its first row.

    Raises
    ------
    InputError
        The file has no rows, or none among its first million lines; it is not in the encoding, or has a line that is
        too long, a carriage return without a line feed, or a byte order mark inside.
    """
    found = list(islice(rows_of(url, options, comments_anywhere), SAMPLE_ROWS))
    if not found:
        raise InputError(
            f"`{files.redacted(url)}` holds no edges, only comments and blank lines",
            hint="check that this is the file you mean",
        )
    rows = [row.decode("utf-8", "replace") for _, _, row in found]
    return FirstRows(url, rows, [line for line, _, _ in found], *found[0][1:])


def rows_of(url: str, options: ReadOptions, comments_anywhere: bool) -> Iterator[tuple[int, int, bytes]]:
    """Give for each row its line number, the number of bytes of the file up to the end of its line, and the row."""
    seen, n_bytes, n_rowless_bytes, last_row = False, 0, 0, 0
    for line, content in enumerate(read_lines(url, options.encoding, options.max_line_bytes), 1):
        n_bytes += len(content)
        row = (content.removeprefix(BYTE_ORDER_MARK) if line == 1 else content).rstrip(b"\r\n")
        if (control := _CONTROLS.search(row)) is not None:
            raise control_error(line_place(url, line), control[0][0])
        if b"\r" in row.strip():
            raise carriage_return_error(line_place(url, line))
        if row.startswith(BYTE_ORDER_MARK):
            raise mark_error(line_place(url, line))
        first = row.lstrip()[:1]
        if not first or (first in COMMENTS and (comments_anywhere or not seen)):
            n_rowless_bytes += len(content)
            if not seen:
                check_not_endless(url, line, n_rowless_bytes)
            elif line - last_row > MOST_LINES_BEFORE or n_rowless_bytes > MOST_BYTES_BEFORE:
                return  # the rows so far are the sample
            continue
        seen, last_row = True, line
        yield line, n_bytes, row


def is_number(cell: str, point: str = ".") -> bool:
    """Return whether `cell` is a number, or a word for one that is not finite."""
    return _NUMBER.fullmatch(cell if point == "." else cell.replace(".", "x").replace(point, ".")) is not None


def decide_layout(sample: FirstRows, split: Callable[[str], list[str]], options: ReadOptions) -> RowLayout:
    """Return the layout of a file; `split` splits a row into cells.

    Raises
    ------
    InputError
        More than one layout is possible, or the options name a missing column.
    """
    place = sample.place
    rows = [[cell.strip(BLANKS) for cell in split(row)] for row in sample.rows]
    first = rows[0]
    if options.source_column == options.target_column == options.weight_column == "auto":
        refuse_matrix(place, rows, len(rows) < SAMPLE_ROWS, options.header, options.point)
    equal_length = [row for row in rows if len(row) == len(first)]
    has_header = len(first) > 1 and _has_header(sample, equal_length, options)
    if has_header and "\ufffd" in sample.rows[0]:
        raise not_utf8_error(place, sample.rows[0][:60], sample.first_row.decode("latin-1"))
    body = equal_length[1:] if has_header else equal_length
    if has_header and len(rows) == 1:
        raise InputError(
            f"`{files.redacted(sample.url)}` holds no edges: {place} is its header",
            hint="check that this is the file you mean, or set `graph.header: false` if this row is an edge",
        )
    # A row of one column is shown as it is.
    names = first if has_header or len(first) < 2 else [str(i) for i in range(1, len(first) + 1)]
    # A number with another decimal sign is a number too: its column is not passed over.
    numeric = {
        i for i in range(len(first)) if any(is_number(row[i], p) for row in body for p in ".,") or not body
    }
    by_name = has_header and not are_numbered(first)
    columns = choose_columns(place, names, options, numeric, by_name=by_name)
    if not by_name and options.weight_column == "auto":
        refuse_unused_numbers(place, columns, numeric, options, [row[0] for row in body])
    if not by_name and options.source_column == options.target_column == "auto":
        _refuse_edge_ids(place, body, columns)
    first_edge = line_place(sample.url, sample.lines[has_header]) if len(sample.lines) > has_header else place
    ends = [(row[columns.source], row[columns.target]) for row in body]
    ids, why = id_kind(first_edge, ends, options)
    return RowLayout(sample, has_header, columns, ids, why)


def _has_header(sample: FirstRows, rows: list[list[str]], options: ReadOptions) -> bool:
    """Return whether the first of `rows`, which are lists of cells of equal length, names the columns."""
    place, excerpt = sample.place, sample.rows[0][:60]
    first, rest = rows[0], rows[1:]
    if (
        options.header is True
        and all(is_number(cell, options.point) for cell in first)
        and not are_numbered(first)
    ):
        raise InputError(
            f"{place}: `{excerpt}` holds only numbers, and `graph.header` says that it names columns",
            hint="set `graph.header: false` if it is an edge",
        )
    if isinstance(options.header, bool):
        return options.header
    if _is_index_header(first, rest):
        return True
    numbers = [is_number(cell, options.point) for cell in first]
    over_numbers = [
        any(row[i] for row in rest) and all(is_number(row[i], options.point) for row in rest if row[i])
        for i in range(len(first))
    ]
    looks_like_header = any(
        n and cell and not is_n for n, cell, is_n in zip(over_numbers, first, numbers, strict=True)
    )
    # The name of a column does not occur again as the name of a vertex.
    later = {cell for row in rest for cell in row if not is_number(cell, options.point)}
    looks_like_edge = any(
        n and is_n for n, is_n in zip(over_numbers, numbers, strict=True)
    ) or not later.isdisjoint(first)
    requested = {options.source_column, options.target_column, options.weight_column} & set(first)
    is_named = names_both_ends(first) or any(not is_number(name) for name in requested)
    if looks_like_header and (is_named or not looks_like_edge):
        return True
    if (any(numbers) or (looks_like_edge and not is_named)) and not looks_like_header:
        return False
    if is_named and not looks_like_edge:
        return True
    raise InputError(
        f"{place}: `{excerpt}` may be a header or an edge",
        hint="set `graph.header: true` if it names the columns, `graph.header: false` if it is an edge",
    )


def _is_index_header(first: list[str], rest: list[list[str]]) -> bool:
    """Return whether `first` names columns, and the first column, which has no name, numbers the rows.

    Data frames are written like this. As an edge, the first row would have an empty id.
    """
    names = first[1:]
    has_names = names == [str(i) for i in range(len(names))] or not any(
        not name or is_number(name) for name in names
    )
    counts = ([str(i) for i in range(start, start + len(rest))] for start in (0, 1))
    return len(names) > 1 and not first[0] and has_names and bool(rest) and [row[0] for row in rest] in counts


def _refuse_edge_ids(place: str, rows: list[list[str]], columns: EdgeColumns) -> None:
    """Raise `InputError` if column 1 may number the edges, so that columns 2 and 3 may be their ends."""
    if len(columns.names) < 3 or len(rows) < _ROWS_TO_DOUBT:
        return
    cells = [[row[i] for row in rows] for i in range(3)]
    could_be_ids = all(map(str.isdecimal, cells[2])) or not any(map(is_number, cells[2]))
    n_different = [len(set(column)) for column in cells]
    if could_be_ids and n_different[0] == len(rows) and max(n_different[1:]) < len(rows):
        raise InputError(
            f"{place}: column 1 is different in each of the first {len(rows)} rows: "
            "it may number the edges, or be an end of them",
            hint="write one of the two:\ngraph:\n  columns: {source: 2, target: 3}\nor\n"
            "graph:\n  columns: {source: 1, target: 2}",
        )


def id_kind(place: str, edges: list[tuple[str, str]], options: ReadOptions) -> tuple[str, str]:
    """Return "integer" or "string" for the ids of `edges`, and why; `place` names the line of the first edge.

    Raises
    ------
    InputError
        The first edge has an id that is empty, or a name and a number.
    """
    if options.ids != "auto":
        return options.ids, "as the workflow says"
    if not edges:
        return "string", "no row says otherwise"
    ends = edges[0]
    if "" in ends and not options.skips:
        raise InputError(
            f"{place}: a vertex id is empty", hint="`graph.unreadable: skip` leaves out rows without ids"
        )
    # `-3` and `4.5` are wrong numbers rather than names. The scan reports what is wrong with them.
    is_name = [not _NUMERAL.fullmatch(end) for end in ends]
    if all(is_name):
        return "string", f"`{ends[0]}` is a name"
    if any(is_name):
        raise InputError(
            f"{place}: `{ends[is_name.index(True)]}` is not a vertex id, "
            "but the other id of the edge is a number",
            hint="for names set `graph.ids: string`",
        )
    found = [end for edge in edges for end in edge]
    zero_led = next((end for end in found if _ZERO_LED.fullmatch(end)), None)
    if zero_led is not None and all(_DIGITS.fullmatch(end) for end in found):
        return "string", f"`{zero_led}` would lose its first character as an integer"
    return "integer", f"all of the first {len(edges):,} rows have whole numbers"


def refuse_different(urls: list[str], layouts: list[RowLayout]) -> None:
    """Raise `InputError` if only some files have a header, or if their columns differ."""
    first = layouts[0]
    for layout in layouts:
        n_columns, n_first = len(layout.columns.names), len(first.columns.names)
        if layout.has_header != first.has_header:
            raise InputError(
                f"{first.sample.place} is {'a header' if first.has_header else 'an edge'}, but "
                f"{layout.sample.place} is {'a header' if layout.has_header else 'an edge'}",
                hint="files read together all have a header, or none has",
            )
        if n_columns != n_first and not first.has_header:
            raise InputError(
                f"{layout.sample.place} has {n_columns} columns, but {first.sample.place} has {n_first}",
                hint="files read together have the same columns",
            )
    check_same_columns(urls, [layout.columns for layout in layouts])
