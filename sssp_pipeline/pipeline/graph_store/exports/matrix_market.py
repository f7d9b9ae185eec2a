"""Matrix Market: a coordinate matrix in which entry (i, j) is the weight of the edge from i to j."""

from __future__ import annotations

import pyarrow as pa

from sssp_pipeline.pipeline.graph_store.edge_stream import EdgeBlock
from sssp_pipeline.pipeline.graph_store.exports.exported_graph import ExportedGraph
from sssp_pipeline.pipeline.graph_store.exports.text_lines import edge_lines, write_text

_NAME = "a matrix"


def write_matrix_market(graph: ExportedGraph) -> None:
    """Write the graph.

    Raises
    ------
    InputError
        The graph has parallel edges, whose weights readers of matrices add up; or integers above 2^63 - 1, which
        readers refuse.
    """
    graph.refuse_large_integers("Matrix Market")

    def text_of(block: EdgeBlock) -> pa.Array:
        graph.refuse_repeats(block, _NAME)
        return edge_lines(graph, block, "")

    field = "integer" if graph.has_whole_weights else "real"
    header = f"%%MatrixMarket matrix coordinate {field} general\n"
    write_text(graph, f"{header}{graph.n_vertices} {graph.n_vertices} {graph.n_edges}", text_of)
