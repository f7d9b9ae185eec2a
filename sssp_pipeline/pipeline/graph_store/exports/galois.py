"""Galois: binary compressed sparse rows, version 1, whose parts `formats/binary/galois.py` describes."""

from __future__ import annotations

import struct

from sssp_pipeline.pipeline.graph_store.exports.exported_graph import ExportedGraph
from sssp_pipeline.storage import files

_VERSION = 1


def write_galois(graph: ExportedGraph) -> None:
    """Write the graph; the file does not say of which type its weights are."""
    dtype = graph.weight_dtype.newbyteorder("<")
    with files.open_atomic(graph.url, plain=True, synced=True) as handle:
        handle.write(struct.pack("<QQQQ", _VERSION, dtype.itemsize, graph.n_vertices, graph.n_edges))
        skipped = 1  # the first row offset, 0, is no end of a row
        for offsets in graph.stream.values("row_offset"):
            handle.write(offsets[skipped:].astype("<u8"))
            skipped = 0
        for targets in graph.stream.values("col_index"):
            handle.write(targets.astype("<u4", copy=False))
        if graph.n_edges % 2:
            handle.write(bytes(4))
        done = 0
        for weights in graph.stream.values("weight"):
            handle.write(graph.weights(weights).astype(dtype, copy=False))
            done += len(weights)
            graph.written(done)
