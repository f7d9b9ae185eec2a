"""A sample of what a run stores, for the histogram of distances and the map: the distances of a few sources."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.graph_store.loading import load_coordinates
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.results.damage import recorded_sums
from sssp_pipeline.pipeline.results.distance_files import opened
from sssp_pipeline.pipeline.results.outputs import recorded_output
from sssp_pipeline.storage import files
from sssp_pipeline.storage.file_sums import StoredFile

#: The most sources of a sample.
MOST_SOURCES = 8
#: Distances to which a sample of several sources is limited, and the most of a single source.
_FEW_VALUES, _MOST_VALUES = 2**23, 2**25
#: The most points of a map.
_MOST_POINTS = 20_000


@dataclass(frozen=True, eq=False)
class PlacedRow:
    """The distances from a source to some vertices, which have coordinates."""

    source: Any
    #: Coordinates (n,) as the input has them.
    x: np.ndarray
    y: np.ndarray
    #: Distances (n,) float64, NaN for unreached vertices.
    distances: np.ndarray
    #: Which of the points is the source; None if the source has no coordinates.
    source_point: int | None
    #: Every how many vertices there is a point, without the source.
    step: int


@dataclass(frozen=True, eq=False)
class Sample:
    """Stored distances of a few sources."""

    #: The ids of the sources.
    sources: list[Any]
    #: Their distances to reached vertices, (n,) float64.
    distances: np.ndarray
    #: The distances of the first source; None without coordinates.
    placed: PlacedRow | None
    #: Why there are no distances or no map although there could be, as a sentence.
    missing: str = ""


def read_sample(url: str, record: dict[str, Any], stored: StoredGraph) -> Sample:
    """Return a sample of the finished or finishing run in the folder `url`.

    Parameters
    ----------
    record
        The content of its run.json.
    stored
        Its graph, for the coordinates.

    Notes
    -----
    The sources are spread evenly over the files, or in the wide layout over the columns. What cannot be read is left
    out, and `Sample.missing` says why: a run does not fail because of its report.
    """
    stored_files = [
        StoredFile(files.join(url, name), of_file)
        for name, of_file in recorded_sums(record).items()
        if name.startswith("distances/")
    ]
    n_targets = record["targets"]
    n_each = record["graph"]["n_vertices"] if n_targets is None else n_targets
    if not stored_files or not n_each:
        return _without("the run stores none")
    if n_each > _MOST_VALUES:
        return _without(f"a source has {n_each:,} of them")
    n_sources = max(1, min(MOST_SOURCES, _FEW_VALUES // n_each))
    try:
        read = _wide if record["identity"].get("layout") == "wide" else _long
        rows = list(read(stored_files, n_sources))
    except InputError as error:
        return _without(f"they cannot be read: {error.message.rstrip('.')}")
    if not rows:
        return _without("the run stores none")
    unreached = record["identity"].get("unreached")
    placed, missing = None, ""
    if recorded_output(record).has_whole_rows and stored.manifest.coordinates:
        try:
            placed = _placed(*rows[0], unreached, stored)
        except InputError as error:
            missing = f"There is no map, because the coordinates cannot be read: {error.message.rstrip('.')}."
    distances = np.concatenate([_reached(row, unreached) for _, row in rows])
    return Sample([source for source, _ in rows], distances, placed, missing)


def _without(reason: str) -> Sample:
    return Sample([], np.empty(0), None, f"There is no histogram of distances, because {reason}.")


def _spread(n: int, most: int) -> list[int]:
    """Return at most `most` of the numbers below `n`, evenly spread, the first one included."""
    return sorted(set(np.linspace(0, n - 1, min(n, most)).astype(int).tolist()))


def _long(stored: list[StoredFile], n_sources: int) -> Iterator[tuple[Any, pa.ChunkedArray]]:
    """Yield the first source of some files, and its distances."""
    for number in _spread(len(stored), n_sources):
        with opened(stored[number]) as file:
            if "distance" not in file.schema_arrow.names:
                return
            source, parts = None, []
            for group in range(file.num_row_groups):
                table = file.read_row_group(group, columns=["source", "distance"])
                if table.num_rows and source is None:
                    source = table["source"][0]
                is_first = pc.equal(table["source"], source)
                parts += table["distance"].filter(is_first).chunks
                if not table.num_rows or not is_first[-1].as_py():
                    break
            if source is not None:
                yield source.as_py(), pa.chunked_array(parts)


def _wide(stored: list[StoredFile], n_sources: int) -> Iterator[tuple[Any, pa.ChunkedArray]]:
    """Yield some sources of files that hold all sources, and their distances."""
    with opened(stored[0]) as file:
        names = file.schema_arrow.names[1:]
    names = [names[number] for number in _spread(len(names), n_sources)]
    parts = []
    for each in stored:
        with opened(each) as file:
            parts.append(file.read(columns=names))
    table = pa.concat_tables(parts)
    yield from zip(table.column_names, table.columns, strict=True)


def _reached(column: pa.ChunkedArray, unreached: float | None) -> np.ndarray:
    values = column.drop_null().to_numpy().astype(np.float64)
    return values if unreached is None else values[values != unreached]


def _placed(
    source: Any, column: pa.ChunkedArray, unreached: float | None, stored: StoredGraph
) -> PlacedRow | None:
    """Return a whole row at the coordinates of some vertices, the source among them; None if it is not whole."""
    x, y = load_coordinates(stored.store, stored.manifest)
    if len(column) != len(x):
        return None
    vertex = int(stored.ids.vertices([source], "the sample: source")[0])
    step = -(-len(x) // _MOST_POINTS)
    points = np.union1d(np.arange(0, len(x), step), [vertex])
    distances = column.take(pa.array(points)).cast(pa.float64(), safe=False).to_numpy()
    if unreached is not None:
        distances = np.where(distances == unreached, np.nan, distances)
    is_there = np.isfinite(x[points]) & np.isfinite(y[points])
    points, distances = points[is_there], distances[is_there]
    place = int(np.searchsorted(points, vertex)) if vertex in points else None
    return PlacedRow(source, x[points], y[points], distances, place, step)
