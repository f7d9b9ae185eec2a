"""SciPy: a matrix in compressed sparse rows, as `scipy.sparse.save_npz` writes a `csr_array`.

The archive is written without compression. Each array has a fixed time, so that the same graph gives the same bytes.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable

import numpy as np

from sssp_pipeline.pipeline.graph_store.exports.exported_graph import ExportedGraph
from sssp_pipeline.storage import files


def write_scipy_npz(graph: ExportedGraph) -> None:
    """Write the graph; raise `InputError` if it has parallel edges, whose weights SciPy adds up."""
    # As SciPy chooses the type of indices.
    index = np.dtype(np.int32 if max(graph.n_vertices, graph.n_edges) < 2**31 else np.int64)
    for block in graph.blocks():
        graph.refuse_repeats(block, "a matrix")
    stream = graph.stream
    with (
        files.open_atomic(graph.url, plain=True, synced=True) as handle,
        zipfile.ZipFile(handle, "w") as archive,
    ):
        _write_array(archive, "indices", index, graph.n_edges, stream.values("col_index"))
        _write_array(archive, "indptr", index, graph.n_vertices + 1, stream.values("row_offset"))
        weights = (graph.weights(values) for values in stream.values("weight"))
        _write_array(archive, "data", graph.weight_dtype, graph.n_edges, weights)
        _write_scalars(archive, graph)
    graph.written(graph.n_edges)


def _write_array(
    archive: zipfile.ZipFile, name: str, dtype: np.dtype, length: int, parts: Iterable[np.ndarray]
) -> None:
    header = io.BytesIO()
    about = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (length,)}
    np.lib.format.write_array_header_1_0(header, about)
    # The size is not known in advance to the archive, so it must expect one above 4 GiB.
    with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
        member.write(header.getvalue())
        for values in parts:
            member.write(values.astype(dtype, copy=False).data)


def _write_scalars(archive: zipfile.ZipFile, graph: ExportedGraph) -> None:
    """Write the arrays that say what the others are."""
    for name, value in (
        ("shape", np.array([graph.n_vertices] * 2)),
        ("format", np.array(b"csr")),
        ("_is_array", np.array(True)),
    ):
        content = io.BytesIO()
        np.lib.format.write_array(content, value)
        archive.writestr(zipfile.ZipInfo(f"{name}.npy"), content.getvalue())
