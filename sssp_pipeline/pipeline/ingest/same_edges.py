"""Several weights: checks that their inputs hold the same edges, which the store keeps once."""

from __future__ import annotations

import numpy as np

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.progress import plural
from sssp_pipeline.base.vertex_ids import VertexIds
from sssp_pipeline.pipeline.graph_store.manifest import Counts
from sssp_pipeline.pipeline.ingest.edges import Rows
from sssp_pipeline.pipeline.ingest.spill import Column

_HINT = "every row of the input gives one edge and a value for each weight"


class SharedEdges:
    """The edges that were read with the first weight, on disk if they take much memory."""

    def __init__(self, name: str, vertex_ids: VertexIds, memory_bytes: int) -> None:
        self.name, self._vertex_ids = name, vertex_ids
        self._row_offsets = Column(np.dtype(np.int64), memory_bytes // 16)
        self._row_offsets.append(np.zeros(1, np.int64))
        self._col_indices = Column(np.dtype(np.uint32), memory_bytes // 16)
        self._counts: Counts | None = None

    def add(self, rows: Rows) -> None:
        """Add the rows of the next vertices."""
        self._row_offsets.append(len(self._col_indices) + rows.row_offsets[1:])
        self._col_indices.append(rows.col_indices)

    def finish(self, counts: Counts) -> None:
        """End the edges; what was read has these counts."""
        self.row_offsets, self.col_indices = self._row_offsets.array(), self._col_indices.array()
        self._counts = counts

    def check_vertices(self, other: VertexIds) -> None:
        """Raise `InputError` unless another weight has the same vertices."""
        if (problem := _other_vertices(self._vertex_ids, other, self.name)) is not None:
            raise InputError(problem, hint=_HINT)

    def check_rows(self, rows: Rows) -> None:
        """Raise `InputError` unless another weight has the same edges in these rows; the edges of a row ascend."""
        bounds = self.row_offsets[rows.first : rows.first + len(rows.row_offsets)]
        own = self.col_indices[bounds[0] : bounds[-1]]
        if np.array_equal(bounds - bounds[0], rows.row_offsets) and np.array_equal(own, rows.col_indices):
            return
        for row in range(len(bounds) - 1):
            first = own[slice(*(bounds[row : row + 2] - bounds[0]))]
            other = rows.col_indices[slice(*rows.row_offsets[row : row + 2])]
            if np.array_equal(first, other):
                continue
            lacking, found = np.setdiff1d(first, other), np.setdiff1d(other, first)
            if not len(lacking) and not len(found):
                self._refuse_parallel(rows.first + row, first, other)
            ids = (rows.first + row, (lacking if len(lacking) else found)[0])
            u, v = (self._vertex_ids.original(int(end)) for end in ids)
            verb, has = ("has no edge", "has one") if len(lacking) else ("has an edge", "has none")
            raise InputError(f"it {verb} from `{u}` to `{v}`, and the weight `{self.name}` {has}", hint=_HINT)
        raise AssertionError("the rows differ")

    def _refuse_parallel(self, source: int, first: np.ndarray, other: np.ndarray) -> None:
        """Raise `InputError` for rows of `source` with other numbers of parallel edges to the same targets."""
        (targets, counts), (_, here) = (np.unique(row, return_counts=True) for row in (first, other))
        place = np.flatnonzero(counts != here)[0]
        u, v = (self._vertex_ids.original(int(end)) for end in (source, targets[place]))
        raise InputError(
            f"it has {plural(int(here[place]), 'edge')} from `{u}` to `{v}`, and the weight `{self.name}` has "
            f"{counts[place]}",
            hint=_HINT,
        )

    def check_counts(self, other: Counts) -> None:
        """Raise `InputError` unless another weight was read from equally many rows."""
        assert self._counts is not None
        for name, count in self._counts.model_dump().items():
            if (here := getattr(other, name)) != count:
                what = name.replace("_", " ")
                raise InputError(f"{here:,} {what}, and {count:,} of the weight `{self.name}`", hint=_HINT)


def _other_vertices(first: VertexIds, other: VertexIds, name: str) -> str | None:
    """Return what differs between the vertices of two weights; None if nothing does. `name` is that of `first`."""
    if first.n_vertices != other.n_vertices:
        return f"{other.n_vertices:,} vertices, and {first.n_vertices:,} of the weight `{name}`"
    if first.mapping == other.mapping and (first.table is None or first.table.equals(other.table)):
        return None
    pairs = zip(first.column().to_pylist(), other.column().to_pylist(), strict=True)
    ids = next((pair for pair in pairs if pair[0] != pair[1]), None)
    if ids is None:
        return f"its ids are {other.mapping.type}, and those of the weight `{name}` are {first.mapping.type}"
    return f"it has the vertex `{ids[1]}` where the weight `{name}` has `{ids[0]}`"
