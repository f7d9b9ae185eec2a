"""Cleaning: vertices without edges, or all vertices outside of the largest component, are left out of a graph.

What is left out has no edge to what is kept. So rows are kept whole or not at all, in any blocks of consecutive
vertices: `VertexFinder` sees all rows once, and `KeptVertices` then numbers the kept ones anew, block by block. Memory
holds some 20 bytes for each vertex.

Components are weakly connected: they do not depend on the directions of edges. They are found with a union-find whose
roots are the smallest vertices (Galler and Fischer, 1964), with path halving (Tarjan and van Leeuwen, 1984).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sssp_pipeline.errors import InputError
from sssp_pipeline.numba_cache import njit
from sssp_pipeline.pipeline.formats.reading import Reading
from sssp_pipeline.pipeline.graph_store.manifest import Cleaning, Counts
from sssp_pipeline.pipeline.ingest.building import ReadEdges, Rows, random_keys, reverse_difference
from sssp_pipeline.vertex_ids import IdMapping, VertexIds


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


class CleanedEdges:
    """Edges of which only those of some vertices are kept; used as `ReadEdges`.

    Raises
    ------
    InputError
        No vertex is kept.
    """

    def __init__(self, edges: ReadEdges) -> None:
        self._edges, self.job, self.given = edges, edges.job, edges.given
        wanted = edges.job.spec.vertices
        finder = VertexFinder(edges.vertex_ids.n_vertices)
        for each in edges.rows():
            finder.see(each.first, each.row_offsets, each.col_indices)
        kept = self._kept = finder.with_edges() if wanted == "with-edges" else finder.largest_component()
        if not len(kept.vertices):
            raise InputError(
                f"{edges.job.input_name}: no vertex has an edge that is kept, and `graph.vertices` is `{wanted}`",
                hint="check `graph.self_loops`, or set `graph.vertices: all`",
            )
        self.vertex_ids = kept.ids(edges.vertex_ids)
        self.coordinates = edges.coordinates
        if edges.coordinates is not None:
            self.coordinates = edges.coordinates[0][kept.vertices], edges.coordinates[1][kept.vertices]
        #: These are complete when all rows were made.
        self._n_dropped = self._reverse_difference = 0

    def rows(self) -> Iterator[Rows]:
        """Give the kept rows, range by range in ascending order; raises as `ReadEdges.rows`."""
        self._n_dropped = self._reverse_difference = 0
        first, keys = 0, random_keys()
        for each in self._edges.rows():
            rows = self._kept.rows(each.first, each.row_offsets, each.col_indices, each.weights)
            difference = reverse_difference(first, *rows, keys)
            self._n_dropped += len(each.col_indices) - len(rows[1])
            self._reverse_difference = (self._reverse_difference + difference) % 2**64
            if len(rows[0]) > 1:
                yield Rows(first, *rows, difference)
            first += len(rows[0]) - 1

    @property
    def is_symmetric(self) -> bool:
        """Whether each edge has a reverse of the same weight."""
        return self._edges.is_symmetric or self._reverse_difference == 0

    @property
    def counts(self) -> Counts:
        return self._edges.counts

    @property
    def reading(self) -> Reading:
        return self._edges.reading

    @property
    def cleaning(self) -> Cleaning:
        """What was left out."""
        return Cleaning(
            kept=self.job.spec.vertices,
            vertices_dropped=self._edges.vertex_ids.n_vertices - len(self._kept.vertices),
            edges_dropped=self._n_dropped,
            components=self._kept.n_components,
        )

    def check_both_listed(self) -> None:
        """Do what `ReadEdges.check_both_listed` does."""
        self._edges.check_both_listed()


Edges = ReadEdges | CleanedEdges


def cleaned(edges: ReadEdges) -> Edges:
    """Return the edges of the vertices that `graph.vertices` keeps; raises as `CleanedEdges`."""
    return edges if edges.job.spec.vertices == "all" else CleanedEdges(edges)


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
        parents[v] = parents[parents[v]]  # parents are smaller, so that of `v` points to its root already
