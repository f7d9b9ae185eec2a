"""How a call's sources are cut into device batches; see `_gpu_batch.py`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sssp_pipeline.kernels._gpu_batch import _SUMMARY_BYTES, BatchNeeds, device_batch

EACH = 1000 + _SUMMARY_BYTES
NEEDS = BatchNeeds(fixed_bytes=500, bytes_a_source=1000, full=100)


@pytest.mark.parametrize(
    ("n_sources", "free", "expected"),
    [
        (1, 500 + EACH + 4000, (1, 1)),
        (1, 500 + EACH + 3999, (0, 0)),
        (1, 0, (0, 0)),
        (2, 500 + EACH + 4000, (1, 1)),
        (2, 500 + EACH + 8000, (1, 2)),
        (100, 500 + 100 * (EACH + 4000), (100, 1)),
        (100, 500 + 100 * (EACH + 4000) - 1, (50, 2)),
        (101, 10**9, (51, 2)),
        (1000, 10**9, (100, 2)),
        (1024, 10**9, (94, 2)),
    ],
)
def test_a_device_batch_is_what_fits_and_fills_the_device(n_sources, free, expected):
    assert device_batch(n_sources, free, 4000, NEEDS) == expected


@given(
    n_sources=st.integers(1, 5000),
    free=st.integers(0, 10**7),
    row_bytes=st.integers(1, 10**5),
    fixed_bytes=st.integers(0, 10**5),
    bytes_a_source=st.integers(0, 10**5),
    full=st.integers(1, 2000),
)
def test_device_batches_never_take_more_than_is_free(
    n_sources, free, row_bytes, fixed_bytes, bytes_a_source, full
):
    needs = BatchNeeds(fixed_bytes, bytes_a_source, full)
    size, n_buffers = device_batch(n_sources, free, row_bytes, needs)
    fits_one = fixed_bytes + bytes_a_source + _SUMMARY_BYTES + row_bytes <= free
    assert (size > 0) == fits_one
    if fits_one:
        assert size <= min(n_sources, full)
        assert fixed_bytes + size * (bytes_a_source + _SUMMARY_BYTES + n_buffers * row_bytes) <= free
