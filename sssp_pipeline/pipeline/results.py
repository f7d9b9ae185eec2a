"""The folder a run writes: distances batch by batch, metrics, and `run.json`, which commits the whole.

```
<run>/run.json                       written last
<run>/distances/batch-*.parquet      a batch is there whole, or not at all
<run>/metrics.parquet                a row a source
<run>/report.html
<run>/_run/                          only while the run is unfinished: its identity, and the metrics so far
```

A batch's metrics are written before its distances: where the distances are, the batch is done. Readers such as
Spark, Dask and DuckDB leave out names that begin with an underscore or a dot.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sssp_pipeline.csr import NO_VERTEX, unreached_distance
from sssp_pipeline.errors import InputError, UnsolvableError
from sssp_pipeline.kernels.solver import Solution, SourceMetrics
from sssp_pipeline.pipeline import storage
from sssp_pipeline.pipeline.graph_store import VertexIds

RUN_FILE = "run.json"
METRICS_FILE = "metrics.parquet"
REPORT_FILE = "report.html"
_UNFINISHED = "_run"
_IDENTITY = f"{_UNFINISHED}/identity.json"

#: Rows of one row group in the long layout, at least one source; a reader of one source skips the others.
LONG_GROUP_ROWS = 2**20
WIDE_GROUP_ROWS = 2**20


@dataclass(frozen=True)
class BatchMetrics:
    """What `SourceMetrics` says of one source, and where it was solved.

    `source` is the input's own id; `device` is the name of the GPU, or the CPU's.
    """

    source: int | str
    batch: int
    worker: str
    device: str
    attempts: int
    solver: str
    solve_s: float
    vertices_processed: int
    edges_relaxed: int
    reached: int
    max_distance: float
    teps: float
    delta_first: float | None
    delta_last: float | None
    delta_changes: int


_METRIC_TYPES = {"int": pa.int64(), "float": pa.float64(), "str": pa.string(), "float | None": pa.float64()}


@dataclass(frozen=True)
class DistanceFormat:
    """How distances are written; part of a run's identity."""

    layout: str
    unreached: float | None
    compression: str
    predecessors: bool


class RunFolder:
    """The run folder at one URL: what is committed there, and how to commit more."""

    def __init__(self, url: str) -> None:
        storage.filesystem(url)  # an unknown scheme is told with the URL the user gave
        self.url = url

    def path(self, *names: str) -> str:
        """Return the URL of a file in the folder."""
        return storage.join(self.url, *names)

    def batch_path(self, batch: int) -> str:
        """Return the URL of the distances of a batch."""
        return self.path("distances", f"batch-{batch:05d}.parquet")

    def _batch_metrics_path(self, batch: int) -> str:
        return self.path(_UNFINISHED, f"metrics-{batch:05d}.parquet")

    def begin(self, identity: dict[str, Any]) -> bool:
        """Claim the folder for the run that `identity` describes; return whether that run is already finished.

        Raises
        ------
        InputError
            The folder holds another run, or cannot be written.
        """
        finished = storage.exists(self.path(RUN_FILE))
        if finished:
            there = self.read_run()["identity"]
        elif storage.exists(self.path(_IDENTITY)):
            there = json.loads(storage.read_bytes(self.path(_IDENTITY)))
        elif storage.list_files(self.path("distances")):
            raise InputError(
                f"`{storage.redacted(self.url)}` holds distances of a run that is not known",
                hint="choose another `output.path`, or remove the folder",
            )
        else:
            storage.write_atomic(self.path(_IDENTITY), json.dumps(identity, indent=1).encode())
            return False
        differ = [
            key for key in sorted(identity.keys() | there.keys()) if identity.get(key) != there.get(key)
        ]
        if differ:
            raise InputError(
                f"`{storage.redacted(self.url)}` holds another run: it differs in {', '.join(differ)}",
                hint="choose another `output.path`, or remove the folder",
            )
        return finished

    def is_begun(self) -> bool:
        """Return whether the folder holds a run, finished or not."""
        return storage.exists(self.path(RUN_FILE)) or storage.exists(self.path(_IDENTITY))

    def unfinished(self) -> int | None:
        """Return how many batches of an unfinished run are committed, or None where there is no such run."""
        if storage.exists(self.path(RUN_FILE)) or not self.is_begun():
            return None
        return len(self.committed())

    def clean(self) -> None:
        """Remove what killed workers left half-written."""
        storage.remove_temporaries(self.url)

    def abandon(self) -> None:
        """Remove all that an unfinished run wrote."""
        for name in ("distances", _UNFINISHED, METRICS_FILE):
            storage.remove(self.path(name))
        storage.remove_if_empty(self.url)

    def committed(self) -> set[int]:
        """Return the numbers of the batches that are done."""
        names = storage.list_files(self.path("distances"))
        return {int(n[len("batch-") : -len(".parquet")]) for n in names if n.startswith("batch-")}

    def commit_batch(
        self,
        batch: int,
        sources: np.ndarray,
        solution: Solution,
        metrics: list[BatchMetrics],
        ids: VertexIds,
        form: DistanceFormat,
    ) -> None:
        """Write a batch's metrics, then its distances, which commit it."""
        with storage.open_atomic(self._batch_metrics_path(batch)) as handle:
            pq.write_table(metrics_table(metrics, ids.mapping.type), handle)
        with storage.open_atomic(self.batch_path(batch)) as handle:
            write_distances(handle, sources, solution, ids, form)

    def finish_metrics(self, n_batches: int) -> pa.Table:
        """Write `metrics.parquet` from the metrics of all batches and return it."""
        if not storage.exists(self.path(_IDENTITY)):
            return self.read_metrics()
        tables = []
        for batch in range(n_batches):
            tables.append(pq.read_table(pa.BufferReader(storage.read_bytes(self._batch_metrics_path(batch)))))
        table = pa.concat_tables(tables)
        with storage.open_atomic(self.path(METRICS_FILE)) as handle:
            pq.write_table(table, handle)
        return table

    def read_metrics(self) -> pa.Table:
        """Return the metrics of a finished run, a row a source."""
        return pq.read_table(pa.BufferReader(storage.read_bytes(self.path(METRICS_FILE))))

    def finish(self, run: dict[str, Any]) -> None:
        """Write `run.json`, which commits the run, and remove what only an unfinished run needs."""
        storage.write_atomic(self.path(RUN_FILE), json.dumps(run, indent=1, allow_nan=False).encode())
        storage.remove(self.path(_UNFINISHED))

    def read_run(self) -> dict[str, Any]:
        """Return the content of `run.json`.

        Raises
        ------
        InputError
            There is none, or it is damaged.
        """
        url = self.path(RUN_FILE)
        if not storage.exists(url):
            unfinished = self.unfinished() is not None
            raise InputError(
                f"`{storage.redacted(self.url)}` "
                + ("is an unfinished run" if unfinished else "is not a run"),
                hint="finish it by the same `sssp-pipeline run` command"
                if unfinished
                else "name an `output.path`",
            )
        try:
            run: dict[str, Any] = json.loads(storage.read_bytes(url))
        except ValueError as error:
            raise InputError(f"`{storage.redacted(url)}` is damaged: {error}") from error
        if run.get("format") != RUN_FORMAT or run.get("version") != RUN_VERSION:
            raise InputError(
                f"`{storage.redacted(url)}` is of format {run.get('format')!r} {run.get('version')}, "
                f"this release reads {RUN_FORMAT!r} {RUN_VERSION}"
            )
        return run


RUN_FORMAT = "sssp-pipeline run"
RUN_VERSION = 1


def metrics_table(metrics: list[BatchMetrics], id_type: str) -> pa.Table:
    """Return `metrics` as a table, a row a source; `id_type` is the type of `source`, "int64" or "string"."""
    rows = [asdict(m) for m in metrics]
    schema = pa.schema(
        [
            (f.name, pa.string() if id_type == "string" else pa.int64())
            if f.name == "source"
            else (f.name, _METRIC_TYPES[str(f.type)])
            for f in fields(BatchMetrics)
        ]
    )
    return pa.Table.from_pylist(rows, schema)


def located(
    metrics: SourceMetrics, source: int | str, batch: int, worker: str, device: str, attempts: int
) -> BatchMetrics:
    """Return a source's metrics with the places the solver does not know."""
    told = asdict(metrics) | {"source": source}
    return BatchMetrics(**told, batch=batch, worker=worker, device=device, attempts=attempts)


def write_distances(
    handle: Any, sources: np.ndarray, solution: Solution, ids: VertexIds, form: DistanceFormat
) -> None:
    """Write the distances (S, V) of a batch to `handle` as Parquet, in the layout of `form`.

    The encodings are chosen, not left to pyarrow: in the long layout a source is one dictionary entry, vertices are
    differences of 1 and take next to nothing, distances are plain.
    """
    if form.layout == "wide":
        _write_wide(handle, sources, solution, ids, form)
    else:
        _write_long(handle, sources, solution, ids, form)


def _write_long(
    handle: Any, sources: np.ndarray, solution: Solution, ids: VertexIds, form: DistanceFormat
) -> None:
    vertex = ids.column()
    names = ids.originals(sources)
    per_group = max(1, LONG_GROUP_ROWS // max(1, ids.n_vertices))
    integer_ids = ids.mapping.type == "int64"
    distance_type = pa.from_numpy_dtype(solution.distances.dtype)
    columns = [("source", names.type), ("vertex", vertex.type), ("distance", distance_type)]
    encodings = {"distance": "PLAIN"}
    if integer_ids:
        encodings["vertex"] = "DELTA_BINARY_PACKED"
    if solution.predecessors is not None:
        columns.append(("predecessor", vertex.type))
        if integer_ids:
            encodings["predecessor"] = "PLAIN"
    with pq.ParquetWriter(
        handle,
        pa.schema(columns),
        compression=form.compression,
        use_dictionary=["source"] if integer_ids else ["source", "vertex", "predecessor"],
        column_encoding=encodings,
        write_statistics=True,
    ) as writer:
        for begin in range(0, len(sources), per_group):
            some = slice(begin, min(begin + per_group, len(sources)))
            count = some.stop - some.start
            which = np.repeat(np.arange(count, dtype=np.int32), ids.n_vertices)
            arrays = [
                pa.DictionaryArray.from_arrays(which, names[some.start : some.stop]).cast(names.type)
                if not integer_ids
                else np.repeat(names[some.start : some.stop].to_numpy(), ids.n_vertices),
                pa.concat_arrays([vertex] * count),
                _distance_array(solution.distances[some].reshape(-1), form.unreached),
            ]
            if solution.predecessors is not None:
                arrays.append(_predecessor_array(solution.predecessors[some].reshape(-1), ids))
            writer.write_table(
                pa.table(arrays, schema=pa.schema(columns)), row_group_size=count * ids.n_vertices or None
            )


def _write_wide(
    handle: Any, sources: np.ndarray, solution: Solution, ids: VertexIds, form: DistanceFormat
) -> None:
    names = [str(name) for name in ids.originals(sources).to_pylist()]
    arrays = [ids.column(), *(_distance_array(row, form.unreached) for row in solution.distances)]
    integer_ids = ids.mapping.type == "int64"
    pq.write_table(
        pa.table(arrays, names=["vertex", *names]),
        handle,
        compression=form.compression,
        use_dictionary=False,
        column_encoding=dict.fromkeys(names, "PLAIN")
        | ({"vertex": "DELTA_BINARY_PACKED"} if integer_ids else {}),
        row_group_size=WIDE_GROUP_ROWS,
    )


def _distance_array(distances: np.ndarray, unreached: float | None) -> pa.Array:
    nobody = unreached_distance(distances.dtype)
    missing = distances == nobody
    if not missing.any():
        return pa.array(distances)
    if unreached is not None:
        stand_in = distances.dtype.type(unreached)
        if ((distances == stand_in) & ~missing).any():
            raise UnsolvableError(
                f"`output.unreached` is {unreached}, which is also the distance of a reached vertex",
                hint="choose a number that is no distance, or null",
            )
        return pa.array(np.where(missing, stand_in, distances))
    validity = pa.array(~missing).buffers()[1]
    kind = pa.from_numpy_dtype(distances.dtype)
    return pa.Array.from_buffers(
        kind, len(distances), [validity, pa.py_buffer(np.ascontiguousarray(distances))]
    )


def _predecessor_array(predecessors: np.ndarray, ids: VertexIds) -> pa.Array:
    none = predecessors == NO_VERTEX
    return pc.if_else(pa.array(none), None, ids.originals(np.where(none, 0, predecessors)))


def read_batch(
    folder: RunFolder,
    batch: int,
    ids: VertexIds,
    form: DistanceFormat,
    dtype: np.dtype,
    wanted: Container[int],
) -> Iterator[tuple[int | str, np.ndarray]]:
    """Yield the sources at the `wanted` places of a committed batch: their ids and distances (V,).

    Unreached vertices have `csr.unreached_distance(dtype)`, as a solver gives them.

    Raises
    ------
    InputError
        The file is damaged, or its vertices are not the graph's.
    """
    url = folder.batch_path(batch)
    try:
        file = pq.ParquetFile(pa.BufferReader(storage.read_bytes(url)))
        rows = _wide_rows(file, ids, wanted) if form.layout == "wide" else _long_rows(file, ids, wanted)
        for source, stored in rows:
            yield source, _distances(stored, form.unreached, dtype)
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise InputError(
            f"`{storage.redacted(url)}` is damaged: {error}",
            hint="remove it and run.json, and run the same command again",
        ) from error


def _long_rows(
    file: pq.ParquetFile, ids: VertexIds, wanted: Container[int]
) -> Iterator[tuple[int | str, pa.ChunkedArray]]:
    n = ids.n_vertices
    place = 0
    for group in range(file.num_row_groups):
        n_rows = file.metadata.row_group(group).num_rows
        if n_rows % n:
            raise ValueError(f"row group {group} has {n_rows} rows, no multiple of {n} vertices")
        begins = [i * n for i in range(n_rows // n) if place + i in wanted]
        place += n_rows // n
        if not begins:
            continue
        table = file.read_row_group(group, columns=["source", "vertex", "distance"])
        for begin in begins:
            rows = table.slice(begin, n)
            source = rows["source"][0].as_py()
            if pc.any(pc.not_equal(rows["source"], rows["source"][0])).as_py():
                raise ValueError(f"the rows of source {source} are not together")
            _check_vertices(rows["vertex"], ids)
            yield source, rows["distance"]


def _wide_rows(
    file: pq.ParquetFile, ids: VertexIds, wanted: Container[int]
) -> Iterator[tuple[int | str, pa.ChunkedArray]]:
    _check_vertices(file.read(columns=["vertex"])["vertex"], ids)
    for place, name in enumerate(file.schema_arrow.names[1:]):
        if place in wanted:
            yield (name if ids.mapping.type == "string" else int(name)), file.read(columns=[name])[name]


def _check_vertices(column: pa.ChunkedArray, ids: VertexIds) -> None:
    if not column.combine_chunks().equals(pa.chunked_array([ids.column()]).combine_chunks()):
        raise ValueError("column vertex does not list the graph's vertices in order")


def _distances(column: pa.ChunkedArray, unreached: float | None, dtype: np.dtype) -> np.ndarray:
    nobody = unreached_distance(dtype)
    filled: np.ndarray = pc.fill_null(column, pa.scalar(nobody.item(), column.type)).to_numpy()
    if filled.dtype != dtype:
        raise ValueError(f"distances have type {filled.dtype}, the graph's weights {dtype}")
    return filled if unreached is None else np.where(filled == dtype.type(unreached), nobody, filled)


def check_unreached(unreached: float | None, dtype: np.dtype) -> None:
    """Raise `InputError` unless `unreached` can stand in a column of `dtype`."""
    if unreached is not None and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if not (float(unreached).is_integer() and limits.min <= unreached <= limits.max):
            raise InputError(
                f"`output.unreached` is {unreached}, which the distances' type {dtype} cannot hold",
                hint="null writes NULL",
            )
