"""Length and CRC-32 of files: computed while a file is written, and compared when it is read again.

A Parquet file also has the CRC-32 of its footer, for a reader of a part of the file: Parquet does not check the footer,
and a damaged one gives other rows or ends the process. The footer has the checksum of everything before it. So a
file with other pages has another footer.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from sssp_pipeline.storage import files
from sssp_pipeline.storage.buffer_file import BufferFile
from sssp_pipeline.storage.durability import begin_sync
from sssp_pipeline.storage.filesystems import call, filesystem

if TYPE_CHECKING:
    import pyarrow as pa

#: The key of the checksum of all pages in a footer.
PAGES_KEY = "sssp_pipeline.pages_crc32"
#: Bytes behind a footer: its length and the mark.
_END = 8
#: Bytes that are read first at the end of a file; few footers are longer.
_TAIL_BYTES = 2**16
#: What Arrow collects before it calls Python; and bytes that are read at a time, which fit the cache of a core.
_BUFFER_BYTES = 2**20
#: Bytes of one request to an object store.
_RANGE_BYTES = 2**24
#: Files that are read in parallel: an object store takes some milliseconds for each request.
_READERS = 16


class FileSum(NamedTuple):
    """The length and the CRC-32 of a file, and the CRC-32 of its footer if it is a Parquet file."""

    bytes: int
    crc32: int
    footer: int | None = None


class StoredFile(NamedTuple):
    """The URL of a file, and what the file had when it was written."""

    url: str
    sum: FileSum


class SummedFile(BufferFile):
    """Passes what is written on to `handle`, and computes its sum."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self.keeps_buffers = getattr(handle, "keeps_buffers", False)
        self._crc32 = 0
        #: The last buffers. Arrow writes a footer, its length and the mark by three calls at most.
        self._last: list[memoryview] = []

    def take(self, buffers: list[memoryview]) -> None:
        self._crc32 = crc32_of(buffers, self._crc32)
        self._last = [*self._last, *buffers][-3:]
        self._handle.writelines(buffers)

    @property
    def sum(self) -> FileSum:
        """The sum of what was written so far."""
        return FileSum(self.n_bytes, self._crc32)

    def with_footer(self) -> FileSum:
        """Return the sum of a Parquet file after all of it is written."""
        return self.sum._replace(footer=crc32_of([self._tail(_footer_bytes(self._tail(_END)))]))

    def _tail(self, n_bytes: int) -> bytes:
        tail = b"".join(view[-n_bytes:] for view in self._last)[-n_bytes:]
        assert len(tail) == n_bytes, "the last buffers have the footer"
        return tail


def write_summed(url: str, write: Callable[[SummedFile], object]) -> FileSum:
    """Return the sum of the file at `url` after `write` wrote it; the file appears whole or not at all.

    Raises what `files.open_atomic` and `write` raise.
    """
    with files.open_atomic(url, plain=True) as handle:
        summed = SummedFile(handle)
        write(summed)
    if not url.endswith(".parquet"):
        return summed.sum
    begin_sync(url)  # files of results are synced at the end of the run
    return summed.with_footer()


def write_parquet(table: pa.Table, summed: SummedFile, **options: Any) -> None:
    """Write `table` as Parquet; `options` are for `pyarrow.parquet.write_table`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    row_group_size = options.pop("row_group_size", None)
    with (
        pa.BufferedOutputStream(pa.PythonFile(summed, "w"), _BUFFER_BYTES) as stream,
        pq.ParquetWriter(stream, table.schema, write_page_checksum=True, **options) as writer,
    ):
        writer.write_table(table, row_group_size)
        stream.flush()
        writer.add_key_value_metadata({PAGES_KEY: f"{summed.sum.crc32:08x}"})


def sum_of(url: str) -> FileSum | None:
    """Return the sum of the file at `url`; None if it is missing. All of it is read, as by `files.read_bytes`."""
    n_bytes = checksum = 0
    with files.reading(url), suppress(FileNotFoundError):
        for content in _local_content(url) if files.is_local(url) else _remote_content(url):
            checksum = crc32_of([content], checksum)
            n_bytes += len(content)
        return FileSum(n_bytes, checksum)
    return None


def crc32_of(parts: Iterable[bytes | memoryview], checksum: int = 0) -> int:
    """Return the CRC-32 of what had `checksum`, and of `parts` after it."""
    from isal.isal_zlib import crc32

    for part in parts:
        checksum = crc32(part, checksum)
    return checksum


def file_faults(folder: str, wanted: Mapping[str, FileSum], *, content: bool) -> dict[str, str]:
    """Return what is wrong with files of a folder, by name, in the order of `wanted`; empty if nothing is.

    With `content` every file is read whole. Otherwise only its length is compared.
    """
    names = list(wanted)
    if content:
        with ThreadPoolExecutor(_READERS) as readers:
            found = list(readers.map(sum_of, [files.join(folder, name) for name in names]))
    else:
        sizes = files.file_sizes(folder)
        found = [FileSum(sizes[name], wanted[name].crc32) if name in sizes else None for name in names]
    faults = zip(names, map(fault_of, found, wanted.values()), strict=True)
    return {name: fault for name, fault in faults if fault is not None}


def checked_footer(handle: IO[bytes], wanted: FileSum) -> tuple[bytes, str | None]:
    """Return the footer of an open Parquet file, and what is wrong with it or with the length of the file, or None."""
    n_bytes = handle.seek(0, io.SEEK_END)
    if n_bytes != wanted.bytes:
        return b"", fault_of(FileSum(n_bytes, 0), wanted)
    handle.seek(max(0, n_bytes - _TAIL_BYTES))
    tail = handle.read()
    if (length := _footer_bytes(tail)) > len(tail):
        handle.seek(max(0, n_bytes - length))
        tail = handle.read()
    found = crc32_of([footer := tail[-length:]])
    if found != wanted.footer:
        return b"", f"was altered: the CRC-32 of its footer is {found:08x}, and was {wanted.footer or 0:08x}"
    return footer, None


def _footer_bytes(tail: bytes) -> int:
    """Return the length of the footer that ends as `tail`, with the number that says it and the mark."""
    return int.from_bytes(tail[-_END:-4], "little") + _END


def fault_of(found: FileSum | None, wanted: FileSum) -> str | None:
    """Return what is wrong with a file that has the sum `found`, None if it is missing; None if nothing is wrong."""
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
