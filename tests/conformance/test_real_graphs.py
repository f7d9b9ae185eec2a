"""Real graphs through the whole pipeline: sixteen sources each, every stored distance equal to SciPy's.

The weights are integers, whose sums float64 holds exactly, so that an oracle in another type is exact too.
"""

import gzip
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

import sssp_pipeline as sp
from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.generators import hashed_weights
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.answers.nearest import NearestOfRow
from sssp_pipeline.kernels.answers.reductions import Reductions
from sssp_pipeline.kernels.contract.over_sources import OverSources
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.pipeline.graph_store.loading import load_graph, load_ids
from sssp_pipeline.pipeline.graph_store.store import read_manifest
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.run.conductor import run
from sssp_pipeline.pipeline.run.ingest_workflow import ingest_all
from sssp_pipeline.workflow.models import Workflow

pytestmark = pytest.mark.medium

SOURCES = 16


def cnr_edge_list(path: Path, tmp_path: Path) -> Path:
    """Turn an adjacency text (line i lists the targets of vertex i) into an edge list with hashed weights."""
    with gzip.open(path, "rt") as file:
        n_vertices = int(file.readline())
        lines = [np.array(line.split(), np.int64) for line in file]
    assert len(lines) == n_vertices
    src, dst = np.repeat(np.arange(n_vertices), [len(line) for line in lines]), np.concatenate(lines)
    weights = (src * 2654435761 + dst * 40503) % 100 + 1
    target = tmp_path / "cnr.txt"
    np.savetxt(target, np.column_stack([src, dst, weights]), "%d")
    return target


def large(*values: object):
    """Return the values of a graph that is left to `make test-slow`."""
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "graph"),
    [
        ("USA-road-d.NY.gr.gz", {}),
        ("rome99.gr", {"duplicates": "keep-all"}),
        large("cnr-2000.graph-txt.gz", {}),
        large("web-NotreDame.txt.gz", {}),
        ("wiki-Vote.txt", {}),
        ("p2p-Gnutella31.txt", {"self_loops": "keep"}),
        ("Email-Enron.txt", {}),
        ("facebook_combined.txt", {"directed": False}),
        ("wing.graph", {}),
        large("pace16-NE.gr.xz", {"directed": False}),
    ],
)
def test_sixteen_sources_equal_the_oracle(tmp_path, data_file, name, graph):
    path = data_file(name)
    if name.startswith("cnr"):
        path = cnr_edge_list(path, tmp_path)
    workflow = Workflow.model_validate(
        {
            "graph": {"input": str(path), "store": str(tmp_path / "graph"), **graph},
            "sources": {"random": {"count": SOURCES, "seed": 1, "min_reach": 10}},
            "output": {"path": str(tmp_path / "run"), "layout": "wide"},
        }
    )
    run(workflow, Quiet())
    manifest = read_manifest(workflow.store)
    stored, ids = load_graph(workflow.store, manifest), load_ids(workflow.store, manifest)
    # SciPy adds parallel edges up, so it gets the lightest of each; zero weights it would take for no edge.
    assert manifest.weights.min > 0
    src = np.repeat(np.arange(stored.n_vertices), np.diff(stored.row_offsets))
    _, first = np.unique(src * stored.n_vertices + stored.col_indices, return_index=True)
    shape = (stored.n_vertices, stored.n_vertices)
    matrix = csr_array((stored.weights[first].astype(float), (src[first], stored.col_indices[first])), shape)
    seen = 0
    for file in sorted((tmp_path / "run" / "distances").iterdir()):
        table = pq.read_table(file)
        np.testing.assert_array_equal(table["vertex"], ids.column())
        for source in table.column_names[1:]:
            vertex = ids.vertices([int(source)], "source")[0]
            distances = table[source].to_numpy(zero_copy_only=False)
            np.testing.assert_array_equal(
                np.nan_to_num(distances, nan=np.inf), dijkstra(matrix, indices=vertex)
            )
            seen += 1
    assert seen == SOURCES


@pytest.mark.data
def test_the_time_along_the_shortest_way_through_new_york(tmp_path, data_file):
    coordinates = str(data_file("USA-road-d.NY.co.gz"))
    distance = sp.ingest(data_file("USA-road-d.NY.gr.gz"), tmp_path / "d", coordinates=coordinates)
    time = sp.ingest(data_file("USA-road-t.NY.gr.gz"), tmp_path / "t")
    path = sp.solve(distance, 1, targets=[264346], predecessors=True).path(1, 264346)
    fastest = sp.solve(time, 1, targets=[264346]).numpy()[0, 0]
    assert (path.length, path.cost(distance), len(path)) == (495306, 495306, 262)
    assert path.cost(time) >= fastest > 0
    line = np.array(path.geojson()["geometry"]["coordinates"])
    assert line.shape == (262, 2)
    assert (line.min(axis=0) > [-74.5, 40.3]).all()
    assert (line.max(axis=0) < [-73.5, 41.3]).all()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "n_sources"), [("USA-road-d.NY.gr.gz", 200), ("pace16-NE.gr.xz", 20)])
def test_a_sweep_finds_what_a_search_finds(tmp_path, data_file, name, n_sources):
    graph_section = {"input": str(data_file(name)), "store": str(tmp_path / "graph")}
    output = {"path": str(tmp_path / "run")}
    workflow = Workflow.model_validate({"graph": graph_section, "sources": {"all": True}, "output": output})
    ingest_all(workflow, Quiet())
    graph = StoredGraph(workflow.store, read_manifest(workflow.store)).graph()
    if name.startswith("pace16"):  # it has no weights
        src = np.repeat(np.arange(graph.n_vertices), np.diff(graph.row_offsets))
        ends = np.minimum(src, graph.col_indices), np.maximum(src, graph.col_indices)
        graph = CsrGraph(graph.row_offsets, graph.col_indices, hashed_weights(*ends, 1000))
    sources = np.random.default_rng(5).integers(0, graph.n_vertices, n_sources)
    for some in np.split(sources, 2):
        rows = [SOLVERS[s].solve(graph, some, SolveOptions()).distances for s in ("phast", "delta-stepping")]
        np.testing.assert_array_equal(*rows)


@pytest.mark.parametrize("device", ["cpu", pytest.param("gpu", marks=pytest.mark.gpu)])
@pytest.mark.parametrize(
    "name",
    [
        *(large("USA-road-t.NY.gr.gz"), large("web-NotreDame.txt.gz")),
        *("rome99.gr", "p2p-Gnutella31.txt", "Email-Enron.txt"),
    ],
)
def test_answers_are_what_numpy_makes_of_whole_rows(tmp_path, data_file, numpy_answers, name, device):
    workflow = Workflow.model_validate(
        {
            "graph": {"input": str(data_file(name)), "store": str(tmp_path / "graph")},
            "sources": {"all": True},
            "output": {"path": str(tmp_path / "run")},
        }
    )
    ingest_all(workflow, Quiet())
    graph = StoredGraph(workflow.store, read_manifest(workflow.store)).graph()
    generator = np.random.default_rng(1)
    sources = np.argsort(np.diff(graph.row_offsets))[[-1, -100]]
    rows = SOLVERS["delta-stepping"].solve(graph, sources, SolveOptions()).distances
    reached = rows[0][rows[0] != rows.dtype.type(np.iinfo(rows.dtype).max)]
    radii = tuple(np.quantile(reached, [0.1, 0.5, 0.9]).tolist())
    amounts = generator.integers(-9, 999, (2, graph.n_vertices))
    over = OverSources(True, True, radii)
    reduced = Reductions(radii, amounts, True, (0, *radii), (0.01, 0.5, 0.99), over)
    nearest = (
        NearestOfRow(10),
        NearestOfRow(11, generator.permutation(graph.n_vertices)[:500]),
        NearestOfRow(1000),
    )
    of_first: dict[str, np.ndarray] = {}
    for solver in SOLVERS.values():
        if solver.device != device or solver.supports(graph.traits, SolveOptions()) is not None:
            continue
        if solver.counts_arcs and not name.endswith(".gr.gz"):
            continue  # webs and networks of people have no small separators
        found = solver.solve(graph, sources, SolveOptions(kept=reduced))
        words = {"reduced": found.distances, "over sources": found.over_sources}
        for kept in nearest:
            words[str(kept.k)] = solver.solve(graph, sources, SolveOptions(kept=kept)).distances
        if not of_first:
            of_first = words
            numpy_answers.assert_reduced(reduced, words["reduced"], rows)
            numpy_answers.assert_over_sources(over, words["over sources"], rows, sources, graph.traits)
            for kept in nearest:
                numpy_answers.assert_nearest(kept, words[str(kept.k)], rows)
        for answer, true in of_first.items():
            np.testing.assert_array_equal(words[answer], true)
