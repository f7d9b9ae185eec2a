"""What is accumulated for each vertex over sources, on the device (`over_sources.cu`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from sssp_pipeline.kernels.gpu.common.cuda.compile import Unit, cupy_module, load_kernels
from sssp_pipeline.kernels.gpu.common.rows.lane_rows import LaneRows, argument_of, layout
from sssp_pipeline.kernels.gpu.common.rows.transfers import Sent, copy_to_host, pinned_array

_BLOCK = 256


def over_sources_unit(n_radii: int, n_limbs: int, *, nearest: bool, lane_bits: int = 0) -> Unit:
    """Return the unit of kernels for `n_radii` radii, sums of `n_limbs` limbs, nearest sources, and a `layout`."""
    macros = ("SSSP_RADII", n_radii), ("SSSP_LIMBS", n_limbs), ("SSSP_NEAREST", int(nearest))
    return Unit("over_sources", ("over_sources_kernel", "no_sources_kernel"), macros + layout(lane_bits))


class OverSourcesOnDevice:
    """Accumulates rows of some `sources` into words for each vertex. Its launches follow each other on one stream.

    Parameters
    ----------
    unit
        As `over_sources_unit` returns it.
    shape
        (W, V) of the words.
    limits
        (R,) of the weights' type, rising: a source is within a radius if its distance is below.
    low
        The exponent field of a float whose mantissa is not shifted.
    sources
        (S,) uint32 of a call, host memory.
    """

    def __init__(
        self, unit: Unit, shape: tuple[int, int], limits: np.ndarray, low: int, sources: np.ndarray
    ) -> None:
        self._kernels = load_kernels(unit, limits.dtype)
        self._words = cupy_module().empty(shape, np.uint64)
        self._limits, self._low, self._sources = Sent(limits), low, Sent(sources)
        self._resident = self._kernels["over_sources_kernel"].resident_blocks(_BLOCK)
        self._reset()

    def add(self, rows: Any, first: int) -> None:
        """Enqueue the accumulation of `rows` (n, V). Their sources begin at the place `first`."""
        n_rows, n_vertices = rows.shape
        sources = self._sources.on_device[first : first + n_rows]
        sizes = np.uint32(n_rows), np.uint32(n_vertices)
        args = (argument_of(rows), *sizes, sources, self._limits.on_device, np.int64(self._low), self._words)
        self._launch("over_sources_kernel", args, 32 if isinstance(rows, LaneRows) else 1)

    def take(self) -> np.ndarray:
        """Enqueue the copy of the words to the host, and begin anew; return the array (W, V) that will hold them."""
        words = pinned_array(self._words.shape, self._words.dtype)
        copy_to_host(self._words, words)
        self._reset()
        return words

    def _reset(self) -> None:
        self._launch("no_sources_kernel", (np.uint32(self._words.shape[1]), self._words))

    def _launch(self, name: str, args: tuple[Any, ...], threads: int = 1) -> None:
        """Enqueue a kernel that has work for some `threads` for each vertex."""
        n_blocks = min(-(-self._words.shape[1] * threads // _BLOCK), self._resident)
        self._kernels[name](n_blocks, _BLOCK, args)
