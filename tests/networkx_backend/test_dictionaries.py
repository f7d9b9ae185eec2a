"""Results are the dictionaries, lists and generators that NetworkX returns, and programs use them as such."""

from __future__ import annotations

from collections.abc import Iterator

import networkx as nx
import pytest

from sssp_pipeline.networkx_backend import interface
from sssp_pipeline.networkx_backend.info import FUNCTIONS

#: No two paths have the same length.
GRAPH = nx.Graph(
    [("a", "b", {"weight": 2.5}), ("b", "c", {"weight": 0.5}), ("a", "c", {"weight": 9.0}), ("c", "d")]
)
GRAPH["c"]["d"]["weight"] = 4.0


def both(name: str, graph: nx.Graph, *args, **kwargs):
    """Return the results of the backend and of NetworkX."""
    ours = getattr(interface, name)(interface.convert_from_nx(graph), *args, **kwargs)
    return ours, getattr(nx, name)(graph, *args, backend="networkx", **kwargs)


def types_of(result):
    """Return the exact types of a result, of its parts and of its keys, in any order; iterators are read."""
    kind = type(result)
    if isinstance(result, Iterator):
        return kind, [types_of(part) for part in result]
    if isinstance(result, dict):
        return kind, sorted(((type(key), types_of(value)) for key, value in result.items()), key=repr)
    if isinstance(result, tuple | list):
        return kind, [types_of(part) for part in result]
    return kind


def arguments_of(name: str) -> list[tuple]:
    """Return the positional arguments of the calls to be compared."""
    if name.startswith("multi_source"):
        return [(["a", "c"],), *([(["a"], "d")] if name == "multi_source_dijkstra" else [])]
    if name.startswith("single_source"):
        return [("a",), *([("a", "d")] if "path" not in name else [])]
    if name in ("dijkstra_path", "dijkstra_path_length", "bellman_ford_path", "bellman_ford_path_length"):
        return [("a", "d"), ("a", "a")]
    return [(), *([("a",)] if name in ("eccentricity", "closeness_centrality") else [])]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("whole", [True, False], ids=["whole", "decimal"])
def test_every_type_is_that_of_networkx(name, whole):
    graph = GRAPH.copy()
    for _, _, found in graph.edges(data=True) if whole else ():
        found["weight"] = int(2 * found["weight"])
    weight = "distance" if "centrality" in name else "weight"
    for args in arguments_of(name):
        ours, theirs = both(name, graph, *args, **{weight: "weight"})
        assert types_of(ours) == types_of(theirs)


def test_a_path_that_the_caller_changes_changes_no_other_path():
    paths, _ = both("single_source_dijkstra_path", GRAPH, "a")
    paths["b"].append("x")
    assert paths == {"a": ["a"], "b": ["a", "b", "x"], "c": ["a", "b", "c"], "d": ["a", "b", "c", "d"]}


def test_paths_of_bellman_and_ford_where_a_predecessor_is_farther_away():
    graph = nx.DiGraph()
    graph.add_weighted_edges_from([(0, 1, 5), (1, 2, -4), (2, 3, -7), (0, 4, 1)])
    ours, theirs = both("single_source_bellman_ford", graph, 0)
    assert list(ours[0].items()) == [(0, 0), (3, -6), (2, 1), (4, 1), (1, 5)]
    assert ours == theirs
    assert list(ours[1]) == list(ours[0])


def test_all_pairs_solves_rows_when_they_are_asked_for(monkeypatch):
    from sssp_pipeline.networkx_backend import rows

    solved = []
    solve_sources = rows.solve_sources

    def counted(graph, sources, *arguments):
        solved.append(len(sources))
        return solve_sources(graph, sources, *arguments)

    monkeypatch.setattr(rows, "solve_sources", counted)
    graph = nx.path_graph(100)
    pairs = interface.all_pairs_dijkstra_path_length(interface.convert_from_nx(graph))
    assert solved == []
    node, first = next(pairs)
    assert (node, first[99], solved) == (0, 99, [4])
    assert [node for node, _ in pairs] == list(range(1, 100))
    assert solved == [4, 8, 16, 32, 40]


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph])
@pytest.mark.parametrize("name", ["center", "periphery", "diameter", "radius", "eccentricity"])
def test_measures_of_an_empty_graph(name, kind):
    def outcome(call):
        try:
            return call()
        except Exception as error:
            return type(error), str(error)

    graph = kind()
    ours = outcome(lambda: getattr(interface, name)(interface.convert_from_nx(graph)))
    assert ours == outcome(lambda: getattr(nx, name)(graph, backend="networkx"))
