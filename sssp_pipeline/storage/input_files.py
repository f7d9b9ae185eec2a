"""The files that an input names, and what changes when one of them changes."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import uuid
from contextlib import suppress
from typing import Any

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.storage import pipes
from sssp_pipeline.storage.error_texts import reading
from sssp_pipeline.storage.filesystems import HTTP_SCHEMES, call, filesystem, is_local, join, pipe_copy
from sssp_pipeline.storage.redaction import redacted

#: The beginning of a random mark.
_UNKNOWN_MARK = "unknown-"
#: The sample of a local file has at most this many blocks, each of this many bytes.
_BLOCKS, _BLOCK_BYTES = 16, 4096
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


def fingerprint(url: str) -> dict[str, Any]:
    """Return what changes when the file at `url` changes: its size, and its etag or modification time.

    A local file also has a digest of its head, its tail and blocks between them: programs can write other content and
    keep size and time. For a pipe, a hash of the content takes the place of the etag.
    """
    if (copy := pipe_copy(url)) is not None:
        # The number of a `<(command)` varies.
        name = "/dev/fd" if pipes.is_of_process(url) else redacted(url)
        return {"url": name, "size": copy.size, "mark": copy.sha256}
    fs, path = filesystem(url)
    with reading(url):
        info = call(url, fs.info, path)
    # A file without any of these marks counts as changed: its mark is random.
    random_mark = _UNKNOWN_MARK + uuid.uuid4().hex
    mark = next((info[key] for key in _CHANGE_MARKS if info.get(key) is not None), random_mark)
    found = {"url": redacted(url), "size": info.get("size"), "mark": str(mark)}
    return found | {"sample": _sample(url, path, info["size"])} if is_local(url) else found


def _sample(url: str, path: str, size: int) -> str:
    """Return the digest of blocks of a local file. They cover a file of at most 64 KiB."""
    last = max(size - _BLOCK_BYTES, 0)
    with reading(url), open(path, "rb", buffering=0) as file:  # noqa: PTH123
        starts = sorted({last * i // (_BLOCKS - 1) for i in range(_BLOCKS)})
        blocks = [os.pread(file.fileno(), _BLOCK_BYTES, start) for start in starts]
    return hashlib.sha256(b"".join(blocks)).hexdigest()


def has_changed(before: dict[str, Any], now: dict[str, Any]) -> bool:
    """Return whether a file has another fingerprint `now`; without marks, only its size decides."""
    both_unknown = all(str(one.get("mark")).startswith(_UNKNOWN_MARK) for one in (before, now))
    keys = ("url", "size") if both_unknown else ("url", "size", "mark", "sample")
    return any(before.get(key) != now.get(key) for key in keys)
