"""Sparse matrices that `scipy.sparse.save_npz` wrote, and files that only look like it."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

SHAPE_HINT = f"a graph is a square matrix of at most {2**32 - 1} rows"
#: The entry (1, 2) is stored with the value 0.
MATRIX = sp.coo_matrix(([5, 0, 7, -1], ([0, 1, 2, 2], [1, 2, 0, 2])), shape=(4, 4))
EDGES = [(0, 1, 5), (1, 2, 0), (2, 0, 7), (2, 2, -1)]


@pytest.fixture
def save(write):
    def save_matrix(matrix, compressed: bool = True) -> str:
        file = io.BytesIO()
        sp.save_npz(file, matrix, compressed=compressed)
        return write("m.npz", file.getvalue())

    return save_matrix


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
@pytest.mark.parametrize("kind", ["matrix", "array"])
@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("block_bytes", [24, 48, 1 << 20])
def test_entries_are_edges(save, read, layout, kind, compressed, block_bytes):
    matrix = MATRIX.asformat(layout)
    name = save(sp.coo_array(MATRIX).asformat(layout) if kind == "array" else matrix, compressed)
    found = read(name, block_bytes=block_bytes)
    assert found.declared == ("scipy-npz", 4, 0, "as-listed")
    assert sorted(found.rows()) == EDGES
    assert found.src.dtype == found.dst.dtype == np.int64


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint64", "int64", "float32", "float64"])
def test_weights_keep_their_type(save, read, dtype):
    matrix = sp.coo_matrix((np.array([1, 100], dtype), ([0, 1], [1, 0])), shape=(2, 2))
    found = read(save(matrix))
    assert found.edge_list.weight_dtype == dtype
    assert_array_equal(found.weights, np.array([1, 100], dtype), strict=True)


def test_truth_values_are_no_weights(save, read):
    found = read(save(sp.coo_matrix((np.ones(4, bool), (MATRIX.row, MATRIX.col)), MATRIX.shape)))
    assert not found.edge_list.has_weights
    assert found.rows() == [row[:2] for row in EDGES]


def test_weights_may_be_left_out(save, read):
    assert read(save(MATRIX), weight_column="none").rows() == [row[:2] for row in EDGES]


def test_a_matrix_without_entries(save, read):
    found = read(save(sp.csr_matrix((3, 3))))
    assert (found.edge_list.n_vertices, found.n_chunks) == (3, 0)


@pytest.mark.parametrize(
    ("matrix", "message", "hint"),
    [
        (
            sp.coo_matrix(([1, 2], ([0, 0], [1, 1])), shape=(3, 3)),
            "has the entry (0, 1) twice, which SciPy would add up",
            "call `matrix.sum_duplicates()` before saving, or save an edge list",
        ),
        (sp.coo_matrix(([1], ([0], [1])), shape=(3, 4)), "is a matrix of 3 rows and 4 columns", SHAPE_HINT),
        (MATRIX.astype(complex), "has values of type complex128", "weights are integers or floats"),
        (
            sp.dia_matrix(np.eye(3)),
            "is a matrix of layout `dia`; csr, csc and coo are read",
            "save `matrix.tocsr()`",
        ),
        (
            sp.coo_matrix(([1, np.nan], ([0, 2], [1, 0])), shape=(3, 3)),
            "entry (2, 0): weight `nan` is not finite",
            "remove such entries before saving",
        ),
    ],
)
@pytest.mark.parametrize("block_bytes", [24, 1 << 20])
def test_what_is_no_graph(save, refused, matrix, message, hint, block_bytes):
    assert refused(save(matrix), block_bytes=block_bytes) == (f"`m.npz` {message}", hint)


@pytest.mark.parametrize("layout", ["coo", "csr"])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.95])
def test_cut_short(save, write, refused, tmp_path, layout, share):
    content = (tmp_path / save(MATRIX.asformat(layout))).read_bytes()
    message, hint = refused(write("m.npz", content[: int(len(content) * share)]))
    assert message.startswith("`m.npz` is damaged: ")
    assert hint == "fetch or compress it again"


def test_altered(save, write, refused, tmp_path):
    content = bytearray((tmp_path / save(MATRIX, compressed=False)).read_bytes())
    content[content.index(b"data.npy") + len(b"data.npy") + 20 + 128 + 3] ^= 0x55
    message, hint = refused(write("m.npz", bytes(content)))
    assert message.startswith("`m.npz` is damaged: ")
    assert hint


COO = {"format": b"coo", "shape": (3, 3), "row": [0], "col": [1], "data": [1]}
MISFIT = "`indptr` does not fit its {} rows and 1 entries"
CSR = {"format": b"csr", "shape": (3, 3), "indices": [0], "indptr": [0, 1, 1, 1], "data": [1]}


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (COO | {"shape": (2**40, 2**40)}, f"is a matrix of {2**40} rows and {2**40} columns"),
        (CSR | {"shape": (2**40, 2**40)}, f"is a matrix of {2**40} rows and {2**40} columns"),
        (CSR | {"shape": (2**31, 2**31)}, f"is damaged: {MISFIT.format(2**31)}"),
        (COO | {"shape": (-3, -3)}, "is a matrix of -3 rows and -3 columns"),
        (COO | {"shape": (3,)}, "is a matrix of 3 columns"),
        (COO | {"shape": (3, 3, 3)}, "is a matrix of 3 rows and 3 rows and 3 columns"),
        (COO | {"col": [3]}, "is damaged: index 3 is outside 0 to 2"),
        (COO | {"row": [-1]}, "is damaged: index -1 is outside 0 to 2"),
        (COO | {"row": np.array([2**63], np.uint64)}, f"is damaged: index {2**63} is outside 0 to 2"),
        (COO | {"row": [0.0]}, "is damaged: its indices are not integers"),
        (COO | {"row": np.array(0)}, "is damaged: its indices are not integers"),
        (COO | {"row": [0, 1]}, "is damaged: `data` and its indices differ in length"),
        (COO | {"data": [1, 2]}, "is damaged: `data` and its indices differ in length"),
        (COO | {"data": ["x"]}, "has values of type <U1"),
        (
            COO | {"data": [False]},
            "has the entry (0, 1) with the value False, which may mean that there is no edge",
        ),
        *(
            (CSR | {"indptr": ends}, f"is damaged: {MISFIT.format(3)}")
            for ends in ([0, 1], [0, 2, 1, 1], [1] * 4)
        ),
        (COO | {"format": b"xyz"}, "is a matrix of layout `xyz`; csr, csc and coo are read"),
        *((COO | {"shape": shape}, "is damaged: ") for shape in (["x", "y"], [np.inf, np.inf])),
        (COO | {"format": ["a", "b"]}, "is damaged: "),
        ({k: v for k, v in COO.items() if k != "row"}, "is damaged: "),
        (COO | {"row": np.array([None])}, "is damaged: "),
    ],
)
def test_arrays_that_are_no_matrix(write, refused, arrays, message):
    file = io.BytesIO()
    np.savez(file, **arrays)
    found, _ = refused(write("m.npz", file.getvalue()))
    assert found == f"`m.npz` {message}" or (
        message == "is damaged: " and found.startswith(f"`m.npz` {message}")
    )


def test_an_array_that_is_larger_than_its_file(write, refused):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, value in COO.items():
            array = io.BytesIO()
            if name == "data":
                header = {"descr": "<i8", "fortran_order": False, "shape": (10**13,)}
                np.lib.format.write_array_header_1_0(array, header)
            else:
                np.save(array, np.array(value))
            archive.writestr(f"{name}.npy", array.getvalue())
    message, hint = refused(write("m.npz", file.getvalue()))
    assert message.startswith("`m.npz` is damaged: ")
    assert hint
