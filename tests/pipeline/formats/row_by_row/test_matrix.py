"""Matrices in text and CSV: recognised and refused, read when asked, and each error."""

import numpy as np
import pandas as pd
import pytest

from sssp_pipeline.pipeline.formats.columns.layout import SAMPLE_ROWS

ROWS = [[0, 12, 10, 19, 8], [12, 0, 3, 7, 6], [10, 3, 0, 2, 20], [19, 7, 2, 0, 4], [8, 6, 20, 4, 0]]
EDGES = [(i, j, ROWS[i][j]) for i in range(5) for j in range(5) if i != j]
NAMES = list("ABCDE")
NAMED = [(NAMES[i], NAMES[j], weight) for i, j, weight in EDGES]
AS_EDGES = (
    "if it is a matrix, write:\ngraph:\n  format: matrix\nif it is a list of edges, name its columns:\n"
    "graph:\n  columns: {source: 1, target: 2}\n  weights: {column: 3}    # or none"
)
AS_NAMED_EDGES = (
    "if it is a matrix, write:\ngraph:\n  format: matrix\n"
    "if it is a list of edges, name its columns with `graph.columns` and `graph.weights.column`"
)


def joined(separator, rows=ROWS):
    return "".join(separator.join(map(str, row)) + "\n" for row in rows)


def named_rows(separator=","):
    return joined(separator, [[name, *row] for name, row in zip(NAMES, ROWS, strict=True)])


#: Each way to write the matrix: its text, its edges, and whether it has a header.
FORMS = {
    "text": (joined(" "), EDGES, False),
    "comma": (joined(","), EDGES, False),
    "semicolon": (joined(";"), EDGES, False),
    "bar": (joined("|"), EDGES, False),
    "tab": (joined("\t"), EDGES, False),
    "header": (joined(",", [NAMES]) + joined(","), NAMED, True),
    "names": (named_rows(), NAMED, False),
    "both": ("," + joined(",", [NAMES]) + named_rows(), NAMED, True),
    "both, no corner": (joined(" ", [NAMES]) + named_rows(" "), NAMED, True),
    "corner, tab": ("id\t" + joined("\t", [NAMES]) + named_rows("\t"), NAMED, True),
    "pandas": (pd.DataFrame(ROWS).to_csv(), EDGES, True),
    "pandas without index": (pd.DataFrame(ROWS).to_csv(index=False), EDGES, True),
    "comments": ("# distances\n" + joined(" "), EDGES, False),
}


def test_an_edge_list_of_a_data_frame_that_looks_like_a_matrix(write, read, refused):
    name = write("e.csv", ",0,1,2\n0,1,2,4\n1,2,3,5\n2,7,9,1\n")
    _, hint = refused(name)
    assert hint.endswith(
        "name its columns:\ngraph:\n  columns: {source: 0, target: 1}\n  weights: {column: 2}    # or none"
    )
    found = read(name, source_column="0", target_column="1", weight_column="2")
    assert found.rows() == [(1, 2, 4), (2, 3, 5), (7, 9, 1)]


@pytest.mark.parametrize("form", FORMS)
def test_a_matrix_is_recognised_and_read_when_asked(write, read, refused, form):
    content, edges, has_header = FORMS[form]
    file = write("m", content)
    message, hint = refused(file)
    assert "this looks like a 5 x 5 matrix of distances, not like a list of edges" in message
    assert hint == (AS_NAMED_EDGES if has_header else AS_EDGES)
    found = read(file, format="matrix")
    assert found.rows() == edges
    assert found.reading.rules == (
        "a matrix: row i, column j is the edge i -> j; the diagonal, missing entries and 0 are no edges",
    )
    assert found.edge_list.n_vertices == (5 if edges is EDGES else None)


def test_what_numpy_writes(tmp_path, write, read, refused):
    rng = np.random.default_rng(1)
    matrix = rng.integers(1, 99, (50, 50))
    np.savetxt(tmp_path / "m.txt", matrix, fmt="%d")
    assert "a 50 x 50 matrix" in refused(str(tmp_path / "m.txt"))[0]
    found = read(tmp_path / "m.txt", format="matrix")
    assert found.rows() == [(i, j, matrix[i, j]) for i in range(50) for j in range(50) if i != j]


@pytest.mark.medium
def test_a_matrix_of_more_rows_than_a_sample(write, read, refused):
    n = SAMPLE_ROWS + 2
    rows = [["7"] + ["-"] * (n - 1) for _ in range(n)]
    file = write("m", joined(" ", rows))
    assert f"a {n} x {n} matrix" in refused(file)[0]
    assert read(file, format="matrix").src.tolist() == list(range(1, n))
    rows[-2].pop()
    assert refused(write("m", joined(" ", rows)), format="matrix")[0] == (
        f"`m` line {n - 1} has {n - 1} numbers, and the matrix has {n} columns"
    )


@pytest.mark.parametrize("zero", ["0", "0.0", "-0", "0.000e+00", "inf"])
def test_three_columns_with_a_diagonal_of_zeros_are_a_matrix(write, read, refused, zero):
    file = write("m", f"{zero} 3 4\n6 {zero} 5\n7 8 {zero}\n")
    assert "a 3 x 3 matrix" in refused(file)[0]
    assert read(file, format="matrix").rows() == [
        *((0, 1, 3), (0, 2, 4), (1, 0, 6), (1, 2, 5), (2, 0, 7), (2, 1, 8)),
    ]


@pytest.mark.parametrize(
    ("content", "edges"),
    [
        ("0 3 4\n3 0 5\n4 5 1\n", [(0, 3, 4), (3, 0, 5), (4, 5, 1)]),
        ("0 3 4\n3 0 5\n", [(0, 3, 4), (3, 0, 5)]),
        ("0 1 5\n1 2 6\n2 0 7\n", [(0, 1, 5), (1, 2, 6), (2, 0, 7)]),  # as many rows as columns
        ("0 1\n1 2\n", [(0, 1), (1, 2)]),
        ("a b 5\nb c 6\nc a 7\n", [("a", "b", 5), ("b", "c", 6), ("c", "a", 7)]),
        ("u,v,length\n1,2,5\n2,3,6\n3,1,7\n", [(1, 2, 5), (2, 3, 6), (3, 1, 7)]),
        ("id,from,to,km\n1,2,3,5\n2,3,4,6\n3,4,5,7\n4,5,6,8\n", [(i, i + 1, i + 3) for i in range(2, 6)]),
    ],
)
def test_edges_are_no_matrix(write, read, content, edges):
    assert read(write("e", content)).rows() == edges


def test_a_square_edge_list_is_read_if_its_columns_are_named(write, read):
    file = write("e.txt", "0 1 5 1\n1 2 6 1\n2 3 7 1\n3 0 8 1\n")
    assert read(file, weight_column="3").rows() == [(0, 1, 5), (1, 2, 6), (2, 3, 7), (3, 0, 8)]
    assert read(file, weight_column="none").rows() == [(0, 1), (1, 2), (2, 3), (3, 0)]


def test_what_is_no_edge(write, read):
    content = ",A,B,C,D,E\nA,9,0,,-,nan\nB,inf,1,0.0,+Inf,2.5\nC,1,1,1,NaN,\nD,,,,,\nE,3,,,,\n"
    found = read(write("m.csv", content), format="matrix")
    assert found.rows() == [("B", "E", 2.5), ("C", "A", 1), ("C", "B", 1), ("E", "A", 3)]


def test_small_matrices_and_options(write, read):
    assert read(write("m", "0 1 5\n1 0 6\n2 0 0\n"), format="matrix").rows() == [
        *((0, 1, 1), (0, 2, 5), (1, 0, 1), (1, 2, 6), (2, 0, 2)),
    ]
    small = write("m", "7 1\n0 7\n")
    assert read(small, format="matrix", weight_column="none").rows() == [(0, 1)]
    assert read(small, format="matrix", ids="string").rows() == [("0", "1", 1)]
    assert read(small, format="matrix", block_bytes=1).rows() == [(0, 1, 1)]
    comma = read(write("m", "0;1,5\n2;0\n"), format="matrix", decimal="comma")
    assert comma.rows() == [(0, 1, 1.5), (1, 0, 2)]
    header = read(write("m", "3,4\n0,1\n5,0\n"), format="matrix", header=True)
    assert header.rows() == [(3, 4, 1), (4, 3, 5)]
    assert read(write("m", ",1,0\n1,0,2\n0,3,0\n"), format="matrix").rows() == [(1, 0, 2), (0, 1, 3)]
    latin = read(write("m", "é,b\n0,1\n5,0\n".encode("latin-1")), format="matrix", encoding="latin-1")
    assert latin.rows() == [("é", "b", 1), ("b", "é", 5)]


def test_numbers_may_be_names_or_a_row_of_a_symmetric_matrix(write, read, refused):
    file = write("m.csv", ",3,4\n3,,5\n4,5,\n")
    assert "a 2 x 2 matrix" in refused(file)[0]
    assert refused(file, format="matrix") == (
        "`m.csv` line 1: this row may name the columns, or be the first row of the matrix",
        "set `graph.header: true` if it names the columns, `graph.header: false` if it is a row",
    )
    assert read(file, format="matrix", header=True).rows() == [(3, 4, 5), (4, 3, 5)]
    edges = [(0, 1, 3), (0, 2, 4), (1, 0, 3), (1, 2, 5), (2, 0, 4), (2, 1, 5)]
    assert read(file, format="matrix", header=False).rows() == edges
