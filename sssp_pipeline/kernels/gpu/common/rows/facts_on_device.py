"""Facts about rows on the device, and rows without their unreached vertices (`row_facts.cu`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from sssp_pipeline.kernels.contract.row_facts import SEGMENT, RowFacts, n_segments, n_words
from sssp_pipeline.kernels.gpu.common.cuda.compile import Unit, cupy_module, load_kernels
from sssp_pipeline.kernels.gpu.common.cuda.struct_types import struct_type
from sssp_pipeline.kernels.gpu.common.rows.distance_bits import bits_type
from sssp_pipeline.kernels.gpu.common.rows.transfers import Sent, fetch
from sssp_pipeline.kernels.host import crc32

#: As in `row_facts.cu`.
_BLOCK, _PACK_BLOCK = 256, 512
_FACTS = struct_type(Path(__file__).with_name("row_facts.cu"), "Facts")

ROW_FACTS = Unit("row_facts", ("row_facts_kernel", "pack_kernel"))


class FactsOnDevice:
    """Finds the facts about up to `n_rows` rows of `n_columns` distances of `dtype` at a time.

    If it `packs`, it also packs the rows, as `RowFacts` says. `bits` is then the device array (n_rows, words) uint32 of
    that class, otherwise it is None.
    """

    def __init__(self, n_rows: int, n_columns: int, dtype: np.dtype, *, packs: bool) -> None:
        self._dtype, self._n_columns, self._n_segments = dtype, n_columns, n_segments(n_columns)
        self._kernels = load_kernels(ROW_FACTS, dtype)
        self._tables = Sent(_tables(dtype.itemsize))
        self._facts = cupy_module().empty(n_rows * self._n_segments * _FACTS.itemsize, np.uint8)
        self.bits = cupy_module().empty((n_rows, n_words(n_columns)), np.uint32) if packs else None

    def launch(self, rows: Any) -> Callable[[], RowFacts]:
        """Enqueue the search for facts about `rows` (n, columns), and their packing.

        Returns what gives the facts, without their bits, once the device got there.
        """
        n_blocks = len(rows) * self._n_segments
        sizes = np.uint64(self._n_columns), np.uint32(self._n_segments), np.uint32(SEGMENT)
        self._find(n_blocks, rows, *sizes, is_packed=False)
        if self.bits is not None:
            args = (rows, *sizes, np.uint64(self.bits.shape[1]), self._facts, self.bits)
            self._kernels["pack_kernel"](n_blocks, _PACK_BLOCK, args)
            self._find(n_blocks, rows, *sizes, is_packed=True)
        words = fetch(self._facts[: n_blocks * _FACTS.itemsize])

        def facts() -> RowFacts:
            found = words.view(_FACTS).reshape(len(rows), self._n_segments)
            bits = bits_type(self._dtype)
            least, largest = (found[name].astype(bits).view(self._dtype) for name in ("least", "largest"))
            if self.bits is None:
                return RowFacts(least, largest, found["remainder"])
            n_present, of_bits = found["n_present"], found["bit_remainder"].copy()
            crc32.correct_segments(of_bits, n_present, self._n_columns, SEGMENT, 8 * self._dtype.itemsize)
            return RowFacts(least, largest, found["remainder"], n_present, of_bits)

        return facts

    def _find(self, n_blocks: int, rows: Any, *sizes: np.generic, is_packed: bool) -> None:
        bits = (None, np.uint64(0)) if self.bits is None else (self.bits, np.uint64(self.bits.shape[1]))
        args = (rows, *sizes, np.uint32(is_packed), self._tables.on_device, *bits, self._facts)
        self._kernels["row_facts_kernel"](n_blocks, _BLOCK, args)


def facts_bytes(n_columns: int) -> int:
    """Return the most device memory that `FactsOnDevice` takes for each row."""
    return n_segments(n_columns) * _FACTS.itemsize + n_words(n_columns) * 4


@cache
def _tables(itemsize: int) -> np.ndarray:
    """Return the words of the kernel's `Tables` for values of `itemsize` bytes."""
    power = crc32.power_of_x
    behind = [power(8 * itemsize * i + 32) for i in range(_BLOCK)]
    stride, word = (crc32.advancing(power(n_bits)).ravel() for n_bits in (8 * itemsize * _BLOCK, 32))
    return np.concatenate([stride, word, np.array(behind, np.uint32)])
