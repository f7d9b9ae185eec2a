"""Arrays of other libraries: xarray, DLPack and CuPy."""

from __future__ import annotations

import pickle

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as ss

import sssp_pipeline as sp
from sssp_pipeline.api.distances.distances import Distances
from sssp_pipeline.api.graphs.graphs import graph_of
from sssp_pipeline.base.errors import InputError, SsspError
from sssp_pipeline.kernels.contract.solver import Solution
from sssp_pipeline.kernels.gpu.common.cuda import cupy_setup
from sssp_pipeline.kernels.gpu.common.graphs import device_graph as device_graphs

MATRIX = ss.csr_array([[0, 1, 2, 0], [0, 0, 0, 1], [0, 0, 0, 3], [0, 0, 0, 0]])
ROADS = pd.DataFrame({"from": ["a", "b", "c"], "to": ["b", "c", "d"], "km": [0.5, 1.5, 2.0]})


# ---- xarray ----


def test_xarray_has_ids_as_coordinates():
    pytest.importorskip("xarray")
    found = sp.solve(ROADS, ["d", "a"], targets=["c", "a"]).to_xarray()
    assert (found.name, found.dims, found.dtype) == ("distance", ("source", "vertex"), np.float64)
    assert found.sel(source="a", vertex="c").item() == 2
    np.testing.assert_array_equal(found, [[np.nan, np.nan], [2, 0]])
    whole = sp.solve(MATRIX, [3, 0]).to_xarray()
    assert (whole.dtype, whole["vertex"].dtype) == (np.float64, np.int64)
    np.testing.assert_array_equal(whole, [[np.nan, np.nan, np.nan, 0], [0, 1, 2, 2]])
    assert sp.solve(MATRIX, [0], dtype="float32").to_xarray().dtype == np.float32
    assert sp.solve(MATRIX, []).to_xarray().shape == (0, 4)
    grid = sp.solve(nx.grid_2d_graph(2, 2), [(0, 1)]).to_xarray()
    assert grid["vertex"].values.tolist() == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert sp.solve(nx.path_graph(3), 2).to_xarray().sel(vertex=0).values.tolist() == [2]


def test_xarray_does_not_round():
    pytest.importorskip("xarray")
    for weight, dtype in ((2**53 + 1, np.int64), (-(2**53) - 1, np.int64), (2**63 + 1, np.uint64)):
        long = ss.csr_array((np.array([weight], dtype), ([0], [1])), (2, 2))
        with pytest.raises(InputError, match=f"a distance is {weight}, which"):
            sp.solve(long, 0).to_xarray()
    assert sp.solve(ss.csr_array(([2**53], ([0], [1])), (3, 3)), 0).to_xarray()[0, 1] == 2**53


# ---- NumPy ----


def test_numpy_takes_the_object_for_its_array():
    found = sp.solve(MATRIX, [3, 0])
    assert np.shares_memory(np.asarray(found), found.numpy())
    assert not np.shares_memory(np.array(found), found.numpy())
    assert np.asarray(found, "float32").dtype == np.float32
    assert np.max(found, axis=1).tolist() == [found.unreached, 2]
    with pytest.raises(ValueError, match="copy"):
        np.array(found, np.float64, copy=False)


def test_another_value_may_stand_for_unreached():
    found = sp.solve(MATRIX, [3, 0])
    with_inf = found.numpy(unreached=np.inf)
    assert with_inf.dtype == np.float64
    np.testing.assert_array_equal(with_inf, [[np.inf, np.inf, np.inf, 0], [0, 1, 2, 2]])
    assert found.numpy(-1)[0].tolist() == [-1, -1, -1, 0]
    assert found.numpy()[0, 0] == found.unreached == 2**32 - 1
    floats = sp.solve(MATRIX, [3], dtype="float32")
    assert floats.numpy(unreached=np.nan).dtype == np.float32
    assert floats.numpy()[0, 0] == np.inf


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "graph",
    [
        lambda dtype: ss.csr_array((2, 2), dtype=dtype),
        lambda dtype: np.zeros((2, 2), dtype),
        lambda dtype: ROADS[:0].assign(km=np.empty(0, dtype)),
    ],
    ids=["sparse", "dense", "table"],
)
def test_a_graph_without_edges_keeps_its_floats(graph, dtype):
    found = sp.solve(graph(dtype), "all").numpy()
    assert found.dtype == dtype
    assert np.isinf(found).sum() == found.size - len(found)


def test_a_result_that_memory_cannot_hold_is_an_error_with_its_size(error_of):
    n = 3_000_000
    large = ss.csr_array(([1.5], ([0], [1])), (n, n))
    for call, size, hint in (
        (
            lambda: sp.solve(large, "all"),
            "72,000.0 GB",
            "solve fewer sources in a call, give `targets` or a `cutoff`",
        ),
        (
            lambda: sp.solve(large, "all", predecessors=True),
            "108,000.0 GB",
            "take `sp.reduce` or `sp.nearest`",
        ),
        (lambda: sp.dijkstra(large), "72,000.0 GB", "give fewer `indices`"),
    ):
        found = error_of(call)
        assert found.message.startswith(f"3,000,000 sources x 3,000,000 values take {size}, and ")
        assert hint in found.hint


# ---- DLPack ----


def test_dlpack_shares_the_array():
    found = sp.solve(MATRIX, [0, 3])
    shared = np.from_dlpack(found)
    np.testing.assert_array_equal(shared, found.numpy())
    assert np.shares_memory(shared, found.numpy())
    assert found.__dlpack_device__() == found.numpy().__dlpack_device__()


# ---- CuPy ----


@pytest.mark.parametrize(
    "call",
    [lambda: sp.solve(MATRIX, 0).cupy(), lambda: sp.solve(MATRIX, 0, on_device=True)],
    ids=["cupy", "solve"],
)
def test_a_missing_gpu_is_an_error_that_says_why(call, monkeypatch, error_of):
    driver = "no NVIDIA driver (libcuda.so.1)", "a GPU needs NVIDIA's driver"
    monkeypatch.setattr(cupy_setup, "_fault", lambda: cupy_setup.Finding("gpu", "absent", *driver))
    found = error_of(call)
    assert (found.message, found.hint) == driver


def test_a_matrix_of_cupy_is_copied():
    class OnDevice:
        """Stands for a matrix of CuPy, which converts itself to nothing but by `get`."""

        def __init__(self, matrix):
            self._matrix = matrix

        def get(self):
            return self._matrix

    class SparseOnDevice(OnDevice):
        format = "coo"

        def tocsr(self):
            raise AssertionError("a product of CuPy's, on the device")

    OnDevice.__module__, SparseOnDevice.__module__ = "cupy", "cupyx.scipy.sparse._coo"
    for matrix in (OnDevice(MATRIX.toarray()), SparseOnDevice(MATRIX)):
        assert sp.solve(matrix, 0, on_device=False).numpy().tolist() == [[0, 1, 2, 2]]
        assert sp.dijkstra(matrix, indices=0).tolist() == [0, 1, 2, 2]


class RowsOnDevice:
    """Stands for an array of CuPy with distances, and counts its copies to the host."""

    def __init__(self, rows):
        self._rows, self.copies = rows, 0
        self.shape, self.dtype = rows.shape, rows.dtype

    def get(self):
        self.copies += 1
        return self._rows

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, **options):
        return "capsule"


def test_distances_on_a_device_are_copied_once_and_only_if_needed():
    on_host = sp.solve(MATRIX, [0, 3])
    rows = RowsOnDevice(on_host.numpy())
    vertices = np.array([0, 3], np.uint32)
    found = Distances(graph_of(MATRIX, None, None, None, None), vertices, None, Solution(rows, None))
    assert repr(found) == repr(on_host)
    assert found.unreached == on_host.unreached
    assert (found.__dlpack_device__(), found.__dlpack__()) == ((2, 0), "capsule")
    assert rows.copies == 0
    assert found.numpy().tolist() == on_host.numpy().tolist()
    assert found.to_arrow() == on_host.to_arrow()
    assert found.to_scipy().nnz == on_host.to_scipy().nnz
    assert rows.copies == 1
    elsewhere = pickle.loads(pickle.dumps(found))
    assert elsewhere.numpy().tolist() == on_host.numpy().tolist()
    assert elsewhere.__dlpack_device__() == on_host.__dlpack_device__()


NEGATIVE = ss.csr_array((np.array([-1]), ([0], [1])), (2, 2))


@pytest.mark.parametrize(
    ("matrix", "options", "reason"),
    [
        (MATRIX, {"predecessors": True}, "predecessors are found in host memory"),
        (MATRIX, {"solver": "dijkstra"}, "`dijkstra` runs on the CPU"),
        (NEGATIVE, {}, "the host finishes distances of negative weights"),
    ],
    ids=["predecessors", "cpu", "negative"],
)
def test_distances_that_cannot_stay_on_a_gpu_are_refused(matrix, options, reason, error_of):
    found = error_of(sp.solve, matrix, 0, on_device=True, **options)
    assert found.message == f"the distances cannot stay on the GPU: {reason}"
    assert "`on_device=True`" in found.hint
    assert sp.solve(matrix, 0, on_device=False, **options).numpy()[0, 0] == 0


def test_distances_of_a_store_with_a_scale_cannot_stay_on_a_gpu(tmp_path, error_of):
    (tmp_path / "edges.csv").write_text("from,to,km\n1,2,0.5\n")
    store = sp.ingest(tmp_path / "edges.csv", tmp_path / "store", weights={"scale": 10})
    assert "a store with a scale" in error_of(sp.solve, store, 1, on_device=True).message


@pytest.mark.gpu
def test_arrays_of_cupy():
    cupy = cupy_setup.cupy_module()
    import cupyx.scipy.sparse

    values = MATRIX.astype(np.float32)
    for matrix in (cupyx.scipy.sparse.csr_matrix(values), cupy.asarray(values.toarray())):
        found = sp.solve(matrix, cupy.asarray([0, 3]))
        np.testing.assert_array_equal(found.numpy(), sp.solve(values, [0, 3]).numpy())
        on_device = found.cupy()
        assert isinstance(on_device, cupy.ndarray)
        assert on_device.data.ptr == found._made.data.ptr  # no copy
        assert on_device.dtype == np.float32
        np.testing.assert_array_equal(on_device.get(), found.numpy())
        np.testing.assert_array_equal(cupy.from_dlpack(found).get(), found.numpy())
        assert isinstance(sp.solve(matrix, 0, on_device=False)._made, np.ndarray)
        with_paths = sp.solve(matrix, 0, predecessors=True)
        assert with_paths.path(0, 2) == [0, 2]
        assert isinstance(with_paths._made, np.ndarray)
        np.testing.assert_array_equal(sp.dijkstra(matrix), sp.dijkstra(values))


@pytest.mark.gpu
def test_nothing_of_a_graph_of_cupy_is_uploaded(monkeypatch):
    cupy = cupy_setup.cupy_module()
    import cupyx.scipy.sparse

    real = device_graphs.copy_to_device

    def copy_to_device(values, on_device):
        assert isinstance(values, cupy.ndarray), "an array of the host is uploaded"
        real(values, on_device)

    monkeypatch.setattr(device_graphs, "copy_to_device", copy_to_device)
    generator = np.random.default_rng(2)
    for dtype in (np.float32, np.float64):
        dense = generator.random((500, 500), dtype)
        dense[generator.random(dense.shape) > 0.02] = 0
        values = ss.csr_array(dense)
        matrix = cupyx.scipy.sparse.csr_matrix(values)
        sources = np.arange(0, 500, 7)
        for options in ({}, {"targets": [5, 0, 499]}, {"cutoff": 0.5}, {"solver": "near-far"}):
            found = sp.solve(matrix, sources, **options)
            assert isinstance(found._made, cupy.ndarray)
            expected = sp.solve(values, sources, **(options | {"solver": "dijkstra"}))
            np.testing.assert_array_equal(found.numpy(), expected.numpy())


@pytest.mark.gpu
def test_distances_of_any_graph_can_stay_on_the_gpu():
    cupy = cupy_setup.cupy_module()
    for graph, ids in ((MATRIX, [0, 3, 0]), (ROADS, ["d", "a", "d"])):
        for options in ({}, {"targets": ids[:2]}, {"cutoff": 1}):
            found = sp.solve(graph, ids, on_device=True, **options)
            assert isinstance(found.cupy(), cupy.ndarray)
            np.testing.assert_array_equal(found.numpy(), sp.solve(graph, ids, **options).numpy())
            assert found.to_pandas().equals(sp.solve(graph, ids, **options).to_pandas())
    assert sp.solve(MATRIX, [], on_device=True).cupy().shape == (0, 4)


@pytest.mark.gpu
def test_distances_that_do_not_fit_the_gpu_are_an_error_with_their_size():
    cupy = cupy_setup.cupy_module()
    pool = cupy.cuda.MemoryPool()
    pool.set_limit(size=2**20)
    too_large = pytest.raises(SsspError, match=r"the distances \(300,000 sources, 4 vertices\) take 0.0 GiB")
    with cupy.cuda.using_allocator(pool.malloc), too_large as caught:
        sp.solve(MATRIX, np.zeros(300_000, int), on_device=True)
    assert "`on_device=False`" in caught.value.hint
