"""Graphs of NetworkX, igraph and rustworkx."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import sssp_pipeline as sp

U32 = 2**32 - 1


@pytest.fixture
def igraph():
    return pytest.importorskip("igraph")


@pytest.fixture
def rustworkx():
    return pytest.importorskip("rustworkx")


@pytest.fixture(scope="module")
def random_graph():
    """Return a graph of NetworkX with unreached vertices, self-loops and weights with decimals."""
    rng = np.random.default_rng(3)
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(range(80))
    ends = rng.integers(0, 80, (160, 2)).tolist()
    graph.add_weighted_edges_from(
        (u, v, w) for (u, v), w in zip(ends, rng.integers(0, 9, 160) / 4, strict=True)
    )
    return graph


def lengths(graph: nx.Graph) -> np.ndarray:
    found = np.full((80, 80), np.inf)
    for source, of_source in nx.all_pairs_dijkstra_path_length(graph):
        for vertex, length in of_source.items():
            found[source, vertex] = length
    return found


# ---- NetworkX ----


@pytest.mark.parametrize("values", [[2**63, 0.5], [2**63, -1], [np.int64(2**53 + 1), 0.5]])
def test_integers_that_numpy_would_round(values, error_of):
    graph = nx.path_graph(3)
    nx.set_edge_attributes(graph, dict(zip(graph.edges, values, strict=True)), "km")
    rounded = "is an integer that no type holds exactly beside the other weights"
    assert rounded in error_of(sp.solve, graph, 0, weight="km").message


@pytest.mark.parametrize(
    ("value", "message"),
    [
        *((value, f"`km` is {value!r}") for value in ("3", None, True, 1j, np.complex64(1))),
        (np.inf, "weight inf is not a finite number"),
    ],
)
def test_values_that_are_no_numbers(value, message, error_of):
    graph = nx.Graph([((0, 0), (0, 1), {"km": value})])
    found = error_of(sp.solve, graph, [(0, 0)], weight="km")
    assert f"from `(0, 0)` to `(0, 1)`: {message}" in found.message
    large = nx.Graph([(0, 1, {"km": 2**70}), (1, 2, {"km": 0.5})])
    assert "`km` holds an integer of more than 64 bits" in error_of(sp.solve, large, 0, weight="km").message


# ---- igraph ----


@pytest.mark.medium
@pytest.mark.parametrize("directed", [True, False])
def test_igraph_has_the_distances_of_networkx(igraph, random_graph, directed):
    theirs = random_graph if directed else random_graph.to_undirected()
    graph = igraph.Graph(80, list(theirs.edges()), directed=directed)
    graph.es["weight"] = [weight for *_, weight in theirs.edges(data="weight")]
    found = sp.solve(graph, range(80))
    np.testing.assert_array_equal(found.numpy(), lengths(theirs))
    np.testing.assert_array_equal(found.numpy(), graph.distances(weights="weight"))
    assert found.vertices.to_pylist() == list(range(80))


@pytest.mark.medium
def test_igraph_with_names_and_other_attributes(igraph, error_of):
    graph = igraph.Graph([(0, 1), (1, 2)])
    assert sp.solve(graph, 0).numpy().tolist() == [[0, 1, 2]]
    graph.vs["name"] = ["Ayr", "Bude", "Cork"]
    graph.es["km"] = [4, 9]
    found = sp.solve(graph, "Cork", weight="km", predecessors=True)
    assert found.to_arrow().column("distance").to_pylist() == [13, 9, 0]
    assert found.path("Cork", "Ayr") == ["Cork", "Bude", "Ayr"]
    assert sp.solve(graph, "Ayr", weight=None).numpy().tolist() == [[0, 1, 2]]
    assert sp.solve(igraph.Graph(), []).numpy().shape == (0, 0)
    for options, message in (
        ({}, "edges have no attribute `weight`, they have `km`"),
        ({"weight": "m"}, "edge from `Ayr` to `Bude`: `m` is None"),
        ({"columns": ("a", "b")}, "`columns` cannot be set for a graph of igraph"),
    ):
        assert error_of(sp.solve, graph, "Ayr", **options).message == message
    graph.vs["name"] = ["Ayr", "Ayr", "Cork"]
    assert error_of(sp.solve, graph, "Ayr", weight="km").message == "3 vertices have 2 names"


# ---- rustworkx ----


@pytest.mark.parametrize("directed", [True, False])
def test_rustworkx_has_the_distances_of_networkx(rustworkx, random_graph, directed):
    theirs = random_graph if directed else random_graph.to_undirected()
    graph = (rustworkx.PyDiGraph if directed else rustworkx.PyGraph)()
    graph.add_nodes_from(range(80))
    graph.add_edges_from(list(theirs.edges(data="weight")))
    np.testing.assert_array_equal(sp.solve(graph, range(80)).numpy(), lengths(theirs))


def test_rustworkx_keeps_its_indices_after_a_removal(rustworkx, error_of):
    graph = rustworkx.PyDiGraph()
    graph.extend_from_weighted_edge_list([(0, 1, 1), (1, 3, 5), (3, 4, 7)])
    graph.remove_nodes_from([0, 2])
    found = sp.solve(graph, 1, predecessors=True)
    assert (found.vertices.to_pylist(), found.numpy().tolist()) == ([1, 3, 4], [[0, 5, 12]])
    assert found.path(1, 4) == [1, 3, 4]
    assert error_of(sp.solve, graph, 0).message == "source `0` is not in the graph"


def test_edges_of_rustworkx(rustworkx, error_of):
    graph = rustworkx.PyGraph()
    graph.add_nodes_from("abc")
    assert sp.solve(graph, 0).numpy().tolist() == [[0, U32, U32]]
    graph.add_edges_from_no_data([(0, 1), (1, 2)])
    assert sp.solve(graph, 0).numpy().tolist() == [[0, 1, 2]]
    graph.update_edge(0, 1, {"km": 4})
    assert "edge from `0` to `1`: the edge is " in error_of(sp.solve, graph, 0).message
    assert error_of(sp.solve, graph, 0, weight="km").message == "edge from `1` to `2`: `km` is None"
    graph.update_edge(1, 2, {"km": 2.5})
    assert error_of(sp.solve, graph, 0).message == "edges have no attribute `weight`, they have `km`"
    assert sp.solve(graph, 0, weight="km").numpy().tolist() == [[0, 4, 6.5]]
    assert sp.solve(graph, 0, weight=None).numpy().tolist() == [[0, 1, 2]]
    assert sp.solve(rustworkx.PyDAG(), []).numpy().shape == (0, 0)
