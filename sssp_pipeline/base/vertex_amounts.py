"""Amounts of vertices, such as jobs or people, as integers whose sums are exact in any order."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sssp_pipeline.base.errors import InputError

#: The magnitudes of a column of floats add up to less than 2 to the power of this.
_BITS = 62


@dataclass(frozen=True, eq=False)
class VertexAmounts:
    """A columns of amounts of V vertices."""

    #: (A, V) int64. The sum of all magnitudes of a row fits int64.
    values: np.ndarray
    #: For each column the power of two by which its integers are multiplied; None for a column of integers.
    exponents: tuple[int | None, ...]

    def words(self) -> np.ndarray:
        """Return the values as (2·A·V,) uint32."""
        return self.values.ravel().view(np.uint32)

    @staticmethod
    def of(columns: dict[str, np.ndarray], vertices: np.ndarray, n_vertices: int) -> VertexAmounts:
        """Return the amounts in `columns`, each (n,) int64 or finite float64, of `vertices` (n,); others have 0.

        Floats are rounded to multiples of a power of two. It is the least one for which the magnitudes of the column
        add up to less than 2^62 multiples.

        Raises
        ------
        InputError
            The sum of a column of integers, or of their magnitudes, does not fit int64.
        """
        values = np.zeros((len(columns), n_vertices), np.int64)
        exponents: list[int | None] = []
        for row, (name, column) in zip(values, columns.items(), strict=True):
            if column.dtype.kind == "f":
                _, bits = math.frexp(_total(column, name))
                row[vertices] = np.rint(np.ldexp(column, _BITS - bits)).astype(np.int64)
                exponents.append(bits - _BITS)
                continue
            if sum(map(abs, column.tolist())) >= 2**63:
                raise _too_large(name, "64 bits hold")
            row[vertices] = column
            exponents.append(None)
        return VertexAmounts(values, tuple(exponents))


def _total(column: np.ndarray, name: str) -> float:
    try:
        return math.fsum(np.abs(column))
    except OverflowError as error:
        raise _too_large(name, "float64 holds") from error


def _too_large(name: str, limit: str) -> InputError:
    return InputError(
        f"the amounts of column `{name}` add up to more than {limit}", hint="write them in a larger unit"
    )
