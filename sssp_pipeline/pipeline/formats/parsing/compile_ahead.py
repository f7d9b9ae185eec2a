"""Kernels that the scans of text call, as a group that a child compiles while this process compiles the scan itself."""

from __future__ import annotations

import numpy as np

from sssp_pipeline.base.compile_children import KernelGroup
from sssp_pipeline.pipeline.formats.parsing import numbers_in_text


def compile_numbers(dtype: np.dtype) -> None:
    """Compile what reads ids and weights; the types do not depend on the weights."""
    data = np.frombuffer(bytearray(b"17 0.5\n"), np.uint8)
    numbers_in_text.after_token(data, numbers_in_text.skip_blanks(data, 0))
    numbers_in_text.after_line(data, 0)
    numbers_in_text.scan_id(data, 0)
    numbers_in_text.scan_decimal(data, 3, numbers_in_text.POINT)


NUMBERS = KernelGroup(compile_numbers, numbers_in_text.scan_decimal)
