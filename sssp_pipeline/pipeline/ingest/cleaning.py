"""Cleaning: vertices without edges, or all vertices outside of the largest component, are left out of a graph.

No edge leads from a vertex that stays to one that is left out. So each row is kept whole or left out whole, in any
blocks of consecutive vertices. All rows are seen once (`components.py`). Then the kept rows are numbered anew, block by
block.
"""

from __future__ import annotations

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.ingest.components import VertexFinder
from sssp_pipeline.pipeline.ingest.edges import ReadEdges


def clean(edges: ReadEdges) -> None:
    """Leave out the vertices that `graph.vertices` does not keep.

    Raises
    ------
    InputError
        No vertex is kept.
    """
    wanted = edges.job.spec.vertices
    if wanted == "all":
        return
    finder = VertexFinder(edges.facts.vertex_ids.n_vertices)
    for each in edges.all_rows():
        finder.see(each.first, each.row_offsets, each.col_indices)
    edges.kept = finder.with_edges() if wanted == "with-edges" else finder.largest_component()
    if not len(edges.kept.vertices):
        raise InputError(
            f"{edges.job.input_name}: no vertex has an edge that is kept, and `graph.vertices` is `{wanted}`",
            hint="check `graph.self_loops`, or set `graph.vertices: all`",
        )
