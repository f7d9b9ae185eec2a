"""Filesystems: which one a URL names, and every call to it, repeated while a remote store fails for a time.

A URL without a scheme is a local path.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable
from typing import Any, TypeVar

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.storage import pipes
from sssp_pipeline.storage.error_texts import reading
from sssp_pipeline.storage.local_files import LocalFiles, local_path
from sssp_pipeline.storage.redaction import STANDARD_INPUT, error_text, redacted, without_password
from sssp_pipeline.storage.retries import call_with_retries, check_connection, was_reached

T = TypeVar("T")

_LOCAL = LocalFiles()
HTTP_SCHEMES = ("http://", "https://")
#: Object stores by scheme, and the extra that installs the package for each.
_OBJECT_STORES = {
    **dict.fromkeys(("s3", "s3a"), "s3"),
    **dict.fromkeys(("gs", "gcs"), "gcs"),
    **dict.fromkeys(("abfs", "abfss", "az"), "azure"),
}
_EXTRAS = {**_OBJECT_STORES, **dict.fromkeys(("http", "https"), "http")}
#: Schemes of places that can only be read.
_READ_ONLY = frozenset(
    (
        *("http", "https", "data", "generated", "zip", "tar", "libarchive", "jar"),
        *("git", "github", "gist", "reference"),
    )
)
#: The schemes that an error message lists, of all that fsspec knows.
_USUAL_SCHEMES = frozenset(
    ("file", "s3", "gs", "abfs", "http", "https", "hdfs", "memory", "ftp", "sftp", "zip")
)
#: What to do about a destination that can never be written.
CHOOSE_A_FOLDER = "name a folder on this machine or in a store: ./results, s3://bucket/results"


def filesystem(url: str) -> tuple[Any, str]:
    """Return the filesystem of `url`, of fsspec or `LocalFiles`, and the path on it.

    Raises
    ------
    InputError
        `url` has an unknown scheme, or is not a valid URL; the package for the scheme is not installed; or `url`
        contains a password, which the store would not use.
    """
    if (copy := pipes.existing_copy(url)) is not None:
        return _LOCAL, copy.path
    _check_characters(url)
    if (path := local_path(url)) is not None:
        _check_encodable(url, path)
        return _LOCAL, path
    options: dict[str, Any] = {}
    if is_object_store(url):
        _refuse_password(url)
        # A cached listing would hide what other processes have written since.
        options = {"use_listings_cache": False}
    elif url.startswith(HTTP_SCHEMES):
        # Without this, aiohttp ignores http_proxy and no_proxy.
        options = {"client_kwargs": {"trust_env": True}}
    from fsspec.core import url_to_fs

    with reading(url):
        try:
            # Some clients, such as the one for FTP, connect in this call.
            fs, path = url_to_fs(url, **options)
        except (ImportError, ValueError) as error:
            hint = _extra_hint(url) if isinstance(error, ImportError) else None
            raise InputError(
                f"`{redacted(url)}` cannot be opened: {error_text(error)}", hint=hint or _known_schemes()
            ) from error
    return fs, path


def _check_characters(url: str) -> None:
    if "\0" in url:
        raise InputError(f"`{redacted(url)}` has a NUL character in it", hint="correct the path")
    if "://" not in url and without_password(url) != url and not os.path.exists(url):  # noqa: PTH110
        raise InputError(
            f"`{redacted(url)}` was given with a user and a password, as scp takes places",
            hint="write `sftp://host/path`, with a key for that host, or copy the file to this machine",
        )
    if "::" in url:
        chain = "::".join(redacted(part) for part in url.split("::"))
        raise InputError(
            f"`{chain}` is a chain of URLs, which cannot be read",
            hint="unpack it first; gz, bz2, xz and zst are read as they are",
        )


def _refuse_password(url: str) -> None:
    host_and_user = url.partition("://")[2].partition("/")[0]
    if ":" in host_and_user.rpartition("@")[0]:
        raise InputError(
            f"`{redacted(url)}` was given with a password in it",
            hint="leave it out: credentials are taken from the environment",
        )


def _check_encodable(url: str, path: str) -> None:
    """Raise `InputError` if the locale's encoding cannot represent the local `path`."""
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        raise InputError(
            f"`{redacted(url)}` has a character that paths here cannot have: their encoding is {error.encoding}",
            hint="use a UTF-8 locale, such as `LC_ALL=C.UTF-8`, or a path without that character",
        ) from error


def _extra_hint(url: str) -> str | None:
    extra = _EXTRAS.get(url.partition("://")[0])
    return extra and f"install the extra that reads it: pip install 'sssp-pipeline[{extra}]'"


def _known_schemes() -> str:
    import fsspec

    known = sorted(p for p in fsspec.available_protocols() if p in _USUAL_SCHEMES)
    return "known schemes: " + ", ".join(known)


def join(base: str, *names: str) -> str:
    """Return the URL of `names` below `base`."""
    return "/".join([base.rstrip("/"), *names])


def path_from(folder: str, url: str) -> str | None:
    """Return the path that leads from the URL `folder` to `url`, such as `../roads.csv`; None if there is none.

    Only the texts decide, and for a local path the current folder.
    """
    (root, begin), (other, end) = parts_of(folder), parts_of(url)
    return posixpath.relpath(end, begin) if root == other else None


def parts_of(url: str) -> tuple[str, str]:
    """Return the scheme and the host of a URL, which are empty for a local path, and the absolute path."""
    if "://" not in url:
        return "", os.path.abspath(url)  # noqa: PTH100 (as text: links and patterns stay)
    scheme, _, rest = url.partition("://")
    host, _, path = rest.partition("/")
    return f"{scheme}://{host}", posixpath.normpath(f"/{path}")


def is_local(url: str) -> bool:
    """Return whether `url` is on this machine's own filesystem."""
    fs, _ = filesystem(url)
    return is_of_machine(fs)


def is_of_machine(fs: Any) -> bool:
    """Return whether `fs` is this machine's own filesystem."""
    return "file" in _protocols(fs)


def is_s3(fs: Any) -> bool:
    """Return whether `fs` is S3, or a store that speaks its protocol."""
    return "s3" in _protocols(fs)


def is_object_store(url: str) -> bool:
    """Return whether `url` is in an object store, which can create an object only if there is none yet."""
    return url.partition("://")[0] in _OBJECT_STORES


def is_read_only(url: str) -> bool:
    """Return whether `url` is of a kind that can only be read; only its scheme decides, without any access."""
    scheme = re.match("([a-z][a-z0-9+.-]*):", url)
    return url == STANDARD_INPUT or (scheme is not None and scheme[1] in _READ_ONLY)


def pipe_copy(url: str, *, refresh: bool = False) -> pipes.Copy | None:
    """Return the copy of the pipe `url`, made if there is none yet; None if `url` is not a pipe.

    With `refresh`, the pipe is copied again if a process writes to it again.
    """
    if not refresh and (known := pipes.existing_copy(url)) is not None:
        return known
    if url != STANDARD_INPUT and "://" in url and not url.startswith("file://"):
        return None
    path = local_path(url)
    return None if path is None else pipes.copy_if_pipe(url, path)


def call(url: str, action: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Return what a filesystem's `action` returns; for a remote `url`, repeat it while it fails for a time."""
    if is_local(url):
        return action(*args, **kwargs)
    if not was_reached(redacted(url)) and (endpoint := _endpoint_of(url)) is not None:
        check_connection(redacted(url), endpoint)
    return call_with_retries(redacted(url), action, *args, **kwargs)


def _endpoint_of(url: str) -> str | None:
    """Return the URL of the server that serves `url`; None if its client uses a default one.

    The server is checked before the first call because the clients report a refused connection late or wrongly:
    the S3 and Azure clients after many seconds, the HTTP client as a file that does not exist.
    """
    if url.startswith(HTTP_SCHEMES):
        return url
    fs, _ = filesystem(url)
    protocols = _protocols(fs)
    if "s3" in protocols:
        of_client = (getattr(fs, "client_kwargs", None) or {}).get("endpoint_url")
        of_environment = (os.environ.get(name) for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"))
        return next(filter(None, (getattr(fs, "endpoint_url", None), of_client, *of_environment)), None)
    if "abfs" in protocols:
        return getattr(getattr(fs, "service_client", None), "url", None)
    return None


def _protocols(fs: Any) -> tuple[str, ...]:
    return (fs.protocol,) if isinstance(fs.protocol, str) else tuple(fs.protocol)
