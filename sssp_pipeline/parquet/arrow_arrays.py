"""Arrow arrays of NumPy's memory, their bytes, and types of both.

`pyarrow.array`, `to_numpy` and `to_pandas_dtype` would import pandas first if it is installed, which takes 0.2 s.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def arrow_array(values: np.ndarray) -> pa.Array:
    """Return `values` (n,), numbers, as an Arrow array that shares their memory if they are contiguous."""
    values = np.ascontiguousarray(values)
    return pa.Array.from_buffers(
        pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)], null_count=0
    )


def number_bytes(numbers: pa.Array) -> memoryview:
    """Return the bytes of an Arrow array of numbers without nulls; they are not copied."""
    if not len(numbers):
        return memoryview(b"")
    width = numbers.type.bit_width // 8
    return memoryview(numbers.buffers()[1])[width * numbers.offset : width * (numbers.offset + len(numbers))]


def numpy_type(kind: pa.DataType) -> np.dtype:
    """Return NumPy's type of the numbers that an Arrow array of type `kind`, integers or floats, holds."""
    letter = "f" if pa.types.is_floating(kind) else "u" if pa.types.is_unsigned_integer(kind) else "i"
    return np.dtype(f"{letter}{kind.bit_width // 8}")
