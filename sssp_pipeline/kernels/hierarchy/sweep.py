"""Distances from several sources at once, by a climb and a sweep over a hierarchy.

Returns the distances of every source in the original order of the vertices, and what the metrics need.

The idea: some shortest path from a source goes up and then down (`customization.py`).

1. Climb: each source lowers the vertices on its path to the root of the elimination tree along the arcs up.
2. Sweep: in falling rank, each vertex gets the least sum of a distance of a higher neighbour and the arc down from it.
   That order is the same for all sources. So the distances of many sources, its lanes, lie side by side for each
   vertex, and vector instructions handle them together.
3. Copy: the rows of lanes become rows of vertices, in tiles.

Keeps
    I1. The row of a vertex is filled if it is on the path of a source to its root. The sweep writes other rows first.
    I2. No row is marked as filled between two calls.
    I3. Sums saturate, so a distance is exact below the largest value of its type (`customization.py`, I1).

References
----------
D. Delling, A. V. Goldberg, A. Nowatzyk, R. F. Werneck, "PHAST: hardware-accelerated shortest path trees", 2013.
J. Dibbelt, B. Strasser, D. Wagner, "Customizable contraction hierarchies", 2016, section 8.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sssp_pipeline.csr import NO_VERTEX
from sssp_pipeline.kernels.hierarchy.customization import Hierarchy
from sssp_pipeline.kernels.hierarchy.lanes import (
    LANES,
    MANY_BYTES,
    TILE,
    copy_tile,
    lower_lanes,
    lower_many_lanes,
    saturating_sum,
)
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO
from sssp_pipeline.numba_cache import njit

#: The most lanes of a sweep. More lanes share the reading of an arc, and take more memory.
MOST_LANES = 64
#: The most bytes of the rows of a sweep, unless the fewest lanes take more.
MOST_BYTES = 2**30
#: Bytes of a cache line.
_LINE = 64


def most_lanes(n_vertices: int, dtype: np.dtype) -> int:
    """Return the most lanes of a sweep over `n_vertices` vertices with distances of `dtype`."""
    n_lanes = MOST_LANES
    while n_lanes > int(LANES) and n_lanes * dtype.itemsize * n_vertices > MOST_BYTES:
        n_lanes //= 2
    return n_lanes


def n_lanes_for(n_sources: int) -> int:
    """Return the lanes of a sweep of up to `MOST_LANES` sources. A sweep of 48 would take longer than one of 64."""
    return next(n for n in (16, 32, MOST_LANES) if n >= n_sources)


@dataclass(frozen=True, eq=False)
class Swept:
    """Facts about each source of a sweep, (n,) each; a vertex is reached if its distance is below the limit."""

    #: int64: how many vertices are reached, and how many edges of the graph they have.
    reached: np.ndarray
    edges_of_reached: np.ndarray
    #: The largest distance.
    largest: np.ndarray
    #: uint64: the sums of the lower and of the upper 32 bits of the distances; both in the first for 32-bit types.
    lower: np.ndarray
    upper: np.ndarray
    #: int64: vertices from which the climb relaxed arcs, and these arcs.
    climbed: np.ndarray
    climbed_arcs: np.ndarray


class Sweep:
    """Scratch memory of the sweeps of one thread: up to `MOST_LANES` distances a vertex.

    After an error it must not be used again (I2).

    Parameters
    ----------
    hierarchy
        Shared by all threads.
    degrees
        (V,) uint32: the edges of each vertex of the graph, by rank.
    """

    def __init__(self, hierarchy: Hierarchy, degrees: np.ndarray) -> None:
        self._hierarchy, self._degrees = hierarchy, degrees
        #: The type of the distances, unsigned, and how many arcs a sweep relaxes.
        self.dtype, self.n_arcs = hierarchy.up.weights.dtype, len(hierarchy.down.heads)
        self._rows = np.empty(0, self.dtype)
        self._is_filled = np.zeros(hierarchy.completion.n_vertices, np.bool_)
        self._n_lanes = np.uint64(0)

    def reserve(self, n_sources: int) -> None:
        """Have memory for runs of up to `n_sources`."""
        size = len(self._is_filled) * n_lanes_for(n_sources)
        if size > len(self._rows):
            # A block of lanes that begins on a cache line takes no more lines than necessary.
            memory = np.empty(size + _LINE // self.dtype.itemsize, self.dtype)
            skipped = -memory.ctypes.data % _LINE // self.dtype.itemsize
            self._rows = memory[skipped : skipped + size]

    def run(self, sources: np.ndarray, limit: np.generic) -> Swept:
        """Compute the distances from `sources` (n,) uint32, and return the facts about those below `limit`."""
        tree, up, down = self._hierarchy.completion, self._hierarchy.up, self._hierarchy.down
        n_lanes = n_lanes_for(len(sources))
        self._n_lanes = np.uint64(n_lanes)
        climbed = np.zeros((2, n_lanes), np.int64)
        # A lane without a source would be unreached at every vertex, which takes longer than a source.
        in_lanes = np.pad(sources, (0, n_lanes - len(sources)), mode="edge")
        _climb(
            tree.ranks[in_lanes], tree.parents, up.offsets, up.heads, up.weights, self._n_lanes, self._rows,
            self._is_filled, climbed,
        )  # fmt: skip
        largest = np.zeros(n_lanes, self.dtype)
        sums = np.zeros(2 * n_lanes, np.uint64)
        unreached = np.zeros((2, n_lanes), np.int64)
        _sweep(
            down.offsets, down.heads, down.weights, self._degrees, self._n_lanes, limit, self._rows,
            self._is_filled, largest, sums, unreached,
        )  # fmt: skip
        n = slice(0, len(sources))
        return Swept(
            len(self._degrees) - unreached[0, n],
            int(np.sum(self._degrees, dtype=np.int64)) - unreached[1, n],
            largest[n],
            sums[n],
            sums[n_lanes : n_lanes + len(sources)],
            climbed[0, n],
            climbed[1, n],
        )

    def copy(
        self,
        limit: np.generic,
        unreached: np.generic,
        first: int,
        into: np.ndarray,
        targets: np.ndarray | None = None,
    ) -> None:
        """Write the distances of the last run from the sources `first` to `first + n` to `into` (n, columns).

        Parameters
        ----------
        limit, unreached
            A distance of `limit` or more is written as `unreached`.
        first
            A multiple of `TILE`, or `n` is 1.
        targets
            (columns,) integers: the vertices of the columns; None for all vertices in their order.
        """
        ranks = self._hierarchy.completion.ranks
        of_columns = ranks if targets is None else ranks[targets]
        _copy(self._rows, of_columns, self._n_lanes, np.uint64(first), limit, unreached, into)


@njit(nogil=True)
def _climb(
    ranks: np.ndarray,
    parents: np.ndarray,
    offsets: np.ndarray,
    heads: np.ndarray,
    weights: np.ndarray,
    n_lanes: Any,
    rows: np.ndarray,
    is_filled: np.ndarray,
    climbed: np.ndarray,
) -> None:
    """Fill the rows of all vertices on the ways up; the source of rank `ranks[i]` has lane `i`."""
    unreached = ~weights.dtype.type(0)
    for lane in range(np.uint64(len(ranks))):
        v = ranks[lane]
        while v != NO_VERTEX and not is_filled[v]:  # I1: above a filled row, all are
            is_filled[v] = True
            start = np.uint64(v) * n_lanes
            for place in range(start, start + n_lanes):
                rows[place] = unreached
            v = parents[v]
        v = ranks[lane]
        rows[np.uint64(v) * n_lanes + lane] = 0
        n_vertices = n_arcs = ZERO
        while v != NO_VERTEX:
            here = np.uint64(v)
            d = rows[here * n_lanes + lane]
            if d != unreached:
                n_vertices += ONE
                n_arcs += offsets[here + ONE] - offsets[here]
                for arc in range(offsets[here], offsets[here + ONE]):
                    place = heads[arc] * n_lanes + lane
                    rows[place] = min(rows[place], saturating_sum(d, weights[arc]))
            v = parents[here]
        climbed[0, lane], climbed[1, lane] = n_vertices, n_arcs


@njit(nogil=True)
def _sweep(
    offsets: np.ndarray,
    heads: np.ndarray,
    weights: np.ndarray,
    degrees: np.ndarray,
    n_lanes: Any,
    limit: Any,
    rows: np.ndarray,
    is_filled: np.ndarray,
    largest: np.ndarray,
    sums: np.ndarray,
    unreached: np.ndarray,
) -> None:
    """Compute all rows, and count the vertices that a lane does not reach, and their edges."""
    n = np.uint64(len(degrees))
    many = MANY_BYTES // np.uint64(rows.itemsize)
    for i in range(n):
        v = n - ONE - i
        first, end = offsets[v], offsets[v + ONE]
        block = ZERO
        all_reached = True
        while block + many <= n_lanes:
            all_reached &= lower_many_lanes(
                rows, v, is_filled[v], n_lanes, block, heads, weights, first, end, limit, largest, sums
            )
            block += many
        while block < n_lanes:
            all_reached &= lower_lanes(
                rows, v, is_filled[v], n_lanes, block, heads, weights, first, end, limit, largest, sums
            )
            block += LANES
        if not all_reached:
            for lane in range(n_lanes):
                is_out = rows[v * n_lanes + lane] >= limit
                unreached[0, lane] += is_out
                unreached[1, lane] += is_out * np.int64(degrees[v])
        is_filled[v] = False


@njit(nogil=True)
def _copy(
    rows: np.ndarray,
    ranks: np.ndarray,
    n_lanes: Any,
    first: Any,
    limit: Any,
    unreached: Any,
    into: np.ndarray,
) -> None:
    """Write the lanes from `first` on of the row of rank `ranks[j]` to column `j` of `into`."""
    n_sources, n_columns = np.uint64(into.shape[0]), np.uint64(into.shape[1])
    in_tiles = n_columns - n_columns % TILE
    if n_sources == ONE:
        in_tiles = ZERO
    for column in range(ZERO, in_tiles, TILE):
        for lane in range(ZERO, n_sources, TILE):
            n_copied = min(n_sources - lane, TILE)
            copy_tile(rows, ranks, n_lanes, column, first, lane, n_copied, limit, unreached, into)
    for column in range(in_tiles, n_columns):
        for lane in range(n_sources):
            d = rows[np.uint64(ranks[column]) * n_lanes + first + lane]
            into[lane, column] = d if d < limit else unreached
