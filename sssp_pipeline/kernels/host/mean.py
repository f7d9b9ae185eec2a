"""The mean of distances, defined so that no order of summation changes a bit of it.

Integers are summed exactly. A float becomes an integer of 63 bits: its mantissa, shifted right by the difference of its
exponent to the exponent of the largest distance. Bits that are shifted out are dropped, less than 2^-62 of the largest
distance. Then the sum is exact too.

A sum of up to 2^32 such integers has two parts: the sum of their lower 32 bits, and the sum of their upper bits. With
negative distances, the upper part is signed, and "largest" means the largest magnitude. The mean is the sum over the
count, rounded to float64. `summary.cu` does the same on a GPU for distances of zero or more.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO

_LOWER = np.uint64(0xFFFFFFFF)
_32: Any = np.uint64(32)
_63: Any = np.uint64(63)


def mantissa_bits(dtype: np.dtype) -> int:
    """Return how many bits of a float of `dtype` are its mantissa's; 0 for integers."""
    return int(np.finfo(dtype).nmant) if dtype.kind == "f" else 0


def mean_distance(dtype: np.dtype, lower: int, upper: int, largest: int, count: int) -> float:
    """Return the mean of `count` distances, 0.0 if there are none.

    Parameters
    ----------
    dtype
        The distances' type.
    lower, upper
        The sums of the lower and of the upper 32 bits.
    largest
        The bits of the largest magnitude.
    """
    if count == 0:
        return 0.0
    total, exponent = exact_sum(dtype, lower, upper, largest)
    return math.ldexp(total / count, exponent)


def exact_sum(dtype: np.dtype, lower: int, upper: int, largest: int) -> tuple[int, int]:
    """Return the sum as an integer and the power of two by which it is multiplied; `mean_distance` has parameters."""
    total = (upper << 32) + lower
    if dtype.kind != "f":
        return total, 0
    bits = mantissa_bits(dtype)
    return total, max(largest >> bits, 1) - (int(np.finfo(dtype).maxexp) - 1) - 62


def mean_distances(
    dtype: np.dtype, lower: np.ndarray, upper: np.ndarray, largest: np.ndarray, count: np.ndarray
) -> np.ndarray:
    """Return `mean_distance` (n,) of each row of the arguments (n,) uint64."""
    if dtype.kind != "f" and not upper.any() and lower.max(initial=0) < 2**53:
        # Both are exact in float64, so the division rounds once, as for Python's integers.
        return lower / np.maximum(count, 1)
    rows = zip(lower.tolist(), upper.tolist(), largest.tolist(), count.tolist(), strict=True)
    return np.array([mean_distance(dtype, *row) for row in rows])


def sums_of_counts(
    distances: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return what `sums` finds in rows of which only the number of each distance is known.

    Parameters
    ----------
    distances
        (D,), zero or more and rising.
    counts
        (D, S) uint32. A row has a distance if it has the ones before.

    Returns
    -------
    bits, furthest, lower, upper : ndarray
        (S,): the largest distance as bits in uint64 and as a distance, and both sums, uint64.
    """
    furthest = distances[(counts > 0).sum(axis=0) - 1]
    word = f"u{distances.itemsize}"
    parts, bits = distances.view(word).astype(np.uint64)[:, None], furthest.view(word).astype(np.uint64)
    if mantissa := np.uint64(mantissa_bits(distances.dtype)):
        exponents = parts >> mantissa
        parts = (parts & ((ONE << mantissa) - ONE)) | ((exponents > 0).astype(np.uint64) << mantissa)
        shifts = np.maximum(bits >> mantissa, ONE) - np.maximum(exponents, ONE)
        parts = (parts << (_63 - ONE - mantissa)) >> np.minimum(shifts, _63)
    lower, upper = ((part * counts).sum(axis=0, dtype=np.uint64) for part in (parts & _LOWER, parts >> _32))
    return bits, furthest, lower, upper


@njit(nogil=True)
def sums(distances: np.ndarray, unreached: Any, largest: Any, mantissa: Any, sign: Any = ZERO) -> Any:
    """Return the sums of the lower and of the upper 32 bits of the distances that are not `unreached`.

    With a `sign`, the upper sum is an int64.

    Parameters
    ----------
    distances
        (V,) unsigned: integers, or the bits of floats.
    largest
        The bits of the largest magnitude of them.
    mantissa
        uint64, as `mantissa_bits` returns it.
    sign
        uint64 with the bit that negative distances have; 0 if there are none.
    """
    lower = ZERO
    upper = ZERO
    top = max(np.uint64(largest) >> mantissa, ONE)
    for v in range(np.uint64(len(distances))):
        d = np.uint64(distances[v])
        if d == unreached:
            continue
        negative = d & sign
        if mantissa:
            d ^= negative
            exponent = d >> mantissa
            d &= (ONE << mantissa) - ONE
            if exponent:
                d |= ONE << mantissa
            d = (d << (_63 - ONE - mantissa)) >> min(top - max(exponent, ONE), _63)
            if negative:
                d = ~d + ONE
        elif negative:
            d |= ~(sign - ONE)
        lower += d & _LOWER
        upper += d >> _32
        if negative and d:  # minus a float that was shifted out is zero
            upper += ~_LOWER
    return lower, upper
