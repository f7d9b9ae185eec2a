"""The mappings that the backend returns behave as the dictionaries of NetworkX."""

from __future__ import annotations

import copy
import json
import pickle

import networkx as nx
import numpy as np
import pytest

from sssp_pipeline.networkx_backend import interface
from sssp_pipeline.networkx_backend.mappings import Lengths, Paths
from sssp_pipeline.networkx_backend.rows import Row

GRAPH = nx.Graph([("a", "b", {"weight": 2.5}), ("b", "c", {"weight": 0.5}), ("a", "c", {"weight": 9.0})])
GRAPH.add_node("far")
LENGTHS = {"a": 0, "b": 2.5, "c": 3.0}
PATHS = {"a": ["a"], "b": ["a", "b"], "c": ["a", "b", "c"]}


@pytest.fixture
def lengths() -> Lengths:
    return interface.single_source_dijkstra(interface.convert_from_nx(GRAPH), "a")[0]


@pytest.fixture
def paths() -> Paths:
    return interface.single_source_dijkstra(interface.convert_from_nx(GRAPH), "a")[1]


def test_a_length_is_read_without_the_order_of_all(lengths, monkeypatch):
    monkeypatch.setattr(Row, "order", property(lambda row: pytest.fail("asked for the order")))
    assert (lengths["c"], lengths.get("b"), len(lengths), "c" in lengths) == (3.0, 2.5, 3, True)


@pytest.mark.parametrize("missing", ["far", "nowhere"])
def test_a_node_that_is_not_reached_is_no_key(lengths, paths, missing):
    for mapping in (lengths, paths):
        assert missing not in mapping
        assert mapping.get(missing) is None
        with pytest.raises(KeyError, match=missing):
            mapping[missing]


def test_a_key_that_cannot_be_hashed_is_an_error_as_in_a_dictionary(lengths):
    for look_up in (lambda: lengths[["a"]], lambda: ["a"] in lengths):
        with pytest.raises(TypeError, match="unhashable"):
            look_up()


@pytest.mark.parametrize(("name", "plain"), [("lengths", LENGTHS), ("paths", PATHS)])
def test_it_is_read_as_a_dictionary(name, plain, request):
    mapping = request.getfixturevalue(name)
    assert mapping == plain
    assert plain == mapping
    assert mapping != {**plain, "c": 0}
    assert not isinstance(mapping, dict)
    assert list(mapping) == list(plain)
    assert list(reversed(mapping)) == list(reversed(plain))
    assert list(mapping.keys()) == list(plain.keys())
    assert list(mapping.values()) == list(plain.values())
    assert list(mapping.items()) == list(plain.items())
    assert mapping.keys() & {"b", "x"} == {"b"}
    assert dict(mapping) == {**mapping} == mapping.copy() == plain
    assert mapping | {"x": 1} == plain | {"x": 1}
    assert {"x": 1} | mapping == {"x": 1} | plain
    assert repr(mapping) == str(mapping) == repr(plain)
    assert json.dumps(dict(mapping)) == json.dumps(plain)


def test_copies_and_pickles_are_dictionaries(lengths):
    for made in (copy.copy(lengths), copy.deepcopy(lengths), pickle.loads(pickle.dumps(lengths))):
        assert type(made) is dict
        assert made == LENGTHS


def test_it_can_be_changed_as_a_dictionary(lengths, paths):
    lengths["far"] = 7
    del lengths["b"]
    assert lengths == {"a": 0, "c": 3.0, "far": 7}
    assert list(lengths.values()) == [0, 3.0, 7]
    assert (len(lengths), "b" in lengths, lengths["far"]) == (3, False, 7)
    with pytest.raises(KeyError, match="b"):
        del lengths["b"]
    for node in paths:  # as `networkx.shortest_path` does
        paths[node] = paths[node][::-1]
    assert paths == {node: path[::-1] for node, path in PATHS.items()}


def test_a_path_that_the_caller_changes_stays_the_path(paths):
    paths["c"].append("x")
    for path in paths.values():
        path.reverse()
    assert paths == PATHS


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


def test_a_row_that_is_kept_does_not_keep_its_batch():
    pairs = interface.all_pairs_dijkstra_path_length(interface.convert_from_nx(nx.path_graph(9)))
    _, first = next(pairs)
    assert isinstance(first._row.distances, np.ndarray)
    assert first._row.distances.base is None
