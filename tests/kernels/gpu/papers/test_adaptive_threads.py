"""adaptive-threads beyond what every solver must do: each way to choose vertices takes the same steps."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sssp_pipeline.base.csr import csr_from_edges
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.generators import grid, rmat
from sssp_pipeline.kernels import SOLVERS, solver_named
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import device_graph
from sssp_pipeline.kernels.gpu.common.rows.distance_bits import bits_type
from sssp_pipeline.kernels.gpu.papers.adaptive_threads.adaptive_threads import AdaptiveThreads

ANY = SolveOptions()
#: A solver, and how often it switches, as a function of the number of supersteps; None where the clock decides.
WAYS = {
    "all": (AdaptiveThreads(mode="all"), lambda supersteps: 0),
    "listed": (AdaptiveThreads(mode="listed"), lambda supersteps: 0),
    "alternating": (AdaptiveThreads(mode="alternating"), lambda supersteps: supersteps),
    "least threshold": (AdaptiveThreads(threshold_us=0.5), None),
    "greatest threshold": (AdaptiveThreads(threshold_us=1e9), lambda supersteps: 0),
    "auto": (AdaptiveThreads(), None),
}
EVERY_WAY = pytest.mark.parametrize(("solver", "switches"), WAYS.values(), ids=WAYS)


def joined(n_vertices, edges, dtype="uint32"):
    src, dst, weights = np.array(edges, np.int64).reshape(-1, 3).T
    return csr_from_edges(src, dst, weights.astype(dtype), n_vertices)


@cache
def awkward(dtype):
    """Graphs, and the distances and work from vertex 0; the last has more vertices than a GPU has threads."""
    graphs = [
        joined(1, [], dtype),
        joined(4, [(0, 0, 0), (0, 1, 7), (0, 1, 3), (1, 1, 1), (1, 2, 0), (2, 1, 0)], dtype),
        joined(40, [(0, 1 + i % 39, 1000 - i) for i in range(999)], dtype),
        joined(60, [(i, j, 4 * (j - i) ** 2) for i in range(60) for j in range(i + 1, 60)], dtype),
        joined(700, [(i, i + 1, 1 + i % 7) for i in range(699)] + [(699, 0, 1)], dtype),
        grid(60, 60, keep=0.8).graph(dtype),
        rmat(scale=12).graph(dtype),
        joined(10**6, [(0, 10**6 - 1, 3), (10**6 - 1, 5, 4), *((5, i, i) for i in range(9, 4009))], dtype),
    ]
    return [(graph, by_dijkstra(graph), work_of(graph, 0)) for graph in graphs]


def by_dijkstra(graph, source=0, options=ANY):
    return SOLVERS["dijkstra"].solve(graph, np.array([source]), options).distances[0]


def work_of(graph, source):
    """Supersteps, vertices processed and edges relaxed of a search that reads only distances of earlier supersteps."""
    weights, degrees = graph.weights.astype(np.int64), np.diff(graph.row_offsets)
    starts = np.repeat(np.arange(graph.n_vertices), degrees)
    distances = np.full(graph.n_vertices, 2**62, np.int64)
    distances[source] = 0
    marked = np.arange(graph.n_vertices) == source
    supersteps = processed = relaxed = 0
    while marked.any():
        supersteps += 1
        processed += marked.sum()
        relaxed += degrees[marked].sum()
        edges = marked[starts]
        tentative = distances.copy()
        np.minimum.at(tentative, graph.col_indices[edges], distances[starts[edges]] + weights[edges])
        marked, distances = tentative < distances, tentative
    return supersteps, processed, relaxed


# ---- what needs no GPU ----


@pytest.mark.parametrize("mode", ["all", "listed"])
def test_a_threshold_is_refused_where_nothing_switches(mode):
    with pytest.raises(InputError) as caught:
        solver_named("adaptive-threads", {"mode": mode, "threshold_us": 20})
    assert caught.value.message == (
        f"option `threshold_us` of solver `adaptive-threads` is 20, and `mode` is `{mode}`"
    )
    assert caught.value.hint == "leave one of them out: only mode `adaptive` has a threshold"
    assert solver_named("adaptive-threads", {"mode": mode, "threshold_us": "auto"}).mode == mode


def test_the_mode_of_the_tests_is_not_offered():
    with pytest.raises(InputError) as caught:
        solver_named("adaptive-threads", {"mode": "alternating"})
    assert caught.value.message == "option `mode` of solver `adaptive-threads` is `alternating`"
    assert caught.value.hint == "it is `adaptive` or `all` or `listed`"


# ---- on a GPU ----


@pytest.mark.gpu
@EVERY_WAY
@pytest.mark.parametrize("dtype", ["uint32", "float32", "int64", "float64"])
def test_every_way_takes_the_same_steps_to_the_same_distances(solver, switches, dtype):
    for graph, distances, work in awkward(dtype):
        solution = solver.solve(graph, np.array([0]), ANY)
        assert_array_equal(solution.distances[0], distances)
        (metrics,) = solution.metrics
        assert (metrics.supersteps, metrics.vertices_processed, metrics.edges_relaxed) == work


@pytest.mark.gpu
@EVERY_WAY
def test_how_often_it_switches(solver, switches):
    graph = grid(60, 60, keep=0.8).graph()
    search, row = searching(solver, graph)
    search.launch(row, 0)
    counts, state = search.finish(), search.state()
    assert counts.supersteps > 60
    if switches is not None:
        assert state["switches"] == switches(counts.supersteps)
    elif solver.threshold_us == "auto":
        assert state["threshold_ns"] > 0
    else:  # every superstep takes longer than the least threshold
        assert state["switches"] >= 1
        assert state["threshold_ns"] == 500


def searching(solver, graph):
    """A search over a graph, and the device's row for its distances."""
    import cupy

    on_device = device_graph(graph)
    return solver.start(graph, on_device, ANY), cupy.empty(graph.n_vertices, bits_type(graph.weight_dtype))


@pytest.mark.gpu
@EVERY_WAY
@pytest.mark.parametrize("supersteps", [1, 2, 7])
def test_a_search_goes_on_after_a_pause(solver, switches, supersteps):
    graph = grid(20, 20, keep=0.8).graph()
    search, row = searching(solver, graph)
    for _ in range(2):
        search.begin(row, 0)
        until, fallen = 0, row.get()
        fallen[:] = np.iinfo(np.uint32).max
        while True:
            until += supersteps
            search.advance(until)
            assert (row.get() <= fallen).all()
            fallen = row.get()
            if search.is_over():
                break
            assert search.state()["supersteps"] == until
        counts = search.finish()
        assert (counts.supersteps, counts.vertices_processed, counts.edges_relaxed) == work_of(graph, 0)
        assert_array_equal(fallen, by_dijkstra(graph))
        if switches is not None:
            assert search.state()["switches"] == switches(counts.supersteps)


@pytest.mark.gpu
@EVERY_WAY
@pytest.mark.parametrize("dtype", ["int32", "float32", "int64", "float64"])
def test_negative_weights_on_paths_longer_than_the_first_pause(solver, switches, dtype):
    heights = np.random.default_rng(5).integers(0, 1000, 700)
    edges = [(i, i + 1, i % 3) for i in range(699)] + [(i * 31 % 700, i * 57 % 700, 400) for i in range(2000)]
    edges.append((699, 0, 1))
    fallen = [(u, v, w + heights[v] - heights[u]) for u, v, w in edges]
    upright, graph = joined(700, edges, dtype), joined(700, fallen, dtype)
    assert graph.traits.min_weight < 0
    solution = solver.solve(graph, np.array([3, 0, 3]), ANY)
    for source, row, metrics in zip([3, 0, 3], solution.distances, solution.metrics, strict=True):
        assert_array_equal(row, by_dijkstra(upright, source) + heights - heights[source])
        assert metrics.supersteps == work_of(graph, source)[0] > 256


@pytest.mark.gpu
@pytest.mark.parametrize("mode", ["adaptive", "all", "listed", "alternating"])
@pytest.mark.parametrize(
    ("block_size", "most_blocks"), [(64, 1), (64, None), (96, 7), (1024, 2), (1024, None)]
)
def test_any_shape_of_the_launch(mode, block_size, most_blocks):
    graph = rmat(scale=13).graph("float32")
    solver = AdaptiveThreads(mode=mode, block_size=block_size, most_blocks=most_blocks)
    sources = np.argsort(np.diff(graph.row_offsets))[-3:]
    expected = SOLVERS["dijkstra"].solve(graph, sources, ANY).distances
    assert_array_equal(solver.solve(graph, sources, ANY).distances, expected)


@pytest.mark.gpu
def test_a_threshold_is_measured_once_for_a_graph_and_shape():
    graph = grid(40, 40).graph()
    first, _ = searching(AdaptiveThreads(), graph)
    assert first.threshold_ns == 0
    AdaptiveThreads().solve(graph, np.array([0]), ANY)
    measured = first.threshold_ns
    assert 0 < measured < 10**9
    AdaptiveThreads().solve(graph, np.array([1, 2]), ANY)
    assert first.threshold_ns == measured
    small, _ = searching(AdaptiveThreads(block_size=64), graph)
    given, _ = searching(AdaptiveThreads(threshold_us=12.5), graph)
    assert (small.threshold_ns, given.threshold_ns) == (0, 12_500)
