from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

SMALL = "c a road\nc\np sp 3 2\nc here too\na 1 2 10\n\na 3 1 7\n"


def test_shortest_path_files(write, read):
    found = read(write("r.gr", SMALL))
    assert found.declared == ("dimacs", 3, 1, "as-listed")
    assert found.rows() == [(1, 2, 10), (3, 1, 7)]
    assert found.edge_list.coordinates() is None


def test_tiny_blocks(write, read):
    found = read(write("r.gr", SMALL), block_bytes=1)
    assert found.rows() == [(1, 2, 10), (3, 1, 7)]
    assert found.n_chunks == 2


@pytest.mark.parametrize(
    "content", ["c\np tw 3 2\n1 2\nc x\n3 1\n", "p edge 3 2\ne 1 2\ne 3 1\n", "p col 3 2\ne 1 2\ne 3 1\n"]
)
def test_relatives_without_weights(write, read, content):
    found = read(write("g", content))
    assert found.edge_list.n_vertices == 3
    assert not found.edge_list.has_weights
    assert found.rows() == [(1, 2), (3, 1)]


def test_weights_may_be_left_out(write, read):
    assert read(write("r.gr", SMALL), weight_column="none").rows() == [(1, 2), (3, 1)]


def test_no_edges_are_possible(write, read):
    assert read(write("r.gr", "p sp 3 0\n")).rows() == []


def test_parts_of_one_graph(write, read):
    names = write("a.gr", "p sp 3 1\na 1 2 5\n"), write("b.gr", "p sp 3 2\na 2 3 6\na 3 1 7\n")
    assert read(*names).rows() == [(1, 2, 5), (2, 3, 6), (3, 1, 7)]
    assert read(names[0], names[0]).rows() == [(1, 2, 5), (1, 2, 5)]


def test_coordinates_are_in_vertex_order(write, read):
    name, co = (
        write("r.gr", SMALL),
        write("r.co", "c x\np aux sp co 3\nv 2 -20 200\nv 1 10 -100\nv 3 30 300\n"),
    )
    x, y = read(name, coordinates=co, block_bytes=16).edge_list.coordinates()
    assert_array_equal(x, np.array([10, -20, 30]), strict=True)
    assert_array_equal(y, np.array([-100, 200, 300]), strict=True)


def test_coordinates_may_be_decimals(write, read):
    name, co = write("r.gr", SMALL), write("r.co", "p aux sp co 3\nv 1 0.5 1\nv 2 1e-1 2\nv 3 3 3\n")
    x, y = read(name, coordinates=co).edge_list.coordinates()
    assert_array_equal(x, np.array([0.5, 0.1, 3.0]), strict=True)
    assert_array_equal(y, np.array([1.0, 2.0, 3.0]), strict=True)


CO_FAULTS = [
    ("p sp 3 2\n", "`r.co` line 1: `p sp 3 2` is not the header of coordinates", "it reads `p aux sp co VERTICES`"),
    (
        "p aux sp co 4\n", "`r.co` has coordinates of 4 vertices, the graph has 3",
        "name the file that belongs to the graph",
    ),
    (
        "p aux sp co 3\nv 1 1 1\nv 3 1 1\n", "`r.co` has no coordinates of vertex 2",
        "the file may be cut short: fetch it again",
    ),
    (
        "p aux sp co 3\nv 1 1 1\nv 3 1 1\nv 2 1 1\nv 1 1 1\n", "`r.co` has 4 coordinates of 3 vertices",
        "every vertex is listed once",
    ),
    (
        "p aux sp co 3\nv 1 1 east\n", "`r.co` line 2: `east` is not a coordinate",
        "coordinates are numbers of at most 15 digits",
    ),
    (
        f"p aux sp co {'9' * 5000}\n", f"`r.co` line 1 declares {'9' * 40} vertices, at most 4294967295 are possible",
        "the file may be damaged: fetch it again",
    ),
    ("p aux sp co 3\nv 1 1\n", "`r.co` line 2 has 2 columns, wanted 3", "every line holds a vertex id, x and y"),
    ("p aux sp co 3\nv 1 1 1 1\n", "`r.co` line 2 has 4 columns, wanted 3", "every line holds a vertex id, x and y"),
    ("p aux sp co 3\nv\n", "`r.co` line 2 has 0 columns, wanted 3", "every line holds a vertex id, x and y"),
    ("p aux sp co 3\nv b 1 1\n", "`r.co` line 2: `b` is not a vertex id", "ids are whole numbers from 1"),
    (
        "p aux sp co 3\nv 4 1 1\n", "`r.co` line 2: vertex id `4` is outside 1 to 3",
        "the file declares its number of vertices at its beginning: correct the id or that number",
    ),
    (
        "p aux sp co 3\nw 1 1 1\n", "`r.co` line 2 begins with `w`, wanted `v`",
        "the file may be damaged, or of another format: see `graph.format`",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("content", "message", "hint"), CO_FAULTS)
def test_coordinates_that_cannot_be_used(write, opened, refused, content, message, hint):
    edge_list = opened(write("r.gr", SMALL), coordinates=write("r.co", content))
    assert refused(edge_list.coordinates) == (message, hint)
