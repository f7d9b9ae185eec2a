"""Results are the dictionaries, lists and generators that NetworkX returns, and programs use them as such."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Iterator

import networkx as nx
import pandas as pd
import pytest

from sssp_pipeline.networkx_backend import interface
from sssp_pipeline.networkx_backend.info import FUNCTIONS

#: No two paths have the same length.
GRAPH = nx.Graph(
    [("a", "b", {"weight": 2.5}), ("b", "c", {"weight": 0.5}), ("a", "c", {"weight": 9.0}), ("c", "d")]
)
GRAPH["c"]["d"]["weight"] = 4.0
LENGTHS = {"a": 0, "b": 2.5, "c": 3.0, "d": 7.0}


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


@pytest.fixture
def lengths():
    return both("single_source_dijkstra_path_length", GRAPH, "a")[0]


def test_a_table_of_all_pairs_has_distances():
    graph = nx.connected_watts_strogatz_graph(60, 4, 0.3, seed=1)
    ours, theirs = both("all_pairs_dijkstra_path_length", graph)
    table = pd.DataFrame(dict(ours))
    pd.testing.assert_frame_equal(table, pd.DataFrame(dict(theirs)))
    assert table.loc[5, 40] == nx.dijkstra_path_length(graph, 40, 5, backend="networkx")


def test_a_table_of_all_pairs_that_do_not_all_reach_each_other():
    graph = nx.Graph([(0, 1), (1, 2), (3, 4)])
    ours, theirs = both("all_pairs_dijkstra_path_length", graph)
    pd.testing.assert_frame_equal(pd.DataFrame(dict(ours)), pd.DataFrame(dict(theirs)))


@pytest.mark.parametrize(
    "use",
    [
        json.dumps,
        lambda found: json.dumps({"lengths": found}, indent=1),
        lambda found: pd.json_normalize(found).to_dict(),
        lambda found: pd.DataFrame({"d": found}).to_dict(),
        lambda found: pd.Series(found).to_dict(),
        lambda found: isinstance(found, dict),
        lambda found: (dict(found), {**found}, found.copy(), copy.copy(found), copy.deepcopy(found)),
        lambda found: pickle.loads(pickle.dumps(found)),
        lambda found: (list(found), list(reversed(found)), list(found.items()), list(found.values())),
        lambda found: (found | {"x": 1}, {"x": 1} | found, {"x": 1, **found}),
        lambda found: (repr(found), str(found), f"{found}"),
        lambda found: (found == LENGTHS, LENGTHS == found, found != {}),  # noqa: SIM300 - both directions
        lambda found: (found.setdefault("a", 9), found.pop("b"), found.update(z=1), found),
    ],
)
def test_programs_use_it_as_the_dictionary_of_networkx(use):
    for name in ("single_source_dijkstra_path_length", "single_source_bellman_ford_path"):
        ours, theirs = both(name, GRAPH, "a")
        assert use(ours) == use(theirs)


def test_a_mapping_pattern_matches(lengths):
    match lengths:
        case {"c": found}:
            assert found == 3.0
        case _:
            pytest.fail("no dictionary")


def test_a_node_that_is_not_reached_is_no_key():
    graph = nx.Graph([("a", "b")])
    graph.add_node("far")
    for found in interface.single_source_dijkstra(interface.convert_from_nx(graph), "a"):
        assert list(found) == ["a", "b"]


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
