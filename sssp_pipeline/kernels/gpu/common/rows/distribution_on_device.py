"""Histograms and quantiles of rows on the device (`distribution.cu`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from sssp_pipeline.kernels.gpu.common.cuda.compile import Unit, load_kernels
from sssp_pipeline.kernels.gpu.common.rows.lane_rows import LaneRows, argument_of, grid_of, layout
from sssp_pipeline.kernels.gpu.common.rows.transfers import Sent

_BLOCK = 512

#: Counters of a block, and distances that a thread reads at once; as in the kernel.
_COUNTERS, _AHEAD = 8192, 8


def distribution_unit(lane_bits: int = 0) -> Unit:
    """Return the unit of the kernels for a `layout` of rows. Quantiles take rows by source."""
    return Unit("distribution", ("histogram_kernel", "quantile_kernel"), layout(lane_bits))


class DistributionOnDevice:
    """Makes histograms and quantiles of rows.

    Parameters
    ----------
    limits
        (B,) of the weights' type, rising: the buckets are between neighbours. Fewer than 2 ask for no histogram.
    numerators
        (Q,) uint64, rising: the shares times `UNIT`. None for rows by place.
    lane_bits
        The `layout` of the rows.
    """

    def __init__(self, limits: np.ndarray, numerators: np.ndarray, lane_bits: int = 0) -> None:
        self._kernels = load_kernels(distribution_unit(lane_bits), limits.dtype)
        self._grid = self._kernels["histogram_kernel"].resident_blocks(_BLOCK)
        self._limits, self._numerators = Sent(limits), Sent(numerators)

    def __call__(self, rows: Any, summaries: Any, words: Any, first: int) -> None:
        """Enqueue both for `rows` (n, V). `words` (n, W), which are zero, get the counts, then the quantiles.

        They begin at the column `first`. `summaries` has the `Summary` of each row.
        """
        n_rows, n_vertices = rows.shape
        limits, numerators = self._limits.on_device, self._numerators.on_device
        n_words, row_size = np.uint32(words.shape[1]), np.uint32(n_vertices)
        if len(limits) > 1:
            copies = 32
            while copies * (len(limits) - 1) > _COUNTERS:
                copies //= 2
            distances = _BLOCK * _AHEAD // (copies if isinstance(rows, LaneRows) else 1)
            n_blocks, blocks_a_row = grid_of(rows, self._grid, -(-n_vertices // distances), copies)
            asked = limits, np.uint32(len(limits)), words, n_words, np.uint32(first)
            args = (argument_of(rows), row_size, np.uint32(blocks_a_row), np.uint32(copies), *asked)
            self._kernels["histogram_kernel"](n_blocks, _BLOCK, args)
            first += len(limits) - 1
        if len(numerators):
            asked = numerators, np.uint32(len(numerators)), words, n_words, np.uint32(first)
            self._kernels["quantile_kernel"](n_rows, _BLOCK, (rows, row_size, summaries, *asked))
