"""The customization of a completion: the weights of its arcs, and the arcs that shortest paths need.

An arc has two weights, one for each direction. Up leads to the end of higher rank, down to the other. A lower triangle
of an arc (x, y) is a vertex below both that has arcs to both. Its two sides form a way from x to y.

1. Each arc gets the least weight of the edges between its ends. Without an edge it gets `UNREACHED`.
2. Every arc is lowered to the best way through its lower triangles, lower arcs first. Now a shortest path between any
   two vertices goes up first and then down.
3. Every arc is lowered to the best way through its other triangles, upper arcs first. Now its weight is the distance
   between its ends. An arc that was lowered here is on no shortest path that goes up and down, so it is left out.

Keeps
    I1. Sums saturate at `UNREACHED`, the largest value of the type. A saturated sum behaves like infinity: the least
        of some saturated sums is the saturated least sum. So every weight is exact below `UNREACHED`.
    I2. Step 3 leaves an arc out only if it was lowered, never for a tie. With weights of zero, two arcs may each be
        as short as a way over the other one, and leaving out both would lose the path.
    I3. Step 2 visits the middle vertices of triangles in rising order, step 3 in falling order. An arc that is read as
        the third side of a triangle is then final.
    I4. Threads take ranges of vertices (`subtrees.py`). Step 2 lowers an arc between two tops through a range while
        other threads lower it too. In step 3 only the thread with the lower end of an arc writes it.

References
----------
J. Dibbelt, B. Strasser, D. Wagner, "Customizable contraction hierarchies", 2016, sections 7.1 to 7.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.hierarchy.completion.arc_completion import Completion
from sssp_pipeline.kernels.hierarchy.completion.arcs import Arcs, arc_between, marked_arcs
from sssp_pipeline.kernels.hierarchy.completion.lanes import saturating_sum
from sssp_pipeline.kernels.hierarchy.completion.subtrees import Division, next_range
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.kernels.host.numba_tools import ONE, atomic_min, load_relaxed
from sssp_pipeline.kernels.host.search_graph import as_searched


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """All that a sweep needs of a graph and its weights."""

    completion: Completion
    #: From the lower end to the upper one.
    up: Arcs
    #: From the upper end to the lower one. The same object as `up` if every weight is the same in both directions.
    down: Arcs


class Both(NamedTuple):
    """Something about the way up and the way down. numba passes it like single arrays."""

    up: np.ndarray
    down: np.ndarray


class Tree(NamedTuple):
    """The elimination tree, its arcs by either end, and the tops of a division. numba passes it like single arrays."""

    #: As in `Division`.
    tops: np.ndarray
    tops_above: np.ndarray
    #: As `arc_offsets` and `arc_heads` of `Completion`.
    offsets: np.ndarray
    heads: np.ndarray
    #: For each upper end the lower ends of its arcs, rising, and these arcs: (V+1,) uint64, (A,) and (A,) uint32.
    tails_offsets: np.ndarray
    tails: np.ndarray
    arcs: np.ndarray

    @classmethod
    def of(cls, completion: Completion, division: Division) -> Tree:
        offsets, heads = completion.arc_offsets, completion.arc_heads
        tails_offsets = np.zeros(completion.n_vertices + 1, np.uint64)
        np.cumsum(np.bincount(heads, minlength=completion.n_vertices), out=tails_offsets[1:])
        tails, arcs = np.empty(completion.n_arcs, np.uint32), np.empty(completion.n_arcs, np.uint32)
        _turn(offsets, heads, tails_offsets[:-1].copy(), tails, arcs)
        return cls(division.tops, division.tops_above, offsets, heads, tails_offsets, tails, arcs)


def customize(completion: Completion, graph: CsrGraph, n_threads: int | None = None) -> Hierarchy:
    """Return the hierarchy of `graph` for its weights.

    Parameters
    ----------
    completion
        As `completion_of` returns it for a graph with the same edges.
    graph
        Its weights are integers of zero or more.
    n_threads
        None means one for each usable core. The result does not depend on it.
    """
    counts = np.diff(completion.arc_offsets)
    division = Division.of(completion.parents, counts * counts + ONE, n_threads or usable_cores())
    (up, keeps_up), (down, keeps_down) = _lowered(completion, graph, division)
    of_up = marked_arcs(completion, up, keeps_up, division)
    return Hierarchy(
        completion, of_up, of_up if down is up else marked_arcs(completion, down, keeps_down, division)
    )


def _lowered(
    completion: Completion, graph: CsrGraph, division: Division
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Return the weights (A,) of all arcs and whether each is kept, for the way up and the way down."""
    weights, tree = of_edges(completion, graph, division), Tree.of(completion, division)
    up, down = weights
    lower_from_below(tree, weights, division)
    before = [up.copy()] if down is up else [up.copy(), down.copy()]
    lower_from_above(tree, weights, division)
    # I2: a tie is kept.
    unreached = np.iinfo(up.dtype).max
    keeps = [(now == then) & (now != unreached) for now, then in zip(weights, before, strict=False)]
    return (up, keeps[0]), (down, keeps[-1])


def of_edges(completion: Completion, graph: CsrGraph, division: Division) -> Both:
    """Return the weights (A,) of all arcs after step 1; the same array twice if both directions are the same."""
    weights = as_searched(graph, graph.weights)
    up = np.full(completion.n_arcs, np.iinfo(weights.dtype).max, weights.dtype)
    down = up.copy()
    offsets, heads = completion.arc_offsets, completion.arc_heads
    row_offsets = graph.row_offsets.view(np.uint64)
    edges = (row_offsets, graph.col_indices, weights, completion.ranks)
    division.run_evenly(
        np.diff(row_offsets), lambda first, end: _take_edges(first, end, *edges, offsets, heads, up, down)
    )
    return Both(up, up if np.array_equal(up, down) else down)


def lower_from_below(tree: Tree, weights: Both, division: Division) -> None:
    """Do step 2."""
    ranges, is_symmetric = division.ranges, weights.down is weights.up
    division.run(lambda taken: _through_ranges_up(taken, ranges, tree, weights, is_symmetric))
    _through_tops_up(tree, weights, is_symmetric)


def lower_from_above(tree: Tree, weights: Both, division: Division) -> None:
    """Do step 3."""
    ranges, is_symmetric = division.ranges, weights.down is weights.up
    _through_tops_down(tree, weights, is_symmetric)
    division.run(lambda taken: _through_ranges_down(taken, ranges, tree, weights, is_symmetric))


@njit(nogil=True)
def _take_edges(
    first_vertex: Any,
    end_vertex: Any,
    row_offsets: np.ndarray,
    col_indices: np.ndarray,
    weights: np.ndarray,
    ranks: np.ndarray,
    offsets: np.ndarray,
    heads: np.ndarray,
    up: np.ndarray,
    down: np.ndarray,
) -> None:
    """Lower each arc to the weights of the edges between its ends, from `first_vertex` up to `end_vertex`.

    No other edges lower the same arc in the same direction.
    """
    for u in range(first_vertex, end_vertex):
        for e in range(row_offsets[u], row_offsets[u + ONE]):
            a, b = ranks[u], ranks[col_indices[e]]
            if a == b:
                continue
            arc = arc_between(min(a, b), max(a, b), offsets, heads)
            if a < b:
                up[arc] = min(up[arc], weights[e])
            else:
                down[arc] = min(down[arc], weights[e])


@njit(nogil=True)
def _turn(
    offsets: np.ndarray, heads: np.ndarray, places: np.ndarray, tails: np.ndarray, arcs: np.ndarray
) -> None:
    """Fill `tails` and `arcs`; `places` are the next places of the upper ends."""
    for v in range(np.uint64(len(offsets)) - ONE):
        for arc in range(offsets[v], offsets[v + ONE]):
            place = places[heads[arc]]
            tails[place], arcs[place] = v, arc
            places[heads[arc]] += ONE


@njit(nogil=True)
def _through_ranges_up(
    taken: np.ndarray, ranges: np.ndarray, tree: Tree, weights: Both, is_symmetric: bool
) -> None:
    """Lower every arc to the best way through its lower triangles whose lowest vertex is in a range (step 2)."""
    tops, tops_above, offsets, heads, tails_offsets, tails, arcs = tree
    rows = Both(np.empty(len(tops_above), weights.up.dtype), np.empty(len(tops_above), weights.up.dtype))
    first, end = next_range(taken, ranges)
    while first < end:
        for place in range(end - first + np.uint64(len(tops))):
            is_top = place >= end - first
            x = np.uint64(tops[place - (end - first)]) if is_top else first + place
            begin, stop = tails_offsets[x], tails_offsets[x + ONE]
            if is_top:
                begin, stop = _place_of(tails, begin, stop, first), _place_of(tails, begin, stop, end)
            if begin == stop:
                continue
            first_arc, end_arc = offsets[x], offsets[x + ONE]
            _spread(first_arc, end_arc, heads, weights, rows, is_symmetric)
            for i in range(begin, stop):
                end_of_v = offsets[np.uint64(tails[i]) + ONE]
                _through(arcs[i], end_of_v, heads, weights, rows, is_symmetric)
            _collect(first_arc, end_arc, heads, rows.up, weights.up, is_top)
            if not is_symmetric:
                _collect(first_arc, end_arc, heads, rows.down, weights.down, is_top)
        first, end = next_range(taken, ranges)


@njit(nogil=True)
def _through_tops_up(tree: Tree, weights: Both, is_symmetric: bool) -> None:
    """Do what `_through_ranges_up` does for lowest vertices above all ranges, after it."""
    tops, tops_above, offsets, heads, tails_offsets, tails, arcs = tree
    rows = Both(np.empty(len(tops_above), weights.up.dtype), np.empty(len(tops_above), weights.up.dtype))
    for top in tops:
        x = np.uint64(top)
        first_arc, end_arc = offsets[x], offsets[x + ONE]
        _spread(first_arc, end_arc, heads, weights, rows, is_symmetric)
        for i in range(tails_offsets[x], tails_offsets[x + ONE]):
            if tops_above[tails[i]] == tails[i]:
                end_of_v = offsets[np.uint64(tails[i]) + ONE]
                _through(arcs[i], end_of_v, heads, weights, rows, is_symmetric)
        _collect(first_arc, end_arc, heads, rows.up, weights.up, False)
        if not is_symmetric:
            _collect(first_arc, end_arc, heads, rows.down, weights.down, False)


@njit(nogil=True, inline="always")
def _spread(first: Any, end: Any, heads: np.ndarray, weights: Both, rows: Both, is_symmetric: bool) -> None:
    """Copy the weights of the arcs `first` to `end` of a vertex to the places of their upper ends in two rows."""
    (up, down), (row_up, row_down) = weights, rows
    for arc in range(first, end):
        row_up[heads[arc]] = load_relaxed(up, arc)
        if not is_symmetric:
            row_down[heads[arc]] = load_relaxed(down, arc)


@njit(nogil=True, inline="always")
def _collect(
    first: Any, end: Any, heads: np.ndarray, row: np.ndarray, weights: np.ndarray, is_shared: bool
) -> None:
    """Lower the weights of the arcs `first` to `end` of a vertex to those in a row."""
    for arc in range(first, end):
        weight = row[heads[arc]]
        if not is_shared:
            weights[arc] = weight
        elif weight < load_relaxed(weights, arc):
            atomic_min(weights, arc, weight)


@njit(nogil=True, inline="always")
def _through(to_x: Any, end: Any, heads: np.ndarray, weights: Both, rows: Both, is_symmetric: bool) -> None:
    """Lower the rows of x to the ways through the lower end of the arc `to_x`; its further arcs are up to `end`."""
    (up, down), (row_up, row_down) = weights, rows
    x_to_v, v_to_x = down[to_x], up[to_x]
    for to_y in range(np.uint64(to_x) + ONE, end):
        y = heads[to_y]
        row_up[y] = min(row_up[y], saturating_sum(x_to_v, up[to_y]))
        if not is_symmetric:
            row_down[y] = min(row_down[y], saturating_sum(down[to_y], v_to_x))


@njit(nogil=True)
def _through_ranges_down(
    taken: np.ndarray, ranges: np.ndarray, tree: Tree, weights: Both, is_symmetric: bool
) -> None:
    """Lower every arc whose lower end is in a range through its other triangles (step 3)."""
    tops, tops_above, offsets, heads, tails_offsets, tails, arcs = tree
    rows = Both(np.empty(len(tops_above), weights.up.dtype), np.empty(len(tops_above), weights.up.dtype))
    first, end = next_range(taken, ranges)
    while first < end:
        n_tops = np.uint64(len(tops))
        for place in range(n_tops + end - first):
            is_top = place < n_tops
            z = np.uint64(tops[n_tops - ONE - place]) if is_top else end - ONE - (place - n_tops)
            begin, stop = tails_offsets[z], tails_offsets[z + ONE]
            if is_top:
                begin, stop = _place_of(tails, begin, stop, first), _place_of(tails, begin, stop, end)
            if begin < stop:
                _spread(offsets[z], offsets[z + ONE], heads, weights, rows, is_symmetric)
            for j in range(begin, stop):
                end_of_v = offsets[np.uint64(tails[j]) + ONE]
                _around(arcs[j], end_of_v, heads, weights, rows, is_symmetric)
        first, end = next_range(taken, ranges)


@njit(nogil=True)
def _through_tops_down(tree: Tree, weights: Both, is_symmetric: bool) -> None:
    """Do what `_through_ranges_down` does for lower ends above all ranges, before it."""
    tops, tops_above, offsets, heads, tails_offsets, tails, arcs = tree
    rows = Both(np.empty(len(tops_above), weights.up.dtype), np.empty(len(tops_above), weights.up.dtype))
    for i in range(np.uint64(len(tops))):
        z = np.uint64(tops[np.uint64(len(tops)) - ONE - i])
        _spread(offsets[z], offsets[z + ONE], heads, weights, rows, is_symmetric)
        for j in range(tails_offsets[z], tails_offsets[z + ONE]):
            if tops_above[tails[j]] == tails[j]:
                end_of_v = offsets[np.uint64(tails[j]) + ONE]
                _around(arcs[j], end_of_v, heads, weights, rows, is_symmetric)


@njit(nogil=True, inline="always")
def _around(to_z: Any, end: Any, heads: np.ndarray, weights: Both, rows: Both, is_symmetric: bool) -> None:
    """Lower the arcs (v, y) and (v, z) of triangles by their third side (z, y); `to_z` is (v, z), and y is above z.

    The rows have the weights of the arcs of z, which are final (I3). A way that begins with (v, z) may use its weight
    before or after it is lowered here: what lowers it is a way through (v, y), which lowers the same arcs.
    """
    (up, down), (row_up, row_down) = weights, rows
    v_to_z, z_to_v = up[to_z], down[to_z]
    best_up, best_down = v_to_z, z_to_v
    for to_y in range(np.uint64(to_z) + ONE, end):
        y = heads[to_y]
        v_to_y, z_to_y = up[to_y], row_up[y]
        if is_symmetric:
            best_up = min(best_up, saturating_sum(v_to_y, z_to_y))
        else:
            y_to_v, y_to_z = down[to_y], row_down[y]
            best_up = min(best_up, saturating_sum(v_to_y, y_to_z))
            best_down = min(best_down, saturating_sum(z_to_y, y_to_v))
            down[to_y] = min(y_to_v, saturating_sum(y_to_z, z_to_v))
        up[to_y] = min(v_to_y, saturating_sum(v_to_z, z_to_y))
    up[to_z] = best_up
    if not is_symmetric:
        down[to_z] = best_down


@njit(nogil=True)
def _place_of(tails: np.ndarray, first: Any, end: Any, vertex: Any) -> Any:
    """Return the first of the places `first` to `end` of the rising `tails` that is not below `vertex`, or `end`."""
    while first < end:
        middle = (first + end) >> ONE
        if tails[middle] < vertex:
            first = middle + ONE
        else:
            end = middle
    return first
