"""GeoParquet 1.1: areas in longitude and latitude as a Parquet file that maps read.

https://geoparquet.org/releases/v1.1.0/
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sssp_pipeline.storage import files

#: The column with the geometry, and the column with its bounds.
GEOMETRY, BOUNDS = "geometry", "bbox"
_SIDES = ("xmin", "ymin", "xmax", "ymax")
BOUNDS_TYPE = pa.struct([(side, pa.float64()) for side in _SIDES])
#: Bytes of geometry in a row group.
_GROUP_BYTES = 2**26
#: OGC:CRS84, longitude before latitude in WGS 84, as PROJJSON.
_CRS84 = {
    "$schema": "https://proj.org/schemas/v0.7/projjson.schema.json",
    "type": "GeographicCRS",
    "name": "WGS 84 (CRS84)",
    "datum": {
        "type": "GeodeticReferenceFrame",
        "name": "World Geodetic System 1984",
        "ellipsoid": {"name": "WGS 84", "semi_major_axis": 6378137, "inverse_flattening": 298.257223563},
    },
    "coordinate_system": {
        "subtype": "ellipsoidal",
        "axis": [
            {
                "name": f"Geodetic {name}",
                "abbreviation": name[:3].capitalize(),
                "direction": way,
                "unit": "degree",
            }
            for name, way in (("longitude", "east"), ("latitude", "north"))
        ],
    },
    "id": {"authority": "OGC", "code": "CRS84"},
}


class Described:
    """What the metadata of a file say of the areas in it."""

    def __init__(self) -> None:
        self._types: set[str] = set()
        self._bounds: list[np.ndarray] = []

    def add(self, kinds: Iterable[str], bounds: np.ndarray) -> None:
        """Count areas of the `kinds` Polygon or MultiPolygon in, with their `bounds` (n, 4)."""
        self._types |= set(kinds)
        self._bounds.append(np.concatenate([np.min(bounds[:, :2], axis=0), np.max(bounds[:, 2:], axis=0)]))

    @property
    def bounds(self) -> list[float]:
        """West, south, east and north of all areas; nothing if there is none."""
        if not self._bounds:
            return []
        bounds = np.array(self._bounds)
        return [*np.min(bounds[:, :2], axis=0).tolist(), *np.max(bounds[:, 2:], axis=0).tolist()]

    def metadata(self) -> dict[str, str]:
        """Return the keys and values to add to the metadata of the file."""
        column: dict[str, Any] = {
            "encoding": "WKB",
            "geometry_types": sorted(self._types),
            "crs": _CRS84,
            "edges": "planar",
            "orientation": "counterclockwise",
            "covering": {"bbox": {side: [BOUNDS, side] for side in _SIDES}},
        }
        if self.bounds:
            column["bbox"] = self.bounds
        about = {"version": "1.1.0", "primary_column": GEOMETRY, "columns": {GEOMETRY: column}}
        return {"geo": json.dumps(about)}


def write_geoparquet(url: str, tables: Iterable[pa.Table], schema: pa.Schema, described: Described) -> None:
    """Write `tables` to the file `url`, whole or not at all. `described` is complete after the last of them.

    Raises
    ------
    InputError
        The place cannot be written.
    """
    # With a copy of Arrow's schema in the file, pyarrow would not show metadata that are added at the end.
    options = {"compression": "zstd", "store_schema": False}
    with files.open_atomic(url, synced=True) as handle, pq.ParquetWriter(handle, schema, **options) as writer:
        held: list[pa.Table] = []
        for table in tables:
            held.append(table)
            if sum(part.nbytes for part in held) >= _GROUP_BYTES:
                writer.write_table(pa.concat_tables(held))
                held.clear()
        if held:
            writer.write_table(pa.concat_tables(held))
        writer.add_key_value_metadata({**(schema.metadata or {}), **described.metadata()})
