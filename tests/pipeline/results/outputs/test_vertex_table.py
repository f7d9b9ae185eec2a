"""Runs that keep numbers of each vertex over all sources, in `vertices.parquet`."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from named_graph import N_VERTICES, NAMES, run_of, verdict_of, write_edges
from pyarrow.csv import read_csv

import sssp_pipeline as sp
from sssp_pipeline.base.errors import InputError, RefutedError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.pipeline.run.plan_facts import describe_plan
from sssp_pipeline.pipeline.verification import vertices
from sssp_pipeline.workflow.yaml_file import load_workflow

WORKFLOW = """\
graph: {input: edges.csv, store: graph, self_loops: keep, weights: {column: weight}}
sources: {file: sources.txt}
solve: {batch: 3}
output:
  path: run
  distances: reduced
  reduce:
    per_vertex:
      values: [nearest_source, sum_distance, reached_by, mean_distance]
      within: [30, 0, 12.5]
"""
SOURCES = [38, 5, 11, 39, 2, 7, 30, 31]


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    write_edges()
    Path("sources.txt").write_text("\n".join(NAMES[v] for v in SOURCES))
    Path("w.yaml").write_text(WORKFLOW)


def solved(*overrides, **options):
    folder, record = run_of(*overrides, **options)
    assert record["verify"]["refuted"] is None
    return pq.read_table(folder.path("vertices.parquet"))


def expected(numpy_answers):
    """The table that NumPy makes of all distances."""
    rows = sp.solve(read_csv("edges.csv"), [NAMES[v] for v in sorted(SOURCES)]).numpy()
    true = numpy_answers.over_sources(rows, sorted(SOURCES), (30, 0, 12.5), unit_of(rows.dtype))
    missing = [n == 0 for n in true.reached_by]
    pairs = [
        (None, None) if none else (f"v{s:02}", d) for none, (d, s) in zip(missing, true.nearest, strict=True)
    ]
    return {
        "vertex": NAMES,
        "nearest_source": [source for source, _ in pairs],
        "nearest_distance": [distance for _, distance in pairs],
        "sum_distance": [float(s) if rows.dtype.kind == "f" else s for s in true.sums],
        "reached_by": true.reached_by,
        "mean_distance": [
            float(s / max(n, 1)) if n else None for s, n in zip(true.sums, true.reached_by, strict=True)
        ],
        **{f"within_{radius}": counts for radius, counts in zip((30, 0, 12.5), true.within, strict=True)},
    }


def unit_of(dtype):
    return Fraction(1) if dtype.kind != "f" else Fraction(1, 2**100)


@pytest.mark.parametrize("scale", [1, 0.1, 2**33], ids=["uint32", "float64", "uint64"])
def test_a_row_for_each_vertex_has_what_numpy_makes_of_all_distances(scale, numpy_answers):
    write_edges(scale)
    table = solved("solve.cutoff=1e18" if scale == 2**33 else "solve.cutoff=1e9")
    assert table.to_pydict() == expected(numpy_answers)
    stored = sp.open_run("run")
    assert stored.per_vertex() == table
    sources = [NAMES[v] for v in SOURCES]
    values = ["nearest_source", "sum_distance", "reached_by", "mean_distance"]
    assert sp.reduce_per_vertex(read_csv("edges.csv"), sources, values, within=[30, 0, 12.5]) == table
    assert stored.answers().to_pydict().keys() == {"source", "reached"}
    assert not Path("run/_run").exists()
    assert "vertices.parquet" in stored.record["files"]
    page = Path("run/report.html").read_text()
    assert "nearest_source, sum_distance, reached_by, mean_distance, within_30, within_0, within_12.5" in page
    assert "/vertices.parquet" in page


@pytest.mark.medium
def test_no_batch_solver_or_restart_changes_a_byte(run_interrupted):
    solved()
    whole = Path("run/vertices.parquet").read_bytes()
    solve = "solve.batch=8", "solve.batch=1", "solve.solver=dijkstra"
    for more in (*solve, "cluster.kind=local-cpu", "sources.order=given"):
        solved(more, overwrite=True)
        assert Path("run/vertices.parquet").read_bytes() == whole, more
    run_interrupted(load_workflow("w.yaml", ["output.path=again"]))
    # A batch without its file, one whose part was cut, and one whose part is gone are solved again.
    Path("again/distances/batch-00000.parquet").unlink()
    Path("again/_run/vertices-00001.u64").write_bytes(b"12345678")
    Path("again/_run/vertices-00002.u64").unlink()
    solved("output.path=again")
    assert Path("again/vertices.parquet").read_bytes() == whole


def test_a_part_that_counts_twice_or_not_at_all_is_an_error(monkeypatch, run_interrupted):
    run_interrupted(load_workflow("w.yaml"))
    last = Path("run/_run/vertices-00002.u64")
    Path("run/_run/vertices-00001.u64").write_bytes(last.read_bytes())
    monkeypatch.setattr(RunFolder, "damaged_batches", lambda *_: {})
    with pytest.raises(InputError, match=r"the parts of `run` have \d+ reached pairs, and its metrics \d+"):
        run_of()


@pytest.mark.medium
def test_it_stands_beside_numbers_of_each_source_and_is_part_of_the_identity():
    solved("output.reduce.values=[closeness]", "output.reduce.quantiles=[0.5]")
    assert sp.open_run("run").answers().column_names == ["source", "closeness", "quantile_0.5"]
    same = "output.reduce.values=[closeness]", "output.reduce.quantiles=[0.5]"
    with pytest.raises(InputError, match="holds another run: it differs in reduce"):
        run_of(*same, "output.reduce.per_vertex.within=[1]")
    assert verdict_of()["refuted"] is None
    whole = Path("run/vertices.parquet").read_bytes()
    Path("run/vertices.parquet").unlink()
    run_of(*same)
    assert Path("run/vertices.parquet").read_bytes() == whole


def test_an_object_store_gets_the_same_file():
    whole = solved()
    run_of("output.path=memory://vertices-of-a-run", overwrite=True)
    assert sp.open_run("memory://vertices-of-a-run").per_vertex() == whole


def test_with_a_scale_lengths_are_in_the_unit_of_the_input():
    plain = solved()
    scaled = solved("output.path=scaled", "graph.weights.scale=100", "graph.store=scaled-graph")
    assert scaled["sum_distance"].type == scaled["nearest_distance"].type == pa.float64()
    assert scaled.to_pydict() == plain.to_pydict()


def test_the_plan_has_the_memory_and_the_bytes_of_the_parts():
    plan = describe_plan(load_workflow("w.yaml"), 0, Quiet())
    part = 8 * N_VERTICES * (1 + 2 + 1 + 3)  # reached by, nearest source, a limb, three radii
    assert plan["written_bytes"] == len(SOURCES) * 6 * 8 + 3 * part
    assert plan["batch_bytes"] == 3 * 6 * 8 + part + 4 * N_VERTICES
    # Without a size in the workflow, the rows of a batch take at least eight times as much as its part.
    every = load_workflow("w.yaml", ["solve.batch=auto", "sources={all: true}"])
    assert describe_plan(every, 0, Quiet())["batches"] == 1


def test_a_sum_that_is_too_large_names_the_vertex():
    Path("edges.csv").write_text(f"source,target,weight\nv1,v2,{2**63}\nv0,v1,{2**62}\nv0,v0,1\n")
    Path("sources.txt").write_text("v0\nv1\nv2\n")
    with pytest.raises(InputError) as caught:
        run_of("graph.weights.dtype=uint64")
    assert caught.value.message == "the sum of the distances to vertex `v2` is above what uint64 holds"
    assert caught.value.hint == "leave out `sum_distance` of `per_vertex`; `mean_distance` always fits"


ALL = "sources={all: true}"


@pytest.mark.medium
@pytest.mark.parametrize(
    ("scale", "overrides"),
    [
        (1, []),
        (0.1, []),
        (1, [ALL]),
        (1, [ALL, "solve.cutoff=35"]),
        (1, [ALL, "graph.directed=false"]),
        (0.5, [ALL, "graph.weights.scale=10"]),
        (2**33, [ALL]),
        pytest.param(1, [ALL, "cluster={kind: local-cpu, workers: 1}"], marks=pytest.mark.slow),
    ],
    ids=["few", "few-floats", "all", "cutoff", "symmetric", "scale", "64-bits", "process"],
)
def test_verify_finds_a_wrong_number_of_a_vertex(scale, overrides, recorded_anew):
    write_edges(scale)
    table = solved("output.reduce.values=[reached]", *overrides)
    verdict = verdict_of()
    assert (verdict["refuted"], verdict["checked_vertices"]) == (None, 8)
    assert "unchecked" not in verdict
    last = table.slice(N_VERTICES - 1).to_pylist()[0]
    names = [name for name in table.column_names if name != "vertex"]
    for name in names[:1] if "cluster" in str(overrides) else names:  # worker processes start slowly
        value = last[name]
        rows = [*table.to_pylist()[:-1], {**last, name: "v07" if name == "nearest_source" else 12345}]
        altered = pa.Table.from_pylist(rows, table.schema)
        pq.write_table(altered, "run/vertices.parquet", row_group_size=7)
        recorded_anew(RunFolder("run"))
        wrong = altered[name][-1].as_py()
        refuted = f"vertex `v39`: stored {name} {wrong}, true {name} {value}"
        with pytest.raises(RefutedError) as caught:
            verdict_of()
        assert caught.value.message == refuted
        assert json.loads(Path("run/run.json").read_text())["verify"]["refuted"] == refuted


def test_verify_finds_a_vertex_under_another_id_and_a_column_that_is_missing(recorded_anew):
    table = solved()
    ids = table["vertex"].to_pylist()
    pq.write_table(table.set_column(0, "vertex", pa.array(["v99", *ids[1:]])), "run/vertices.parquet")
    recorded_anew(RunFolder("run"))
    with pytest.raises(RefutedError, match="vertex `v00`: stored vertex v99, true vertex v00"):
        verdict_of()
    pq.write_table(table.drop_columns(["reached_by"]), "run/vertices.parquet")
    recorded_anew(RunFolder("run"))
    with pytest.raises(RefutedError, match="stored columns"):
        verdict_of()
    pq.write_table(table.slice(1), "run/vertices.parquet")
    with pytest.raises(InputError, match=r"`run/vertices\.parquet`"):
        verdict_of()


def unchecked(heard):
    """The reason why no vertex was checked, which a warning has as well as run.json."""
    reason = verdict_of(progress=heard)["unchecked"]
    assert f"the numbers of `vertices.parquet` were not verified: {reason}" in heard.lines
    assert [event["level"] for event in heard.events].count("warning") == 1
    (facts,) = heard.named("verified")
    assert (facts["checked_sources"], facts["checked_vertices"]) == (8, 0)
    assert f"The numbers of the vertices were not verified: {reason}." in Path("run/report.html").read_text()
    return reason


@pytest.mark.medium
def test_verify_says_why_it_cannot_check_vertices(monkeypatch, listener):
    write_edges(0.1)
    solved(ALL)
    assert unchecked(listener()).startswith(
        "a sum of float64 depends on the direction of the path, and all 40"
    )
    write_edges(1)
    solved(ALL, overwrite=True)
    with monkeypatch.context() as patch:
        patch.setattr(vertices, "memory_limit", lambda: 1000)
        assert "beside the graph, and a worker has" in unchecked(listener())
    # No source meets the long path that a search from its end meets.
    Path("edges.csv").write_text(f"source,target,weight\na,b,{2**31}\nb,c,{2**31}\nc,d,1\nd,e,2\n")
    Path("sources.txt").write_text("c\nd\ne\n")
    monkeypatch.setattr(vertices, "FEW_SOURCES", 0)
    solved("graph.weights.dtype=uint32", "graph.store=other", "output.path=run", overwrite=True)
    assert "from the vertices backwards, " in verdict_of()["unchecked"]


def test_a_run_without_it_says_so():
    run_of("output.reduce={values: [reached]}")
    with pytest.raises(InputError, match="holds nothing of each vertex over all sources"):
        sp.open_run("run").per_vertex()


@pytest.mark.medium
def test_weights_below_zero(numpy_answers):
    lines = [f"v{v:02},v{v + 1:02},{1 - v % 5}" for v in range(39)]
    Path("edges.csv").write_text("\n".join(["source,target,weight", *lines, ""]))
    assert solved("graph.weights.dtype=int64").to_pydict() == expected(numpy_answers)
    assert min(sp.open_run("run").per_vertex()["nearest_distance"].drop_null().to_pylist()) < 0
    record = run_of("graph.weights.dtype=int64", ALL, overwrite=True)[1]
    assert (record["verify"]["refuted"], record["verify"]["checked_vertices"]) == (None, 8)
