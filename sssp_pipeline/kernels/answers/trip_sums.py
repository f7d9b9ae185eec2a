"""How much passes each edge on the shortest paths of trips, in exact sums.

A trip has a source, a target and an amount. Its path is that of the predecessors (`host/predecessors.py`): the smallest
vertex with a tight edge, and the first of parallel edges. A row costs what its trips pass, and not the whole graph:

1. From each target the path is followed back, over the edges into each vertex, up to a vertex that another path passes.
   Several paths take turns, step by step: one alone would wait for memory at each step. What a path has passed is
   stored in *pieces*, each of them a list of vertices and the vertex at its end.
2. The amounts at the vertices of a piece are sent along it, to its end. The piece whose end is farthest from the source
   comes first. If a piece ends inside another piece, its end is the farther one of the two. So its amounts arrive
   before the other piece is sent.

A row also has totals: of its trips, and of what they add to all edges (`TOTALS`). `TripsOfRow` is what a run keeps.

Keeps
    I1. Amounts are added as integers of 128 bits (`path_sums.py`). So trips may be added in any order.
    I2. The sum over all edges wraps if the amounts times the edges of their paths reach 2^64. Runs bound the amounts.
    I3. Between two rows the scratch memory is as `_Scratch.of` makes it.
Needs
    Weights above zero. The rows are true distances.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from sssp_pipeline.base.csr import CsrGraph, GraphTraits, unreached_distance
from sssp_pipeline.base.errors import UncountablePathsError
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.answers.path_sums import PathSums, PathWords, add_wide, add_words, sums_of
from sssp_pipeline.kernels.contract.kept import KeptOfRow
from sssp_pipeline.kernels.contract.path_sums_asked import PathSumsAsked
from sssp_pipeline.kernels.host.incoming import Incoming
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO, prefetch, sum_of
from sssp_pipeline.kernels.host.search_graph import as_searched

#: The totals of a row: how many trips begin at its source and what they carry, the same of trips without a path, and
#: the sum over all edges of what the trips add to them.
TOTALS = ("trips", "amount", "unreached_trips", "unreached_amount", "edges_passed")
#: All trips together carry less than this: sums have 64 bits before the point.
MOST_CARRIED = 2.0**63
#: Seconds of a core for each vertex of the graph to follow the trips of a row: 500 trips of a source on New York.
_FOLLOW_S = 10e-9
#: The least number of sources of a part. On New York, to make and merge a part takes as long as 10 sources.
_SOURCES_A_PART = 128
#: How many paths take turns.
_WALKS: Any = np.uint64(16)
#: The most vertices of a piece.
_LONGEST: Any = np.uint64(32)
#: How many pieces ahead the way back prefetches.
_PIECES_AHEAD = 2


@dataclass(frozen=True, eq=False)
class Trips:
    """Trips by their source."""

    #: (S,) uint32: the different sources, rising; and (S+1,) int64: where the trips of each begin in the next three.
    sources: np.ndarray
    offsets: np.ndarray
    #: (n,) uint32, float64 and int64: the target, the amount and the place in the order of the caller. The places are
    #: None on workers, which do not need them.
    targets: np.ndarray
    amounts: np.ndarray
    places: np.ndarray | None

    @classmethod
    def of(cls, sources: np.ndarray, targets: np.ndarray, amounts: np.ndarray) -> Trips:
        """Return the trips (n,) of a caller."""
        order = np.argsort(sources, kind="stable")
        rising = sources[order]
        offsets = np.concatenate([[0], np.flatnonzero(rising[1:] != rising[:-1]) + 1, [len(rising)]])
        return cls(rising[offsets[:-1]], offsets, targets[order], amounts[order], order)

    @classmethod
    def of_words(cls, words: np.ndarray, n_sources: int) -> Trips:
        """Return the trips that `words` has, as views and without `places`."""
        n_trips = (len(words) - 2 * n_sources) // 3
        # The amounts come first: they are read as float64, at a multiple of eight bytes.
        amounts, targets, sources, counts = np.split(words, np.cumsum([2 * n_trips, n_trips, n_sources]))
        offsets = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        return cls(sources, offsets, targets, amounts.view(np.float64), None)

    @property
    def words(self) -> np.ndarray:
        """All but `places`, as one array of uint32."""
        counts = np.diff(self.offsets).astype(np.uint32)
        return np.concatenate([self.amounts.view(np.uint32), self.targets, self.sources, counts])

    def of_source(self, source: int) -> slice:
        """Return which trips begin at `source`, which is one of `sources`."""
        i = int(np.searchsorted(self.sources, source))
        return slice(int(self.offsets[i]), int(self.offsets[i + 1]))


class _Scratch(NamedTuple):
    """Memory for the trips of one source."""

    #: (V, 2) uint64: what is to be sent back from each vertex; zero.
    pending: np.ndarray
    #: (V,) bool: whether a piece has the vertex; false.
    is_found: np.ndarray
    #: (V,) uint32: the vertices of the pieces; and (V,) uint64: the edge from the next one, its place in `Incoming`.
    order: np.ndarray
    edges: np.ndarray
    #: (V,) uint64: where each piece stops in these lists; and (V,) uint32: its end, to which its last edge leads back.
    stops: np.ndarray
    ends: np.ndarray

    @classmethod
    def of(cls, n: int) -> _Scratch:
        return cls(
            np.zeros((n, 2), np.uint64), np.zeros(n, np.bool_), *(
                np.empty(n, dtype) for dtype in (np.uint32, np.uint64, np.uint64, np.uint32)
            )
        )  # fmt: skip


class TripSums:
    """The sums over the trips of the rows that were added so far; one thread at a time adds to it.

    Parameters
    ----------
    incoming
        Shared by all threads. None divides a trip among all its shortest paths, evenly.
    """

    def __init__(self, graph: CsrGraph, trips: Trips, incoming: Incoming | None) -> None:
        self._graph, self._trips, self._incoming = graph, trips, incoming
        self._sums = (
            None if incoming is not None else PathSums(graph, PathSumsAsked(vertices=False, edges=True))
        )
        self._amounts = np.zeros(graph.n_vertices if incoming is None else 0)
        self._scratch = _Scratch.of(0 if incoming is None else graph.n_vertices)
        #: (E, 2) uint64: in the order of `incoming`, or of the graph without.
        self._words = np.zeros((graph.n_edges, 2), np.uint64) if self._sums is None else self._sums.edge_words
        #: The sum over all edges that are passed on the paths from the source of a row.
        self._passed = np.zeros((1, 2), np.uint64)
        #: The place of the first trip without a path, in the order of the caller; None if there is none.
        self.first_lost: int | None = None

    @staticmethod
    def n_bytes(n_vertices: int, n_edges: int, *, is_divided: bool) -> int:
        """Return the memory of a `TripSums`."""
        if is_divided:
            return 52 * n_vertices + 24 * n_edges
        return 41 * n_vertices + 32 * n_edges

    @property
    def part_words(self) -> np.ndarray:
        """The words (E, 2) uint64 of the edges, in the order of the graph."""
        if self._incoming is None:
            return self._words
        words = np.empty_like(self._words)
        words[self._incoming.edges] = self._words
        return words

    @property
    def words(self) -> PathWords:
        return PathWords(np.empty((0, 2), np.uint64), self.part_words)

    def add(self, rows: np.ndarray, sources: np.ndarray) -> np.ndarray:
        """Add the trips from `sources` (S,) uint32, whose distances are `rows` (S, V).

        Return the `TOTALS` (S, 5) float64 of each row. They do not depend on the order of the trips.

        Raises
        ------
        UncountablePathsError
            The paths from a source cannot be counted. The sums are of no use then.
        """
        unreached = unreached_distance(rows.dtype)
        totals = np.zeros((len(sources), len(TOTALS)))
        for row, source, of_row in zip(rows, sources.tolist(), totals, strict=True):
            trips = self._trips.of_source(source)
            targets, amounts = self._trips.targets[trips], self._trips.amounts[trips]
            of_row[:2] = len(amounts), math.fsum(amounts)
            is_lost = row[targets] == unreached
            if is_lost.any():
                of_row[2:4] = np.count_nonzero(is_lost), math.fsum(amounts[is_lost])
                if self._trips.places is not None:
                    place = int(self._trips.places[trips][is_lost].min())
                    self.first_lost = place if self.first_lost is None else min(place, self.first_lost)
                targets, amounts = targets[~is_lost], amounts[~is_lost]
            add = self._follow if self._sums is None else self._divide
            of_row[4] = add(row, source, targets, amounts)
        return totals

    def _follow(self, row: np.ndarray, source: int, targets: np.ndarray, amounts: np.ndarray) -> float:
        """Send trips along one path each. Return the sum of what they add to all edges."""
        incoming, scratch = self._incoming, self._scratch
        assert incoming is not None
        searched = as_searched(self._graph, row)
        n_pieces, stuck = _find_pieces(
            *(incoming.offsets, incoming.starts, incoming.weights, searched),
            *(np.uint64(source), targets, amounts, scratch),
        )
        if stuck >= 0:
            raise UncountablePathsError(source, int(stuck), is_absorbed=True)
        nearest_first = np.argsort(searched[scratch.ends[:n_pieces]])
        _send_back(nearest_first[::-1], np.uint64(source), scratch, self._words, self._passed)
        return float(sums_of(self._passed)[0])

    def _divide(self, row: np.ndarray, source: int, targets: np.ndarray, amounts: np.ndarray) -> float:
        """Divide trips among all shortest paths. Return the sum of what they add to all edges."""
        assert self._sums is not None
        rising = np.argsort(amounts, kind="stable")  # so the order of the trips changes no bit
        np.add.at(self._amounts, targets[rising], amounts[rising])
        totals = self._sums.add(row[np.newaxis], np.array([source], np.uint32), self._amounts)
        self._amounts[targets] = 0.0
        return float(totals[0, 0])

    def merge(self, other: TripSums) -> None:
        """Add the sums over other rows."""
        add_words(self._words, other._words)
        places = [place for place in (self.first_lost, other.first_lost) if place is not None]
        self.first_lost = min(places, default=None)


@dataclass(frozen=True, eq=False)
class TripSumsAsked(PathSumsAsked):
    """What is summed over trips: how much passes each edge."""

    is_for_gpus: ClassVar[bool] = False

    vertices: bool = False
    edges: bool = True
    #: Whether a trip is divided among all its shortest paths.
    is_divided: bool = False

    def n_bytes(self, traits: GraphTraits) -> int:
        """Return the memory of a `TripSums`."""
        return TripSums.n_bytes(traits.n_vertices, traits.n_edges, is_divided=self.is_divided)

    @property
    def n_totals(self) -> int:
        return len(TOTALS)

    @property
    def sources_a_part(self) -> int:
        return super().sources_a_part if self.is_divided else _SOURCES_A_PART


@dataclass(frozen=True, eq=False)
class TripsOfRow(KeptOfRow):
    """The `TOTALS` of the trips of a row, as words; and how much passes each edge, over the sources of a part."""

    trips: Trips
    paths: TripSumsAsked = TripSumsAsked()

    def n_columns(self, n_vertices: int) -> int:
        return len(TOTALS)

    def dtype(self, weight_dtype: np.dtype) -> np.dtype:
        return np.dtype(np.uint64)

    def reduce(self, row: np.ndarray, into: np.ndarray) -> None:
        pass

    def path_sums(self, graph: CsrGraph) -> TripSums:
        return TripSums(graph, self.trips, None if self.paths.is_divided else Incoming.kept(graph))

    def sum_s(self, traits: GraphTraits, device: Literal["cpu", "gpu"]) -> float:
        return super().sum_s(traits, device) if self.paths.is_divided else _FOLLOW_S * traits.n_vertices


@njit(nogil=True)
def _find_pieces(
    offsets: np.ndarray,
    starts: np.ndarray,
    weights: np.ndarray,
    distances: np.ndarray,
    source: Any,
    targets: np.ndarray,
    amounts: np.ndarray,
    scratch: _Scratch,
) -> Any:
    """Store the paths to `targets` in pieces, and add `amounts` at the targets.

    Return how many pieces there are; and a vertex from which no edge leads back to a nearer one, else -1.
    """
    pending, is_found, order, edges, stops, ends = scratch
    n = n_pieces = n_walks = trip = ZERO
    # A walk writes a piece once it has `_LONGEST` vertices, or no further one. So vertices of a piece lie together.
    at, lengths = np.empty(_WALKS, np.uint64), np.zeros(_WALKS, np.uint64)
    walked, along = np.empty((_WALKS, _LONGEST), np.uint32), np.empty((_WALKS, _LONGEST), np.uint64)
    is_found[source] = True
    while n_walks > ZERO or trip < len(targets):
        while n_walks < _WALKS and trip < len(targets):
            v = np.uint64(targets[trip])
            if v != source:
                add_wide(pending, v, 0, amounts[trip])
                if not is_found[v]:
                    prefetch(offsets, v)
                    at[n_walks] = v
                    n_walks += ONE
            trip += ONE
        for walk in range(n_walks):
            prefetch(starts, offsets[at[walk]])
            prefetch(weights, offsets[at[walk]])
        walk = ZERO
        while walk < n_walks:
            v, length = at[walk], lengths[walk]
            if not is_found[v]:  # no other walk was here meanwhile
                before = v
                for i in range(offsets[v], offsets[v + ONE]):
                    # The distance of an unreached start is the largest value.
                    u = np.uint64(starts[i])
                    if distances[u] < distances[v] and sum_of(distances[u], weights[i]) == distances[v]:
                        walked[walk, length], along[walk, length] = v, i
                        before = u
                        break
                if before == v:
                    return n_pieces, np.int64(v)
                is_found[v] = True
                length += ONE
                v = before
            is_done = is_found[v]
            if length == _LONGEST or (is_done and length > ZERO):
                for i in range(length):
                    order[n + i], edges[n + i] = walked[walk, i], along[walk, i]
                n += length
                stops[n_pieces], ends[n_pieces] = n, v
                n_pieces += ONE
                length = ZERO
            if is_done:  # the last walk takes its place
                n_walks -= ONE
                at[walk], lengths[walk] = at[n_walks], lengths[n_walks]
                for i in range(lengths[walk]):
                    walked[walk, i], along[walk, i] = walked[n_walks, i], along[n_walks, i]
                lengths[n_walks] = ZERO
            else:
                prefetch(offsets, v)
                at[walk], lengths[walk] = v, length
                walk += ONE
    return n_pieces, np.int64(-1)


@njit(nogil=True)
def _send_back(
    pieces: np.ndarray, source: Any, scratch: _Scratch, words: np.ndarray, passed: np.ndarray
) -> None:
    """Add what passes the edges of `pieces` to `words`, and write the sum over these edges to `passed` (1, 2)."""
    pending, is_found, order, edges, stops, ends = scratch
    lower = upper = ZERO
    for i in range(len(pieces)):
        if i + _PIECES_AHEAD < len(pieces):
            first, stop = _bounds(stops, pieces[i + _PIECES_AHEAD])
            for place in range(first, stop):
                prefetch(pending, np.uint64(order[place]) * np.uint64(2))
                prefetch(words, edges[place] * np.uint64(2))
        low = high = ZERO
        first, stop = _bounds(stops, pieces[i])
        for place in range(first, stop):
            v = np.uint64(order[place])
            low, high = _sum(low, high, pending[v, 0], pending[v, 1])
            edge = edges[place]
            words[edge, 0], words[edge, 1] = _sum(low, high, words[edge, 0], words[edge, 1])
            lower, upper = _sum(lower, upper, low, high)
            pending[v, 0] = pending[v, 1] = 0
            is_found[v] = False
        end = np.uint64(ends[pieces[i]])
        if end != source:
            pending[end, 0], pending[end, 1] = _sum(low, high, pending[end, 0], pending[end, 1])
    is_found[source] = False
    passed[0, 0], passed[0, 1] = lower, upper


@njit(nogil=True, inline="always")
def _bounds(stops: np.ndarray, piece: Any) -> Any:
    """Return where a piece begins and where it stops."""
    return (stops[piece - 1] if piece > 0 else ZERO), stops[piece]


@njit(nogil=True, inline="always")
def _sum(low: Any, high: Any, more_low: Any, more_high: Any) -> Any:
    """Return the sum of two integers of two words."""
    total = low + more_low
    return total, high + more_high + np.uint64(total < low)
