"""What the CPU solvers share: everything around the search from one source.

A solver here is a `search` over one row of distances. This module checks the request, gives each source a row,
times it, counts what came of it, and refuses a shortest path that the type cannot hold.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from functools import cache
from typing import Any

import numpy as np
from numba import njit

from sssp_pipeline.csr import CsrGraph, GraphTraits, unreached_distance, wider_dtype
from sssp_pipeline.errors import InputError, PathTooLongError
from sssp_pipeline.kernels._mean import mantissa_bits, mean_distance, sums
from sssp_pipeline.kernels._numba import ONE, ZERO
from sssp_pipeline.kernels._views import SearchGraph, distance_limit, largest_distance, unsigned
from sssp_pipeline.kernels.predecessors import predecessors_of
from sssp_pipeline.kernels.solver import Solution, SolveOptions, SourceMetrics
from sssp_pipeline.kernels.tuning import Tunable


class Search(ABC):
    """A search that is run from one source after another; it owns its scratch memory and serves one thread."""

    #: Bucket width, or None without buckets.
    delta: float | None = None

    @abstractmethod
    def run(self, distances: np.ndarray, source: int) -> tuple[int, int]:
        """Lower `distances` to the true ones; return vertices processed and edges relaxed.

        Parameters
        ----------
        distances
            (V,), unsigned or floating, every entry the distance limit: only paths shorter than that are found.
        """


class CpuSolver(ABC):
    """A solver on the host: one source after another in the calling thread, with the GIL released."""

    name: str
    device = "cpu"
    summary: str
    tunables: tuple[Tunable, ...] = ()

    def supports(self, graph: GraphTraits, options: SolveOptions) -> str | None:
        """Return None, or the reason why not: negative weights, or a trace."""
        if graph.min_weight < 0:
            return f"it needs weights of zero or more, and the smallest is {graph.min_weight}"
        return options.no_trace

    @abstractmethod
    def start(self, graph: CsrGraph, options: SolveOptions) -> Search:
        """Return a search over `graph` with scratch memory of its own."""

    def solve(self, graph: CsrGraph, sources: np.ndarray, options: SolveOptions) -> Solution:
        """Return exact distances from each of `sources`, in the type of the weights and added in that type.

        Parameters
        ----------
        sources
            (S,) integers; a source may stand there twice.

        Returns
        -------
        Solution
            Everything in host memory, owned by the caller; the bits do not depend on the solver.

        Raises
        ------
        InputError
            The graph or the options are not supported; a source or a target is not in the graph; a shortest path
            within the cutoff is longer than the type holds.
        """
        if (reason := self.supports(graph.traits, options)) is not None:
            raise InputError(f"solver `{self.name}` cannot solve this: {reason}")
        sources = checked_vertices(sources, graph.n_vertices, "source")
        targets = checked_targets(options, graph.n_vertices)
        _compile(type(self), graph.weight_dtype)
        search = self.start(graph, options)
        if targets is not None:
            return self._solve_to(graph, search, sources, targets, options)
        distances = np.empty((len(sources), graph.n_vertices), graph.weight_dtype)
        metrics = [
            self.solve_source(graph, search, int(source), row, options)
            for source, row in zip(sources, distances, strict=True)
        ]
        if not options.predecessors:
            return Solution(distances, None, metrics)
        predecessors = np.empty(distances.shape, np.uint32)
        for i, source in enumerate(sources):
            predecessors_of(graph, int(source), distances[i], predecessors[i])
        return Solution(distances, predecessors, metrics)

    def _solve_to(
        self,
        graph: CsrGraph,
        search: Search,
        sources: np.ndarray,
        targets: np.ndarray,
        options: SolveOptions,
    ) -> Solution:
        """Return the distances from each of `sources` to each of `targets`, holding one whole row at a time."""
        row = np.empty(graph.n_vertices, graph.weight_dtype)
        distances = np.empty((len(sources), len(targets)), graph.weight_dtype)
        metrics = []
        for source, some in zip(sources, distances, strict=True):
            metrics.append(self.solve_source(graph, search, int(source), row, options))
            np.take(row, targets, out=some)
        return Solution(distances, None, metrics)

    def solve_source(
        self, graph: CsrGraph, search: Search, source: int, distances: np.ndarray, options: SolveOptions
    ) -> SourceMetrics:
        """Fill the row `distances` from `source`, timing it; raises as `solve` does for a path too long."""
        began = time.perf_counter()
        limit = distance_limit(graph.weight_dtype, options.cutoff)
        unreached = unreached_distance(graph.weight_dtype)
        row = unsigned(distances)
        distances.fill(limit)
        processed, edges_relaxed = search.run(row, source)
        reached, furthest, edges_of_reached = _summarise(
            graph.row_offsets.view(np.uint64), row, row.dtype.type(limit), row.dtype.type(unreached)
        )
        if options.cutoff is None or options.cutoff > largest_distance(graph.weight_dtype):
            _refuse_overflow(graph, source, row, furthest)
        mean = _mean(distances, row.dtype.type(furthest), reached)
        solve_s = time.perf_counter() - began
        return SourceMetrics(
            source=source,
            solver=self.name,
            solve_s=solve_s,
            vertices_processed=processed,
            edges_relaxed=edges_relaxed,
            reached=reached,
            max_distance=furthest,
            mean_distance=mean,
            teps=edges_of_reached / solve_s,
            delta_first=search.delta,
            delta_last=search.delta,
        )


@cache
def _compile(solver: type[CpuSolver], dtype: np.dtype) -> None:
    """Have every kernel compiled for `dtype`, lest the first source be charged with it."""
    one_vertex = CsrGraph(np.zeros(2, np.int64), np.empty(0, np.uint32), np.empty(0, dtype))
    options = SolveOptions()
    search = solver().start(one_vertex, options)
    solver().solve_source(one_vertex, search, 0, np.empty(1, dtype), options)


def checked_vertices(vertices: np.ndarray, n_vertices: int, what: str) -> np.ndarray:
    """Return `vertices`, each of which is a `what`, as (n,) uint32.

    Raises
    ------
    InputError
        They are not a list of integers, or one of them is not a vertex.
    """
    vertices = np.asarray(vertices)
    if vertices.ndim != 1 or (len(vertices) and vertices.dtype.kind not in "iu"):
        raise InputError(
            f"{what}s are {vertices.ndim}-dimensional {vertices.dtype}, wanted a list of integers"
        )
    outside = np.flatnonzero((vertices < 0) | (vertices >= n_vertices))
    if len(outside):
        raise InputError(
            f"{what} {vertices[outside[0]]} is not in the graph",
            hint=f"its {n_vertices} vertices are numbered from 0",
        )
    return vertices.astype(np.uint32)


def checked_targets(options: SolveOptions, n_vertices: int) -> np.ndarray | None:
    """Return the targets as (T,) uint32, None for every vertex; raises as `checked_vertices`."""
    return None if options.targets is None else checked_vertices(options.targets, n_vertices, "target")


def _mean(distances: np.ndarray, furthest: np.generic, reached: int) -> float:
    """Return the mean of the `reached` distances of a row, of which `furthest` is the largest."""
    dtype = distances.dtype
    bits = f"u{dtype.itemsize}"
    largest = furthest.view(bits)
    unreached = unreached_distance(dtype).view(bits)
    lower, upper = sums(distances.view(bits), unreached, largest, np.uint64(mantissa_bits(dtype)))
    return mean_distance(dtype, lower, upper, int(largest), reached)


def _refuse_overflow(graph: CsrGraph, source: int, row: np.ndarray, furthest: float) -> None:
    """Raise `InputError` if a vertex is left unreached only because its distance does not fit the type."""
    dtype = graph.weight_dtype
    if furthest + graph.traits.max_weight <= largest_distance(dtype):
        return  # no sum that was ever formed can have been too large
    view = SearchGraph.of(graph)
    unreached = row.dtype.type(unreached_distance(dtype))
    vertex = _reachable_but_unreached(view.row_offsets, view.col_indices, row, unreached)
    if vertex < 0:
        return
    wider = wider_dtype(dtype)
    raise PathTooLongError(source, vertex, dtype.name, wider.name if wider else None)


@njit(nogil=True, cache=True)
def _summarise(row_offsets: np.ndarray, distances: np.ndarray, limit: Any, unreached: Any) -> Any:
    """Write `unreached` over `limit`; return the vertices reached, their largest distance and their edges."""
    reached = 0
    edges = ZERO
    furthest = distances.dtype.type(0)
    for v in range(np.uint64(len(distances))):
        d = distances[v]
        if d < limit:
            reached += 1
            edges += row_offsets[v + ONE] - row_offsets[v]
            furthest = max(furthest, d)
        else:
            distances[v] = unreached
    return reached, furthest, edges


@njit(nogil=True, cache=True)
def _reachable_but_unreached(
    row_offsets: np.ndarray, col_indices: np.ndarray, distances: np.ndarray, unreached: Any
) -> int:
    """Return a vertex that is unreached at the end of a reached vertex's edge, or -1."""
    for u in range(np.uint64(len(distances))):
        if distances[u] < unreached:
            for e in range(row_offsets[u], row_offsets[u + ONE]):
                if distances[col_indices[e]] == unreached:
                    return int(col_indices[e])
    return -1
