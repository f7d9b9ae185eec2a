"""Parquet: a table with a row for each edge, and a table with a row for each vertex; both have the input's own ids."""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sssp_pipeline.base.progress import plural
from sssp_pipeline.pipeline.graph_store.exports.exported_graph import ExportedGraph
from sssp_pipeline.storage import files

#: The edges of a row group.
ROW_GROUP_EDGES = 2**20


def write_edge_table(graph: ExportedGraph) -> None:
    """Write the edges in the order of the store. Vertices without edges are not in the table, which is reported."""
    ids, names = graph.ids, list(graph.columns)
    schema = pa.schema(
        list(zip(names, [ids.column().type] * 2 + [pa.from_numpy_dtype(graph.weight_dtype)], strict=True))
    )
    has_edges = np.zeros(graph.n_vertices, bool)
    done = 0
    with (
        files.open_atomic(graph.url, synced=True) as handle,
        pq.ParquetWriter(handle, schema, compression="zstd", use_dictionary=names[:1]) as writer,
    ):
        for block in graph.stream.blocks(ROW_GROUP_EDGES):
            ends = block.sources(), block.col_indices
            for vertices in ends:
                has_edges[vertices] = True
            columns = [*map(ids.originals, ends), pa.array(graph.weights(block.weights))]
            if len(block.col_indices):
                writer.write_table(pa.table(columns, schema=schema), row_group_size=ROW_GROUP_EDGES)
            done += len(block.col_indices)
            graph.written(done)
    if alone := graph.n_vertices - int(np.count_nonzero(has_edges)):
        graph.progress.say(
            f"{plural(alone, 'vertex')} without edges {'is' if alone == 1 else 'are'} not in a table of edges; "
            "`--vertices FILE` writes a table of all vertices",
            vertices_without_edges=alone,
        )


def write_vertex_table(graph: ExportedGraph, url: str) -> None:
    """Write `id` of each vertex, its `number` in a file that numbers vertices, and its coordinates if there are any."""
    n_before = 0
    with ExitStack() as resources:
        handle = resources.enter_context(files.open_atomic(url, synced=True))
        writer: pq.ParquetWriter | None = None
        for rows in graph.vertex_tables():
            table = rows
            if graph.stream.manifest.coordinates_unit == "degrees":
                table = table.rename_columns([{"x": "lon", "y": "lat"}.get(n, n) for n in table.column_names])
            if graph.first_number is not None:
                first = graph.first_number + n_before
                table = table.add_column(0, "number", pa.array(np.arange(first, first + len(table))))
            if writer is None:
                writer = resources.enter_context(pq.ParquetWriter(handle, table.schema, compression="zstd"))
            writer.write_table(table)
            n_before += len(table)
