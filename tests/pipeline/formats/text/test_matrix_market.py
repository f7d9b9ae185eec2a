from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

BANNER = "%%MatrixMarket matrix coordinate {} {}\n"
KINDS_HINT = "coordinate files are read that are pattern, integer or real, and general or symmetric"


def matrix(field, symmetry, rest):
    return BANNER.format(field, symmetry) + rest


def test_integer_general(write, read):
    found = read(write("m.mtx", matrix("integer", "general", "% note\n\n3 3 3\n1 2 5\n% 9\n3 1 -7\n2 2 1\n")))
    assert (found.edge_list.reading.format, found.edge_list.n_vertices, found.edge_list.first_id) == (
        "matrix-market",
        3,
        1,
    )
    assert found.edge_list.symmetric == "as-listed"
    assert_array_equal(found.weights, np.array([5, -7, 1]), strict=True)
    assert found.rows() == [(1, 2, 5), (3, 1, -7), (2, 2, 1)]


def test_real_symmetric_is_to_be_mirrored(write, read):
    found = read(write("m.mtx", matrix("Real", "Symmetric", "3 3 2\n2 1 1.5e0\n3 3 2\n")))
    assert found.edge_list.symmetric == "mirror"
    assert_array_equal(found.weights, np.array([1.5, 2.0]), strict=True)


def test_pattern_has_no_weights(write, read):
    found = read(write("m.mtx", matrix("pattern", "general", "3 3 2\n2 1\n3 3\n")))
    assert not found.edge_list.has_weights
    assert found.rows() == [(2, 1), (3, 3)]


def test_values_may_be_left_out(write, read):
    name = write("m.mtx", matrix("real", "general", "3 3 1\n2 1 0.5\n"))
    assert read(name, weight_column="none").rows() == [(2, 1)]


@pytest.mark.parametrize(
    ("content", "message", "hint"),
    [
        (
            matrix("complex", "general", "1 1 0\n"),
            "`m.mtx` line 1: a Matrix Market file that is `complex` cannot be read as a graph",
            KINDS_HINT,
        ),
        (
            matrix("real", "skew-symmetric", "1 1 0\n"),
            "`m.mtx` line 1: a Matrix Market file that is `skew-symmetric` cannot be read as a graph",
            KINDS_HINT,
        ),
        (
            "%%MatrixMarket matrix array real general\n1 1\n2\n",
            "`m.mtx` line 1: a Matrix Market file that is `array` cannot be read as a graph",
            KINDS_HINT,
        ),
        (
            "%%MatrixMarket matrix\n1 1\n2\n",
            "`m.mtx` line 1: `%%MatrixMarket matrix` is not the header of a Matrix Market file",
            "it reads `%%MatrixMarket matrix coordinate real general`",
        ),
        (
            matrix("real", "general", "3 4 1\n1 2 3\n"),
            "`m.mtx` line 2: the matrix has 3 rows and 4 columns, but a graph needs as many rows as columns",
            "only square matrices are graphs",
        ),
        (
            matrix("real", "general", "%\n3 4\n"),
            "`m.mtx` line 3: `3 4` is not the size of a matrix",
            "it reads `ROWS COLUMNS ENTRIES`",
        ),
        (
            matrix("real", "general", "%\n"),
            "`m.mtx` ends before the size of its matrix",
            "it reads `ROWS COLUMNS ENTRIES`",
        ),
        (
            matrix("integer", "general", "3 3 2\n1 2 3\n"),
            "`m.mtx` declares 2 edges but lists 1",
            "the file may be cut short: fetch it again",
        ),
        (
            matrix("integer", "general", "3 3 1\n1 2 3\n1 3 3\n"),
            "`m.mtx` declares 1 edges but lists 2 or more",
            "correct the count at its beginning",
        ),
        (
            matrix("integer", "general", "3 3 1\n1 4 3\n"),
            "`m.mtx` line 3: vertex id `4` is outside 1 to 3",
            "the file declares its number of vertices at its beginning: correct the id or that number",
        ),
        (
            matrix("integer", "general", "3 3 1\n1 2\n"),
            "`m.mtx` line 3 has 2 columns, wanted 3",
            "every line holds source, target and weight",
        ),
    ],
)
def test_faults(write, refused, content, message, hint):
    assert refused(write("m.mtx", content)) == (message, hint)


def test_files_that_differ(write, refused):
    one = write("a", matrix("real", "general", "3 3 0\n"))
    assert refused(one, write("b", matrix("real", "symmetric", "3 3 0\n"))) == (
        "`a` is real general, `b` real symmetric",
        "files read together are of one kind",
    )
    assert refused(one, write("b", matrix("real", "general", "4 4 0\n")))[0] == (
        "`a` declares 3 vertices, `b` 4"
    )
