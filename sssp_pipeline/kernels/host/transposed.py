"""The edges of a graph by their targets."""

from __future__ import annotations

import numpy as np

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO


def transposed(graph: CsrGraph) -> tuple[np.ndarray, np.ndarray]:
    """Return the offsets (V+1,) uint64 of the edges into each vertex, and where they start, (E,) uint32, rising."""
    offsets = np.zeros(graph.n_vertices + 1, np.uint64)
    starts = np.empty(graph.n_edges, np.uint32)
    _transpose(graph.row_offsets.view(np.uint64), graph.col_indices, offsets, starts)
    return offsets, starts


@njit(nogil=True)
def _transpose(
    row_offsets: np.ndarray, col_indices: np.ndarray, into_offsets: np.ndarray, into: np.ndarray
) -> None:
    """Fill `into` with the vertices that have an edge into each vertex; `into_offsets` is zero."""
    n = np.uint64(len(row_offsets)) - ONE
    for e in range(np.uint64(len(col_indices))):
        into_offsets[col_indices[e]] += ONE
    total = ZERO
    for v in range(n):
        total += into_offsets[v]
        into_offsets[v] = total
    into_offsets[n] = total
    for i in range(n):
        u = n - ONE - i
        for e in range(row_offsets[u], row_offsets[u + ONE]):
            v = col_indices[e]
            into_offsets[v] -= ONE
            into[into_offsets[v]] = u
