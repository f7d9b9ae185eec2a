"""Matrix layout: whether a table of numbers is square, and where its rows and columns are named."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.formats.columns.column_names import INDEX_NAMES, WEIGHT_WORDS, words
from sssp_pipeline.pipeline.formats.columns.edge_columns import (
    may_name_both_ends,
    names_both_ends,
)

#: Cells that hold no number: there is no edge.
MISSING = frozenset({"", "-", "nan", "inf", "+inf", "infinity", "+infinity"})
_ZERO = re.compile(r"[-+]?0+([.,]0*)?([eE][-+]?[0-9]+)?")
_NUMBER = re.compile(r"[-+]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][-+]?[0-9]+)?")
#: A smaller matrix without names may be a list of edges: three columns are source, target and weight. A list of edges
#: hardly has a diagonal of zeros.
_LEAST_UNNAMED = 4


@dataclass(frozen=True)
class MatrixLayout:
    """The layout of a table whose rows and columns are vertices."""

    #: The number of columns of weights.
    n: int
    #: Whether the first column names the rows.
    has_names: bool
    #: The names in the header; None without a header.
    names: tuple[str, ...] | None

    @property
    def has_header(self) -> bool:
        """Whether the first row names the columns."""
        return self.names is not None


def is_entry(cell: str, point: str = ".") -> bool:
    """Return whether a cell may be an entry of a matrix: a number, or nothing."""
    return cell.lower() in MISSING or _NUMBER.fullmatch(cell.replace(point, ".")) is not None


def matrix_layout(
    rows: Sequence[list[str]], is_whole: bool, header: str | bool, point: str
) -> MatrixLayout | None:
    """Return the layout of `rows`, which hold cells, if they are a matrix; None if they are not one.

    `is_whole` says whether these are all rows of the table. The number of rows is not compared with the number of
    columns, except where the header may also be a row.
    """
    first, rest = rows[0], rows[1:]
    width = len(rest[0]) if rest else len(first)
    if any(len(row) != width for row in rest) or len(first) not in (width, width - 1):
        return None
    labels = first[len(first) - (width - 1) :]
    column = [row[0] for row in rest]
    # In a symmetric matrix without names, the first row equals the first column too, and its corner is a number.
    has_corner = len(first) == width and _NUMBER.fullmatch(first[0]) is not None
    may_be_named = rest and width > 1 and (header is True or (header == "auto" and not has_corner))
    if may_be_named and column == (labels if is_whole else labels[: len(column)]):
        return _of_entries(rest, tuple(labels), True, width - 1, point)
    has_header = header
    if header == "auto":
        counts = [str(i) for i in range(width)]
        is_counted = first == counts and (len(rest) == width if is_whole else len(rest) <= width)
        has_header = is_counted or len(first) < width or not any(is_entry(cell, point) for cell in first[1:])
    body = rest if has_header else rows
    if not body or (not has_header and len(first) != width):
        return None
    has_names = width > 1 and not any(is_entry(row[0], point) for row in body)
    names = tuple(labels if has_names else first) if has_header else None
    n = width - has_names
    return None if names is not None and len(names) != n else _of_entries(body, names, has_names, n, point)


def _of_entries(
    body: Sequence[list[str]], names: tuple[str, ...] | None, has_names: bool, n: int, point: str
) -> MatrixLayout | None:
    entries = (cell for row in body for cell in row[has_names:])
    if all(is_entry(cell, point) for cell in entries):
        return MatrixLayout(n, has_names, names)
    return None


def _has_empty_diagonal(rows: Sequence[list[str]]) -> bool:
    """Return whether the diagonal of the first columns of `rows` holds zeros, or no numbers."""
    diagonal = [row[i] for i, row in enumerate(rows[: len(rows[0])])]
    return all(cell.lower() in MISSING or _ZERO.fullmatch(cell) for cell in diagonal)


def may_lack_header(rows: Sequence[list[str]], layout: MatrixLayout) -> bool:
    """Return whether the header of a matrix may be its first row: names are numbers, and the diagonal is missing."""
    if layout.names is None or not layout.has_names or len(rows[0]) == layout.n:
        return False
    diagonal = {row[i] for i, row in enumerate(rows)}
    return len(diagonal) == 1 and diagonal <= MISSING and all(map(_NUMBER.fullmatch, layout.names))


def refuse_matrix(
    place: str, rows: Sequence[list[str]], is_whole: bool, header: str | bool, point: str
) -> None:
    """Raise `InputError` if `rows`, the first ones of a table, look like a matrix and not like edges."""
    width = max(map(len, rows[:2]))
    # Most tables are refused here, before their cells are read.
    if not (width - 1 <= len(rows) <= width + 1 if is_whole else len(rows) <= width):
        return
    found = matrix_layout(rows, is_whole, header, point)
    if found is None:
        return
    has_both = found.has_names and found.has_header
    is_marked = found.has_names or found.has_header or _has_empty_diagonal(rows)
    least = 2 if has_both else 3 if is_marked else _LEAST_UNNAMED
    if found.n < least:
        return
    n_rows = len(rows) - found.has_header
    if not (n_rows == found.n if is_whole else n_rows <= found.n):
        return
    if found.names is not None and not found.has_names and _may_name_edges(found.names):
        return
    edges = "if it is a list of edges, name its columns with `graph.columns` and `graph.weights.column`"
    names = [name for name in rows[0] if name not in INDEX_NAMES] if found.has_header else ["1", "2", "3"]
    if len(names) == 3 and all(map(str.isdecimal, names)):
        source, target, weight = names
        edges = (
            "if it is a list of edges, name its columns:\n"
            f"graph:\n  columns: {{source: {source}, target: {target}}}\n  weights: {{column: {weight}}}    # or none"
        )
    raise InputError(
        f"{place}: this looks like a {found.n} x {found.n} matrix of distances, not like a list of edges",
        hint=f"if it is a matrix, write:\ngraph:\n  format: matrix\n{edges}",
    )


def _may_name_edges(names: Sequence[str]) -> bool:
    """Return whether an edge list may have columns with these names."""
    if len(names) < _LEAST_UNNAMED and all(name.isdecimal() for name in names):
        return True
    has_weight = any(WEIGHT_WORDS & set(words(name)) for name in names)
    return names_both_ends(names) or (
        (has_weight or len(names) < _LEAST_UNNAMED) and may_name_both_ends(names)
    )
