"""Facts about rows on the device (`row_facts.cu`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from sssp_pipeline.kernels.gpu.common.cuda.compile import Unit, cupy_module, load_kernels
from sssp_pipeline.kernels.gpu.common.rows.distance_bits import bits_type
from sssp_pipeline.kernels.gpu.common.rows.transfers import Sent, fetch
from sssp_pipeline.kernels.host import crc32
from sssp_pipeline.kernels.row_facts import SEGMENT, RowFacts, n_segments

_BLOCK = 256
_FACTS = np.dtype([("least", "u8"), ("largest", "u8"), ("remainder", "u4"), ("unused", "u4")])

ROW_FACTS = Unit("row_facts", ("row_facts_kernel",))


class FactsOnDevice:
    """Finds the facts about up to `n_rows` rows of `n_columns` distances of `dtype` at a time."""

    def __init__(self, n_rows: int, n_columns: int, dtype: np.dtype) -> None:
        self._dtype, self._n_columns, self._n_segments = dtype, n_columns, n_segments(n_columns)
        self._kernel = load_kernels(ROW_FACTS, dtype)["row_facts_kernel"]
        self._tables = Sent(_tables(dtype.itemsize))
        self._facts = cupy_module().empty(n_rows * self._n_segments * _FACTS.itemsize, np.uint8)

    def launch(self, rows: Any) -> Callable[[], RowFacts]:
        """Enqueue the search for facts about `rows` (n, columns); return what gives them once the device got there."""
        n_blocks = len(rows) * self._n_segments
        sizes = np.uint64(self._n_columns), np.uint32(self._n_segments), np.uint32(SEGMENT)
        self._kernel(n_blocks, _BLOCK, (rows, *sizes, self._tables.on_device, self._facts))
        words = fetch(self._facts[: n_blocks * _FACTS.itemsize])

        def facts() -> RowFacts:
            found = words.view(_FACTS).reshape(len(rows), self._n_segments)
            bits = bits_type(self._dtype)
            least, largest = (found[name].astype(bits).view(self._dtype) for name in ("least", "largest"))
            return RowFacts(least, largest, found["remainder"])

        return facts


def facts_bytes(n_columns: int) -> int:
    """Return the device memory that `FactsOnDevice` takes for each row."""
    return n_segments(n_columns) * _FACTS.itemsize


@cache
def _tables(itemsize: int) -> np.ndarray:
    """Return the words of the kernel's `Tables` for values of `itemsize` bytes."""
    power = crc32.power_of_x
    behind = [power(8 * itemsize * i + 32) for i in range(_BLOCK)]
    stride, word = (crc32.advancing(power(n_bits)).ravel() for n_bits in (8 * itemsize * _BLOCK, 32))
    return np.concatenate([stride, word, np.array(behind, np.uint32)])
