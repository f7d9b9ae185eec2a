"""A sample of what a run stores, for the histogram of distances and the map: the distances of a few sources."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.formats.arrow_compute import pc
from sssp_pipeline.pipeline.graph_store.loading import load_coordinates
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.results.stored import StoredResults

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
class SampledDistances:
    """Stored distances of a few sources."""

    #: The ids of the sources.
    sources: list[Any]
    #: Their distances to reached vertices, (n,) float64.
    distances: np.ndarray
    #: The distances of the first source; None without coordinates.
    placed: PlacedRow | None
    #: Why there are no distances or no map although there could be, as a sentence.
    missing: str = ""


def read_sample(results: StoredResults, record: dict[str, Any], stored: StoredGraph) -> SampledDistances:
    """Return a sample of a finished or finishing run.

    Parameters
    ----------
    results, record
        What the run stores, and the content of its run.json.
    stored
        Its graph, for the coordinates.

    Notes
    -----
    The sources are spread evenly over the files, or over the columns if each has one. What cannot be read is left
    out, and `SampledDistances.missing` says why: a run does not fail because of its report.
    """
    n_targets = record["targets"]
    n_each = record["graph"]["n_vertices"] if n_targets is None else n_targets
    if results.output.is_in_input_order:
        return _without("the run stores distances of pairs")
    if not results.output.has_files or not n_each:
        return _without("the run stores none")
    if n_each > _MOST_VALUES:
        return _without(f"a source has {n_each:,} of them")
    try:
        rows = list(_sampled_rows(results, max(1, min(MOST_SOURCES, _FEW_VALUES // n_each))))
    except InputError as error:
        return _without(f"they cannot be read: {error.message.rstrip('.')}")
    if not rows:
        return _without("the run stores none")
    unreached = results.output.form.unreached
    placed, missing = None, ""
    if results.output.has_whole_rows and stored.manifest.coordinates:
        try:
            source, column = rows[0]
            placed = _placed(source, results.vertex_at(source, "source"), column, unreached, stored)
        except InputError as error:
            missing = f"There is no map, because the coordinates cannot be read: {error.message.rstrip('.')}."
    distances = np.concatenate([_reached(row, unreached) for _, row in rows])
    return SampledDistances([source for source, _ in rows], distances, placed, missing)


def _without(reason: str) -> SampledDistances:
    return SampledDistances([], np.empty(0), None, f"There is no histogram of distances, because {reason}.")


def _sampled_rows(results: StoredResults, n_sources: int) -> Iterator[tuple[Any, pa.ChunkedArray]]:
    """Yield some sources and their distances: the first source of some files, or any if each has a column."""
    firsts = np.arange(len(results.sources))
    if not results.output.layout.has_columns:
        firsts = np.unique(results.batches, return_index=True)[1]
    spread = np.unique(np.linspace(0, len(firsts) - 1, min(len(firsts), n_sources)).astype(int))
    sources = results.sources.take(pa.array(firsts[spread]))
    table = pa.concat_tables(results.tables(sources, columns=["source", "distance"]))
    if "distance" in table.column_names:
        for source in sources:
            yield source.as_py(), table.filter(pc.equal(table["source"], source))["distance"]


def _reached(column: pa.ChunkedArray, unreached: float | None) -> np.ndarray:
    values = column.drop_null().to_numpy().astype(np.float64)
    return values if unreached is None else values[values != unreached]


def _placed(
    source: Any, vertex_id: Any, column: pa.ChunkedArray, unreached: float | None, stored: StoredGraph
) -> PlacedRow | None:
    """Return a whole row at the coordinates of some vertices, the source among them; None if it is not whole."""
    x, y = load_coordinates(stored.store, stored.manifest)
    if len(column) != len(x):
        return None
    vertex = int(stored.ids.vertices([vertex_id], "the sample: source")[0])
    step = -(-len(x) // _MOST_POINTS)
    points = np.union1d(np.arange(0, len(x), step), [vertex])
    distances = column.take(pa.array(points)).cast(pa.float64(), safe=False).to_numpy()
    if unreached is not None:
        distances = np.where(distances == unreached, np.nan, distances)
    is_there = np.isfinite(x[points]) & np.isfinite(y[points])
    points, distances = points[is_there], distances[is_there]
    place = int(np.searchsorted(points, vertex)) if vertex in points else None
    return PlacedRow(source, x[points], y[points], distances, place, step)
