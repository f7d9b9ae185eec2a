"""A finished run: distances, metrics and paths are read from its folder, as few bytes of it as a question needs."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sssp_pipeline.api.calls.argument_names import naming, of_solve
from sssp_pipeline.api.distances.pair_paths import PairPaths, Take, ends_in_run, search_graph
from sssp_pipeline.api.distances.paths import Path, PathTree, Store
from sssp_pipeline.api.distances.solving import solve
from sssp_pipeline.base.errors import InputError, UnknownIdError
from sssp_pipeline.base.vertex_ids import listed
from sssp_pipeline.pipeline.formats.vertex_files.pair_lists import naming_lines
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.results.exports.areas.isochrones import BUFFER_M, Isochrones
from sssp_pipeline.pipeline.results.exports.matrices.matrix_export import COLUMNS, export_matrix
from sssp_pipeline.pipeline.results.folder.graph_of_run import graph_of_run
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.pipeline.results.stored import StoredResults
from sssp_pipeline.storage import files


@naming(of_solve)
def open_run(url: str | os.PathLike[str]) -> StoredRun:
    """Return the finished run in the folder `url`. Only its `run.json` is read.

    Parameters
    ----------
    url
        A path, or any URL that fsspec knows.

    Raises
    ------
    InputError
        There is no run, it is not finished, or its `run.json` is damaged.

    Examples
    --------
    >>> graph = {"input": "workflows/data/places.csv", "directed": False}
    >>> run = sp.run({"graph": graph, "sources": {"ids": ["Bralister"]}, "output": {"path": "results"}})
    >>> run = sp.open_run("results")
    >>> run.path("Bralister", "Ulombe")
    ['Bralister', 'Ulombe']
    """
    folder = RunFolder(os.fspath(url))
    return StoredRun(folder, folder.read_run())


class StoredRun:
    """A finished run.

    Attributes
    ----------
    record
        The content of `run.json`.
    """

    def __init__(self, folder: RunFolder, record: dict[str, Any]) -> None:
        self.record = record
        self._results = StoredResults(folder, record)
        #: The store that was asked for, and the graph.
        self._graph: tuple[str | None, StoredGraph] | None = None
        #: The source and the store of the last path, and what finds more paths from that source.
        self._last: tuple[Any, Callable[[Any], Path]] | None = None

    @property
    def url(self) -> str:
        """The folder, without credentials."""
        return self._results.url

    def __repr__(self) -> str:
        return f"<StoredRun: {self.url}, {self.record['sources']} {self._results.output.searched}s>"

    @property
    def metrics(self) -> pa.Table:
        """A row for each search: for each source, or each target of a run that searched from its targets.

        `docs/guides/results.md` lists the columns.

        Raises `InputError` if the file is gone or damaged.
        """
        return self._results.metrics

    @property
    def overall(self) -> dict[str, Any]:
        """Numbers over all sources: `largest_distance`, and `histogram` if the run has one.

        The first is the largest distance from a source to a vertex that it reaches; None without sources. If every
        vertex is a source and reaches every vertex, there are `diameter` and `radius` too. The histogram has a
        dictionary for each bucket, with `from`, `to` and `count`.
        """
        return dict(self.record.get("overall", {}))

    @property
    def sources(self) -> pa.Array:
        """The ids of the sources, (S,), in the order of the run; of pairs, in the order in which each comes first."""
        return self._results.sources

    @property
    def vertex_type(self) -> pa.DataType:
        """The type of the ids of vertices. It may differ from the type of `sources` if the run has points."""
        return self._results.vertex_type

    @naming(str)
    def distances(self, sources: Any = None, vertices: Any = None) -> pa.Table:
        """Return distances as a table with the columns `source`, `vertex`, `distance`, and `predecessor` if stored.

        Only the files and the row groups that can hold them are read. In the long layout a row group has about
        four million rows, in the wide one a million vertices of each source.

        Parameters
        ----------
        sources
            Ids of sources: one, or any sequence. None means every source.
        vertices
            Ids of vertices, in the same way.

        Returns
        -------
        pyarrow.Table
            Rows in the order in which they are stored. `.to_pandas()` makes a data frame. Unreached vertices have
            NULL, or the number in `output.unreached`. A run with `output.distances: reached` has no rows for them.

        Raises
        ------
        InputError
            The run has no such source or vertex, it stored no distances, or a file is damaged.
        """
        return self._results.distances(sources, vertices)

    @naming(str)
    def answers(self, sources: Any = None) -> pa.Table:
        """Return what a run with `output.distances: reduced` or `nearest` stored, in the order of the run.

        Parameters
        ----------
        sources
            Ids of sources: one, or any sequence. None means every source.

        Raises
        ------
        InputError
            The run has no such source, it stored no answers, or a file is damaged.
        """
        return self._results.answers(sources)

    def per_vertex(self) -> pa.Table:
        """Return `vertices.parquet`: what a run with `output.reduce.per_vertex` stored of each vertex over all sources.

        Raises `InputError` if there is none, or it is damaged.
        """
        return self._results.per_vertex()

    def per_edge(self) -> pa.Table:
        """Return `edges.parquet`: what a run with `output.reduce.per_edge` stored of each edge; raises likewise."""
        return self._results.per_edge()

    @naming(str)
    def path(self, source: Any, target: Any, *, store: Store | None = None) -> Path:
        """Return the ids of the vertices of a shortest path, both ends included; empty if `target` is unreached.

        It is a list with the attribute `length` and the methods `cost` and `geojson`. The predecessors of the run are
        used if it has some. Otherwise the source is solved again on the graph store, with the cutoff of the run; the
        next path from the same source needs no search.

        Parameters
        ----------
        source
            The id of a source of the run.
        target
            The id of any vertex; of a target, if the targets of the run are points.
        store
            The graph store, or its path or URL. None takes the one the run used: where the workflow named it, or else
            where it lies seen from the run folder. It is needed if the run has no predecessors, and for coordinates.

        Raises
        ------
        InputError
            The run has no such source, or its graph no such vertex; the graph store is needed and is gone or holds
            another graph; or a file is damaged.
        """
        self._results.wanted(source)
        key = source, store
        if self._last is None or self._last[0] != key:
            self._last = key, self._paths_from(source, partial(self.graph, store))
        found = self._last[1](self._results.vertex_at(target, "target"))
        ends = (source, self.sources.type), (target, self.vertex_type)
        return found and found.with_ends(*(self._results.typed(*end)[0].as_py() for end in ends))

    def paths(self, pairs: Any, *, store: Store | None = None) -> pa.Table:
        """Return a shortest path for each of many pairs, with one search for each source.

        Parameters
        ----------
        pairs
            A table with the columns `source` and `target` (of Arrow, pandas, Polars, …), a sequence of (source,
            target), or the path or URL of a file, as for `distances_of_pairs`. The ids are those that `path` takes.
        store
            As for `path`.

        Returns
        -------
        pyarrow.Table
            A row for each pair, in their order: `source`, `target`, `distance`, and `path`, the list of the ids of its
            vertices, both ends included. Without a path, distance and path are NULL.

        Raises
        ------
        InputError
            As `path`; or `pairs` are no pairs.
        """
        return self.paths_to_write(pairs, store).table()

    @naming(str)
    def paths_to_write(self, pairs: Any, store: Store | None) -> PairPaths:
        """Return what `paths` puts into a table, for a file; raises in the same way. `pairs` as for `ends_in_run`."""
        ids, reading = ends_in_run(pairs, (self.sources.type, self.vertex_type), self._results.typed)
        with naming_lines(reading, ids):
            return self._paths_between(ids, store)

    def _paths_between(self, ids: tuple[pa.Array, pa.Array], store: Store | None) -> PairPaths:
        results = self._results
        if any(some.null_count for some in ids):
            raise InputError("a pair has no source or no target", hint="leave out the rows without an id")
        results.wanted(ids[0])
        ends = results.vertices_at(ids[0], "source"), results.vertices_at(ids[1], "target")
        if not results.output.form.predecessors:
            stored = self.graph(store)
            vertices = []
            for some, what in zip(ends, ("source", "target"), strict=True):
                encoded = some.dictionary_encode()
                found = stored.ids.vertices(encoded.dictionary.to_pylist(), what)
                vertices.append(found[encoded.indices.to_numpy()])
            search = partial(search_graph, stored, self.record["identity"]["cutoff"])
            names = stored.ids.column()
        else:
            names = self.distances(self.sources[0].as_py())["vertex"].combine_chunks()
            places = [pc.index_in(some.cast(names.type), value_set=names) for some in ends]
            if places[1].null_count:
                unknown = ends[1].filter(places[1].is_null()).unique().to_pylist()
                message = f"target {listed(unknown)} is not in the run `{self.url}`"
                hint = "name vertices of its graph"
                raise UnknownIdError(message, unknown=unknown[0], role="target", hint=hint)
            vertices = [some.to_numpy() for some in places]
            search = partial(
                self._read_predecessors,
                names,
                dict(zip(vertices[0].tolist(), ids[0].to_pylist(), strict=True)),
            )
        return PairPaths(
            ids,
            (vertices[0], vertices[1]),
            names,
            results.dtype,
            search,
            lambda unit: self.graph(store).lon_lat(unit),
        )

    def _read_predecessors(
        self, names: pa.Array, source_at: dict[int, Any], starts: np.ndarray, take: Take
    ) -> None:
        """Give `take` what the run stores of the sources at the vertices `starts`."""
        for start in starts.tolist():
            rows = self.distances(source_at[start])
            before = pc.index_in(rows["predecessor"], value_set=names).fill_null(-1)
            # -1 becomes `NO_VERTEX`.
            take(start, rows["distance"].fill_null(0).to_numpy(), before.to_numpy().astype(np.uint32))

    @naming(str)
    def graph(self, store: Store | None = None) -> StoredGraph:
        """Return the graph of the run, in the version that the run used. Its edges are loaded on first use.

        Parameters
        ----------
        store
            As for `path`.

        Raises
        ------
        InputError
            The graph store is gone, or it holds another graph.
        """
        content_id = self.record["identity"]["graph"]
        if isinstance(store, StoredGraph):
            if store.manifest.content_id != content_id:
                raise InputError(
                    f"`{files.redacted(store.store)}` does not hold the graph of the run `{self.url}`",
                    hint="name the store that the run was solved on",
                )
            return store
        url = None if store is None else os.fspath(store)
        if self._graph is None or self._graph[0] != url:
            self._graph = url, graph_of_run(self._results.folder.url, self.record, url)
        return self._graph[1]

    def _paths_from(self, source: Any, graph: Callable[[], StoredGraph]) -> Callable[[Any], Path]:
        """Return a function that returns the path from `source` to a vertex."""
        start = self._results.vertex_at(source, "source")
        if not self._results.output.form.predecessors:
            solved = solve(graph(), start, cutoff=self.record["identity"]["cutoff"], predecessors=True)
            return partial(solved.path, start)
        rows = self.distances(source)
        vertices, lengths = rows["vertex"].combine_chunks(), rows["distance"]
        before = pc.index_in(rows["predecessor"], value_set=vertices).fill_null(-1)
        # -1 becomes `NO_VERTEX`.
        tree = PathTree(None, before.to_numpy().astype(np.uint32))

        def path(target: Any) -> Path:
            ends = pc.index_in(
                self._results.typed([start, target], vertices.type), value_set=vertices
            ).to_pylist()
            if None in ends:
                raise InputError(
                    f"vertex `{target}` is not in the run `{self.url}`", hint="name a vertex of its graph"
                )
            if not (found := tree.path(*ends)):
                return Path()
            ids = vertices.take(pa.array(found, pa.int64())).to_pylist()
            return Path(ids, lengths[ends[1]].as_py(), self.record["graph"]["weights"]["unit"], graph)

        return path

    @naming(str)
    def export(
        self,
        url: str | os.PathLike[str],
        *,
        columns: Sequence[str] = COLUMNS,
        sparse: bool = False,
        unreached: float | None = None,
    ) -> None:
        """Write the distances to one file or Zarr group: a matrix with a row for each source, in the order of the run.

        Answers, and distances to reached vertices only, become a table with the rows that the run has.

        Parameters
        ----------
        url
            A name that ends in `.parquet`, `.csv` or `.csv.gz` (a table: a row for each pair), or in `.npy`, `.zarr` or
            `.omx` (an array (S, n); Zarr and OMX have the ids too).
        columns
            Names in a table: of the source, of the vertex and of the distance.
        sparse
            Leave out the pairs without a path; only in a table.
        unreached
            The number that stands for "no path". Without it a table has NULL, and an array of floats infinity.

        Raises
        ------
        InputError
            The run has metrics only, the options contradict each other, the file exists, or an array of integers has
            a pair without a path and `unreached` is None. Or a package for the format is missing.
        """
        export_matrix(
            self._results.folder, os.fspath(url), columns=columns, sparse=sparse, unreached=unreached
        )

    def isochrones(
        self,
        limits: Sequence[float],
        sources: Any = None,
        *,
        buffer_m: float = BUFFER_M,
        coordinates: str = "auto",
        store: Store | None = None,
    ) -> pa.Table:
        """Return the area that is reached within each limit, for each source: a table that is a GeoParquet file.

        A place is in the area if it is at most `buffer_m` metres from a reached part of an edge. The guide
        `docs/guides/isochrones.md` says more. `pyarrow.parquet.write_table` writes the table as valid GeoParquet.

        Parameters
        ----------
        limits
            Distances in the unit of the weights, such as `[600, 1200]`.
        sources
            Ids of sources: one, or any sequence. None means every source.
        buffer_m
            In metres.
        coordinates
            "degrees", "microdegrees" (millionths of a degree, as in the DIMACS road networks), or "auto" for the unit
            that fits the numbers.
        store
            As for `path`.

        Returns
        -------
        pyarrow.Table
            A row for each source and limit: `source`, `limit`, `geometry` (WKB, a Polygon or MultiPolygon in
            longitude and latitude), `bbox`. Sources have the order of the run, limits ascend.

        Raises
        ------
        InputError
            The run has no such source, or not the distances to all vertices; a limit is above the cutoff, or it is no
            number; the graph store is gone, has no coordinates or has negative weights; an isochrone is around
            a pole; or shapely is missing.
        """
        return self.isochrones_to_write(limits, sources, buffer_m, coordinates, store).table()

    def isochrones_to_write(
        self, limits: Sequence[float], sources: Any, buffer_m: float, coordinates: str, store: Store | None
    ) -> Isochrones:
        """Return what `isochrones` puts into a table, for a file; raises in the same way."""
        wanted = None if sources is None else self._results.wanted(sources)
        stored = self.graph(store)
        if not self._results.output.has_all_reached:
            raise InputError(
                f"`{self.url}` does not hold the distances to every reached vertex, which isochrones need",
                hint="run it with `output.distances: full` or `reached`, and without `output.targets`",
            )
        return Isochrones(
            stored,
            partial(self._results.rows, stored.ids, wanted),
            self.sources if wanted is None else wanted,
            limits,
            self.record["identity"]["cutoff"],
            buffer_m=buffer_m,
            coordinates=coordinates,
        )
