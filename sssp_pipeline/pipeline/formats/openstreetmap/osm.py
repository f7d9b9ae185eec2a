"""OpenStreetMap: the roads of a PBF or XML file, as a graph whose vertices are nodes.

The file is read twice. The first time gives the ways that the profile may use (`rules.py`), and with them the
nodes that are vertices: both ends of a way, and every node that occurs again, in another way or in the same one. The
second time gives the positions of the nodes of these ways. Between two vertices that follow each other on a way there
is an edge in each open direction.

Lengths are sums of great circles from node to node, on a sphere with the Earth's mean radius. They are rounded to a
millimetre, and times to a millisecond, so `graph.weights.scale: 1000` computes with integers.

Memory holds about 50 bytes for each node of an open way, and a bitmap of at most 64 MiB or twice the size of the file.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from sssp_pipeline.errors import InputError, did_you_mean
from sssp_pipeline.pipeline.formats.edge_list import (
    Coordinates,
    EdgeChunk,
    EdgeList,
    ReadOptions,
    SkippedRows,
)
from sssp_pipeline.pipeline.formats.geometry.great_circle import step_metres
from sssp_pipeline.pipeline.formats.openstreetmap.pbf_check import check_texts
from sssp_pipeline.pipeline.formats.openstreetmap.rules import PROFILES, Profile, speeds_of
from sssp_pipeline.pipeline.formats.openstreetmap.xml_check import check_no_way_is_deleted
from sssp_pipeline.pipeline.formats.reading import ColumnRead, Reading
from sssp_pipeline.pipeline.formats.streams.local_copy import local_file
from sssp_pipeline.pipeline.formats.streams.magic import is_osm_pbf
from sssp_pipeline.pipeline.storage import files
from sssp_pipeline.vertex_ids import VertexIds

#: The weights to choose from, and their units.
WEIGHTS = {"length": "metres", "time": "seconds"}
#: The profile unless the workflow names one.
_DEFAULT_PROFILE = "car"
#: The position of a node that is not in the file, in units of 1e-7 degrees.
_NOWHERE = 2**31 - 1
#: The factor from degrees to the integers of OpenStreetMap.
_PER_DEGREE = 10**7
#: How many nodes are looked up at a time.
_NODES_AT_A_TIME = 1 << 18
#: A filter of libosmium is a bitmap in blocks of so many ids, and only blocks with an id take memory. The ids of a town
#: are in hundreds of blocks, as its nodes are of all ages. If the bitmap of a file took more than `_BITMAP_BYTES` and
#: more than twice its size, the file is read without the filter, which takes longer for each node.
_IDS_OF_A_BLOCK = 1 << 25
_BITMAP_BYTES = 64 << 20
_KMH = 3.6
#: Words in errors of libosmium about files that are not damaged, and what to do.
_OTHER_VERSIONS = {
    "required feature": "write it again with the features `OsmSchema-V0.6` and `DenseNodes` alone",
    "Can not read file with": 'write it again as version 0.6, with `<osm version="0.6">`',
}
#: The bytes at the beginning of a file that tell PBF from XML.
_HEAD_BYTES = 64


def open_osm(urls: list[str], options: ReadOptions) -> EdgeList:
    """Return the roads in the OpenStreetMap files `urls`, which are one graph.

    Raises
    ------
    InputError
        The package osmium is missing, an option does not fit the format, or no weight is named. While the edges are
        read: a file is damaged or a history of changes, it has no open way, or a way has a node that no file has.
    """
    _osmium(urls[0])
    name = _DEFAULT_PROFILE if options.profile == "auto" else options.profile
    weight = _weight_of(urls[0], options)
    roads = _Roads(urls, PROFILES[name], name, weight, options)
    shown = "the default of `graph.profile`" if options.profile == "auto" else "as the workflow says"
    why = f"{WEIGHTS[weight]}, named by the workflow" if weight else "no weight, as the workflow says"
    rules = (f"profile {name}, {shown}", "one-way ways one way", "coordinates of the nodes")
    return EdgeList(
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


def _osmium(url: str) -> ModuleType:
    try:
        import osmium
    except ImportError as error:
        raise InputError(
            f"`{files.redacted(url)}` is a file of OpenStreetMap, and reading it needs a package that is missing: "
            f"{error}",
            hint="pip install 'sssp-pipeline[osm]'",
        ) from error
    return osmium


def _weight_of(url: str, options: ReadOptions) -> str | None:
    """Return the weight that the workflow names; raise `InputError` for it, or for options that cannot be used."""
    place = f"`{files.redacted(url)}`"
    for end, column in (("source", options.source_column), ("target", options.target_column)):
        if column != "auto":
            raise InputError(
                f"unknown column `{column}`: files of OpenStreetMap have no columns",
                hint=f"remove `graph.columns.{end}`",
            )
    if options.ids == "string":
        raise InputError("files of OpenStreetMap have integer ids, not strings", hint="remove `graph.ids`")
    if key := options.first_set("encoding", "delimiter", "header", "decimal"):
        raise InputError(
            f"`graph.{key}` is set, but files of OpenStreetMap have no text of that kind",
            hint=f"remove `graph.{key}`",
        )
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


@dataclass(frozen=True, eq=False)
class _Ways:
    """The open ways of all files, in host memory."""

    #: (W,) int64.
    ids: np.ndarray
    #: (W,) float64 each, km/h; 0 where that direction is closed.
    along: np.ndarray
    against: np.ndarray
    #: (W+1,) int64: way `i` has the nodes `refs[offsets[i] : offsets[i + 1]]`, at least two.
    offsets: np.ndarray
    #: (R,) int64, ids of nodes.
    refs: np.ndarray


@dataclass(frozen=True, eq=False)
class _Nodes:
    """The nodes of the open ways, in ascending order of their ids."""

    #: (N,) int64.
    ids: np.ndarray
    #: (N,) int32 each, 1e-7 degrees; `_NOWHERE` for a node that no file has.
    lon: np.ndarray
    lat: np.ndarray
    #: (N,) bool.
    is_vertex: np.ndarray

    def is_missing(self) -> np.ndarray:
        """Return (N,) whether no file has the node."""
        return np.asarray(self.lon == _NOWHERE)


@dataclass(eq=False)
class _Roads:
    """The roads of some files, and what is kept while they are read."""

    urls: list[str]
    profile: Profile
    profile_name: str
    weight: str | None
    options: ReadOptions
    skipped: SkippedRows = field(default_factory=SkippedRows)
    #: The vertices, when all edges have been read.
    vertices: _Nodes | None = None

    def chunks(self, n_threads: int) -> Iterator[EdgeChunk]:
        """Give all edges, as `EdgeList.chunks` does; libosmium takes its own threads."""
        del n_threads
        with ExitStack() as stack:
            sources = [_Source(url, stack.enter_context(local_file(url))) for url in self.urls]
            ways = _read_ways(sources, self.profile)
            if not len(ways.ids):
                raise InputError(
                    f"`{files.redacted(self.urls[0])}` has no way that the profile {self.profile_name} may use",
                    hint="check that this is the file you mean; `graph.profile` chooses car, bicycle or foot",
                )
            nodes = _read_nodes(sources, _nodes_of(ways))
        self._leave_out_missing(ways, nodes)
        yield from _edges(ways, nodes, self.weight, max(1, self.options.block_bytes // 64))
        found = nodes.is_vertex & ~nodes.is_missing()
        self.vertices = _Nodes(nodes.ids[found], nodes.lon[found], nodes.lat[found], found[found])

    def _leave_out_missing(self, ways: _Ways, nodes: _Nodes) -> None:
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
        # The nodes beside a missing one become vertices, so that the rest of the way ends there.
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


# ---- the two passes over the file ----


@dataclass(frozen=True)
class _Source:
    """A file, and the local file with its content."""

    url: str
    path: str

    def is_pbf(self) -> bool:
        with Path(self.path).open("rb") as stream:
            return is_osm_pbf(stream.read(_HEAD_BYTES))

    @contextmanager
    def objects(self, kind: Any, only: Any) -> Iterator[Any]:
        """Give an iterator over the objects of one kind that pass the filter `only`."""
        osmium = _osmium(self.url)
        try:
            file = osmium.io.File(self.path, "pbf" if self.is_pbf() else "osm")
            found = osmium.FileProcessor(file, kind)
            if found.header.has_multiple_object_versions:
                raise InputError(
                    f"`{files.redacted(self.url)}` is a history with several versions of each object",
                    hint="extract one day of it with `osmium time-filter`",
                )
            yield found.with_filter(only)
        except (RuntimeError, ValueError, osmium.InvalidLocationError) as error:
            for what, hint in _OTHER_VERSIONS.items():
                if what in str(error):
                    raise InputError(
                        f"`{files.redacted(self.url)}` is in a version that libosmium does not read: {error}",
                        hint=hint,
                    ) from error
            raise InputError(
                f"`{files.redacted(self.url)}` is cut short or damaged: {error}", hint="fetch it again"
            ) from error


def _read_ways(sources: list[_Source], profile: Profile) -> _Ways:
    """Return the ways that the profile may use, each once."""
    osmium = _osmium(sources[0].url)
    refs, ids, lengths = array("q"), array("q"), array("q")
    along, against = array("d"), array("d")
    for source in sources:
        check = check_texts if source.is_pbf() else check_no_way_is_deleted
        check(source.url, source.path)
        n_before = len(ids)
        with source.objects(osmium.osm.WAY, osmium.filter.KeyFilter("highway")) as ways:
            for way in ways:
                speeds = speeds_of(way.tags.get, profile)
                if speeds is None or len(way.nodes) < 2:
                    continue
                if way.deleted:
                    raise _several_versions(source.url, f"way {way.id}, which is deleted")
                ids.append(way.id)
                along.append(speeds.along)
                against.append(speeds.against)
                lengths.append(len(way.nodes))
                refs.extend([node.ref for node in way.nodes])
        _check_ids_of_ways(source.url, np.array(ids[n_before:], np.int64))
    found = np.frombuffer(refs, np.int64)
    if len(found) and (lowest := int(np.min(found))) < 0:
        raise _negative_id(sources[0].url, f"node {lowest}")
    counts = np.array(lengths)
    every = _Ways(np.array(ids), np.array(along), np.array(against), _offsets(counts), found)
    is_first = np.zeros(len(ids), bool)
    is_first[np.unique(every.ids, return_index=True)[1]] = True
    if is_first.all():
        return every
    # Two extracts that touch both have a way.
    rows = np.flatnonzero(is_first)
    kept = found[np.repeat(is_first, counts)]
    return _Ways(every.ids[rows], every.along[rows], every.against[rows], _offsets(counts[rows]), kept)


def _offsets(counts: np.ndarray) -> np.ndarray:
    """Return where each of some runs begins, and at the end where the last one ends."""
    return np.concatenate([[0], np.cumsum(counts)])


def _check_ids_of_ways(url: str, ids: np.ndarray) -> None:
    """Raise `InputError` if an id is negative, or occurs twice in one file."""
    unique, counts = np.unique(ids, return_counts=True)
    if len(unique) and unique[0] < 0:
        raise _negative_id(url, f"way {unique[0]}")
    if len(again := unique[counts > 1]):
        raise _several_versions(url, f"way {again[0]} twice")


def _several_versions(url: str, what: str) -> InputError:
    return InputError(
        f"`{files.redacted(url)}` has {what}",
        hint="a history has several versions of each object: extract one day of it with `osmium time-filter`",
    )


def _negative_id(url: str, what: str) -> InputError:
    return InputError(
        f"`{files.redacted(url)}` has {what}, and ids are from 0",
        hint="editors give such ids to objects that are not uploaded: renumber them with `osmium renumber`",
    )


def _nodes_of(ways: _Ways) -> _Nodes:
    """Return the nodes of the ways, without positions."""
    refs = np.sort(ways.refs)
    starts = np.flatnonzero(np.concatenate([[True], refs[1:] != refs[:-1]]))
    ids = refs[starts]
    is_vertex = np.diff(starts, append=len(refs)) > 1
    for ends in (ways.offsets[:-1], ways.offsets[1:] - 1):
        is_vertex[np.searchsorted(ids, ways.refs[ends])] = True
    lon, lat = (np.full(len(ids), _NOWHERE, np.int32) for _ in range(2))
    return _Nodes(ids, lon, lat, is_vertex)


def _read_nodes(sources: list[_Source], nodes: _Nodes) -> _Nodes:
    """Fill in the positions of `nodes`, and return them."""
    osmium = _osmium(sources[0].url)

    def place(ids: array, lon: array, lat: array) -> None:
        """Note the positions of some nodes of `source`."""
        given = np.frombuffer(ids, np.int64)
        rows = np.minimum(np.searchsorted(nodes.ids, given), len(nodes.ids) - 1)
        is_wanted = nodes.ids[rows] == given
        rows = rows[is_wanted]
        in_order = np.sort(rows)
        again = np.concatenate([rows[is_placed[rows]], in_order[1:][in_order[1:] == in_order[:-1]]])
        if len(again):
            raise _several_versions(source.url, f"node {nodes.ids[again[0]]} twice")
        is_placed[rows] = True
        nodes.lon[rows] = np.frombuffer(lon, np.int32)[is_wanted]
        nodes.lat[rows] = np.frombuffer(lat, np.int32)[is_wanted]

    for source in sources:
        ids, lon, lat = array("q"), array("i"), array("i")
        is_placed = np.zeros(len(nodes.ids), bool)
        with source.objects(osmium.osm.NODE, _filter_of(osmium, nodes.ids, source)) as found:
            for node in found:
                location = node.location
                is_valid = location.valid()
                ids.append(node.id)
                lon.append(location.x if is_valid else _NOWHERE)
                lat.append(location.y if is_valid else _NOWHERE)
                if len(ids) == _NODES_AT_A_TIME:
                    place(ids, lon, lat)
                    ids, lon, lat = array("q"), array("i"), array("i")
        if ids:
            place(ids, lon, lat)
    return nodes


def _filter_of(osmium: ModuleType, ids: np.ndarray, source: _Source) -> Any:
    """Return a filter of libosmium for the nodes `ids`, or for no nodes if their bitmap would be large for the file."""
    blocks = np.unique(ids // _IDS_OF_A_BLOCK)
    # Each block up to the last one takes a pointer, also one without an id.
    bitmap_bytes = len(blocks) * _IDS_OF_A_BLOCK // 8 + int(blocks[-1] + 1) * 8
    if bitmap_bytes > max(_BITMAP_BYTES, 2 * Path(source.path).stat().st_size):
        return osmium.filter.EntityFilter(osmium.osm.NODE)
    return osmium.filter.IdFilter(
        i
        for start in range(0, len(ids), _NODES_AT_A_TIME)
        for i in ids[start : start + _NODES_AT_A_TIME].tolist()
    )


# ---- edges ----


def _edges(ways: _Ways, nodes: _Nodes, weight: str | None, n_refs: int) -> Iterator[EdgeChunk]:
    """Give the edges of the ways, in chunks of whole ways with about `n_refs` nodes."""
    first = 0
    while first < len(ways.ids):
        last = int(np.searchsorted(ways.offsets, ways.offsets[first] + n_refs, side="right")) - 1
        last = min(max(last, first + 1), len(ways.ids))
        chunk = _edges_of(ways, nodes, weight, first, last)
        if len(chunk):
            yield chunk
        first = last


def _edges_of(ways: _Ways, nodes: _Nodes, weight: str | None, first: int, last: int) -> EdgeChunk:
    """Return the edges of the ways from `first` up to `last`."""
    offsets = ways.offsets[first : last + 1]
    rows = np.searchsorted(nodes.ids, ways.refs[offsets[0] : offsets[-1]])
    way = np.repeat(np.arange(first, last), np.diff(offsets))
    lon, lat = nodes.lon[rows] / _PER_DEGREE, nodes.lat[rows] / _PER_DEGREE
    is_there = nodes.lon[rows] != _NOWHERE
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
