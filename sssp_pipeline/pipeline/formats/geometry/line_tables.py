"""Tables of lines: GeoParquet, and the layers of a GeoPackage, which is a SQLite database.

Both give batches of Arrow columns, with the geometry as WKB.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from sssp_pipeline.base.errors import InputError, did_you_mean
from sssp_pipeline.base.vertex_ids import listed
from sssp_pipeline.pipeline.formats.geometry.geometry_metadata import other_crs, primary_geometry
from sssp_pipeline.pipeline.formats.streams.local_copy import local_file
from sssp_pipeline.pipeline.formats.tables.record_batches import BatchesOf, checked_batches, record_batches
from sssp_pipeline.storage import files

_CONVERT = "convert it to longitude and latitude: OGC:CRS84 or EPSG:4326"
#: The types of layers that may hold lines.
_LINE_TYPES = ("LINESTRING", "MULTILINESTRING", "GEOMETRY", "GEOMETRYCOLLECTION")
_WGS_84 = (("EPSG", "4326"), ("OGC", "84"))
#: The bytes of the envelope in the header of a geometry, by three bits of its flags.
_ENVELOPE_BYTES = (0, 32, 48, 48, 64)
#: The types of columns with WKB.
_WKB_TYPES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
_FETCH_AGAIN = "write or fetch it again"


@dataclass(frozen=True, eq=False)
class LineTable:
    """A table with one geometry in each row, in longitude and latitude."""

    url: str
    #: The words for the table in messages.
    place: str
    #: The columns, with the geometry as binary.
    schema: pa.Schema
    #: The name of the column with the geometry.
    geometry: str
    #: The layer, for messages; None for GeoParquet.
    layer: str | None
    batches: BatchesOf


# ---- GeoParquet ----


def open_geoparquet(url: str) -> LineTable:
    """Return the table of a GeoParquet file.

    Raises
    ------
    InputError
        The file is damaged, its geometry is not WKB, or it is not in WGS 84.
    """
    place = f"`{files.redacted(url)}`"
    with record_batches(url, 1) as (schema, _):
        pass
    try:
        found = primary_geometry(schema.metadata)
    except ValueError as error:
        raise InputError(
            f"{place} has no usable description of its geometry: {error}", hint="write the file again"
        ) from error
    if found is None or found[0] not in schema.names:
        raise InputError(
            f"{place} is no GeoParquet file: it does not say which column is the geometry",
            hint="write it as GeoParquet, or name the columns of source and target: `graph.columns`",
        )
    name, about = found
    if schema.names.count(name) > 1:
        raise InputError(f"{place} has two columns `{name}`", hint="give each column its own name")
    if (crs := other_crs(about)) is not None:
        raise InputError(f"{place}: the CRS of the geometry `{name}` is {crs}, not WGS 84", hint=_CONVERT)
    if about.get("encoding") != "WKB":
        raise InputError(
            f"{place}: the geometry `{name}` is encoded as {str(about.get('encoding'))[:60]}",
            hint="write lines encoded as WKB",
        )
    if not any(has_type(schema.field(name).type) for has_type in _WKB_TYPES):
        raise InputError(
            f"{place}: the geometry `{name}` has type {schema.field(name).type}, not binary",
            hint="write lines encoded as WKB",
        )
    return LineTable(url, place, schema, name, None, partial(checked_batches, url))


# ---- GeoPackage ----


def open_geopackage(url: str, layer: str) -> LineTable:
    """Return the layer of a GeoPackage; "auto" is its only layer of lines.

    Raises
    ------
    InputError
        The file is no GeoPackage or damaged, it has no such layer, "auto" fits none or several, or the layer is not in
        WGS 84.
    """
    with _connection(url) as database:
        name, geometry, srs = _chosen_layer(url, database, layer)
        place = f"`{files.redacted(url)}` layer `{name}`"
        if (crs := _other_srs(database, srs)) is not None:
            raise InputError(f"{place}: its reference system is {crs}, not WGS 84", hint=_CONVERT)
        columns = database.execute(f"PRAGMA table_info({_quoted(name)})").fetchall()
        # SQLite's names are the same in upper and lower case.
        found = [column for _, column, *_ in columns if column.lower() == geometry.lower()]
        if not found:
            raise InputError(
                f"{place} has no column `{geometry}`, which `gpkg_geometry_columns` names for its geometry",
                hint=_FETCH_AGAIN,
            )
        geometry = found[0]
        fields = [
            pa.field(column, pa.binary() if column == geometry else _arrow_type(kind))
            for _, column, kind, _, _, key in columns
            if not key or column == geometry
        ]
    schema = pa.schema(fields)

    def batches(names: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        chosen = pa.schema([schema.field(column) for column in names])
        wanted = ", ".join(map(_quoted, names))
        with _connection(url) as database:
            cursor = database.execute(f"SELECT {wanted} FROM {_quoted(name)}")  # names of the file, in quotes
            n_before = 0
            while found := cursor.fetchmany(rows):
                yield _batch(place, chosen, geometry, found, n_before)
                n_before += len(found)

    return LineTable(url, place, schema, geometry, name, batches)


@contextmanager
def _connection(url: str) -> Iterator[sqlite3.Connection]:
    """Give a connection that only reads, and turn SQLite's errors into `InputError`."""
    with local_file(url) as path:
        # SQLite would write files next to a database that may have a log. If it has none, SQLite must not look for it.
        has_log = any(Path(f"{path}-{log}").exists() for log in ("wal", "journal"))
        uri = f"file:{quote(path)}?mode=ro{'' if has_log else '&immutable=1'}"
        try:
            with closing(sqlite3.connect(uri, uri=True)) as database:
                yield database
        except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter for a name that is no text
            raise InputError(
                f"`{files.redacted(url)}` cannot be read as a GeoPackage: {error}", hint=_FETCH_AGAIN
            ) from error


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _chosen_layer(url: str, database: sqlite3.Connection, layer: str) -> tuple[str, str, int]:
    """Return the name of the layer, its column of the geometry, and its reference system."""
    place = f"`{files.redacted(url)}`"
    tables = {str(name).lower() for (name,) in database.execute("SELECT name FROM sqlite_master")}
    if "gpkg_geometry_columns" not in tables:
        raise InputError(
            f"{place} is a SQLite database and no GeoPackage: it has no table `gpkg_geometry_columns`",
            hint="write a GeoPackage, or export the edges as CSV or Parquet",
        )
    found: dict[str, tuple[str, str, int]] = {}
    for name, column, kind, srs in database.execute(
        "SELECT table_name, column_name, geometry_type_name, srs_id FROM gpkg_geometry_columns"
    ):
        about = (str(column), str(kind).upper(), srs)
        if str(name).lower() in tables and found.setdefault(str(name), about) != about:
            raise InputError(
                f"{place}: `gpkg_geometry_columns` describes the layer `{name}` twice, in different ways",
                hint="a layer has one geometry: " + _FETCH_AGAIN,
            )
    if layer != "auto":
        if layer not in found:
            raise InputError(
                f"{place} has no layer `{layer}`",
                hint=did_you_mean(layer, list(found)) + f"layers: {listed(list(found)) or 'none'}",
            )
        return layer, found[layer][0], found[layer][2]
    lines = [name for name, (_, kind, _) in found.items() if kind in _LINE_TYPES]
    if len(lines) != 1:
        known = f"{len(lines)} layers may hold lines: {listed(lines)}" if lines else "no layer holds lines"
        every = ", ".join(f"`{name}` ({kind})" for name, (_, kind, _) in list(found.items())[:10]) or "none"
        raise InputError(
            f"{place}: {known}",
            hint=f"set `graph.layer: {lines[0]}`, or to another one" if lines else f"layers: {every}",
        )
    return lines[0], found[lines[0]][0], found[lines[0]][2]


def _other_srs(database: sqlite3.Connection, srs: int) -> str | None:
    """Return the name of a reference system; None if it is WGS 84."""
    rows = database.execute(
        "SELECT organization, organization_coordsys_id FROM gpkg_spatial_ref_sys WHERE srs_id = ?", (srs,)
    ).fetchall()
    if not rows:
        return f"{srs}, which the file does not describe"
    others = [row for row in rows if (str(row[0]).upper(), str(row[1])) not in _WGS_84]
    return f"{others[0][0]}:{others[0][1]}" if others else None


def _arrow_type(declared: str) -> pa.DataType:
    """Return the type of a column from its declaration, such as `INTEGER` or `TEXT(30)`."""
    word = declared.upper().partition("(")[0].strip()
    if word == "BOOLEAN":
        return pa.bool_()
    if word.endswith("INT") or word == "INTEGER":
        return pa.int64()
    if word in ("REAL", "DOUBLE", "FLOAT"):
        return pa.float64()
    return pa.string() if word == "TEXT" else pa.binary()


def _batch(
    place: str, schema: pa.Schema, geometry: str, rows: list[tuple[Any, ...]], n_before: int
) -> pa.RecordBatch:
    columns = []
    for field, values in zip(schema, zip(*rows, strict=True), strict=True):
        if field.name == geometry:
            values = tuple(map(_wkb_of, values))
        try:
            columns.append(pa.array(values, field.type))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"{place}, rows {n_before + 1} to {n_before + len(rows)}: column `{field.name}` has a value "
                f"that is not of its type: {error}",
                hint="correct the value, or the type of the column",
            ) from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _wkb_of(value: Any) -> bytes | None:
    """Return the WKB in a geometry of a GeoPackage, None for NULL; empty bytes if it has no such header."""
    if value is None:
        return None
    if not isinstance(value, bytes) or len(value) < 8 or value[:2] != b"GP":
        return b""
    envelope = value[3] >> 1 & 7
    return value[8 + _ENVELOPE_BYTES[envelope] :] if envelope < len(_ENVELOPE_BYTES) else b""
