"""A graph in its store, read no more than needed, and the graphs that a process keeps for its tasks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from weakref import WeakValueDictionary

from sssp_pipeline.csr import CsrGraph
from sssp_pipeline.pipeline.graph_store.loading import load_graph, load_ids
from sssp_pipeline.pipeline.graph_store.machine_cache import shared_graph
from sssp_pipeline.pipeline.graph_store.store import Manifest, read_manifest
from sssp_pipeline.pipeline.machine import memory_bytes
from sssp_pipeline.vertex_ids import VertexIds


class StoredGraph:
    """A graph store that is read no more than needed: manifest first, ids and edges when asked for, each once."""

    def __init__(self, store: str, manifest: Manifest) -> None:
        self.store, self.manifest = store, manifest
        self._lock = threading.Lock()
        self._graph: CsrGraph | None = None

    @cached_property
    def ids(self) -> VertexIds:
        """The ids of its vertices."""
        return load_ids(self.store, self.manifest)

    def graph(self) -> CsrGraph:
        """Return the graph, loaded by whichever thread asks first."""
        with self._lock:
            if self._graph is None:
                self._graph = load_graph(self.store, self.manifest)
            return self._graph


class _SharedGraph(StoredGraph):
    """One whose graph and ids are there once for all processes of this machine."""

    @cached_property
    def ids(self) -> VertexIds:
        self.graph()
        return self._ids

    def graph(self) -> CsrGraph:
        with self._lock:
            if self._graph is None:
                self._graph, self._ids = shared_graph(self.store, self.manifest)
            return self._graph


class _Resident:
    """The graphs of this process by content id.

    Those kept stay while there is room; the longest unused goes first. One that a task still uses lives on without
    being kept, and is found again, so that no graph is there twice.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, StoredGraph] = {}  # the last used last
        self._alive: WeakValueDictionary[str, StoredGraph] = WeakValueDictionary()
        self._room: int | None = None

    def get(self, store: str, content_id: str) -> StoredGraph:
        with self._lock:
            if (there := self._alive.get(content_id)) is not None:
                self._keep(content_id, there)
                return there
        manifest = read_manifest(store, content_id)  # other graphs are not held up meanwhile
        with self._lock:
            there = self._alive.get(content_id) or _SharedGraph(store, manifest)
            self._keep(content_id, there)
            return there

    def _keep(self, content_id: str, stored: StoredGraph) -> None:
        self._alive[content_id] = stored
        self._kept.pop(content_id, None)
        self._kept[content_id] = stored
        while len(self._kept) > 1 and self._alive_bytes() > self.room:
            del self._kept[next(iter(self._kept))]

    def _alive_bytes(self) -> int:
        return sum(stored.manifest.graph_bytes for stored in self._alive.values())

    @property
    def room(self) -> int:
        if self._room is None:
            self._room = memory_bytes() // 2
        return self._room

    def keep_within(self, n_bytes: int) -> None:
        with self._lock:
            self._room = min(n_bytes, self.room)

    def put(self, stored: StoredGraph) -> None:
        with self._lock:
            self._alive[stored.manifest.content_id] = stored

    def drop(self, stored: StoredGraph) -> None:
        with self._lock:
            self._alive.pop(stored.manifest.content_id, None)
            self._kept.pop(stored.manifest.content_id, None)


_resident = _Resident()


def resident(store: str, content_id: str) -> StoredGraph:
    """Return a graph this process keeps, after making it one; others stay as long as there is room.

    Raises
    ------
    InputError
        The store does not hold the graph that `content_id` names.
    """
    return _resident.get(store, content_id)


def keep_within(n_bytes: int) -> None:
    """Keep no more graphs in this process than `n_bytes` hold, but for the last used; the least bound told stands."""
    _resident.keep_within(n_bytes)


@contextmanager
def lent(stored: StoredGraph) -> Iterator[None]:
    """Let the batches that are solved in this process during the block use `stored`, so that it is loaded once."""
    _resident.put(stored)
    try:
        yield
    finally:
        _resident.drop(stored)
