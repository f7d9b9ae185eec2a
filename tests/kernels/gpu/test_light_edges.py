"""`frontier-bellman-ford` with light edges first: how edges are divided, and the distances of wide graphs."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sssp_pipeline.base.csr import WEIGHT_DTYPES, GraphTraits, csr_from_edges
from sssp_pipeline.base.generators import rmat
from sssp_pipeline.kernels import SOLVERS, solver_named
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import device_graph
from sssp_pipeline.kernels.gpu.frontier_bellman_ford.edge_classes import classified_edges
from sssp_pipeline.kernels.gpu.frontier_bellman_ford.frontier_bellman_ford import FrontierBellmanFord
from sssp_pipeline.kernels.gpu.frontier_bellman_ford.light_edges import light_edges

NAME = "frontier-bellman-ford"
ANY = SolveOptions()
#: One block, so that the kernel also runs as C++ (`test_emulated.py`), and light edges on graphs of any size.
SMALL = {"block_size": 64, "most_blocks": 1, "light_from": (0, 0.0, 0.0)}
VARIANTS = [
    {},
    {"remove_duplicates": False},
    {"virtual_warps": 4},
    {"whole_blocks": "off"},
    {"cache_hints": True},
]


def wide_graph(seed, dtype="uint32", largest=100, hubs=True):
    """A random graph of 400 vertices whose first frontiers have most of them; half a dozen have no edge into them."""
    rng = np.random.default_rng(seed)
    n, m = 400, 3200
    src, dst = rng.integers(n, size=(2, m))
    if hubs:
        src[: m // 3], dst[m // 3 : m // 2] = 1, 2
    dst[dst < 6] = 6
    weights = np.floor(largest * rng.random(m) ** 2).astype(dtype)
    if weights.dtype.kind == "f":
        weights = (weights * rng.random(m)).astype(dtype)
        weights[::50] = -0.0
    return csr_from_edges(src, dst, weights, n)


def assert_right(solver, graph, sources, options=ANY):
    found = solver.solve(graph, np.array(sources), options)
    expected = SOLVERS["dijkstra"].solve(graph, np.array(sources), options)
    assert_array_equal(found.distances, expected.distances)
    return found.metrics


# ---- without a GPU ----


@pytest.mark.parametrize(
    ("given", "n_vertices", "n_edges", "skew", "weights", "expected"),
    [
        ({}, 2**17, 2**21, 8.0, (1, 2), True),
        ({}, 2**17, 2**21 - 1, 8.0, (1, 2), False),
        ({}, 2**18, 9 * 2**18 - 1, 8.0, (1, 2), False),
        ({}, 2**17, 2**22, 1.0, (1, 2), True),
        ({}, 2**17, 2**22 - 1, 7.9, (1, 2), False),
        ({}, 2**17, 2**21, 8.0, (2, 2), False),
        ({}, 2**17, 2**21, 8.0, (-1, 2), False),
        ({"light_first": False}, 2**17, 2**21, 8.0, (1, 2), False),
        ({"edge_classes": False}, 2**17, 2**21, 8.0, (1, 2), False),
    ],
)
def test_light_edges_are_for_large_graphs_of_many_edges(given, n_vertices, n_edges, skew, weights, expected):
    traits = GraphTraits(n_vertices, n_edges, np.dtype("int32"), *weights, 1.5, skew)
    assert solver_named(NAME, given).uses_light_edges(traits) is expected


# ---- on a GPU ----


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", WEIGHT_DTYPES, ids=lambda dtype: dtype.name)
def test_rows_begin_with_their_light_edges(dtype):
    light = {
        (0, 2): 1,
        (1, 0): 5,
        (1, 2): 8,
        (1, 4): 6,
        (2, 0): 1,
        (2, 4): 7,
        (4, 0): 7,
        (4, 1): 2,
        (4, 2): 3,
    }
    ends = [*light, (0, 0), (0, 1), (1, 3), *[(2, 0)] * 8]
    weights = np.array([*light.values(), *[9] * 11])
    graph = csr_from_edges(*np.array(ends).T, weights.astype(dtype), 5)
    on_device = device_graph(graph)
    marked = classified_edges(on_device, signed=False).graph
    found = light_edges(on_device, marked, has_hubs=True)  # 0.8 light edges a vertex are 4 of these 20
    assert light_edges(on_device, marked, has_hubs=True) is found
    bound, ends_of_light = found.bound.view(dtype), found.light_ends.get()
    assert bound == 5

    def edges_of(graph):
        words = graph.edges.get()
        if graph.weights is None:
            return words[::2] & (2**30 - 1), words[1::2].view(dtype)
        return words & (2**30 - 1), graph.weights.get().view(dtype)

    targets, placed = edges_of(found.graph)
    offsets = graph.row_offsets
    for v in range(5):
        row = slice(offsets[v], offsets[v + 1])
        pairs = zip(targets[row].tolist(), placed[row].tolist(), strict=True)
        true = zip(graph.col_indices[row].tolist(), graph.weights[row].tolist(), strict=True)
        assert sorted(pairs) == sorted(true)
        assert_array_equal(placed[row] <= bound, np.arange(offsets[v], offsets[v + 1]) < ends_of_light[v])
    # Neither the self-loop of 0 nor the edge into the leaf 3 is pulled.
    sources, pulled = edges_of(found.into)
    assert_array_equal(found.into.row_offsets.get(), [0, 9, 10, 11, 11, 13])
    pairs = list(zip(sources.tolist(), pulled.tolist(), strict=True))
    assert sorted(pairs[:9]) == [*[(2, 9)] * 8, (4, 7)]
    assert pairs[9:11] == [(0, 9), (1, 8)]
    assert sorted(pairs[11:]) == [(1, 6), (2, 7)]


@pytest.mark.gpu
def two_rows(*weights):
    return device_graph(csr_from_edges(np.arange(20) % 2, np.zeros(20, int), np.repeat(weights, 10), 2))


@pytest.mark.gpu
def test_equal_weights_are_not_divided():
    on_device = two_rows(np.uint32(5), np.uint32(5))
    assert light_edges(on_device, on_device, has_hubs=True) is None


@pytest.mark.gpu
def test_edges_are_divided_by_the_first_call_that_finds_memory(monkeypatch):
    on_device = two_rows(np.uint32(5), np.uint32(9))
    with monkeypatch.context() as short:
        short.setattr(f"{light_edges.__module__}.free_bytes", lambda: 100)
        assert light_edges(on_device, on_device, has_hubs=True) is None
    assert light_edges(on_device, on_device, has_hubs=True) is not None


@pytest.mark.gpu
@pytest.mark.parametrize("given", VARIANTS, ids=lambda given: str(given) or "defaults")
@pytest.mark.parametrize("dtype", ["uint32", "float32", "int64", "float64"])
def test_light_edges_first_give_the_true_distances(given, dtype):
    solver = FrontierBellmanFord(**SMALL, **given)
    for largest in (3, 100, 100_000):
        for hubs in (False, True):
            graph = wide_graph(largest, dtype, largest, hubs)
            assert_right(solver, graph, [1, 7, 0])
            assert_right(solver, graph, [1], SolveOptions(cutoff=largest / 5))


@pytest.mark.gpu
@pytest.mark.parametrize("given", [SMALL, {"light_from": (0, 0.0, 0.0)}], ids=["one block", "all blocks"])
def test_hubs_are_read_in_part(given):
    graph = rmat(scale=11).graph()
    source = int(np.argmax(np.diff(graph.row_offsets)))
    (some,) = assert_right(FrontierBellmanFord(**given), graph, [source])
    (whole,) = assert_right(FrontierBellmanFord(**given, light_first=False), graph, [source])
    (dijkstra,) = assert_right(SOLVERS["dijkstra"], graph, [source])
    assert some.edges_relaxed < dijkstra.edges_relaxed <= whole.edges_relaxed
    assert some.vertices_processed >= dijkstra.vertices_processed
