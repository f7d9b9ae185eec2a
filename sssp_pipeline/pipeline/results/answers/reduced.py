"""The output that stores numbers made of each row, and maybe numbers of each vertex over all sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from sssp_pipeline.base import vertex_ids
from sssp_pipeline.base.errors import InputError, UnsolvableError
from sssp_pipeline.base.progress import Progress
from sssp_pipeline.base.shown import parquet_files
from sssp_pipeline.kernels.answers import reductions
from sssp_pipeline.pipeline.graph_store import units
from sssp_pipeline.pipeline.results.answers.betweenness import (
    BETWEENNESS,
    ERROR,
    OF_SOURCE,
    Betweenness,
    check_weights,
)
from sssp_pipeline.pipeline.results.answers.counted_paths import ROWS as COUNTED_ROWS
from sssp_pipeline.pipeline.results.answers.counted_paths import CountedPaths
from sssp_pipeline.pipeline.results.answers.edge_table import ROWS_A_GROUP
from sssp_pipeline.pipeline.results.folder.distance_files import DistanceFormat
from sssp_pipeline.pipeline.results.folder.run_files import AGAIN, VERTICES_FILE
from sssp_pipeline.pipeline.results.layouts.layout import Files
from sssp_pipeline.pipeline.results.outputs.outputs import Chooser, RowOutput
from sssp_pipeline.pipeline.results.outputs.table_output import TableOutput
from sssp_pipeline.pipeline.results.outputs.vertex_table import Originals, PerVertex
from sssp_pipeline.storage import files

if TYPE_CHECKING:
    from sssp_pipeline.base.csr import GraphTraits
    from sssp_pipeline.base.vertex_ids import VertexIds
    from sssp_pipeline.kernels.contract.path_sums_asked import PathSumsAsked
    from sssp_pipeline.kernels.contract.solver import Solution
    from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
    from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
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
    betweenness: Betweenness | None = None
    #: By how much of it a stored total of a source may differ from the true one.
    rounding: float = 0.0

    @classmethod
    def chosen(cls, form: DistanceFormat, spec: Output, choose: Chooser) -> RowOutput:
        asked = spec.own["reduce"]
        assert asked is not None, "checked as a contradiction"
        inputs: list[np.ndarray] = []
        output = cls(form, weights=choose.traits.weight_dtype.name, values=asked.values, within=asked.within)
        output = replace(output, histogram=asked.histogram or (), quantiles=asked.quantiles or ())
        if (passed := Betweenness.asked_by(asked, choose.is_sample, form.compression)) is not None:
            check_weights(choose.traits, choose.load, choose.ids, form.scale)
            if passed.paths is not None:
                paths, of_paths = passed.paths.read(asked.paths, choose)
                passed = replace(passed, paths=paths)
                inputs.append(of_paths.ravel().view(np.uint32))
            output = replace(output, betweenness=passed)
        if (over := asked.per_vertex) is not None:
            values = tuple(value for value in over.values if value != "betweenness")
            if values or over.within:
                output = replace(output, per_vertex=PerVertex(form, values, over.within))
        if len(output.names) == 1:
            # A source has a row in any case, and `verify` compares what is in it.
            output = replace(output, values=("reached",))
        if asked.amounts is not None:
            found = choose.amounts(asked.amounts, "output.reduce.amounts")
            output = replace(output, amounts=asked.amounts.names, exponents=found.exponents)
            inputs.insert(0, found.words())
        if not inputs:
            return output
        words = np.concatenate(inputs)
        return replace(output, digest=vertex_ids.digest_of(words), words=words)

    @classmethod
    def recorded(cls, form: DistanceFormat, identity: dict[str, Any], n_targets: int | None) -> RowOutput:
        asked = identity["reduce"]
        keys = ("values", "within", "amounts", "exponents", "histogram", "quantiles")
        lists: dict[str, Any] = {key: tuple(asked.get(key, ())) for key in keys}
        over = asked.get("per_vertex")
        per_vertex = over and PerVertex(form, tuple(over["values"]), tuple(over["within"]))
        passed = asked.get("betweenness")
        betweenness = passed and Betweenness.recorded(passed, form.compression)
        return cls(
            form,
            asked["digest"],
            None,
            asked["weights"],
            **lists,
            per_vertex=per_vertex,
            betweenness=betweenness,
        )

    def identity(self) -> dict[str, Any]:
        reduce: dict[str, Any] = {"weights": self.weights, "digest": self.digest}
        reduce |= {key: list(getattr(self, key)) for key in ("values", "within", "amounts", "exponents")}
        # A run without them has the identity that it always had.
        reduce |= {key: list(getattr(self, key)) for key in ("histogram", "quantiles") if getattr(self, key)}
        if (over := self.per_vertex) is not None:
            reduce["per_vertex"] = {"values": list(over.values), "within": list(over.within)}
        if self.betweenness is not None:
            reduce["betweenness"] = self.betweenness.identity()
        return {**super().identity(), "reduce": reduce}

    @property
    def kept(self) -> reductions.Reductions:
        amounts, paths, counted = None, self.paths, self._counted
        if self._n_rows:
            assert self.words is not None, "the amounts are read first: `for_solving`, `for_verifying`"
            rows = self.words.view(np.int64).reshape(self._n_rows, -1)
            amounts = rows[: len(self.amounts)] if self.amounts else None
            if paths is not None and counted is not None:
                paths = replace(paths, **counted.asked(rows[-COUNTED_ROWS:], self.form.scale))
        radii, bounds = self.form.in_weights(sorted(self.within)), self.form.in_weights(self.histogram)
        if bounds:
            bounds = units.scaled_least(self.histogram[0], self.form.scale), *bounds[1:]
        shares = tuple(sorted(self.quantiles))
        over = None if self.per_vertex is None else self.per_vertex.over
        harmonic, facts = "harmonic" in self.values, bool(self.values) or self.paths is None
        return reductions.Reductions(radii, amounts, harmonic, bounds, shares, over, paths, facts)

    @property
    def _counted(self) -> CountedPaths | None:
        return None if self.betweenness is None else self.betweenness.paths

    @property
    def _n_rows(self) -> int:
        """How many numbers of each vertex `words` has."""
        return len(self.amounts) + (0 if self._counted is None else COUNTED_ROWS)

    @property
    def paths(self) -> PathSumsAsked | None:
        return None if self.betweenness is None else self.betweenness.asked

    @property
    def ranked(self) -> dict[str, tuple[str, ...]]:
        tables = [] if self.betweenness is None else self.betweenness.tables
        return dict.fromkeys(tables, (BETWEENNESS, ERROR))

    def fault_of_sums(self, folder: RunFolder, n_batches: int, n_vertices: int, n_sources: int) -> str | None:
        if self.betweenness is None:
            return None
        return self.betweenness.fault(folder, n_batches, n_vertices, n_sources)

    def for_verifying(self, stored: Files, ids: VertexIds, read_input: Callable[[str], np.ndarray]) -> Self:
        """Return this with its input, for an oracle that has rows. `verify` checks `per_vertex` apart."""
        found = replace(super().for_verifying(stored, ids, read_input), per_vertex=None)
        if (passed := self.betweenness) is None:
            return found
        return replace(
            found, betweenness=replace(passed, on_hierarchy=False, on_gpu=False), rounding=passed.rounding
        )

    def finish(
        self, folder: RunFolder, batches: Sequence[np.ndarray], stored: StoredGraph, progress: Progress
    ) -> None:
        over, passed = self.per_vertex, self.betweenness
        if over is None and passed is None:
            return
        progress.stage("merge")
        table = pa.table({"vertex": stored.ids.column()})
        if over is not None:
            table = over.merged(folder, len(batches), stored, progress)
        if passed is not None:
            paths = self.kept.paths
            assert paths is not None, "the run has betweenness"
            for name, column in passed.write(folder, batches, stored, progress, paths.unit).items():
                table = table.append_column(name, column)
        if table.num_columns > 1:
            options = {"row_group_size": ROWS_A_GROUP, "compression": self.form.compression}
            folder.write_table(VERTICES_FILE, table, **options)
        n_sources = sum(map(len, batches))
        if (fault := self.fault_of_sums(folder, len(batches), table.num_rows, n_sources)) is not None:
            raise InputError(f"`{files.redacted(folder.url)}`: {fault}", hint=AGAIN)

    def verdict(self, weight_dtype: str) -> str:
        exact = super().verdict(weight_dtype)
        is_rounded = self.betweenness is not None and self.betweenness.on_hierarchy
        return f"{exact}; sums over the hierarchy are right up to rounding" if is_rounded else exact

    def is_equal(self, name: str, stored: Any, true: Any) -> bool:
        if self.rounding and name in OF_SOURCE.values():
            paths = self.kept.paths
            # Rows cut what passes each of at most 2^32 vertices or edges at 2^-64 of the unit.
            cut = 0.0 if paths is None or paths.amounts is None else paths.unit * 2.0**-32
            return bool(abs(stored - true) <= self.rounding * true + cut)
        return super().is_equal(name, stored, true)

    def n_columns(self, n_vertices: int) -> int:
        n_others = max(len(self.histogram) - 1, 0) + len(self.quantiles)
        n_totals = 0 if self.paths is None else self.paths.n_totals
        return reductions.WITHIN + len(self.within) * (1 + len(self.amounts)) + n_others + n_totals

    def held_bytes(self, traits: GraphTraits) -> int:
        of_paths = 0 if self._counted is None else 8 * COUNTED_ROWS
        return (8 * self._n_rows + of_paths) * traits.n_vertices

    @property
    def rows_each(self) -> int:
        return 1

    @property
    def names(self) -> list[str]:
        counted = [f"within_{radius}" for radius in self.within]
        summed = [f"{a}_{c}" for a in self.amounts for c in counted]
        shares = [f"quantile_{share}" for share in self.quantiles]
        passed = [] if self.betweenness is None else self.betweenness.columns
        return ["source", *self.values, *counted, *summed, *self.histogram_columns, *shares, *passed]

    @property
    def histogram_columns(self) -> dict[str, tuple[float, float]]:
        return {f"from_{low}_to_{high}": (low, high) for low, high in pairwise(self.histogram)}

    def table(self, sources: pa.Array, solution: Solution, ids: Originals, n_vertices: int) -> pa.Table:
        n_passed = 0 if self.paths is None else self.paths.n_totals
        words, passed = np.split(solution.distances, [solution.distances.shape[1] - n_passed], axis=1)
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
        columns += map(pa.array, np.ascontiguousarray(passed.T).view(np.float64))
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
        if self.betweenness is not None:
            yield from self.betweenness.facts()

    def query(self, url: str) -> str:
        if self.betweenness is not None:
            files_of = parquet_files(url, self.betweenness.tables[0])
            return f"SELECT * FROM {files_of} ORDER BY betweenness DESC LIMIT 10"
        if self.per_vertex is not None:
            return f"SELECT * FROM {parquet_files(url, VERTICES_FILE)} LIMIT 10"
        return f"SELECT * FROM {parquet_files(url, 'distances/*.parquet')} ORDER BY {self.names[1]} DESC LIMIT 10"
