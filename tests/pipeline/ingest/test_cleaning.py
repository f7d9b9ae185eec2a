"""Vertices that are left out at ingest: against SciPy's components, with the ids of the input."""

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse.csgraph import connected_components
from typer.testing import CliRunner

import sssp_pipeline as sp
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.cli import app
from sssp_pipeline.pipeline.ingest.components import VertexFinder
from sssp_pipeline.pipeline.ingest.rows.sorted_rows import sources_of_edges


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def matrix_of(n, n_edges, seed):
    """Return a random matrix with small components and rows and columns without an entry."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, n, n_edges), rng.integers(0, n, n_edges)
    matrix = scipy.sparse.coo_array((np.ones(n_edges, np.int64), (src, dst)), (n, n)).tocsr()
    matrix.data = rng.integers(1, 100, matrix.nnz)
    return matrix


def edges_of(graph):
    """Return (source id, target id, weight) of every edge of a store."""
    csr, ids = graph.graph(), graph.ids.column().to_pylist()
    edges = zip(sources_of_edges(csr), csr.col_indices, csr.weights.tolist(), strict=True)
    return [(ids[u], ids[v], w) for u, v, w in edges]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("block_rows", [1, 7, 1000])
def test_components_are_those_of_scipy(seed, block_rows):
    matrix = matrix_of(200, 90 + 40 * seed, seed)
    finder = VertexFinder(200)
    blocks = []
    for first in range(0, 200, block_rows):
        offsets = matrix.indptr[first : first + block_rows + 1].astype(np.int64)
        rows = slice(offsets[0], offsets[-1])
        blocks.append(
            (first, offsets - offsets[0], matrix.indices[rows].astype(np.uint32), matrix.data[rows])
        )
        finder.see(*blocks[-1][:3])
    n, labels = connected_components(matrix, directed=False)
    with_edges = np.flatnonzero(np.diff(matrix.indptr) + np.diff(matrix.tocsc().indptr))
    np.testing.assert_array_equal(finder.with_edges().vertices, with_edges)
    kept = finder.largest_component()
    assert kept.n_components == n
    # SciPy numbers components by their smallest vertex, so the first of equal sizes is the same.
    np.testing.assert_array_equal(kept.vertices, np.flatnonzero(labels == np.argmax(np.bincount(labels))))
    for block in blocks:
        within = kept.vertices[(kept.vertices >= block[0]) & (kept.vertices < block[0] + block_rows)]
        part = matrix[within][:, kept.vertices].tocsr()
        part.sort_indices()
        for array, true in zip(kept.rows(*block), (part.indptr, part.indices, part.data), strict=True):
            np.testing.assert_array_equal(array, true)


@pytest.mark.parametrize("wanted", ["with-edges", "largest-component"])
def test_a_store_keeps_some_vertices_with_their_ids(wanted):
    matrix = matrix_of(120, 80, 1)
    matrix.setdiag(0)
    matrix.eliminate_zeros()
    scipy.sparse.save_npz("m.npz", matrix)
    whole = sp.ingest("m.npz", "whole")
    graph = sp.ingest("m.npz", "store", vertices=wanted)
    n, labels = connected_components(matrix, directed=False)
    sizes = np.bincount(labels)
    alone = np.diff(matrix.indptr) + np.diff(matrix.tocsc().indptr) == 0
    kept = ~alone if wanted == "with-edges" else labels == np.argmax(sizes)
    assert graph.ids.column().to_pylist() == np.flatnonzero(kept).tolist()
    assert edges_of(graph) == [edge for edge in edges_of(whole) if kept[edge[0]]]
    facts = graph.manifest.cleaning
    assert facts.kept == wanted
    assert facts.vertices_dropped == 120 - kept.sum() > 0
    assert facts.edges_dropped == whole.manifest.n_edges - graph.manifest.n_edges
    assert facts.components == (None if wanted == "with-edges" else n)
    assert whole.manifest.cleaning is None
    assert "cleaning" not in json.loads(Path("whole/manifest.json").read_text())
    # Distances are those in the whole graph.
    sources = np.flatnonzero(kept)[:5].tolist()
    for source in sources:
        ours, theirs = (sp.solve(store, source).to_pandas().set_index("vertex") for store in (graph, whole))
        np.testing.assert_array_equal(ours["distance"], theirs.loc[ours.index, "distance"])


def test_ids_without_gaps_need_no_table():
    Path("g.gr").write_text("p sp 6 4\na 2 3 5\na 3 4 6\na 4 2 1\na 3 2 2\n")
    graph = sp.ingest("g.gr", "store", vertices="largest-component")
    assert (graph.manifest.ids.kind, graph.manifest.ids.first_id) == ("offset", 2)
    assert edges_of(graph) == [(2, 3, 5), (3, 2, 2), (3, 4, 6), (4, 2, 1)]
    assert sp.open_store("store").ids.column().to_pylist() == [2, 3, 4]


def test_names_and_coordinates_stay():
    Path("roads.csv").write_text("from,to,km\nAyr,Bude,5\nBude,Ayr,5\nCork,Deal,7\nDeal,Cork,8\nDeal,Ely,9\n")
    Path("places.csv").write_text("id,lon,lat\nAyr,1,2\nBude,3,4\nCork,5,6\nDeal,7,8\nEly,9,10\n")
    graph = sp.ingest("roads.csv", "store", vertices="largest-component", coordinates="places.csv")
    assert edges_of(graph) == [("Cork", "Deal", 7), ("Deal", "Cork", 8), ("Deal", "Ely", 9)]
    assert graph.lon_lat().lon.tolist() == [5, 7, 9]
    assert not graph.manifest.symmetric
    # The whole graph has one-way edges, its largest component has none.
    Path("two.csv").write_text("from,to,km\nA,B,5\nB,A,5\nB,C,6\nC,B,6\nX,Y,7\n")
    assert sp.ingest("two.csv", "two", vertices="largest-component").manifest.symmetric


def test_of_equal_components_the_first_is_kept():
    Path("e.txt").write_text("5 6 1\n1 2 1\n3 4 1\n")
    graph = sp.ingest("e.txt", "store", vertices="largest-component")
    assert edges_of(graph) == [(1, 2, 1)]


def test_self_loops_are_edges_if_they_are_kept():
    Path("g.gr").write_text("p sp 4 2\na 1 1 5\na 2 3 6\n")
    keeps = sp.ingest("g.gr", "keeps", vertices="with-edges", self_loops="keep")
    assert keeps.ids.column().to_pylist() == [1, 2, 3]
    drops = sp.ingest("g.gr", "drops", vertices="with-edges")
    assert drops.ids.column().to_pylist() == [2, 3]


def test_several_weights_keep_the_same_vertices():
    Path("roads.csv").write_text("from,to,minutes,km\nA,B,4,1\nC,D,5,2\nD,E,9,3\n")
    several = {"several": [{"name": "minutes"}, {"name": "km"}]}
    graph = sp.ingest("roads.csv", "store", weight="km", weights=several, vertices="largest-component")
    assert edges_of(graph) == [("C", "D", 2), ("D", "E", 3)]
    assert edges_of(graph.with_weight("minutes")) == [("C", "D", 5), ("D", "E", 9)]
    assert graph.with_weight("minutes").manifest.cleaning == graph.manifest.cleaning


def test_a_graph_of_which_nothing_is_left():
    Path("g.gr").write_text("p sp 4 1\na 1 1 5\n")
    with pytest.raises(InputError) as caught:
        sp.ingest("g.gr", "store", vertices="with-edges")
    message = "`g.gr`: no vertex has an edge that is kept, and `graph.vertices` is `with-edges`"
    assert caught.value.message == message
    assert not Path("store/manifest.json").exists()
    # The largest component of vertices without edges is the first of them.
    assert sp.ingest("g.gr", "one", vertices="largest-component").ids.column().to_pylist() == [1]


@pytest.mark.medium
def test_what_was_left_out_is_told_and_shown(listener):
    Path("e.txt").write_text("1 2 3\n2 3 3\n7 8 3\n")
    told = listener()
    sp.ingest("e.txt", "store", progress=told, vertices="largest-component")
    assert told.said["cleaned"] == ["kept the largest of 2 components; left out 2 vertices and 1 edge"]
    assert told.named("cleaned")[0]["vertices_dropped"] == 2
    shown = CliRunner().invoke(app, ["inspect", "store", "--json"])
    assert json.loads(shown.stdout)["cleaning"] == {
        "kept": "largest-component",
        "vertices_dropped": 2,
        "edges_dropped": 1,
        "components": 2,
    }
    assert "vertices_dropped" in CliRunner().invoke(app, ["inspect", "store"]).stdout
    words = ["e.txt", "--from", "1", "--out", "run", "--set", "graph.vertices=with-edges"]
    for command in ("plan", "run", "plan"):  # also of a store that is not made again
        done = CliRunner().invoke(app, [command, *words])
        assert done.exit_code == 0
        assert "kept the vertices with edges; left out 0 vertices and 0 edges" in done.stderr
    assert json.loads(Path("run/run.json").read_text())["graph"]["cleaning"]["kept"] == "with-edges"
    # Another choice is another graph.
    with pytest.raises(InputError, match=r"`graph\.vertices` is `largest-component` there and `all` here"):
        sp.ingest("e.txt", "store")
