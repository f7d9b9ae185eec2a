from __future__ import annotations

import gzip
import struct
import time

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
        ("x", "a|b|c\n", "csv"),
        ("x", "source\ttarget\tlength\n1\t2\t3\n", "text"),
        ("x", "From To Weight\n1 2 3\n", "text"),
        ("x", "source\ttarget\tname\n1\t2\tNew York\n", "csv"),
        ("x", "source\ttarget\tname\tkm\n1\t2\t\t3\n", "csv"),
        ("x", "1 2 {'weight': 3}\n", "networkx"),
        ("x", "anna bob {}\n", "networkx"),
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
        ("x", b"\0\0\0\x0d\n\tOSMHeader\x18", "osm"),
        ("x", "<?xml version='1.0'?>\n<!-- <graph> -->\n<osm version='0.6'>", "osm"),
        ("x", "\ufeff <osm>", "osm"),
        ("x", "<!DOCTYPE graphml><graphml xmlns='http://graphml.graphdrawing.org/xmlns'>", "graphml"),
        ("x", '<?xml version="1.0" encoding="UTF-16"?><graphml>'.encode("utf-16"), "graphml"),
        ("x", "<NUMBER OF ZONES> 24\n", "tntp"),
        ("x", "~ a note\n\n<FIRST THRU NODE> 1\n", "tntp"),
        ("x", b"SQLite format 3\0...", "lines"),
        ("x", ":START_ID(A),:END_ID(B),:TYPE\n1,2,X\n", "neo4j"),
        ("x", '"id:ID|name"\n', "neo4j"),
        ("x", "from:STARTS,to:IDS\n1,2\n", "csv"),
        ("x", b"PAR1....", "parquet"),
        ("x", b"ARROW1\0\0....", "parquet"),
        ("x", b"\xff\xff\xff\xff\x10\0\0\0", "parquet"),
    ],
)
def test_formats_are_known_by_content(write, name, content, wanted):
    raw = content.encode() if isinstance(content, str) else content
    assert detect_format(write(name, raw)) == wanted
    assert detect_format(write(name + ".gz", gzip.compress(raw))) == wanted


@pytest.mark.parametrize("content", ["graph b {}\n", "graph b {'weight': 3}\n", "digraph b {'a': '->'}\n"])
def test_a_vertex_called_graph(write, content):
    assert detect_format(write("x", content)) == "networkx"


def test_rows_of_letters_are_no_dimacs(write, read):
    assert read(write("x", "a b 5\ne a 4\n")).rows() == [("a", "b", 5), ("e", "a", 4)]
    assert read(write("x", "a 1 2\n"), format="text", ids="string").rows() == [("a", "1", 2)]


MESH = "3 3\n2 3\n1 3\n1 2\n"


def test_rows_that_may_be_a_metis_graph(write, read, refused):
    name = write("x", "# or not\n" + MESH)
    assert refused(name) == (
        "`x` line 2: `3 3` may be an edge, or the header of a METIS graph",
        "set `graph.format: text` or `graph.format: metis`",
    )
    assert read(name, format="text").rows() == [(3, 3), (2, 3), (1, 3), (1, 2)]
    assert len(read(write("x", MESH), format="metis").rows()) == 6
    assert read(write("x.graph", MESH)).reading.format == "metis"
    weighted = "2 1 1\n2 5 0\n1 5 0\n"
    assert read(write("x", weighted)).reading.format == "text"


@pytest.mark.parametrize("content", ["3 3\n2 3\n1 3\n1 1\n", "4 3\n2 3\n1 3\n1 2\n", "3 2\n2 3\n1 3\n1 2\n"])
def test_rows_that_are_no_metis_graph(write, read, content):
    assert read(write("x", content)).reading.format == "text"


@pytest.mark.parametrize("n_digits", [21, 5000])
@pytest.mark.parametrize(
    ("name", "content", "line", "what", "most"),
    [
        ("x", "p sp {} 3\n", 1, "vertices", 2**32 - 1),
        ("x", "c\np sp 3 {}\n", 2, "edges", 2**48),
        ("x.graph", "{} 3\n", 1, "vertices", 2**32 - 1),
        ("x.graph", "3 {}\n", 1, "edges", 2**48),
        ("x.graph", "3 3 11 {}\n", 1, "vertex weights", 2**20),
        ("x", "%%MatrixMarket matrix coordinate real general\n{0} {0} 3\n", 2, "vertices", 2**32 - 1),
        ("x", "%%MatrixMarket matrix coordinate real general\n3 3 {}\n", 2, "entries", 2**48),
    ],
)
def test_counts_beyond_all_files(write, refused, name, content, line, what, most, n_digits):
    digits = "4" + "9" * (n_digits - 1)
    assert refused(write(name, content.format(digits))) == (
        f"`{name}` line {line} declares {digits[:40]} {what}, at most {most} are possible",
        "the file may be damaged: fetch it again",
    )


@pytest.mark.parametrize(
    ("name", "content", "rows"),
    [
        ("x", "p sp {}3 {}1\na 1 2 7\n", [(1, 2, 7)]),
        ("x.graph", "{}2 {}1\n2\n1\n", [(1, 2), (2, 1)]),
        ("x", "%%MatrixMarket matrix coordinate integer general\n{0}3 {0}3 {0}1\n1 2 7\n", [(1, 2, 7)]),
    ],
)
def test_counts_with_leading_zeros(write, read, name, content, rows):
    zeros = "0" * 5000
    assert read(write(name, content.format(zeros, zeros))).rows() == rows


def test_a_format_asked_for_is_not_looked_for(write, read):
    assert read(write("x.graph", "3 2\n2 1\n"), format="text").rows() == [(3, 2), (2, 1)]


def test_many_declarations_are_read_once(write, refused):
    began = time.perf_counter()
    assert "is XML, and neither" in refused(write("x", b"<!A>" * 1000 + b"x"))[0]
    assert time.perf_counter() - began < 2
