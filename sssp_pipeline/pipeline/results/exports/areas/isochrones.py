"""Isochrones: for each source and limit the area that is reached within the limit.

`reached_area` says what an area is. The distances of a finished run are read a source at a time.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.error_text import Text, key
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.ordered import map_in_order
from sssp_pipeline.base.progress import Progress, Quiet
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.graph_store.units import scaled_limit
from sssp_pipeline.pipeline.results.exports.areas.geojson import write_area_features
from sssp_pipeline.pipeline.results.exports.areas.geopackage import write_geopackage
from sssp_pipeline.pipeline.results.exports.areas.geoparquet import (
    BOUNDS,
    BOUNDS_TYPE,
    GEOMETRY,
    Described,
    write_geoparquet,
)
from sssp_pipeline.pipeline.results.exports.areas.reached_area import ReachedAreas, shapely_module
from sssp_pipeline.pipeline.results.exports.file_format import FileFormat, format_of
from sssp_pipeline.pipeline.results.layouts.layout import StoredRow
from sssp_pipeline.storage import files

#: How far a place may be from a reached road, in metres.
BUFFER_M = 100
#: Their writers take the URL, the tables, their schema, and the `Described`, which is complete after the last table.
AREA_FORMATS = (
    FileFormat((".parquet",), write_geoparquet),
    FileFormat((".geojson",), write_area_features),
    FileFormat((".gpkg",), write_geopackage),
)


class Isochrones:
    """The isochrones of some sources.

    Parameters
    ----------
    stored
        The graph.
    rows
        Returns the id of each source and its distances (V,) in the type of the weights, as a solver gives them.
    sources
        (S,) their ids.
    limits
        Distances in the unit of the weights, in any order.
    cutoff
        The largest distance in `rows`; None if all are there.
    buffer_m
        How far a place may be from a reached part of an edge, in metres.
    coordinates
        The unit of the coordinates: "degrees", "microdegrees" or "auto".

    Raises
    ------
    InputError
        A limit or the buffer cannot be used, or a limit is above the cutoff; the graph has no coordinates or has
        negative weights; or shapely is missing.
    """

    def __init__(
        self,
        stored: StoredGraph,
        rows: Callable[[], Iterator[StoredRow]],
        sources: pa.Array,
        limits: Sequence[float],
        cutoff: float | None,
        *,
        buffer_m: float = BUFFER_M,
        coordinates: str = "auto",
    ) -> None:
        shapely_module()
        self._stored, self._rows, self._sources = stored, rows, sources
        self._limits = _checked_limits(limits, cutoff)
        if not _is_number(buffer_m) or not 0 < buffer_m < math.inf:
            raise InputError(
                f"the buffer is `{buffer_m}`, not a positive number of metres", hint="a street needs about 50"
            )
        if stored.manifest.weights.min < 0:
            raise InputError(
                f"the graph store `{files.redacted(stored.store)}` has negative weights: along such an edge the "
                "distance falls",
                hint="isochrones need weights of zero or more",
            )
        self._buffer_m, self._positions = float(buffer_m), stored.lon_lat(coordinates)
        self._described = Described()

    @property
    def coordinates(self) -> str:
        """How the coordinates were read: a key of `coordinates.UNITS`."""
        return self._positions.unit

    @property
    def schema(self) -> pa.Schema:
        """The columns: `source`, `limit`, `geometry` and `bbox`; what the polygons mean is in the metadata."""
        is_whole = all(isinstance(limit, int) for limit in self._limits)
        about = {"buffer_m": self._buffer_m, "limit_unit": self._stored.manifest.weights.unit}
        fields = [
            ("source", self._sources.type),
            ("limit", pa.int64() if is_whole else pa.float64()),
            (GEOMETRY, pa.binary()),
            (BOUNDS, BOUNDS_TYPE),
        ]
        return pa.schema(fields, {"isochrones": json.dumps(about)})

    def table(self) -> pa.Table:
        """Return all isochrones, with the metadata of GeoParquet.

        Raises `InputError` if an isochrone is around a pole, or a file of the run is damaged.
        """
        tables = list(self._tables(Quiet()))
        table = pa.concat_tables([self.schema.empty_table(), *tables])
        return table.replace_schema_metadata(self.schema.metadata | self._described.metadata())

    def write(self, url: str, progress: Progress) -> None:
        """Write all isochrones to the file `url`, which must not exist; some sources are held in memory.

        Raises
        ------
        InputError
            `url` exists, ends like none of `AREA_FORMATS` or cannot be written; an isochrone is around a
            pole; or a file of the run is damaged.
        """
        chosen = format_of(url, AREA_FORMATS)
        chosen.write(url, self._tables(progress), self.schema, self._described)

    def _tables(self, progress: Progress) -> Iterator[pa.Table]:
        """Yield the isochrones of one source after another, in the order of the rows."""
        areas = ReachedAreas(self._stored.graph(), self._positions, self._buffer_m)
        found = map_in_order(partial(self._around, areas), self._rows(), usable_cores())
        for done, (table, kinds, bounds) in enumerate(found, start=1):
            self._described.add(kinds, bounds)
            yield table
            progress.advance(done, len(self._sources), "sources")

    def _around(self, areas: ReachedAreas, stored: StoredRow) -> tuple[pa.Table, list[str], np.ndarray]:
        """Return the isochrones of one source, their types, and their bounds (n, 4)."""
        shapely, schema, scale = shapely_module(), self.schema, self._stored.manifest.weights.scale
        source, row = stored
        try:
            found = [areas.around(row, scaled_limit(limit, scale) or 0) for limit in self._limits]
        except ValueError as error:
            raise InputError(
                f"the isochrone of source `{source}` cannot be drawn: {error}",
                hint="choose a smaller limit or other sources",
            ) from error
        bounds = shapely.bounds(found)
        columns = [
            pa.repeat(pa.scalar(source, schema.field("source").type), len(found)),
            pa.array(self._limits, schema.field("limit").type),
            pa.array(shapely.to_wkb(found), pa.binary()),
            pa.StructArray.from_arrays(list(bounds.T), fields=list(BOUNDS_TYPE)),
        ]
        return pa.table(columns, schema=schema), [area.geom_type for area in found], bounds


def _checked_limits(limits: Sequence[float], cutoff: float | None) -> list[float]:
    """Return `limits` in ascending order."""
    hint = "name limits in the unit of the weights, such as 600,1200"
    for limit in limits:
        if not _is_number(limit) or not 0 <= limit < math.inf:
            raise InputError(f"the limit `{limit}` is not a number of zero or more", hint=hint)
    if not len(limits) or len(set(limits)) < len(limits):
        given = ", ".join(map(str, limits)) or "missing"
        raise InputError(f"the limits are {given}: there must be one, and none twice", hint=hint)
    if cutoff is not None and max(limits) > cutoff:
        raise InputError(
            f"the limit {max(limits)} is above the cutoff, {cutoff}: longer distances are not known",
            hint=Text("set ", key("solve.cutoff"), " higher, or choose smaller limits"),
        )
    return sorted(int(limit) if isinstance(limit, int | np.integer) else float(limit) for limit in limits)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
