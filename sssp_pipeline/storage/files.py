"""Files: list, read, write and remove. Other packages use storage through this module.

What is imported `as` the same name is offered here as well, such as `is_local` and `redacted`.
"""

from __future__ import annotations

import os
import shutil
import uuid
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, Any

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.storage.atomic_files import TEMP_PREFIX as TEMP_PREFIX
from sssp_pipeline.storage.atomic_files import atomic_path as atomic_path
from sssp_pipeline.storage.atomic_files import create_file, in_folder
from sssp_pipeline.storage.atomic_files import open_atomic as open_atomic
from sssp_pipeline.storage.durability import sync as sync
from sssp_pipeline.storage.error_texts import reading as reading
from sssp_pipeline.storage.error_texts import writing as writing
from sssp_pipeline.storage.file_locks import remove_if_free
from sssp_pipeline.storage.filesystems import CHOOSE_A_FOLDER as CHOOSE_A_FOLDER
from sssp_pipeline.storage.filesystems import call, pipe_copy
from sssp_pipeline.storage.filesystems import filesystem as filesystem
from sssp_pipeline.storage.filesystems import is_local as is_local
from sssp_pipeline.storage.filesystems import is_object_store as is_object_store
from sssp_pipeline.storage.filesystems import is_read_only as is_read_only
from sssp_pipeline.storage.filesystems import join as join
from sssp_pipeline.storage.input_files import expand as expand
from sssp_pipeline.storage.input_files import fingerprint as fingerprint
from sssp_pipeline.storage.input_files import has_changed as has_changed
from sssp_pipeline.storage.local_files import descriptor_of as descriptor_of
from sssp_pipeline.storage.redaction import STANDARD_INPUT as STANDARD_INPUT
from sssp_pipeline.storage.redaction import redacted as redacted
from sssp_pipeline.storage.retries import http_status

#: HTTP's answer to a condition that does not hold.
_PRECONDITION_FAILED = 412
#: The keys under which filesystems report the time of the last change.
_TIMES = ("LastModified", "last_modified", "mtime", "created")


def exists(url: str) -> bool:
    """Return whether there is a file or folder at `url`."""
    fs, path = filesystem(url)
    with reading(url):
        return bool(call(url, fs.exists, path))


def is_file(url: str) -> bool:
    """Return whether there is a file at `url`, or a pipe that can be read as one."""
    fs, path = filesystem(url)
    with reading(url):
        return url == STANDARD_INPUT or (bool(call(url, fs.exists, path)) and not call(url, fs.isdir, path))


def list_files(url: str) -> list[str]:
    """Return the paths of all files below the folder `url`, relative to it, sorted; empty if there is none."""
    if not is_local(url):
        return sorted(file_sizes(url))
    root = filesystem(url)[1].rstrip("/") + "/"
    found: list[str] = []
    with reading(url):
        # fsspec's `find` stats every file, which takes long in the folder of a large run.
        for folder, _, names in os.walk(root, onerror=_raise_unless_missing):
            found += [os.path.join(folder, name)[len(root) :] for name in names]  # noqa: PTH118
    return sorted(found)


def _raise_unless_missing(error: OSError) -> None:
    if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
        raise error


def list_names(url: str) -> list[str]:
    """Return the names of the files and folders directly in the folder `url`, sorted; empty if there is none."""
    fs, path = filesystem(url)
    fs.invalidate_cache()
    if not exists(url):
        return []
    with reading(url), suppress(FileNotFoundError):
        # An object store may list the folder itself, as an object without content.
        found = [p.rstrip("/") for p in call(url, fs.ls, path, detail=False)]
        return sorted(p.rpartition("/")[2] for p in found if p != path.rstrip("/"))
    return []


def file_sizes(url: str) -> dict[str, int]:
    """Return the size in bytes of every file that `list_files` lists."""
    return {name: info["size"] for name, info in _file_infos(url).items()}


def file_times(url: str) -> dict[str, datetime | None]:
    """Return when each file that `list_files` lists was last changed, in UTC; None if the storage does not say."""
    return {name: _modified_at(info) for name, info in _file_infos(url).items()}


def changed_at(url: str) -> datetime | None:
    """Return when the file or local folder at `url` was last changed, in UTC; None if the storage does not say."""
    fs, path = filesystem(url)
    with reading(url):
        return _modified_at(call(url, fs.info, path))


def _file_infos(url: str) -> dict[str, dict[str, Any]]:
    """Return fsspec's details of each file below the folder `url`, by the path relative to it."""
    fs, path = filesystem(url)
    fs.invalidate_cache()
    with reading(url), suppress(FileNotFoundError):  # not even a bucket
        root = path.rstrip("/") + "/"
        found = call(url, fs.find, path, detail=True)
        return {p[len(root) :]: info for p, info in found.items() if p.startswith(root)}
    return {}


def _modified_at(info: dict[str, Any]) -> datetime | None:
    when = next((info[key] for key in _TIMES if info.get(key) is not None), None)
    if isinstance(when, int | float):
        return datetime.fromtimestamp(when, UTC)
    return when.astimezone(UTC) if isinstance(when, datetime) else None


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
    return read_range(url)


def read_range(url: str, first: int | None = None, last: int | None = None) -> bytes:
    """Return the bytes [first, last) of `url`, fewer if the file ends earlier. Raises the errors of `open_read`."""
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


def write_atomic(url: str, content: bytes, *, synced: bool = False) -> None:
    """Write `content` to `url`, whole or not at all. `open_atomic` explains `synced` and the errors."""
    with open_atomic(url, plain=True, synced=synced) as handle:
        handle.write(content)


def create(url: str, content: bytes) -> bool:
    """Create the file or object `url` unless it exists; return whether its content is now `content`.

    Every caller must pass different content. If the answer to a first attempt is lost, the store refuses the second
    attempt because the first one succeeded; only the content shows that. Raises the errors of `open_atomic`.
    """
    fs, path = filesystem(url)
    with writing(url):
        try:
            if is_local(url):
                create_file(path, content)
            else:
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


def remove_temporaries(url: str, but: str | None = None) -> None:
    """Remove the half-written files and folders of killed processes from the folder `url`, all or all but one."""
    for name in list_names(url):
        if name.startswith(TEMP_PREFIX) and name != but:
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
            if is_local(url):
                in_folder(path, partial(fs.pipe_file, probe, b""))
            else:
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
