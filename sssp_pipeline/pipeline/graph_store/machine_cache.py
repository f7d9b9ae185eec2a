"""Machine cache: each graph is stored once on a machine, in files that all worker processes map into memory.

```
<folder>/<content id>/{row_offsets,col_indices,weights}   the arrays of a CsrGraph, as they are in memory
<folder>/<content id>/{ranks,up_weights,…}                the arrays of a completion or of a customization
<folder>/<content id>/ids.arrow                           the input's ids, if the graph has a table of them; Arrow IPC
<folder>/<content id>/facts.json                          what the files hold, and their checksums; written last
<folder>/.partial-<content id>/                           a graph that is being loaded
<folder>/<content id>.lock                                held by the process that loads the graph
<folder>/room.lock                                        held by a process that makes room for a graph
```

The first process that needs a graph locks it, reads the store into the files, and renames the whole folder to its final
name. The other processes wait for the lock, check the checksums of the files, and map them. So the store is read once,
and the pages are in memory once. Every process that maps a graph holds a shared lock on its files. A graph without such
a lock may be removed when another graph needs the room. Graphs that differ only in their weights, which one store
holds, share the files of their edges as hard links. `docs/design/0008-graph-on-workers.md` explains which checks are
made when, and `docs/design/0024-identity-and-checksums.md` which checksums there are.
"""

from __future__ import annotations

import fcntl
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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.vertex_ids import VertexIds
from sssp_pipeline.pipeline.graph_store.cache_entries import (
    Sizes,
    folder_bytes,
    guard_of,
    last_used,
    map_arrays,
    map_entry,
    map_graph,
    reserve_files,
    seal,
    write_ids,
)
from sssp_pipeline.pipeline.graph_store.loading import load_graph, load_ids, new_arrays
from sssp_pipeline.pipeline.graph_store.manifest import Manifest
from sssp_pipeline.storage.file_locks import is_in_place

#: Environment variable with the folder for the caches of all users; the default is the temporary folder.
FOLDER_VARIABLE = "SSSP_GRAPH_CACHE"
#: A process that holds a lock updates the time of the lock file. After this many seconds without an update, the other
#: processes take it for stopped.
STALLED_S = 60.0
_POLL_S = 0.05
_PARTIAL = ".partial-"
_GONE = ".gone-"

_Found = TypeVar("_Found")

_log = logging.getLogger(__name__)


def shared_graph(store: str, manifest: Manifest) -> tuple[CsrGraph, VertexIds]:
    """Return a stored graph and its ids in memory that all processes of this user on this machine share.

    If the cache cannot be used, a warning is logged and only this process has the graph in its memory.

    Raises
    ------
    InputError
        As `load_graph`.
    """
    return _shared(
        lambda cache: cache.graph(store, manifest),
        lambda: (load_graph(store, manifest), load_ids(store, manifest)),
        f"graph {manifest.content_id}",
    )


def forget_shared(manifest: Manifest) -> None:
    """Remove a stored graph from the cache, so that it is loaded from its store the next time."""
    if sys.platform == "linux":
        cache = GraphCache(_user_folder())
        cache._discard(cache.folder / manifest.content_id)


def shared_arrays(
    content_id: str, sizes: Sizes, read: Callable[[dict[str, np.ndarray]], None]
) -> dict[str, np.ndarray]:
    """Return the arrays of a hierarchy in memory that all processes of this user on this machine share.

    `read` fills arrays of these `sizes`; what it raises is raised. As for `shared_graph`, the cache may be unusable.
    """

    def alone() -> dict[str, np.ndarray]:
        arrays = new_arrays(sizes)
        read(arrays)
        return arrays

    return _shared(lambda cache: cache.arrays(content_id, sizes, read), alone, f"hierarchy {content_id}")


def _shared(find: Callable[[GraphCache], _Found], alone: Callable[[], _Found], what: str) -> _Found:
    if sys.platform != "linux":
        # The cache needs `posix_fallocate` and the boot id, which other systems lack.
        return alone()
    try:
        return find(GraphCache(_user_folder()))
    except OSError as error:
        _log.warning(
            "%s is loaded for this process alone and not shared on this machine: %s; %s names another folder",
            what,
            f"`{error.filename}`: {error.strerror}" if error.filename else error.strerror or error,
            FOLDER_VARIABLE,
        )
    return alone()


@dataclass(frozen=True)
class _NewEntry:
    """What is to be loaded into a folder of the cache."""

    sizes: Sizes
    #: Its space on the disk.
    n_bytes: int
    #: Fills the files in a folder; gets whether they have the edges already.
    fill: Callable[[Path, bool], None]
    #: Returns the folder of a cached graph with the same edges, and the graph; None if there is none.
    other: Callable[[], tuple[Path, CsrGraph] | None] = lambda: None


@dataclass(frozen=True)
class GraphCache:
    """The cache in `folder`; only this user may use the folder, and it is on a disk of this machine."""

    folder: Path

    def graph(self, store: str, manifest: Manifest) -> tuple[CsrGraph, VertexIds]:
        """Load the graph of `store` into the cache if necessary, map it, and return it with its ids.

        The arrays are writable. Changes stay in this process.

        Raises
        ------
        InputError
            As `load_graph`.
        OSError
            There is no room, the folder may not be written, or another process stopped while it loaded the graph.
        """

        def fill(place: Path, has_edges: bool) -> None:
            into = CsrGraph(**map_arrays(place, manifest.arrays, mmap.ACCESS_WRITE))
            load_graph(store, manifest, into, like=into if has_edges else None)
            write_ids(place, load_ids(store, manifest))

        n_bytes = manifest.graph_bytes + sum(part.bytes for part in manifest.vertices)
        entry = _NewEntry(manifest.arrays, n_bytes, fill, lambda: self._with_other_weight(manifest))
        return self._found(manifest.content_id, lambda place: map_graph(place, manifest), entry)

    def arrays(
        self, content_id: str, sizes: Sizes, read: Callable[[dict[str, np.ndarray]], None]
    ) -> dict[str, np.ndarray]:
        """Have `read` fill arrays of these `sizes` in the cache if necessary, map them, and return them.

        Raises
        ------
        OSError
            As `graph`; and what `read` raises.
        """

        def fill(place: Path, _: bool) -> None:
            read(map_arrays(place, sizes, mmap.ACCESS_WRITE))

        n_bytes = sum(length * dtype.itemsize for length, dtype in sizes.values())
        entry = _NewEntry(sizes, n_bytes, fill)
        return self._found(content_id, lambda place: map_entry(place, content_id, sizes), entry)

    def _found(self, content_id: str, find: Callable[[Path], _Found | None], entry: _NewEntry) -> _Found:
        """Return what `find` maps of the folder of a content id; if there is none, the `entry` is loaded."""
        place = self.folder / content_id
        if (found := find(place)) is not None:
            return found
        with _hold_lock(self._lock_path(content_id)):
            # Another process may have loaded the entry while this one waited for the lock.
            found = find(place)
            return self._load(place, entry, find) if found is None else found

    def _load(self, place: Path, entry: _NewEntry, find: Callable[[Path], _Found | None]) -> _Found:
        """Load `entry` into `place`, and return what `find` maps of it; the caller holds the lock of `place`."""
        partial = self.folder / (_PARTIAL + place.name)
        self._discard(place)  # it could not be mapped, so it is damaged
        self._discard(partial)  # left by a process that was killed
        other = entry.other()  # while it is mapped it is not removed
        try:
            with _hold_lock(self.folder / "room.lock"):
                self._make_room(entry.n_bytes)
                has_edges = reserve_files(partial, entry.sizes, other and other[0])
            entry.fill(partial, has_edges)
            seal(partial, place.name, entry.sizes)
            # Mapped before the rename: under its final name an unmapped entry may be removed as unused.
            loaded = find(partial)
            if loaded is None:
                raise OSError(f"`{partial}` was removed while a graph was loaded into it")
            partial.rename(place)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        return loaded

    def _with_other_weight(self, manifest: Manifest) -> tuple[Path, CsrGraph] | None:
        """Return the folder of a cached graph with the same edges and another weight, and the graph; None without."""
        for graph in manifest.by_weight.values():
            entry = self.folder / graph.content_id
            if graph.content_id != manifest.content_id and (mapped := map_graph(entry, graph)) is not None:
                return entry, mapped[0]
        return None

    def _make_room(self, n_bytes: int) -> None:
        """Remove unused graphs until there is room for one of `n_bytes`, starting with the longest unused one.

        The cache may take at most half of the space that would be free on the disk without it.
        """
        sizes = {place: folder_bytes(place) for place in self.folder.iterdir() if place.is_dir()}
        used = sum(sizes.values())
        room = (shutil.disk_usage(self.folder).free + used) // 2
        for place in sorted(sizes, key=last_used):
            if used + n_bytes <= room:
                return
            if self._remove_unused(place):
                used -= sizes[place]
        if used + n_bytes > room:
            left = max(0, room - used)
            raise OSError(
                f"it takes {n_bytes / 2**30:.2f} GiB, and `{self.folder}` has room for {left / 2**30:.2f} GiB"
            )

    def _remove_unused(self, place: Path) -> bool:
        """Remove the graph in `place` unless a process maps or loads it; return whether it was removed."""
        loading = place.name.startswith(_PARTIAL)
        guard = self._lock_path(place.name.removeprefix(_PARTIAL)) if loading else guard_of(place)
        try:
            handle = os.open(guard, os.O_RDWR)
        except FileNotFoundError:  # the graph is damaged, so no process maps it
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
        """Remove a folder; it is renamed first, so that no process maps a folder with only some of its files."""
        gone = self.folder / (_GONE + uuid.uuid4().hex[:12])
        with suppress(FileNotFoundError):
            place.rename(gone)
            shutil.rmtree(gone)

    def _lock_path(self, content_id: str) -> Path:
        return self.folder / f"{content_id}.lock"


def _user_folder() -> Path:
    """Return this user's cache folder, created if necessary; an `OSError` if other users may use it."""
    base = os.environ.get(FOLDER_VARIABLE) or tempfile.gettempdir()
    folder = Path(base, f"sssp-graphs-{os.getuid()}")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"`{folder}` is not a folder of this user alone")
    return folder


@contextmanager
def _hold_lock(lock: Path) -> Iterator[None]:
    """Wait for `lock`, and hold it until the block ends; an `OSError` if its holder gives no sign of life."""
    handle = _acquire_lock(lock)
    ended = threading.Event()

    def update_time() -> None:
        while True:
            os.utime(handle)
            if ended.wait(STALLED_S / 6):
                return

    thread = threading.Thread(target=update_time, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        os.close(handle)


def _acquire_lock(lock: Path) -> int:
    """Create, open and lock the file `lock`, and return its descriptor; raises as `_hold_lock` does."""
    began = time.time()
    while True:
        # The file is opened for each attempt, because another process may have removed and created it again.
        with ExitStack() as closing:
            handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
            closing.callback(os.close, handle)
            with suppress(BlockingIOError):
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if is_in_place(handle, lock):
                    closing.pop_all()
                    return handle
            if time.time() - max(began, os.fstat(handle).st_mtime) > STALLED_S:
                raise OSError(f"the process that holds `{lock}` gave no sign of life for {STALLED_S:.0f} s")
        time.sleep(_POLL_S)
