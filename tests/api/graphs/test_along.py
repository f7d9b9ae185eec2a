"""`solve(along=…)`: sums of other weights along the shortest paths."""

import pickle

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as ss
from numpy.testing import assert_array_equal

import sssp_pipeline as sp
from sssp_pipeline.base.csr import CsrGraph

N_VERTICES = 40


def roads(seed=7):
    """Return edges with ties, parallel ones and self-loops; every vertex is an end."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, N_VERTICES, (2, 150))
    src[:N_VERTICES], src[60:90], dst[60:90] = np.arange(N_VERTICES), src[90:120], dst[90:120]
    values = {
        "minutes": rng.integers(1, 5, 150),
        "km": rng.integers(0, 400, 150) / 100,
        "toll": rng.integers(0, 9, 150),
    }
    return pa.table({"from": src, "to": dst, **values})


def graph_of(table, directed=True):
    """Return the CSR graph of a table, and its second costs in the order of the edges."""
    src, dst, minutes, *others = (table[name].to_numpy() for name in table.column_names)
    if not directed:
        kept = src != dst
        src, dst = np.concatenate([src, dst[kept]]), np.concatenate([dst, src[kept]])
        minutes, *others = (np.concatenate([each, each[kept]]) for each in (minutes, *others))
    order = np.lexsort((dst, src))
    offsets = np.searchsorted(src[order], np.arange(N_VERTICES + 1))
    graph = CsrGraph(offsets, dst[order].astype(np.uint32), minutes[order].astype(np.uint32))
    return graph, [each[order] for each in others]


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize(
    "how", [{}, {"cutoff": 7}, {"targets": [5, 2, 9]}, {"targets": [5, 2], "predecessors": True}]
)
def test_sums_of_columns_of_a_table(directed, how, walked):
    table = roads()
    sources = [3, 17, 3]
    options = {"weight": "minutes", "directed": directed, **how}
    plain = sp.solve(table, sources, **options)
    found = sp.solve(table, sources, along=["km", "toll"], **options)
    assert_array_equal(found.numpy(), plain.numpy())
    graph, costs = graph_of(table, directed)
    rows = sp.solve(table, sources, **options | {"targets": None}).numpy()
    columns = how.get("targets", slice(None))
    for place, source in enumerate(sources):
        km, toll = walked(graph, (costs[0], costs[1].astype(np.uint32)), source, rows[place])
        assert_array_equal(found.along("km")[place], km[columns].astype(float))
        assert_array_equal(found.along("toll")[place], toll[columns].astype(np.uint64))
    assert found.along("km").dtype == np.float64
    assert found.along("toll").dtype == np.uint64
    made = found.to_arrow()
    assert made.column_names[:5] == ["source", "vertex", "distance", "km", "toll"]
    assert made.column_names[5:] == ["predecessor"] * ("predecessors" in how)
    missing = made["distance"].is_null().to_numpy()
    for name in ("km", "toll"):
        assert_array_equal(made[name].is_null().to_numpy(), missing)
        assert_array_equal(made[name].drop_null().to_numpy(), found.along(name).ravel()[~missing])
    reached = [row for row in made.to_pylist() if row["distance"] is not None]
    assert found.to_arrow(reached_only=True).to_pylist() == reached
    assert_array_equal(pickle.loads(pickle.dumps(found)).along("km"), found.along("km"))


def test_sums_of_weights_of_a_store(tmp_path, walked, error_of):
    weights = [{"name": "minutes"}, {"name": "km", "scale": 100}, {"name": "toll"}]
    pa.parquet.write_table(roads(), tmp_path / "roads.parquet")
    options = {
        "weights": {"several": weights},
        "duplicates": "keep-all",
        "self_loops": "keep",
        "weight": "minutes",
    }
    store = sp.ingest(tmp_path / "roads.parquet", tmp_path / "graph", **options)
    graph, costs = graph_of(roads())
    found = sp.solve(store, [3, 17], along=("km", "toll"))
    for place, source in enumerate([3, 17]):
        along = (np.rint(100 * costs[0]).astype(np.uint32), costs[1].astype(np.uint32))
        km, toll = walked(graph, along, source, found.numpy()[place])
        is_reached = found.numpy()[place] != found.unreached
        assert_array_equal(found.along("km")[place], np.where(is_reached, km / 100, np.inf).astype(float))
        assert_array_equal(found.along("toll")[place], toll.astype(np.uint64))
    assert error_of(sp.solve, store, [3], along="lm").message.endswith("has no weight `lm`")
    again = sp.solve(sp.prepare(str(tmp_path / "graph"), weight="minutes"), [3, 17], along="km")
    assert_array_equal(again.along("km"), found.along("km"))
    assert again.to_arrow().column_names == ["source", "vertex", "distance", "km"]


@pytest.mark.parametrize("how", [{}, {"cutoff": 5}])
def test_sums_to_nearest_vertices_and_of_pairs(how):
    table, sources, targets = roads(), [3, 17], [5, 2, 9, 30]
    options = {"weight": "minutes", "along": ["km", "toll"], **how}
    whole = sp.solve(table, sources, **options).to_arrow().to_pylist()
    of_pair = {(row["source"], row["vertex"]): row for row in whole}
    found = sp.nearest(table, sources, 3, targets=targets, **options)
    assert found.column_names == ["source", "rank", "vertex", "distance", "km", "toll"]
    assert found.drop_columns(["km", "toll"]).equals(
        sp.nearest(table, sources, 3, targets=targets, weight="minutes", **how)
    )
    for row in found.to_pylist():
        expected = of_pair[row["source"], row["vertex"]] if row["vertex"] is not None else dict.fromkeys(row)
        assert [row[name] for name in ("km", "toll")] == [expected["km"], expected["toll"]]
    # More sources than targets, which without sums may be searched from the targets.
    pairs = [(source, target) for source in range(N_VERTICES) for target in (5, 17)]
    table_of_pairs = sp.distances_of_pairs(table, [*pairs, (99, 5)], unknown="skip", **options)
    every = sp.solve(table, range(N_VERTICES), targets=[5, 17], **options).to_arrow()
    names = ["distance", "km", "toll"]
    assert table_of_pairs.slice(0, len(pairs)).equals(every.select(names))
    assert table_of_pairs.slice(len(pairs)).to_pylist() == [dict.fromkeys(names)]


@pytest.mark.parametrize("directed", [True, False])
def test_sums_of_attributes_of_objects(directed):
    igraph, networkx, rustworkx = map(pytest.importorskip, ("igraph", "networkx", "rustworkx"))
    table = roads()
    ends = list(zip(table["from"].to_pylist(), table["to"].to_pylist(), strict=True))
    attributes = table.select(["minutes", "km", "toll"]).to_pylist()
    of_networkx = networkx.MultiDiGraph() if directed else networkx.MultiGraph()
    of_networkx.add_nodes_from(range(N_VERTICES))
    of_networkx.add_edges_from([(*end, each) for end, each in zip(ends, attributes, strict=True)])
    of_igraph = igraph.Graph(N_VERTICES, ends, directed=directed)
    for name in ("minutes", "km", "toll"):
        of_igraph.es[name] = table[name].to_pylist()
    of_rustworkx = (rustworkx.PyDiGraph if directed else rustworkx.PyGraph)()
    of_rustworkx.add_nodes_from(range(N_VERTICES))
    of_rustworkx.add_edges_from([(*end, each) for end, each in zip(ends, attributes, strict=True)])
    options = {"weight": "minutes", "along": ("km", "toll")}
    wanted = sp.solve(table, [3, 17], directed=directed, **options)
    for graph in (of_networkx, of_igraph, of_rustworkx):
        found = sp.solve(graph, [3, 17], **options)
        assert_array_equal(found.numpy(), wanted.numpy())
        for name in ("km", "toll"):
            assert_array_equal(found.along(name), wanted.along(name))


def test_what_is_refused(error_of, tmp_path):
    table = roads()
    named = {"weight": "minutes"}
    matrix = ss.csr_array(np.ones((2, 2)))
    prepared = sp.prepare(table, **named)
    for graph, along, options, message in (
        (table, "lm", named, "weight `lm`: `table`: unknown column `lm`"),
        (table, ["km", "km"], named, "`along` has `km` twice"),
        (table, [3], named, "`along` has 3"),
        (table, "distance", named, "`distance` in `along` is also the name of another column of the result"),
        (matrix, "km", {}, "`along` cannot be set for a matrix"),
        (prepared, "km", {}, "`along` cannot be set for a prepared graph that is not from a graph store"),
        (
            table,
            "km",
            {**named, "on_device": True},
            "the distances cannot stay on the GPU: sums along the paths are",
        ),
        (
            table,
            "km",
            {**named, "targets": [1], "direction": "backward"},
            '`direction` is "backward", and the sums',
        ),
    ):
        assert error_of(sp.solve, graph, [1], along=along, **options).message.startswith(message)
    networkx = pytest.importorskip("networkx")
    lengths = networkx.DiGraph([(1, 2, {"minutes": 3, "km": 2.5}), (2, 3, {"minutes": 4})])
    error = error_of(sp.solve, lengths, [1], along="km", **named)
    assert error.message == "weight `km`: edge from `2` to `3`: `km` is None"
    for name in ("nearest", "distances_of_pairs"):
        arguments = ([1], 2) if name == "nearest" else ([(1, 2)],)
        assert error_of(getattr(sp, name), matrix, *arguments, along="km").message.startswith(
            "`along` cannot be"
        )
    with_null = table.set_column(3, "km", pa.array([None, *table["km"].to_pylist()[1:]]))
    assert "km" in error_of(sp.solve, with_null, [1], along="km", **named).message
    found = sp.solve(table, [1], along="km", **named)
    assert error_of(found.along, "kn").hint == "It has: km"
    plain = sp.solve(table, [1], **named)
    assert error_of(plain.along, "km").hint == 'give `along="…"` to `solve`'
    weights = {"several": [{"name": "minutes"}, {"name": "km"}]}
    pa.parquet.write_table(table, tmp_path / "roads.parquet")
    store = sp.ingest(tmp_path / "roads.parquet", tmp_path / "graph", weights=weights, weight="minutes")
    error = error_of(sp.solve, store, [1], along="km")
    assert "parallel edges of the graph were merged" in error.message
    assert "`kn`" in error_of(sp.solve, store, [1], along="kn").message
    assert error.hint == "ingest the graph with `graph.duplicates: keep-all`, which keeps parallel edges"
