"""What the files of a run must be, checked without reading them whole.

A Parquet file has a mark at both ends, and a footer that says how many rows and columns it has. These are read to find
files that are empty, cut short or overwritten. Only `verify` finds a file of the right size with wrong distances.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sssp_pipeline.errors import InputError
from sssp_pipeline.lazy import LazyModule
from sssp_pipeline.pipeline.results.run_files import OVERWRITE
from sssp_pipeline.pipeline.storage import files as storage

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
else:  # `inspect` needs neither
    pa, pq = LazyModule("pyarrow"), LazyModule("pyarrow.parquet")

#: Files that are looked at in parallel: an object store takes some milliseconds for each request.
_READERS = 16
#: Bytes that are read first at the end of a file; few footers are longer.
_TAIL_BYTES = 64 * 1024
#: Stands at both ends of a Parquet file.
_MARK = b"PAR1"
#: The least size of a Parquet file: two marks, and the length of the footer.
_LEAST_BYTES = 12


@dataclass(frozen=True)
class FileShape:
    """What a file below a folder must be; None for what is not known. With rows or columns it is a Parquet file."""

    name: str
    rows: int | None = None
    columns: int | None = None
    bytes: int | None = None


def faults_of(folder: str, files: Iterable[FileShape]) -> dict[str, str]:
    """Return what is wrong with `files` of a folder, by name; empty if nothing is."""
    files = list(files)
    sizes = storage.file_sizes(folder)
    with ThreadPoolExecutor(_READERS) as readers:
        found = readers.map(lambda file: _fault_of(folder, file, sizes.get(file.name)), files)
        return {file.name: fault for file, fault in zip(files, found, strict=True) if fault}


def check_files(folder: str, files: Iterable[FileShape]) -> None:
    """Raise `InputError` for the first of `files` that is damaged; the message says how many others are."""
    faults = faults_of(folder, files)
    if faults:
        name, fault = next(iter(faults.items()))
        others = f", and {len(faults) - 1} more of its files are damaged" if len(faults) > 1 else ""
        raise InputError(f"`{storage.redacted(storage.join(folder, name))}` {fault}{others}", hint=OVERWRITE)


def _fault_of(folder: str, file: FileShape, size: int | None) -> str | None:
    if size is None:
        return "is gone"
    if file.bytes is not None and size != file.bytes:
        return f"was altered: it has {size} bytes, and had {file.bytes} when it was written"
    if size == 0:
        return "is empty"
    if file.rows is None and file.columns is None:
        return None
    url = storage.join(folder, file.name)
    metadata = _footer(url, size)
    if metadata is None:
        return f"is damaged: its {size} bytes are not a whole Parquet file"
    if file.rows is not None and metadata.num_rows != file.rows:
        return f"is damaged: it has {metadata.num_rows} rows, not {file.rows}"
    if file.columns is not None and metadata.num_columns != file.columns:
        return f"is damaged: it has {metadata.num_columns} columns, not {file.columns}"
    return None


def _footer(url: str, size: int) -> pq.FileMetaData | None:
    """Return the footer of a Parquet file of `size` bytes, None if the file is not whole."""
    if size < _LEAST_BYTES or storage.read_range(url, 0, len(_MARK)) != _MARK:
        return None
    tail = storage.read_range(url, max(0, size - _TAIL_BYTES), size)
    length = int.from_bytes(tail[-8:-4], "little") + 8
    if tail[-4:] != _MARK or length > size - len(_MARK):
        return None
    if length > len(tail):
        tail = storage.read_range(url, size - length, size)
    try:
        return pq.read_metadata(pa.BufferReader(tail[-length:]))
    except (pa.ArrowException, OSError, ValueError):
        return None
