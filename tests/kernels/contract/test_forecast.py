"""Forecasts of device memory against what the solvers take."""

import numpy as np
import pytest

from sssp_pipeline.base.csr import GraphTraits, csr_from_edges
from sssp_pipeline.base.generators import grid, road_like
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.contract.forecast import graph_device_bytes
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import device_graph, free_bytes


def test_offsets_take_twice_the_memory_beyond_32_bits():
    def offsets_bytes(n_edges: int) -> int:
        return graph_device_bytes(GraphTraits(100, n_edges, np.dtype("uint32"), 1, 9, 5.0, 1.0)) - 8 * n_edges

    assert (offsets_bytes(2**32 - 2**20), offsets_bytes(2**32 - 2**20 + 1)) == (404, 808)


def source_s(solver, levels, skew=1.0):
    traits = GraphTraits(10_000, 30_000, np.dtype("uint32"), 1, 9, 5.0, skew, levels=levels)
    return SOLVERS[solver].forecast(traits, 1).source_s


@pytest.mark.parametrize(
    "solver", [n for n, s in SOLVERS.items() if s.device == "gpu" and not s.uses_hierarchy]
)
def test_a_gpu_takes_longer_the_more_levels_there_are(solver):
    assert source_s(solver, 0) < source_s(solver, 100) < source_s(solver, 10_000) / 5
    # If nothing is known of the levels: V / sqrt(E), and fewer where hubs shorten the paths.
    assert source_s(solver, None) == source_s(solver, 10_000 / 30_000**0.5)
    if solver != "adaptive-threads":  # a hub keeps one of its threads busy
        assert source_s(solver, None, 10.0) == pytest.approx(source_s(solver, 1_000 / 30_000**0.5, 10.0))


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        (name, dtype)
        for name, solver in SOLVERS.items()
        for dtype in (["uint32", "int64"] if solver.counts_arcs else ["uint32", "float64"])
        if solver.device == "gpu"
    ],
)
def test_a_source_takes_the_memory_that_is_forecast(name, dtype, device_pool):
    # What a hierarchy takes is forecast for roads.
    made = road_like(200_000) if SOLVERS[name].counts_arcs else grid(1000, 1000)
    weights = np.ones_like(made.weights) if SOLVERS[name].takes_equal_only else made.weights
    graph = csr_from_edges(made.src, made.dst, weights.astype(dtype), made.n_vertices)
    assert device_graph(graph).device_bytes == graph_device_bytes(graph.traits)
    assert free_bytes() > 0
    device_pool.free_all_blocks()  # the buffers of the upload
    before = device_pool.total_bytes()
    sources = np.arange(20)
    SOLVERS[name].solve(graph, sources, SolveOptions())
    taken = device_pool.total_bytes() - before
    expected = SOLVERS[name].forecast(graph.traits, len(sources))
    assert 0.8 < taken / (expected.fixed_bytes + expected.at_once * expected.source_bytes) < 1.25
