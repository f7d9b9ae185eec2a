"""The R-tree of a GeoPackage, with which programs of maps find the areas in a window.

It is the extension `gpkg_rtree_index`: a virtual table of bounds, a row in `gpkg_extensions`, and triggers that keep
the bounds right. The triggers call functions such as `ST_MinX`, which SQLite does not have. A program that writes to
the table must have them.

https://www.geopackage.org/spec130/#extension_rtree
"""

from __future__ import annotations

import sqlite3
import struct

#: The functions of a geometry that the triggers call, and where its bounds begin: after the 8 bytes of the header.
_BOUNDS = {"ST_MinX": 8, "ST_MaxX": 16, "ST_MinY": 24, "ST_MaxY": 32}
_EXTENSIONS = """
CREATE TABLE gpkg_extensions (
    table_name TEXT, column_name TEXT, extension_name TEXT NOT NULL, definition TEXT NOT NULL, scope TEXT NOT NULL,
    CONSTRAINT ge_tce UNIQUE (table_name, column_name, extension_name)
)"""
_DEFINITION = "http://www.geopackage.org/spec130/#extension_rtree"


def add_index(base: sqlite3.Connection, table: str, key: str, geometry: str) -> None:
    """Add an R-tree to an empty table. The rows that `base` inserts later fill it.

    Nothing is added if the SQLite of this machine has no R-trees.

    Parameters
    ----------
    base
        A GeoPackage that is written. It gets functions for geometries with bounds of four numbers, none of them empty.
    table, key, geometry
        The table, its primary key, and its column of geometries.
    """
    if base.execute("SELECT 1 FROM pragma_module_list WHERE name = 'rtree'").fetchone() is None:
        return
    tree = f"rtree_{table}_{geometry}"
    base.execute(_EXTENSIONS)
    row = (table, geometry, "gpkg_rtree_index", _DEFINITION, "write-only")
    base.execute("INSERT INTO gpkg_extensions VALUES (?, ?, ?, ?, ?)", row)
    base.execute(f"CREATE VIRTUAL TABLE {tree} USING rtree(id, minx, maxx, miny, maxy)")
    base.create_function("ST_IsEmpty", 1, lambda _: 0)
    for name, start in _BOUNDS.items():
        base.create_function(name, 1, lambda area, start=start: struct.unpack_from("<d", area, start)[0])
    bounds = ", ".join(f"{name}(NEW.{geometry})" for name in _BOUNDS)
    add = f"INSERT OR REPLACE INTO {tree} VALUES (NEW.{key}, {bounds});"
    remove = f"DELETE FROM {tree} WHERE id = OLD.{key};"
    is_area = f"(NEW.{geometry} NOT NULL AND NOT ST_IsEmpty(NEW.{geometry}))"
    is_none = f"(NEW.{geometry} IS NULL OR ST_IsEmpty(NEW.{geometry}))"
    keeps_key, changes_key = f"OLD.{key} = NEW.{key} AND", f"OLD.{key} != NEW.{key} AND"
    for name, event, condition, action in (
        ("insert", "INSERT", is_area, add),
        ("update1", f"UPDATE OF {geometry}", f"{keeps_key} {is_area}", add),
        ("update2", f"UPDATE OF {geometry}", f"{keeps_key} {is_none}", remove),
        ("update3", "UPDATE", f"{changes_key} {is_area}", f"{remove} {add}"),
        (
            "update4",
            "UPDATE",
            f"{changes_key} {is_none}",
            f"DELETE FROM {tree} WHERE id IN (OLD.{key}, NEW.{key});",
        ),
        ("delete", "DELETE", f"OLD.{geometry} NOT NULL", remove),
    ):
        base.execute(
            f"CREATE TRIGGER {tree}_{name} AFTER {event} ON {table} WHEN {condition} BEGIN {action} END"
        )
