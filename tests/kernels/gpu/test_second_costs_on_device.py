"""Second costs of rows on the GPU are those of the CPU, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from passed_paths import graph_for

from sssp_pipeline.base.csr import CsrGraph, csr_from_edges
from sssp_pipeline.base.errors import InputError, SsspError
from sssp_pipeline.base.generators import grid, rmat
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.answers.nearest import NearestOfRow
from sssp_pipeline.kernels.contract.kept import EveryVertex, KeptOfRow, Targets
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.gpu.common.rows import second_costs_on_device
from sssp_pipeline.kernels.gpu.common.solvers import batch_solver

DTYPES = ("uint32", "int32", "uint64", "int64", "float32", "float64")
COSTS = ("uint32", "int32", "uint64", "int64")
SOLVERS_OF_ROWS = ("adds-slots", "adds-lanes", "bits-gpu", "phast-gpu")


def random_graph(rng: np.random.Generator, dtype: str, most: int = 70) -> CsrGraph:
    """Return a graph with ties, parallel edges, self-loops and unreachable vertices."""
    n = int(rng.integers(1, most))
    src, dst = rng.integers(0, n, (2, int(rng.integers(0, 5 * n))))
    again = slice(0, len(src) // 4)
    src, dst = np.append(src, src[again]), np.append(dst, dst[again])
    return csr_from_edges(src, dst, rng.integers(1, rng.choice([2, 5, 40]), len(src)).astype(dtype), n)


def random_costs(rng: np.random.Generator, graph: CsrGraph) -> tuple[np.ndarray, ...]:
    """Return one to three second costs; those of signed types may be negative."""
    kinds = rng.choice(COSTS, rng.integers(1, 4))
    return tuple((rng.integers(0, 9, graph.n_edges) - 4 * (kind[0] == "i")).astype(kind) for kind in kinds)


def random_kept(rng: np.random.Generator, n_vertices: int) -> KeptOfRow:
    some = rng.integers(0, n_vertices, rng.integers(1, 9))
    k = int(rng.integers(1, 6))
    return (EveryVertex(), Targets(some), NearestOfRow(k), NearestOfRow(k, some))[rng.integers(4)]


def assert_as_by_dijkstra(name: str, graph: CsrGraph, sources, ends, **options) -> None:
    given = SolveOptions(**options)
    assert SOLVERS[name].sums_costs_of(graph.traits, [costs.dtype for costs in given.along])
    found, wanted = (SOLVERS[s].solve_parts(graph, sources, given, ends) for s in (name, "dijkstra"))
    for part, expected in zip(found, wanted, strict=True):
        assert_array_equal(part.distances, expected.distances)
        assert len(part.along) == len(given.along)
        for costs, of_cpu in zip(part.along, expected.along, strict=True):
            assert costs.dtype == of_cpu.dtype
            assert_array_equal(costs, of_cpu)


@pytest.fixture(autouse=True)
def few_threads(monkeypatch):
    """Take blocks of several warps, which share the walks of small graphs."""
    monkeypatch.setattr(second_costs_on_device, "_THREADS", (64,))


# ---- without a GPU ----


@pytest.mark.parametrize("name", [name for name in SOLVERS if SOLVERS.device_of(name) == "gpu"])
def test_solvers_of_many_sources_sum_integers_along_edges_above_zero(name):
    traits = csr_from_edges(np.array([0]), np.array([1]), np.array([1.5]), 2).traits
    zero = csr_from_edges(np.array([0]), np.array([1]), np.array([0]), 2).traits
    solver = SOLVERS[name]
    assert solver.sums_costs_of(traits, [np.dtype(dtype) for dtype in COSTS]) == (name in SOLVERS_OF_ROWS)
    assert not solver.sums_costs_of(traits, [np.dtype("int32"), np.dtype("float32")])
    assert not solver.sums_costs_of(zero, [np.dtype("int32")])


def test_no_solver_on_a_cpu_sums_them_itself():
    traits = csr_from_edges(np.array([0]), np.array([1]), np.array([1]), 2).traits
    assert not SOLVERS["dijkstra"].sums_costs_of(traits, [np.dtype("int32")])


# ---- with a GPU ----


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_random_graphs(dtype):
    rng = np.random.default_rng(DTYPES.index(dtype))
    for _ in range(12):
        graph = random_graph(rng, dtype)
        sources = rng.integers(0, graph.n_vertices, rng.integers(1, 30)).astype(np.uint32)
        cutoff = [None, 3, 30][rng.integers(3)]
        options = {
            "cutoff": cutoff,
            "along": random_costs(rng, graph),
            "kept": random_kept(rng, graph.n_vertices),
        }
        assert_as_by_dijkstra("adds-slots", graph, sources, [len(sources)], **options)


@pytest.mark.gpu
@pytest.mark.parametrize("name", SOLVERS_OF_ROWS)
def test_every_solver_and_part(name):
    rng, graph = np.random.default_rng(4), graph_for(name)
    sources = rng.integers(0, graph.n_vertices, 70).astype(np.uint32)
    along, targets = random_costs(rng, graph), rng.integers(0, graph.n_vertices, 20)
    for kept in (EveryVertex(), Targets(targets), NearestOfRow(3), NearestOfRow(3, targets)):
        for cuts in ([70], [3, 50, 51, 70]):
            assert_as_by_dijkstra(name, graph, sources, cuts, along=along, kept=kept)
    limit = graph.traits.max_weight * 3
    assert_as_by_dijkstra(
        name, graph, sources, [70], along=along, cutoff=limit, row_facts=True, reached_only=True
    )
    assert_as_by_dijkstra(name, graph, sources, [70], along=along, predecessors=True)
    assert_as_by_dijkstra(name, graph, sources, [70], along=along, kept=Targets(targets), metrics=False)
    assert_as_by_dijkstra(name, graph, sources[:0], [0], along=along, kept=NearestOfRow(3))


@pytest.mark.gpu
@pytest.mark.parametrize("batch", [(7, 2), (1, 1), (70, 1)])
def test_parts_and_device_batches_need_not_agree(monkeypatch, batch):
    monkeypatch.setattr(batch_solver, "device_batch", lambda *_: batch)
    rng, graph = np.random.default_rng(5), graph_for("adds-slots")
    sources = rng.integers(0, graph.n_vertices, 70).astype(np.uint32)
    for cuts in ([70], [3, 50, 51, 70], list(range(1, 71))):
        assert_as_by_dijkstra("adds-slots", graph, sources, cuts, along=random_costs(rng, graph))


@pytest.mark.gpu
@pytest.mark.parametrize("kept", [EveryVertex(), Targets(np.arange(0, 4000, 3))])
def test_long_paths_and_hubs(kept):
    """A path of 4,000 edges; a grid; a web, whose hubs are taken by whole warps; a star with 1,000 equal ways."""
    rng, n = np.random.default_rng(6), 4001
    path = csr_from_edges(np.arange(n - 1), np.arange(1, n), rng.integers(1, 9, n - 1).astype(np.uint32), n)
    star = csr_from_edges(
        np.concatenate([np.zeros(1000, int), np.arange(1, 1001)]),
        np.concatenate([np.arange(1, 1001), np.full(1000, 1001)]),
        np.ones(2000, np.uint32),
        4000,
    )
    web = rmat(scale=12).graph("uint32")
    assert np.bincount(web.col_indices).max() > 64
    for graph in (path, grid(rows=63, cols=64).graph("uint32"), web, star):
        sources = np.array([0, 5], np.uint32)
        assert_as_by_dijkstra("adds-slots", graph, sources, [2], along=random_costs(rng, graph), kept=kept)


@pytest.mark.gpu
def test_other_second_costs_of_the_same_graph():
    """The edges are in another order on the device, since other parallel edges are the best."""
    rng = np.random.default_rng(7)
    graph = csr_from_edges(np.zeros(20, int), np.tile([1, 2], 10), np.ones(20, np.uint32), 3)
    for _ in range(4):
        assert_as_by_dijkstra("adds-slots", graph, np.array([0]), [1], along=random_costs(rng, graph))


@pytest.mark.gpu
@pytest.mark.parametrize("kept", [EveryVertex(), Targets(np.array([7, 3, 7, 0])), NearestOfRow(4)])
def test_the_cpu_sums_rows_that_the_gpu_leaves(kept):
    """Behind the edge from vertex 0, floats lose the weights of the others. Then the smallest start is another path."""
    src, dst, weights = np.array([(0, 5, 1e30), (5, 2, 1), (5, 1, 1), (2, 1, 1), (1, 3, 1), (3, 4, 1)]).T
    graph = csr_from_edges(src.astype(int), dst.astype(int), weights, 8)
    along = (np.arange(6, dtype=np.int64), 7 - np.arange(6, dtype=np.uint32))
    sources = np.array([5, 0, 7, 2, 0, 1], np.uint32)
    for cuts in ([6], [1, 3, 6]):
        assert_as_by_dijkstra("adds-slots", graph, sources, cuts, along=along, kept=kept)


@pytest.mark.gpu
def test_slots_that_do_not_fit(monkeypatch):
    graph = graph_for("adds-slots")
    monkeypatch.setattr(second_costs_on_device, "free_bytes", lambda: 1000)
    with pytest.raises(SsspError, match="one source of `adds-slots` does not fit the GPU beside the graph"):
        SOLVERS["adds-slots"].solve(
            graph, np.array([0]), SolveOptions(along=(np.ones(graph.n_edges, np.int32),))
        )


@pytest.mark.gpu
def test_few_slots_take_all_rows(monkeypatch):
    graph = graph_for("adds-slots")
    on_device = second_costs_on_device.SecondCostsOnDevice
    slots = []
    monkeypatch.setattr(second_costs_on_device, "free_bytes", lambda: 4 * 4 * 15 * graph.n_vertices)
    make = on_device.__init__

    def recorded(self, *args):
        make(self, *args)
        slots.append(self.size.n_slots)

    monkeypatch.setattr(on_device, "__init__", recorded)
    sources, along = np.arange(50, dtype=np.uint32), (np.arange(graph.n_edges, dtype=np.int32),)
    assert_as_by_dijkstra("adds-slots", graph, sources, [50], along=along)
    assert slots == [3]


@pytest.mark.gpu
def test_another_number_of_costs_than_edges_is_the_same_error():
    graph, options = graph_for("adds-slots"), SolveOptions(along=(np.ones(3, np.int32),))
    for name in ("adds-slots", "dijkstra"):
        with pytest.raises(InputError, match=r"^a second cost has 3 values, and the graph has .* edges$"):
            SOLVERS[name].solve(graph, np.array([0]), options)
