"""The files of this machine, by the methods of fsspec that `storage/` calls.

fsspec is imported for other places only: its import takes longer than that of NumPy's core.
"""

from __future__ import annotations

import io
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import IO, Any

#: The prefixes of local URLs.
_PREFIXES = ("file://", "local://", "file:", "local:")


def local_path(url: str) -> str | None:
    """Return the absolute path that a local URL names; None if fsspec is to read the URL."""
    if os.name != "posix" or url.startswith("data:"):
        return None
    if "://" in url and not url.startswith(_PREFIXES[:2]):
        return None
    prefix = next((prefix for prefix in _PREFIXES if url.startswith(prefix)), "")
    path = url.removeprefix(prefix)
    if path.startswith("~"):
        path = os.path.expanduser(path)  # noqa: PTH111 (as text: the path may have any form)
    elif not path.startswith("/"):
        path = f"{os.getcwd()}/{'' if path == '.' else path.removeprefix('./')}"  # noqa: PTH109
    return path.rstrip("/") or "/"


class LocalFiles:
    """The filesystem of this machine. The methods take paths of `local_path`, and raise `OSError`."""

    protocol = ("file", "local")
    exists, isfile, isdir = (staticmethod(check) for check in (os.path.exists, os.path.isfile, os.path.isdir))

    def invalidate_cache(self) -> None:
        """Do nothing: nothing is cached."""

    def info(self, path: str) -> dict[str, Any]:
        """Return the size of what is at `path`, and when it was changed."""
        return _facts(os.stat(path))  # noqa: PTH116

    def ls(self, path: str, detail: bool) -> list[str]:
        """Return the paths of what is in the folder `path`; only `path` if it is a file."""
        assert not detail, "no caller asks for it"
        if not stat.S_ISDIR(os.stat(path).st_mode):  # noqa: PTH116
            return [path]
        with os.scandir(path) as entries:
            return [entry.path for entry in entries]

    def find(self, path: str, detail: bool) -> dict[str, dict[str, Any]]:
        """Return the facts about each file below the folder `path`, in the order of their paths.

        Folders that links lead to are not entered.
        """
        assert detail, "no caller asks for less"
        return dict(sorted(_files_below(path)))

    def glob(self, path: str) -> list[str]:
        """Return the paths that match the pattern `path`."""
        from fsspec.implementations.local import LocalFileSystem

        found: list[str] = LocalFileSystem().glob(path)
        return found

    def open(self, path: str, mode: str) -> IO[bytes]:
        """Return the file opened for reading bytes."""
        assert mode == "rb", "others are written by `atomic_files.py`"
        return open(path, "rb")  # noqa: PTH123

    def cat_file(self, path: str, start: int | None = None, end: int | None = None) -> bytes:
        """Return the bytes from `start` to `end`, fewer if the file ends earlier."""
        with open(path, "rb") as file:  # noqa: PTH123
            file.seek(start or 0)
            return file.read(-1 if end is None else max(end - (start or 0), 0))

    def pipe_file(self, path: str, content: bytes) -> None:
        """Write a file."""
        with open(path, "wb") as file:  # noqa: PTH123
            file.write(content)

    def rm_file(self, path: str) -> None:
        """Remove a file."""
        os.remove(path)  # noqa: PTH107

    def rm(self, path: str, recursive: bool) -> None:
        """Remove a file, a link or a folder with all that is in it."""
        assert recursive, "no caller asks for less"
        if not os.path.isdir(path) or os.path.islink(path):  # noqa: PTH112, PTH114
            os.remove(path)  # noqa: PTH107
        elif os.path.abspath(path) == os.getcwd():  # noqa: PTH100, PTH109
            raise ValueError("Cannot delete current working directory")
        else:
            shutil.rmtree(path)


def descriptor_of(handle: Any) -> int | None:
    """Return the file descriptor of a regular file that `LocalFiles` has opened; None for others."""
    if type(handle) is not io.BufferedReader or not isinstance(handle.raw, io.FileIO):
        return None
    number = handle.fileno()
    return number if stat.S_ISREG(os.fstat(number).st_mode) else None


def _files_below(folder: str) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        entries = list(os.scandir(folder))
    except OSError:  # as fsspec: what cannot be listed has no files
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _files_below(entry.path)
            continue
        with suppress(FileNotFoundError):  # another process may have removed it
            yield entry.path, _facts(entry.stat(follow_symlinks=False), entry)


def _facts(found: os.stat_result, entry: os.DirEntry[str] | None = None) -> dict[str, Any]:
    """Return the facts about a file. A link in a folder has its own time, and the size of what it leads to."""
    size = found.st_size
    if entry is not None and entry.is_symlink():
        size = 0
        with suppress(OSError):
            size = entry.stat().st_size
    return {"size": size, "mtime": found.st_mtime}
