"""How much passes each vertex and each edge on the shortest paths from many sources: betweenness, in exact sums.

A row of distances is enough. An edge from u to v is *tight* if d[u] + w == d[v]. The shortest paths from the source are
the paths along tight edges.

Phases, for each row
    1. `_find_tight` scans all edges in their order and lists the tight ones.
    2. `_count_paths` takes a vertex when all tight edges into it are counted, the source first. This is an order in
       which every path leads forward, and no row is sorted. It takes the last vertex that became free, as a search by
       depth does, so the next vertices are near in memory. The number of paths to v is the sum over the tight edges
       into it.
    3. `_add_dependencies` goes back through this order. The *dependency* of u is the sum over all targets t of the
       share of the shortest paths to t that lead through u: paths[u] times the sum of `rate[v]` over the tight edges
       from u, with rate[v] = (amount[v] + dependency[v]) / paths[v]. An edge from u to v has paths[u] * rate[v]. An
       amount is 1, or what `PathAmounts` says of the source, the target and their distance.

Keeps
    I1. The rate of a vertex takes the place of its number of paths: no vertex behind it in the order reads that number.
    I2. A dependency is a float64 that the graph and the row alone decide. `_add` adds it to an integer of 128 bits.
        So the sums over sources do not depend on the order of the rows, and parts may be added in any order.
    I3. A number of paths below 2^127 is exact and then rounded to float64, in one way. So the order in which vertices
        are taken changes no bit, and a GPU may take another one.
Needs
    Weights above zero, so that a tight edge leads away from the source. The rows are true distances.
NOTE
    If a number of paths is 2^127 or more, all of its row are float64 sums in the order in which vertices are taken.
    Above `MOST_PATHS` they are refused.

References
----------
U. Brandes, "A faster algorithm for betweenness centrality", 2001, for phases 2 and 3; "On variants of shortest-path
betweenness centrality and their generic computation", 2008, for targets, edges and endpoints.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from sssp_pipeline.base.csr import CsrGraph, unreached_distance
from sssp_pipeline.base.errors import UncountablePathsError
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.contract.path_sums_asked import PathSumsAsked
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO, prefetch, sum_of
from sssp_pipeline.kernels.host.search_graph import SearchGraph, as_searched

#: A rate stays a normal float64 if there are no more paths than this.
MOST_PATHS = 2.0**1000
#: From here on, a sum of numbers of paths may have been rounded.
_ROUNDED = 2.0**53
#: The bits of a sum behind the binary point.
_FRACTION_BITS = 64
_FRACTION = 2.0**_FRACTION_BITS
#: A square is added in this unit, so that a sum of 2^31 squares of numbers below 2^32 fits.
_SQUARE_UNIT = 2.0**32
#: The words of a sum, and of the sum of squares behind it: first the fraction, then the whole part.
_SUM, _SQUARES = 0, 2
_UINT_ONE: Any = np.uint32(1)
_HALF_WORD: Any = np.uint64(2**63)
#: exp(-x) of such an `x` rounds to 0.
_NO_SHARE = 745.0
#: The logarithm of 2: as one float64; and as two, whose first has so few bits that a multiple below 2^11 is exact.
_LN2, _LN2_HIGH, _LN2_LOW = 0.6931471805599453, 0.6931471803691238, 1.9082149292705877e-10
#: The series of exp, the last term first. What is left out is below 2^-60, since `rest` is at most ln 2 / 2.
_SERIES = tuple(1 / math.factorial(n) for n in range(14, -1, -1))
#: How many vertices ahead the way back prefetches. Without it, the pass takes 1.1 times as long on New York.
_AHEAD: Any = np.uint64(8)


class PathWords(NamedTuple):
    """Sums as integers of 128 bits: (V, W) and (E, W) uint64, without rows if they are not asked for."""

    vertices: np.ndarray
    edges: np.ndarray


class _Weighing(NamedTuple):
    """What a path counts: `targets` at its end, times `sources` at its start, times exp(-`decay` · its length)."""

    #: (V,) float64 each; empty if all are 1.
    targets: np.ndarray
    sources: np.ndarray
    decay: float


class _Scratch(NamedTuple):
    """Memory for the shortest paths from one source."""

    #: (V+1,) uint64: where the tight edges of each vertex begin in the next two.
    offsets: np.ndarray
    #: (E,) uint32: the vertices to which tight edges lead.
    ends: np.ndarray
    #: (E,) uint32: which edge of its row each of them is; empty if no sums of edges are wanted.
    places: np.ndarray
    #: (V,) uint32: the tight edges into each vertex that are not counted yet; all zero between two rows.
    waiting: np.ndarray
    #: (V,) float64: the numbers of paths, then the rates.
    paths: np.ndarray
    #: (V, 2) uint64: lower and upper word of exact numbers of paths, for rows that need them.
    exact: np.ndarray
    #: (V,) uint32: the vertices in an order in which paths lead forward, and those that are free.
    order: np.ndarray
    free: np.ndarray


@dataclass(eq=False)
class PathSums:
    """The sums over the rows that were added so far; one thread at a time adds to it."""

    graph: CsrGraph
    asked: PathSumsAsked
    #: (P, W) uint64: the two below in one array.
    part_words: np.ndarray = field(init=False)
    #: (V, W) and (E, W) uint64; no rows if they are not asked for. An edge has its place in the graph.
    vertex_words: np.ndarray = field(init=False)
    edge_words: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        n_vertices, n_edges, asked = self.graph.n_vertices, self.graph.n_edges, self.asked
        self.part_words = np.zeros((asked.n_places(n_vertices, n_edges), asked.n_words), np.uint64)
        self.vertex_words, self.edge_words = np.split(self.part_words, [n_vertices * asked.vertices])
        self._searched = SearchGraph.of(self.graph)
        self._scratch = _Scratch(
            np.empty(n_vertices + 1, np.uint64),
            np.empty(n_edges, np.uint32),
            np.empty(n_edges * asked.edges, np.uint32),
            np.zeros(n_vertices, np.uint32),
            np.empty(n_vertices),
            np.empty((n_vertices, 2), np.uint64),
            np.empty(n_vertices, np.uint32),
            np.empty(n_vertices, np.uint32),
        )
        assert asked.is_weighted == (asked.amounts is not None), "the amounts are read first"
        every = np.empty(0)
        if (given := asked.amounts) is not None:
            self._weighing = _Weighing(given.of_targets, given.of_sources, given.decay)
        else:
            is_target = every if asked.is_target is None else asked.is_target.astype(np.float64)
            self._weighing = _Weighing(is_target, every, 0.0)

    def add(self, rows: np.ndarray, sources: np.ndarray, amounts: np.ndarray | None = None) -> np.ndarray:
        """Add the distances `rows` (S, V) from `sources` (S,) uint32.

        `amounts` (V,) float64, if given, are what a path to each vertex counts, in the place of the targets asked for.

        Returns
        -------
        numpy.ndarray
            (S, T) float64, the totals of each row: what it added to all vertices, then to all edges, as far as each is
            asked for.

        Raises
        ------
        UncountablePathsError
            The paths from a source cannot be counted. The sums are of no use then.
        """
        totals = np.zeros((len(sources), 2, 2), np.uint64)
        unreached = as_searched(self.graph, np.array([unreached_distance(rows.dtype)]))[0]
        failed, vertex, is_absorbed = _add_rows(
            *(self._searched, as_searched(self.graph, rows), sources, unreached),
            self._weighing if amounts is None else self._weighing._replace(targets=amounts),
            *(self.asked.endpoints, self._scratch, self.vertex_words, self.edge_words, totals),
        )
        if failed < len(sources):
            raise UncountablePathsError(int(sources[failed]), int(vertex), bool(is_absorbed))
        found = sums_of(totals.reshape(-1, 2)).reshape(-1, 2) * self.asked.unit
        return found[:, [self.asked.vertices, self.asked.edges]]

    @property
    def words(self) -> PathWords:
        return PathWords(self.vertex_words, self.edge_words)

    def merge(self, other: PathSums) -> None:
        """Add the sums over other rows."""
        add_words(self.part_words, other.part_words)


def sums_of(words: np.ndarray) -> np.ndarray:
    """Return the sums (n,) float64 of `words` (n, W)."""
    return _as_floats(words, _SUM)


def squares_of(words: np.ndarray) -> np.ndarray:
    """Return the sums of squares (n,) float64 of `words` (n, 4)."""
    return _as_floats(words, _SQUARES) * _SQUARE_UNIT


def _as_floats(words: np.ndarray, first: int) -> np.ndarray:
    return words[:, first + 1].astype(np.float64) + words[:, first].astype(np.float64) / _FRACTION


@njit(nogil=True)
def _add_rows(
    graph: SearchGraph,
    rows: np.ndarray,
    sources: np.ndarray,
    unreached: Any,
    weighing: _Weighing,
    endpoints: bool,
    scratch: _Scratch,
    vertex_words: np.ndarray,
    edge_words: np.ndarray,
    totals: np.ndarray,
) -> Any:
    """Add rows. Return the place of the first one that cannot be counted, else S; where, and why."""
    for row in range(len(sources)):
        source, d = sources[row], rows[row]
        of_source = weighing.sources[source] if len(weighing.sources) > 0 else 1.0
        if of_source == 0.0:
            continue
        absorbed = _find_tight(graph, d, unreached, scratch)
        if absorbed >= 0:
            return row, absorbed, True
        n_reached, crowded, is_rounded = _count_paths(source, scratch)
        if crowded >= 0:
            return row, crowded, False
        if is_rounded:
            _count_exactly(n_reached, scratch)
        _add_dependencies(
            graph.row_offsets,
            n_reached,
            d,
            of_source,
            weighing,
            endpoints,
            scratch,
            vertex_words,
            edge_words,
            totals[row],
        )
    return len(sources), 0, False


@njit(nogil=True)
def _find_tight(graph: SearchGraph, d: np.ndarray, unreached: Any, scratch: _Scratch) -> Any:
    """List the tight edges. Return the end of one whose weight is lost in the sum, else -1."""
    row_offsets, col_indices, weights = graph
    offsets, ends, places, waiting, paths, _, _, _ = scratch
    with_places = len(places) > 0
    absorbed = -1
    n_tight = ZERO
    for u in range(np.uint64(len(d))):
        offsets[u] = n_tight
        paths[u] = 0.0
        if d[u] == unreached:
            continue
        first = row_offsets[u]
        for e in range(first, row_offsets[u + ONE]):
            v = col_indices[e]
            is_equal = (sum_of(d[u], weights[e]) == d[v]) & (d[v] != unreached)
            # A sum of integers that wrapped, or a weight that a float lost, leads to no greater distance.
            is_tight = is_equal & (d[v] > d[u])
            if is_equal & (d[v] == d[u]):
                absorbed = np.int64(v)
            # No branch: whether an edge is tight cannot be predicted. The next one overwrites an edge that is not.
            ends[n_tight] = v
            if with_places:
                places[n_tight] = e - first
            n_tight += np.uint64(is_tight)
            waiting[v] += np.uint32(is_tight)
    offsets[np.uint64(len(d))] = n_tight
    return absorbed


@njit(nogil=True)
def _count_paths(source: Any, scratch: _Scratch) -> Any:
    """Fill `order` and `paths`.

    Return the reached vertices, one to which too many paths lead or else -1, and whether numbers may be rounded.
    """
    offsets, ends, _, waiting, paths, _, order, free = scratch
    crowded = -1
    most = 1.0
    n_taken, n_free = ZERO, ONE
    free[ZERO] = source
    paths[source] = 1.0
    while n_free > ZERO:
        n_free -= ONE
        u = free[n_free]
        order[n_taken] = u
        n_taken += ONE
        to_u = paths[u]
        most = max(most, to_u)
        if to_u > MOST_PATHS:
            crowded = np.int64(u)
        for i in range(offsets[u], offsets[np.uint64(u) + ONE]):
            v = ends[i]
            paths[v] += to_u
            waiting[v] -= _UINT_ONE
            if waiting[v] == 0:
                free[n_free] = v
                n_free += ONE
    return n_taken, crowded, most >= _ROUNDED


@njit(nogil=True)
def _count_exactly(n_reached: Any, scratch: _Scratch) -> None:
    """Count again, in integers of two words, along `order`. If they are too small, `paths` stays as it is."""
    offsets, ends, _, _, paths, exact, order, _ = scratch
    exact[:] = 0
    exact[order[ZERO], 0] = 1
    for i in range(n_reached):
        u = order[i]
        lower, upper = exact[u, 0], exact[u, 1]
        if upper >= _HALF_WORD:
            return
        for place in range(offsets[u], offsets[np.uint64(u) + ONE]):
            v = ends[place]
            total = exact[v, 0] + lower
            exact[v, 0] = total
            more = upper + np.uint64(total < lower)
            exact[v, 1] += more
            if exact[v, 1] < more:  # it wrapped
                return
    for v in range(np.uint64(len(paths))):
        paths[v] = np.float64(exact[v, 1]) * _FRACTION + np.float64(exact[v, 0])


@njit(nogil=True)
def _add_dependencies(
    row_offsets: np.ndarray,
    n_reached: Any,
    d: np.ndarray,
    of_source: Any,
    weighing: _Weighing,
    endpoints: bool,
    scratch: _Scratch,
    vertex_words: np.ndarray,
    edge_words: np.ndarray,
    totals: np.ndarray,
) -> None:
    """Add what passes each vertex and each edge on the paths from the source, which is `order[0]`.

    `totals` (2, 2) uint64 gets the sum over all vertices, and the sum over all edges.
    """
    offsets, paths, order = scratch.offsets, scratch.paths, scratch.order
    every, with_vertices = len(weighing.targets) == 0, len(vertex_words) > 0
    # What all paths count: an integer of 128 bits too, so that the order of the vertices changes no bit.
    ended = np.zeros((1, 2), np.uint64)
    for i in range(ONE, n_reached):
        u = order[n_reached - i]
        if i + _AHEAD < n_reached:
            later = np.uint64(order[n_reached - i - _AHEAD])
            prefetch(offsets, later)
            prefetch(paths, later)
            prefetch(vertex_words, later * np.uint64(vertex_words.shape[1]))
        to_u = paths[u]
        rate = _rate_behind(u, row_offsets, scratch, edge_words, totals)
        amount = 1.0
        if not every:
            amount = weighing.targets[u] * of_source
            if weighing.decay > 0.0 and amount > 0.0:
                amount *= decayed(weighing.decay * np.float64(d[u]))
        if endpoints:
            add_wide(ended, 0, _SUM, amount)
        dependency = to_u * rate
        paths[u] = (amount + dependency) / to_u
        if with_vertices:
            passing = dependency + amount if endpoints else dependency
            _add(vertex_words, u, passing)
            add_wide(totals, 0, _SUM, passing)
    source = order[ZERO]
    _rate_behind(source, row_offsets, scratch, edge_words, totals)
    if with_vertices and endpoints:
        passing = np.float64(ended[0, 1]) + np.float64(ended[0, 0]) / _FRACTION
        _add(vertex_words, source, passing)
        add_wide(totals, 0, _SUM, passing)


@njit(nogil=True)
def decayed(x: Any) -> Any:
    """Return exp(-x) of an `x` of zero or more, within a relative 2^-51.

    Only sums, products and powers of two are used. So every machine returns the same bits, which C libraries do not.
    """
    if not x < _NO_SHARE:
        return 0.0
    n_halvings = np.floor(x / _LN2 + 0.5)
    rest = (n_halvings * _LN2_HIGH - x) + n_halvings * _LN2_LOW
    power = 0.0
    for coefficient in _SERIES:
        power = power * rest + coefficient
    return math.ldexp(power, -int(n_halvings))


@njit(nogil=True, inline="always")
def _rate_behind(
    u: Any, row_offsets: np.ndarray, scratch: _Scratch, edge_words: np.ndarray, totals: np.ndarray
) -> Any:
    """Return the sum of the rates behind the tight edges from `u`, and add what passes each of these edges."""
    offsets, ends, places, _, paths, _, _, _ = scratch
    with_edges = len(edge_words) > 0
    rate = 0.0
    for i in range(offsets[u], offsets[np.uint64(u) + ONE]):
        of_end = paths[ends[i]]
        rate += of_end
        if with_edges:
            passing = paths[u] * of_end
            _add(edge_words, row_offsets[u] + np.uint64(places[i]), passing)
            add_wide(totals, 1, _SUM, passing)
    return rate


@njit(nogil=True, inline="always")
def _add(words: np.ndarray, place: Any, value: Any) -> None:
    """Add `value`, and perhaps its square, to the sums at `place`."""
    add_wide(words, place, _SUM, value)
    if words.shape[1] > _SQUARES:
        add_wide(words, place, _SQUARES, value * value / _SQUARE_UNIT)


@njit(nogil=True, inline="always")
def add_wide(words: np.ndarray, place: Any, first: Any, value: Any) -> None:
    """Add a float of zero or more to an integer of two words; bits below the last are cut."""
    whole = np.uint64(value)
    fraction = np.uint64((value - np.float64(whole)) * _FRACTION)
    total = words[place, first] + fraction
    words[place, first + 1] += whole + np.uint64(total < fraction)
    words[place, first] = total


@njit(nogil=True)
def add_words(words: np.ndarray, more: np.ndarray) -> None:
    """Add the integers `more` (n, W) to the first of `words` (n, W or more)."""
    for place in range(len(words)):
        _add_place(words, place, more, place)


@njit(nogil=True)
def add_group(words: np.ndarray, group: np.ndarray, n_sources: Any) -> None:
    """Add the sums of a `group` (n, 2) to `words` (n, 4), and the square of each, divided by its `n_sources`."""
    for place in range(len(words)):
        _add_place(words, place, group, place)
        _add_square(words, place, group, place, n_sources)


@njit(nogil=True)
def add_packed(words: np.ndarray, bits: np.ndarray, part: np.ndarray, n_sources: Any) -> None:
    """Add a `part` of `PackedWords` to `words` (P, W).

    Each of `bits` (ceil(P / 8),) that is set has a row of `part`. Rows without squares are those of a group, as for
    `add_group`, if `words` have squares.
    """
    row = 0
    for byte in range(len(bits)):
        left, place = bits[byte], 8 * byte
        while left:
            if left & 1:
                _add_place(words, place, part, row)
                if part.shape[1] < words.shape[1]:
                    _add_square(words, place, part, row, n_sources)
                row += 1
            left >>= 1
            place += 1


@njit(nogil=True, inline="always")
def _add_place(words: np.ndarray, place: Any, more: np.ndarray, row: Any) -> None:
    for first in range(0, more.shape[1], 2):
        total = words[place, first] + more[row, first]
        words[place, first + 1] += more[row, first + 1] + np.uint64(total < more[row, first])
        words[place, first] = total


@njit(nogil=True, inline="always")
def _add_square(words: np.ndarray, place: Any, group: np.ndarray, row: Any, n_sources: Any) -> None:
    value = np.float64(group[row, 1]) + np.float64(group[row, 0]) / _FRACTION
    add_wide(words, place, _SQUARES, value * value / (n_sources * _SQUARE_UNIT))
