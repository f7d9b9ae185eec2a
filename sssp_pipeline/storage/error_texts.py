"""Error texts: the errors of filesystems and of stores' clients, turned into messages about a file and a hint."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from sssp_pipeline.base.errors import DiskFullError, InputError, SsspError
from sssp_pipeline.storage.redaction import error_text, redacted
from sssp_pipeline.storage.retries import http_status, is_unreachable, unreachable_error


@contextmanager
def reading(url: str) -> Iterator[None]:
    """Turn what fsspec raises while reading `url` into one clear error."""
    try:
        yield
    except SsspError:
        raise
    except FileNotFoundError as error:
        raise InputError(
            f"`{redacted(url)}` {_missing_text(error)}", hint="check the path, or the bucket and key"
        ) from error
    except IsADirectoryError as error:
        raise InputError(f"`{redacted(url)}` is a folder, not a file", hint="name a file in it") from error
    except PermissionError as error:
        raise InputError(
            f"`{redacted(url)}` may not be read: {_reason(error)}",
            hint=_NO_ACCESS,
        ) from error
    except OSError as error:
        if is_unreachable(error):  # from a client that connects when it is created, so no call was repeated
            raise unreachable_error(redacted(url), error) from error
        if error.errno in _INVALID_PATH:
            raise InputError(f"`{redacted(url)}` cannot be read: {_reason(error)}", hint=_CORRECT) from error
        raise SsspError(
            f"`{redacted(url)}` cannot be read: {_reason(error)}",
            hint="check the disk or the network, then run the same command again",
        ) from error
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in _CLIENTS:
            raise
        raise _client_error(url, "read", error) from error


@contextmanager
def writing(url: str) -> Iterator[None]:
    """Turn what fsspec raises while writing `url` into one clear error."""
    try:
        yield
    except SsspError:
        raise
    except FileExistsError as error:
        raise InputError(
            f"`{redacted(url)}` cannot be written: it is a file, not a folder", hint="name another folder"
        ) from error
    except (
        PermissionError,
        NotADirectoryError,
        FileNotFoundError,
        IsADirectoryError,
    ) as error:
        raise _unwritable(url, error, "choose a place that may be written") from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            hint = "free some space and run the same command again: what is committed is kept"
            message = f"`{redacted(url)}` cannot be written: {_reason(error)}"
            raise DiskFullError(message, hint=hint) from error
        if error.errno == errno.EROFS:
            raise _unwritable(url, error, "choose a place that may be written") from error
        if error.errno in _INVALID_PATH:
            raise _unwritable(url, error, _CORRECT) from error
        raise SsspError(
            f"`{redacted(url)}` cannot be written: {_reason(error)}",
            hint="check the disk or the network, then run the same command again: what is committed is kept",
        ) from error
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in _CLIENTS:
            raise
        raise _client_error(url, "written", error) from error


def _unwritable(url: str, error: OSError, hint: str) -> InputError:
    return InputError(f"`{redacted(url)}` cannot be written: {_reason(error)}", hint=hint)


def _missing_text(error: FileNotFoundError) -> str:
    """Return what is wrong with a path that leads to no file."""
    path = error.filename
    if isinstance(path, str) and os.path.islink(path):  # noqa: PTH114
        return f"is a link to `{os.readlink(path)}`, which does not exist"  # noqa: PTH115
    return "does not exist"


#: Errors of the path itself: it is too long, has a loop of links, or has a file in the place of a folder.
_INVALID_PATH = frozenset((errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EINVAL, errno.ENXIO))
_CORRECT = "correct the path"

#: Packages whose own errors reach us through fsspec, such as those for missing credentials or unknown endpoints.
_CLIENTS = frozenset(
    (
        *("botocore", "aiobotocore", "aiohttp", "gcsfs", "google", "azure", "requests", "urllib3"),
        *("ftplib", "paramiko"),
    )
)


def _client_error(url: str, done: str, error: Exception) -> SsspError:
    """Return our error for a client's own error; `done` is "read" or "written"."""
    place, status = redacted(url), http_status(error)[0]
    if status in (401, 403):
        return InputError(f"`{place}` may not be {done}: {error_text(error)}", hint=_NO_ACCESS)
    if "checksum" in type(error).__name__.lower():  # the network or the store gave other bytes
        return SsspError(
            f"`{place}` cannot be {done}: {error_text(error)}", hint="run the same command again"
        )
    if status == 404:
        return InputError(
            f"`{place}` cannot be {done}: {error_text(error)}", hint="check the bucket or container"
        )
    return InputError(
        f"`{place}` cannot be reached: {error_text(error)}",
        hint="check the credentials, the endpoint and the network",
    )


_NO_ACCESS = "check its permissions, or the credentials"


def _reason(error: OSError) -> str:
    if error.errno is not None and "Detail: [errno" in str(error):  # from Arrow, which writes its own text
        return os.strerror(error.errno)
    return error_text(error.strerror or error)
