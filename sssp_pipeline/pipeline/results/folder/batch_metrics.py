"""The metrics of a batch, in a file of their own until the run is finished.

The file has a line of JSON with what all sources of the batch share, then arrays in NumPy's format `.npy`: a record for
each source, and the moments of all traces. Arrow's tables would do, but each of their columns gives up Python's lock
several times, and on many cores a thread waits long to get it back.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from sssp_pipeline.kernels.contract.solver import TRACE, MetricsColumns, SourceMetrics, metrics_column
from sssp_pipeline.parquet.arrow_arrays import arrow_array, numpy_type
from sssp_pipeline.pipeline.formats.arrow_compute import pc

#: The columns of the metrics that come from `SourceMetrics`, in this order and with these types.
_MEASURED = {
    "solver": pa.string(),
    "solve_s": pa.float64(),
    "vertices_processed": pa.int64(),
    "edges_relaxed": pa.int64(),
    "reached": pa.int64(),
    "max_distance": pa.float64(),
    "mean_distance": pa.float64(),
    "teps": pa.float64(),
    "delta_first": pa.float64(),
    "delta_last": pa.float64(),
    "delta_changes": pa.int64(),
    "supersteps": pa.int64(),
    "filter_s": pa.float64(),
}
#: The column with the moments of the traces.
_TRACE = pa.list_(pa.struct([(name, pa.from_numpy_dtype(TRACE[name])) for name in TRACE.names or ()]))
#: The metrics that are in the unit of the weights.
OF_LENGTHS = ("max_distance", "mean_distance", "delta_first", "delta_last")
#: In the records: how many moments the trace of a source has, -1 if it has no trace.
_MOMENTS = "n_moments"
#: The line of JSON; and the bytes before the length of a header of `.npy`.
_LINE, _MAGIC = re.compile(rb"[^\n]*\n"), 8


@dataclass(frozen=True)
class Place:
    """Where a batch was solved, at which attempt, and when."""

    #: Host and process.
    worker: str
    #: The name of the GPU, or of the CPU.
    device: str
    #: Counts from 1.
    attempts: int
    #: Seconds since 1970 in UTC by the clock of the worker when the batch was solved; None if not recorded.
    solved_at: float | None = None


@dataclass(frozen=True, eq=False)
class BatchMetrics:
    """The metrics of a batch."""

    place: Place
    #: In the order of the batch.
    metrics: Sequence[SourceMetrics]

    def to_bytes(self) -> bytes:
        """Return the content of the file."""
        shared: dict[str, Any] = {}
        columns = {"source": self.sources}
        for name in _MEASURED:
            values = _column_or_value(self.metrics, name)
            if isinstance(values, np.ndarray):
                columns[name] = values
            elif not isinstance(values, list):
                shared[name] = values
            elif (array := np.asarray(values)).dtype.kind in "iuf":
                columns[name] = array
            else:
                shared[name] = values
        if (traces := _recorded_traces(self.metrics)) is not None:
            columns[_MOMENTS] = np.array([-1 if trace is None else len(trace) for trace in traces])
        records = np.empty(len(self.metrics), [(name, values.dtype) for name, values in columns.items()])
        for name, values in columns.items():
            records[name] = values
        line = json.dumps([asdict(self.place), shared], default=np.generic.item).encode() + b"\n"
        parts: list[Any] = [line, _header_of(len(records), records.dtype), records.data]
        if traces is not None:
            moments = np.concatenate([trace for trace in traces if trace is not None])
            parts += _header_of(len(moments), moments.dtype), moments.data
        return b"".join(parts)

    @property
    def sources(self) -> np.ndarray:
        """The sources (n,) uint32."""
        return np.asarray(metrics_column(self.metrics, "source"), np.uint32)

    @staticmethod
    def of_bytes(content: bytes | memoryview) -> BatchMetrics:
        """Return the metrics that a file holds. Their arrays are views of `content`, and keep it in memory."""
        line = _LINE.match(content)
        assert line is not None, "a file of metrics begins with a line"
        place, shared = json.loads(line[0])
        records, end = _array_at(content, line.end())
        names = records.dtype.names or ()
        columns: dict[str, Any] = {name: records[name] for name in names if name != _MOMENTS}
        for name, value in shared.items():
            columns[name] = np.array(value, object) if isinstance(value, list) else value
        columns["trace"] = None
        if _MOMENTS in names:
            (moments, _), ends = _array_at(content, end), np.cumsum(np.maximum(records[_MOMENTS], 0))
            columns["trace"] = traces = np.empty(len(records), object)
            for i, (end, n) in enumerate(zip(ends.tolist(), records[_MOMENTS].tolist(), strict=True)):
                traces[i] = None if n < 0 else moments[end - n : end].astype(TRACE)
        return BatchMetrics(Place(**place), MetricsColumns(columns))


def _array_at(content: bytes | memoryview, begin: int) -> tuple[np.ndarray, int]:
    """Return the array (n,) at `begin` in the format `.npy`, a view of `content`; and where it ends."""
    first = begin + _MAGIC + 2 + int.from_bytes(content[begin + _MAGIC : begin + _MAGIC + 2], "little")
    n, dtype = _header(bytes(content[begin:first]))
    return np.frombuffer(content, dtype, n, first), first + n * dtype.itemsize


# Most batches of a run have the same header, and numpy takes as long to write or read it as for the values.
@lru_cache(maxsize=16)
def _header_of(n: int, dtype: np.dtype) -> bytes:
    """Return the header of an array (n,) in the format `.npy`."""
    stream = io.BytesIO()
    header = np.lib.format.header_data_from_array_1_0(np.empty(n, dtype))
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue()


@lru_cache(maxsize=16)
def _header(header: bytes) -> tuple[int, np.dtype]:
    """Return the length and the type of the array with this header."""
    stream = io.BytesIO(header)
    np.lib.format.read_magic(stream)
    (n,), _, dtype = np.lib.format.read_array_header_1_0(stream)
    return n, dtype


#: Returns an array (n,) with a value of a type n times.
Repeat = Callable[[Any, pa.DataType, int], pa.Array]


def repeated(value: Any, kind: pa.DataType, n: int) -> pa.Array:
    """Return an array (n,) with `value` n times."""
    return pa.repeat(pa.scalar(value, kind), n)


def metrics_table(
    metrics: Sequence[SourceMetrics],
    source_ids: pa.Array,
    batch: int,
    place: Place,
    scale: int | None = None,
    repeat: Repeat = repeated,
) -> pa.Table:
    """Return the metrics of a batch as a table: one row for each source, with the ids `source_ids` of the input.

    Lengths are in the input's unit; those in `metrics` are `scale` times as large. `repeat` makes the columns with one
    value. It may return the same array for several tables.
    """
    n_rows = len(metrics)
    solved_at = None if place.solved_at is None else round(place.solved_at * 1000)
    columns = {
        "source": source_ids,
        "batch": repeat(batch, pa.int64(), n_rows),
        "worker": repeat(place.worker, pa.string(), n_rows),
        "device": repeat(place.device, pa.string(), n_rows),
        "attempts": repeat(place.attempts, pa.int64(), n_rows),
        "solved_at": repeat(solved_at, pa.timestamp("ms", "UTC"), n_rows),
    }
    for name, kind in _MEASURED.items():
        values = _column_or_value(metrics, name)
        if isinstance(values, np.ndarray) and kind != pa.string():
            columns[name] = arrow_array(values.astype(numpy_type(kind)))
        elif isinstance(values, (list, np.ndarray)):
            # Arrow refuses integers that a float cannot hold
            columns[name] = pa.array(map(float, values) if name == "max_distance" else values, kind)
        else:
            columns[name] = repeat(float(values) if name == "max_distance" else values, kind, n_rows)
        if scale is not None and name in OF_LENGTHS:
            columns[name] = pc.divide(columns[name], float(scale))
    traces = _recorded_traces(metrics)
    columns["trace"] = repeat(None, _TRACE, n_rows) if traces is None else _traces(traces, scale)
    return pa.table(columns)


def _column_or_value(metrics: Sequence[SourceMetrics], name: str) -> Any:
    """Return a field of all sources: an array or a list (n,), or the value that all of them have. Not for traces."""
    if isinstance(metrics, MetricsColumns):
        return metrics.column_or_value(name)
    values = [getattr(one, name) for one in metrics]
    return values[0] if values and values.count(values[0]) == len(values) else values


def _recorded_traces(metrics: Sequence[SourceMetrics]) -> list[np.ndarray | None] | None:
    """Return the trace of each source, None if it has no trace; None if no source has one."""
    if isinstance(metrics, MetricsColumns) and metrics.column_or_value("trace") is None:
        return None
    traces = list(metrics_column(metrics, "trace"))
    return None if all(trace is None for trace in traces) else traces


def _traces(traces: list[np.ndarray | None], scale: int | None) -> pa.Array:
    """Return a list of moments for each trace, and NULL for each None."""
    moments = np.concatenate([trace for trace in traces if trace is not None])
    if scale is not None:
        moments["delta"] /= scale
    begins = np.cumsum([0, *(0 if trace is None else len(trace) for trace in traces)])
    begin_or_null = [None if trace is None else b for trace, b in zip(traces, begins, strict=False)]
    fields = list(_TRACE.value_type)
    values = pa.StructArray.from_arrays([pa.array(moments[f.name]) for f in fields], fields=fields)
    return pa.ListArray.from_arrays(pa.array([*begin_or_null, begins[-1]], pa.int32()), values)
