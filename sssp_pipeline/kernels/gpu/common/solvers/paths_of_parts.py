"""The sums along the shortest paths of each part of a call; the rows stay on the device."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sssp_pipeline.kernels.answers.path_sums import add_words
from sssp_pipeline.kernels.contract.path_sums_asked import RowSums
from sssp_pipeline.kernels.gpu.common.rows.path_sums_on_device import AddedRows, PathSumsOnDevice


class PathsOfParts:
    """The sums of each part, in the order of the launches. The CPU adds the rows that the device leaves.

    Parameters
    ----------
    sources, ends
        (S,) uint32 of a call, and where its parts end.
    on_host
        Makes the sums of the rows that are left of a part.
    """

    def __init__(
        self,
        on_device: PathSumsOnDevice,
        sources: np.ndarray,
        ends: Sequence[int],
        on_host: Callable[[], RowSums],
    ) -> None:
        self._on_device, self._sources, self._make = on_device, sources, on_host
        #: Ends of the parts that launches have not reached, and of those whose rows are not all finished.
        self._ends, self._unfinished = deque(ends), deque(ends)
        self._n_added = self._n_finished = 0
        #: The words (P, W) of each part that has ended, valid when the launch that ended it is over.
        self._ended: deque[np.ndarray] = deque()
        self._on_host: RowSums | None = None
        #: The words of parts whose rows are finished.
        self._words: deque[np.ndarray] = deque()

    def add(self, rows: Any) -> list[AddedRows]:
        """Enqueue the sums of `rows` (n, V) of the next n sources; return what `finish` takes when that is over."""
        added = []
        first = 0
        while first < len(rows):
            n_rows = min(len(rows) - first, self._ends[0] - self._n_added)
            sources = self._sources[self._n_added : self._n_added + n_rows]
            added.append(self._on_device.add(rows[first : first + n_rows], sources))
            first, self._n_added = first + n_rows, self._n_added + n_rows
            if self._n_added == self._ends[0]:
                self._ended.append(self._on_device.take())
                self._ends.popleft()
        return added

    def finish(self, added: list[AddedRows]) -> np.ndarray:
        """Add the rows that were left on the host, and return the totals (n, T) float64 of all rows.

        Raises
        ------
        UncountablePathsError
            The paths from a source cannot be counted.
        """
        totals = []
        for of_part in added:
            found, left = of_part.totals(), of_part.left()
            if len(left):
                self._on_host = self._on_host or self._make()
                found[left] = self._on_host.add(of_part.rows_of(left), of_part.sources[left])
            totals.append(found)
            self._n_finished += len(found)
            if self._n_finished == self._unfinished[0]:
                self._unfinished.popleft()
                words = self._ended.popleft()
                if self._on_host is not None:
                    add_words(words, self._on_host.part_words)
                self._words.append(words)
                self._on_host = None
        return np.concatenate(totals)

    def words_of_part(self) -> np.ndarray:
        """Return the words (P, W) of the next part whose rows are finished."""
        return self._words.popleft()
