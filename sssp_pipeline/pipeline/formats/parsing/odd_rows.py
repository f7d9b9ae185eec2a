"""Odd rows: a scan of rows of any form, with all rules and all faults. `plain_rows` reads rows of the usual form."""

from __future__ import annotations

import numpy as np

from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.host.numba_tools import bits_of
from sssp_pipeline.pipeline.formats.parsing import faults
from sssp_pipeline.pipeline.formats.parsing.faults import NEED_FLOAT, NEED_UNSIGNED
from sssp_pipeline.pipeline.formats.parsing.line_blocks import NEWLINE
from sssp_pipeline.pipeline.formats.parsing.numbers_in_text import (
    DOUBTFUL,
    INFINITE_OR_NAN,
    NO_NUMBER,
    SPACE,
    ZERO,
    after_token,
    pack,
    scan_decimal,
    scan_id,
    scan_integer,
    skip_blanks,
)


@njit(nogil=True, forceinline=True)
def scan_odd_rows(
    data: np.ndarray,
    p: int,
    row: int,
    end_row: int,
    syntax: tuple,
    mode: int,
    src: np.ndarray,
    dst: np.ndarray,
    weights: np.ndarray,
    doubtful_rows: np.ndarray,
    doubtful_tokens: np.ndarray,
    n_doubtful: int,
) -> tuple:
    """Read rows from `p` on, whatever they look like, up to row `end_row`, a comment or a blank line.

    The other parameters are those of `tokenizer.scan_edges`. A child can compile this while another process compiles
    the rest.

    Returns
    -------
    tuple of int
        (position, row, fault, n_doubtful): where the next line or the fault is, and in which row.
    """
    letter, comment, other_comment, n_columns, weight_column = syntax[:5]
    min_id, max_id, ids_are_strings, source_column, target_column = syntax[5:10]
    takes_zero_led_ids, point = syntax[10:12]
    stop = len(data)
    while True:
        start = p
        if letter:
            if data[p] != letter or data[p + 1] > SPACE:
                return p, row, faults.WRONG_LETTER, n_doubtful
            p = skip_blanks(data, p + 1)
        column = 0
        while data[p] != NEWLINE:
            token = p
            if column in (source_column, target_column):
                if ids_are_strings:
                    p = after_token(data, p)
                    value = pack(token, p)
                else:
                    value, p, fault = scan_id(data, p)
                    if fault:
                        return token, row, fault, n_doubtful
                    if value < min_id or value > max_id:
                        return token, row, faults.ID_OUT_OF_RANGE, n_doubtful
                    if data[token] == ZERO and p - token > 1 and not takes_zero_led_ids:
                        return token, row, faults.ZERO_LED_ID, n_doubtful
                if column == source_column:
                    src[row] = value
                else:
                    dst[row] = value
            elif column == weight_column:
                if mode == NEED_FLOAT:
                    decimal, p, status = scan_decimal(data, p, point)
                    if status == NO_NUMBER:
                        return token, row, faults.BAD_WEIGHT, n_doubtful
                    if status == INFINITE_OR_NAN:
                        return token, row, faults.NOT_FINITE, n_doubtful
                    if status == DOUBTFUL:
                        doubtful_rows[n_doubtful] = row
                        doubtful_tokens[n_doubtful] = pack(token, p)
                        n_doubtful += 1
                    weights[row] = bits_of(decimal)
                else:
                    is_negative, magnitude, p, needed = scan_integer(data, p)
                    if needed == NEED_FLOAT or (mode == NEED_UNSIGNED and is_negative and magnitude != 0):
                        return token, row, NEED_FLOAT, n_doubtful
                    if mode == NEED_UNSIGNED:
                        weights[row] = np.int64(magnitude)
                    elif needed == NEED_UNSIGNED:
                        return token, row, NEED_FLOAT if is_negative else NEED_UNSIGNED, n_doubtful
                    else:
                        integer = np.int64(magnitude)
                        weights[row] = -integer if is_negative else integer
            else:
                p = after_token(data, p)
            column += 1
            p = skip_blanks(data, p)
        if column != n_columns:
            fault = faults.FEW_COLUMNS if column < n_columns else faults.MANY_COLUMNS
            return start, row, fault, n_doubtful
        p += 1
        row += 1
        if row == end_row or p == stop:
            return p, row, faults.NO_FAULT, n_doubtful
        line = p
        p = skip_blanks(data, p)
        if data[p] in (NEWLINE, comment, other_comment):
            return line, row, faults.NO_FAULT, n_doubtful
