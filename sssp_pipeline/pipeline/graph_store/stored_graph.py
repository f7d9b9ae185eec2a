"""Stored graphs: a graph that is loaded from its store on first use, and the graphs that a process keeps loaded."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from weakref import WeakValueDictionary

from sssp_pipeline.csr import CsrGraph
from sssp_pipeline.pipeline.graph_store.loading import load_graph, load_ids
from sssp_pipeline.pipeline.graph_store.machine_cache import shared_graph
from sssp_pipeline.pipeline.graph_store.manifest import Manifest
from sssp_pipeline.pipeline.graph_store.store import read_manifest
from sssp_pipeline.pipeline.machine import memory_bytes
from sssp_pipeline.vertex_ids import VertexIds


class StoredGraph:
    """A graph in a store; its ids and its edges are each loaded once, on first use."""

    def __init__(self, store: str, manifest: Manifest) -> None:
        self.store, self.manifest = store, manifest
        self._lock = threading.Lock()
        self._graph: CsrGraph | None = None

    @cached_property
    def ids(self) -> VertexIds:
        """The ids of its vertices."""
        return load_ids(self.store, self.manifest)

    def graph(self) -> CsrGraph:
        """Return the graph; the first thread that calls this loads it, and other threads wait."""
        with self._lock:
            if self._graph is None:
                self._graph = load_graph(self.store, self.manifest)
            return self._graph


class _SharedGraph(StoredGraph):
    """A stored graph in memory that all processes of this machine share."""

    @cached_property
    def ids(self) -> VertexIds:
        self.graph()
        return self._ids

    def graph(self) -> CsrGraph:
        with self._lock:
            if self._graph is None:
                self._graph, self._ids = shared_graph(self.store, self.manifest)
            return self._graph


class _ResidentGraphs:
    """The loaded graphs of this process, by content id.

    `_kept` holds graphs as long as there is room; the longest unused graph is dropped first. A dropped graph that a
    task still uses stays in `_alive` until the task ends. It can be found there, so no graph is loaded twice.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, StoredGraph] = {}  # in the order of their last use
        self._alive: WeakValueDictionary[str, StoredGraph] = WeakValueDictionary()
        self._room: int | None = None

    def get(self, store: str, content_id: str) -> StoredGraph:
        with self._lock:
            if (there := self._alive.get(content_id)) is not None:
                self._keep(content_id, there)
                return there
        manifest = read_manifest(store, content_id)  # without the lock, so that other threads need not wait
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

    def limit_bytes(self, n_bytes: int) -> None:
        with self._lock:
            self._room = min(n_bytes, self.room)

    def put(self, stored: StoredGraph) -> None:
        with self._lock:
            self._alive[stored.manifest.content_id] = stored

    def drop(self, stored: StoredGraph) -> None:
        with self._lock:
            self._alive.pop(stored.manifest.content_id, None)
            self._kept.pop(stored.manifest.content_id, None)


_resident_graphs = _ResidentGraphs()


def resident_graph(store: str, content_id: str) -> StoredGraph:
    """Return the graph `content_id` of `store`, and keep it loaded in this process as long as there is room.

    Raises
    ------
    InputError
        The store has no graph with this `content_id`.
    """
    return _resident_graphs.get(store, content_id)


def limit_resident_bytes(n_bytes: int) -> None:
    """Limit the graphs that this process keeps to `n_bytes`; of several limits the smallest counts.

    The graph that was used last is always kept.
    """
    _resident_graphs.limit_bytes(n_bytes)


@contextmanager
def share_with_tasks(stored: StoredGraph) -> Iterator[None]:
    """Make `stored` available to the tasks of this process until the block ends, so that they do not load it again."""
    _resident_graphs.put(stored)
    try:
        yield
    finally:
        _resident_graphs.drop(stored)
