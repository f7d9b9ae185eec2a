"""Listings: which files a URL, a glob or a folder names, and their sizes, times and fingerprints."""

from __future__ import annotations

import os
import re
import stat
import uuid
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from sssp_pipeline.errors import InputError
from sssp_pipeline.pipeline.storage import pipes
from sssp_pipeline.pipeline.storage.error_texts import reading
from sssp_pipeline.pipeline.storage.filesystems import (
    HTTP_SCHEMES,
    call,
    filesystem,
    is_local,
    join,
    pipe_copy,
)
from sssp_pipeline.pipeline.storage.redaction import STANDARD_INPUT, redacted

#: The keys under which filesystems report the time of the last change.
_TIMES = ("LastModified", "last_modified", "mtime", "created")
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
    matches = sorted(p for p in call(url, fs.glob, path) if call(url, fs.isfile, p))
    if not matches:
        raise InputError(f"`{redacted(url)}` matches no file", hint="check the pattern and the folder")
    # The matches are paths: they lack the scheme, and the host if the filesystem keeps it apart.
    return [url.removesuffix(path) + p if url.endswith(path) else p for p in matches]


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
        return {"url": pipes.fingerprint_name(url), "size": copy.size, "mark": copy.sha256}
    fs, path = filesystem(url)
    with reading(url):
        info = call(url, fs.info, path)
    # A file without any of these marks counts as changed: its mark is random.
    mark = next((info[key] for key in _CHANGE_MARKS if info.get(key) is not None), uuid.uuid4().hex)
    return {"url": redacted(url), "size": info.get("size"), "mark": str(mark)}
