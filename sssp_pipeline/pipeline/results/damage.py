"""Damage of the files of a finished run.

The `run.json` of a run has the length and the checksum of each of its files. One of release 0.1.0 has at most the
lengths: such a file must begin and end as a Parquet file does, and its footer must be whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from sssp_pipeline.errors import InputError
from sssp_pipeline.lazy import LazyModule
from sssp_pipeline.pipeline.results.outputs import FileOutput, recorded_output
from sssp_pipeline.pipeline.results.run_files import (
    METRICS_FILE,
    REPAIR,
    SNAPPED_FILE,
    VERTICES_FILE,
    batch_file,
)
from sssp_pipeline.pipeline.storage import file_sums
from sssp_pipeline.pipeline.storage import files as storage
from sssp_pipeline.pipeline.storage.file_sums import FileSum

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


def recorded_files(sums: Mapping[str, FileSum]) -> dict[str, dict[str, Any]]:
    """Return what run.json has of files with these `sums`, by their path below the run folder."""
    return {
        "files": {name: sums[name].bytes for name in sorted(sums)},
        "crc32": {name: f"{sums[name].crc32:08x}" for name in sorted(sums)},
    }


def recorded_sums(record: dict[str, Any]) -> dict[str, FileSum] | None:
    """Return the sums of the files of a finished run, from the content of its run.json; None if it has none."""
    checksums = record.get("crc32")
    if checksums is None:
        return None
    return {name: FileSum(size, int(checksums[name], 16)) for name, size in record["files"].items()}


def expected_files(record: dict[str, Any]) -> list[str]:
    """Return the paths of the files of a finished run, below its folder."""
    if "files" in record:
        return list(record["files"])
    identity = record["identity"]
    names = [METRICS_FILE]
    names += [SNAPPED_FILE] if "snapped" in identity else []
    names += [VERTICES_FILE] if "per_vertex" in identity.get("reduce", {}) else []
    has_files = isinstance(recorded_output(record), FileOutput)
    return names + [batch_file(batch) for batch in range(record["batches"] if has_files else 0)]


def damage_of(folder: str, record: dict[str, Any], *, content: bool) -> dict[str, str]:
    """Return what is wrong with the files of the finished run in `folder`, by name; empty if nothing is.

    Parameters
    ----------
    record
        The content of run.json.
    content
        Whether files are read whole. Otherwise only their lengths are compared.
    """
    if (sums := recorded_sums(record)) is not None:
        return file_sums.file_faults(folder, sums, content=content)
    lengths, sizes = record.get("files", {}), storage.file_sizes(folder)

    def fault(name: str) -> str | None:
        return _fault_without_sum(folder, name, sizes.get(name), None if content else lengths.get(name))

    with ThreadPoolExecutor(_READERS) as readers:
        names = expected_files(record)
        return {name: found for name, found in zip(names, readers.map(fault, names), strict=True) if found}


def check_files(folder: str, record: dict[str, Any], names: Iterable[str] | None = None) -> None:
    """Read files of the finished run in `folder` whole, all if there are no `names`, before they are parsed.

    The checksums of pages do not cover the footer of a Parquet file. With a damaged footer Arrow may give other rows,
    or end the process. A run of release 0.1.0 has no checksums and is not checked.

    Raises
    ------
    InputError
        A file is damaged.
    """
    sums = recorded_sums(record) or {}
    wanted = sums if names is None else {name: sums[name] for name in names if name in sums}
    for name, fault in file_sums.file_faults(folder, wanted, content=True).items():
        raise InputError(f"`{storage.redacted(storage.join(folder, name))}` {fault}", hint=REPAIR)


def _fault_without_sum(folder: str, name: str, size: int | None, wanted: int | None) -> str | None:
    if size is None:
        return "is gone"
    if wanted is not None and size != wanted:
        return f"was altered: it has {size} bytes, and had {wanted} when it was written"
    if size == 0:
        return "is empty"
    if _footer(storage.join(folder, name), size) is None:
        return f"is damaged: its {size} bytes are not a whole Parquet file"
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
