"""CRC-32 by parts: the checksum of bytes whose parts were summed apart, on a GPU or elsewhere.

A CRC is the remainder of a polynomial over {0, 1}. So the remainder of two parts, one after the other, is the remainder
of the first, multiplied by x to the number of bits of the second, plus the remainder of the second. The highest bit of
a word is the coefficient of x^0, as in zlib.

The functions keep Python's lock: they take a microsecond, and a thread that gives the lock back may wait longer for it.

The remainder of a part starts at 0. A checksum starts with all bits set, and all bits of it are turned at the end.

References
----------
ISO 3309; Peterson and Brown, Cyclic Codes for Error Detection, 1961.
"""

from __future__ import annotations

import numpy as np

from sssp_pipeline.base.numba_cache import njit

_POLYNOMIAL = np.uint32(0xEDB88320)
_ONE = np.uint32(1 << 31)
_ALL = np.uint32(0xFFFFFFFF)
#: x to this power has the remainder 1.
_ORDER = 2**32 - 1


@njit()
def times(a: np.uint32, b: np.uint32) -> np.uint32:
    """Return the product of two remainders."""
    product = np.uint32(0)
    for _ in range(32):
        if a & _ONE:
            product ^= b
        a = np.uint32(a << np.uint32(1))
        b = np.uint32((b >> np.uint32(1)) ^ (_POLYNOMIAL if b & np.uint32(1) else np.uint32(0)))
    return product


#: The remainders of x to the powers 1, 2, 4, 8, …
_SQUARES = np.empty(64, np.uint32)
_SQUARES[0] = _ONE >> np.uint32(1)
for _k in range(63):
    _SQUARES[_k + 1] = times.py_func(_SQUARES[_k], _SQUARES[_k])


@njit()
def power_of_x(n_bits: int) -> np.uint32:
    """Return the remainder of x to the power `n_bits`, which is 0 or more."""
    power = _ONE
    for k in range(64):
        if n_bits >> k & 1:
            power = times(power, _SQUARES[k])
    return power


@njit()
def appended(checksum: int, remainders: np.ndarray, n_bits: np.ndarray) -> int:
    """Return the checksum of some bytes, whose own is `checksum`, followed by parts. These need not be whole bytes.

    Parameters
    ----------
    remainders
        (k,) uint32, of the parts.
    n_bits
        (k,) int64, their lengths.
    """
    state = np.uint32(checksum) ^ _ALL
    known, power = np.int64(0), _ONE  # parts often have equal lengths
    for i in range(len(remainders)):
        if n_bits[i] != known:
            known, power = n_bits[i], power_of_x(n_bits[i])
        state = times(state, power) ^ remainders[i]
    return int(state ^ _ALL)


@njit()
def of_ones(n_bits: int) -> np.uint32:
    """Return the remainder of `n_bits` bits that are all set."""
    ones, power = np.uint32(0), _ONE
    length, left = _ONE >> np.uint32(1), n_bits  # x to the number of bits of `doubled`
    doubled = _ONE
    while left > 0:
        if left & 1:
            ones ^= times(doubled, power)
            power = times(power, length)
        doubled ^= times(doubled, length)
        length = times(length, length)
        left >>= 1
    return times(ones, _POLYNOMIAL)


@njit()
def power_without_zeros(n_bits: int) -> np.uint32:
    """Return what multiplies a remainder to leave out the last `n_bits` bits, which are 0."""
    return power_of_x(_ORDER - n_bits)


@njit()
def advancing(power: np.uint32) -> np.ndarray:
    """Return tables (4, 256) uint32 that multiply by `power`: the product is the sum of one entry for each byte."""
    tables = np.empty((4, 256), np.uint32)
    for place in range(4):
        for byte in range(256):
            tables[place, byte] = times(np.uint32(byte << (8 * place)), power)
    return tables


@njit()
def correct_segments(
    remainders: np.ndarray, n_present: np.ndarray, n_columns: int, segment: int, width: int
) -> None:
    """Correct the remainders (n, K) of the bits of each segment, as `row_facts.cu` finds them, in place.

    Its bits end with zeros up to a multiple of `width`, and it has no bits of segments that are complete. `n_present`
    (n, K) says how many values of each segment are present, of `segment` or of the rest of `n_columns`.
    """
    for k in range(remainders.shape[1]):
        length = min(segment, n_columns - k * segment)
        ones, power = of_ones(length), power_without_zeros(-length % width)
        for i in range(len(remainders)):
            if n_present[i, k] == length:
                remainders[i, k] = ones
            else:
                remainders[i, k] = times(remainders[i, k], power)
