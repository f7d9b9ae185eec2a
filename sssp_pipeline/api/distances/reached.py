"""Rows in memory that have only the values of reached vertices: a short cutoff reaches few.

Some solvers return only what is reached. Others fill whole rows: as soon as a part of the sources is solved,
`ReachedParts` takes the reached values out of its rows, and the rows are freed. So memory holds the rows of the parts
under way and the values that were reached.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sssp_pipeline.api.calls.calls import check_memory
from sssp_pipeline.base.csr import NO_VERTEX, unreached_distance
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.host_memory import free_memory_bytes
from sssp_pipeline.base.progress import in_bytes, plural
from sssp_pipeline.kernels.contract.solver import Solution
from sssp_pipeline.kernels.host.reached_values import reached_of
from sssp_pipeline.pipeline.graph_store.units import distances_in_input_unit

#: The most values of a group of rows, unless one row has more.
_GROUP = 1 << 20
#: The free memory is looked at again each time that this many bytes were added.
_LOOK_BYTES = 1 << 26
#: What to do if whole rows are too large.
WITHOUT_ROWS = "use `.to_scipy()` or `.to_arrow(reached_only=True)`, which hold reached vertices only"


@dataclass(frozen=True, eq=False)
class ReachedRows:
    """Rows (S, V) in host memory that have only the values of reached vertices, as a CSR matrix.

    Iterating yields one whole row (V,) after the other, as for an array.
    """

    n_columns: int
    #: The value of all other vertices.
    missing: Any
    #: (S + 1,) int64, the place of the first value of each row.
    offsets: np.ndarray
    #: (n,) uint32, the reached vertices of each row, rising.
    columns: np.ndarray
    #: (n,) their values.
    values: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray, predecessors: np.ndarray | None) -> tuple[ReachedRows, ReachedRows | None]:
        """Return what is reached in the distances `rows` (S, V), and the `predecessors` (S, V) there."""
        parts = ReachedParts(len(rows), rows.shape[1], rows.dtype, predecessors is not None)
        parts.take(0, Solution(rows, predecessors))
        return parts.as_reached()

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.offsets) - 1, self.n_columns

    @property
    def dtype(self) -> np.dtype:
        return self.values.dtype

    def __iter__(self) -> Iterator[np.ndarray]:
        for place in range(len(self.offsets) - 1):
            row = np.full(self.n_columns, self.missing, self.dtype)
            columns, values = self.row(place)
            row[columns] = values
            yield row

    def row(self, place: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the reached vertices (n,) of a row and their values (n,), as views."""
        held = slice(*self.offsets[place : place + 2].tolist())
        return self.columns[held], self.values[held]

    def value(self, place: int, column: int) -> Any:
        """Return the value of a vertex that is reached."""
        columns, values = self.row(place)
        return values[np.searchsorted(columns, column)]

    def get(self) -> np.ndarray:
        """Return whole rows (S, V), like `get` of CuPy's arrays. Raise `InputError` if they are too large."""
        check_memory(*self.shape, self.dtype.itemsize, WITHOUT_ROWS)
        rows = np.full(self.shape, self.missing, self.dtype)
        for places, held in self.groups():
            rows[places, self.columns[held]] = self.values[held]
        return rows

    def groups(self) -> Iterator[tuple[np.ndarray, slice]]:
        """Yield some rows at a time: the row of each value (n,), and the places of these values."""
        first, last = 0, len(self.offsets) - 1
        while first < last:
            end = int(np.searchsorted(self.offsets, self.offsets[first] + _GROUP, "right")) - 1
            end = min(max(end, first + 1), last)
            counts = np.diff(self.offsets[first : end + 1])
            yield np.repeat(np.arange(first, end), counts), slice(*self.offsets[[first, end]].tolist())
            first = end

    def in_input_unit(self, scale: int) -> ReachedRows:
        """Return distances in the unit of the input. Raise `ScaledTooLongError` as `distances_in_input_unit`."""
        return replace(self, values=distances_in_input_unit(self.values, scale), missing=np.inf)


class ReachedParts:
    """What is reached from the sources of a call, part by part.

    Parameters
    ----------
    n_sources, n_columns
        The size of all rows, S and V.
    dtype
        The type of a distance.
    predecessors
        Whether there are predecessors.
    """

    def __init__(self, n_sources: int, n_columns: int, dtype: np.dtype, predecessors: bool) -> None:
        self._shape = n_sources, n_columns
        #: The type of distances and of predecessors, and the value of unreached vertices.
        kinds = [(dtype, unreached_distance(dtype)), (np.dtype(np.uint32), NO_VERTEX)]
        self._kinds = kinds[: 1 + predecessors]
        #: By the first source of a part: how many values each of its rows has, their columns, and the values.
        self._parts: dict[int, list[np.ndarray]] = {}
        self._n_bytes = self._n_bytes_seen = 0
        self._lock = threading.Lock()

    def take(self, first: int, solution: Solution) -> None:
        """Take what a part reaches, if need be out of its rows; several threads call it.

        Raises
        ------
        InputError
            What was reached so far and the copy that joins it do not fit the memory.
        """
        found = reached_of(solution)
        part = [found.counts, found.vertices, found.distances]
        if solution.predecessors is not None:
            part.append(solution.predecessors[found.places, found.vertices])
        with self._lock:
            self._parts[first] = part
            self._n_bytes += sum(array.nbytes for array in part)
            if self._n_bytes >= self._n_bytes_seen + _LOOK_BYTES:
                self._check_memory()

    def _check_memory(self) -> None:
        self._n_bytes_seen = self._n_bytes
        if (free := free_memory_bytes()) < self._n_bytes // 2:
            n_done = sum(len(part[0]) for part in self._parts.values())
            raise InputError(
                f"what {n_done:,} of {plural(self._shape[0], 'source')} reach takes {in_bytes(self._n_bytes)}, "
                f"and {in_bytes(free)} of memory are free",
                hint="lower `cutoff`, solve fewer sources in a call, or write files with `sp.run`",
            )

    def joined(self) -> tuple[Any, Any]:
        """Return the distances of all parts, and the predecessors: what is reached, or whole rows if they are smaller.

        Call one of these methods once. The parts are freed one by one.
        """
        n_values = sum(len(part[1]) for part in self._parts.values())
        n_bytes = sum(dtype.itemsize for dtype, _ in self._kinds)
        is_smaller = n_values * (4 + n_bytes) < self._shape[0] * self._shape[1] * n_bytes
        return self.as_reached() if is_smaller else self.as_rows()

    def as_rows(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Return whole rows (S, V)."""
        rows = [np.empty(self._shape, dtype) for dtype, _ in self._kinds]
        for first in sorted(self._parts):
            counts, columns, *values = self._parts.pop(first)
            places = np.repeat(np.arange(len(counts)), counts)
            for of_all, of_part, (_, missing) in zip(rows, values, self._kinds, strict=True):
                some = of_all[first : first + len(counts)]
                some[:] = missing
                some[places, columns] = of_part
        return rows[0], rows[1] if len(rows) > 1 else None

    def as_reached(self) -> tuple[ReachedRows, ReachedRows | None]:
        """Return what is reached."""
        parts = [self._parts.pop(first) for first in sorted(self._parts)]
        counts = _joined(parts, np.dtype(np.int64), self._shape[0])
        offsets = np.concatenate([[0], np.cumsum(counts)])
        columns = _joined(parts, np.dtype(np.uint32), offsets[-1])
        rows = [
            ReachedRows(self._shape[1], missing, offsets, columns, _joined(parts, dtype, offsets[-1]))
            for dtype, missing in self._kinds
        ]
        return rows[0], rows[1] if len(rows) > 1 else None


def _joined(parts: list[list[np.ndarray]], dtype: np.dtype, size: int) -> np.ndarray:
    """Return the first array of all `parts` in one array (size,). It is removed from each part, and so freed."""
    if len(parts) == 1:
        return parts[0].pop(0)
    joined, begin = np.empty(size, dtype), 0
    for part in parts:
        array = part.pop(0)
        joined[begin : begin + len(array)] = array
        begin += len(array)
    return joined
