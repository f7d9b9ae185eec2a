"""Delimiters: which character separates the columns of a table."""

from __future__ import annotations

import csv

from sssp_pipeline.errors import InputError
from sssp_pipeline.pipeline.formats.edge_list import ReadOptions
from sssp_pipeline.pipeline.formats.parsing.layout import BLANKS, Sample, cells_of_text

#: The delimiters of columns, and their names.
DELIMITERS = {",": "comma", ";": "semicolon", "|": "vertical bar", "\t": "tab"}


def cells_of(row: str, delimiter: str) -> list[str]:
    """Return the cells of a row, as Arrow splits it."""
    try:
        return next(csv.reader([row], delimiter=delimiter))
    except csv.Error:  # a cell is longer than the limit of the csv module
        return row.split(delimiter)


def delimiter_of(sample: Sample, options: ReadOptions) -> str | None:
    """Return the delimiter of a file; None if its rows have no delimiter.

    Raises
    ------
    InputError
        Two delimiters are possible.
    """
    if options.delimiter != "auto":
        return "\t" if options.delimiter == "tab" else options.delimiter
    rows = sample.rows
    # With decimal commas, a comma is not a delimiter.
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
