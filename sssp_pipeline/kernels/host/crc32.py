"""CRC-32 by parts: the checksum of bytes whose parts were summed apart, on a GPU or elsewhere.

A CRC is the remainder of a polynomial over {0, 1}. So the remainder of two parts, one after the other, is the remainder
of the first, multiplied by x to the number of bits of the second, plus the remainder of the second. The highest bit of
a word is the coefficient of x^0, as in zlib.

The remainder of a part starts at 0. A checksum starts with all bits set, and all bits of it are turned at the end.

A run on a GPU calls these functions, and few of them often. So they are plain, and only `appended_of_any` is compiled:
to load numba takes longer than to solve on a small graph.

References
----------
ISO 3309; Peterson and Brown, Cyclic Codes for Error Detection, 1961.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sssp_pipeline.base.numba_cache import njit

_POLYNOMIAL = 0xEDB88320
_ONE = 1 << 31
_ALL = 2**32 - 1
#: x to this power has the remainder 1.
_ORDER = 2**32 - 1


def times(a: int, b: int) -> int:
    """Return the product of two remainders."""
    product = 0
    for _ in range(32):
        if a & _ONE:
            product ^= b
        a = a << 1 & _ALL
        b = b >> 1 ^ (_POLYNOMIAL if b & 1 else 0)
    return product


#: The remainders of x to the powers 1, 2, 4, 8, …
_SQUARES = [_ONE >> 1]
for _ in range(63):
    _SQUARES.append(times(_SQUARES[-1], _SQUARES[-1]))


def power_of_x(n_bits: int) -> int:
    """Return the remainder of x to the power `n_bits`, which is 0 or more."""
    power = _ONE
    for k in range(n_bits.bit_length()):
        if n_bits >> k & 1:
            power = times(power, _SQUARES[k])
    return power


def appended(checksum: int, remainders: np.ndarray, n_bits: np.ndarray) -> int:
    """Return the checksum of some bytes, whose own is `checksum`, followed by parts. These need not be whole bytes.

    It is fast for lengths that earlier calls had.

    Parameters
    ----------
    remainders
        (k,) uint32, of the parts.
    n_bits
        (k,) int64, their lengths.
    """
    state = checksum ^ _ALL
    for remainder, length in zip(remainders.tolist(), n_bits.tolist(), strict=True):
        first, second, third, fourth = _advancing_by(length)
        state = first[state & 255] ^ second[state >> 8 & 255] ^ third[state >> 16 & 255] ^ fourth[state >> 24]
        state ^= remainder
    return state ^ _ALL


@lru_cache(2**6)
def _advancing_by(n_bits: int) -> list[list[int]]:
    tables: list[list[int]] = advancing(power_of_x(n_bits)).tolist()
    return tables


_times = njit()(times)
_SQUARES_OF_X = np.array(_SQUARES, np.uint32)


@njit()
def appended_of_any(checksum: int, remainders: np.ndarray, n_bits: np.ndarray) -> int:
    """Do what `appended` does, fast for parts of any lengths."""
    state = checksum ^ _ALL
    for i in range(len(remainders)):
        for k in range(64):
            if n_bits[i] >> k & 1:
                state = _times(state, np.int64(_SQUARES_OF_X[k]))
        state ^= np.int64(remainders[i])
    return state ^ _ALL


@lru_cache(2**6)
def of_ones(n_bits: int) -> int:
    """Return the remainder of `n_bits` bits that are all set."""
    ones, power = 0, _ONE
    length, left = _ONE >> 1, n_bits  # x to the number of bits of `doubled`
    doubled = _ONE
    while left > 0:
        if left & 1:
            ones ^= times(doubled, power)
            power = times(power, length)
        doubled ^= times(doubled, length)
        length = times(length, length)
        left >>= 1
    return times(ones, _POLYNOMIAL)


def power_without_zeros(n_bits: int) -> int:
    """Return what multiplies a remainder to leave out the last `n_bits` bits, which are 0."""
    return power_of_x(_ORDER - n_bits)


def advancing(power: int) -> np.ndarray:
    """Return tables (4, 256) uint32 that multiply by `power`: the product is the sum of one entry for each byte."""
    places = np.arange(0, 32, 8, dtype=np.uint32)[:, None]
    return _times_each(np.arange(256, dtype=np.uint32) << places, power)


def correct_segments(
    remainders: np.ndarray, n_present: np.ndarray, n_columns: int, segment: int, width: int
) -> None:
    """Correct the remainders (n, K) of the bits of each segment, as `row_facts.cu` finds them, in place.

    Its bits end with zeros up to a multiple of `width`, and it has no bits of segments that are complete. `n_present`
    (n, K) says how many values of each segment are present, of `segment` or of the rest of `n_columns`.
    """
    for k in range(remainders.shape[1]):
        length = min(segment, n_columns - k * segment)
        is_complete = n_present[:, k] == length
        if not is_complete.all():
            remainders[:, k] = _times_each(remainders[:, k], power_without_zeros(-length % width))
        remainders[is_complete, k] = of_ones(length)


def _times_each(remainders: np.ndarray, factor: int) -> np.ndarray:
    """Return the products of `remainders`, of any shape, with `factor`."""
    products = np.zeros_like(remainders)
    for bit in range(31, -1, -1):
        products ^= (remainders >> np.uint32(bit) & np.uint32(1)) * np.uint32(factor)
        factor = times(factor, _SQUARES[0])
    return products
