"""Searched rows: the edges of a graph that is not large are kept while they are written, and are searched then."""

from __future__ import annotations

import numpy as np

from sssp_pipeline.base.levels import MOST_BYTES, search_levels, structure_bytes
from sssp_pipeline.pipeline.ingest.edges import Rows
from sssp_pipeline.pipeline.ingest.spill import Column


class SearchedRows:
    """The rows of a graph without their weights, on disk if they take much of the memory of ingest.

    None are kept if the graph may be larger than `MOST_BYTES`: it has at most `most_edges`.
    """

    def __init__(self, memory_bytes: int, n_vertices: int, most_edges: int) -> None:
        self._n_vertices = n_vertices
        self._is_kept = structure_bytes(n_vertices, most_edges) <= MOST_BYTES
        self._row_offsets = Column(np.dtype(np.int64), memory_bytes // 32)
        self._row_offsets.append(np.zeros(1, np.int64))
        self._col_indices = Column(np.dtype(np.uint32), memory_bytes // 32)

    def close(self) -> None:
        """Close the files."""
        self._row_offsets.close()
        self._col_indices.close()

    def add(self, rows: Rows) -> None:
        """Take the next rows, in ascending order of their vertices."""
        if self._is_kept:
            self._row_offsets.append(len(self._col_indices) + rows.row_offsets[1:])
            self._col_indices.append(rows.col_indices)

    def levels(self) -> float | None:
        """Return `GraphTraits.levels`; None if not all rows are here."""
        if len(self._row_offsets) <= self._n_vertices:
            return None
        return search_levels(self._row_offsets.array(), self._col_indices.array())
