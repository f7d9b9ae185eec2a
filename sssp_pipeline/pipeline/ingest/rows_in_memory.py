"""Rows in memory: the edges of a graph that is not large stay there while they are written, and are searched then."""

from __future__ import annotations

import numpy as np

from sssp_pipeline.base.levels import MOST_BYTES, search_levels
from sssp_pipeline.pipeline.ingest.edges import Rows, joined_rows


class RowsInMemory:
    """The rows of a graph without their weights; none if they take too much memory."""

    def __init__(self) -> None:
        self._room = MOST_BYTES
        self._rows: list[Rows] = []

    def add(self, rows: Rows) -> None:
        """Take the next rows, in ascending order of their vertices."""
        self._room -= rows.row_offsets[1:].nbytes + rows.col_indices.nbytes
        self._rows.append(Rows(rows.first, rows.row_offsets, rows.col_indices, np.empty(0), None))
        if self._room < 0:
            self._rows = []

    @property
    def is_complete(self) -> bool:
        """Whether all rows are here."""
        return bool(self._rows) and self._room >= 0

    def levels(self) -> float | None:
        """Return `GraphTraits.levels` if all rows are here."""
        whole = joined_rows(self._rows)
        return search_levels(whole.row_offsets, whole.col_indices)
