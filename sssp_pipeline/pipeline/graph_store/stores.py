"""The graph stores below a folder: which there are, which are in use, and how one is removed.

A run holds a shared lock on the folder `row_offsets/` of its store, which every store has and no ingest replaces. So
others can use the store and ingest into it, and only its removal is refused. The time of this folder is the time of the
last use. Storage without such locks, such as an object store, shows only whether an ingest is writing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.progress import in_bytes, shortened
from sssp_pipeline.pipeline.graph_store import hierarchy_record
from sssp_pipeline.pipeline.graph_store.manifest import FORMAT
from sssp_pipeline.pipeline.graph_store.store import (
    MANIFEST,
    PART_FOLDERS,
    PART_PATH,
    SKIPPED,
    VERSION_FILE,
    VERSIONS_FOLDER,
    parse_manifest,
)
from sssp_pipeline.storage import files
from sssp_pipeline.storage.file_locks import shared_lock, sole_lock
from sssp_pipeline.storage.lease import exclusive, is_held

#: The folder of a store that is locked while a run uses the store.
_LOCKED = "row_offsets"


@dataclass(frozen=True)
class FoundStore:
    """A graph store, as `find_stores` shows it."""

    store: str
    #: Of all files in the folder.
    bytes: int
    #: On an object store, the time of the last ingest. None if the storage does not say.
    last_used: datetime | None
    #: None if that cannot be found out.
    in_use: bool | None
    #: The URLs of the input, without secrets.
    inputs: list[str]
    #: Why the manifest cannot be read; None if it can.
    fault: str | None = None

    def facts(self) -> dict[str, Any]:
        """Return the fields as plain JSON types."""
        return asdict(self) | {"last_used": self.last_used and self.last_used.isoformat(timespec="seconds")}

    def row(self) -> tuple[str, str, str, str]:
        """Return store, size, last use in local time, and input, for people."""
        used = "-" if self.last_used is None else f"{self.last_used.astimezone():%Y-%m-%d %H:%M}"
        what = self.fault or shortened(self.inputs)
        return self.store, in_bytes(self.bytes), used, what + (" (in use)" if self.in_use else "")


@contextmanager
def in_use(store: str) -> Iterator[None]:
    """Note that the store is used now, and let no process of this machine remove it until the block ends."""
    mark_used(store)
    if files.is_local(store):
        with shared_lock(_locked_folder(store)):
            yield
    else:
        yield


def mark_used(store: str) -> None:
    """Note that the store is used now, if it is on a local disk that may be written."""
    if files.is_local(store):
        with suppress(OSError):
            os.utime(_locked_folder(store))


def find_stores(folder: str) -> list[FoundStore]:
    """Return the graph stores below a folder, or the folder itself if it is one, sorted.

    Raises
    ------
    InputError
        The folder is missing or cannot be read.
    """
    if not files.exists(folder):
        raise InputError(f"`{files.redacted(folder)}` does not exist", hint="name a folder with graph stores")
    found = []
    for name in files.list_files(folder):
        below, _, file = name.rpartition("/")
        store = os.path.normpath(folder) if "://" not in folder else folder.rstrip("/")
        store = files.join(store, below) if below else store
        if file == MANIFEST and (text := _manifest_text(store)) is not None:
            found.append(_found(store.removeprefix("./"), text))
    return found


def _found(store: str, text: bytes) -> FoundStore:
    inputs: list[str] = []
    fault = None
    try:
        graphs = parse_manifest(text, store, files.join(store, MANIFEST)).by_weight.values()
        inputs = list(dict.fromkeys(str(one["url"]) for graph in graphs for one in graph.inputs))
    except InputError as error:
        fault = error.message
    used = _locked_folder(store) if files.is_local(store) else files.join(store, MANIFEST)
    last_used = files.changed_at(used) if files.exists(used) else None
    size = sum(files.file_sizes(store).values())
    return FoundStore(files.redacted(store), size, last_used, _is_in_use(store), inputs, fault)


def _is_in_use(store: str) -> bool | None:
    if files.is_local(store):
        with sole_lock(_locked_folder(store)) as is_sole:
            if not is_sole:
                return True
    return is_held(store)


def check_is_store(store: str) -> None:
    """Raise `InputError` unless the folder has the manifest of a graph store, which may be damaged."""
    if files.is_file(store) or _manifest_text(store) is None:
        raise InputError(
            f"`{files.redacted(store)}` is not a graph store, and nothing was removed",
            hint="`sssp-pipeline stores FOLDER` lists the graph stores below a folder",
        )


def remove_store(store: str) -> int:
    """Remove a graph store and return its bytes. Files that no ingest wrote stay, and the folder with them.

    The manifest goes last: if the removal is interrupted, the next ingest makes the graph again, and a second removal
    continues.

    Raises
    ------
    InputError
        It is no graph store, a process uses it, or it cannot be written.
    """
    check_is_store(store)
    with exclusive(store) as check_held:
        if not files.is_local(store):
            return _remove(store)
        with sole_lock(_locked_folder(store)) as is_sole:
            if not is_sole:
                raise InputError(
                    f"`{files.redacted(store)}` is in use by a run, and was not removed",
                    hint="wait until the run ends",
                )
            check_held()
            return _remove(store)


def _remove(store: str) -> int:
    sizes = files.file_sizes(store)
    files.remove(files.join(store, hierarchy_record.RECORD))  # it must not name parts that are gone
    names = [name for name in sizes if PART_PATH.fullmatch(name) or VERSION_FILE.fullmatch(name)]
    files.remove_files(store, [name for name in (*names, SKIPPED) if name in sizes])
    folders = [files.join(store, name) for name in (*PART_FOLDERS, VERSIONS_FOLDER)]
    for folder in (store, *folders):
        files.remove_temporaries(folder)
    files.remove(files.join(store, MANIFEST))
    for folder in folders:
        files.remove_if_empty(folder)
    return sum(sizes.values()) - sum(files.file_sizes(store).values())


def _manifest_text(store: str) -> bytes | None:
    """Return the manifest of a graph store, which may be damaged; None for any other folder."""
    text = files.read_if_there(files.join(store, MANIFEST))
    return text if text is not None and FORMAT.encode() in text else None


def _locked_folder(store: str) -> str:
    return files.join(files.filesystem(store)[1], _LOCKED)
