"""`bellman-ford` and `work-efficient`: every way to set them up, on graphs that are awkward for one of them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sssp_pipeline.base.csr import csr_from_edges
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.generators import grid, rmat
from sssp_pipeline.kernels import solver_named
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.gpu.common.graphs import device_graph as device_graphs
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import device_graph
from sssp_pipeline.kernels.gpu.common.graphs.edge_lists import edges_by_source, edges_by_target
from sssp_pipeline.kernels.gpu.common.rows.distance_bits import bits_type
from sssp_pipeline.kernels.gpu.papers.bellman_ford.bellman_ford import BellmanFord
from sssp_pipeline.kernels.gpu.papers.work_efficient.work_efficient import WorkEfficient

ANY = SolveOptions()
SYNCS = ("in-core", "out-of-core")
#: The assignment's execution configurations, the smallest one, and a full GPU.
SHAPES = [(256, 8), (384, 5), (512, 4), (768, 2), (1024, 2), (32, 1), (512, "auto"), (32, "auto")]
VARIANTS = {
    **{
        f"bellman-ford {sync} by {order}": BellmanFord(sync=sync, order=order)
        for sync, order in product(SYNCS, ("source", "destination"))
    },
    "bellman-ford segments": BellmanFord(sync="out-of-core", order="destination", segment_minimum=True),
    **{
        f"work-efficient {sync} by {filter}": WorkEfficient(sync=sync, filter=filter)
        for sync, filter in product(SYNCS, ("edges", "vertices"))
    },
}
EVERY_VARIANT = pytest.mark.parametrize("solver", [pytest.param(s, id=n) for n, s in VARIANTS.items()])


def graph_of(edges, n_vertices, dtype="uint32"):
    src, dst, weights = np.array(edges, np.int64).reshape(-1, 3).T
    return csr_from_edges(src, dst, weights.astype(dtype), n_vertices)


def random_edges(n_vertices, n_edges, seed):
    """Edges with ties, zeros, loops and parallels; the last tenth of the vertices is on none."""
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, n_vertices * 9 // 10, (2, n_edges))
    return np.stack([*ends, rng.choice([0, 1, 1, 2, 7, 90], n_edges)], axis=1)


#: name -> (edges, vertices); the source is 0.
GRAPHS = {
    "no edges": ([], 3),
    "one edge": ([(0, 1, 5)], 2),
    "loops and parallels": ([(0, 0, 3), (0, 1, 9), (0, 1, 4), (1, 1, 0), (1, 2, 6), (1, 2, 6)], 4),
    "zero cycle": ([(0, 1, 4), (1, 2, 0), (2, 3, 0), (3, 1, 0), (3, 4, 1)], 5),
    "path": ([(i, i + 1, 1 + i % 7) for i in range(699)], 700),
    "path against the order of the edges": ([(i + 1, i, 2) for i in range(1, 399)] + [(0, 399, 1)], 400),
    "leaves last": ([(0, 1, 1), *((1, i, i) for i in range(2, 3000))], 3000),
    "all to one": (
        [(0, i, 5000 - i) for i in range(1, 4000)] + [(i, 4000, i // 2) for i in range(4000)],
        4001,
    ),
    "falling": ([(i, j, 4 * (j - i) ** 2) for i in range(60) for j in range(i + 1, 60)], 60),
    "random": (random_edges(500, 4000, 1), 500),
    "sparse": (random_edges(3000, 3500, 2), 3000),
    "dense": (random_edges(90, 20_000, 3), 90),
}


def by_dijkstra(graph, source=0, options=ANY):
    return solver_named("dijkstra").solve(graph, np.array([source]), options).distances


@pytest.mark.gpu
@EVERY_VARIANT
@pytest.mark.parametrize("name", GRAPHS)
def test_every_option_on_awkward_graphs(solver, name):
    edges, n_vertices = GRAPHS[name]
    for dtype in ("uint32", "float64"):
        graph = graph_of(edges, n_vertices, dtype)
        for options in (ANY, SolveOptions(cutoff=7)):
            solution = solver.solve(graph, np.array([0, 0]), options)
            assert_array_equal(solution.distances, np.repeat(by_dijkstra(graph, 0, options), 2, axis=0))
            for metrics in solution.metrics:
                reached = solution.distances[0] <= (7 if options.cutoff else 1e9)
                assert metrics.vertices_processed >= metrics.reached == reached.sum()
                assert metrics.edges_relaxed >= np.diff(graph.row_offsets)[reached].sum()


@pytest.mark.gpu
@EVERY_VARIANT
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_shape_of_the_launch(solver, shape):
    options = {t.name: getattr(solver, t.name) for t in solver.tunables}
    shaped = type(solver)(**options | {"block_size": shape[0], "block_count": shape[1]})
    for made, dtype in ((rmat(scale=11), "uint32"), (grid(40, 40, keep=0.8), "float32")):
        graph = made.graph(dtype)
        source = int(np.argmax(np.diff(graph.row_offsets)))
        found = shaped.solve(graph, np.array([source]), ANY)
        assert_array_equal(found.distances, by_dijkstra(graph, source))


@pytest.mark.gpu
@EVERY_VARIANT
@pytest.mark.parametrize("dtype", ["int32", "float32", "int64", "float64"])
def test_negative_weights_over_many_pauses(solver, dtype):
    """Potentials make weights negative and change no shortest path: d becomes d + p[source] - p[v]."""
    rng = np.random.default_rng(5)
    edges = np.array([(i, i + 1, i % 5) for i in range(1500)] + [(i, i + 3, 9) for i in range(0, 1400, 2)])
    potential = rng.integers(0, 100, 1501)
    expected = by_dijkstra(graph_of(edges, 1501, "int64"))[0] + potential[0] - potential
    edges[:, 2] += potential[edges[:, 0]] - potential[edges[:, 1]]
    assert edges[:, 2].min() < -50
    graph = graph_of(edges, 1501, dtype)
    solution = solver.solve(graph, np.array([0]), ANY)
    assert_array_equal(solution.distances[0], expected.astype(dtype))
    assert solver.solve(graph, np.array([1490]), ANY).metrics[0].reached == 11


@pytest.mark.gpu
@EVERY_VARIANT
@pytest.mark.parametrize("dtype", ["int32", "float64"])
def test_64_bit_row_offsets_give_the_same(solver, dtype, monkeypatch):
    graph = rmat(scale=11).graph(dtype)
    monkeypatch.setattr(device_graphs, "MOST_EDGES_IN_32_BITS", 0)
    assert device_graph(graph).wide_offsets
    assert_array_equal(solver.solve(graph, np.array([1]), ANY).distances, by_dijkstra(graph, 1))


@pytest.mark.gpu
@EVERY_VARIANT
def test_supersteps_and_edges_of_a_path(solver):
    graph = graph_of(*GRAPHS["path"])
    (metrics,) = solver.solve(graph, np.array([0]), ANY).metrics
    if isinstance(solver, WorkEfficient):
        # The last vertex has no edges, so nothing is listed for it.
        assert (metrics.supersteps, metrics.edges_relaxed, metrics.vertices_processed) == (699, 699, 700)
        assert 0 < metrics.filter_s < metrics.solve_s
    else:
        assert metrics.supersteps <= 700
        if solver.sync == "out-of-core":
            assert metrics.supersteps == 700  # the last one lowers nothing
        assert metrics.edges_relaxed == 699 * metrics.supersteps
        assert metrics.filter_s is None


@pytest.mark.gpu
@pytest.mark.parametrize("filter", ["edges", "vertices"])
def test_the_list_keeps_the_order_of_the_edges(filter):
    import cupy

    rng = np.random.default_rng(9)
    middle = rng.permutation(np.arange(1, 20_001))[:7000]
    edges = [(0, m, 1) for m in middle] + [(m, 20_001 + i, 1) for m in middle for i in range(m % 4)]
    graph = graph_of(edges, 20_005)
    expected = np.flatnonzero(np.repeat(np.arange(20_005), np.diff(graph.row_offsets)) > 0)
    search = WorkEfficient(filter=filter, sync="out-of-core").start(graph, device_graph(graph), ANY)
    search.launch(cupy.empty(graph.n_vertices, bits_type(graph.weight_dtype)), 0)
    assert search.finish().supersteps == 2
    assert_array_equal(search._to_process.get()[: len(expected)], expected)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["uint32", "float64"])
@pytest.mark.parametrize("wide", [False, True])
def test_edge_lists_hold_both_ends_and_are_made_once(dtype, wide, monkeypatch):
    if wide:
        monkeypatch.setattr(device_graphs, "MOST_EDGES_IN_32_BITS", 0)
    graph = rmat(scale=10).graph(dtype)
    on_device = device_graph(graph)
    sources = np.repeat(np.arange(graph.n_vertices), np.diff(graph.row_offsets))
    by_source, by_target = edges_by_source(on_device), edges_by_target(on_device)
    assert edges_by_source(on_device).rows is by_source.rows
    assert edges_by_target(on_device) is by_target
    assert_array_equal(by_source.rows.get(), sources)
    assert_array_equal(by_target.rows.get(), np.sort(graph.col_indices))
    words = by_target.graph.edges.get()
    if dtype == "uint32":
        back, weights = words.reshape(-1, 2).T
    else:
        back, weights = words, by_target.graph.weights.get().view(dtype)
    found = sorted(zip(back.tolist(), by_target.rows.get().tolist(), weights.tolist(), strict=True))
    assert found == sorted(
        zip(sources.tolist(), graph.col_indices.tolist(), graph.weights.tolist(), strict=True)
    )


@pytest.mark.gpu
@pytest.mark.parametrize("kind", [BellmanFord, WorkEfficient])
def test_more_blocks_than_are_resident_are_refused(kind):
    graph = graph_of(*GRAPHS["one edge"])
    with pytest.raises(InputError) as caught:
        kind(block_count=65535).solve(graph, np.array([0]), ANY)
    assert caught.value.message.startswith(
        f"option `block_count` of solver `{kind.name}` is 65535: this GPU holds "
    )
    assert caught.value.message.endswith(" blocks of 512 threads at once")


# ---- without a GPU ----


@pytest.mark.parametrize(
    ("order", "sync"), [("source", "in-core"), ("source", "out-of-core"), ("destination", "in-core")]
)
def test_segments_are_of_edges_by_destination_out_of_core(order, sync):
    options = {"order": order, "sync": sync, "segment_minimum": True}
    with pytest.raises(InputError) as caught:
        solver_named("bellman-ford", options)
    assert caught.value.message == (
        f"option `segment_minimum` of solver `bellman-ford` does not go with `order: {order}` and `sync: {sync}`"
    )
    assert caught.value.hint == "set `order: destination` and `sync: out-of-core`, or leave it out"


@pytest.mark.parametrize("name", ["bellman-ford", "work-efficient"])
@pytest.mark.parametrize(
    ("option", "value", "hint"),
    [
        ("block_size", 100, "it is a multiple of 32, 32 to 1,024"),
        ("block_count", 0, "it is `auto` or a whole number, 1 to 65,535"),
        ("block_count", 1.5, "it is `auto` or a whole number, 1 to 65,535"),
        ("sync", "incore", "it is `in-core` or `out-of-core`"),
    ],
)
def test_an_option_that_cannot_be_is_refused(name, option, value, hint):
    with pytest.raises(InputError) as caught:
        solver_named(name, {option: value})
    assert caught.value.hint == hint


@pytest.mark.parametrize("name", ["bellman-ford", "work-efficient", "adaptive-threads"])
def test_a_delta_is_refused_and_negative_weights_are_not(name):
    graph = graph_of([(0, 1, -5), (1, 2, 3)], 3, "float32")
    reason = solver_named(name).supports(graph.traits, SolveOptions(delta=2))
    assert reason == "it has no buckets, and delta is 2"
    assert solver_named(name).supports(graph.traits, ANY) is None
