"""Matrices as graphs: entry (i, j) is the weight of an edge from i to j."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import MAX_VERTICES, CsrGraph
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.ingest.rows.sorted_rows import csr_of_edges, sources_of_edges


def is_of_cupy(matrix: Any) -> bool:
    """Return whether `matrix` is a sparse matrix or an array of CuPy."""
    return type(matrix).__module__.partition(".")[0] in ("cupy", "cupyx")


def _csr(matrix: Any) -> Any:
    """Return a sparse matrix as `indptr`, `indices` and `data` in host memory, with its `shape` and `dtype`."""
    if not is_of_cupy(matrix):
        return matrix.tocsr()
    if matrix.format != "csr":
        return matrix.get().tocsr()
    # Not by `get`: SciPy would refuse wrong offsets with errors of its own.
    arrays = {name: getattr(matrix, name).get() for name in ("indptr", "indices", "data")}
    return SimpleNamespace(shape=matrix.shape, dtype=matrix.dtype, **arrays)


def edges_of_matrix(matrix: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return `row_offsets` (N+1,) int64, `col_indices` (E,) uint32 and the values (E,) of a matrix.

    Parameters
    ----------
    matrix
        (N, N) sparse matrix or array of SciPy, with its stored zeros; or a dense array, in which 0, infinity and NaN
        are no edges; or a masked array, in which masked entries are no edges; or a sparse matrix or an array of
        CuPy, which is copied to host memory. It is not changed, and the result may share its memory.

    Raises
    ------
    InputError
        The matrix is not square, or its values are not real numbers.
    """
    if is_sparse := hasattr(matrix, "tocsr"):
        matrix = _csr(matrix)
    elif not isinstance(matrix, np.ma.MaskedArray):
        kind, matrix = type(matrix).__name__, np.asarray(matrix.get() if is_of_cupy(matrix) else matrix)
        if not matrix.shape:
            raise InputError(
                f"the graph is of type {kind}, not a matrix",
                hint="give an array of SciPy or NumPy; `sp.solve` takes other graphs",
            )
    shape = matrix.shape
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] > MAX_VERTICES:
        raise InputError(
            f"the graph is an array of shape {shape}",
            hint=f"a graph is a square matrix of at most {MAX_VERTICES} rows"
            + "; for `sp.solve`, a list of edges is a data frame" * (len(shape) == 2 and shape[1] in (2, 3)),
        )
    if matrix.dtype.kind not in "biuf" or matrix.dtype.itemsize > 8:
        raise InputError(
            f"the graph has values of type {matrix.dtype}", hint="weights are integers or floats"
        )
    if is_sparse:
        offsets, targets, values = matrix.indptr, matrix.indices, matrix.data[: matrix.indptr[-1]]
        targets = targets[: len(values)]
        if len(targets) and not 0 <= targets.min() <= targets.max() < shape[0]:
            raise InputError(
                f"the graph has indices from {targets.min()} to {targets.max()}, and {shape[0]} columns",
                hint="number the vertices from 0",
            )
    else:
        if isinstance(matrix, np.ma.MaskedArray):
            is_edge, matrix = ~np.ma.getmaskarray(matrix), matrix.data
        else:
            is_edge = (matrix != 0) & np.isfinite(matrix)
        offsets = np.concatenate([[0], np.cumsum(is_edge.sum(axis=1))])
        targets, values = np.nonzero(is_edge)[1], matrix[is_edge]
    if values.dtype.kind == "b" or values.dtype.itemsize < 4:  # CSR graphs have at least 32 bits
        values = values.astype(np.float32 if values.dtype.kind == "f" else np.int32)
    return offsets.astype(np.int64), targets.astype(np.uint32), values


def csr_with_reverses(graph: CsrGraph) -> CsrGraph:
    """Return `graph` with the reverse of every edge."""
    return csr_of_edges(
        sources_of_edges(graph), graph.col_indices, graph.weights, graph.n_vertices, mirror=True
    )
