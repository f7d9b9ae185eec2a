"""Facts about rows of values that a GPU finds while the rows are on it, so that the host need not read them again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: Values of a segment. A row is cut into segments from its beginning; the last one is the rest.
SEGMENT = 2**19


@dataclass(frozen=True, eq=False)
class RowFacts:
    """Facts about each of K segments of S rows."""

    #: (S, K), of the type of the rows: the least and the largest value.
    least: np.ndarray
    largest: np.ndarray
    #: (S, K) uint32: the remainder of the segment's bytes, as in `host/crc32.py`.
    remainders: np.ndarray

    def part(self, rows: slice, segments: slice = slice(None)) -> RowFacts:
        """Return the facts about some segments of some rows."""
        at = rows, segments
        return RowFacts(self.least[at], self.largest[at], self.remainders[at])

    @classmethod
    def joined(cls, parts: list[RowFacts]) -> RowFacts:
        """Return the facts about the rows of all `parts`, of which there is at least one."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__annotations__))


def n_segments(n_columns: int) -> int:
    """Return how many segments a row of `n_columns` values has."""
    return -(-n_columns // SEGMENT)
