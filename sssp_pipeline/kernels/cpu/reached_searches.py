"""Searches that cost what they reach: no whole row is cleared, read or returned for a source.

The idea: one row serves all sources. Between two searches, all of it is unreached. A search lists the vertices that it
processes, and every reached vertex is among them. Their distances are taken out of the row, and the row is reset there.
The list has room for a small share of the vertices. After a search that processed more, the whole row is read: that
takes little beside such a search, and less than to sort a long list.
"""

from __future__ import annotations

import time
from functools import cached_property
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import CsrGraph, largest_distance
from sssp_pipeline.base.errors import DeadlineError
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.contract.reached import Reached
from sssp_pipeline.kernels.contract.solver import MetricsColumns, Solution, SolveOptions
from sssp_pipeline.kernels.host.mean import mantissa_bits, mean_distances, sums
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO
from sssp_pipeline.kernels.host.search import Search, finish_row, search_limit
from sssp_pipeline.kernels.host.search_graph import as_searched

#: The share of the vertices that a list has room for, and its least size. To sort such a list takes about as long as to
#: read the row.
_LISTED_SHARE, _LEAST_LISTED = 1 / 64, 64
#: No bits of a distance.
_NO_WORD = np.uint64(2**64 - 1)


class ReachedSearches:
    """Searches over a graph without negative weights; one thread calls it.

    Parameters
    ----------
    search
        It lists vertices (`Search.lists_vertices`).
    solver
        The name of the solver.
    """

    def __init__(self, graph: CsrGraph, search: Search, options: SolveOptions, solver: str) -> None:
        self._graph, self._search, self._options, self._solver = graph, search, options, solver
        limit, word = search_limit(graph, options.cutoff), f"u{graph.weight_dtype.itemsize}"
        row = np.full(graph.n_vertices, limit, graph.weight_dtype)
        self._row = as_searched(graph, row)
        # Only equal bits are compared below, so two kernels do for all types.
        self._words, self._missing = row.view(word), limit.view(word)
        self._largest = largest_distance(graph.weight_dtype)
        #: Whether a distance that the type cannot hold is beyond the cutoff.
        self._is_limited = options.cutoff is not None and options.cutoff <= self._largest
        search.listed = np.empty(max(_LEAST_LISTED, int(_LISTED_SHARE * len(row))), np.uint32)

    def solve(self, sources: np.ndarray) -> Solution:
        """Return what `sources` (S,) reach, and the metrics. It raises the errors of `Solver.solve`."""
        vertices = [np.empty(0, np.uint32)]
        words, facts, solve_s = [self._words[:0]], [], []
        for source in sources.tolist():
            began = time.perf_counter()
            processed, edges_relaxed = self._search.run(self._row, source)
            some = self._candidates(processed)
            found, at = np.empty(len(some), np.uint32), np.empty(len(some), self._words.dtype)
            reached, *summary = _take(
                self._words, self._missing, some, self._graph.row_offsets.view(np.uint64), found, at
            )
            vertices.append(found[:reached])
            words.append(at[:reached])
            self._refuse_too_long(source, words[-1])
            facts.append((processed, edges_relaxed, reached, *summary))
            solve_s.append(time.perf_counter() - began)
            if solve_s[-1] > self._options.deadline_s:
                raise DeadlineError(self._solver, source, self._options.deadline_s)
        counts = np.array(facts, np.uint64).reshape(len(facts), 5).T
        distances = np.concatenate(words)
        metrics = self._metrics(sources, counts, distances, np.array(solve_s))
        dtype = self._graph.weight_dtype
        reached_by = Reached(counts[2].astype(np.int64), np.concatenate(vertices), distances.view(dtype))
        return Solution(np.empty((len(sources), 0), dtype), None, metrics, reached=reached_by)

    def _candidates(self, processed: int) -> np.ndarray:
        """Return vertices (n,) uint32, rising, among which is every vertex that the last search reached."""
        if processed > len(self._search.listed):
            return self._every
        some = self._search.listed[:processed]
        some.sort()
        return some

    @cached_property
    def _every(self) -> np.ndarray:
        """All vertices."""
        return np.arange(len(self._row), dtype=np.uint32)

    def _refuse_too_long(self, source: int, words: np.ndarray) -> None:
        """Raise `PathTooLongError` if a vertex is unreached only because its distance does not fit the type."""
        if self._is_limited:
            return
        dtype = self._graph.weight_dtype
        if words.view(dtype).max().item() + self._graph.traits.max_weight <= self._largest:
            return
        # Rare: the search is done once more, as one that makes a row.
        self._search.run(self._row, source)
        finish_row(self._graph, source, self._words.view(dtype), self._options.cutoff)
        self._words.fill(self._missing)

    def _metrics(
        self, sources: np.ndarray, counts: np.ndarray, words: np.ndarray, solve_s: np.ndarray
    ) -> MetricsColumns:
        """Return what `finish_row` finds in each row, and the costs; `counts` (5, S) are those of `solve`."""
        processed, edges_relaxed, reached, edges_of_reached, furthest = counts
        dtype = self._graph.weight_dtype
        lower, upper = np.empty_like(reached), np.empty_like(reached)
        _sum_rows(words, reached, furthest, np.uint64(mantissa_bits(dtype)), lower, upper)
        return MetricsColumns(
            {
                "source": sources,
                "solver": self._solver,
                "solve_s": solve_s,
                "vertices_processed": processed,
                "edges_relaxed": edges_relaxed,
                "reached": reached,
                "max_distance": furthest.astype(words.dtype).view(dtype),
                "mean_distance": mean_distances(dtype, lower, upper, furthest, reached),
                "teps": edges_of_reached / solve_s,
                "delta_first": self._search.delta,
                "delta_last": self._search.delta,
                "delta_changes": 0,
                "supersteps": None,
                "filter_s": None,
                "trace": None,
            }
        )


@njit(nogil=True)
def _take(
    row: np.ndarray,
    missing: Any,
    candidates: np.ndarray,
    row_offsets: np.ndarray,
    vertices: np.ndarray,
    words: np.ndarray,
) -> Any:
    """Move what is reached out of `row`, in the order of `candidates`, of which some may stand twice.

    Returns how many vertices are reached, how many edges they have, and the largest word: the distances are at least
    zero, so their bits have their order.
    """
    reached, edges, furthest = ZERO, ZERO, ZERO
    for i in range(np.uint64(len(candidates))):
        v = candidates[i]
        word = row[v]
        if word == missing:
            continue
        vertices[reached], words[reached] = v, word
        row[v] = missing
        reached += ONE
        edges += row_offsets[np.uint64(v) + ONE] - row_offsets[v]
        furthest = max(furthest, np.uint64(word))
    return reached, edges, furthest


@njit(nogil=True)
def _sum_rows(
    words: np.ndarray,
    counts: np.ndarray,
    furthest: np.ndarray,
    mantissa: Any,
    lower: np.ndarray,
    upper: np.ndarray,
) -> None:
    """Write the `sums` of each source to `lower` and `upper` (S,); `counts` and `furthest` (S,) are of its words."""
    end = ZERO
    for i in range(np.uint64(len(counts))):
        begin = end
        end += counts[i]
        lower[i], upper[i] = sums(words[begin:end], _NO_WORD, furthest[i], mantissa, ZERO)
