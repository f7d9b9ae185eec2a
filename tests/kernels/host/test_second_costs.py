"""Second costs equal those of walking each path in plain Python."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sssp_pipeline.base.csr import csr_from_edges, unreached_distance
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.kernels import SOLVERS, solver_named
from sssp_pipeline.kernels.contract.kept import Nothing, Targets
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.host import second_costs
from sssp_pipeline.kernels.host.second_costs import SecondCosts, cost_dtype

DTYPES = ("uint32", "int32", "float32", "uint64", "int64", "float64")


def random_graph(rng, dtype="uint32", least=1):
    """Return a graph with ties, parallel edges, self-loops and unreachable vertices."""
    n = int(rng.integers(2, 40))
    m = int(rng.integers(0, 4 * n))
    src, dst = rng.integers(0, n, (2, m))
    again = rng.integers(0, m, m // 3) if m else np.empty(0, int)
    src, dst = np.concatenate([src, src[again]]), np.concatenate([dst, dst[again]])
    weights = rng.integers(least, 5, len(src))
    values = weights / 8 if np.dtype(dtype).kind == "f" else weights
    return csr_from_edges(src, dst, values.astype(dtype), n)


def costs_of(graph, rng, dtype):
    values = rng.integers(0, 4, graph.n_edges) - 2 * (np.dtype(dtype).kind != "u")
    return (values / 10 if np.dtype(dtype).kind == "f" else values).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("least", [0, 1])
def test_costs_are_those_of_the_walked_path(dtype, least, walked):
    rng = np.random.default_rng(DTYPES.index(dtype))
    for _ in range(25):
        graph = random_graph(rng, dtype, least)
        along = tuple(costs_of(graph, rng, kind) for kind in rng.choice(DTYPES, 2))
        cutoff = None if rng.random() < 0.5 else 1.0 if np.dtype(dtype).kind == "f" else 6
        source = int(rng.integers(graph.n_vertices))
        options = SolveOptions(cutoff=cutoff, along=along)
        found = solver_named("dijkstra").solve(graph, np.array([source]), options)
        wanted = walked(graph, along, source, found.distances[0])
        for costs, exact, weights in zip(found.along, wanted, along, strict=True):
            assert costs.dtype == cost_dtype(weights.dtype)
            assert_array_equal(costs[0], exact.astype(costs.dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_together_have_the_same_as_each_alone(dtype):
    rng = np.random.default_rng(10 + DTYPES.index(dtype))
    for n_rows in (3, 4, 11, 16, 37):
        graph = random_graph(rng, dtype, int(rng.integers(2)))
        sources = rng.integers(0, graph.n_vertices, n_rows)
        rows = solver_named("dijkstra").solve(graph, sources, SolveOptions()).distances
        found = SecondCosts(graph, [costs_of(graph, rng, "int32")])
        (together,) = found.of_rows(sources, rows)
        for source, row, costs in zip(sources, rows, together, strict=True):
            assert_array_equal(found.of_rows(np.array([source]), row[np.newaxis])[0], [costs])


def test_rows_of_a_graph_may_be_in_any_order():
    rng = np.random.default_rng(3)
    src, dst = rng.integers(0, 30, (2, 200))
    graph = csr_from_edges(src, dst, rng.integers(1, 4, 200).astype("uint32"), 30)
    rows = [np.arange(*graph.row_offsets[v : v + 2])[::-1] for v in range(30)]
    turned = np.concatenate(rows)
    other = type(graph)(graph.row_offsets, graph.col_indices[turned], graph.weights[turned])
    along, source = costs_of(graph, rng, "int32"), np.array([0])
    distances = solver_named("dijkstra").solve(graph, source, SolveOptions()).distances
    (costs,) = SecondCosts(graph, [along]).of_rows(source, distances)
    assert (costs != unreached_distance(costs.dtype)).sum() > 20
    assert_array_equal(SecondCosts(other, [along[turned]]).of_rows(source, distances)[0], costs)


def test_to_put_edges_in_order_takes_little_memory():
    rng = np.random.default_rng(4)
    n, m = 2000, 200_000
    graph = csr_from_edges(*rng.integers(0, n, (2, m)), rng.integers(1, 9, m).astype("uint32"), n)
    along = (rng.integers(0, 9, m).astype("int64"),)
    SecondCosts(graph, [along[0].copy()])  # loads the kernels
    tracemalloc.start()
    try:
        SecondCosts(graph, along)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 30 * m  # 20 of them stay


def test_negative_weights():
    rng = np.random.default_rng(5)
    for _ in range(25):
        graph = random_graph(rng, "int32", 0)
        heights = rng.integers(0, 9, graph.n_vertices)
        starts = np.repeat(np.arange(graph.n_vertices), np.diff(graph.row_offsets))
        weights = graph.weights + heights[starts] - heights[graph.col_indices]
        graph = csr_from_edges(starts, graph.col_indices, weights.astype("int32"), graph.n_vertices)
        along, source = (costs_of(graph, rng, "int32"),), int(rng.integers(graph.n_vertices))
        names = (
            "queue-bellman-ford",
            "dijkstra",
        )  # one takes negative weights, for the other they are changed
        solvers = [solver_named(name) for name in names]
        results = [
            s.solve(graph, np.array([source]), SolveOptions(along=along, predecessors=True)) for s in solvers
        ]
        for found in results:
            costs, before = found.along[0][0], found.predecessors[0]
            for v in range(graph.n_vertices):
                if costs[v] == unreached_distance(costs.dtype):
                    assert found.distances[0, v] == unreached_distance(found.distances.dtype)
                    continue
                total, at = 0, v
                while at != source:
                    u = before[at]
                    row = range(graph.row_offsets[u], graph.row_offsets[u + 1])
                    length = found.distances[0, at] - found.distances[0, u]
                    total += min(
                        along[0][e] for e in row if graph.col_indices[e] == at and graph.weights[e] == length
                    )
                    at = u
                assert costs[v] == total
        assert_array_equal(results[0].along[0], results[1].along[0])


@pytest.mark.parametrize("unit", [5e-324, 1e-300, 1e300])
def test_very_small_and_very_large_distances(unit):
    graph = csr_from_edges(np.array([2, 1, 0]), np.array([3, 2, 1]), np.array([1, 4, 2]) * unit, 5)
    rows = np.array([[0, 2, 6, 7, np.inf]]) * unit
    (costs,) = SecondCosts(graph, [np.array([1, 10, 100], "uint32")]).of_rows(np.array([0]), rows)
    assert costs.tolist() == [[0, 1, 11, 111, unreached_distance(costs.dtype)]]


def test_of_parallel_edges_the_first_cost_decides_and_then_the_next():
    graph = csr_from_edges(
        np.array([0, 0, 0, 0]), np.array([1, 1, 1, 1]), np.array([3, 3, 3, 4], "uint32"), 2
    )
    first, second = np.array([7, 5, 5, 1], "uint32"), np.array([0, 9, 8, 0], "int64")
    for order in ([0, 1, 2, 3], [2, 0, 1, 3], [1, 2, 0, 3]):
        found = SecondCosts(graph, [first[order], second[order]]).of_rows(
            np.array([0]), np.array([[0, 3]], "uint32")
        )
        assert [costs.tolist() for costs in found] == [[[0, 5]], [[0, 8]]]


def test_every_solver_parts_targets_and_threads_give_the_same(monkeypatch):
    rng = np.random.default_rng(8)
    n = 300
    src, dst = rng.integers(0, n, (2, 1500))
    graph = csr_from_edges(src, dst, rng.integers(1, 6, 1500).astype("uint32"), n)
    along = costs_of(graph, rng, "uint32"), costs_of(graph, rng, "float64")
    sources, targets = rng.integers(0, n, 20), rng.integers(0, n, 7)
    whole = solver_named("dijkstra").solve(graph, sources, SolveOptions(along=along))
    by_threads = SecondCosts(graph, along).of_rows(sources, whole.distances, n_threads=3)
    for name in ("dijkstra", "delta-stepping", "parallel-delta-stepping", "phast", "queue-bellman-ford"):
        found = list(solver_named(name).solve_parts(graph, sources, SolveOptions(along=along), [3, 3, 20]))
        assert [len(part.distances) for part in found] == [3, 0, 17]
        for k in range(2):
            assert_array_equal(np.concatenate([part.along[k] for part in found]), whole.along[k])
            assert_array_equal(by_threads[k], whole.along[k])
    monkeypatch.setattr(second_costs, "_ROWS_BYTES", 5 * 4 * n)
    options = SolveOptions(along=along, kept=Targets(targets))
    for name in ("dijkstra", "phast"):
        first, second = solver_named(name).solve_parts(graph, sources, options, [12, 20])
        for k in range(2):
            assert_array_equal(np.concatenate([first.along[k], second.along[k]]), whole.along[k][:, targets])
        assert_array_equal(np.concatenate([first.distances, second.distances]), whole.distances[:, targets])
        assert [m.source for part in (first, second) for m in part.metrics] == sources.tolist()


@pytest.mark.gpu
@pytest.mark.parametrize("name", [name for name in SOLVERS if SOLVERS.device_of(name) == "gpu"])
def test_rows_of_a_gpu_have_the_same(name):
    rng = np.random.default_rng(9)
    n = 3000
    src, dst = rng.integers(0, n, (2, 12_000))
    graph = csr_from_edges(src, dst, np.full(12_000, 3, np.uint32), n)  # `bits-gpu` takes equal weights only
    along = costs_of(graph, rng, "uint32"), costs_of(graph, rng, "float64")
    sources, targets = rng.integers(0, n, 40), rng.integers(0, n, 7)
    whole = solver_named("dijkstra").solve(graph, sources, SolveOptions(along=along))
    found = solver_named(name).solve(graph, sources, SolveOptions(along=along))
    few = solver_named(name).solve(graph, sources, SolveOptions(along=along, kept=Targets(targets)))
    for k in range(2):
        assert_array_equal(found.along[k], whole.along[k])
        assert_array_equal(few.along[k], whole.along[k][:, targets])


def graph_of_two_edges():
    return csr_from_edges(np.array([0, 1]), np.array([1, 2]), np.array([1, 1], "uint32"), 3)


def test_another_number_of_costs_than_edges_is_refused():
    with pytest.raises(InputError, match=r"^a second cost has 3 values, and the graph has 2 edges$"):
        SecondCosts(graph_of_two_edges(), [np.ones(3, "uint32")])


@pytest.mark.parametrize("dtype", ["uint64", "int64", "float64"])
def test_sums_that_may_not_fit_are_refused(dtype):
    most = np.finfo(dtype).max if dtype == "float64" else np.iinfo(dtype).max // 2 + 1
    SecondCosts(graph_of_two_edges(), [np.array([0, most // 2], dtype)])
    with pytest.raises(
        InputError, match=rf"^a second cost is \S+, and the sum .* 2 edges .* {dtype} cannot hold$"
    ):
        SecondCosts(graph_of_two_edges(), [np.array([0, most], dtype)])


def test_only_distances_have_second_costs():
    with pytest.raises(InputError, match="second costs can be summed for distances only"):
        SolveOptions(along=(np.ones(2),), kept=Nothing())


def test_negative_weights_with_a_cutoff_are_refused():
    graph = csr_from_edges(np.array([0]), np.array([1]), np.array([-1], "int32"), 2)
    options = SolveOptions(cutoff=3, along=(np.ones(1),))
    with pytest.raises(InputError, match="there are second costs only without a cutoff"):
        solver_named("queue-bellman-ford").solve(graph, np.array([0]), options)
