"""Lines of text: several threads turn blocks of edges into text, which is written in order.

Each line begins with its line feed, so that a row of METIS can go on in the next block. The header therefore ends
without one, and the last one is written at the end.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sssp_pipeline.base.ordered import map_in_order
from sssp_pipeline.pipeline.graph_store.edge_stream import EdgeBlock
from sssp_pipeline.pipeline.graph_store.exports.exported_graph import ExportedGraph
from sssp_pipeline.storage import files


def write_text(graph: ExportedGraph, header: str, text_of: Callable[[EdgeBlock], pa.Array]) -> None:
    """Write `header`, and the strings that `text_of` returns for each block of edges."""

    def work(block: EdgeBlock) -> tuple[pa.Buffer | bytes, int]:
        return joined(text_of(block)), len(block.col_indices)

    done = 0
    with files.open_atomic(graph.url, synced=True) as handle:
        handle.write(header.encode())
        for text, n_edges in map_in_order(work, graph.blocks(), graph.threads):
            handle.write(text)
            done += n_edges
            graph.written(done)
        handle.write(b"\n")


def edge_lines(graph: ExportedGraph, block: EdgeBlock, prefix: str) -> pa.Array:
    """Return `prefix`, source, target and weight of each edge, (n,) strings; vertices are numbers from 1."""
    n_rows = len(block.row_offsets) - 1
    numbers = numerals(np.arange(block.first + 1, block.first + 1 + n_rows))
    # Each source is made text once, whatever the number of its edges.
    sources = pc.binary_join_element_wise("\n" + prefix, numbers, "").take(
        pa.array(block.sources() - block.first)
    )
    targets = numerals(block.col_indices.astype(np.int64) + 1)
    return pc.binary_join_element_wise(sources, targets, numerals(graph.weights(block.weights)), " ")


def numerals(values: np.ndarray) -> pa.Array:
    """Return numbers (n,) as strings. A float is the shortest decimal that float64 reads back as the same number."""
    if values.dtype.kind == "f":
        # The shortest decimal of a float32 is often another number in float64, as which readers take it.
        values = values.astype(np.float64, copy=False)
    return pc.cast(pa.array(values), pa.string())


def joined(strings: pa.Array) -> pa.Buffer | bytes:
    """Return the bytes of all strings, one after the other; `strings` was just made, and is no slice."""
    if not len(strings):
        return b""
    _, ends, content = strings.buffers()
    # The buffer may be larger than its content.
    return content.slice(0, int(np.frombuffer(ends, np.int32)[len(strings)]))
