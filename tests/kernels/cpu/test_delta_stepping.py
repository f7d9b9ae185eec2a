import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sssp_pipeline.base.csr import csr_from_edges
from sssp_pipeline.base.generators import grid, rmat
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.cpu.buckets import SLOTS
from sssp_pipeline.kernels.cpu.delta_stepping import DELTA_FACTOR, DeltaStepping, pick_delta
from sssp_pipeline.kernels.cpu.dijkstra import Dijkstra

#: For each edge of a lattice of 30 rows and 30 columns.
EXPONENTS = np.random.default_rng(5).integers(0, 300, 3480, np.uint64)


def graph_of(made, dtype="uint32"):
    return csr_from_edges(made.src, made.dst, made.weights.astype(dtype), made.n_vertices)


def assert_as_dijkstra(graph, sources, **options):
    solution = DeltaStepping().solve(graph, np.array(sources), SolveOptions(**options))
    expected = Dijkstra().solve(graph, np.array(sources), SolveOptions())
    assert_array_equal(solution.distances, expected.distances)
    return solution


@pytest.mark.parametrize("dtype", ["uint32", "float64"])
def test_a_hub_needs_more_memory_than_there_is_at_first(dtype):
    n_vertices = 200_000
    leaves = np.arange(1, n_vertices)
    hub, weights = np.zeros_like(leaves), np.tile(leaves, 2).astype(dtype)
    graph = csr_from_edges(np.append(hub, leaves), np.append(leaves, hub), weights, n_vertices)
    search = DeltaStepping().start(graph, SolveOptions())
    at_first = len(search._buckets.below)
    assert n_vertices > at_first * 16
    row = np.full(n_vertices, np.inf if dtype == "float64" else 2**32 - 1, dtype)
    search.run(row, 0)
    assert_array_equal(row, np.arange(n_vertices))
    assert len(search._buckets.below) > at_first


def test_every_bucket_is_empty_and_every_block_free_after_a_search():
    graph = graph_of(rmat(scale=12))
    search = DeltaStepping().start(graph, SolveOptions(delta=3))
    for source in range(5):
        search.run(np.full(graph.n_vertices, 2**32 - 1, np.uint32), source)
        buckets = search._buckets
        assert_array_equal(buckets.tails, np.arange(SLOTS) * 16)
        block, n_free = buckets.free.tolist()
        for _ in range(n_free):
            assert SLOTS <= block < len(buckets.below)
            block = int(buckets.below[block])
        assert n_free == len(buckets.below) - SLOTS


@pytest.mark.parametrize("delta", [1e-300, 37.5, 1e300])
@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_any_delta_gives_the_same_distances(delta, dtype):
    solution = assert_as_dijkstra(graph_of(grid(rows=40, cols=40, keep=0.7), dtype), [0, 799], delta=delta)
    assert {m.delta_first for m in solution.metrics} == {m.delta_last for m in solution.metrics} == {delta}


def test_a_small_delta_processes_no_vertex_twice_and_a_large_one_does():
    graph = graph_of(grid(rows=40, cols=40))
    (small,) = assert_as_dijkstra(graph, [0], delta=1).metrics
    assert small.vertices_processed == small.reached == 1600
    assert small.edges_relaxed == graph.n_edges
    (large,) = assert_as_dijkstra(graph, [0], delta=1e6).metrics
    assert large.vertices_processed > 2000


def test_a_vertex_lowered_while_it_waits_in_the_frontier_is_processed_once():
    graph = csr_from_edges(np.array([0, 0, 1]), np.array([1, 2, 2]), np.array([1, 10, 1], np.uint32), 3)
    (metrics,) = assert_as_dijkstra(graph, [0], delta=100).metrics
    assert (metrics.vertices_processed, metrics.edges_relaxed) == (3, 3)


@pytest.mark.parametrize(
    "weights", [1e-300 * 10.0**EXPONENTS, 10.0**EXPONENTS, np.uint64(1) << EXPONENTS % 54]
)
def test_weights_of_every_magnitude_together(weights):
    made = grid(rows=30, cols=30)
    graph = csr_from_edges(made.src, made.dst, weights, 900)
    assert_as_dijkstra(graph, [0, 450])
    assert_as_dijkstra(graph, [0], delta=float(weights.min()))


def weighted(weights):
    weights = np.array(weights, np.float64)
    n = len(weights)
    return csr_from_edges(np.arange(n) % 4, np.arange(n) % 3, weights, 4)


def test_delta_follows_the_typical_weight_and_the_degree():
    assert pick_delta(weighted([10] * 8)) == DELTA_FACTOR * 10 * 4 / 8
    assert pick_delta(weighted([10] * 16)) == DELTA_FACTOR * 10 * 4 / 16
    # A few huge weights do not move it, and zeros are not typical.
    assert pick_delta(weighted([10] * 7 + [1e9])) == DELTA_FACTOR * 10 * 4 / 8
    assert pick_delta(weighted([0] * 6 + [40] * 2)) == DELTA_FACTOR * 10 * 4 / 8


def test_delta_is_positive_and_finite_whatever_the_weights():
    for weights in ([], [0, 0], [5e-324], [1.7e308] * 3):
        assert 0 < pick_delta(weighted(weights)) < np.inf
