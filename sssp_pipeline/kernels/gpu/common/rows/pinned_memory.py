"""Large pieces of pinned host memory, made in a fifth of CUDA's time.

CUDA gives out new pages one after the other, on one thread. Here several threads touch the pages first, so that CUDA
only has to register them (`benchmarks/results/pinning.jsonl`). CuPy's pool keeps freed memory for later calls.
"""

from __future__ import annotations

import mmap
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np

from sssp_pipeline.kernels.gpu.common.cuda.compile import cupy_module
from sssp_pipeline.kernels.host.kernel_threads import usable_cores

#: A smaller piece comes from CUDA: threads would take longer.
_LARGE_BYTES = 2**22
_MOST_THREADS = 8


def pinned_memory(n_bytes: int) -> Any:
    """Return a buffer of `n_bytes` of pinned memory, uninitialised. It is free again when nothing refers to it.

    Raises
    ------
    OSError, cupy.cuda.runtime.CUDARuntimeError
        There is not enough memory, or it cannot be pinned.
    """
    cupy = cupy_module()
    if n_bytes < _LARGE_BYTES:
        return cupy.cuda.alloc_pinned_memory(n_bytes)
    return _pool().malloc(n_bytes)


@cache
def _pool() -> Any:
    return cupy_module().cuda.PinnedMemoryPool(_registered)


class _Registered:
    """Memory of this process that is registered with CUDA until it is deleted; as CuPy's `PinnedMemory`."""

    def __init__(self, n_bytes: int) -> None:
        runtime = cupy_module().cuda.runtime
        mapped = mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            mapped.madvise(mmap.MADV_HUGEPAGE)
        content = np.frombuffer(mapped, np.uint8)
        n_threads = max(1, min(_MOST_THREADS, usable_cores()))
        with ThreadPoolExecutor(n_threads) as threads:
            list(threads.map(_touch, np.array_split(content, n_threads)))
        self.ptr, self.size = content.ctypes.data, n_bytes
        runtime.hostRegister(self.ptr, n_bytes, runtime.hostAllocPortable)
        # It keeps `content` until CUDA has forgotten it. At the end of the process nothing needs to be undone.
        weakref.finalize(self, _unregister, content).atexit = False


def _registered(n_bytes: int) -> Any:
    return cupy_module().cuda.PinnedMemoryPointer(_Registered(n_bytes), 0)


def _touch(content: np.ndarray) -> None:
    """Write to each page of `content` (n,) uint8, so that it has memory."""
    content[:: mmap.PAGESIZE] = 0


def _unregister(content: np.ndarray) -> None:
    cupy_module().cuda.runtime.hostUnregister(content.ctypes.data)
