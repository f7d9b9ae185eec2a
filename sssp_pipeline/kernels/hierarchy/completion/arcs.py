"""The arcs of a hierarchy that shortest paths need, in one direction."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.hierarchy.completion.arc_completion import Completion
from sssp_pipeline.kernels.hierarchy.completion.subtrees import Division
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO


class Arcs(NamedTuple):
    """The arcs of one direction that shortest paths need, in host memory; vertices are ranks.

    numba passes them like single arrays.
    """

    #: (V+1,) uint64: those with the lower end `v` are `offsets[v]:offsets[v + 1]`.
    offsets: np.ndarray
    #: (A,) uint32: their upper ends, rising.
    heads: np.ndarray
    #: (A,) uint32 or uint64: the distance in this direction; below the largest value.
    weights: np.ndarray

    @property
    def n_bytes(self) -> int:
        return self.offsets.nbytes + self.heads.nbytes + self.weights.nbytes


def marked_arcs(completion: Completion, weights: np.ndarray, keeps: np.ndarray, division: Division) -> Arcs:
    """Return the arcs that `keeps` (A,) bool marks, with their `weights` (A,)."""
    sizes, counts = np.diff(completion.arc_offsets), np.empty(completion.n_vertices, np.uint64)
    division.run_evenly(sizes, lambda *some: _count_marked(*some, completion.arc_offsets, keeps, counts))
    offsets = np.zeros(completion.n_vertices + 1, np.uint64)
    np.cumsum(counts, out=offsets[1:])
    marked = Arcs(offsets, np.empty(int(offsets[-1]), np.uint32), np.empty(int(offsets[-1]), weights.dtype))
    arcs = Arcs(completion.arc_offsets, completion.arc_heads, weights)
    division.run_evenly(sizes, lambda *some: _copy_marked(*some, arcs, keeps, marked))
    return marked


@njit(nogil=True)
def _count_marked(first: Any, end: Any, offsets: np.ndarray, keeps: np.ndarray, counts: np.ndarray) -> None:
    for v in range(first, end):
        count = ZERO
        for arc in range(offsets[v], offsets[v + ONE]):
            count += np.uint64(keeps[arc])
        counts[v] = count


@njit(nogil=True)
def _copy_marked(first: Any, end: Any, arcs: Arcs, keeps: np.ndarray, into: Arcs) -> None:
    offsets, heads, weights = arcs
    into_offsets, into_heads, into_weights = into
    for v in range(first, end):
        place = into_offsets[v]
        for arc in range(offsets[v], offsets[v + ONE]):
            if keeps[arc]:
                into_heads[place], into_weights[place] = heads[arc], weights[arc]
                place += ONE


@njit(nogil=True, inline="always")
def arc_between(low: Any, high: Any, offsets: np.ndarray, heads: np.ndarray) -> Any:
    """Return the arc from `low` to `high`, which exists; `offsets` and `heads` are those of the completion."""
    first, last = offsets[low], offsets[np.uint64(low) + ONE] - ONE
    while first < last:
        middle = (first + last) >> ONE
        if heads[middle] < high:
            first = middle + ONE
        else:
            last = middle
    return first
