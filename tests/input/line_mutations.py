"""Inputs of lines for the fuzzer: GeoParquet and GeoPackage, whole and damaged."""

from __future__ import annotations

import functools
import io
import json
import random
import sqlite3
import struct

import pyarrow as pa
import pyarrow.parquet as pq
from mutations import WORDS, Input, chance, mutated_bytes, options

#: What a value of a column of numbers may be.
_ODD_VALUES = [None, float("nan"), float("inf"), -1, 0, 2**40, 2**63 - 1, 0.1, 1e-310, "far", "5", b"x", True]


def _wkb(rng: random.Random, parts: list[list[tuple]], is_odd: bool) -> bytes:
    """Return WKB of a line, or of several as one geometry, in either order of bytes and with Z and M in both ways."""
    order = rng.choice("<<<>")
    n_axes = len(parts[0][0]) if parts and parts[0] else 2
    axes = rng.choice(["z", "m"]) if n_axes == 3 else "zm" if n_axes == 4 else ""
    is_iso = chance(rng, 0.5)

    def head(kind: int) -> bytes:
        if is_iso:
            code = kind + 1000 * ("z" in axes) + 2000 * ("m" in axes)
        else:
            code = kind | 0x80000000 * ("z" in axes) | 0x40000000 * ("m" in axes)
        srid = b""
        if is_odd and chance(rng, 0.1):
            code, srid = code | 0x20000000, struct.pack(f"{order}I", 4326)
        if is_odd and chance(rng, 0.1):
            code = rng.choice([0, 1, 3, 4, 6, 7, 8, 12, 17, 1002, 2002, 3002, 4002, 2**31, 2**32 - 1, 258])
        return struct.pack(f"{order}BI", order == "<", code) + srid

    def line(points: list[tuple]) -> bytes:
        count = len(points)
        if is_odd and chance(rng, 0.05):
            count = rng.choice([0, 1, count + 1, 2**31, 2**32 - 1])
        numbers = [value for point in points for value in point]
        return head(2) + struct.pack(f"{order}I{len(numbers)}d", count, *numbers)

    if len(parts) == 1 and chance(rng, 0.8):
        return line(parts[0])
    return head(5) + struct.pack(f"{order}I", len(parts)) + b"".join(map(line, parts))


def _shapes(rng: random.Random) -> list[bytes | None]:
    """Return some lines between few points."""
    n_axes = 2 if chance(rng, 0.7) else rng.choice([3, 4])
    scale = rng.choice([8, 1e4, 1e4, 3.0, 1e9])
    points = [
        tuple(rng.randrange(-90, 90) / scale for _ in range(n_axes)) for _ in range(rng.randrange(2, 7))
    ]
    shapes: list[bytes | None] = []
    is_faulty = chance(rng, 0.25)
    for _ in range(rng.randrange(0 if is_faulty else 1, 7)):
        is_odd = is_faulty and chance(rng, 0.3)
        parts = [
            [rng.choice(points) for _ in range(rng.randrange(2, 5))]
            for _ in range(rng.choice([1] * 9 + [2, 3]))
        ]
        if is_odd:
            _damage_parts(rng, parts)
        shape = _wkb(rng, parts, is_odd)
        if is_odd and chance(rng, 0.3):
            shape = mutated_bytes(rng, shape)
        shapes.append(rng.choice([None, b"", shape + b"x"]) if is_odd and chance(rng, 0.2) else shape)
    return shapes


def _damage_parts(rng: random.Random, parts: list[list[tuple]]) -> None:
    kind, part = rng.randrange(5), rng.choice(parts)
    if kind == 0:
        part.clear()
    elif kind == 1:
        del part[1:]
    elif kind == 2 and part:
        odd = [180, -180, 180.0000001, 90.5, float("nan"), float("inf"), -0.0, 1e-7, 5e-324, 5e5, 1e-5]
        point = list(part[0])
        point[rng.randrange(len(point))] = rng.choice(odd)
        part[rng.randrange(len(part))] = tuple(point)
    elif kind == 3:
        parts.insert(rng.randrange(len(parts) + 1), [])
    else:
        part[1:] = part[:1]


def _columns(rng: random.Random, n: int) -> dict[str, list]:
    """Return other columns of a table of lines: mostly none, names, a weight, or both ends."""
    kinds = {
        "name": lambda: rng.choice(["Rue A", "Köln", None]),
        "km": lambda: rng.randrange(1000) / 8,
        "length": lambda: rng.randrange(10**5) / 100,
        "minutes": lambda: rng.randrange(60),
        "lanes": lambda: rng.randrange(1, 4),
        "oneway": lambda: chance(rng, 0.5),
        "u": lambda: rng.randrange(9),
        "v": lambda: rng.randrange(9),
    }
    chosen = rng.choice(
        [
            *([[], ["name"], ["km"], ["name", "length"]] * 2),
            *(["minutes", "oneway"], ["lanes"], ["km", "minutes"], ["u", "v", "length"], ["u", "v"]),
        ]
    )
    return {name: [kinds[name]() for _ in range(n)] for name in chosen}


def _lines_options(rng: random.Random, geometry: str) -> dict:
    graph = options(rng) if chance(rng, 0.15) else {}
    if chance(rng, 0.2):
        column = rng.choice([geometry, geometry, "none", "km", "lanes", "far"])
        graph["weights"] = {"column": column} | graph.get("weights", {})
    if chance(rng, 0.1):
        graph["columns"] = rng.choice(
            [
                {"source": geometry, "target": geometry},
                {"source": "u", "target": "v"},
                {"source": geometry, "target": "v"},
                {"source": "far"},
            ]
        )
    return graph


def geoparquet(rng: random.Random) -> Input:
    shapes = _shapes(rng)
    geometry = "geometry" if chance(rng, 0.9) else rng.choice(["geom", "wkb.x", "length", "u", "1", "Länge"])
    kind = pa.binary() if chance(rng, 0.9) else pa.large_binary()
    arrays = {name: pa.array(values) for name, values in _columns(rng, len(shapes)).items()}
    arrays = {geometry: pa.array(shapes, kind)} | arrays
    if chance(rng, 0.3):
        arrays = dict(rng.sample(list(arrays.items()), len(arrays)))
    table = pa.table(arrays)
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        table = _damaged_table(rng, table)
    described = _description(rng, geometry)
    if described is not None:
        table = table.replace_schema_metadata({"geo": described})
    out = io.BytesIO()
    compression = rng.choice(["none", "snappy", "zstd"])
    pq.write_table(table, out, compression=compression, row_group_size=rng.choice([2, 1000]))
    content = out.getvalue()
    if chance(rng, 0.2):
        content = mutated_bytes(rng, content)
    return Input("roads.parquet", content, _lines_options(rng, geometry))


def _damaged_table(rng: random.Random, table: pa.Table) -> pa.Table:
    i, kind = rng.randrange(table.num_columns), rng.randrange(6)
    column, name = table.column(i), table.column_names[i]
    if kind == 0:
        try:
            values = column.to_pylist()
            if values:
                values[rng.randrange(len(values))] = rng.choice(_ODD_VALUES)
            return table.set_column(i, name, pa.array(values, column.type))
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return table
    if kind == 1:
        types = [pa.string(), pa.int32(), pa.float32(), pa.float16(), pa.bool_(), pa.null(), pa.uint64()]
        types += [pa.decimal128(20, 3), pa.date32(), pa.binary(40), pa.large_string(), pa.binary_view()]
        types += [pa.struct([("x", pa.float64()), ("y", pa.float64())]), pa.list_(pa.int32())]
        types.append(pa.dictionary(pa.int32(), pa.binary()))
        to = rng.choice(types)
        try:
            return table.set_column(i, name, column.cast(to, safe=False))
        except (pa.ArrowException, ValueError):
            return table.set_column(i, name, pa.nulls(len(table), to))
    if kind == 2 and table.num_columns > 1:
        return table.remove_column(i)
    if kind == 3:
        return table.append_column(rng.choice([*WORDS, name, f"{name}.x", "geometry"]), column)
    if kind == 4:
        return table.slice(0, rng.randrange(len(table) + 1))
    names = list(table.column_names)
    names[i] = rng.choice([*WORDS, "GEOMETRY", "geometry.x"])
    return table.rename_columns(names)


def _description(rng: random.Random, geometry: str) -> str | bytes | None:
    """Return what GeoParquet says about its geometry, and None for a table that is no GeoParquet."""
    about: dict = {"encoding": "WKB", "geometry_types": ["LineString"]}
    facts: dict = {"version": "1.1.0", "primary_column": geometry, "columns": {geometry: about}}
    if chance(rng, 0.3):
        about["crs"] = rng.choice(
            [
                {"id": {"authority": "OGC", "code": "CRS84"}},
                {"id": {"authority": "EPSG", "code": 4326}},
                {"id": {"authority": "EPSG", "code": "4326"}, "type": "GeographicCRS"},
            ]
        )
    if chance(rng, 0.85):
        return json.dumps(facts)
    kind = rng.randrange(5)
    if kind == 0:
        odd = [
            None,
            5,
            "EPSG:4326",
            [],
            {},
            {"id": None},
            {"id": {}},
            {"id": {"authority": ["EPSG"], "code": 4326}},
        ]
        odd += [{"id": {"authority": "EPSG", "code": 2056}}, {"name": "x" * 200}, {"id": [4326]}]
        about["crs"] = rng.choice(odd)
    elif kind == 1:
        about["encoding"] = rng.choice([None, "wkb", "point", "linestring", 5, {"x": 1}])
    elif kind == 2:
        facts["primary_column"] = rng.choice([None, 5, "far", ["geometry"], {}, ""])
    elif kind == 3:
        facts["columns"] = rng.choice([None, [], {}, {geometry: None}, {geometry: []}, [about]])
    else:
        text = mutated_bytes(rng, json.dumps(facts).encode())
        return rng.choice([None, b"", b"[" * 100_000, b"{}", b"null", b"\xff", text, text, text])
    return json.dumps(facts)


# ---- GeoPackage ----


def geopackage(rng: random.Random) -> Input:
    geometry = "geom" if chance(rng, 0.9) else rng.choice(["GEOM", "the geom", 'a"b', "length", "fid"])
    database = sqlite3.connect(":memory:", isolation_level=None)
    run = functools.partial(_run, database)
    run(f"PRAGMA page_size = {rng.choice([512, 512, 1024])}")
    if chance(rng, 0.05):
        run("PRAGMA encoding = 'UTF-16le'")
    run(
        "CREATE TABLE gpkg_spatial_ref_sys (srs_name, srs_id INTEGER, organization, organization_coordsys_id)"
    )
    run(
        "INSERT INTO gpkg_spatial_ref_sys VALUES ('WGS 84', 4326, 'EPSG', 4326), ('LV95', 2056, 'EPSG', 2056)"
    )
    run("CREATE TABLE gpkg_geometry_columns (table_name, column_name, geometry_type_name, srs_id, z, m)")
    names = (
        ["roads"] if chance(rng, 0.8) else rng.sample(["roads", "main roads", 'the "b"', "Köln", "t;--"], 2)
    )
    for name in names:
        kind = rng.choice(
            ["LINESTRING"] * 8 + ["MULTILINESTRING", "GEOMETRY", "point", "CURVE", "linestring"]
        )
        _layer(rng, run, name, kind, geometry)
    for _ in range(rng.choice((0, 0, 0, 0, 1, 2))):
        _damage_database(rng, run, names[0], geometry)
    content = database.serialize()
    database.close()
    if chance(rng, 0.1):
        content = content[:18] + b"\2\2" + content[20:]  # as if a log could be beside it
    if chance(rng, 0.2):
        content = content[: rng.randrange(len(content))] if chance(rng, 0.2) else mutated_bytes(rng, content)
    graph = _lines_options(rng, geometry)
    if chance(rng, 0.1 if len(names) == 1 else 0.7):
        graph["layer"] = rng.choice([*names, names[0], "far", "gpkg_spatial_ref_sys"])
    return Input("roads.gpkg", content, graph)


def _run(database: sqlite3.Connection, command: str, values: tuple = ()) -> None:
    """Run a command; one that SQLite refuses, after other damages, changes nothing."""
    try:
        database.execute(command, values)
    except (sqlite3.Error, OverflowError, UnicodeDecodeError):
        return


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _layer(rng: random.Random, run: functools.partial, name: str, kind: str, geometry: str) -> None:
    shapes = _shapes(rng)
    others = _columns(rng, len(shapes))
    types = {"name": "TEXT(30)", "km": "REAL", "length": "DOUBLE", "minutes": "INTEGER", "lanes": "MEDIUMINT"}
    types |= {"oneway": "BOOLEAN", "u": "INTEGER", "v": "INTEGER"}
    declared = "".join(f", {_quoted(other)} {types[other]}" for other in others)
    key = rng.choice(["", "", "", "", " WITHOUT ROWID"])
    run(f"CREATE TABLE {_quoted(name)} (fid INTEGER PRIMARY KEY, {_quoted(geometry)} BLOB{declared}){key}")
    run("INSERT INTO gpkg_geometry_columns VALUES (?, ?, ?, 4326, 0, 0)", (name, geometry, kind))
    for i, row in enumerate(zip(shapes, *others.values(), strict=True), 1):
        marks = ", ".join("?" * (1 + len(row)))
        run(f"INSERT INTO {_quoted(name)} VALUES ({marks})", (i, _blob(rng, row[0]), *row[1:]))


def _blob(rng: random.Random, shape: bytes | None) -> object:
    if shape is None or chance(rng, 0.005):
        return rng.choice([shape, shape, b"GP", "GP", 5, 0.5, b"GP\0\1" + bytes(20)])
    flags = rng.choice([0, 0, 1, 2, 3, 4]) << 1 | 1
    sizes = (0, 32, 48, 48, 64)
    envelope = bytes(sizes[flags >> 1])
    if chance(rng, 0.005):
        flags = rng.randrange(256)
    return b"GP" + struct.pack("<BBi", 0, flags, 4326) + envelope + shape


def _damage_database(rng: random.Random, run: functools.partial, name: str, geometry: str) -> None:
    table, column, odd = _quoted(name), _quoted(geometry), rng.choice(_ODD_VALUES)
    kinds = ("table_name", "column_name", "geometry_type_name", "srs_id")
    commands = [
        ("UPDATE gpkg_spatial_ref_sys SET organization = ?", (rng.choice(["epsg", "OGC", "NONE", None, 5]),)),
        (
            "UPDATE gpkg_spatial_ref_sys SET organization_coordsys_id = ?",
            (rng.choice([84, "4326", None, 0]),),
        ),
        ("DELETE FROM gpkg_spatial_ref_sys", ()),
        ("DROP TABLE gpkg_spatial_ref_sys", ()),
        ("INSERT INTO gpkg_spatial_ref_sys SELECT 'again', 4326, 'EPSG', 2056", ()),
        ("DELETE FROM gpkg_geometry_columns", ()),
        ("DROP TABLE gpkg_geometry_columns", ()),
        (
            f"UPDATE gpkg_geometry_columns SET {rng.choice(kinds)} = ?",
            (rng.choice([odd, "roads", "ROADS", 2056, -1]),),
        ),
        ("INSERT INTO gpkg_geometry_columns SELECT * FROM gpkg_geometry_columns", ()),
        ("INSERT INTO gpkg_geometry_columns VALUES ('far', 'geom', 'LINESTRING', 4326, 0, 0)", ()),
        (f"ALTER TABLE gpkg_geometry_columns DROP COLUMN {rng.choice(kinds)}", ()),
        (f"ALTER TABLE {table} RENAME COLUMN {column} TO {rng.choice(['geo', 'GEOM', 'u'])}", ()),
        (f"ALTER TABLE {table} DROP COLUMN {column}", ()),
        (
            f"ALTER TABLE {table} ADD COLUMN {_quoted(rng.choice(WORDS))} {rng.choice(['REAL', 'INT', '', 'GEOM'])}",
            (),
        ),
        (f"ALTER TABLE {table} RENAME TO Roads", ()),
        (f"UPDATE {table} SET {rng.choice(['km', 'length', 'minutes', 'name', 'u', column])} = ?", (odd,)),
        (f"DELETE FROM {table}", ()),
        (f"CREATE VIEW view AS SELECT * FROM {table}", ()),
    ]
    run(*rng.choice(commands))
    if chance(rng, 0.1):
        run(f"ALTER TABLE {table} RENAME TO x")
        run(f"CREATE VIEW {table} AS SELECT {rng.choice(['*', column, '1 / 0 AS geom, *'])} FROM x")
