"""Units: weights that `graph.weights.scale` multiplied are solved as integers; people see the unit of the input.

Dividing by the scale rounds once, so a distance in the input's unit is the float64 nearest to the exact one, and the
integer is found again from it.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TypeVar

import numpy as np

from sssp_pipeline.csr import unreached_distance
from sssp_pipeline.errors import UnsolvableError

Number = TypeVar("Number", int, float)

#: Integers up to here are exact in float64.
LARGEST = 2**53


def in_input_unit(value: Number, scale: int | None) -> Number | float:
    """Return a length in the input's unit; `value` itself without a scale."""
    return value if scale is None else value / scale


def scaled_limit(limit: float | None, scale: int | None) -> float | None:
    """Return the largest scaled length that is at most `limit` in the input's unit; `limit` itself without a scale."""
    if limit is None or scale is None:
        return limit
    return int(Decimal(str(limit)) * scale // 1)


def distances_in_input_unit(distances: np.ndarray, scale: int) -> tuple[np.ndarray, np.ndarray]:
    """Return integer `distances` (n,) divided by `scale` as (n,) float64, and (n,) bool where none was reached.

    Raises
    ------
    UnsolvableError
        A distance is too large for a float64 to hold it exactly before it is divided.
    """
    missing = distances == unreached_distance(distances.dtype)
    whole = np.where(missing, 0, distances)
    largest = max(int(whole.max(initial=0)), -int(whole.min(initial=0)))
    if largest > LARGEST:
        raise UnsolvableError(
            f"a distance times `graph.weights.scale` is {largest}, above 2^53",
            hint="lower `graph.weights.scale`, or remove it to compute with float64",
        )
    return whole.astype(np.float64) / scale, missing


def distances_as_solved(stored: np.ndarray, missing: np.ndarray, scale: int, dtype: np.dtype) -> np.ndarray:
    """Return the integer distances (n,) of `dtype` that `stored` (n,) float64 are, in the input's unit.

    Raises
    ------
    ValueError
        One of them is no distance of such weights.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        whole = np.rint(stored * scale)
        wrong = ~missing & ((whole / scale != stored) | ~(np.abs(whole) <= LARGEST))
    limits = np.iinfo(dtype)
    wrong |= ~missing & ((whole < limits.min) | (whole >= limits.max))
    if wrong.any():
        raise ValueError(f"{stored[np.argmax(wrong)]} is no distance of weights with 1/{scale} as their unit")
    return np.where(missing, unreached_distance(dtype), np.where(missing, 0, whole).astype(dtype))
