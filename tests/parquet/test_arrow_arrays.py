"""Types of numbers in NumPy and Arrow."""

import numpy as np
import pyarrow as pa
import pytest

from sssp_pipeline.parquet.arrow_arrays import arrow_array, numpy_type


@pytest.mark.parametrize("kind", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"])
def test_numbers_have_the_same_type_in_numpy_and_in_arrow(kind):
    values = np.array([0, 1, 7], kind)
    array = arrow_array(values)
    assert array.equals(pa.array(values))
    assert numpy_type(array.type) == values.dtype
