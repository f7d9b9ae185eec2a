"""Tests that need a GPU: memory, searches that are given up, and sizes at which kernels use another path."""

from __future__ import annotations

import gc
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sssp_pipeline.base.csr import GraphTraits, csr_from_edges, unreached_distance
from sssp_pipeline.base.errors import InputError, SsspError
from sssp_pipeline.base.generators import grid, rmat
from sssp_pipeline.kernels import SOLVERS, solver_named
from sssp_pipeline.kernels.contract.kept import Nothing, Targets
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.gpu.adds_lanes.adds_lanes import AddsLanes
from sssp_pipeline.kernels.gpu.adds_slots.adds_slots import AddsSlots
from sssp_pipeline.kernels.gpu.common.graphs import device_graph as device_graphs
from sssp_pipeline.kernels.gpu.common.rows.device_rows import _SUMMARY, SearchCounts, Summariser
from sssp_pipeline.kernels.gpu.common.rows.distance_bits import bits_type, delta_bits, limit_bits
from sssp_pipeline.kernels.gpu.common.solvers import batch_solver
from sssp_pipeline.kernels.gpu.frontier_bellman_ford.frontier_bellman_ford import FrontierBellmanFord
from sssp_pipeline.kernels.gpu.near_far.near_far import NearFar
from sssp_pipeline.kernels.gpu.papers.adaptive_threads.adaptive_threads import AdaptiveThreads
from sssp_pipeline.kernels.gpu.papers.bellman_ford.bellman_ford import BellmanFord
from sssp_pipeline.kernels.gpu.papers.work_efficient.work_efficient import WorkEfficient
from sssp_pipeline.kernels.host.mean import mantissa_bits, sums

EVERY_GPU_SOLVER = pytest.mark.parametrize(
    "solver",
    [pytest.param(s, id=n) for n, s in SOLVERS.items() if s.device == "gpu" and not s.takes_equal_only],
)
ANY = SolveOptions()


def every_pair(*dtypes):
    """Every GPU solver with those of the types that it takes."""
    pairs = [(name, solver, np.dtype(dtype)) for name, solver in SOLVERS.items() for dtype in dtypes]
    return pytest.mark.parametrize(
        ("solver", "dtype"),
        [
            pytest.param(solver, dtype, id=f"{name}-{dtype}")
            for name, solver, dtype in pairs
            if solver.device == "gpu" and solver.supports(GraphTraits(2, 1, dtype, 1, 2, 1, 1), ANY) is None
        ],
    )


def star(leaves, dtype="uint32"):
    """A star with leaf i at distance i. The farthest leaves come first, so that nothing is in order."""
    ends = np.arange(leaves, 0, -1)
    return csr_from_edges(np.zeros(leaves, np.int64), ends, ends.astype(dtype), leaves + 1)


def distances_by_cpu(graph, sources, options=ANY):
    return solver_named("delta-stepping").solve(graph, np.array(sources), options).distances


@pytest.mark.gpu
@every_pair("uint32", "float32", "uint64", "float64")
def test_twenty_repeats_give_the_same_bits(solver, dtype):
    for graph in (rmat(scale=13).graph(dtype), grid(120, 120, keep=0.7).graph(dtype)):
        sources = np.argsort(np.diff(graph.row_offsets))[-3:]
        expected = distances_by_cpu(graph, sources)
        for _ in range(20):
            assert_array_equal(solver.solve(graph, sources, ANY).distances, expected)


@pytest.mark.gpu
@EVERY_GPU_SOLVER
@pytest.mark.parametrize("degree", [127, 128, 129, 511, 512, 513, 200_000])
def test_hubs_of_every_size(solver, degree):
    graph = star(degree)
    assert_array_equal(solver.solve(graph, np.array([0]), ANY).distances[0], np.arange(degree + 1))


@pytest.mark.gpu
@pytest.mark.parametrize("blocks", [1, 2, 7])
@pytest.mark.parametrize("delta", [None, 1, 1e6])
def test_more_pushes_than_a_block_holds_back(blocks, delta):
    graph = star(50_000)
    few = NearFar(most_blocks=blocks)
    found = few.solve(graph, np.array([0]), SolveOptions(delta=delta)).distances[0]
    assert_array_equal(found, np.arange(50_001))


@pytest.mark.gpu
@every_pair("int32", "float32", "int64", "float64")
def test_64_bit_row_offsets_give_the_same(solver, dtype, monkeypatch):
    graph = rmat(scale=11).graph(dtype)
    expected = distances_by_cpu(graph, [1, 2, 3])
    monkeypatch.setattr(device_graphs, "MOST_EDGES_IN_32_BITS", 0)
    assert device_graphs.device_graph(graph).wide_offsets
    assert_array_equal(solver.solve(graph, np.array([1, 2, 3]), ANY).distances, expected)


@pytest.mark.gpu
@every_pair("float32")
def test_a_subnormal_weight_is_not_zero(solver, dtype):
    tiny = np.finfo(dtype).smallest_subnormal
    graph = csr_from_edges(np.array([0, 1]), np.array([1, 2]), np.array([tiny, 3 * tiny], dtype), 3)
    assert_array_equal(solver.solve(graph, np.array([0]), ANY).distances[0], [0, tiny, 4 * tiny])


@pytest.mark.gpu
def test_a_graph_is_uploaded_once_piece_by_piece_and_freed_with_the_host_graph(monkeypatch, device_pool):
    monkeypatch.setattr(device_graphs, "_EDGES_AT_ONCE", 1000)
    graph = rmat(scale=10).graph()
    copy = device_graphs.device_graph(graph)
    assert device_graphs.device_graph(graph) is copy
    both = copy.edges.get().reshape(-1, 2)
    assert_array_equal(both[:, 0], graph.col_indices)
    assert_array_equal(both[:, 1], graph.weights)
    assert copy.device_bytes == 4 * (graph.n_vertices + 1) + 8 * graph.n_edges
    assert device_pool.used_bytes() >= copy.device_bytes
    del graph, copy
    gc.collect()
    assert device_pool.used_bytes() == 0


@pytest.mark.gpu
@EVERY_GPU_SOLVER
def test_nothing_on_the_device_outlives_a_call_but_the_graph(solver, device_pool):
    graph = grid(100, 100).graph()
    solver.solve(graph, np.array([0]), ANY)
    gc.collect()
    used = device_pool.used_bytes()
    for source in range(20):
        solver.solve(graph, np.array([source]), ANY)
    gc.collect()
    assert device_pool.used_bytes() == used


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (NearFar, {}),
        (FrontierBellmanFord, {}),
        (AdaptiveThreads, {"mode": "adaptive"}),
        (AdaptiveThreads, {"mode": "listed"}),
        (BellmanFord, {}),
        (WorkEfficient, {}),
        (AddsLanes, {}),
    ],
)
def test_a_block_that_never_comes_ends_the_run_with_an_error_and_leaves_the_gpu_usable(kind, given):
    graph = grid(30, 30).graph()
    waiting = kind(absent_blocks=1, barrier_timeout_s=0.2, **given)
    what = "sources 0 to 0 of a batch" if kind is AddsLanes else "source 5"
    told = rf"`{kind.name}` gave up {what}: after 0.2 s at barrier 1, .*; the first of two tries was given up too"
    with pytest.raises(SsspError, match=told):
        waiting.solve(graph, np.array([5]), ANY)
    found = kind(**given).solve(graph, np.array([5]), ANY).distances
    assert_array_equal(found, distances_by_cpu(graph, [5]))


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("kind", "sources_at_once"),
    [*product([NearFar], [1, 2, 5, 16, 132]), *product([FrontierBellmanFord], [1, 3, 8])],
)
def test_sources_that_share_the_gpu_keep_their_order(kind, sources_at_once):
    graph = grid(60, 60, keep=0.8).graph()
    sources = np.arange(0, 3600, 89)
    solution = kind(sources_at_once=sources_at_once).solve(graph, sources, ANY)
    assert_array_equal(solution.distances, distances_by_cpu(graph, sources))
    assert [m.source for m in solution.metrics] == sources.tolist()


@pytest.mark.gpu
@pytest.mark.parametrize(("solver", "n_times", "n_calls"), [(NearFar(), 1, 20), (AddsSlots(), 50, 1)])
def test_a_path_too_long_among_many_is_that_of_the_first_source(solver, n_times, n_calls):
    last = np.iinfo(np.uint32).max - 1
    graph = csr_from_edges(np.array([0, 1, 5]), np.array([1, 2, 0]), np.array([last, 9, 3], np.uint32), 6)
    for _ in range(n_calls):
        with pytest.raises(InputError, match="from `0` to `2`"):
            solver.solve(graph, np.array([3, 4, 0, 5, 2, 1] * n_times), ANY)


@pytest.mark.gpu
@EVERY_GPU_SOLVER
def test_a_graph_too_large_for_the_gpu_says_how_much_is_free(solver, monkeypatch):
    import cupy

    graph = grid(30, 30).graph()

    def full(size, dtype=None):
        raise cupy.cuda.memory.OutOfMemoryError(1 << 40, 0)

    monkeypatch.setattr(cupy, "empty", full)
    with pytest.raises(
        SsspError, match=r"the graph \(900 vertices, 3,480 edges\) does not fit the GPU"
    ) as caught:
        solver.solve(graph, np.array([0]), ANY)
    assert "GiB are free" in caught.value.hint


@pytest.mark.parametrize(
    ("dtype", "delta", "used"),
    [
        ("uint32", 0.3, 1),
        ("uint32", 2.6, 3),
        ("int32", 1e300, 2**31 - 2),
        ("uint64", 2.0**40, 2**40),
        ("float32", 0.5, 0.5),
        ("float32", 1e-300, float(np.finfo(np.float32).tiny)),
        ("float64", 1e300, 1e300),
    ],
)
def test_delta_is_at_least_the_smallest_step_of_the_type(dtype, delta, used):
    bits, stands_for = delta_bits(np.dtype(dtype), delta)
    assert stands_for == used
    assert np.array([bits]).view(dtype)[0] == used


def test_the_limit_travels_as_bits():
    assert limit_bits(np.dtype("float32"), None) == 0x7F800000
    assert limit_bits(np.dtype("int32"), 7.5) == 8
    assert limit_bits(np.dtype("float64"), 1.0) == np.nextafter(1.0, 2.0).view("u8")


@EVERY_GPU_SOLVER
def test_without_a_gpu_the_solver_says_so_and_auto_goes_on(solver, monkeypatch):
    from sssp_pipeline.kernels.gpu.common.solvers import gpu_solver

    monkeypatch.setattr(gpu_solver, "gpu_missing", lambda: "no CUDA GPU: it is a toaster")
    graph = star(3)
    assert solver.supports(graph.traits, ANY) is None
    with pytest.raises(InputError) as caught:
        solver.solve(graph, np.array([0]), ANY)
    assert caught.value.message == f"solver `{solver.name}` cannot solve this: no CUDA GPU: it is a toaster"


@pytest.mark.gpu
@every_pair("uint32", "float32")
@pytest.mark.parametrize("kept", [Targets(np.array([3599, 0, 77])), Nothing()], ids=["targets", "nothing"])
def test_kept_columns_in_several_device_batches(solver, dtype, kept, monkeypatch):
    monkeypatch.setattr(batch_solver, "device_batch", lambda *_: (7, 2))
    graph = grid(60, 60, keep=0.8).graph(dtype)
    sources, options = np.arange(0, 3600, 89), SolveOptions(kept=kept)
    found, expected = (s.solve(graph, sources, options) for s in (solver, solver_named("delta-stepping")))
    assert_array_equal(found.distances, expected.distances)
    for told in ("source", "reached", "max_distance", "mean_distance"):
        assert [getattr(m, told) for m in found.metrics] == [getattr(m, told) for m in expected.metrics]


@pytest.mark.parametrize("dtype", ["uint32", "int64", "float32", "float64"])
def test_metrics_are_made_of_what_the_device_counted(dtype):
    graph = grid(30, 30, keep=0.7).graph(dtype)
    sources = np.array([5, 500, 899])
    solution = solver_named("delta-stepping").solve(graph, sources, ANY)
    rows = solution.distances.view(bits_type(graph.weight_dtype))
    unreached = unreached_distance(graph.weight_dtype).view(rows.dtype)
    counted = np.zeros(len(rows), _SUMMARY)
    for into, row in zip(counted, rows, strict=True):
        is_reached = row < unreached
        largest = row[is_reached].max()
        into["reached"], into["max_distance"] = is_reached.sum(), largest
        into["edges_of_reached"] = np.diff(graph.row_offsets)[is_reached].sum()
        mantissa = np.uint64(mantissa_bits(graph.weight_dtype))
        into["sum_lower"], into["sum_upper"] = sums(row, unreached, largest, mantissa)
    summariser = object.__new__(Summariser)
    summariser._name, summariser._graph = "adds", graph
    numbers = np.arange(len(sources))
    counts = SearchCounts(10 + numbers, 20 + numbers, 1.0, 2.0, numbers)
    found = summariser.metrics(sources, counts, counted, 0.25)
    for i, (metric, expected) in enumerate(zip(found, solution.metrics, strict=True)):
        assert (metric.source, metric.solver, metric.solve_s) == (expected.source, "adds", 0.25)
        assert (metric.vertices_processed, metric.edges_relaxed, metric.delta_changes) == (10 + i, 20 + i, i)
        assert (metric.reached, metric.max_distance) == (expected.reached, expected.max_distance)
        assert metric.mean_distance == expected.mean_distance
        assert metric.teps == pytest.approx(expected.teps * expected.solve_s / 0.25)
