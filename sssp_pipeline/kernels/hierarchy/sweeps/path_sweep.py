"""How much passes each arc of a hierarchy on the shortest paths from many sources.

Phases, for `LANES` sources at once
    1. Climb: each source relaxes arcs up along the elimination tree, and counts the paths.
    2. Sweep: from the highest rank down, the distance of a vertex is the least over its arcs, and its number of paths
       the sum over the arcs that give this least. A vertex on a climb takes part with what the climb found.
    3. Back: from the lowest rank up, as Brandes does. The *rate* of a vertex is what ends there or passes on, divided
       by its paths. An arc from u to v is passed by paths[u] * paths of the arc * rate[v], and rate[u] is the sum of
       paths of the arc * rate[v], and what ends at u. It takes the place of the number of paths.
    4. Down the climbs: a vertex whose climbed distance is the true one has its rate there too.

Keeps
    I1. What passes an arc or a vertex is a float64 for a group of sources, added in one order. Then it is added to an
        integer of 128 bits. So sums do not depend on threads, as long as the same sources are a group.
Needs
    Weights above zero, and no distance that the type cannot hold.

References
----------
U. Brandes, "A faster algorithm for betweenness centrality", 2001. D. Delling, A. V. Goldberg, A. Nowatzyk, R. F.
Werneck, "PHAST: hardware-accelerated shortest path trees", 2013. Their union is ours.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sssp_pipeline.base.csr import NO_VERTEX, CsrGraph
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.answers.path_sums import MOST_PATHS, PathWords, add_wide, add_words, sums_of
from sssp_pipeline.kernels.contract.path_sums_asked import PathSumsAsked
from sssp_pipeline.kernels.hierarchy.completion.arcs import Arcs
from sssp_pipeline.kernels.hierarchy.completion.customization import Both
from sssp_pipeline.kernels.hierarchy.completion.lanes import LANES, saturating_sum
from sssp_pipeline.kernels.hierarchy.sweeps.path_counts import PathCounts
from sssp_pipeline.kernels.hierarchy.sweeps.path_lanes import count_lanes, rate_lanes
from sssp_pipeline.kernels.hierarchy.sweeps.tiles import LINE_BYTES
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO

#: The most sources of a group. To add to integers takes a quarter of the time if it follows every sweep.
GROUP = 128


class _Rows(NamedTuple):
    """What the lanes know of each vertex."""

    #: (V * LANES,): distances; float64: numbers of paths, then rates.
    distances: np.ndarray
    values: np.ndarray
    #: (V,) bool: the vertices on a climb. None is marked between two sweeps.
    is_filled: np.ndarray


class _Climb(NamedTuple):
    """Scratch memory of a climb. No vertex has a distance between two climbs."""

    #: (V,): the distance of a vertex on the way up; float64: its number of paths; float64: its rate.
    distances: np.ndarray
    paths: np.ndarray
    rates: np.ndarray
    #: (V,) uint32: the vertices of the climb.
    chain: np.ndarray


class Passing(NamedTuple):
    """What passes each arc of the two directions, and each vertex by rank: float64, or integers of two words."""

    up: np.ndarray
    down: np.ndarray
    through: np.ndarray

    @classmethod
    def zeros(cls, counts: PathCounts, n_words: tuple[int, ...], dtype: type) -> Passing:
        sizes = len(counts.up), len(counts.down), counts.hierarchy.completion.n_vertices
        return cls(*(np.zeros((size, *n_words), dtype) for size in sizes))


class PathSweep:
    """The scratch memory of one thread, and its sums.

    Parameters
    ----------
    counts
        Shared by all threads.
    asked
        How much a path counts, without a decay, and whether it passes its source and its target too.
    """

    def __init__(self, counts: PathCounts, asked: PathSumsAsked) -> None:
        completion, dtype = counts.hierarchy.completion, counts.hierarchy.up.weights.dtype
        self._counts, self._endpoints = counts, asked.endpoints
        n = completion.n_vertices
        self._amounts, self._of_sources = amounts_along_arcs(asked, completion.ranks)
        self._unit = asked.unit
        lanes = n * int(LANES)
        self._rows = _Rows(
            _on_a_line(lanes, dtype), _on_a_line(lanes, np.dtype(np.float64)), np.zeros(n, np.bool_)
        )  # fmt: skip
        unreached = np.iinfo(dtype).max
        self._climb = _Climb(np.full(n, unreached, dtype), np.empty(n), np.empty(n), np.empty(n, np.uint32))
        self._of_group = Passing.zeros(counts, (), np.float64)
        self._words = Passing.zeros(counts, (2,), np.uint64)

    def add(self, sources: np.ndarray, limit: np.generic) -> np.ndarray | None:
        """Add what passes on the paths from a group of `sources` (n,) uint32 to targets nearer than `limit`.

        Returns
        -------
        numpy.ndarray or None
            (n, 2) float64: what the paths from each source pass, of all vertices and of all edges. None if paths
            cannot be counted; then the sums are of no use.
        """
        totals = np.zeros((len(sources), 2))
        for first in range(0, len(sources), int(LANES)):
            lanes = slice(first, first + int(LANES))
            if (of_lanes := self._add_lanes(sources[lanes], limit)) is None:
                return None
            totals[lanes] = of_lanes
        for words, values in zip(self._words, self._of_group, strict=True):
            _flush(values, words)
        return totals

    def _add_lanes(self, sources: np.ndarray, limit: np.generic) -> np.ndarray | None:
        """Add what passes on the paths from at most `LANES` sources to what passes in this group; return as `add`."""
        counts, rows, climb, passing = self._counts, self._rows, self._climb, self._of_group
        tree, up = counts.hierarchy.completion, (counts.hierarchy.up, counts.up)
        by_upper, paths_by_upper, inner_by_upper, _ = counts.down_by_upper
        ranks = tree.ranks[sources]
        most, ended, totals = np.zeros(int(LANES)), np.zeros(int(LANES)), np.zeros((2, int(LANES)))
        of_sources = np.zeros(int(LANES))
        of_sources[: len(sources)] = self._of_sources[sources]
        for lane, rank in enumerate(ranks):
            _climb(rank, np.uint64(lane), tree.parents, *up, climb, rows)
        _sweep(counts.hierarchy.down, counts.down, rows)
        _back(
            *(
                by_upper,
                paths_by_upper,
                inner_by_upper,
                rows,
                limit,
                self._amounts,
                of_sources,
                float(self._endpoints),
                most,
            ),
            *(ended, passing.down, passing.through, totals.ravel()),
        )
        if not np.all(most <= MOST_PATHS):
            return None
        for lane, rank in enumerate(ranks):
            _climb_back(
                *(rank, np.uint64(lane), tree.parents, *up, counts.inner.up, climb, rows),
                *(passing.up, passing.through, totals[:, lane]),
            )
        if self._endpoints:
            np.add.at(passing.through, ranks, ended[: len(ranks)])
            totals[0] += ended
        return totals.T[: len(ranks)] * self._unit

    def words(self) -> Passing:
        """Return the sums so far, as integers of 128 bits."""
        down = np.empty_like(self._words.down)
        down[self._counts.down_by_upper.order] = self._words.down
        return self._words._replace(down=down)

    def merge(self, other: PathSweep) -> None:
        """Add the sums over other groups."""
        for words, more in zip(self._words, other._words, strict=True):
            add_words(words, more)


def amounts_along_arcs(asked: PathSumsAsked, ranks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the amounts of targets by rank, and of sources by vertex, (V,) float64 each."""
    of_targets, of_sources = np.ones(len(ranks)), np.ones(len(ranks))
    if asked.amounts is not None:
        of_targets[ranks], of_sources = asked.amounts.of_targets, asked.amounts.of_sources
    elif asked.is_target is not None:
        of_targets[ranks] = asked.is_target
    return of_targets, of_sources


def n_bytes_of(counts: PathCounts) -> int:
    """Return the memory of a `PathSweep`."""
    n, itemsize = counts.hierarchy.completion.n_vertices, counts.hierarchy.up.weights.dtype.itemsize
    of_lanes = int(LANES) * (itemsize + 8)
    return n * (of_lanes + itemsize + 29 + 24) + 24 * (len(counts.up) + len(counts.down))


def spread(graph: CsrGraph, counts: PathCounts, words: Passing, asked: PathSumsAsked) -> PathWords:
    """Return what is `asked` of `graph` by what passes arcs and vertices."""
    up, down, through = map(sums_of, words)
    edges = np.zeros(graph.n_edges * asked.edges)
    counts.spread(graph, Both(up, down), through, edges)
    of_vertices = through[counts.hierarchy.completion.ranks] if asked.vertices else np.empty(0)
    found = []
    for values in (of_vertices, edges):
        found.append(np.zeros((len(values), 2), np.uint64))
        _flush(values, found[-1])
    return PathWords(*found)


def _on_a_line(size: int, dtype: np.dtype) -> np.ndarray:
    """Return an array that begins on a cache line, as lanes want it."""
    memory = np.empty(size + int(LINE_BYTES) // dtype.itemsize, dtype)
    skipped = -memory.ctypes.data % int(LINE_BYTES) // dtype.itemsize
    return memory[skipped : skipped + size]


@njit(nogil=True)
def _climbed(source: Any, parents: np.ndarray, up: Arcs, arc_paths: np.ndarray, climb: _Climb) -> Any:
    """Set the distances and numbers of paths of the vertices above `source`; return how many the chain has."""
    offsets, heads, weights = up
    distances, paths, _, chain = climb
    unreached = ~weights.dtype.type(0)
    distances[source], paths[source] = 0, 1.0
    n = ZERO
    v = source
    while v != NO_VERTEX:
        here = np.uint64(v)
        chain[n] = v
        n += ONE
        d = distances[here]
        if d != unreached:
            for arc in range(offsets[here], offsets[here + ONE]):
                head = heads[arc]
                there, more = saturating_sum(d, weights[arc]), paths[here] * arc_paths[arc]
                if there < distances[head]:
                    distances[head], paths[head] = there, more
                elif there == distances[head] and there != unreached:
                    paths[head] += more
        v = parents[here]
    return n


@njit(nogil=True)
def _climb(
    source: Any,
    lane: Any,
    parents: np.ndarray,
    up: Arcs,
    arc_paths: np.ndarray,
    climb: _Climb,
    rows: _Rows,
) -> None:
    """Fill a lane of the rows above `source`."""
    unreached = ~up.weights.dtype.type(0)
    for i in range(_climbed(source, parents, up, arc_paths, climb)):
        v = np.uint64(climb.chain[i])
        start = v * LANES
        if not rows.is_filled[v]:
            rows.is_filled[v] = True
            for place in range(start, start + LANES):
                rows.distances[place], rows.values[place] = unreached, 0.0
        if climb.distances[v] != unreached:
            rows.distances[start + lane], rows.values[start + lane] = climb.distances[v], climb.paths[v]
            climb.distances[v] = unreached


@njit(nogil=True)
def _sweep(down: Arcs, arc_paths: np.ndarray, rows: _Rows) -> None:
    """Compute the distances and the numbers of paths of all rows."""
    offsets, heads, weights = down
    distances, values, is_filled = rows
    n = np.uint64(len(is_filled))
    for behind in range(n):
        v = n - ONE - behind
        count_lanes(
            distances, values, v, is_filled[v], heads, weights, arc_paths, offsets[v], offsets[v + ONE]
        )
        is_filled[v] = False


@njit(nogil=True)
def _back(
    by_upper: Arcs,
    arc_paths: np.ndarray,
    inner: np.ndarray,
    rows: _Rows,
    limit: Any,
    amounts: np.ndarray,
    of_sources: np.ndarray,
    at_end: Any,
    most: np.ndarray,
    ended: np.ndarray,
    passing: np.ndarray,
    through: np.ndarray,
    totals: np.ndarray,
) -> None:
    """Compute the rates of all rows, and add what passes arcs and vertices, and each lane to its `totals`."""
    offsets, tails, weights = by_upper
    distances, values, _ = rows
    for v in range(np.uint64(len(amounts))):
        through[v] += rate_lanes(
            distances, values, v, limit, amounts[v], of_sources, at_end, tails, weights, arc_paths, inner,
            offsets[v], offsets[v + ONE], passing, most, ended, totals,
        )  # fmt: skip


@njit(nogil=True)
def _climb_back(
    source: Any,
    lane: Any,
    parents: np.ndarray,
    up: Arcs,
    arc_paths: np.ndarray,
    inner: np.ndarray,
    climb: _Climb,
    rows: _Rows,
    passing: np.ndarray,
    through: np.ndarray,
    totals: np.ndarray,
) -> None:
    """Add what passes the arcs and the vertices above `source`, and all of it to `totals` (2,)."""
    offsets, heads, weights = up
    unreached = ~weights.dtype.type(0)
    n = _climbed(source, parents, up, arc_paths, climb)
    for behind in range(n):
        v = np.uint64(climb.chain[n - ONE - behind])
        d = climb.distances[v]
        if d == unreached:
            continue
        to_v = climb.paths[v]
        rate = 0.0
        for arc in range(offsets[v], offsets[v + ONE]):
            head = heads[arc]
            if saturating_sum(d, weights[arc]) == climb.distances[head]:
                part = arc_paths[arc] * climb.rates[head]
                rate += part
                flow = to_v * part
                passing[arc] += flow
                totals[0] += flow * inner[arc]
                totals[1] += flow * (inner[arc] + 1.0)
        if behind != n - ONE:
            through[v] += to_v * rate
            totals[0] += to_v * rate
        place = v * LANES + lane
        climb.rates[v] = rate + rows.values[place] if rows.distances[place] == d else rate
    for i in range(n):
        climb.distances[climb.chain[i]] = unreached


@njit(nogil=True)
def _flush(values: np.ndarray, words: np.ndarray) -> None:
    """Add float64 numbers to integers of 128 bits, and set them to zero."""
    for place in range(np.uint64(len(values))):
        if values[place] > 0.0:
            add_wide(words, place, 0, values[place])
            values[place] = 0.0
