"""Error texts: the errors of filesystems and of stores' clients, turned into messages about a file and a hint."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from sssp_pipeline.base.errors import DiskFullError, InputError, SsspError
from sssp_pipeline.storage.redaction import error_text, redacted
from sssp_pipeline.storage.retries import http_status, is_unreachable, unreachable_error


def reading(url: str) -> AbstractContextManager[None]:
    """Turn what fsspec raises in the block, which reads `url`, into one clear error."""
    return _translating(url, "read", _read_error)


def writing(url: str) -> AbstractContextManager[None]:
    """Turn what fsspec raises in the block, which writes `url`, into one clear error."""
    return _translating(url, "written", _write_error)


@contextmanager
def _translating(url: str, done: str, translated: Callable[[str, OSError], SsspError]) -> Iterator[None]:
    """Raise our error for what the block raises: `translated` of an `OSError`, `_client_error` of a client's error."""
    try:
        yield
    except SsspError:
        raise
    except OSError as error:
        raise translated(redacted(url), error) from error
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in _CLIENTS:
            raise
        raise _client_error(url, done, error) from error


def _read_error(place: str, error: OSError) -> SsspError:
    if isinstance(error, FileNotFoundError):
        return InputError(f"`{place}` {_missing_text(error)}", hint="check the path, or the bucket and key")
    if isinstance(error, IsADirectoryError):
        return InputError(f"`{place}` is a folder, not a file", hint="name a file in it")
    if isinstance(error, PermissionError):
        return InputError(f"`{place}` may not be read: {_reason(error)}", hint=_NO_ACCESS)
    if is_unreachable(error):  # from a client that connects when it is created, so no call was repeated
        return unreachable_error(place, error)
    message = f"`{place}` cannot be read: {_reason(error)}"
    if error.errno in _INVALID_PATH:
        return InputError(message, hint=_CORRECT)
    return SsspError(message, hint=_CHECK)


def _write_error(place: str, error: OSError) -> SsspError:
    if isinstance(error, FileExistsError):
        hint = "name another folder"
        return InputError(f"`{place}` cannot be written: it is a file, not a folder", hint=hint)
    message = f"`{place}` cannot be written: {_reason(error)}"
    if isinstance(error, _UNWRITABLE) or error.errno == errno.EROFS:
        return InputError(message, hint="choose a place that may be written")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFullError(message, hint="free some space and run the same command again")
    if error.errno in _INVALID_PATH:
        return InputError(message, hint=_CORRECT)
    return SsspError(message, hint=_CHECK)


def _missing_text(error: FileNotFoundError) -> str:
    """Return what is wrong with a path that leads to no file."""
    path = error.filename
    if isinstance(path, str) and os.path.islink(path):  # noqa: PTH114
        return f"is a link to `{os.readlink(path)}`, which does not exist"  # noqa: PTH115
    return "does not exist"


#: Errors of the path itself: it is too long, has a loop of links, or has a file in the place of a folder.
_INVALID_PATH = frozenset((errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EINVAL, errno.ENXIO))
#: Errors of a place where nothing can be written.
_UNWRITABLE = (PermissionError, NotADirectoryError, FileNotFoundError, IsADirectoryError)
_CORRECT = "correct the path"
_CHECK = "check the disk or the network, then run the same command again"

#: Packages whose own errors reach us through fsspec, such as those for missing credentials or unknown endpoints.
_CLIENTS = frozenset(
    (
        *("botocore", "aiobotocore", "aiohttp", "gcsfs", "google", "azure", "requests", "urllib3"),
        *("ftplib", "paramiko"),
    )
)


def _client_error(url: str, done: str, error: Exception) -> SsspError:
    """Return our error for a client's own error; `done` is "read" or "written"."""
    place, status, text = redacted(url), http_status(error)[0], error_text(error)
    if status in (401, 403):
        return InputError(f"`{place}` may not be {done}: {text}", hint=_NO_ACCESS)
    if "checksum" in type(error).__name__.lower():  # the network or the store gave other bytes
        return SsspError(f"`{place}` cannot be {done}: {text}", hint="run the same command again")
    if status == 404:
        return InputError(f"`{place}` cannot be {done}: {text}", hint="check the bucket or container")
    hint = "check the credentials, the endpoint and the network"
    return InputError(f"`{place}` cannot be reached: {text}", hint=hint)


_NO_ACCESS = "check its permissions, or the credentials"


def _reason(error: OSError) -> str:
    if error.errno is not None and "Detail: [errno" in str(error):  # from Arrow, which writes its own text
        return os.strerror(error.errno)
    return error_text(error.strerror or error)
