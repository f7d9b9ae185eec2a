"""Locks of the kernel on local files and folders, which end with the process that holds them.

A lock is on an inode and not on a path. Two rules keep two processes from holding the same path:

- A process that has got a lock checks that the path still leads to what it locked (`is_in_place`), and tries again
  otherwise: another process may have removed it, and a third one made and locked a new one.
- A process removes a folder that can be locked only while it holds the lock (`remove_if_free`).
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress


def try_lock(handle: int) -> bool:
    """Lock an open file or folder, False if another process holds the lock; True where the filesystem has no locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
            raise
    return True


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
