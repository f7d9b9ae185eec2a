"""Files: list, read, write whole or not at all, and remove. Other packages use storage through this module.

What is imported `as` the same name is offered here as well, such as `is_local` and `redacted`.

A local file is written under a temporary name in its own folder and then renamed. An object store shows an object only
when its upload is complete. So a reader never sees half a file. The temporary names begin with `TEMP_PREFIX`, by which
`remove_temporaries` finds what a killed process left.
"""

from __future__ import annotations

import io
import itertools
import os
import re
import shutil
import stat
import uuid
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from sssp_pipeline.errors import InputError
from sssp_pipeline.pipeline.storage import pipes
from sssp_pipeline.pipeline.storage.error_texts import reading as reading
from sssp_pipeline.pipeline.storage.error_texts import writing as writing
from sssp_pipeline.pipeline.storage.file_locks import remove_if_free
from sssp_pipeline.pipeline.storage.filesystems import CHOOSE_A_FOLDER as CHOOSE_A_FOLDER
from sssp_pipeline.pipeline.storage.filesystems import HTTP_SCHEMES, call, is_of_machine, is_s3, pipe_copy
from sssp_pipeline.pipeline.storage.filesystems import descriptor_of as descriptor_of
from sssp_pipeline.pipeline.storage.filesystems import filesystem as filesystem
from sssp_pipeline.pipeline.storage.filesystems import is_local as is_local
from sssp_pipeline.pipeline.storage.filesystems import is_object_store as is_object_store
from sssp_pipeline.pipeline.storage.filesystems import is_read_only as is_read_only
from sssp_pipeline.pipeline.storage.filesystems import join as join
from sssp_pipeline.pipeline.storage.parts_upload import PartsUpload
from sssp_pipeline.pipeline.storage.redaction import STANDARD_INPUT as STANDARD_INPUT
from sssp_pipeline.pipeline.storage.redaction import redacted as redacted
from sssp_pipeline.pipeline.storage.retries import http_status

if TYPE_CHECKING:
    pass

#: What Arrow collects before it calls Python, to which its writes to an object store go.
_BUFFER_BYTES = 2**22
#: Buffers that a system call takes at most (IOV_MAX of Linux and macOS).
_MOST_BUFFERS = 1024
TEMP_PREFIX = ".sssp-partial-"
#: With the process and a number, it makes a temporary name that no other machine and no other process has.
_PROCESS = uuid.uuid4().hex[:8]
_numbers = itertools.count()
#: HTTP's answer to a condition that does not hold.
_PRECONDITION_FAILED = 412
#: The keys under which filesystems report the time of the last change.
_TIMES = ("LastModified", "last_modified", "mtime", "created")
#: The beginning of a random mark.
_UNKNOWN_MARK = "unknown-"
#: The keys under which filesystems report an etag, or else the time of the last change.
_CHANGE_MARKS = (
    *("ETag", "etag", "md5Hash", "content_md5"),
    *("LastModified", "Last-Modified", "last_modified", "mtime", "modify", "modificationTime"),
)


def expand(urls: list[str]) -> list[str]:
    """Return `urls` with globs replaced by the files they match, sorted within a glob.

    Raises
    ------
    InputError
        A file is missing, or a glob matches nothing.
    """
    return [file for url in urls for file in _expand_one(url)]


def _expand_one(url: str) -> list[str]:
    if pipe_copy(url, refresh=True) is not None:
        return [url]
    fs, path = filesystem(url)
    with reading(url):
        has_wildcard = "*" in path or (not url.startswith(HTTP_SCHEMES) and any(c in path for c in "?["))
        if has_wildcard and not call(url, fs.exists, path):
            return _matches(url, fs, path)
        if is_local(url):
            is_folder = stat.S_ISDIR(os.stat(path).st_mode)  # noqa: PTH116 - raises if the file is missing
        else:
            is_folder = call(url, fs.isdir, path)
        if is_folder:
            raise InputError(
                f"`{redacted(url)}` is a folder, not a file",
                hint=f"name its files: `{redacted(join(url, '*'))}`",
            )
        if not is_local(url) and not call(url, fs.exists, path):
            raise FileNotFoundError(path)
    return [url]


def _matches(url: str, fs: Any, path: str) -> list[str]:
    """Return the URLs of the files that match `url`, sorted."""
    if is_local(url):
        # fsspec reports no match for a folder that may not be read; opening the folder raises the true error.
        folder = re.split(r"[*?[]", path)[0].rpartition("/")[0] or "/"
        with suppress(FileNotFoundError, NotADirectoryError):
            os.scandir(folder).close()
    found = sorted(call(url, fs.glob, path))
    matches = [p for p in found if call(url, fs.isfile, p)]
    if is_local(url) and len(matches) < len(found):
        _refuse_dead_links(found)
    if not matches:
        raise InputError(f"`{redacted(url)}` matches no file", hint="check the pattern and the folder")
    # The matches are paths: they lack the scheme, and the host if the filesystem keeps it apart.
    return [url.removesuffix(path) + p if url.endswith(path) else p for p in matches]


def _refuse_dead_links(paths: list[str]) -> None:
    """Raise `InputError` for the first of `paths` that is a link to a file that is missing."""
    for path in paths:
        if os.path.islink(path) and not os.path.exists(path):  # noqa: PTH114, PTH110
            raise InputError(
                f"`{redacted(path)}` is a link to `{os.readlink(path)}`, which is missing",  # noqa: PTH115
                hint="restore the file, or remove the link",
            )


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


def list_files(url: str, deep: bool = True) -> list[str]:
    """Return the paths of all files below the folder `url`, relative to it, sorted; empty if there is none.

    With `deep` False, the files in sub-folders are left out.
    """
    if not is_local(url):
        return sorted(file_sizes(url, deep))
    root = filesystem(url)[1].rstrip("/") + "/"
    found: list[str] = []
    with reading(url):
        # fsspec's `find` stats every file, which takes long in the folder of a large run.
        for folder, _, names in os.walk(root, onerror=_raise_unless_missing):
            found += [os.path.join(folder, name)[len(root) :] for name in names]  # noqa: PTH118
            if not deep:
                break
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


def file_sizes(url: str, deep: bool = True) -> dict[str, int]:
    """Return the size in bytes of every file that `list_files` lists."""
    return {name: info["size"] for name, info in _file_infos(url, deep).items()}


def file_times(url: str, deep: bool = True) -> dict[str, datetime | None]:
    """Return when each file that `list_files` lists was last changed, in UTC; None if the storage does not say."""
    return {name: _modified_at(info) for name, info in _file_infos(url, deep).items()}


def _file_infos(url: str, deep: bool) -> dict[str, dict[str, Any]]:
    """Return fsspec's details of each file below the folder `url`, by the path relative to it."""
    fs, path = filesystem(url)
    fs.invalidate_cache()
    with reading(url):
        root = path.rstrip("/") + "/"
        found = call(url, fs.find, path, maxdepth=None if deep else 1, detail=True)
        return {p[len(root) :]: info for p, info in found.items() if p.startswith(root)}


def _modified_at(info: dict[str, Any]) -> datetime | None:
    when = next((info[key] for key in _TIMES if info.get(key) is not None), None)
    if isinstance(when, int | float):
        return datetime.fromtimestamp(when, UTC)
    return when.astimezone(UTC) if isinstance(when, datetime) else None


def fingerprint(url: str) -> dict[str, Any]:
    """Return what changes when the file at `url` changes: its size, and its etag or modification time.

    For a pipe, a hash of the content takes the place of the etag.
    """
    if (copy := pipe_copy(url)) is not None:
        # The number of a `<(command)` varies.
        name = "/dev/fd" if pipes.is_of_process(url) else redacted(url)
        return {"url": name, "size": copy.size, "mark": copy.sha256}
    fs, path = filesystem(url)
    with reading(url):
        info = call(url, fs.info, path)
    # A file without any of these marks counts as changed: its mark is random.
    mark = next((info[key] for key in _CHANGE_MARKS if info.get(key) is not None), _random_mark())
    return {"url": redacted(url), "size": info.get("size"), "mark": str(mark)}


def _random_mark() -> str:
    return _UNKNOWN_MARK + uuid.uuid4().hex


def has_changed(before: dict[str, Any], now: dict[str, Any]) -> bool:
    """Return whether a file has another fingerprint `now`; without marks, its size alone decides."""
    both_unknown = all(str(one.get("mark")).startswith(_UNKNOWN_MARK) for one in (before, now))
    return any(
        before.get(key) != now.get(key) for key in ("url", "size", *(() if both_unknown else ("mark",)))
    )


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


class _PlainFile(io.RawIOBase):
    """A new local file. `writelines` writes many buffers by one system call, without copying them.

    It makes as few system calls as possible. After each of them a thread waits for Python's lock, and on many cores it
    waits longer than a small call takes.
    """

    #: None if the file could not be opened. Python closes such an object, too.
    _descriptor: int | None = None

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        self._n_bytes = 0

    def close(self) -> None:
        if not self.closed:
            super().close()
            if self._descriptor is not None:
                os.close(self._descriptor)

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._n_bytes

    def write(self, buffer: Any, /) -> int:
        self.writelines([buffer])
        return memoryview(buffer).nbytes

    def writelines(self, buffers: Iterable[Any], /) -> None:
        assert self._descriptor is not None, "the file is open"
        left = deque(memoryview(buffer).cast("B") for buffer in buffers if len(buffer))
        self._n_bytes += sum(map(len, left))
        while left:
            written = os.writev(self._descriptor, list(itertools.islice(left, _MOST_BUFFERS)))
            while left and written >= len(left[0]):
                written -= len(left.popleft())
            if written:
                left[0] = left[0][written:]


class _Collected(io.RawIOBase):
    """What is written is kept, without copying it, until it is uploaded."""

    keeps_buffers = True

    def __init__(self) -> None:
        self.buffers: list[Any] = []

    def write(self, buffer: Any, /) -> int:
        self.buffers.append(buffer)
        return memoryview(buffer).nbytes

    def tell(self) -> int:
        return sum(memoryview(buffer).nbytes for buffer in self.buffers)


@contextmanager
def open_atomic(url: str, *, plain: bool = False) -> Iterator[Any]:
    """Give a file opened for writing whose content appears at `url` only if the block ends without an error.

    It is an Arrow file, so that Arrow writes to it without taking Python's global lock for each of its many writes. If
    `plain`, it is a Python file that copies nothing: the buffers must not change before the block ends.

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
        folder, _, name = path.rpartition("/")
        target = f"{folder}/{TEMP_PREFIX}{_PROCESS}{os.getpid():x}-{next(_numbers):x}-{name}"
        opened = _PlainFile if plain else partial(pa.OSFile, mode="wb")
        try:
            try:
                file = opened(target)
            except FileNotFoundError:
                fs.makedirs(folder, exist_ok=True)
                file = opened(target)
            with file as handle:
                yield handle
            os.replace(target, path)  # noqa: PTH105
        except BaseException:
            with suppress(OSError):
                os.unlink(target)  # noqa: PTH108
            raise


def write_atomic(url: str, content: bytes) -> None:
    """Write `content` to `url`, whole or not at all; raises as `open_atomic` does."""
    with open_atomic(url, plain=True) as handle:
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
