"""Facts about rows on the device, against NumPy and zlib."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sssp_pipeline.csr import unreached_distance
from sssp_pipeline.kernels import row_facts
from sssp_pipeline.kernels.gpu.common.rows import facts_on_device
from sssp_pipeline.kernels.host.crc32 import appended

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("n_columns", [1, 255, 256, 257, 1000, 5000])
@pytest.mark.parametrize("dtype", ["uint32", "int32", "float32", "uint64", "int64", "float64"])
def test_facts_are_those_of_the_values(monkeypatch, dtype, n_columns):
    cupy = pytest.importorskip("cupy")
    monkeypatch.setattr(facts_on_device, "SEGMENT", 1000)
    monkeypatch.setattr(row_facts, "SEGMENT", 1000)
    kind = np.dtype(dtype)
    rows = (np.random.default_rng(n_columns).random((7, n_columns)) * 1e6).astype(kind)
    rows[3, ::3] = unreached_distance(kind)
    rows[4] = 0
    find = facts_on_device.FactsOnDevice(8, n_columns, kind)
    facts = find.launch(cupy.asarray(rows.view(f"u{kind.itemsize}")))
    cupy.cuda.get_current_stream().synchronize()
    facts = facts()
    for segment, begin in enumerate(range(0, n_columns, 1000)):
        part = rows[:, begin : begin + 1000]
        assert_array_equal(facts.least[:, segment], part.min(axis=1))
        assert_array_equal(facts.largest[:, segment], part.max(axis=1))
    ends = [*range(0, n_columns, 1000), n_columns]
    n_bytes = np.diff(ends) * kind.itemsize
    for row, remainders in zip(rows, facts.remainders, strict=True):
        assert appended(zlib.crc32(b"levels"), remainders, n_bytes) == zlib.crc32(b"levels" + row.tobytes())


def test_facts_of_a_large_row():
    cupy = pytest.importorskip("cupy")
    rows = np.random.default_rng(0).integers(0, 2**32 - 1, (3, 2 * row_facts.SEGMENT + 3), np.uint32)
    facts = facts_on_device.FactsOnDevice(3, rows.shape[1], rows.dtype).launch(cupy.asarray(rows))
    cupy.cuda.get_current_stream().synchronize()
    n_bytes = 4 * np.array([row_facts.SEGMENT, row_facts.SEGMENT, 3])
    for row, remainders in zip(rows, facts().remainders, strict=True):
        assert appended(0, remainders, n_bytes) == zlib.crc32(row.tobytes())
