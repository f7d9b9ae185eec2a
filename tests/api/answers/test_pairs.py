"""Distances of pairs: the bits of whole rows, in the order of the pairs, from either side; and wrong pairs."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as ss

import sssp_pipeline as sp
from sssp_pipeline.api.answers import pairs as pairs_module
from sssp_pipeline.api.calls import calls
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.kernels.host import grouped_pairs
from sssp_pipeline.pipeline.planning import direction

ROADS = "from,to,minutes\na,b,2\nb,c,3\nc,d,4\na,c,5\ne,f,1\n"


def random_graph(rng, dtype=np.uint32, n_vertices=60, n_edges=110):
    """Return a graph with ties, edges of weight 0, parallel edges, loops and unreached vertices."""
    src, dst = rng.integers(0, n_vertices, (2, n_edges))
    weights = rng.integers(0, 6, n_edges).astype(dtype)
    if np.dtype(dtype).kind == "f":
        weights *= dtype(0.1)
    return pd.DataFrame({"source": src, "target": dst, "weight": weights})


def expected(graph, pairs, **options):
    """Return the distances of the pairs in the matrix of all vertices, None where there is no path."""
    matrix = sp.solve(graph, "all", solver="dijkstra", **options)
    place = {vertex: i for i, vertex in enumerate(matrix.vertices.to_pylist())}
    rows, columns = ([place[pair[end]] for pair in pairs] for end in (0, 1))
    found = matrix.numpy()[rows, columns]
    return pa.array(found, mask=found == matrix.unreached)


def drawn(rng, graph, n_pairs, n_sources, n_targets):
    """Return pairs of a few of the vertices; some stand twice."""
    vertices = np.unique(graph[["source", "target"]])
    sources, targets = rng.choice(vertices, n_sources), rng.choice(vertices, n_targets)
    return np.stack([rng.choice(sources, n_pairs), rng.choice(targets, n_pairs)], axis=1)


@pytest.fixture
def searches(monkeypatch):
    """Give the list of how many vertices each call searched, and in which direction."""
    found = []
    inner = grouped_pairs.GroupedPairs.of

    def noted(*ends, is_backward):
        groups = inner(*ends, is_backward=is_backward)
        found.append((len(groups.searched), is_backward))
        return groups

    monkeypatch.setattr(pairs_module.GroupedPairs, "of", noted)
    return found


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64, np.float32, np.float64])
@pytest.mark.parametrize(("n_sources", "n_targets"), [(40, 40), (3, 40), (40, 3), (1, 1)])
def test_distances_are_those_of_whole_rows(dtype, n_sources, n_targets, monkeypatch, searches):
    for module in (calls, direction):  # so that small graphs are reversed too
        monkeypatch.setattr(module, "expected_s", lambda solver, work, machine: float(work.n_sources))
    rng = np.random.default_rng([n_sources, n_targets])
    for _ in range(5):
        graph = random_graph(rng, dtype)
        pairs = drawn(rng, graph, 200, n_sources, n_targets)
        for cutoff in (None, 0, 0.4, 7):
            found = sp.distances_of_pairs(graph, pairs, cutoff=cutoff, dtype=dtype)
            assert found.type == pa.from_numpy_dtype(dtype)
            assert found == expected(graph, pairs, cutoff=cutoff, dtype=dtype)
    if np.dtype(dtype).kind == "f":
        assert not any(is_backward for _, is_backward in searches)
    else:
        assert max(n for n, _ in searches) <= min(n_sources, n_targets)
        if n_targets < n_sources:
            assert all(is_backward for _, is_backward in searches)


def test_negative_weights_are_searched_forward(searches):
    graph = ss.csr_array(np.array([[0, -2, 5], [0, 0, 3], [0, 0, 0]]))
    found = sp.distances_of_pairs(graph, [(0, 2), (1, 2), (0, 1), (2, 0)])
    assert found.to_pylist() == [1, 3, -2, None]
    assert searches == [(3, False)]


def test_a_path_too_long_for_a_search_backwards_only(monkeypatch, searches):
    monkeypatch.setattr(pairs_module, "goes_backward", lambda *_: True)
    # Vertex 0 is no source, and its distance to 3 exceeds the type.
    graph = ss.csr_array(([2**32 - 2, 2, 1, 1], ([0, 1, 2, 4], [1, 3, 3, 3])), (5, 5))
    found = sp.distances_of_pairs(graph, [(1, 3), (2, 3), (4, 3)], dtype="uint32", solver="dijkstra")
    assert found.to_pylist() == [2, 1, 1]
    assert searches == [(1, True), (3, False)]


@pytest.mark.parametrize("directed", [True, False])
def test_a_store_with_a_scale_and_ids_of_text(directed, tmp_path, searches):
    edges = tmp_path / "roads.csv"
    edges.write_text(ROADS.replace(",2\n", ",0.25\n"))
    store = sp.ingest(edges, tmp_path / "store", directed=directed)
    assert store.manifest.weights.scale is not None
    pairs = [("a", "c"), ("b", "c"), ("a", "c"), ("c", "c"), ("d", "c"), ("e", "c")]
    found = sp.distances_of_pairs(store, pairs)
    back = None if directed else 4.0
    assert found == pa.array([3.25, 3.0, 3.25, 0.0, back, None])
    assert searches == [(1, True) if not directed else searches[0]]


def test_ids_are_objects_of_networkx():
    graph = nx.DiGraph()
    graph.add_edge((0, 0), "x", weight=3)
    found = sp.distances_of_pairs(graph, [((0, 0), "x"), ("x", (0, 0)), ("?", "x")], unknown="skip")
    assert found.to_pylist() == [3, None, None]


@pytest.mark.parametrize("name", ["pairs.csv", "pairs.txt", "pairs.parquet", "pairs.csv.gz"])
def test_files_of_pairs(name, tmp_path):
    edges = pd.DataFrame({"source": [7, 7, 9], "target": [9, 11, 11], "weight": [2, 9, 3]})
    pairs = pd.DataFrame({"source": [7, 11, 7, 9], "target": [11, 7, 11, 9]})
    url = tmp_path / name
    if name.endswith("parquet"):
        pairs.to_parquet(url)
    else:
        pairs.to_csv(url, index=False, sep=" " if "txt" in name else ",", header="txt" not in name)
    assert sp.distances_of_pairs(edges, url).to_pylist() == [5, None, 5, 0]
    assert sp.distances_of_pairs(edges, str(url)).to_pylist() == [5, None, 5, 0]
    for table in (pairs, pa.table(pairs), pairs.to_numpy(), list(pairs.itertuples(index=False, name=None))):
        assert sp.distances_of_pairs(edges, table).to_pylist() == [5, None, 5, 0]
    named = edges.assign(source=edges.source.map("n{}".format), target=edges.target.map("n{}".format))
    of_names = pairs.map("n{}".format).astype("category")
    assert sp.distances_of_pairs(named, of_names).to_pylist() == [5, None, 5, 0]


def test_a_million_pairs_that_stand_again_are_one_search(searches):
    graph = pd.DataFrame({"source": [0, 1], "target": [1, 2], "weight": [4, 5]})
    pairs = np.tile(np.array([[0, 2], [2, 0]]), (500_000, 1))
    found = sp.distances_of_pairs(graph, pairs)
    assert found.null_count == 500_000
    assert found.drop_null().unique().to_pylist() == [9]
    assert searches == [(2, False)]


@pytest.mark.parametrize(
    ("content", "message", "hint"),
    [
        ("source\n7\n", "`pairs.csv` line 1 has 1 column, `source`, wanted source and target", "a row has the ids"),
        ("", "`pairs.csv` is empty", "check that this is the file you mean"),
        ("source,target\n", "`pairs.csv` holds no pairs: `pairs.csv` line 1 is its header", "a row has the ids"),
        ("7,9\n7\n", "`pairs.csv` line 2 has 1 column, wanted 2", "a row has the ids"),
        ("7,9\n7,\n", "`pairs.csv` line 2: a vertex id is empty", "a row has the ids"),
        ("7,9\n7,x\n", "`pairs.csv` line 2: `x` is not a vertex id", "the ids of the graph are integers"),
        ("foo,bar,baz\n7,9,9\n", "none is known as source and target of a pair", "name the columns"),
        ("p sp 9 1\na 7 9 2\n", "`pairs.csv` is a graph (dimacs)", "a row has the ids"),
        ("# of trips\nsource;target\n7;9\n\n7;9\n7;8\n",
         "1 of 3 pairs has an id that is not in the graph: `8` (the first in line 6)", "run from 7 to 11"),
        ("source target\n7 9\n# of trips\n7 8\n", "`8` (the first in line 4)", "run from 7 to 11"),
        ("7,9\n8,9\n8,10\n",
         "`pairs.csv`: 2 of 3 pairs have an id that is not in the graph: `8`, `10` (the first in line 2)",
         "the 3 ids of the graph run from 7 to 11; `unknown=\"skip\"` leaves out such pairs"),
    ],
)  # fmt: skip
def test_bad_files(content, message, hint, tmp_path, monkeypatch, error_of):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs.csv").write_text(content)
    edges = pd.DataFrame({"source": [7, 7, 9], "target": [9, 11, 11]})
    found = error_of(sp.distances_of_pairs, edges, "pairs.csv")
    assert message in found.message
    assert hint in found.hint
    assert "graph." not in found.message + found.hint


def test_bad_pairs(tmp_path, error_of):
    edges = pd.DataFrame({"source": [7, 7, 9], "target": [9, 11, 11]})

    def message(pairs, **options):
        return error_of(sp.distances_of_pairs, edges, pairs, **options).message

    assert message([]) == "there is no pair"
    assert message([(7, 8)]) == "1 of 1 pair has an id that is not in the graph: `8`"
    assert message([(7, "x")]) == "target `x` is not in the graph, whose ids are integers"
    assert message([(7, 9), (7, None)]) == "target `None` is not in the graph"
    assert message([(7, 9), (7, 2**70)]) == "target `1180591620717411303424` is not in the graph"
    assert message([(7, 9), 3]) == "`3` is no pair"
    assert message(None) == "`pairs` is of type NoneType"
    assert message({"source": [7], "target": [9]}) == "`pairs` is of type dict"
    assert message(pa.table({"source": [7]})) == "the table of pairs has the columns source"
    assert message([(8, 8)], unknown="skip") == "1 of 1 pair has an id that is not in the graph: `8`"
    assert message([(7, 9)], unknown="drop") == "`unknown` is 'drop'"
    assert message(tmp_path / "none.csv").endswith("none.csv` does not exist")
    assert sp.distances_of_pairs(edges, [(7, 9), (7, 8), (9, 11)], unknown="skip").to_pylist() == [1, None, 1]
    file_of_objects = error_of(sp.distances_of_pairs, nx.path_graph(3), "pairs.csv").message
    assert file_of_objects == "`pairs.csv` is a file, and the vertices of this graph are objects of Python"
    with pytest.raises(TypeError, match="unexpected keyword argument 'cuttoff'"):
        sp.distances_of_pairs(edges, [(7, 9)], cuttoff=3)


def test_ids_beyond_64_bits_are_unknown(error_of):
    edges = pd.DataFrame({"source": [7, 0], "target": [9, 7]})
    pairs = np.array([[2**63 + 7, 9]], np.uint64)
    assert "`9223372036854775815`" in error_of(sp.distances_of_pairs, edges, pairs).message


def test_pairs_of_a_file_in_many_row_groups_keep_their_order(tmp_path):
    rng = np.random.default_rng(3)
    graph = random_graph(rng)
    pairs = drawn(rng, graph, 5000, 30, 30)
    url = tmp_path / "pairs.parquet"
    pq.write_table(pa.table({"source": pairs[:, 0], "target": pairs[:, 1]}), url, row_group_size=17)
    assert sp.distances_of_pairs(graph, url) == expected(graph, pairs)
    pairs[[4000, 4001], [0, 1]] = 1000
    pq.write_table(pa.table({"source": pairs[:, 0], "target": pairs[:, 1]}), url, row_group_size=17)
    with pytest.raises(InputError, match=r"not in the graph: `1000` \(the first in row 4001\)"):
        sp.distances_of_pairs(graph, url)
