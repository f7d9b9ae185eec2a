import numpy as np
import pytest

from sssp_pipeline.pipeline.weight_types import WeightRange


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_integers_come_back_as_they_are_in_the_smallest_type(dtype):
    for values, smallest in (([0, 255], "uint8"), ([1, 2**53 + 1], "uint64"), ([7, 2**40], "uint64")):
        kept = WeightRange().add(np.array(values, dtype))
        assert (kept.tolist(), kept.dtype) == (values, smallest)


@pytest.mark.parametrize(
    ("values", "smallest"),
    [
        ([-1, 100], "int16"),
        ([-1, 2**32 - 1], "int64"),
        ([-1, 2**32], "int64"),
        ([-1, 2**53 + 1], "int64"),
        ([-(2**63), 2**63 - 1], "int64"),
    ],
)
def test_no_integer_is_rounded_beside_a_negative_one(values, smallest):
    kept = WeightRange().add(np.array(values))
    assert (kept.tolist(), kept.dtype) == (values, smallest)


def test_floats_come_back_unchanged():
    values = np.array([0.1, 3])
    assert WeightRange().add(values) is values
