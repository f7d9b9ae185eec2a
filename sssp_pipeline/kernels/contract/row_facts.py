"""Facts about rows of values that a GPU finds while the rows are on it, so that the host need not read them again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

#: Values of a segment, a multiple of 32. A row is cut into segments from its beginning; the last one is the rest.
SEGMENT = 2**19


@dataclass(frozen=True, eq=False)
class RowFacts:
    """Facts about each of K segments of S rows.

    Packed rows have no unreached vertices: the distances of a segment's reached vertices are at its front, in order,
    and what is behind them has no meaning. The first three facts are then about these distances.
    """

    #: (S, K), of the type of the rows: the least and the largest value. Without meaning where no value is present.
    least: np.ndarray
    largest: np.ndarray
    #: (S, K) uint32: the remainder of the segment's bytes, as in `host/crc32.py`; None if it is not known.
    remainders: np.ndarray | None
    #: (S, K) uint32: how many values of the segment are present. None if the rows are not packed.
    n_present: np.ndarray | None = None
    #: (S, K) uint32: the remainder of the segment's bits, one for each value. None if the rows are not packed.
    bit_remainders: np.ndarray | None = None
    #: (S, `n_words`) uint32: a bit for each value, the lowest first: 1 if it is present. Without meaning in a segment
    #: whose values are all present. None if that is so everywhere, or if the rows are not packed.
    bits: np.ndarray | None = None

    def part(self, rows: slice, segments: slice = slice(None)) -> RowFacts:
        """Return the facts about some segments of some rows."""
        first, end, _ = segments.indices(self.least.shape[1])
        words = slice(first * (SEGMENT // 32), end * (SEGMENT // 32))
        *facts, bits = vars(self).values()
        parts: list[Any] = [None if values is None else values[rows, segments] for values in facts]
        parts.append(None if bits is None else bits[rows, words])
        return RowFacts(*parts)

    def selected(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which values of the packed `rows` (S, n) are present, (S, n) bool, and these values in order, (m,)."""
        assert self.n_present is not None, "the rows are not packed"
        if self.bits is None:
            return np.ones(rows.shape, bool), rows.ravel()
        bits = np.unpackbits(self.bits.view(np.uint8), axis=1, count=rows.shape[1], bitorder="little")
        is_present, values = bits.view(bool), []
        for row, n_present, present in zip(rows, self.n_present.tolist(), is_present, strict=True):
            for n, begin in zip(n_present, range(0, len(row), SEGMENT), strict=True):
                values.append(row[begin : begin + n])
                if n == len(row[begin : begin + SEGMENT]):
                    present[begin : begin + n] = True
        return is_present, np.concatenate(values)

    def unpacked(self, rows: np.ndarray, unreached: np.generic) -> np.ndarray:
        """Return the packed `rows` (S, n) with `unreached` where no value is present."""
        whole = np.full_like(rows, unreached)
        is_present, values = self.selected(rows)
        whole[is_present] = values
        return whole

    @classmethod
    def joined(cls, parts: list[RowFacts]) -> RowFacts:
        """Return the facts about the rows of all `parts`, at least one, without their bits."""
        of_fields = zip(*([*vars(part).values()][:-1] for part in parts), strict=True)
        joined: list[Any] = [None if values[0] is None else np.concatenate(values) for values in of_fields]
        return cls(*joined)


def n_segments(n_columns: int) -> int:
    """Return how many segments a row of `n_columns` values has."""
    return -(-n_columns // SEGMENT)


def n_words(n_columns: int) -> int:
    """Return how many words of 32 bits have a bit for each of `n_columns` values."""
    return -(-n_columns // 32)
