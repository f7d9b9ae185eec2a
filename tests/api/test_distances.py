"""Arrays of other libraries: xarray, DLPack and CuPy."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as ss

import sssp_pipeline as sp
from sssp_pipeline.errors import InputError, SsspError
from sssp_pipeline.kernels.gpu.common.cuda import cupy_setup

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


def test_xarray_with_nodes_of_networkx():
    pytest.importorskip("xarray")
    grid = sp.solve(nx.grid_2d_graph(2, 2), [(0, 1)]).to_xarray()
    assert grid["vertex"].values.tolist() == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert sp.solve(nx.path_graph(3), 2).to_xarray().sel(vertex=0).values.tolist() == [2]


def test_xarray_does_not_round():
    pytest.importorskip("xarray")
    for weight, dtype in ((2**53 + 1, np.int64), (-(2**53) - 1, np.int64), (2**63 + 1, np.uint64)):
        long = ss.csr_array((np.array([weight], dtype), ([0], [1])), (2, 2))
        with pytest.raises(InputError, match=f"a distance is {weight}, which float64 may not hold exactly"):
            sp.solve(long, 0).to_xarray()
    assert sp.solve(ss.csr_array(([2**53], ([0], [1])), (3, 3)), 0).to_xarray()[0, 1] == 2**53


# ---- DLPack ----


def test_dlpack_shares_the_array():
    found = sp.solve(MATRIX, [0, 3])
    shared = np.from_dlpack(found)
    np.testing.assert_array_equal(shared, found.numpy())
    assert np.shares_memory(shared, found.numpy())
    assert found.__dlpack_device__() == found.numpy().__dlpack_device__()


# ---- CuPy ----


def test_cupy_without_a_gpu_is_an_error_that_says_why(monkeypatch):
    missing = cupy_setup.Finding(
        "gpu", "absent", "no NVIDIA driver (libcuda.so.1)", "a GPU needs NVIDIA's driver"
    )
    found = sp.solve(MATRIX, 0)
    monkeypatch.setattr(cupy_setup, "_fault", lambda: missing)
    with pytest.raises(SsspError) as caught:
        found.cupy()
    assert (caught.value.message, caught.value.hint) == (missing.detail, missing.hint)


def test_a_matrix_of_cupy_is_copied():
    class OnDevice:
        """Stands for a matrix of CuPy, which converts itself to nothing but by `get`."""

        def __init__(self, matrix):
            self._matrix = matrix

        def get(self):
            return self._matrix

    for module in ("cupy", "cupyx.scipy.sparse._csr"):
        OnDevice.__module__ = module
        for matrix in (MATRIX, MATRIX.toarray()):
            assert sp.solve(OnDevice(matrix), 0).numpy().tolist() == [[0, 1, 2, 2]]
            assert sp.dijkstra(OnDevice(matrix), indices=0).tolist() == [0, 1, 2, 2]


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
        assert on_device.dtype == np.float32
        np.testing.assert_array_equal(on_device.get(), found.numpy())
        np.testing.assert_array_equal(sp.dijkstra(matrix), sp.dijkstra(values))
