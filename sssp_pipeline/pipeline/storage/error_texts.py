"""Failures: what the errors of filesystems and stores mean to one who wanted a file read or written."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from sssp_pipeline.errors import InputError, SsspError
from sssp_pipeline.pipeline.storage.redaction import redacted, told
from sssp_pipeline.pipeline.storage.retries import http_status, is_unconnected, unreachable


@contextmanager
def reading(url: str) -> Iterator[None]:
    """Turn what fsspec raises while reading `url` into one clear error."""
    try:
        yield
    except SsspError:
        raise
    except FileNotFoundError as error:
        raise InputError(
            f"`{redacted(url)}` {_absence(error)}", hint="check the path, or the bucket and key"
        ) from error
    except IsADirectoryError as error:
        raise InputError(f"`{redacted(url)}` is a folder, not a file", hint="name a file in it") from error
    except PermissionError as error:
        raise InputError(
            f"`{redacted(url)}` may not be read: {_reason(error)}",
            hint=_NO_ACCESS,
        ) from error
    except OSError as error:
        if is_unconnected(error):  # clients that connect when they are made are not tried again
            raise unreachable(redacted(url), error) from error
        if error.errno in _IMPOSSIBLE:
            raise InputError(f"`{redacted(url)}` cannot be read: {_reason(error)}", hint=_CORRECT) from error
        raise SsspError(
            f"`{redacted(url)}` cannot be read: {_reason(error)}",
            hint="check the disk or the network, then run the same command again",
        ) from error
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in _CLIENTS:
            raise
        raise _of_client(url, "read", error) from error


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
            raise _unwritable(url, error, hint) from error
        if error.errno == errno.EROFS:
            raise _unwritable(url, error, "choose a place that may be written") from error
        if error.errno in _IMPOSSIBLE:
            raise _unwritable(url, error, _CORRECT) from error
        raise SsspError(
            f"`{redacted(url)}` cannot be written: {_reason(error)}",
            hint="check the disk or the network, then run the same command again: what is committed is kept",
        ) from error
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in _CLIENTS:
            raise
        raise _of_client(url, "written", error) from error


def _unwritable(url: str, error: OSError, hint: str) -> InputError:
    return InputError(f"`{redacted(url)}` cannot be written: {_reason(error)}", hint=hint)


def _absence(error: FileNotFoundError) -> str:
    """Return what is wrong with a path that leads to no file."""
    path = error.filename
    if isinstance(path, str) and os.path.islink(path):  # noqa: PTH114
        return f"is a link to `{os.readlink(path)}`, which does not exist"  # noqa: PTH115
    return "does not exist"


#: Errors that a second attempt does not change: the path is too long, has a loop of links, or leads through a file.
_IMPOSSIBLE = frozenset((errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EINVAL, errno.ENXIO))
_CORRECT = "correct the path"

#: Packages whose own errors fsspec's filesystems let through: no credentials, no such endpoint, and the like.
_CLIENTS = frozenset(
    (
        *("botocore", "aiobotocore", "aiohttp", "gcsfs", "google", "azure", "requests", "urllib3"),
        *("ftplib", "paramiko"),
    )
)


def _of_client(url: str, done: str, error: Exception) -> InputError:
    """Return what a client's own error means to one who wanted to have `url` read or written."""
    shown, status = redacted(url), http_status(error)[0]
    if status in (401, 403):
        return InputError(f"`{shown}` may not be {done}: {told(error)}", hint=_NO_ACCESS)
    if status == 404:
        return InputError(f"`{shown}` cannot be {done}: {told(error)}", hint="check the bucket or container")
    return InputError(
        f"`{shown}` cannot be reached: {told(error)}",
        hint="check the credentials, the endpoint and the network",
    )


_NO_ACCESS = "check its permissions, or the credentials"


def _reason(error: OSError) -> str:
    if error.errno is not None and "Detail: [errno" in str(error):  # Arrow's, in words of its own
        return os.strerror(error.errno)
    return told(error.strerror or error)
