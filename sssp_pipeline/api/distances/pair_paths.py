"""Shortest paths of many pairs of a run: one search for each source, and rows in the order of the pairs.

The pairs are in memory, with two numbers for each. Paths wait in a temporary file, since a search finds those of one
source, which may be anywhere in the order.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sssp_pipeline.api.distances.paths import drawn
from sssp_pipeline.api.graphs.graphs import graph_of
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.progress import Progress, Quiet
from sssp_pipeline.kernels.contract.solver import Solution, SolveOptions
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.kernels.host.path_walks import paths_to
from sssp_pipeline.pipeline.formats.columns.column_names import PAIRS
from sssp_pipeline.pipeline.formats.vertex_files.pair_lists import PairReading, typed_pairs
from sssp_pipeline.pipeline.graph_store.coordinates import LonLat
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.graph_store.units import distances_in_input_unit, scaled_limit
from sssp_pipeline.pipeline.results.exports.areas.geojson import feature, write_features
from sssp_pipeline.pipeline.results.exports.file_format import FileFormat, format_of
from sssp_pipeline.pipeline.results.exports.tables import TABLE_FORMATS
from sssp_pipeline.storage import files

GEOJSON = FileFormat((".geojson",), write_features)
#: Vertices of paths that are held at once when rows are made, and pairs.
_BLOCK_VERTICES, _BLOCK_PAIRS = 2**20, 2**16
#: Bytes of paths that stay in memory before they go to a file.
_MEMORY_BYTES = 2**26

#: Gets a vertex, the written distances from it to all vertices, and their predecessors (V,). Threads may call it.
Take = Callable[[int, np.ndarray, np.ndarray], None]


class PairPaths:
    """The paths of some pairs.

    Parameters
    ----------
    ids
        (n,) the ids of the sources and of the targets, as they were given.
    vertices
        (n,) the vertices of the sources and of the targets.
    names
        (V,) the ids of all vertices.
    dtype
        The type of written distances.
    search
        Gives the distances and predecessors of each of some different vertices to a `Take`.
    positions
        Returns the longitudes and latitudes of all vertices, in the unit of coordinates that it gets.
    """

    def __init__(
        self,
        ids: tuple[pa.Array, pa.Array],
        vertices: tuple[np.ndarray, np.ndarray],
        names: pa.Array,
        dtype: np.dtype,
        search: Callable[[np.ndarray, Take], None],
        positions: Callable[[str], LonLat],
    ) -> None:
        self._ids, self._vertices, self._names, self._search = ids, vertices, names, search
        self._positions = positions
        self._lengths = np.zeros(len(ids[0]), dtype)
        #: How many vertices each path has, and where it begins among all that were found.
        self._counts, self._starts = np.zeros(len(ids[0]), np.int64), np.zeros(len(ids[0]), np.int64)

    @property
    def schema(self) -> pa.Schema:
        """The columns `source`, `target`, `distance` and `path`."""
        source, target = self._ids
        kinds = source.type, target.type, pa.from_numpy_dtype(self._lengths.dtype), pa.list_(self._names.type)
        return pa.schema(list(zip(("source", "target", "distance", "path"), kinds, strict=True)))

    def table(self) -> pa.Table:
        """Return a row for each pair."""
        return pa.concat_tables([self.schema.empty_table(), *self._tables(Quiet())])

    def write(self, url: str, progress: Progress, coordinates: str = "auto") -> None:
        """Write a row or a Feature for each pair to the file `url`, and report how many pairs have no path.

        Raises
        ------
        InputError
            `url` exists or its name has another end than `TABLE_FORMATS` and `GEOJSON`; it is CSV and an id has a
            space; or it is GeoJSON and the graph has no coordinates.
        """
        chosen = format_of(url, (*TABLE_FORMATS, GEOJSON))
        if chosen is GEOJSON:
            positions = self._positions(coordinates)
            if coordinates == "auto":
                progress.say(f"coordinates read as longitude and latitude in {positions.unit}")
            chosen.write(url, self._features(positions, progress))
        else:
            if ".csv" in chosen.suffixes:
                self._check_spaces(url)
            chosen.write(url, self._tables(progress), self.schema)
        if n_without := int(np.count_nonzero(self._counts == 0)):
            progress.say(
                f"pairs without a path: {n_without:,} of {len(self._counts):,}", pairs_without_path=n_without
            )

    def _check_spaces(self, url: str) -> None:
        if pa.types.is_integer(self._names.type):
            return
        has_space = pc.match_substring(self._names, " ")
        if (place := has_space.index(True).as_py()) >= 0:
            raise InputError(
                f"the id `{self._names[place]}` has a space, which separates the ids of a path in "
                f"`{files.redacted(url)}`",
                hint="write a `.parquet` file",
            )

    def _tables(self, progress: Progress) -> Iterator[pa.Table]:
        for some, offsets, vertices in self._blocks(progress):
            missing = self._counts[some] == 0
            paths = pa.ListArray.from_arrays(
                pa.array(offsets, pa.int32()), self._names.take(pa.array(vertices)), mask=pa.array(missing)
            )
            distances = pa.array(self._lengths[some], mask=missing)
            yield pa.table([*(ids[some] for ids in self._ids), distances, paths], schema=self.schema)

    def _features(self, positions: LonLat, progress: Progress) -> Iterator[str]:
        """Yield a Feature for each pair, without a geometry if there is no path."""
        for some, offsets, vertices in self._blocks(progress):
            line = np.column_stack([positions.lon[vertices], positions.lat[vertices]]).tolist()
            path = self._names.take(pa.array(vertices)).to_pylist()
            ends = (ids[some].to_pylist() for ids in self._ids)
            lengths = self._lengths[some].tolist()
            for source, target, length, a, b in zip(*ends, lengths, offsets, offsets[1:], strict=False):
                geometry = json.dumps(drawn(line[a:b]) if a < b else None)
                properties = {"source": source, "target": target, "distance": length if a < b else None}
                yield feature(geometry, {**properties, "path": path[a:b]})

    def _blocks(self, progress: Progress) -> Iterator[tuple[slice, list[int], np.ndarray]]:
        """Search all sources. Then yield some pairs, where the paths of each begin, and the vertices of all."""
        with tempfile.SpooledTemporaryFile(_MEMORY_BYTES) as found:
            self._find(found, progress)
            first, n_pairs = 0, len(self._counts)
            ends = np.cumsum(self._counts)
            while first < n_pairs:
                before = ends[first - 1] if first else 0
                end = int(np.searchsorted(ends, before + _BLOCK_VERTICES, side="right"))
                some = slice(first, min(max(end, first + 1), first + _BLOCK_PAIRS))
                parts = []
                with files.reading(tempfile.gettempdir()):
                    for start, count in zip(self._starts[some], self._counts[some], strict=True):
                        found.seek(4 * start)
                        parts.append(found.read(4 * count))
                offsets = [0, *np.cumsum(self._counts[some]).tolist()]
                yield some, offsets, np.frombuffer(b"".join(parts), np.uint32)
                first = some.stop

    def _find(self, found: Any, progress: Progress) -> None:
        """Search each source once, and write the vertices of its paths to the file `found`."""
        sources, targets = self._vertices
        order = np.argsort(sources, kind="stable")
        different, firsts = np.unique(sources[order], return_index=True)
        groups = np.split(order, firsts)[1:]  # the first one is empty
        pairs_of = dict(zip(different.tolist(), groups, strict=True))
        lock, n_written, done = threading.Lock(), 0, 0

        def take(source: int, distances: np.ndarray, predecessors: np.ndarray) -> None:
            nonlocal n_written, done
            pairs = pairs_of[source]
            counts, vertices = paths_to(predecessors, source, targets[pairs])
            self._counts[pairs], self._lengths[pairs] = counts, distances[targets[pairs]]
            with lock:
                self._starts[pairs] = n_written + np.cumsum(counts) - counts
                with files.writing(tempfile.gettempdir()):
                    found.write(vertices.tobytes())
                n_written, done = n_written + len(vertices), done + 1
                progress.advance(done, len(different), "sources")

        self._search(different.astype(np.uint32), take)


def search_graph(stored: StoredGraph, cutoff: float | None, starts: np.ndarray, take: Take) -> None:
    """Search a graph from the vertices `starts` on all cores or on the GPU. `cutoff` is in the unit of the input."""
    named = graph_of(stored)

    def take_part(first: int, part: Solution) -> None:
        rows, before = part.distances, part.predecessors
        assert before is not None, "they are wanted"
        if named.scale is not None:
            rows = distances_in_input_unit(rows, named.scale)
        some = starts[first : first + len(rows)].tolist()
        for start, distances, predecessors in zip(some, rows, before, strict=True):
            take(start, distances, predecessors)

    limit = scaled_limit(cutoff, named.scale)
    named.solve(starts, SolveOptions(cutoff=limit, predecessors=True, metrics=False), "auto", take_part)


def ends_in_run(
    pairs: Any, types: tuple[pa.DataType, pa.DataType], typed: Callable[[Any, pa.DataType], pa.Array]
) -> tuple[tuple[pa.Array, pa.Array], PairReading | None]:
    """Return the ids of the sources and of the targets of pairs, (n,) each, and the file that they are from, if any.

    Parameters
    ----------
    pairs
        As for `ends_of`, or a file: its path or URL, or how it is read.
    types
        The types of the ids.
    typed
        Returns ids that are no file as ids of a type.

    Raises
    ------
    InputError
        As `typed_pairs` for a file; else as `ends_of` and `typed`.
    """
    if isinstance(pairs, str | os.PathLike):
        pairs = PairReading(os.fspath(pairs), "string")
    if isinstance(pairs, PairReading):
        return typed_pairs(pairs, types, usable_cores()), pairs
    sources, targets = (typed(ids, kind) for ids, kind in zip(ends_of(pairs), types, strict=True))
    return (sources, targets), None


def ends_of(pairs: Any) -> tuple[Any, Any]:
    """Return the sources and the targets of pairs that a caller gave.

    Parameters
    ----------
    pairs
        A table with the columns `source` and `target`, `from` and `to`, or the like; or a sequence of (source, target).

    Raises
    ------
    InputError
        It is neither.
    """
    if hasattr(pairs, "__arrow_c_stream__"):
        source, target = table_columns(pa.table(pairs))
        return source.to_pylist(), target.to_pylist()
    if not isinstance(pairs, Iterable) or isinstance(pairs, Mapping):
        raise InputError(
            f"`pairs` is of type {type(pairs).__name__}",
            hint="give a table with the columns `source` and `target`, or a sequence of (source, target)",
        )
    rows: Sequence[Any] = pairs.tolist() if hasattr(pairs, "tolist") else list(pairs)
    for row in rows:
        if isinstance(row, str) or not hasattr(row, "__len__") or len(row) != 2:
            raise InputError(f"`{row}` is no pair", hint="give pairs as (source, target)")
    return [row[0] for row in rows], [row[1] for row in rows]


def table_columns(table: pa.Table) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Return the columns of a table of pairs that are source and target; raise `InputError` if it lacks them."""
    names = [name.casefold() for name in table.column_names]
    found = [(i, j) for i, j in permutations(range(len(names)), 2) if (names[i], names[j]) in PAIRS]
    if len(found) == 1:
        return table.column(found[0][0]), table.column(found[0][1])
    raise InputError(
        f"the table of pairs has the columns {', '.join(table.column_names)}",
        hint="it needs the columns `source` and `target`",
    )
