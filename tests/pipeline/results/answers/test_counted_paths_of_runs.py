"""Runs that count some shortest paths only, or some more than others; `sp.betweenness` is the oracle of every bit."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from named_graph import run_of, verdict_of
from tied_graph import solved, stored_bytes

import sssp_pipeline as sp
from sssp_pipeline.base.errors import InputError, RefutedError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.kernels.answers.reductions import Reductions
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.pipeline.run.conductor import run
from sssp_pipeline.pipeline.run.plan_facts import describe_plan
from sssp_pipeline.workflow.yaml_file import load_workflow

N_VERTICES = 30
WORKFLOW = """\
graph: {input: edges.csv, store: graph, weights: {column: weight}, self_loops: keep}
sources: {all: true}
solve: {batch: 4, solver: dijkstra}
output:
  path: run
  distances: reduced
  reduce:
    per_vertex: {values: [betweenness]}
    per_edge: {values: [betweenness]}
    paths:
      targets: {ids: [1, 5, 7, 8, 28]}
      source_amounts: {file: people.csv, names: [people]}
      target_amounts: {file: jobs.csv, names: [jobs]}
      decay: 0.25
"""
PATHS = "output.reduce.paths"
TARGETS = "targets: {ids: [1, 5, 7, 8, 28]}"


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    ends = rng.integers(0, N_VERTICES - 2, (2, 80))
    edges = pd.DataFrame({"source": ends[0], "target": ends[1], "weight": rng.integers(1, 4, 80)})
    island = pd.DataFrame({"source": [N_VERTICES - 2], "target": [N_VERTICES - 1], "weight": [1]})
    pd.concat([edges, island]).to_csv("edges.csv", index=False)
    vertices = np.arange(0, N_VERTICES, 2)
    pd.DataFrame({"vertex": vertices, "people": rng.random(len(vertices))}).to_csv("people.csv", index=False)
    pd.DataFrame({"vertex": range(N_VERTICES), "jobs": range(N_VERTICES)}).to_csv("jobs.csv", index=False)
    Path("w.yaml").write_text(WORKFLOW)


def amounts(name, column):
    with Path(name).open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {"vertex": [int(row["vertex"]) for row in rows], column: [float(row[column]) for row in rows]}


@pytest.mark.parametrize(
    ("paths", "more", "keys"),
    [
        (None, [], ("targets", "source_amounts", "target_amounts", "decay")),
        (f"{{{TARGETS}}}", ["output.reduce.per_vertex.endpoints=true"], ("targets", "endpoints")),
        ("{decay: 0.25}", ["solve.cutoff=3"], ("decay", "cutoff")),
        ("{source_amounts: {file: people.csv, names: [people]}}", [], ("source_amounts",)),
        (
            f"{{target_amounts: {{file: jobs.csv, names: [jobs]}}, {TARGETS}}}",
            [],
            ("target_amounts", "targets"),
        ),
    ],
    ids=str,
)
def test_every_bit_is_that_of_the_python_function(paths, more, keys):
    stored = solved(*([] if paths is None else [f"{PATHS}={paths}"]), *more)
    every = {
        "targets": [1, 5, 7, 8, 28],
        "source_amounts": amounts("people.csv", "people"),
        "target_amounts": amounts("jobs.csv", "jobs"),
        "decay": 0.25,
        "cutoff": 3,
        "endpoints": True,
    }
    options = {key: every[key] for key in keys}
    graph = stored.graph()
    assert stored.per_vertex() == sp.betweenness(graph, **options)
    assert max(stored.per_vertex()["betweenness"].to_pylist()) > 0
    options.pop("endpoints", None)
    assert stored.per_edge() == sp.betweenness(graph, edges=True, **options)


def test_no_batch_solver_worker_or_restart_changes_a_byte(run_interrupted):
    solved()
    whole = stored_bytes()
    run_interrupted(load_workflow("w.yaml", ["output.path=again"]))
    Path("again/_run/paths-00001.u64").unlink()
    solved("output.path=again", "solve.solver=phast")
    assert stored_bytes("again") == whole
    solved("solve.batch=1", "solve.solver=delta-stepping", overwrite=True)
    assert stored_bytes() == whole


@pytest.mark.slow
def test_two_workers_write_the_same_bytes():
    solved()
    whole = stored_bytes()
    solved("cluster={kind: local-cpu, workers: 2}", overwrite=True)
    assert stored_bytes() == whole


def test_amounts_of_paths_stand_beside_amounts_within_radii():
    within = "output.reduce.within=[3]", "output.reduce.amounts={file: jobs.csv, names: [jobs]}"
    both = solved(*within)
    apart = solved(*within, "output.reduce.per_vertex=null", "output.reduce.per_edge=null",
                   f"{PATHS}=null", "output.path=apart")  # fmt: skip
    only = solved("output.path=only")
    assert both.answers().select(["jobs_within_3"]) == apart.answers().select(["jobs_within_3"])
    assert both.per_vertex() == only.per_vertex()


def test_a_sample_is_the_estimate_of_its_sources():
    stored = solved("sources={random: {count: 10, seed: 4}}")
    call = {
        "targets": [1, 5, 7, 8, 28],
        "source_amounts": amounts("people.csv", "people"),
        "target_amounts": amounts("jobs.csv", "jobs"),
        "decay": 0.25,
    }
    each = np.array(
        [sp.betweenness(stored.graph(), s, **call)["betweenness"] for s in stored.sources.to_pylist()]
    )
    found = stored.per_vertex()
    np.testing.assert_allclose(found["betweenness"], N_VERTICES * each.mean(axis=0), rtol=1e-12)
    errors = N_VERTICES * np.sqrt(each.var(axis=0, ddof=1) / 10 * (1 - 10 / N_VERTICES))
    np.testing.assert_allclose(found["standard_error"], errors, rtol=1e-6)


def test_what_is_counted_is_part_of_the_identity():
    solved()
    run_of()  # it is finished
    for other in (
        f"{PATHS}.decay=0.5",
        f"{PATHS}.targets=null",
        f"{PATHS}.target_amounts=null",
        f"{PATHS}=null",
    ):
        with pytest.raises(InputError, match="holds another run: it differs in reduce"):
            run_of(other)
    table = pd.read_csv("jobs.csv")
    table.loc[5, "jobs"] += 1
    table.to_csv("jobs.csv", index=False)
    with pytest.raises(InputError, match="holds another run: it differs in reduce"):
        run_of()


def test_verify_finds_a_wrong_total_of_a_source(recorded_anew):
    solved("solve.batch=30")
    path = "run/distances/batch-00000.parquet"
    table = pq.read_table(path)
    values = table["vertices_passed"].to_numpy() * (1 + 1e-12)
    index = table.column_names.index("vertices_passed")
    pq.write_table(table.set_column(index, "vertices_passed", pa.array(values)), path)
    recorded_anew(RunFolder("run"))
    with pytest.raises(RefutedError, match=r"stored vertices_passed [\d.]+, true vertices_passed [\d.]+"):
        verdict_of()


def test_the_report_and_the_plan_say_what_is_counted():
    plan = describe_plan(load_workflow("w.yaml", ["solve.solver=auto"]), 0, Quiet())
    reason = "a hierarchy sums without the decay of distance"
    assert plan["way_of_sums"] == f"betweenness: summed along rows of distances: {reason}"
    solved()
    counted = (
        "to some targets, times `people` of the source, times `jobs` of the target, times exp(-0.25 · length)"
    )
    assert counted in Path("run/report.html").read_text()


@pytest.mark.medium
@pytest.mark.parametrize("endpoints", ["true", "false"])
@pytest.mark.parametrize("solver", ["phast", pytest.param("phast-gpu", marks=pytest.mark.gpu)])
def test_amounts_are_summed_over_a_hierarchy_too(solver, endpoints, listener, monkeypatch):
    # The forecast along rows of a graph that is far larger.
    monkeypatch.setattr(Reductions, "sum_s", lambda self, *_: float(not self.paths.on_hierarchy))
    at, rng = np.arange(225).reshape(15, 15), np.random.default_rng(5)
    ends = np.concatenate(
        [[at[:, :-1].ravel(), at[:, 1:].ravel()], [at[:-1].ravel(), at[1:].ravel()]], axis=1
    )
    edges = {"source": ends[0], "target": ends[1], "weight": rng.integers(1, 4, ends.shape[1])}
    pd.DataFrame(edges).to_csv("edges.csv", index=False)
    options = "graph.directed=false", f"{PATHS}.decay=null", f"output.reduce.per_vertex.endpoints={endpoints}"
    heard = listener()
    run(load_workflow("w.yaml", [*options, f"solve.solver={solver}", "solve.batch=64"]), heard)
    assert "betweenness: summed over the hierarchy" + " on a GPU" * (solver == "phast-gpu") in heard.lines
    along_rows = solved(*options, "output.path=rows")
    totals = (
        each.answers().select(["vertices_passed", "edges_passed"])
        for each in (sp.open_run("run"), along_rows)
    )
    for found, expected in zip(*totals, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-13)
    for part in ("per_vertex", "per_edge"):
        found, expected = (getattr(each, part)()["betweenness"] for each in (sp.open_run("run"), along_rows))
        np.testing.assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.medium
def test_rows_verify_small_amounts_over_a_hierarchy_beside_large_ones():
    at = np.arange(72).reshape(2, 6, 6)  # two lattices; one has amounts 10^12 times as large
    ends = np.concatenate(
        [[at[..., :-1].ravel(), at[..., 1:].ravel()], [at[:, :-1].ravel(), at[:, 1:].ravel()]], axis=1
    )
    weights = 1 + np.arange(ends.shape[1]) % 3
    pd.DataFrame({"source": ends[0], "target": ends[1], "weight": weights}).to_csv("edges.csv", index=False)
    rows = [f"{vertex},{1000000.5 if vertex < 36 else 0.000001}" for vertex in range(72)]
    Path("people.csv").write_text("\n".join(["vertex,people", *rows]) + "\n")
    amounts = "{file: people.csv, names: [people]}"
    paths = f"{PATHS}={{source_amounts: {amounts}, target_amounts: {amounts}}}"
    options = "graph.directed=false", "solve.solver=phast", "solve.batch=72"
    assert solved(paths, *options).record["verify"]["refuted"] is None


@pytest.mark.gpu
@pytest.mark.parametrize("solver", ["adds-slots", "adds-lanes", "phast-gpu"])
def test_a_gpu_writes_the_bytes_of_a_cpu(solver):
    endpoints = "output.reduce.per_vertex.endpoints=true"
    solved(endpoints)
    whole = stored_bytes()
    solved(endpoints, f"solve.solver={solver}", overwrite=True)
    assert stored_bytes() == whole


# ---- what is refused ----


@pytest.mark.parametrize(
    ("paths", "content", "message", "hint"),
    [
        (
            "{target_amounts: {file: a.csv, names: [x]}}",
            "vertex,x\n1,2\n3,-4\n",
            "`a.csv`: vertex `3` has the amount -4",
            "an amount is a number of 0 or more",
        ),
        (
            "{source_amounts: {file: a.csv, names: [x]}}",
            "vertex,x\n1,0\n",
            "`a.csv`: no vertex has an amount above 0",
            "without amounts, no path counts: name some vertices",
        ),
        (
            "{target_amounts: {file: a.csv, names: [x]}}",
            "vertex,x\n",
            "`a.csv`: no vertex has an amount above 0",
            "without amounts, no path counts: name some vertices",
        ),
        (
            "{source_amounts: {file: a.csv, names: [x]}}",
            "vertex,x\n1,2\n3,nan\n",
            "`a.csv` line 3: column `x` is `nan`, wanted a number",
            "write a number in each row; a vertex without a row has the amount 0",
        ),
        (
            "{source_amounts: {file: a.csv, names: [x]}}",
            "vertex,x\n1,\n",
            "`a.csv` line 2: column `x` is empty, wanted a number",
            "write a number in each row; a vertex without a row has the amount 0",
        ),
        (
            "{source_amounts: {file: a.csv, names: [x]}}",
            "vertex,x\n99,1\n",
            "`a.csv`: vertex `99` is not in the graph",
            "`output.reduce.paths.source_amounts.unknown: skip` leaves out those that are not in the graph",
        ),
        (
            "{source_amounts: {file: a.csv, names: [y]}}",
            "vertex,x\n9,1\n",
            "`a.csv` has no column `y`: its columns are `vertex`, `x`",
            "correct `output.reduce.paths.source_amounts.names`",
        ),
        (
            "{source_amounts: {file: a.csv, names: [x]}, target_amounts: {file: a.csv, names: [x]}}",
            "vertex,x\n9,1e200\n",
            "the amount of a source times all amounts of targets is about 2^",
            "write the amounts in another unit",
        ),
        ("{targets: {file: a.csv}}", "\n", "`a.csv` names no target", "write one id on each line"),
        ("{targets: {ids: [99]}}", "", "target `99` is not in the graph", ""),
    ],
)
def test_files_that_cannot_be_used(paths, content, message, hint):
    Path("a.csv").write_text(content)
    with pytest.raises(InputError) as caught:
        run_of(f"{PATHS}={paths}")
    assert caught.value.message.startswith(message)
    assert hint in caught.value.hint
    assert not Path("run").exists()


def test_ids_that_are_skipped_in_both_files_are_counted(listener):
    for name, column in (("people.csv", "people"), ("jobs.csv", "jobs")):
        with Path(name).open("a") as file:
            file.write(f"{len(column) + 90},1\n")
    heard = listener()
    skip = [f"{PATHS}.{key}.unknown=skip" for key in ("source_amounts", "target_amounts")]
    run(load_workflow("w.yaml", skip), heard)
    assert "skipped 2 vertices that are not in the graph: `96`, `94`" in heard.lines
