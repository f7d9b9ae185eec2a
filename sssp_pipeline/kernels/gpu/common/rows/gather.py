"""The distances to some vertices, taken out of rows on the device (`gather.cu`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from sssp_pipeline.kernels.gpu.common.cuda.compile import Unit, cupy_module, load_kernels
from sssp_pipeline.kernels.gpu.common.rows.distance_bits import bits_type
from sssp_pipeline.kernels.gpu.common.rows.transfers import Sent

_GATHER_BLOCK = 256

GATHER = Unit("gather", ("gather_kernel",))


class Gather:
    """Takes the columns of some vertices out of up to `n_rows` rows at a time.

    Parameters
    ----------
    vertices
        (T,) uint32, host memory.
    n_rows
        The most rows of a call.
    dtype
        The type of the weights.
    """

    def __init__(self, vertices: np.ndarray, n_rows: int, dtype: np.dtype) -> None:
        cupy = cupy_module()
        self._kernel = load_kernels(GATHER, dtype)["gather_kernel"]
        self._vertices = Sent(vertices)
        self._gathered = cupy.empty((n_rows, len(vertices)), bits_type(dtype))

    def __call__(self, rows: Any, summaries: Any) -> Any:
        """Enqueue the gathering from `rows` (n, V); return the device array (n, T) that will hold it."""
        gathered = self._gathered[: len(rows)]
        if gathered.size:
            n_vertices, n_targets = np.uint32(rows.shape[1]), np.uint32(gathered.shape[1])
            args = (rows, n_vertices, self._vertices.on_device, n_targets, np.uint64(gathered.size), gathered)
            self._kernel(min(-(-gathered.size // _GATHER_BLOCK), 2**16), _GATHER_BLOCK, args)
        return gathered
