"""Rows that stay on the GPU, and graphs that are on it already, need no copy through host memory."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sssp_pipeline.base.csr import WEIGHT_DTYPES, GraphTraits, csr_from_edges
from sssp_pipeline.base.errors import InputError, SsspError
from sssp_pipeline.base.generators import rmat, road_like
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.answers.reductions import Reductions
from sssp_pipeline.kernels.contract.kept import EveryVertex, Targets
from sssp_pipeline.kernels.contract.over_sources import OverSources
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.gpu.common.cuda.compile import cupy_module
from sssp_pipeline.kernels.gpu.common.graphs import device_graph as device_graphs
from sssp_pipeline.kernels.gpu.common.rows import transfers
from sssp_pipeline.kernels.gpu.common.solvers import batch_pipeline

ON_GPU = [pytest.param(solver, id=name) for name, solver in SOLVERS.items() if solver.device == "gpu"]

PAIRS = [
    pytest.param(solver, dtype, id=f"{dtype}-{name}")
    for dtype in ("uint32", "float32", "int64", "float64")
    for name, solver in SOLVERS.items()
    if solver.device == "gpu"
    and solver.supports(GraphTraits(2, 1, np.dtype(dtype), 1, 2, 1, 1), SolveOptions()) is None
]


@pytest.fixture
def copied_bytes(monkeypatch):
    """The sizes of the arrays that were copied to the host."""
    sizes, real = [], transfers.copy_to_host

    def copy_to_host(rows, into, stream=None):
        sizes.append(rows.nbytes)
        real(rows, into, stream)

    for module in (transfers, batch_pipeline):
        monkeypatch.setattr(module, "copy_to_host", copy_to_host)
    return sizes


# ---- without a GPU ----


@pytest.mark.parametrize("solver", [pytest.param(s, id=n) for n, s in SOLVERS.items()])
def test_solvers_say_why_rows_cannot_stay(solver):
    positive = csr_from_edges(np.array([0]), np.array([1]), np.array([5], np.int32), 2).traits
    negative = csr_from_edges(np.array([0]), np.array([1]), np.array([-5], np.int32), 2).traits
    options = SolveOptions(into=object())
    if solver.device == "cpu":
        assert "it makes distances in host memory" in solver.supports(positive, options)
    else:
        assert solver.supports(positive, options) is None
        assert "negative weights are finished on the CPU" in solver.supports(negative, options)


@pytest.mark.parametrize(
    "other",
    [
        {"predecessors": True},
        {"row_facts": True},
        {"kept": Reductions(over_sources=OverSources(nearest=True))},
    ],
    ids=lambda other: next(iter(other)),
)
def test_what_the_host_makes_cannot_stay(other):
    with pytest.raises(InputError, match="only distances can stay on the GPU"):
        SolveOptions(into=np.empty((1, 2)), **other)


def test_rows_that_do_not_fit_are_an_error_with_their_size(monkeypatch):
    class OutOfMemoryError(Exception):
        pass

    def empty(shape, dtype):
        raise OutOfMemoryError("Out of memory")

    asked = []
    memory = SimpleNamespace(OutOfMemoryError=OutOfMemoryError)
    cupy = SimpleNamespace(empty=empty, cuda=SimpleNamespace(memory=memory))
    monkeypatch.setattr(device_graphs, "cupy_module", lambda: cupy)
    monkeypatch.setattr(device_graphs, "free_bytes", lambda: 3 * 2**29)
    monkeypatch.setattr(device_graphs, "drop_others", lambda graph: asked.append(graph) or len(asked) < 3)
    graph = road_like(vertices=100, seed=1).graph("uint32")
    with pytest.raises(SsspError) as caught:
        device_graphs.rows_on_device(graph, (2**14, 2**20), np.dtype("uint32"))
    assert caught.value.message == (
        "the distances (16,384 sources, 1,048,576 vertices) take 64.0 GiB, and 1.5 GiB of the GPU are free"
    )
    assert "`.numpy()`" in caught.value.hint
    assert asked == [graph] * 3  # as long as there was another graph to free


# ---- with a GPU ----


@pytest.mark.gpu
@pytest.mark.parametrize(("solver", "dtype"), PAIRS)
def test_every_solver_leaves_its_rows_on_the_device(solver, dtype, copied_bytes):
    cupy = cupy_module()
    graph = road_like(vertices=3000, seed=3).graph(dtype)
    sources = np.random.default_rng(1).integers(0, graph.n_vertices, 70).astype(np.uint32)
    for kept in (EveryVertex(), Targets(np.array([5, 0, graph.n_vertices - 1]))):
        shape = len(sources), kept.n_columns(graph.n_vertices)
        true = SOLVERS["dijkstra"].solve(graph, sources, SolveOptions(kept=kept))
        for ends in ([70], [3, 50, 70]):
            into = cupy.empty(shape, dtype)
            copied_bytes.clear()
            options = SolveOptions(kept=kept, into=into)
            parts = list(solver.solve_parts(graph, sources, options, ends))
            assert_array_equal(into.get(), true.distances)
            for part in parts:
                assert isinstance(part.distances, cupy.ndarray)
            assert_array_equal(cupy.concatenate([part.distances for part in parts]).get(), true.distances)
            assert max(copied_bytes) < 4 * graph.n_vertices  # summaries, and no row
            reached = [metrics.reached for part in parts for metrics in part.metrics]
            assert reached == [metrics.reached for metrics in true.metrics]
    nothing = solver.solve(graph, sources[:0], SolveOptions(into=cupy.empty((0, graph.n_vertices), dtype)))
    assert nothing.distances.shape == (0, graph.n_vertices)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", WEIGHT_DTYPES, ids=str)
@pytest.mark.parametrize("wide_offsets", [False, True], ids=["narrow", "wide"])
def test_a_graph_of_the_device_is_the_graph_that_is_uploaded(monkeypatch, dtype, wide_offsets):
    cupy = cupy_module()
    graph = rmat(scale=12).graph(dtype)
    uploaded = device_graphs.upload(graph, wide_offsets=wide_offsets)
    real = device_graphs.copy_to_device

    def copy_to_device(values, on_device):
        assert isinstance(values, cupy.ndarray), "an array of the host is uploaded"
        real(values, on_device)

    monkeypatch.setattr(device_graphs, "copy_to_device", copy_to_device)
    monkeypatch.setattr(device_graphs, "_EDGES_AT_ONCE", 1000)
    for index in (np.int32, np.int64):
        of_caller = [cupy.asarray(array) for array in (graph.row_offsets, graph.col_indices, graph.weights)]
        of_caller[:2] = [array.astype(index) for array in of_caller[:2]]
        device_graphs.set_origin(graph, *of_caller)
        taken = device_graphs.upload(graph, wide_offsets=wide_offsets)
        for name in ("row_offsets", "edges", "weights"):
            expected, found = getattr(uploaded, name), getattr(taken, name)
            if expected is None:
                assert found is None
            else:
                assert found.dtype == expected.dtype
                assert_array_equal(found.get(), expected.get())
