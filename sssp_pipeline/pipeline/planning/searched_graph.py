"""The graph in which a run searches: the stored one, or the same with all edges in the other direction."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sssp_pipeline.base.csr import CsrGraph
    from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
    from sssp_pipeline.pipeline.results.outputs.outputs import RowOutput


def searched_graph(graph: CsrGraph, stored: StoredGraph, output: RowOutput) -> CsrGraph:
    """Return the graph in which the searches for `output` run; `graph` has the edges of `stored`.

    Raises
    ------
    InputError
        As `kept_reversed`.
    """
    if not output.follows_reversed:
        return graph
    # Only runs backward load what reverses a graph.
    from sssp_pipeline.pipeline.planning.direction import kept_reversed

    return kept_reversed(graph, is_symmetric=stored.manifest.symmetric)
