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
    I3. Step 2 visits the upper ends of arcs in rising order, step 3 in falling order. An arc that is read as the third
        side of a triangle is then final.

References
----------
J. Dibbelt, B. Strasser, D. Wagner, "Customizable contraction hierarchies", 2016, sections 7.1 to 7.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sssp_pipeline.csr import CsrGraph
from sssp_pipeline.kernels.hierarchy.completion import Completion
from sssp_pipeline.kernels.hierarchy.lanes import saturating_sum
from sssp_pipeline.kernels.host.numba_tools import ONE
from sssp_pipeline.kernels.host.search_graph import as_searched
from sssp_pipeline.numba_cache import njit


@dataclass(frozen=True, eq=False)
class Arcs:
    """The arcs of one direction that shortest paths need, in host memory; vertices are ranks."""

    #: (V+1,) uint64: those with the lower end `v` are `offsets[v]:offsets[v + 1]`.
    offsets: np.ndarray
    #: (A,) uint32: their upper ends, rising.
    heads: np.ndarray
    #: (A,) uint32 or uint64: the distance in this direction; below the largest value.
    weights: np.ndarray

    @property
    def n_bytes(self) -> int:
        return self.offsets.nbytes + self.heads.nbytes + self.weights.nbytes


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """All that a sweep needs of a graph and its weights."""

    completion: Completion
    #: From the lower end to the upper one.
    up: Arcs
    #: From the upper end to the lower one. The same object as `up` if every weight is the same in both directions.
    down: Arcs


def customize(completion: Completion, graph: CsrGraph) -> Hierarchy:
    """Return the hierarchy of `graph` for its weights.

    Parameters
    ----------
    completion
        As `completion_of` returns it for a graph with the same edges.
    graph
        Its weights are integers of zero or more.
    """
    weights = as_searched(graph, graph.weights)
    up = np.full(completion.n_arcs, np.iinfo(weights.dtype).max, weights.dtype)
    down = up.copy()
    offsets, heads = completion.arc_offsets, completion.arc_heads
    _take_edges(
        graph.row_offsets.view(np.uint64),
        graph.col_indices,
        weights,
        completion.ranks,
        offsets,
        heads,
        up,
        down,
    )
    is_symmetric = bool(np.array_equal(up, down))
    if is_symmetric:
        down = up
    tails_offsets, tails, arcs = _arcs_into(completion)
    _through_lower(offsets, heads, tails_offsets, tails, arcs, up, down, is_symmetric)
    keeps_up = up != np.iinfo(up.dtype).max
    keeps_down = keeps_up if is_symmetric else down != np.iinfo(up.dtype).max
    _through_upper(offsets, heads, tails_offsets, tails, arcs, up, down, keeps_up, keeps_down, is_symmetric)
    of_up = _kept(completion, up, keeps_up)
    return Hierarchy(completion, of_up, of_up if is_symmetric else _kept(completion, down, keeps_down))


def _arcs_into(completion: Completion) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return for each upper end the lower ends of its arcs, rising, and these arcs: offsets, lower ends, arcs."""
    n_arcs = completion.n_arcs
    offsets = np.zeros(completion.n_vertices + 1, np.uint64)
    np.cumsum(np.bincount(completion.arc_heads, minlength=completion.n_vertices), out=offsets[1:])
    tails, arcs = np.empty(n_arcs, np.uint32), np.empty(n_arcs, np.uint32)
    _turn(completion.arc_offsets, completion.arc_heads, offsets[:-1].copy(), tails, arcs)
    return offsets, tails, arcs


def _kept(completion: Completion, weights: np.ndarray, keeps: np.ndarray) -> Arcs:
    before = np.zeros(len(keeps) + 1, np.uint64)
    np.cumsum(keeps, out=before[1:])
    return Arcs(before[completion.arc_offsets], completion.arc_heads[keeps], weights[keeps])


@njit(nogil=True)
def _take_edges(
    row_offsets: np.ndarray,
    col_indices: np.ndarray,
    weights: np.ndarray,
    ranks: np.ndarray,
    offsets: np.ndarray,
    heads: np.ndarray,
    up: np.ndarray,
    down: np.ndarray,
) -> None:
    """Lower each arc to the weights of the edges between its ends."""
    for u in range(np.uint64(len(ranks))):
        for e in range(row_offsets[u], row_offsets[u + ONE]):
            a, b = ranks[u], ranks[col_indices[e]]
            if a == b:
                continue
            low, high = min(a, b), max(a, b)
            first, last = offsets[low], offsets[np.uint64(low) + ONE] - ONE
            while first < last:
                middle = (first + last) >> ONE
                if heads[middle] < high:
                    first = middle + ONE
                else:
                    last = middle
            if a < b:
                up[first] = min(up[first], weights[e])
            else:
                down[first] = min(down[first], weights[e])


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
def _through_lower(
    offsets: np.ndarray,
    heads: np.ndarray,
    tails_offsets: np.ndarray,
    tails: np.ndarray,
    arcs: np.ndarray,
    up: np.ndarray,
    down: np.ndarray,
    is_symmetric: bool,
) -> None:
    """Lower every arc to the best way through its lower triangles (step 2)."""
    n = np.uint64(len(offsets)) - ONE
    arc_to = np.zeros(n, np.uint32)
    for x in range(n):
        for arc in range(offsets[x], offsets[x + ONE]):
            arc_to[heads[arc]] = arc
        for i in range(tails_offsets[x], tails_offsets[x + ONE]):
            to_x = np.uint64(arcs[i])
            x_to_v, v_to_x = down[to_x], up[to_x]
            for to_y in range(to_x + ONE, offsets[np.uint64(tails[i]) + ONE]):
                arc = arc_to[heads[to_y]]
                up[arc] = min(up[arc], saturating_sum(x_to_v, up[to_y]))
                if not is_symmetric:
                    down[arc] = min(down[arc], saturating_sum(down[to_y], v_to_x))


@njit(nogil=True)
def _through_upper(
    offsets: np.ndarray,
    heads: np.ndarray,
    tails_offsets: np.ndarray,
    tails: np.ndarray,
    arcs: np.ndarray,
    up: np.ndarray,
    down: np.ndarray,
    keeps_up: np.ndarray,
    keeps_down: np.ndarray,
    is_symmetric: bool,
) -> None:
    """Lower every arc (v, y) and (v, z) of a triangle by its third side (z, y); unmark what is lowered (step 3)."""
    n = np.uint64(len(offsets)) - ONE
    arc_to = np.zeros(n, np.uint32)
    for i in range(n):
        z = n - ONE - i
        for arc in range(offsets[z], offsets[z + ONE]):
            arc_to[heads[arc]] = arc
        for j in range(tails_offsets[z], tails_offsets[z + ONE]):
            to_z = np.uint64(arcs[j])
            for to_y in range(to_z + ONE, offsets[np.uint64(tails[j]) + ONE]):
                arc = arc_to[heads[to_y]]
                z_to_y, y_to_z = up[arc], down[arc]
                _lower(up, keeps_up, to_y, saturating_sum(up[to_z], z_to_y))
                _lower(up, keeps_up, to_z, saturating_sum(up[to_y], y_to_z))
                if not is_symmetric:
                    _lower(down, keeps_down, to_y, saturating_sum(y_to_z, down[to_z]))
                    _lower(down, keeps_down, to_z, saturating_sum(z_to_y, down[to_y]))


@njit(nogil=True, inline="always")
def _lower(weights: np.ndarray, keeps: np.ndarray, arc: Any, weight: Any) -> None:
    if weight < weights[arc]:  # I2: a tie is kept
        weights[arc] = weight
        keeps[arc] = False
