"""The completion of a graph in the order of a hierarchy: every arc that eliminating its vertices needs.

Eliminating a vertex joins its neighbours of higher rank. An arc joins two vertices that are neighbours in the graph or
were joined so. The lowest upper neighbour of a vertex is its parent in the elimination tree. All its other upper
neighbours are upper neighbours of the parent too, so every arc leads to an ancestor.

The order and the completion do not depend on weights. So they serve any weights of the same graph, and they are kept
in one record of plain arrays, `Completion`.

Vertices are ranked in postorder of the elimination tree. That leaves the arcs as they are, gives every subtree
consecutive ranks, and keeps what a sweep reads close together.

References
----------
J. W. H. Liu, "The role of elimination trees in sparse factorization", 1990. J. Dibbelt, B. Strasser, D. Wagner,
"Customizable contraction hierarchies", 2016, sections 5 and 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sssp_pipeline.base.csr import NO_VERTEX, CsrGraph
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.hierarchy.order import elimination_order, neighbours_of
from sssp_pipeline.kernels.hierarchy.subtrees import Division, next_range
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO

#: The most lower triangles of a hierarchy: the first number, or the second for each vertex if that is more.
#: Customization takes some nanoseconds for each. Roads have 10 to 40 a vertex, made ones of 24 million vertices 1,300.
MOST_TRIANGLES, MOST_TRIANGLES_A_VERTEX = 4 * 10**9, 2000
#: The most arcs.
MOST_ARCS = 2**29
_REFUSED_HINT = "the separators of this graph are too large for a hierarchy: use `delta-stepping` or `auto`"


@dataclass(frozen=True, eq=False)
class Completion:
    """Order, elimination tree and arcs of a hierarchy, in host memory. It depends on the edges, not on the weights.

    Vertices are named by their ranks, except in `ranks`.
    """

    #: (V,) uint32: the rank of each vertex.
    ranks: np.ndarray
    #: (V,) uint32: the parent in the elimination tree, `NO_VERTEX` for a root. A parent has a higher rank.
    parents: np.ndarray
    #: (V+1,) uint64: the arcs of vertex `v` are `arc_offsets[v]:arc_offsets[v + 1]`.
    arc_offsets: np.ndarray
    #: (A,) uint32: the upper end of each arc. It rises within a vertex; the first is the parent.
    arc_heads: np.ndarray
    #: How many lower triangles there are: pairs of arcs with the same lower end.
    n_triangles: int

    @property
    def n_vertices(self) -> int:
        return len(self.ranks)

    @property
    def n_arcs(self) -> int:
        return len(self.arc_heads)


def completion_of(graph: CsrGraph) -> Completion:
    """Return the completion of `graph`, edges taken in both directions.

    Raises
    ------
    InputError
        It has too many triangles or more than `MOST_ARCS` arcs (`too_large`), or the graph is too large for METIS.
    SsspError
        METIS failed.
    """
    offsets, neighbours = neighbours_of(graph)
    return complete(offsets, neighbours, elimination_order(offsets, neighbours))


def complete(
    offsets: np.ndarray, neighbours: np.ndarray, order: np.ndarray, n_threads: int | None = None
) -> Completion:
    """Return the completion of the graph of `neighbours` in the given order. It raises the errors of `completion_of`.

    Parameters
    ----------
    offsets, neighbours
        As `order.neighbours_of` returns them.
    order
        (V,) uint32, the vertices in the order of their elimination.
    n_threads
        None means one for each usable core.
    """
    counted = count(offsets, neighbours, order, n_threads)
    if (reason := too_large(len(counted.ranks), counted.n_arcs, counted.n_triangles)) is not None:
        raise InputError(reason, hint=_REFUSED_HINT)
    return fill(offsets, neighbours, counted, n_threads)


def too_large(n_vertices: int, n_arcs: int, n_triangles: int | None) -> str | None:
    """Return why a hierarchy of this size is refused, or None; `n_triangles` is None if `n_arcs` is not all of them."""
    if n_triangles is None or n_arcs > MOST_ARCS:
        return f"the hierarchy of this graph has more than {min(n_arcs, MOST_ARCS):,} arcs, the most that are allowed"
    most = max(MOST_TRIANGLES, MOST_TRIANGLES_A_VERTEX * n_vertices)
    if n_triangles > most:
        return f"the hierarchy of this graph has {n_triangles:,} triangles, more than the allowed {most:,}"
    return None


@dataclass(frozen=True, eq=False)
class Counted:
    """A completion whose arcs are counted and not listed yet; as in `Completion`."""

    ranks: np.ndarray
    parents: np.ndarray
    #: (V,) uint64: the arcs of each vertex.
    counts: np.ndarray
    n_arcs: int
    #: None if there are more arcs than were counted.
    n_triangles: int | None


def count(
    offsets: np.ndarray, neighbours: np.ndarray, order: np.ndarray, n_threads: int | None = None
) -> Counted:
    """Return the size of the completion for an order; counting ends when there are more than `MOST_ARCS`.

    Parameters
    ----------
    offsets, neighbours, order, n_threads
        As for `complete`.
    """
    n = len(order)
    ranks = _inverse(order)
    parents = np.full(n, NO_VERTEX)
    _tree(offsets, neighbours, order, ranks, parents)
    new_ranks = np.empty(n, np.uint32)
    _postorder(parents, new_ranks)
    has_parent = parents != NO_VERTEX
    new_parents = np.full(n, NO_VERTEX)
    new_parents[new_ranks[has_parent]] = new_ranks[parents[has_parent]]
    ranks = new_ranks[ranks]
    counts = np.zeros(n, np.uint64)
    n_arcs = _each_arc(offsets, neighbours, ranks, new_parents, n_threads, counts, np.empty(0, np.uint32))
    n_triangles = None
    if n_arcs <= MOST_ARCS:
        n_triangles = int(np.sum(counts * (counts - np.minimum(counts, ONE)))) // 2
    return Counted(ranks, new_parents, counts, n_arcs, n_triangles)


def fill(
    offsets: np.ndarray, neighbours: np.ndarray, counted: Counted, n_threads: int | None = None
) -> Completion:
    """Return the completion that `count` has counted."""
    assert counted.n_triangles is not None
    ranks, parents = counted.ranks, counted.parents
    arc_offsets = np.zeros(len(ranks) + 1, np.uint64)
    np.cumsum(counted.counts, out=arc_offsets[1:])
    heads = np.empty(counted.n_arcs, np.uint32)
    _each_arc(offsets, neighbours, ranks, parents, n_threads, arc_offsets[:-1].copy(), heads)
    return Completion(ranks, parents, arc_offsets, heads, counted.n_triangles)


class Elimination(NamedTuple):
    """What threads read and write to find the arcs. numba passes it like single arrays."""

    #: As in `Division`.
    tops: np.ndarray
    tops_above: np.ndarray
    #: As `order.neighbours_of` returns them.
    offsets: np.ndarray
    neighbours: np.ndarray
    #: (V,) uint32: the vertex of each rank, and as in `Completion`.
    order: np.ndarray
    ranks: np.ndarray
    parents: np.ndarray
    #: (V,) uint64: the next place of each vertex in `heads`, which is empty if arcs are only counted.
    places: np.ndarray
    heads: np.ndarray


def _each_arc(
    offsets: np.ndarray,
    neighbours: np.ndarray,
    ranks: np.ndarray,
    parents: np.ndarray,
    n_threads: int | None,
    places: np.ndarray,
    heads: np.ndarray,
) -> int:
    """Do what `_arcs` does for all vertices, on several threads."""
    division = Division.of(parents, np.ones(len(ranks), np.uint64), n_threads or usable_cores())
    above, most = (division.tops, division.tops_above), np.uint64(MOST_ARCS)
    shared = Elimination(*above, offsets, neighbours, _inverse(ranks), ranks, parents, places, heads)
    n_arcs = sum(division.run(lambda taken: _arcs(taken, division.ranges, most, shared)))
    return n_arcs + _arcs_of_tops(most, shared) if n_arcs <= MOST_ARCS else n_arcs


def _inverse(permutation: np.ndarray) -> np.ndarray:
    inverse = np.empty_like(permutation)
    inverse[permutation] = np.arange(len(permutation), dtype=permutation.dtype)
    return inverse


@njit(nogil=True)
def _tree(
    offsets: np.ndarray, neighbours: np.ndarray, order: np.ndarray, ranks: np.ndarray, parents: np.ndarray
) -> None:
    """Fill `parents` (Liu's algorithm with path compression)."""
    n = np.uint64(len(order))
    tops = np.full(n, NO_VERTEX, np.uint32)
    for i in range(n):
        vertex = order[i]
        for e in range(offsets[vertex], offsets[np.uint64(vertex) + ONE]):
            below = ranks[neighbours[e]]
            if below >= i:
                continue
            while tops[below] != NO_VERTEX and tops[below] != i:
                above = tops[below]
                tops[below] = i
                below = above
            if tops[below] == NO_VERTEX:
                tops[below] = i
                parents[below] = i


@njit(nogil=True)
def _postorder(parents: np.ndarray, new_ranks: np.ndarray) -> None:
    """Fill `new_ranks` with the places of the vertices in a postorder of the forest."""
    n = np.uint64(len(parents))
    first_child = np.full(n, NO_VERTEX, np.uint32)
    next_sibling = np.full(n, NO_VERTEX, np.uint32)
    for i in range(n):
        v = n - ONE - i
        if parents[v] != NO_VERTEX:
            next_sibling[v] = first_child[parents[v]]
            first_child[parents[v]] = v
    place = ZERO
    for root in range(n):
        if parents[root] != NO_VERTEX:
            continue
        v = np.uint32(root)
        while True:
            while first_child[v] != NO_VERTEX:
                v = first_child[v]
            new_ranks[v] = place
            place += ONE
            while v != root and next_sibling[v] == NO_VERTEX:
                v = parents[v]
                new_ranks[v] = place
                place += ONE
            if v == root:
                break
            v = next_sibling[v]


@njit(nogil=True)
def _arcs(taken: np.ndarray, ranges: np.ndarray, most: Any, shared: Elimination) -> Any:
    """Write the upper ends of the arcs of all vertices in ranges to `heads`, and return how many there are.

    `places` rise. Without `heads`, arcs are only counted. The vertices with an arc to i are those on the tree paths
    from the lower neighbours of i up to i. With more than `most` it ends early.
    """
    tops, _, offsets, neighbours, order, ranks, parents, places, heads = shared
    seen = np.full(len(order), NO_VERTEX, np.uint32)
    total = ZERO
    first, end = next_range(taken, ranges)
    while first < end and total <= most:
        for place in range(end - first + np.uint64(len(tops))):
            i = first + place if place < end - first else np.uint64(tops[place - (end - first)])
            vertex = order[i]
            for e in range(offsets[vertex], offsets[np.uint64(vertex) + ONE]):
                below = ranks[neighbours[e]]
                if below >= first and below < min(i, end):
                    total += _walk(below, min(i, end), i, parents, seen, places, heads)
            if total > most:
                break
        first, end = next_range(taken, ranges)
    return total


@njit(nogil=True)
def _arcs_of_tops(most: Any, shared: Elimination) -> Any:
    """Do what `_arcs` does for the vertices above all ranges."""
    tops, tops_above, offsets, neighbours, order, ranks, parents, places, heads = shared
    seen = np.full(len(order), NO_VERTEX, np.uint32)
    total = ZERO
    for i in tops:
        vertex = order[i]
        for e in range(offsets[vertex], offsets[np.uint64(vertex) + ONE]):
            below = ranks[neighbours[e]]
            if below < i:
                total += _walk(tops_above[below], i, i, parents, seen, places, heads)
        if total > most:
            break
    return total


@njit(nogil=True, inline="always")
def _walk(
    below: Any, end: Any, i: Any, parents: np.ndarray, seen: np.ndarray, places: np.ndarray, heads: np.ndarray
) -> Any:
    """Add an arc to `i` to all vertices from `below` up to `end` that have none yet, and return how many."""
    n_arcs = ZERO
    while below < end and seen[below] != i:
        seen[below] = i
        if len(heads):
            heads[places[below]] = i
        places[below] += ONE
        n_arcs += ONE
        below = parents[below]
    return n_arcs
