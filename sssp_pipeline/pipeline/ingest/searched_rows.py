"""Searched rows: the edges of a graph that is not large are kept while they are written, and are searched then."""

from __future__ import annotations

import numpy as np

from sssp_pipeline.base.levels import MOST_BYTES, search_levels, structure_bytes
from sssp_pipeline.pipeline.ingest.edges import Rows, joined_rows

#: Rows that take this share of the memory of ingest are kept, and those of small graphs in any case.
_SHARE, _SMALL_BYTES = 16, 2**20


class SearchedRows:
    """The rows of a graph without their weights; none of a graph that may be large: it has at most `most_edges`."""

    def __init__(self, memory_bytes: int, n_vertices: int, most_edges: int) -> None:
        most_bytes = min(MOST_BYTES, max(memory_bytes // _SHARE, _SMALL_BYTES))
        #: Whether the graph is to be searched.
        self.is_wanted = structure_bytes(n_vertices, most_edges) <= most_bytes
        self._rows: list[Rows] = []

    def add(self, rows: Rows) -> None:
        """Take the next rows, in ascending order of their vertices."""
        if self.is_wanted:
            self._rows.append(Rows(rows.first, rows.row_offsets, rows.col_indices, np.empty(0), None))

    def levels(self) -> float | None:
        """Return `GraphTraits.levels`; None if no rows are here."""
        if not self._rows:
            return None
        whole = joined_rows(self._rows)
        return search_levels(whole.row_offsets, whole.col_indices)
