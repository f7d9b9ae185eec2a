"""Length and CRC-32 of files: computed while a file is written, and compared when it is read again."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NamedTuple

from sssp_pipeline.pipeline.storage import files
from sssp_pipeline.pipeline.storage.filesystems import call, filesystem

#: What Arrow collects before it calls Python; and bytes that are read at a time, which fit the cache of a core.
_BUFFER_BYTES = 2**20
#: Bytes of one request to an object store.
_RANGE_BYTES = 2**24
#: Files that are read in parallel: an object store takes some milliseconds for each request.
_READERS = 16


class FileSum(NamedTuple):
    """The length and the CRC-32 of a file."""

    bytes: int
    crc32: int


class SummedFile(io.RawIOBase):
    """Passes what is written on to `handle`, and computes its sum."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self.keeps_buffers = getattr(handle, "keeps_buffers", False)
        self.sum = FileSum(0, 0)

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.sum.bytes

    def write(self, buffer: Any, /) -> int:
        self._add([buffer])
        self._handle.write(buffer)
        return memoryview(buffer).nbytes

    def writelines(self, buffers: Iterable[Any], /) -> None:
        buffers = list(buffers)
        self._add(buffers)
        self._handle.writelines(buffers)

    def _add(self, buffers: list[Any]) -> None:
        from isal.isal_zlib import crc32

        n_bytes, checksum = self.sum
        for buffer in buffers:
            checksum = crc32(buffer, checksum)
            n_bytes += memoryview(buffer).nbytes
        self.sum = FileSum(n_bytes, checksum)


def write_summed(url: str, write: Callable[[Any], object], *, plain: bool = False) -> FileSum:
    """Return the sum of the file at `url` after `write` wrote it; the file appears whole or not at all.

    `write` gets a file as `files.open_atomic` gives it. Raises what `open_atomic` and `write` raise.
    """
    with files.open_atomic(url, plain=True) as handle:
        summed = SummedFile(handle)
        if plain:
            write(summed)
        else:
            import pyarrow as pa

            with pa.BufferedOutputStream(pa.PythonFile(summed, "w"), _BUFFER_BYTES) as stream:
                write(stream)
    return summed.sum


def sum_of(url: str) -> FileSum | None:
    """Return the sum of the file at `url`, which is read whole; None if there is none. Raises as `files.read_bytes`."""
    from isal.isal_zlib import crc32

    n_bytes = checksum = 0
    with files.reading(url), suppress(FileNotFoundError):
        for content in _local_content(url) if files.is_local(url) else _remote_content(url):
            checksum = crc32(content, checksum)
            n_bytes += len(content)
        return FileSum(n_bytes, checksum)
    return None


def file_faults(folder: str, wanted: Mapping[str, FileSum], *, content: bool) -> dict[str, str]:
    """Return what is wrong with files of a folder, by name, in the order of `wanted`; empty if nothing is.

    With `content` every file is read whole. Otherwise only its length is compared.
    """
    names = list(wanted)
    if content:
        with ThreadPoolExecutor(_READERS) as readers:
            found: list[FileSum | None] = list(
                readers.map(lambda name: sum_of(files.join(folder, name)), names)
            )
    else:
        sizes = files.file_sizes(folder)
        found = [FileSum(sizes[name], wanted[name].crc32) if name in sizes else None for name in names]
    faults = zip(names, map(_fault, found, wanted.values()), strict=True)
    return {name: fault for name, fault in faults if fault is not None}


def file_fault(url: str, wanted: FileSum) -> str | None:
    """Return what is wrong with the file at `url`, which is read whole; None if nothing is."""
    return _fault(sum_of(url), wanted)


def content_fault(content: bytes, wanted: FileSum) -> str | None:
    """Return what is wrong with the `content` of a file, None if nothing is."""
    from isal.isal_zlib import crc32

    return _fault(FileSum(len(content), crc32(content)), wanted)


def _fault(found: FileSum | None, wanted: FileSum) -> str | None:
    if found is None:
        return "is gone"
    if found.bytes != wanted.bytes:
        return f"was altered: it has {found.bytes} bytes, and had {wanted.bytes} when it was written"
    if found.crc32 != wanted.crc32:
        return f"was altered: its CRC-32 is {found.crc32:08x}, and was {wanted.crc32:08x} when it was written"
    return None


def _local_content(url: str) -> Iterator[memoryview]:
    buffer = memoryview(bytearray(_BUFFER_BYTES))
    with open(filesystem(url)[1], "rb", buffering=0) as handle:  # noqa: PTH123
        while n := handle.readinto(buffer):
            yield buffer[:n]


def _remote_content(url: str) -> Iterator[bytes]:
    fs, path = filesystem(url)
    size = call(url, fs.info, path)["size"]
    for begin in range(0, size, _RANGE_BYTES):
        yield call(url, fs.cat_file, path, start=begin, end=min(begin + _RANGE_BYTES, size))
