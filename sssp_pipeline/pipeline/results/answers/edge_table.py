"""`edges.parquet`: a row for each edge, in the order of the graph. Threads make its row groups."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.parquet.page_writer import PageWriter
from sssp_pipeline.parquet.pages import Chunk, encoded_chunk, plain_chunk
from sssp_pipeline.pipeline.ingest.rows.sorted_rows import sources_of_edges
from sssp_pipeline.pipeline.results.folder.run_files import EDGES_FILE
from sssp_pipeline.pipeline.results.outputs.vertex_table import Originals
from sssp_pipeline.storage.file_sums import write_summed

if TYPE_CHECKING:
    from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
    from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder

#: Rows of a row group of `vertices.parquet` and `edges.parquet`.
ROWS_A_GROUP = 2**20


def ends_of_edges(graph: CsrGraph, ids: Originals) -> dict[str, pa.Array]:
    """Return the ids of the ends of all edges (E,), in the order of the graph."""
    return {"source": ids.originals(sources_of_edges(graph)), "target": ids.originals(graph.col_indices)}


def write_edges(
    folder: RunFolder, stored: StoredGraph, compression: str, columns: Callable[[slice], dict[str, pa.Array]]
) -> None:
    """Write the ids of the ends of each edge, and the `columns` (n,) float64 of some edges at a time."""
    graph, ids = stored.graph(), stored.ids
    id_type = ids.column().type
    fields = [("source", id_type), ("target", id_type)]
    fields += [(name, column.type) for name, column in columns(slice(0, 0)).items()]

    def row_group(first: int) -> list[Chunk]:
        some = slice(first, min(first + ROWS_A_GROUP, graph.n_edges))
        starts = _starts(graph, some)
        of_ends = (ids.originals(vertices) for vertices in (starts, graph.col_indices[some]))
        encoding = "DELTA_BINARY_PACKED" if pa.types.is_integer(id_type) else None
        chunks = [encoded_chunk(some_ids, compression, encoding) for some_ids in of_ends]
        return chunks + [_value_chunk(values, compression) for values in columns(some).values()]

    def write(file: Any) -> None:
        writer = PageWriter(file, pa.schema(fields), compression)
        for chunks in _in_order(row_group, range(0, graph.n_edges, ROWS_A_GROUP)):
            writer.write_group(chunks)
        writer.close()

    folder.sums[EDGES_FILE] = write_summed(folder.path(EDGES_FILE), write)


def _starts(graph: CsrGraph, edges: slice) -> np.ndarray:
    """Return the vertex where each of `edges` starts, (n,) int64; they are not empty."""
    first, last = np.searchsorted(graph.row_offsets, [edges.start, edges.stop - 1], "right") - 1
    offsets = graph.row_offsets[first : last + 2].clip(edges.start, edges.stop)
    return np.repeat(np.arange(first, last + 1), np.diff(offsets))


def _value_chunk(values: pa.Array, compression: str) -> Chunk:
    """Return the chunk of `values` (n,) float64. A dictionary pays where most are equal: NULL or 0."""
    if values.null_count or 2 * np.count_nonzero(values.to_numpy()) < len(values):
        return encoded_chunk(values, compression, None)
    return plain_chunk(values.to_numpy(), compression)


def _in_order(make: Callable[[int], list[Chunk]], firsts: range) -> Iterator[list[Chunk]]:
    """Yield what `make` returns of each of `firsts`; threads are at most two row groups each ahead."""
    n_threads = max(1, min(usable_cores(), len(firsts)))
    made: deque[Future[list[Chunk]]] = deque()
    with ThreadPoolExecutor(n_threads, "sssp-edges") as pool:
        for first in firsts:
            made.append(pool.submit(make, first))
            if len(made) >= 2 * n_threads:
                yield made.popleft().result()
        while made:
            yield made.popleft().result()
