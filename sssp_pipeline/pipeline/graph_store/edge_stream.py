"""Edge stream: the edges of a stored graph in blocks, in the order of the store, without the whole graph in memory.

Memory holds one part of each kind (`PART_EDGES`), one decoded row group, and the blocks that the reader keeps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.graph_store.loading import row_groups
from sssp_pipeline.pipeline.graph_store.manifest import Manifest, StoredPart
from sssp_pipeline.pipeline.graph_store.store import INGEST_AGAIN
from sssp_pipeline.storage import files


@dataclass(frozen=True, eq=False)
class EdgeBlock:
    """Some edges, and the vertices whose rows they are in. Rows are sorted by target."""

    #: The first of k vertices.
    first: int
    #: (k+1,) int64; the edges of vertex `first + i` in this block are `row_offsets[i]:row_offsets[i + 1]`.
    row_offsets: np.ndarray
    #: (n,) uint32.
    col_indices: np.ndarray
    #: (n,) of the stored type.
    weights: np.ndarray
    #: The target of the edge before the first one if both are in one row; else -1.
    before: int

    def sources(self) -> np.ndarray:
        """Return the source of each edge, (n,) int64."""
        vertices = np.arange(self.first, self.first + len(self.row_offsets) - 1)
        return np.repeat(vertices, np.diff(self.row_offsets))

    def first_loop(self) -> int | None:
        """Return the vertex of the first self-loop; None if there is none."""
        loops = np.flatnonzero(self.col_indices == self.sources())
        return int(self.col_indices[loops[0]]) if len(loops) else None

    def first_repeat(self) -> tuple[int, int] | None:
        """Return the ends of the first edge that has the ends of the edge before it; None if there is none."""
        sources, targets = self.sources(), self.col_indices
        if len(targets) and self.before == targets[0]:
            return int(sources[0]), int(targets[0])
        again = np.flatnonzero((targets[1:] == targets[:-1]) & (sources[1:] == sources[:-1]))
        return (int(sources[again[0]]), int(targets[again[0]])) if len(again) else None


@dataclass(frozen=True, eq=False)
class EdgeStream:
    """The edges of the graph `manifest` in the store at the URL `store`; each method reads the files again.

    All methods raise `InputError` if a part is missing, cut short or altered; the message names the file.
    """

    store: str
    manifest: Manifest

    def values(self, column: Literal["row_offset", "col_index", "weight"]) -> Iterator[np.ndarray]:
        """Yield the row offsets (V+1,) int64, the targets (E,) uint32, or the weights (E,) of the stored type."""
        manifest = self.manifest
        folders = {"row_offset": manifest.row_offsets, "col_index": manifest.edges}
        for (values,) in self._values(folders.get(column, manifest.weight_parts), column):
            yield values

    def blocks(self, block_rows: int) -> Iterator[EdgeBlock]:
        """Yield all edges in blocks of at most `block_rows` vertices and as many edges; every vertex is in a block."""
        offsets = self._rows(self.manifest.row_offsets, "row_offset")
        edges = [self._rows(parts, *columns) for parts, columns in self.manifest.edge_columns]
        (last,) = offsets.take(1)
        targets = np.empty(0, np.uint32)
        for first in range(0, self.manifest.n_vertices, block_rows):
            (ends,) = offsets.take(min(block_rows, self.manifest.n_vertices - first))
            bounds = np.concatenate((last[-1:], ends))
            self._check_offsets(bounds)
            last = ends
            for row, begin, end, within in _cut(bounds, block_rows):
                before = int(targets[-1]) if begin > bounds[row] else -1
                targets, weights = (column for rows in edges for column in rows.take(end - begin))
                self._check_targets(targets)
                yield EdgeBlock(first + row, within, targets, weights, before)

    def _values(self, parts: list[StoredPart], *columns: str) -> Iterator[list[np.ndarray]]:
        dtypes = self._dtypes(*columns)
        for part in parts:
            yield from row_groups(self.store, part, dtypes)

    def _rows(self, parts: list[StoredPart], *columns: str) -> _Rows:
        return _Rows(self._values(parts, *columns), list(self._dtypes(*columns).values()))

    def _dtypes(self, *columns: str) -> dict[str, np.dtype]:
        arrays = {"row_offset": "row_offsets", "col_index": "col_indices", "weight": "weights"}
        return {column: self.manifest.arrays[arrays[column]][1] for column in columns}

    def _check_offsets(self, bounds: np.ndarray) -> None:
        if bounds[0] < 0 or np.any(bounds[1:] < bounds[:-1]) or bounds[-1] > self.manifest.n_edges:
            raise self._damaged("its row offsets fall, or lead beyond its edges")

    def _check_targets(self, targets: np.ndarray) -> None:
        if len(targets) and int(np.max(targets)) >= self.manifest.n_vertices:
            raise self._damaged(f"an edge leads to vertex {int(np.max(targets))}")

    def _damaged(self, problem: str) -> InputError:
        return InputError(
            f"the graph store `{files.redacted(self.store)}` is damaged: {problem}", hint=INGEST_AGAIN
        )


def _cut(bounds: np.ndarray, most: int) -> Iterator[tuple[int, int, int, np.ndarray]]:
    """Cut rows that begin and end at `bounds` (k+1,) into ranges of at most `most` edges; a long row is cut too.

    Yields the first row of a range, its first edge, the one after its last, and the bounds of its rows, from 0.
    """
    row, begin = 0, int(bounds[0])
    while row < len(bounds) - 1:
        upto = int(np.searchsorted(bounds, begin + most, side="right")) - 1
        if upto > row:  # whole rows, the first of which may have begun before
            end = int(bounds[upto])
            yield row, begin, end, np.maximum(bounds[row : upto + 1], begin) - begin
            row = upto
        else:
            end = begin + most
            yield row, begin, end, np.array([0, most])
        begin = end


class _Rows:
    """Columns that come in groups of any length. The caller takes any number of rows.

    Parameters
    ----------
    groups
        The next rows, as the values of each column.
    dtypes
        The type of each column.
    """

    def __init__(self, groups: Iterator[list[np.ndarray]], dtypes: list[np.dtype]) -> None:
        self._groups = groups
        #: The rows that are read and not taken.
        self._rest = [np.empty(0, dtype) for dtype in dtypes]

    def take(self, n: int) -> list[np.ndarray]:
        """Return the next `n` rows. There are as many as the manifest says, so they do not end early."""
        found = [self._rest]
        n_held = len(self._rest[0])
        while n_held < n:
            found.append(next(self._groups))
            n_held += len(found[-1][0])
        rows = found[0] if len(found) == 1 else [np.concatenate(parts) for parts in zip(*found, strict=True)]
        self._rest = [values[n:] for values in rows]
        return [values[:n] for values in rows]
