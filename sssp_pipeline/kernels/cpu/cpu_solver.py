"""The base of the CPU solvers: everything around the search from one source.

A solver supplies a `Search` over one row of distances. This module allocates a row for each source, times the search,
counts its results, and refuses a shortest path that the type cannot hold. `reached_searches.py` does the same without
rows, for callers that want reached vertices only.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import ClassVar

import numpy as np

from sssp_pipeline.base.csr import CsrGraph, GraphTraits
from sssp_pipeline.base.errors import DeadlineError
from sssp_pipeline.kernels.contract.solver import Parts, SolveOptions, SourceMetrics
from sssp_pipeline.kernels.cpu.reached_searches import ReachedSearches
from sssp_pipeline.kernels.host.search import Search, finish_row, search_limit
from sssp_pipeline.kernels.host.search_graph import as_searched
from sssp_pipeline.kernels.host.solver import WholeCall, WholeCalls


class CpuSolver(WholeCalls):
    """A solver on the host: one source after another in the calling thread, with the GIL released."""

    device = "cpu"
    #: Whether its search lists vertices (`Search.listed`).
    lists_vertices: ClassVar[bool] = False

    @abstractmethod
    def start(self, graph: CsrGraph, options: SolveOptions) -> Search:
        """Return a search over `graph` with its own scratch memory."""

    def yields_reached(self, graph: GraphTraits, options: SolveOptions) -> bool:
        is_asked = (
            options.reached_only and options.kept.is_whole_row and not (options.predecessors or options.along)
        )
        return is_asked and self.lists_vertices and graph.min_weight >= 0

    def _solved(
        self, graph: CsrGraph, sources: np.ndarray, options: SolveOptions, ends: Sequence[int]
    ) -> Parts:
        if not self.yields_reached(graph.traits, options):
            yield from super()._solved(graph, sources, options, ends)
            return
        searches = ReachedSearches(graph, self._started(graph, options), options, self.name)
        for first, end in pairwise((0, *ends)):
            yield searches.solve(sources[first:end])

    def _started(self, graph: CsrGraph, options: SolveOptions) -> Search:
        """Return a search whose kernels are compiled."""
        reached_only = self.yields_reached(graph.traits, options)
        _compile(type(self), graph.weight_dtype, graph.traits.min_weight < 0, reached_only)
        return self.start(graph, options)

    def _fill_rows(self, call: WholeCall) -> list[SourceMetrics]:
        graph, options = call.graph, call.options
        search = self._started(graph, options)
        if options.kept.is_whole_row:
            pairs = zip(call.sources.tolist(), call.distances, strict=True)
            return [self.solve_source(graph, search, source, row, options) for source, row in pairs]
        row = np.empty(graph.n_vertices, graph.weight_dtype)
        metrics = []
        for source, into in zip(call.sources.tolist(), call.distances, strict=True):
            metrics.append(self.solve_source(graph, search, source, row, options))
            call.reduce(row, source, into)
            if call.accumulator is not None:
                call.accumulator.add(row, source)
        return metrics

    def solve_source(
        self, graph: CsrGraph, search: Search, source: int, distances: np.ndarray, options: SolveOptions
    ) -> SourceMetrics:
        """Fill the row `distances` from `source` and return the metrics. It raises the errors of `solve`."""
        began = time.perf_counter()
        distances.fill(search_limit(graph, options.cutoff))
        processed, edges_relaxed = search.run(as_searched(graph, distances), source)
        facts = finish_row(graph, source, distances, options.cutoff)
        solve_s = time.perf_counter() - began
        if solve_s > options.deadline_s:
            raise DeadlineError(self.name, source, options.deadline_s)
        return SourceMetrics(
            source=source,
            solver=self.name,
            solve_s=solve_s,
            vertices_processed=processed,
            edges_relaxed=edges_relaxed,
            **facts.results(solve_s),
            delta_first=search.delta,
            delta_last=search.delta,
        )


@cache
def _compile(solver: type[CpuSolver], dtype: np.dtype, signed: bool, reached_only: bool) -> None:
    """Compile the kernels for `dtype`, so that the time of the first source does not include it."""
    weight = np.array([-1 if signed else 1]).astype(dtype)
    one_edge = CsrGraph(np.array([0, 1, 1]), np.array([1], np.uint32), weight)
    options = SolveOptions()
    search = solver().start(one_edge, options)
    if reached_only:
        ReachedSearches(one_edge, search, options, solver.name).solve(np.zeros(1, np.uint32))
    else:
        solver().solve_source(one_edge, search, 0, np.empty(2, dtype), options)
