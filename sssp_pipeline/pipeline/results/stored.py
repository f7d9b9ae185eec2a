"""The only reader of what a finished run stores: these sources, these vertices, in whatever layout.

The files are opened with their checksums, which `run.json` has. As few bytes of them are read as a question needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.errors import InputError, UnknownIdError
from sssp_pipeline.base.vertex_ids import VertexIds, listed
from sssp_pipeline.pipeline.formats.arrow_compute import pc
from sssp_pipeline.pipeline.results.folder import snapped
from sssp_pipeline.pipeline.results.folder.distance_files import opened
from sssp_pipeline.pipeline.results.folder.run_files import EDGES_FILE, REPAIR, SOURCES_FILE, VERTICES_FILE
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.pipeline.results.layouts.layout import Block, FilesOfSources, StoredRow
from sssp_pipeline.pipeline.results.outputs.outputs import recorded_output
from sssp_pipeline.storage import files


class StoredResults:
    """What a finished run stores of its sources.

    Parameters
    ----------
    folder
        It knows the checksums of the files.
    record
        The content of run.json.
    metrics
        The content of `metrics.parquet`; None to read it when it is needed.
    """

    def __init__(self, folder: RunFolder, record: dict[str, Any], metrics: pa.Table | None = None) -> None:
        self.folder, self._record, self._metrics = folder, record, metrics
        self.output = recorded_output(record)

    @property
    def url(self) -> str:
        """The folder, without credentials."""
        return files.redacted(self.folder.url)

    @cached_property
    def metrics(self) -> pa.Table:
        """A row for each search. Raises `InputError` if the file is missing or damaged."""
        return self.folder.read_metrics() if self._metrics is None else self._metrics

    @property
    def sources(self) -> pa.Array:
        """The ids of the sources, (S,), in the order of the run; of pairs, in the order in which each comes first."""
        if self.output.is_in_input_order:
            return self._sources_of_pairs
        return self._of_sources["source"].combine_chunks()

    @property
    def batches(self) -> np.ndarray:
        """The number of the file or files of each source, (S,) int64, ascending."""
        found: np.ndarray = self._of_sources["batch"].to_numpy()
        return found

    @cached_property
    def _sources_of_pairs(self) -> pa.Array:
        parts = []
        for stored in self.folder.stored_batch(0):
            with opened(stored) as file:
                parts.append(file.read(columns=["source"], use_threads=False)["source"].unique())
        return pa.chunked_array(parts).unique()

    @cached_property
    def _of_sources(self) -> pa.Table:
        """As `RunFolder.read_sources` returns it."""
        return self.folder.read_sources() if SOURCES_FILE in self.folder.sums else self.metrics

    @property
    def _weight_dtype(self) -> np.dtype:
        return np.dtype(self._record["graph"]["weights"]["dtype"])

    @property
    def dtype(self) -> np.dtype:
        """The type of stored distances."""
        return self.output.form.dtype(self._weight_dtype)

    @property
    def n_columns(self) -> int:
        """How many values are stored of each source."""
        return self.output.n_columns(self._record["graph"]["n_vertices"])

    # ---- ids ----

    @cached_property
    def _points(self) -> dict[str, pa.Table]:
        """The columns `id` and `vertex` of the points that are the sources or the targets, by role."""
        if "snapped" not in self._record["identity"]:
            return {}
        table = self.folder.read_points(self._record["identity"])
        found = {role: snapped.ids_of(table, role) for role in ("source", "target")}
        return {role: points for role, points in found.items() if points is not None}

    @property
    def vertex_type(self) -> pa.DataType:
        """The type of the ids of vertices in tables of distances."""
        if "target" in self._points:
            return self._points["target"]["id"].type
        if "source" not in self._points:
            return self.sources.type
        return pa.type_for_alias(self._record["graph"]["ids"]["type"])

    def vertex_at(self, point: Any, role: str) -> Any:
        """Return the vertex id of a point, which is a "source" or a "target"; without points, the id itself.

        Raises `InputError` if the run has no such point.
        """
        if role not in self._points:
            return point
        return self.vertices_at(self.typed(point, self._points[role]["id"].type), role)[0].as_py()

    def vertices_at(self, ids: pa.Array, role: str) -> pa.Array:
        """Return the vertex ids of points (n,), which are "source" or "target"; without points, the ids themselves.

        Raises `InputError` if the run lacks one.
        """
        if role not in self._points:
            return ids
        points = self._points[role]
        places = pc.index_in(ids, value_set=points["id"])
        if places.null_count:
            unknown = ids.filter(places.is_null()).unique().to_pylist()
            raise UnknownIdError(
                f"{role} {listed(unknown)} is not in the run `{self.url}`",
                unknown=unknown[0],
                role=role,
                hint=f"its {role}s are {listed(points['id'].to_pylist())}",
            )
        return points["vertex"].combine_chunks().take(places)

    def typed(self, given: Any, kind: pa.DataType) -> pa.Array:
        """Return `given`, one id or a sequence, as ids of a type; an id of another type is an `InputError`."""
        if isinstance(given, pa.Array) and given.type == kind:
            return given
        if isinstance(given, str | int | np.integer):
            given = [given]
        listable = given.tolist() if hasattr(given, "tolist") else list(given)
        try:
            return pa.array(listable, kind)
        except (pa.ArrowException, TypeError, OverflowError) as error:
            what = "integers" if pa.types.is_integer(kind) else "strings"
            raise InputError(
                f"the ids {listed(listable)} are not those of the run `{self.url}`, whose ids are {what}",
                hint=f"its sources are {listed(self.sources.to_pylist())}",
            ) from error

    def wanted(self, sources: Any) -> pa.Array:
        """Return the ids of `sources`, or of all for None; raise `InputError` if the run lacks one."""
        wanted = self.sources if sources is None else self.typed(sources, self.sources.type).unique()
        unknown = wanted.filter(pc.invert(pc.is_in(wanted, value_set=self.sources))).to_pylist()
        if unknown:
            raise UnknownIdError(
                f"source {listed(unknown)} is not in the run `{self.url}`",
                unknown=unknown[0],
                role="source",
                hint=f"its sources are {listed(self.sources.to_pylist())}",
            )
        return wanted

    # ---- tables ----

    def distances(self, sources: Any, vertices: Any) -> pa.Table:
        """Return the distances from some sources to some vertices, as `StoredRun.distances` describes them."""
        if (refusal := self.output.without_distances) is not None:
            holds, hint = refusal
            raise InputError(f"`{self.url}` holds {holds}", hint=hint)
        wanted = self.wanted(sources)
        of_vertices = None if vertices is None else self.typed(vertices, self.vertex_type)
        schema = self._schema
        parts = (rows.cast(schema) for rows in self.tables(wanted, of_vertices))
        table = pa.concat_tables([schema.empty_table(), *parts])
        if of_vertices is not None and len(wanted) and self.output.is_matrix:
            there = table["vertex"].combine_chunks()
            missing = of_vertices.filter(pc.invert(pc.is_in(of_vertices, value_set=there)))
            if len(missing):
                raise InputError(
                    f"vertex {listed(missing.to_pylist())} is not in the run `{self.url}`",
                    hint="name vertices of its graph, or its targets",
                )
        return table

    @property
    def _schema(self) -> pa.Schema:
        """The columns of tables of distances."""
        kind = self.vertex_type
        columns = [
            ("source", self.sources.type),
            ("vertex", kind),
            ("distance", pa.from_numpy_dtype(self.dtype)),
        ]
        form = self.output.form
        for cost in form.along:
            columns.append((cost.name, pa.from_numpy_dtype(cost.form(form).dtype(np.dtype(cost.dtype)))))
        return pa.schema([*columns, ("predecessor", kind)] if form.predecessors else columns)

    def answers(self, sources: Any) -> pa.Table:
        """Return the answers of some sources, as `StoredRun.answers` describes them."""
        if not self.output.has_answers:
            raise InputError(
                f"`{self.url}` holds no answers", hint="`.distances()` or `.metrics` have what it holds"
            )
        return pa.concat_tables(self._tables_of_answers(sources))

    def _tables_of_answers(self, sources: Any) -> Iterator[pa.Table]:
        """Yield the answers of some sources, or of all for None. Pairs keep the order of their file."""
        if self.output.is_in_input_order:
            yield from self._tables_of_pairs(sources)
            return
        wanted = self.wanted(sources)
        for stored in [each.stored for each in self._files_with(wanted)] or [self.folder.stored_batch(0)]:
            with opened(*stored) as file:
                rows = file.read(use_threads=False)
            yield rows.filter(pc.is_in(rows["source"].cast(self.sources.type), value_set=wanted))

    def all_tables(self) -> Iterator[pa.Table]:
        """Yield the answers or the distances of all sources, at least one table, in the order of the run."""
        if self.output.has_answers:
            yield from self._tables_of_answers(None)
            return
        yield self._schema.empty_table()
        for rows in self.tables(self.sources):
            yield rows.cast(self._schema)

    def _tables_of_pairs(self, sources: Any) -> Iterator[pa.Table]:
        for stored in self.folder.stored_batch(0):
            with opened(stored) as file:
                rows = file.read(use_threads=False)
            if sources is not None:
                rows = rows.filter(pc.is_in(rows["source"], value_set=self.wanted(sources)))
            yield rows

    def per_vertex(self) -> pa.Table:
        """Return `vertices.parquet`, as `StoredRun.per_vertex` describes it."""
        return self._over_sources(VERTICES_FILE, "vertex")

    def per_edge(self) -> pa.Table:
        """Return `edges.parquet`, as `StoredRun.per_edge` describes it."""
        return self._over_sources(EDGES_FILE, "edge")

    def _over_sources(self, name: str, what: str) -> pa.Table:
        if name not in self.folder.sums:
            raise InputError(
                f"`{self.url}` holds nothing of each {what} over all sources",
                hint=f"run it with `output.reduce.per_{what}`",
            )
        with opened(self.folder.stored(name)) as file:
            return file.read()

    def tables(
        self, sources: pa.Array, vertices: pa.Array | None = None, columns: Sequence[str] | None = None
    ) -> Iterator[pa.Table]:
        """Yield the stored rows of some sources and vertices, as `DistanceLayout.tables` does for some files."""
        for each in self._files_with(sources):
            there = each.sources.filter(pc.is_in(each.sources, value_set=sources))
            yield from self.output.layout.tables(each.stored, there, vertices, columns)

    # ---- rows ----

    def rows(self, ids: VertexIds, sources: pa.Array | None = None) -> Iterator[StoredRow]:
        """Yield the id of each of some sources and what is stored of its row, in the order of the run.

        Distances are as they were solved. `ids` are the ids of the graph; None means all sources.

        Raises
        ------
        InputError
            A file is damaged.
        """
        named = self.folder.named_ids(ids, self._record["identity"])
        for each in self._files_with(sources):
            places = np.arange(len(each.sources))
            if sources is not None:
                places = places[_is_in(each.sources, sources)]
            rows = self.output.read(each.stored, places.tolist(), named, self._weight_dtype)
            for place in places.tolist():
                name, row = next(rows, (-1, None))
                if name != each.sources[place].as_py():
                    raise InputError(
                        f"`{files.redacted(each.stored[0].url)}` is damaged: it holds source `{name}`, "
                        f"not `{each.sources[place]}`",
                        hint=REPAIR,
                    )
                yield name, row

    def blocks(self, n_bytes: int) -> Iterator[Block]:
        """Yield the matrix of all distances, in blocks of about `n_bytes` in memory."""
        n_rows = max(1, n_bytes // (self.n_columns * self.dtype.itemsize))
        return self.output.layout.blocks(list(self._files_with(None)), self.n_columns, n_rows)

    def _files_with(self, wanted: pa.Array | None) -> Iterator[FilesOfSources]:
        """Yield the files that hold some of the `wanted` sources, in the order of the run; None means all sources."""
        sources, batch = self.sources, self.batches
        if self.folder.wide_names():
            batch = np.zeros(len(batch), np.int64)
        for number in np.unique(batch if wanted is None else batch[_is_in(sources, wanted)]).tolist():
            first, end = np.searchsorted(batch, [number, number + 1]).tolist()
            yield FilesOfSources(self.folder.stored_batch(number), sources[first:end])


def _is_in(ids: pa.Array, wanted: pa.Array) -> np.ndarray:
    """Return which of `ids` (n,) are `wanted`, (n,) bool."""
    found: np.ndarray = pc.is_in(ids, value_set=wanted).to_numpy(zero_copy_only=False)
    return found
