"""Files: read, write whole or not at all, and remove. Other packages use storage through this module.

`filesystems` finds the filesystem of a URL, and `listing` says which files there are. Both are offered here as well.

A local file is written under a temporary name in its own folder and then renamed. An object store shows an object only
when its upload is complete. So a reader never sees half a file. The temporary names begin with `TEMP_PREFIX`, by which
`remove_temporaries` finds what a killed process left.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

from sssp_pipeline.errors import InputError
from sssp_pipeline.pipeline.storage.error_texts import reading, writing
from sssp_pipeline.pipeline.storage.file_locks import remove_if_free
from sssp_pipeline.pipeline.storage.filesystems import (
    CHOOSE_A_FOLDER,
    call,
    filesystem,
    is_local,
    is_object_store,
    is_read_only,
    join,
    pipe_copy,
)
from sssp_pipeline.pipeline.storage.listing import (
    exists,
    expand,
    file_sizes,
    file_times,
    fingerprint,
    is_file,
    list_files,
    list_names,
)
from sssp_pipeline.pipeline.storage.redaction import STANDARD_INPUT, redacted
from sssp_pipeline.pipeline.storage.retries import http_status

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "CHOOSE_A_FOLDER",
    "STANDARD_INPUT",
    "TEMP_PREFIX",
    "check_writable",
    "create",
    "exists",
    "expand",
    "file_sizes",
    "file_times",
    "filesystem",
    "fingerprint",
    "free_bytes",
    "is_file",
    "is_local",
    "is_object_store",
    "is_read_only",
    "join",
    "list_files",
    "list_names",
    "open_atomic",
    "open_read",
    "read_bytes",
    "read_if_there",
    "read_range",
    "reading",
    "redacted",
    "remove",
    "remove_files",
    "remove_if_empty",
    "remove_temporaries",
    "write_atomic",
    "writing",
]

TEMP_PREFIX = ".sssp-partial-"
#: HTTP's answer to a condition that does not hold.
_PRECONDITION_FAILED = 412


def open_read(url: str) -> IO[bytes]:
    """Return `url` opened for reading bytes, as stored (not decompressed).

    Raises
    ------
    InputError
        It does not exist or may not be read.
    """
    pipe_copy(url)
    fs, path = filesystem(url)
    with reading(url):
        handle: IO[bytes] = call(url, fs.open, path, "rb")
        if (cache := getattr(handle, "cache", None)) is not None and not is_local(url):
            # The file fetches its content block by block, on each `read`: each fetch is repeated on its own.
            cache.fetcher = partial(call, url, cache.fetcher)
        return handle


def read_bytes(url: str) -> bytes:
    """Return the whole content of `url`, by one request; raises `InputError` as `open_read` does."""
    pipe_copy(url)
    fs, path = filesystem(url)
    with reading(url):
        content: bytes = call(url, fs.cat_file, path)
        return content


def read_range(url: str, first: int, last: int) -> bytes:
    """Return the bytes [first, last) of `url`, fewer if the file ends earlier; raises as `open_read` does."""
    fs, path = filesystem(url)
    with reading(url):
        content: bytes = call(url, fs.cat_file, path, start=first, end=last)
        return content


def read_if_there(url: str) -> bytes | None:
    """Return the whole content of `url`, None if there is no such file; other errors are those of `read_bytes`."""
    fs, path = filesystem(url)
    with reading(url), suppress(FileNotFoundError):
        content: bytes = call(url, fs.cat_file, path)
        return content
    return None


@contextmanager
def open_atomic(url: str) -> Iterator[pa.NativeFile]:
    """Give a file opened for writing whose content appears at `url` only if the block ends without an error.

    It is an Arrow file, so that Arrow writes to it without taking Python's global lock for each of its many writes.

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
        if not is_local(url):
            # Not every filesystem can cancel an upload, so the upload starts when the whole content is there.
            content = pa.BufferOutputStream()
            yield content
            call(url, fs.pipe_file, path, content.getvalue().to_pybytes())
            return
        folder, _, name = path.rpartition("/")
        target = f"{folder}/{TEMP_PREFIX}{uuid.uuid4().hex[:12]}-{name}"
        fs.makedirs(folder, exist_ok=True)
        try:
            with pa.OSFile(target, "wb") as handle:
                yield handle
            os.replace(target, path)  # noqa: PTH105
        except BaseException:
            with suppress(OSError):
                os.unlink(target)  # noqa: PTH108
            raise


def write_atomic(url: str, content: bytes) -> None:
    """Write `content` to `url`, whole or not at all; raises as `open_atomic` does."""
    with open_atomic(url) as handle:
        handle.write(content)


def create(url: str, content: bytes) -> bool:
    """Create the object `url` with `content` unless it exists; return whether its content is now this `content`.

    Every caller must pass different content. If the answer to a first attempt is lost, the store refuses the second
    attempt because the first one succeeded; only the content shows that. Raises as `open_atomic` does.
    """
    fs, path = filesystem(url)
    with writing(url):
        try:
            call(url, fs.pipe_file, path, content, mode="create")
        except OSError as error:
            status, _ = http_status(error.__cause__ or error)
            if not isinstance(error, FileExistsError) and status != _PRECONDITION_FAILED:
                raise
    return read_if_there(url) == content


def remove(url: str) -> None:
    """Remove the file or folder at `url` with everything below it, if it exists."""
    fs, path = filesystem(url)
    with writing(url), suppress(FileNotFoundError):
        call(url, fs.rm, path, recursive=True)


def remove_files(url: str, names: list[str]) -> None:
    """Remove the files `names` from the folder `url`; an object store removes many of them per request."""
    fs, path = filesystem(url)
    with writing(url):
        if not is_local(url):
            with suppress(FileNotFoundError):
                if names:
                    call(url, fs.rm, [join(path, name) for name in names])
            return
        for name in names:
            with suppress(FileNotFoundError):
                os.unlink(join(path, name))  # noqa: PTH108


def remove_if_empty(url: str) -> None:
    """Remove the local folder `url` if nothing is in it; object stores have no empty folders."""
    if is_local(url):
        with suppress(OSError):
            os.rmdir(filesystem(url)[1])  # noqa: PTH106


def remove_temporaries(url: str) -> None:
    """Remove the half-written files of killed processes from the folder `url`, but not from its sub-folders."""
    for name in list_files(url, deep=False):
        if name.startswith(TEMP_PREFIX):
            remove(join(url, name))


def check_writable(url: str) -> None:
    """Raise `InputError` unless a file can be created in the folder `url`; leaves nothing behind.

    On an object store this costs one small upload.
    """
    if is_read_only(url):
        raise InputError(f"`{redacted(url)}` cannot be written", hint=CHOOSE_A_FOLDER)
    fs, path = filesystem(url)
    made: list[str] = []
    if is_local(url):
        folder = path
        while folder and not os.path.lexists(folder):
            made.append(folder)
            folder = folder.rpartition("/")[0]
    probe = join(path, TEMP_PREFIX + uuid.uuid4().hex[:12])
    try:
        with writing(url):
            if not is_object_store(url):  # there it would create a bucket, perhaps from a mistyped name
                fs.makedirs(path, exist_ok=True)
            call(url, fs.pipe_file, probe, b"")
            call(url, fs.rm_file, probe)
    finally:
        for folder in made:
            remove_if_free(folder)  # not if another process has locked it by now


def free_bytes(url: str) -> int | None:
    """Return the free bytes of the disk where the local folder `url` is or will be; None for an object store."""
    if not is_local(url):
        return None
    place = Path(filesystem(url)[1])
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free
