"""Outputs with an answer in place of distances: numbers made of each row, or the nearest vertices.

`docs/design/0015-reductions.md` has the idea. The targets and the amounts are long, and the tables do not have them. So
a file of the run folder keeps them (`RunFolder.note_output`), for the workers that solve and for those that verify.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, Self

from sssp_pipeline.base.errors import UnsolvableError
from sssp_pipeline.base.lazy import LazyModule
from sssp_pipeline.base.shown import parquet_files
from sssp_pipeline.pipeline.results.distance_files import DistanceFormat, opened
from sssp_pipeline.pipeline.results.outputs import Chooser, FileOutput, RowOutput, StoredRow
from sssp_pipeline.pipeline.results.run_files import VERTICES_FILE
from sssp_pipeline.storage.file_sums import StoredFile, write_parquet

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from sssp_pipeline.base import csr, vertex_ids
    from sssp_pipeline.base.vertex_ids import VertexIds
    from sssp_pipeline.kernels.answers import nearest, reductions
    from sssp_pipeline.kernels.contract import over_sources
    from sssp_pipeline.kernels.contract.solver import Solution
    from sssp_pipeline.pipeline.graph_store import units
    from sssp_pipeline.workflow.models import Output
else:  # `inspect` needs none of them
    np, csr = LazyModule("numpy"), LazyModule("sssp_pipeline.base.csr")
    pa, pc = LazyModule("pyarrow"), LazyModule("pyarrow.compute")
    vertex_ids = LazyModule("sssp_pipeline.base.vertex_ids")
    units = LazyModule("sssp_pipeline.pipeline.graph_store.units")
    over_sources = LazyModule("sssp_pipeline.kernels.contract.over_sources")
    nearest, reductions = (
        LazyModule("sssp_pipeline.kernels.answers.nearest"),
        LazyModule("sssp_pipeline.kernels.answers.reductions"),
    )


class Originals(Protocol):
    """Ids of vertices."""

    def originals(self, vertices: np.ndarray) -> pa.Array:
        """Return the ids of `vertices` (n,)."""
        ...

    def original(self, vertex: int) -> Any:
        """Return the id of one vertex."""
        ...


@dataclass(frozen=True, eq=False)
class Answer(FileOutput):
    """An output whose file is a small table; `note` is kept after the run."""

    #: The type of the weights.
    weights: str
    #: Stands for what `note` returns in the identity of the run; None where there is none.
    digest: str | None
    #: What `note` returns; None where there is none, or where it is not known.
    noted: np.ndarray | None

    note_stays = True

    @abstractmethod
    def table(self, sources: np.ndarray, words: np.ndarray, ids: Originals, n_vertices: int) -> pa.Table:
        """Return what is stored of the rows of `sources` (S,), of which solvers kept `words` (S, W).

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

    def note(self) -> np.ndarray | None:
        return self.noted

    def in_tasks(self) -> Self:
        return replace(self, noted=None)

    def for_solving(self, noted: Callable[[str], np.ndarray]) -> Self:
        return self if self.digest is None else replace(self, noted=noted(self.digest))

    def for_verifying(
        self, stored: Sequence[StoredFile], ids: VertexIds, n_sources: int, noted: Callable[[str], np.ndarray]
    ) -> Self:
        return self.for_solving(noted)

    def write(self, handle: Any, sources: np.ndarray, solution: Solution, ids: VertexIds) -> None:
        table = self.table(sources, solution.distances, ids, ids.n_vertices)
        write_parquet(table, handle, compression=self.form.compression)

    def read(
        self, stored: Sequence[StoredFile], places: Sequence[int], ids: VertexIds, dtype: np.dtype
    ) -> Iterator[StoredRow]:
        """Yield each source and the list of its rows, each as a dictionary."""
        each = self.rows_each
        with opened(stored[0]) as file:
            table = file.read(columns=self.names)
        for place in places:
            if rows := table.slice(place * each, each).to_pylist():
                yield rows[0]["source"], rows

    def difference(self, source: int | str, stored: Any, true: Solution, ids: VertexIds) -> str | None:
        sources = np.array([true.metrics[0].source], np.uint32)
        exact = self.table(sources, true.distances, ids, ids.n_vertices).to_pylist()
        for found, wanted in zip(stored, exact, strict=True):
            for name in self.names[1:]:
                if found[name] != wanted[name]:
                    rank = f", rank {wanted['rank']}" if "rank" in wanted else ""
                    return f"source `{source}`{rank}: stored {name} {found[name]}, true {name} {wanted[name]}"
        return None

    @property
    def _dtype(self) -> np.dtype:
        return np.dtype(self.weights)

    def distance_column(self, distances: np.ndarray) -> pa.Array:
        """Return `distances` (n,) as they are written: NULL for "unreached"."""
        missing = distances == csr.unreached_distance(distances.dtype)
        scale = self.form.scale
        values = distances if scale is None else units.distances_in_input_unit(distances, scale)
        return pa.array(values, mask=missing)


@dataclass(frozen=True, eq=False)
class Reduced(Answer):
    """Numbers made of each row: a row for each source."""

    name = "reduced"
    judged = "number"

    values: tuple[str, ...]
    #: In the unit of the input, in the order of the workflow.
    within: tuple[float, ...]
    #: The columns of the amounts, and for each the power of two by which its integers are multiplied; None for a column
    #: of integers.
    amounts: tuple[str, ...]
    exponents: tuple[int | None, ...]
    #: The bounds of the histogram, in the unit of the input; and the shares, in the order of the workflow.
    histogram: tuple[float, ...] = ()
    quantiles: tuple[float, ...] = ()
    #: What `vertices.parquet` has of each vertex over all sources, and radii in the unit of the input.
    vertex_values: tuple[str, ...] = ()
    vertex_within: tuple[float, ...] = ()

    @classmethod
    def chosen(cls, form: DistanceFormat, spec: Output, choose: Chooser) -> RowOutput:
        asked, weights = spec.reduce, choose.weight_dtype.name
        assert asked is not None, "checked as a contradiction"
        output = cls(form, weights, None, None, asked.values, asked.within, (), ())
        output = replace(output, histogram=asked.histogram or (), quantiles=asked.quantiles or ())
        if (over := asked.per_vertex) is not None:
            # A source has a row in any case, and `verify` compares what is in it.
            values = output.values if len(output.names) > 1 else ("reached",)
            output = replace(output, values=values, vertex_values=over.values, vertex_within=over.within)
        if asked.amounts is None:
            return output
        found = choose.amounts(asked.amounts)
        noted = found.words()
        digest = vertex_ids.digest_of(noted)
        amounts, exponents = asked.amounts.names, found.exponents
        return replace(output, digest=digest, noted=noted, amounts=amounts, exponents=exponents)

    @classmethod
    def recorded(cls, form: DistanceFormat, identity: dict[str, Any], n_targets: int | None) -> RowOutput:
        asked = identity["reduce"]
        keys = ("values", "within", "amounts", "exponents", "histogram", "quantiles")
        lists = [tuple(asked.get(key, ())) for key in keys]
        over = asked.get("per_vertex", {})
        lists += [tuple(over.get(key, ())) for key in ("values", "within")]
        return cls(form, asked["weights"], asked["digest"], None, *lists)

    def identity(self) -> dict[str, Any]:
        reduce: dict[str, Any] = {"weights": self.weights, "digest": self.digest, "values": list(self.values)}
        reduce |= {
            "within": list(self.within),
            "amounts": list(self.amounts),
            "exponents": list(self.exponents),
        }
        # A run without them has the identity that it always had.
        later = {"histogram": list(self.histogram), "quantiles": list(self.quantiles)}
        reduce |= {key: asked for key, asked in later.items() if asked}
        if self.is_per_vertex:
            reduce["per_vertex"] = {"values": list(self.vertex_values), "within": list(self.vertex_within)}
        return {**super().identity(), "reduce": reduce}

    @property
    def kept(self) -> reductions.Reductions:
        amounts = None
        if self.amounts:
            assert self.noted is not None, "the amounts are read first: `for_solving`, `for_verifying`"
            amounts = self.noted.view(np.int64).reshape(len(self.amounts), -1)
        radii, bounds = self._scaled(sorted(self.within)), self._scaled(self.histogram)
        if bounds:
            bounds = units.scaled_least(self.histogram[0], self.form.scale), *bounds[1:]
        shares = tuple(sorted(self.quantiles))
        return reductions.Reductions(radii, amounts, "harmonic" in self.values, bounds, shares, self.over)

    @property
    def is_per_vertex(self) -> bool:
        """Whether the run has `vertices.parquet`."""
        return bool(self.vertex_values or self.vertex_within)

    @property
    def over(self) -> over_sources.OverSources | None:
        """What is kept of each vertex over all sources; None if nothing is."""
        if not self.is_per_vertex:
            return None
        has_sums = not {"sum_distance", "mean_distance"}.isdisjoint(self.vertex_values)
        radii = self._scaled(sorted(self.vertex_within))
        return over_sources.OverSources("nearest_source" in self.vertex_values, has_sums, radii)

    def for_verifying(
        self, stored: Sequence[StoredFile], ids: VertexIds, n_sources: int, noted: Callable[[str], np.ndarray]
    ) -> Self:
        """Return this with what is noted, and without what it keeps of vertices."""
        whole = super().for_verifying(stored, ids, n_sources, noted)
        return replace(whole, vertex_values=(), vertex_within=())

    def _scaled(self, lengths: Sequence[float]) -> tuple[float, ...]:
        limits = (units.scaled_limit(length, self.form.scale) for length in lengths)
        return tuple(limit for limit in limits if limit is not None)

    def n_columns(self, n_vertices: int) -> int:
        n_others = max(len(self.histogram) - 1, 0) + len(self.quantiles)
        return reductions.WITHIN + len(self.within) * (1 + len(self.amounts)) + n_others

    def held_bytes(self, n_vertices: int) -> int:
        return 8 * len(self.amounts) * n_vertices

    @property
    def rows_each(self) -> int:
        return 1

    @property
    def names(self) -> list[str]:
        counted = [f"within_{radius}" for radius in self.within]
        summed = [f"{a}_{c}" for a in self.amounts for c in counted]
        shares = [f"quantile_{share}" for share in self.quantiles]
        return ["source", *self.values, *counted, *summed, *self.buckets, *shares]

    @property
    def buckets(self) -> list[str]:
        """The names of the columns of the histogram."""
        return [f"from_{low}_to_{high}" for low, high in pairwise(self.histogram)]

    def table(self, sources: np.ndarray, words: np.ndarray, ids: Originals, n_vertices: int) -> pa.Table:
        try:
            columns = [
                ids.originals(sources),
                *(self._value(name, words, n_vertices) for name in self.values),
            ]
        except reductions.SumTooLargeError as error:
            raise UnsolvableError(
                f"the sum of the distances of source `{ids.original(int(sources[error.place]))}` is above what "
                f"{error.dtype} holds",
                hint="leave out `sum_distance`; `mean_distance` always fits",
            ) from error
        order = sorted(self.within)
        found = [reductions.within(words, order.index(r), len(order), len(self.amounts)) for r in self.within]
        columns += [pa.array(count) for count, _ in found]
        for place, exponent in enumerate(self.exponents):
            sums = (of_amounts[:, place] for _, of_amounts in found)
            columns += [
                pa.array(s if exponent is None else np.ldexp(s.astype(np.float64), exponent)) for s in sums
            ]
        n_buckets, n_shares = max(len(self.histogram) - 1, 0), len(self.quantiles)
        columns += map(pa.array, reductions.histograms(words, n_buckets, n_shares).T)
        found_quantiles = reductions.quantiles(words, n_shares, self._dtype)
        rising = sorted(self.quantiles)
        columns += [self.distance_column(found_quantiles[:, rising.index(share)]) for share in self.quantiles]
        return pa.table(columns, self.names)

    def _value(self, name: str, words: np.ndarray, n_vertices: int) -> pa.Array:
        dtype, scale = self._dtype, self.form.scale
        if name == "reached":
            return pa.array(reductions.reached(words))
        if name == "max_distance":
            return self.distance_column(reductions.max_distances(words, dtype))
        if name == "mean_distance":
            return pa.array(reductions.means(words, dtype) / (scale or 1))
        if name == "sum_distance":
            return pa.array(reductions.total_distances(words, dtype, scale))
        if name == "closeness":
            return pa.array(reductions.closeness(words, dtype, n_vertices, scale))
        return pa.array(reductions.harmonic_sums(words, scale))

    def facts(self) -> Iterator[tuple[str, Any]]:
        yield "columns", ", ".join(self.names[1:])
        if self.is_per_vertex:
            asked = [*self.vertex_values, *(f"within_{radius}" for radius in self.vertex_within)]
            yield "columns of vertices.parquet", ", ".join(asked)

    def query(self, url: str) -> str:
        if self.is_per_vertex:
            return f"SELECT * FROM {parquet_files(url, VERTICES_FILE)} LIMIT 10"
        return f"SELECT * FROM {parquet_files(url, 'distances/*.parquet')} ORDER BY {self.names[1]} DESC LIMIT 10"


@dataclass(frozen=True, eq=False)
class NearestVertices(Answer):
    """The nearest vertices: a row for each source and rank, with NULL where fewer are reached."""

    name = "nearest"
    judged = "nearest vertex"

    k: int

    @classmethod
    def chosen(cls, form: DistanceFormat, spec: Output, choose: Chooser) -> RowOutput:
        asked = spec.nearest
        assert asked is not None, "checked as a contradiction"
        noted = None
        if asked.of is not None:
            noted = np.sort(choose.vertices(asked.of, "output.nearest.of"))
        digest = None if noted is None else vertex_ids.digest_of(noted)
        return cls(form, choose.weight_dtype.name, digest, noted, asked.k)

    @classmethod
    def recorded(cls, form: DistanceFormat, identity: dict[str, Any], n_targets: int | None) -> RowOutput:
        asked = identity["nearest"]
        return cls(form, asked["weights"], asked["digest"], None, asked["k"])

    def identity(self) -> dict[str, Any]:
        asked = {"weights": self.weights, "digest": self.digest, "k": self.k}
        return {**super().identity(), "nearest": asked}

    @property
    def kept(self) -> nearest.NearestOfRow:
        assert (self.noted is None) == (self.digest is None), "the targets are read first: `for_solving`"
        return nearest.NearestOfRow(self.k, self.noted)

    def n_columns(self, n_vertices: int) -> int:
        return 2 * self.k

    @property
    def rows_each(self) -> int:
        return self.k

    @property
    def names(self) -> list[str]:
        return ["source", "rank", "vertex", "distance"]

    def table(self, sources: np.ndarray, words: np.ndarray, ids: Originals, n_vertices: int) -> pa.Table:
        distances, vertices = nearest.nearest_of(words, self._dtype)
        missing = vertices == csr.NO_VERTEX
        named = ids.originals(np.where(missing, 0, vertices).ravel())
        columns = [
            ids.originals(np.repeat(sources, self.k)),
            pa.array(np.tile(np.arange(1, self.k + 1, dtype=np.int32), len(sources))),
            pc.if_else(pa.array(missing.ravel()), None, named),
            self.distance_column(distances.ravel()),
        ]
        return pa.table(columns, self.names)

    def facts(self) -> Iterator[tuple[str, Any]]:
        yield "nearest vertices of each source", self.k

    def query(self, url: str) -> str:
        return f"SELECT * FROM {parquet_files(url, 'distances/*.parquet')} WHERE rank = 1 LIMIT 10"
