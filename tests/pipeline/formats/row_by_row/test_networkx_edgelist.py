"""What NetworkX's `write_edgelist` writes."""

from __future__ import annotations

import numpy as np
import pytest

#: `write_edgelist(G)`, of a graph with attributes of several kinds.
DATA = "# by NetworkX\n0 1 {'weight': 3, 'name': 'x y'}\n1 2 {'weight': 4}\n\n2 0 {'color': None, 'weight': -5}\n"


@pytest.mark.parametrize("block_bytes", [64, 1 << 20])
def test_attributes_of_a_line(write, read, block_bytes):
    found = read(write("e.edgelist", DATA), block_bytes=block_bytes)
    reading = found.reading
    assert (reading.format, reading.ids, reading.header) == ("networkx", "integer", False)
    assert (reading.weight.column, reading.weight.why) == ("weight", "by its name")
    assert reading.unused == ("name", "color")
    assert found.rows() == [(0, 1, 3), (1, 2, 4), (2, 0, -5)]
    assert found.weights.dtype == np.int64
    assert found.n_chunks == (3 if block_bytes == 64 else 1)


def test_what_networkx_writes_is_read(write, read, tmp_path):
    networkx = pytest.importorskip("networkx")
    graph = networkx.DiGraph()
    graph.add_edge("Köln", "Bonn", weight=3)
    graph.add_edge("Bonn", "Ulm", weight=0.5, name="a, b")
    write("e", "")
    rows = [("Köln", "Bonn", 3), ("Bonn", "Ulm", 0.5)]
    for data, format_, wanted in (
        (True, "networkx", rows),
        (["weight"], "text", rows),
        (False, "text", [row[:2] for row in rows]),
    ):
        networkx.write_edgelist(graph, tmp_path / "e", data=data)
        found = read("e", **({} if format_ == "networkx" else {"header": False}))
        assert (found.reading.format, found.rows()) == (format_, wanted)


@pytest.mark.parametrize(
    ("weights", "wanted"),
    [
        (["3", "4"], [3, 4]),
        (["3", "0.5", "4"], [3, 0.5, 4]),
        (["1e3", "-2"], [1000.0, -2]),
        ([str(2**64 - 1), "3", str(-(2**63))], [2**64 - 1, 3, -(2**63)]),
        (["0.1", "0.12345678901234567", "+5"], [0.1, 0.12345678901234567, 5]),
    ],
)
def test_weights(write, opened, weights, wanted):
    content = "".join(f"{i} {i + 1} {{'weight': {w}}}\n" for i, w in enumerate(weights))
    chunks = opened(write("e", content)).chunks()
    found = [weight for chunk in chunks for weight in chunk.weights.tolist()]
    # No integer stands beside decimals in a chunk, where it would be rounded.
    assert sorted(map(repr, found)) == sorted(map(repr, wanted))


@pytest.mark.parametrize(
    ("content", "weight", "unused"),
    [
        ("0 1 {'length': 3, 'name': 'x'}\n", "length", ("name",)),
        ("0 1 {'name': 'x'}\n1 2 {}\n", None, ("name",)),
        ("0 1 {}\n1 2 {}\n", None, ()),
    ],
)
def test_the_attribute_that_is_the_weight(write, read, content, weight, unused):
    reading = read(write("e", content)).reading
    assert (reading.weight.column, reading.unused) == (weight, unused)


@pytest.mark.parametrize("depth", ["(" * 100_000, "-" * 100_000, "[" * 5000 + "]" * 5000, "1" * 5000])
@pytest.mark.usefixtures("no_garbage_collection")
def test_what_would_break_a_parser(write, refused, depth):
    message, hint = refused(write("e", f"0 1 {{'weight': {depth}}}\n"))
    assert message.startswith("`e` line 1: ")
    assert len(message) < 300
    assert hint


def test_ids_as_in_text(write, read, refused):
    assert read(write("e", "007 2 {'weight': 3}\n")).rows() == [("007", "2", 3)]
    name = write("e", "1 2 {'weight': 3}\n" * 1400 + "007 2 {'weight': 3}\n")
    assert refused(name)[0].startswith("`e` line 1401: vertex id `007` has a leading zero")
    assert read(name, ids="integer").rows()[-1] == (7, 2, 3)
    zeros = write("e", f"{'0' * 5000}7 2 {{'weight': 3}}\n")
    assert read(zeros, ids="integer").rows() == [(7, 2, 3)]
