"""The part of a hierarchy that a sweep computes: all vertices, or the ancestors of some targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import NO_VERTEX
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.hierarchy.completion.arcs import Arcs
from sssp_pipeline.kernels.hierarchy.completion.customization import Hierarchy
from sssp_pipeline.kernels.hierarchy.completion.lanes import saturating_sum
from sssp_pipeline.kernels.hierarchy.completion.subtrees import firsts_of
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO


@dataclass(frozen=True, eq=False)
class Region:
    """The vertices that a sweep computes. Each has a row of lanes; rows are in rising rank."""

    #: (V,) uint32: the row of each rank, `NO_VERTEX` if it has none.
    rows: np.ndarray
    #: (R,) uint32: the rank of each row, and the first row in the subtree of its vertex.
    ranks: np.ndarray
    firsts: np.ndarray
    #: The arcs down between these vertices, which are named by their rows.
    down: Arcs
    #: (R,) uint32: how many edges of the graph leave each vertex.
    degrees: np.ndarray

    @property
    def is_whole(self) -> bool:
        return len(self.ranks) == len(self.rows)

    @classmethod
    def whole(cls, hierarchy: Hierarchy, degrees: np.ndarray) -> Region:
        """Return the region of all vertices; `degrees` (V,) are by rank."""
        n = hierarchy.completion.n_vertices
        every = np.arange(n, dtype=np.uint32)
        return cls(every, every, firsts_of(hierarchy.completion.parents), hierarchy.down, degrees)

    def of_targets(self, targets: np.ndarray) -> Region:
        """Return the part of this region, which is whole, that the distances to `targets` (T,) need, as ranks.

        These are the targets and all that their arcs lead to, and so on. It is this region if they are most of it.
        """
        is_needed = np.zeros(len(self.ranks), np.bool_)
        is_needed[targets] = True
        n_arcs = _find_needed(self.down.offsets, self.down.heads, is_needed)
        n_rows = int(np.count_nonzero(is_needed))
        if 2 * n_rows > len(self.ranks):
            return self
        before = np.zeros(len(self.ranks) + 1, np.uint32)
        np.cumsum(is_needed, out=before[1:])
        ranks = np.flatnonzero(is_needed).astype(np.uint32)
        rows = np.where(is_needed, before[:-1], NO_VERTEX)
        offsets = np.zeros(n_rows + 1, np.uint64)
        np.cumsum(np.diff(self.down.offsets)[ranks], out=offsets[1:])
        arcs = np.repeat(self.down.offsets[ranks] - offsets[:-1], np.diff(offsets).astype(np.int64))
        arcs += np.arange(n_arcs, dtype=np.uint64)
        down = Arcs(offsets, rows[self.down.heads[arcs]], self.down.weights[arcs])
        return Region(rows, ranks, before[self.firsts[ranks]], down, self.degrees[ranks])


def no_distance_above(hierarchy: Hierarchy) -> int:
    """Return a bound of all finite distances: the longest way up and the longest way down."""
    up = int(_longest_way(hierarchy.up))
    return up + (up if hierarchy.down is hierarchy.up else int(_longest_way(hierarchy.down)))


@njit(nogil=True)
def _longest_way(arcs: Arcs) -> Any:
    """Return the length of the longest way along arcs that all lead up, or all down; at most 2^64 - 1."""
    offsets, heads, weights = arcs
    n = np.uint64(len(offsets)) - ONE
    lengths = np.zeros(n, np.uint64)
    longest = ZERO
    for i in range(n):
        v = n - ONE - i
        for arc in range(offsets[v], offsets[v + ONE]):
            lengths[v] = max(lengths[v], saturating_sum(lengths[heads[arc]], np.uint64(weights[arc])))
        longest = max(longest, lengths[v])
    return longest


@njit(nogil=True)
def _find_needed(offsets: np.ndarray, heads: np.ndarray, is_needed: np.ndarray) -> Any:
    """Mark what the arcs of marked vertices lead to, and so on; return how many arcs they have."""
    n_arcs = ZERO
    for v in range(np.uint64(len(is_needed))):
        if is_needed[v]:
            n_arcs += offsets[v + ONE] - offsets[v]
            for arc in range(offsets[v], offsets[v + ONE]):
                is_needed[heads[arc]] = True
    return n_arcs
