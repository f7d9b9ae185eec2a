"""Rows of distances for the functions of the backend: solved in batches, with the order and the paths of a search."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import networkx as nx
import numpy as np

from sssp_pipeline.api.calls.argument_names import naming, of_solve
from sssp_pipeline.api.calls.calls import Filling, solve_sources
from sssp_pipeline.api.distances.like_scipy import joined_to
from sssp_pipeline.base.csr import CsrGraph, unreached_distance
from sssp_pipeline.base.errors import NegativeCycleError
from sssp_pipeline.kernels.answers.reductions import LARGEST, REACHED, WITHIN, Reductions, total_distances
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.host.search_order import settled_order
from sssp_pipeline.networkx_backend.graphs import BackendGraph, WeightedGraph

#: Rows of the first batch. Each batch has twice as many as the one before, up to `_BATCH_BYTES`. So a caller that takes
#: the first rows only, or an error in the first row, does not wait for many.
_FIRST_ROWS = 4
_BATCH_BYTES = 2**26
#: The most sources of a batch that makes no rows.
_MOST_TOTALS = 2**14


@dataclass(eq=False)
class Row:
    """Distances from one source, or from the nearest of several."""

    of: BackendGraph
    weighted: WeightedGraph
    #: (S,) uint32, different vertices.
    sources: np.ndarray
    #: (V,) of the type of the weights.
    distances: np.ndarray
    #: (V,) uint32 of the solver; None stands for the predecessors that Dijkstra's algorithm of NetworkX finds.
    solver_predecessors: np.ndarray | None = None
    is_dijkstra: bool = True

    @cached_property
    def n_reached(self) -> int:
        return int(np.count_nonzero(self.distances != self.unreached))

    @cached_property
    def unreached(self) -> np.generic:
        return unreached_distance(self.distances.dtype)

    @cached_property
    def _unreached_item(self) -> int | float:
        return self.unreached.item()

    @cached_property
    def _source_set(self) -> set[int]:
        return set(self.sources.tolist())

    @cached_property
    def _settled(self) -> tuple[np.ndarray, np.ndarray]:
        return settled_order(self.weighted.graph, self.sources, self.distances)

    @cached_property
    def order(self) -> np.ndarray:
        """(n,) The reached vertices in the order of the search: the sources, and then by distance."""
        if self.is_dijkstra:
            return self._settled[0]
        by_distance = np.argsort(self.distances, kind="stable")[: self.n_reached].astype(np.uint32)
        return np.concatenate([self.sources, by_distance[by_distance != self.sources[0]]])

    @property
    def predecessors(self) -> np.ndarray:
        """(V,) uint32."""
        return self._settled[1] if self.solver_predecessors is None else self.solver_predecessors

    def reaches(self, vertex: int) -> bool:
        return self.distances.item(vertex) != self._unreached_item

    def length(self, vertex: int) -> int | float:
        """Return the distance of a reached vertex: an int for a source, and else of the type of the weights."""
        length = self.distances.item(vertex)
        return float(length) if self.weighted.is_float and vertex not in self._source_set else int(length)

    def lengths(self) -> dict[Any, int | float]:
        """Return the distance of each reached node, in the order of the search."""
        # The order of a search by Dijkstra's algorithm is by distance, so sorting is enough.
        found = self.ascending_lengths() if self.is_dijkstra else self._numbers(self.distances[self.order])
        if self.weighted.is_float:
            found[: len(self.sources)] = [0] * len(self.sources)
        return dict(zip(map(self.of.nodes.__getitem__, self.order.tolist()), found, strict=True))

    def ascending_lengths(self) -> list[int | float]:
        """Return the distances of the reached vertices, the smallest first; needs no order of vertices."""
        return self._numbers(np.sort(self.distances[self.distances != self.unreached]))

    def _numbers(self, distances: np.ndarray) -> list[int | float]:
        """Return distances (n,) as Python's numbers."""
        return (distances.astype(np.float64, copy=False) if self.weighted.is_float else distances).tolist()

    def path(self, vertex: int) -> list[Any]:
        """Return the nodes of a shortest path from a source to a reached vertex."""
        path = [vertex]
        while path[-1] not in self._source_set:
            path.append(int(self.predecessors[path[-1]]))
        return [self.of.nodes[vertex] for vertex in reversed(path)]

    def paths(self) -> dict[Any, list[Any]]:
        """Return the path to each reached node, in the order of the search."""
        order, predecessors, nodes = self.order.tolist(), self.predecessors.tolist(), self.of.nodes
        # Each path is a copy of the path to its predecessor with one more node, which takes less time than a walk back.
        made = {source: [nodes[source]] for source in self.sources.tolist()}
        for vertex in order:
            missing = []
            while vertex not in made:
                missing.append(vertex)
                vertex = predecessors[vertex]
            path = made[vertex]
            for following in reversed(missing):
                path = made[following] = [*path, nodes[following]]
        return {nodes[vertex]: made[vertex] for vertex in order}


def rows_from(
    of: BackendGraph,
    weighted: WeightedGraph,
    sources: Sequence[int] | np.ndarray,
    *,
    cutoff: float | None = None,
    bellman_ford: bool = False,
    predecessors: bool = False,
) -> Iterator[Row]:
    """Yield the row of each source; `predecessors` asks the solver for paths.

    Raises
    ------
    networkx.NetworkXUnbounded
        A source reaches a negative cycle. The rows of the sources before it are yielded first.
    """
    graph, limit = weighted.graph, _limit(weighted.graph, cutoff)
    if limit is not None and limit < 0:
        for source in sources:
            yield Row(of, weighted, np.array([source], np.uint32), _only(graph, [source]))
        return
    options = SolveOptions(cutoff=limit, predecessors=predecessors)
    most = max(1, _BATCH_BYTES // max(1, graph.n_vertices * graph.weight_dtype.itemsize))
    first, n_rows = 0, _FIRST_ROWS
    while first < len(sources):
        batch = np.array(sources[first : first + min(n_rows, most)], np.uint32)
        try:
            # A caller that takes the second batch most likely takes all rows.
            distances, before = _solved(graph, batch, options, len(sources) - first if first else 0)
        except nx.NetworkXUnbounded:
            if len(batch) == 1:
                raise
            n_rows = 1  # as in NetworkX, the rows before the one that fails come first
            continue
        for place in range(len(batch)):
            # A copy, since a caller who keeps one row would keep the whole batch.
            paths = None if before is None else before[place].copy()
            source = batch[place : place + 1].copy()
            yield Row(of, weighted, source, distances[place].copy(), paths, not bellman_ford)
        first, n_rows = first + len(batch), 2 * n_rows


class Totals(NamedTuple):
    """What the lengths of the shortest paths from a source come to."""

    n_reached: int
    total: int | float
    largest: int | float


def totals_from(weighted: WeightedGraph, sources: Sequence[int] | np.ndarray) -> Iterator[Totals]:
    """Yield what the distances of each source come to, without a row; `has_exact_totals` says for which graphs."""
    graph, first, n = weighted.graph, 0, _FIRST_ROWS
    while first < len(sources):
        batch = np.array(sources[first : first + n], np.uint32)
        words = np.empty((len(batch), WITHIN), np.uint64)
        take = Filling(words)
        with naming(of_solve):
            options, n_expected = SolveOptions(kept=Reductions()), len(sources) - first if first else 0
            solve_sources(graph, batch, options, "auto", take, n_expected=n_expected)
        totals = total_distances(words, graph.weight_dtype).tolist()
        yield from map(Totals, words[:, REACHED].tolist(), totals, words[:, LARGEST].tolist())
        first, n = first + len(batch), min(_MOST_TOTALS, 64 * n)


def has_exact_totals(weighted: WeightedGraph) -> bool:
    """Return whether lengths are integers whose sums no program rounds."""
    graph = weighted.graph
    return not weighted.is_float and graph.weight_dtype.itemsize <= 4 and graph.traits.min_weight >= 0


def row_from_nearest(
    of: BackendGraph, weighted: WeightedGraph, sources: Sequence[int], cutoff: float | None
) -> Row:
    """Return the distances from the nearest of `sources`, which are different vertices."""
    if len(sources) == 1:
        return next(rows_from(of, weighted, sources, cutoff=cutoff))
    starts, graph = np.array(sources, np.uint32), weighted.graph
    limit = _limit(graph, cutoff)
    if limit is not None and limit < 0:
        return Row(of, weighted, starts, _only(graph, sources))
    last = np.array([graph.n_vertices])
    distances, _ = _solved(joined_to(graph, starts), last, SolveOptions(cutoff=limit))
    return Row(of, weighted, starts, distances[0, :-1].copy())


def _solved(
    graph: CsrGraph, sources: np.ndarray, options: SolveOptions, n_expected: int = 0
) -> tuple[np.ndarray, np.ndarray | None]:
    shape = len(sources), graph.n_vertices
    distances = np.empty(shape, graph.weight_dtype)
    before = np.empty(shape, np.uint32) if options.predecessors else None
    take = Filling(distances, (before, lambda part: part.predecessors))
    try:
        with naming(of_solve):
            solve_sources(graph, sources, options, "auto", take, n_expected=n_expected)
    except NegativeCycleError:
        # Not from the error, which names vertices by their numbers here.
        raise nx.NetworkXUnbounded("Negative cycle detected.") from None
    return distances, before


def _limit(graph: CsrGraph, cutoff: float | None) -> float | None:
    """Return the largest length of the type of `graph` that is at most `cutoff`, or -1; None means no limit."""
    if cutoff is None or not cutoff < math.inf:  # NaN limits nothing in NetworkX
        return None
    if cutoff < 0:
        return -1
    if graph.weight_dtype.kind != "f":
        return math.floor(cutoff)
    try:
        limit = float(cutoff)
    except OverflowError:  # an integer beyond all floats
        return None
    return limit if limit <= cutoff else math.nextafter(limit, 0)


def _only(graph: CsrGraph, sources: Sequence[int]) -> np.ndarray:
    """Return distances with which nothing but `sources` is reached."""
    distances = np.full(graph.n_vertices, unreached_distance(graph.weight_dtype))
    distances[sources] = 0
    return distances
