"""A graph in its store, read no more than needed, and the one of them that a process keeps for its batches."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

from sssp_pipeline.csr import CsrGraph
from sssp_pipeline.errors import InputError
from sssp_pipeline.pipeline import storage
from sssp_pipeline.pipeline.graph_store import Manifest, load_graph, load_ids, read_manifest
from sssp_pipeline.pipeline.vertex_ids import VertexIds


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


class _Resident:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stored: StoredGraph | None = None

    def get(self, store: str, content_id: str) -> StoredGraph:
        with self._lock:
            there = self._stored
            if there is None or (there.store, there.manifest.content_id) != (store, content_id):
                self._stored = None  # the old graph goes before the new one comes
                manifest = read_manifest(store)
                if manifest.content_id != content_id:
                    raise InputError(
                        f"`{storage.redacted(store)}` was ingested anew during the run",
                        hint="run the same command again",
                    )
                self._stored = there = StoredGraph(store, manifest)
            return there

    def put(self, stored: StoredGraph | None) -> None:
        with self._lock:
            self._stored = stored


_resident = _Resident()


def resident(store: str, content_id: str) -> StoredGraph:
    """Return the graph this process keeps, one at a time, after making it the one in `store`.

    Raises
    ------
    InputError
        The store does not hold the graph that `content_id` names.
    """
    return _resident.get(store, content_id)


@contextmanager
def lent(stored: StoredGraph) -> Iterator[None]:
    """Let the batches that are solved in this process during the block use `stored`, so that it is loaded once."""
    _resident.put(stored)
    try:
        yield
    finally:
        _resident.put(None)
