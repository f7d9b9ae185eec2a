"""OpenStreetMap: the roads of a PBF or XML file, as a graph whose vertices are nodes.

The file is read twice (`ways_and_nodes.py`). The first time gives the ways that the profile may use (`rules.py`), and
with them the nodes that are vertices: both ends of a way, and every node that occurs again, in another way or in the
same one. The second time gives the positions of the nodes of these ways. Between two vertices that follow each other on
a way there is an edge in each open direction.

Lengths are sums of great circles from node to node, on a sphere with the Earth's mean radius. They are rounded to a
millimetre, and times to a millisecond, so `graph.weights.scale: 1000` computes with integers.

Memory holds about 50 bytes for each node of an open way, and a bitmap of at most 64 MiB or twice the size of the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np

from sssp_pipeline.base.errors import InputError, did_you_mean
from sssp_pipeline.base.vertex_ids import VertexIds
from sssp_pipeline.pipeline.formats.edge_list import (
    Coordinates,
    EdgeChunk,
    InputEdges,
    ReadOptions,
    SkippedRows,
)
from sssp_pipeline.pipeline.formats.geometry.great_circle import step_metres
from sssp_pipeline.pipeline.formats.openstreetmap.rules import PROFILES, Profile
from sssp_pipeline.pipeline.formats.openstreetmap.ways_and_nodes import (
    NOWHERE,
    Nodes,
    OsmFile,
    Ways,
    load_osmium,
    read_nodes,
    read_ways,
)
from sssp_pipeline.pipeline.formats.reading import ColumnRead, Reading
from sssp_pipeline.pipeline.formats.streams.local_copy import local_file
from sssp_pipeline.storage import files

#: The weights to choose from, and their units.
WEIGHTS = {"length": "metres", "time": "seconds"}
#: The profile unless the workflow names one.
_DEFAULT_PROFILE = "car"
#: The factor from degrees to the integers of OpenStreetMap.
_PER_DEGREE = 10**7
_KMH = 3.6


def open_osm(urls: list[str], options: ReadOptions) -> InputEdges:
    """Return the roads in the OpenStreetMap files `urls`, which are one graph.

    Raises
    ------
    InputError
        The package osmium is missing, or no weight is named. While the edges are
        read: a file is damaged or a history of changes, it has no open way, or a way has a node that no file has.
    """
    load_osmium(urls[0])
    asked = options.own.get("profile", "auto")
    name = _DEFAULT_PROFILE if asked == "auto" else asked
    weight = _weight_of(urls[0], options)
    roads = _Roads(urls, PROFILES[name], name, weight, options)
    shown = "the default of `graph.profile`" if asked == "auto" else "as the workflow says"
    why = f"{WEIGHTS[weight]}, named by the workflow" if weight else "no weight, as the workflow says"
    rules = (f"profile {name}, {shown}", "one-way ways one way", "coordinates of the nodes")
    return InputEdges(
        Reading(
            format="osm",
            weight=ColumnRead(column=weight, why=why),
            ids="integer",
            ids_why="the ids of nodes of OpenStreetMap",
            rules=rules,
        ),
        weight is not None,
        roads.chunks,
        weight_unit=WEIGHTS[weight] if weight else None,
        positions_of=roads.positions_of,
        skipped=roads.skipped,
    )


def _weight_of(url: str, options: ReadOptions) -> str | None:
    """Return the weight that the workflow names; raise `InputError` if it names none of them."""
    place = f"`{files.redacted(url)}`"
    asked = options.weight_column
    if asked == "none":
        return None
    if asked == "auto":
        raise InputError(
            f"{place}: a road has two weights, its `length` in metres and its `time` in seconds",
            hint="choose one: `graph.weights.column: time`, or length, or none; "
            "`graph.weights.several` takes both",
        )
    if asked not in WEIGHTS:
        raise InputError(
            f"{place}: unknown weight `{asked}` in `graph.weights.column`",
            hint=did_you_mean(asked, list(WEIGHTS)) + "a file of OpenStreetMap gives `length` and `time`",
        )
    return asked


@dataclass(eq=False)
class _Roads:
    """The roads of some files, and the vertices when all were read."""

    urls: list[str]
    profile: Profile
    profile_name: str
    weight: str | None
    options: ReadOptions
    skipped: SkippedRows = field(default_factory=SkippedRows)
    #: The vertices, when all edges have been read.
    vertices: Nodes | None = None

    def chunks(self, n_threads: int) -> Iterator[EdgeChunk]:
        """Give all edges, as `InputEdges.chunks` does; libosmium takes its own threads."""
        del n_threads
        with ExitStack() as stack:
            osm_files = [OsmFile(url, stack.enter_context(local_file(url))) for url in self.urls]
            ways = read_ways(osm_files, self.profile)
            if not len(ways.ids):
                raise InputError(
                    f"`{files.redacted(self.urls[0])}` has no way that the profile {self.profile_name} may use",
                    hint="check that this is the file you mean; `graph.profile` chooses car, bicycle or foot",
                )
            nodes = read_nodes(osm_files, ways)
        self._leave_out_missing(ways, nodes)
        yield from _edges(ways, nodes, self.weight, max(1, self.options.block_bytes // 64))
        found = nodes.is_vertex & ~nodes.is_missing()
        self.vertices = Nodes(nodes.ids[found], nodes.lon[found], nodes.lat[found], found[found])

    def _leave_out_missing(self, ways: Ways, nodes: Nodes) -> None:
        """Refuse nodes that no file has, or end the ways before them if the workflow leaves unreadable rows out."""
        missing = nodes.is_missing()
        if not missing.any():
            return
        places = np.flatnonzero(missing[np.searchsorted(nodes.ids, ways.refs)])
        way_of = np.searchsorted(ways.offsets, places, side="right") - 1
        name = files.redacted(self.urls[0])
        texts = (
            f"`{name}`: way {ways.ids[way]} has node {ways.refs[place]}, which is not in the file"
            for place, way in zip(places, way_of, strict=True)
        )
        if not self.options.skips:
            raise InputError(
                next(texts),
                hint="cut extracts with complete ways; `graph.unreadable: skip` ends a way before such a node",
            )
        self.skipped.add(len(places), texts)
        # The nodes next to a missing one become vertices, so that the rest of the way ends there.
        for step in (-1, 1):
            beside = places + step
            is_inside = (beside >= ways.offsets[way_of]) & (beside < ways.offsets[way_of + 1])
            nodes.is_vertex[np.searchsorted(nodes.ids, ways.refs[beside[is_inside]])] = True

    def positions_of(self, ids: VertexIds) -> Coordinates:
        """Return longitudes and latitudes (V,) float64, in degrees, of the vertices `ids`."""
        assert self.vertices is not None, "all edges are read before the positions"
        wanted = np.asarray(ids.column())
        rows = np.searchsorted(self.vertices.ids, wanted)
        return self.vertices.lon[rows] / _PER_DEGREE, self.vertices.lat[rows] / _PER_DEGREE


# ---- edges ----


def _edges(ways: Ways, nodes: Nodes, weight: str | None, n_refs: int) -> Iterator[EdgeChunk]:
    """Give the edges of the ways, in chunks of whole ways with about `n_refs` nodes."""
    first = 0
    while first < len(ways.ids):
        last = int(np.searchsorted(ways.offsets, ways.offsets[first] + n_refs, side="right")) - 1
        last = min(max(last, first + 1), len(ways.ids))
        chunk = _edges_of(ways, nodes, weight, first, last)
        if len(chunk):
            yield chunk
        first = last


def _edges_of(ways: Ways, nodes: Nodes, weight: str | None, first: int, last: int) -> EdgeChunk:
    """Return the edges of the ways from `first` up to `last`."""
    offsets = ways.offsets[first : last + 1]
    rows = np.searchsorted(nodes.ids, ways.refs[offsets[0] : offsets[-1]])
    way = np.repeat(np.arange(first, last), np.diff(offsets))
    lon, lat = nodes.lon[rows] / _PER_DEGREE, nodes.lat[rows] / _PER_DEGREE
    is_there = nodes.lon[rows] != NOWHERE
    # A piece of a way begins at each vertex and ends at the next one. Positions here count the nodes of all ways.
    cuts = np.flatnonzero(nodes.is_vertex[rows] & is_there)
    starts, ends = cuts[:-1], cuts[1:]
    absent_before = np.concatenate([[0], np.cumsum(~is_there)])
    is_piece = (way[starts] == way[ends]) & (absent_before[starts] == absent_before[ends])
    steps = np.append(step_metres(lon, lat), 0)
    metres = np.add.reduceat(steps, cuts)[:-1][is_piece] if len(cuts) else np.empty(0)
    starts, ends = starts[is_piece], ends[is_piece]
    sources, targets, weights = [], [], []
    for kmh, tails, heads in ((ways.along, starts, ends), (ways.against, ends, starts)):
        speed = kmh[way[starts]]
        is_open = speed > 0
        sources.append(nodes.ids[rows[tails[is_open]]])
        targets.append(nodes.ids[rows[heads[is_open]]])
        found = metres[is_open]
        weights.append(found if weight == "length" else found / (speed[is_open] / _KMH))
    values = np.rint(np.concatenate(weights) * 1000) / 1000
    return EdgeChunk(np.concatenate(sources), np.concatenate(targets), values if weight else None)
