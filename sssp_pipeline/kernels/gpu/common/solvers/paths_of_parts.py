"""The sums along the shortest paths of each part of a call; the rows stay on the device."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sssp_pipeline.kernels.answers.path_sums import add_words
from sssp_pipeline.kernels.contract.packed_words import PackedWords
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
        self._ends = np.asarray(ends)
        #: Rows of a launch that fill the device.
        self.n_rows = 0 if on_device.size is None else on_device.size.n_rows
        #: Rows that are added, and that are finished; parts that are taken from the device, and that are returned.
        self._n_added = self._n_finished = self._n_taken = self._n_returned = 0
        #: The words of parts that are taken and not returned.
        self._taken: deque[PackedWords] = deque()
        #: The sums of rows that the device left, by part.
        self._on_host: dict[int, RowSums] = {}

    def add(self, rows: Any) -> list[AddedRows]:
        """Enqueue the sums of `rows` (n, V) of the next n sources; return what `finish` takes when that is over.

        If no set of sums is free, take the sums of the parts that have ended, and wait for that.
        """
        added, n_sets = [], self._on_device.n_sets
        first = 0
        while first < len(rows):
            n_ended = int(self._parts_of(self._n_added))
            if n_ended == self._n_taken + n_sets:
                self._on_device.wait()
                self._take(n_ended)
            last = min(self._n_taken + n_sets, len(self._ends)) - 1
            n_rows = min(len(rows) - first, int(self._ends[last]) - self._n_added)
            places = np.arange(self._n_added, self._n_added + n_rows)
            sets = (self._parts_of(places) % n_sets).astype(np.uint32)
            some = rows[first : first + n_rows], self._sources[places], sets
            added.append(self._on_device.add(*some))
            first, self._n_added = first + n_rows, self._n_added + n_rows
        return added

    def finish(self, added: list[AddedRows]) -> np.ndarray:
        """Add the rows that were left on the host, and return the totals (n, T) float64 of all rows.

        Raises
        ------
        UncountablePathsError
            The paths from a source cannot be counted.
        """
        totals = []
        for of_launch in added:
            found, left = of_launch.totals(), of_launch.left()
            parts = self._parts_of(self._n_finished + left)
            for part in np.unique(parts).tolist():
                of_part = left[parts == part]
                if part not in self._on_host:
                    self._on_host[part] = self._make()
                found[of_part] = self._on_host[part].add(
                    of_launch.rows_of(of_part), of_launch.sources[of_part]
                )
            totals.append(found)
            self._n_finished += len(found)
        return np.concatenate(totals)

    def words_of_part(self) -> PackedWords:
        """Return the words of the next part. Its rows are finished."""
        self._take(self._n_returned + 1)
        words = self._taken.popleft()
        if (on_host := self._on_host.pop(self._n_returned, None)) is not None:
            add_words(on_host.part_words, words.unpacked(len(on_host.part_words)))
            words = PackedWords.of(on_host.part_words)
        self._n_returned += 1
        return words

    def _parts_of(self, places: Any) -> np.ndarray:
        """Return the parts (n,) of the sources at `places` (n,): how many parts end before each."""
        return np.searchsorted(self._ends, places, "right")

    def _take(self, n_parts: int) -> None:
        """Take the sums of the first `n_parts` parts, whose launches are over."""
        for part in range(self._n_taken, n_parts):
            self._taken.append(self._on_device.take(part % self._on_device.n_sets))
        self._n_taken = max(self._n_taken, n_parts)
