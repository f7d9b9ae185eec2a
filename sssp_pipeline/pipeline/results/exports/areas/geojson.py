"""GeoJSON: a FeatureCollection in longitude and latitude, which is written one feature after another.

https://www.rfc-editor.org/rfc/rfc7946
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from sssp_pipeline.base.lazy import optional_package
from sssp_pipeline.pipeline.results.exports.areas.geoparquet import BOUNDS, GEOMETRY, Described
from sssp_pipeline.storage import files


def feature(geometry: str, properties: dict[str, Any]) -> str:
    """Return a Feature as text; `geometry` is JSON already."""
    return f'{{"type": "Feature", "geometry": {geometry}, "properties": {json.dumps(properties)}}}'


def write_features(url: str, features: Iterable[str], about: dict[str, Any] | None = None) -> None:
    """Write a collection of `features`, which are texts. `about` has more members of the collection."""
    members = "".join(f"{json.dumps(name)}: {json.dumps(value)}, " for name, value in (about or {}).items())
    with files.open_atomic(url, synced=True) as handle:
        handle.write(f'{{"type": "FeatureCollection", {members}"features": ['.encode())
        for i, text in enumerate(features):
            handle.write((",\n" * bool(i) or "\n").encode() + text.encode())
        handle.write(b"\n]}\n")


def write_area_features(
    url: str, tables: Iterable[pa.Table], schema: pa.Schema, described: Described
) -> None:
    """Write a Feature for each area. Its properties are the columns of `tables`, without geometry and bounds.

    The metadata of the schema become members of the collection.
    """
    del described
    about = {name.decode(): json.loads(value) for name, value in (schema.metadata or {}).items()}
    write_features(url, _features(tables), about)


def _features(tables: Iterable[pa.Table]) -> Iterator[str]:
    shapely = optional_package("shapely", "areas need", "places")
    for table in tables:
        areas = shapely.to_geojson(shapely.from_wkb(table[GEOMETRY].to_pylist()))
        yield from map(feature, areas, table.drop_columns([GEOMETRY, BOUNDS]).to_pylist())
