"""GeoPackage 1.3: areas in longitude and latitude as a database of SQLite that programs of maps read.

https://www.geopackage.org/spec130/
"""

from __future__ import annotations

import errno
import json
import sqlite3
import struct
from collections.abc import Iterable
from contextlib import closing
from typing import Any

import pyarrow as pa

from sssp_pipeline.pipeline.results.exports.areas.geopackage_index import add_index
from sssp_pipeline.pipeline.results.exports.areas.geoparquet import BOUNDS, GEOMETRY, Described
from sssp_pipeline.storage import files

#: "GPKG" as a number, and the version.
_APPLICATION_ID, _VERSION = 0x47504B47, 10300
#: The number of EPSG for WGS 84. A geometry in a GeoPackage has x before y whatever the CRS says.
_WGS_84 = 4326
_TABLE, _KEY = "isochrones", "fid"
#: The table of features, and the tables that every GeoPackage has (requirements 10, 11, 13 and 21).
_SCHEMA = f"""
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {_VERSION};
CREATE TABLE gpkg_spatial_ref_sys (
    srs_name TEXT NOT NULL, srs_id INTEGER NOT NULL PRIMARY KEY, organization TEXT NOT NULL,
    organization_coordsys_id INTEGER NOT NULL, definition TEXT NOT NULL, description TEXT
);
CREATE TABLE gpkg_contents (
    table_name TEXT NOT NULL PRIMARY KEY, data_type TEXT NOT NULL, identifier TEXT UNIQUE, description TEXT DEFAULT '',
    last_change DATETIME NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ','now')),
    min_x DOUBLE, min_y DOUBLE, max_x DOUBLE, max_y DOUBLE, srs_id INTEGER,
    CONSTRAINT fk_gc_r_srs_id FOREIGN KEY (srs_id) REFERENCES gpkg_spatial_ref_sys(srs_id)
);
CREATE TABLE gpkg_geometry_columns (
    table_name TEXT NOT NULL, column_name TEXT NOT NULL, geometry_type_name TEXT NOT NULL, srs_id INTEGER NOT NULL,
    z TINYINT NOT NULL, m TINYINT NOT NULL,
    CONSTRAINT pk_geom_cols PRIMARY KEY (table_name, column_name),
    CONSTRAINT uk_gc_table_name UNIQUE (table_name),
    CONSTRAINT fk_gc_tn FOREIGN KEY (table_name) REFERENCES gpkg_contents(table_name),
    CONSTRAINT fk_gc_srs FOREIGN KEY (srs_id) REFERENCES gpkg_spatial_ref_sys (srs_id)
);
CREATE TABLE {_TABLE} (
    {_KEY} INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, {GEOMETRY} MULTIPOLYGON, source {{source}}, "limit" {{limit}}
);
"""
_WKT = (
    'GEOGCS["WGS 84",DATUM["WGS_1984",SPHEROID["WGS 84",6378137,298.257223563,AUTHORITY["EPSG","7030"]],'
    'AUTHORITY["EPSG","6326"]],PRIMEM["Greenwich",0,AUTHORITY["EPSG","8901"]],'
    'UNIT["degree",0.0174532925199433,AUTHORITY["EPSG","9122"]],AUTHORITY["EPSG","4326"]]'
)
_SYSTEMS = (
    (
        "Undefined Cartesian SRS",
        -1,
        "NONE",
        -1,
        "undefined",
        "undefined Cartesian coordinate reference system",
    ),
    (
        "Undefined geographic SRS",
        0,
        "NONE",
        0,
        "undefined",
        "undefined geographic coordinate reference system",
    ),
    ("WGS 84", _WGS_84, "EPSG", _WGS_84, _WKT, "longitude and latitude in degrees on the WGS 84 spheroid"),
)
#: What begins a polygon and several polygons in little-endian WKB.
_POLYGON, _ONE_POLYGON = struct.pack("<BI", 1, 3), struct.pack("<BII", 1, 6, 1)


def write_geopackage(url: str, tables: Iterable[pa.Table], schema: pa.Schema, described: Described) -> None:
    """Write areas as the layer `isochrones`, each as a MultiPolygon. `url` must be on this machine.

    Raises
    ------
    InputError
        `url` is not on this machine, or cannot be written.
    """
    kinds = {
        "source": "INTEGER" if pa.types.is_integer(schema.field("source").type) else "TEXT",
        "limit": "INTEGER" if pa.types.is_integer(schema.field("limit").type) else "DOUBLE",
    }
    about = {name.decode(): json.loads(value) for name, value in (schema.metadata or {}).items()}
    # SQLite seeks in its file. Nobody sees the file before it is complete, so it needs no journal.
    with files.atomic_path(url, "a GeoPackage") as path:
        try:
            with closing(sqlite3.connect(path, isolation_level=None)) as base:
                base.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
                base.executescript("BEGIN;" + _SCHEMA.format(**kinds))
                base.executemany("INSERT INTO gpkg_spatial_ref_sys VALUES (?, ?, ?, ?, ?, ?)", _SYSTEMS)
                base.execute(
                    "INSERT INTO gpkg_contents (table_name, data_type, identifier, description, srs_id) "
                    f"VALUES ('{_TABLE}', 'features', '{_TABLE}', ?, {_WGS_84})",
                    [json.dumps(about.get(_TABLE))],
                )
                base.execute(
                    "INSERT INTO gpkg_geometry_columns VALUES (?, ?, 'MULTIPOLYGON', ?, 0, 0)",
                    [_TABLE, GEOMETRY, _WGS_84],
                )
                add_index(base, _TABLE, _KEY, GEOMETRY)
                insert = f'INSERT INTO {_TABLE} ({GEOMETRY}, source, "limit") VALUES (?, ?, ?)'
                for table in tables:
                    rows = table.to_pylist()
                    base.executemany(insert, ((_geometry(r), r["source"], r["limit"]) for r in rows))
                sides = "min_x = ?, min_y = ?, max_x = ?, max_y = ?"
                base.execute(f"UPDATE gpkg_contents SET {sides}", described.bounds)
                base.execute("COMMIT")
        except sqlite3.Error as error:
            is_full = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
            raise OSError(errno.ENOSPC if is_full else errno.EIO, f"SQLite: {error}") from error


def _geometry(row: dict[str, Any]) -> bytes:
    """Return the WKB of a row as a geometry of a GeoPackage, which begins with its bounds."""
    area, bounds = row[GEOMETRY], row[BOUNDS]
    if area.startswith(_POLYGON):
        area = _ONE_POLYGON + area
    # The flags say: little-endian, and bounds of four numbers.
    head = struct.pack("<2sBBi", b"GP", 0, 0b011, _WGS_84)
    return head + struct.pack("<4d", *(bounds[side] for side in ("xmin", "xmax", "ymin", "ymax"))) + area
