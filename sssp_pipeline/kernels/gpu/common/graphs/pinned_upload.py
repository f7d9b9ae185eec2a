"""Copies of large host arrays to a device, through pinned buffers.

The host's graph is in pageable memory, often a mapped file. CUDA copies such memory slowly, on one thread. Here a few
threads have one pinned buffer each. While the buffer of one thread is copied to the device, the others fill theirs.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from sssp_pipeline.kernels.gpu.common.cuda.compile import cupy_module
from sssp_pipeline.kernels.host.kernel_threads import usable_cores

#: Bytes of a pinned buffer. An array of up to `_FEW_BYTES` is copied directly: to make buffers takes 20 ms on an H200.
_BUFFER_BYTES, _FEW_BYTES = 2**24, 2**26
#: Two threads would be enough to fill one buffer while the other is copied, if filling were as fast as copying. CuPy
#: keeps the buffers for later uploads.
_MOST_THREADS = 4


def copy_to_device(values: Any, on_device: Any) -> None:
    """Copy `values` to `on_device`, an array of the same shape (n,) on the current device.

    It waits for a copy from the host.

    Parameters
    ----------
    values
        Host memory, or memory of the same device; it need not be contiguous. It is converted to the type of
        `on_device`, which must hold its values. From memory of the device, the copy is enqueued on the current stream.
    on_device
        Contiguous device memory, allocated on the current stream.

    Raises
    ------
    cupy.cuda.runtime.CUDARuntimeError
        The copy fails. All threads have ended.
    """
    if not isinstance(values, np.ndarray):
        on_device[:] = values
        return
    if on_device.nbytes <= _FEW_BYTES:
        on_device.set(np.ascontiguousarray(values, on_device.dtype))
        return
    cupy = cupy_module()
    device = cupy.cuda.Device().id
    size = _BUFFER_BYTES // on_device.itemsize
    n_threads = min(_MOST_THREADS, max(2, usable_cores()))
    # Kernels of the current stream may still use this memory. The copies run on other streams.
    cupy.cuda.get_current_stream().synchronize()

    def copy_every_nth(begin: int) -> None:
        with cupy.cuda.Device(device):
            try:
                memory = cupy.cuda.alloc_pinned_memory(_BUFFER_BYTES)
            except cupy.cuda.runtime.CUDARuntimeError:  # none is left: plain memory is slower
                memory = bytearray(_BUFFER_BYTES)
            buffer = np.frombuffer(memory, on_device.dtype, size)
            stream = cupy.cuda.Stream(non_blocking=True)
            for first in range(begin * size, len(values), n_threads * size):
                part = values[first : first + size]
                filled = buffer[: len(part)]
                np.copyto(filled, part, casting="unsafe")
                on_device[first : first + size].set(filled, stream)
                stream.synchronize()

    with ThreadPoolExecutor(n_threads, thread_name_prefix="upload") as threads:
        list(threads.map(copy_every_nth, range(n_threads)))
