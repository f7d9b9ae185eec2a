"""Numbers in text: compiled functions that read one id or weight; the scans of `tokenizer` consist of them.

Every text ends with a line end, so no function has to check for the end of the text.

Weights are rounded correctly. A decimal is computed here if its digits form an integer of at most 2^52 and its power
of ten is at most 22. Both are then exact in float64, and one multiplication or division rounds once (Clinger, "How to
read floating point numbers accurately", PLDI 1990). All other decimals are left to a correctly rounding parser.

`graph.weights.scale` relies on this: decimals with the same number of places, whose digits form different integers of
at most 2^52, have different float64. Zeros at the end of a decimal are no digits here, so `2.500000000000000000e+00` is
computed here too. Integers keep their zeros, because an integer that float64 cannot hold must be found.
"""

from __future__ import annotations

import numpy as np

from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.pipeline.formats.parsing.faults import (
    BAD_ID,
    HUGE_ID,
    NEED_FLOAT,
    NEED_UNSIGNED,
    NEGATIVE_ID,
    NO_FAULT,
)
from sssp_pipeline.pipeline.formats.parsing.line_blocks import NEWLINE

#: Statuses of a decimal, as `scan_decimal` returns them.
EXACT = 0
DOUBTFUL = 1
NO_NUMBER = 2
INFINITE_OR_NAN = 3

SPACE = 32
ZERO = ord("0")
_MINUS = ord("-")
_PLUS = ord("+")
POINT = ord(".")
COMMA = ord(",")
_LOWER_A = ord("a")
_LOWER_E = ord("e")
_LOWER_F = ord("f")
_LOWER_I = ord("i")
_LOWER_N = ord("n")
_INFINITY = np.frombuffer(b"infinity", np.uint8)
_TO_LOWER = 32

_INT64_MAX = np.uint64(2**63 - 1)
_UINT64_MAX_TENTH = np.uint64((2**64 - 1) // 10)
_POWERS_OF_TEN = 10.0 ** np.arange(23)
#: Decimals with digits that form an integer up to this one, and few enough places, are computed here.
LARGEST_EXACT = 2**52


@njit()
def skip_blanks(data: np.ndarray, p: int) -> int:
    """Return the position of the first byte from `p` on that is no white space, or is a line end."""
    while data[p] <= SPACE and data[p] != NEWLINE:
        p += 1
    return p


@njit()
def after_token(data: np.ndarray, p: int) -> int:
    """Return the position after the token at `p`."""
    while data[p] > SPACE:
        p += 1
    return p


@njit()
def after_line(data: np.ndarray, p: int) -> int:
    """Return the position after the line that `p` is in."""
    while data[p] != NEWLINE:
        p += 1
    return p + 1


@njit()
def pack(start: int, stop: int) -> int:
    """Return the token `data[start:stop]` as one int64: start in the high half, length in the low half."""
    return (start << 32) | (stop - start)


@njit()
def scan_id(data: np.ndarray, p: int) -> tuple:
    """Read digits; return (value, position after them, fault)."""
    start = p
    value = np.int64(0)
    digit = np.uint8(data[p] - ZERO)
    while digit < 10:
        value = value * 10 + np.int64(digit)
        p += 1
        digit = np.uint8(data[p] - ZERO)
    if p - start > 18 or data[p] > SPACE or p == start:
        return scan_odd_id(data, start)
    return value, p, NO_FAULT


@njit()
def scan_odd_id(data: np.ndarray, start: int) -> tuple:
    """Read an id of more than 18 digits, or one that is not a number; returns as `scan_id`."""
    is_negative, magnitude, p, needed = scan_integer(data, start)
    if needed == NEED_FLOAT:
        end = after_token(data, start)
        for q in range(start, end):
            if np.uint8(data[q] - ZERO) >= 10:
                return np.int64(0), end, BAD_ID
        return np.int64(0), end, HUGE_ID
    if is_negative:
        return np.int64(0), p, NEGATIVE_ID
    if data[start] == _PLUS:
        return np.int64(0), p, BAD_ID
    if needed == NEED_UNSIGNED:
        return np.int64(0), p, HUGE_ID
    return np.int64(magnitude), p, NO_FAULT


@njit()
def scan_integer(data: np.ndarray, p: int) -> tuple:
    """Read an integer; return (is_negative, magnitude, position after it, needed mode).

    The needed mode is 0 for an int64 and `NEED_UNSIGNED` for a magnitude above 2^63 - 1. For any other token it is
    `NEED_FLOAT`, and the magnitude is 0.
    """
    is_negative = data[p] == _MINUS
    if is_negative or data[p] == _PLUS:
        p += 1
    start = p
    magnitude = np.uint64(0)
    digit = np.uint8(data[p] - ZERO)
    while digit < 10:
        wide_digit = np.uint64(digit)
        if p - start >= 19 and (
            magnitude > _UINT64_MAX_TENTH or (magnitude == _UINT64_MAX_TENTH and wide_digit > np.uint64(5))
        ):
            return is_negative, np.uint64(0), p, NEED_FLOAT
        magnitude = magnitude * np.uint64(10) + wide_digit
        p += 1
        digit = np.uint8(data[p] - ZERO)
    if p == start or data[p] > SPACE:
        return is_negative, np.uint64(0), p, NEED_FLOAT
    return is_negative, magnitude, p, NEED_UNSIGNED if magnitude > _INT64_MAX else 0


@njit()
def scan_decimal(data: np.ndarray, p: int, point: int) -> tuple:
    """Read a number with or without decimals and exponent; return (value, position after it, status).

    `point` is the byte before the decimals.

    The status is `EXACT`, `DOUBTFUL` (another parser must read the number), `NO_NUMBER` or `INFINITE_OR_NAN`.
    """
    is_negative = data[p] == _MINUS
    if is_negative or data[p] == _PLUS:
        p += 1
    mantissa = np.int64(0)
    n_digits = 0
    exponent = 0
    is_cut = False
    seen_point = False
    while True:
        digit = np.uint8(data[p] - ZERO)
        if digit < 10:
            n_digits += 1
            if mantissa < 100_000_000_000_000_000:
                mantissa = mantissa * 10 + np.int64(digit)
                exponent -= seen_point
            elif digit or not seen_point:
                is_cut = True
        elif data[p] == point and not seen_point:
            seen_point = True
        else:
            break
        p += 1
    if n_digits == 0:
        if not seen_point and is_infinite_or_nan(data, p):
            return 0.0, p, INFINITE_OR_NAN
        return 0.0, p, NO_NUMBER
    if (data[p] | _TO_LOWER) == _LOWER_E:
        p += 1
        exponent_is_negative = data[p] == _MINUS
        if exponent_is_negative or data[p] == _PLUS:
            p += 1
        start = p
        written = 0
        digit = np.uint8(data[p] - ZERO)
        while digit < 10:
            if written < 1_000_000:
                written = written * 10 + int(digit)
            p += 1
            digit = np.uint8(data[p] - ZERO)
        if p == start:
            return 0.0, p, NO_NUMBER
        exponent += -written if exponent_is_negative else written
    if data[p] > SPACE:
        return 0.0, p, NO_NUMBER
    while seen_point and mantissa > LARGEST_EXACT and mantissa % 10 == 0:
        mantissa //= 10
        exponent += 1
    if is_cut or mantissa > LARGEST_EXACT or abs(exponent) > 22:
        return 0.0, p, DOUBTFUL
    value = float(mantissa)
    if exponent < 0:
        value /= _POWERS_OF_TEN[-exponent]
    else:
        value *= _POWERS_OF_TEN[exponent]
    return -value if is_negative else value, p, EXACT


@njit()
def is_infinite_or_nan(data: np.ndarray, p: int) -> bool:
    """Return whether the token at `p`, without its sign, is `inf`, `infinity` or `nan` in upper or lower case."""
    n = after_token(data, p) - p
    if n == 3:
        a, b, c = data[p] | _TO_LOWER, data[p + 1] | _TO_LOWER, data[p + 2] | _TO_LOWER
        return (a == _LOWER_N and b == _LOWER_A and c == _LOWER_N) or (
            a == _LOWER_I and b == _LOWER_N and c == _LOWER_F
        )
    if n == 8:
        n_alike = 0
        for i in range(8):
            n_alike += (data[p + i] | _TO_LOWER) == _INFINITY[i]
        return n_alike == 8
    return False
