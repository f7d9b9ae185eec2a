"""Outputs with answers in place of distances: a small table for each batch. `NearestVertices` is the shorter one.

`docs/design/0015-reductions.md` has the idea. The input of such an output is long, and the tables do not have it. So a
file of the run folder has it, for the workers that solve and for the workers that verify (`RunFolder.write_input`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sssp_pipeline.base import csr, vertex_ids
from sssp_pipeline.base.shown import parquet_files
from sssp_pipeline.kernels.answers import nearest
from sssp_pipeline.pipeline.formats.arrow_compute import pc
from sssp_pipeline.pipeline.results.folder.distance_files import DistanceFormat, opened
from sssp_pipeline.pipeline.results.layouts.layout import Files, StoredRows
from sssp_pipeline.pipeline.results.outputs.outputs import Chooser, RowOutput
from sssp_pipeline.pipeline.results.outputs.vertex_table import Originals
from sssp_pipeline.storage.file_sums import write_parquet

if TYPE_CHECKING:
    from sssp_pipeline.base.vertex_ids import VertexIds
    from sssp_pipeline.kernels.contract.solver import Solution
    from sssp_pipeline.workflow.output import Output


@dataclass(frozen=True, eq=False)
class TableOutput(RowOutput):
    """An output whose file is a small table of answers. Its input stays in the run folder."""

    #: The type of the weights.
    weights: str = ""

    has_answers = True
    without_distances = "answers, no distances", "`.answers()` returns them as a table"
    input_stays = True

    @abstractmethod
    def table(self, sources: pa.Array, solution: Solution, ids: Originals, n_vertices: int) -> pa.Table:
        """Return what is stored of the rows of a solution, whose sources have these ids (S,).

        Raises
        ------
        UnsolvableError
            A sum does not fit its type.
        """

    @property
    @abstractmethod
    def rows_each(self) -> int:
        """How many rows a source has."""

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """The names of the columns."""

    def row_bytes(self, n_vertices: int, weight_dtype: np.dtype) -> int:
        return 8 * self.n_columns(n_vertices)

    def write(self, handle: Any, sources: np.ndarray, solution: Solution, ids: VertexIds) -> None:
        table = self.table(ids.of_sources(sources), solution, ids, ids.n_vertices)
        write_parquet(table, handle, compression=self.form.compression)

    def read(self, stored: Files, places: Sequence[int], ids: VertexIds, dtype: np.dtype) -> StoredRows:
        """Yield each source and the list of its rows, each as a dictionary."""
        each = self.rows_each
        with opened(stored[0]) as file:
            table = file.read(columns=self.names)
        for place in places:
            if rows := table.slice(place * each, each).to_pylist():
                yield rows[0]["source"], rows

    def is_equal(self, name: str, stored: Any, true: Any) -> bool:
        """Return whether a stored value of the column `name` is right."""
        return bool(stored == true)

    def difference(self, source: int | str, stored: Any, true: Solution, ids: VertexIds) -> str | None:
        exact = self.table(pa.array([source]), true, ids, ids.n_vertices).to_pylist()
        for found, wanted in zip(stored, exact, strict=True):
            for name in self.names[1:]:
                if not self.is_equal(name, found[name], wanted[name]):
                    rank = f", rank {wanted['rank']}" if "rank" in wanted else ""
                    return f"source `{source}`{rank}: stored {name} {found[name]}, true {name} {wanted[name]}"
        return None

    @property
    def _dtype(self) -> np.dtype:
        return np.dtype(self.weights)


@dataclass(frozen=True, eq=False)
class NearestVertices(TableOutput):
    """The nearest vertices: a row for each source and rank, with NULL where fewer are reached."""

    name = "nearest"
    judged = "nearest vertex"

    k: int = 1

    @classmethod
    def chosen(cls, form: DistanceFormat, spec: Output, choose: Chooser) -> RowOutput:
        asked = spec.own["nearest"]
        assert asked is not None, "checked as a contradiction"
        words = None
        if asked.of is not None:
            words = np.unique(choose.vertices(asked.of, "output.nearest.of"))
        digest = None if words is None else vertex_ids.digest_of(words)
        return cls(form, digest, words, choose.traits.weight_dtype.name, asked.k)

    @classmethod
    def recorded(cls, form: DistanceFormat, identity: dict[str, Any], n_targets: int | None) -> RowOutput:
        asked = identity["nearest"]
        return cls(form, asked["digest"], None, asked["weights"], asked["k"])

    def identity(self) -> dict[str, Any]:
        asked = {"weights": self.weights, "digest": self.digest, "k": self.k}
        return {**super().identity(), "nearest": asked}

    @property
    def kept(self) -> nearest.NearestOfRow:
        assert (self.words is None) == (self.digest is None), "the targets are read first: `for_solving`"
        return nearest.NearestOfRow(self.k, self.words)

    def n_columns(self, n_vertices: int) -> int:
        return 2 * self.k

    @property
    def rows_each(self) -> int:
        return self.k

    @property
    def names(self) -> list[str]:
        return ["source", "rank", "vertex", "distance", *(cost.name for cost in self.form.along)]

    def row_bytes(self, n_vertices: int, weight_dtype: np.dtype) -> int:
        return 8 * self.k * (2 + len(self.form.along))

    def table(self, sources: pa.Array, solution: Solution, ids: Originals, n_vertices: int) -> pa.Table:
        distances, vertices = nearest.nearest_of(solution.distances, self._dtype)
        along: Sequence[np.ndarray] = solution.along
        if (points := ids.target_points) is None:
            missing = vertices == csr.NO_VERTEX
            named = ids.originals(np.where(missing, 0, vertices).ravel())
        else:
            places, ranks = _nearest_points(points.vertices, vertices)
            missing = places < 0
            named = points.ids.take(pa.array(np.maximum(places, 0).ravel()))
            distances, *along = (_at_ranks(values, ranks, missing) for values in (distances, *along))
        columns = [
            sources.take(pa.array(np.repeat(np.arange(len(sources)), self.k))),
            pa.array(np.tile(np.arange(1, self.k + 1, dtype=np.int32), len(sources))),
            pc.if_else(pa.array(missing.ravel()), None, named),
            self.form.column(distances.ravel()),
        ]
        for cost, sums in zip(self.form.along, along, strict=True):
            columns.append(cost.form(self.form).column(sums.ravel()))
        return pa.table(columns, self.names)

    def facts(self) -> Iterator[tuple[str, Any]]:
        yield "nearest vertices of each source", self.k

    def query(self, url: str) -> str:
        return f"SELECT * FROM {parquet_files(url, 'distances/*.parquet')} WHERE rank = 1 LIMIT 10"


def _at_ranks(values: np.ndarray, ranks: np.ndarray, missing: np.ndarray) -> np.ndarray:
    """Return those of `values` (S, k) at `ranks` (S, k) of each row; "unreached" where a value is `missing`."""
    taken = np.take_along_axis(values, ranks, axis=1)
    return np.where(missing, csr.unreached_distance(values.dtype), taken)


def _nearest_points(points: np.ndarray, vertices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the nearest points of each source, made of its nearest vertices.

    Parameters
    ----------
    points
        (P,) uint32, the vertex of each point.
    vertices
        (S, k), each row from near to far; `NO_VERTEX` where fewer are reached.

    Returns
    -------
    tuple of numpy.ndarray
        The places of k points in `points`, (S, k) int64, -1 where fewer are reached; and where in their row of
        `vertices` they are, (S, k) int64.
    """
    n_sources, k = vertices.shape
    order = np.argsort(points, kind="stable")  # points at one vertex keep their order
    firsts, ends = (np.searchsorted(points[order], vertices.ravel(), side) for side in ("left", "right"))
    counts = ends - firsts
    # Row by row, all points at the nearest vertices: the first k of a row are its nearest points.
    row = np.repeat(np.repeat(np.arange(n_sources), k), counts)
    rank = np.arange(len(row)) - np.searchsorted(row, row)
    place = np.repeat(firsts - (np.cumsum(counts) - counts), counts) + np.arange(len(row))
    is_near = rank < k
    places = np.full((n_sources, k), -1, np.int64)
    ranks = np.zeros((n_sources, k), np.int64)
    places[row[is_near], rank[is_near]] = order[place[is_near]]
    ranks[row[is_near], rank[is_near]] = np.repeat(np.tile(np.arange(k), n_sources), counts)[is_near]
    return places, ranks
