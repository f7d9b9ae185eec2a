"""Every function of the backend beside NetworkX's own: values, their types, the order of mappings, and errors."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise

import networkx as nx
import pytest

from sssp_pipeline.networkx_backend import interface
from sssp_pipeline.networkx_backend.info import FUNCTIONS

MEASURES = FUNCTIONS[FUNCTIONS.index("eccentricity") :]
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
        return (), {
            "closeness_centrality": {
                "u": rng.choice([None, source]),
                "distance": weight,
                "wf_improved": shift > 1,
            },
            "harmonic_centrality": {
                "nbunch": some,
                "distance": weight,
                "sources": rng.choice([None, nodes[:3]]),
            },
            "average_shortest_path_length": {
                "weight": weight,
                "method": rng.choice([None, "unweighted", "dijkstra"]),
            },
            "eccentricity": {"v": some, "sp": lengths, "weight": weight},
        }.get(name, {"e": eccentricities, "weight": weight})
    return (source, target), {"weight": weight}


def plain(result):
    """Return a result with mappings as lists of pairs, so that their order counts, and with the types of numbers."""
    if isinstance(result, Mapping | Iterator):
        pairs = result.items() if isinstance(result, Mapping) else result
        return [(plain(key), plain(value)) for key, value in pairs]
    if isinstance(result, tuple | list):
        return [plain(value) for value in result]
    return type(result).__name__, result


def outcome(function, *args, **kwargs):
    try:
        return plain(function(*args, **kwargs))
    except NotImplementedError:
        return None
    except Exception as error:
        return type(error).__name__, str(error)


def of_backend(name: str, graph: nx.Graph, *args, **kwargs):
    return getattr(interface, name)(interface.convert_from_nx(graph), *args, **kwargs)


@pytest.mark.skipif(
    tuple(map(int, nx.__version__.split(".")[:2])) < (3, 6),
    reason="before 3.6 NetworkX had another order of paths and of the sums of harmonic centrality",
)
@pytest.mark.parametrize("name", [name for name in FUNCTIONS if "bellman" not in name])
def test_the_same_as_networkx(name):
    rng = random.Random(name)
    ran = Counter()
    for _ in range(150):
        kind = rng.choice(list(WEIGHTS))
        graph = random_graph(rng, kind)
        args, kwargs = random_call(name, graph, rng)
        theirs = outcome(getattr(nx, name), graph, *args, backend="networkx", **kwargs)
        assert interface.can_run(name, (graph, *args), kwargs) is True
        ours = outcome(of_backend, name, graph, *args, **kwargs)
        ran[kind] += ours is not None
        if ours is None:
            assert kind in ("hidden", "negative"), f"{kwargs} on {list(graph.edges(data=True))}"
        else:
            assert ours == theirs, f"{args} {kwargs} on {graph} {list(graph.edges(data=True))}"
    assert sum(ran.values()) > 110
    assert ran.keys() >= WEIGHTS.keys() - {"negative"}


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if "bellman" in name])
def test_the_same_lengths_as_bellman_ford_of_networkx(name):
    rng = random.Random(name)
    ran = Counter()
    for _ in range(150):
        kind = rng.choice(list(WEIGHTS))
        graph = random_graph(rng, kind)
        args, kwargs = random_call(name, graph, rng)
        theirs = outcome(getattr(nx, name), graph, *args, backend="networkx", **kwargs)
        ours = outcome(of_backend, name, graph, *args, **kwargs)
        ran[kind] += ours is not None
        if ours is None:
            assert kind == "hidden"
            continue
        weight = kwargs["weight"]
        assert without_ties(ours, graph, weight) == without_ties(theirs, graph, weight), (
            f"{args} {kwargs} {kind}"
        )
    assert sum(ran.values()) > 110


def without_ties(result, graph: nx.Graph, weight):
    """Return a result of `plain` with mappings sorted, and with the ends and the length in place of a path."""
    if (
        isinstance(result, list)
        and result
        and all(isinstance(part, tuple) and part[0] in ("int", "str") for part in result)
    ):
        path = [node for _, node in result]
        if len(path) > 1 and all(graph.has_edge(u, v) for u, v in pairwise(path)):
            return path[0], path[-1], sum(least_weight(graph, u, v, weight) for u, v in pairwise(path))
        return result
    if isinstance(result, list):
        parts = [without_ties(part, graph, weight) for part in result]
        return parts if any(not isinstance(part, tuple) for part in result) else sorted(parts, key=repr)
    if isinstance(result, tuple):
        return tuple(without_ties(part, graph, weight) for part in result)
    return result


def least_weight(graph: nx.Graph, u, v, weight):
    found = graph[u][v]
    if callable(weight):
        return weight(u, v, found)
    return min(edge.get(weight, 1) for edge in (found.values() if graph.is_multigraph() else [found]))


def test_integers_beside_floats_give_floats_of_the_same_value():
    graph = nx.path_graph(4)
    graph[1][2]["weight"] = 0.1
    theirs = nx.single_source_dijkstra_path_length(graph, 0, backend="networkx")
    ours = of_backend("single_source_dijkstra_path_length", graph, 0)
    assert plain(theirs) == [
        (("int", 0), ("int", 0)),
        (("int", 1), ("int", 1)),
        (("int", 2), ("float", 1.1)),
        (("int", 3), ("float", 2.1)),
    ]
    assert ours == theirs
    assert [type(length) for length in ours.values()] == [int, float, float, float]


@pytest.mark.parametrize(
    "name", ["closeness_centrality", "harmonic_centrality", "average_shortest_path_length", "diameter"]
)
@pytest.mark.parametrize("kind", ["whole", "decimal"])
def test_sums_have_the_same_bits(name, kind):
    rng = random.Random(kind)
    graph = nx.random_geometric_graph(150, 0.2, seed=1)
    assert nx.is_connected(graph)
    for _, _, attributes in graph.edges(data=True):
        attributes["weight"] = rng.randint(1, 10**6) if kind == "whole" else rng.random()
    weight = {"distance" if "centrality" in name else "weight": "weight"}
    assert of_backend(name, graph, **weight) == getattr(nx, name)(graph, **weight, backend="networkx")


@pytest.mark.data
@pytest.mark.medium
@pytest.mark.parametrize("name", ["facebook_combined.txt", "wiki-Vote.txt"])
def test_real_graphs(name, data_file):
    directed = name == "wiki-Vote.txt"
    graph = nx.read_edgelist(data_file(name), create_using=nx.DiGraph if directed else nx.Graph, nodetype=int)
    rng = random.Random(1)
    for _, _, attributes in graph.edges(data=True):
        attributes["weight"] = rng.random()
    source = next(iter(graph))
    for function in ("single_source_dijkstra", "single_source_dijkstra_path_length"):
        ours = of_backend(function, graph, source)
        assert plain(ours) == plain(getattr(nx, function)(graph, source, backend="networkx"))
    some = list(graph)[::500]
    for weight in (None, "weight"):
        theirs = nx.harmonic_centrality(graph, nbunch=some, distance=weight, backend="networkx")
        assert of_backend("harmonic_centrality", graph, nbunch=some, distance=weight) == theirs
        for node in some:
            closeness = nx.closeness_centrality(graph, node, distance=weight, backend="networkx")
            assert of_backend("closeness_centrality", graph, node, distance=weight) == closeness


def test_an_average_by_bellman_ford_is_rounded_in_another_order():
    graph = nx.random_geometric_graph(60, 0.3, seed=1)
    for u, v, attributes in graph.edges(data=True):
        attributes["weight"] = 1 / (u + 2 * v)
    call = {"weight": "weight", "method": "bellman-ford"}
    theirs = nx.average_shortest_path_length(graph, **call, backend="networkx")
    assert of_backend("average_shortest_path_length", graph, **call) == pytest.approx(theirs, rel=1e-12)
