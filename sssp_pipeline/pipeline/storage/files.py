"""The only place that touches fsspec: open, list, fingerprint, and write a file whole or not at all.

A URL without a scheme is a local path. Local files are written beside their place under a temporary name
and moved there with one rename; object stores show an object only when its upload is complete, which
is the same promise. The temporary name begins with `TEMP_PREFIX`, so that `remove_temporaries` finds what a
killed process left. What fails elsewhere than on this machine and passes by itself is tried again (`patience`).
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

import fsspec
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from sssp_pipeline.errors import InputError
from sssp_pipeline.pipeline.storage import pipes
from sssp_pipeline.pipeline.storage.error_texts import reading as reading
from sssp_pipeline.pipeline.storage.error_texts import writing as writing
from sssp_pipeline.pipeline.storage.file_locks import remove_if_free
from sssp_pipeline.pipeline.storage.redaction import STANDARD_INPUT as STANDARD_INPUT
from sssp_pipeline.pipeline.storage.redaction import redacted as redacted
from sssp_pipeline.pipeline.storage.redaction import told
from sssp_pipeline.pipeline.storage.retries import (
    check_connection,
    has_answered,
    http_status,
    patiently,
)

if TYPE_CHECKING:
    import pyarrow as pa

TEMP_PREFIX = ".sssp-partial-"

T = TypeVar("T")


def filesystem(url: str) -> tuple[Any, str]:
    """Return the fsspec filesystem of `url` and the path on it.

    Raises
    ------
    InputError
        The scheme is unknown, the package that serves it is not installed, or the URL is none, or holds a password
        that the store would not use.
    """
    if (copy := pipes.copy_of(url)) is not None:
        return fsspec.filesystem("file"), copy.path
    if "\0" in url:
        raise InputError(f"`{redacted(url)}` has a NUL character in it", hint="correct the path")
    if "::" in url:
        chain = "::".join(redacted(part) for part in url.split("::"))
        raise InputError(
            f"`{chain}` is a chain of URLs, which is not read",
            hint="unpack it first; gz, bz2, xz and zst are read as they are",
        )
    # A listing that was kept would hide what another process has written since.
    options: dict[str, Any] = {"use_listings_cache": False} if is_object_store(url) else {}
    if options and ":" in url.partition("://")[2].partition("/")[0].rpartition("@")[0]:
        raise InputError(
            f"`{redacted(url)}` was given with a password in it",
            hint="leave it out: credentials are taken from the environment",
        )
    if url.startswith(_HTTP):
        options = {"client_kwargs": {"trust_env": True}}  # or it would leave out http_proxy and no_proxy
    with reading(url):
        try:
            # Some clients connect here already: FTP's.
            fs, path = url_to_fs(url, **options)
        except (ImportError, ValueError) as error:
            raise InputError(
                f"`{redacted(url)}` cannot be opened: {told(error)}", hint=_scheme_hint(url)
            ) from error
    if isinstance(fs, LocalFileSystem):
        try:
            os.fsencode(path)
        except UnicodeEncodeError as error:
            raise InputError(
                f"`{redacted(url)}` holds a character that paths cannot hold here, where they are {error.encoding}",
                hint="use a UTF-8 locale, such as `LC_ALL=C.UTF-8`, or a path without that character",
            ) from error
    return fs, path


def is_object_store(url: str) -> bool:
    """Return whether `url` is in a store of whole objects, which can be created on the condition that there is none."""
    return url.partition("://")[0] in _STORES


#: Object stores by scheme, and the extra that installs the package for it.
_STORES = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gcs",
    "gcs": "gcs",
    "abfs": "azure",
    "abfss": "azure",
    "az": "azure",
}


def _done(url: str, action: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Return what a filesystem's `action` returns; beyond this machine, tried again while it fails in passing."""
    if is_local(url):
        return action(*args, **kwargs)
    if not has_answered(redacted(url)) and (endpoint := _endpoint_of(url)) is not None:
        check_connection(redacted(url), endpoint)
    return patiently(redacted(url), action, *args, **kwargs)


def _endpoint_of(url: str) -> str | None:
    """Return the URL of the server that is asked for `url`, None where its client knows a usual one.

    To report a connection that is refused, the client of S3 takes 13 s and that of Azure 40 s; that of HTTP says that
    the file does not exist.
    """
    if url.startswith(_HTTP):
        return url
    fs, _ = filesystem(url)
    protocol = (fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol
    if "s3" in protocol:
        of_client = (getattr(fs, "client_kwargs", None) or {}).get("endpoint_url")
        of_environment = (os.environ.get(name) for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"))
        return next(filter(None, (getattr(fs, "endpoint_url", None), of_client, *of_environment)), None)
    if "abfs" in protocol:
        return getattr(getattr(fs, "service_client", None), "url", None)
    return None


_HTTP = ("http://", "https://")


def join(base: str, *names: str) -> str:
    """Return the URL of `names` below `base`."""
    return "/".join([base.rstrip("/"), *names])


def expand(urls: list[str]) -> list[str]:
    """Return `urls` with globs replaced by the files they match, sorted within a glob.

    Raises
    ------
    InputError
        A file is missing, or a glob matches nothing.
    """
    found: list[str] = []
    for url in urls:
        if _copied(url, again=True) is not None:
            found.append(url)
            continue
        fs, path = filesystem(url)
        with reading(url):
            wild = "*" in path or (not url.startswith(_HTTP) and any(c in path for c in "?["))
            if wild and not _done(url, fs.exists, path):
                found += _matches(url, fs, path)
                continue
            if is_local(url):
                is_folder = stat.S_ISDIR(os.stat(path).st_mode)  # noqa: PTH116 - what is wrong is raised
            else:
                is_folder = _done(url, fs.isdir, path)
            if is_folder:
                raise InputError(
                    f"`{redacted(url)}` is a folder, not a file",
                    hint=f"name its files: `{redacted(join(url, '*'))}`",
                )
            if not is_local(url) and not _done(url, fs.exists, path):
                raise FileNotFoundError(path)
            found.append(url)
    return found


def _matches(url: str, fs: Any, path: str) -> list[str]:
    """Return the URLs of the files that match `url`, sorted."""
    if is_local(url):
        fixed = re.split(r"[*?[]", path)[0].rpartition("/")[0] or "/"
        with suppress(FileNotFoundError, NotADirectoryError):
            os.scandir(
                fixed
            ).close()  # of a folder that may not be read, the filesystem says that nothing matches
    matches = sorted(p for p in _done(url, fs.glob, path) if _done(url, fs.isfile, p))
    if not matches:
        raise InputError(f"`{redacted(url)}` matches no file", hint="check the pattern and the folder")
    # The scheme, and a host where the path does not hold it, come from the URL.
    return [url.removesuffix(path) + p if url.endswith(path) else p for p in matches]


def _copied(url: str, *, again: bool = False) -> pipes.Copy | None:
    """Return the copy of the pipe `url`, made if there is none yet; None if it is no pipe.

    With `again`, it is copied again if a process writes to it again.
    """
    if not again and (known := pipes.copy_of(url)) is not None:
        return known
    if url != STANDARD_INPUT and "://" in url and not url.startswith("file://"):
        return None
    return pipes.copied(url, LocalFileSystem._strip_protocol(url))


def open_read(url: str) -> IO[bytes]:
    """Return `url` opened for reading bytes, as stored (not decompressed).

    Raises
    ------
    InputError
        It does not exist or may not be read.
    """
    _copied(url)
    fs, path = filesystem(url)
    with reading(url):
        handle: IO[bytes] = _done(url, fs.open, path, "rb")
        if (cache := getattr(handle, "cache", None)) is not None and not is_local(url):
            # What is fetched block by block is fetched again where it was; what the file has given is not touched.
            cache.fetcher = partial(_done, url, cache.fetcher)
        return handle


def read_bytes(url: str) -> bytes:
    """Return the whole content of `url`, by one request; raises `InputError` as `open_read` does."""
    _copied(url)
    fs, path = filesystem(url)
    with reading(url):
        content: bytes = _done(url, fs.cat_file, path)
        return content


def read_range(url: str, first: int, last: int) -> bytes:
    """Return the bytes [first, last) of `url`, fewer where it ends; raises `InputError` as `open_read` does."""
    fs, path = filesystem(url)
    with reading(url):
        content: bytes = _done(url, fs.cat_file, path, start=first, end=last)
        return content


def read_if_there(url: str) -> bytes | None:
    """Return the whole content of `url`, None if there is none; raises as `read_bytes` does otherwise."""
    fs, path = filesystem(url)
    with reading(url), suppress(FileNotFoundError):
        content: bytes = _done(url, fs.cat_file, path)
        return content
    return None


def exists(url: str) -> bool:
    """Return whether there is a file or folder at `url`."""
    fs, path = filesystem(url)
    with reading(url):
        return bool(_done(url, fs.exists, path))


def is_file(url: str) -> bool:
    """Return whether there is a file at `url`, or a pipe that can be read as one."""
    fs, path = filesystem(url)
    with reading(url):
        return url == "-" or (bool(_done(url, fs.exists, path)) and not _done(url, fs.isdir, path))


def list_files(url: str, deep: bool = True) -> list[str]:
    """Return the paths of all files below the folder `url`, relative to it, sorted; empty if there is none.

    With `deep` False, those in folders below it are left out.
    """
    if not is_local(url):
        return sorted(file_sizes(url, deep))
    root = filesystem(url)[1].rstrip("/") + "/"
    found: list[str] = []
    with reading(url):
        # Names alone: fsspec asks the disk about every file, which for the 200,000 of a large run takes 20 s.
        for folder, _, names in os.walk(root, onerror=_unless_it_is_gone):
            found += [os.path.join(folder, name)[len(root) :] for name in names]  # noqa: PTH118
            if not deep:
                break
    return sorted(found)


def _unless_it_is_gone(error: OSError) -> None:
    if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
        raise error


def list_names(url: str) -> list[str]:
    """Return the names of the files and folders right in the folder `url`, sorted; empty if there is none."""
    fs, path = filesystem(url)
    fs.invalidate_cache()
    if not exists(url):
        return []
    with reading(url), suppress(FileNotFoundError):
        # An object store may list the folder itself, as an object without content.
        found = [p.rstrip("/") for p in _done(url, fs.ls, path, detail=False)]
        return sorted(p.rpartition("/")[2] for p in found if p != path.rstrip("/"))
    return []


def file_sizes(url: str, deep: bool = True) -> dict[str, int]:
    """Return the size of every file that `list_files` lists."""
    return {name: info["size"] for name, info in _found(url, deep).items()}


def file_times(url: str, deep: bool = True) -> dict[str, datetime | None]:
    """Return when each file that `list_files` lists was written, in UTC, None where the storage does not tell."""
    return {name: _written(info) for name, info in _found(url, deep).items()}


def _found(url: str, deep: bool) -> dict[str, dict[str, Any]]:
    """Return what the filesystem tells of each file below the folder `url`, by the path relative to it."""
    fs, path = filesystem(url)
    fs.invalidate_cache()
    with reading(url):
        root = path.rstrip("/") + "/"
        found = _done(url, fs.find, path, maxdepth=None if deep else 1, detail=True)
        return {p[len(root) :]: info for p, info in found.items() if p.startswith(root)}


def _written(info: dict[str, Any]) -> datetime | None:
    when = next((info[key] for key in _TIMES if info.get(key) is not None), None)
    if isinstance(when, int | float):
        return datetime.fromtimestamp(when, UTC)
    return when.astimezone(UTC) if isinstance(when, datetime) else None


#: What the filesystems call the time of the last change.
_TIMES = ("LastModified", "last_modified", "mtime", "created")


def fingerprint(url: str) -> dict[str, Any]:
    """Return what tells whether the file at `url` changed: its size, and its etag or modification time.

    Of a pipe it is a hash of the content.
    """
    if (copy := _copied(url)) is not None:
        return {"url": pipes.fingerprint_name(url), "size": copy.size, "mark": copy.sha256}
    fs, path = filesystem(url)
    with reading(url):
        info = _done(url, fs.info, path)
    # A file that nothing marks as unchanged counts as changed.
    mark = next((info[key] for key in _CHANGE_MARKS if info.get(key) is not None), uuid.uuid4().hex)
    return {"url": redacted(url), "size": info.get("size"), "mark": str(mark)}


#: What the filesystems call an etag or the time of the last change.
_CHANGE_MARKS = (
    *("ETag", "etag", "md5Hash", "content_md5"),
    *("LastModified", "Last-Modified", "last_modified", "mtime", "modify", "modificationTime"),
)


@contextmanager
def open_atomic(url: str) -> Iterator[pa.NativeFile]:
    """Give a file opened for writing whose content appears at `url` only if the block ends without an error.

    It is Arrow's: what Arrow writes to it, Parquet in a hundred pieces, waits for no thread that runs Python.

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
            # Not every filesystem can give an upload up once it has begun, so it begins when all is there.
            content = pa.BufferOutputStream()
            yield content
            _done(url, fs.pipe_file, path, content.getvalue().to_pybytes())
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
    """Write `content` to `url` in an object store unless there is an object already; return whether this one is there.

    The content must be like no other's: when the answer to a first attempt is lost, the second one is refused because
    of the first, and only the content tells so. Raises as `open_atomic` does.
    """
    fs, path = filesystem(url)
    with writing(url):
        try:
            _done(url, fs.pipe_file, path, content, mode="create")
        except OSError as error:
            refused = isinstance(error, FileExistsError) or http_status(error.__cause__ or error)[0] == _UNMET
            if not refused:
                raise
    return read_if_there(url) == content


#: HTTP's answer to a condition that does not hold.
_UNMET = 412


def remove(url: str) -> None:
    """Remove the file or folder at `url`, with all below it; nothing happens when there is none."""
    fs, path = filesystem(url)
    with writing(url), suppress(FileNotFoundError):
        _done(url, fs.rm, path, recursive=True)


def remove_files(url: str, names: list[str]) -> None:
    """Remove the files `names` of the folder `url`, those of an object store by few requests."""
    fs, path = filesystem(url)
    with writing(url):
        if not is_local(url):
            with suppress(FileNotFoundError):
                if names:
                    _done(url, fs.rm, [join(path, name) for name in names])
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
    """Remove what killed processes left half-written in the folder `url`, not in folders below it."""
    for name in list_files(url, deep=False):
        if name.startswith(TEMP_PREFIX):
            remove(join(url, name))


def check_writable(url: str) -> None:
    """Raise `InputError` unless a file can be made below the folder `url`; leaves nothing behind.

    On an object store this costs one small upload.
    """
    if is_never_written(url):
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
            if not is_object_store(url):  # where that would make a bucket of a name that was mistyped
                fs.makedirs(path, exist_ok=True)
            _done(url, fs.pipe_file, probe, b"")
            _done(url, fs.rm_file, probe)
    finally:
        for folder in made:
            remove_if_free(folder)  # another process may hold it already


#: What to do about a destination that can never be written.
CHOOSE_A_FOLDER = "name a folder on this machine or in a store: ./results, s3://bucket/results"
#: Schemes of what can be read only.
_READ_ONLY = frozenset(
    (
        "http",
        "https",
        "data",
        "generated",
        "zip",
        "tar",
        "libarchive",
        "jar",
        "git",
        "github",
        "gist",
        "reference",
    )
)


def is_never_written(url: str) -> bool:
    """Return whether `url` is of a kind that can only be read; nothing is asked for."""
    scheme = re.match("([a-z][a-z0-9+.-]*):", url)
    return url == STANDARD_INPUT or (scheme is not None and scheme[1] in _READ_ONLY)


def free_bytes(url: str) -> int | None:
    """Return how much still fits where the local folder `url` is or will be; None for an object store."""
    if not is_local(url):
        return None
    place = Path(filesystem(url)[1])
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free


def is_local(url: str) -> bool:
    """Return whether `url` is on this machine's own filesystem."""
    fs, _ = filesystem(url)
    return "file" in ((fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol)


def _scheme_hint(url: str) -> str:
    scheme = url.partition("://")[0]
    extra = _STORES.get(scheme)
    if extra:
        return f"install the extra that reads it: pip install 'sssp-pipeline[{extra}]'"
    return "known schemes: " + ", ".join(
        sorted(p for p in fsspec.available_protocols() if p in _USUAL_SCHEMES)
    )


_USUAL_SCHEMES = frozenset(
    ("file", "s3", "gs", "abfs", "http", "https", "hdfs", "memory", "ftp", "sftp", "zip")
)
