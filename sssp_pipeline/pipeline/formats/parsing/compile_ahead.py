"""Kernels of the scan of text, in groups that children compile ahead (`base/compile_children.py`)."""

from __future__ import annotations

import numpy as np

from sssp_pipeline.base.compile_children import KernelGroup
from sssp_pipeline.pipeline.formats.parsing import numbers_in_text, odd_rows, plain_rows, tokenizer

_SYNTAX = tokenizer.LineSyntax(0, 0, 0, 2, -1, 0, 99, False)


def compile_decimals(dtype: np.dtype) -> None:
    """Compile what reads decimals; the types do not depend on the weights."""
    numbers_in_text.scan_decimal(_text(b"0.5\n"), 0, numbers_in_text.POINT)


def compile_digits(dtype: np.dtype) -> None:
    """Compile what reads rows of digits; the types do not depend on the weights."""
    columns = np.zeros((3, 1), np.int64)
    plain_rows.scan_rows_of_digits(_text(b"\n"), 0, 0, _SYNTAX, tokenizer.INTEGER, *columns)


def compile_odd_rows(dtype: np.dtype) -> None:
    """Compile what reads rows that are not plain; the types do not depend on the weights."""
    data, columns = _text(b"17 4\n"), np.zeros((3, 1), np.int64)
    numbers_in_text.after_line(data, 0)
    none = columns[0, :0]
    odd_rows.scan_odd_rows(data, 0, 0, 1, _SYNTAX, tokenizer.INTEGER, *columns, none, none, 0)


def _text(content: bytes) -> np.ndarray:
    return np.frombuffer(bytearray(content), np.uint8)


DIGITS = KernelGroup(compile_digits, plain_rows.scan_rows_of_digits)
DECIMALS = KernelGroup(compile_decimals, numbers_in_text.scan_decimal)
ODD_ROWS = KernelGroup(compile_odd_rows, odd_rows.scan_odd_rows)
