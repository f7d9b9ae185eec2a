"""`betweenness` of the Python API: NetworkX and igraph are the oracles."""

from __future__ import annotations

import igraph
import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as ss

import sssp_pipeline as sp
from sssp_pipeline.api.calls import along_paths
from sssp_pipeline.kernels.answers.reductions import Reductions
from sssp_pipeline.kernels.contract.path_sums_asked import PathSumsAsked

ROADS = pd.DataFrame(
    {"from": ["Ayr", "Ayr", "Bude", "Cork"], "to": ["Bude", "Cork", "Cork", "Deal"], "minutes": [4, 7, 3, 5]}
)


def random_edges(rng, n_vertices, n_edges):
    src, dst = rng.integers(0, n_vertices, (2, n_edges))
    return pd.DataFrame({"source": src, "target": dst, "weight": rng.integers(1, 5, n_edges)})


def test_vertices_of_a_table_have_its_ids():
    found = sp.betweenness(ROADS)
    assert found.schema == pa.schema([("vertex", pa.large_string()), ("betweenness", pa.float64())])
    # From Ayr, half of the paths to Cork and to Deal pass Bude.
    assert found.to_pydict() == {"vertex": ["Ayr", "Bude", "Cork", "Deal"], "betweenness": [0, 1, 2, 0]}
    assert sp.betweenness(ROADS, endpoints=True)["betweenness"].to_pylist() == [3, 4, 5, 3]
    assert sp.betweenness(ROADS, "Ayr", targets="Deal")["betweenness"].to_pylist() == [0, 0.5, 1, 0]
    assert sp.betweenness(ROADS, ["Ayr", "Ayr"], cutoff=7)["betweenness"].to_pylist() == [0, 1, 0, 0]
    assert sp.betweenness(ROADS, [])["betweenness"].to_pylist() == [0] * 4


def test_edges_have_a_row_in_each_direction():
    found = sp.betweenness(ROADS, edges=True).to_pydict()
    assert found["source"] == ["Ayr", "Ayr", "Bude", "Cork"]
    assert found["target"] == ["Bude", "Cork", "Cork", "Deal"]
    assert found["betweenness"] == [2, 1, 3, 3]
    both = sp.betweenness(ROADS, edges=True, directed=False)
    assert both.num_rows == 8
    assert sorted(both["betweenness"].to_pylist()) == [1, 1, 2, 2, 3, 3, 3, 3]


def test_parallel_edges_are_paths_of_their_own():
    edges = pd.DataFrame({"source": [0, 0, 0, 1], "target": [1, 1, 1, 2], "weight": [2, 2, 3, 1]})
    assert sp.betweenness(edges, edges=True)["betweenness"].to_pylist() == [1, 1, 0, 2]


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("cutoff", [None, 2, 5])
def test_igraph_has_the_same_values(directed, cutoff):
    rng = np.random.default_rng(3)
    for _ in range(10):
        n_vertices = int(rng.integers(2, 30))
        table = random_edges(rng, n_vertices, int(rng.integers(1, 80)))
        theirs = igraph.Graph(n_vertices, table[["source", "target"]].to_numpy().tolist(), directed=directed)
        theirs.es["weight"] = table["weight"].tolist()
        each_way = 1 if directed else 2
        expected = np.array(theirs.betweenness(directed=directed, cutoff=cutoff, weights="weight"))
        found = sp.betweenness(theirs, cutoff=cutoff)["betweenness"].to_numpy()
        np.testing.assert_allclose(found, each_way * expected, rtol=1e-12, atol=1e-12)


@pytest.mark.data
@pytest.mark.medium
@pytest.mark.parametrize(
    "name", ["rome99.gr", "facebook_combined.txt", "wiki-Vote.txt", "p2p-Gnutella31.txt"]
)
def test_real_graphs_have_the_values_of_igraph(name, data_file, tmp_path):
    store = sp.ingest(data_file(name), tmp_path / "store")
    graph = store.graph()
    src = np.repeat(np.arange(graph.n_vertices), np.diff(graph.row_offsets))
    weights = graph.weights if name == "rome99.gr" else (src * 31 + graph.col_indices * 17) % 10 + 1
    if name == "wiki-Vote.txt":
        weights = np.ones(graph.n_edges, np.int64)
    theirs = igraph.Graph(graph.n_vertices, np.column_stack([src, graph.col_indices]), directed=True)
    sources = list(range(0, graph.n_vertices, max(1, graph.n_vertices // 200)))
    call = {"weights": weights.tolist(), "sources": sources}
    table = pd.DataFrame({"source": src, "target": graph.col_indices, "weight": weights})
    found = sp.betweenness(table, sources).to_pandas().set_index("vertex")["betweenness"]
    expected = np.array(theirs.betweenness(**call))
    np.testing.assert_allclose(found, expected[found.index], rtol=1e-11, atol=1e-11)
    of_edges = sp.betweenness(table, sources, edges=True)["betweenness"].to_numpy()
    np.testing.assert_allclose(of_edges, theirs.edge_betweenness(**call), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("endpoints", [True, False])
@pytest.mark.parametrize("weight", [None, "weight"])
def test_normalized_values_are_those_of_networkx(weight, endpoints):
    rng = np.random.default_rng(4)
    for kind in (nx.Graph, nx.DiGraph):
        graph = nx.from_pandas_edgelist(random_edges(rng, 25, 60), edge_attr="weight", create_using=kind)
        theirs = nx.betweenness_centrality(graph, weight=weight, endpoints=endpoints, backend="networkx")
        found = sp.betweenness(graph, weight=weight, endpoints=endpoints, normalized=True)
        assert found["vertex"].to_pylist() == list(theirs)
        np.testing.assert_allclose(found["betweenness"], list(theirs.values()), rtol=1e-12, atol=1e-15)


def test_normalized_edges_are_those_of_networkx():
    graph = nx.gnm_random_graph(20, 60, seed=2, directed=True)
    theirs = nx.edge_betweenness_centrality(graph, backend="networkx")
    found = sp.betweenness(graph, edges=True, normalized=True).to_pylist()
    assert len(found) == 60
    for row in found:
        assert row["betweenness"] == pytest.approx(theirs[row["source"], row["target"]], rel=1e-12)


@pytest.mark.parametrize("edges", [False, True])
def test_no_solver_and_no_number_of_cores_changes_a_bit(edges, monkeypatch):
    graph = sp.prepare(nx.grid_2d_graph(12, 12), hierarchy=True)
    expected = sp.betweenness(graph, edges=edges, solver="dijkstra")
    assert expected["betweenness"].to_numpy().max() > 500
    for solver in ("delta-stepping", "parallel-delta-stepping", "bits"):
        assert sp.betweenness(graph, edges=edges, solver=solver) == expected
    for n_cores in (1, 5):
        monkeypatch.setattr("sssp_pipeline.api.calls.along_paths.usable_cores", lambda n=n_cores: n)
        assert sp.betweenness(graph, edges=edges, solver="bits") == expected


def rows_are_scanned(monkeypatch) -> list[bool]:
    """Return a list that gets, for each call of `betweenness`, whether it scans rows and takes no hierarchy."""
    scanned: list[bool] = []

    def noted(*arguments, sums_on_hierarchy=along_paths.sums_on_hierarchy):
        words = sums_on_hierarchy(*arguments)
        scanned.append(words is None)
        return words

    monkeypatch.setattr(along_paths, "sums_on_hierarchy", noted)
    return scanned


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"endpoints": True},
        {"edges": True},
        {"cutoff": 9, "targets": [3, 77]},
        {"source_amounts": {"vertex": [0, 5, 99], "x": [1, 0.1, 20]}, "targets": [3, 77, 250]},
    ],
    ids=str,
)
def test_a_hierarchy_gives_the_same_values_up_to_rounding(options, monkeypatch):
    scanned = rows_are_scanned(monkeypatch)
    rng = np.random.default_rng(1)
    ways = ss.csr_array(nx.to_scipy_sparse_array(nx.grid_2d_graph(20, 20)))
    ways.data = rng.integers(1, 4, ways.nnz)
    graph = sp.prepare(ways, hierarchy=True)
    expected = sp.betweenness(graph, solver="dijkstra", **options)
    found = sp.betweenness(graph, solver="phast", **options)
    assert scanned == [True, False]
    np.testing.assert_allclose(found["betweenness"], expected["betweenness"], rtol=1e-13)
    assert found.drop("betweenness") == expected.drop("betweenness")
    for n_cores in (1, 5):
        monkeypatch.setattr("sssp_pipeline.api.calls.along_hierarchy.usable_cores", lambda n=n_cores: n)
        assert sp.betweenness(graph, solver="phast", **options) == found
    sp.betweenness(graph, solver="phast", sample=9)
    assert scanned[-1], "the standard error needs 16 groups"
    assert max(sp.betweenness(graph, [], solver="phast")["betweenness"].to_pylist()) == 0
    monkeypatch.setattr("sssp_pipeline.api.calls.along_hierarchy.free_memory_bytes", lambda: 1000)
    assert sp.betweenness(graph, solver="phast", **options) == expected


def test_roads_take_a_hierarchy_when_that_pays(monkeypatch):
    scanned = rows_are_scanned(monkeypatch)
    roads = nx.to_scipy_sparse_array(nx.grid_2d_graph(40, 40), dtype=np.int32)
    roads.data = np.random.default_rng(2).integers(1, 90, roads.nnz, np.int32)
    crowd = nx.to_scipy_sparse_array(nx.gnm_random_graph(600, 4000, seed=1), dtype=np.int32)
    for graph, is_scanned in ((crowd, True), (roads, False), (roads.astype(np.float64), True)):
        if graph is roads:  # the forecast of a graph that is far larger
            monkeypatch.setattr(Reductions, "sum_s", lambda self, *_: float(not self.paths.on_hierarchy))
        found = sp.betweenness(graph)
        assert scanned.pop() == is_scanned
        expected = sp.betweenness(graph, solver="dijkstra")
        np.testing.assert_allclose(found["betweenness"], expected["betweenness"], rtol=1e-13)


def test_distances_near_the_end_of_their_type_are_scanned(monkeypatch):
    scanned = rows_are_scanned(monkeypatch)
    weights = np.array([2**31 - 9, 2**31 - 9, 1], np.uint32)
    graph = ss.csr_array((weights, ([0, 1, 2], [1, 2, 3])), shape=(4, 4))
    assert sp.betweenness(graph, solver="phast")["betweenness"].to_pylist() == [0, 2, 2, 0]
    assert scanned == [True]
    assert sp.betweenness(graph, solver="phast", cutoff=2**31)["betweenness"].to_pylist() == [0, 0, 1, 0]


# ---- samples ----


@pytest.mark.parametrize("edges", [False, True])
def test_a_sample_of_all_vertices_has_no_error(edges):
    graph = nx.gnm_random_graph(40, 100, seed=1)
    every = sp.betweenness(graph, edges=edges)
    found = sp.betweenness(graph, edges=edges, sample=40, seed=7)
    np.testing.assert_array_equal(found["betweenness"], every["betweenness"])
    np.testing.assert_array_equal(found["standard_error"], np.zeros(len(every)))


def test_the_estimate_and_its_error_are_those_of_the_sampled_sources():
    graph = nx.gnm_random_graph(50, 90, seed=3)
    found = sp.betweenness(graph, sample=10, seed=5)
    drawn = np.random.default_rng(5).choice(50, 10, replace=False)
    each = np.array([sp.betweenness(graph, int(source))["betweenness"].to_numpy() for source in drawn])
    np.testing.assert_allclose(found["betweenness"], 50 * each.mean(axis=0), rtol=1e-12)
    errors = 50 * np.sqrt(each.var(axis=0, ddof=1) / 10 * (1 - 10 / 50))
    np.testing.assert_allclose(found["standard_error"], errors, rtol=1e-6, atol=1e-3)
    assert found == sp.betweenness(graph, sample=10, seed=5)
    assert found != sp.betweenness(graph, sample=10)
    assert sp.betweenness(graph, sample=10) == sp.betweenness(graph, sample=10, seed=0)


@pytest.mark.medium
def test_standard_errors_are_as_large_as_the_errors():
    """The mean square of the error over many samples is the mean square of the standard error."""
    graph = sp.prepare(nx.random_geometric_graph(60, 0.25, seed=1))
    true = sp.betweenness(graph)["betweenness"].to_numpy()
    samples = [sp.betweenness(graph, sample=20, seed=seed) for seed in range(400)]
    off_by = np.array([found["betweenness"].to_numpy() - true for found in samples])
    errors = np.array([found["standard_error"].to_numpy() for found in samples])
    assert np.abs(off_by.mean(axis=0)).max() < 4 * errors.mean(axis=0).max() / 20
    assert (errors**2).mean() == pytest.approx((off_by**2).mean(), rel=0.05)


@pytest.mark.parametrize("edges", [False, True])
def test_a_large_sample_over_a_hierarchy_has_the_error_of_its_groups(edges, monkeypatch):
    scanned = rows_are_scanned(monkeypatch)
    ways = ss.csr_array(nx.to_scipy_sparse_array(nx.grid_2d_graph(34, 34)))
    ways.data = np.random.default_rng(3).integers(1, 40, ways.nnz)
    graph, n_vertices = sp.prepare(ways, hierarchy=True), 34 * 34
    found = sp.betweenness(graph, edges=edges, sample=1024, seed=6, solver="phast")
    along_rows = sp.betweenness(graph, edges=edges, sample=1024, seed=6, solver="dijkstra")
    assert scanned == [False, True]
    np.testing.assert_allclose(found["betweenness"], along_rows["betweenness"], rtol=1e-12)
    drawn = np.random.default_rng(6).choice(n_vertices, 1024, replace=False).tolist()
    groups = [drawn[first : first + 64] for first in range(0, 1024, 64)]
    sums = np.array(
        [sp.betweenness(graph, group, edges=edges, solver="dijkstra")["betweenness"] for group in groups]
    )
    variance = ((sums**2).sum(axis=0) / 64 - sums.sum(axis=0) ** 2 / 1024) / (16 - 1)
    errors = n_vertices * np.sqrt(variance / 1024 * (1 - 1024 / n_vertices))
    np.testing.assert_allclose(found["standard_error"], errors, rtol=1e-6, atol=1e-3)


def test_a_sample_of_one_has_no_error_to_tell():
    found = sp.betweenness(ROADS, sample=1)
    assert found["standard_error"].to_pylist() == [None] * 4


# ---- other kinds of graphs ----


def test_a_store_with_decimals(tmp_path):
    edges = pd.DataFrame({"from": [1, 1, 2, 3], "to": [2, 3, 3, 4], "km": ["0.1", "0.3", "0.2", "0.5"]})
    edges.to_csv(tmp_path / "roads.csv", index=False)
    store = sp.ingest(str(tmp_path / "roads.csv"), str(tmp_path / "store"))
    # 0.1 + 0.2 is 0.3 in decimals, and not in float64.
    assert sp.betweenness(store)["betweenness"].to_pylist() == [0, 1, 2, 0]
    assert sp.betweenness(store, cutoff=0.3)["betweenness"].to_pylist() == [0, 0.5, 0, 0]
    floats = edges.astype({"km": float})
    assert sp.betweenness(floats)["betweenness"].to_pylist() == [0, 0, 2, 0]


@pytest.mark.parametrize(
    ("matrix", "expected"),
    [(ss.csr_array((0, 0)), []), (ss.csr_array((3, 3)), [0, 0, 0]), (np.array([[5]]), [0])],
    ids=["empty", "no-edges", "self-loop"],
)
def test_small_graphs(matrix, expected):
    for options in ({}, {"normalized": True}, {"cutoff": 3}):
        assert sp.betweenness(matrix, **options)["betweenness"].to_pylist() == expected


# ---- what is refused ----


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        (
            {"sample": 9},
            "`sample` is 9, and the graph has 4 vertices",
            "draw fewer, or leave out `sample` to take",
        ),
        ({"sample": 0}, "`sample` is 0", "`sample` is an integer of 1 or more"),
        ({"sample": 2.0}, "`sample` is 2.0", "`sample` is an integer of 1 or more"),
        ({"sample": True}, "`sample` is True", "`sample` is an integer of 1 or more"),
        ({"sample": 2, "seed": -1}, "`seed` is -1", "`seed` is an integer of 0 or more"),
        ({"seed": 1}, "`seed` is given without `sample`", "leave out `seed`, or give `sample` too"),
        ({"sources": "Ayr", "sample": 2}, "both `sources` and `sample` are given", "leave out one of them"),
        ({"sources": "Ely"}, "source `Ely` is not in the graph", ""),
        ({"targets": ["Ely"]}, "target `Ely` is not in the graph", ""),
        (
            {"endpoints": True, "edges": True},
            "`endpoints` is for vertices, and `edges` asks for edges",
            "leave out",
        ),
        (
            {"targets": "Ayr", "normalized": True},
            "`normalized` divides by the pairs of all vertices, and not each of them counts as 1",
            "leave out `normalized`",
        ),
        ({"cutoff": -1}, "cutoff is -1", "cutoff is a distance of zero or more"),
        ({"solver": "djikstra"}, "unknown solver `djikstra`", ""),
    ],
)
def test_arguments_that_cannot_be_used(options, message, hint, error_of):
    error = error_of(sp.betweenness, ROADS, **options)
    assert error.message == message
    assert error.hint.startswith(hint)


@pytest.mark.parametrize("weight", [0, -3])
def test_a_weight_that_is_not_above_zero(weight, error_of):
    error = error_of(sp.betweenness, ROADS.assign(minutes=[4, 7, weight, 5]))
    assert error.message == (
        f"the edge from `Bude` to `Cork` has weight {weight}, and shortest paths are counted only where all weights "
        "are above zero"
    )
    assert error.hint == "give such edges a small weight, or make one vertex of their ends"


def test_floats_that_cannot_be_compared(error_of):
    floats = ROADS.astype({"minutes": np.float32})
    error = error_of(sp.betweenness, floats)
    assert error.message == "the weights are float32, in which rounding makes some paths equally long"
    assert error.hint == 'give `dtype="float64"`, or integers'
    assert sp.betweenness(floats, dtype="float64") == sp.betweenness(ROADS)
    lost = error_of(sp.betweenness, ROADS.assign(minutes=[4, 7, 3, 1e-30]))
    assert lost.message == (
        "an edge to `Deal` is too short for its distance from `Ayr`: float64 loses it in the sum, so shortest paths "
        "cannot be counted"
    )
    assert lost.hint == "give the weights as integers, in a smaller unit"


def test_sums_that_do_not_fit_the_memory(error_of, monkeypatch):
    monkeypatch.setattr("sssp_pipeline.api.calls.along_paths.free_memory_bytes", lambda: 20 * 10**9)
    monkeypatch.setattr(PathSumsAsked, "n_bytes", lambda *_: 30 * 10**9)
    error = error_of(sp.betweenness, ROADS)
    assert error.message == "what is summed along the paths takes 30.0 GB, and 20.0 GB of memory are free"
    assert error.hint == "end other programs, or take a machine with more memory"


def test_more_paths_than_float64_counts(error_of):
    """A chain of 1,100 diamonds: each doubles the number of paths."""
    tops = 3 * np.arange(1100)
    pairs = {"source": np.repeat(tops, 2), "target": (tops[:, None] + [1, 2]).ravel()}
    back = {"source": pairs["target"], "target": np.repeat(tops + 3, 2)}
    chain = pd.concat([pd.DataFrame(pairs), pd.DataFrame(back)], ignore_index=True)
    error = error_of(sp.betweenness, chain, [0])
    assert error.message.startswith("more than 2^1000 shortest paths lead from `0` to `3")
    assert error.message.endswith("`, too many to count in float64")
    assert error.hint == "set a `cutoff`, or weights that differ more"
    for solver in ("auto", "phast"):
        found = sp.betweenness(chain, [0], cutoff=1900, solver=solver)
        assert found["betweenness"].to_pylist()[:4] == [0, 1424, 1424, 2847]
