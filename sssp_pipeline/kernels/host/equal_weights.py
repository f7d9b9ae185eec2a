"""Graphs whose weights are all equal: the distance of each depth of a breadth-first search, and what counts tell.

A shortest path has the fewest edges. So all vertices at one depth have one distance, and how many vertices a source has
at each depth tells every value of its row that does not depend on which vertices they are.
"""

from __future__ import annotations

import numpy as np

from sssp_pipeline.base.csr import CsrGraph, GraphTraits, largest_distance
from sssp_pipeline.kernels.contract.solver import MetricsColumns, SolveOptions
from sssp_pipeline.kernels.host.mean import mean_distances, sums_of_counts
from sssp_pipeline.kernels.host.search import refuse_overflow, search_limit
from sssp_pipeline.kernels.host.search_graph import as_searched
from sssp_pipeline.kernels.host.solver import Solver


def why_not_equal(traits: GraphTraits) -> str | None:
    """Return why no search by depth gives the distances of such a graph, or None."""
    if traits.n_edges == 0 or 0 < traits.min_weight == traits.max_weight:
        return None
    return f"it takes equal weights above 0, and they go from {traits.min_weight} to {traits.max_weight}"


class Depths:
    """The depths of searches from S sources, and how many vertices are new to each source at each of them.

    The distance at depth k is the sum of k weights, added one after the other in their type, as along a path.

    NOTE: the counts take 4 bytes for each source and depth, 2 kB a depth with 512 sources.
    """

    def __init__(self, graph: CsrGraph, options: SolveOptions) -> None:
        dtype = graph.weight_dtype
        self._dtype, self._weight = dtype, graph.weights[:1].sum(dtype=dtype)
        self._limit = search_limit(graph, options.cutoff)
        #: Whether a distance that the type cannot hold is beyond the cutoff.
        self.is_limited = options.cutoff is not None and options.cutoff <= largest_distance(dtype)
        self._distances: list[np.generic] = []
        self._counts: list[np.ndarray] = []

    @property
    def next_distance(self) -> np.generic | None:
        """The distance of the next depth, or None if it is not below the limit."""
        if not self._distances:
            return self._dtype.type(0)
        last = self._distances[-1]
        if self._dtype.kind == "f":
            with np.errstate(over="ignore"):
                found = last + self._weight
            return found if found < self._limit else None
        total = int(last) + int(self._weight)
        return self._dtype.type(total) if total < self._limit else None

    def add(self, counts: np.ndarray) -> np.generic:
        """Add the next depth, with `counts` (S,) uint32, and return its distance."""
        distance = self.next_distance
        assert distance is not None
        self._distances.append(distance)
        self._counts.append(counts)
        return distance

    @property
    def distances(self) -> np.ndarray:
        """The distance of each depth, (D,)."""
        return np.array(self._distances, self._dtype)

    @property
    def counts(self) -> np.ndarray:
        """How many vertices are new at each depth, (D, S) uint32."""
        return np.array(self._counts)

    def metrics(self) -> dict[str, np.ndarray]:
        """Return the fields (S,) of `SourceMetrics` that describe the results of the searches."""
        distances, counts = self.distances, self.counts
        bits, furthest, lower, upper = sums_of_counts(distances, counts)
        reached = counts.sum(axis=0, dtype=np.uint64)
        means = mean_distances(self._dtype, lower, upper, bits, reached)
        return {"reached": reached, "max_distance": furthest, "mean_distance": means}


def metrics_of_depths(
    depths: Depths, sources: np.ndarray, edges: np.ndarray, solve_s: float
) -> dict[str, np.ndarray]:
    """Return fields (S,) of the metrics of searches from `sources` (S,) that took `solve_s` together.

    `edges` (S,) has the edges of the vertices that each source reaches.
    """
    n, metrics = len(sources), depths.metrics()
    return {
        "source": sources,
        "solve_s": np.full(n, solve_s / n),
        # As each search would count that goes alone: in step, they share what they read.
        "vertices_processed": metrics["reached"],
        "edges_relaxed": edges,
        "teps": edges / (solve_s / n),
        "supersteps": (depths.counts > 0).sum(axis=0) - 1,
        **metrics,
    }


def joined_metrics(solver: str, parts: list[dict[str, np.ndarray]], order: np.ndarray) -> MetricsColumns:
    """Join the metrics of groups of sources. `order` (S,) has the places of the sources, group by group."""
    places = np.argsort(order)
    columns = {name: np.concatenate([part[name] for part in parts])[places] for name in parts[0]}
    same = {"solver": solver, "delta_first": None, "delta_last": None, "delta_changes": 0}
    return MetricsColumns({**columns, **same, "filter_s": None, "trace": None})


def targets_that_end(graph: CsrGraph, options: SolveOptions) -> np.ndarray | None:
    """Return the vertices at which a search may end, once all sources have reached them; None if all are needed.

    All are needed for metrics, for what is kept over sources, and to find a distance that is too long for the type.
    """
    kept = options.kept
    if options.metrics or kept.over_sources is not None or kept.read_vertices is None:
        return None
    largest = largest_distance(graph.weight_dtype)
    is_limited = options.cutoff is not None and options.cutoff <= largest
    fits = 2 * graph.n_vertices * graph.traits.max_weight <= largest
    return kept.read_vertices if is_limited or fits else None


def refuse_long_path(solver: Solver, graph: CsrGraph, source: int) -> None:
    """Raise `PathTooLongError`: `source` reaches vertices beyond the largest distance of the type."""
    options = SolveOptions(cutoff=largest_distance(graph.weight_dtype))
    solution = solver.solve(graph, np.array([source]), options)
    furthest = solution.metrics[0].max_distance
    refuse_overflow(graph, source, as_searched(graph, solution.distances[0]), furthest)
