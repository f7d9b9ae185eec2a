"""Units: with `graph.weights.scale` the solvers use scaled integer weights, and outputs use the unit of the input.

A distance in the input's unit is the scaled integer divided by the scale. The division rounds once, so the result is
the float64 nearest to the exact distance, and the scaled integer can be recovered from it.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TypeVar

import numpy as np

from sssp_pipeline.base.csr import unreached_distance
from sssp_pipeline.base.errors import ScaledTooLongError

Number = TypeVar("Number", int, float)

#: Integers up to here are exact in float64.
LARGEST = 2**53


def in_input_unit(value: Number, scale: int | None) -> Number | float:
    """Return the scaled length `value` in the input's unit; `value` itself if `scale` is None."""
    return value if scale is None else value / scale


def scaled_limit(limit: float | None, scale: int | None) -> float | None:
    """Return the largest scaled length that is at most `limit` in the input's unit.

    It is `limit` itself if `scale` is None, or if `limit` is not finite.
    """
    if limit is None or scale is None or not math.isfinite(limit):
        return limit
    return int(Decimal(str(limit)) * scale // 1)


def scaled_least(limit: float, scale: int | None) -> float:
    """Return the least scaled length that is at least `limit` in the input's unit.

    It is `limit` itself if `scale` is None.
    """
    return limit if scale is None else math.ceil(Decimal(str(limit)) * scale)


def distances_in_input_unit(distances: np.ndarray, scale: int) -> np.ndarray:
    """Return integer `distances` (n,) divided by `scale`, (n,) float64; infinity for unreached ones.

    Raises
    ------
    ScaledTooLongError
        A distance is above `LARGEST`.
    """
    missing = distances == unreached_distance(distances.dtype)
    whole = np.where(missing, 0, distances)
    largest = max(int(whole.max(initial=0)), -int(whole.min(initial=0)))
    if largest > LARGEST:
        raise ScaledTooLongError(largest)
    return np.where(missing, np.inf, whole / scale)


def distances_as_solved(stored: np.ndarray, missing: np.ndarray, scale: int, dtype: np.dtype) -> np.ndarray:
    """Return the scaled integer distances (n,) of type `dtype` for `stored` (n,) float64 in the input's unit.

    Raises
    ------
    ValueError
        A stored value is not a whole number divided by `scale`, or `dtype` cannot hold it.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        whole = np.rint(stored * scale)
        wrong = ~missing & ((whole / scale != stored) | ~(np.abs(whole) <= LARGEST))
    limits = np.iinfo(dtype)
    wrong |= ~missing & ((whole < limits.min) | (whole >= limits.max))
    if wrong.any():
        raise ValueError(
            f"{stored[np.argmax(wrong)]} is not a distance if weights are multiples of 1/{scale}"
        )
    return np.where(missing, unreached_distance(dtype), np.where(missing, 0, whole).astype(dtype))
