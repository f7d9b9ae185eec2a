"""`snapped.parquet`: the points that are the sources or the targets of a run, and their vertices.

A row has the `role` of a point ("source" or "target"), its `row` in the file of the user from 1, its `id` as text, its
`lon` and `lat`, the id of its `vertex`, and the distance to it, `distance_m`. The metadata of the schema has the type
that the ids of each role have in results.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import pyarrow as pa

from sssp_pipeline.base.vertex_ids import NamedPoints, VertexIds
from sssp_pipeline.pipeline.formats.arrow_compute import pc


def points_table(columns: dict[str, Any], *, has_whole_ids: bool) -> pa.Table:
    """Return the rows of the points of one role; `has_whole_ids` says that results have their ids as integers."""
    table = pa.table(columns)
    role = columns["role"][0].as_py()
    return table.replace_schema_metadata({f"type of {role}": "int64" if has_whole_ids else "string"})


def joined(tables: list[pa.Table]) -> pa.Table:
    """Return the rows of all roles."""
    metadata = {name: kind for table in tables for name, kind in table.schema.metadata.items()}
    return pa.concat_tables(table.replace_schema_metadata(None) for table in tables).replace_schema_metadata(
        metadata
    )


def digest_of(table: pa.Table) -> str:
    """Return a digest of the points, of their vertices and of the types of their ids."""
    # Without the metres, which may differ in the last bit from machine to machine.
    columns = table.drop_columns(["distance_m"])
    kinds = [(role, _type_of(table, role)) for role in ("source", "target")]
    lines = map(repr, [kinds, *columns.to_pylist()])
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def ids_of(table: pa.Table, role: str) -> pa.Table | None:
    """Return the columns `id`, as results have it, and `vertex` of the points of a role; None if it has no points."""
    if (kind := _type_of(table, role)) is None:
        return None
    rows = table.filter(pc.equal(table["role"], role))
    return pa.table({"id": rows["id"].cast(kind), "vertex": rows["vertex"]}).combine_chunks()


def _type_of(table: pa.Table, role: str) -> str | None:
    kind = (table.schema.metadata or {}).get(f"type of {role}".encode())
    return None if kind is None else kind.decode()


def with_points(ids: VertexIds, table: pa.Table, *, of_pairs: bool) -> VertexIds:
    """Return `ids` with the points of the table. `of_pairs` says that they are the ends of pairs."""

    def points(role: str) -> NamedPoints | None:
        if (found := ids_of(table, role)) is None:
            return None
        vertices = ids.vertices(found["vertex"].to_pylist(), "`snapped.parquet`: vertex")
        return NamedPoints(found["id"].combine_chunks(), vertices)

    sources, targets = points("source"), points("target")
    if of_pairs:
        return replace(ids, points_of_pairs=(sources, targets))
    return replace(ids, source_points=sources, target_points=targets)
