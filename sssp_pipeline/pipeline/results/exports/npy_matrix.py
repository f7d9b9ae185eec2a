"""A matrix of distances as a file for `numpy.load`."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from sssp_pipeline.storage import files


def write_npy(
    url: str,
    blocks: Iterable[tuple[pa.Array, pa.Array, np.ndarray]],
    shape: tuple[int, int],
    dtype: np.dtype,
    unreached: float | None,
) -> None:
    """Write a matrix; `zarr_matrix.write_zarr` describes the arguments. The file has no ids."""
    del unreached
    with files.open_atomic(url, plain=True, synced=True) as handle:
        about = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_2_0(handle, about)
        for _, _, rows in blocks:
            handle.write(rows)
