"""`reached_values` finds what NumPy finds."""

from __future__ import annotations

import numpy as np
import pytest

from sssp_pipeline.base.csr import WEIGHT_DTYPES, unreached_distance
from sssp_pipeline.kernels.host.reached_values import reached_values


@pytest.mark.parametrize("dtype", WEIGHT_DTYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("shape", [(0, 5), (3, 1), (1, 1000), (40, 33)])
@pytest.mark.parametrize("share", [0, 0.1, 0.9, 1])
def test_reached_values(dtype, shape, share):
    rng = np.random.default_rng(1)
    unreached = unreached_distance(dtype)
    rows = rng.integers(0, 9, shape).astype(dtype)
    if dtype.kind != "u":
        rows[rng.random(shape) < 0.2] = -1 if dtype.kind == "i" else -0.0
    rows[rng.random(shape) < 0.1] = np.nextafter(unreached, 0) if dtype.kind == "f" else unreached - 1
    rows[rng.random(shape) >= share] = unreached
    before = rows.copy()
    found = reached_values(rows)
    is_reached = rows != unreached
    np.testing.assert_array_equal(found.counts, is_reached.sum(axis=1))
    np.testing.assert_array_equal(found.vertices, np.nonzero(is_reached)[1])
    np.testing.assert_array_equal(found.places, np.nonzero(is_reached)[0])
    assert (found.vertices.dtype, found.distances.dtype) == (np.uint32, dtype)
    assert found.distances.tobytes() == rows[is_reached].tobytes()
    assert rows.tobytes() == before.tobytes()
