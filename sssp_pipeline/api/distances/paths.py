"""Shortest paths: one path as the user gets it, and the predecessors on the paths from a source."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from sssp_pipeline.api.calls.argument_names import naming, of_store
from sssp_pipeline.api.graphs.graphs import open_store
from sssp_pipeline.base.csr import NO_VERTEX
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.graph_store.store import MANIFEST
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.graph_store.units import in_input_unit
from sssp_pipeline.storage import files

#: A graph store, or its path or URL.
Store = str | os.PathLike[str] | StoredGraph


class Path(list[Any]):
    """The ids of the vertices of a shortest path, both ends included; empty if there is none.

    Attributes
    ----------
    length
        The distance between its ends; None if there is no path.
    unit
        The unit of the weights, if the graph store names one.
    """

    def __init__(
        self,
        ids: Iterable[Any] = (),
        length: int | float | None = None,
        unit: str | None = None,
        graph: Callable[[], StoredGraph] | None = None,
        ends: tuple[Any, Any] | None = None,
    ) -> None:
        super().__init__(ids)
        self.length, self.unit = length, unit
        self._graph = graph
        #: The ids that the caller gave for the ends. They may be ids of points.
        self._ends = ends

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        # A graph does not go to another process.
        return Path, (list(self), self.length, self.unit, None, self._ends)

    def with_ends(self, source: Any, target: Any) -> Path:
        """Return this path between two points that stand for its ends: `to_dict` then has their ids."""
        return Path(self, self.length, self.unit, self._graph, (source, target))

    def cost(self, store: Store) -> int | float:
        """Return the sum of other weights along the path, such as the time along the shortest way.

        Parameters
        ----------
        store
            The name of another weight in the store of the path's graph; or a graph store with the same ids, or its path
            or URL. It has an edge between each two neighbours on the path. Of parallel edges the one with the least
            weight counts.

        Returns
        -------
        int or float
            In the unit of that store. Integers are exact. Floats are added exactly and rounded once, to float64.

        Raises
        ------
        InputError
            The store lacks a vertex or an edge of the path, or it is damaged; or a name means both a weight and a
            folder.
        """
        return self._cost_on(self._weights_named(store))

    @naming(of_store)
    def _weights_named(self, given: Store) -> StoredGraph:
        """Return the graph whose weights `given` means: a weight of the store of this path, or a store."""
        if isinstance(given, StoredGraph):
            return given
        name, own = os.fspath(given), None
        is_store = files.exists(files.join(name, MANIFEST))
        if isinstance(given, str) and "/" not in name and self._graph is not None:
            try:
                own = self._graph()
            except InputError:
                if not is_store:
                    raise
        if own is None or (is_store and name not in own.manifest.by_weight):
            return open_store(name)
        if is_store:
            raise InputError(
                f"`{name}` is a weight of the graph store and a folder",
                hint=f"write `./{name}` for the folder; rename it for the weight",
            )
        if own.manifest.weight is None:
            return open_store(name)  # which raises
        return own if name == own.manifest.weight else own.with_weight(name)

    @naming(of_store)
    def _cost_on(self, stored: StoredGraph) -> int | float:
        place, graph = files.redacted(stored.store), stored.graph()
        vertices = stored.ids.vertices(self, f"`{place}`: vertex").tolist()
        weights = []
        for u, v in pairwise(vertices):
            edges = slice(graph.row_offsets[u], graph.row_offsets[u + 1])
            between = graph.weights[edges][graph.col_indices[edges] == v]
            if not len(between):
                ends = [stored.ids.original(vertex) for vertex in (u, v)]
                raise InputError(
                    f"`{place}` has no edge from `{ends[0]}` to `{ends[1]}`, which are neighbours on the path",
                    hint="name a graph store that has the same edges with other weights",
                )
            weights.append(between.min().item())
        total = math.fsum(weights) if graph.weight_dtype.kind == "f" else sum(weights)
        return in_input_unit(total, stored.manifest.weights.scale)

    def to_dict(self, cost: Store | None = None) -> dict[str, Any]:
        """Return plain values: `from`, `to`, `length`, `unit`, `cost`, `cost_unit`, the number of `edges`, and `ids`.

        If the ends are points, `from` and `to` are their ids. Without a path, the ends and the length are None.
        `cost` and `cost_unit` are there if `cost` is given, as for the method `cost`, whose errors it raises.
        """
        first, last = (self._ends or (self[0], self[-1])) if self else (None, None)
        found: dict[str, Any] = {"from": first, "to": last}
        found |= {"length": self.length, "unit": self.unit}
        if cost is not None:
            stored = self._weights_named(cost)
            found |= {"cost": self._cost_on(stored), "cost_unit": stored.manifest.weights.unit}
        return {**found, "edges": max(len(self) - 1, 0), "ids": list(self)}

    def geojson(self, cost: Store | None = None, *, coordinates: str = "auto") -> dict[str, Any]:
        """Return the path as a Feature of GeoJSON (RFC 7946): a line, or a point if the path is one vertex.

        A line across the meridian at 180 degrees is cut there, into a MultiLineString (section 3.1.9).

        The properties are the values of `to_dict` and `coordinates`, the unit of the coordinates in the graph store.

        Parameters
        ----------
        cost
            As for the method `cost`.
        coordinates
            "degrees", "microdegrees" (millionths of a degree, as in the DIMACS road networks), or "auto" for the unit
            that fits the numbers.

        Raises
        ------
        InputError
            There is no path, the graph is not in a graph store, its store has no coordinates, or they are no longitudes
            and latitudes.
        """
        if not self:
            raise InputError("there is no path to draw", hint="name two vertices that a path connects")
        if self._graph is None:
            raise without_coordinates()
        stored = self._graph()
        positions = stored.lon_lat(coordinates)
        vertices = stored.ids.vertices(self, "vertex")
        line = [
            [lon.item(), lat.item()]
            for lon, lat in zip(positions.lon[vertices], positions.lat[vertices], strict=True)
        ]
        properties = {**self.to_dict(cost), "coordinates": positions.unit}
        return {"type": "Feature", "geometry": drawn(line), "properties": properties}


def drawn(line: list[list[float]]) -> dict[str, Any]:
    """Return the geometry of a line of positions, each a longitude and a latitude."""
    if len(line) == 1:
        return {"type": "Point", "coordinates": line[0]}
    parts = [line[:1]]
    for (lon, lat), (next_lon, next_lat) in pairwise(line):
        if abs(next_lon - lon) > 180:  # the short way leads across the meridian at 180 degrees
            side = 180.0 if next_lon < lon else -180.0
            ahead = next_lon + 2 * side - lon
            share = (side - lon) / ahead if ahead else 0.0
            crossed_lat = lat + share * (next_lat - lat)
            if share:
                parts[-1].append([side, crossed_lat])
            parts.append([[-side, crossed_lat]])
        parts[-1].append([next_lon, next_lat])
    # A vertex on the meridian is there twice: a part of one place is no line.
    drawn = [part for part in parts if any(position != part[0] for position in part)] or [line]
    if len(drawn) == 1:
        return {"type": "LineString", "coordinates": drawn[0]}
    return {"type": "MultiLineString", "coordinates": drawn}


def without_coordinates() -> InputError:
    """Return the error for a graph that is in no graph store."""
    return InputError(
        "the graph has no coordinates: it is not in a graph store",
        hint='ingest it with `coordinates="URL"`, and solve on the store',
    )


@dataclass(frozen=True, eq=False)
class PathTree:
    """Shortest paths from one source."""

    #: (n,) ascending vertices on the paths; None if the tree has every vertex. Others are unreached.
    vertices: np.ndarray | None
    #: (n,) or (V,) uint32, the predecessor of each; `NO_VERTEX` for the source and for unreached vertices.
    predecessors: np.ndarray

    @classmethod
    def to_targets(cls, predecessors: np.ndarray, targets: np.ndarray) -> PathTree:
        """Return the paths to `targets` (T,), from the `predecessors` (V,) of all vertices."""
        is_on_path = np.zeros(len(predecessors), bool)
        ends = np.unique(targets)
        while len(ends):
            is_on_path[ends] = True
            before = np.unique(predecessors[ends])
            before = before[before != NO_VERTEX]
            ends = before[~is_on_path[before]]
        vertices = np.flatnonzero(is_on_path)
        return cls(vertices, predecessors[vertices])

    def before(self, vertex: int) -> int:
        """Return the predecessor of a vertex; `NO_VERTEX` for the source and for unreached vertices."""
        place = vertex if self.vertices is None else int(np.searchsorted(self.vertices, vertex))
        if self.vertices is not None and vertex not in self.vertices[place : place + 1]:
            return int(NO_VERTEX)
        return int(self.predecessors[place])

    def path(self, source: int, vertex: int) -> list[int]:
        """Return the vertices from `source` to `vertex`, both included; empty if `vertex` is unreached."""
        if vertex != source and self.before(vertex) == NO_VERTEX:
            return []
        path = [vertex]
        while path[-1] != source:
            path.append(self.before(path[-1]))
        return path[::-1]
