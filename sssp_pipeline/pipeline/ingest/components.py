"""The vertices of a graph that have edges, and the vertices of its largest component.

Components are weakly connected: they do not depend on the directions of edges. They are found with a union-find whose
roots are the smallest vertices (Galler and Fischer, 1964), with path halving (Tarjan and van Leeuwen, 1984). Memory
holds some 20 bytes for each vertex.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.base.vertex_ids import IdMapping, VertexIds


@dataclass(frozen=True, eq=False)
class KeptVertices:
    """The vertices that are kept, with new numbers in the same order."""

    #: (K,) int64, ascending.
    vertices: np.ndarray
    #: (V,) uint32: the new number of a kept vertex.
    numbers: np.ndarray
    #: (V,) bool.
    is_kept: np.ndarray
    #: The number of components; None if they were not asked for.
    n_components: int | None

    def rows(
        self, first: int, row_offsets: np.ndarray, col_indices: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the kept ones of the rows of the vertices from `first` on; row offsets begin with 0 in both."""
        degrees = np.diff(row_offsets)
        is_kept = self.is_kept[first : first + len(degrees)]
        of_kept = np.repeat(is_kept, degrees)
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(degrees[is_kept])))
        return offsets, self.numbers[col_indices[of_kept]], weights[of_kept]

    def ids(self, before: VertexIds) -> VertexIds:
        """Return the ids of the kept vertices, which are those that they had."""
        n = len(self.vertices)
        if before.table is None and n and self.vertices[-1] - self.vertices[0] == n - 1:
            first_id = before.mapping.first_id + int(self.vertices[0])
            return VertexIds(IdMapping(kind="offset", type="int64", first_id=first_id), None, n)
        table = before.originals(self.vertices)
        return VertexIds(IdMapping(kind="table", type=before.mapping.type), table, n)


class VertexFinder:
    """Finds the vertices to keep from all rows of a graph of `n_vertices`."""

    def __init__(self, n_vertices: int) -> None:
        self._parents = np.arange(n_vertices, dtype=np.uint32)
        self._has_edge = np.zeros(n_vertices, bool)

    def see(self, first: int, row_offsets: np.ndarray, col_indices: np.ndarray) -> None:
        """Take in the rows of the vertices from `first` on; one thread at a time may do so."""
        _join(first, row_offsets, col_indices, self._parents, self._has_edge)

    def with_edges(self) -> KeptVertices:
        """Return the vertices that are an end of an edge. A self-loop is an edge."""
        return _kept(self._has_edge, None)

    def largest_component(self) -> KeptVertices:
        """Return the vertices of the largest component; of equal ones, that with the smallest vertex."""
        _point_to_roots(self._parents)
        sizes = np.bincount(self._parents, minlength=1)
        return _kept(self._parents == np.argmax(sizes), int(np.count_nonzero(sizes)))


def _kept(is_kept: np.ndarray, n_components: int | None) -> KeptVertices:
    numbers = (np.cumsum(is_kept) - 1).astype(np.uint32)
    return KeptVertices(np.flatnonzero(is_kept), numbers, is_kept, n_components)


@njit()
def _root(parents: np.ndarray, v: int) -> int:
    while parents[v] != v:
        parents[v] = parents[parents[v]]
        v = parents[v]
    return v


@njit(nogil=True)
def _join(
    first: int, row_offsets: np.ndarray, col_indices: np.ndarray, parents: np.ndarray, has_edge: np.ndarray
) -> None:
    for row in range(len(row_offsets) - 1):
        u = first + row
        for e in range(row_offsets[row], row_offsets[row + 1]):
            v = col_indices[e]
            has_edge[u] = True
            has_edge[v] = True
            a, b = _root(parents, u), _root(parents, v)
            if a < b:
                parents[b] = a
            elif b < a:
                parents[a] = b


@njit(nogil=True)
def _point_to_roots(parents: np.ndarray) -> None:
    for v in range(len(parents)):
        parents[v] = parents[parents[v]]  # a parent is smaller than `v`, so it points to its root already
