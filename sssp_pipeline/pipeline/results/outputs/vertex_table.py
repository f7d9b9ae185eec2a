"""`vertices.parquet`: numbers of each vertex over all sources, merged from the parts of its batches.

A part has the words of `kernels/contract/over_sources.py`, so the order of merging changes nothing. Memory holds the
words of all vertices and the words of one part.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.csr import NO_VERTEX, GraphTraits
from sssp_pipeline.base.errors import InputError, UnsolvableError
from sssp_pipeline.base.progress import Progress
from sssp_pipeline.base.vertex_ids import NamedPoints
from sssp_pipeline.kernels.contract import over_sources
from sssp_pipeline.pipeline.formats.arrow_compute import pc
from sssp_pipeline.pipeline.results.folder.distance_files import DistanceFormat, opened
from sssp_pipeline.pipeline.results.folder.run_files import AGAIN, part_file
from sssp_pipeline.storage import files
from sssp_pipeline.storage.file_sums import StoredFile

if TYPE_CHECKING:
    from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
    from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder


class Originals(Protocol):
    """Ids of vertices."""

    @property
    def source_points(self) -> NamedPoints | None:
        """As in `VertexIds`."""
        ...

    @property
    def target_points(self) -> NamedPoints | None:
        """As in `VertexIds`."""
        ...

    def originals(self, vertices: np.ndarray) -> pa.Array:
        """Return the ids of `vertices` (n,)."""
        ...

    def original(self, vertex: int) -> Any:
        """Return the id of one vertex."""
        ...


@dataclass(frozen=True)
class PerVertex:
    """The columns of `vertices.parquet`, without those of betweenness."""

    form: DistanceFormat
    values: tuple[str, ...]
    #: Radii in the unit of the input.
    within: tuple[float, ...]

    @property
    def over(self) -> over_sources.OverSources:
        """What solvers keep of each vertex."""
        has_sums = not {"sum_distance", "mean_distance"}.isdisjoint(self.values)
        radii = self.form.in_weights(sorted(self.within))
        return over_sources.OverSources("nearest_source" in self.values, has_sums, radii)

    def merged(self, folder: RunFolder, n_batches: int, stored: StoredGraph, progress: Progress) -> pa.Table:
        """Return the table of all vertices, made of the parts of all batches; `stored` is the graph.

        Raises
        ------
        InputError
            A part is damaged, or all parts together do not have what the metrics say was reached.
        UnsolvableError
            A sum does not fit its type.
        """
        ids, traits, metrics = (
            folder.named_ids(stored.ids, folder.identity),
            stored.manifest.traits,
            folder.read_metrics(),
        )
        over, dtype = self.over, traits.weight_dtype
        words = over.none(dtype, traits.n_vertices)
        for batch in range(n_batches):
            url = folder.path(part_file(batch))
            part = np.frombuffer(files.read_bytes(url), "<u8")
            if part.size != words.size:
                raise InputError(
                    f"`{files.redacted(url)}` has {part.nbytes} bytes, not {words.nbytes}", hint=AGAIN
                )
            over.merge(words, part.reshape(words.shape), dtype)
            progress.advance(batch + 1, n_batches, "batches")
        counted = int(np.sum(words[over_sources.REACHED_BY]))
        reached = pc.sum(metrics["reached"]).as_py() or 0
        if counted != reached:
            raise InputError(
                f"the parts of `{files.redacted(folder.url)}` have {counted} reached pairs, and its metrics {reached}",
                hint=AGAIN,
            )
        return self.table(words, np.arange(traits.n_vertices, dtype=np.uint32), ids, traits)

    def table(self, words: np.ndarray, vertices: np.ndarray, ids: Originals, traits: GraphTraits) -> pa.Table:
        """Return a row for each of `vertices` (n,) uint32, made of their `words` (W, n) of all sources.

        Raises
        ------
        UnsolvableError
            A sum does not fit its type.
        """
        over, dtype = self.over, traits.weight_dtype
        reached_by = words[over_sources.REACHED_BY].astype(np.int64)
        columns = {"vertex": ids.originals(vertices)}
        sums = _Sums(self.form.scale, words[over.first_sum() : over.first_within(dtype)], vertices, traits)
        for value in self.values:
            if value == "reached_by":
                columns[value] = pa.array(reached_by)
            elif value == "nearest_source":
                sources = words[over_sources.NEAREST + 1].astype(np.uint32)
                missing = sources == NO_VERTEX
                named = _named_sources(ids, np.where(missing, 0, sources))
                columns[value] = pc.if_else(pa.array(missing), None, named)
                columns["nearest_distance"] = self.form.column(over_sources.distances_of(words, dtype))
            elif value == "sum_distance":
                columns[value] = sums.totals(ids)
            else:
                columns[value] = sums.means(reached_by)
        order = sorted(self.within)
        for radius in self.within:
            counts = words[over.first_within(dtype) + order.index(radius)]
            columns[f"within_{radius}"] = pa.array(counts.astype(np.int64))
        return pa.table(columns)


def _named_sources(ids: Originals, sources: np.ndarray) -> pa.Array:
    """Return the ids of `sources` (n,): of several points at a vertex the first one."""
    if (points := ids.source_points) is None:
        return ids.originals(sources)
    vertices, firsts = np.unique(points.vertices, return_index=True)
    places = np.minimum(np.searchsorted(vertices, sources), len(vertices) - 1)
    return points.ids.take(pa.array(firsts[places]))


def read_vertex_rows(stored: StoredFile, vertices: np.ndarray, n_vertices: int) -> pa.Table:
    """Return the rows of some `vertices` (n,), which rise, of the table of `n_vertices` in a file.

    Raises
    ------
    InputError
        The file is missing or damaged.
    """
    with opened(stored) as file:
        if file.metadata.num_rows != n_vertices:
            raise ValueError(f"it has {file.metadata.num_rows} rows, not {n_vertices}")
        sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        firsts = np.cumsum([0, *sizes])
        parts = [file.schema_arrow.empty_table()]
        for group, (first, end) in enumerate(pairwise(firsts.tolist())):
            places = vertices[(first <= vertices) & (vertices < end)].astype(np.int64) - first
            if len(places):
                parts.append(file.read_row_group(group).take(pa.array(places)))
        return pa.concat_tables(parts)


class _Sums:
    """The exact sums of the distances to each vertex."""

    def __init__(
        self, scale: int | None, limbs: np.ndarray, vertices: np.ndarray, traits: GraphTraits
    ) -> None:
        self._vertices = vertices
        self._dtype, self._scale = traits.weight_dtype, scale
        self._totals, self._power = over_sources.total_of(limbs, traits)

    def totals(self, ids: Originals) -> pa.Array:
        """Return the sums (V,), uint64 or int64; float64 for floats and with a scale."""
        is_whole = self._dtype.kind != "f" and self._scale is None
        kind = np.dtype(f"{self._dtype.kind}8" if is_whole else "float64")
        if is_whole and isinstance(self._totals, np.ndarray):
            return pa.array(self._totals)
        found = np.empty(len(self._totals), kind)
        for place, total in enumerate(map(int, self._totals)):
            try:
                found[place] = total if is_whole else math.ldexp(total / (self._scale or 1), self._power)
            except OverflowError as error:
                raise UnsolvableError(
                    f"the sum of the distances to vertex `{ids.original(int(self._vertices[place]))}` is above "
                    f"what {kind} holds",
                    hint="leave out `sum_distance` of `per_vertex`; `mean_distance` always fits",
                ) from error
        return pa.array(found)

    def means(self, counts: np.ndarray) -> pa.Array:
        """Return the sums divided by `counts` (V,), rounded once, (V,) float64; NULL where a count is 0."""
        missing = counts == 0
        divisors = np.maximum(counts, 1) * (self._scale or 1)
        if isinstance(self._totals, np.ndarray) and np.max(np.abs(self._totals), initial=0) < 2**53:
            means = self._totals / divisors  # both are exact in float64
        else:
            pairs = zip(map(int, self._totals), divisors.tolist(), strict=True)
            means = np.array([math.ldexp(total / divisor, self._power) for total, divisor in pairs])
        return pa.array(means, mask=missing)
