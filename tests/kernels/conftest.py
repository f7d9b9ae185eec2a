"""Fixtures of the kernels' tests. The modules beside this one can be imported by name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import strategies as st

from sssp_pipeline.base.csr import unreached_distance

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def device_pool():
    """Give a memory pool that holds only what this test allocates on the device.

    CuPy's default pool also counts what earlier tests left to the garbage collector, and what other threads still hold.
    """
    import cupy

    pool = cupy.cuda.MemoryPool()
    with cupy.cuda.using_allocator(pool.malloc):
        yield pool


@pytest.fixture(scope="session")
def distances_of():
    """Give a function that returns a strategy of distances of a type: ties, zeros, ends, "unreached", negative ones.

    Floats between 0 and `least`, and above `most`, are left out.
    """

    def strategy(dtype, least=1e-30, most=1e6):
        unreached = unreached_distance(dtype).item()
        if dtype.kind == "f":
            values = st.floats(-1e6, 1e6, width=8 * dtype.itemsize, allow_subnormal=False)
            return st.sampled_from([0.0, 0.1, 1.0, 3.0, -0.3, least, most, unreached]) | values
        low = 0 if dtype.kind == "u" else -1000
        return st.sampled_from([0, 1, 2, 7, unreached - 1, unreached]) | st.integers(low, 10**6)

    return strategy
