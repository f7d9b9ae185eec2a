"""The area around the part of a road network that is reached within a limit.

An edge is a straight line between its ends, and its weight is spread evenly over that line. From a vertex at distance d
the part of an edge of weight w is reached up to (limit - d) / w of its length. The area is every place that is at most
`buffer_m` metres from a reached part.

Each edge is drawn on a plane of its own, which touches the Earth at the edge's middle: there a degree of longitude is
as many metres as a degree of latitude times the cosine of the latitude. The areas around the edges are united in
degrees. So no projection has to be chosen for the graph.

An edge leads the short way round the Earth. Where it crosses the meridian at 180 degrees, it is drawn with longitudes
beyond 180 or below -180. The finished area is cut at this meridian, as GeoJSON wants it (RFC 7946, section 3.1.9), and
the parts beyond it are moved by 360 degrees.

Most edges are reached as a whole, from many sources. Edges are therefore sorted along a curve that fills the plane, and
a tree over this order keeps the area around each group of neighbours once it was needed. An area is then a union of few
large groups, and of single edges along its rim.
"""

from __future__ import annotations

from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import CsrGraph, distance_limit
from sssp_pipeline.base.lazy import optional_package
from sssp_pipeline.pipeline.formats.geometry.great_circle import EARTH_RADIUS_M
from sssp_pipeline.pipeline.graph_store.coordinates import LonLat

#: Edges or groups in a group.
_FAN_OUT = 16
#: Lines that approximate a quarter of a circle. The approximation is inside the circle, and loses 2 % of its radius at
#: most.
_QUARTER_LINES = 4
_METRE_DEGREES = np.degrees(1 / EARTH_RADIUS_M)


def shapely_module() -> ModuleType:
    """Return shapely; raise `InputError` if it is missing."""
    return optional_package("shapely", "isochrones need", "places")


class ReachedAreas:
    """The areas that are reached on one graph.

    Parameters
    ----------
    graph
        Its weights are not negative.
    positions
        Of its vertices (V,).
    buffer_m
        How far a place may be from a reached part of an edge, in metres.

    Notes
    -----
    It holds about 40 bytes for each edge, and the areas of the groups that were needed: up to a kilobyte for each edge
    that was reached. Threads may call `around` at the same time. At worst two of them make the area of one group.
    """

    def __init__(self, graph: CsrGraph, positions: LonLat, buffer_m: float) -> None:
        self._graph, self._buffer_m = graph, buffer_m
        self._lon, self._lat = positions.lon, positions.lat
        self._shapely = shapely_module()
        sizes = [len(self._pairs[0])]
        while sizes[-1] > 1:
            sizes.append(-(-sizes[-1] // _FAN_OUT))
        #: How many groups each level of the tree has; level 0 are the pairs.
        self._sizes = sizes
        #: The area around each group of the levels above 0; None if it was not needed yet.
        self._areas = [np.full(size, None, object) for size in sizes[1:]]

    @cached_property
    def _pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Both ends (P,) of the pairs of vertices with an edge, in the order of the tree; the pair of each edge (E,).

        A loop has the pair -1.
        """
        graph = self._graph
        u = np.repeat(np.arange(graph.n_vertices, dtype=np.uint64), np.diff(graph.row_offsets))
        v = graph.col_indices.astype(np.uint64)
        is_loop = u == v
        keys = np.minimum(u, v) << np.uint64(32) | np.maximum(u, v)
        keys, pair = np.unique(keys[~is_loop], return_inverse=True)
        first, last = keys >> np.uint64(32), keys & np.uint64(2**32 - 1)
        middle_lon = (self._lon[first] + self._short_way(first, last)) / 2
        middle_lat = (self._lat[first] + self._lat[last]) / 2
        order = np.argsort(_along_curve(middle_lon, middle_lat), kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        pair_of_edge = np.full(graph.n_edges, -1)
        pair_of_edge[~is_loop] = place[pair]
        return first[order].astype(np.uint32), last[order].astype(np.uint32), pair_of_edge

    def around(self, distances: np.ndarray, limit: float) -> Any:
        """Return the area as a Polygon or MultiPolygon of shapely, in degrees; longitudes are from -180 to 180.

        Parameters
        ----------
        distances
            (V,) in the type of the weights, as a solver gives them.
        limit
            In the unit of the weights. At least one vertex is within it.

        Raises
        ------
        ValueError
            The area is around a pole.
        """
        graph, (first, _, pair_of_edge) = self._graph, self._pairs
        reached = np.flatnonzero(distances < distance_limit(distances.dtype, limit))
        counts = np.diff(graph.row_offsets)[reached]
        begins = np.cumsum(counts) - counts
        edges = np.repeat(graph.row_offsets[reached] - begins, counts) + np.arange(int(np.sum(counts)))
        u, v, pair = np.repeat(reached, counts), graph.col_indices[edges], pair_of_edge[edges]
        weights = graph.weights[edges].astype(np.float64)
        left = limit - distances[u].astype(np.float64)
        share = np.where(weights > 0, np.clip(left / np.where(weights > 0, weights, 1), 0, 1), 1)
        # Every reached vertex is in the area: as an end of an edge, or as a point if it has none.
        has_edge = np.zeros(graph.n_vertices, bool)
        has_edge[u[pair >= 0]] = True
        points = reached[~has_edge[reached]]

        whole = np.unique(pair[(share == 1) & (pair >= 0)])
        is_whole = np.zeros(len(first), bool)
        is_whole[whole] = True
        is_part = pair >= 0
        is_part[is_part] = ~is_whole[pair[is_part]]
        u, v, share = u[is_part], v[is_part], share[is_part]
        begin_lon, begin_lat = self._lon[u], self._lat[u]
        end_lon = begin_lon + share * (self._short_way(u, v) - begin_lon)
        end_lat = begin_lat + share * (self._lat[v] - begin_lat)
        parts = [
            self._around_lines(begin_lon, begin_lat, end_lon, end_lat, (begin_lat + self._lat[v]) / 2),
            self._around_lines(*(self._lon[points], self._lat[points]) * 2, self._lat[points]),
            *self._groups(whole),
        ]
        area = self._shapely.union_all(np.concatenate(parts))
        west, south, east, north = self._shapely.bounds(area)
        if west < -540 or east > 540 or south < -90 or north > 90:
            raise ValueError("it is around a pole")
        if west < -180 or east > 180:
            area = self._cut(area)
        return self._shapely.orient_polygons(area)

    def _short_way(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return the longitudes of `v` (n,), at most 180 degrees from the longitudes of `u` (n,)."""
        lon = self._lon[v]
        ahead = lon - self._lon[u]
        return lon - 360.0 * (ahead > 180) + 360.0 * (ahead < -180)

    def _cut(self, area: Any) -> Any:
        """Return `area`, whose longitudes are from -540 to 540, cut at the meridian at 180 degrees."""
        shapely = self._shapely
        parts = []
        for west in (-540.0, -180.0, 180.0):
            inside = shapely.get_parts(shapely.intersection(area, shapely.box(west, -90, west + 360, 90)))
            inside = inside[shapely.get_dimensions(inside) == 2]  # an area that ends there leaves a line
            parts.append(shapely.transform(inside, lambda at, west=west: at - (west + 180, 0)))
        return shapely.union_all(np.concatenate(parts))

    def _groups(self, pairs: np.ndarray) -> list[np.ndarray]:
        """Return the areas of the fewest groups of the tree that have exactly `pairs` (n,), which ascend."""
        found, groups = [], pairs
        for level, size in enumerate(self._sizes[:-1]):
            parents, counts = np.unique(groups // _FAN_OUT, return_counts=True)
            is_full = counts == np.minimum(_FAN_OUT, size - parents * _FAN_OUT)
            found.append(self._areas_of(level, groups[~np.repeat(is_full, counts)]))
            groups = parents[is_full]
        return [*found, self._areas_of(len(self._sizes) - 1, groups)]

    def _areas_of(self, level: int, groups: np.ndarray) -> np.ndarray:
        """Return the areas (n,) around `groups` (n,) of one level; those above level 0 are kept."""
        if level == 0:
            first, last = (end[groups] for end in self._pairs[:2])
            begin_lat, end_lat = self._lat[first], self._lat[last]
            middle_lat = (begin_lat + end_lat) / 2
            return self._around_lines(
                self._lon[first], begin_lat, self._short_way(first, last), end_lat, middle_lat
            )
        kept = self._areas[level - 1]
        new = groups[self._shapely.is_missing(kept[groups])]
        if len(new):
            children = (new[:, None] * _FAN_OUT + np.arange(_FAN_OUT)).ravel()
            is_there = children < self._sizes[level - 1]
            parts = np.full(len(children), None, object)
            parts[is_there] = self._areas_of(level - 1, children[is_there])
            kept[new] = self._shapely.union_all(parts.reshape(-1, _FAN_OUT), axis=1)
        return kept[groups]

    def _around_lines(
        self,
        begin_lon: np.ndarray,
        begin_lat: np.ndarray,
        end_lon: np.ndarray,
        end_lat: np.ndarray,
        middle_lat: np.ndarray,
    ) -> np.ndarray:
        """Return the areas (n,) around straight lines in degrees.

        `middle_lat` is the latitude of the middle of the edge, also for a part of it: so the area of a part is inside
        the area of the edge.
        """
        shapely = self._shapely
        shrink = np.cos(np.radians(middle_lat))
        ends = np.stack([begin_lon * shrink, begin_lat, end_lon * shrink, end_lat], axis=1)
        lines = shapely.linestrings(ends.reshape(-1, 2, 2))
        areas = shapely.buffer(lines, self._buffer_m * _METRE_DEGREES, quad_segs=_QUARTER_LINES)
        corners, area = shapely.get_coordinates(areas, return_index=True)
        corners[:, 0] /= shrink[area]
        return np.asarray(shapely.set_coordinates(areas, corners), object)


def _along_curve(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the places (n,) uint64 of points on a curve that visits neighbours one after another (Morton, 1966)."""
    place = np.zeros(len(x), np.uint64)
    for shift, values in enumerate((x, y)):
        extent = float(np.ptp(values)) if len(values) else 0.0
        bits = np.zeros(len(x), np.uint64)
        if extent > 0:
            bits = ((values - np.min(values)) * (65535 / extent)).astype(np.uint64)
        # Moves bit i to bit 2 i.
        for width, mask in ((8, 0x00FF00FF), (4, 0x0F0F0F0F), (2, 0x33333333), (1, 0x55555555)):
            bits = (bits | bits << np.uint64(width)) & np.uint64(mask)
        place |= bits << np.uint64(shift)
    return place
