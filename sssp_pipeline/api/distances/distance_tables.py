"""Tables of Arrow with a row for each source and vertex, or for each source and reached vertex."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa

from sssp_pipeline.api.distances.reached import ReachedRows
from sssp_pipeline.base.csr import NO_VERTEX, unreached_distance


@dataclass(frozen=True, eq=False)
class DistanceTable:
    """Makes the columns `source`, `vertex` and `distance`, sums along the paths, and `predecessor` if asked for."""

    #: (S,), and (V,) or (T,) ids.
    sources: pa.Array
    vertices: pa.Array
    #: (V,) ids of all vertices, among which the predecessors are; None without predecessors.
    all_ids: pa.Array | None
    #: The type of a distance.
    dtype: np.dtype
    #: (S, V) or (S, T) sums of other weights, by their name.
    along: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def schema(self) -> pa.Schema:
        fields = [
            ("source", self.vertices.type),
            ("vertex", self.vertices.type),
            ("distance", pa.from_numpy_dtype(self.dtype)),
        ]
        fields += [(name, pa.from_numpy_dtype(sums.dtype)) for name, sums in self.along.items()]
        if self.all_ids is not None:
            fields.append(("predecessor", self.all_ids.type))
        return pa.schema(fields)

    @property
    def row_bytes(self) -> int:
        """The memory that a row takes, without the columns that sources share."""
        return self.dtype.itemsize + 8 * len(self.along) + self.sources.nbytes // max(len(self.sources), 1)

    def of_all(self, distances: Any, predecessors: Any) -> pa.RecordBatchReader:
        """Return a batch for each source, from rows that are read one after the other; unreached vertices have NULL."""
        return self._reader(self._batches_of_all(distances, predecessors))

    def of_reached(self, distances: ReachedRows, predecessors: ReachedRows | None) -> pa.RecordBatchReader:
        """Return batches with the reached vertices of several sources each."""
        return self._reader(self._batches_of_reached(distances, predecessors))

    def _reader(self, batches: Iterator[list[pa.Array]]) -> pa.RecordBatchReader:
        schema = self.schema
        return pa.RecordBatchReader.from_batches(
            schema, (pa.record_batch(columns, schema=schema) for columns in batches)
        )

    def _batches_of_all(self, distances: Any, predecessors: Any) -> Iterator[list[pa.Array]]:
        unreached, kind = unreached_distance(self.dtype), self.vertices.type
        before = repeat(None) if predecessors is None else predecessors
        for place, (source, row, of_row) in enumerate(zip(self.sources, distances, before, strict=False)):
            missing = row == unreached
            yield [
                pa.repeat(source, len(row)).cast(kind),
                self.vertices,
                pa.array(row, mask=missing),
                *(pa.array(sums[place], mask=missing) for sums in self.along.values()),
                *self._ids_of(of_row),
            ]

    def _batches_of_reached(
        self, distances: ReachedRows, predecessors: ReachedRows | None
    ) -> Iterator[list[pa.Array]]:
        for places, some in distances.groups():
            yield [
                self.sources.take(pa.array(places)).cast(self.vertices.type),
                self.vertices.take(pa.array(distances.columns[some])),
                pa.array(distances.values[some]),
                *(pa.array(sums[places, distances.columns[some]]) for sums in self.along.values()),
                *self._ids_of(None if predecessors is None else predecessors.values[some]),
            ]

    def _ids_of(self, predecessors: np.ndarray | None) -> Iterator[pa.Array]:
        """Yield the ids (n,) of `predecessors` (n,), NULL where there is none; nothing without predecessors."""
        if predecessors is not None and self.all_ids is not None:
            none = predecessors == NO_VERTEX
            yield self.all_ids.take(pa.array(np.where(none, 0, predecessors), mask=none))
