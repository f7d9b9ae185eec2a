"""Runs that store the reached vertices of each source, and no rows for the others."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from named_graph import NAMES, run_of, table_of, verdict_of, write_edges
from pyarrow.csv import read_csv

import sssp_pipeline as sp
from sssp_pipeline.base.errors import InputError, RefutedError
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.pipeline.results.layouts import long
from sssp_pipeline.workflow.yaml_file import load_workflow

WORKFLOW = """\
graph: {input: edges.csv, store: graph, weights: {column: weight}}
sources: {all: true}
solve: {batch: 7, cutoff: 12}
output: {path: run, distances: reached}
"""


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    write_edges()
    Path("w.yaml").write_text(WORKFLOW)


def true_rows():
    """The reached pairs of a call that keeps every distance."""
    table = pa.table(sp.solve(read_csv("edges.csv"), NAMES, cutoff=12))
    return table.filter(table["distance"].is_valid())


@pytest.mark.medium
@pytest.mark.parametrize("group_rows", [2**20, 10])
def test_only_reached_vertices_have_rows(group_rows, monkeypatch):
    monkeypatch.setattr(long, "REACHED_GROUP_ROWS", group_rows)
    folder, record = run_of()
    assert record["verify"]["refuted"] is None
    table = pq.read_table(folder.path("distances"))
    assert table.to_pydict() == true_rows().to_pydict()
    assert 40 < table.num_rows < 40 * 40 / 2
    assert verdict_of()["checked_sources"] == 8
    assert run_of()[1]["finished"] == record["finished"]
    of_one = [row for row in true_rows().to_pylist() if row["source"] == "v03"]
    assert sp.open_run("run").distances("v03", NAMES).to_pylist() == of_one
    assert len(of_one) < 40


def test_an_object_store_gets_the_same_rows():
    run_of("output.path=memory://reached-pairs-of-a-run", overwrite=True)
    assert sp.open_run("memory://reached-pairs-of-a-run").distances().to_pydict() == true_rows().to_pydict()


def test_with_a_scale_distances_are_in_the_unit_of_the_input():
    table = table_of("graph.weights.scale=10")
    assert table["distance"].type == pa.float64()
    assert table["distance"].to_pylist() == true_rows()["distance"].to_pylist()


@pytest.mark.parametrize("fault", ["wrong", "missing", "more"])
def test_a_wrong_row_is_refuted(fault, recorded_anew):
    path = run_of()[0].batch_path(0)
    table = pq.read_table(path)
    rows = table.to_pylist()
    first = rows[1]
    right, vertex = first["distance"], first["vertex"]
    if fault == "wrong":
        rows[1], stored, true = {**first, "distance": right + 1}, right + 1, right
    elif fault == "missing":
        del rows[1]
        stored, true = "unreached", right
    else:
        vertex, stored, true = "v39", 12, "unreached"
        rows.insert(2, {**first, "vertex": vertex, "distance": stored})
    pq.write_table(pa.Table.from_pylist(rows, table.schema), path)
    recorded_anew(RunFolder("run"))
    with pytest.raises(RefutedError) as caught:
        verdict_of()
    message = f"source `v00`, vertex `{vertex}`: stored distance {stored}, true distance {true}"
    assert caught.value.message == message


def test_a_file_with_other_vertices_is_an_error(recorded_anew):
    folder, _ = run_of()
    content = pq.read_table(folder.batch_path(1))
    pq.write_table(content.set_column(1, "vertex", pa.array(["x"] * len(content))), folder.batch_path(1))
    recorded_anew(folder)
    with pytest.raises(InputError, match=r"(\d+) of \1 vertices are not in the graph"):
        verdict_of()


@pytest.mark.parametrize(
    "setting",
    ["verify=certificate", "solve.predecessors=true", "output.targets={ids: [v01]}", "output.layout=wide"],
)
def test_what_needs_every_row_is_refused(setting):
    with pytest.raises(InputError, match=r"`output\.distances"):
        load_workflow("w.yaml", [setting])
