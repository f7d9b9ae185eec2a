"""Snapping: the vertex that is nearest to a point on the globe.

The distance is measured along a great circle of a sphere with the mean radius of the Earth. Vertices are sorted by
latitude. From a point the search goes north and south, and stops where the difference in latitude is larger than
the distance to the best vertex. So no vertex is missed. Of vertices at the same distance the smallest is taken.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.base.progress import plural
from sssp_pipeline.base.vertex_ids import NamedPoints
from sssp_pipeline.pipeline.formats.geometry.great_circle import EARTH_RADIUS_M
from sssp_pipeline.pipeline.graph_store.coordinates import LonLat
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.results.folder import snapped
from sssp_pipeline.storage import files
from sssp_pipeline.workflow.vertices import Points

if TYPE_CHECKING:
    from sssp_pipeline.pipeline.formats.vertex_files.point_files import PointTable


class Snapper:
    """Finds the vertices of the points of a run, and keeps what it found.

    Parameters
    ----------
    stored
        The graph of the run.
    """

    def __init__(self, stored: StoredGraph) -> None:
        self._stored = stored
        self._tables: list[pa.Table] = []
        #: For the log: a sentence about the sources and one about the targets that were points.
        self.sentences: list[str] = []

    def __call__(self, spec: Points, key: str, what: str, *, needs_ids: bool = False) -> NamedPoints:
        """Return the points in `spec.file`, in the order of the file.

        Parameters
        ----------
        spec
            The file, and how to read it.
        key
            Its key in the workflow.
        what
            What the points are, "source" or "target".
        needs_ids
            Whether the file must have a column of ids.

        Raises
        ------
        InputError
            The graph has no coordinates, the file cannot be used, or a point is farther than `max_snap_m` from every
            vertex.
        """
        from sssp_pipeline.pipeline.formats.vertex_files.point_files import PointFile

        points = PointFile(key, spec).read()
        _check_ids(spec, key, points, needs_ids)
        positions = self._stored.lon_lat(spec.coordinates)
        nearby = Nearby(positions)
        limit_m = np.inf if spec.max_snap_m is None else spec.max_snap_m
        vertices, distances_m = nearby.nearest(points.lon, points.lat, limit_m)
        if len(far := np.flatnonzero(distances_m > limit_m)):
            raise _too_far(spec, key, points, far, nearby)
        n_points = len(vertices)
        columns = {
            "role": pa.array([what] * n_points),
            "row": pa.array(np.arange(1, n_points + 1)),
            "id": pa.array(points.ids, pa.string()),
            "lon": points.lon,
            "lat": points.lat,
            "vertex": self._stored.ids.originals(vertices),
            "distance_m": distances_m,
        }
        table = snapped.points_table(columns, has_whole_ids=points.has_whole_ids)
        self._tables.append(table)
        n_vertices = len(np.unique(vertices))
        last = int(np.argmax(distances_m))
        named = "numbered from 1" if points.id_column is None else f"ids in column `{points.id_column}`"
        self.sentences.append(
            f"snapped {plural(n_points, f'{what} point')} to {plural(n_vertices, 'vertex')}, "
            f"at most {distances_m[last]:,.1f} m away ({files.redacted(spec.file)} {points.places[last]}); "
            f"{named}; coordinates of the graph in {positions.unit}"
        )
        ids = snapped.ids_of(table, what)
        assert ids is not None, "they are the points of the table"
        return NamedPoints(ids["id"].combine_chunks(), vertices)

    @property
    def table(self) -> pa.Table | None:
        """A row for each point: `role`, `row`, `id`, `lon`, `lat`, `vertex`, `distance_m`; None without points."""
        return snapped.joined(self._tables) if self._tables else None

    @property
    def digest(self) -> str | None:
        """A digest of the points and their vertices; None without points."""
        return None if (table := self.table) is None else snapped.digest_of(table)


def _check_ids(spec: Points, key: str, points: PointTable, needs_ids: bool) -> None:
    """Raise `InputError` if a point has no id, or that of another one: results would not tell them apart."""
    ids, places, file = points.ids, points.places, files.redacted(spec.file)
    if needs_ids and points.id_column is None:
        raise InputError(
            f"`{file}` has no column `id`, and pairs name points by their ids",
            hint=f"name the column with `{key}.id`",
        )
    if None in ids:
        raise InputError(
            f"`{file}` {places[ids.index(None)]} has no id in column `{points.id_column}`",
            hint=f"give each point an id, or name another column with `{key}.id`",
        )
    if len(set(ids)) < len(ids):
        again = next(point_id for point_id, n in Counter(ids).items() if n > 1)
        first = ids.index(again)
        raise InputError(
            f"`{file}`: {places[first]} and {places[ids.index(again, first + 1)]} have the id `{again}`",
            hint=f"give each point an id of its own, or name another column with `{key}.id`",
        )


def _too_far(spec: Points, key: str, points: PointTable, far: np.ndarray, nearby: Nearby) -> InputError:
    """Return the error for the points `far`, which are farther than the limit from every vertex."""
    first = slice(far[0], far[0] + 1)
    (distance_m,) = nearby.nearest(points.lon[first], points.lat[first])[1]
    more = f"; the same is true of {plural(len(far) - 1, 'more point')}" if len(far) > 1 else ""
    message = (
        f"`{files.redacted(spec.file)}` {points.name(int(far[0]))} is {distance_m:,.0f} m from the nearest vertex, "
        f"farther than `{key}.max_snap_m: {spec.max_snap_m}` allows{more}"
    )
    assert spec.max_snap_m is not None
    lon, lat = points.lat[first], points.lon[first]
    if abs(lat[0]) <= 90 and nearby.nearest(lon, lat)[1][0] <= spec.max_snap_m:
        hint = f"its longitude and latitude are exchanged, it seems: name the columns with `{key}.lon` and `{key}.lat`"
    else:
        hint = f"leave such points out, or set `{key}.max_snap_m` higher"
    return InputError(message, hint=hint)


class Nearby:
    """The vertices of a graph, to be found by position.

    Parameters
    ----------
    positions
        The positions of all vertices, (V,).
    """

    def __init__(self, positions: LonLat) -> None:
        self._order = np.argsort(positions.lat, kind="stable").astype(np.uint32)
        self._lon, self._lat = np.radians(positions.lon[self._order]), np.radians(positions.lat[self._order])

    def nearest(
        self, lon: np.ndarray, lat: np.ndarray, limit_m: float = np.inf
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the nearest vertices (P,) uint32 of points (P,) in degrees, and the distances (P,) in metres.

        The distance is infinite if every vertex is farther than about `limit_m`.
        """
        # The limit is a little larger, so that rounding loses no vertex.
        limit = np.sin(min(limit_m / (2 * EARTH_RADIUS_M), np.pi / 2)) ** 2 * (1 + 1e-9)
        vertices = np.empty(len(lon), np.uint32)
        squares = np.empty(len(lon), np.float64)
        point = np.radians(lon), np.radians(lat)
        _find_nearest(self._order, self._lon, self._lat, *point, limit, vertices, squares)
        metres = 2 * EARTH_RADIUS_M * np.arcsin(np.sqrt(np.minimum(squares, 1)))
        return vertices, np.where(np.isinf(squares), np.inf, metres)


@njit(nogil=True)
def _find_nearest(
    order: np.ndarray,
    lon: np.ndarray,
    lat: np.ndarray,
    point_lon: np.ndarray,
    point_lat: np.ndarray,
    limit: float,
    vertices: np.ndarray,
    squares: np.ndarray,
) -> None:
    """Fill the nearest vertex of each point, and the square of the sine of half the angle to it.

    If no square is below `limit`, the square is infinite.
    """
    for p in range(len(point_lon)):
        begin = np.searchsorted(lat, point_lat[p])
        cos_lat = np.cos(point_lat[p])
        best, nearest = limit, order[0]
        for step in (-1, 1):
            i = begin - 1 if step < 0 else begin
            while 0 <= i < len(lat):
                north = np.sin((lat[i] - point_lat[p]) / 2)
                of_latitude = north * north
                if of_latitude > best:
                    break
                east = np.sin((lon[i] - point_lon[p]) / 2)
                # A sum of such terms is not less than its first one, so the search may stop there.
                square = of_latitude + cos_lat * np.cos(lat[i]) * (east * east)
                if square < best or (square == best and order[i] < nearest):
                    best, nearest = square, order[i]
                i += step
        vertices[p], squares[p] = nearest, best if best < limit else np.inf
