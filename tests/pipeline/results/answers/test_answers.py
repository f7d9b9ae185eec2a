"""Runs that store answers in place of distances: numbers of each source, and the nearest vertices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from named_graph import N_VERTICES, NAMES, verdict_of, write_edges
from pyarrow.csv import read_csv

import sssp_pipeline as sp
from sssp_pipeline.base.errors import InputError, RefutedError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.pipeline.run.conductor import run
from sssp_pipeline.pipeline.run.inspect import describe
from sssp_pipeline.pipeline.run.plan_facts import describe_plan
from sssp_pipeline.pipeline.solving import solve_task as worker_side
from sssp_pipeline.storage.records import record_bytes
from sssp_pipeline.workflow.yaml_file import load_workflow

HEADER = """\
graph: {input: edges.csv, store: graph, weights: {column: weight}}
sources: {all: true}
solve: {batch: 7}
"""
REDUCED = """\
output:
  path: run
  distances: reduced
  reduce:
    values: [reached, max_distance, mean_distance, sum_distance, closeness, harmonic]
    within: [30, 0, 12.5]
    amounts: {file: jobs.csv, names: [jobs, area]}
    histogram: [0, 12.5, 30, 1000]
    quantiles: [0.9, 0, 0.5]
"""
NEAREST = "output: {path: run, distances: nearest, nearest: {k: 3, of: {file: shops.txt}}}\n"
TARGETS = "output: {path: run, layout: wide, targets: {file: shops.txt}}\n"
KINDS = pytest.mark.parametrize("output", [REDUCED, NEAREST], ids=["reduced", "nearest"])
JOBS = {3: (10, 0.5), 17: (-4, 2.25), 38: (100, 0.125)}
SHOPS = [38, 5, 11, 39]


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    write_edges()
    rows = [f"v{v:02},{jobs},{area}" for v, (jobs, area) in JOBS.items()]
    Path("jobs.csv").write_text("\n".join(["vertex,jobs,area", *rows, ""]))
    Path("shops.txt").write_text("\n".join(f"v{v:02}" for v in SHOPS))


def workflow_of(output, *overrides):
    Path("w.yaml").write_text(HEADER + output)
    return load_workflow("w.yaml", ["graph.self_loops=keep", *overrides])


def solved(output, *overrides, progress=None, **options):
    """Return the run folder and the content of run.json of a finished run."""
    return run(workflow_of(output, *overrides), progress or Quiet(), **options)


def table_of(output, *overrides):
    """Return what a run stores of its sources."""
    return pq.read_table(solved(output, *overrides)[0].path("distances"))


def rows_of():
    """All distances (V, V), by a call without answers."""
    return sp.solve(read_csv("edges.csv"), NAMES).numpy()


def test_a_row_for_each_source_has_what_numpy_makes_of_its_distances(numpy_answers):
    folder, record = solved(REDUCED)
    assert record["verify"]["refuted"] is None
    table = pq.read_table(folder.path("distances")).to_pydict()
    amounts = np.zeros((2, N_VERTICES), np.int64)
    for vertex, (jobs, area) in JOBS.items():
        amounts[:, vertex] = jobs, area * 8
    radii = (30, 0, 12.5)
    true = [numpy_answers.reduced(row, radii, amounts) for row in rows_of()]
    assert table.pop("source") == NAMES
    of_metrics = {name: table[name] for name in ("reached", "max_distance", "mean_distance")}
    for name in (*of_metrics, "sum_distance", "closeness", "harmonic"):
        assert table.pop(name) == [getattr(one, name) for one in true], name
    for place, radius in enumerate(radii):
        assert table.pop(f"within_{radius}") == [one.within[place][0] for one in true]
        jobs, area = zip(*(one.within[place][1] for one in true), strict=True)
        assert table.pop(f"jobs_within_{radius}") == list(jobs)
        assert table.pop(f"area_within_{radius}") == [a / 8 for a in area]
    counts = [numpy_answers.histogram_of(row, (0, 12.5, 30, 1000)) for row in rows_of()]
    buckets = ("from_0_to_12.5", "from_12.5_to_30", "from_30_to_1000")
    assert [table.pop(name) for name in buckets] == np.transpose(counts).tolist()
    for share in (0.9, 0, 0.5):
        true = [numpy_answers.quantiles_of(row, [share])[0] for row in rows_of()]
        assert table.pop(f"quantile_{share}") == true
    assert not table
    metrics = folder.read_metrics()
    for name, values in of_metrics.items():
        assert metrics[name].to_pylist() == values


def test_the_nearest_of_some_targets_have_ids_and_ranks(numpy_answers):
    folder, record = solved(NEAREST)
    assert record["verify"]["refuted"] is None
    rows = pq.read_table(folder.path("distances")).to_pylist()
    assert len(rows) == 3 * N_VERTICES
    for v, row in enumerate(rows_of()):
        distances, vertices = numpy_answers.nearest(row, 3, np.array(SHOPS))
        for rank in range(3):
            is_missing = vertices[rank] == 2**32 - 1
            assert rows[3 * v + rank] == {
                "source": f"v{v:02}",
                "rank": rank + 1,
                "vertex": None if is_missing else f"v{vertices[rank]:02}",
                "distance": None if is_missing else distances[rank],
            }


@pytest.mark.medium
@KINDS
def test_a_run_is_planned_inspected_read_and_verified_again(output):
    workflow = workflow_of(output)
    plan = describe_plan(workflow, 0, Quiet())
    n_words = 6 + 3 * 3 + 3 + 3 if output is REDUCED else 6
    assert (plan["batches"], plan["written_bytes"]) == (6, N_VERTICES * n_words * 8)
    folder, record = run(workflow, Quiet())
    assert describe("run")["sources"] == N_VERTICES
    assert Path("run/report.html").exists()
    assert run(workflow, Quiet())[1] == record  # nothing is left to do
    assert verdict_of()["refuted"] is None
    stored = sp.open_run("run")
    assert stored.answers().num_rows == pq.read_table(folder.path("distances")).num_rows
    assert set(stored.answers(["v03", "v39"])["source"].to_pylist()) == {"v03", "v39"}
    assert stored.answers([]).num_rows == 0
    with pytest.raises(InputError, match="holds answers, no distances"):
        stored.distances()


@KINDS
def test_a_wrong_value_is_refuted(output, recorded_anew):
    folder, _ = solved(output)
    table = pq.read_table(folder.batch_path(0))
    name = "closeness" if output is REDUCED else "distance"
    wrong = pa.array([None if v is None else v + 1 for v in table[name].to_pylist()], table[name].type)
    pq.write_table(table.set_column(table.column_names.index(name), name, wrong), folder.batch_path(0))
    recorded_anew(folder)
    first, true = wrong[0].as_py(), table[name][0].as_py()
    rank = "" if output is REDUCED else ", rank 1"
    with pytest.raises(RefutedError) as caught:
        verdict_of()
    assert caught.value.message == f"source `v00`{rank}: stored {name} {first}, true {name} {true}"


@pytest.mark.medium
@KINDS
def test_an_interrupted_run_goes_on(output, run_interrupted):
    whole = table_of(output)
    again = "output.path=again"
    run_interrupted(workflow_of(output, again))
    Path("again/distances/batch-00002.parquet").unlink()
    Path("again/distances/batch-00003.parquet").write_bytes(b"")
    assert table_of(output, again) == whole


def test_an_unfinished_run_with_other_parts_stays_as_it_is(run_interrupted):
    workflow = workflow_of(
        "output: {path: run, distances: reduced, reduce: {per_edge: {values: [betweenness]}}}"
    )
    run_interrupted(workflow)
    identity = RunFolder("run").stored_identity()
    assert identity["writer"] == "pages-3, paths-2"
    # As releases wrote it whose parts had the words of all edges.
    Path("run/_run/identity.json").write_bytes(record_bytes(identity | {"writer": "pages-3"}))
    before = {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()}
    with pytest.raises(InputError) as caught:
        run(workflow, Quiet())
    assert (
        caught.value.message == "`run` holds an unfinished run of another release, which writes other bytes"
    )
    assert caught.value.hint == "finish it with that release, or replace it with `--overwrite`"
    assert {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()} == before


@pytest.mark.medium
@KINDS
def test_answers_in_an_object_store(output):
    whole = table_of(output)
    solved(output, "output.path=memory://answers-of-a-run", overwrite=True)
    assert sp.open_run("memory://answers-of-a-run").answers() == whole


@pytest.mark.medium
def test_numbers_over_all_sources_are_those_of_all_distances(numpy_answers, listener):
    _, record = solved(REDUCED, progress=(heard := listener()))
    rows = rows_of()
    furthest = [numpy_answers.reduced(row).max_distance for row in rows]
    bounds = (0, 12.5, 30, 1000)
    counts = np.sum([numpy_answers.histogram_of(row, bounds) for row in rows], axis=0).tolist()
    assert record["overall"] == {
        "largest_distance": max(furthest),
        "histogram": [
            {"from": low, "to": high, "count": n}
            for low, high, n in zip(bounds, bounds[1:], counts, strict=False)
        ],
    }
    buckets = f"0 to 12.5: {counts[0]}, 12.5 to 30: {counts[1]}, 30 to 1000: {counts[2]}"
    assert f"largest distance from these sources {max(furthest)}; pairs by distance {buckets}" in heard.lines
    assert sp.open_run("run").overall == record["overall"] == describe("run")["overall"]
    assert buckets in Path("run/report.html").read_text()
    for more in (
        ["solve.batch=40"],
        ["solve.solver=dijkstra"],
        ["graph.weights.scale=100", "graph.store=scaled"],
    ):
        again = solved(REDUCED, "output.path=again", *more, overwrite=True)[1]
        assert again["overall"] == record["overall"]


@pytest.mark.medium
@pytest.mark.parametrize("name", ["largest_distance", "histogram", "diameter"])
def test_verify_finds_a_wrong_number_over_all_sources(name):
    folder, record = solved(REDUCED)
    assert verdict_of()["refuted"] is None
    true = record["overall"].get(name)
    wrong = [{**true[0], "count": 5}, *true[1:]] if name == "histogram" else 7
    record["overall"][name] = wrong
    folder.finish(record)
    with pytest.raises(RefutedError) as caught:
        verdict_of()
    assert caught.value.message == f"`run.json`: stored {name} {wrong}, true {name} {true}"


@pytest.mark.medium
def test_a_diameter_needs_all_vertices_as_sources_that_reach_all():
    two = "sources={ids: [v00, v03]}"
    whole = solved("output: {path: run}", two)[1]
    assert solved("output: {path: alone, distances: none}", two)[1]["overall"] == whole["overall"]
    row_of_each = rows_of()[[0, 3]]
    assert whole["overall"] == {"largest_distance": int(row_of_each[row_of_each < 2**31].max())}
    Path("edges.csv").write_text("source,target,weight\nv0,v1,1\nv1,v2,2\nv2,v0,4\n")
    ring = "graph.store=ring", "output.path=ring-run"
    assert solved("output: {path: run}", *ring)[1]["overall"] == {
        "largest_distance": 6,
        "diameter": 6,
        "radius": 3,
    }
    assert verdict_of("ring-run")["refuted"] is None
    for cut in ("solve.cutoff=5", "sources={ids: [v0, v1]}"):
        overall = solved("output: {path: run}", *ring, cut, overwrite=True)[1]["overall"]
        assert not {"diameter", "radius"} & overall.keys()
    Path("edges.csv").write_text("source,target,weight\nv0,v1,1\n")
    no_path_back = solved("output: {path: other}", "graph.store=other-graph")[1]["overall"]
    assert no_path_back == {"largest_distance": 1}


@pytest.mark.medium
def test_numbers_over_all_sources_have_the_type_of_the_weights():
    large = 2**53 + 1
    Path("edges.csv").write_text(f"source,target,weight\nv1,v2,{large}\nv2,v1,{large + 2}\n")
    both = "sources={ids: [v1, v2]}", "graph.store=large-graph"
    overall = solved("output: {path: large}", *both)[1]["overall"]
    assert overall == {"largest_distance": large + 2, "diameter": large + 2, "radius": large}
    assert verdict_of("large", "certificate")["refuted"] is None
    assert {type(value) for value in overall.values()} == {int}


@pytest.mark.medium
@KINDS
def test_what_a_run_was_asked_for_is_its_identity(output):
    solved(output)
    if output is REDUCED:
        Path("jobs.csv").write_text(Path("jobs.csv").read_text().replace("100", "101"))
    else:
        Path("shops.txt").write_text("v38\nv05\n")
    name = "reduce" if output is REDUCED else "nearest"
    with pytest.raises(InputError, match=f"holds another run: it differs in {name}"):
        solved(output)
    _, record = solved(output, overwrite=True)
    assert record["verify"]["refuted"] is None


@pytest.mark.medium
@KINDS
def test_a_damaged_input_is_an_error(output, recorded_anew):
    folder, _ = solved(output)
    file = Path("run/_output.u32")
    whole = file.read_bytes()
    file.write_bytes(whole[:-4] + b"\1\0\0\0")
    with pytest.raises(InputError, match=r"_output\.u32` was altered"):
        verdict_of()
    solved(output)
    assert file.read_bytes() == whole
    file.write_bytes(whole[:-4] + b"\1\0\0\0")
    recorded_anew(folder)
    with pytest.raises(InputError, match=r"_output\.u32` is damaged"):
        verdict_of()


@pytest.mark.parametrize("how", ["flip", "cut"])
@pytest.mark.parametrize("output", [REDUCED, NEAREST, TARGETS], ids=["reduced", "nearest", "targets"])
def test_no_batch_is_solved_with_a_damaged_input(output, how, monkeypatch):
    workflow = workflow_of(output, "verify=off", f"output.path=run-{how}")  # workers cache the input of a run
    real = RunFolder.write_input

    def damaged(folder, words, *, stays):
        real(folder, words, stays=stays)
        path = Path(folder.url, "_output.u32" if stays else "_run/targets.u32")
        content = path.read_bytes()
        path.write_bytes(content[:-1] if how == "cut" else bytes([content[0] ^ 1]) + content[1:])

    worker_side._read_input.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "write_input", damaged)
        with pytest.raises(InputError, match=r"\.u32` is damaged: it has not what the run was asked for"):
            run(workflow, Quiet())
    assert solved(output, f"output.path=run-{how}")[1]["verify"]["refuted"] is None


@pytest.mark.medium
def test_with_a_scale_answers_are_in_the_unit_of_the_input():
    scaled = "graph.weights.scale=100"
    table = table_of(REDUCED, scaled, "graph.store=scaled")
    plain = table_of(REDUCED, "output.path=plain")
    assert table["sum_distance"].type == table["max_distance"].type == pa.float64()
    assert table["quantile_0.5"].type == pa.float64()
    buckets = ("from_0_to_12.5", "from_12.5_to_30", "quantile_0.9", "quantile_0.5")
    for name in ("sum_distance", "max_distance", "within_12.5", "jobs_within_30", *buckets):
        assert table[name].to_pylist() == plain[name].to_pylist(), name
    assert table["mean_distance"].to_pylist() == sp.open_run("run").metrics["mean_distance"].to_pylist()
    for name in ("mean_distance", "closeness", "harmonic"):
        assert table[name].to_pylist() == pytest.approx(plain[name].to_pylist(), rel=1e-14)
    near = table_of(NEAREST, scaled, "graph.store=scaled", "output.path=near")
    assert near["distance"].type == pa.float64()


def test_a_sum_that_is_too_large_names_the_source():
    Path("edges.csv").write_text(f"source,target,weight\nv1,v2,{2**63}\nv2,v3,{2**62}\nv0,v1,1\n")
    output = "output: {path: run, distances: reduced, reduce: {values: [sum_distance]}}\n"
    with pytest.raises(InputError) as caught:
        solved(output, "graph.weights.dtype=uint64")
    assert caught.value.message == "the sum of the distances of source `v0` is above what uint64 holds"
    assert caught.value.hint == "leave out `sum_distance`; `mean_distance` always fits"
    assert not Path("run/distances").exists()


def test_nearest_of_all_vertices_has_the_source_first():
    output = "output: {path: run, distances: nearest, nearest: {k: 50}}\n"
    folder, _ = solved(output)
    assert not Path("run/_output.u32").exists()
    table = pq.read_table(folder.path("distances")).to_pandas()
    first = table[table["rank"] == 1]
    assert (first["source"] == first["vertex"]).all()
    assert len(table) == 50 * N_VERTICES
