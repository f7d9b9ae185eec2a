"""A matrix of distances as a file for `numpy.load`."""

from __future__ import annotations

import numpy as np

from sssp_pipeline.pipeline.results.exports.matrices.matrix import Matrix
from sssp_pipeline.storage import files


def write_npy(url: str, matrix: Matrix) -> None:
    """Write a matrix. The file has no ids."""
    with files.open_atomic(url, plain=True, synced=True) as handle:
        descr = np.lib.format.dtype_to_descr(matrix.dtype)
        about = {"descr": descr, "fortran_order": False, "shape": matrix.shape}
        np.lib.format.write_array_header_2_0(handle, about)
        for rows in matrix.rows():
            handle.write(rows)
