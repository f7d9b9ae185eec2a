"""Lines of GeoParquet and GeoPackage, as the reference reader reads them: WKB by its definition, point by point."""

from __future__ import annotations

import io
import json
import math
import sqlite3
import struct
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from reference_graph import Graph, Refused, asked_columns, exact, millimetres
from reference_osm import distance
from reference_tables import WEIGHT_WORDS, choose_columns, name_words, names_a_pair, note_type, typed_graph

ENDS = ("first point", "last point")
GEOPACKAGE_LINES = ("LINESTRING", "MULTILINESTRING", "GEOMETRY", "GEOMETRYCOLLECTION")
SQLITE_MAGIC = b"SQLite format 3\0"
Point = tuple[float, float]


def is_geoparquet(data: bytes, graph: dict) -> bool:
    """Return whether the lines of a Parquet file are its edges."""
    try:
        schema = pq.ParquetFile(io.BytesIO(data)).schema_arrow
        described = (schema.metadata or {}).get(b"geo")
        return described is not None and uses_lines(schema, _primary(described)[0], graph)
    except Refused:
        return True
    except Exception:  # damaged: both readers refuse it
        return False


def uses_lines(schema: pa.Schema, geometry: str, graph: dict) -> bool:
    """Return whether the lines give the ends: the workflow says so, or no columns do."""
    asked = set(asked_columns(graph)[:2])
    return asked == {geometry} or (asked == {"auto"} and not names_a_pair(schema.names))


def _primary(described: bytes) -> tuple[str, dict]:
    try:
        facts = json.loads(described)
        name = facts["primary_column"]
        about = facts["columns"][name]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise Refused(f"the description of the geometry is damaged: {error}") from None
    if not isinstance(name, str) or not isinstance(about, dict):
        raise Refused("the description of the geometry has another form")
    return name, about


def read_geoparquet(data: bytes, graph: dict) -> Graph:
    if graph.get("layer"):
        raise Refused("GeoParquet has no layers")
    try:
        file = pq.ParquetFile(io.BytesIO(data))
        schema = file.schema_arrow
        name, about = _primary((schema.metadata or {})[b"geo"])
        if schema.names.count(name) != 1 or about.get("encoding") != "WKB":
            raise Refused("no column of WKB")
        crs = about.get("crs", {"id": {"authority": "OGC", "code": "CRS84"}})
        known = crs["id"]
        if (known["authority"], str(known["code"])) not in (("OGC", "CRS84"), ("EPSG", "4326")):
            raise Refused(f"the reference system {crs}")
        return _graph_of(schema, file, name, graph, is_gpkg=False)
    except Refused:
        raise
    except Exception as error:
        raise Refused(f"damaged: {error}") from None


def read_geopackage(data: bytes, graph: dict) -> Graph:
    # A database that waits for a log beside it is read without one.
    data = data[:18] + (b"\1\1" if data[18:20] == b"\2\2" else data[18:20]) + data[20:]
    try:
        database = sqlite3.connect(":memory:")
        try:
            database.deserialize(data)
            return _of_database(database, graph)
        finally:
            database.close()
    except Refused:
        raise
    except Exception as error:
        raise Refused(f"damaged: {error}") from None


def _of_database(database: sqlite3.Connection, graph: dict) -> Graph:
    tables = [name.lower() for (name,) in database.execute("SELECT name FROM sqlite_master")]
    rows = database.execute(
        "SELECT table_name, column_name, geometry_type_name, srs_id FROM gpkg_geometry_columns"
    ).fetchall()
    layers = {name: rest for name, *rest in rows if str(name).lower() in tables}
    asked = graph.get("layer", "auto")
    lines = [name for name, (_, kind, _) in layers.items() if str(kind).upper() in GEOPACKAGE_LINES]
    if asked == "auto" and len(lines) != 1:
        raise Refused(f"{len(lines)} layers")
    name = lines[0] if asked == "auto" else asked
    if name not in layers or len({row[1:] for row in rows if row[0] == name}) > 1:
        raise Refused("no such layer, or two")
    geometry, _, srs = layers[name]
    found = database.execute(
        "SELECT organization, organization_coordsys_id FROM gpkg_spatial_ref_sys WHERE srs_id = ?", (srs,)
    ).fetchall()
    known = {("EPSG", "4326"), ("OGC", "84")}
    if not found or not {(str(name).upper(), str(code)) for name, code in found} <= known:
        raise Refused(f"reference system {found}")
    quoted = '"' + name.replace('"', '""') + '"'
    every = [column[0] for column in database.execute(f"SELECT * FROM {quoted} LIMIT 0").description]
    geometry = next((column for column in every if column.lower() == str(geometry).lower()), None)
    fields = []
    for _, column, declared, _, _, is_key in database.execute(f"PRAGMA table_info({quoted})"):
        if column == geometry or not is_key:
            fields.append(pa.field(column, pa.binary() if column == geometry else _type(declared)))
    if geometry not in [field.name for field in fields]:
        raise Refused("no column of the geometry")

    def values(wanted: str) -> list:
        # What is not read may be damaged.
        column = '"' + wanted.replace('"', '""') + '"'
        return [value for (value,) in database.execute(f"SELECT {column} FROM {quoted}")]

    return _graph_of(pa.schema(fields), values, geometry, graph, True)


def _type(declared: str) -> pa.DataType:
    word = declared.upper().split("(")[0].strip()
    if word in ("BOOLEAN", "TEXT"):
        return pa.bool_() if word == "BOOLEAN" else pa.string()
    if word in ("REAL", "DOUBLE", "FLOAT"):
        return pa.float64()
    return pa.int64() if word.endswith("INT") or word == "INTEGER" else pa.binary()


def _column(columns: pq.ParquetFile | Callable[[str], list], schema: pa.Schema, name: str) -> pa.Array:
    if isinstance(columns, pq.ParquetFile):
        found = columns.read(columns=[name], use_threads=False)[name].combine_chunks()
        found.validate(full=True)
        return found
    try:
        return pa.array(columns(name), schema.field(name).type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise Refused(f"a value of another type: {error}") from None


def _graph_of(
    schema: pa.Schema,
    columns: pq.ParquetFile | Callable[[str], list],
    geometry: str,
    graph: dict,
    is_gpkg: bool,
) -> Graph:
    if not uses_lines(schema, geometry, graph):
        return typed_graph(
            schema, lambda names: pa.table({name: _column(columns, schema, name) for name in names}), graph
        )
    if graph.get("ids") == "integer":
        raise Refused("ids are texts")
    others = [name for name in schema.names if name != geometry]
    is_number = [
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        for kind in (schema.field(name).type for name in others)
    ]
    weights = graph.get("weights", {})
    is_named = any(WEIGHT_WORDS & set(name_words(name)) for name in others)
    if weights.get("column", "auto") == "auto" and not any(is_number) and not is_named:
        weights = weights | {"column": geometry}
    ends = {"source": ENDS[0], "target": ENDS[1]}
    *_, place = choose_columns(
        [*ENDS, *others, geometry],
        [False, False, *is_number, True],
        graph | {"columns": ends, "weights": weights},
    )
    name = None if place is None else [*ENDS, *others, geometry][place]
    shapes = _column(columns, schema, geometry)
    if shapes.type not in (pa.binary(), pa.large_binary(), pa.binary_view()):
        raise Refused(f"geometry of type {shapes.type}")
    values, kind = [None] * len(shapes), None
    if name not in (None, geometry):
        column = _column(columns, schema, name)
        kind, values = column.type, column.to_pylist()
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
            raise Refused(f"weights of type {kind}")
    edges = []
    for shape, value in zip(shapes.to_pylist(), values, strict=True):
        parts = _parts(_without_header(shape) if is_gpkg else shape)
        if kind is not None and (value is None or len(parts) > 1):
            raise Refused("a weight is null, or of several parts")
        for line in parts:
            if name is None:
                weight = None
            elif kind is None:
                weight = millimetres(sum(distance(*step) for step in pairwise(line)))
            else:
                weight = exact(value, np.dtype(kind.to_pandas_dtype()), graph)
            edges.append((_text(line[0]), _text(line[-1]), weight))
    if not edges:
        raise Refused("no lines")
    result = Graph(edges, "string", decimals=name == geometry)
    note_type(result, kind)
    return result


# Geometries.


def _without_header(blob: object) -> bytes:
    if not isinstance(blob, bytes) or blob[:2] != b"GP" or len(blob) < 8:
        raise Refused("no geometry of a GeoPackage")
    envelope = blob[3] >> 1 & 7
    if envelope > 4:
        raise Refused("an envelope of no known type")
    return blob[8 + (0, 32, 48, 48, 64)[envelope] :]


def _parts(wkb: object) -> list[list[Point]]:
    """Return the points of each part of a line, or of lines."""
    if not isinstance(wkb, bytes):
        raise Refused("a geometry is null")
    try:
        parts, _ = _geometry(wkb, 0, (2, 5))
    except (struct.error, IndexError):
        raise Refused("a geometry is cut short") from None
    if not parts:
        raise Refused("a geometry is empty")
    for part in parts:
        if len(part) < 2 or not all(abs(x) <= 180 and abs(y) <= 90 for x, y in part):
            raise Refused("a line without points, or outside of the globe")
    return parts


def _geometry(
    wkb: bytes, at: int, kinds: tuple[int, ...], order: str | None = None
) -> tuple[list[list[Point]], int]:
    """Return the parts of the geometry at a place, and the place behind it; a part may inherit its order of bytes."""
    order = {0: ">", 1: "<"}.get(wkb[at], order)
    if order is None:
        raise Refused("no order of bytes")
    (code,) = struct.unpack_from(f"{order}I", wkb, at + 1)
    at += 9 if code & 0x20000000 else 5
    iso, kind = divmod(code & 0xFFFF, 1000)
    if kind not in kinds or (iso > 3 and 5 in kinds):  # in a part, GEOS takes them for two dimensions
        raise Refused(f"a geometry of type {code}")
    n_axes = 2 + bool(code & 0x80000000 or iso in (1, 3)) + bool(code & 0x40000000 or iso in (2, 3))
    (count,) = struct.unpack_from(f"{order}I", wkb, at)
    at += 4
    if count * (5 if kind == 5 else 8 * n_axes) > len(wkb) - at:
        raise Refused("a geometry is cut short")
    if kind == 5:
        parts = []
        for _ in range(count):
            part, at = _geometry(wkb, at, (2,), order)
            parts += part
        return parts, at
    points = []
    for _ in range(count):
        points.append(struct.unpack_from(f"{order}2d", wkb, at))
        at += 8 * n_axes
    return [points], at


def _text(point: Point) -> str:
    return ",".join(map(_digits, point))


def _digits(value: float) -> str:
    """Return the fewest digits that give the number again; below 1e-6 with an exponent."""
    if value == 0:
        return "0"
    if abs(value) < 1e-6:
        mantissa, exponent = f"{value!r}".split("e")
        return f"{mantissa.removesuffix('.0')}e{int(exponent)}"
    text = repr(value)
    if "e" in text:  # Python has exponents below 1e-4
        mantissa, exponent = text.split("e")
        digits = mantissa.lstrip("-").replace(".", "")
        text = "-" * (value < 0) + "0." + "0" * (-int(exponent) - 1) + digits
    assert float(text) == value or math.isnan(value)
    return text.removesuffix(".0")
