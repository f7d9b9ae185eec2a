"""Every function of the backend and NetworkX's own: values, their types, the order of mappings, and errors."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise

import networkx as nx
import pytest

from sssp_pipeline.networkx_backend import interface, rows
from sssp_pipeline.networkx_backend.info import FUNCTIONS

NETWORKX = tuple(map(int, nx.__version__.split(".")[:2]))
#: `test_betweenness.py` has betweenness, whose values are rounded differently.
EXACT = tuple(name for name in FUNCTIONS if "betweenness" not in name)
MEASURES = EXACT[EXACT.index("eccentricity") :]
CLASSES = (nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph)
CUTOFFS = (None, None, 2, 2.5, 0, -1, 0.3, float("inf"), float("nan"))
#: Functions that return the weight of an edge.
WEIGHTS = {
    "int": lambda rng: rng.randint(1, 5),
    "float": lambda rng: rng.choice([0.1, 0.2, 0.3, 0.7, 1.0]),
    "zero": lambda rng: rng.choice([0, 0, 1]),
    "whole floats": lambda rng: float(rng.randint(0, 3)),
    "hidden": lambda rng: rng.choice([None, 1, 2]),
    "64 bits": lambda rng: rng.randint(1, 2**45),
    "negative": lambda rng: rng.randint(-1, 9),
    "tiny": lambda rng: rng.choice([1e-30, 1.0, 3.0]),
}
#: Here every edge has a weight. An edge without one has the integer 1, and sums of both have other types in NetworkX.
DECIMAL = ("float", "whole floats", "tiny")


def random_graph(rng: random.Random, kind: str) -> nx.Graph:
    graph = rng.choice(CLASSES)()
    nodes = rng.sample(range(14), rng.randint(1, 14))
    if rng.random() < 0.5:
        nodes = [f"n{node}" for node in nodes]
    graph.add_nodes_from(nodes)
    for _ in range(rng.randint(0, 4 * len(nodes))):
        weight = {"weight": WEIGHTS[kind](rng)} if kind in DECIMAL or rng.random() < 0.95 else {}
        graph.add_edge(rng.choice(nodes), rng.choice(nodes), **weight)
    return graph


def directed_weight(u, v, _attributes) -> int:
    return (sum(str(u).encode()) + 2 * sum(str(v).encode())) % 5


def random_call(name: str, graph: nx.Graph, rng: random.Random) -> tuple[tuple, dict]:
    """Return positional and keyword arguments for a function, some of them wrong."""
    nodes = list(graph)
    shift = rng.randint(0, 3)
    weight = rng.choice(["weight", "weight", "weight", None, directed_weight])
    source, target = rng.choice([*nodes, "absent"]), rng.choice([*nodes, "gone"])
    cutoff = {"cutoff": rng.choice(CUTOFFS)} if "dijkstra" in name else {}
    if name.startswith("multi_source"):
        aim = {"target": rng.choice([None, target])} if name == "multi_source_dijkstra" else {}
        return (rng.sample(nodes, rng.randint(0, len(nodes))),), {"weight": weight, **cutoff, **aim}
    if name.startswith("single_source"):
        aim = {} if "path" in name else {"target": rng.choice([None, target])}
        return (source,), {"weight": weight, **cutoff, **aim}
    if name.startswith("all_pairs"):
        return (), {"weight": weight, **cutoff}
    if name in MEASURES:
        some = rng.choice([None, source, nodes[:2], []])
        lengths = rng.choice([None, None, dict(nx.all_pairs_shortest_path_length(graph)), 3])
        eccentricities = rng.choice([None, None, dict(zip(nodes, range(len(nodes)), strict=True))])
        one, starts = rng.choice([None, source]), rng.choice([None, nodes[:3]])
        method = rng.choice([None, "unweighted", "dijkstra"])
        return (), {
            "closeness_centrality": {"u": one, "distance": weight, "wf_improved": shift > 1},
            "harmonic_centrality": {"nbunch": some, "distance": weight, "sources": starts},
            "average_shortest_path_length": {"weight": weight, "method": method},
            "eccentricity": {"v": some, "sp": lengths, "weight": weight},
        }.get(name, {"e": eccentricities, "weight": weight})
    return (source, target), {"weight": weight}


def plain(result):
    """Return a result as pairs of a type and a value, with a mapping as a list of pairs, so that its order counts."""
    found = result
    if isinstance(result, Mapping | Iterator):
        pairs = result.items() if isinstance(result, Mapping) else result
        found = [(plain(key), plain(value)) for key, value in pairs]
    elif isinstance(result, tuple | list):
        found = [plain(value) for value in result]
    return type(result), found


def outcome(function, *args, **kwargs):
    try:
        return plain(function(*args, **kwargs))
    except NotImplementedError:
        return None
    except Exception as error:
        return type(error), str(error)


def of_backend(name: str, graph: nx.Graph, *args, **kwargs):
    return getattr(interface, name)(interface.convert_from_nx(graph), *args, **kwargs)


def of_networkx(name: str, graph: nx.Graph, *args, **kwargs):
    return getattr(nx, name)(graph, *args, backend="networkx", **kwargs)


@pytest.mark.parametrize("n_calls", [50, pytest.param(300, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", EXACT)
def test_the_same_as_networkx(name, n_calls):
    """Bellman and Ford's algorithm may find other paths of the same length."""
    by_bellman_ford = "bellman" in name
    if not by_bellman_ford and NETWORKX < (3, 6):
        pytest.skip("before 3.6 NetworkX had another order of paths and of the sums of harmonic centrality")
    rng = random.Random(name)
    ran = Counter()
    for _ in range(n_calls):
        kind = rng.choice(list(WEIGHTS))
        graph = random_graph(rng, kind)
        args, kwargs = random_call(name, graph, rng)
        call = f"{args} {kwargs} on {graph} {list(graph.edges(data=True))}"
        theirs = outcome(of_networkx, name, graph, *args, **kwargs)
        assert interface.can_run(name, (graph, *args), kwargs) is True
        ours = outcome(of_backend, name, graph, *args, **kwargs)
        ran[kind] += ours is not None
        if ours is None:
            assert kind in ("hidden", "negative")[: 2 - by_bellman_ford], call
        elif by_bellman_ford:
            weight = kwargs["weight"]
            assert without_ties(ours, graph, weight) == without_ties(theirs, graph, weight), call
        else:
            assert ours == theirs, call
    assert sum(ran.values()) > 0.7 * n_calls
    assert ran.keys() >= WEIGHTS.keys() - {"negative"}


def without_ties(result, graph: nx.Graph, weight):
    """Return a result of `plain` with mappings sorted, and with the ends and the length in place of a path."""
    kind, found = result
    if kind is list:
        path = [node for _, node in found]
        length = sum(least_weight(graph, u, v, weight) for u, v in pairwise(path))
        return path[0], path[-1], length
    if kind is tuple:
        return [without_ties(part, graph, weight) for part in found]
    if isinstance(found, list):
        return kind, sorted(((key, without_ties(value, graph, weight)) for key, value in found), key=repr)
    return result


def least_weight(graph: nx.Graph, u, v, weight):
    found = graph[u][v]
    if callable(weight):
        return weight(u, v, found)
    return min(edge.get(weight, 1) for edge in (found.values() if graph.is_multigraph() else [found]))


def test_integers_in_addition_to_floats_give_floats_of_the_same_value():
    graph = nx.path_graph(4)
    graph[1][2]["weight"] = 0.1
    ours, theirs = (
        call("single_source_dijkstra_path_length", graph, 0) for call in (of_backend, of_networkx)
    )
    assert ours == theirs == {0: 0, 1: 1, 2: 1.1, 3: 2.1}
    assert list(map(type, theirs.values())) == [int, int, float, float]
    assert list(map(type, ours.values())) == [int, float, float, float]


@pytest.mark.parametrize(
    "name", ["closeness_centrality", "harmonic_centrality", "average_shortest_path_length", "diameter"]
)
@pytest.mark.parametrize("kind", ["none", "whole", "decimal"])
def test_sums_have_the_same_bits(name, kind):
    rng = random.Random(kind)
    graph = nx.random_geometric_graph(150, 0.2, seed=1)
    assert nx.is_connected(graph)
    for _, _, attributes in graph.edges(data=True):
        attributes["weight"] = rng.randint(1, 10**6) if kind == "whole" else rng.random()
    weight = {"distance" if "centrality" in name else "weight": None if kind == "none" else "weight"}
    assert of_backend(name, graph, **weight) == of_networkx(name, graph, **weight)


@pytest.mark.data
@pytest.mark.medium
@pytest.mark.parametrize("name", ["facebook_combined.txt", "wiki-Vote.txt"])
def test_real_graphs(name, data_file):
    directed = name == "wiki-Vote.txt"
    graph = nx.read_edgelist(data_file(name), create_using=nx.DiGraph if directed else nx.Graph, nodetype=int)
    rng = random.Random(1)
    for _, _, attributes in graph.edges(data=True):
        attributes["weight"] = rng.random()
    source, some = next(iter(graph)), list(graph)[::2000]
    for function in ("single_source_dijkstra", "single_source_dijkstra_path_length"):
        assert plain(of_backend(function, graph, source)) == plain(of_networkx(function, graph, source))
    for weight in (None, "weight"):
        call = {"nbunch": some, "distance": weight}
        theirs = of_networkx("harmonic_centrality", graph, **call)
        assert of_backend("harmonic_centrality", graph, **call) == theirs
        for node in some:
            closeness = of_networkx("closeness_centrality", graph, node, distance=weight)
            assert of_backend("closeness_centrality", graph, node, distance=weight) == closeness


def test_an_average_by_bellman_ford_is_rounded_in_another_order():
    graph = nx.random_geometric_graph(60, 0.3, seed=1)
    for u, v, attributes in graph.edges(data=True):
        attributes["weight"] = 1 / (u + 2 * v)
    call = {"weight": "weight", "method": "bellman-ford"}
    theirs = of_networkx("average_shortest_path_length", graph, **call)
    assert of_backend("average_shortest_path_length", graph, **call) == pytest.approx(theirs, rel=1e-12)


def test_a_path_that_the_caller_changes_changes_no_other_path():
    paths = of_backend("single_source_dijkstra_path", nx.path_graph(3), 0)
    paths[1].append("x")
    assert paths == {0: [0], 1: [0, 1, "x"], 2: [0, 1, 2]}


def test_paths_of_bellman_and_ford_where_a_predecessor_is_farther_away():
    graph = nx.DiGraph()
    graph.add_weighted_edges_from([(0, 1, 5), (1, 2, -4), (2, 3, -7), (0, 4, 1)])
    lengths, paths = of_backend("single_source_bellman_ford", graph, 0)
    assert list(lengths.items()) == [(0, 0), (3, -6), (2, 1), (4, 1), (1, 5)]
    assert (lengths, paths) == of_networkx("single_source_bellman_ford", graph, 0)
    assert list(paths) == list(lengths)


def test_all_pairs_solves_rows_when_they_are_asked_for(monkeypatch):
    solved, solve_sources = [], rows.solve_sources

    def counted(graph, sources, *arguments, **more):
        solved.append(len(sources))
        return solve_sources(graph, sources, *arguments, **more)

    monkeypatch.setattr(rows, "solve_sources", counted)
    pairs = of_backend("all_pairs_dijkstra_path_length", nx.path_graph(100))
    assert solved == []
    node, first = next(pairs)
    assert (node, first[99], solved) == (0, 99, [4])
    assert [node for node, _ in pairs] == list(range(1, 100))
    assert solved == [4, 8, 16, 32, 40]


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph])
@pytest.mark.parametrize("name", ["center", "periphery", "diameter", "radius", "eccentricity"])
def test_measures_of_an_empty_graph(name, kind):
    assert outcome(of_backend, name, kind()) == outcome(of_networkx, name, kind())


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
def test_a_weight_that_is_changed_in_its_dictionary_counts_at_the_next_call(kind):
    graph = nx.path_graph(30, kind)
    nx.set_edge_attributes(graph, 1, "weight")
    attributes = list(graph.edges(data=True))[7][2]
    kept = interface.convert_from_nx(graph)  # as NetworkX keeps it
    for changed in (1, 100, 1.0, None, 0.5, "absent"):
        attributes["weight"] = changed
        if changed == "absent":
            del attributes["weight"]
        for name, *arguments in (("dijkstra_path_length", 0, 29), ("closeness_centrality", 29, "weight")):
            ours = outcome(getattr(interface, name), kept, *arguments)
            assert ours == outcome(of_networkx, name, graph, *arguments)
    attributes["weight"] = 40
    assert interface.bellman_ford_path_length(kept, 0, 29) == 68


def test_a_view_has_the_changes_of_its_graph():
    graph = nx.path_graph(30)
    views = [graph.subgraph(range(25)), nx.subgraph_view(graph), graph.to_directed(as_view=True)]
    kept = [interface.convert_from_nx(view) for view in views]
    for length in (24, 1):
        assert [interface.dijkstra_path_length(view, 0, 24) for view in kept] == 3 * [length]
        graph.add_edge(0, 24)
