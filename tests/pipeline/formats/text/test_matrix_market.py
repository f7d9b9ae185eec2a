from __future__ import annotations

import numpy as np
from numpy.testing import assert_array_equal

BANNER = "%%MatrixMarket matrix coordinate {} {}\n"


def matrix(field, symmetry, rest):
    return BANNER.format(field, symmetry) + rest


def test_integer_general(write, read):
    found = read(write("m.mtx", matrix("integer", "general", "% note\n\n3 3 3\n1 2 5\n% 9\n3 1 -7\n2 2 1\n")))
    assert found.declared == ("matrix-market", 3, 1, "as-listed")
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
