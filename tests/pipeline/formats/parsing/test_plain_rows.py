"""Rows of every kind, in blocks that are long enough for the fast scans, are those of a naive parser."""

from __future__ import annotations

import random

import numpy as np
import pytest

from sssp_pipeline.base.scratch import Scratch
from sssp_pipeline.pipeline.formats.parsing import faults
from sssp_pipeline.pipeline.formats.parsing.line_reader import scan_block
from sssp_pipeline.pipeline.formats.parsing.tokenizer import LineSyntax

IDS = [0, 7, 10**7 - 1, 10**8 - 1, 10**8, 10**15 - 1, 10**15, 10**17, 2**63 - 1]
WEIGHTS = [*IDS, -1, -(10**9)]


def syntax_of(letter: str, has_weight: bool, **other) -> LineSyntax:
    return LineSyntax(
        ord(letter) if letter else 0,
        35,
        37,
        2 + has_weight,
        2 if has_weight else -1,
        0,
        2**63 - 1,
        False,
        **other,
    )


def number(rng: random.Random, odd: list[int]) -> int:
    return rng.choice(odd) if rng.random() < 0.1 else rng.randrange(10 ** rng.randrange(1, 10))


@pytest.mark.parametrize("letter", ["", "a"])
@pytest.mark.parametrize("has_weight", [False, True])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("share", [0.0, 0.01, 0.3])
def test_rows_are_those_of_a_naive_parser(letter, has_weight, seed, share):
    rng = random.Random(seed)
    lines, wanted = [], []
    for _ in range(500):
        row = [number(rng, IDS), number(rng, IDS), *([number(rng, WEIGHTS)] if has_weight else [])]
        wanted.append(row)
        blank, before, after, end = " ", "", "", ""
        if rng.random() < share:
            blank = rng.choice([" ", "\t", "  ", " " * 70])
            before = rng.choice(["", "", " ", "# 1 2 3\n", "\n"])
            after = rng.choice(["", " ", "\t "])
            end = rng.choice(["", "\r"])
        words = ([letter] if letter else []) + [str(n) for n in row]
        lines.append(before + blank.join(words) + after + end)
    data = np.frombuffer(("\n".join(lines) + "\n").encode(), np.uint8)
    for scratch in (None, Scratch()):
        found = scan_block(data, syntax_of(letter, has_weight), scratch=scratch)
        assert found.fault is None
        chunk = found.found
        columns = [chunk.src, chunk.dst, *([chunk.weights] if has_weight else [])]
        assert np.stack(columns, 1).tolist() == wanted
        assert found.n_lines == data.tobytes().count(b"\n")


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ("1", faults.FEW_COLUMNS),
        ("1 2", faults.FEW_COLUMNS),
        ("1 2 3 4", faults.MANY_COLUMNS),
        ("1 2 3x", faults.NEED_FLOAT),
        ("1 2x 3", faults.BAD_ID),
        ("1-2 3", faults.BAD_ID),
        ("1,2,3", faults.BAD_ID),
        ("01 2 3", faults.ZERO_LED_ID),
        ("1 02 3", faults.ZERO_LED_ID),
        ("1 9223372036854775808 3", faults.HUGE_ID),
        ("3 2 3", faults.ID_OUT_OF_RANGE),
        ("7 31 3", faults.ID_OUT_OF_RANGE),
    ],
)
@pytest.mark.parametrize("before", [0, 1, 50])
def test_the_first_fault_is_found(row, code, before):
    rows = ["5 6 007"] * before
    data = np.frombuffer("\n".join([*rows, row, *["9 9 9"] * 50, ""]).encode(), np.uint8)
    syntax = syntax_of("", True, takes_zero_led_ids=False)._replace(min_id=4 if row[0] == "3" else 0)
    syntax = syntax._replace(max_id=30 if "31" in row else 2**63 - 1)
    found = scan_block(data, syntax)
    wanted = faults.BAD_WEIGHT if code == faults.NEED_FLOAT else code
    assert found.fault is not None
    assert (found.fault.code, found.n_lines, len(found.found)) == (wanted, before, before)
