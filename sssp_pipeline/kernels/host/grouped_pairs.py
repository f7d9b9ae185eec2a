"""Pairs of vertices, grouped by the end that is searched: each of these ends is searched once.

A row of distances gives the distances of all pairs of its group. They go to the places of the pairs in the order of the
caller. So a matrix of all ends is never made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import GraphTraits
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.contract.kept import EveryVertex, KeptOfRow, Targets

#: Only the distances to the other ends are kept of a row if these ends are at most this share of the vertices.
_FEW = 0.5
#: Distances that go to the places of their pairs at once.
_AT_ONCE = 2**22


@dataclass(frozen=True, eq=False)
class GroupedPairs:
    """Pairs by the vertex that is searched. It takes 8 bytes for each pair, 12 above 2^32 pairs."""

    #: (S,) uint32, all different and rising: the vertices to search from.
    searched: np.ndarray
    #: (S + 1,) int64, where the pairs of each searched vertex begin in `others` and `order`.
    offsets: np.ndarray
    #: (C,) uint32, rising: the vertices whose distances are kept of a row; None for every vertex.
    columns: np.ndarray | None
    #: (n,) uint32, the other end of each pair, as its place in `columns`, or as a vertex.
    others: np.ndarray
    #: (n,) the places of the pairs in the order of the caller; None on workers, which do not need it.
    order: np.ndarray | None
    #: Whether the searched vertices are the targets, so that searches follow edges backwards.
    is_backward: bool

    @classmethod
    def of(
        cls, sources: np.ndarray, targets: np.ndarray, n_vertices: int, *, is_backward: bool
    ) -> GroupedPairs:
        """Return the pairs (n,) of `sources` and `targets`, both uint32, grouped by one of them."""
        ends, others = (targets, sources) if is_backward else (sources, targets)
        counts = _counts(ends, n_vertices)
        searched = np.flatnonzero(counts).astype(np.uint32)
        starts = np.zeros(n_vertices + 1, np.int64)
        np.cumsum(counts, out=starts[1:])
        offsets = np.append(starts[searched], len(ends))
        seen = different(others, n_vertices)
        columns, place = None, np.arange(n_vertices, dtype=np.uint32)
        if len(seen) <= _FEW * n_vertices:
            columns = seen
            place[seen] = np.arange(len(seen))
        order = np.empty(len(ends), np.uint32 if len(ends) < 2**32 else np.int64)
        grouped = np.empty(len(ends), np.uint32)
        _group(ends, others, starts, place, order, grouped)
        return cls(searched, offsets, columns, grouped, order, is_backward)

    @classmethod
    def of_words(
        cls, words: np.ndarray, n_searched: int, n_kept: int | None, is_backward: bool
    ) -> GroupedPairs:
        """Return the pairs that `words` has, as views and without `order`."""
        searched, counts, columns, others = np.split(words, np.cumsum([n_searched, n_searched, n_kept or 0]))
        offsets = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        return cls(searched, offsets, None if n_kept is None else columns, others, None, is_backward)

    @property
    def words(self) -> np.ndarray:
        """All but `order`, as one array of uint32: searched vertices, their numbers of pairs, columns, other ends."""
        columns = np.empty(0, np.uint32) if self.columns is None else self.columns
        return np.concatenate([self.searched, np.diff(self.offsets).astype(np.uint32), columns, self.others])

    def __len__(self) -> int:
        return len(self.others)

    def place(self, vertex: int) -> int:
        """Return the place of a searched vertex among all."""
        return int(np.searchsorted(self.searched, vertex))

    def others_of(self, place: int) -> np.ndarray:
        """Return the other ends of the pairs of the searched vertex at a place, as vertices."""
        others = self.others[self.offsets[place] : self.offsets[place + 1]]
        return others if self.columns is None else self.columns[others]

    @property
    def kept(self) -> KeptOfRow:
        """What solvers keep of a row."""
        return EveryVertex() if self.columns is None else Targets(self.columns)

    def pick(self, first: int, rows: np.ndarray, into: np.ndarray) -> None:
        """Write the distances of the pairs of some searched vertices. `first` is the place of the first of these.

        Parameters
        ----------
        rows
            (k, C) what `kept` keeps of their rows.
        into
            (n,) gets the distances at the places of the pairs. Threads may write to it at the same time.
        """
        _pick(rows, self.offsets[first : first + len(rows) + 1], self.others, self.order, into)

    def gather(self, first: int, rows: np.ndarray) -> np.ndarray:
        """Return the distances of the pairs of some searched vertices, as `pick`, group after group."""
        offsets = self.offsets[first : first + len(rows) + 1]
        found = np.empty(offsets[-1] - offsets[0], rows.dtype)
        _gather(rows, offsets, self.others, found)
        return found

    def scatter(self, first: int, found: np.ndarray, n_searched: int, into: np.ndarray) -> None:
        """Write what `gather` returned for some searched vertices to the places of their pairs in `into` (n,)."""
        assert self.order is not None, "the process that groups the pairs has it"
        begin, end = self.offsets[first], self.offsets[first + n_searched]
        for at in range(begin, end, _AT_ONCE):  # NumPy makes indices of 64 bits
            some = slice(at, min(at + _AT_ONCE, end))
            into[self.order[some]] = found[some.start - begin : some.stop - begin]


def different(ends: np.ndarray, n_vertices: int) -> np.ndarray:
    """Return the different vertices of `ends` (n,), (k,) uint32 and rising."""
    return np.flatnonzero(_counts(ends, n_vertices)).astype(np.uint32)


def may_go_backward(traits: GraphTraits) -> bool:
    """Return whether searches that follow edges backwards find the same bits.

    Sums of integers do not depend on the order of the edges; rounded sums do. With negative weights, a search backwards
    may meet a negative cycle that no source reaches.
    """
    return traits.weight_dtype.kind != "f" and traits.min_weight >= 0


@njit(nogil=True)
def _counts(ends: np.ndarray, n_vertices: int) -> np.ndarray:
    counts = np.zeros(n_vertices, np.int64)
    for end in ends:
        counts[np.intp(end)] += 1
    return counts


@njit(nogil=True)
def _group(
    ends: np.ndarray,
    others: np.ndarray,
    starts: np.ndarray,
    place: np.ndarray,
    order: np.ndarray,
    grouped: np.ndarray,
) -> None:
    """Write the pairs to `order` and `grouped`, the pairs of each of `ends` in their order. It changes `starts`."""
    for i in range(len(ends)):
        end = np.intp(ends[i])
        to = starts[end]
        starts[end] = to + 1
        order[to], grouped[to] = i, place[np.intp(others[i])]


@njit(nogil=True)
def _pick(rows: Any, offsets: np.ndarray, others: np.ndarray, order: np.ndarray, into: np.ndarray) -> None:
    for row in range(len(rows)):
        for at in range(offsets[row], offsets[row + 1]):
            into[np.intp(order[at])] = rows[row, np.intp(others[at])]


@njit(nogil=True)
def _gather(rows: Any, offsets: np.ndarray, others: np.ndarray, found: np.ndarray) -> None:
    for row in range(len(rows)):
        for at in range(offsets[row], offsets[row + 1]):
            found[at - offsets[0]] = rows[row, np.intp(others[at])]
