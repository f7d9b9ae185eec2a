"""Large host arrays reach the device unchanged, part by part."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sssp_pipeline.kernels.gpu.common.graphs import pinned_upload
from sssp_pipeline.kernels.gpu.common.graphs.pinned_upload import copy_to_device

#: Values of four bytes that a buffer holds in these tests.
BUFFER = 32


@pytest.fixture(autouse=True)
def small_buffers(monkeypatch):
    monkeypatch.setattr(pinned_upload, "_BUFFER_BYTES", 4 * BUFFER)
    monkeypatch.setattr(pinned_upload, "_FEW_BYTES", 4 * BUFFER)
    monkeypatch.setattr(pinned_upload, "usable_cores", lambda: 3)


class CudaError(Exception):
    pass


class OnDevice:
    """A device array in host memory. What is copied from a buffer arrives when its stream is synchronised."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.nbytes, self.itemsize = array, array.nbytes, array.itemsize
        self.dtype = array.dtype

    def __getitem__(self, part: slice) -> OnDevice:
        return OnDevice(self.array[part])

    def set(self, values: np.ndarray, stream: Stream | None = None) -> None:
        assert values.dtype == self.dtype
        assert values.flags.c_contiguous
        if values.shape != self.array.shape:
            raise ValueError("shapes differ")
        if stream is None:
            self.array[:] = values
        else:
            stream.pending.append((self.array, values))


class Stream:
    def __init__(self, non_blocking: bool) -> None:
        assert non_blocking
        self.pending: list[tuple[np.ndarray, np.ndarray]] = []

    def synchronize(self) -> None:
        while self.pending:
            target, values = self.pending.pop()
            target[:] = values


class NoGpu:
    """A replacement of CuPy for machines without a GPU."""

    def __init__(self, monkeypatch, has_pinned_memory: bool) -> None:
        self.n_waits, self.n_buffers = 0, 0

        def alloc(n_bytes: int) -> bytearray:
            self.n_buffers += 1
            if not has_pinned_memory:
                raise CudaError
            return bytearray(n_bytes)

        def wait() -> None:
            self.n_waits += 1

        cuda = SimpleNamespace(
            Device=lambda *_: SimpleDevice(),
            Stream=Stream,
            alloc_pinned_memory=alloc,
            get_current_stream=lambda: SimpleNamespace(synchronize=wait),
            runtime=SimpleNamespace(CUDARuntimeError=CudaError),
        )
        monkeypatch.setattr(pinned_upload, "cupy_module", lambda: SimpleNamespace(cuda=cuda))

    def uploaded(self, values: np.ndarray, dtype: type) -> np.ndarray:
        array = np.full(len(values), 77, dtype)
        copy_to_device(values, OnDevice(array))
        return array


class SimpleDevice(nullcontext):
    id = 0


@pytest.fixture
def no_gpu(monkeypatch):
    return NoGpu(monkeypatch, True)


class Gpu:
    def uploaded(self, values: np.ndarray, dtype: type) -> np.ndarray:
        on_device = pinned_upload.cupy_module().empty(len(values), dtype)
        copy_to_device(values, on_device)
        return on_device.get()


@pytest.fixture(params=[pytest.param("gpu", marks=pytest.mark.gpu), "pinned", "plain"])
def place(request, monkeypatch):
    return Gpu() if request.param == "gpu" else NoGpu(monkeypatch, request.param == "pinned")


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 64, 96, 97, 1000])
def test_every_length_arrives(place, dtype, count):
    values = np.arange(count, dtype=dtype) + np.iinfo(dtype).max // 2
    assert_array_equal(place.uploaded(values, dtype), values)


@pytest.mark.parametrize("count", [10, 100])
def test_values_are_converted_and_need_not_be_contiguous(place, count):
    offsets = np.arange(2 * count, dtype=np.int64)[::2]
    assert_array_equal(place.uploaded(offsets, np.uint32), offsets)
    assert_array_equal(place.uploaded(offsets[::-1], np.uint64), offsets[::-1])


def test_a_mapped_file_arrives(place, tmp_path):
    values = np.arange(500, dtype=np.uint32)
    values.tofile(tmp_path / "values")
    assert_array_equal(place.uploaded(np.memmap(tmp_path / "values", np.uint32), np.uint32), values)


def test_each_thread_has_one_buffer_and_small_arrays_have_none(no_gpu):
    no_gpu.uploaded(np.arange(32, dtype=np.uint32), np.uint32)
    assert (no_gpu.n_buffers, no_gpu.n_waits) == (0, 0)
    no_gpu.uploaded(np.arange(1000, dtype=np.uint32), np.uint32)
    assert (no_gpu.n_buffers, no_gpu.n_waits) == (3, 1)


def test_an_error_of_a_thread_is_raised(no_gpu):
    with pytest.raises(ValueError, match="shapes differ"):
        copy_to_device(np.arange(90, dtype=np.uint32), OnDevice(np.empty(80, np.uint32)))


@pytest.mark.gpu
def test_work_of_the_stream_that_still_writes_the_memory_ends_first(monkeypatch):
    monkeypatch.setattr(pinned_upload, "_BUFFER_BYTES", 2**20)
    values = np.arange(2**26, dtype=np.uint32)
    on_device = pinned_upload.cupy_module().empty(len(values), np.uint32)
    for _ in range(200):
        on_device.data.memset_async(1, on_device.nbytes)  # enqueued: all of them take some 20 ms
    copy_to_device(values, on_device)
    assert_array_equal(on_device.get(), values)
