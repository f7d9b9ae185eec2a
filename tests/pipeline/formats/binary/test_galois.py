from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest
from numpy.testing import assert_array_equal

# Vertex 0 has edges to 1 and 2, vertex 1 none, vertex 2 one to 0; 3 edges, so that a pad follows the targets.
ENDS, TARGETS, WEIGHTS = [2, 2, 3], [1, 2, 0], [5, 6, 2**32 - 1]
ROWS = [(0, 1, 5), (0, 2, 6), (2, 0, 2**32 - 1)]


def galois(ends=ENDS, targets=TARGETS, weights=WEIGHTS, version=1, size=None, n_edges=None, code="I"):
    size = struct.calcsize(code) if size is None and weights else size or 0
    n_edges = len(targets) if n_edges is None else n_edges
    content = struct.pack("<QQQQ", version, size, len(ends), n_edges)
    content += struct.pack(f"<{len(ends)}Q", *ends) + struct.pack(f"<{len(targets)}I", *targets)
    content += b"\0" * (4 * (len(targets) % 2))
    return content + struct.pack(f"<{len(weights)}{code}", *weights)


@pytest.mark.parametrize("block_bytes", [1, 8, 16, 1 << 20])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_rows_and_weights(write, read, block_bytes, pack):
    found = read(write("g.gr", pack(galois())), block_bytes=block_bytes)
    assert found.declared == ("galois", 3, 0, "as-listed")
    assert found.edge_list.weight_dtype == np.uint32
    assert found.rows() == ROWS
    assert found.src.dtype == found.dst.dtype == np.int64
    assert found.weights.dtype == np.uint32


def test_a_hub_over_many_chunks(write, read):
    n = 1000
    targets = np.random.default_rng(3).integers(0, n, 4001).tolist()
    ends = [4000] * (n - 1) + [4001]
    found = read(write("g.gr", galois(ends, targets, list(range(4001)))), block_bytes=80)
    assert found.n_chunks > 400
    assert_array_equal(found.src, [0] * 4000 + [n - 1])
    assert_array_equal(found.dst, targets)
    assert_array_equal(found.weights, np.arange(4001))


def test_without_weights(write, read):
    found = read(write("g.gr", galois(weights=[])))
    assert found.edge_list.weight_dtype is None
    assert found.rows() == [row[:2] for row in ROWS]
    assert read(write("g.gr", galois()), weight_column="none").rows() == [row[:2] for row in ROWS]


@pytest.mark.parametrize(
    ("code", "asked", "dtype", "weights"),
    [
        ("i", "int32", np.int32, [-1, 2, 3]),
        ("f", "float32", np.float32, [0.5, 2, 3]),
        ("Q", "auto", np.uint64, [2**63, 2, 3]),
        ("q", "int64", np.int64, [-1, 2, 3]),
        ("d", "float64", np.float64, [0.1, 2, 3]),
        ("I", "uint64", np.uint32, [1, 2, 3]),
    ],
)
def test_weights_are_what_they_are_asked_to_be(write, read, code, asked, dtype, weights):
    found = read(write("g.gr", galois(weights=weights, code=code)), weight_dtype=asked)
    assert_array_equal(found.weights, np.array(weights, dtype), strict=True)
    assert found.edge_list.weight_dtype == dtype
