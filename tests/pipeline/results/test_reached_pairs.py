"""Runs that store the reached vertices of each source, and no rows for the others."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.csv import read_csv

import sssp_pipeline as sp
from sssp_pipeline.base.errors import InputError, RefutedError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.pipeline.results.layouts import long
from sssp_pipeline.pipeline.run.completed_run import verify_run
from sssp_pipeline.pipeline.run.conductor import run
from sssp_pipeline.workflow.yaml_file import load_workflow

EDGES = [(v, w, 1 + (7 * v + w) % 9) for v in range(50) for w in (v + 1, (3 * v) % 50) if w < 50 and v != w]
WORKFLOW = """\
graph: {input: edges.csv, store: graph, weights: {column: weight}}
sources: {all: true}
solve: {batch: 7, cutoff: 12}
output: {path: run, distances: reached}
"""


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    lines = [f"v{v:02},v{w:02},{weight}" for v, w, weight in EDGES]
    Path("edges.csv").write_text("\n".join(["source,target,weight", *lines, ""]))
    Path("w.yaml").write_text(WORKFLOW)


def true_rows():
    """The reached pairs of a call that keeps every distance."""
    ids = [f"v{v:02}" for v in range(50)]
    table = pa.table(sp.solve(read_csv("edges.csv"), ids, cutoff=12))
    return table.filter(table["distance"].is_valid())


@pytest.mark.medium
@pytest.mark.parametrize("group_rows", [2**20, 10])
def test_only_reached_vertices_have_rows(group_rows, monkeypatch):
    monkeypatch.setattr(long, "REACHED_GROUP_ROWS", group_rows)
    folder, record = run(load_workflow("w.yaml"), Quiet())
    assert record["verify"]["refuted"] is None
    table = pq.read_table(folder.path("distances"))
    assert table.to_pydict() == true_rows().to_pydict()
    assert 50 < table.num_rows < 50 * 50 / 2
    assert verify_run("run", None, "sample", Quiet())["verify"]["checked_sources"] == 8
    assert run(load_workflow("w.yaml"), Quiet())[1]["finished"] == record["finished"]
    of_one = [row for row in true_rows().to_pylist() if row["source"] == "v03"]
    stored = sp.open_run("run").distances("v03", [f"v{v:02}" for v in range(50)])
    assert stored.to_pylist() == of_one
    assert len(of_one) < 50


def test_an_object_store_gets_the_same_rows():
    run(load_workflow("w.yaml", ["output.path=memory://reached-pairs-of-a-run"]), Quiet(), overwrite=True)
    assert sp.open_run("memory://reached-pairs-of-a-run").distances().to_pydict() == true_rows().to_pydict()


def test_with_a_scale_distances_are_in_the_unit_of_the_input():
    scaled = load_workflow("w.yaml", ["graph.weights.scale=10"])
    table = pq.read_table(run(scaled, Quiet())[0].path("distances"))
    assert table["distance"].type == pa.float64()
    assert table["distance"].to_pylist() == true_rows()["distance"].to_pylist()


@pytest.mark.parametrize("fault", ["wrong", "missing", "more"])
def test_a_wrong_row_is_refuted(fault, recorded_anew):
    folder, _ = run(load_workflow("w.yaml"), Quiet())
    rows = pq.read_table(folder.batch_path(0)).to_pylist()
    first = rows[1]
    if fault == "wrong":
        rows[1] = {**first, "distance": first["distance"] + 1}
    elif fault == "missing":
        del rows[1]
    else:
        rows.insert(2, {**first, "vertex": "v49", "distance": 12})
    schema = pq.read_schema(folder.batch_path(0))
    pq.write_table(pa.Table.from_pylist(rows, schema), folder.batch_path(0))
    recorded_anew(folder)
    stored, true = {
        "wrong": (first["distance"] + 1, first["distance"]),
        "missing": ("unreached", first["distance"]),
        "more": (12, "unreached"),
    }[fault]
    vertex = "v49" if fault == "more" else first["vertex"]
    with pytest.raises(RefutedError) as caught:
        verify_run("run", None, "sample", Quiet())
    message = f"source `v00`, vertex `{vertex}`: stored distance {stored}, true distance {true}"
    assert caught.value.message == message


def test_a_file_with_other_vertices_is_an_error(recorded_anew):
    folder, _ = run(load_workflow("w.yaml"), Quiet())
    content = pq.read_table(folder.batch_path(1))
    pq.write_table(content.set_column(1, "vertex", pa.array(["x"] * len(content))), folder.batch_path(1))
    recorded_anew(folder)
    with pytest.raises(InputError, match="10 of 10 vertices are not in the graph"):
        verify_run("run", None, "sample", Quiet())


@pytest.mark.parametrize(
    "setting",
    ["verify=certificate", "solve.predecessors=true", "output.targets={ids: [v01]}", "output.layout=wide"],
)
def test_what_needs_every_row_is_refused(setting):
    with pytest.raises(InputError, match=r"`output\.distances"):
        load_workflow("w.yaml", [setting])
