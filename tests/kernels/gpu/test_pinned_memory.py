"""Pinned host memory that several threads touched first."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from sssp_pipeline.kernels.gpu.common.rows import pinned_memory, transfers

pytestmark = pytest.mark.gpu
LARGE = np.dtype(np.uint32), (3, pinned_memory._LARGE_BYTES // 4)


@pytest.fixture
def pool():
    """An empty pool for this test alone."""
    pinned_memory._pool.cache_clear()
    yield
    pinned_memory._pool.cache_clear()


def is_pinned(array: np.ndarray) -> bool:
    cupy = pytest.importorskip("cupy")
    return cupy.cuda.runtime.pointerGetAttributes(array.ctypes.data).type == 1


@pytest.mark.parametrize("shape", [(1, 1), (3, 1000), LARGE[1], (1, pinned_memory._LARGE_BYTES + 5)])
@pytest.mark.parametrize("dtype", ["uint8", "float64"])
def test_copies_to_pinned_memory(pool, dtype, shape):
    cupy = pytest.importorskip("cupy")
    on_device = (cupy.arange(shape[0] * shape[1]) % 251).astype(dtype).reshape(shape)
    array = transfers.pinned_array(shape, np.dtype(dtype))
    assert array.shape == shape
    assert is_pinned(array)
    assert is_pinned(array[-1, -1:])
    transfers.copy_to_host(on_device, array)
    cupy.cuda.get_current_stream().synchronize()
    np.testing.assert_array_equal(array, on_device.get())


def test_freed_memory_is_used_again(pool):
    dtype, shape = LARGE
    address = (first := transfers.pinned_array(shape, dtype)).ctypes.data
    view = first[1:]
    del first
    second = transfers.pinned_array(shape, dtype)
    assert second.ctypes.data != address, "a view still refers to it"
    del view
    assert transfers.pinned_array(shape, dtype).ctypes.data == address


def test_memory_of_a_dropped_pool_is_no_longer_registered(pool, monkeypatch):
    forgotten = []
    unregister = pinned_memory._unregister
    monkeypatch.setattr(
        pinned_memory, "_unregister", lambda a: (forgotten.append(a.ctypes.data), unregister(a))
    )
    dtype, shape = LARGE
    address = transfers.pinned_array(shape, dtype).ctypes.data
    pinned_memory._pool().free_all_blocks()
    gc.collect()
    assert forgotten == [address]


@pytest.mark.parametrize("error", ["cuda", "system"])
def test_plain_memory_where_none_can_be_pinned(pool, monkeypatch, error):
    cupy = pytest.importorskip("cupy")

    def refuse(*_):
        raise OSError("no memory") if error == "system" else cupy.cuda.runtime.CUDARuntimeError(801)

    monkeypatch.setattr(pinned_memory, "_touch" if error == "system" else "_Registered", refuse)
    dtype, shape = LARGE
    array = transfers.pinned_array(shape, dtype)
    assert array.shape == shape
    assert not is_pinned(array)
