"""The graphs of one machine, each there once: files that all worker processes map.

```
<folder>/<content id>/{row_offsets,col_indices,weights}   the arrays of a CsrGraph as they are in memory
<folder>/<content id>/ids.arrow                           the input's ids, if it has a table of them; Arrow IPC
<folder>/<content id>/facts.json                          what they are; written last
<folder>/.partial-<content id>/                           being loaded, by the process that holds the lock
<folder>/<content id>.lock, room.lock                     locks, of a graph that is loaded and of the folder's room
```

The first process to want a graph takes its lock, reads the store into the files and puts the whole folder in its place
by one rename; the others wait, and map. So the store is read once, and the pages are in memory once. Whoever maps a
graph holds a shared lock on its files: what nobody holds may be removed when another graph needs the room.
`docs/design/0008-graph-on-workers.md` says what is checked when, and why.
"""

from __future__ import annotations

import fcntl
import json
import logging
import mmap
import os
import shutil
import stat
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sssp_pipeline.csr import CsrGraph
from sssp_pipeline.pipeline.graph_store.loading import load_graph, load_ids
from sssp_pipeline.pipeline.graph_store.store import Manifest
from sssp_pipeline.pipeline.storage.file_locks import is_in_place
from sssp_pipeline.vertex_ids import VertexIds

#: Names the folder in which each user's cache lies, instead of the temporary one.
FOLDER_VARIABLE = "SSSP_GRAPH_CACHE"
#: A process that holds a lock gives signs of life; one that gave none for so long is stopped.
PATIENCE_S = 60.0
_POLL_S = 0.05
_FACTS = "facts.json"
_IDS = "ids.arrow"
_PARTIAL = ".partial-"
_GONE = ".gone-"

_log = logging.getLogger(__name__)


def shared_graph(store: str, manifest: Manifest) -> tuple[CsrGraph, VertexIds]:
    """Return a stored graph and its ids in memory that is shared by all processes of this user on this machine.

    Where there is no room or no place for that, it is loaded into the memory of this process alone, with a warning in
    the log: a run that takes more memory is better than none.

    Raises
    ------
    InputError
        As `load_graph`.
    """
    if sys.platform != "linux":
        # Elsewhere files are not reserved, and there is no telling one boot from another.
        return load_graph(store, manifest), load_ids(store, manifest)
    try:
        return GraphCache(_own_folder()).graph(store, manifest)
    except OSError as error:
        _log.warning(
            "graph %s is loaded for this process alone, not for all of this machine: %s; %s names another place",
            manifest.content_id,
            f"`{error.filename}`: {error.strerror}" if error.filename else error.strerror or error,
            FOLDER_VARIABLE,
        )
    return load_graph(store, manifest), load_ids(store, manifest)


class _NoRoomError(OSError):
    """The cache has no room for a graph."""


class _StalledError(OSError):
    """The process that loads a graph does not go on."""


@dataclass(frozen=True)
class GraphCache:
    """The cache in `folder`, which is this user's alone and on a disk of this machine."""

    folder: Path

    def graph(self, store: str, manifest: Manifest) -> tuple[CsrGraph, VertexIds]:
        """Return the graph of `store` and its ids, mapped, after loading them into the cache if they are not there.

        What is written to the graph's arrays stays in this process.

        Raises
        ------
        InputError
            As `load_graph`.
        OSError
            The cache cannot hold the graph: no room, no right to write, or another process stopped while loading it.
        """
        entry = self.folder / manifest.content_id
        if (there := _mapped(entry, manifest)) is not None:
            return there
        with _held(self._lock_of(entry.name)):
            # Another process may have loaded it while this one waited.
            return _mapped(entry, manifest) or self._loaded(entry, store, manifest)

    def _loaded(self, entry: Path, store: str, manifest: Manifest) -> tuple[CsrGraph, VertexIds]:
        """Return graph and ids after reading the store into `entry`; its lock is held."""
        partial = self.folder / (_PARTIAL + entry.name)
        for remains in (entry, partial):  # damaged, and of a process that was killed
            self._discard(remains)
        try:
            with _held(self.folder / "room.lock"):
                self._make_room(manifest.graph_bytes + sum(part.bytes for part in manifest.vertices))
                _reserve(partial, manifest)
            into = CsrGraph(**_arrays(partial, manifest, mmap.ACCESS_WRITE))
            load_graph(store, manifest, into)
            _write_ids(partial, load_ids(store, manifest))
            (partial / _FACTS).write_text(json.dumps(_facts(manifest)))
            # Before the rename: in its place it could be removed as unused.
            loaded = _mapped(partial, manifest)
            if loaded is None:
                raise _NoRoomError(f"`{partial}` was removed while a graph was loaded into it")
            partial.rename(entry)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        return loaded

    def _make_room(self, n_bytes: int) -> None:
        """Remove graphs that no process uses, the longest unused first, until one of `n_bytes` has its share.

        The cache takes at most half of what the disk would have free without it.
        """
        sizes = {place: _size(place) for place in self.folder.iterdir() if place.is_dir()}
        used = sum(sizes.values())
        room = (shutil.disk_usage(self.folder).free + used) // 2
        for place in sorted(sizes, key=_last_used):
            if used + n_bytes <= room:
                return
            if self._remove_unused(place):
                used -= sizes[place]
        if used + n_bytes > room:
            left = max(0, room - used)
            raise _NoRoomError(
                f"it takes {n_bytes / 2**30:.2f} GiB, and `{self.folder}` may hold {left / 2**30:.2f} more"
            )

    def _remove_unused(self, place: Path) -> bool:
        """Remove a graph unless a process maps or loads it; return whether it is gone."""
        loading = place.name.startswith(_PARTIAL)
        guard = self._lock_of(place.name.removeprefix(_PARTIAL)) if loading else place / "row_offsets"
        try:
            handle = os.open(guard, os.O_RDWR)
        except FileNotFoundError:  # damaged: there is nothing to map
            self._discard(place)
            return True
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not is_in_place(handle, guard):
                return False
            self._discard(place)
        except BlockingIOError:
            return False
        finally:
            os.close(handle)
        return True

    def _discard(self, place: Path) -> None:
        """Remove a folder, which is no longer in its place before the first of its files is gone."""
        gone = self.folder / (_GONE + uuid.uuid4().hex[:12])
        with suppress(FileNotFoundError):
            place.rename(gone)
            shutil.rmtree(gone)

    def _lock_of(self, content_id: str) -> Path:
        return self.folder / f"{content_id}.lock"


def _own_folder() -> Path:
    """Return this user's cache folder, made if need be.

    Raises
    ------
    OSError
        It cannot be made, or others could write to it, or made it.
    """
    base = os.environ.get(FOLDER_VARIABLE) or tempfile.gettempdir()
    folder = Path(base, f"sssp-graphs-{os.getuid()}")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"`{folder}` is not a folder of this user alone")
    return folder


@contextmanager
def _held(lock: Path) -> Iterator[None]:
    """Hold `lock` for the block, after waiting for it.

    Raises
    ------
    OSError
        Whoever holds it has given no sign of life for `PATIENCE_S`: it is stopped, and may stay so.
    """
    handle = _locked(lock)
    try:
        with _signs_of_life(handle):
            yield
    finally:
        os.close(handle)


def _locked(lock: Path) -> int:
    """Return the descriptor of the file `lock`, made if need be and locked after waiting; raises as `_held` does."""
    began = time.time()
    while True:
        # Opened anew for each attempt: the file may have been removed and made again.
        with ExitStack() as closing:
            handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
            closing.callback(os.close, handle)
            with suppress(BlockingIOError):
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if is_in_place(handle, lock):
                    closing.pop_all()
                    return handle
            if time.time() - max(began, os.fstat(handle).st_mtime) > PATIENCE_S:
                raise _StalledError(
                    f"the process that holds `{lock}` gave no sign of life for {PATIENCE_S:.0f} s"
                )
        time.sleep(_POLL_S)


@contextmanager
def _signs_of_life(handle: int) -> Iterator[None]:
    """Set the time of an open file to now, again and again until the block ends."""
    ended = threading.Event()

    def tell() -> None:
        while True:
            os.utime(handle)
            if ended.wait(PATIENCE_S / 6):
                return

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _mapped(place: Path, manifest: Manifest) -> tuple[CsrGraph, VertexIds] | None:
    """Return graph and ids in the folder `place`, or None if they are not there, or damaged, or of another boot."""
    try:
        if json.loads((place / _FACTS).read_text()) != _facts(manifest):
            return None
        found = CsrGraph(**_arrays(place, manifest, mmap.ACCESS_COPY)), _ids(place, manifest)
        os.utime(place)  # the longest unused goes first
    except (FileNotFoundError, BlockingIOError, ValueError):
        return None  # the second: just being removed
    return found


def _facts(manifest: Manifest) -> dict[str, Any]:
    """Return what a graph in the cache must be to be taken for that of `manifest`.

    Nothing waits until the files are on the disk, so what was written before the machine last started may be lost.
    """
    return {
        "content_id": manifest.content_id,
        "boot_id": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        "arrays": {name: [length, dtype.str] for name, (length, dtype) in manifest.arrays.items()},
    }


def _arrays(place: Path, manifest: Manifest, access: int) -> dict[str, np.ndarray]:
    """Return the arrays in the folder `place`, mapped with `access`; their files are locked while they live.

    Plain writable arrays, so that numba compiles nothing anew for them; with `ACCESS_COPY` what is written stays in
    this process.
    """
    arrays = {}
    for name, (length, dtype) in manifest.arrays.items():
        handle = os.open(place / name, os.O_RDWR if access == mmap.ACCESS_WRITE else os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            if os.fstat(handle).st_size != length * dtype.itemsize:
                raise ValueError(f"`{place / name}` has another size")
            # The map keeps a duplicate of the handle, and thereby the lock.
            arrays[name] = (
                np.frombuffer(mmap.mmap(handle, 0, access=access), dtype) if length else np.empty(0, dtype)
            )
        finally:
            os.close(handle)
    return arrays


def _write_ids(place: Path, ids: VertexIds) -> None:
    if ids.table is not None:
        batch = pa.record_batch([ids.table], ["original_id"])
        with (place / _IDS).open("wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
            writer.write_batch(batch)


def _ids(place: Path, manifest: Manifest) -> VertexIds:
    """Return the ids in the folder `place`, mapped; raises `ValueError` where the file is cut short."""
    table = None
    if manifest.ids.kind == "table":
        with pa.memory_map(str(place / _IDS)) as file:
            table = pa.ipc.open_file(file).get_batch(0).column(0)
    return VertexIds(manifest.ids, table, manifest.n_vertices)


def _reserve(place: Path, manifest: Manifest) -> None:
    """Make the folder `place` with files of the right size that have their room on the disk.

    Writing to a map of a file that has not ends the process where the disk is full.
    """
    place.mkdir()
    for name, (length, dtype) in manifest.arrays.items():
        with (place / name).open("wb") as file:
            if length:
                os.posix_fallocate(file.fileno(), 0, length * dtype.itemsize)


def _size(place: Path) -> int:
    with suppress(FileNotFoundError):  # removed meanwhile
        return sum(file.stat().st_size for file in place.iterdir())
    return 0


def _last_used(place: Path) -> float:
    with suppress(FileNotFoundError):
        return place.stat().st_mtime
    return 0.0
