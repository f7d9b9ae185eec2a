"""Which calls the backend takes, what it refuses and why, and how NetworkX finds it."""

from __future__ import annotations

import copy
import pickle
from decimal import Decimal
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest

from sssp_pipeline.networkx_backend import interface
from sssp_pipeline.networkx_backend.info import FUNCTIONS, NAME, get_info


def backend_graph(*weights, kind=nx.DiGraph):
    graph = nx.path_graph(len(weights) + 1, create_using=kind)
    for (_, _, attributes), weight in zip(graph.edges(data=True), weights, strict=True):
        attributes["weight"] = weight
    return interface.convert_from_nx(graph)


# ---- arguments ----


@pytest.mark.parametrize(
    ("name", "kwargs", "reason"),
    [
        ("single_source_dijkstra", {"cutoff": "3"}, "cutoff is '3', not a number"),
        ("all_pairs_dijkstra", {"cutoff": Decimal(3)}, "cutoff is Decimal('3'), not a number"),
        ("multi_source_dijkstra", {"sources": iter([0])}, "sources is an iterator"),
        ("diameter", {"usebounds": True}, "usebounds asks for NetworkX's algorithm with bounds"),
        ("average_shortest_path_length", {"method": "floyd-warshall"}, "method is 'floyd-warshall'"),
        ("diameter", {"G": 1}, "multiple values for argument 'G'"),
        ("diameter", {"weigth": "km"}, "does not know the argument backend_kwargs={'weigth': 'km'}"),
        ("dijkstra_path", {}, "missing a required argument: 'source'"),
    ],
)
def test_a_call_that_networkx_has_to_run(name, kwargs, reason):
    given = {"source": 0} if name == "single_source_dijkstra" else {}
    assert reason in interface.can_run(name, (nx.path_graph(3),), given | kwargs)
    assert interface.can_run("diameter", ([1],), {}) == "`list` is not a graph of NetworkX"


@pytest.mark.parametrize("cutoff", [2, 2.0, True, Fraction(5, 2), np.float32(2.5), np.int8(2)])
def test_numbers_that_may_be_a_cutoff(cutoff):
    graph = nx.path_graph(5)
    assert interface.can_run("single_source_dijkstra_path_length", (graph, 0), {"cutoff": cutoff}) is True
    for weighted in (graph, nx.Graph((u, v, {"weight": 1.0}) for u, v in graph.edges)):
        ours = interface.single_source_dijkstra_path_length(interface.convert_from_nx(weighted), 0, cutoff)
        assert ours == nx.single_source_dijkstra_path_length(weighted, 0, cutoff, backend="networkx")


@pytest.mark.parametrize("cutoff", [2**53 + 1, 2**53 + 3, 10**400, Fraction(2**54 + 1, 2)])
def test_a_cutoff_that_no_float_holds(cutoff):
    graph = nx.path_graph(3)
    graph[0][1]["weight"], graph[1][2]["weight"] = 2.0**53, 2.0
    ours = interface.single_source_dijkstra_path_length(interface.convert_from_nx(graph), 0, cutoff)
    assert ours == nx.single_source_dijkstra_path_length(graph, 0, cutoff, backend="networkx")


def test_an_argument_that_a_newer_networkx_may_have(monkeypatch):
    def diameter(G, weight=None, *, fast=False, backend=None):
        pass

    interface._signature.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(nx, "diameter", diameter)
        graph = nx.path_graph(3)
        assert interface.can_run("diameter", (graph,), {"fast": False}) is True
        assert interface.diameter(interface.convert_from_nx(graph), weight=None, fast=False) == 2
        refused = interface.can_run("diameter", (graph,), {"fast": True})
        assert refused == "the backend does not know the argument fast=True"
    interface._signature.cache_clear()


# ---- weights ----


@pytest.mark.parametrize(
    ("weights", "reason"),
    [
        ([1, -2], "an edge has the weight -2, and Dijkstra's algorithm takes none below 0"),
        ([1.5, -0.5], "an edge has the weight -0.5, and"),
        ([Decimal(1), 2], "weights are of type Decimal, and only int and float"),
        ([np.float32(0.1), Fraction(1, 2)], "weights are of type Fraction, float32, and"),
        (["3", 2], "weights are of type str, and"),
        ([2**64, 1], "a weight is an integer of more than 64 bits"),
        ([2**62, 1], "integers may add up to 13835058055282163712, which is not exact"),
        ([2**52, 0.5], "integers beside floats may add up to 13510798882111488, which is not exact"),
        ([float("inf"), 1], "a weight is infinite or not a number"),
        ([float("nan"), 1.0], "a weight is infinite or not a number"),
        ([1e308, 1e308], "the longest path may be infinite"),
    ],
)
def test_weights_that_are_left_to_networkx(weights, reason):
    graph = backend_graph(*weights)
    for _ in range(2):  # the second time the reason is known
        with pytest.raises(NotImplementedError, match=reason):
            interface.all_pairs_dijkstra_path_length(graph)
    assert interface.eccentricity(backend_graph(*weights, kind=nx.Graph), 0) == 2  # needs no weights


def test_a_weight_function_is_called_again_at_each_call():
    graph, factor = backend_graph(1, 2), 1
    assert interface.dijkstra_path_length(graph, 0, 2, lambda u, v, found: factor * found["weight"]) == 3
    factor = 10
    assert interface.dijkstra_path_length(graph, 0, 2, lambda u, v, found: factor * found["weight"]) == 30
    with pytest.raises(NotImplementedError, match="the weight of an edge raises KeyError: 'km'"):
        interface.dijkstra_path_length(graph, 0, 1, lambda u, v, found: found["km"])


@pytest.mark.parametrize("weights", [[1, None], [1, np.int64(3)], [True, 2], [np.float64(0.5), 1.0]])
def test_weights_that_are_taken(weights):
    graph = backend_graph(*weights)
    theirs = nx.single_source_dijkstra_path_length(graph.original, 0, backend="networkx")
    assert interface.single_source_dijkstra_path_length(graph, 0) == theirs


def test_rows_before_a_negative_cycle_come_first():
    edges = [(3, 4, {"weight": -2}), (4, 3, {"weight": 1})]
    graph = nx.DiGraph([(0, 1), (1, 2), *edges, (8, 4)])
    for name in ("all_pairs_bellman_ford_path_length", "all_pairs_bellman_ford_path"):
        ours = getattr(interface, name)(interface.convert_from_nx(graph))
        theirs = getattr(nx, name)(graph, backend="networkx")
        for _ in range(3):
            assert next(ours) == next(theirs)
        for pairs in (ours, theirs):
            with pytest.raises(nx.NetworkXUnbounded, match="Negative cycle detected"):
                next(pairs)


# ---- sizes ----


@pytest.mark.parametrize(
    ("name", "kwargs", "least"),
    [
        ("single_source_dijkstra", {"source": 0}, 2000),
        ("multi_source_dijkstra_path", {"sources": [0, 1]}, 2000),
        ("closeness_centrality", {"u": 0}, 2000),
        ("closeness_centrality", {}, 200),
        ("all_pairs_bellman_ford_path", {}, 200),
        ("diameter", {"weight": "weight"}, 200),
    ],
)
def test_small_graphs_are_left_to_networkx(name, kwargs, least):
    kind = "few rows" if least == 2000 else "all rows"
    assert interface.should_run(name, (nx.empty_graph(least),), kwargs) is True
    reason = f"the graph has {least - 1} nodes, and the backend is faster from {least} ({kind})"
    assert interface.should_run(name, (nx.empty_graph(least - 1),), kwargs) == reason
    reason = interface.should_run("diameter", (nx.empty_graph(5000),), {"e": {0: 1}})
    assert reason == "the lengths are given, so there is nothing to solve"


def test_smaller_graphs_are_taken_once_they_are_converted():
    graph = nx.empty_graph(300)
    assert "faster from 2000" in interface.should_run("single_source_dijkstra", (graph, 0), {})
    graph.__networkx_cache__ = {"backends": {NAME: {(False, False): interface.convert_from_nx(graph)}}}
    assert interface.should_run("single_source_dijkstra", (graph, 0), {}) is True
    graph.__networkx_cache__ = None  # no caching
    assert "faster from 2000" in interface.should_run("single_source_dijkstra", (graph, 0), {})


# ---- graphs ----


def test_a_graph_with_its_converted_form_can_be_copied_and_pickled():
    graph = nx.path_graph(4)
    graph.__networkx_cache__["backends"] = {NAME: {(True, True): interface.convert_from_nx(graph)}}
    for made in (copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        converted = made.__networkx_cache__["backends"][NAME][True, True]
        assert interface.dijkstra_path_length(converted, 0, 3) == 3
        assert interface.convert_to_nx(converted) is converted.original
    assert interface.convert_to_nx({1: 2}) == {1: 2}


# ---- entry points ----


def test_the_info_names_functions_that_both_have():
    assert set(get_info()["functions"]) == set(FUNCTIONS)
    assert get_info()["backend_name"] == NAME
    for name in FUNCTIONS:
        assert callable(getattr(interface, name))
        assert getattr(nx, name)
    with pytest.raises(AttributeError, match="no attribute 'pagerank'"):
        interface.pagerank  # noqa: B018


LIGHT = """
import sys
import networkx as nx

heavy = ("numba", "numpy", "cupy", "dask", "distributed", "pyarrow")
assert "sssp_pipeline" in nx.config.backends, nx.config.backends
loaded = [name for name in ("sssp_pipeline.networkx_backend.interface", *heavy) if name in sys.modules]
assert not loaded, loaded

nx.config.backend_priority = ["sssp_pipeline"]
graph = nx.path_graph(30)
assert nx.diameter(graph) == 29 and nx.density(graph) > 0
assert not [name for name in heavy if name in sys.modules], "a small graph loads the solvers"
"""

DISPATCH = """
import logging
import warnings
import networkx as nx

warnings.simplefilter("error")
nx.config.warnings_to_ignore.add("cache")
log = []
handler = logging.Handler()
handler.emit = lambda record: log.append(record.getMessage())
logging.getLogger("networkx").addHandler(handler)
logging.getLogger("networkx").setLevel(logging.DEBUG)
nx.config.backend_priority = ["sssp_pipeline"]

grid = nx.grid_2d_graph(50, 50)
lengths = nx.single_source_dijkstra_path_length(grid, (0, 0))
assert type(lengths) is dict and lengths[49, 49] == 98
assert any("Using backend 'sssp_pipeline'" in line for line in log), log

# A change through a method of the graph is seen.
grid.add_edge((0, 0), (49, 49), weight=0)
assert nx.single_source_dijkstra_path_length(grid, (0, 0))[49, 49] == 0

# Functions of NetworkX that call these get them from the backend.
log.clear()
assert nx.shortest_path_length(grid, (0, 0), weight="weight")[49, 49] == 0
assert any("Using backend 'sssp_pipeline'" in line for line in log), log
assert nx.shortest_path(grid, target=(0, 0), weight="weight")[0, 2] == [(0, 2), (0, 1), (0, 0)]

# What the backend cannot do, NetworkX does.
log.clear()
grid.add_edge((0, 0), (0, 1), weight=-1)
try:
    nx.single_source_dijkstra_path_length(grid, (0, 0))
except ValueError as error:
    assert "Contradictory paths" in str(error)
else:
    raise AssertionError("no error")
assert any("an edge has the weight -1" in line for line in log), log

# Named for one call, it runs on small graphs too, and refuses instead of calling NetworkX.
assert nx.diameter(nx.path_graph(3), backend="sssp_pipeline") == 2
try:
    nx.dijkstra_path(grid, (0, 0), (3, 3), backend="sssp_pipeline")
except NotImplementedError as error:
    assert "an edge has the weight -1" in str(error.__cause__)
"""


@pytest.mark.medium
@pytest.mark.parametrize("program", [LIGHT, DISPATCH], ids=["light", "dispatch"])
def test_networkx_finds_the_backend(program, python):
    done = python("-c", program + "\nassert 'sssp_pipeline : Exact shortest' in nx.dijkstra_path.__doc__")
    assert (done.returncode, done.stderr) == (0, "")
