"""Matrices in text and CSV: the entry in row i and column j is the weight of the edge from vertex i to vertex j.

Vertices are named by the header or by the first column, and otherwise counted from 0. The diagonal, a missing entry
(empty, `-`, nan, inf) and a 0 are no edges, as in SciPy and NetworkX. Python reads the file row by row.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.formats.columns.layout import (
    BLANKS,
    DELIMITERS,
    SAMPLE_ROWS,
    cells_of,
    cells_of_text,
    delimiter_of,
    is_table_of_tabs,
    read_sample,
    rows_of,
)
from sssp_pipeline.pipeline.formats.columns.matrix_layout import (
    MISSING,
    MatrixLayout,
    matrix_layout,
    may_lack_header,
)
from sssp_pipeline.pipeline.formats.edge_list import InputEdges, ReadOptions
from sssp_pipeline.pipeline.formats.parsing.fault_errors import line_place
from sssp_pipeline.pipeline.formats.reading import ColumnRead, Reading
from sssp_pipeline.pipeline.formats.row_by_row.python_rows import (
    Edge,
    chunks_of_edges,
    read_id,
    read_weight,
)
from sssp_pipeline.pipeline.formats.streams.decompressed import text_encoding
from sssp_pipeline.storage import files

_RULE = "a matrix: row i, column j is the edge i -> j; the diagonal, missing entries and 0 are no edges"
_WHOLE_NUMBER = re.compile("0|[1-9][0-9]*")


def open_matrix(urls: list[str], options: ReadOptions) -> InputEdges:
    """Return the edges of the matrix in the only file of `urls`.

    Raises
    ------
    InputError
        The table is not square; or two vertices have the same name.
    """
    (url,) = urls
    sample = read_sample(url, options, True)
    delimiter = delimiter_of(sample, options)
    if delimiter == "\t" and options.delimiter == "auto" and not is_table_of_tabs(sample):
        delimiter = None
    split = cells_of_text if delimiter is None else partial(cells_of, delimiter=delimiter)
    rows = [[cell.strip(BLANKS) for cell in split(row)] for row in sample.rows]
    layout = matrix_layout(rows, len(rows) < SAMPLE_ROWS, options.header, options.point)
    if layout is None:
        raise InputError(
            f"{sample.place}: this is no matrix: rows differ in length, or a cell holds no number",
            hint="a matrix has a row of n numbers for each of its n columns; the first row and the first column may "
            "name the vertices",
        )
    if options.header == "auto" and may_lack_header(rows, layout):
        raise InputError(
            f"{sample.place}: this row may name the columns, or be the first row of the matrix",
            hint="set `graph.header: true` if it names the columns, `graph.header: false` if it is a row",
        )
    table = _Matrix(url, options, split, layout)
    names = table.names()
    kind, why = _id_kind(names, options)
    ids = table.ids(names, kind)
    has_weights = options.weight_column != "none"
    is_counted = kind == "integer" and ids == list(range(layout.n))
    return InputEdges(
        Reading(
            format="matrix",
            format_why="as the workflow says",
            encoding=text_encoding(url, options.encoding),
            delimiter="white space" if delimiter is None else DELIMITERS.get(delimiter, delimiter),
            header=layout.has_header,
            weight=None if has_weights else ColumnRead(column=None, why="no weight, as the workflow says"),
            rules=(_RULE,),
            ids=kind,
            ids_why=why,
        ),
        has_weights,
        lambda n_threads: chunks_of_edges(
            table.edges(ids), kind, options.block_bytes, has_weights=has_weights
        ),
        n_vertices=layout.n if is_counted else None,
    )


def _id_kind(names: list[str] | None, options: ReadOptions) -> tuple[str, str]:
    if options.ids != "auto":
        return options.ids, "as the workflow says"
    if names is None:
        return "integer", "rows and columns count from 0"
    name = next((name for name in names if not _WHOLE_NUMBER.fullmatch(name)), None)
    return ("integer", "all names are whole numbers") if name is None else ("string", f"`{name}` is a name")


@dataclass(frozen=True)
class _Matrix:
    """A file with a matrix."""

    url: str
    options: ReadOptions
    #: A function that splits a row into cells.
    split: Callable[[str], list[str]]
    layout: MatrixLayout

    def names(self) -> list[str] | None:
        """Return the names of the vertices; None if they have none. It reads the file if only rows are named."""
        if self.layout.names is not None:
            return list(self.layout.names)
        return [cells[0] for _, cells in self._rows()] if self.layout.has_names else None

    def ids(self, names: list[str] | None, kind: str) -> list[int | str]:
        """Return the ids of the vertices, which are the integers from 0 if they have no names."""
        if names is None:
            return [i if kind == "integer" else str(i) for i in range(self.layout.n)]
        name, times = Counter(names).most_common(1)[0]
        if times > 1 or "" in names:
            what = f"the name `{name}` twice" if times > 1 else "a vertex without a name"
            raise InputError(
                f"`{files.redacted(self.url)}` has {what}", hint="give each vertex a name of its own"
            )
        place = f"`{files.redacted(self.url)}`"
        return [name if kind == "string" else read_id(place, name, self.options) for name in names]

    def edges(self, ids: list[int | str]) -> Iterator[Edge]:
        """Give the edges, row by row."""
        has_weights = self.options.weight_column != "none"
        for i, (place, cells) in enumerate(self._rows()):
            self._check_name(place, i, cells[0])
            for j, cell in enumerate(cells[self.layout.has_names :]):
                if i == j or cell.lower() in MISSING:
                    continue
                if weight := read_weight(place, cell.replace(self.options.point, "."), self.options):
                    yield ids[i], ids[j], weight if has_weights else None

    def _rows(self) -> Iterator[tuple[str, list[str]]]:
        """Give the place and the cells of each row below the header; raises `InputError` unless it is square."""
        n, n_rows = self.layout.n, 0
        for k, (line, _, content) in enumerate(rows_of(self.url, self.options, True)):
            place = line_place(self.url, line)
            cells = [cell.strip(BLANKS) for cell in self.split(self._decoded(place, content))]
            if k == 0 and self.layout.has_header:
                continue
            if len(cells) != n + self.layout.has_names:
                raise self._not_square(f"{place} has {len(cells) - self.layout.has_names} numbers")
            n_rows += 1
            if n_rows > n:
                raise self._not_square(f"{place} is row {n_rows}")
            yield place, cells
        if n_rows < n:
            raise self._not_square(f"`{files.redacted(self.url)}` ends after {n_rows} rows")

    def _not_square(self, what: str) -> InputError:
        return InputError(
            f"{what}, and the matrix has {self.layout.n} columns",
            hint="a matrix has as many rows as columns; `graph.header` says whether the first row names the columns",
        )

    def _decoded(self, place: str, content: bytes) -> str:
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise InputError(
                f"{place}: this line is not UTF-8", hint="set `graph.encoding` to the encoding of the file"
            ) from error

    def _check_name(self, place: str, i: int, name: str) -> None:
        """Raise `InputError` if the row and the column of a vertex have different names."""
        names = self.layout.names
        if names is not None and self.layout.has_names and name != names[i]:
            raise InputError(
                f"{place}: row {i + 1} is named `{name[:60]}`, column {i + 1} `{names[i][:60]}`",
                hint="name rows and columns in the same order",
            )
