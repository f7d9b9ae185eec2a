"""How much passes each edge on the shortest paths of trips, in exact sums.

A trip has a source, a target and an amount. Its path is that of the predecessors (`host/predecessors.py`): the smallest
vertex with a tight edge, and the first of parallel edges. A row costs what its trips pass, and not the whole graph:

1. From each target the path is followed back, over the edges into each vertex, up to a vertex that another path passes.
   Several paths take turns, step by step: one alone would wait for memory at each step.
2. These paths are a tree. From the leaves on, each vertex gives what begins at it and passes it to its predecessor.

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
import threading
import weakref
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from sssp_pipeline.base.csr import CsrGraph, GraphTraits, unreached_distance
from sssp_pipeline.base.errors import UncountablePathsError
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.answers.path_sums import PathSums, PathWords, add_wide, add_words, sums_of
from sssp_pipeline.kernels.contract.kept import KeptOfRow
from sssp_pipeline.kernels.contract.path_sums_asked import PathSumsAsked
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO, prefetch, sum_of
from sssp_pipeline.kernels.host.search_graph import SearchGraph, as_searched

#: The totals of a row: how many trips begin at its source and what they carry, the same of trips without a path, and
#: the sum over all edges of what the trips add to them.
TOTALS = ("trips", "amount", "unreached_trips", "unreached_amount", "edges_passed")
#: All trips together carry less than this: sums have 64 bits before the point.
MOST_CARRIED = 2.0**63
_NO_EDGE: Any = np.uint64(2**64 - 1)
#: Seconds of a core for each vertex of the graph to follow the trips of a row: 500 trips of a source on New York.
_FOLLOW_S = 10e-9
#: How many paths take turns.
_WALKS: Any = np.uint64(16)
#: How many vertices ahead the way back prefetches.
_AHEAD: Any = np.uint64(16)


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


@dataclass(frozen=True, eq=False)
class Incoming:
    """The edges into each vertex."""

    #: (V+1,) uint64: those into `v` are `offsets[v]:offsets[v + 1]`.
    offsets: np.ndarray
    #: (E,) uint32 each: where they start, rising, and their places in the graph.
    starts: np.ndarray
    edges: np.ndarray

    @classmethod
    def of(cls, graph: CsrGraph) -> Incoming:
        edges = np.argsort(graph.col_indices, kind="stable")
        starts = np.repeat(np.arange(graph.n_vertices, dtype=np.uint32), np.diff(graph.row_offsets))
        offsets = np.zeros(graph.n_vertices + 1, np.uint64)
        np.cumsum(np.bincount(graph.col_indices, minlength=graph.n_vertices), out=offsets[1:])
        return cls(offsets, starts[edges], edges.astype(np.uint64))

    @classmethod
    def kept(cls, graph: CsrGraph) -> Incoming:
        """Return the edges of `graph`, which are made once and kept as long as `graph`."""
        with _lock:
            if graph not in _incoming:
                _incoming[graph] = cls.of(graph)
            return _incoming[graph]

    @staticmethod
    def n_bytes(n_vertices: int, n_edges: int) -> int:
        """Return its memory."""
        return 8 * (n_vertices + 1) + 12 * n_edges


_incoming: weakref.WeakKeyDictionary[CsrGraph, Incoming] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


class _Scratch(NamedTuple):
    """Memory for the trips of one source."""

    #: (V, 2) uint64: what is to be sent back from each vertex; zero.
    pending: np.ndarray
    #: (V,) uint32: how many vertices of the tree have this predecessor and are not done yet; zero.
    waiting: np.ndarray
    #: (V,) uint64: the edge from the predecessor; `_NO_EDGE` outside the tree.
    edges: np.ndarray
    #: (V,) uint32: the predecessor, and the vertices of the tree.
    before: np.ndarray
    order: np.ndarray

    @classmethod
    def of(cls, n_vertices: int) -> _Scratch:
        return cls(
            np.zeros((n_vertices, 2), np.uint64),
            np.zeros(n_vertices, np.uint32),
            np.full(n_vertices, _NO_EDGE),
            *np.empty((2, n_vertices), np.uint32),
        )


class TripSums:
    """The sums over the trips of the rows that were added so far; one thread at a time adds to it.

    Parameters
    ----------
    incoming
        Shared by all threads. None divides a trip among all its shortest paths, evenly.
    """

    def __init__(self, graph: CsrGraph, trips: Trips, incoming: Incoming | None) -> None:
        self._graph, self._trips, self._incoming = graph, trips, incoming
        self._searched = SearchGraph.of(graph)
        self._sums = (
            None if incoming is not None else PathSums(graph, PathSumsAsked(vertices=False, edges=True))
        )
        self._amounts = np.zeros(graph.n_vertices if incoming is None else 0)
        self._scratch = _Scratch.of(0 if incoming is None else graph.n_vertices)
        #: (E, 2) uint64.
        self.part_words = (
            np.zeros((graph.n_edges, 2), np.uint64) if self._sums is None else self._sums.edge_words
        )
        #: The sum over all edges that are passed on the paths from the source of a row.
        self._passed = np.zeros((1, 2), np.uint64)
        #: The place of the first trip without a path, in the order of the caller; None if there is none.
        self.first_lost: int | None = None

    @staticmethod
    def n_bytes(n_vertices: int, n_edges: int, *, is_divided: bool) -> int:
        """Return the memory of a `TripSums`."""
        return 16 * n_edges + ((52 * n_vertices + 8 * n_edges) if is_divided else 36 * n_vertices)

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
        incoming = self._incoming
        assert incoming is not None
        searched = as_searched(self._graph, row)
        self._passed[:] = 0
        n_vertices, stuck = _find_tree(
            *(incoming.offsets, incoming.starts, incoming.edges, self._searched.weights, searched),
            *(np.uint64(source), targets, amounts, self._scratch),
        )
        if stuck >= 0:
            raise UncountablePathsError(source, int(stuck), is_absorbed=True)
        _send_back(n_vertices, np.uint64(source), self._scratch, self.part_words, self._passed)
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
        add_words(self.part_words, other.part_words)
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
def _find_tree(
    offsets: np.ndarray,
    starts: np.ndarray,
    edges: np.ndarray,
    weights: np.ndarray,
    distances: np.ndarray,
    source: Any,
    targets: np.ndarray,
    amounts: np.ndarray,
    scratch: _Scratch,
) -> Any:
    """List the vertices of the tree of the paths to `targets` in `order`, and add `amounts` at the targets.

    Return how many vertices there are; and one from which no shorter vertex leads back, else -1.
    """
    pending, waiting, edge_to, before, order = scratch
    n = n_walks = trip = ZERO
    at = np.empty(_WALKS, np.uint64)
    while n_walks > ZERO or trip < len(targets):
        while n_walks < _WALKS and trip < len(targets):
            v = np.uint64(targets[trip])
            if v != source:
                add_wide(pending, v, 0, amounts[trip])
                if edge_to[v] == _NO_EDGE:
                    prefetch(offsets, v)
                    at[n_walks] = v
                    n_walks += ONE
            trip += ONE
        for walk in range(n_walks):
            prefetch(starts, offsets[at[walk]])
            prefetch(edges, offsets[at[walk]])
        walk = ZERO
        while walk < n_walks:
            v = at[walk]
            if edge_to[v] == _NO_EDGE:  # no other walk was here meanwhile
                for i in range(offsets[v], offsets[v + ONE]):
                    # The distance of an unreached start is the largest value.
                    u, edge = np.uint64(starts[i]), edges[i]
                    if distances[u] < distances[v] and sum_of(distances[u], weights[edge]) == distances[v]:
                        edge_to[v], before[v] = edge, u
                        waiting[u] += np.uint32(1)
                        order[n] = v
                        n += ONE
                        break
                if edge_to[v] == _NO_EDGE:
                    return n, np.int64(v)
                v = np.uint64(before[v])
            if v != source and edge_to[v] == _NO_EDGE:
                prefetch(offsets, v)
                at[walk] = v
                walk += ONE
            else:
                n_walks -= ONE
                at[walk] = at[n_walks]
    return n, np.int64(-1)


@njit(nogil=True)
def _send_back(n: Any, source: Any, scratch: _Scratch, words: np.ndarray, passed: np.ndarray) -> None:
    """Add what passes the edges of a tree of `n` vertices to `words`, and the sum over them to `passed` (1, 2)."""
    pending, waiting, edge_to, before, order = scratch
    for i in range(n):
        if i + _AHEAD < n:
            later = np.uint64(order[i + _AHEAD])
            prefetch(pending, later * np.uint64(2))
            prefetch(words, edge_to[later] * np.uint64(2))
        v = np.uint64(order[i])
        while v != source and edge_to[v] != _NO_EDGE and waiting[v] == 0:
            u = np.uint64(before[v])
            _move(pending, v, words, edge_to[v])
            _move(pending, v, passed, ZERO)
            if u != source:
                _move(pending, v, pending, u)
            pending[v, 0] = pending[v, 1] = 0
            waiting[u] -= np.uint32(1)
            edge_to[v] = _NO_EDGE
            v = u


@njit(nogil=True, inline="always")
def _move(words: np.ndarray, place: Any, into: np.ndarray, at: Any) -> None:
    """Add the integer at `place` of `words` to that at `at` of `into`."""
    total = into[at, 0] + words[place, 0]
    into[at, 1] += words[place, 1] + np.uint64(total < words[place, 0])
    into[at, 0] = total
