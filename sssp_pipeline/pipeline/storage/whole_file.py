"""A whole local file by one call: it is created, written, closed and renamed while Python's lock is given up once.

On many cores a thread waits longer for Python's lock than a small system call takes. In a compiled function, several
calls follow each other without it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numba import types

from sssp_pipeline.numba_cache import njit

#: Buffers that a system call takes at most (IOV_MAX of Linux).
_MOST_BUFFERS = 1024
_INTERRUPTED = errno.EINTR

# Functions of the C library of Linux; addresses are numbers.
_creat = types.ExternalFunction("creat", types.int32(types.uintp, types.uint32))
_writev = types.ExternalFunction("writev", types.intp(types.int32, types.uintp, types.int32))
_close = types.ExternalFunction("close", types.int32(types.int32))
_rename = types.ExternalFunction("rename", types.int32(types.uintp, types.uintp))
_errno_location = types.ExternalFunction("__errno_location", types.uintp())
_memcpy = types.ExternalFunction("memcpy", types.uintp(types.uintp, types.uintp, types.uintp))


def write_whole(temporary: str, path: str, buffers: Sequence[memoryview]) -> None:
    """Write `buffers`, none of them empty, to a new file `temporary` and rename it to `path`; Linux only.

    Raises
    ------
    OSError
        As the functions of `os`. The file `temporary` may be there.
    """
    pieces = np.empty((len(buffers), 2), np.uint64)
    pieces[:, 0] = [pa.py_buffer(buffer).address for buffer in buffers]
    pieces[:, 1] = list(map(len, buffers))
    names = (np.frombuffer(os.fsencode(name) + b"\0", np.uint8) for name in (temporary, path))
    if code := _written(*names, pieces):
        raise OSError(code, os.strerror(code), path)


@njit(nogil=True)
def _written(temporary: np.ndarray, path: np.ndarray, pieces: np.ndarray) -> int:
    """Return 0, or the number of the error; overwrites `pieces` (n, 2), addresses and lengths."""
    descriptor = _creat(temporary.ctypes.data, 0o666)
    if descriptor < 0:
        return _error()
    first = 0
    while first < len(pieces):
        at_once = min(len(pieces) - first, _MOST_BUFFERS)
        written = _writev(descriptor, pieces[first:].ctypes.data, at_once)
        if written < 0:
            code = _error()
            if code == _INTERRUPTED:
                continue
            _close(descriptor)
            return code
        left = np.uint64(written)
        while first < len(pieces) and left >= pieces[first, 1]:
            left -= pieces[first, 1]
            first += 1
        if left:
            pieces[first, 0] += left
            pieces[first, 1] -= left
    if _close(descriptor) < 0 or _rename(temporary.ctypes.data, path.ctypes.data) < 0:
        return _error()
    return 0


@njit(nogil=True)
def _error() -> int:
    number = np.empty(1, np.int32)
    _memcpy(number.ctypes.data, _errno_location(), 4)
    return int(number[0])
