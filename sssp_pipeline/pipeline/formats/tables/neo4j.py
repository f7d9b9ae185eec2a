"""Relationships as `neo4j-admin database import` reads them: CSV with a header such as `:START_ID,:END_ID,km:double`.

The header may be a file of its own, before the files that it describes; files without a header belong to the last one.
Any other row is read like a row of a CSV table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.formats.arrow_compute import pc
from sssp_pipeline.pipeline.formats.columns.edge_columns import (
    EdgeColumns,
    check_same_columns,
    choose_weight,
)
from sssp_pipeline.pipeline.formats.columns.layout import (
    BLANKS,
    FirstRows,
    cells_of,
    delimiter_of,
    is_number,
    read_sample,
)
from sssp_pipeline.pipeline.formats.edge_list import EdgeChunk, InputEdges, ReadOptions, SkippedRows
from sssp_pipeline.pipeline.formats.tables.csv_table import open_csv
from sssp_pipeline.storage import files
from sssp_pipeline.workflow.registries import FORMATS

#: A cell of a header: a name, a type, and for ids an ID space.
_CELL = re.compile(r"([^:]*)(?::([A-Za-z_]+)(\[\])?)?(?:\(([^)]*)\))?(?:\{.*\})?")
_START, _END = "START_ID", "END_ID"
#: The types of columns that belong to Neo4j and not to the relationship.
_OF_NEO4J = (_START, _END, "TYPE", "IGNORE")
_NUMBERS = ("int", "long", "float", "double", "byte", "short")


@dataclass(frozen=True)
class _Column:
    """A column that a header declares."""

    #: As it is written.
    text: str
    name: str
    #: "START_ID", "double", …; "" without a type.
    type: str
    #: The ID space, None without one.
    space: str | None

    @classmethod
    def of(cls, text: str) -> _Column:
        text = text.strip(BLANKS)
        found = _CELL.fullmatch(text)
        if found is None:
            return cls(text, text, "", None)
        return cls(text, found[1], (found[2] or "") + (found[3] or ""), found[4])


def _is_header(row: str) -> bool:
    """Return whether `row` declares the ids of nodes, or of the ends of relationships."""
    return re.search(FORMATS["neo4j"].first_row, row) is not None


@dataclass(eq=False)
class _Group:
    """Files with one header."""

    #: The file that begins with the header, and the words for its place.
    url: str
    place: str
    delimiter: str
    columns: list[_Column]
    #: The files with edges, each with whether the header is its first row.
    parts: list[tuple[str, bool]] = field(default_factory=list)
    #: Some rows of the first of these files.
    sample: list[list[str]] = field(default_factory=list)

    def place_of(self, kind: str) -> int:
        """Return the index of the column with the type `kind`."""
        return next(i for i, column in enumerate(self.columns) if column.type == kind)

    @property
    def spaces(self) -> tuple[str | None, str | None]:
        """The ID spaces of source and target."""
        source, target = (self.columns[self.place_of(kind)].space for kind in (_START, _END))
        return source, target

    def properties(self) -> list[int]:
        """Return the indices of the columns with properties."""
        return [i for i, column in enumerate(self.columns) if column.type not in _OF_NEO4J]


def open_neo4j(urls: list[str], options: ReadOptions) -> InputEdges:
    """Return the edge list in the files `urls`, one after the other.

    Raises
    ------
    InputError
        The first file has no header, a header lacks an end, or more than one property could be the
        weight; or as `open_csv`.
    """
    groups = _groups(urls, options)
    columns = [_columns(group, options) for group in groups]
    check_same_columns([group.url for group in groups], columns)
    spaces = {space for group in groups for space in group.spaces}
    if len(spaces) > 1:
        if options.ids == "integer":
            raise InputError(
                f"{groups[0].place}: there are several ID spaces, so ids are texts such as `Person:7`",
                hint="remove `graph.ids`",
            )
        options = replace(options, ids="string")
    tables = [
        (group, _open(group, part, chosen, options, has_header))
        for group, chosen in zip(groups, columns, strict=True)
        for part, has_header in group.parts
    ]
    first = tables[0][1].reading
    for _, table in tables:
        if table.reading.ids != first.ids:
            raise InputError(
                f"`{files.redacted(urls[0])}` has {first.ids} ids, another file has {table.reading.ids} ids",
                hint="set `graph.ids: string` to read all of them as strings",
            )
    skipped = SkippedRows()

    def read(n_threads: int) -> Iterator[EdgeChunk]:
        for group, table in tables:
            for chunk in table.chunks(n_threads):
                yield _with_spaces(chunk, group.spaces) if len(spaces) > 1 else chunk
            skipped.add_all(table.skipped)

    head = groups[0]
    source, target = (head.columns[head.place_of(kind)].text for kind in (_START, _END))
    names = sorted(space or "" for space in spaces)
    rules = (
        (f"ids with their ID space, of {', '.join(f'`{name}`' for name in names)}",)
        if len(spaces) > 1
        else ()
    )
    return InputEdges(
        replace(
            first,
            format="neo4j",
            header=True,
            rules=rules,
            ids_why="ids of several ID spaces" if len(spaces) > 1 else first.ids_why,
            **columns[0].with_ends(source, target, "by the header").reading_fields(),
        ),
        columns[0].weight is not None,
        read,
        skipped=skipped,
    )


def _groups(urls: list[str], options: ReadOptions) -> list[_Group]:
    """Return the files, grouped by their headers."""
    groups: list[_Group] = []
    for url in urls:
        sample = read_sample(url, options, False)
        has_header = _is_header(sample.rows[0])
        if has_header:
            groups.append(_group_of(sample, options))
        elif not groups:
            raise InputError(
                f"{sample.place}: `{sample.rows[0][:60]}` is no header of Neo4j",
                hint="a header names the ends of relationships: `:START_ID,:END_ID,km:double`; name its file first",
            )
        group = groups[-1]
        if not has_header or len(sample.rows) > 1:
            rows = [cells_of(row, group.delimiter) for row in sample.rows[has_header:]]
            group.sample = group.sample or rows
            group.parts.append((url, has_header))
    for group in groups:
        if not group.parts:
            raise InputError(
                f"{group.place} is a header, and no file with relationships follows it",
                hint="name the files that it describes after it",
            )
    return groups


def _group_of(sample: FirstRows, options: ReadOptions) -> _Group:
    delimiter = delimiter_of(replace(sample, rows=sample.rows[:1], lines=sample.lines[:1]), options)
    if delimiter is None:
        possible = "semicolon" if options.point == "," else "comma, semicolon"
        raise InputError(
            f"{sample.place}: `{sample.rows[0][:60]}` has no {possible}, `|` or tab between columns",
            hint="write the header as `:START_ID;:END_ID;km:double`",
        )
    columns = [_Column.of(cell) for cell in cells_of(sample.rows[0], delimiter)]
    types = [column.type for column in columns]
    if "ID" in types and _START not in types:
        raise InputError(
            f"{sample.place}: `{sample.rows[0][:60]}` is the header of nodes",
            hint="name the files of relationships",
        )
    for kind in (_START, _END):
        if types.count(kind) != 1:
            number = "no column" if kind not in types else f"{types.count(kind)} columns"
            raise InputError(
                f"{sample.place}: the header has {number} `:{kind}`",
                hint="a header of relationships has one `:START_ID` and one `:END_ID`",
            )
    return _Group(sample.url, sample.place, delimiter, columns)


def _columns(group: _Group, options: ReadOptions) -> EdgeColumns:
    """Return which property is the weight, as a choice of columns."""
    names = {i: group.columns[i].name or group.columns[i].text for i in group.properties()}
    numeric = {name for i, name in names.items() if _holds_numbers(group, i, options)}
    return choose_weight(group.place, list(names.values()), numeric, options)


def _holds_numbers(group: _Group, i: int, options: ReadOptions) -> bool:
    """Return whether column `i` is of a type of numbers, or has no type and a number in the sample."""
    kind = group.columns[i].type
    if kind:
        return kind in _NUMBERS
    return any(len(row) > i and is_number(row[i].strip(BLANKS), options.point) for row in group.sample)


def _open(group: _Group, url: str, chosen: EdgeColumns, options: ReadOptions, has_header: bool) -> InputEdges:
    """Return the edge list in one file, read as a CSV table with or without a header."""

    def column(i: int) -> str:
        return group.columns[i].text if has_header else str(i + 1)

    given = replace(
        options,
        header=has_header,
        delimiter="tab" if group.delimiter == "\t" else group.delimiter,
        source_column=column(group.place_of(_START)),
        target_column=column(group.place_of(_END)),
        weight_column="none" if chosen.weight is None else column(group.properties()[chosen.weight - 2]),
    )
    return open_csv([url], given)


def _with_spaces(chunk: EdgeChunk, spaces: tuple[str | None, str | None]) -> EdgeChunk:
    """Return the edges with the ID spaces before the ids."""

    def named(ids: np.ndarray | pa.Array, space: str | None) -> pa.Array:
        if space is None:
            return ids
        return pc.binary_join_element_wise(
            pa.scalar(f"{space}:", pa.large_string()), ids, pa.scalar("", pa.large_string())
        )

    return replace(chunk, src=named(chunk.src, spaces[0]), dst=named(chunk.dst, spaces[1]))
