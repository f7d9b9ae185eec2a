"""Stored graphs: a graph that is loaded from its store on first use, and the graphs that a process keeps loaded."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from weakref import WeakValueDictionary

import numpy as np

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.host_memory import memory_bytes
from sssp_pipeline.base.progress import Progress, Quiet
from sssp_pipeline.base.vertex_ids import VertexIds
from sssp_pipeline.pipeline.graph_store.coordinates import LonLat, lon_lat
from sssp_pipeline.pipeline.graph_store.exports.exported_graph import COLUMNS
from sssp_pipeline.pipeline.graph_store.hierarchies import offer_stored
from sssp_pipeline.pipeline.graph_store.loading import altered_part, load_coordinates, load_graph, load_ids
from sssp_pipeline.pipeline.graph_store.machine_cache import forget_shared, shared_graph
from sssp_pipeline.pipeline.graph_store.manifest import Manifest
from sssp_pipeline.pipeline.graph_store.store import INGEST_AGAIN, graph_with, read_manifest
from sssp_pipeline.storage import files

_log = logging.getLogger(__name__)


class StoredGraph:
    """A graph in a store; its ids and its edges are each loaded once, on first use."""

    def __init__(self, store: str, manifest: Manifest) -> None:
        self.store, self.manifest = store, manifest
        self._lock, self._proving = threading.Lock(), threading.Lock()
        self._graph: CsrGraph | None = None
        #: The loaded graph of another weight.
        self._like: CsrGraph | None = None
        #: Other weights of its edges, by the content id of the graph with them.
        self._others: dict[str, np.ndarray] = {}
        self._is_proven = False

    def __repr__(self) -> str:
        n_vertices, n_edges = self.manifest.n_vertices, self.manifest.n_edges
        return f"<StoredGraph: {files.redacted(self.store)}, {n_vertices} vertices, {n_edges} edges>"

    @cached_property
    def ids(self) -> VertexIds:
        """The ids of its vertices."""
        return load_ids(self.store, self.manifest)

    @cached_property
    def _xy(self) -> tuple[np.ndarray, np.ndarray]:
        return load_coordinates(self.store, self.manifest)

    def lon_lat(self, unit: str = "auto") -> LonLat:
        """Return the longitudes and latitudes of its vertices, which are loaded on first use.

        Parameters
        ----------
        unit
            The unit of the stored coordinates: "degrees", "microdegrees", or "auto" for the one that fits.

        Raises
        ------
        InputError
            The store has no coordinates, they are not on the globe, or a file is damaged.
        """
        place, reading = files.redacted(self.store), self.manifest.reading
        if reading.format == "generated" and self.manifest.coordinates:
            raise InputError(
                f"the coordinates of `{place}` are metres on a plane, since the graph is generated",
                hint="for a map, ingest a graph with the coordinates of its vertices",
            )
        if (known := self.manifest.coordinates_unit) is not None and unit in ("auto", known):
            unit = known
        elif known is not None:
            raise InputError(
                f"the coordinates of `{place}` are in {known}, not in {unit}", hint="leave out the unit"
            )
        return lon_lat(*self._xy, unit, place)

    def graph(self) -> CsrGraph:
        """Return the graph; the first thread that calls this loads it, and other threads wait."""
        with self._lock:
            if self._graph is None:
                self._graph = load_graph(self.store, self.manifest, like=self._like)
                self._like = None
                offer_stored(self._graph, self.store, self.manifest, shared=False)
            return self._graph

    def proven(self) -> CsrGraph:
        """Return the graph after the SHA-256 of its arrays was compared with the manifest, once in this process.

        Raises
        ------
        InputError
            The store is damaged.
        """
        graph = self.graph()
        with self._proving:  # not `_lock`: tasks need the graph meanwhile
            if not self._is_proven and (path := altered_part(self.manifest, graph)) is not None:
                url = files.redacted(files.join(self.store, path))
                raise InputError(f"`{url}` has other values than the manifest says", hint=INGEST_AGAIN)
            self._is_proven = True
        return graph

    def export(
        self,
        url: str | os.PathLike[str],
        *,
        format: str | None = None,
        vertices: str | os.PathLike[str] | None = None,
        columns: Sequence[str] = COLUMNS,
        progress: Progress = Quiet(),  # noqa: B008
    ) -> list[str]:
        """Write the graph to one file of a common format, and return the names of the files written.

        Weights are written in the unit of the input. The guide `docs/guides/exports.md` shows what each format holds.

        Parameters
        ----------
        url
            A name that ends in `.mtx` (Matrix Market), `.npz` (SciPy), `.graph` or `.metis` (METIS), `.parquet` (a row
            for each edge), or `.gr` (DIMACS or Galois, so `format` is needed).
        format
            "dimacs", "galois", "matrix-market", "metis", "parquet" or "scipy-npz", where the name does not tell.
        vertices
            A `.parquet` file for a table of the vertices: `id`; `number` if the format numbers the vertices; `lon` and
            `lat`, or `x` and `y`, if the graph has coordinates.
        columns
            Names in a Parquet file: of the source, of the target and of the weight.
        progress
            Gets the number of edges that are written, and what differs from the store.

        Returns
        -------
        list of str
            `url`, and the files of coordinates and of vertices if they were written.

        Raises
        ------
        InputError
            The format is not clear, or cannot hold the graph (the message says why); a file exists or cannot be
            written; or a part of the store is damaged. Nothing is left of what was written.
        """
        from sssp_pipeline.pipeline.graph_store.exports.graph_export import export_graph

        return export_graph(
            self.store,
            self.manifest,
            os.fspath(url),
            format=format,
            vertices=None if vertices is None else os.fspath(vertices),
            columns=columns,
            progress=progress,
        )

    def other_weights(self, content_id: str) -> np.ndarray:
        """Return the weights (E,) of the graph with this content id, one of the same version of the store.

        They are loaded on first use. Raises `InputError` if the store has no such graph, or is damaged.
        """
        graph = self.graph()
        with self._lock:
            if content_id not in self._others:
                graphs = self.manifest.by_weight.values()
                found = next((each for each in graphs if each.content_id == content_id), None)
                if found is None:
                    raise InputError(
                        f"`{files.redacted(self.store)}` has no weights with the content id `{content_id}`",
                        hint=INGEST_AGAIN,
                    )
                self._others[content_id] = load_graph(self.store, found, like=graph).weights
            return self._others[content_id]

    def with_weight(self, name: str) -> StoredGraph:
        """Return the same graph with another of its weights. What is loaded of this graph is not loaded again.

        Raises
        ------
        InputError
            The store has no weight of this name.
        """
        return self.beside(graph_with(name, self.manifest, self.store))

    def beside(self, manifest: Manifest) -> StoredGraph:
        """Return the graph of another manifest of this store; it shares what is loaded here and the same there."""
        other = StoredGraph(self.store, manifest)
        mine, theirs = self.manifest, manifest
        has_own_files = mine.edge_weights is not None and theirs.edge_weights is not None
        if has_own_files and mine.row_offsets + mine.edges == theirs.row_offsets + theirs.edges:
            other._like = self._graph
        if "ids" in self.__dict__ and mine.vertices == theirs.vertices and mine.ids == theirs.ids:
            other.__dict__["ids"] = self.ids
        return other


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
                offer_stored(self._graph, self.store, self.manifest, shared=True)
            return self._graph

    def proven(self) -> CsrGraph:
        """Return the graph as `StoredGraph.proven` does; if the cache has another one, it is loaded from the store."""
        graph = self.graph()
        with self._lock:
            if not self._is_proven and not self._is_of_store(graph):
                _log.warning(
                    "the cache of this machine has another graph under the name `%s`: it is loaded from the store",
                    self.manifest.content_id,
                )
                forget_shared(self.manifest)
                self._graph, self._ids = (
                    load_graph(self.store, self.manifest),
                    load_ids(self.store, self.manifest),
                )
        return super().proven()

    def _is_of_store(self, graph: CsrGraph) -> bool:
        """Return whether the cache has the graph and the ids of the store."""
        if altered_part(self.manifest, graph) is not None:
            return False
        table = self._ids.table
        stored = load_ids(self.store, self.manifest).table
        return table is None or (stored is not None and stored.equals(table))


class _ResidentGraphs:
    """The loaded graphs of this process, by content id.

    `_kept` holds graphs as long as there is room; the longest unused graph is dropped first. A dropped graph that a
    task still uses stays in `_alive` until the task ends. It can be found there, so no graph is loaded twice.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, StoredGraph] = {}  # in the order of their last use
        self._alive: WeakValueDictionary[str, StoredGraph] = WeakValueDictionary()

    def get(self, store: str, content_id: str) -> StoredGraph:
        """Return the graph `content_id` of `store`, and keep it loaded in this process as long as there is room.

        Raises
        ------
        InputError
            The store has no graph with this `content_id`.
        """
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
        while len(self._kept) > 1 and self._alive_bytes() > self._room:
            del self._kept[next(iter(self._kept))]

    def _alive_bytes(self) -> int:
        return sum(stored.manifest.graph_bytes for stored in self._alive.values())

    @cached_property
    def _room(self) -> int:
        return memory_bytes() // 2

    def limit_bytes(self, n_bytes: int) -> None:
        """Limit the graphs that this process keeps to `n_bytes`; of several limits the smallest counts.

        The graph that was used last is always kept.
        """
        with self._lock:
            self._room = min(n_bytes, self._room)

    @contextmanager
    def sharing(self, stored: StoredGraph) -> Iterator[None]:
        """Give `stored` to the tasks of this process until the block ends, so that they do not load it again."""
        content_id = stored.manifest.content_id
        with self._lock:
            self._alive[content_id] = stored
        try:
            yield
        finally:
            with self._lock:
                self._alive.pop(content_id, None)
                self._kept.pop(content_id, None)


_resident_graphs = _ResidentGraphs()
resident_graph = _resident_graphs.get
limit_resident_bytes = _resident_graphs.limit_bytes
share_with_tasks = _resident_graphs.sharing
