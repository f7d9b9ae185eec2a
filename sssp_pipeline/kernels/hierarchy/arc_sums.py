"""Sums along the shortest paths of a call over the hierarchy of its graph, for callers that have no rows.

`PathSums` makes the same sums over rows of distances, and its values differ by rounding. A batch is swept in groups
and unpacked once, so its words depend on its sources and their order only.
"""

from __future__ import annotations

import threading
import weakref

import numpy as np

from sssp_pipeline.base.csr import CsrGraph, largest_distance
from sssp_pipeline.base.error_text import Text, key
from sssp_pipeline.base.errors import UnsolvableError
from sssp_pipeline.kernels.contract.path_sums_asked import PathSumsAsked
from sssp_pipeline.kernels.hierarchy.shared import shared_hierarchy
from sssp_pipeline.kernels.hierarchy.sweeps.path_counts import PathCounts
from sssp_pipeline.kernels.hierarchy.sweeps.path_sweep import GROUP, PathSweep, spread
from sssp_pipeline.kernels.hierarchy.sweeps.region import no_distance_above
from sssp_pipeline.kernels.host.search import search_limit

_counts: weakref.WeakKeyDictionary[CsrGraph, PathCounts | str] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def shared_counts(graph: CsrGraph) -> PathCounts | str:
    """Return the numbers of paths of the hierarchy of `graph`, or why nothing is summed over it.

    The first call of this process makes them. It raises the errors of `shared_hierarchy`.
    """
    with _lock:
        if graph not in _counts:
            hierarchy = shared_hierarchy(graph)
            found: PathCounts | str | None
            if no_distance_above(hierarchy) > largest_distance(graph.weight_dtype):
                found = f"a path may be longer than {graph.weight_dtype} holds"
            else:
                found = PathCounts.of(graph, hierarchy)
            _counts[graph] = found or "an arc of the hierarchy has more than 2^1000 shortest paths"
        return _counts[graph]


def usable_counts(graph: CsrGraph) -> PathCounts:
    """Return the counts of `shared_counts`. It raises its errors, and `UnsolvableError` if there are none."""
    counts = shared_counts(graph)
    if isinstance(counts, str):
        raise _unsolvable(counts)
    return counts


def too_many_paths() -> UnsolvableError:
    """Return the error to raise if the paths from a source cannot be counted."""
    return _unsolvable("more than 2^1000 shortest paths lead from one source to a vertex")


class ArcSums:
    """The sums over the sources of a batch (`RowSums`); one thread at a time adds to it.

    It raises the errors of `usable_counts`.
    """

    def __init__(self, graph: CsrGraph, asked: PathSumsAsked, cutoff: float | None) -> None:
        counts = usable_counts(graph)
        self._graph, self._asked, self._counts = graph, asked, counts
        self._limit = counts.hierarchy.up.weights.dtype.type(search_limit(graph, cutoff))
        self._sweep = PathSweep(counts, asked)

    def add(self, rows: np.ndarray, sources: np.ndarray) -> np.ndarray:
        """Add what passes on the paths from `sources` (S,) uint32, and return the totals (S, T). `rows` are not read.

        Raises
        ------
        UnsolvableError
            There are too many paths from a source.
        """
        totals = np.empty((len(sources), 2))
        for first in range(0, len(sources), GROUP):
            group = slice(first, first + GROUP)
            if (found := self._sweep.add(sources[group], self._limit)) is None:
                raise too_many_paths()
            totals[group] = found
        return totals[:, [self._asked.vertices, self._asked.edges]]

    @property
    def part_words(self) -> np.ndarray:
        """Return the words (P, W) uint64 of all that was added."""
        return np.concatenate(spread(self._graph, self._counts, self._sweep.words(), self._asked))


def _unsolvable(why: str) -> UnsolvableError:
    hint = Text("set ", key("solve.hierarchy", "off"), " to sum along rows of distances")
    return UnsolvableError(f"nothing can be summed over the hierarchy: {why}", hint=hint)
