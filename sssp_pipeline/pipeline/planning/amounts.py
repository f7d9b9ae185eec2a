"""The file of amounts of vertices: `output.reduce.amounts` of the workflow."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.vertex_amounts import VertexAmounts
from sssp_pipeline.base.vertex_ids import listed
from sssp_pipeline.pipeline.planning.sources import VertexSelection
from sssp_pipeline.pipeline.planning.vertex_files import IdFile, table_in
from sssp_pipeline.storage import files
from sssp_pipeline.workflow.reduce import Amounts

_KEY = "output.reduce.amounts"
_WRITE_NUMBERS = "write a number in each row; a vertex without a row has the amount 0"


def read_amounts(spec: Amounts, selection: VertexSelection) -> VertexAmounts:
    """Return the amounts in the file that `spec` names; `selection` finds the vertices.

    Raises
    ------
    InputError
        The file cannot be read, lacks a column, or has a value that is no number; a vertex is not in the graph or
        named twice; or a sum is too large.
    """
    ids = selection.ids
    file = _AmountFile(_KEY, spec, ids.mapping.type, ids.has)
    named, columns = file.read_columns(spec.names)
    place = f"`{files.redacted(spec.file)}`: "
    vertices, is_known = selection.known(named, spec, _KEY, place, "vertex")
    try:
        return VertexAmounts.of(
            {name: column[is_known] for name, column in columns.items()}, vertices, ids.n_vertices
        )
    except InputError as error:
        raise InputError(place + error.message, hint=error.hint) from error


@dataclass(frozen=True)
class _AmountFile(IdFile):
    """A file with a header, a column of ids, and columns of amounts."""

    def read_columns(self, wanted: Sequence[str]) -> tuple[list[int | str], dict[str, np.ndarray]]:
        """Return the ids in the order of the file, and the `wanted` columns, (n,) int64 or float64 each.

        Raises `InputError` as `read_amounts`.
        """
        content, is_table = self._content()
        if is_table:
            try:
                table = table_in(content)
            except (pa.ArrowException, OSError, ValueError) as error:
                raise self._error(
                    f" cannot be read as Parquet or Arrow: {error}", "write the file again"
                ) from error
            return self._of_arrow(table, wanted)
        rows = self._equal_rows(content)
        if not rows:
            raise self._error(
                " is empty", "write a line with the names of the columns, then a line for each vertex"
            )
        (_, first), *rows = rows
        names = [cell.strip() for cell in first]
        index = self._index_in(names)
        places = {name: self._place_of(name, names) for name in wanted}
        named = [self._id(row[index].strip(), "line", number) for number, row in rows]
        columns = {
            name: self._numbers(name, ((f"line {n}", _parsed(row[place].strip())) for n, row in rows))
            for name, place in places.items()
        }
        return named, columns

    def _of_arrow(
        self, table: pa.Table, wanted: Sequence[str]
    ) -> tuple[list[int | str], dict[str, np.ndarray]]:
        names = table.column_names
        index = self._index_in(names)
        named = self._ids_of_column(names[index], table.column(index))
        columns = {}
        for name in wanted:
            column = table.column(self._place_of(name, names))
            if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
                raise self._error(
                    f": column `{name}` has type {column.type}, wanted numbers", "store integers or floats"
                )
            values = ((f"row {row}", value) for row, value in enumerate(column.to_pylist(), 1))
            columns[name] = self._numbers(name, values)
        return named, columns

    def _place_of(self, name: str, names: list[str]) -> int:
        if names.count(name) != 1:
            how_many = f"{names.count(name)} columns" if name in names else "no column"
            raise self._error(
                f" has {how_many} `{name}`: its columns are {listed(names)}",
                f"correct `{self.key}.names`; the first line of a text file must name its columns",
            )
        return names.index(name)

    def _numbers(self, name: str, values: Iterable[tuple[str, Any]]) -> np.ndarray:
        found: list[int | float] = []
        for place, value in values:
            if not isinstance(value, int | float) or not math.isfinite(value):
                shown = "empty" if value in (None, "") else f"`{str(value)[:60]}`"
                raise self._error(f" {place}: column `{name}` is {shown}, wanted a number", _WRITE_NUMBERS)
            found.append(value)
        is_whole = all(isinstance(value, int) and abs(value) < 2**63 for value in found)
        return np.array(found, np.int64 if is_whole else np.float64)


def _parsed(word: str) -> int | float | str:
    """Return the number that `word` is; `word` itself if it is none."""
    for kind in (int, float):
        try:
            return kind(word) if "_" not in word else word
        except ValueError:
            pass
    return word
