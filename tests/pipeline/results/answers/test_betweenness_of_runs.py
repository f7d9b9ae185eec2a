"""Runs that keep the betweenness of vertices and edges; `sp.betweenness` is the oracle of every bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from named_graph import run_of, verdict_of
from tied_graph import EDGES, N_VERTICES, VERTICES, solved, stored_bytes, write_edges

import sssp_pipeline as sp
from sssp_pipeline.base.errors import InputError, RefutedError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.kernels.answers.reductions import Reductions
from sssp_pipeline.pipeline.planning import work
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.pipeline.run.conductor import run
from sssp_pipeline.pipeline.run.plan_facts import describe_plan
from sssp_pipeline.workflow.yaml_file import load_workflow

WORKFLOW = """\
graph: {input: edges.csv, store: graph, weights: {column: weight}, duplicates: keep-all, self_loops: keep}
sources: {all: true}
solve: {batch: 3}
output:
  path: run
  distances: reduced
  reduce:
    per_vertex: {values: [betweenness]}
    per_edge: {values: [betweenness]}
"""
ENDPOINTS = "output.reduce.per_vertex.endpoints=true"
NORMALIZED = "output.reduce.per_vertex.normalized=true", "output.reduce.per_edge.normalized=true"
TEN = "sources={random: {count: 10, seed: 4}}"


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    write_edges()
    Path("w.yaml").write_text(WORKFLOW)


@pytest.mark.parametrize(
    ("overrides", "options", "scale"),
    [
        ([], {}, 1),
        (["graph.directed=false"], {}, 1),
        (["solve.cutoff=4"], {"cutoff": 4}, 1),
        ([ENDPOINTS, "solve.solver=dijkstra"], {"endpoints": True}, 1),
        ([*NORMALIZED], {"normalized": True}, 1),
        ([*NORMALIZED, ENDPOINTS], {"normalized": True, "endpoints": True}, 1),
        (["sources={ids: [3, 4, 9, 39]}"], {"sources": [3, 4, 9, 39]}, 1),
        (["graph.weights.dtype=float64"], {}, 0.37),
        (["graph.weights.scale=10", "solve.cutoff=0.7"], {"cutoff": 0.7}, 0.1),
        (["graph.weights.dtype=int64"], {}, 1),
    ],
    ids=str,
)
def test_every_bit_is_that_of_the_python_function(overrides, options, scale):
    write_edges(scale)
    stored = solved(*overrides)
    graph = stored.graph()
    assert stored.per_vertex() == sp.betweenness(graph, **options)
    of_edges = {name: value for name, value in options.items() if name != "endpoints"}
    assert stored.per_edge() == sp.betweenness(graph, edges=True, **of_edges)
    assert max(stored.per_edge()["betweenness"].to_pylist()) > 0


@pytest.mark.medium
def test_no_batch_solver_worker_or_restart_changes_a_byte(run_interrupted):
    solved()
    whole = stored_bytes()
    many = "solve.batch=8", "solve.batch=1", "solve.solver=dijkstra", "solve.solver=parallel-delta-stepping"
    for more in (*many, "solve.solver=phast"):
        solved(more, overwrite=True)
        assert stored_bytes() == whole, more
    run_interrupted(load_workflow("w.yaml", ["output.path=again"]))
    # A batch without its file, one whose part was cut, and one whose part is gone are solved again.
    Path("again/distances/batch-00000.parquet").unlink()
    Path("again/_run/paths-00001.u64").write_bytes(b"12345678")
    Path("again/_run/paths-00002.u64").unlink()
    solved("output.path=again")
    assert stored_bytes("again") == whole
    assert not Path("again/_run").exists()


@pytest.mark.slow
def test_two_workers_write_the_same_bytes():
    solved()
    whole = stored_bytes()
    solved("cluster={kind: local-cpu, workers: 2}", overwrite=True)
    assert stored_bytes() == whole


def test_equal_weights_are_searched_in_bits():
    table = pd.read_csv("edges.csv").assign(weight=2)
    table.to_csv("edges.csv", index=False)
    stored = solved("solve.solver=bits", "output.reduce.per_vertex.values=[reached_by, betweenness]")
    expected = sp.betweenness(stored.graph(), solver="dijkstra")
    assert stored.per_vertex().select(["vertex", "betweenness"]) == expected
    assert stored.per_edge() == sp.betweenness(stored.graph(), edges=True, solver="dijkstra")


def test_each_source_has_what_its_paths_pass():
    stored = solved()
    distances = sp.solve(stored.graph(), "all").numpy()
    answers = stored.answers().to_pandas()
    assert list(answers) == ["source", "vertices_passed", "edges_passed"]
    n_targets = np.isfinite(distances.astype(float)) & (distances != np.iinfo(distances.dtype).max)
    # Of a path, one edge more is passed than vertices between its ends.
    np.testing.assert_allclose(
        answers["edges_passed"] - answers["vertices_passed"], n_targets.sum(axis=1) - 1, rtol=1e-12
    )
    each = [sp.betweenness(stored.graph(), source)["betweenness"] for source in (0, 7, 39)]
    sums = [sum(column.to_pylist()) for column in each]
    np.testing.assert_allclose(answers["vertices_passed"][[0, 7, 39]], sums, rtol=1e-12)


def test_it_stands_beside_other_numbers():
    amounts = pa.table({"vertex": list(range(N_VERTICES)), "jobs": list(range(N_VERTICES))})
    pq.write_table(amounts, "jobs.parquet")
    others = [
        "output.reduce.values=[closeness, harmonic]",
        "output.reduce.within=[3]",
        "output.reduce.amounts={file: jobs.parquet, names: [jobs]}",
        "output.reduce.histogram=[0, 2, 5]",
        "output.reduce.quantiles=[0.5, 0.9]",
    ]
    values = "output.reduce.per_vertex={values: [betweenness, nearest_source, sum_distance], within: [2]}"
    stored = solved(*others, values)
    names = stored.answers().column_names
    assert names[-2:] == ["vertices_passed", "edges_passed"]
    alone = solved("output.path=alone")
    apart = solved(
        *others, "output.reduce.per_edge=null", "output.reduce.per_vertex=null", "output.path=apart"
    )
    assert stored.answers().select(apart.answers().column_names) == apart.answers()
    assert stored.answers().select(names[-2:]) == alone.answers().select(names[-2:])
    columns = ["vertex", "nearest_source", "nearest_distance", "sum_distance", "within_2", "betweenness"]
    assert stored.per_vertex().column_names == columns
    assert stored.per_vertex()["betweenness"] == alone.per_vertex()["betweenness"]


@pytest.mark.parametrize(("kept", "lost"), [("vertex", "edge"), ("edge", "vertex")])
def test_vertices_or_edges_only(kept, lost):
    stored = solved(f"output.reduce.per_{lost}=null")
    assert getattr(stored, f"per_{kept}")() == sp.betweenness(stored.graph(), edges=kept == "edge")
    with pytest.raises(InputError, match=f"holds nothing of each {lost} over all sources") as caught:
        getattr(stored, f"per_{lost}")()
    assert caught.value.hint == f"run it with `output.reduce.per_{lost}`"


def test_a_graph_with_a_loop_only():
    Path("edges.csv").write_text("source,target,weight\n1,1,5\n")
    stored = solved(*NORMALIZED)
    assert stored.per_vertex().to_pydict() == {"vertex": [1], "betweenness": [0]}
    assert stored.per_edge().to_pydict() == {"source": [1], "target": [1], "betweenness": [0]}


# ---- samples ----


def test_a_sample_gives_the_estimate_and_its_error():
    stored = solved(TEN)
    graph = stored.graph()
    for found, edges in ((stored.per_vertex(), False), (stored.per_edge(), True)):
        each = np.array(
            [sp.betweenness(graph, s, edges=edges)["betweenness"] for s in stored.sources.to_pylist()]
        )
        np.testing.assert_allclose(found["betweenness"], N_VERTICES * each.mean(axis=0), rtol=1e-12)
        errors = N_VERTICES * np.sqrt(each.var(axis=0, ddof=1) / 10 * (1 - 10 / N_VERTICES))
        np.testing.assert_allclose(found["standard_error"], errors, rtol=1e-6, atol=1e-3)
    whole = stored_bytes()
    solved(TEN, "solve.batch=1", overwrite=True)
    assert stored_bytes() == whole


@pytest.mark.parametrize("count", [1, N_VERTICES])
def test_samples_of_one_and_of_all_are_those_of_the_python_function(count):
    stored = solved(f"sources={{random: {{count: {count}}}}}", *NORMALIZED)
    if count == 1:
        assert stored.per_vertex()["standard_error"].to_pylist() == [None] * N_VERTICES
        return
    graph = stored.graph()
    assert stored.per_vertex() == sp.betweenness(graph, sample=count, normalized=True)
    assert stored.per_edge() == sp.betweenness(graph, edges=True, sample=count, normalized=True)


# ---- over a hierarchy ----

ON_ARCS = "betweenness: summed over the hierarchy"
SWEPT = "solve.solver=phast", "solve.batch=64"


@pytest.fixture
def town():
    """Write the streets of a grid, with ties and one way of an edge missing."""
    at, rng = np.arange(225).reshape(15, 15), np.random.default_rng(5)
    ends = np.concatenate(
        [[at[:, :-1].ravel(), at[:, 1:].ravel()], [at[:-1].ravel(), at[1:].ravel()]], axis=1
    )
    weights = rng.integers(1, 4, ends.shape[1])
    both = np.concatenate([ends, ends[::-1, 1:]], axis=1)
    edges = pd.DataFrame({"source": both[0], "target": both[1], "weight": [*weights, *weights[1:]]})
    edges.to_csv("edges.csv", index=False)


def assert_close(found, expected, rtol=1e-13):
    """Compare tables: numbers with fractions may differ by rounding, and nothing else."""
    assert found.column_names == expected.column_names
    for name in found.column_names:
        if pa.types.is_floating(found[name].type):
            np.testing.assert_allclose(found[name], expected[name], rtol=rtol)
        else:
            assert found[name] == expected[name]


@pytest.mark.medium
@pytest.mark.parametrize(
    "overrides",
    [
        [ENDPOINTS, *NORMALIZED],
        [
            "solve.cutoff=9",
            "output.reduce.values=[reached, max_distance, closeness]",
            "output.reduce.within=[3]",
        ],
        ["output.reduce.per_vertex.values=[betweenness, sum_distance]", "output.reduce.per_edge=null"],
        ["output.reduce.per_vertex=null"],
    ],
    ids=str,
)
def test_a_hierarchy_gives_the_values_of_rows(town, overrides, listener):
    heard = listener()
    run(load_workflow("w.yaml", [*SWEPT, *overrides]), heard)
    assert ON_ARCS in heard.lines
    assert any("is exact; sums over the hierarchy are right up to rounding" in line for line in heard.lines)
    swept = sp.open_run("run")
    along_rows = solved(*overrides, "solve.solver=dijkstra", "output.path=rows")
    assert_close(swept.answers(), along_rows.answers())
    for part, name in (("per_vertex", VERTICES), ("per_edge", EDGES)):
        if Path("run", name).exists():
            assert_close(getattr(swept, part)(), getattr(along_rows, part)())
    facts = ["source", "reached", "max_distance", "mean_distance"]
    assert swept.metrics.select(facts) == along_rows.metrics.select(facts)


MANY = "solve.solver=phast", "sources={random: {count: 180, seed: 4}}", "solve.batch=10"


@pytest.mark.medium
def test_the_error_of_a_sample_over_a_hierarchy_comes_from_its_batches(town, run_interrupted, listener):
    heard = listener()
    run(load_workflow("w.yaml", MANY), heard)
    assert ON_ARCS in heard.lines
    swept, along_rows = sp.open_run("run"), solved(MANY[1], "output.path=rows")
    graph, sources = swept.graph(), swept.sources.to_pylist()
    # The batches are random groups, and not neighbours.
    assert sources != sorted(sources)
    assert sorted(sources) == along_rows.sources.to_pylist()
    for part, edges in (("per_vertex", False), ("per_edge", True)):
        found, exact = getattr(swept, part)(), getattr(along_rows, part)()
        np.testing.assert_allclose(found["betweenness"], exact["betweenness"], rtol=1e-12)
        sums = np.array(
            [
                sp.betweenness(graph, sources[first : first + 10], edges=edges)["betweenness"]
                for first in range(0, 180, 10)
            ]
        )
        variance = ((sums**2).sum(axis=0) / 10 - sums.sum(axis=0) ** 2 / 180) / (18 - 1)
        errors = 225 * np.sqrt(variance / 180 * (1 - 180 / 225))
        np.testing.assert_allclose(found["standard_error"], errors, rtol=1e-6, atol=1e-3)
        # Groups estimate what single sources say: on average, within their own error.
        is_passed = exact["standard_error"].to_numpy() > 1
        ratios = found["standard_error"].to_numpy()[is_passed] / exact["standard_error"].to_numpy()[is_passed]
        assert 0.9 < ratios.mean() < 1.1
        assert ratios.std() < 1.5 / np.sqrt(2 * (18 - 1))
    whole = stored_bytes()
    run_interrupted(load_workflow("w.yaml", [*MANY, "output.path=again"]))
    heard = listener()
    run(load_workflow("w.yaml", [*MANY[1:], "output.path=again"]), heard)
    assert f"{ON_ARCS}, as before" in heard.lines
    assert stored_bytes("again") == whole


@pytest.mark.medium
def test_no_worker_or_restart_changes_a_byte_of_sums_over_a_hierarchy(town, run_interrupted, listener):
    solved(*SWEPT)
    whole = stored_bytes()
    run_interrupted(load_workflow("w.yaml", [*SWEPT, "output.path=again"]))
    Path("again/_run/paths-00001.u64").unlink()
    heard = listener()
    run(
        load_workflow("w.yaml", ["solve.batch=64", "output.path=again"]), heard
    )  # the way stays, whatever is asked for
    assert f"{ON_ARCS}, as before" in heard.lines
    assert "solver: phast (no other can)" in heard.lines
    assert stored_bytes("again") == whole
    Path("again", EDGES).unlink()
    solved(*SWEPT, "output.path=again")
    assert stored_bytes("again") == whole


def test_batches_that_were_summed_over_a_hierarchy_keep_the_run_there(town, run_interrupted):
    run_interrupted(load_workflow("w.yaml", SWEPT))
    Path("run/_run/paths-00001.u64").unlink()
    error = refused("solve.solver=dijkstra", "solve.batch=64")
    assert error.message == (
        "solver `dijkstra` cannot solve this: it sums along rows of distances, and this run sums over a hierarchy"
    )
    assert error.hint == "these can: phast"


@pytest.mark.medium
@pytest.mark.parametrize(
    ("overrides", "why"),
    [
        (
            ["solve.solver=phast", TEN],
            "a standard error over a hierarchy needs 16 batches, and the sample has 4",
        ),
        (["solve.hierarchy=off"], "`solve.hierarchy` is off"),
        (["solve.solver=dijkstra"], "`dijkstra` uses no hierarchy"),
        (["solve.delta=3"], "it has no buckets and takes no delta, and delta is 3.0"),
        (["graph.weights.dtype=float64"], "it adds weights in another order than along the path"),
        ([], "making a hierarchy does not pay for 225 sources"),
        (["solve.solver=phast", "sources={ids: [3, 4]}"], "expected to take "),
    ],
    ids=str,
)
def test_a_run_says_why_it_sums_along_rows(town, overrides, why, listener):
    heard = listener()
    run(load_workflow("w.yaml", overrides), heard)
    (line,) = (line for line in heard.lines if line.startswith("betweenness: "))
    assert line.startswith(f"betweenness: summed along rows of distances: {why}")
    assert describe_plan(load_workflow("w.yaml", ["output.path=other", *overrides]), 0, Quiet())[
        "way_of_sums"
    ]


def test_a_path_that_may_be_too_long_is_summed_along_rows(town, listener):
    table = pd.read_csv("edges.csv")
    table.assign(weight=table["weight"] * 2**26).to_csv("edges.csv", index=False)
    heard = listener()
    run(load_workflow("w.yaml", [*SWEPT, "graph.weights.dtype=uint32"]), heard)
    assert (
        "betweenness: summed along rows of distances: a path may be longer than uint32 holds" in heard.lines
    )


def test_a_plan_has_the_way_and_the_memory_of_sums_over_a_hierarchy(town):
    solved(*SWEPT)
    plan = describe_plan(load_workflow("w.yaml", [*SWEPT, "output.path=other"]), 0, Quiet())
    assert plan["way_of_sums"] == ON_ARCS
    by_auto = describe_plan(load_workflow("w.yaml", ["solve.batch=64", "output.path=other"]), 0, Quiet())
    assert (by_auto["way_of_sums"], by_auto["solver"]) == (ON_ARCS, "phast")
    n_arcs = plan["hierarchy"]["arcs"]
    along_rows = describe_plan(load_workflow("w.yaml", [*SWEPT, TEN]), 0, Quiet())
    assert plan["graph_bytes"] > along_rows["graph_bytes"] + 40 * n_arcs
    assert plan["batch_bytes"] > 64 * 8 * 8 + 16 * (225 + plan["n_edges"]) + 16 * 12 * 225 + 80 * n_arcs
    one = describe_plan(load_workflow("w.yaml", ["solve.solver=phast", "solve.batch=auto"]), 0, Quiet())
    assert one["batches"] == 1


def test_verify_compares_sums_over_a_hierarchy_with_rows(town, recorded_anew):
    solved("solve.solver=phast", "solve.batch=225")
    path = "run/distances/batch-00000.parquet"
    table = pq.read_table(path)
    values = table["edges_passed"].to_numpy().copy()
    values[0] *= 1 + 1e-9
    pq.write_table(
        table.set_column(table.column_names.index("edges_passed"), "edges_passed", pa.array(values)), path
    )
    recorded_anew(RunFolder("run"))
    with pytest.raises(RefutedError, match=r"stored edges_passed [\d.]+, true edges_passed [\d.]+"):
        verdict_of()


@pytest.mark.slow
def test_two_workers_write_the_same_bytes_over_a_hierarchy(town):
    solved(*SWEPT)
    whole = stored_bytes()
    solved(*SWEPT, "cluster={kind: local-cpu, workers: 2}", overwrite=True)
    assert stored_bytes() == whole


# ---- verify, resume, report, plan ----


def with_value(name, column, value):
    """Change the largest value of `column` in a file of the run."""
    table = pq.read_table(f"run/{name}")
    values = table[column].to_numpy().copy()
    values[values.argmax()] = value(values.max())
    index = table.column_names.index(column)
    pq.write_table(table.set_column(index, column, pa.array(values)), f"run/{name}")


@pytest.mark.medium
@pytest.mark.parametrize("overrides", [[], [TEN, *NORMALIZED]], ids=["all", "sample"])
@pytest.mark.parametrize("name", [VERTICES, EDGES])
def test_verify_finds_a_table_that_is_not_the_sum_over_the_sources(name, overrides, recorded_anew):
    solved(*overrides)
    assert verdict_of()["refuted"] is None
    with_value(name, "betweenness", lambda value: value * (1 + 1e-9))
    recorded_anew(RunFolder("run"))
    with pytest.raises(RefutedError, match=rf"`{name}`: the sum of betweenness is .* and the sources say"):
        verdict_of()


@pytest.mark.parametrize("column", ["vertices_passed", "edges_passed"])
def test_verify_finds_a_wrong_total_of_a_source(column, recorded_anew):
    solved("solve.batch=40")
    with_value("distances/batch-00000.parquet", column, lambda _: np.inf)
    recorded_anew(RunFolder("run"))
    with pytest.raises(
        RefutedError, match=rf"stored {column} inf, true {column} |`(vertices|edges)\.parquet`: the sum"
    ):
        verdict_of()


def test_a_part_that_counts_twice_is_an_error(monkeypatch, run_interrupted):
    run_interrupted(load_workflow("w.yaml"))
    Path("run/_run/paths-00001.u64").write_bytes(Path("run/_run/paths-00002.u64").read_bytes())
    monkeypatch.setattr(RunFolder, "damaged_batches", lambda *_: {})
    with pytest.raises(InputError, match=r"`run`: `vertices\.parquet`: the sum of betweenness is"):
        run_of()


def test_a_table_that_is_lost_is_made_again_and_it_is_part_of_the_identity():
    solved()
    whole = stored_bytes()
    Path("run", EDGES).unlink()
    solved()
    assert stored_bytes() == whole
    for other in (ENDPOINTS, NORMALIZED[1], "output.reduce.per_edge=null"):
        with pytest.raises(InputError, match="holds another run: it differs in reduce"):
            run_of(other)


def test_the_report_ranks_what_is_passed_most():
    stored = solved(ENDPOINTS, TEN)
    page = Path("run/report.html").read_text()
    assert "The largest values of vertices.parquet" in page
    assert "The largest values of edges.parquet" in page
    assert "with endpoints, estimated from a sample" in page
    assert "ORDER BY betweenness DESC" in page
    largest = stored.per_edge().sort_by([("betweenness", "descending")]).to_pylist()[0]
    assert f"<td>{largest['source']}</td>" in page


def test_the_plan_has_the_memory_and_the_bytes_of_the_parts():
    plan = describe_plan(load_workflow("w.yaml"), 0, Quiet())
    n_edges = plan["n_edges"]
    part = 16 * (N_VERTICES + n_edges)
    scratch = 28 * N_VERTICES + 8 * n_edges
    n_batches = -(-N_VERTICES // 3)
    assert plan["written_bytes"] == N_VERTICES * 8 * 8 + n_batches * part
    assert plan["batch_bytes"] >= 3 * 8 * 8 + part + scratch + 4 * N_VERTICES
    estimated = describe_plan(load_workflow("w.yaml", [TEN]), 0, Quiet())
    assert estimated["written_bytes"] == 10 * 8 * 8 + 4 * 2 * part
    # Without a size in the workflow, a batch has at least 32 sources.
    assert describe_plan(load_workflow("w.yaml", ["solve.batch=auto"]), 0, Quiet())["batches"] == 1


@pytest.mark.gpu
@pytest.mark.parametrize("solver", ["adds-slots", "adds-lanes"])
@pytest.mark.parametrize("sample", [[], [TEN, ENDPOINTS], ["solve.cutoff=4"]], ids=str)
def test_a_gpu_changes_no_byte(solver, sample):
    solved(*sample, "solve.solver=dijkstra")
    whole, answers = stored_bytes(), sp.open_run("run").answers()
    for batch in ("solve.batch=3", "solve.batch=auto"):
        stored = solved(*sample, f"solve.solver={solver}", batch, overwrite=True)
        assert stored_bytes() == whole, batch
        assert stored.answers() == answers


@pytest.mark.gpu
def test_equal_weights_and_a_hierarchy_give_rows_on_a_gpu():
    table = pd.read_csv("edges.csv").assign(weight=2)
    table.to_csv("edges.csv", index=False)
    more = "output.reduce.values=[reached, closeness, harmonic]", "output.reduce.within=[4]"
    solved(*more, "solve.solver=dijkstra")
    whole, answers = stored_bytes(), sp.open_run("run").answers()
    for solver in ("bits-gpu", "phast-gpu"):
        stored = solved(*more, f"solve.solver={solver}", overwrite=True)
        assert stored_bytes() == whole, solver
        assert stored.answers() == answers


@pytest.mark.gpu
@pytest.mark.medium
def test_a_run_that_a_gpu_began_goes_on_with_a_cpu(run_interrupted):
    solved()
    whole = stored_bytes()
    run_interrupted(load_workflow("w.yaml", ["output.path=again", "solve.solver=adds-slots"]))
    solved("output.path=again", "solve.solver=dijkstra")
    assert stored_bytes("again") == whole


ON_ARCS_OF_GPU = "betweenness: summed over the hierarchy on a GPU"
SWEPT_ON_GPU = "solve.solver=phast-gpu", "solve.batch=64"


@pytest.fixture
def large_town(town, monkeypatch):
    """As `town`, with the forecast along rows of a graph that is far larger."""
    monkeypatch.setattr(Reductions, "sum_s", lambda self, *_: 0.0 if self.paths.on_hierarchy else 1.0)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("overrides", "rtol"),
    [
        (
            [
                *SWEPT_ON_GPU,
                ENDPOINTS,
                "output.reduce.values=[reached, closeness]",
                "output.reduce.within=[3]",
            ],
            1e-13,
        ),
        ([*SWEPT_ON_GPU, "solve.cutoff=9", "output.reduce.per_vertex=null"], 1e-13),
        ([*MANY[1:], SWEPT_ON_GPU[0], "output.reduce.per_vertex.values=[betweenness, sum_distance]"], 1e-6),
    ],
    ids=["all", "edges", "sample"],
)
def test_a_hierarchy_on_a_gpu_gives_the_values_of_a_cpu(overrides, rtol, large_town, listener):
    heard = listener()
    run(load_workflow("w.yaml", overrides), heard)
    assert ON_ARCS_OF_GPU in heard.lines
    assert any("is exact; sums over the hierarchy are right up to rounding" in line for line in heard.lines)
    found = sp.open_run("run")
    on_cpu = solved(*(set(overrides) - {SWEPT_ON_GPU[0]}), "solve.solver=phast", "output.path=cpu")
    for part, name in (("answers", None), ("per_vertex", VERTICES), ("per_edge", EDGES)):
        if name is None or Path("run", name).exists():
            assert_close(getattr(found, part)(), getattr(on_cpu, part)(), rtol)
    facts = ["source", "reached", "max_distance", "mean_distance"]
    assert found.metrics.select(facts) == on_cpu.metrics.select(facts)


@pytest.mark.gpu
@pytest.mark.medium
def test_a_run_over_a_hierarchy_stays_on_the_gpu(large_town, run_interrupted, listener, monkeypatch):
    solved(*SWEPT_ON_GPU)
    whole, answers = stored_bytes(), sp.open_run("run").answers()
    for n_sources in (1, 128):  # of a call
        monkeypatch.setattr(work, "SWEPT_AT_ONCE", n_sources)
        solved(*SWEPT_ON_GPU, "output.path=again", overwrite=True)
        assert stored_bytes("again") == whole
        assert sp.open_run("again").answers() == answers
    run_interrupted(load_workflow("w.yaml", [*SWEPT_ON_GPU, "output.path=more"]))
    Path("more/_run/paths-00001.u64").unlink()
    with pytest.raises(InputError) as caught:
        run_of("solve.solver=phast", "solve.batch=64", "output.path=more")
    assert caught.value.message == (
        "solver `phast` cannot solve this: this run sums over the hierarchy on a GPU, whose last digits differ"
    )
    assert caught.value.hint == "these can: phast-gpu"
    heard = listener()
    run(load_workflow("w.yaml", ["solve.batch=64", "output.path=more"]), heard)
    assert f"{ON_ARCS_OF_GPU}, as before" in heard.lines
    assert stored_bytes("more") == whole


# ---- what is refused ----


def refused(*overrides):
    with pytest.raises(InputError) as caught:
        run_of(*overrides)
    assert not Path("run/run.json").exists()
    return caught.value


@pytest.mark.parametrize("weight", [0, -3])
def test_a_weight_that_is_not_above_zero(weight):
    with Path("edges.csv").open("a") as file:
        file.write(f"0,39,{weight}\n")
    error = refused("graph.weights.dtype=int64")
    assert error.message == (
        f"the edge from `0` to `39` has weight {weight}, and shortest paths are counted only where all weights are "
        "above zero"
    )
    assert error.hint == "give such edges a small weight, or make one vertex of their ends"
    assert not Path("run").exists()


def test_weights_that_a_float_loses():
    Path("edges.csv").write_text("source,target,weight\na,b,1e30\nb,c,1e-30\n")
    error = refused("graph.weights.dtype=float64")
    assert error.message.startswith("an edge to `c` is too short for its distance from `a`: float64 loses it")
    assert error.hint == "give the weights as integers, in a smaller unit"
    assert not Path("run").exists()


def test_more_paths_than_float64_counts():
    """A chain of 1,100 diamonds: each doubles the number of paths."""
    lines = [f"{v},{w},1\n{w},{v + 3},1" for v in range(0, 3300, 3) for w in (v + 1, v + 2)]
    Path("edges.csv").write_text("\n".join(["source,target,weight", *lines, ""]))
    error = refused("sources={ids: [0]}")
    assert error.message.startswith("more than 2^1000 shortest paths lead from `0` to `3")
    assert error.hint == "set a `solve.cutoff`, or weights that differ more"


def test_a_solver_on_a_gpu_is_refused_before_anything_is_read(monkeypatch):
    monkeypatch.setattr("sssp_pipeline.pipeline.run.checks.gpu_missing", lambda: None)
    error = refused("solve.solver=adds")
    assert error.message == ("solver `adds` cannot solve this: it cannot sum along the shortest paths")
    assert error.hint.startswith("these can: ")
    assert "adds-slots, adds-lanes, bits-gpu, phast-gpu, bits" in error.hint
    assert "near-far" not in error.hint
    assert not Path("graph").exists()
