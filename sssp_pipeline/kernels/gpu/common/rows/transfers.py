"""Copies between host and device that wait for nothing: they are enqueued on the current stream.

Only pinned host memory can be copied so. With other memory, a copy would wait for all that was enqueued before.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sssp_pipeline.kernels.gpu.common.cuda.compile import cupy_module
from sssp_pipeline.kernels.gpu.common.rows.pinned_memory import pinned_memory


class Sent:
    """An array (n,) of which a copy on the device is enqueued. The memory of both is kept as long as this is."""

    def __init__(self, values: np.ndarray) -> None:
        cupy = cupy_module()
        self._staged = pinned_array((1, len(values)), values.dtype)[0]
        self._staged[:] = values
        #: The device array (n,).
        self.on_device = cupy.empty(len(values), self._staged.dtype)
        if len(values):
            self.on_device.data.copy_from_host_async(self._staged.ctypes.data, self._staged.nbytes)


def fetch(words: Any) -> np.ndarray:
    """Enqueue the copy of `words` (n,) uint8 to the host; return the array that will hold them."""
    fetched = pinned_array((1, len(words)), np.dtype(np.uint8))[0]
    copy_to_host(words, fetched)
    return fetched


def copy_to_host(rows: Any, into: np.ndarray, stream: Any = None) -> None:
    """Enqueue the copy of the device array `rows` to `into`, of equal shape, on `stream` or else the current one."""
    if rows.size:
        rows.get(stream=stream, out=into.view(rows.dtype), blocking=False)


def copy_rows(rows: Any, into: Any, stream: Any = None) -> None:
    """Enqueue the copy of the device array `rows` to `into`, of equal shape, on `stream` or else the current one.

    Both are contiguous. `into` is host memory, or memory of the same device.
    """
    if isinstance(into, np.ndarray):
        copy_to_host(rows, into, stream)
    elif rows.size:
        into.data.copy_from_device_async(rows.data, rows.nbytes, stream)


def copy_columns_to_host(rows: Any, into: np.ndarray, columns: slice, stream: Any) -> None:
    """Enqueue on `stream` the copy of some `columns` of the device array `rows` (n, V) to the same of `into` (n, V)."""
    runtime, itemsize = cupy_module().cuda.runtime, into.itemsize
    pitch, offset, width = itemsize * into.shape[1], itemsize * columns.start, columns.stop - columns.start
    if width > 0:
        to, origin = into.ctypes.data + offset, rows.data.ptr + offset
        kind = runtime.memcpyDeviceToHost
        runtime.memcpy2DAsync(to, pitch, origin, pitch, itemsize * width, len(into), kind, stream.ptr)


def pinned_array(shape: tuple[int, int], dtype: np.dtype) -> np.ndarray:
    """Return uninitialised pinned host memory, which the GPU copies fastest, or plain memory if none is left.

    The memory returns to a pool when the array and all its views are deleted.
    """
    cupy = cupy_module()
    count = shape[0] * shape[1]
    if count == 0:
        return np.empty(shape, dtype)
    try:
        memory = pinned_memory(count * dtype.itemsize)
    except (OSError, cupy.cuda.runtime.CUDARuntimeError):
        return np.empty(shape, dtype)
    return np.frombuffer(memory, dtype, count).reshape(shape)
