"""Pipes: standard input, named pipes and `<(commands)` are copied once to a temporary file.

Readers open their input more than once, which a pipe does not allow. On Linux the temporary file has no name, so that
even a killed process leaves nothing behind; readers open it through `/proc/self/fd`. On other systems the file is in a
temporary folder, which is removed when the process ends.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import sys
import tempfile
import time
import weakref
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.storage.error_texts import reading, writing
from sssp_pipeline.storage.redaction import STANDARD_INPUT, redacted

#: Seconds to wait for the first bytes of a pipe.
WRITER_WAIT_S = 3.0
_CHUNK_BYTES = 1 << 20
#: The folder in which Linux lists the open files of this process.
_DESCRIPTORS = "/proc/self/fd"
_OF_PROCESS = re.compile(r"(/dev/fd|/proc/(self|[0-9]+)/fd)/[0-9]+")


@dataclass(frozen=True, eq=False)
class Copy:
    """A temporary file with the content of a pipe; the file is removed together with this object."""

    #: Path of the file, which can be opened as often as needed.
    path: str
    #: Bytes of the content.
    size: int
    #: Hash of the content, as hexadecimal digits.
    sha256: str
    #: Path of the pipe, or "-" for standard input.
    source: str
    #: Identity of the pipe: `sys.stdin`, or device, inode and kind. A new pipe at the same path has another one.
    origin: Any


#: The copies of this process by URL.
_copies: dict[str, Copy] = {}


def existing_copy(url: str) -> Copy | None:
    """Return the copy of `url` if `copy_if_pipe` has made one and the pipe was not replaced since."""
    found = _copies.get(url)
    return found if found is not None and _origin(found.source) in (found.origin, None) else None


def _origin(source: str) -> Any:
    """Return the identity of a pipe, None if it is gone."""
    if source == STANDARD_INPUT:
        return sys.stdin
    try:
        status = Path(source).stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, stat.S_IFMT(status.st_mode)


def copy_if_pipe(url: str, path: str) -> Copy | None:
    """Return the copy of the pipe at the local `path`, and make it if there is none yet; None if there is no pipe.

    If a process writes to a copied pipe again, the pipe is copied again.

    Raises
    ------
    InputError
        No process writes to the pipe; `path` is a terminal or a device; or the temporary folder is full.
    """
    known = existing_copy(url)
    if url == STANDARD_INPUT:
        if known is None:
            _copies[url] = known = _copy_of_standard_input()
        return known
    kind = _kind(path)
    if kind == "pipe":
        if (found := _copy_of_pipe(url, path, may_be_silent=known is not None)) is not None:
            _copies[url] = known = found
        return known
    if kind is not None:
        raise InputError(f"`{redacted(url)}` is {kind}, not a file", hint="name a file or a pipe")
    return None


def is_pipe(url: str) -> bool:
    """Return whether `url` is standard input, a pipe, or an open file of this process such as `/dev/fd/63`."""
    return url == STANDARD_INPUT or is_of_process(url) or _kind(url) == "pipe"


def is_of_process(url: str) -> bool:
    """Return whether `url` is an open file of a process, as the shell names `<(commands)`."""
    return _OF_PROCESS.fullmatch(url) is not None


def _kind(path: str) -> str | None:
    """Return "pipe", "a device" or "a socket" for a local path; None for files, folders and missing paths."""
    try:
        status = Path(path).stat()
    except (OSError, ValueError):
        return None
    if stat.S_ISCHR(status.st_mode):
        return None if status.st_rdev == Path(os.devnull).stat().st_rdev else "a device"
    kinds = {stat.S_IFIFO: "pipe", stat.S_IFBLK: "a device", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(status.st_mode))


def _copy_of_pipe(url: str, path: str, may_be_silent: bool) -> Copy | None:
    """Wait for a process that writes to the pipe, and return a copy; with `may_be_silent`, return None at once."""
    with reading(url):
        # Without O_NONBLOCK, `open` would wait for a writer without a time limit.
        pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    until = time.monotonic() + WRITER_WAIT_S
    first = b""
    try:
        while True:
            try:
                if first := os.read(pipe, _CHUNK_BYTES):
                    break
            except BlockingIOError:  # a process has opened the pipe, but has not written yet
                break
            if may_be_silent:
                return None
            if time.monotonic() > until:
                raise InputError(
                    f"`{redacted(url)}` is a pipe, and no process wrote to it in {WRITER_WAIT_S:g} s",
                    hint="start the process that writes to it first, or name a file",
                )
            time.sleep(0.02)
        os.set_blocking(pipe, True)
        chunks = iter(lambda: os.read(pipe, _CHUNK_BYTES), b"")
        return _copy(url, chain([first], chunks) if first else chunks, path)
    finally:
        os.close(pipe)


def _copy_of_standard_input() -> Copy:
    stdin = sys.stdin
    if stdin is None or stdin.closed or not hasattr(stdin, "buffer"):
        raise InputError("standard input is closed", hint="pipe the input in, or name a file")
    if stdin.isatty():
        raise InputError(
            "standard input is a terminal",
            hint="pipe the input in: `command | sssp-pipeline …`, or name a file",
        )
    try:
        kind = _kind(f"/dev/fd/{stdin.fileno()}")
    except (OSError, ValueError):  # not a file of the operating system, for example one in memory
        kind = None
    if kind == "a device":
        raise InputError("standard input is a device", hint="pipe the input in, or name a file")
    return _copy(STANDARD_INPUT, iter(lambda: stdin.buffer.read(_CHUNK_BYTES), b""), STANDARD_INPUT)


def _copy(url: str, chunks: Iterator[bytes], source: str) -> Copy:
    """Write `chunks` from `source` to a temporary file and return its `Copy`."""
    origin = _origin(source)
    digest, size, folder = hashlib.sha256(), 0, None
    if Path(_DESCRIPTORS).is_dir():
        file: IO[bytes] = tempfile.TemporaryFile(prefix="sssp-pipe-")  # noqa: SIM115 - closed below
    else:
        folder = tempfile.mkdtemp(prefix="sssp-pipe-")
        file = Path(folder, "content").open("wb")  # noqa: SIM115 - closed below
    try:
        while True:
            with reading(url):
                if (chunk := next(chunks, None)) is None:
                    break
            with writing(tempfile.gettempdir()):
                file.write(chunk)
            digest.update(chunk)
            size += len(chunk)
        with writing(tempfile.gettempdir()):
            file.flush()
        keeper = None if folder else os.dup(file.fileno())
    except BaseException:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        with suppress(OSError):  # a full disk was already reported by the write
            file.close()
    path = f"{folder}/content" if folder else f"{_DESCRIPTORS}/{keeper}"
    copy = Copy(path, size, digest.hexdigest(), source, origin)
    if folder:
        weakref.finalize(copy, shutil.rmtree, folder, ignore_errors=True)
    elif keeper is not None:
        weakref.finalize(copy, os.close, keeper)
    return copy
