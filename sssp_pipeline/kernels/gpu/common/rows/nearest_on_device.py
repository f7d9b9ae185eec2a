"""The k nearest vertices of rows on the device (`nearest.cu`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from sssp_pipeline.kernels.gpu.common.cuda.compile import Unit, cupy_module, load_kernels
from sssp_pipeline.kernels.gpu.common.rows.transfers import Sent

_BLOCK = 256

NEAREST = Unit("nearest", ("nearest_kernel",))


class NearestOnDevice:
    """Finds the `k` nearest vertices of up to `n_rows` rows at a time.

    Parameters
    ----------
    targets
        (T,) uint32, ascending, host memory: the vertices to choose from. None means every vertex.
    dtype
        The type of the weights.
    """

    def __init__(self, k: int, targets: np.ndarray | None, n_rows: int, dtype: np.dtype) -> None:
        self._k = k
        self._kernel = load_kernels(NEAREST, dtype)["nearest_kernel"]
        self._targets = None if targets is None else Sent(targets)
        self._words = cupy_module().empty((n_rows, 2 * k), np.uint64)

    def __call__(self, rows: Any, summaries: Any) -> Any:
        """Enqueue the search in `rows`; return the device array (n, 2k) that will hold the result.

        The rows have the distances to all vertices (n, V), or to the targets (n, T).
        """
        n_rows, n_columns = rows.shape
        words = self._words[:n_rows]
        targets = None if self._targets is None else self._targets.on_device
        n_candidates = n_columns if targets is None else len(targets)
        args = (rows, np.uint32(n_columns), targets, np.uint32(n_candidates), np.uint32(self._k), words)
        self._kernel(n_rows, _BLOCK, args)
        return words
