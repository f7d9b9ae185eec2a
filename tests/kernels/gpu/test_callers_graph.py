"""A matrix of CuPy is checked where it is, by the rules of a matrix in host memory."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy.sparse import csr_array

import sssp_pipeline as sp
from sssp_pipeline.api.graphs.graphs import graph_of
from sssp_pipeline.api.graphs.matrices import edges_of_matrix
from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.generators import rmat, road_like
from sssp_pipeline.kernels.gpu.common.cuda.compile import cupy_module
from sssp_pipeline.kernels.gpu.common.graphs import callers_graph as callers_graphs
from sssp_pipeline.kernels.gpu.common.graphs.callers_graph import CallersGraph, traits_of_arrays

FLOATS = pytest.mark.parametrize("dtype", ["float32", "float64"])
#: What replaces the first value of an array: 0 row offsets, 1 targets, 2 weights.
FAULTS = {
    "offsets-begin-late": (0, 0, 1),
    "offsets-fall": (0, 1, 10**6),
    "offsets-end-early": (0, -1, 3),
    "offsets-end-late": (0, -1, 10**6),
    "offsets-negative": (0, -1, -1),
    "target-negative": (1, 0, -1),
    "target-too-large": (1, 5, 4096),
    "nan": (2, 3, np.nan),
    "infinite": (2, 4, -np.inf),
    "subnormal": (2, -1, 1e-40),
    "subnormal-negative": (2, -1, -1e-40),
}
FAULTY = pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)


def arrays_of(made, dtype):
    graph = made.graph(dtype)
    return graph.row_offsets.astype(np.int32), graph.col_indices.astype(np.int32), graph.weights


def with_fault(fault, dtype):
    arrays = arrays_of(rmat(scale=12), dtype)
    array, place, value = fault
    tiny = abs(value) == 1e-40 and np.dtype(dtype) == np.float64
    arrays[array][place] = value * 1e-270 if tiny else value
    return arrays


# ---- without a GPU: arrays of NumPy stand for those of CuPy ----


@FLOATS
@pytest.mark.parametrize("factor", [1, -1, 0], ids=["positive", "negative", "zero"])
@pytest.mark.parametrize("made", [rmat(scale=12), road_like(vertices=3000, seed=3)], ids=["rmat", "road"])
def test_traits_are_those_of_the_host(made, dtype, factor):
    row_offsets, col_indices, weights = arrays_of(made, dtype)
    weights[::2] *= factor
    expected = CsrGraph(row_offsets.astype(np.int64), col_indices.astype(np.uint32), weights).check().traits
    unused = np.full(7, -1)  # a matrix may have more entries than its offsets say
    longer = np.append(col_indices, unused), np.append(weights, unused.astype(dtype))
    for rest in ((col_indices, weights), longer):
        assert dataclasses.asdict(traits_of_arrays(row_offsets, *rest)) == dataclasses.asdict(expected)


@FLOATS
@FAULTY
def test_the_host_looks_at_faults(fault, dtype):
    assert traits_of_arrays(*arrays_of(rmat(scale=12), dtype)) is not None
    assert traits_of_arrays(*with_fault(fault, dtype)) is None


@given(st.lists(st.floats(width=32), min_size=1, max_size=5), st.sampled_from(["float32", "float64"]))
def test_any_weights(weights, dtype):
    values = np.array(weights, dtype)
    is_subnormal = (values != 0) & (np.abs(values) < np.finfo(dtype).tiny)
    n_edges = len(values)
    found = traits_of_arrays(np.array([0, n_edges]), np.zeros(n_edges, np.int32), values)
    assert (found is None) == bool(is_subnormal.any() or not np.isfinite(values).all())


def test_other_graphs_are_left_to_the_host():
    none, zero = np.zeros(0, np.int32), np.zeros(1, np.int32)
    assert traits_of_arrays(none, none, none.astype("f4")) is None
    assert traits_of_arrays(zero, none, none.astype("f4")) is None
    assert traits_of_arrays(np.array([0, 1]), zero, zero) is None
    largest = np.full(2, np.finfo(np.float64).max)  # the sum is above it
    with np.errstate(over="ignore"):
        assert traits_of_arrays(np.array([0, 2]), np.zeros(2, np.int32), largest) is None


class OnDevice(np.ndarray):
    """Stands for an array of CuPy; converted to nothing but by `get`."""

    def get(self):
        return np.asarray(self)


def test_the_host_copies_an_array_when_it_reads_it():
    arrays = arrays_of(rmat(scale=8), "float32")
    graph = CallersGraph(*(array.view(OnDevice) for array in arrays), traits_of_arrays(*arrays))
    whole = CsrGraph(arrays[0].astype(np.int64), arrays[1].astype(np.uint32), arrays[2])
    for name in ("n_vertices", "n_edges", "weight_dtype", "graph_bytes"):
        assert getattr(graph, name) == getattr(whole, name)
    names = ("row_offsets", "col_indices", "weights")
    assert not vars(graph).keys() & set(names)
    for name in names:
        assert getattr(graph, name).dtype == getattr(whole, name).dtype
        assert type(getattr(graph, name)) is np.ndarray
        assert_array_equal(getattr(graph, name), getattr(whole, name))
    graph.check()


class OfCupy:
    """Stands for a CSR matrix of CuPy, whose `get` makes one of SciPy."""

    __module__ = "cupyx.scipy.sparse"
    format = "csr"

    def __init__(self, row_offsets, col_indices, weights):
        self.indptr, self.indices, self.data = (
            array.view(OnDevice) for array in (row_offsets, col_indices, weights)
        )
        self.shape, self.dtype = 2 * (len(row_offsets) - 1,), weights.dtype

    def tocsr(self):
        return self

    def get(self):
        return csr_array((self.data.get(), self.indices.get(), self.indptr.get()), self.shape)


@FLOATS
@pytest.mark.parametrize("name", [None, "offsets-begin-late", "offsets-end-late", "offsets-fall", "nan"])
def test_a_copied_matrix_keeps_wrong_values_for_the_checks_of_graphs(name, dtype):
    arrays = with_fault(FAULTS[name], dtype) if name else arrays_of(rmat(scale=12), dtype)
    for found, expected in zip(edges_of_matrix(OfCupy(*arrays)), arrays, strict=True):
        assert_array_equal(found, expected)


# ---- with a GPU ----


def matrix_of(arrays):
    from cupyx.scipy.sparse import csr_matrix

    row_offsets, col_indices, weights = map(cupy_module().asarray, arrays)
    n_vertices = len(row_offsets) - 1
    return csr_matrix((weights, col_indices, row_offsets), shape=(n_vertices, n_vertices))


@pytest.mark.gpu
@FLOATS
@pytest.mark.parametrize("made", [rmat(scale=12), road_like(vertices=3000, seed=3)], ids=["rmat", "road"])
@pytest.mark.parametrize("solver", ["auto", "adds-slots", "adds-lanes", "adds", "near-far", "dijkstra"])
def test_distances_of_a_matrix_that_is_not_copied(made, dtype, solver, monkeypatch):
    arrays = arrays_of(made, dtype)
    matrix = matrix_of(arrays)
    named = graph_of(matrix, "auto", None, None, None)
    expected = CsrGraph(arrays[0].astype(np.int64), arrays[1].astype(np.uint32), arrays[2]).check()
    found = dataclasses.asdict(named.graph.traits)
    for name, value in dataclasses.asdict(expected.traits).items():
        assert found[name] == (pytest.approx(value, rel=1e-12) if isinstance(value, float) else value), name
    made_graphs = []
    real = callers_graphs.CallersGraph.__init__
    monkeypatch.setattr(
        callers_graphs.CallersGraph,
        "__init__",
        lambda self, *args: made_graphs.append(self) or real(self, *args),
    )
    sources = np.arange(0, len(arrays[0]) - 1, 61)
    true = sp.solve(expected_matrix(arrays), sources, solver="dijkstra").numpy()
    assert_array_equal(sp.solve(matrix, sources, solver=solver).numpy(), true)
    if solver != "dijkstra":
        assert not vars(made_graphs[0]).keys() & {"col_indices", "weights"}


def expected_matrix(arrays):
    row_offsets, col_indices, weights = arrays
    return csr_array((weights, col_indices, row_offsets), (len(row_offsets) - 1,) * 2)


@pytest.mark.gpu
def test_negative_weights_of_a_matrix_of_cupy():
    arrays = arrays_of(road_like(vertices=500, seed=3), "float32")
    row_offsets, col_indices, weights = arrays
    sources = np.repeat(np.arange(500), np.diff(row_offsets))
    weights += 100 * (col_indices - sources)  # potentials: no cycle is negative
    true = sp.solve(expected_matrix(arrays), [0, 7]).numpy()
    assert_array_equal(sp.solve(matrix_of(arrays), [0, 7]).numpy(), true)


@pytest.mark.gpu
@FLOATS
@pytest.mark.parametrize(
    "fault", [fault for name, fault in FAULTS.items() if "late" in name or name[:3] in ("tar", "nan", "inf")]
)
def test_errors_of_a_matrix_of_cupy_are_those_of_a_matrix_of_scipy(fault, dtype):
    valid, arrays = arrays_of(rmat(scale=12), dtype), with_fault(fault, dtype)
    errors = []
    for matrix, values in (
        (matrix_of(valid), tuple(map(cupy_module().asarray, arrays))),
        (expected_matrix(valid), arrays),
    ):
        matrix.indptr, matrix.indices, matrix.data = (
            values  # both look at arrays only when they are made of them
        )
        with pytest.raises(InputError) as caught:
            sp.solve(matrix, 0)
        errors.append((caught.value.message, caught.value.hint))
    assert errors[0] == errors[1]
