from __future__ import annotations

import gzip
import struct

import pytest

from sssp_pipeline.pipeline.formats.detect import detect_format


@pytest.mark.parametrize(
    ("name", "content", "wanted"),
    [
        ("x", "1 2\n", "text"),
        ("x", "# a, b\n1\t2\n", "text"),
        ("x", "anna bob\n", "text"),
        ("x", "anna\tbob\t3\n", "text"),
        ("x.csv", "1 2 3\n", "text"),
        ("x", "c d\ne f\n", "text"),
        ("x", "p q\nr s\n", "text"),
        ("x", "p q r\n", "text"),
        ("x", "cat dog 5\np dog cat 7\n", "text"),
        ("x", "c--\n\nc\np max 2 1\n", "dimacs"),
        ("x", "1,2\n", "csv"),
        ("x", "# by hand\na;b;c\n", "csv"),
        ("x", "source\ttarget\tlength\n1\t2\t3\n", "csv"),
        ("x", "From To Weight\n1 2 3\n", "csv"),
        ("x", '"a b","c d"\n', "csv"),
        ("x", "c\nc hello\np sp 2 1\na 1 2 3\n", "dimacs"),
        ("x", "p tw 2 1\n1 2\n", "dimacs"),
        ("x", "p edge 2 1\ne 1 2\n", "dimacs"),
        ("x", "%%MatrixMarket matrix coordinate real general\n", "matrix-market"),
        ("x.graph", "3 2\n2\n1 3\n2\n", "metis"),
        ("x.metis", "% mesh\n3 2 001\n2 1\n", "metis"),
        ("x", "3 2\n2 1\n", "text"),
        ("x.graph", "anna bob\n", "text"),
        ("x.graph", "1 2 3 4 5\n", "text"),
        ("x.graph", "1,2\n", "csv"),
        ("x", struct.pack("<QQQQ", 1, 4, 0, 0), "galois"),
        ("x", b"PAR1....", "parquet"),
        ("x", b"ARROW1\0\0....", "parquet"),
        ("x", b"\xff\xff\xff\xff\x10\0\0\0", "parquet"),
    ],
)
def test_formats_are_known_by_content(write, name, content, wanted):
    raw = content.encode() if isinstance(content, str) else content
    assert detect_format(write(name, raw)) == wanted
    assert detect_format(write(name + ".gz", gzip.compress(raw))) == wanted


@pytest.mark.parametrize("content", [b"\x7fELF\0\0\0", "1 2\n".encode("utf-16"), b"\xff\xfe\xfd 2\n"])
def test_what_is_no_known_format(write, refused, content):
    assert refused(write("x", content)) == (
        "`x` is in no known format",
        "set `graph.format` to the format it is in",
    )


def test_files_in_two_formats(write, refused):
    assert refused(write("a", "1 2\n"), write("b", "1,2\n")) == (
        "`a` is in format text, `b` in format csv",
        "files read together are in one format; where this is a mistake, set `graph.format`",
    )


def test_a_format_asked_for_is_not_looked_for(write, read):
    assert read(write("x.graph", "3 2\n2 1\n"), format="text").rows() == [(3, 2), (2, 1)]


def test_an_unknown_format(write, refused):
    assert refused(write("x", "1 2\n"), format="dimac") == (
        "unknown format `dimac`",
        "did you mean `dimacs`? Formats: auto, text, csv, dimacs, galois, matrix-market, metis, parquet",
    )
