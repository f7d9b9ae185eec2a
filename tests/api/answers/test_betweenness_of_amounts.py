"""`betweenness` of Python with targets, amounts and a decay: NetworkX and a loop over all pairs are the oracles."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import sssp_pipeline as sp

ROADS = pd.DataFrame(
    {"from": ["Ayr", "Ayr", "Bude", "Cork"], "to": ["Bude", "Cork", "Cork", "Deal"], "minutes": [4, 7, 3, 5]}
)


def random_graph(rng: np.random.Generator, kind: type[nx.Graph]) -> nx.Graph:
    """Return a graph with ties and vertices that are not reached."""
    n_vertices = int(rng.integers(2, 12))
    graph = kind()
    graph.add_nodes_from(range(n_vertices))
    ends, weights = rng.integers(0, n_vertices, (30, 2)).tolist(), rng.integers(1, 4, 30).tolist()
    graph.add_weighted_edges_from((u, v, w) for (u, v), w in zip(ends, weights, strict=True) if u != v)
    return graph


def by_pairs(graph, targets, of_source, of_target, decay, cutoff, endpoints):
    """Return what passes each vertex and each edge: a loop over all pairs, and over all shortest paths of each."""
    of_vertices, of_edges = dict.fromkeys(graph, 0.0), {}
    for source in graph:
        for target, length in nx.single_source_dijkstra_path_length(graph, source, cutoff).items():
            if target == source or target not in targets:
                continue
            paths = list(nx.all_shortest_paths(graph, source, target, "weight"))
            share = of_source[source] * of_target[target] * math.exp(-decay * length) / len(paths)
            for path in paths:
                for vertex in path if endpoints else path[1:-1]:
                    of_vertices[vertex] += share
                for edge in nx.utils.pairwise(path):
                    of_edges[edge] = of_edges.get(edge, 0.0) + share
    return of_vertices, of_edges


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph])
def test_a_loop_over_all_pairs_gives_the_same_values(kind):
    rng = np.random.default_rng(1)
    for endpoints in (False, True) * 4:
        graph = random_graph(rng, kind)
        of_source = rng.integers(0, 3, len(graph))
        of_target = rng.random(len(graph)) * 1000
        targets = rng.choice(len(graph), len(graph) // 2 + 1, replace=False).tolist()
        decay, cutoff = float(rng.choice([0.2, 2])), rng.choice([None, 3])
        expected = by_pairs(graph, targets, of_source, of_target, decay, cutoff, endpoints)
        call = {
            "source_amounts": {"vertex": list(graph), "people": of_source},
            "target_amounts": pd.DataFrame({"vertex": list(graph), "jobs": of_target}),
        }
        options = {"targets": targets, "decay": decay, "cutoff": cutoff}
        found = sp.betweenness(graph, endpoints=endpoints, **call, **options)
        np.testing.assert_allclose(found["betweenness"], list(expected[0].values()), rtol=1e-13, atol=1e-15)
        for row in sp.betweenness(graph, edges=True, **call, **options).to_pylist():
            passing = expected[1].get((row["source"], row["target"]), 0.0)
            assert row["betweenness"] == pytest.approx(passing, rel=1e-13, abs=1e-15)


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph])
def test_targets_give_the_values_of_networkx(kind):
    rng = np.random.default_rng(2)
    for _ in range(10):
        graph = random_graph(rng, kind)
        sources, targets = (
            rng.choice(len(graph), len(graph) // 2 + 1, replace=False).tolist() for _ in range(2)
        )
        theirs = nx.betweenness_centrality_subset(
            graph, sources, targets, weight="weight", backend="networkx"
        )
        found = sp.betweenness(graph, sources, targets=targets)["betweenness"].to_numpy()
        each_way = 1 if graph.is_directed() else 2
        np.testing.assert_allclose(found, each_way * np.array(list(theirs.values())), rtol=1e-13, atol=1e-15)


def test_an_amount_of_one_for_each_vertex_changes_nothing():
    graph = nx.gnm_random_graph(30, 60, seed=1)
    ones = {"vertex": list(graph), "one": [1] * 30}
    found = sp.betweenness(graph, source_amounts=ones, target_amounts=ones)
    np.testing.assert_allclose(found["betweenness"], sp.betweenness(graph)["betweenness"], rtol=1e-14)


def test_a_decay_is_in_the_unit_of_the_input(tmp_path):
    """The store has integers, which are ten times the minutes."""
    ROADS.assign(minutes=ROADS["minutes"] / 10).to_csv(tmp_path / "roads.csv", index=False)
    store = sp.ingest(str(tmp_path / "roads.csv"), str(tmp_path / "store"))
    found = sp.betweenness(store, "Ayr", decay=2)["betweenness"].to_pylist()
    expected = [0, (math.exp(-1.4) + math.exp(-2.4)) / 2, math.exp(-2.4), 0]
    assert found == pytest.approx(expected, rel=1e-14)


def test_the_estimate_and_its_error_are_those_of_the_sampled_sources():
    graph, rng = nx.gnm_random_graph(50, 90, seed=3), np.random.default_rng(4)
    call = {"source_amounts": {"vertex": list(graph), "x": rng.random(50) * 1e6}, "decay": 0.1}
    found = sp.betweenness(graph, sample=10, seed=5, **call)
    drawn = np.random.default_rng(5).choice(50, 10, replace=False)
    each = np.array([sp.betweenness(graph, int(source), **call)["betweenness"] for source in drawn])
    np.testing.assert_allclose(found["betweenness"], 50 * each.mean(axis=0), rtol=1e-12)
    errors = 50 * np.sqrt(each.var(axis=0, ddof=1) / 10 * (1 - 10 / 50))
    np.testing.assert_allclose(found["standard_error"], errors, rtol=1e-6)


# ---- what is refused ----

AMOUNTS = {"vertex": ["Ayr", "Bude"], "people": [3, 2.5]}


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ({"decay": 0}, "`decay` is 0", "`decay` is a number above 0, such as 0.002"),
        ({"decay": math.nan}, "`decay` is nan", "`decay` is a number above 0"),
        ({"decay": "1"}, "`decay` is '1'", "`decay` is a number above 0"),
        ({"source_amounts": [3]}, "`source_amounts` is of type list, wanted a table", "give a dictionary"),
        (
            {"target_amounts": {**AMOUNTS, "jobs": [1, 2]}},
            "`target_amounts` has the columns `people`, `jobs` beside `vertex`",
            "leave one of them",
        ),
        (
            {"target_amounts": {"vertex": ["Ayr", "Bude"], "people": [3, -2]}},
            "`target_amounts`: vertex `Bude` has the amount -2",
            "an amount is a number of 0 or more",
        ),
        (
            {"source_amounts": {"vertex": ["Ayr"], "people": [-0.5]}},
            "`source_amounts`: vertex `Ayr` has the amount -0.5",
            "an amount is a number of 0 or more",
        ),
        (
            {"source_amounts": {"vertex": ["Ayr"], "people": [math.nan]}},
            "column `people` of `source_amounts` has no finite number for each vertex",
            "give a number for each vertex",
        ),
        (
            {"target_amounts": {"vertex": [], "people": []}},
            "`target_amounts`: no vertex has an amount above 0",
            "without amounts, no path counts: name some vertices",
        ),
        (
            {"source_amounts": {"vertex": ["Ely"], "people": [1]}},
            "vertex `Ely` is not in the graph",
            "",
        ),
        (
            {"source_amounts": AMOUNTS, "normalized": True},
            "`normalized` divides by the pairs of all vertices, and not each of them counts as 1",
            "leave out `normalized`",
        ),
    ],
)
def test_arguments_that_cannot_be_used(options, message, hint, error_of):
    error = error_of(sp.betweenness, ROADS, **options)
    assert error.message == message
    assert error.hint.startswith(hint)
