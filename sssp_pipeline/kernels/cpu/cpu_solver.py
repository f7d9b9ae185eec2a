"""The base of the CPU solvers: everything around the search from one source.

A solver supplies a `Search` over one row of distances. This module checks the request, allocates a row for each source,
times the search, counts its results, and refuses a shortest path that the type cannot hold.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import replace
from functools import cache

import numpy as np

from sssp_pipeline.csr import CsrGraph, GraphTraits
from sssp_pipeline.errors import DeadlineError, InputError
from sssp_pipeline.kernels.forecast import Forecast
from sssp_pipeline.kernels.host import reweighting
from sssp_pipeline.kernels.host.predecessors import predecessors_of
from sssp_pipeline.kernels.host.search import Search, finish_row, search_limit
from sssp_pipeline.kernels.host.search_graph import as_searched
from sssp_pipeline.kernels.kept import checked_vertices
from sssp_pipeline.kernels.options import Tunable
from sssp_pipeline.kernels.solver import (
    ANOTHER_SOLVER,
    Solution,
    SolveOptions,
    SourceMetrics,
)


class CpuSolver(ABC):
    """A solver on the host: one source after another in the calling thread, with the GIL released."""

    name: str
    device = "cpu"
    summary: str
    #: Whether its search takes negative weights. Without, integers are reweighted (`reweighting.py`).
    takes_negative = False
    tunables: tuple[Tunable, ...] = ()

    def supports(self, graph: GraphTraits, options: SolveOptions) -> str | None:
        """Return None, or the reason why not: negative weights, or a trace."""
        return options.no_trace or reweighting.refusal(graph, options, self.takes_negative)

    @abstractmethod
    def start(self, graph: CsrGraph, options: SolveOptions) -> Search:
        """Return a search over `graph` with its own scratch memory."""

    @abstractmethod
    def forecast(self, traits: GraphTraits, n_sources: int) -> Forecast:
        """Return the expected cost of one source in a call of `n_sources`, assuming weights above zero."""

    def solve(self, graph: CsrGraph, sources: np.ndarray, options: SolveOptions) -> Solution:
        """Return exact distances from each of `sources`, in the type of the weights and added in that type.

        Parameters
        ----------
        sources
            (S,) integers; a source may occur twice.

        Returns
        -------
        Solution
            Everything in host memory, owned by the caller; the bits do not depend on the solver.

        Raises
        ------
        InputError
            The graph or the options are not supported; a source or a target is not in the graph; a shortest path
            within the cutoff is longer than the type holds.
        SsspError
            A source took longer than the deadline.
        """
        if (reason := self.supports(graph.traits, options)) is not None:
            raise InputError(f"solver `{self.name}` cannot solve this: {reason}", hint=ANOTHER_SOLVER)
        sources = checked_vertices(sources, graph.n_vertices, "source")
        kept = options.kept.checked(graph.n_vertices)
        if graph.traits.min_weight < 0 and not self.takes_negative:
            return reweighting.solve(self, graph, sources, replace(options, kept=kept))
        _compile(type(self), graph.weight_dtype, graph.traits.min_weight < 0)
        search = self.start(graph, options)
        distances = np.empty((len(sources), kept.n_columns(graph.n_vertices)), kept.dtype(graph.weight_dtype))
        row = np.empty(0 if kept.is_whole_row else graph.n_vertices, graph.weight_dtype)
        metrics = []
        for source, into in zip(sources, distances, strict=True):
            if kept.is_whole_row:
                metrics.append(self.solve_source(graph, search, int(source), into, options))
            else:
                metrics.append(self.solve_source(graph, search, int(source), row, options))
                kept.reduce(row, into)
        if not options.predecessors:
            return Solution(distances, None, metrics)
        predecessors = np.empty(distances.shape, np.uint32)
        for i, source in enumerate(sources):
            predecessors_of(graph, int(source), distances[i], predecessors[i])
        return Solution(distances, predecessors, metrics)

    def solve_source(
        self, graph: CsrGraph, search: Search, source: int, distances: np.ndarray, options: SolveOptions
    ) -> SourceMetrics:
        """Fill the row `distances` from `source` and return the metrics; raises as `solve` does."""
        began = time.perf_counter()
        distances.fill(search_limit(graph, options.cutoff))
        processed, edges_relaxed = search.run(as_searched(graph, distances), source)
        facts = finish_row(graph, source, distances, options.cutoff)
        solve_s = time.perf_counter() - began
        if solve_s > options.deadline_s:
            raise DeadlineError(self.name, int(source), options.deadline_s)
        return SourceMetrics(
            source=source,
            solver=self.name,
            solve_s=solve_s,
            vertices_processed=processed,
            edges_relaxed=edges_relaxed,
            reached=facts.reached,
            max_distance=facts.max_distance,
            mean_distance=facts.mean_distance,
            teps=facts.edges_of_reached / solve_s,
            delta_first=search.delta,
            delta_last=search.delta,
        )


@cache
def _compile(solver: type[CpuSolver], dtype: np.dtype, signed: bool) -> None:
    """Compile every kernel for `dtype`, so that the time of the first source does not include it."""
    weight = np.array([-1 if signed else 1]).astype(dtype)
    one_edge = CsrGraph(np.array([0, 1, 1]), np.array([1], np.uint32), weight)
    options = SolveOptions()
    search = solver().start(one_edge, options)
    solver().solve_source(one_edge, search, 0, np.empty(2, dtype), options)
