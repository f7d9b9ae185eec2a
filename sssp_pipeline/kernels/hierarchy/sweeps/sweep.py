"""Distances from several sources at once, by a climb and a sweep over a hierarchy.

Returns the distances of every source in the original order of the vertices, and what the metrics need.

The idea: some shortest path from a source goes up and then down (`customization.py`).

1. Climb: each source lowers the vertices on its path to the root of the elimination tree along the arcs up.
2. Sweep: in falling rank, each vertex gets the least sum of a distance of a higher neighbour and the arc down from it.
   That order is the same for all sources. So the distances of many sources, its lanes, lie side by side for each
   vertex, and vector instructions handle them together.
3. Copy: the rows of lanes become rows of vertices (`tiles.py`).

Keeps
    I1. The row of a vertex is filled if it is on the path of a source to its root. The sweep writes other rows first.
    I2. Between two calls no row is marked as filled, and no vertex has a distance in the scratch memory of the climb.
    I3. Sums saturate, so a distance is exact below the largest value of its type (`customization.py`, I1).
    I4. Ways into the subtree of a vertex lead over this vertex or its upper neighbours, unless they begin inside. If
        all of them are beyond the limit and no source is inside, the whole subtree is. Then its rows are skipped: they
        keep old values, and the copy takes the row behind the last one, whose lanes are unreached.

References
----------
D. Delling, A. V. Goldberg, A. Nowatzyk, R. F. Werneck, "PHAST: hardware-accelerated shortest path trees", 2013.
J. Dibbelt, B. Strasser, D. Wagner, "Customizable contraction hierarchies", 2016, section 8.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import NO_VERTEX
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.hierarchy.completion.arcs import Arcs
from sssp_pipeline.kernels.hierarchy.completion.customization import Hierarchy
from sssp_pipeline.kernels.hierarchy.completion.lanes import (
    FACT_ROWS,
    LANES,
    MANY_BYTES,
    add_facts,
    lower_lanes,
    lower_many_lanes,
    saturating_sum,
)
from sssp_pipeline.kernels.hierarchy.sweeps.region import Region
from sssp_pipeline.kernels.hierarchy.sweeps.tiles import (
    LINE_BYTES,
    TILE,
    copy_line,
    finish_lines,
    past_line,
    turn_tile,
)
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO, prefetch_to_l2

#: The most lanes of a sweep. More lanes share the reading of an arc, and take more memory.
MOST_LANES = 64
#: The most bytes of the rows of a sweep, unless the fewest lanes take more.
MOST_BYTES = 2**30
#: How many rows ahead a sweep and a copy fetch. 16 to 64 took the same time.
_AHEAD: Any = np.uint64(32)
#: Columns that a copy collects before it writes them. Their rows and the buffer fit the first cache.
_COLUMNS: Any = np.uint64(32)
#: What a sweep knows of a row.
_NEAR, _BEYOND, _SKIPPED = (np.uint8(state) for state in range(3))


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
    #: uint64: two parts of the sum of the distances; the upper one counts 2^32 times.
    lower: np.ndarray
    upper: np.ndarray
    #: int64: vertices from which the climb relaxed arcs, and these arcs.
    climbed: np.ndarray
    climbed_arcs: np.ndarray
    #: How many vertices and arcs the sweep took.
    n_rows: int
    n_arcs: int


class Sweep:
    """Scratch memory of the sweeps of one thread: up to `MOST_LANES` distances a vertex.

    After an error it must not be used again (I2).

    Parameters
    ----------
    hierarchy, region
        Shared by all threads.
    """

    def __init__(self, hierarchy: Hierarchy, region: Region) -> None:
        self._hierarchy, self.region = hierarchy, region
        #: The type of the distances, unsigned.
        self.dtype = hierarchy.up.weights.dtype
        n_rows = len(region.ranks)
        ranks = hierarchy.completion.ranks
        self._columns = ranks if region.is_whole else region.rows[ranks]
        self._rows = np.empty(0, self.dtype)
        self._is_filled, self._states = np.zeros(n_rows, np.bool_), np.empty(n_rows, np.uint8)
        self._above = np.full(hierarchy.completion.n_vertices, np.iinfo(self.dtype).max, self.dtype)
        self._n_lanes = np.uint64(0)
        self._has_skipped = False

    def reserve(self, n_sources: int) -> None:
        """Have memory for runs of up to `n_sources`."""
        size = (len(self._is_filled) + 1) * n_lanes_for(n_sources)
        if size > len(self._rows):
            # A block of lanes that begins on a cache line takes no more lines than necessary.
            memory = np.empty(size + int(LINE_BYTES) // self.dtype.itemsize, self.dtype)
            skipped = -memory.ctypes.data % int(LINE_BYTES) // self.dtype.itemsize
            self._rows = memory[skipped : skipped + size]

    def run(self, sources: np.ndarray, limit: np.generic) -> Swept:
        """Compute the distances from `sources` (n,) uint32, and return the facts about those below `limit`."""
        region, up = self.region, self._hierarchy.up
        n_lanes = n_lanes_for(len(sources))
        self._n_lanes = np.uint64(n_lanes)
        climbed = np.zeros((2, n_lanes), np.int64)
        # A lane without a source would be unreached at every vertex, which takes longer than a source.
        in_lanes = np.pad(sources, (0, n_lanes - len(sources)), mode="edge")
        tree = self._hierarchy.completion
        _climb(
            tree.ranks[in_lanes], tree.parents, up, region.rows, self._n_lanes, self._above, self._rows,
            self._is_filled, climbed,
        )  # fmt: skip
        largest = np.zeros(n_lanes, self.dtype)
        sums, unreached = np.zeros(2 * n_lanes, np.uint64), np.zeros(2 * n_lanes, np.uint64)
        n_rows, n_arcs = _sweep(
            region.down, region.rows, region.ranks, region.firsts, tree.arc_offsets, tree.arc_heads, region.degrees,
            self._n_lanes, limit, self._rows, self._is_filled, self._states, largest, sums, unreached,
        )  # fmt: skip
        self._has_skipped = n_rows < len(region.ranks)
        if self._has_skipped:
            self._rows[len(region.ranks) * n_lanes :][:n_lanes] = np.iinfo(self.dtype).max
        first, second = slice(0, len(sources)), slice(n_lanes, n_lanes + len(sources))
        reached = len(region.ranks) - unreached[first].astype(np.int64)
        edges = int(np.sum(region.degrees, dtype=np.int64)) - unreached[second].astype(np.int64)
        facts = reached, edges, largest[first], sums[first], sums[second]
        return Swept(*facts, climbed[0, first], climbed[1, first], n_rows, n_arcs)

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
            (columns,) integers: the vertices of the columns, all of the region; None for all vertices in their order.
        """
        columns = self._columns if targets is None else self._columns[targets]
        if self._has_skipped:
            columns = np.where(self._states[columns] == _SKIPPED, np.uint32(len(self._states)), columns)
        _copy(self._rows, columns, self._n_lanes, np.uint64(first), limit, unreached, into)


@njit(nogil=True)
def _climb(
    ranks: np.ndarray,
    parents: np.ndarray,
    up: Arcs,
    rows_of: np.ndarray,
    n_lanes: Any,
    above: np.ndarray,
    rows: np.ndarray,
    is_filled: np.ndarray,
    climbed: np.ndarray,
) -> None:
    """Fill the rows of all vertices on the ways up; the source of rank `ranks[i]` has lane `i`."""
    offsets, heads, weights = up
    unreached = ~weights.dtype.type(0)
    for lane in range(np.uint64(len(ranks))):
        v = ranks[lane]
        above[v] = 0
        n_vertices = n_arcs = ZERO
        while v != NO_VERTEX:
            here = np.uint64(v)
            d = above[here]
            above[here] = unreached  # I2: arcs lead up, so it is final
            if d != unreached:
                n_vertices += ONE
                n_arcs += offsets[here + ONE] - offsets[here]
                for arc in range(offsets[here], offsets[here + ONE]):
                    head = heads[arc]
                    above[head] = min(above[head], saturating_sum(d, weights[arc]))
            row = rows_of[here]
            if row != NO_VERTEX:
                start = row * n_lanes
                if not is_filled[row]:
                    is_filled[row] = True
                    for place in range(start, start + n_lanes):
                        rows[place] = unreached
                rows[start + lane] = d
            v = parents[here]
        climbed[0, lane], climbed[1, lane] = n_vertices, n_arcs


@njit(nogil=True)
def _sweep(
    down: Arcs,
    rows_of: np.ndarray,
    ranks: np.ndarray,
    firsts: np.ndarray,
    arc_offsets: np.ndarray,
    arc_heads: np.ndarray,
    degrees: np.ndarray,
    n_lanes: Any,
    limit: Any,
    rows: np.ndarray,
    is_filled: np.ndarray,
    states: np.ndarray,
    largest: np.ndarray,
    sums: np.ndarray,
    unreached: np.ndarray,
) -> Any:
    """Compute all rows that may be near, and the facts about all. Return how many rows and arcs that took."""
    offsets, heads, weights = down
    many = MANY_BYTES // np.uint64(rows.itemsize)
    in_line = LINE_BYTES // np.uint64(rows.itemsize)
    n_rows = n_arcs = ZERO
    end = np.uint64(len(degrees))
    while end > ZERO:
        begin = next_end = end
        while begin > ZERO and end - begin < FACT_ROWS and next_end == begin:
            begin -= ONE
            next_end = begin
            for place in range(ZERO, n_lanes, in_line):
                prefetch_to_l2(rows, (max(begin, _AHEAD) - _AHEAD) * n_lanes + place)
            first, last = offsets[begin], offsets[begin + ONE]
            block = ZERO
            is_near = False
            while block + many <= n_lanes:
                is_near |= lower_many_lanes(
                    rows, begin, is_filled[begin], n_lanes, block, heads, weights, first, last, limit
                )
                block += many
            while block < n_lanes:
                is_near |= lower_lanes(
                    rows, begin, is_filled[begin], n_lanes, block, heads, weights, first, last, limit
                )
                block += LANES
            n_arcs += last - first
            states[begin] = _NEAR if is_near else _BEYOND
            if not is_near and not is_filled[begin] and firsts[begin] < begin:
                rank = np.uint64(ranks[begin])
                if _all_beyond(arc_heads, arc_offsets[rank], arc_offsets[rank + ONE], rows_of, states):
                    next_end = np.uint64(firsts[begin])
            is_filled[begin] = False
        for block in range(ZERO, n_lanes, LANES):
            add_facts(rows, degrees, begin, end, n_lanes, block, limit, largest, sums, unreached)
        n_rows += end - begin
        if next_end < begin:
            n_edges = ZERO
            for row in range(next_end, begin):
                states[row] = _SKIPPED
                n_edges += degrees[row]
            for lane in range(n_lanes):
                unreached[lane] += begin - next_end
                unreached[n_lanes + lane] += n_edges
        end = next_end
    return n_rows, n_arcs


@njit(nogil=True)
def _all_beyond(heads: np.ndarray, first: Any, end: Any, rows_of: np.ndarray, states: np.ndarray) -> bool:
    """Return whether all upper neighbours that have a row are beyond the limit (I4)."""
    for arc in range(first, end):
        row = rows_of[heads[arc]]
        if row != NO_VERTEX and states[row] == _NEAR:
            return False
    return True


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
    """Write the lanes from `first` on of the row `ranks[j]` to column `j` of `into`.

    The columns of a lane are written one line at a time. A line begins at another column in each lane. So the buffer of
    a lane holds the last columns before it, as many as a line has, and then the `_COLUMNS` of this round.
    """
    n_sources, n_columns = np.uint64(into.shape[0]), np.uint64(into.shape[1])
    line = LINE_BYTES // np.uint64(rows.itemsize)
    in_tiles = n_columns - n_columns % _COLUMNS
    if n_sources == ONE:
        in_tiles = ZERO
    if in_tiles > ZERO:
        width = line + _COLUMNS
        buffer = np.empty((n_sources + TILE) * width, rows.dtype)
        flat = into.reshape(into.size)
        for column in range(ZERO, in_tiles, _COLUMNS):
            for tile in range(column, column + _COLUMNS, TILE):
                for ahead in range(min(tile + _AHEAD, n_columns), min(tile + _AHEAD + TILE, n_columns)):
                    start = np.uint64(ranks[ahead]) * n_lanes + first
                    for place in range(start, start + n_sources, line):
                        prefetch_to_l2(rows, place)
                for lane in range(ZERO, n_sources, TILE):
                    at = lane * width + line + tile - column
                    turn_tile(rows, ranks, n_lanes, tile, first + lane, limit, unreached, buffer, at, width)
            for lane in range(n_sources):
                start, at = lane * n_columns + column, lane * width + line
                past = past_line(flat, start)
                copied = ZERO
                if column == ZERO and past > ZERO:  # the beginning of the row, up to a line
                    for i in range(line - past):
                        flat[start + i] = buffer[at + i]
                    copied = line
                for i in range(copied, _COLUMNS, line):
                    copy_line(buffer, at + i - past, flat, start + i - past)
                for i in range(line):
                    buffer[lane * width + i] = buffer[lane * width + _COLUMNS + i]
        for lane in range(n_sources):
            start = lane * n_columns + in_tiles
            past = past_line(flat, start)
            for i in range(past):
                flat[start - past + i] = buffer[lane * width + line - past + i]
        finish_lines()
    for column in range(in_tiles, n_columns):
        for lane in range(n_sources):
            d = rows[np.uint64(ranks[column]) * n_lanes + first + lane]
            into[lane, column] = d if d < limit else unreached
