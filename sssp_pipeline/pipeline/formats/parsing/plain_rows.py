"""Plain rows: a fast scan of the rows that most files consist of, eight bytes at a time.

A plain row has columns of up to 15 digits, or names, with spaces or tabs between them. Its weight may have a sign, and
decimals if the scan reads decimals. The scan stops before any other row, and `odd_rows` reads that row. So every
fault, and every rule that is not about plain rows, is only there.

Eight bytes are one little-endian word: the first byte of the text is the lowest byte of the word. The number of digits
at its beginning is found without a loop, and their value takes three multiplications (Lemire, "Quickly parsing eight
digits", 2018; Langdale and Lemire, "Parsing gigabytes of JSON per second", VLDB Journal 2019, section 3.1.2).

Rows of nothing but digits with one blank between two columns are read first. One comparison of 64 bytes finds the ends
of all columns of such a row, so the core need not wait for one end before it looks for the next.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.host.numba_tools import bits_of, bytes_at, other_than_digits, trailing_zeros
from sssp_pipeline.pipeline.formats.parsing.faults import NEED_FLOAT, NEED_UNSIGNED
from sssp_pipeline.pipeline.formats.parsing.line_blocks import NEWLINE
from sssp_pipeline.pipeline.formats.parsing.numbers_in_text import SPACE, ZERO, pack

_TAB = ord("\t")
_RETURN = ord("\r")
_MINUS = ord("-")

_HIGH_BITS = np.uint64(0x8080808080808080)
#: Added to a byte, it sets the high bit of every value above 9.
_ABOVE_NINE = np.uint64(0x7676767676767676)
_ZEROS = np.uint64(0x3030303030303030)
#: Subtracted from a byte, it borrows for every value up to a space.
_UP_TO_SPACE = np.uint64(0x2121212121212121)
_PAIRS = np.uint64(0x000000FF000000FF)
_WORD = np.uint64(8)
#: The bytes from the beginning of a column that may be looked at: a sign, a point, four words.
_REACH = 40
#: The bytes from the beginning of a row of digits that may be looked at: a letter and its blank, 64 bytes, two words.
ROW_REACH = 82
#: Of the columns of a row of digits.
_MOST_DIGITS = np.uint64(15)
_ONE, _TWO = np.uint64(1), np.uint64(2)
_LAST_BIT = np.uint64(1 << 63)
#: As uint64, with which bytes are compared without a sign.
_WIDE_SPACE, _WIDE_TAB, _WIDE_RETURN, _WIDE_NEWLINE = (np.uint64(c) for c in (SPACE, _TAB, _RETURN, NEWLINE))
_POWERS = 10 ** np.arange(9, dtype=np.int64)
_FLOAT_POWERS = 10.0 ** np.arange(9)


@njit(nogil=True)
def scan_plain_rows(
    data: np.ndarray,
    begin: int,
    row: int,
    syntax: tuple,
    mode: int,
    src: np.ndarray,
    dst: np.ndarray,
    weights: np.ndarray,
) -> tuple:
    """Read plain rows from `begin`, which begins a line; return the position and the number of the first other row.

    `tokenizer.scan_edges` has the same parameters. A row near the end of `data` is not plain.
    """
    letter, _, _, n_columns, weight_column = syntax[:5]
    min_id, max_id, ids_are_strings, source_column, target_column = syntax[5:10]
    takes_zero_led_ids, point = syntax[10:12]
    stop = len(data) - _REACH
    start, row = scan_rows_of_digits(data, begin, row, syntax, mode, src, dst, weights)
    while True:
        p = start
        if letter:
            if p >= stop or data[p] != letter or data[p + 1] != SPACE:
                return start, row
            p += 2
        for column in range(n_columns):
            while p < stop and (data[p] == SPACE or data[p] == _TAB):
                p += 1
            if p >= stop:
                return start, row
            is_end = column in (source_column, target_column)
            if (not is_end and column != weight_column) or (is_end and ids_are_strings):
                token = p
                p = _after_name(data, p, stop)
                if p == token or (column == 0 and not letter and data[token] in syntax[1:3]):
                    return start, row
                value = pack(token, p)
            elif is_end:
                token = p
                value, n, _ = _digits(data, p)
                p += n
                if n == 0 or value < min_id or value > max_id:
                    return start, row
                if data[token] == ZERO and n > 1 and not takes_zero_led_ids:
                    return start, row
            else:
                is_negative = data[p] == _MINUS
                p += is_negative
                value, n, is_short = _digits(data, p)
                p += n
                if n == 0 or (is_negative and mode == NEED_UNSIGNED):
                    return start, row
                if mode == NEED_FLOAT:
                    decimal = float(value)
                    if data[p] == point:
                        decimals, n, _ = _digits(data, p + 1)
                        # Up to 15 digits: float64 holds the integer exactly: see `numbers_in_text`.
                        if n == 0 or n > 7 or not is_short:
                            return start, row
                        p += n + 1
                        decimal = float(value * _POWERS[n] + decimals) / _FLOAT_POWERS[n]
                    elif not is_short:
                        return start, row
                    weights[row] = bits_of(-decimal if is_negative else decimal)
                else:
                    weights[row] = -value if is_negative else value
            if column == source_column:
                src[row] = value
            elif column == target_column:
                dst[row] = value
            after = data[p]
            if (
                after != SPACE
                and after != _TAB
                and (column + 1 < n_columns or after not in (NEWLINE, _RETURN))
            ):
                return start, row
        while data[p] == SPACE or data[p] == _TAB or data[p] == _RETURN:
            p += 1
        if data[p] != NEWLINE:
            return start, row
        start = p + 1
        row += 1


@njit(nogil=True)
def scan_rows_of_digits(
    data: np.ndarray,
    begin: int,
    row: int,
    syntax: tuple,
    mode: int,
    src: np.ndarray,
    dst: np.ndarray,
    weights: np.ndarray,
) -> tuple:
    """Read rows `[letter] source target [weight]` that have only digits and one blank between two columns.

    Returns as `scan_plain_rows`, which begins with this scan. All numbers are unsigned, so that no index is tested for
    its sign.
    """
    n_columns, weight_column = syntax[3:5]
    ids_are_strings, source_column, target_column = syntax[7:10]
    is_usual = source_column == 0 and target_column == 1 and not ids_are_strings
    if not is_usual or (n_columns != 2 and (n_columns != 3 or weight_column != 2 or mode == NEED_FLOAT)):
        return begin, row
    letter, has_weight = np.uint64(syntax[0]), syntax[4] == 2
    min_id, max_id, takes_zero_led_ids = np.uint64(syntax[5]), np.uint64(syntax[6]), syntax[10]
    stop, start = np.uint64(max(0, len(data) - ROW_REACH)), np.uint64(begin)
    at = np.uint64(row)
    while start < stop:
        p = start
        if letter:
            if data[p] != letter or data[p + _ONE] != SPACE:
                break
            p += _TWO
        # The last bit stands for an end that is further away; then no blank or line end is there.
        others = other_than_digits(data, p)
        first = trailing_zeros(others | _LAST_BIT)
        others &= others - _ONE
        second = trailing_zeros(others | _LAST_BIT)
        others &= others - _ONE
        target = p + first + _ONE
        n_target = second - first - _ONE
        if first - _ONE >= _MOST_DIGITS or n_target - _ONE >= _MOST_DIGITS or not _is_blank(data[p + first]):
            break
        end = second
        if has_weight:
            end = trailing_zeros(others | _LAST_BIT)
            n_weight = end - second - _ONE
            if not _is_blank(data[p + second]) or n_weight - _ONE >= _MOST_DIGITS:
                break
            weights[at] = _number(data, p + second + _ONE, n_weight)
        u, v = _number(data, p, first), _number(data, target, n_target)
        if min(u, v) < min_id or max(u, v) > max_id:
            break
        if not takes_zero_led_ids and (
            (data[p] == ZERO and first > _ONE) or (data[target] == ZERO and n_target > _ONE)
        ):
            break
        after = np.uint64(data[p + end])
        if after == _WIDE_RETURN:
            end += _ONE
            after = np.uint64(data[p + end])
        if after != _WIDE_NEWLINE:
            break
        src[at], dst[at] = u, v
        at += _ONE
        start = p + end + _ONE
    return np.int64(start), np.int64(at)


@njit()
def _is_blank(byte: np.uint8) -> bool:
    return np.uint64(byte) in (_WIDE_SPACE, _WIDE_TAB)


@njit()
def _number(data: np.ndarray, p: np.uint64, n: np.uint64) -> Any:
    """Return the value of the `n` digits at `p`, 1 to 15, as uint64."""
    word = bytes_at(data, p) ^ _ZEROS
    if n <= _WORD:
        return np.uint64(_value_of(word, n))
    rest = n - _WORD
    high, low = _value_of(word, _WORD), _value_of(bytes_at(data, p + _WORD) ^ _ZEROS, rest)
    return np.uint64(high * _POWERS[rest] + low)


@njit()
def _digits(data: np.ndarray, p: int) -> tuple:
    """Return the value of the digits at `p`, their number, and whether it is at most 8; 0 if it is above 15."""
    word = bytes_at(data, p) ^ _ZEROS
    others = ((word + _ABOVE_NINE) | word) & _HIGH_BITS
    if others:
        n = trailing_zeros(others) >> np.uint64(3)
        return (_value_of(word, n) if n else np.int64(0)), np.int64(n), True
    rest = bytes_at(data, p + 8) ^ _ZEROS
    others = ((rest + _ABOVE_NINE) | rest) & _HIGH_BITS
    high = _value_of(word, _WORD)
    if not others:
        return np.int64(0), np.int64(0), False
    n = trailing_zeros(others) >> np.uint64(3)
    if n == 0:
        return high, np.int64(8), True
    return high * _POWERS[n] + _value_of(rest, n), np.int64(n) + 8, False


@njit()
def _value_of(digits: np.uint64, n: np.uint64) -> Any:
    """Return the number that the lowest `n` bytes of `digits` are, 1 to 8 bytes of 0 to 9."""
    digits <<= np.uint64(64) - _WORD * n
    digits = digits * np.uint64(10) + (digits >> _WORD)
    low = (digits & _PAIRS) * np.uint64(0x000F424000000064)
    high = ((digits >> np.uint64(16)) & _PAIRS) * np.uint64(0x0000271000000001)
    return np.int64((low + high) >> np.uint64(32))


@njit()
def _after_name(data: np.ndarray, p: Any, stop: int) -> Any:
    """Return the position after the token at `p`; `p` itself if it does not end before `stop`."""
    start = p
    while p < stop:
        word = bytes_at(data, p)
        blanks = (word - _UP_TO_SPACE) & ~word & _HIGH_BITS
        if blanks:
            return p + np.int64(trailing_zeros(blanks) >> np.uint64(3))
        p += 8
    return start
