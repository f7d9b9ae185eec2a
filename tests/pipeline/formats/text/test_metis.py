from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


def test_neighbours_are_listed_twice_and_blank_lines_are_vertices(write, read):
    found = read(write("m.graph", "% mesh\n4 2\n2\n1 4\n\n% note\n2"))
    assert found.declared == ("metis", 4, 1, "both-listed")
    assert not found.edge_list.has_weights
    assert found.rows() == [(1, 2), (2, 1), (2, 4), (4, 2)]


@pytest.mark.parametrize(
    ("header", "lines"),
    [
        ("3 1 1", "2 7\n1 7\n\n"),
        ("3 1 001", "2 7\n1 7\n\n"),
        ("3 1 11", "50 2 7\n51 1 7\n52\n"),
        ("3 1 011 2", "50 60 2 7\n51 61 1 7\n52 62\n"),
        ("3 1 101", "9 2 7\n9 1 7\n9\n"),
        ("3 1 111 2", "9 50 60 2 7\n9 51 61 1 7\n9 52 62\n"),
    ],
)
def test_edge_weights_are_read_and_weights_of_vertices_passed_over(write, read, header, lines):
    name = write("m.graph", header + "\n" + lines)
    assert read(name).rows() == [(1, 2, 7), (2, 1, 7)]
    assert read(name, weight_column="none").rows() == [(1, 2), (2, 1)]


@pytest.mark.parametrize(("header", "lines"), [("3 1 10", "5 2\n5 1\n5\n"), ("3 1 100", "5 2\n5 1\n5\n")])
def test_vertex_weights_without_edge_weights(write, read, header, lines):
    assert read(write("m.graph", header + "\n" + lines)).rows() == [(1, 2), (2, 1)]


def test_trailing_blank_lines_are_no_vertices(write, read):
    assert read(write("m.graph", "2 1\n2\n1\n\n\n"), block_bytes=1).rows() == [(1, 2), (2, 1)]


@pytest.mark.medium
@given(
    st.sets(st.tuples(st.integers(1, 9), st.integers(1, 9)).filter(lambda e: e[0] < e[1])), st.integers(1, 40)
)
@settings(deadline=None, max_examples=60)
def test_any_mesh_comes_back_from_any_blocks(tmp_path_factory, read, pairs, block_bytes):
    edges = sorted({(u, v) for u, v in pairs} | {(v, u) for u, v in pairs})
    lines = [" ".join(f"{v} {u + v}" for s, v in edges if s == u) for u in range(1, 10)]
    path = tmp_path_factory.mktemp("metis") / "any.graph"
    path.write_text("\n% c\n".join([f"9 {len(edges) // 2} 1", *lines]) + "\n")
    assert read(path, block_bytes=block_bytes).rows() == [(u, v, u + v) for u, v in edges]
