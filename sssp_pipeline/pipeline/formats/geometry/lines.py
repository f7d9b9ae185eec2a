"""Lines of GeoParquet and GeoPackage: each line is an edge from its first point to its last one.

If two columns name source and target, such as `u` and `v`, they are the ends, and the geometry is not read, unless
`graph.columns` names the column of the geometry as both. Otherwise the ends of the lines are the vertices: lines meet
where their ends are equal, and their ids are texts such as `7.42,43.73`. Lines that cross elsewhere do not meet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from types import ModuleType

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.lazy import optional_package
from sssp_pipeline.base.vertex_ids import VertexIds
from sssp_pipeline.pipeline.formats.arrow_compute import pc, true_rows
from sssp_pipeline.pipeline.formats.beginning import Beginning
from sssp_pipeline.pipeline.formats.columns.column_names import WEIGHT_WORDS, words
from sssp_pipeline.pipeline.formats.columns.edge_columns import (
    EdgeColumns,
    check_same_columns,
    choose_weight,
    may_name_both_ends,
)
from sssp_pipeline.pipeline.formats.edge_list import (
    Coordinates,
    EdgeChunk,
    InputEdges,
    ReadOptions,
    SkippedRows,
)
from sssp_pipeline.pipeline.formats.geometry.geometry_metadata import primary_geometry
from sssp_pipeline.pipeline.formats.geometry.great_circle import step_metres
from sssp_pipeline.pipeline.formats.geometry.line_tables import LineTable, open_geopackage, open_geoparquet
from sssp_pipeline.pipeline.formats.geometry.wkb import lines_of_wkb
from sssp_pipeline.pipeline.formats.reading import Reading
from sssp_pipeline.pipeline.formats.streams.decompressed import open_decompressed
from sssp_pipeline.pipeline.formats.streams.magic import PARQUET_MAGIC
from sssp_pipeline.pipeline.formats.tables.parquet import (
    SKIP_HINT,
    read_tables,
    table_of,
    typed_edge_list,
    typed_weights,
    weight_dtype_of,
)
from sssp_pipeline.pipeline.formats.tables.record_batches import is_numeric, record_batches
from sssp_pipeline.storage import files

#: What the ends of a line are called. The names stand before the names of the columns.
_ENDS = ("first point", "last point")
#: What is said of a point that has no place, and what to do.
_OFF = " is not on the globe"
_DEGREES = "points are longitude and latitude in degrees, in this order: convert the file, or exchange them"
#: About as many bytes as a line takes.
_LINE_BYTES = 1024


def open_lines(urls: list[str], options: ReadOptions) -> InputEdges:
    """Return the edge list in the GeoParquet files or GeoPackages `urls`, one after the other.

    Raises
    ------
    InputError
        A file is damaged or is not in WGS 84, a GeoPackage has several layers of lines and none is named, more than
        one column could be the weight, or shapely is missing. While the edges are read: a geometry is no line.
    """
    tables = [_open_table(url, options) for url in urls]
    first = tables[0]
    rules = () if first.layer is None else (f"layer `{first.layer}`",)
    if not _uses_geometry(first.schema, first.geometry, options):
        typed = [(table_of(table.url, table.schema, options), table.batches) for table in tables]
        found = typed_edge_list("lines", urls, typed)
        return replace(found, reading=replace(found.reading, rules=rules))
    if options.ids == "integer":
        raise InputError(
            f"{first.place} has no columns for source and target, so the ids are texts such as `7.42,43.73`",
            hint="remove `graph.ids`, or name the columns: `graph.columns: {source: u, target: v}`",
        )
    columns = [_columns(table, options) for table in tables]
    check_same_columns(urls, columns)
    _shapely(first.place)
    readers = [_Lines(table, chosen, options) for table, chosen in zip(tables, columns, strict=True)]
    skipped = SkippedRows()
    no_lines = InputError(f"{first.place} holds no lines", hint="check that this is the file you mean")
    rows = [(lines, lines.batches) for lines in readers]
    dtypes = [lines.weight_dtype for lines in readers if lines.weight_dtype is not None]
    return InputEdges(
        Reading(
            format="lines",
            ids="string",
            ids_why="longitude and latitude of the ends of lines",
            rules=(*rules, "lines meet where their ends are equal", "coordinates of the ends"),
            **columns[0].reading_fields(),
        ),
        columns[0].weight is not None,
        partial(read_tables, rows, _to_chunk, skipped, no_lines),
        weight_dtype=np.result_type(*dtypes) if dtypes else None,
        weight_unit="metres" if columns[0].weight_name == first.geometry else None,
        positions_of=_positions_of,
        skipped=skipped,
    )


def _open_table(url: str, options: ReadOptions) -> LineTable:
    layer = options.own.get("layer", "auto")
    with open_decompressed(url) as stream:
        is_parquet = stream.read(len(PARQUET_MAGIC)) == PARQUET_MAGIC
    if not is_parquet:
        return open_geopackage(url, layer)
    if layer != "auto":
        raise InputError(
            f"`graph.layer` is set, and `{files.redacted(url)}` is GeoParquet, which has no layers",
            hint="remove `graph.layer`",
        )
    return open_geoparquet(url)


def _columns(table: LineTable, options: ReadOptions) -> EdgeColumns:
    """Return which column is the weight; the column of the geometry stands for the length of the line."""
    others = [field for field in table.schema if field.name != table.geometry]
    names = [*(field.name for field in others), table.geometry]
    numeric = {field.name for field in others if is_numeric(field.type)}
    is_named = any(WEIGHT_WORDS.intersection(words(field.name)) for field in others)
    is_only_choice = options.weight_column == "auto" and not numeric and not is_named
    if is_only_choice:
        options = replace(options, weight_column=table.geometry)
    found = choose_weight(table.place, names, numeric | {table.geometry}, options, _ENDS)
    why = found.why[2]
    if found.weight_name == table.geometry:
        chosen = "no column holds numbers" if is_only_choice else "named by the workflow"
        why = f"the length of the line in metres: {chosen}"
    return replace(found, why=("by the geometry", "by the geometry", why))


def _shapely(place: str) -> ModuleType:
    return optional_package("shapely", f"{place} holds lines, and reading them needs", "places")


@dataclass(frozen=True, eq=False)
class _Lines:
    """A table whose lines are the edges, and how it is read."""

    table: LineTable
    columns: EdgeColumns
    options: ReadOptions

    @property
    def weight_column(self) -> str | None:
        """The column of the weight; None without weights, or if the weight is the length of the line."""
        name = self.columns.weight_name
        return None if name == self.table.geometry else name

    @property
    def weight_dtype(self) -> np.dtype | None:
        """The type of the column of the weight; None if there is none, or if it holds decimals."""
        name = self.weight_column
        return None if name is None else weight_dtype_of(self.table.url, self.table.schema.field(name))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Give the columns of the geometry and of the weight, in batches of rows."""
        names = [self.table.geometry, *([self.weight_column] if self.weight_column is not None else [])]
        return self.table.batches(names, max(1, self.options.block_bytes // _LINE_BYTES))


def _to_chunk(item: tuple[_Lines, int, pa.RecordBatch]) -> tuple[EdgeChunk, SkippedRows]:
    """Return the edges of some rows, and the rows that were left out."""
    lines, n_before, batch = item
    shapely = _shapely(lines.table.place)
    form = "WKB" if lines.table.layer is None else "geometry of a GeoPackage"
    shapes, bad = lines_of_wkb(shapely, batch[0], form)
    n_parts = shapely.get_num_geometries(shapes)
    weights, is_rounded = None, False
    if lines.weight_column is not None:
        column = batch[1]
        for i in true_rows(column.is_null()):
            bad.setdefault(i, f"column `{lines.weight_column}` is null")
        weights, is_rounded, lost = typed_weights(column, bad, lines.options)
        if lost:
            i = min(lost)
            raise lost[i](f"{lines.table.place} row {n_before + i + 1}")
        if weights.dtype.kind == "f":
            for i in np.flatnonzero(~np.isfinite(weights)).tolist():
                bad.setdefault(i, f"weight `{weights[i]}` is not finite")
        for i in np.flatnonzero(n_parts > 1).tolist():
            bad.setdefault(
                i, f"its line has {n_parts[i]} parts, and `{lines.weight_column}` is that of all together"
            )
    is_good = np.ones(len(batch), bool)
    is_good[list(bad)] = False
    parts, row_of = shapely.get_parts(shapes[is_good], return_index=True)
    if (is_empty := shapely.is_empty(parts)).any():
        good_rows = np.flatnonzero(is_good)
        bad |= dict.fromkeys(good_rows[row_of[is_empty]].tolist(), "a part of its line is empty")
        is_kept = ~np.isin(row_of, row_of[is_empty])
        parts, row_of = parts[is_kept], row_of[is_kept]
    points, part_of = shapely.get_coordinates(parts, return_index=True)
    rows = np.flatnonzero(is_good)[row_of]
    if (off := ~((np.abs(points[:, 0]) <= 180) & (np.abs(points[:, 1]) <= 90))).any():
        for part in np.unique(part_of[off]).tolist():
            x, y = points[np.argmax(off & (part_of == part))]
            bad.setdefault(int(rows[part]), f"its point {x:.10g}, {y:.10g}{_OFF}")
        is_kept = ~np.isin(rows, list(bad))
        kept_points = is_kept[part_of]
        points, part_of = points[kept_points], (np.cumsum(is_kept) - 1)[part_of[kept_points]]
        rows = rows[is_kept]
    left_out = _left_out(lines, n_before, bad)
    starts = np.searchsorted(part_of, np.arange(len(rows)))
    ends = np.append(starts[1:], len(points)) - 1
    if weights is not None:
        weights = weights[rows]
    elif lines.columns.weight is not None:
        weights = _metres(points, starts, ends)
    return EdgeChunk(_ids(points[starts]), _ids(points[ends]), weights, is_rounded), left_out


def _left_out(lines: _Lines, n_before: int, bad: dict[int, str]) -> SkippedRows:
    """Return the bad rows; raise `InputError` for the first one unless the workflow leaves them out."""
    left_out = SkippedRows()
    left_out.add(len(bad), (f"{lines.table.place} row {n_before + i + 1}: {bad[i]}" for i in sorted(bad)))
    if bad and not lines.options.skips:
        is_off = left_out.lines[0].endswith(_OFF)
        raise InputError(left_out.lines[0], hint=f"{_DEGREES}; {SKIP_HINT}" if is_off else SKIP_HINT)
    return left_out


def _metres(points: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return the lengths of lines in metres, rounded to a millimetre."""
    if not len(starts):
        return np.empty(0)
    steps = np.append(step_metres(points[:, 0], points[:, 1]), 0)
    steps[ends] = 0  # from the end of a line to the next line
    return np.asarray(np.rint(np.add.reduceat(steps, starts) * 1000) / 1000)


def _ids(points: np.ndarray) -> pa.Array:
    """Return texts such as `7.42,43.73` for points (n, 2): the shortest that give the same numbers."""
    texts = [pc.cast(pa.array(points[:, axis] + 0.0), pa.large_string()) for axis in (0, 1)]  # no -0
    return pc.binary_join_element_wise(*texts, pa.scalar(",", pa.large_string()))


def _positions_of(ids: VertexIds) -> Coordinates | None:
    """Return longitudes and latitudes (V,) float64, in degrees, of the vertices `ids`, which are texts of them."""
    parts = pc.split_pattern(ids.column(), ",")
    lon, lat = (pc.cast(pc.list_element(parts, i), pa.float64()) for i in (0, 1))
    return np.asarray(lon), np.asarray(lat)


def are_lines(beginning: Beginning) -> bool:
    """Return whether the edges are lines: the file is a GeoPackage, or GeoParquet in which no columns name the ends."""
    if not beginning.head.startswith(PARQUET_MAGIC):
        return True
    try:
        with record_batches(beginning.url, 1) as (schema, _):
            found = primary_geometry(schema.metadata)
    except InputError:
        return False  # the reader of Parquet says what is wrong with it
    except ValueError:
        return True  # an error about the damaged description says more than one about missing columns
    return found is not None and _uses_geometry(schema, found[0], beginning.options)


def _uses_geometry(schema: pa.Schema, geometry: str, options: ReadOptions) -> bool:
    """Return whether the geometry gives the ends of edges: no columns do, or the workflow names it as both."""
    asked = {options.source_column, options.target_column}
    return asked == {geometry} or (asked == {"auto"} and not may_name_both_ends(schema.names))
