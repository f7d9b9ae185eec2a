"""Files that appear whole or not at all.

A local file is written under a temporary name in its own folder and then renamed. An object store shows an object only
when its upload is complete. So a reader never sees half a file.
"""

from __future__ import annotations

import errno
import itertools
import os
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.storage.buffer_file import BufferFile
from sssp_pipeline.storage.durability import sync, sync_file
from sssp_pipeline.storage.error_texts import writing
from sssp_pipeline.storage.filesystems import call, filesystem, is_of_machine, is_s3
from sssp_pipeline.storage.parts_upload import PartsUpload
from sssp_pipeline.storage.redaction import redacted

#: Bytes that Arrow collects before it calls Python to write them to an object store.
_BUFFER_BYTES = 2**22
#: Buffers that a system call takes at most (IOV_MAX of Linux and macOS).
_MOST_BUFFERS = 1024
#: The beginning of a temporary name, by which `files.remove_temporaries` finds what a killed process left.
TEMP_PREFIX = ".sssp-partial-"
#: With the process and a number, it makes a temporary name that no other machine and no other process has.
_PROCESS = uuid.uuid4().hex[:8]
_numbers = itertools.count()
#: Attempts to create a file in a folder that others create and remove, and the seconds before the second one, which
#: double. On a shared folder a machine may see a removed folder for some seconds more.
_MOST_ATTEMPTS, _FIRST_WAIT_S = 9, 0.01
_Made = TypeVar("_Made")
#: What a filesystem answers that has no links.
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)


class _PlainFile(BufferFile):
    """A new local file. It writes many buffers by one system call.

    It makes as few system calls as possible. After each of them a thread waits for Python's lock, and on many cores it
    waits longer than a small call takes.
    """

    #: None if the file could not be opened. Python closes such an object, too.
    _descriptor: int | None = None

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)

    def close(self) -> None:
        if not self.closed:
            super().close()
            if self._descriptor is not None:
                os.close(self._descriptor)

    def take(self, buffers: list[memoryview]) -> None:
        assert self._descriptor is not None, "the file is open"
        left = deque(buffers)
        while left:
            written = os.writev(self._descriptor, list(itertools.islice(left, _MOST_BUFFERS)))
            while left and written >= len(left[0]):
                written -= len(left.popleft())
            if written:
                left[0] = left[0][written:]


class _Collected(BufferFile):
    """A file in memory: the buffers, until they are uploaded."""

    keeps_buffers = True

    def __init__(self) -> None:
        self.buffers: list[memoryview] = []

    def take(self, buffers: list[memoryview]) -> None:
        self.buffers += buffers


@contextmanager
def open_atomic(url: str, *, plain: bool = False, synced: bool = False) -> Iterator[Any]:
    """Give a file opened for writing whose content appears at `url` only if the block ends without an error.

    It is an Arrow file, so that Arrow writes to it without taking Python's global lock for each of its many writes. If
    `plain`, it is a Python file that copies nothing: the buffers must not change before the block ends.

    If `synced`, the content is on the disk before it appears, and its name when the block has ended. Without that, a
    power loss may leave an empty file; so it is for files with a checksum that a record has.

    Raises
    ------
    InputError
        The place may not be written, or is full.
    SsspError
        The storage fails in another way.
    """
    import pyarrow as pa

    fs, path = filesystem(url)
    with writing(url):
        if is_s3(fs):
            upload = PartsUpload(url, fs, path, copies=not plain)
            try:
                if plain:
                    yield upload
                else:
                    with pa.BufferedOutputStream(pa.PythonFile(upload, "w"), _BUFFER_BYTES) as handle:
                        yield handle
                upload.finish()
            except BaseException:
                upload.abort()
                raise
            return
        if not is_of_machine(fs):
            # Not every filesystem can cancel an upload, so the upload starts when the whole content is there.
            collected, content = _Collected(), pa.BufferOutputStream()
            yield collected if plain else content
            whole = b"".join(collected.buffers) if plain else content.getvalue().to_pybytes()
            call(url, fs.pipe_file, path, whole)
            return
        opened = _PlainFile if plain else partial(pa.OSFile, mode="wb")
        with _moved_to(path, synced) as target:
            try:
                file = opened(target)
            except FileNotFoundError:
                file = in_folder(path.rpartition("/")[0], partial(opened, target))
            with file as handle:
                yield handle


@contextmanager
def atomic_path(url: str, what: str) -> Iterator[str]:
    """Give a local path to write, for a library that opens files itself; the file then appears at `url`, synced.

    `what` names the file in a message, such as "a GeoPackage".

    Raises
    ------
    InputError
        `url` is not on this machine, or may not be written.
    SsspError
        The disk is full, or fails in another way.
    """
    fs, path = filesystem(url)
    if not is_of_machine(fs):
        raise InputError(
            f"`{redacted(url)}` is not on this machine, and {what} can only be written there",
            hint="write it to a local folder, then copy it",
        )
    with writing(url), _moved_to(path, synced=True) as target:
        # Here a place that may not be written is an error that says so.
        in_folder(path.rpartition("/")[0], partial(_PlainFile, target)).close()
        yield target


@contextmanager
def _moved_to(path: str, synced: bool) -> Iterator[str]:
    """Give a temporary path in the folder of the local `path`; what is written there is then moved to `path`."""
    target = _temporary_name(path)
    try:
        yield target
        if synced:
            sync_file(target)
        os.replace(target, path)  # noqa: PTH105
        if synced:
            sync(path.rpartition("/")[0])
    except BaseException:
        with suppress(OSError):
            os.unlink(target)  # noqa: PTH108
        raise


def in_folder(folder: str, create: Callable[[], _Made]) -> _Made:
    """Create the local `folder` if necessary, and return `create()`, which creates a file in it.

    A process that ends removes the folders that it leaves empty. So both steps are repeated when the folder goes
    between them. Raises `OSError`.
    """
    for attempt in range(_MOST_ATTEMPTS):
        with suppress(FileNotFoundError):
            os.makedirs(folder, exist_ok=True)  # noqa: PTH103
            return create()
        time.sleep(_FIRST_WAIT_S * 2**attempt)
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103
    return create()


def create_file(path: str, content: bytes) -> None:
    """Create the local file `path` with `content`, which it has from the first moment.

    Raises `FileExistsError` if there is a file, and other kinds of `OSError`.
    """
    in_folder(path.rpartition("/")[0], partial(_create_with, path, content))


def _create_with(path: str, content: bytes) -> None:
    temporary = _temporary_name(path)
    try:
        with _PlainFile(temporary) as file:
            file.write(content)
        # Not a rename, which would replace a file. NFS can make links from its first version on.
        os.link(temporary, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        with open(path, "xb") as file:  # noqa: PTH123
            file.write(content)
    finally:
        with suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108


def _temporary_name(path: str) -> str:
    folder, _, name = path.rpartition("/")
    return f"{folder}/{TEMP_PREFIX}{_PROCESS}{os.getpid():x}-{next(_numbers):x}-{name}"
