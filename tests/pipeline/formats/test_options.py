"""Options that a format does not take, and files of formats that hold a whole graph each."""

from __future__ import annotations

import pytest

from sssp_pipeline.pipeline.formats.edge_list import MAX_LINE_BYTES
from sssp_pipeline.workflow.registries import FORMATS

#: A value of each key that only some formats take, as an option of readers.
OPTIONS = {
    "columns": {"source_column": "from"},
    "weights.column": {"weight_column": "length"},
    "ids": {"ids": "string"},
    "encoding": {"encoding": "latin-1"},
    "delimiter": {"delimiter": ";"},
    "header": {"header": False},
    "decimal": {"decimal": "comma"},
    "unreadable": {"unreadable": "skip"},
    "max_line_bytes": {"max_line_bytes": 2 * MAX_LINE_BYTES},
    "layer": {"own": {"layer": "roads"}},
    "profile": {"own": {"profile": "foot"}},
}
#: Of each format, the keys that it takes.
TAKEN = {
    "text": "columns weights.column ids unreadable encoding header decimal max_line_bytes",
    "csv": "columns weights.column ids unreadable encoding delimiter header decimal max_line_bytes",
    "dimacs": "max_line_bytes",
    "galois": "",
    "graphml": "weights.column ids unreadable max_line_bytes",
    "lines": "columns weights.column ids unreadable layer",
    "matrix": "ids encoding delimiter header decimal max_line_bytes",
    "matrix-market": "max_line_bytes",
    "metis": "max_line_bytes",
    "neo4j": "weights.column ids encoding delimiter decimal unreadable max_line_bytes",
    "networkx": "weights.column ids encoding unreadable max_line_bytes",
    "osm": "weights.column unreadable profile",
    "parquet": "columns weights.column ids unreadable",
    "scipy-npz": "",
    "tntp": "weights.column max_line_bytes",
}


def test_every_format_and_every_key_is_here():
    assert TAKEN.keys() == FORMATS.keys()
    assert {key for taken in TAKEN.values() for key in taken.split()} == OPTIONS.keys()


@pytest.mark.parametrize("name", TAKEN)
def test_options_that_a_format_does_not_take(write, refused, name):
    file = write("e.txt", "1 2\n")
    for key in OPTIONS.keys() - TAKEN[name].split():
        message, hint = refused(file, format=name, **OPTIONS[key])
        assert message.startswith(f"`e.txt`: `graph.{key}` belongs to format")
        assert message.endswith(f", not `{name}`")
        assert hint == f"remove `graph.{key}`, or set `graph.format`"


def test_an_option_that_the_format_of_the_content_does_not_take(write, refused):
    assert refused(write("e.gr", "p sp 2 1\na 1 2 3\n"), header=False) == (
        "`e.gr`: `graph.header` belongs to formats `text`, `csv` and `matrix`, not `dimacs`",
        "remove `graph.header`, or set `graph.format`",
    )


def test_values_that_every_format_takes(write, read):
    name = write("e.gr", "p sp 2 1\na 1 2 3\n")
    assert read(name, ids="integer", weight_column="none").rows() == [(1, 2)]


@pytest.mark.parametrize(
    ("name", "called"),
    [("matrix", "matrices"), ("metis", "METIS files"), ("scipy-npz", "matrices"), ("tntp", "TNTP networks")],
)
def test_only_one_file_that_holds_a_whole_graph(write, refused, name, called):
    assert refused(write("a", "0 1\n1 0\n"), write("b", "0 1\n1 0\n"), format=name) == (
        f"`a` and `b` are {called}, each a whole graph",
        "name one of them",
    )
