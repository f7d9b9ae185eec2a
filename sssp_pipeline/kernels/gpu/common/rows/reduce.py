"""Reductions of rows on the device (`reduce.cu`, `harmonic.cu`)."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from sssp_pipeline.kernels.gpu.common.cuda.compile import Unit, cupy_module, load_kernels
from sssp_pipeline.kernels.gpu.common.rows.transfers import Sent, pinned_array

_BLOCK = 256
_WARPS = _BLOCK // 32
#: Vertices of a segment of the harmonic sum; `kSegment` of the kernels.
SEGMENT = 1024

HARMONIC_SUM = Unit("harmonic", ("harmonic_partials_kernel", "harmonic_total_kernel"))


def reduce_unit(n_radii: int, n_amounts: int, amount_bits: int) -> Unit:
    """Return the unit of the kernel for `n_radii` radii, and `n_amounts` amounts of `amount_bits`."""
    counts = ("SSSP_RADII", n_radii), ("SSSP_AMOUNTS", n_amounts), ("SSSP_AMOUNT_BITS", amount_bits)
    return Unit("reduce", ("reduce_kernel",), counts)


class Amounts:
    """Amounts of vertices, made ready for copies to a device once, however many calls sum them.

    Parameters
    ----------
    values
        (A, V) int64, host memory.
    """

    def __init__(self, values: np.ndarray) -> None:
        self._values = values

    @property
    def shape(self) -> tuple[int, int]:
        n_amounts, n_vertices = self._values.shape
        return n_amounts, n_vertices

    @cached_property
    def dtype(self) -> np.dtype:
        """uint32 if it holds every sum of some numbers of a row of the amounts, otherwise int64."""
        least, most = np.min(self._values, initial=0), np.max(np.sum(self._values, axis=1), initial=0)
        return np.dtype(np.uint32 if least >= 0 and most < 2**32 else np.int64)

    @cached_property
    def staged(self) -> np.ndarray:
        """The amounts (1, A·V) of `dtype`, in pinned memory."""
        staged = pinned_array((1, self._values.size), self.dtype)
        np.copyto(staged, self._values.reshape(1, -1), casting="unsafe")
        return staged


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
        Copied to the device by the first call: the search was enqueued before, so the device is busy while the host
        converts them.
    harmonic
        Whether the harmonic sum is wanted.
    """

    def __init__(
        self,
        limits: np.ndarray,
        amounts: Amounts,
        n_rows: int,
        n_words: int,
        *,
        harmonic: bool,
    ) -> None:
        cupy = cupy_module()
        n_amounts, n_vertices = amounts.shape
        units = [reduce_unit(len(limits), n_amounts, 8 * amounts.dtype.itemsize)]
        units += [HARMONIC_SUM] if harmonic else []
        loaded = [load_kernels(unit, limits.dtype) for unit in units]
        self._kernels = {name: kernel for kernels in loaded for name, kernel in kernels.items()}
        self._grid = {name: kernel.resident_blocks(_BLOCK) for name, kernel in self._kernels.items()}
        self._reads_rows = len(limits) > 0
        self._limits, self._amounts, self._are_sent = Sent(limits), amounts, False
        self._amounts_on_device = cupy.empty((1, n_amounts * n_vertices), amounts.dtype)
        self._partials = cupy.empty(n_rows * partial_sums(n_vertices) if harmonic else 0, np.float64)
        self._words = cupy.empty((n_rows, n_words), np.uint64)

    def __call__(self, rows: Any, summaries: Any) -> Any:
        """Enqueue the reduction of `rows` (n, V); return the device array (n, words) that will hold the result."""
        words = self._words[: len(rows)]
        words.data.memset_async(0, words.nbytes)
        n_words, n_segments = np.uint32(words.shape[1]), partial_sums(rows.shape[1])
        if not self._are_sent and self._amounts_on_device.size:
            self._amounts_on_device.set(self._amounts.staged, stream=cupy_module().cuda.get_current_stream())
        self._are_sent = True
        args = (self._limits.on_device, self._amounts_on_device, summaries, words, n_words)
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
