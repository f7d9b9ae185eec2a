"""Cleaning: vertices without edges, or all vertices outside of the largest component, are left out of a graph.

No edge leads from a vertex that stays to one that is left out. So each row is kept whole or left out whole, in any
blocks of consecutive vertices. All rows are seen once (`components.py`). Then the kept rows are numbered anew, block by
block.
"""

from __future__ import annotations

from collections.abc import Iterator

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.formats.reading import Reading
from sssp_pipeline.pipeline.graph_store.manifest import Cleaning, Counts
from sssp_pipeline.pipeline.ingest.components import VertexFinder
from sssp_pipeline.pipeline.ingest.edges import ReadEdges, Rows
from sssp_pipeline.pipeline.ingest.rows.reverses import random_keys, reverse_difference
from sssp_pipeline.pipeline.ingest.weight_types import WeightType


class CleanedEdges:
    """The edges of some vertices of `ReadEdges`; used in the same way.

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
    def weight_type(self) -> WeightType:
        return self._edges.weight_type

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
