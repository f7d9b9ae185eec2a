"""METIS: an undirected graph, with a line for each vertex that lists its neighbours and the weights of the edges."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.graph_store.edge_stream import EdgeBlock
from sssp_pipeline.pipeline.graph_store.exports.exported_graph import ExportedGraph
from sssp_pipeline.pipeline.graph_store.exports.text_lines import numerals, write_text

_NAME = "METIS"


def write_metis(graph: ExportedGraph) -> None:
    """Write the graph.

    Raises
    ------
    InputError
        An edge has no reverse of the same weight, there are self-loops or parallel edges, or a weight is not an
        integer from 1 to 2^63 - 1.
    """
    manifest = graph.stream.manifest
    if not manifest.symmetric:
        raise InputError(
            f"{graph.place} has edges without a reverse of the same weight, and a METIS graph is undirected",
            hint="write another format, or ingest the graph with `graph.directed: false`",
        )
    graph.refuse_decimals(_NAME)
    graph.refuse_large_integers(_NAME)
    if graph.n_edges and manifest.weights.min <= 0:
        raise InputError(
            f"{graph.place} has the weight {manifest.weights.min}, and METIS has positive weights",
            hint="write a `.mtx` or `.parquet` file",
        )

    def text_of(block: EdgeBlock) -> pa.Array:
        graph.refuse_loops(block, _NAME)
        graph.refuse_repeats(block, _NAME)
        return _lines(graph, block)

    write_text(graph, f"{graph.n_vertices} {graph.n_edges // 2} 001", text_of)


def _lines(graph: ExportedGraph, block: EdgeBlock) -> pa.Array:
    """Return the neighbours and weights of each vertex as one line, (k,) strings."""
    targets = numerals(block.col_indices.astype(np.int64) + 1)
    neighbours = pc.binary_join_element_wise(targets, numerals(graph.weights(block.weights)), " ")
    rows = pa.ListArray.from_arrays(pa.array(block.row_offsets, pa.int32()), neighbours)
    begins = ["\n"] * len(rows)
    if block.before >= 0:
        begins[0] = " "  # the line goes on
    return pc.binary_join_element_wise(pa.array(begins, pa.string()), pc.binary_join(rows, " "), "")
