"""Text that is not UTF-8: read where it says so itself or the workflow does, else an error with what to write."""

from __future__ import annotations

import codecs
import gzip

import pytest

NAMES = "Köln Bonn 3\nBonn Jürgen 4\n"
ROWS = [("Köln", "Bonn", 3), ("Bonn", "Jürgen", 4)]
CONTENTS = {
    "text": (NAMES, ROWS),
    "csv": (NAMES.replace(" ", ","), ROWS),
    "networkx": ("Köln Bonn {'km': 3}\nBonn Jürgen {'km': 4}\n", ROWS),
    "dimacs": ("c Köln\np sp 3 2\na 1 2 3\na 2 3 4\n", [(1, 2, 3), (2, 3, 4)]),
    "matrix-market": ("%%MatrixMarket matrix coordinate integer general\n2 2 1\n1 2 3\n", [(1, 2, 3)]),
}
MARKS = {"utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}


@pytest.mark.parametrize("kind", CONTENTS)
@pytest.mark.parametrize("encoding", MARKS)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("block_bytes", [16, 1 << 20])
def test_utf_16_with_its_mark(write, read, kind, encoding, pack, block_bytes):
    content, rows = CONTENTS[kind]
    found = read(write("e", pack(MARKS[encoding] + content.encode(encoding))), block_bytes=block_bytes)
    assert found.reading.format == kind
    assert found.rows() == rows
    if kind in ("text", "csv", "networkx"):
        assert found.reading.encoding == "utf-16"


def test_names_of_columns_in_another_encoding(write, read):
    content = "straße_von,straße_nach,länge\n1,2,3\n".encode("latin-1")
    options = {"source_column": "straße_von", "target_column": "straße_nach", "weight_column": "länge"}
    assert read(write("e.csv", content), encoding="latin-1", **options).rows() == [(1, 2, 3)]


@pytest.mark.parametrize("between", [" ", ","])
@pytest.mark.parametrize("n_before", [0, 20_000])
def test_a_byte_that_the_encoding_has_not(write, read, refused, between, n_before):
    euro = f"anna{between}€\n".encode("cp1252")
    content = f"anna{between}bob\nbob{between}carl\n".encode() + euro * (1 + n_before)
    assert read(write("e", content), encoding="cp1252").rows()[2] == ("anna", "€")
    message, hint = refused(write("e", content + b"anna" + between.encode() + b"\x81\n"), encoding="cp1252")
    assert message.startswith("`e` ")
    assert "cp1252" in message.lower()
    assert "0x81" in message
    assert hint == "set `graph.encoding` to the encoding of the file, or save it as UTF-8"
