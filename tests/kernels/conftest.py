"""Fixtures of the kernels' tests."""

from __future__ import annotations

import pytest


@pytest.fixture
def device_pool():
    """Give a memory pool that holds only what this test allocates on the device.

    CuPy's default pool also counts what earlier tests left to the garbage collector, and what other threads still hold.
    """
    import cupy

    pool = cupy.cuda.MemoryPool()
    with cupy.cuda.using_allocator(pool.malloc):
        yield pool
