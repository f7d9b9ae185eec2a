"""Breadth-first searches from up to 512 sources together: a bit for each source and vertex.

Returns, depth by depth, the bits of the vertices that are new, and how many vertices are new to each source.

The idea: the sources that reach a vertex are the bits of a row. An edge is followed for all of them by one operation on
rows. Two ways lead to the next depth. Push merges the row of each vertex of the frontier into the rows of its
neighbours. Pull merges the rows of the neighbours of each vertex that some source has not reached, and ends early: as
soon as no bit is missing. Push is faster while the frontier has few edges, and pull when few bits are missing.

How many vertices are new to a source is counted in bytes, 64 lanes by one instruction of AVX-512. After 255 rows the
bytes are added to the counts.

Needs
    The edges of each vertex, and those into it (`BothWays`).
Keeps
    I1. A row of `frontier` is zero unless `listed` has its vertex; all rows of `found` are zero between two depths.
    I2. `open` has every vertex with an edge into it whose row of `visited` is not full. It may have others.
    I3. A bit of `visited` is set at the depth of its vertex, and never cleared.
Ends
    Every depth sets at least one bit, or is the last one.

References
----------
M. Then et al., "The more the merrier: efficient multi-source graph traversal", VLDB 2014.
S. Beamer, K. Asanović, D. Patterson, "Direction-optimizing breadth-first search", SC 2012.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.cpu.bit_rows import (
    HAS_NEW,
    IS_FULL,
    add_where_set,
    clear_row,
    count_row,
    is_same_row,
    merge_row,
    pull_row,
    settle_row,
)
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO
from sssp_pipeline.kernels.host.transposed import transposed

#: Lanes of a word, and the most words of a row: a cache line (`benchmarks/kernel_constants.md`).
WORD_LANES, MOST_WORDS = 64, 8
MOST_LANES = WORD_LANES * MOST_WORDS
#: Push costs this many times as much for an edge of the frontier as pull for an edge into a vertex that is open.
PUSH_COST = 2.5
#: Rows that are counted in bytes.
_MOST_COUNTED: Any = np.uint64(255)


def words_for(n_lanes: int) -> int:
    """Return how many words the rows of a search with this many lanes have: a power of two."""
    return 1 << max(0, -(-n_lanes // WORD_LANES) - 1).bit_length()


class BothWays(NamedTuple):
    """The edges of a graph from each vertex and into it."""

    #: (V+1,) uint64 and (E,) uint32: where the edges of a vertex lead.
    row_offsets: np.ndarray
    col_indices: np.ndarray
    #: (V+1,) uint64 and (E,) uint32: where the edges into a vertex start. The same arrays if all edges have reverses.
    into_offsets: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(cls, graph: CsrGraph) -> BothWays:
        row_offsets = graph.row_offsets.view(np.uint64)
        into_offsets, starts = transposed(graph)
        if np.array_equal(into_offsets, row_offsets) and np.array_equal(starts, graph.col_indices):
            into_offsets, starts = row_offsets, graph.col_indices
        return cls(row_offsets, graph.col_indices, into_offsets, starts)

    @property
    def n_vertices(self) -> int:
        return len(self.row_offsets) - 1


class BitSearch:
    """Searches with rows of `n_words` words: 24 bytes a vertex for each word, and 16. One thread calls it.

    Attributes
    ----------
    found
        (V W,) uint64: the rows of the vertices that are new at this depth.
    listed
        (n,) uint32: these vertices.
    visited
        (V W,) uint64: the rows of what is reached up to this depth.
    """

    def __init__(self, edges: BothWays, n_words: int) -> None:
        self.n_words, self._edges = n_words, edges
        n = edges.n_vertices
        self.found, self._next, self.visited = (_aligned(n * n_words) for _ in range(3))
        self._lists = np.empty(n, np.uint32), np.empty(n, np.uint32)
        self.listed = self._lists[0][:0]
        self._has_edges_into = np.flatnonzero(np.diff(edges.into_offsets)).astype(np.uint32)
        self._open = np.empty_like(self._has_edges_into)

    def start(self, sources: np.ndarray) -> np.ndarray:
        """Begin searches from `sources` (lanes,) uint32, at depth 0; return what `step` returns."""
        lanes = np.arange(len(sources))
        words, bits = lanes // WORD_LANES, np.uint64(1) << (lanes % WORD_LANES).astype(np.uint64)
        row = np.zeros(self.n_words, np.uint64)
        np.bitwise_or.at(row, words, bits)
        self._full = tuple(row)
        _clear(self.found, self.listed, self._full)
        self.visited.fill(0)
        self._open[:] = self._has_edges_into
        self._n_open = self._n_missing = len(self._open)
        self._edges_into_open = len(self._edges.starts)
        np.bitwise_or.at(self.found, sources.astype(np.intp) * self.n_words + words, bits)
        touched = np.unique(sources)
        self._lists[0][: len(touched)] = touched
        return self._taken_in(len(touched))

    @property
    def is_over(self) -> bool:
        """Whether the next depth is known to have no new vertex."""
        return self._n_missing == 0 or self._edges_of_frontier == 0

    def step(self) -> np.ndarray:
        """Go to the next depth; return how many vertices are new to each lane, (64 W,) uint32."""
        rows, touched = (self._edges, self.found, self._next), self._lists[1]
        if PUSH_COST * self._edges_of_frontier < self._edges_into_open:
            n_touched = _push(*rows, self.listed, touched, self._full)
        else:
            is_open = self._open[: self._n_open]
            n_touched, self._n_open = _pull(*rows, self.visited, is_open, touched, self._full)
        _clear(self.found, self.listed, self._full)
        self.found, self._next = self._next, self.found
        self._lists = self._lists[::-1]
        return self._taken_in(n_touched)

    def _taken_in(self, n_touched: int) -> np.ndarray:
        """Settle the rows of the first vertices of `_lists[0]`; return how many vertices are new to each lane."""
        counts = np.zeros(WORD_LANES * self.n_words, np.uint32)
        touched = self._lists[0][:n_touched]
        n_found, self._edges_of_frontier, n_full, edges_into_full = _settle(
            self._edges, self.found, self.visited, touched, counts, self._full
        )
        self.listed = touched[:n_found]
        self._n_missing -= n_full
        self._edges_into_open -= edges_into_full
        return counts

    def edges_of_reached(self) -> np.ndarray:
        """Return how many edges the vertices have that each lane reached, (64 W,) uint64."""
        sums = np.zeros(WORD_LANES * self.n_words, np.uint64)
        _add_degrees(self._edges.row_offsets, self.visited, sums, self._full)
        return sums

    def unfinished(self, vertices: np.ndarray) -> np.ndarray:
        """Return those of `vertices` (n,) that some lane has not reached."""
        rows = self.visited.reshape(-1, self.n_words)[vertices]
        return vertices[(rows != np.array(self._full)).any(axis=1)]


def _aligned(n_words: int) -> np.ndarray:
    """Return zeros (n_words,) uint64 that begin at a cache line."""
    memory = np.zeros(n_words + MOST_WORDS, np.uint64)
    first = -memory.ctypes.data // 8 % MOST_WORDS
    return memory[first : first + n_words]


@njit(nogil=True)
def _push(
    edges: BothWays,
    frontier: np.ndarray,
    found: np.ndarray,
    listed: np.ndarray,
    touched: np.ndarray,
    full: Any,
) -> Any:
    """Merge the rows of the vertices `listed` into those of their neighbours, and write these to `touched`.

    Returns how many there are.
    """
    row_offsets, col_indices, _, _ = edges
    n_touched = ZERO
    for i in range(np.uint64(len(listed))):
        u = np.uint64(listed[i])
        for e in range(row_offsets[u], row_offsets[u + ONE]):
            v = col_indices[e]
            if merge_row(found, np.uint64(v), frontier, u, full):
                touched[n_touched] = v
                n_touched += ONE
    return n_touched


@njit(nogil=True)
def _pull(
    edges: BothWays,
    frontier: np.ndarray,
    found: np.ndarray,
    visited: np.ndarray,
    is_open: np.ndarray,
    touched: np.ndarray,
    full: Any,
) -> Any:
    """Give the open vertices the new bits of their neighbours, and write those that got some to `touched`.

    Returns how many there are, and how many of `is_open` are left at its front (I2).
    """
    _, _, into_offsets, starts = edges
    n_touched, n_open = ZERO, ZERO
    for i in range(np.uint64(len(is_open))):
        v = np.uint64(is_open[i])
        facts = pull_row(found, visited, v, frontier, starts, into_offsets[v], into_offsets[v + ONE], full)
        if facts == IS_FULL:
            continue
        is_open[n_open] = v
        n_open += ONE
        if facts == HAS_NEW:
            touched[n_touched] = v
            n_touched += ONE
    return n_touched, n_open


@njit(nogil=True)
def _settle(
    edges: BothWays,
    found: np.ndarray,
    visited: np.ndarray,
    touched: np.ndarray,
    counts: np.ndarray,
    full: Any,
) -> Any:
    """Add the new bits of the vertices `touched` to `visited` and `counts`; those with new bits move to the front.

    Returns how many these are, how many edges they have, how many rows became full, and how many edges lead into them.
    """
    row_offsets, _, into_offsets, _ = edges
    tally = np.zeros(len(counts), np.uint8)
    n_found, n_edges, n_full, n_into_full, n_counted = ZERO, ZERO, ZERO, ZERO, ZERO
    for i in range(np.uint64(len(touched))):
        v = np.uint64(touched[i])
        facts = settle_row(found, visited, v, full)
        if facts & HAS_NEW == ZERO:
            continue
        touched[n_found] = v
        n_found += ONE
        n_edges += row_offsets[v + ONE] - row_offsets[v]
        if facts & IS_FULL and into_offsets[v + ONE] > into_offsets[v]:
            n_full += ONE
            n_into_full += into_offsets[v + ONE] - into_offsets[v]
        count_row(found, v, tally, full)
        n_counted += ONE
        if n_counted == _MOST_COUNTED:
            _add_tally(tally, counts)
            n_counted = ZERO
    _add_tally(tally, counts)
    return n_found, n_edges, n_full, n_into_full


@njit(nogil=True)
def _add_tally(tally: np.ndarray, counts: np.ndarray) -> None:
    for i in range(np.uint64(len(counts))):
        counts[i] += tally[i]
        tally[i] = 0


@njit(nogil=True)
def _clear(rows: np.ndarray, listed: np.ndarray, full: Any) -> None:
    for i in range(np.uint64(len(listed))):
        clear_row(rows, np.uint64(listed[i]), full)


@njit(nogil=True)
def _add_degrees(row_offsets: np.ndarray, visited: np.ndarray, sums: np.ndarray, full: Any) -> None:
    """Add the edges of each vertex to the sums of the lanes that reached it. Often many rows in a row are the same."""
    first, n_edges = ZERO, ZERO
    for v in range(np.uint64(len(row_offsets)) - ONE):
        if not is_same_row(visited, first, v, full):
            add_where_set(visited, first, n_edges, sums, full)
            first, n_edges = v, ZERO
        n_edges += row_offsets[v + ONE] - row_offsets[v]
    add_where_set(visited, first, n_edges, sums, full)
