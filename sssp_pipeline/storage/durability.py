"""Durability: what a record names is on the disk before the record is, so that a power loss loses no committed work.

After a power loss a disk may lack what a program wrote, renamed or removed last, and in any order. Only `fsync` sets an
order. It takes milliseconds, so it is called at few places: before a record is written, when it is written, and before
what it replaces is removed. `docs/design/0026-power-loss.md` lists them.

An object store keeps what it has confirmed, so there is nothing to do.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path, PurePath
from typing import Literal

from sssp_pipeline.storage.error_texts import writing
from sssp_pipeline.storage.filesystems import filesystem, is_of_machine

_is_on: ContextVar[bool] = ContextVar("is_on", default=True)
#: Files that are synced at a time: a disk writes many of them together.
_AT_A_TIME = 16
#: Lets the disk begin to write a part of a file (`sync_file_range(2)`); None where the system has no such call.
_begin_to_write = getattr(ctypes.CDLL(None), "sync_file_range", None)
_WRITE = 2
#: What a filesystem answers that cannot sync folders.
_CANNOT = (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EROFS)


@contextmanager
def syncing(when: Literal["commit", "off"]) -> Iterator[None]:
    """Sync nothing during the block if `when` is "off": the value of `storage.sync` in the workflow."""
    token = _is_on.set(when == "commit")
    try:
        yield
    finally:
        _is_on.reset(token)


def sync(folder: str, names: Collection[str] = ()) -> None:
    """Wait until files of a folder and the names of all of them are on the disk, and the folder with its own name.

    Parameters
    ----------
    folder
        URL of a folder. A folder that is not on this machine's filesystem needs no sync. A missing folder has no files.
    names
        Paths of files, below the folder.

    Raises
    ------
    SsspError
        The disk reports an error, or is full.
    """
    fs, path = filesystem(folder)
    if not (_is_on.get() and is_of_machine(fs)):
        return
    root = Path(path)
    below = {parent for name in names for parent in PurePath(name).parents if parent.name}
    with writing(folder):
        with ThreadPoolExecutor(min(_AT_A_TIME, max(len(names), 1))) as pool:
            list(pool.map(_sync_file, [root / name for name in names]))
        # The folders that lead to it may be new, too.
        for each in (*(root / name for name in sorted(below)), root, *root.parents):
            _sync_folder(each)


def begin_sync(url: str) -> None:
    """Let the disk begin to write the content of a file that will be synced later, and do not wait for it.

    Without this a machine with much memory begins when the sync waits: 8 GB took 4 s then, after a run of 7 s.
    """
    fs, path = filesystem(url)
    if _is_on.get() and is_of_machine(fs) and _begin_to_write is not None:
        with suppress(OSError), open(path, "rb") as file:  # noqa: PTH123 - the sync reports an error
            _begin_to_write(file.fileno(), ctypes.c_int64(0), ctypes.c_int64(0), _WRITE)


def sync_file(path: str) -> None:
    """Wait until the content of the local file at `path` is on the disk; raises `OSError`."""
    if _is_on.get():
        _sync_file(path)


def _sync_file(path: str | Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(path: Path) -> None:
    # A folder that this user may not read is not one that this program has made.
    with suppress(FileNotFoundError, PermissionError):
        try:
            _sync_file(path)
        except OSError as error:
            if error.errno not in _CANNOT:
                raise
