"""Blocks of comments and rows of digits need one kernel; all others get the general scan."""

from __future__ import annotations

import numpy as np
import pytest

from sssp_pipeline.pipeline.formats.parsing import block_scan
from sssp_pipeline.pipeline.formats.parsing.compile_ahead import DECIMALS, ODD_ROWS
from sssp_pipeline.pipeline.formats.parsing.line_reader import scan_block
from sssp_pipeline.pipeline.formats.parsing.tokenizer import LineSyntax

WITH_LETTER = LineSyntax(ord("a"), ord("c"), ord("c"), 3, 2, 1, 10**9, False)
PAIRS = LineSyntax(0, ord("#"), ord("%"), 2, -1, 0, 10**9, False)
OTHER_KERNELS = ("scan_plain_rows", "scan_odd_rows", "scan_edges")


class OtherKernel(Exception):
    pass


@pytest.fixture
def only_digits(monkeypatch):
    def refused(*arguments):
        raise OtherKernel

    for name in OTHER_KERNELS:
        monkeypatch.setattr(block_scan, name, refused)


def scanned(text: str, syntax: LineSyntax):
    found = scan_block(np.frombuffer(text.encode(), np.uint8), syntax)
    assert found.fault is None
    chunk = found.found
    columns = [chunk.src, chunk.dst, *([] if chunk.weights is None else [chunk.weights])]
    return np.stack(columns, 1).tolist(), found.n_lines


@pytest.mark.parametrize("n_rows", [0, 1, 2, 7, 300])
@pytest.mark.parametrize("n_comments", [0, 1, 64])
@pytest.mark.parametrize("width", [1, 9])
def test_comments_and_rows_of_digits_need_one_kernel(only_digits, n_rows, n_comments, width):
    rows = [[i + 1, i + 2, (i + 3) * 10 ** (width - 1)] for i in range(n_rows)]
    text = "c some words\n" * n_comments + "".join(f"a {u} {v} {w}\n" for u, v, w in rows)
    found, n_lines = scanned(text, WITH_LETTER)
    assert (found, n_lines) == (rows, n_rows + n_comments)
    text = "% x\n#\n" + "".join(f"{u}\t{v}\r\n" for u, v, _ in rows)
    assert scanned(text, PAIRS) == ([row[:2] for row in rows], n_rows + 2)


def test_a_child_compiles_odd_rows_only_if_there_are_any(monkeypatch):
    started = []
    monkeypatch.setattr(block_scan, "are_running", lambda: True)
    monkeypatch.setattr(block_scan, "start", lambda groups, dtype, n: started.append((groups, n)))
    assert scanned("1 2\n3 4\n", PAIRS)[1] == 2
    assert started == []
    assert scanned("1 2\n3  4\n", PAIRS)[1] == 2
    assert started == [([ODD_ROWS, DECIMALS], 1)]
    monkeypatch.setattr(block_scan, "are_running", lambda: False)
    assert scanned("1 2\n3  4\n", PAIRS)[1] == 2
    assert len(started) == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("#\n" * 65, ""),
        (" # indented\n", ""),
        ("\n", ""),
        ("", "# last\n"),
        ("", "5 6 \n"),
        ("", " 5 6\n"),
        ("5 6 \n" * 70, "5 6\n"),
        ("# x\n", "5 6\n\n"),
    ],
)
@pytest.mark.parametrize("n_rows", [1, 40])
def test_other_blocks_get_the_general_scan(before, after, n_rows):
    rows = [f"{i} {i + 1}\n" for i in range(n_rows)]
    text = before + "".join(rows) + after
    wanted = [
        [int(n) for n in line.split()] for line in text.splitlines() if line.strip() and "#" not in line
    ]
    assert scanned(text, PAIRS) == (wanted, text.count("\n"))
    with pytest.MonkeyPatch.context() as patched:
        for name in OTHER_KERNELS[1:]:
            patched.setattr(block_scan, name, None)
        with pytest.raises(TypeError, match="not callable"):
            scanned(text, PAIRS)
