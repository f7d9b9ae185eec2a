"""Kernel locks on local files and folders. A lock ends with the process that holds it.

A lock is on an inode and not on a path. Two rules ensure that only one process holds a path:

- After locking, a process checks that the path still leads to the locked inode (`is_in_place`), and tries again if it
  does not. Another process may have removed the folder, and a third one may have created and locked a new one.
- A process removes a lockable folder only while it holds the lock (`remove_if_free`).
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress


def try_lock(handle: int) -> bool:
    """Lock an open file or folder; return False if another process holds the lock.

    On a filesystem without locks, return True and lock nothing.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
            raise
    return True


@contextmanager
def shared_lock(path: str) -> Iterator[None]:
    """Hold a lock on a file or folder that other processes can share. If it is missing or has no locks, hold nothing.

    This waits while another process holds the `sole_lock`.
    """
    with _opened(path) as handle:
        with suppress(OSError):
            if handle is not None:
                fcntl.flock(handle, fcntl.LOCK_SH)
        yield


@contextmanager
def sole_lock(path: str) -> Iterator[bool]:
    """Hold the lock on a file or folder that excludes `shared_lock`; give False if another process holds one."""
    with _opened(path) as handle:
        is_sole = True
        with suppress(OSError):
            is_sole = handle is None or try_lock(handle)
        yield is_sole


@contextmanager
def _opened(path: str) -> Iterator[int | None]:
    handle = None
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
    try:
        yield handle
    finally:
        if handle is not None:
            os.close(handle)


def is_in_place(handle: int, path: str | os.PathLike[str]) -> bool:
    """Return whether `path` leads to the file or folder that is open as `handle`."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return os.path.samestat(os.fstat(handle), os.stat(path))  # noqa: PTH116
    return False


def remove_if_free(path: str) -> None:
    """Remove the folder `path` if it is empty and no process holds its lock."""
    with suppress(OSError):
        folder = os.open(path, os.O_RDONLY)
        try:
            if try_lock(folder):
                os.rmdir(path)  # noqa: PTH106
        finally:
            os.close(folder)
