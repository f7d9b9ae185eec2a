"""Length and CRC-32 of files: computed while a file is written, and compared when it is read again.

A Parquet file also has the CRC-32 of its footer, for a reader of a part of the file: Parquet does not check the footer,
and a damaged one gives other rows or ends the process. The footer has the checksum of all that is before it. So a file
with other pages has another footer.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from sssp_pipeline.storage import files
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


class SummedFile(io.RawIOBase):
    """Passes what is written on to `handle`, and computes its sum."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self.keeps_buffers = getattr(handle, "keeps_buffers", False)
        self.sum = FileSum(0, 0)
        #: The last buffers. Arrow writes a footer, its length and the mark by three calls at most.
        self._last: list[Any] = []

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

        n_bytes, checksum, _ = self.sum
        for buffer in buffers:
            checksum = crc32(buffer, checksum)
            n_bytes += memoryview(buffer).nbytes
        self.sum = FileSum(n_bytes, checksum)
        self._last = [*self._last, *buffers][-3:]

    def with_footer(self) -> FileSum:
        """Return the sum of a Parquet file after all of it is written."""
        from isal.isal_zlib import crc32

        return self.sum._replace(footer=crc32(self._tail(_footer_bytes(self._tail(_END)))))

    def _tail(self, n_bytes: int) -> bytes:
        parts: list[memoryview] = []
        for buffer in reversed(self._last):
            view = memoryview(buffer).cast("B")
            parts.insert(0, view[max(0, len(view) - n_bytes) :])
            n_bytes -= len(parts[0])
        assert n_bytes == 0, "the last buffers have the footer"
        return b"".join(parts)


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
    """Write `table` as Parquet; `options` are those of `pyarrow.parquet.write_table`."""
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


def checked_footer(handle: IO[bytes], wanted: FileSum) -> tuple[bytes, str | None]:
    """Return the footer of an open Parquet file, and what is wrong with it or with the length of the file, or None."""
    from isal.isal_zlib import crc32

    n_bytes = handle.seek(0, io.SEEK_END)
    if n_bytes != wanted.bytes:
        return b"", _fault(FileSum(n_bytes, 0), wanted)
    handle.seek(max(0, n_bytes - _TAIL_BYTES))
    tail = handle.read()
    if (length := _footer_bytes(tail)) > len(tail):
        handle.seek(max(0, n_bytes - length))
        tail = handle.read()
    found = crc32(footer := tail[-length:])
    if found != wanted.footer:
        return b"", f"was altered: the CRC-32 of its footer is {found:08x}, and was {wanted.footer or 0:08x}"
    return footer, None


def _footer_bytes(tail: bytes) -> int:
    """Return the length of the footer that ends as `tail`, with the number that says it and the mark."""
    return int.from_bytes(tail[-_END:-4], "little") + _END


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
