"""Which graphs stay on a device, and how their arrays get there."""

from __future__ import annotations

import gc
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sssp_pipeline.base.csr import csr_from_edges
from sssp_pipeline.base.errors import SsspError
from sssp_pipeline.base.generators import rmat
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.gpu.common.graphs import device_graph as device_graphs
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import device_graph, drop_others
from sssp_pipeline.kernels.gpu.common.solvers import gpu_solver


def path_graph(n_edges: int):
    vertices = np.arange(n_edges)
    return csr_from_edges(vertices, vertices + 1, np.ones(n_edges, np.uint64), n_edges + 1)


class Device:
    """A device of 1,000,000 bytes, on which each graph has a given size."""

    TOTAL = 10**6

    def __init__(self, monkeypatch) -> None:
        self.used, self.uploads = 0, []
        device = self

        class Copy:
            def __init__(self, n_bytes):
                self.device_bytes = n_bytes
                device.used += n_bytes

            def __del__(self):
                device.used -= self.device_bytes

        def upload(graph, *, wide_offsets):
            device.uploads.append(graph)
            n_bytes = device_graphs._device_bytes(graph, wide_offsets)
            if device.free() < n_bytes:
                raise SsspError("the graph does not fit the GPU")
            return Copy(n_bytes)

        runtime = SimpleNamespace(memGetInfo=lambda: (self.free(), self.TOTAL))
        cuda = SimpleNamespace(Device=lambda: SimpleNamespace(id=0), runtime=runtime)
        monkeypatch.setattr(device_graphs, "cupy_module", lambda: SimpleNamespace(cuda=cuda))
        monkeypatch.setattr(device_graphs, "free_bytes", self.free)
        monkeypatch.setattr(device_graphs, "upload", upload)

    def free(self) -> int:
        return self.TOTAL - self.used


@pytest.fixture
def device(monkeypatch):
    yield Device(monkeypatch)
    drop_others(path_graph(1))


def test_graphs_in_turn_stay_while_half_of_the_device_is_free(device):
    first, second = path_graph(15_000), path_graph(15_000)  # 16 bytes an edge
    for _ in range(3):
        device_graph(first)
        device_graph(second)
    assert device.uploads == [first, second]
    assert device.used > 450_000
    assert device_graphs.obtainable_bytes() == device.TOTAL


def test_the_longest_unused_graph_makes_room(device):
    first, second, third = (path_graph(15_000) for _ in range(3))
    for graph in (first, second, first, third, first):
        device_graph(graph)
    assert device.uploads == [first, second, third]
    device_graph(second)
    assert device.uploads == [first, second, third, second]


def test_a_large_graph_has_the_device_alone_and_what_is_used_stays(device):
    small, large = path_graph(5_000), path_graph(40_000)
    in_use = device_graph(small)
    device_graph(large)
    assert device_graph(small) is in_use  # not there twice
    assert device.uploads == [small, large]
    del in_use
    assert drop_others(large)
    assert not drop_others(large)
    assert device.used == device_graphs._device_bytes(large, False)


@pytest.mark.medium
def test_a_copy_is_freed_with_the_host_graph(device):
    graph = path_graph(100)
    device_graph(graph)
    del graph, device.uploads[:]
    gc.collect()
    assert device.used == 0


def test_a_graph_that_does_not_fit_beside_a_call_under_way_waits_for_it(device, monkeypatch):
    graph, large = path_graph(40_000), path_graph(50_000)
    copies = [device_graph(graph)]

    class Ends:
        def wait(self):
            copies.clear()
            gpu_solver.Holding.n_calls -= 1

    monkeypatch.setattr(gpu_solver.Holding, "given_back", Ends())
    monkeypatch.setattr(gpu_solver.Holding, "n_calls", 1)
    assert gpu_solver.graph_on_device(large) is device_graph(large)
    assert device.uploads == [graph, large, large]
    with pytest.raises(SsspError, match="does not fit"):
        gpu_solver.graph_on_device(path_graph(70_000))


class FullError(Exception):
    pass


def test_a_search_that_does_not_fit_beside_other_graphs_is_tried_again_without_them(device, monkeypatch):
    memory = SimpleNamespace(OutOfMemoryError=FullError)
    gib = SimpleNamespace(memGetInfo=lambda: (2**30, 2**31))
    cupy = SimpleNamespace(cuda=SimpleNamespace(memory=memory, runtime=gib))
    monkeypatch.setattr(gpu_solver, "cupy_module", lambda: cupy)
    monkeypatch.setattr(gpu_solver, "gpu_missing", lambda: None)
    tried = []

    class Solver(gpu_solver.GpuSearchSolver):
        name, summary, units = "solver", "", ()
        forecast, start, empty_rows = None, None, np.empty

        def _solve_in_turn(self, call):
            device_graph(call.graph)
            tried.append(len(device_graphs._kept))
            if len(device_graphs._kept) > 1 or call.sources[0] == 1:
                raise FullError("1 GiB")
            return []

    graph, other = path_graph(100), path_graph(100)
    device_graph(other)
    assert Solver().solve(graph, np.array([0]), SolveOptions()).metrics == []
    assert tried == [2, 1]
    with pytest.raises(SsspError, match="what `solver` needs beside the graph does not fit the GPU: 1 GiB"):
        Solver().solve(graph, np.array([1]), SolveOptions())
    assert tried == [2, 1, 1]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("wide_offsets", [False, True])
def test_a_graph_arrives_unchanged(dtype, wide_offsets):
    graph = rmat(scale=12).graph(dtype)
    copy = device_graphs.upload(graph, wide_offsets=wide_offsets)
    assert_array_equal(copy.row_offsets.get(), graph.row_offsets)
    edges = copy.edges.get()
    if copy.weights is None:
        assert_array_equal(edges[0::2], graph.col_indices)
        assert_array_equal(edges[1::2].view(dtype), graph.weights)
    else:
        assert_array_equal(edges, graph.col_indices)
        assert_array_equal(copy.weights.get().view(dtype), graph.weights)


@pytest.mark.gpu
def test_two_graphs_in_turn_on_a_gpu_are_uploaded_once_each_and_give_way_to_each_other(monkeypatch):
    graphs = [path_graph(1000), path_graph(2000)]
    copies = [device_graph(graph) for graph in graphs]
    assert [device_graph(graph) for graph in graphs] == copies
    del copies
    monkeypatch.setattr(device_graphs, "free_bytes", lambda: 0)
    third = path_graph(3000)
    before = device_graphs.cupy_module().get_default_memory_pool().used_bytes()
    copy = device_graph(third)
    after = device_graphs.cupy_module().get_default_memory_pool().used_bytes()
    assert after < before + copy.device_bytes
    assert not drop_others(third)
