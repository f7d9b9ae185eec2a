"""Scan of a block of rows. A kernel that the block does not need is not compiled for it.

Most blocks are a few comments and then rows of digits. The kernel for these compiles in a fifth of the time that all
kernels of a scan take.
"""

from __future__ import annotations

import numpy as np

from sssp_pipeline.base.compile_children import are_running, start, wait_for
from sssp_pipeline.pipeline.formats.parsing import faults
from sssp_pipeline.pipeline.formats.parsing.compile_ahead import DECIMALS, DIGITS, ODD_ROWS
from sssp_pipeline.pipeline.formats.parsing.line_blocks import first_newline
from sssp_pipeline.pipeline.formats.parsing.numbers_in_text import SPACE
from sssp_pipeline.pipeline.formats.parsing.odd_rows import scan_odd_rows
from sssp_pipeline.pipeline.formats.parsing.plain_rows import ROW_REACH, scan_plain_rows, scan_rows_of_digits
from sssp_pipeline.pipeline.formats.parsing.tokenizer import MOST_ODD, LineSyntax, scan_edges

#: The most comments at the beginning of a block that Python skips.
_MOST_COMMENTS = 64


def read_edges(
    data: np.ndarray,
    syntax: LineSyntax,
    mode: int,
    begin: tuple,
    src: np.ndarray,
    dst: np.ndarray,
    weights: np.ndarray,
    doubtful_rows: np.ndarray,
    doubtful_tokens: np.ndarray,
) -> tuple:
    """Do what `scan_edges` does."""
    columns, doubtful = (src, dst, weights), (doubtful_rows, doubtful_tokens)
    if begin[0] == 0:
        p, n_comments = _after_comments(data, syntax)
        p, row = _read_rows_of_digits(data, p, syntax, mode, columns)
        if p < len(data):
            _have_odd_rows_compiled()
            p, row = scan_plain_rows(data, p, row, syntax, mode, *columns)
        n_doubtful = 0
        if p < len(data) and data[p] > SPACE and data[p] not in syntax[1:3]:
            wait_for(ODD_ROWS)
            most = row + MOST_ODD
            p, row, fault, n_doubtful = scan_odd_rows(
                data, p, row, most, syntax, mode, *columns, *doubtful, 0
            )
            if fault:
                return row, n_comments + row, fault, p, n_doubtful
        if p == len(data):
            return row, n_comments + row, faults.NO_FAULT, 0, n_doubtful
        begin = p, row, n_comments + row, n_doubtful
    wait_for(ODD_ROWS)
    return scan_edges(data, syntax, mode, begin, *columns, *doubtful)


def _have_odd_rows_compiled() -> None:
    """Have a child compile what reads odd rows while this process compiles what reads plain rows.

    Few first runs need them, so they are not compiled ahead.
    """
    if are_running():
        start([ODD_ROWS, DECIMALS], np.dtype(np.uint32), 1)


def _after_comments(data: np.ndarray, syntax: LineSyntax) -> tuple[int, int]:
    """Return the position after the comments at the beginning of `data`, and how many there are; not all if many."""
    p = n = 0
    while p < len(data) and data[p] in syntax[1:3] and n < _MOST_COMMENTS:
        p, n = first_newline(data, p, len(data)) + 1, n + 1
    return p, n


def _read_rows_of_digits(
    data: np.ndarray, p: int, syntax: LineSyntax, mode: int, columns: tuple[np.ndarray, ...]
) -> tuple[int, int]:
    """Return the position and the number of the first row that is not one of digits, or of the end."""
    wait_for(DIGITS)
    p, row = scan_rows_of_digits(data, p, 0, syntax, mode, *columns)
    if (n_left := len(data) - p) > ROW_REACH:
        return p, row
    # The scan stops before the end, since it may look at bytes after a row.
    end = np.zeros(n_left + ROW_REACH, np.uint8)
    end[:n_left] = data[p:]
    n_read, row = scan_rows_of_digits(end, 0, row, syntax, mode, *columns)
    return p + n_read, row
