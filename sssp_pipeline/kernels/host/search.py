"""Searches over a row of distances in host memory, and the counts and checks after a search."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np

from sssp_pipeline.base.csr import CsrGraph, distance_limit, largest_distance, unreached_distance, wider_dtype
from sssp_pipeline.base.errors import PathTooLongError
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.host.mean import mantissa_bits, mean_distance, sums
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO
from sssp_pipeline.kernels.host.search_graph import SearchGraph, as_searched


class Search(ABC):
    """A search from one source after another; it owns its scratch memory, and only one thread may call it."""

    #: Bucket width, or None without buckets.
    delta: float | None = None
    #: (n,) uint32. If the solver says that it lists vertices, `run` writes the first n vertices here that it processes.
    #: It processes every reached vertex, and some of them twice.
    listed: np.ndarray = np.empty(0, np.uint32)

    @abstractmethod
    def run(self, distances: np.ndarray, source: int) -> tuple[int, int]:
        """Lower `distances` to the true ones; return vertices processed and edges relaxed.

        Parameters
        ----------
        distances
            (V,), unsigned or floating. Every entry is the distance limit: only shorter paths are found.
        """


def search_limit(graph: CsrGraph, cutoff: float | None) -> np.generic:
    """Return the limit of a search: rows are filled with it, and only shorter paths are found.

    With negative weights it ignores the cutoff, since a path may leave the cutoff and come back.
    """
    return distance_limit(graph.weight_dtype, None if graph.traits.min_weight < 0 else cutoff)


class SearchResults(NamedTuple):
    """Results of a search; `edges_of_reached` counts the edges of reached vertices."""

    reached: int
    edges_of_reached: int
    max_distance: float
    mean_distance: float

    def results(self, solve_s: float) -> dict[str, Any]:
        """Return the fields of `SourceMetrics` that describe the results of a search of `solve_s` seconds."""
        fields = self._asdict()
        return {"teps": fields.pop("edges_of_reached") / solve_s, **fields}


def finish_row(graph: CsrGraph, source: int, distances: np.ndarray, cutoff: float | None) -> SearchResults:
    """Return the results of a search. Distances at its limit, or above the cutoff, become "unreached".

    Parameters
    ----------
    distances
        (V,) of the weights' type, from a search up to `search_limit`.

    Raises
    ------
    PathTooLongError
        A shortest path within the cutoff does not fit the type.
    """
    dtype = graph.weight_dtype
    row = as_searched(graph, distances)
    unreached = row.dtype.type(unreached_distance(dtype))
    row_offsets = graph.row_offsets.view(np.uint64)
    searched_to = row.dtype.type(search_limit(graph, cutoff))
    facts = _summarise(row_offsets, row, searched_to, unreached)
    if cutoff is None or cutoff > largest_distance(dtype) or graph.traits.min_weight < 0:
        refuse_overflow(graph, source, row, facts[1])
    limit = row.dtype.type(distance_limit(dtype, cutoff))
    if limit != searched_to:
        facts = _summarise(row_offsets, row, limit, unreached)
    reached, furthest, lowest, edges_of_reached = facts
    largest = max(furthest, -lowest) if dtype.kind == "f" else furthest
    mean = _mean(distances, row.dtype.type(largest), reached, graph.traits.min_weight < 0)
    return SearchResults(reached, edges_of_reached, furthest, mean)


def _mean(distances: np.ndarray, furthest: np.generic, reached: int, signed: bool) -> float:
    """Return the mean of the `reached` finite distances of a row; `furthest` is the largest magnitude."""
    dtype = distances.dtype
    bits = f"u{dtype.itemsize}"
    largest = furthest.view(bits)
    unreached = unreached_distance(dtype).view(bits)
    sign = np.uint64(signed) << np.uint64(8 * dtype.itemsize - 1)
    lower, upper = sums(distances.view(bits), unreached, largest, np.uint64(mantissa_bits(dtype)), sign)
    if signed and upper >= 2**63:
        upper -= 2**64
    return mean_distance(dtype, lower, upper, int(largest), reached)


def refuse_overflow(graph: CsrGraph, source: int, row: np.ndarray, furthest: float) -> None:
    """Raise `PathTooLongError` if a vertex is unreached only because its distance does not fit the type."""
    dtype = graph.weight_dtype
    if furthest + graph.traits.max_weight <= largest_distance(dtype):
        return  # then no sum of a distance and a weight was too large
    view = SearchGraph.of(graph)
    unreached = row.dtype.type(unreached_distance(dtype))
    vertex = _reachable_but_unreached(view, row, unreached)
    if vertex < 0:
        return
    raise path_error(PathTooLongError, dtype, source, vertex)


def path_error(
    kind: type[PathTooLongError], dtype: np.dtype, source: int | str, vertex: int | str
) -> PathTooLongError:
    """Return the error that the path from `source` to `vertex` does not fit `dtype`; it names the wider type."""
    wider = wider_dtype(dtype)
    return kind(source, vertex, dtype.name, wider.name if wider else None)


@njit(nogil=True)
def _summarise(row_offsets: np.ndarray, distances: np.ndarray, limit: Any, unreached: Any) -> Any:
    """Write `unreached` over distances from `limit` on.

    Returns the reached vertices, their largest and their least distance, and their edges.
    """
    reached = 0
    edges = ZERO
    furthest = lowest = distances.dtype.type(0)
    for v in range(np.uint64(len(distances))):
        d = distances[v]
        if d < limit:
            reached += 1
            edges += row_offsets[v + ONE] - row_offsets[v]
            furthest = max(furthest, d)
            lowest = min(lowest, d)
        else:
            distances[v] = unreached
    return reached, furthest, lowest, edges


@njit(nogil=True)
def _reachable_but_unreached(graph: SearchGraph, distances: np.ndarray, unreached: Any) -> int:
    """Return an unreached vertex into which an edge of a reached vertex leads, or -1."""
    row_offsets, col_indices, _ = graph
    for u in range(np.uint64(len(distances))):
        if distances[u] < unreached:
            for e in range(row_offsets[u], row_offsets[u + ONE]):
                if distances[col_indices[e]] == unreached:
                    return int(col_indices[e])
    return -1
