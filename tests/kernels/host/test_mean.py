"""The mean of distances at the ends of their types; `tests/conformance` compares it for every solver."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sssp_pipeline.base.csr import WEIGHT_DTYPES
from sssp_pipeline.kernels.host.mean import mantissa_bits, mean_distance, mean_distances, sums


def mean(values, dtype):
    bits = np.array(values, dtype).view(f"u{np.dtype(dtype).itemsize}")
    unreached = ~np.zeros(1, bits.dtype)[0]
    lower, upper = sums(bits, unreached, bits.max(), np.uint64(mantissa_bits(np.dtype(dtype))))
    return mean_distance(np.dtype(dtype), lower, upper, int(bits.max()), len(values))


@pytest.mark.parametrize("dtype", WEIGHT_DTYPES, ids=lambda dtype: dtype.name)
def test_the_order_of_summation_changes_no_bit(dtype):
    random = np.random.default_rng(1)
    values = (random.random(3000) ** 9 * 1e9).astype(dtype)
    means = {mean(random.permutation(values), dtype) for _ in range(10)}
    assert len(means) == 1
    true = float(sum(map(Fraction, values.tolist())) / len(values))
    assert means.pop() == pytest.approx(true, rel=1e-15)


def test_integers_are_summed_exactly_beyond_64_bits():
    last = 2**64 - 2
    assert mean([last] * 1000, "uint64") == float(last)
    assert mean([last, last - 2**40, 0], "uint64") == (2 * last - 2**40) / 3
    assert mean([2**32 - 2] * 1000 + [0], "uint32") == (2**32 - 2) * 1000 / 1001


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floats_at_the_ends_of_their_range(dtype):
    info = np.finfo(dtype)
    assert mean([info.max] * 5, dtype) == float(info.max)
    assert mean([info.tiny, 0], dtype) == float(info.tiny) / 2
    subnormal = float(info.smallest_subnormal)
    assert mean([subnormal * 6, subnormal * 2, 0, 0], dtype) == 2 * subnormal
    assert mean([subnormal, info.tiny, subnormal * 3], dtype) == (float(info.tiny) + 4 * subnormal) / 3
    assert mean([info.max, subnormal], dtype) == float(info.max) / 2
    assert mean([0, 0], dtype) == 0


def test_nothing_has_the_mean_zero():
    assert mean_distance(np.dtype("uint32"), 0, 0, 0, 0) == 0


@pytest.mark.parametrize("dtype", WEIGHT_DTYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("shift", [0, 12])
def test_means_by_column_are_those_of_the_rows(dtype, shift):
    """Integers whose sums a float64 holds are divided by column, all others row by row."""
    random = np.random.default_rng(2)
    lower = random.integers(0, 2**53, 50, np.uint64) << np.uint64(shift)
    upper = np.zeros(50, np.uint64) if shift == 0 else random.integers(0, 2**40, 50, np.uint64)
    largest = np.full(50, np.array(1e4, dtype).view(f"u{dtype.itemsize}"), np.uint64)
    count = random.integers(0, 2**32, 50, np.uint64)
    count[0] = lower[0] = upper[0] = 0
    rows = zip(lower.tolist(), upper.tolist(), largest.tolist(), count.tolist(), strict=True)
    expected = [mean_distance(dtype, *row) for row in rows]
    assert mean_distances(dtype, lower, upper, largest, count).tolist() == expected
