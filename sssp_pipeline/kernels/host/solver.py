"""The class of all solvers: the checks of a request before the search, and the predecessors after it."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from sssp_pipeline.base.csr import CsrGraph, GraphTraits
from sssp_pipeline.base.error_text import Text, key
from sssp_pipeline.base.errors import InputError, did_you_mean
from sssp_pipeline.kernels.contract.forecast import Forecast
from sssp_pipeline.kernels.contract.kept import checked_vertices
from sssp_pipeline.kernels.contract.path_sums_asked import RowSums
from sssp_pipeline.kernels.contract.solver import Parts, Solution, SolveOptions, SourceMetrics
from sssp_pipeline.kernels.contract.tunable import Tunable, shown_value
from sssp_pipeline.kernels.host import reweighting
from sssp_pipeline.kernels.host.accumulator import Accumulator
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.kernels.host.predecessors import predecessors_of
from sssp_pipeline.kernels.host.second_costs import are_for_gpus, solved_along

#: The hint when a solver refuses a graph or options.
ANOTHER_SOLVER = Text(
    key("solve.solver", "auto"), " takes a solver that can; `sssp-pipeline solvers` lists all"
)


class Solver(ABC):
    """An exact shortest-path solver, registered once, in `kernels/registry.py`.

    A subclass computes rows of distances in `_solved`. The checks before it and the predecessors after it are here.
    """

    name: str
    #: "cpu" or "gpu".
    device: Literal["cpu", "gpu"]
    #: One line for the command line and the docs.
    summary: str
    #: The options of its constructor, which takes them by keyword.
    tunables: tuple[Tunable, ...] = ()
    #: Whether its search takes negative weights. Without, integers are reweighted (`reweighting.py`).
    takes_negative = False
    #: Whether it needs a hierarchy (`kernels/hierarchy/`). `auto` takes it only where one is stored, or pays.
    uses_hierarchy = False
    #: Whether a call goes through the graph for all its sources together. So what it takes hardly depends on how much a
    #: source reaches.
    unites_sources = False
    #: Whether it computes the weights of the arcs itself, so that the order and the arcs are enough.
    weighs_arcs = False
    #: Whether it can sum along the paths of its rows.
    sums_rows = True
    #: Whether `_solved` sums second costs itself where `sums_costs_of` is true. Others leave them to the host.
    sums_costs = False
    #: Whether it can sum along paths over the arcs of the hierarchy.
    sums_on_arcs = False
    #: Whether it takes only graphs whose weights are all equal.
    takes_equal_only = False
    #: Whether it reproduces a paper and is no faster than the others. `auto` neither takes nor tries it.
    is_exhibit = False
    #: Whether `edges_relaxed` counts arcs of a hierarchy, which may be fewer than the edges of the graph.
    counts_arcs = False
    #: Whether `GraphTraits.pace` holds for it on a CPU: what slows other searches from one source slows it as much.
    keeps_pace = True
    #: Whether it records traces.
    records_traces = False
    #: Why it takes no delta; None if it takes one.
    no_delta: str | None = None
    #: Whether `_solved` takes several parts if something is accumulated over the sources of each.
    accumulates_parts = False
    #: Whether `_solved` can leave rows in `SolveOptions.into` on a GPU.
    leaves_rows = False
    #: Allocates the rows that a call returns, from their shape and their type.
    empty_rows: Callable[[tuple[int, int], np.dtype], np.ndarray] = staticmethod(np.empty)

    def supports(self, graph: GraphTraits, options: SolveOptions) -> str | None:
        """Return None, or the reason why this solver cannot solve such a graph with these options.

        It does not check for a GPU, since the solver may run on another machine.
        """
        if options.into is not None and not (self.leaves_rows or isinstance(options.into, np.ndarray)):
            return "it makes distances in host memory, and they are to stay on the GPU"
        if options.into is not None and graph.min_weight < 0:
            return "distances of negative weights are finished on the CPU, and they are to stay on the GPU"
        if self.no_delta is not None and options.delta is not None:
            return f"{self.no_delta}, and delta is {options.delta}"
        if options.kept.paths is not None:
            if (reason := options.kept.paths.refusal(graph)) is not None:
                return reason
            if self.device == "gpu" and not options.kept.paths.is_for_gpus:
                return "solvers on a GPU take no trips"
            if not self.sums_rows:
                return "it cannot sum along the shortest paths"
            if options.kept.paths.on_hierarchy and not self.sums_on_arcs:
                return "it sums along rows of distances, and this run sums over a hierarchy"
            if options.kept.paths.on_hierarchy and options.kept.paths.on_gpu != (self.device == "gpu"):
                of_run = "a GPU" if options.kept.paths.on_gpu else "a CPU"
                return f"this run sums over the hierarchy on {of_run}, whose last digits differ"
        if (reason := reweighting.refusal(graph, options, self.takes_negative)) is not None:
            return reason
        return None if self.records_traces else options.no_trace

    def passed_over(self, options: SolveOptions) -> str | None:
        """Return why `auto` should not take it for these options, which it supports; or None."""
        return None

    def missing(self) -> str | None:
        """Return why this solver cannot run on this machine, or None."""
        return None

    def yields_reached(self, graph: GraphTraits, options: SolveOptions) -> bool:
        """Return whether `solve_parts` makes no rows and gives `Solution.reached`, each part when it is yielded."""
        return False

    def sums_costs_of(self, graph: GraphTraits, dtypes: Sequence[np.dtype]) -> bool:
        """Return whether it sums second costs of these types on such a graph itself."""
        return self.sums_costs and are_for_gpus(graph, dtypes)

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
            Distances in host memory, pinned if a GPU made them, owned by the caller; or in `options.into`. The bits do
            not depend on the solver.

        Raises
        ------
        InputError
            The graph or the options are not supported; a source or a target is not in the graph; a shortest path
            within the cutoff is longer than the type holds; there is no GPU here for a GPU solver.
        SsspError
            A search was given up, by its deadline or by a barrier; or the GPU's memory is too small.
        """
        (whole,) = self.solve_parts(graph, sources, options, [len(sources)])
        return whole

    def solve_parts(
        self, graph: CsrGraph, sources: np.ndarray, options: SolveOptions, ends: Sequence[int]
    ) -> Parts:
        """Yield what `solve` returns, in parts: of the sources before each of `ends`, which rise up to S.

        A part is yielded as soon as it is there. The errors are the same as for `solve`.
        """
        if (reason := self.supports(graph.traits, options) or self.missing()) is not None:
            raise InputError(Text(f"solver `{self.name}` cannot solve this: ", reason), hint=ANOTHER_SOLVER)
        sources = checked_vertices(sources, graph.n_vertices, "source")
        options = replace(options, kept=options.kept.checked(graph.n_vertices))
        if options.along:
            if not self.sums_costs_of(graph.traits, [weights.dtype for weights in options.along]):
                yield from solved_along(self.solve_parts, graph, sources, options, ends, self._row_threads)
                return
            options = replace(options, row_facts=False, reached_only=False)
        if graph.traits.min_weight < 0 and not self.takes_negative:
            accumulates = options.kept.over_sources is not None
            for first, end in pairwise((0, *ends)) if accumulates else [(0, len(sources))]:
                accumulator = accumulator_of(graph, options)
                solution = reweighting.solve(self.solve, graph, sources[first:end], options, accumulator)
                yield from _with_words(solution, accumulator, None).parts(
                    [end - first] if accumulates else ends
                )
            return
        if options.kept.is_of_parts and not self.accumulates_parts and len(ends) > 1:
            for first, end in pairwise((0, *ends)):
                yield from self._solved(graph, sources[first:end], options, [end - first])
            return
        first = 0
        for part in self._solved(graph, sources, options, ends):
            end = first + len(part.distances)
            yield _with_predecessors(graph, sources[first:end], part) if options.predecessors else part
            first = end

    @property
    def _row_threads(self) -> int:
        """How many threads make what the host makes of whole rows. On a CPU, other calls have the other cores."""
        return usable_cores() if self.device == "gpu" else 1

    @abstractmethod
    def _solved(
        self, graph: CsrGraph, sources: np.ndarray, options: SolveOptions, ends: Sequence[int]
    ) -> Parts:
        """Do what `solve_parts` does, without predecessors. `sources` and `options.kept` are checked."""


@dataclass(frozen=True, eq=False)
class WholeCall:
    """A call that is solved as a whole; its arguments are checked."""

    graph: CsrGraph
    #: (S,) uint32, at least one.
    sources: np.ndarray
    #: (S, columns): what `options.kept` keeps of each row, not filled yet. Host memory, or `options.into`.
    distances: np.ndarray
    options: SolveOptions
    #: Gets every row; None if `options.kept` accumulates nothing over sources.
    accumulator: Accumulator | None
    #: Makes the sums along paths; None if there are none.
    path_sums: RowSums | None

    def reduce(self, row: np.ndarray, source: int, into: np.ndarray) -> float:
        """Write what is kept of `row` (V,) from `source` to `into` (columns,), and add it to the sums along paths.

        Return the seconds that the sums took. They are no part of the search, so metrics leave them out.
        """
        self.options.kept.reduce(row, into)
        if self.path_sums is None:
            return 0.0
        began = time.perf_counter()
        totals = self.path_sums.add(row[np.newaxis], np.array([source], np.uint32))[0]
        into[len(into) - len(totals) :] = totals.view(np.uint64)
        return time.perf_counter() - began


class WholeCalls(Solver):
    """A solver that has solved all sources of a call before it returns any."""

    def _solved(
        self, graph: CsrGraph, sources: np.ndarray, options: SolveOptions, ends: Sequence[int]
    ) -> Parts:
        shape = len(sources), options.kept.n_columns(graph.n_vertices)
        distances = options.into
        if distances is None:
            distances = self._rows(graph, shape, options.kept.dtype(graph.weight_dtype))
        accumulator = accumulator_of(graph, options)
        path_sums = self._path_sums(graph, options)
        call = WholeCall(graph, sources, distances, options, accumulator, path_sums)
        metrics = self._fill_rows(call) if len(sources) else []
        yield from _with_words(Solution(distances, None, metrics), accumulator, path_sums).parts(ends)

    def _path_sums(self, graph: CsrGraph, options: SolveOptions) -> RowSums | None:
        """Return what makes the sums along paths; None if there are none."""
        return options.kept.path_sums(graph)

    def _rows(self, graph: CsrGraph, shape: tuple[int, int], dtype: np.dtype) -> np.ndarray:
        """Return the rows of a call on `graph`, not filled yet."""
        return self.empty_rows(shape, dtype)

    @abstractmethod
    def _fill_rows(self, call: WholeCall) -> Sequence[SourceMetrics]:
        """Fill `call.distances` and return the metrics, both in the order of the sources."""


def accumulator_of(graph: CsrGraph, options: SolveOptions) -> Accumulator | None:
    """Return an accumulator for a part of a call; None if nothing is kept over sources."""
    over = options.kept.over_sources
    return None if over is None else Accumulator(over, graph.traits)


def _with_words(solution: Solution, accumulator: Accumulator | None, path_sums: RowSums | None) -> Solution:
    return replace(
        solution,
        over_sources=None if accumulator is None else accumulator.words,
        path_words=None if path_sums is None else path_sums.part_words,
    )


def _with_predecessors(graph: CsrGraph, sources: np.ndarray, solution: Solution) -> Solution:
    predecessors = np.empty(solution.distances.shape, np.uint32)
    for source, row, into in zip(sources.tolist(), solution.distances, predecessors, strict=True):
        predecessors_of(graph, source, row, into)
    return replace(solution, predecessors=predecessors)


def tuned(solver: Solver, given: Mapping[str, Any]) -> Solver:
    """Return `solver` with the options `given`; `solver` itself if there are none.

    Raises
    ------
    InputError
        The solver has no such option, the option cannot have this value, or two options contradict each other.
    """
    if not given:
        return solver
    tunables = {tunable.name: tunable for tunable in solver.tunables}
    for name, value in given.items():
        if name not in tunables:
            raise InputError(
                f"solver `{solver.name}` has no option `{name}`",
                hint=did_you_mean(name, sorted(tunables)) + "Options: " + ", ".join(sorted(tunables))
                if tunables
                else "it has no options",
            )
        if not tunables[name].takes(value):
            raise InputError(
                f"option `{name}` of solver `{solver.name}` is {shown_value(value)}",
                hint=f"it is {tunables[name].allowed}",
            )
    return type(solver)(**given)
