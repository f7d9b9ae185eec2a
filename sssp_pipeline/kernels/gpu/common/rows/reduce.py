"""Reductions of rows on the device (`reduce.cu`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from sssp_pipeline.kernels.gpu.common.cuda.compile import Unit, cupy_module, load_kernels
from sssp_pipeline.kernels.gpu.common.rows.transfers import Sent

_BLOCK = 256
_WARPS = _BLOCK // 32
#: Vertices of a segment of the harmonic sum.
SEGMENT = 1024


def reduce_unit(n_radii: int, n_amounts: int, *, harmonic: bool) -> Unit:
    """Return the unit of kernels for `n_radii` radii and `n_amounts` amounts."""
    kernels = ("reduce_kernel", "harmonic_kernel") if harmonic else ("reduce_kernel",)
    macros = ("SSSP_RADII", n_radii), ("SSSP_AMOUNTS", n_amounts), ("SSSP_HARMONIC", int(harmonic))
    return Unit("reduce", kernels, macros)


def partial_sums(n_vertices: int) -> int:
    """Return how many partial sums the harmonic sum of a row has."""
    return max(1, -(-n_vertices // SEGMENT))


class ReduceOnDevice:
    """Reduces up to `n_rows` rows at a time to `n_words` words each; those that it does not make are 0.

    Parameters
    ----------
    limits
        (R,) of the weights' type, ascending: a vertex counts if its distance is below.
    amounts
        (A, V) int64, host memory.
    harmonic
        Whether the harmonic sum is wanted.
    """

    def __init__(
        self, limits: np.ndarray, amounts: np.ndarray, n_rows: int, n_words: int, *, harmonic: bool
    ) -> None:
        cupy = cupy_module()
        unit = reduce_unit(len(limits), len(amounts), harmonic=harmonic)
        self._kernels = load_kernels(unit, limits.dtype)
        self._grid = self._kernels["reduce_kernel"].resident_blocks(_BLOCK)
        self._reads_rows = harmonic or len(limits) > 0
        self._limits, self._amounts = Sent(limits), Sent(amounts.ravel())
        self._partials = cupy.empty(n_rows * partial_sums(amounts.shape[1]) if harmonic else 0, np.float64)
        self._words = cupy.empty((n_rows, n_words), np.uint64)

    def __call__(self, rows: Any, summaries: Any) -> Any:
        """Enqueue the reduction of `rows` (n, V); return the device array (n, words) that will hold the result."""
        n_rows, n_vertices = rows.shape
        words = self._words[:n_rows]
        words.data.memset_async(0, words.nbytes)
        n_segments = partial_sums(n_vertices)
        most_blocks = -(-n_segments // _WARPS) if self._reads_rows else 1
        blocks_a_row = max(1, min(self._grid // n_rows, most_blocks))
        inputs = rows, np.uint32(n_vertices), np.uint32(blocks_a_row)
        sent = self._limits.on_device, self._amounts.on_device
        n_words = np.uint32(words.shape[1])
        args = (*inputs, *sent, summaries, self._partials, words, n_words)
        self._kernels["reduce_kernel"](n_rows * blocks_a_row, _BLOCK, args)
        if "harmonic_kernel" in self._kernels:
            self._kernels["harmonic_kernel"](
                n_rows, 32, (np.uint64(n_segments), self._partials, words, n_words)
            )
        return words
