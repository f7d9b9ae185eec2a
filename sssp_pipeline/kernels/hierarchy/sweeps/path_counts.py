"""Numbers of shortest paths of the arcs of a hierarchy, and what passes arcs as what passes edges and vertices.

An arc from x to y stands for paths that only pass vertices below both. Its number of paths is how many of these are as
short as the arc. A shortest path between two vertices leads over its highest vertex. The vertices before it that are
higher than all earlier ones, and those behind it that are higher than all later ones, are the ends of the arcs of one
way up and down. So each shortest path belongs to one such way, and numbers of paths are products along ways, summed
over the ways that are as short as the distance.

Phases
    1. `PathCounts.of` counts. An arc has one path for each edge between its ends that is as short, and the product of
       the two sides of each lower triangle that is as short. Triangles are visited with the middle vertex rising, so
       that both sides are final. It also finds how many vertices a path of an arc has between its ends, in the mean.
    2. `path_sweep.py` finds what passes each arc.
    3. `PathCounts.spread` gives what passes an arc to its edges and triangles, in proportion to their paths. Upper arcs
       first: what passes an arc is known when all arcs above have given theirs.

Keeps
    I1. Arcs that no shortest path needs (`customization.py`, step 3) have no paths.
Needs
    Weights above zero. With zeros a path could leave a vertex and come back.

References
----------
J. Dibbelt, B. Strasser, D. Wagner, "Customizable contraction hierarchies", 2016, for ways and triangles. Counts on them
and their way back are ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.answers.path_sums import MOST_PATHS
from sssp_pipeline.kernels.hierarchy.completion.arc_completion import Completion
from sssp_pipeline.kernels.hierarchy.completion.arcs import Arcs, arc_between
from sssp_pipeline.kernels.hierarchy.completion.customization import Both, Hierarchy, Tree
from sssp_pipeline.kernels.hierarchy.completion.lanes import saturating_sum
from sssp_pipeline.kernels.hierarchy.completion.subtrees import Division
from sssp_pipeline.kernels.host.numba_tools import ONE
from sssp_pipeline.kernels.host.search_graph import SearchGraph


class ByUpper(NamedTuple):
    """Arcs by their upper end."""

    #: Those with the upper end `v` are `offsets[v]:offsets[v + 1]`; `heads` are their lower ends, rising.
    arcs: Arcs
    #: float64: the paths of each, and the mean number of vertices between their ends.
    paths: np.ndarray
    inner: np.ndarray
    #: int64: the place of each among the arcs by their lower end.
    order: np.ndarray


@dataclass(frozen=True, eq=False)
class PathCounts:
    """The numbers of paths of a hierarchy."""

    hierarchy: Hierarchy
    #: float64: the paths of each arc of `hierarchy.up`, and of each of `hierarchy.down`.
    up: np.ndarray
    down: np.ndarray
    #: float64: the mean number of vertices between the ends of the paths of each.
    inner: Both

    @cached_property
    def down_by_upper(self) -> ByUpper:
        """The arcs of `hierarchy.down` by their upper end."""
        offsets, heads, weights = self.hierarchy.down
        order = np.argsort(heads, kind="stable")
        every = np.arange(len(offsets) - 1, dtype=np.uint32)
        lower = np.repeat(every, np.diff(offsets).astype(np.int64))
        of_upper = np.searchsorted(heads[order], np.arange(len(offsets))).astype(np.uint64)
        arcs = Arcs(of_upper, lower[order], weights[order])
        return ByUpper(arcs, self.down[order], self.inner.down[order], order)

    @classmethod
    def of(cls, graph: CsrGraph, hierarchy: Hierarchy) -> PathCounts | None:
        """Return the numbers of `graph`; None if an arc has more than `MOST_PATHS` paths."""
        tree, places = _tree_of(hierarchy.completion), _places_of(hierarchy)
        weights = _spread_out(hierarchy, places)
        counts, inner = (Both(np.zeros(len(weights.up)), np.zeros(len(weights.up))) for _ in range(2))
        ranks = hierarchy.completion.ranks
        _count_edges(SearchGraph.of(graph), ranks, tree.offsets, tree.heads, weights, counts)
        _count_triangles(tree, weights, counts, inner)
        up, down = counts.up[places.up], counts.down[places.down]
        if max(np.max(up, initial=0), np.max(down, initial=0)) > MOST_PATHS:
            return None
        return cls(hierarchy, up, down, Both(inner.up[places.up], inner.down[places.down]))

    def spread(self, graph: CsrGraph, passing: Both, through: np.ndarray, edges: np.ndarray) -> None:
        """Add what passes arcs to what passes vertices and edges.

        Parameters
        ----------
        passing
            What passes each arc, like `up` and `down`.
        through
            (V,) float64, by rank: raised by what passes a vertex within an arc.
        edges
            (E,) float64: set to what passes each edge. An empty array is left alone.
        """
        hierarchy = self.hierarchy
        tree, places = _tree_of(hierarchy.completion), _places_of(hierarchy)
        weights = _spread_out(hierarchy, places)
        counts, shares = (Both(np.zeros(len(weights.up)), np.zeros(len(weights.up))) for _ in range(2))
        for kept, of_counts, of_shares, paths, flow in zip(
            places, counts, shares, (self.up, self.down), passing, strict=True
        ):
            of_counts[kept], of_shares[kept] = paths, flow
        _spread_triangles(tree, weights, counts, shares, through)
        if len(edges):
            ranks = hierarchy.completion.ranks
            _spread_edges(SearchGraph.of(graph), ranks, tree.offsets, tree.heads, weights, shares, edges)


def _tree_of(completion: Completion) -> Tree:
    return Tree.of(completion, Division.of(completion.parents, np.diff(completion.arc_offsets), 1))


def _places_of(hierarchy: Hierarchy) -> Both:
    """Return the place of each arc of `hierarchy.up`, and of `hierarchy.down`, among the arcs of the completion."""

    def of(arcs: Arcs) -> np.ndarray:
        places = np.empty(len(arcs.heads), np.uint64)
        _find_places(arcs, hierarchy.completion.arc_offsets, hierarchy.completion.arc_heads, places)
        return places

    up = of(hierarchy.up)
    return Both(up, up if hierarchy.down is hierarchy.up else of(hierarchy.down))


def _spread_out(hierarchy: Hierarchy, places: Both) -> Both:
    """Return the weights of all arcs of the completion, the largest value for those that are not needed (I1)."""

    def of(arcs: Arcs, kept: np.ndarray) -> np.ndarray:
        weights = np.full(hierarchy.completion.n_arcs, np.iinfo(arcs.weights.dtype).max, arcs.weights.dtype)
        weights[kept] = arcs.weights
        return weights

    up = of(hierarchy.up, places.up)
    return Both(up, up if hierarchy.down is hierarchy.up else of(hierarchy.down, places.down))


@njit(nogil=True)
def _find_places(arcs: Arcs, offsets: np.ndarray, heads: np.ndarray, places: np.ndarray) -> None:
    """Find arcs among all arcs of the same lower end: both rise."""
    kept_offsets, kept_heads, _ = arcs
    for v in range(np.uint64(len(offsets)) - ONE):
        place = offsets[v]
        for arc in range(kept_offsets[v], kept_offsets[v + ONE]):
            while heads[place] != kept_heads[arc]:
                place += ONE
            places[arc] = place


@njit(nogil=True)
def _count_edges(
    graph: SearchGraph,
    ranks: np.ndarray,
    offsets: np.ndarray,
    heads: np.ndarray,
    weights: Both,
    counts: Both,
) -> None:
    """Count the edges that are as short as their arcs."""
    row_offsets, col_indices, of_edges = graph
    for u in range(np.uint64(len(ranks))):
        for e in range(row_offsets[u], row_offsets[u + ONE]):
            a, b = ranks[u], ranks[col_indices[e]]
            if a == b:
                continue
            arc = arc_between(min(a, b), max(a, b), offsets, heads)
            if a < b:
                counts.up[arc] += np.float64(of_edges[e] == weights.up[arc])
            else:
                counts.down[arc] += np.float64(of_edges[e] == weights.down[arc])


@njit(nogil=True)
def _count_triangles(tree: Tree, weights: Both, counts: Both, inner: Both) -> None:
    """Add the paths through lower triangles, with the middle vertex rising. `inner` are means, like the counts."""
    _, _, offsets, heads, tails_offsets, tails, arcs = tree
    (up, down), (paths_up, paths_down), (inner_up, inner_down) = weights, counts, inner
    n = np.uint64(len(offsets)) - ONE
    unreached = ~up.dtype.type(0)
    at = np.empty(n, np.uint64)
    for x in range(n):
        if tails_offsets[x] == tails_offsets[x + ONE]:
            continue
        for arc in range(offsets[x], offsets[x + ONE]):
            at[heads[arc]] = arc
        for i in range(tails_offsets[x], tails_offsets[x + ONE]):
            to_x = np.uint64(arcs[i])
            x_to_v, v_to_x = down[to_x], up[to_x]
            n_down, n_up = paths_down[to_x], paths_up[to_x]
            out_of_x, into_x = inner_down[to_x] + 1.0, inner_up[to_x] + 1.0
            for to_y in range(to_x + ONE, offsets[np.uint64(tails[i]) + ONE]):
                base = at[heads[to_y]]
                there, back = saturating_sum(x_to_v, up[to_y]), saturating_sum(down[to_y], v_to_x)
                if there == up[base] and there != unreached:
                    more = n_down * paths_up[to_y]
                    paths_up[base] += more
                    inner_up[base] += (out_of_x + inner_up[to_y] - inner_up[base]) * (more / paths_up[base])
                if back == down[base] and back != unreached:
                    more = paths_down[to_y] * n_up
                    paths_down[base] += more
                    inner_down[base] += (inner_down[to_y] + into_x - inner_down[base]) * (
                        more / paths_down[base]
                    )


@njit(nogil=True)
def _spread_triangles(tree: Tree, weights: Both, counts: Both, shares: Both, through: np.ndarray) -> None:
    """Give what passes arcs to the sides of their lower triangles, upper arcs first.

    `shares` are what passes each arc, and become what passes each of its paths.
    """
    _, _, offsets, heads, tails_offsets, tails, arcs = tree
    (up, down), (paths_up, paths_down), (share_up, share_down) = weights, counts, shares
    n = np.uint64(len(offsets)) - ONE
    at = np.empty(n, np.uint64)
    for behind in range(n):
        x = n - ONE - behind
        for arc in range(offsets[x], offsets[x + ONE]):
            at[heads[arc]] = arc
            if share_up[arc] > 0.0:
                share_up[arc] /= paths_up[arc]
            if share_down[arc] > 0.0:
                share_down[arc] /= paths_down[arc]
        for i in range(tails_offsets[x], tails_offsets[x + ONE]):
            to_x, v = np.uint64(arcs[i]), tails[i]
            x_to_v, v_to_x = down[to_x], up[to_x]
            n_down, n_up = paths_down[to_x], paths_up[to_x]
            out_of_x = into_x = 0.0
            for to_y in range(to_x + ONE, offsets[np.uint64(v) + ONE]):
                base = at[heads[to_y]]
                there, back = share_up[base], share_down[base]
                if there > 0.0 and saturating_sum(x_to_v, up[to_y]) == up[base]:
                    part = there * (n_down * paths_up[to_y])
                    out_of_x += part
                    share_up[to_y] += part
                if back > 0.0 and saturating_sum(down[to_y], v_to_x) == down[base]:
                    part = back * (paths_down[to_y] * n_up)
                    into_x += part
                    share_down[to_y] += part
            share_down[to_x] += out_of_x
            share_up[to_x] += into_x
            through[v] += out_of_x + into_x


@njit(nogil=True)
def _spread_edges(
    graph: SearchGraph,
    ranks: np.ndarray,
    offsets: np.ndarray,
    heads: np.ndarray,
    weights: Both,
    shares: Both,
    edges: np.ndarray,
) -> None:
    """Set what passes each edge: the share of a path of its arc, if it is as short."""
    row_offsets, col_indices, of_edges = graph
    for u in range(np.uint64(len(ranks))):
        for e in range(row_offsets[u], row_offsets[u + ONE]):
            a, b = ranks[u], ranks[col_indices[e]]
            edges[e] = 0.0
            if a == b:
                continue
            arc = arc_between(min(a, b), max(a, b), offsets, heads)
            if a < b and of_edges[e] == weights.up[arc]:
                edges[e] = shares.up[arc]
            elif a > b and of_edges[e] == weights.down[arc]:
                edges[e] = shares.down[arc]
