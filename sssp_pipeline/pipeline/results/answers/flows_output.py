"""The output with how much passes each edge if the trips of a table take shortest paths.

Each source has a row with the totals of its trips. What passes the edges is summed over the sources of a batch. When
all batches are there, these parts become `edges.parquet`. `docs/design/0035-along-the-paths.md` has the idea.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.progress import Progress, plural
from sssp_pipeline.base.shown import parquet_files
from sssp_pipeline.base.vertex_ids import digest_of
from sssp_pipeline.kernels.answers.path_sums import sums_of
from sssp_pipeline.kernels.answers.trip_sums import TOTALS, Trips, TripsOfRow, TripSumsAsked
from sssp_pipeline.kernels.host.incoming import Incoming
from sssp_pipeline.pipeline.results.answers.betweenness import check_weights
from sssp_pipeline.pipeline.results.answers.edge_table import write_edges
from sssp_pipeline.pipeline.results.answers.path_parts import (
    merged_words,
    sum_fault,
)
from sssp_pipeline.pipeline.results.folder.distance_files import DistanceFormat
from sssp_pipeline.pipeline.results.folder.run_files import AGAIN, EDGES_FILE
from sssp_pipeline.pipeline.results.outputs.outputs import Chooser, RowOutput
from sssp_pipeline.pipeline.results.outputs.table_output import TableOutput
from sssp_pipeline.pipeline.results.outputs.vertex_table import Originals
from sssp_pipeline.storage import files
from sssp_pipeline.workflow.flows import trips_of

if TYPE_CHECKING:
    from sssp_pipeline.base.csr import GraphTraits
    from sssp_pipeline.kernels.contract.solver import Solution
    from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
    from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
    from sssp_pipeline.workflow.output import Output

#: The column of `edges.parquet`.
FLOW = "flow"
#: The totals that are numbers of trips.
_COUNTS = ("trips", "unreached_trips")


@dataclass(frozen=True, eq=False)
class EdgeFlows(TableOutput):
    """How much passes each edge, and the `TOTALS` of each source. `words` are `Trips.words`."""

    name = "flows"
    judged = "total of trips"
    shows_overall = True
    counts_sources = False

    n_trips: int = 0
    n_sources: int = 0
    #: Whether a trip is divided among all its shortest paths.
    is_divided: bool = False

    @classmethod
    def chosen(cls, form: DistanceFormat, spec: Output, choose: Chooser) -> RowOutput:
        given = spec.own["flows"]
        assert given is not None, "checked as a contradiction"
        check_weights(choose.traits, choose.load, choose.ids, form.scale)
        asked = trips_of(given)
        trips = choose.trips(asked)
        words = trips.words
        facts = len(trips.targets), len(trips.sources), asked.paths == "all"
        return cls(form, digest_of(words), words, choose.traits.weight_dtype.name, *facts)

    @classmethod
    def recorded(cls, form: DistanceFormat, identity: dict[str, Any], n_targets: int | None) -> RowOutput:
        asked = identity["flows"]
        facts = asked["trips"], asked["sources"], asked["paths"] == "all"
        return cls(form, asked["digest"], None, asked["weights"], *facts)

    def identity(self) -> dict[str, Any]:
        asked = {
            "weights": self.weights,
            "digest": self.digest,
            "trips": self.n_trips,
            "sources": self.n_sources,
            "paths": self._paths,
        }
        return {**super().identity(), "flows": asked}

    @property
    def _paths(self) -> str:
        return "all" if self.is_divided else "one"

    @cached_property
    def _trips(self) -> Trips:
        assert self.words is not None, "the trips are read first: `for_solving`, `for_verifying`"
        return Trips.of_words(self.words, self.n_sources)

    @property
    def searches(self) -> np.ndarray | None:
        return None if self.words is None else self._trips.sources

    @property
    def paths(self) -> TripSumsAsked:
        return TripSumsAsked(is_divided=self.is_divided)

    @property
    def kept(self) -> TripsOfRow:
        return TripsOfRow(self._trips, self.paths)

    def n_columns(self, n_vertices: int) -> int:
        return len(TOTALS)

    def held_bytes(self, traits: GraphTraits) -> int:
        of_edges = 0 if self.is_divided else Incoming.n_bytes(traits)
        return 12 * self.n_trips + 16 * self.n_sources + of_edges

    @property
    def rows_each(self) -> int:
        return 1

    @property
    def names(self) -> list[str]:
        return ["source", *TOTALS]

    def table(self, sources: pa.Array, solution: Solution, ids: Originals, n_vertices: int) -> pa.Table:
        totals = zip(TOTALS, np.ascontiguousarray(solution.distances.T).view(np.float64), strict=True)
        columns = [
            pa.array(values.astype(np.int64) if name in _COUNTS else values) for name, values in totals
        ]
        return pa.table([sources, *columns], self.names)

    def finish(
        self, folder: RunFolder, batches: Sequence[np.ndarray], stored: StoredGraph, progress: Progress
    ) -> None:
        progress.stage("merge")
        words = merged_words(folder, batches, self.paths, stored.manifest.traits, progress)
        write_edges(
            folder, stored, self.form.compression, lambda some: {FLOW: pa.array(sums_of(words[some]))}
        )
        of_run = len(batches), stored.manifest.n_vertices, self.n_sources
        if (fault := self.fault_of_sums(folder, *of_run)) is not None:
            raise InputError(f"`{files.redacted(folder.url)}`: {fault}", hint=AGAIN)

    def fault_of_sums(self, folder: RunFolder, n_batches: int, n_vertices: int, n_sources: int) -> str | None:
        return sum_fault(folder, n_batches, EDGES_FILE, FLOW, TOTALS[-1])

    @property
    def ranked(self) -> dict[str, tuple[str, ...]]:
        return {EDGES_FILE: (FLOW,)}

    @property
    def summed_columns(self) -> tuple[str, ...]:
        return TOTALS[:-1]

    def facts(self) -> Iterator[tuple[str, Any]]:
        yield "trips", f"{self.n_trips:,}"
        yield "from", plural(self.n_sources, "source")
        yield "along", "all shortest paths" if self.is_divided else "one shortest path each"

    def query(self, url: str) -> str:
        return f"SELECT * FROM {parquet_files(url, EDGES_FILE)} ORDER BY {FLOW} DESC LIMIT 10"
