"""Reductions of rows on the device (`reduce.cu`, `harmonic.cu`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from sssp_pipeline.kernels.gpu.common.cuda.compile import Unit, cupy_module, load_kernels
from sssp_pipeline.kernels.gpu.common.rows.transfers import Sent

_BLOCK = 256
_WARPS = _BLOCK // 32
#: Vertices of a segment of the harmonic sum; `kSegment` of the kernels.
SEGMENT = 1024

HARMONIC_SUM = Unit("harmonic", ("harmonic_partials_kernel", "harmonic_total_kernel"))


def reduce_unit(n_radii: int, n_amounts: int, amount_bits: int) -> Unit:
    """Return the unit of the kernel for `n_radii` radii, and `n_amounts` amounts of `amount_bits`."""
    counts = ("SSSP_RADII", n_radii), ("SSSP_AMOUNTS", n_amounts), ("SSSP_AMOUNT_BITS", amount_bits)
    return Unit("reduce", ("reduce_kernel",), counts)


def amounts_dtype(amounts: np.ndarray) -> np.dtype:
    """Return uint32 if it holds every sum of some numbers of a row of `amounts` (A, V) int64, otherwise int64."""
    is_narrow = np.min(amounts, initial=0) >= 0 and np.max(np.sum(amounts, axis=1), initial=0) < 2**32
    return np.dtype(np.uint32 if is_narrow else np.int64)


def partial_sums(n_vertices: int) -> int:
    """Return how many partial sums the harmonic sum of a row has."""
    return max(1, -(-n_vertices // SEGMENT))


class ReduceOnDevice:
    """Reduces up to `n_rows` rows at a time to `n_words` words each. Words of other kernels are 0.

    Parameters
    ----------
    limits
        (R,) of the weights' type, ascending: a vertex counts if its distance is below.
    amounts
        (A, V) int64, host memory.
    dtype
        The type of the amounts on the device, as `amounts_dtype` returns it.
    harmonic
        Whether the harmonic sum is wanted.
    """

    def __init__(
        self,
        limits: np.ndarray,
        amounts: np.ndarray,
        dtype: np.dtype,
        n_rows: int,
        n_words: int,
        *,
        harmonic: bool,
    ) -> None:
        cupy = cupy_module()
        units = [reduce_unit(len(limits), len(amounts), 8 * dtype.itemsize)]
        units += [HARMONIC_SUM] if harmonic else []
        loaded = [load_kernels(unit, limits.dtype) for unit in units]
        self._kernels = {name: kernel for kernels in loaded for name, kernel in kernels.items()}
        self._grid = {name: kernel.resident_blocks(_BLOCK) for name, kernel in self._kernels.items()}
        self._reads_rows = len(limits) > 0
        self._limits, self._amounts = Sent(limits), Sent(amounts.ravel(), dtype)
        self._partials = cupy.empty(n_rows * partial_sums(amounts.shape[1]) if harmonic else 0, np.float64)
        self._words = cupy.empty((n_rows, n_words), np.uint64)

    def __call__(self, rows: Any, summaries: Any) -> Any:
        """Enqueue the reduction of `rows` (n, V); return the device array (n, words) that will hold the result."""
        words = self._words[: len(rows)]
        words.data.memset_async(0, words.nbytes)
        n_words, n_segments = np.uint32(words.shape[1]), partial_sums(rows.shape[1])
        sent = self._limits.on_device, self._amounts.on_device
        args = (*sent, summaries, words, n_words)
        self._launch("reduce_kernel", rows, args, n_segments if self._reads_rows else 1)
        if "harmonic_partials_kernel" in self._kernels:
            self._launch("harmonic_partials_kernel", rows, (self._partials,), n_segments)
            self._kernels["harmonic_total_kernel"](
                len(rows), 32, (np.uint64(n_segments), self._partials, words, n_words)
            )
        return words

    def _launch(self, name: str, rows: Any, args: tuple[Any, ...], n_segments: int) -> None:
        """Enqueue a kernel whose warps read `n_segments` segments of each of `rows` (n, V)."""
        n_rows, n_vertices = rows.shape
        blocks_a_row = max(1, min(self._grid[name] // n_rows, -(-n_segments // _WARPS)))
        sizes = np.uint32(n_vertices), np.uint32(blocks_a_row)
        self._kernels[name](n_rows * blocks_a_row, _BLOCK, (rows, *sizes, *args))
