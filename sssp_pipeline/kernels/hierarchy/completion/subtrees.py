"""Divides an elimination tree among threads: ranges of ranks with whole subtrees, and the vertices above them.

All arcs of a vertex lead to its ancestors. So what is done for the vertices of a subtree can be done by one thread,
beside other threads with other subtrees. The vertices above all ranges come last, or first on the way down.

The results do not depend on the division, so they do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import NO_VERTEX
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.host.kernel_threads import KernelThreads
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO, atomic_add

#: Ranges for each thread. With more, threads end at about the same time, but one thread has more vertices above the
#: ranges: on a triangulation 8 ranges made that a third of the work, 2 a tenth.
_PER_THREAD = 2


def firsts_of(parents: np.ndarray) -> np.ndarray:
    """Return the least vertex (V,) uint32 of the subtree of each vertex; `parents` (V,) are in postorder."""
    firsts = np.arange(len(parents), dtype=np.uint32)
    _lower_firsts(parents, firsts)
    return firsts


def depths_of(parents: np.ndarray) -> np.ndarray:
    """Return how many ancestors each vertex has, (V,) uint32; `parents` (V,) are in postorder."""
    depths = np.zeros(len(parents), np.uint32)
    _raise_depths(parents, depths)
    return depths


@dataclass(frozen=True, eq=False)
class Division:
    """Which vertices of an elimination tree belong to which range."""

    #: (R, 2) uint64: each range has the ranks from the first number up to the second, without it.
    ranges: np.ndarray
    #: (T,) uint32: the vertices above all ranges, rising.
    tops: np.ndarray
    #: (V,) uint32: the top at or above each vertex, the lowest one; `NO_VERTEX` if there is none.
    tops_above: np.ndarray
    threads: KernelThreads

    @classmethod
    def of(cls, parents: np.ndarray, costs: np.ndarray, n_threads: int) -> Division:
        """Return a division for `n_threads`.

        Parameters
        ----------
        parents
            (V,) uint32, in postorder.
        costs
            (V,) uint64: how much work a vertex is.
        """
        before = np.zeros(len(parents) + 1, np.uint64)
        np.cumsum(costs, out=before[1:])
        most = before[-1] if n_threads == 1 else before[-1] // np.uint64(_PER_THREAD * n_threads)
        ranges = np.empty((len(parents), 2), np.uint64)
        tops_above = np.empty(len(parents), np.uint32)
        n_ranges = _divide(parents, firsts_of(parents), before, most, ranges, tops_above)
        every = np.arange(len(parents), dtype=np.uint32)
        return cls(ranges[:n_ranges].copy(), every[tops_above == every], tops_above, KernelThreads(n_threads))

    def run(self, part: Callable[[np.ndarray], Any]) -> list[Any]:
        """Return what `part` returns in each thread; its argument is for `next_range`."""
        taken = np.zeros(1, np.uint64)
        return self.threads.run(lambda _: part(taken))

    def run_evenly(self, sizes: np.ndarray, part: Callable[[Any, Any], Any]) -> None:
        """Run `part(first, end)` in each thread, so that the ranges of `sizes` (n,) have about the same sums."""
        before = np.cumsum(sizes, dtype=np.float64)
        shares = np.linspace(0, before[-1] if len(before) else 0, self.threads.size + 1)[1:-1]
        bounds = np.array([0, *np.searchsorted(before, shares), len(sizes)], np.uint64)
        self.threads.run(lambda i: part(bounds[i], bounds[i + 1]))


@njit(nogil=True)
def next_range(taken: np.ndarray, ranges: np.ndarray) -> Any:
    """Return the ends of a range that no thread has taken yet; two zeros if there is none."""
    i = atomic_add(taken, ZERO, ONE)
    return (ranges[i, ZERO], ranges[i, ONE]) if i < np.uint64(len(ranges)) else (ZERO, ZERO)


@njit(nogil=True)
def _lower_firsts(parents: np.ndarray, firsts: np.ndarray) -> None:
    for v in range(np.uint64(len(parents))):
        if parents[v] != NO_VERTEX:
            firsts[parents[v]] = min(firsts[parents[v]], firsts[v])


@njit(nogil=True)
def _raise_depths(parents: np.ndarray, depths: np.ndarray) -> None:
    n = np.uint64(len(parents))
    for behind in range(n):
        v = n - ONE - behind
        if parents[v] != NO_VERTEX:
            depths[v] = depths[parents[v]] + np.uint32(1)


@njit(nogil=True)
def _divide(
    parents: np.ndarray,
    firsts: np.ndarray,
    before: np.ndarray,
    most: Any,
    ranges: np.ndarray,
    tops_above: np.ndarray,
) -> Any:
    """Fill `ranges` with the largest subtrees that cost at most `most`, and return how many ranges there are.

    Neighbouring subtrees are one range if they cost at most `most` together.
    """
    n_ranges = ZERO
    end = np.uint64(len(parents))
    while end > ZERO:
        v = end - ONE
        first = np.uint64(firsts[v])
        if before[end] - before[first] > most:
            tops_above[v] = v
            end = v
            continue
        for u in range(first, end):
            tops_above[u] = parents[v]  # not in a range, since the largest subtrees are taken
        last = n_ranges - ONE
        if (
            n_ranges > ZERO
            and ranges[last, ZERO] == end
            and before[ranges[last, ONE]] - before[first] <= most
        ):
            ranges[last, ZERO] = first
        else:
            ranges[n_ranges, ZERO], ranges[n_ranges, ONE] = first, end
            n_ranges += ONE
        end = first
    return n_ranges
