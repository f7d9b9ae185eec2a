"""Runs that send the trips of a table along shortest paths; NetworkX and every bit of `sp.flows` are the oracles."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from named_graph import run_of, verdict_of
from tied_graph import EDGES, N_VERTICES, solved, write_edges

import sssp_pipeline as sp
from sssp_pipeline.base.errors import InputError, RefutedError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.pipeline.run.conductor import run
from sssp_pipeline.pipeline.run.plan_facts import describe_plan
from sssp_pipeline.pipeline.solving.workers import local
from sssp_pipeline.workflow.yaml_file import load_workflow

WORKFLOW = """\
graph: {input: edges.csv, store: graph, weights: {column: weight}, self_loops: keep, duplicates: keep-all}
solve: {batch: 3}
output: {path: run, distances: flows, flows: trips.csv}
"""
DIVIDED = "output.flows={file: trips.csv, paths: all}"


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    write_edges()
    write_trips()
    Path("w.yaml").write_text(WORKFLOW)


def write_trips(n_trips=200, seed=2):
    """Write trips and return them. Some occur twice, some have no path, some end where they begin."""
    rng = np.random.default_rng(seed)
    vertices = np.unique(pd.read_csv("edges.csv")[["source", "target"]])
    ends = rng.choice(vertices, (2, n_trips))
    trips = pd.DataFrame({"source": ends[0], "target": ends[1], "amount": rng.integers(0, 9, n_trips) / 4})
    trips = pd.concat([trips, trips[:9], trips[:9].assign(target=trips["source"])])
    trips.to_csv("trips.csv", index=False)
    return trips


def stored_bytes(path="run"):
    names = [EDGES, *(f"distances/{file.name}" for file in sorted(Path(path, "distances").iterdir()))]
    return [Path(path, name).read_bytes() for name in names]


# ---- what is stored ----


def followed(edges, trips, divided):
    """Return the flow of each edge of a graph without parallel edges, by NetworkX, in the order of the ends."""
    graph = nx.DiGraph()
    graph.add_weighted_edges_from(edges.itertuples(index=False))
    flow = dict.fromkeys(sorted(graph.edges), 0.0)
    for trip in trips.itertuples():
        distances = nx.single_source_dijkstra_path_length(graph, trip.source)
        if trip.target not in distances or trip.source == trip.target:
            continue
        if divided:
            paths = list(nx.all_shortest_paths(graph, trip.source, trip.target, "weight"))
        else:
            path = [trip.target]
            while path[0] != trip.source:
                into = graph.pred[path[0]].items()
                tight = [u for u, e in into if distances.get(u, np.inf) + e["weight"] == distances[path[0]]]
                path.insert(0, min(tight))
            paths = [path]
        for path in paths:
            for edge in pairwise(path):
                flow[edge] += trip.amount / len(paths)
    return flow


@pytest.mark.parametrize("seed", [3, 4])
@pytest.mark.parametrize("paths", ["one", "all"])
def test_networkx_finds_the_same(seed, paths):
    edges = write_edges(seed=seed, parallel=0)
    trips = write_trips(60, seed)
    found = solved(f"output.flows={{file: trips.csv, paths: {paths}}}").per_edge().to_pandas()
    expected = followed(edges, trips, paths == "all")
    assert list(zip(found["source"], found["target"], strict=True)) == list(expected)
    np.testing.assert_allclose(found["flow"], list(expected.values()), rtol=1e-13, atol=1e-15)
    assert found["flow"].max() > 3


@pytest.mark.medium
@pytest.mark.parametrize(
    ("overrides", "options", "scale"),
    [
        ([], {}, 1),
        ([DIVIDED], {"paths": "all"}, 1),
        (["graph.directed=false"], {}, 1),
        (["solve.cutoff=4"], {"cutoff": 4}, 1),
        (["graph.weights.dtype=float64", DIVIDED], {"paths": "all"}, 0.37),
        (["graph.weights.scale=10", "solve.cutoff=0.7"], {"cutoff": 0.7}, 0.1),
        (["graph.weights.dtype=int64"], {}, 1),
    ],
    ids=str,
)
def test_every_bit_is_that_of_the_python_function(overrides, options, scale):
    write_edges(scale)
    trips = write_trips()
    stored = solved(*overrides)
    assert stored.per_edge() == sp.flows(stored.graph(), trips, unreached="skip", **options)
    assert max(stored.per_edge()["flow"].to_pylist()) > 0


def test_each_source_has_its_totals_and_the_run_has_theirs():
    trips = pd.read_csv("trips.csv")
    stored = solved()
    assert stored.sources.to_pylist() == sorted(set(trips["source"]))
    pairs = sp.distances_of_pairs(stored.graph(), trips[["source", "target"]])
    has_path = np.array(pairs.is_valid())
    answers = stored.answers().to_pandas().set_index("source")
    grouped = trips.groupby("source")
    assert answers["trips"].equals(grouped.size().rename("trips"))
    np.testing.assert_array_equal(answers["amount"], grouped["amount"].sum())
    lost = trips[~has_path].groupby("source")["amount"].agg(["size", "sum"])
    lost = lost.reindex(answers.index, fill_value=0)
    np.testing.assert_array_equal(answers["unreached_trips"], lost["size"])
    np.testing.assert_array_equal(answers["unreached_amount"], lost["sum"])
    assert answers["edges_passed"].sum() == pytest.approx(sum(stored.per_edge()["flow"].to_pylist()))
    assert stored.overall == {
        "trips": len(trips),
        "amount": trips["amount"].sum(),
        "unreached_trips": int((~has_path).sum()),
        "unreached_amount": trips["amount"][~has_path].sum(),
    }
    assert stored.overall["unreached_trips"] > 5


@pytest.mark.parametrize("name", ["trips.parquet", "trips.txt", "other.csv"])
def test_tables_of_trips(name):
    trips = pd.read_csv("trips.csv")
    expected = solved().per_edge()
    section = {"file": name}
    if name == "trips.parquet":
        pq.write_table(pa.table(dict(trips.items())), name, row_group_size=50)
    elif name == "trips.txt":
        trips.to_csv(name, sep=" ", header=False, index=False)
        section |= {"source": 1, "target": 2, "amount": 3}
    else:
        columns = {"source": "home", "target": "work", "amount": "people"}
        trips.rename(columns=columns)[["people", "work", "home"]].to_csv(name, index=False)
        section |= columns
    given = ", ".join(f"{key}: {value}" for key, value in section.items())
    assert solved(f"output.flows={{{given}}}", "output.path=other").per_edge() == expected


@pytest.mark.medium
@pytest.mark.parametrize("more", ["solve.cutoff=null", DIVIDED], ids=["one", "all"])
def test_no_batch_solver_or_restart_changes_a_byte(more, run_interrupted):
    solved(more)
    whole = stored_bytes()
    for other in ("solve.solver=dijkstra", "solve.solver=parallel-delta-stepping", "solve.solver=phast"):
        solved(more, other, overwrite=True)
        assert stored_bytes() == whole, other
    for batch in (1, 40):
        solved(more, f"solve.batch={batch}", overwrite=True)
        assert stored_bytes()[0] == whole[0]
        assert pq.read_table("run/distances").num_rows == len(sp.open_run("run").sources)
    run_interrupted(load_workflow("w.yaml", ["output.path=again", more]))
    # A batch without its file, one whose part was cut, and one whose part is gone are solved again.
    Path("again/distances/batch-00000.parquet").unlink()
    Path("again/_run/paths-00001.u64").write_bytes(b"12345678")
    Path("again/_run/paths-00002.u64").unlink()
    solved("output.path=again", more)
    assert stored_bytes("again") == whole
    assert not Path("again/_run").exists()


def test_an_object_store_and_several_weights_have_the_same_tables():
    expected = solved().per_edge()
    solved("output.path=memory://flows-run")
    assert sp.open_run("memory://flows-run").per_edge() == expected
    edges = pd.read_csv("edges.csv").assign(other=1)
    edges.to_csv("edges.csv", index=False)
    graph = {"input": "edges.csv", "store": "two", "self_loops": "keep", "duplicates": "keep-all"}
    weights = {"several": [{"name": "weight"}, {"name": "other"}]}
    output = {"path": "two-runs", "distances": "flows", "flows": "trips.csv"}
    sp.run_each({"graph": {**graph, "weights": weights}, "output": output})
    assert sp.open_run("two-runs/weight").per_edge() == expected
    assert sp.open_run("two-runs/other").per_edge() != expected


@pytest.mark.slow
def test_two_workers_write_the_same_bytes():
    solved()
    whole = stored_bytes()
    solved("cluster={kind: local-cpu, workers: 2}", overwrite=True)
    assert stored_bytes() == whole


def test_equal_weights_are_searched_in_bits():
    pd.read_csv("edges.csv").assign(weight=2).to_csv("edges.csv", index=False)
    expected = solved("solve.solver=dijkstra").per_edge()
    assert solved("solve.solver=bits", overwrite=True).per_edge() == expected


# ---- verify, resume, report, plan ----


@pytest.mark.parametrize(
    ("name", "column", "sentence"),
    [
        (EDGES, "flow", r"`edges\.parquet`: the sum of flow is .* and the sources say"),
        ("distances/batch-00000.parquet", "edges_passed", "stored edges_passed .*, true edges_passed"),
        ("distances/batch-00000.parquet", "unreached_amount", "stored unreached_amount"),
    ],
)
def test_verify_finds_a_wrong_number(name, column, sentence, recorded_anew):
    solved("solve.batch=40")
    assert verdict_of()["refuted"] is None
    table = pq.read_table(f"run/{name}")
    values = table[column].to_numpy() * (1 + 1e-9) + 1e-9
    pq.write_table(
        table.set_column(table.column_names.index(column), column, pa.array(values)), f"run/{name}"
    )
    recorded_anew(RunFolder("run"))
    with pytest.raises(RefutedError, match=sentence):
        verdict_of()


def test_verify_finds_a_wrong_sum_in_run_json():
    solved()
    folder = RunFolder("run")
    record = folder.read_run()
    record["overall"]["trips"] += 1
    folder.finish(record)
    with pytest.raises(RefutedError, match=r"`run\.json`: stored trips 219, true trips 218"):
        verdict_of()


def test_a_table_that_is_lost_is_made_again_and_the_trips_are_part_of_the_identity():
    solved()
    whole = stored_bytes()
    Path("run", EDGES).unlink()
    solved()
    assert stored_bytes() == whole
    with pytest.raises(InputError, match="holds another run: it differs in flows"):
        run_of(DIVIDED)
    write_trips(seed=5)
    with pytest.raises(InputError, match="holds another run: it differs in flows"):
        run_of()


def test_lines_and_report_say_what_was_asked_and_found(listener):
    with Path("trips.csv").open("a") as file:
        file.write("0,999,7\n")
    said = listener()
    run(load_workflow("w.yaml", ["output.flows={file: trips.csv, unknown: skip, paths: all}"]), said)
    stored = sp.open_run("run")
    n_sources = len(stored.sources)
    assert f"trips: 218; from: {n_sources} sources; along: all shortest paths" in said.lines
    assert "skipped 1 trip with an id that is not known: `999`" in said.lines
    found = stored.overall
    line = f"trips 218; amount {found['amount']:,}; trips without a path {found['unreached_trips']:,}; "
    assert f"{line}amount without a path {found['unreached_amount']:,}" in said.lines
    page = Path("run/report.html").read_text()
    assert '<h2 id="passed">Flows</h2>' in page
    assert "The largest values of edges.parquet" in page
    assert "trips without a path" in page
    assert "Skipped 1 trip with an id that is not known: 999." in page
    assert "ORDER BY flow DESC" in page
    largest = stored.per_edge().sort_by([("flow", "descending")]).to_pylist()[0]
    assert f"<td>{largest['source']}</td>" in page


def test_the_plan_has_the_memory_and_the_bytes_of_the_parts():
    plan = describe_plan(load_workflow("w.yaml"), 0, Quiet())
    n_edges, n_sources = plan["n_edges"], plan["sources"]
    part, n_batches = 16 * n_edges, -(-n_sources // 3)
    assert plan["written_bytes"] == n_sources * 5 * 8 + n_batches * part
    assert plan["batch_bytes"] >= 3 * 5 * 8 + 2 * part + 41 * N_VERTICES
    divided = describe_plan(load_workflow("w.yaml", [DIVIDED]), 0, Quiet())
    assert divided["batch_bytes"] >= 3 * 5 * 8 + part + 52 * N_VERTICES + 8 * n_edges
    incoming = 16 * n_edges + 8 * (N_VERTICES + 1)
    assert plan["graph_bytes"] - divided["graph_bytes"] == incoming


def test_a_run_says_that_it_leaves_a_gpu_idle(monkeypatch, listener):
    machine = replace(local.this_machine(), gpu_free_bytes=2**36)
    monkeypatch.setattr(local, "this_machine", lambda: machine)
    heard = listener()
    run(load_workflow("w.yaml"), heard)
    assert "the GPU stays idle: solvers on a GPU take no trips" in heard.lines


# ---- what is refused ----


def refused(*overrides):
    with pytest.raises(InputError) as caught:
        run_of(*overrides)
    assert not Path("run").exists()
    return caught.value


HEADER = "source,target,amount\n"
AMOUNT = "an amount is a number of zero or more"
WANTED = (
    "a row has the ids of a source and of a target and an amount, and a first line may name the columns, such as "
    "`source,target,amount`; write CSV, text, Parquet or Arrow"
)


@pytest.mark.parametrize(
    ("content", "message", "hint"),
    [
        (f"{HEADER}0,1,2\n1,2,-0.5\n", "`trips.csv` line 3: amount `-0.5` is negative", AMOUNT),
        (f"{HEADER}0,1,2\n1,2,\n", "`trips.csv` line 3: `` is not an amount", AMOUNT),
        (f"{HEADER}0,1,many\n", "`trips.csv` line 2: `many` is not an amount", AMOUNT),
        (f"{HEADER}0,1,nan\n", "`trips.csv` line 2: amount `nan` is not finite", AMOUNT),
        (f"{HEADER}0,1,2\n1,2,inf\n", "`trips.csv` line 3: amount `inf` is not finite", AMOUNT),
        (f"{HEADER}0,1,2e17\n1,2,2e17\n", "`trips.csv`: all amounts together are 4e+17",
         "give them in a larger unit: below 2.3e+17 in all, 2^63 divided by the number of vertices"),
        (f"{HEADER}0,1,2\n0,77,2\n",
         "`trips.csv`: 1 of 2 trips has an id that is not in the graph: `77` (the first in line 3)",
         "the 40 ids of the graph run from 0 to 39; `output.flows.unknown: skip` leaves out such trips"),
        ("source,target\n0,1\n", "`trips.csv` line 1: unknown column `amount`", "Columns: source, target"),
        ("home,work,amount\n0,1,2\n",
         "`trips.csv` line 1: of the columns `home`, `work`, `amount` none is known as source and target of a trip",
         "name them: `output.flows: {file: trips.csv, source: NAME, target: NAME, amount: NAME}`"),
        ("", "`trips.csv` is empty", "check that this is the file you mean"),
        (HEADER, "`trips.csv` holds no trips: `trips.csv` line 1 is its header", WANTED),
        ("p sp 3 1\na 1 2 4\n", "`trips.csv` is no table of trips", WANTED),
        (f"{HEADER}x,1,2\n", "`trips.csv` line 2: `x` is not a vertex id", "the ids of the graph are integers"),
        (f"{HEADER}0,1,2\n1,2\n", "`trips.csv` line 3 has 2 columns, wanted 3", WANTED),
    ],
)  # fmt: skip
def test_wrong_tables(content, message, hint):
    Path("trips.csv").write_text(content)
    error = refused()
    assert (error.message, error.hint) == (message, hint)


@pytest.mark.parametrize(
    ("amounts", "message"),
    [
        ([1.0, None], "`trips.parquet` row 2: column `amount` is null"),
        ([1.0, np.nan], "`trips.parquet` row 2: amount `nan` is not finite"),
        ([1, -2], "`trips.parquet` row 2: amount `-2` is negative"),
        (
            ["a", "b"],
            "`trips.parquet`: column `amount` has type string, amounts are integers, floats or decimals",
        ),
        ([], "`trips.parquet` holds no trips"),
    ],
)
def test_wrong_tables_of_parquet(amounts, message):
    table = pa.table({"source": [0, 1], "target": [1, 2]}).slice(0, len(amounts))
    numbers = pa.array(amounts, None if amounts else pa.int64())
    pq.write_table(table.append_column("amount", numbers), "trips.parquet")
    assert refused("output.flows=trips.parquet").message == message


def test_a_table_that_cannot_be_read():
    Path("trips.parquet").write_bytes(b"PAR1 and no more")
    assert refused("output.flows=trips.parquet").message.startswith("`trips.parquet`")
    Path("trips.csv").unlink()
    assert "`trips.csv`" in refused().message


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


@pytest.mark.parametrize("paths", ["one", "all"])
def test_weights_that_a_float_loses(paths):
    Path("edges.csv").write_text("source,target,weight\n0,1,1e30\n1,2,1e-30\n")
    Path("trips.csv").write_text(f"{HEADER}0,2,1\n")
    error = refused("graph.weights.dtype=float64", f"output.flows={{file: trips.csv, paths: {paths}}}")
    assert error.message.startswith("an edge to `2` is too short for its distance from `0`: float64 loses it")


def test_a_solver_on_a_gpu_is_refused_before_anything_is_read(monkeypatch):
    monkeypatch.setattr("sssp_pipeline.pipeline.run.checks.gpu_missing", lambda: None)
    error = refused("solve.solver=adds")
    assert error.message == "solver `adds` cannot solve this: solvers on a GPU take no trips"
    assert not Path("graph").exists()
