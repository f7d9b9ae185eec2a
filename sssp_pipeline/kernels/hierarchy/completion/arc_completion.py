"""The completion of a graph in the order of a hierarchy: every arc that eliminating its vertices needs.

Eliminating a vertex joins its neighbours of higher rank. An arc joins two vertices that are neighbours in the graph or
were joined so. The lowest upper neighbour of a vertex is its parent in the elimination tree. All its other upper
neighbours are upper neighbours of the parent too, so every arc leads to an ancestor.

The order and the completion do not depend on weights. So they serve any weights of the same graph, and they are kept
in one record of plain arrays, `Completion`.

If a vertex has one upper neighbour more than its parent, these are the parent and all upper neighbours of the parent.
In large separators this is so for nearly all vertices. The others are the leaders. Only arcs of leaders are searched
for. Every other vertex has arcs to the vertices up to the first leader above it, and copies the arcs of that leader.

Vertices are ranked in postorder of the elimination tree. That leaves the arcs as they are, gives every subtree
consecutive ranks, and keeps what a sweep reads close together.

References
----------
J. W. H. Liu, "The role of elimination trees in sparse factorization", 1990. J. R. Gilbert, E. G. Ng, B. W. Peyton, "An
efficient algorithm to compute row and column counts for sparse Cholesky factorization", 1994. J. Dibbelt, B. Strasser,
D. Wagner, "Customizable contraction hierarchies", 2016, sections 5 and 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from sssp_pipeline.base.csr import NO_VERTEX, CsrGraph
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.host_memory import free_memory_bytes
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.hierarchy.completion import costs
from sssp_pipeline.kernels.hierarchy.completion.subtrees import Division, firsts_of, next_range
from sssp_pipeline.kernels.hierarchy.ordering.order import elimination_order, neighbours_of
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO

#: The hint for a hierarchy that is too large.
REFUSED_HINT = "the separators of this graph are too large for a hierarchy: use `delta-stepping` or `auto`"


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

    @cached_property
    def largest_front(self) -> int:
        """The most arcs of a vertex."""
        return int(np.max(np.diff(self.arc_offsets), initial=0))


def completion_of(graph: CsrGraph) -> Completion:
    """Return the completion of `graph`, edges taken in both directions.

    Raises
    ------
    InputError
        It has too many arcs (`costs.too_many_arcs`), or the graph is too large for METIS.
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
    counted = count(offsets, neighbours, order)
    reason = costs.too_many_arcs(len(order), counted.n_arcs, free_memory_bytes())
    if reason is not None:
        raise InputError(f"no hierarchy of this graph can be made: {reason}", hint=REFUSED_HINT)
    return fill(offsets, neighbours, counted, n_threads)


@dataclass(frozen=True, eq=False)
class Counted:
    """A completion whose arcs are counted and not listed yet; as in `Completion`."""

    ranks: np.ndarray
    parents: np.ndarray
    #: (V,) uint64: the arcs of each vertex.
    counts: np.ndarray
    n_arcs: int
    n_triangles: int

    @property
    def largest_front(self) -> int:
        return int(np.max(self.counts, initial=0))


def count(offsets: np.ndarray, neighbours: np.ndarray, order: np.ndarray) -> Counted:
    """Return the size of the completion for an order. It takes about as long as to read the neighbours twice.

    Parameters
    ----------
    offsets, neighbours, order
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
    counts = np.zeros(n, np.int64)
    _count(offsets, neighbours, _inverse(ranks), ranks, new_parents, firsts_of(new_parents), counts)
    n_triangles = int(np.sum(counts * (counts - 1) // 2))
    return Counted(ranks, new_parents, counts.view(np.uint64), int(np.sum(counts)), n_triangles)


def fill(
    offsets: np.ndarray, neighbours: np.ndarray, counted: Counted, n_threads: int | None = None
) -> Completion:
    """Return the completion that `count` has counted; `n_threads` as for `complete`."""
    ranks, parents = counted.ranks, counted.parents
    arc_offsets = np.zeros(len(ranks) + 1, np.uint64)
    np.cumsum(counted.counts, out=arc_offsets[1:])
    heads = np.empty(counted.n_arcs, np.uint32)
    division = Division.of(parents, np.ones(len(ranks), np.uint64), n_threads or usable_cores())
    leaders = np.empty(len(ranks), np.uint32)
    _find_leaders(parents, counted.counts, leaders)
    shared = Elimination(
        division.tops,
        division.tops_above,
        offsets,
        neighbours,
        _inverse(ranks),
        ranks,
        parents,
        leaders,
        arc_offsets[:-1].copy(),
        heads,
    )
    division.run(lambda taken: _list_arcs(taken, division.ranges, shared))
    _list_arcs_of_tops(shared)
    division.run_evenly(
        counted.counts, lambda first, end: _copy_arcs(first, end, parents, leaders, arc_offsets, heads)
    )
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
    #: (V,) uint32: the lowest leader at or above each vertex. A leader is a root, or lacks an upper neighbour of its
    #: parent.
    leaders: np.ndarray
    #: (V,) uint64: the next place of each vertex in `heads`.
    places: np.ndarray
    heads: np.ndarray


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
def _count(
    offsets: np.ndarray,
    neighbours: np.ndarray,
    order: np.ndarray,
    ranks: np.ndarray,
    parents: np.ndarray,
    firsts: np.ndarray,
    counts: np.ndarray,
) -> None:
    """Fill `counts` (V,) int64, which are zero, with the number of arcs of each vertex.

    The vertices with an arc to i are a subtree with the root i. Its leaves are the lower neighbours of i that have no
    other one below them. In postorder, a leaf adds the path up to where the path from the leaf before it joins. So the
    differences between the counts of a vertex and its children follow from the leaves (Gilbert, Ng and Peyton).
    """
    n = np.uint64(len(order))
    newest = np.full(n, NO_VERTEX, np.uint32)  # the last leaf of the subtree of each vertex
    above = np.arange(len(order)).astype(np.uint32)  # on the way to the highest vertex that was visited
    for v in range(n):
        counts[v] += np.int64(firsts[v] == v)
        if parents[v] != NO_VERTEX:
            counts[parents[v]] -= 1  # v itself, which the sum over children contains
        vertex = order[v]
        for e in range(offsets[vertex], offsets[np.uint64(vertex) + ONE]):
            i = ranks[neighbours[e]]
            if i <= v or (newest[i] != NO_VERTEX and firsts[v] <= newest[i]):
                continue
            counts[v] += 1
            if newest[i] != NO_VERTEX:
                joined = newest[i]
                while above[joined] != joined:
                    joined = above[joined]
                below = newest[i]
                while below != joined:
                    further = above[below]
                    above[below] = joined
                    below = further
                counts[joined] -= 1
            newest[i] = v
        if parents[v] != NO_VERTEX:
            above[v] = parents[v]
    for v in range(n):
        if parents[v] != NO_VERTEX:
            counts[parents[v]] += counts[v]
    for v in range(n):
        counts[v] -= 1  # itself


@njit(nogil=True)
def _find_leaders(parents: np.ndarray, counts: np.ndarray, leaders: np.ndarray) -> None:
    """Fill `leaders`, from the number of arcs of each vertex."""
    n = np.uint64(len(parents))
    for behind in range(n):
        v = n - ONE - behind
        parent = parents[v]
        is_led = parent != NO_VERTEX and counts[v] == counts[parent] + ONE
        leaders[v] = leaders[parent] if is_led else v


@njit(nogil=True)
def _list_arcs(taken: np.ndarray, ranges: np.ndarray, shared: Elimination) -> None:
    """Write the upper ends of the arcs of all leaders in ranges to `heads`.

    `places` rise. The vertices with an arc to i are those on the tree paths from the lower neighbours of i up to i.
    """
    tops, _, offsets, neighbours, order, ranks, parents, leaders, places, heads = shared
    seen = np.full(len(order), NO_VERTEX, np.uint32)
    first, end = next_range(taken, ranges)
    while first < end:
        for place in range(end - first + np.uint64(len(tops))):
            i = first + place if place < end - first else np.uint64(tops[place - (end - first)])
            vertex = order[i]
            for e in range(offsets[vertex], offsets[np.uint64(vertex) + ONE]):
                below = ranks[neighbours[e]]
                if below >= first and below < min(i, end):
                    _walk(below, min(i, end), i, parents, leaders, seen, places, heads)
        first, end = next_range(taken, ranges)


@njit(nogil=True)
def _list_arcs_of_tops(shared: Elimination) -> None:
    """Do what `_list_arcs` does for the vertices above all ranges."""
    tops, tops_above, offsets, neighbours, order, ranks, parents, leaders, places, heads = shared
    seen = np.full(len(order), NO_VERTEX, np.uint32)
    for i in tops:
        vertex = order[i]
        for e in range(offsets[vertex], offsets[np.uint64(vertex) + ONE]):
            below = ranks[neighbours[e]]
            if below < i:
                _walk(tops_above[below], i, i, parents, leaders, seen, places, heads)


@njit(nogil=True, inline="always")
def _walk(
    below: Any,
    end: Any,
    i: Any,
    parents: np.ndarray,
    leaders: np.ndarray,
    seen: np.ndarray,
    places: np.ndarray,
    heads: np.ndarray,
) -> None:
    """Add an arc to `i` to all leaders from `below` up to `end` that have none yet."""
    below = leaders[below]
    while below < end and seen[below] != i:
        seen[below] = i
        heads[places[below]] = i
        places[below] += ONE
        below = leaders[parents[below]]


@njit(nogil=True)
def _copy_arcs(
    first: Any,
    end: Any,
    parents: np.ndarray,
    leaders: np.ndarray,
    arc_offsets: np.ndarray,
    heads: np.ndarray,
) -> None:
    """Write the arcs of the vertices from `first` to `end` that have leaders: up to the leader, then its arcs."""
    for v in range(first, end):
        place, leader, above = arc_offsets[v], leaders[v], np.uint32(v)
        while above != leader:
            above = parents[above]
            heads[place] = above
            place += ONE
        if leader != v:
            for arc in range(arc_offsets[leader], arc_offsets[np.uint64(leader) + ONE]):
                heads[place] = heads[arc]
                place += ONE
