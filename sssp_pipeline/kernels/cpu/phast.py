"""PHAST on a customizable contraction hierarchy: many sources at once, on graphs with small separators.

Returns the distances of every source, in the type of the weights.

The idea: the graph is prepared once (`kernels/hierarchy/`). Then one sweep over all vertices, in an order that does not
depend on the source, gives the distances from up to `MOST_LANES` sources. A sweep has no heap and no buckets, and its
inner loop is vector instructions.

Needs
    Integer weights of zero or more. A float would be a sum of shortcuts, added in another order than along the path.
Keeps
    The hierarchy of a graph and the scratch memory of its threads, for all calls of this process, as long as the graph
    lives.

NOTE: the metrics of a source count all vertices. So a sweep takes all of them even if few targets are wanted, unless
the caller wants no metrics. It skips parts of the graph that are beyond the cutoff of all its sources, or unreached.

References
----------
D. Delling, A. V. Goldberg, A. Nowatzyk, R. F. Werneck, "PHAST: hardware-accelerated shortest path trees", 2013.
J. Dibbelt, B. Strasser, D. Wagner, "Customizable contraction hierarchies", 2016.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial

import numpy as np

from sssp_pipeline.base.compile_children import wait_for
from sssp_pipeline.base.csr import CsrGraph, GraphTraits, largest_distance, unreached_distance
from sssp_pipeline.base.errors import DeadlineError
from sssp_pipeline.kernels.contract.forecast import Forecast
from sssp_pipeline.kernels.contract.kept import Nothing, Targets
from sssp_pipeline.kernels.contract.path_sums_asked import RowSums
from sssp_pipeline.kernels.contract.solver import SolveOptions, SourceMetrics
from sssp_pipeline.kernels.hierarchy.arc_sums import ArcSums
from sssp_pipeline.kernels.hierarchy.compile_ahead import SWEEPS
from sssp_pipeline.kernels.hierarchy.completion import costs
from sssp_pipeline.kernels.hierarchy.completion.customization import Hierarchy
from sssp_pipeline.kernels.hierarchy.shared import shared_hierarchy, why_not_solved
from sssp_pipeline.kernels.hierarchy.sweeps.path_sweep import GROUP
from sssp_pipeline.kernels.hierarchy.sweeps.region import Region, no_distance_above
from sssp_pipeline.kernels.hierarchy.sweeps.sweep import Sweep, Swept, most_lanes, n_lanes_for
from sssp_pipeline.kernels.hierarchy.sweeps.tiles import TILE
from sssp_pipeline.kernels.host.kept_with_graph import kept_with_graph
from sssp_pipeline.kernels.host.mean import mean_distance
from sssp_pipeline.kernels.host.row_memory import RowMemory
from sssp_pipeline.kernels.host.search import refuse_overflow, search_limit
from sssp_pipeline.kernels.host.search_graph import as_searched
from sssp_pipeline.kernels.host.solver import WholeCall, WholeCalls


@dataclass(frozen=True, eq=False)
class Prepared:
    """A graph and its hierarchy, shared by all threads."""

    hierarchy: Hierarchy
    #: All vertices.
    whole: Region
    #: The latest targets, as ranks, and the region that their distances need.
    targeted: list[tuple[np.ndarray, Region]] = field(default_factory=list)
    #: Scratch memory that no call uses now, and the memory of rows.
    idle: list[Sweep] = field(default_factory=list)
    rows: RowMemory = field(default_factory=RowMemory)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, graph: CsrGraph, hierarchy: Hierarchy) -> Prepared:
        """Return `graph` prepared with its `hierarchy`."""
        degrees = np.empty(graph.n_vertices, np.uint32)
        degrees[hierarchy.completion.ranks] = np.diff(graph.row_offsets)
        return cls(hierarchy, Region.whole(hierarchy, degrees))

    @cached_property
    def no_distance_above(self) -> int:
        """As the function of this name."""
        return no_distance_above(self.hierarchy)

    def region_of(self, targets: np.ndarray) -> Region:
        """Return the region that the distances to `targets` (T,) uint32 need; it is kept until others are given."""
        ranks = self.hierarchy.completion.ranks[targets]
        with self.lock:
            if not self.targeted or not np.array_equal(self.targeted[0][0], ranks):
                self.targeted[:] = [(ranks, self.whole.of_targets(ranks))]
            return self.targeted[0][1]

    @contextmanager
    def sweep(self, n_sources: int, region: Region) -> Iterator[Sweep]:
        """Give the calling thread scratch memory for sweeps of `n_sources` over `region`."""
        sweep = None
        with self.lock:
            wanted = (self.whole, *(of_targets for _, of_targets in self.targeted))
            self.idle[:] = [one for one in self.idle if one.region in wanted]
            places = [i for i, one in enumerate(self.idle) if one.region is region]
            if places:
                sweep = self.idle.pop(places[-1])
        if sweep is None:
            sweep = Sweep(self.hierarchy, region)
        sweep.reserve(n_sources)
        yield sweep
        self.idle.append(sweep)


@kept_with_graph
def prepared(graph: CsrGraph) -> Prepared:
    """Return `graph` prepared for sweeps. It raises the errors of `shared_hierarchy`."""
    hierarchy = shared_hierarchy(graph)
    wait_for(SWEEPS, hierarchy.up.weights.dtype)
    return Prepared.of(graph, hierarchy)


class Phast(WholeCalls):
    """The fastest CPU solver for many sources on graphs with small separators, once the graph is prepared."""

    name = "phast"
    device = "cpu"
    summary = (
        "Sweeps over a hierarchy, many sources at once; the fastest on roads from 250 sources on; integers"
    )
    no_delta = "it has no buckets and takes no delta"
    uses_hierarchy = True
    unites_sources = True
    keeps_pace = False
    counts_arcs = True
    sums_on_arcs = True

    def supports(self, graph: GraphTraits, options: SolveOptions) -> str | None:
        return (
            super().supports(graph, options)
            or why_not_solved(graph.weight_dtype, "delta-stepping")
            or costs.too_long(graph)
        )

    def forecast(self, traits: GraphTraits, n_sources: int) -> Forecast:
        at_once = most_lanes(traits.n_vertices, traits.weight_dtype)
        together = max(1, min(n_sources, at_once))
        share = n_lanes_for(together) / together
        itemsize = traits.weight_dtype.itemsize
        return Forecast(
            costs.sweep_s(traits) * itemsize / 4 * share,
            at_once=at_once,
            start_s=costs.left_s(traits),
            host_bytes=costs.host_bytes(traits),
            call_bytes=((n_lanes_for(together) + 1) * itemsize + 2) * traits.n_vertices,
            off_by=3.0 if traits.hierarchy is not None else 10.0,
        )

    def _rows(self, graph: CsrGraph, shape: tuple[int, int], dtype: np.dtype) -> np.ndarray:
        return prepared(graph).rows.empty(shape, dtype)

    def _path_sums(self, graph: CsrGraph, options: SolveOptions) -> RowSums | None:
        paths = options.kept.paths
        if paths is None or not paths.on_hierarchy:
            return super()._path_sums(graph, options)
        return ArcSums(graph, paths, options.cutoff)

    def _fill_rows(self, call: WholeCall) -> list[SourceMetrics]:
        if not isinstance(call.path_sums, ArcSums):
            return self._swept(call)
        metrics = self._swept(replace(call, path_sums=None))
        for first in range(0, len(call.sources), GROUP):
            rows, sources = call.distances[first : first + GROUP], call.sources[first : first + GROUP]
            began = time.perf_counter()
            totals = call.path_sums.add(rows, sources)
            if time.perf_counter() - began > call.options.deadline_s:
                what = f"sums over {len(sources)} sources"
                raise DeadlineError(self.name, what, call.options.deadline_s)
            rows[:, rows.shape[1] - totals.shape[1] :] = totals.view(np.uint64)
        return metrics

    def _swept(self, call: WholeCall) -> list[SourceMetrics]:
        graph, sources, options = call.graph, call.sources, call.options
        if graph.n_edges > 1:
            _compile(graph.weight_dtype)
        ready = prepared(graph)
        together = most_lanes(graph.n_vertices, graph.weight_dtype)
        region = ready.whole
        targets = None if options.metrics or call.accumulator is not None else options.kept.read_vertices
        if targets is not None and (
            _is_limited(graph, options) or ready.no_distance_above <= largest_distance(graph.weight_dtype)
        ):
            region = ready.region_of(targets)  # otherwise a distance that is too long could remain unseen
        metrics = []
        with ready.sweep(min(len(sources), together), region) as sweep:
            for first in range(0, len(sources), together):
                some = slice(first, first + together)
                of_sweep = replace(call, sources=sources[some], distances=call.distances[some])
                metrics += self._solve_together(of_sweep, sweep)
        return metrics

    def _solve_together(self, call: WholeCall, sweep: Sweep) -> list[SourceMetrics]:
        """Fill the rows of `call` by one sweep, and return the metrics. It raises the errors of `solve`."""
        graph, sources, options = call.graph, call.sources, call.options
        began = time.perf_counter()
        limit = sweep.dtype.type(search_limit(graph, options.cutoff))
        unreached = sweep.dtype.type(unreached_distance(graph.weight_dtype))
        swept = sweep.run(sources, limit)
        if sweep.region.is_whole and not _is_limited(graph, options):
            for lane in np.flatnonzero(swept.reached < graph.n_vertices).tolist():
                if int(swept.largest[lane]) + graph.traits.max_weight > largest_distance(graph.weight_dtype):
                    row = np.empty((1, graph.n_vertices), sweep.dtype)
                    sweep.copy(limit, unreached, lane, row)
                    refuse_overflow(graph, int(sources[lane]), row[0], int(swept.largest[lane]))
        sums_s = _keep(call, partial(sweep.copy, limit, unreached))
        solve_s = time.perf_counter() - began - sums_s
        if solve_s > options.deadline_s:
            raise DeadlineError(self.name, int(sources[0]), options.deadline_s)
        return self._metrics(graph, swept, sources, solve_s / len(sources))

    def _metrics(
        self, graph: CsrGraph, swept: Swept, sources: np.ndarray, solve_s: float
    ) -> list[SourceMetrics]:
        facts = (swept.reached, swept.edges_of_reached, swept.largest, swept.lower, swept.upper)
        climbs = (swept.climbed, swept.climbed_arcs)
        columns = [column.tolist() for column in (sources, *facts, *climbs)]
        return [
            SourceMetrics(
                source=source,
                solver=self.name,
                solve_s=solve_s,
                vertices_processed=swept.n_rows + climbed,
                edges_relaxed=swept.n_arcs + climbed_arcs,
                reached=reached,
                max_distance=largest,
                mean_distance=mean_distance(graph.weight_dtype, lower, upper, largest, reached),
                teps=edges / solve_s,
            )
            for source, reached, edges, largest, lower, upper, climbed, climbed_arcs in zip(
                *columns, strict=True
            )
        ]


def _is_limited(graph: CsrGraph, options: SolveOptions) -> bool:
    """Return whether a distance that the type cannot hold is beyond the cutoff."""
    return options.cutoff is not None and options.cutoff <= largest_distance(graph.weight_dtype)


def _keep(call: WholeCall, copy: Callable[..., None]) -> float:
    """Write what is kept of each row of the last sweep. Return the seconds that sums along paths took.

    `copy` is `Sweep.copy` without its limits.
    """
    graph, distances, kept, accumulator = call.graph, call.distances, call.options.kept, call.accumulator
    sums_s = 0.0
    if isinstance(kept, Nothing) or (call.path_sums is None and not kept.reads_rows):
        return sums_s
    into = as_searched(graph, distances) if kept.is_whole_row or isinstance(kept, Targets) else None
    targets = None if accumulator is not None else kept.read_vertices
    if into is not None:
        copy(0, into, targets)
        return sums_s
    row = np.empty(graph.n_vertices, graph.weight_dtype)
    n_columns = graph.n_vertices if targets is None else len(targets)
    rows = np.empty((int(TILE), n_columns), graph.weight_dtype)
    for first in range(0, len(distances), len(rows)):
        some = rows[: len(distances) - first]
        copy(first, as_searched(graph, some), targets)
        for source, found, into in zip(call.sources[first:].tolist(), some, distances[first:], strict=False):
            if targets is None:
                row = found
            else:
                row[targets] = found
            sums_s += call.reduce(row, source, into)
            if accumulator is not None:
                accumulator.add(row, source)
    return sums_s


@cache
def _compile(dtype: np.dtype) -> None:
    """Compile every kernel for `dtype`, so that the time of the first source does not include it."""
    one_edge = CsrGraph(np.array([0, 1, 1]), np.array([1], np.uint32), np.ones(1, dtype))
    Phast().solve(one_edge, np.array([0]), SolveOptions())
