"""Text edge lists, as SNAP publishes them: `source target [weight]` a line, white space, comments anywhere.

Comment lines begin with `#` or `%`. Every row has as many columns as the first one; the weight is in the third,
or in the column that is asked for, and others are passed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sssp_pipeline.errors import InputError
from sssp_pipeline.pipeline import storage
from sssp_pipeline.pipeline.formats.byte_streams import BYTE_ORDER_MARK, LineFile, read_lines
from sssp_pipeline.pipeline.formats.edge_list import EdgeChunk, EdgeList, ReadOptions
from sssp_pipeline.pipeline.formats.line_reader import MAX_ID, read_edges, where
from sssp_pipeline.pipeline.formats.tokenizer import LineSyntax

COMMENTS = b"#%"


def open_text(urls: list[str], options: ReadOptions) -> EdgeList:
    """Return the edge list in the text files `urls`, one after the other.

    Raises
    ------
    InputError
        A file holds no edge, its first row is no edge, files differ in their columns, or the options name a
        column that is not there.
    """
    _check_columns_are_auto(options)
    rows = [_first_row(url) for url in urls]
    first = rows[0]
    for row in rows:
        if len(row.columns) != len(first.columns):
            raise InputError(
                f"{row.place} has {len(row.columns)} columns, but {first.place} has {len(first.columns)}",
                hint="files read together have the same columns",
            )
    id_kind = options.ids
    if id_kind == "auto":
        id_kind = guess_id_kind(first.place, first.columns[:2])
        if id_kind == "string" and first.next_is_numeric:
            raise InputError(
                f"{first.place}: `{' '.join(first.columns[:2])}` names no edge like the numbers in the next row",
                hint="make a header a comment with #, or set `graph.format: csv`; for names set `graph.ids: string`",
            )
    syntax = LineSyntax(
        letter=0,
        comment=COMMENTS[0],
        other_comment=COMMENTS[1],
        n_columns=len(first.columns),
        weight_column=_weight_column(first, options.weight_column),
        min_id=0,
        max_id=MAX_ID,
        ids_are_strings=id_kind == "string",
    )
    files = [LineFile(url) for url in urls]

    def read(n_threads: int) -> Iterator[EdgeChunk]:
        for _, chunk in read_edges(files, syntax, options.block_bytes, n_threads):
            yield chunk

    return EdgeList("text", id_kind, syntax.weight_column >= 0, read)


def first_row(lines: Iterator[bytes]) -> tuple[int, bytes] | None:
    """Return the number and the content of the first line that is neither blank nor a comment, or None.

    A carriage return ends a row, so that the format of such a file can be told before `checked_lines` refuses it.
    """
    for line, content in enumerate(lines, 1):
        rows = content.removeprefix(BYTE_ORDER_MARK) if line == 1 else content
        for row in rows.split(b"\r"):
            stripped = row.strip()
            if stripped and stripped[0] not in COMMENTS:
                return line, stripped
    return None


def checked_lines(url: str) -> Iterator[bytes]:
    """Give the lines of `url` as `read_lines` does.

    Raises
    ------
    InputError
        A carriage return without a line feed stands between two rows: the readers would take both for one.
    """
    for line, content in enumerate(read_lines(url), 1):
        if b"\r" in content.strip():
            raise InputError(
                f"{where(url, line)} has a carriage return without a line feed, as old Macs end lines",
                hint="end lines with line feeds: `tr '\\r' '\\n'` turns the one into the other",
            )
        yield content


class _FirstRow(NamedTuple):
    """The columns of the first row of a file, and the words that name its line."""

    place: str
    columns: list[str]
    next_is_numeric: bool


def _first_row(url: str) -> _FirstRow:
    lines = checked_lines(url)
    found = first_row(lines)
    if found is None:
        raise InputError(
            f"`{storage.redacted(url)}` holds no edges, only comments and blank lines",
            hint="check that this is the file you mean",
        )
    line, content = found
    following = first_row(lines) or (0, b"")
    row = _FirstRow(
        where(url, line),
        [column.decode("utf-8", "replace") for column in content.split()],
        len(following[1].split()) > 1 and all(end.isdigit() for end in following[1].split()[:2]),
    )
    if len(row.columns) < 2:
        raise InputError(
            f"{row.place} has 1 column, wanted 2 or more",
            hint="every line holds source, target and perhaps a weight",
        )
    return row


def guess_id_kind(place: str, ends: list[str]) -> str:
    """Return "integer" or "string" for the two ids of the first edge, which stands at `place`.

    Raises
    ------
    InputError
        One is a number, the other is not.
    """
    # `-3`, `2x3` and `4.5` are numbers gone wrong rather than names: the scan tells what is wrong with them.
    is_name = [not end.lstrip("+-.")[:1].isdecimal() for end in ends]
    if not any(is_name):
        return "integer"
    if not all(is_name):
        raise InputError(
            f"{place}: `{ends[is_name.index(True)]}` is not a vertex id, but the other id of the edge is a number",
            hint="for names set `graph.ids: string`",
        )
    return "string"


def _weight_column(first: _FirstRow, asked: str) -> int:
    """Return the 0-based column of the weight, or -1."""
    n_columns = len(first.columns)
    if asked == "none" or (asked == "auto" and n_columns == 2):
        return -1
    if asked == "auto":
        return 2
    if not asked.isdecimal():
        raise InputError(
            f"unknown column `{asked}`: the columns of a text edge list have no names",
            hint="set `graph.weights.column` to a number, 3 or more, or name the columns and set `graph.format: csv`",
        )
    if not 3 <= int(asked) <= n_columns:
        raise InputError(
            f"weights are asked for in column {asked}, but {first.place} has {n_columns} columns",
            hint="columns count from 1, and the first two are source and target",
        )
    return int(asked) - 1


def _check_columns_are_auto(options: ReadOptions) -> None:
    for column in (options.source_column, options.target_column):
        if column != "auto":
            raise InputError(
                f"unknown column `{column}`: the columns of a text edge list have no names",
                hint="source and target are its first two columns; for a table set `graph.format: csv`",
            )
