"""The output that stores numbers made of each row, and maybe numbers of each vertex over all sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from sssp_pipeline.base import vertex_ids
from sssp_pipeline.base.errors import UnsolvableError
from sssp_pipeline.base.progress import Progress
from sssp_pipeline.base.shown import parquet_files
from sssp_pipeline.kernels.answers import reductions
from sssp_pipeline.pipeline.graph_store import units
from sssp_pipeline.pipeline.results.distance_files import DistanceFormat
from sssp_pipeline.pipeline.results.layouts.layout import Files
from sssp_pipeline.pipeline.results.outputs import Chooser, RowOutput
from sssp_pipeline.pipeline.results.run_files import VERTICES_FILE
from sssp_pipeline.pipeline.results.table_output import TableOutput
from sssp_pipeline.pipeline.results.vertex_table import Originals, PerVertex

if TYPE_CHECKING:
    from sssp_pipeline.base.vertex_ids import VertexIds
    from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
    from sssp_pipeline.pipeline.results.run_folder import RunFolder
    from sssp_pipeline.workflow.output import Output


@dataclass(frozen=True, eq=False)
class Reduced(TableOutput):
    """Numbers made of each row: a row for each source."""

    name = "reduced"
    judged = "number"
    shows_overall = True

    values: tuple[str, ...] = ()
    #: In the unit of the input, in the order of the workflow.
    within: tuple[float, ...] = ()
    #: The columns of the amounts, and for each the power of two by which its integers are multiplied; None for a column
    #: of integers.
    amounts: tuple[str, ...] = ()
    exponents: tuple[int | None, ...] = ()
    #: The bounds of the histogram, in the unit of the input; and the shares, in the order of the workflow.
    histogram: tuple[float, ...] = ()
    quantiles: tuple[float, ...] = ()
    per_vertex: PerVertex | None = None

    @classmethod
    def chosen(cls, form: DistanceFormat, spec: Output, choose: Chooser) -> RowOutput:
        asked = spec.own["reduce"]
        assert asked is not None, "checked as a contradiction"
        output = cls(form, weights=choose.traits.weight_dtype.name, values=asked.values, within=asked.within)
        output = replace(output, histogram=asked.histogram or (), quantiles=asked.quantiles or ())
        if (over := asked.per_vertex) is not None:
            # A source has a row in any case, and `verify` compares what is in it.
            values = output.values if len(output.names) > 1 else ("reached",)
            output = replace(output, values=values, per_vertex=PerVertex(form, over.values, over.within))
        if asked.amounts is None:
            return output
        found = choose.amounts(asked.amounts)
        words = found.words()
        of_input: dict[str, Any] = {"digest": vertex_ids.digest_of(words), "words": words}
        return replace(output, **of_input, amounts=asked.amounts.names, exponents=found.exponents)

    @classmethod
    def recorded(cls, form: DistanceFormat, identity: dict[str, Any], n_targets: int | None) -> RowOutput:
        asked = identity["reduce"]
        keys = ("values", "within", "amounts", "exponents", "histogram", "quantiles")
        lists = {key: tuple(asked.get(key, ())) for key in keys}
        over = asked.get("per_vertex")
        per_vertex = over and PerVertex(form, tuple(over["values"]), tuple(over["within"]))
        return cls(form, asked["digest"], None, asked["weights"], **lists, per_vertex=per_vertex)

    def identity(self) -> dict[str, Any]:
        reduce: dict[str, Any] = {"weights": self.weights, "digest": self.digest}
        reduce |= {key: list(getattr(self, key)) for key in ("values", "within", "amounts", "exponents")}
        # A run without them has the identity that it always had.
        reduce |= {key: list(getattr(self, key)) for key in ("histogram", "quantiles") if getattr(self, key)}
        if (over := self.per_vertex) is not None:
            reduce["per_vertex"] = {"values": list(over.values), "within": list(over.within)}
        return {**super().identity(), "reduce": reduce}

    @property
    def kept(self) -> reductions.Reductions:
        amounts = None
        if self.amounts:
            assert self.words is not None, "the amounts are read first: `for_solving`, `for_verifying`"
            amounts = self.words.view(np.int64).reshape(len(self.amounts), -1)
        radii, bounds = self.form.in_weights(sorted(self.within)), self.form.in_weights(self.histogram)
        if bounds:
            bounds = units.scaled_least(self.histogram[0], self.form.scale), *bounds[1:]
        shares = tuple(sorted(self.quantiles))
        over = None if self.per_vertex is None else self.per_vertex.over
        return reductions.Reductions(radii, amounts, "harmonic" in self.values, bounds, shares, over)

    def for_verifying(self, stored: Files, ids: VertexIds, read_input: Callable[[str], np.ndarray]) -> Self:
        """Return this with its input and without `per_vertex`, which `verify` checks apart."""
        return replace(super().for_verifying(stored, ids, read_input), per_vertex=None)

    def finish(
        self, folder: RunFolder, batches: Sequence[np.ndarray], stored: StoredGraph, progress: Progress
    ) -> None:
        if self.per_vertex is not None:
            progress.stage("merge")
            self.per_vertex.write(folder, len(batches), stored, progress)

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
        return ["source", *self.values, *counted, *summed, *self.histogram_columns, *shares]

    @property
    def histogram_columns(self) -> dict[str, tuple[float, float]]:
        return {f"from_{low}_to_{high}": (low, high) for low, high in pairwise(self.histogram)}

    def table(self, sources: pa.Array, words: np.ndarray, ids: Originals, n_vertices: int) -> pa.Table:
        try:
            columns = [
                sources,
                *(self._value(name, words, n_vertices) for name in self.values),
            ]
        except reductions.SumTooLargeError as error:
            raise UnsolvableError(
                f"the sum of the distances of source `{sources[error.place]}` is above what "
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
        columns += [self.form.column(found_quantiles[:, rising.index(share)]) for share in self.quantiles]
        return pa.table(columns, self.names)

    def _value(self, name: str, words: np.ndarray, n_vertices: int) -> pa.Array:
        dtype, scale = self._dtype, self.form.scale
        if name == "reached":
            return pa.array(reductions.reached(words))
        if name == "max_distance":
            return self.form.column(reductions.max_distances(words, dtype))
        if name == "mean_distance":
            return pa.array(reductions.means(words, dtype) / (scale or 1))
        if name == "sum_distance":
            return pa.array(reductions.total_distances(words, dtype, scale))
        if name == "closeness":
            return pa.array(reductions.closeness(words, dtype, n_vertices, scale))
        return pa.array(reductions.harmonic_sums(words, scale))

    def facts(self) -> Iterator[tuple[str, Any]]:
        yield "columns", ", ".join(self.names[1:])
        if (over := self.per_vertex) is not None:
            asked = [*over.values, *(f"within_{radius}" for radius in over.within)]
            yield "columns of vertices.parquet", ", ".join(asked)

    def query(self, url: str) -> str:
        if self.per_vertex is not None:
            return f"SELECT * FROM {parquet_files(url, VERTICES_FILE)} LIMIT 10"
        return f"SELECT * FROM {parquet_files(url, 'distances/*.parquet')} ORDER BY {self.names[1]} DESC LIMIT 10"
