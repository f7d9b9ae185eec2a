"""`frontier-bellman-ford`: its options, its edge classes, and full frontiers."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sssp_pipeline.base.csr import WEIGHT_DTYPES, GraphTraits, csr_from_edges
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.generators import grid, rmat
from sssp_pipeline.kernels import SOLVERS, solver_named
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.gpu.common.cuda.compile import kernel_options
from sssp_pipeline.kernels.gpu.common.graphs import device_graph as device_graphs
from sssp_pipeline.kernels.gpu.frontier_bellman_ford.edge_classes import classified_edges
from sssp_pipeline.kernels.gpu.frontier_bellman_ford.frontier_bellman_ford import FrontierBellmanFord

NAME = "frontier-bellman-ford"
ANY = SolveOptions()

#: Each option, on and off; each value of the others; and those that meet in a way of their own.
VARIANTS = [
    {},
    {"edge_classes": False},
    {"remove_duplicates": False},
    {"remove_duplicates": False, "whole_blocks": 4096},
    {"edge_classes": False, "remove_duplicates": False, "virtual_warps": 4},
    *({"virtual_warps": lanes} for lanes in (1, 2, 4, 8, 16, 32)),
    {"whole_blocks": "off"},
    {"whole_blocks": 100},
    {"whole_blocks": 100, "virtual_warps": 1},
    {"cache_hints": True},
    {"cache_hints": True, "edge_classes": False},
    *({"block_size": size} for size in (64, 96, 1024)),
]
EVERY_VARIANT = pytest.mark.parametrize("given", VARIANTS, ids=lambda given: str(given) or "defaults")


def made(n_vertices, edges, dtype="uint32"):
    src, dst, weights = np.array(edges, np.int64).reshape(-1, 3).T
    return csr_from_edges(src, dst, weights.astype(dtype), n_vertices)


def awkward_graphs(dtype="uint32"):
    """Graphs, each with a feature that an optimisation uses."""
    rng = np.random.default_rng(5)
    spokes = [(0, i, 500 - i) for i in range(1, 500)]
    yield made(1, [], dtype)
    yield made(4, [(0, 0, 0), (0, 0, 5), (0, 1, 7), (1, 1, 1), (1, 2, 2), (2, 2, 3), (2, 2, 0)], dtype)
    yield made(3, [(0, 1, 9), (0, 1, 3), (0, 1, 3), (1, 2, 8), (1, 2, 4)], dtype)
    yield made(500, spokes, dtype)
    yield made(500, [*spokes, *((v, u, w) for u, v, w in spokes)], dtype)
    yield made(60, [(i, j, 4 * (j - i) ** 2) for i in range(60) for j in range(i + 1, 60)], dtype)
    yield made(300, [(int(rng.integers(i)), i, i % 9) for i in range(1, 300)], dtype)
    yield made(40, [(0, 1 + i % 39, 1000 - i) for i in range(999)], dtype)
    yield made(9, [(0, 1, 5), (1, 0, 5), (1, 2, 0), (2, 1, 0), (3, 4, 1), (2, 5, 1), (5, 5, 0)], dtype)
    yield rmat(scale=9).graph(dtype)
    yield grid(25, 25, keep=0.7).graph(dtype)


# ---- without a GPU ----


@EVERY_VARIANT
def test_its_options_reach_the_kernel(given):
    unit = solver_named(NAME, given).units[0]
    options = kernel_options(unit, np.dtype("float32"))
    size = given.get("block_size", 512)
    assert f"-DSSSP_THREADS={size}" in options
    assert f"-DSSSP_BLOCKS_PER_SM={1024 // size}" in options
    for name in ("edge_classes", "remove_duplicates", "cache_hints"):
        assert f"-DSSSP_{name.upper()}={int(given.get(name, name != 'cache_hints'))}" in options


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("virtual_warps", 3, "it is `dynamic` or 1 or 2 or 4 or 8 or 16 or 32"),
        ("virtual_warps", "static", "it is `dynamic` or 1 or 2 or 4 or 8 or 16 or 32"),
        ("whole_blocks", 63, "it is `off` or a whole number, 64 to 67,108,863"),
        ("block_size", 100, "it is a multiple of 32, 64 to 1,024"),
        ("edge_classes", "off", "it is true or false"),
    ],
)
def test_a_value_that_it_cannot_take_is_refused(name, value, hint):
    with pytest.raises(InputError) as caught:
        solver_named(NAME, {name: value})
    assert caught.value.hint == hint


def test_more_vertices_than_marked_edges_can_name_need_edge_classes_off():
    def traits(n_vertices):
        return GraphTraits(n_vertices, 9, np.dtype("int32"), -4, 9, 5.0, 1.0)

    assert SOLVERS[NAME].supports(traits(2**30), ANY) is None
    assert SOLVERS[NAME].supports(traits(2**30 + 1), ANY) == (
        "it marks edges in two bits of their target and so takes up to 1,073,741,824 vertices, and there are "
        "1,073,741,825 (`edge_classes: false` takes them)"
    )
    assert FrontierBellmanFord(edge_classes=False).supports(traits(2**32 - 1), ANY) is None


# ---- on a GPU ----


def assert_right(solver, graph, sources):
    solution = solver.solve(graph, np.array(sources), ANY)
    expected = SOLVERS["dijkstra"].solve(graph, np.array(sources), ANY)
    assert_array_equal(solution.distances, expected.distances)
    for found, true in zip(solution.metrics, expected.metrics, strict=True):
        assert found.vertices_processed >= true.vertices_processed
        assert found.edges_relaxed >= true.edges_relaxed
        assert found.supersteps >= 1


@pytest.mark.gpu
@EVERY_VARIANT
@pytest.mark.parametrize("dtype", ["uint32", "float32", "int64", "float64"])
def test_every_option_gives_the_true_distances(given, dtype):
    solver = solver_named(NAME, given)
    for graph in awkward_graphs(dtype):
        assert_right(solver, graph, [0, graph.n_vertices - 1, graph.n_vertices // 2])


@pytest.mark.gpu
@EVERY_VARIANT
def test_every_option_gives_the_same_with_64_bit_row_offsets(given, monkeypatch):
    monkeypatch.setattr(device_graphs, "MOST_EDGES_IN_32_BITS", 0)
    for graph in awkward_graphs("float32"):
        assert_right(solver_named(NAME, given), graph, [0])


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", WEIGHT_DTYPES, ids=lambda dtype: dtype.name)
def test_edges_get_their_classes(dtype):
    ends = [(0, 0), (0, 1), (0, 2), (1, 2), (1, 3), (2, 0), (2, 3), (2, 4), (3, 3), (4, 0)]
    graph = made(5, [(u, v, 10 * u + v) for u, v in ends], dtype)
    on_device = device_graphs.device_graph(graph)
    found = classified_edges(on_device, signed=False)
    assert classified_edges(on_device, signed=False) is found
    targets = found.graph.edges.get()[:: 2 if dtype.itemsize == 4 else 1]
    assert_array_equal(targets & (2**30 - 1), graph.col_indices)
    assert_array_equal(targets >> 30, [1, 3, 0, 0, 2, 0, 2, 3, 1, 0])
    listed = np.column_stack([found.leaf_ends.get(), found.leaf_weights.get().view(dtype)])
    assert sorted(listed.tolist()) == [[1, 3, 13], [2, 3, 23]]
    assert found.rows_ascend


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["int32", "float32", "int64", "float64"])
def test_a_self_loop_of_negative_weight_is_an_edge_like_any_other(dtype):
    graph = made(3, [(0, 1, 1), (1, 1, -1), (1, 2, 4), (2, 2, 0)], dtype)
    found = classified_edges(device_graphs.device_graph(graph), signed=True)
    targets = found.graph.edges.get()[:: 2 if graph.weight_dtype.itemsize == 4 else 1]
    assert_array_equal(targets >> 30, [0, 0, 2, 1])
    parallel = made(2, [(0, 1, 1), (0, 1, 1)], dtype)
    assert not classified_edges(device_graphs.device_graph(parallel), signed=True).rows_ascend


@pytest.mark.gpu
@pytest.mark.parametrize(("back", "expected"), [(2, [0, 2, 2, 0]), (-1, [0, 2, 3, 0])])
def test_the_end_of_a_road_is_a_leaf_unless_the_way_back_is_negative(back, expected):
    graph = made(4, [(0, 1, 5), (1, 0, 5), (1, 3, 9), (3, 1, back)], "int32")
    found = classified_edges(device_graphs.device_graph(graph), signed=back < 0)
    assert_array_equal(found.graph.edges.get()[::2] >> 30, expected)


@pytest.mark.gpu
def test_edges_without_classes_are_not_copied():
    on_device = device_graphs.device_graph(made(3, [(i, j, 1) for i in range(3) for j in range(3) if i != j]))
    assert classified_edges(on_device, signed=False).graph.edges is on_device.edges


@pytest.mark.gpu
@pytest.mark.parametrize("places", [1, 2])
def test_a_full_frontier_is_every_vertex(places, monkeypatch):
    """So few places for duplicates that a dense graph overflows the frontier."""
    monkeypatch.setattr(
        "sssp_pipeline.kernels.gpu.frontier_bellman_ford.frontier_bellman_ford._DUPLICATES", places
    )
    rng = np.random.default_rng(3)
    dense = made(200, np.column_stack([rng.integers(200, size=(20_000, 2)), rng.integers(1, 2**20, 20_000)]))
    for whole_blocks in (64, "off"):
        solver = FrontierBellmanFord(remove_duplicates=False, whole_blocks=whole_blocks)
        assert_right(solver, dense, range(20))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["int32", "float32", "int64", "float64"])
@pytest.mark.parametrize("given", [{}, {"edge_classes": False}, {"remove_duplicates": False}], ids=str)
def test_a_search_goes_on_after_each_pause(dtype, given):
    import cupy

    from sssp_pipeline.kernels.gpu.common.rows.distance_bits import bits_type
    from sssp_pipeline.kernels.host.search_graph import distances_of_bits

    # Weights 2 + p(u) - p(v): no negative cycle, and a path costs 2 an edge and what its ends differ by.
    n, height = 200, np.arange(200) * 37 % 101
    edges = [(i, (i + by) % n) for i in range(n - 1) for by in (1, 5)]
    src, dst = np.array(edges).T
    graph = csr_from_edges(src, dst, (2 + height[src] - height[dst]).astype(dtype), n)
    search = solver_named(NAME, given).start(graph, device_graphs.device_graph(graph), ANY)
    row = cupy.empty(n, bits_type(graph.weight_dtype))
    flat = csr_from_edges(src, dst, np.full(len(src), 2, dtype), n)
    steps = SOLVERS["dijkstra"].solve(flat, [7], ANY).distances[0]
    search.begin(row, 7)
    n_launches = 0
    while n_launches == 0 or not search.is_over():
        n_launches += 1
        search.advance(3 * n_launches)
    assert n_launches > 1
    assert_array_equal(
        distances_of_bits(row.get(), graph.weight_dtype), (steps + height[7] - height).astype(dtype)
    )
    assert search.finish().supersteps > 3


@pytest.mark.gpu
@pytest.mark.parametrize("goes_alone", [False, True])
@pytest.mark.parametrize("given", [{}, {"most_blocks": 1}, {"block_size": 64}], ids=str)
def test_one_block_alone_finds_what_all_do(goes_alone, given):
    solver = FrontierBellmanFord(goes_alone=goes_alone, **given)
    for graph in awkward_graphs():
        assert_right(solver, graph, [0, graph.n_vertices - 1, graph.n_vertices // 2])


@pytest.mark.gpu
@pytest.mark.parametrize("n_edges", [64, 65, 1500])
def test_a_block_that_goes_on_alone_meets_the_others_again(n_edges):
    """A path with a hub in the middle: too many edges for one block, and too many supersteps for a block alone."""
    n = 3000
    edges = [(i, i + 1, 1 + i % 5) for i in range(n - 1)]
    others = [v for v in range(0, n, 2) if v != 1500][: n_edges - 1]
    graph = made(n, edges + [(1500, v, 4 * abs(v - 1500)) for v in others])
    for goes_alone in (False, True):
        assert_right(FrontierBellmanFord(goes_alone=goes_alone), graph, [0, 1400, 1600])


@pytest.mark.gpu
def test_the_pieces_of_the_largest_hubs_are_larger():
    n = 2**18
    graph = made(n, np.column_stack([np.zeros(n - 1), np.arange(1, n), np.arange(1, n) % 1000]))
    for given in ({}, {"edge_classes": False}):
        assert_right(FrontierBellmanFord(**given), graph, [0, 5])


@pytest.mark.gpu
def test_duplicates_are_processed_more_often_than_none():
    graph = rmat(scale=12).graph()
    source = [int(np.argmax(np.diff(graph.row_offsets)))]
    once, often = (
        FrontierBellmanFord(remove_duplicates=removed).solve(graph, source, ANY).metrics[0]
        for removed in (True, False)
    )
    assert often.vertices_processed > once.vertices_processed
