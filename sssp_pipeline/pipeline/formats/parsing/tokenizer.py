"""Tokenizer: compiled scans that read the ids and weights of a block of lines in one pass, without the GIL.

Each line is a row `[letter] source target [more columns]`. The block ends with a line end, so no inner loop has to
check for the end of the block. The scans neither allocate nor raise. They write rows into arrays with room for the
largest possible number of rows. The first fault stops the scan. The scan
then returns a fault code and a position, and `fault_errors` makes the message from them.

Needs: the last byte of the block is a line end, as `line_blocks.TextBlock` guarantees. A block has at most 2^32 bytes.

`plain_rows` reads the rows of the usual form, several times as fast. `odd_rows` reads all others. `block_scan` calls
only those of the kernels that a block needs.

A block is first scanned with integer weights. If a weight is not a 64-bit integer, the block is scanned again with
float64 weights. A decimal that `numbers_in_text` cannot compute exactly goes to another parser.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.pipeline.formats.parsing import faults
from sssp_pipeline.pipeline.formats.parsing.line_blocks import NEWLINE
from sssp_pipeline.pipeline.formats.parsing.numbers_in_text import (
    EXACT,
    POINT,
    SPACE,
    after_line,
    after_token,
    scan_decimal,
    scan_id,
    scan_integer,
    skip_blanks,
)
from sssp_pipeline.pipeline.formats.parsing.odd_rows import scan_odd_rows
from sssp_pipeline.pipeline.formats.parsing.plain_rows import scan_plain_rows

#: Modes: the type with which the weights of a block are read.
INTEGER = 0
UNSIGNED = faults.NEED_UNSIGNED
FLOAT = faults.NEED_FLOAT
#: The most rows that are read before plain rows are searched for again.
MOST_ODD = 64


class LineSyntax(NamedTuple):
    """What a row looks like."""

    #: The byte in front of every row, in a column that is not counted; 0 for none.
    letter: int
    #: The two bytes that may begin a comment line.
    comment: int
    other_comment: int
    #: The number of columns of every row.
    n_columns: int
    #: 0-based column of the weight; -1 for none.
    weight_column: int
    #: The smallest and the largest allowed id.
    min_id: int
    max_id: int
    #: Whether ids are strings without white space; the scan then returns them as packed tokens.
    ids_are_strings: bool
    #: 0-based columns of source and target.
    source_column: int = 0
    target_column: int = 1
    #: Whether `007` is the integer 7; otherwise it is a fault.
    takes_zero_led_ids: bool = True
    #: The byte before the decimals of a weight.
    point: int = POINT
    #: Whether weights may be rounded to float64, because the workflow asks for a float type.
    rounds: bool = False
    #: The factor that must make every weight an integer; 0 for none.
    scale: int = 0


@njit(nogil=True)
def scan_edges(
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
    """Read the rows of `data` into the arrays; return (n_rows, n_lines, fault, position, n_doubtful).

    Parameters
    ----------
    data
        (n,) uint8, ending with a line end.
    syntax
        A `LineSyntax`.
    mode
        `INTEGER`, `UNSIGNED` or `FLOAT`.
    begin
        (position, n_rows, n_lines, n_doubtful) where an earlier call stopped; zeros at first.
    src, dst
        (R,) int64, R at least the number of rows; ids, or packed tokens (`pack`) if ids are strings.
    weights
        (R,) int64, or (0,) without weights; in the other modes it holds the bits of uint64 or float64 values.
    doubtful_rows, doubtful_tokens
        (R,) int64, or (0,); the rows with a weight that a slower parser must read, and the packed token of each.

    Returns
    -------
    tuple of int
        `n_lines` counts the complete lines; a fault is in the line after them, at `position`.
    """
    comment, other_comment = syntax[1:3]
    stop = len(data)
    p, row, n_lines, n_doubtful = begin
    most_odd = 1
    while p < stop:
        before = row
        p, row = scan_plain_rows(data, p, row, syntax, mode, src, dst, weights)
        n_lines += row - before
        # A search for plain rows, and the call, take longer than an odd row.
        most_odd = min(2 * most_odd, MOST_ODD) if row == before else 1
        if p == stop:  # the last row ends with many blanks
            break
        p = skip_blanks(data, p)
        c = data[p]
        if c == NEWLINE:
            while p < stop and data[p] == NEWLINE:  # a search for plain rows takes longer than a blank line
                p += 1
                n_lines += 1
            continue
        if c in (comment, other_comment):
            p = after_line(data, p)
            n_lines += 1
            continue
        before = row
        p, row, fault, n_doubtful = scan_odd_rows(
            data,
            p,
            row,
            row + most_odd,
            syntax,
            mode,
            src,
            dst,
            weights,
            doubtful_rows,
            doubtful_tokens,
            n_doubtful,
        )
        n_lines += row - before
        if fault:
            return row, n_lines, fault, p, n_doubtful
    return row, n_lines, faults.NO_FAULT, 0, n_doubtful


@njit(nogil=True)
def scan_coordinates(data: np.ndarray, syntax: LineSyntax, ids: np.ndarray, xy: np.ndarray) -> tuple:
    """Read rows `letter id x y` into `ids`, (R,) int64, and `xy`, (2, R) float64.

    Returns (n_rows, n_lines, fault, position) as `scan_edges` does. A coordinate that `scan_decimal` cannot compute
    exactly is a fault: no map needs that precision.
    """
    stop = len(data)
    p = 0
    row = 0
    n_lines = 0
    while p < stop:
        p = skip_blanks(data, p)
        c = data[p]
        if c == NEWLINE:
            p += 1
            n_lines += 1
            continue
        if c == syntax.comment:
            p = after_line(data, p)
            n_lines += 1
            continue
        start = p
        if c != syntax.letter or data[p + 1] > SPACE:
            return row, n_lines, faults.WRONG_LETTER, p
        p = skip_blanks(data, p + 1)
        if data[p] == NEWLINE:
            return row, n_lines, faults.NO_COORDINATE_ROW, start
        token = p
        value, p, fault = scan_id(data, p)
        if fault:
            return row, n_lines, fault, token
        if value < syntax.min_id or value > syntax.max_id:
            return row, n_lines, faults.ID_OUT_OF_RANGE, token
        ids[row] = value
        for k in range(2):
            p = skip_blanks(data, p)
            if data[p] == NEWLINE:
                return row, n_lines, faults.NO_COORDINATE_ROW, start
            token = p
            coordinate, p, status = scan_decimal(data, p, POINT)
            if status != EXACT:
                return row, n_lines, faults.BAD_COORDINATE, token
            xy[k, row] = coordinate
        p = skip_blanks(data, p)
        if data[p] != NEWLINE:
            return row, n_lines, faults.NO_COORDINATE_ROW, start
        p += 1
        row += 1
        n_lines += 1
    return row, n_lines, faults.NO_FAULT, 0


@njit(nogil=True)
def scan_neighbours(
    data: np.ndarray,
    syntax: LineSyntax,
    n_skipped: int,
    src: np.ndarray,
    dst: np.ndarray,
    weights: np.ndarray,
) -> tuple:
    """Read a line for each vertex: `n_skipped` numbers, then its neighbours, each with a weight if the syntax has one.

    Parameters
    ----------
    src, dst
        (R,) int64, R at least the number of neighbours; `src` counts the vertices of the block from 0.
    weights
        (R,) int64, or (0,) without weights.

    Returns
    -------
    tuple of int
        (n_edges, n_vertices, n_lines, fault, position), the last three as in `scan_edges`.
    """
    stop = len(data)
    p = 0
    n_edges = 0
    n_vertices = 0
    n_lines = 0
    while p < stop:
        p = skip_blanks(data, p)
        if data[p] == syntax.comment:
            p = after_line(data, p)
            n_lines += 1
            continue
        start = p
        column = 0
        while data[p] != NEWLINE:
            token = p
            if column < n_skipped:
                p = after_token(data, p)
            else:
                value, p, fault = scan_id(data, p)
                if fault:
                    return n_edges, n_vertices, n_lines, fault, token
                if value < syntax.min_id or value > syntax.max_id:
                    return n_edges, n_vertices, n_lines, faults.ID_OUT_OF_RANGE, token
                src[n_edges] = n_vertices
                dst[n_edges] = value
                if syntax.weight_column >= 0:
                    p = skip_blanks(data, p)
                    token = p
                    if data[p] == NEWLINE:
                        return n_edges, n_vertices, n_lines, faults.NO_WEIGHT, start
                    is_negative, magnitude, p, needed = scan_integer(data, p)
                    if needed:
                        return n_edges, n_vertices, n_lines, faults.BAD_WEIGHT, token
                    weights[n_edges] = -np.int64(magnitude) if is_negative else np.int64(magnitude)
                n_edges += 1
            column += 1
            p = skip_blanks(data, p)
        if 0 < column < n_skipped:
            return n_edges, n_vertices, n_lines, faults.NO_VERTEX_WEIGHTS, start
        p += 1
        n_vertices += 1
        n_lines += 1
    return n_edges, n_vertices, n_lines, faults.NO_FAULT, 0


#: The first byte of a byte order mark in UTF-8.
MARK_BEGIN = 0xEF


@njit(nogil=True)
def control_at(data: np.ndarray) -> int:
    """Return the position of the first control character in `data`, or -1; the scans treat these as blanks.

    A byte order mark at the beginning of a line counts as one. The scans would take it for a part of an id.
    """
    is_found = False
    for i in range(len(data)):  # a loop that ends early, or that counts, would be several times slower
        is_found |= (data[i] < 9) | ((data[i] > 13) & (data[i] < SPACE)) | (data[i] == MARK_BEGIN)
    if is_found:
        for i in range(len(data)):
            if data[i] < 9 or 13 < data[i] < SPACE:
                return i
            is_mark = (
                data[i] == MARK_BEGIN and i + 2 < len(data) and data[i + 1] == 0xBB and data[i + 2] == 0xBF
            )
            if is_mark and (i == 0 or data[i - 1] == NEWLINE):
                return i
    return -1


@njit(nogil=True)
def n_lines_of(data: np.ndarray) -> int:
    """Return how many line ends `data` has."""
    n = 0
    for i in range(len(data)):
        n += data[i] == NEWLINE
    return n


@njit(nogil=True)
def gather_tokens(data: np.ndarray, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the two buffers of an Arrow large_string array with the packed `tokens`.

    Returns
    -------
    offsets
        (T + 1,) int64; token `i` is `content[offsets[i]:offsets[i + 1]]`.
    content
        (B,) uint8; the bytes of all tokens.
    """
    offsets = np.zeros(len(tokens) + 1, np.int64)
    for i in range(len(tokens)):
        offsets[i + 1] = offsets[i] + (tokens[i] & 0xFFFFFFFF)
    content = np.empty(offsets[-1], np.uint8)
    for i in range(len(tokens)):
        start = tokens[i] >> 32
        for k in range(offsets[i + 1] - offsets[i]):
            content[offsets[i] + k] = data[start + k]
    return offsets, content
