"""Reductions of rows on the device (`reduce.cu`, `harmonic.cu`)."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from sssp_pipeline.kernels.answers.reductions import SEGMENT, partial_sums
from sssp_pipeline.kernels.gpu.common.cuda.compile import Unit, cupy_module, load_kernels
from sssp_pipeline.kernels.gpu.common.rows.lane_rows import argument_of, grid_of, layout
from sssp_pipeline.kernels.gpu.common.rows.transfers import Sent, pinned_array

#: Threads of a block, and vertices that it takes at least: of rows by source, and of rows by place.
_BLOCKS = {
    "reduce_kernel": ((256, 8 * SEGMENT), (256, 64)),
    "harmonic_partials_kernel": ((256, 8 * SEGMENT), (512, SEGMENT)),
}


def harmonic_unit(lane_bits: int = 0) -> Unit:
    """Return the unit of the harmonic sum for a `layout` of rows."""
    return Unit("harmonic", ("harmonic_partials_kernel", "harmonic_total_kernel"), layout(lane_bits))


def reduce_unit(n_radii: int, n_amounts: int, amount_bits: int, lane_bits: int = 0) -> Unit:
    """Return the unit of the kernel for `n_radii` radii, `n_amounts` amounts of `amount_bits`, and a `layout`."""
    counts = ("SSSP_RADII", n_radii), ("SSSP_AMOUNTS", n_amounts), ("SSSP_AMOUNT_BITS", amount_bits)
    return Unit("reduce", ("reduce_kernel",), counts + layout(lane_bits))


class StagedAmounts:
    """Amounts of vertices, made ready for copies to a device once, however many calls sum them.

    Parameters
    ----------
    values
        (A, V) int64, host memory.
    """

    def __init__(self, values: np.ndarray) -> None:
        self._values, self.shape = values, values.shape

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
    lane_bits
        The `layout` of the rows.
    """

    def __init__(
        self,
        limits: np.ndarray,
        amounts: StagedAmounts,
        n_rows: int,
        n_words: int,
        *,
        harmonic: bool,
        lane_bits: int = 0,
    ) -> None:
        cupy = cupy_module()
        n_amounts, n_vertices = amounts.shape
        units = [reduce_unit(len(limits), n_amounts, 8 * amounts.dtype.itemsize, lane_bits)]
        units += [harmonic_unit(lane_bits)] if harmonic else []
        loaded = [load_kernels(unit, limits.dtype) for unit in units]
        self._kernels = {name: kernel for kernels in loaded for name, kernel in kernels.items()}
        self._blocks = {name: _BLOCKS[name][lane_bits > 0] for name in _BLOCKS.keys() & self._kernels.keys()}
        self._resident = {
            name: self._kernels[name].resident_blocks(of[0]) for name, of in self._blocks.items()
        }
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
        self._launch("reduce_kernel", rows, args, rows.shape[1] if self._reads_rows else 1)
        if "harmonic_partials_kernel" in self._kernels:
            self._launch("harmonic_partials_kernel", rows, (self._partials,), rows.shape[1])
            self._kernels["harmonic_total_kernel"](
                len(rows), 32, (np.uint64(n_segments), self._partials, words, n_words)
            )
        return words

    def _launch(self, name: str, rows: Any, args: tuple[Any, ...], n_read: int) -> None:
        """Enqueue a kernel that reads `n_read` vertices of each of `rows` (n, V)."""
        block, of_block = self._blocks[name]
        n_blocks, blocks_a_row = grid_of(rows, self._resident[name], -(-n_read // of_block))
        sizes = np.uint32(rows.shape[1]), np.uint32(blocks_a_row)
        self._kernels[name](n_blocks, block, (argument_of(rows), *sizes, *args))
