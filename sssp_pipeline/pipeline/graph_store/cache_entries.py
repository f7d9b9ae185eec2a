"""Cache entries: the files in one folder of the cache of a machine. They are reserved, filled, sealed and mapped.

`machine_cache.py` describes the files, and decides when an entry is made and removed.
"""

from __future__ import annotations

import fcntl
import logging
import mmap
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from isal.isal_zlib import crc32

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.vertex_ids import VertexIds
from sssp_pipeline.pipeline.graph_store.manifest import Manifest
from sssp_pipeline.storage.records import record_bytes, record_content

_FACTS = "facts.json"
_IDS = "ids.arrow"
#: Bytes of a file that are read at a time for its checksum.
_BLOCK = 4 << 20

#: Length and type of each array, by its name.
Sizes = dict[str, tuple[int, np.dtype]]

_log = logging.getLogger(__name__)


def guard_of(place: Path) -> Path:
    """Return the file in the folder `place` whose lock tells whether a process maps the folder."""
    # Of the arrays of a graph only the weights are never a file of another graph too.
    for name in ("weights", "ranks", "up_weights"):
        if (place / name).exists():
            return place / name
    return place / "weights"


def map_graph(place: Path, manifest: Manifest) -> tuple[CsrGraph, VertexIds] | None:
    """Map the graph and ids in the folder `place`; None if they are missing, damaged, or from before the last boot."""
    if (arrays := map_entry(place, manifest.content_id, manifest.arrays)) is None:
        return None
    try:
        return CsrGraph(**arrays), _map_ids(place, manifest)
    except (FileNotFoundError, ValueError):
        return None


def map_entry(place: Path, content_id: str, sizes: Sizes) -> dict[str, np.ndarray] | None:
    """Map the arrays in the folder `place`; None if they are missing, damaged, or from before the last boot."""
    try:
        facts = record_content((place / _FACTS).read_bytes())
        sums = facts.pop("crc32", None)
        if facts != _facts(content_id, sizes):
            return None
        found = map_arrays(place, sizes, mmap.ACCESS_COPY)
        if _file_sums(place, sizes) != sums:
            _log.warning("`%s` is damaged: it is loaded again", place)
            return None
        os.utime(place)  # `_make_room` removes the entry that was unused for longest
    except (FileNotFoundError, ValueError):
        return None
    except BlockingIOError:  # another process is removing the entry
        return None
    return found


def seal(place: Path, content_id: str, sizes: Sizes) -> None:
    """Write what the files in the folder `place` hold, and their checksums."""
    facts = {**_facts(content_id, sizes), "crc32": _file_sums(place, sizes)}
    (place / _FACTS).write_bytes(record_bytes(facts))


def _file_sums(place: Path, sizes: Sizes) -> dict[str, int]:
    """Return the CRC-32 of each file in the folder `place`, by its name."""
    names = [name for name in (*sizes, _IDS) if (place / name).exists()]
    with ThreadPoolExecutor(len(names)) as pool:
        return dict(zip(names, pool.map(lambda name: _file_sum(place / name), names), strict=True))


def _file_sum(path: Path) -> int:
    checksum = 0
    with path.open("rb", buffering=0) as file:
        while block := file.read(_BLOCK):
            checksum = crc32(block, checksum)
    return checksum


def _facts(content_id: str, sizes: Sizes) -> dict[str, Any]:
    """Return the content that `facts.json` must have if the arrays are usable.

    The boot id is part of it. The files are written without `fsync`, so a crash of the machine may leave them
    incomplete.
    """
    return {
        "content_id": content_id,
        "boot_id": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        "arrays": {name: [length, dtype.str] for name, (length, dtype) in sizes.items()},
    }


def map_arrays(place: Path, sizes: Sizes, access: int) -> dict[str, np.ndarray]:
    """Map the arrays in the folder `place` with `access`; a shared lock on each file lasts as long as its array.

    The arrays are writable, because numba would compile its functions again for read-only arrays. With `ACCESS_COPY`,
    changes stay in this process.
    """
    arrays = {}
    for name, (length, dtype) in sizes.items():
        handle = os.open(place / name, os.O_RDWR if access == mmap.ACCESS_WRITE else os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            if os.fstat(handle).st_size != length * dtype.itemsize:
                raise ValueError(f"`{place / name}` has another size")
            # The map keeps a duplicate of the handle, and with it the lock.
            arrays[name] = (
                np.frombuffer(mmap.mmap(handle, 0, access=access), dtype) if length else np.empty(0, dtype)
            )
        finally:
            os.close(handle)
    return arrays


def write_ids(place: Path, ids: VertexIds) -> None:
    """Write ids to the folder `place`, if they are a table."""
    if ids.table is not None:
        batch = pa.record_batch([ids.table], ["original_id"])
        with (place / _IDS).open("wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
            writer.write_batch(batch)


def _map_ids(place: Path, manifest: Manifest) -> VertexIds:
    """Map the ids in the folder `place`; raises `ValueError` if the file is cut short."""
    table = None
    if manifest.ids.kind == "table":
        with pa.memory_map(str(place / _IDS)) as file:
            table = pa.ipc.open_file(file).get_batch(0).column(0)
    return VertexIds(manifest.ids, table, manifest.n_vertices)


def reserve_files(place: Path, sizes: Sizes, other: Path | None = None) -> bool:
    """Create the folder `place` and the files of the arrays, with their space on the disk reserved.

    On a full disk, a write to a mapped file without reserved space would kill the process.

    Returns whether the edges are in the files of the graph in `other`, which has the same edges.
    """
    place.mkdir()
    arrays = dict(sizes)
    if other is not None:
        try:
            for name in ("row_offsets", "col_indices"):
                os.link(other / name, place / name)
            arrays = {"weights": arrays["weights"]}
        except OSError:  # the disk has no hard links
            (place / "row_offsets").unlink(missing_ok=True)
    for name, (length, dtype) in arrays.items():
        with (place / name).open("wb") as file:
            if length:
                os.posix_fallocate(file.fileno(), 0, length * dtype.itemsize)
    return list(arrays) == ["weights"]


def folder_bytes(place: Path) -> int:
    """Return the bytes of the files in the folder `place`."""
    with suppress(FileNotFoundError):  # removed meanwhile
        return sum(file.stat().st_size for file in place.iterdir())
    return 0


def last_used(place: Path) -> float:
    """Return when the folder `place` was mapped for the last time."""
    with suppress(FileNotFoundError):
        return place.stat().st_mtime
    return 0.0
