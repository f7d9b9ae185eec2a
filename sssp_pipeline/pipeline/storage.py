"""The only place that touches fsspec: open, list, fingerprint, and write a file whole or not at all.

A URL without a scheme is a local path. Local files are written beside their place under a temporary name
and moved there with one rename; object stores show an object only when its upload is complete, which
is the same promise. The temporary name begins with `TEMP_PREFIX`, so that `remove_temporaries` finds what a
killed process left.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import fsspec
from fsspec.core import url_to_fs

from sssp_pipeline.errors import InputError, SsspError

if TYPE_CHECKING:
    import pyarrow as pa

TEMP_PREFIX = ".sssp-partial-"


def filesystem(url: str) -> tuple[Any, str]:
    """Return the fsspec filesystem of `url` and the path on it.

    Raises
    ------
    InputError
        The scheme is unknown, the package that serves it is not installed, or the URL is none.
    """
    if "::" in url:
        chain = "::".join(redacted(part) for part in url.split("::"))
        raise InputError(
            f"`{chain}` is a chain of URLs, which is not read",
            hint="unpack it first; gz, bz2, xz and zst are read as they are",
        )
    try:
        fs, path = url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise InputError(f"`{redacted(url)}` cannot be opened: {error}", hint=_scheme_hint(url)) from error
    return fs, path


def redacted(url: str) -> str:
    """Return `url` without the user name, password and query it may carry, to be shown or stored."""
    scheme, mark, rest = url.partition("://")
    if not mark:
        return url
    place, slash, path = rest.partition("/")
    user, at, host = place.rpartition("@")
    # What stands before an @ without a password may be a part of the place, such as an Azure container.
    shown = (host if ":" in user or scheme in _WITH_USERS else user + at + host) + slash + path
    # Some stores sign a URL in its query; in others `?` belongs to a name or a glob.
    return scheme + mark + (shown.partition("?")[0] if scheme in _WITH_QUERIES else shown)


_WITH_QUERIES = ("http", "https")
_WITH_USERS = (*_WITH_QUERIES, "ftp", "sftp", "ssh", "smb")


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
        fs, path = filesystem(url)
        with reading(url):
            wild = "*" in path or (not url.startswith(_WITH_QUERIES) and any(c in path for c in "?["))
            if wild and not fs.exists(path):
                matches = sorted(p for p in fs.glob(path) if fs.isfile(p))
                if not matches:
                    raise InputError(
                        f"`{redacted(url)}` matches no file", hint="check the pattern and the folder"
                    )
                # The scheme, and a host where the path does not hold it, come from the URL.
                found += [url.removesuffix(path) + p if url.endswith(path) else p for p in matches]
            elif fs.isdir(path):
                raise InputError(
                    f"`{redacted(url)}` is a folder, not a file",
                    hint=f"name its files: `{redacted(join(url, '*'))}`",
                )
            elif not fs.exists(path):
                raise InputError(
                    f"`{redacted(url)}` does not exist", hint="check the path, or the bucket and key"
                )
            else:
                found.append(url)
    return found


def open_read(url: str) -> IO[bytes]:
    """Return `url` opened for reading bytes, as stored (not decompressed).

    Raises
    ------
    InputError
        It does not exist or may not be read.
    """
    fs, path = filesystem(url)
    with reading(url):
        handle: IO[bytes] = fs.open(path, "rb")
        return handle


def read_bytes(url: str) -> bytes:
    """Return the whole content of `url`; raises `InputError` as `open_read` does."""
    with reading(url), open_read(url) as handle:
        return handle.read()


def exists(url: str) -> bool:
    """Return whether there is a file or folder at `url`."""
    fs, path = filesystem(url)
    with reading(url):
        return bool(fs.exists(path))


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


def file_sizes(url: str, deep: bool = True) -> dict[str, int]:
    """Return the size of every file that `list_files` lists."""
    fs, path = filesystem(url)
    fs.invalidate_cache()
    with reading(url):
        root = path.rstrip("/") + "/"
        found = fs.find(path, maxdepth=None if deep else 1, detail=True)
        return {p[len(root) :]: info["size"] for p, info in found.items() if p.startswith(root)}


def fingerprint(url: str) -> dict[str, Any]:
    """Return what tells whether the file at `url` changed: its size, and its etag or modification time."""
    fs, path = filesystem(url)
    with reading(url):
        info = fs.info(path)
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
            fs.pipe_file(path, content.getvalue().to_pybytes())
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


def remove(url: str) -> None:
    """Remove the file or folder at `url`, with all below it; nothing happens when there is none."""
    fs, path = filesystem(url)
    with writing(url), suppress(FileNotFoundError):
        fs.rm(path, recursive=True)


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
            fs.makedirs(path, exist_ok=True)
            fs.pipe_file(probe, b"")
            fs.rm_file(probe)
    finally:
        for folder in made:
            with suppress(OSError):
                os.rmdir(folder)  # noqa: PTH106


@contextmanager
def exclusive(url: str) -> Iterator[None]:
    """Hold the local folder `url`, made if need be, for this process alone; the lock ends with the process.

    Object stores and filesystems without locks are not locked.

    Raises
    ------
    InputError
        Another process holds it, or it cannot be made.
    """
    if not is_local(url):
        yield
        return
    fs, path = filesystem(url)
    with writing(url):
        fs.makedirs(path, exist_ok=True)
        folder = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"another process is writing to `{redacted(url)}`",
                hint="wait until it ends, or choose another place",
            ) from None
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
                raise
        try:
            yield
        finally:
            remove_if_empty(url)
    finally:
        os.close(folder)


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


@contextmanager
def reading(url: str) -> Iterator[None]:
    """Turn what fsspec raises while reading `url` into one clear error."""
    try:
        yield
    except SsspError:
        raise
    except FileNotFoundError as error:
        raise InputError(
            f"`{redacted(url)}` does not exist", hint="check the path, or the bucket and key"
        ) from error
    except IsADirectoryError as error:
        raise InputError(f"`{redacted(url)}` is a folder, not a file") from error
    except PermissionError as error:
        raise InputError(
            f"`{redacted(url)}` may not be read: {_reason(error)}",
            hint="check its permissions, or the credentials",
        ) from error
    except OSError as error:
        raise SsspError(f"`{redacted(url)}` cannot be read: {_reason(error)}") from error
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in _CLIENTS:
            raise
        raise _unreachable(url, error) from error


@contextmanager
def writing(url: str) -> Iterator[None]:
    """Turn what fsspec raises while writing `url` into one clear error."""
    try:
        yield
    except SsspError:
        raise
    except (
        PermissionError,
        NotADirectoryError,
        FileExistsError,
        FileNotFoundError,
        IsADirectoryError,
    ) as error:
        raise InputError(
            f"`{redacted(url)}` cannot be written: {_reason(error)}",
            hint="choose a place that may be written",
        ) from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise InputError(
                f"`{redacted(url)}` cannot be written: {_reason(error)}",
                hint="free some space and run the same command again: what is committed is kept",
            ) from error
        if error.errno == errno.EROFS:
            raise InputError(
                f"`{redacted(url)}` cannot be written: {_reason(error)}",
                hint="choose a place that may be written",
            ) from error
        raise SsspError(f"`{redacted(url)}` cannot be written: {_reason(error)}") from error
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in _CLIENTS:
            raise
        raise _unreachable(url, error) from error


#: Packages whose own errors fsspec's filesystems let through: no credentials, no such endpoint, and the like.
_CLIENTS = frozenset(
    ("botocore", "aiobotocore", "aiohttp", "gcsfs", "google", "azure", "requests", "urllib3")
)


def _unreachable(url: str, error: Exception) -> InputError:
    return InputError(
        f"`{redacted(url)}` cannot be reached: {error}",
        hint="check the credentials, the endpoint and the network",
    )


def _reason(error: OSError) -> str:
    if error.errno is not None and "Detail: [errno" in str(error):  # Arrow's, in words of its own
        return os.strerror(error.errno)
    return error.strerror or str(error) or type(error).__name__


def _scheme_hint(url: str) -> str:
    scheme = url.partition("://")[0]
    extra = {
        "s3": "s3",
        "s3a": "s3",
        "gs": "gcs",
        "gcs": "gcs",
        "abfs": "azure",
        "az": "azure",
        "adl": "azure",
    }.get(scheme)
    if extra:
        return f"install the extra that reads it: pip install 'sssp-pipeline[{extra}]'"
    return "known schemes: " + ", ".join(
        sorted(p for p in fsspec.available_protocols() if p in _USUAL_SCHEMES)
    )


_USUAL_SCHEMES = frozenset(
    ("file", "s3", "gs", "abfs", "http", "https", "hdfs", "memory", "ftp", "sftp", "zip")
)
