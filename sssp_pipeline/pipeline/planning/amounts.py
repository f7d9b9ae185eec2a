"""Files of amounts of vertices, such as `output.reduce.amounts` of the workflow."""

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
from sssp_pipeline.pipeline.planning.vertex_files import IdFile
from sssp_pipeline.storage import files
from sssp_pipeline.workflow.reduce import Amounts

_WRITE_NUMBERS = "write a number in each row; a vertex without a row has the amount 0"


def read_amounts(spec: Amounts, key: str, selection: VertexSelection) -> VertexAmounts:
    """Return the amounts in the file that `spec` names, which is at `key`; `selection` finds the vertices.

    Raises
    ------
    InputError
        The file cannot be read, lacks a column, or has a value that is no number; a vertex is not in the graph or
        named twice; or a sum is too large.
    """
    ids = selection.ids
    file = _AmountFile(key, spec, ids.mapping.type, ids.has)
    named, columns = file.read_columns(spec.names)
    place = f"`{files.redacted(spec.file)}`: "
    vertices, is_known = selection.known(named, spec, key, place, "vertex")
    known = {name: column[is_known] for name, column in columns.items()}
    try:
        return VertexAmounts.of(known, vertices, ids.n_vertices)
    except InputError as error:
        raise InputError(place + error.message, hint=error.hint) from error


@dataclass(frozen=True)
class _AmountFile(IdFile):
    """A file with a header, a column of ids, and columns of amounts."""

    def read_columns(self, wanted: Sequence[str]) -> tuple[list[int | str], dict[str, np.ndarray]]:
        """Return the ids in the order of the file, and the `wanted` columns, (n,) int64 or float64 each.

        Raises `InputError` as `read_amounts`.
        """

        def indices(names: list[str]) -> list[int]:
            return [self._index_in(names), *(self._place_of(name, names) for name in wanted)]

        content, is_table = self._content()
        if is_table:
            (name, ids), *columns = self._columns(content, indices)
            named = self._ids_of_column(name, ids)
            return named, {
                name: self._numbers(name, self._values_in(name, column)) for name, column in columns
            }
        rows = self._equal_rows(content)
        if not rows:
            hint = "write a line with the names of the columns, then a line for each vertex"
            raise self._error(" is empty", hint)
        (_, first), *rows = rows
        index, *places = indices([cell.strip() for cell in first])
        named = [self._id(row[index].strip(), "line", number) for number, row in rows]
        return named, {
            name: self._numbers(name, ((f"line {n}", _parsed(row[place].strip())) for n, row in rows))
            for name, place in zip(wanted, places, strict=True)
        }

    def _values_in(self, name: str, column: pa.ChunkedArray) -> Iterable[tuple[str, Any]]:
        """Return the place and the value of each row of a column; raise `InputError` if it has no numbers."""
        if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
            problem = f": column `{name}` has type {column.type}, wanted numbers"
            raise self._error(problem, "store integers or floats")
        return ((f"row {row}", value) for row, value in enumerate(column.to_pylist(), 1))

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
