"""DIMACS: a graph of the 9th challenge (`p sp V E`, then `a source target weight`), and its coordinates (`.co`)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sssp_pipeline.pipeline.graph_store.exports.exported_graph import ExportedGraph
from sssp_pipeline.pipeline.graph_store.exports.text_lines import edge_lines, joined, numerals, write_text
from sssp_pipeline.storage import files


def write_dimacs(graph: ExportedGraph) -> None:
    """Write the graph; raise `InputError` if it has decimals, which readers of DIMACS cut off."""
    graph.refuse_decimals("DIMACS")
    write_text(
        graph, f"p sp {graph.n_vertices} {graph.n_edges}", lambda block: edge_lines(graph, block, "a ")
    )


def write_dimacs_coordinates(graph: ExportedGraph, url: str) -> bool:
    """Write the coordinates to the file `url`; return False without writing if they are not whole numbers."""
    tables = graph.vertex_tables()
    n_before = 0
    first = next(tables)
    if not all(pa.types.is_integer(first[name].type) for name in "xy"):
        return False
    with files.open_atomic(url, synced=True) as handle:
        handle.write(f"p aux sp co {graph.n_vertices}".encode())
        for table in (first, *tables):
            numbers = numerals(np.arange(n_before + 1, n_before + 1 + len(table)))
            x, y = (pc.cast(table[name].combine_chunks(), pa.string()) for name in "xy")
            handle.write(joined(pc.binary_join_element_wise("\nv", numbers, x, y, " ")))
            n_before += len(table)
        handle.write(b"\n")
    return True
