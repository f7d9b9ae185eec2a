"""The ids in a file of sources or targets: one on each line, or a column of a CSV, Parquet or Arrow file.

If a file could be read in two ways, the error names the key of the workflow that decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.vertex_ids import listed
from sssp_pipeline.pipeline.formats.streams.magic import ARROW_FILE_MAGIC, PARQUET_MAGIC
from sssp_pipeline.pipeline.formats.tables.parquet import is_uuid
from sssp_pipeline.pipeline.formats.vertex_files.column_files import ColumnFile, shortened
from sssp_pipeline.pipeline.formats.vertex_files.point_files import points_hint
from sssp_pipeline.workflow.reduce import Amounts
from sssp_pipeline.workflow.vertices import Vertices

#: Names of columns with ids. A first line with one of them is a header.
_COLUMN_NAMES = frozenset(("source", "target", "id", "vertex"))
#: The integers without a leading zero that can fit into 64 bits.
_USUAL_INTEGER = re.compile("[1-9][0-9]{0,18}|0")
_ONE_A_LINE = "write one id on each line, or name a CSV, Parquet or Arrow file with a column of ids"


@dataclass(frozen=True)
class IdFile(ColumnFile):
    """A file of ids and what the workflow and the graph say about it."""

    #: Its key in the workflow: `sources`, or one for targets.
    key: str
    #: Its `file`, `column` and `header`. Amounts always have a header.
    spec: Vertices | Amounts
    #: The type of the graph's ids: "int64" or "string".
    id_type: str
    #: Returns whether the graph has a vertex with an id.
    is_vertex: Callable[[str], bool]

    wanted = _ONE_A_LINE

    @property
    def url(self) -> str:
        assert self.spec.file is not None
        return self.spec.file

    @property
    def what(self) -> str:
        """The word for a vertex of the file, which is also the usual name of its column."""
        if isinstance(self.spec, Amounts):
            return "vertex"
        return "source" if self.key == "sources" else "target"

    @property
    def _noun(self) -> str:
        """The word for the vertices of the file."""
        return "vertices" if self.what == "vertex" else f"{self.what}s"

    @property
    def _has_header(self) -> bool | None:
        return self.spec.header if isinstance(self.spec, Vertices) else None

    def read(self) -> list[int | str]:
        """Return the ids in the order of the file. Integers that are too large for any graph stay strings of digits.

        Raises
        ------
        InputError
            The file does not exist or names no vertex, a row has no id of `id_type`, or it is not clear which column
            holds the ids or whether the first line is a header.
        """
        content, is_table = self._content()
        found = self._of_table(content) if is_table else self._of_text(content)
        if not found:
            raise self._error(f" names no {self.what}", _ONE_A_LINE)
        return found

    # ---- text ----

    def _of_text(self, content: bytes) -> list[int | str]:
        rows = self._equal_rows(content)
        if not rows:
            return []
        index, has_header = self._column_and_header([cell.strip() for cell in rows[0][1]], rows[0][0])
        return [self._id(row[index].strip(), "line", number) for number, row in rows[has_header:]]

    def _equal_rows(self, content: bytes) -> list[tuple[int, list[str]]]:
        """Return the rows of a text; raise `InputError` unless all have as many cells as the first."""
        rows = self._rows(content)
        for number, row in rows:
            if len(row) != len(rows[0][1]):
                raise self._error(
                    f" line {number} has {len(row)} column{'s' * (len(row) != 1)}, "
                    f"the lines before it have {len(rows[0][1])}",
                    "put an id that has a delimiter in quotes",
                )
        return rows

    def _looks_like_header(self, cells: list[str]) -> bool:
        named = {cell.strip().casefold() for cell in cells}
        return bool(named & _COLUMN_NAMES) or self.spec.column in [cell.strip() for cell in cells]

    def _column_and_header(self, first: list[str], line: int) -> tuple[int, bool]:
        """Return the index of the column with the ids, and whether the first row, on `line`, names the columns."""
        column, has_header = self.spec.column, self._has_header
        if has_header is None:
            has_header = isinstance(column, str) or self._is_header(first, line)
        if isinstance(column, int):
            return self._numbered(column, len(first)), has_header
        if has_header:
            return self._named(first), True
        if len(first) > 1:
            raise self._error(
                f" line {line} has {len(first)} columns, {listed(first)}, and none is known to hold the {self._noun}",
                f"write `{self.key}.column: 1`, or `{self.key}.column: NAME` if this line names the columns",
            )
        return 0, False

    def _is_header(self, first: list[str], line: int) -> bool:
        known = [cell for cell in first if cell.casefold() in _COLUMN_NAMES]
        if not known:
            return False
        if self.id_type == "string" and any(self.is_vertex(cell) for cell in known):
            vertex = next(cell for cell in known if self.is_vertex(cell))
            raise self._error(
                f" line {line}: `{vertex}` may be the name of a column or the vertex of this id",
                f"write `{self.key}.header: true` if the line names columns, `{self.key}.header: false` if not",
            )
        return True

    # ---- Parquet and Arrow ----

    def _of_table(self, content: bytes) -> list[int | str]:
        if self._has_header is not None:
            problem = " is a Parquet or Arrow file, whose columns always have names"
            raise self._error(problem, f"remove `{self.key}.header`")
        ((name, column),) = self._columns(content, lambda names: [self._index_in(names)])
        return self._ids_of_column(name, column)

    def _ids_of_column(self, name: str, column: pa.ChunkedArray) -> list[int | str]:
        """Return the ids in a column of a Parquet or Arrow file; raise `InputError` if a row has none."""
        kind = column.type
        if pa.types.is_dictionary(kind):
            column, kind = column.cast(kind.value_type), kind.value_type
        is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
        is_text |= is_uuid(kind)
        if not (is_text or (pa.types.is_integer(kind) and self.id_type == "int64")):
            wanted = "strings" if self.id_type == "string" else "integers"
            raise self._error(
                f": column `{name}` has type {kind}, and the graph's ids are {wanted}",
                f"store the column as {wanted}, or name another with `{self.key}.column`",
            )
        values = column.to_pylist()
        if column.null_count:
            raise self._error(
                f" row {values.index(None) + 1}: `{name}` is null; {column.null_count:,} of {len(values):,} rows are",
                "leave out the rows without an id",
            )
        if is_text:
            return [self._id(str(value), "row", row) for row, value in enumerate(values, 1)]
        return values

    def _columns(
        self, content: bytes, choose: Callable[[list[str]], list[int]]
    ) -> list[tuple[str, pa.ChunkedArray]]:
        """Return the columns of a Parquet or Arrow file that `choose` picks by the names; raise `InputError`."""
        buffer = pa.BufferReader(content)
        try:
            if content.startswith(PARQUET_MAGIC):
                file = pq.ParquetFile(buffer)
                names = file.schema_arrow.names
                # The name `a` also reads a column `a.b`.
                tables = [(names[index], file.read(columns=[names[index]])) for index in choose(names)]
                return [(name, table.column(table.column_names.index(name))) for name, table in tables]
            is_file = content.startswith(ARROW_FILE_MAGIC)
            table = (pa.ipc.open_file if is_file else pa.ipc.open_stream)(buffer).read_all()
            return [(table.column_names[index], table.column(index)) for index in choose(table.column_names)]
        except InputError:
            raise
        except (pa.ArrowException, OSError, ValueError, LookupError) as error:
            problem = f" cannot be read as Parquet or Arrow: {error}"
            raise self._error(problem, "write the file again") from error

    def _index_in(self, names: list[str]) -> int:
        column = self.spec.column
        return self._numbered(column, len(names)) if isinstance(column, int) else self._named(names)

    # ---- both ----

    def _named(self, names: list[str]) -> int:
        """Return the index of the column with the ids among the columns `names`."""
        column = self.spec.column
        if column is not None:
            found = [i for i, name in enumerate(names) if name == column]
        else:
            folded = [name.strip().casefold() for name in names]
            found = [i for i, name in enumerate(folded) if name == self.what]
            found = found or [i for i, name in enumerate(folded) if name in ("id", "vertex")]
            found = found or ([0] if len(names) == 1 else [])
        if len(found) == 1:
            return found[0]
        problem = f" has the columns {listed(names)}, and it is not clear which one holds the {self._noun}"
        if column is not None:
            matches = f"{len(found)} columns" if found else "no column"
            problem = f" has {matches} `{column}`: its columns are {listed(names)}"
        usual = [name for name in names if name.strip().casefold() in _COLUMN_NAMES]
        example = [*usual, *names, "NAME"][0]
        raise self._error(problem, f"write the name of one, such as `{self.key}.column: {example}`")

    def _numbered(self, column: int, n_columns: int) -> int:
        if column > n_columns:
            raise self._error(
                f" has {n_columns} column{'s' * (n_columns != 1)}, and `{self.key}.column` is {column}",
                f"columns are counted from 1: write a number up to {n_columns}",
            )
        return column - 1

    def _id(self, word: str, unit: str, number: int) -> int | str:
        """Return the id `word` of line or row (`unit`) `number`; raise `InputError` if it is not an id of the graph."""
        if self.id_type == "int64" and _USUAL_INTEGER.fullmatch(word):
            return int(word)
        place = f"{unit} {number}"
        if self.id_type == "string":
            if not word:
                raise self._error(f" {place} has no id", "leave out the rows without an id")
            return word
        if not re.fullmatch("[0-9]+", word):
            raise self._error(
                f" {place}: `{shortened(word)}` is not a vertex id of this graph, whose ids are integers",
                (isinstance(self.spec, Vertices) and points_hint(self.url, self.key))
                or f"correct it; a first line that names the columns needs `{self.key}.header: true`",
            )
        if len(word) > 1 and word[0] == "0":
            raise self._error(
                f" {place}: `{shortened(word)}` has a leading zero, and the graph's ids are integers, which have none",
                f"write `{shortened(word.lstrip('0') or '0')}`; "
                "`graph.ids: string` ingests a graph whose ids keep their zeros",
            )
        return word
