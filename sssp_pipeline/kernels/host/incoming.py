"""The edges of a graph by the vertices where they end."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sssp_pipeline.base.csr import CsrGraph, GraphTraits
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO
from sssp_pipeline.kernels.host.search_graph import SearchGraph


@dataclass(frozen=True, eq=False)
class Incoming:
    """The edges into each vertex."""

    #: (V+1,) uint64: those into `v` are `offsets[v]:offsets[v + 1]`.
    offsets: np.ndarray
    #: (E,) uint32: where they start, rising; their weights; and (E,) int64: their places in the graph.
    starts: np.ndarray
    weights: np.ndarray
    edges: np.ndarray

    @classmethod
    def of(cls, graph: CsrGraph, costs: Sequence[np.ndarray] = ()) -> Incoming:
        """Return the edges of `graph`.

        Of parallel edges, the one with the smallest of the first `costs` (E,) comes first, then the next costs decide,
        and last the place in the graph.
        """
        searched = SearchGraph.of(graph)
        offsets = np.zeros(graph.n_vertices + 1, np.uint64)
        starts, edges = np.empty(graph.n_edges, np.uint32), np.empty(graph.n_edges, np.int64)
        _sort_by_end(searched.row_offsets, searched.col_indices, offsets, starts, edges)
        if costs:
            is_again = np.zeros(graph.n_edges + 1, np.bool_)
            is_again[1:-1] = starts[1:] == starts[:-1]
            is_again[offsets] = False  # the first edge into a vertex
            parallel = np.flatnonzero(is_again[1:] | is_again[:-1])
            groups = np.cumsum(~is_again[parallel])
            values = [of_edges[edges[parallel]] for of_edges in reversed(costs)]
            edges[parallel] = edges[parallel[np.lexsort([*values, groups])]]
        return cls(offsets, starts, searched.weights[edges], edges)

    @classmethod
    def kept(cls, graph: CsrGraph) -> Incoming:
        """Return the edges of `graph`, which are made once and kept as long as `graph`."""
        with _lock:
            if graph not in _incoming:
                _incoming[graph] = cls.of(graph)
            return _incoming[graph]

    @staticmethod
    def n_bytes(traits: GraphTraits) -> int:
        """Return its memory."""
        return 8 * (traits.n_vertices + 1) + (12 + traits.weight_dtype.itemsize) * traits.n_edges


_incoming: weakref.WeakKeyDictionary[CsrGraph, Incoming] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


@njit(nogil=True)
def _sort_by_end(
    row_offsets: np.ndarray,
    col_indices: np.ndarray,
    offsets: np.ndarray,
    starts: np.ndarray,
    edges: np.ndarray,
) -> None:
    """Fill `starts` and `edges` (E,), and `offsets` (V+1,), which is zero."""
    n = np.uint64(len(row_offsets)) - ONE
    for v in col_indices:
        offsets[np.uint64(v)] += ONE
    total = ZERO
    for v in range(n + ONE):
        count = offsets[v]
        offsets[v] = total
        total += count
    for u in range(n):
        for e in range(row_offsets[u], row_offsets[u + ONE]):
            v = np.uint64(col_indices[e])
            place = offsets[v]
            offsets[v] = place + ONE
            starts[place], edges[place] = u, e
    v = n
    while v > ZERO:  # each offset has become the next one
        offsets[v] = offsets[v - ONE]
        v -= ONE
    offsets[ZERO] = ZERO
