"""Betweenness of the backend and of NetworkX: values, what is left to NetworkX, and the nodes that are drawn."""

from __future__ import annotations

import random
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from sssp_pipeline.networkx_backend import interface

FUNCTIONS = ("betweenness_centrality", "edge_betweenness_centrality")
SCALES_SAMPLES = tuple(map(int, nx.__version__.split(".")[:2])) >= (3, 6)
needs_scales = pytest.mark.skipif(
    not SCALES_SAMPLES, reason="before 3.6 NetworkX scaled estimates in another way"
)


@pytest.fixture(scope="module")
def fuzz():
    """Give the fuzzer as a module."""
    spec = spec_from_file_location("betweenness_fuzz", Path(__file__).with_name("fuzz.py"))
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def of_backend(name, graph, *args, **kwargs):
    return getattr(interface, name)(interface.convert_from_nx(graph), *args, **kwargs)


def of_networkx(name, graph, *args, **kwargs):
    return getattr(nx, name)(graph, *args, backend="networkx", **kwargs)


def assert_same(ours, theirs):
    assert list(ours) == list(theirs)
    np.testing.assert_allclose(list(ours.values()), list(theirs.values()), rtol=1e-12, atol=1e-15)


@needs_scales
@pytest.mark.parametrize(("first", "end"), [(0, 300), pytest.param(300, 1000, marks=pytest.mark.slow)])
def test_random_graphs(fuzz, first, end, capsys):
    n_failed, ran = fuzz.run(1, range(first, end))
    assert n_failed == 0, capsys.readouterr().out
    assert ran.keys() == fuzz.WEIGHTS.keys()
    assert ran.total() > 0.8 * (end - first)


@needs_scales
def test_the_fuzzer_finds_another_value(fuzz, monkeypatch, capsys):
    monkeypatch.setattr(nx.algorithms.centrality.betweenness, "_accumulate_basic", lambda b, *_: (b, {}))
    assert fuzz.run(1, range(50))[0] > 0
    assert "betweenness_centrality" in capsys.readouterr().out


@pytest.mark.data
@pytest.mark.medium
@pytest.mark.parametrize("weighted", [False, True])
def test_a_social_network(data_file, weighted):
    rng = random.Random(1)
    graph = nx.read_edgelist(data_file("facebook_combined.txt"), nodetype=int)
    for u, v, attributes in graph.edges(data=True):
        attributes["weight"] = (u * 31 + v * 17) % 10 + 1
    weight = "weight" if weighted else None
    some = rng.sample(list(graph), 6)
    call = {"sources": some, "targets": list(graph)[::3], "weight": weight, "normalized": True}
    assert_same(
        of_backend("betweenness_centrality_subset", graph, **call),
        of_networkx("betweenness_centrality_subset", graph, **call),
    )
    if SCALES_SAMPLES:
        for name in FUNCTIONS:
            call = {"k": 6, "seed": 3, "weight": weight}
            assert_same(of_backend(name, graph, **call), of_networkx(name, graph, **call))


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
def test_graphs_with_few_nodes(kind):
    for n_nodes in range(4):
        graph = nx.path_graph(n_nodes, create_using=kind)
        for name in FUNCTIONS:
            for normalized in (False, True):
                call = {"normalized": normalized}
                assert of_backend(name, graph, **call) == of_networkx(name, graph, **call)


def test_a_weight_function():
    def length(u, v, attributes):
        return 1 + (u + 2 * v) % 3

    graph = nx.grid_2d_graph(4, 4)
    graph = nx.convert_node_labels_to_integers(graph)
    for name in FUNCTIONS:
        assert_same(of_backend(name, graph, weight=length), of_networkx(name, graph, weight=length))


# ---- what is left to NetworkX ----


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ({"k": 0}, "k is 0, and the graph has 4 nodes"),
        ({"k": 5}, "k is 5, and the graph has 4 nodes"),
        ({"k": 2.0}, "k is 2.0, and the graph has 4 nodes"),
        ({"weight": "zero"}, "the weight of an edge is 0, and then NetworkX does not count every path"),
        ({"weight": "hidden"}, "the weight of an edge is None, which is an error in NetworkX"),
        ({"weight": "text"}, "weights are of type str"),
        ({"weight": "lost"}, "the shortest paths of a node cannot be counted exactly"),
    ],
)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_calls_that_networkx_has_to_run(name, call, reason):
    graph = nx.path_graph(4)
    graph[0][1].update(zero=0, hidden=None, text="3", lost=1.0)
    graph[1][2].update(lost=1e-30)
    with pytest.raises(NotImplementedError, match=reason):
        of_backend(name, graph, **call)


def test_a_source_that_is_not_in_the_graph():
    with pytest.raises(NotImplementedError, match="the source 9 is not in the graph"):
        of_backend("betweenness_centrality_subset", nx.path_graph(4), [9], [0])
    theirs = of_networkx("betweenness_centrality_subset", nx.path_graph(4), [0], [3, 9])
    assert of_backend("betweenness_centrality_subset", nx.path_graph(4), [0], [3, 9]) == theirs


def test_iterators_can_be_read_only_once():
    for sources, targets, name in ((iter([0]), [1], "sources"), ([0], iter([1]), "targets")):
        refused = interface.can_run("betweenness_centrality_subset", (nx.path_graph(3), sources, targets), {})
        assert refused == f"{name} is an iterator, which can be read only once"


# ---- the nodes that are drawn ----


@needs_scales
@pytest.mark.parametrize("seed", [7, random.Random(7)])
def test_the_seed_draws_the_same_nodes_and_is_left_as_networkx_leaves_it(seed):
    graph = nx.gnm_random_graph(30, 60, seed=1)
    other = random.Random(7) if isinstance(seed, random.Random) else seed
    for _ in range(3):
        for name in FUNCTIONS:
            assert_same(of_backend(name, graph, k=5, seed=seed), of_networkx(name, graph, k=5, seed=other))


@needs_scales
@pytest.mark.parametrize("seed", [np.random.RandomState(7), np.random.default_rng(7)])
def test_a_generator_of_numpy_is_left_to_networkx(seed):
    with pytest.raises(
        NotImplementedError, match=f"seed is of type {type(seed).__name__}, and only Python's own"
    ):
        of_backend("betweenness_centrality", nx.path_graph(4), k=2, seed=seed)


@needs_scales
def test_a_call_that_is_left_to_networkx_has_drawn_nothing():
    graph = nx.path_graph(4)
    graph[0][1]["weight"], graph[1][2]["weight"] = 1.0, 1e-30
    seed = random.Random(3)
    with pytest.raises(NotImplementedError, match="cannot be counted exactly"):
        of_backend("betweenness_centrality", graph, k=3, weight="weight", seed=seed)
    assert seed.getstate() == random.Random(3).getstate()


@needs_scales
def test_networkx_dispatches(python, tmp_path):
    (tmp_path / "program.py").write_text(
        "import networkx as nx\n"
        "nx.config.backend_priority = ['sssp_pipeline']\n"
        "nx.config.warnings_to_ignore = {'cache'}\n"
        "grid = nx.grid_2d_graph(16, 16)\n"
        "for name in ('betweenness_centrality', 'edge_betweenness_centrality'):\n"
        "    for call in ({}, {'k': 20, 'seed': 5}):\n"
        "        theirs = getattr(nx, name)(grid, **call, backend='networkx')\n"
        "        ours = getattr(nx, name)(grid, **call, backend='sssp_pipeline')\n"
        "        assert max(abs(ours[key] - theirs[key]) for key in theirs) < 1e-14, name\n"
        "edges = nx.edge_betweenness_centrality_subset(grid, [(0, 0)], [(1, 1)])\n"
        "print(len(edges), sum(edges.values()))\n"
    )
    done = python(str(tmp_path / "program.py"))
    assert done.stdout == "480 1.0\n", done.stderr
