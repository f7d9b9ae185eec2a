"""Coarse graphs: what their vertices and edges stand for, and the cuts that METIS finds in them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from sssp_pipeline.base.csr import csr_from_edges
from sssp_pipeline.base.generators import grid, star
from sssp_pipeline.kernels.hierarchy.completion.arc_completion import complete
from sssp_pipeline.kernels.hierarchy.dividing import coarsening
from sssp_pipeline.kernels.hierarchy.dividing.coarsening import SHARE, coarsened
from sssp_pipeline.kernels.hierarchy.ordering import metis_processes
from sssp_pipeline.kernels.hierarchy.ordering.order import neighbours_of

EXAMPLES = settings(
    deadline=None, derandomize=True, max_examples=40, suppress_health_check=[HealthCheck.too_slow]
)
NEEDS_METIS = pytest.mark.skipif(metis_processes.package() is None, reason="pymetis is not installed")


def around(src, dst, n):
    return neighbours_of(csr_from_edges(src, dst, np.ones(len(src), np.uint32), n))


def around_generated(made):
    return around(made.src, made.dst, made.n_vertices)


@st.composite
def graphs(draw):
    n = draw(st.integers(1, 60))
    edges = draw(st.lists(st.tuples(*[st.integers(0, n - 1)] * 2), max_size=150))
    return around(*np.array(edges, np.int64).reshape(-1, 2).T, n)


def edges_of(starts, heads):
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts.astype(np.int64))), heads.astype(np.int64)


def checked(offsets, neighbours, n_threads=1):
    """Return the coarse graph after it was compared with the graph that it stands for."""
    graph, names = coarsened(offsets, neighbours, n_threads)
    n, n_coarse = len(offsets) - 1, len(graph.weights)
    assert_array_equal(np.bincount(names, minlength=n_coarse), graph.weights)
    assert max(graph.weights) <= coarsening._MOST
    expected, found = np.zeros((2, n_coarse, n_coarse), np.int64)
    ends = [names[end] for end in edges_of(offsets, neighbours)]
    np.add.at(expected, tuple(ends), 1)
    np.fill_diagonal(expected, 0)  # an edge between merged vertices is in no cut
    np.add.at(found, edges_of(graph.starts, graph.heads), graph.edge_weights)
    assert_array_equal(found, expected)
    assert len(graph.heads) == np.count_nonzero(expected)
    assert len(names) == n
    return graph


@pytest.mark.medium
@given(graphs())
@EXAMPLES
def test_vertices_and_edges_stand_for_those_of_the_graph(graph):
    checked(*graph)


def test_each_vertex_stands_for_about_a_sixteenth():
    offsets, neighbours = around_generated(grid(40, 50))
    assert len(checked(offsets, neighbours).weights) * SHARE <= 2000


def test_vertices_that_share_a_hub_are_merged():
    assert len(checked(*around_generated(star(1000))).weights) <= 1000 // 8


def test_a_graph_without_edges_stays_as_it_is():
    nothing = np.empty(0, np.int64)
    assert len(checked(*around(nothing, nothing, 9)).weights) == 9


def test_a_coarse_graph_does_not_depend_on_the_number_of_threads():
    graph = around_generated(grid(30, 30, keep=0.8))
    for one, other in zip(checked(*graph), checked(*graph, n_threads=5), strict=True):
        assert_array_equal(one, other)


@NEEDS_METIS
def test_metis_cuts_a_coarse_graph_of_a_large_one(monkeypatch):
    graph, orders, requests = around_generated(grid(40, 40)), [], []
    send = metis_processes.MetisProcess.send
    monkeypatch.setattr(
        metis_processes.MetisProcess, "send", lambda *given: requests.append(given[1]) or send(*given)
    )
    monkeypatch.setattr(metis_processes, "CUT_VERTICES", 400)
    for least in (len(graph[1]) + 1, len(graph[1])):
        monkeypatch.setattr(metis_processes, "COARSE_NEIGHBOURS", least)
        with metis_processes.Metis() as processes:
            orders.append(processes.order(*graph))
        assert sorted(orders[-1].tolist()) == list(range(1600))
    of_first = requests.index(metis_processes.COARSE_QUARTERS)
    assert requests[0] == metis_processes.QUARTERS
    assert metis_processes.QUARTERS not in requests[1:of_first]
    fine, coarse = (complete(*graph, order) for order in orders)
    assert coarse.n_arcs < 1.1 * fine.n_arcs


@NEEDS_METIS
def test_metis_halves_coarse_graphs_of_large_parts_of_dense_graphs(monkeypatch):
    graph, orders, requests = around_generated(grid(40, 40)), [], []
    send = metis_processes.MetisProcess.send
    monkeypatch.setattr(
        metis_processes.MetisProcess, "send", lambda *given: requests.append(given[1]) or send(*given)
    )
    monkeypatch.setattr(metis_processes, "CUT_VERTICES", 400)
    for least, is_dense in [(0, False), (len(graph[1]), True), (0, True)]:
        monkeypatch.setattr(metis_processes, "COARSE_NEIGHBOURS_OF_HALVES", least)
        requests.clear()
        with metis_processes.Metis() as processes:
            orders.append(processes.order(*graph, is_dense=is_dense))
        assert (metis_processes.COARSE_HALVES in requests) == (is_dense and least == 0)
        assert sorted(orders[-1].tolist()) == list(range(1600))
    _, fine, coarse = (complete(*graph, order) for order in orders)
    assert coarse.n_arcs < 1.1 * fine.n_arcs
