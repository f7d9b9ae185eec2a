"""Plain rows: the fast scan and the general one read the same rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sssp_pipeline.pipeline.formats.parsing import numbers_in_text as faults
from sssp_pipeline.pipeline.formats.parsing.plain_rows import scan_plain_rows
from sssp_pipeline.pipeline.formats.parsing.tokenizer import (
    FLOAT,
    INTEGER,
    UNSIGNED,
    LineSyntax,
    after_line,
    scan_edges,
)

#: So many bytes at the end of a block are never plain.
PADDING = b"\n" * 40
NONE = np.empty(0, np.int64)


def syntax(*, strings: bool = False, **other: int) -> LineSyntax:
    given = {"letter": 0, "comment": ord("#"), "other_comment": ord("%"), "n_columns": 3, "weight_column": 2}
    return LineSyntax(**given | {"min_id": 0, "max_id": 2**63 - 1, "ids_are_strings": strings} | other)


def scanned(text: bytes, rules: LineSyntax, mode: int) -> tuple:
    """Return what `scan_edges` returns, and the rows it wrote; string ids as text."""
    data = np.frombuffer(text, np.uint8)
    arrays = [np.zeros(len(text), np.int64) for _ in range(5)]
    result = scan_edges(data, rules, mode, (0, 0, 0, 0), *arrays)
    rows = [array[: result[0]].tolist() for array in arrays[:3]]
    if rules.ids_are_strings:
        rows[:2] = [[text[t >> 32 :][: t & 0xFFFFFFFF] for t in tokens] for tokens in rows[:2]]
    return result, rows


def line_by_line(text: bytes, rules: LineSyntax, mode: int) -> tuple:
    """Return the same as `scanned`, of lines that are scanned alone: no single line is long enough to be plain."""
    position = n_rows = n_lines = n_doubtful = 0
    rows: list[list] = [[], [], []]
    for line in text.splitlines(keepends=True):
        assert len(line) <= 40, "this line could be plain"
        (n, lines, fault, at, doubtful), found = scanned(line, rules, mode)
        rows = [a + b for a, b in zip(rows, found, strict=True)]
        n_rows, n_lines, n_doubtful = n_rows + n, n_lines + lines, n_doubtful + doubtful
        if fault:
            return (n_rows, n_lines, fault, position + at, n_doubtful), rows
        position += len(line)
    return (n_rows, n_lines, faults.NO_FAULT, 0, n_doubtful), rows


numbers = st.one_of(
    st.integers(0, 99).map(str),
    st.integers(0, 10**17).map(str),
    st.sampled_from(
        ["12345678", "123456789", "1234567890123456", "12345678901234567", "0", "007", "00000000"]
    ),
)
weights = st.one_of(
    numbers,
    st.integers(-(10**9), 0).map(str),
    st.sampled_from(
        ["-0", "+1", "1.5", "-2.25", "123456789.5", "1.1234567", "1.12345678", ".5", "5.", "1e3", "1,5"]
    ),
)
odd = st.sampled_from(["x", "-", "/1", ":1", "é", "#", "1:", "1/", "\v", "12345678:", "1234567890123456:"])
blanks = st.sampled_from([" ", "\t", "  ", " \t "])
ends = st.sampled_from(["\n", " \n", "\r\n", "\t\r\n", "\n\n"])


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    lines = []
    for _ in range(draw(st.integers(1, 8))):
        cells = [draw(numbers), draw(numbers), draw(weights)]
        if draw(st.integers(0, 9)) == 0:
            cells[draw(st.integers(0, 2))] = draw(odd)
        if draw(st.integers(0, 19)) == 0:
            cells = cells[:2] if draw(st.booleans()) else [*cells, "7"]
        line = draw(st.sampled_from(["", "", " "])) + draw(blanks).join(cells) + draw(ends)
        if len(line.encode()) <= 40:
            lines.append(line)
    return "".join(lines).encode()


@settings(max_examples=400, deadline=None)
@given(texts(), st.sampled_from([INTEGER, UNSIGNED, FLOAT]), st.booleans(), st.booleans())
def test_both_scans_read_the_same(text, mode, strings, takes_zero_led_ids):
    rules = syntax(strings=strings, takes_zero_led_ids=takes_zero_led_ids)
    result, rows = scanned(text + PADDING, rules, mode)
    expected, expected_rows = line_by_line(text, rules, mode)
    assert rows == expected_rows
    if not expected[2]:  # the padding has lines of its own
        result = (result[0], result[1] - len(PADDING), *result[2:])
    assert result == expected


@settings(max_examples=100, deadline=None)
@given(texts(), st.sampled_from([b"a ", b"a\t", b"b ", b"a"]))
def test_rows_with_a_letter(text, letter):
    text = b"".join(letter + line for line in text.splitlines(keepends=True) if len(line) <= 30)
    rules = syntax(letter=ord("a"), min_id=1, max_id=10**9)
    result, rows = scanned(text + PADDING, rules, INTEGER)
    expected, expected_rows = line_by_line(text, rules, INTEGER)
    assert (rows, result[2:]) == (expected_rows, expected[2:])


@pytest.mark.parametrize(
    ("text", "mode", "strings"),
    [
        (b"1 2 3\n", INTEGER, False),
        (b"12345678 123456789 -123456789012345\r\n", INTEGER, False),
        (b"  1\t2  3 \n", UNSIGNED, False),
        (b"1 2 -12345678.1234567\n", FLOAT, False),
        ("Kärnten a-rather-long-name-of-a-stop 3\n".encode(), INTEGER, True),
    ],
)
def test_the_usual_rows_are_plain(text, mode, strings):
    rules = syntax(strings=strings)
    data = np.frombuffer(text * 4 + PADDING, np.uint8)
    rows = [np.zeros(4, np.int64) for _ in range(3)]
    position, row = scan_plain_rows(data, 0, 0, rules, mode, *rows)
    assert (position, row) == (4 * len(text), 4)
    assert after_line(data, 0) == len(text)


def test_a_plain_row_at_the_very_end():
    data = np.frombuffer(b"1 2 3" + b" " * 100 + b"\n" + b"7 8 9\n", np.uint8)[:106]
    rows = [np.zeros(9, np.int64) for _ in range(3)]
    assert scan_edges(data, syntax(), INTEGER, (0, 0, 0, 0), *rows, NONE, NONE) == (
        1,
        1,
        faults.NO_FAULT,
        0,
        0,
    )


def test_a_text_without_an_end_of_a_name():
    data = np.frombuffer(b"1 2 3\n" + b"x" * 100 + b"\n", np.uint8)
    rows = [np.zeros(100, np.int64) for _ in range(3)]
    assert scan_plain_rows(data, 0, 0, syntax(strings=True), INTEGER, *rows) == (6, 1)
    assert (
        scan_edges(data, syntax(strings=True), INTEGER, (0, 0, 0, 0), *rows, NONE, NONE)[2]
        == faults.FEW_COLUMNS
    )
