"""The order where METIS is not installed: a permutation, the same for any threads, with small separators."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sssp_pipeline.base.csr import csr_from_edges
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.generators import dense, grid, path, rmat, road_like, star
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.hierarchy.compile_ahead import CORE, THINNING, order_groups
from sssp_pipeline.kernels.hierarchy.completion import arc_completion, costs
from sssp_pipeline.kernels.hierarchy.dividing.bisection import bisected
from sssp_pipeline.kernels.hierarchy.dividing.separators import SEPARATOR, scratch_of
from sssp_pipeline.kernels.hierarchy.ordering import dissection, metis_processes
from sssp_pipeline.kernels.hierarchy.ordering.dissection import dissected
from sssp_pipeline.kernels.hierarchy.ordering.order import elimination_order, neighbours_of
from sssp_pipeline.kernels.registry import SOLVERS


def around(made):
    """Return the neighbours in a generated graph."""
    return neighbours_of(csr_from_edges(made.src, made.dst, made.weights, made.n_vertices))


def joined(n_vertices, *edges):
    """Return the neighbours in a graph of edges; each of `edges` has two arrays of vertices."""
    src, dst = (np.concatenate(ends) for ends in zip(*edges, strict=True))
    return neighbours_of(csr_from_edges(src, dst, np.ones(len(src), np.uint32), n_vertices))


def clique(first, end):
    """Return the edges of a clique."""
    src, dst = np.triu_indices(end - first, 1)
    return first + src, first + dst


def random_graph(n_vertices, n_edges):
    return np.random.default_rng(n_edges).integers(0, n_vertices, (2, n_edges))


def pieces(n_vertices):
    """Return the edges of paths of 3 vertices."""
    every = np.arange(n_vertices - 1)
    every = every[every % 3 != 2]
    return every, every + 1


#: Graphs of few parts and many, sparse and dense, just below and above the sizes from which another way is taken.
GRAPHS = {
    "no-vertex": lambda: (np.zeros(1, np.uint64), np.empty(0, np.uint32)),
    "one-vertex": lambda: (np.zeros(2, np.uint64), np.empty(0, np.uint32)),
    "no-edges": lambda: (np.zeros(9001, np.uint64), np.empty(0, np.uint32)),
    "many-pieces": lambda: joined(9000, pieces(9000)),
    "path": lambda: around(path(9000)),
    "star": lambda: around(star(9000)),
    "clique-500": lambda: around(dense(500)),
    "clique-501": lambda: around(dense(501)),
    "two-cliques-and-a-vertex": lambda: joined(
        1201, clique(0, 600), clique(601, 1201), (np.array([600, 600]), np.array([3, 700]))
    ),
    "clique-and-a-tail": lambda: joined(2000, clique(0, 700), (np.arange(699, 1999), np.arange(700, 2000))),
    "random": lambda: joined(6000, random_graph(6000, 40_000)),
    "hubs": lambda: around(rmat(scale=13, edge_factor=8)),
    "grid-4095": lambda: around(grid(45, 91)),
    "grid-4999-of-5000": lambda: around(grid(50, 100)),
    "loose-grid": lambda: around(grid(120, 110, keep=0.55)),
    "roads": lambda: around(road_like(30_000)),
}


@pytest.mark.medium
@pytest.mark.parametrize("name", GRAPHS)
def test_an_order_has_each_vertex_once_and_does_not_depend_on_threads(name):
    offsets, neighbours = GRAPHS[name]()
    copies = offsets.copy(), neighbours.copy()
    order = dissected(offsets, neighbours, 1)
    assert order.dtype == np.uint32
    assert_array_equal(np.sort(order), np.arange(len(offsets) - 1))
    for n_threads in (1, 2, 7, None):
        assert_array_equal(dissected(offsets, neighbours, n_threads), order)
    assert_array_equal(offsets, copies[0])
    assert_array_equal(neighbours, copies[1])


@pytest.mark.parametrize("made", [grid(9, 13), grid(20, 25, keep=0.7), star(60), path(90), dense(30)])
def test_a_small_graph_is_eliminated_by_the_least_degree(made):
    offsets, neighbours = around(made)
    left = {v: set(neighbours[offsets[v] : offsets[v + 1]].tolist()) for v in range(made.n_vertices)}
    for v in dissected(offsets, neighbours).tolist():
        joined_by = left.pop(v)
        assert len(joined_by) <= min(map(len, left.values()), default=0)
        for u in joined_by:
            left[u] |= joined_by
            left[u] -= {u, v}


@pytest.mark.medium
@pytest.mark.parametrize("name", [name for name in GRAPHS if name not in ("no-vertex", "one-vertex")])
def test_no_edge_joins_the_sides_of_a_separator(name):
    offsets, neighbours = GRAPHS[name]()
    n = len(offsets) - 1
    sides = bisected(offsets, neighbours, scratch_of(np.uint64(n)))
    tails = np.repeat(np.arange(n), np.diff(offsets.astype(np.int64)))
    ends = sides[tails], sides[neighbours]
    assert not np.any((ends[0] != ends[1]) & (ends[0] != SEPARATOR) & (ends[1] != SEPARATOR))
    assert set(sides.tolist()) <= {0, 1, 2}
    assert max(np.count_nonzero(sides == side) for side in (0, 1)) <= 0.6 * n


def test_the_only_vertex_between_two_halves_is_eliminated_last():
    half = around(grid(30, 40))
    tails = np.repeat(np.arange(1200), np.diff(half[0].astype(np.int64)))
    offsets, neighbours = joined(
        2401,
        (tails, half[1]),
        (tails + 1200, half[1] + 1200),
        (np.array([2400, 2400]), np.array([7, 1207])),
    )
    assert dissected(offsets, neighbours)[-1] == 2400


@pytest.mark.medium
@pytest.mark.skipif(metis_processes.package() is None, reason="`pymetis` is not installed")
@pytest.mark.parametrize(
    ("made", "most"), [(grid(150, 200), 1.3), (road_like(60_000), 1.3), (grid(300, 300, keep=0.6), 1.3)]
)
def test_hierarchies_have_few_more_triangles_than_with_metis(monkeypatch, made, most):
    graph = around(made)
    by_metis = arc_completion.count(*graph, elimination_order(*graph))
    monkeypatch.setattr(metis_processes, "package", lambda: None)
    own = arc_completion.count(*graph, elimination_order(*graph))
    assert own.n_triangles < most * by_metis.n_triangles


@pytest.mark.parametrize("made", [grid(40, 50, keep=0.8), road_like(3000)])
def test_distances_are_the_same_without_metis(monkeypatch, made):
    monkeypatch.setattr(metis_processes, "package", lambda: None)
    graph = csr_from_edges(made.src, made.dst, made.weights, made.n_vertices)
    sources = np.arange(0, made.n_vertices, 97)
    rows = [SOLVERS[name].solve(graph, sources, SolveOptions()).distances for name in ("phast", "dijkstra")]
    assert_array_equal(*rows)


def test_more_neighbours_than_are_counted_are_refused(monkeypatch):
    monkeypatch.setattr(dissection, "MOST", 100)
    with pytest.raises(InputError) as caught:
        dissected(*around(grid(20, 20)))
    assert caught.value.message == (
        "the graph has 1520 pairs of neighbours, more than are ordered without METIS (100)"
    )
    assert caught.value.hint == "choose another solver; `sssp-pipeline solvers` lists all"


def test_a_part_that_fails_ends_the_order(monkeypatch):
    def fail(*_):
        raise MemoryError("no room")

    monkeypatch.setattr(dissection, "_order", fail)
    with pytest.raises(MemoryError, match=r"^no room$"):
        dissected(*around(grid(5, 5)))


def test_forecasts_do_not_promise_the_speed_of_metis(monkeypatch):
    made = grid(40, 50)
    traits = csr_from_edges(made.src, made.dst, made.weights, made.n_vertices).traits
    monkeypatch.setattr(metis_processes, "package", lambda: object())
    by_metis = costs.order_s(traits)
    monkeypatch.setattr(metis_processes, "package", lambda: None)
    assert costs.order_s(traits) > by_metis


@pytest.mark.skipif(metis_processes.package() is None, reason="`pymetis` is not installed")
def test_where_metis_is_installed_the_module_is_not_loaded():
    program = """if True:
        import sys
        from sssp_pipeline.base.csr import csr_from_edges
        from sssp_pipeline.base.generators import grid
        from sssp_pipeline.kernels.hierarchy.completion.arc_completion import completion_of
        from sssp_pipeline.kernels.hierarchy.compile_ahead import order_groups
        made = grid(20, 20)
        completion_of(csr_from_edges(made.src, made.dst, made.weights, made.n_vertices))
        assert len(order_groups()) == 3
        print([name for name in sys.modules if name.endswith(("dissection", "bisection", "separators"))])
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_its_kernels_are_compiled_ahead_where_metis_is_not_installed(monkeypatch):
    monkeypatch.setattr(metis_processes, "package", lambda: None)
    *others, own = order_groups()
    assert others == [CORE, THINNING]
    own.compile_for(np.dtype(np.uint32))
    assert own.is_compiled(np.dtype(np.uint32))
