"""Ways and nodes: what the two passes over a file of OpenStreetMap keep of it.

The first pass gives the ways that are open for a profile, the second one the positions of their nodes. libosmium reads
the files, after a check for what it would pass over.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.lazy import optional_package
from sssp_pipeline.pipeline.formats.openstreetmap.pbf_check import check_texts
from sssp_pipeline.pipeline.formats.openstreetmap.rules import Profile, speeds_of
from sssp_pipeline.pipeline.formats.openstreetmap.xml_check import check_no_way_is_deleted
from sssp_pipeline.pipeline.formats.streams.magic import is_osm_pbf
from sssp_pipeline.storage import files

#: The position of a node that is not in the file, in units of 1e-7 degrees.
NOWHERE = 2**31 - 1
#: How many nodes are looked up at a time.
_NODES_AT_A_TIME = 1 << 18
#: The ids of a block in the bitmap of a libosmium filter. Only blocks with an id take memory. The ids of a town are in
#: hundreds of blocks, as its nodes are of all ages. If the bitmap of a file took more than `_BITMAP_BYTES` and
#: more than twice its size, the file is read without the filter, which takes longer for each node.
_IDS_OF_A_BLOCK = 1 << 25
_BITMAP_BYTES = 64 << 20
#: Words in errors of libosmium about files that are not damaged, and what to do.
_OTHER_VERSIONS = {
    "required feature": "write it again with the features `OsmSchema-V0.6` and `DenseNodes` alone",
    "Can not read file with": 'write it again as version 0.6, with `<osm version="0.6">`',
}
#: The bytes at the beginning of a file that tell PBF from XML.
_HEAD_BYTES = 64


def load_osmium(url: str) -> ModuleType:
    """Return the package osmium; raise `InputError` if it is missing, which the file `url` needs."""
    needed_by = f"`{files.redacted(url)}` is a file of OpenStreetMap, and reading it needs"
    return optional_package("osmium", needed_by, "osm")


@dataclass(frozen=True, eq=False)
class Ways:
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
class Nodes:
    """The nodes of the open ways, in ascending order of their ids."""

    #: (N,) int64.
    ids: np.ndarray
    #: (N,) int32 each, 1e-7 degrees; `NOWHERE` for a node that no file has.
    lon: np.ndarray
    lat: np.ndarray
    #: (N,) bool.
    is_vertex: np.ndarray

    def is_missing(self) -> np.ndarray:
        """Return (N,) whether no file has the node."""
        return np.asarray(self.lon == NOWHERE)


@dataclass(frozen=True)
class OsmFile:
    """A file, and the local file with its content."""

    url: str
    path: str

    def is_pbf(self) -> bool:
        """Return whether the content is PBF; it is XML otherwise."""
        with Path(self.path).open("rb") as stream:
            return is_osm_pbf(stream.read(_HEAD_BYTES))

    @contextmanager
    def objects(self, kind: Any, only: Any) -> Iterator[Any]:
        """Give an iterator over the objects of one kind that pass the filter `only`."""
        osmium = load_osmium(self.url)
        try:
            file = osmium.io.File(self.path, "pbf" if self.is_pbf() else "osm")
            found = osmium.FileProcessor(file, kind)
            if found.header.has_multiple_object_versions:
                raise InputError(
                    f"`{files.redacted(self.url)}` is a history with several versions of each object",
                    hint="extract one day of it with `osmium time-filter`",
                )
            yield found.with_filter(only)
        except InputError:
            raise
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


def read_ways(osm_files: list[OsmFile], profile: Profile) -> Ways:
    """Return the ways that the profile may use, each once.

    Raises
    ------
    InputError
        A file is cut short, damaged or a history, has a way twice or one that an editor has deleted, or has a negative
        id.
    """
    osmium = load_osmium(osm_files[0].url)
    refs, ids, lengths = array("q"), array("q"), array("q")
    along, against = array("d"), array("d")
    for osm_file in osm_files:
        check = check_texts if osm_file.is_pbf() else check_no_way_is_deleted
        check(osm_file.url, osm_file.path)
        n_before = len(ids)
        with osm_file.objects(osmium.osm.WAY, osmium.filter.KeyFilter("highway")) as ways:
            for way in ways:
                speeds = speeds_of(way.tags.get, profile)
                if speeds is None or len(way.nodes) < 2:
                    continue
                if way.deleted:
                    raise _several_versions(osm_file.url, f"way {way.id}, which is deleted")
                ids.append(way.id)
                along.append(speeds.along)
                against.append(speeds.against)
                lengths.append(len(way.nodes))
                refs.extend([node.ref for node in way.nodes])
        _check_ids_of_ways(osm_file.url, np.array(ids[n_before:], np.int64))
    found = np.frombuffer(refs, np.int64)
    if len(found) and (lowest := int(np.min(found))) < 0:
        raise _negative_id(osm_files[0].url, f"node {lowest}")
    counts = np.array(lengths)
    every = Ways(np.array(ids), np.array(along), np.array(against), _offsets(counts), found)
    is_first = np.zeros(len(ids), bool)
    is_first[np.unique(every.ids, return_index=True)[1]] = True
    if is_first.all():
        return every
    # Two extracts that touch both have a way.
    rows = np.flatnonzero(is_first)
    kept = found[np.repeat(is_first, counts)]
    return Ways(every.ids[rows], every.along[rows], every.against[rows], _offsets(counts[rows]), kept)


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


def _nodes_of(ways: Ways) -> Nodes:
    """Return the nodes of the ways, without positions."""
    refs = np.sort(ways.refs)
    starts = np.flatnonzero(np.concatenate([[True], refs[1:] != refs[:-1]]))
    ids = refs[starts]
    is_vertex = np.diff(starts, append=len(refs)) > 1
    for ends in (ways.offsets[:-1], ways.offsets[1:] - 1):
        is_vertex[np.searchsorted(ids, ways.refs[ends])] = True
    lon, lat = (np.full(len(ids), NOWHERE, np.int32) for _ in range(2))
    return Nodes(ids, lon, lat, is_vertex)


def read_nodes(osm_files: list[OsmFile], ways: Ways) -> Nodes:
    """Return the nodes of the ways, with their positions.

    Raises
    ------
    InputError
        A file is cut short, damaged or a history, or has a node twice.
    """
    nodes = _nodes_of(ways)
    osmium = load_osmium(osm_files[0].url)

    def place(ids: array, lon: array, lat: array) -> None:
        """Note the positions of some nodes of `osm_file`."""
        given = np.frombuffer(ids, np.int64)
        rows = np.minimum(np.searchsorted(nodes.ids, given), len(nodes.ids) - 1)
        is_wanted = nodes.ids[rows] == given
        rows = rows[is_wanted]
        in_order = np.sort(rows)
        again = np.concatenate([rows[is_placed[rows]], in_order[1:][in_order[1:] == in_order[:-1]]])
        if len(again):
            raise _several_versions(osm_file.url, f"node {nodes.ids[again[0]]} twice")
        is_placed[rows] = True
        nodes.lon[rows] = np.frombuffer(lon, np.int32)[is_wanted]
        nodes.lat[rows] = np.frombuffer(lat, np.int32)[is_wanted]

    for osm_file in osm_files:
        ids, lon, lat = array("q"), array("i"), array("i")
        is_placed = np.zeros(len(nodes.ids), bool)
        with osm_file.objects(osmium.osm.NODE, _filter_of(osmium, nodes.ids, osm_file)) as found:
            for node in found:
                location = node.location
                is_valid = location.valid()
                ids.append(node.id)
                lon.append(location.x if is_valid else NOWHERE)
                lat.append(location.y if is_valid else NOWHERE)
                if len(ids) == _NODES_AT_A_TIME:
                    place(ids, lon, lat)
                    ids, lon, lat = array("q"), array("i"), array("i")
        if ids:
            place(ids, lon, lat)
    return nodes


def _filter_of(osmium: ModuleType, ids: np.ndarray, osm_file: OsmFile) -> Any:
    """Return a filter of libosmium for the nodes `ids`, or for no nodes if their bitmap would be large for the file."""
    blocks = np.unique(ids // _IDS_OF_A_BLOCK)
    # Each block up to the last one takes a pointer, also one without an id.
    bitmap_bytes = len(blocks) * _IDS_OF_A_BLOCK // 8 + int(blocks[-1] + 1) * 8
    if bitmap_bytes > max(_BITMAP_BYTES, 2 * Path(osm_file.path).stat().st_size):
        return osmium.filter.EntityFilter(osmium.osm.NODE)
    return osmium.filter.IdFilter(
        i
        for start in range(0, len(ids), _NODES_AT_A_TIME)
        for i in ids[start : start + _NODES_AT_A_TIME].tolist()
    )
