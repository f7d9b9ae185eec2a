"""The pairs of vertices in a file: CSV whose first line names the columns, Parquet, or Arrow."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import permutations

import pyarrow as pa
import pyarrow.parquet as pq

from sssp_pipeline.base.vertex_ids import listed
from sssp_pipeline.pipeline.formats.columns.column_names import PAIRS
from sssp_pipeline.pipeline.formats.streams.magic import ARROW_FILE_MAGIC, PARQUET_MAGIC
from sssp_pipeline.pipeline.formats.vertex_files.column_files import ColumnFile, shortened

#: An id of a graph whose ids are integers.
_INTEGER = re.compile("[1-9][0-9]{0,18}|0")


def columns_of_pairs(names: Sequence[str], wanted: tuple[str, str] | None = None) -> list[tuple[int, int]]:
    """Return the places of the columns that can be source and target: those `wanted`, or those with usual names."""
    pairs = PAIRS if wanted is None else [wanted]
    if wanted is None:
        names = [name.casefold() for name in names]
    return [(i, j) for i, j in permutations(range(len(names)), 2) if (names[i], names[j]) in pairs]


@dataclass(frozen=True)
class PairFile(ColumnFile):
    """A file with a row for each pair, and what is known about it."""

    place: str
    #: The columns of the sources and of the targets; None for those whose names mean that.
    columns: tuple[str, str] | None
    #: The types of the ids of sources and of targets.
    id_types: tuple[pa.DataType, pa.DataType]

    wanted = (
        "write a CSV file with a header, or a Parquet or Arrow file, with the columns `source` and `target`"
    )

    @property
    def url(self) -> str:
        return self.place

    def read(self) -> tuple[pa.Array, pa.Array]:
        """Return the ids of the sources and of the targets, (n,) each, in the order of the file.

        Raises
        ------
        InputError
            The file cannot be read or has no pair, it is not clear which columns hold the pairs, or a row has no id of
            the right type.
        """
        content, is_table = self._content()
        sources, targets = self._of_table(content) if is_table else self._of_text(content)
        if not len(sources):
            raise self._error(" has no pair", self.wanted)
        return sources, targets

    def _looks_like_header(self, cells: list[str]) -> bool:
        return bool(columns_of_pairs([cell.strip() for cell in cells], self.columns))

    def _chosen(self, names: Sequence[str]) -> tuple[int, int]:
        found = columns_of_pairs(names, self.columns)
        if len(found) == 1:
            return found[0]
        if self.columns is not None:
            problem = f"no two columns {listed(self.columns)}"
        else:
            problem = (
                f"{'more than one pair' if found else 'no pair'} of columns that can be source and target"
            )
        raise self._error(
            f" has {problem}: its columns are {listed(names)}",
            "name two of them: `--columns origin,destination`; the first line of a text file must name its columns",
        )

    def _of_text(self, content: bytes) -> tuple[pa.Array, pa.Array]:
        rows = self._rows(content)
        if not rows:
            return pa.nulls(0), pa.nulls(0)
        (_, first), *rows = rows
        chosen = self._chosen([cell.strip() for cell in first])
        for number, row in rows:
            if len(row) != len(first):
                raise self._error(
                    f" line {number} has {len(row)} columns, the first line has {len(first)}",
                    "put an id that has a delimiter in quotes",
                )
        source, target = (
            self._ids(((f"line {number}", row[i].strip()) for number, row in rows), kind)
            for i, kind in zip(chosen, self.id_types, strict=True)
        )
        return source, target

    def _of_table(self, content: bytes) -> tuple[pa.Array, pa.Array]:
        buffer = pa.BufferReader(content)
        try:
            if content.startswith(PARQUET_MAGIC):
                table = pq.ParquetFile(buffer).read()
            else:
                is_file = content.startswith(ARROW_FILE_MAGIC)
                table = (pa.ipc.open_file if is_file else pa.ipc.open_stream)(buffer).read_all()
        except (pa.ArrowException, OSError) as error:
            problem = f" cannot be read as Parquet or Arrow: {error}"
            raise self._error(problem, "write the file again") from error
        chosen = self._chosen(table.column_names)
        source, target = (
            self._of_column(table.column_names[i], table.column(i), kind)
            for i, kind in zip(chosen, self.id_types, strict=True)
        )
        return source, target

    def _of_column(self, name: str, column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if column.null_count:
            row = column.is_null().index(True).as_py() + 1
            raise self._error(f" row {row}: `{name}` is null", "leave out the rows without an id")
        is_text = not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type))
        if pa.types.is_integer(kind) and is_text:
            return self._ids(((f"row {row}", str(x)) for row, x in enumerate(column.to_pylist(), 1)), kind)
        try:
            if not pa.types.is_integer(kind) and not is_text:
                raise pa.ArrowInvalid("numbers are no texts")
            return column.cast(kind).combine_chunks()
        except pa.ArrowException as error:
            raise self._error(
                f": column `{name}` has type {column.type}, and the ids are {kind}", f"store it as {kind}"
            ) from error

    def _ids(self, words: Iterable[tuple[str, str]], kind: pa.DataType) -> pa.Array:
        """Return the ids `words`, each with its place."""
        found: list[int | str] = []
        for place, word in words:
            if not word:
                raise self._error(f" {place} has no id", "leave out the rows without an id")
            if pa.types.is_integer(kind) and not (_INTEGER.fullmatch(word) and int(word) < 2**63):
                what, hint = "the run", "correct it"
                if not pa.types.is_integer(self.id_types[0]):
                    # The sources are points with names, and the run has no points as targets.
                    what = "the graph"
                    hint = "name a vertex of the graph, or run it with points as `output.targets`"
                raise self._error(
                    f" {place}: `{shortened(word)}` is no id of {what}, whose ids are integers", hint
                )
            found.append(int(word) if pa.types.is_integer(kind) else word)
        return pa.array(found, kind)
