"""Several weights over the same edges: each gives what a run of its own gives, byte for byte."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import sssp_pipeline as sp
from sssp_pipeline.base.errors import InputError, PathTooLongError
from sssp_pipeline.base.progress import Progress, Quiet
from sssp_pipeline.cli import app
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.pipeline.graph_store import loading
from sssp_pipeline.pipeline.graph_store.store import older_versions, read_manifest, read_newest
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.ingest.tasks import edge_reader
from sssp_pipeline.pipeline.run.completed_run import verify_run
from sssp_pipeline.pipeline.solving.workers import source as worker_sources

#: Each weight and its section: whole numbers, decimals, scaled decimals, and one for every edge.
WEIGHTS = {
    "am": {"unit": "minutes"},
    "pm": {"column": "evening", "unit": "minutes"},
    "cost": {"scale": 100},
    "hops": {"column": "none"},
}
N_VERTICES = 60


def table() -> pa.Table:
    """Edges with string ids, parallel edges whose least weights are in different rows, and self-loops."""
    rng = np.random.default_rng(3)
    n = 400
    src, dst = rng.integers(0, N_VERTICES, (2, n))
    src[:20], dst[:20] = src[20:40], dst[20:40]
    return pa.table(
        {
            "from": [f"v{v:02}" for v in src],
            "to": [f"v{v:02}" for v in dst],
            "am": rng.integers(1, 50, n),
            "evening": rng.integers(1, 500, n) / 8,
            "cost": rng.integers(0, 1000, n) / 100,
        }
    )


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    pa.csv.write_csv(table(), "roads.csv")


def several(weights=WEIGHTS, **graph):
    entries = [{"name": name, **keys} for name, keys in weights.items()]
    return {"input": "roads.csv", "store": "graph", **graph, "weights": {"several": entries}}


def data_of(graph, output=(), **others):
    given = {"sources": {"random": {"count": 9, "seed": 1}}, "solve": {"batch": 4}, "name": "w", **others}
    return {"version": 1, "graph": graph, "output": {"path": "out", **dict(output)}, **given}


def single(name, keys, graph, output, **others):
    """Return the run of one weight with a store of its own."""
    weight = {"column": name, **keys}
    graph = {**graph, "weights": weight, "store": f"graph-{name}"}
    if "input" in weight:
        graph["input"] = weight.pop("input")
    return sp.run(data_of(graph, {**dict(output), "path": f"one-{name}"}, **others))


def contents(run: str | Path) -> dict[str, bytes]:
    files = sorted(Path(run, "distances").glob("*"))
    return {file.name: file.read_bytes() for file in files}


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    """Give a folder in which all weights were ingested into `graph` and solved into `out`."""
    folder = tmp_path_factory.mktemp("calm")
    pa.csv.write_csv(table(), folder / "roads.csv")
    graph = several(input=str(folder / "roads.csv"), store=str(folder / "graph"))
    sp.run_each(data_of(graph, {"path": str(folder / "out")}))
    return folder


def same_as_calm(calm: Path) -> bool:
    return all(contents(f"out/{name}") == contents(calm / "out" / name) for name in WEIGHTS)


def assert_same_as_alone(graph, output=(), weights=WEIGHTS, **others):
    runs = sp.run_each(data_of(graph, output, **others))
    assert list(runs) == list(weights)
    for name, keys in weights.items():
        alone = single(name, keys, {k: v for k, v in graph.items() if k != "weights"}, output, **others)
        assert contents(f"out/{name}") == contents(f"one-{name}"), name
        run = runs[name]
        assert run.record["weight"] == name
        assert run.record["identity"] == alone.record["identity"]
        assert run.record["graph"]["weights"] == alone.record["graph"]["weights"]
        assert run.record["graph"]["symmetric"] == alone.record["graph"]["symmetric"]
        if others.get("verify") != "off":
            assert run.record["verify"]["refuted"] is None


REDUCE = {"values": ["closeness", "harmonic", "sum_distance"], "within": [5, 20]}


@pytest.mark.medium
@pytest.mark.parametrize(
    "output",
    [
        {},
        {"layout": "wide"},
        {"targets": {"ids": ["v07", "v03"]}, "unreached": -1},
        {"distances": "reached"},
        {"distances": "reduced", "reduce": REDUCE},
        {"distances": "nearest", "nearest": {"k": 4}},
        {"distances": "none"},
    ],
    ids=["long", "wide", "targets", "reached", "reduced", "nearest", "none"],
)
def test_every_output_is_that_of_a_single_weight(output):
    weights = WEIGHTS if output == {} else {name: WEIGHTS[name] for name in ("pm", "cost")}
    if output.get("unreached") is not None:  # uint32 holds no -1
        weights = {name: {**WEIGHTS[name], "dtype": "float64"} for name in ("am", "pm")}
    assert_same_as_alone(several(weights), output, weights)


@pytest.mark.medium
@pytest.mark.parametrize(
    "graph",
    [
        {"directed": False},
        {"directed": "reversed", "self_loops": "keep"},
        {"ids": "string", "columns": {"source": "to", "target": "from"}},
    ],
    ids=["both ways", "reversed with loops", "named columns"],
)
def test_every_direction_is_that_of_a_single_weight(graph):
    assert_same_as_alone(several(**graph), solve={"batch": 4, "predecessors": True}, verify="certificate")


def as_numbers() -> pa.Table:
    found = table()
    for name in ("from", "to"):
        numbers = [int(text[1:]) for text in found[name].to_pylist()]
        found = found.set_column(found.schema.get_field_index(name), name, pa.array(numbers))
    return found


def dimacs(name: str, edges) -> None:
    Path(name).write_text("p sp 4 4\n" + "".join(f"a {u} {v} {w}\n" for u, v, w in edges))


@pytest.mark.medium
@pytest.mark.parametrize("name", ["roads.parquet", "roads.arrow", "roads.txt"])
def test_parquet_arrow_and_text(name):
    numbered, weights = as_numbers(), {"am": {}, "pm": {"column": "evening"}}
    if name == "roads.parquet":
        pq.write_table(numbered, name)
    elif name == "roads.arrow":
        pa.feather.write_feather(numbered, name, compression="uncompressed")
    else:
        Path(name).write_text("\n".join(" ".join(map(str, row.values())) for row in numbered.to_pylist()))
        weights = {"am": {"column": 3}, "pm": {"column": 4}}
    assert_same_as_alone(several(weights, input=name), weights=weights)


@pytest.mark.medium
def test_inputs_with_the_same_edges():
    dimacs("d.gr", [(1, 2, 5), (2, 3, 6), (3, 4, 1), (1, 3, 20)])
    dimacs("t.gr", [(1, 3, 1), (3, 4, 7), (2, 3, 8), (1, 2, 3)])  # in another order
    weights = {"distance": {"column": "auto"}, "time": {"column": "auto", "input": "t.gr"}}
    assert_same_as_alone(several(weights, input="d.gr"), weights=weights, sources={"all": True})
    assert sp.open_run("out/time").distances([1])["distance"].to_pylist() == [0, 3, 1, 8]


@pytest.mark.slow
def test_distance_and_time_of_new_york(data_file):
    inputs = {kind: str(data_file(f"USA-road-{kind}.NY.gr.gz")) for kind in "dt"}
    weights = {"distance": {"column": "auto"}, "time": {"column": "auto", "input": inputs["t"]}}
    sources = {"random": {"count": 4, "seed": 3}}
    assert_same_as_alone(several(weights, input=inputs["d"]), weights=weights, sources=sources)
    path = sp.open_run("out/time").path(*sp.open_run("out/time").metrics["source"].to_pylist()[:2])
    shortest = sp.open_run("out/distance").path(path[0], path[-1])
    assert path.cost("distance") >= shortest.length
    assert shortest.cost("time") >= path.length


@pytest.mark.medium
def test_the_store_has_the_edges_once():
    runs = sp.run_each(data_of(several()))
    stored = read_newest("graph")
    assert json.loads(Path("graph/manifest.json").read_text())["version"] == 2
    parts = {"edge_weights", "edges", "row_offsets", "vertices"}
    assert {p.name for p in Path("graph").iterdir()} == {"manifest.json", *parts}
    assert pq.read_schema(next(Path("graph/edges").iterdir())).names == ["col_index"]
    assert len(list(Path("graph/edge_weights").iterdir())) == len(WEIGHTS)
    dtypes = {name: graph.weights.dtype for name, graph in stored.by_weight.items()}
    assert dtypes == {"am": "uint32", "pm": "uint32", "cost": "uint32", "hops": "uint32"}
    assert [graph.reading.unused for graph in stored.by_weight.values()] == [()] * len(WEIGHTS)
    # An unchanged input is not read again, and the runs are done.
    before = Path("graph/manifest.json").stat().st_mtime_ns
    again = sp.run_each(data_of(several()))
    assert Path("graph/manifest.json").stat().st_mtime_ns == before
    assert [run.record for run in again.values()] == [run.record for run in runs.values()]
    # A store of one weight has the weights with the edges.
    sp.ingest("roads.csv", "single", weights={"column": "am"})
    assert json.loads(Path("single/manifest.json").read_text())["version"] == 1
    assert pq.read_schema(next(Path("single/edges").iterdir())).names == ["col_index", "weight"]


@pytest.mark.parametrize("directed", [True, False, "reversed"])
def test_parallel_edges_that_are_kept_are_the_same_ones_with_each_weight(directed):
    rows = [
        ("b", "a", 3, 1),
        ("a", "b", 5, 9),
        ("b", "a", 1, 7),
        ("a", "c", 4, 4),
        ("a", "b", 2, 8),
        ("a", "b", 5, 0),
    ]
    src, dst, am, evening = map(list, zip(*rows, strict=True))
    pa.csv.write_csv(pa.table({"from": src, "to": dst, "am": am, "evening": evening}), "roads.csv")
    weights = {"am": {}, "pm": {"column": "evening", "dtype": "float64"}}
    graph = several(weights, directed=directed, duplicates="keep-all")
    sp.ingest(graph.pop("input"), graph.pop("store"), weight="am", **graph)
    graphs = [sp.open_store("graph", weight=name).graph() for name in weights]
    wanted = {end: [] for end in "abc"}
    for u, v, *values in rows:
        for start, end in {True: [(u, v)], False: [(u, v), (v, u)], "reversed": [(v, u)]}[directed]:
            wanted[start].append((end, *values))
    found = {}
    for v, end in enumerate("abc"):
        row = slice(*graphs[0].row_offsets[v : v + 2].tolist())
        ends = ["abc"[target] for target in graphs[0].col_indices[row]]
        found[end] = list(zip(ends, *(graph.weights[row].tolist() for graph in graphs), strict=True))
    assert found == {end: sorted(row, key=lambda edge: edge[0]) for end, row in wanted.items()}
    for graph in graphs:
        np.testing.assert_array_equal(graph.row_offsets, graphs[0].row_offsets)


def test_the_least_of_parallel_edges_is_that_of_each_weight():
    Path("roads.csv").write_text("from,to,am,evening\na,b,5,1\na,b,2,9\n")
    weights = {"am": {}, "pm": {"column": "evening"}}
    sp.run_each(data_of(several(weights), sources={"all": True}))
    assert sp.open_run("out/am").path("a", "b").length == 2
    assert sp.open_run("out/am").path("a", "b").cost("pm") == 1
    assert sp.open_run("out/pm").path("a", "b").length == 1


class Recording(Progress):
    def __init__(self, stop_at: tuple[str, int] = ("", 0)) -> None:
        self.events: list[tuple[str, dict]] = []
        self._stop_at = stop_at

    def say(self, line, event="note", *, level="info", **facts):
        self.event(event, **facts)

    def event(self, name, **facts):
        self.events.append((name, facts))
        if [each for each, _ in self.events].count(name) == self._stop_at[1] and name == self._stop_at[0]:
            raise KeyboardInterrupt


def committed() -> list[Path]:
    """Return the files of distances of committed batches."""

    def commit(file: Path) -> Path:
        return file.parents[1] / "_run" / file.with_suffix(".commit").name

    files = Path("out").rglob("batch-*.parquet")
    return [file for file in files if (file.parents[1] / "run.json").exists() or commit(file).exists()]


@pytest.mark.medium
# 9 sources in batches of 4 are three batches of each weight.
@pytest.mark.parametrize("n_solved", [1, 3, 5, 12])
def test_an_interrupted_run_continues(calm, n_solved):
    solve = {"batch": 4, "solver": "dijkstra"}
    with pytest.raises(KeyboardInterrupt):
        sp.run_each(data_of(several(), solve=solve), progress=Recording(("solved", n_solved)))
    made = {file: file.stat().st_mtime_ns for file in committed()}
    assert made
    kinds = [run["kind"] for run in list(json.loads(invoke("inspect", "out", "--json")).values())[1:]]
    assert sorted(kinds) == ["run"] * ((n_solved - 1) // 3) + ["unfinished run"]
    progress = Recording()
    sp.run_each(data_of(several(), solve=solve), progress=progress)
    assert same_as_calm(calm)
    assert {file: file.stat().st_mtime_ns for file in made} == made, "a batch was solved twice"
    solved = sum(len(facts["batches"]) for event, facts in progress.events if event == "solved")
    assert solved == 3 * len(WEIGHTS) - len(made)
    assert not list(Path("out").rglob("_run"))


@pytest.mark.medium
def test_one_start_of_the_cluster_and_one_read_of_the_edges(monkeypatch):
    starts, read = [], []
    started, read_part = worker_sources.worker_source, loading.read_part_into
    monkeypatch.setattr(worker_sources, "worker_source", lambda *a, **k: starts.append(a) or started(*a, **k))

    def recorded(store, part, *others, **named):
        read.append(part.path.partition("/")[0])
        read_part(store, part, *others, **named)

    monkeypatch.setattr(loading, "read_part_into", recorded)
    progress = Recording()
    runs = sp.run_each(data_of(several()), progress=progress)
    assert len(starts) == 1
    ingest_s = [run.record["timings"]["ingest"] for run in runs.values()]
    assert ingest_s[0] > 10 * max(ingest_s[1:])
    assert sorted(read) == ["edge_weights"] * len(WEIGHTS) + ["edges", "row_offsets"]
    assert [facts["weight"] for event, facts in progress.events if event == "weight"] == list(WEIGHTS)


@pytest.mark.gpu
@pytest.mark.parametrize("cluster", [{}, {"workers": 1}], ids=["threads", "process"])
@pytest.mark.parametrize(  # a hierarchy takes no floats, and `pm` is one
    "solver",
    [name for name, s in SOLVERS.items() if s.device == "gpu" and not (s.counts_arcs or s.takes_equal_only)],
)
def test_a_gpu_writes_the_same_bytes_of_each_weight(calm, solver, cluster):
    runs = sp.run_each(data_of(several(), solve={"batch": 4, "solver": solver}, cluster=cluster))
    assert same_as_calm(calm)
    for run in runs.values():
        assert run.record["verify"]["refuted"] is None
        assert set(run.metrics["device"].to_pylist()) == {run.record["hardware"]["gpu"]}


@pytest.mark.slow
def test_a_killed_run_continues(wait_until):
    data = data_of(several(), sources={"all": True}, solve={"batch": 1, "solver": "dijkstra"})
    Path("w.yaml").write_text(json.dumps(data))
    sp.run_each({**data, "graph": several(store="calm"), "output": {"path": "calm-out"}})
    command = [sys.executable, "-m", "sssp_pipeline.cli", "run", "w.yaml"]
    # Killed while the second and then the fourth weight is solved.
    for name in ("pm", "hops"):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(lambda name=name: len(list(Path("out", name).glob("distances/batch-*"))) > 2)
        process.kill()
        process.wait()
        assert not Path("out", name, "run.json").exists()
    made = {file: file.stat().st_mtime_ns for file in committed()}
    subprocess.run(command, check=True, capture_output=True)
    for name in WEIGHTS:
        assert contents(f"out/{name}") == contents(f"calm-out/{name}")
    assert {file: file.stat().st_mtime_ns for file in made} == made, "a batch was solved twice"


@pytest.mark.medium
def test_a_changed_input_keeps_the_version_of_a_run():
    weights = {"am": {}, "pm": {"column": "evening"}}
    sp.run_each(data_of(several(weights), {"path": "first"}))
    before = read_newest("graph")
    found = table()
    changed = pa.array(np.asarray(found["evening"]) + 1)
    pa.csv.write_csv(found.set_column(3, "evening", changed), "roads.csv")
    sp.run_each(data_of(several(weights), {"path": "second"}))
    newest = read_newest("graph")
    # One weight has changed, and the version has both.
    assert newest.by_weight["am"].content_id == before.by_weight["am"].content_id
    assert newest.by_weight["pm"].content_id != before.by_weight["pm"].content_id
    assert list(older_versions("graph", newest)) == [before.content_id]
    for run in ("first/am", "first/pm", "second/pm"):
        assert verify_run(run, None, "sample", Quiet())["verify"]["refuted"] is None
    old = read_manifest("graph", before.by_weight["pm"].content_id)
    assert old.weight == "pm"
    assert StoredGraph("graph", old).with_weight("am").manifest == before.by_weight["am"]
    ingested = CliRunner().invoke(app, ["ingest", *options(weights), "--remove-old-versions"])
    assert ingested.exit_code == 0, ingested.stderr
    assert older_versions("graph", newest) == {}
    with pytest.raises(InputError, match="holds no version of the graph"):
        verify_run("first/pm", None, "sample", Quiet())


@pytest.mark.medium
def test_a_missing_part_of_a_weight_is_made_again(calm):
    shutil.copytree(calm / "graph", "graph")
    for part in Path("graph/edge_weights").iterdir():
        part.unlink()
    with pytest.raises(InputError, match="is gone"):
        sp.open_store("graph", weight="am").graph()
    progress = Recording()
    (name,) = sp.run_each(
        data_of(several(input=str(calm / "roads.csv")), solve={"weights": ["am"]}), progress=progress
    )
    assert (name, [path.name for path in Path("out").iterdir()]) == ("am", ["am"])
    assert "read" in [event for event, _ in progress.events]
    sp.open_store("graph", weight="am").graph()


# ---- the command line ----


def options(weights=WEIGHTS) -> list[str]:
    entries = ", ".join(
        "{" + ", ".join(f"{key}: {value}" for key, value in {"name": name, **keys}.items()) + "}"
        for name, keys in weights.items()
    )
    chosen = ["--set", f"graph.weights.several=[{entries}]", "--set", "graph.store=graph"]
    return ["roads.csv", "--from", "v01", "--out", "out", *chosen]


def invoke(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, result.stderr
    return result.stdout if code == 0 else result.stderr


def test_commands():
    plan = json.loads(invoke("plan", *options(), "--json"))
    assert list(plan) == list(WEIGHTS)
    assert plan["pm"]["weight_dtype"] == "uint32"
    text = invoke("run", *options())
    assert text.count("results: out/") == len(WEIGHTS)
    assert "weight: am (minutes), " in text
    records = json.loads(invoke("solve", *options(), "--json"))
    assert {name: record["weight"] for name, record in records.items()} == {name: name for name in WEIGHTS}
    store = json.loads(invoke("inspect", "graph", "--json"))
    assert list(store["weights"]) == list(WEIGHTS)
    assert store["weights"]["am"]["unit"] == "minutes"
    runs = json.loads(invoke("inspect", "out", "--json"))
    assert runs["kind"] == "runs of several weights"
    assert runs["cost"]["graph"]["weights"]["scale"] == 100
    assert "every checked distance is exact" in invoke("verify", "out/hops", "--certificate")
    invoke("export", "out/cost", "cost.npy")
    np.testing.assert_array_equal(np.load("cost.npy")[0], sp.open_run("out/cost").distances()["distance"])
    for name in ("am", "pm"):
        page = Path(f"out/{name}/report.html").read_text()
        assert re.search(rf"weight</\w+>\s*<\w+>{name}<", page)
        assert f"out/{name}/distances/*.parquet" in page
        assert records[name]["workflow"]["output"]["path"] == f"out/{name}"
    ingested = json.loads(invoke("ingest", *options(), "--json"))
    assert list(ingested["graphs"]) == list(WEIGHTS)


def test_how_an_input_would_be_read():
    found = json.loads(invoke("inspect", "roads.csv", "--json", *options()[-4:-2]))
    assert [found[name]["weight"] for name in WEIGHTS] == [
        "`am`, named by the workflow",
        "`evening`, named by the workflow",
        "`cost`, named by the workflow",
        "no weight, as the workflow says",
    ]


@pytest.mark.medium
def test_the_folder_above_the_runs_is_no_run(calm):
    shutil.copytree(calm / "out", "out")
    for command in (
        ("verify", "out"),
        ("export", "out", "m.npy"),
        ("path", "out", "--from", "v01", "--to", "v02"),
    ):
        what = "`out` holds a run for each of several weights: am, cost, hops, pm"
        assert invoke(*command, code=2) == f"error: {what}\n\nhint: name the folder of one: out/am\n"
    invoke("run", "roads.csv", "--from", "v01", "--out", "only", "--set", "graph.weights.column=am")
    command = [word if word != "out" else "only" for word in options()]
    assert invoke("run", *command, code=2) == (
        "error: `only` holds the run of a single weight, and the workflow has several\n\n"
        "hint: choose another `output.path`\n"
    )


@pytest.mark.medium
def test_another_weight_along_a_path():
    invoke("run", *options())
    words = ("--from", "v01", "--to", "v02")
    found = json.loads(invoke("path", "out/pm", *words, "--cost", "am", "--json"))
    am = sp.open_store("graph", weight="am")
    assert found["cost_unit"] == "minutes"
    assert found["cost"] == sp.open_run("out/pm").path("v01", "v02").cost(am)
    path = sp.open_run("out/am").path("v01", "v02")
    assert path.cost("am") == path.length
    assert invoke("path", "out/pm", *words, "--cost", "hop", code=2) == (
        "error: the graph store `graph` has no weight `hop`\n\nhint: did you mean `hops`? It has: am, pm, cost, hops\n"
    )
    sp.ingest("roads.csv", "am", weights={"column": "cost"})
    assert invoke("path", "out/pm", *words, "--cost", "am", code=2) == (
        "error: `am` is a weight of the graph store and a folder\n\n"
        "hint: write `./am` for the folder; rename it for the weight\n"
    )
    assert "cost    " in invoke("path", "out/pm", *words, "--cost", "./am")
    shutil.rmtree("am")
    shutil.move("graph", "moved")
    moved = json.loads(invoke("path", "out/pm", *words, "--cost", "am", "--store", "moved", "--json"))
    assert moved == found


def test_coordinates_belong_to_every_weight():
    dimacs("d.gr", [(1, 2, 5), (2, 3, 6), (3, 4, 1), (1, 3, 20)])
    dimacs("t.gr", [(1, 2, 3), (2, 3, 8), (3, 4, 7), (1, 3, 1)])
    rows = "".join(f"v {v} {-73530000 + v} {41085000 + v}\n" for v in range(1, 5))
    Path("g.co").write_text("p aux sp co 4\n" + rows)
    weights = {"distance": {"column": "auto"}, "time": {"column": "auto", "input": "t.gr"}}
    sp.run_each(data_of(several(weights, input="d.gr", coordinates="g.co"), sources={"ids": [1]}))
    words = ("--from", "1", "--to", "4", "--geojson", "--cost", "distance")
    feature = json.loads(invoke("path", "out/time", *words))
    assert feature["geometry"]["coordinates"][1] == [-73.529997, 41.085003]
    assert (feature["properties"]["length"], feature["properties"]["cost"]) == (8, 21)


# ---- Python ----


def test_stores_and_solve():
    stored = sp.ingest("roads.csv", "graph", weight="pm", weights=several()["weights"])
    assert stored.manifest.weight == "pm"
    alone = sp.ingest("roads.csv", "alone", weights={"column": "evening"})
    assert stored.manifest.content_id == alone.manifest.content_id
    wanted = sp.solve(alone, ["v01", "v05"]).numpy()
    for found in (
        sp.solve(stored, ["v01", "v05"]),
        sp.solve(stored, ["v01", "v05"], weight="pm"),
        sp.solve("graph", ["v01", "v05"], weight="pm"),
        sp.solve(sp.open_store("graph", weight="hops"), ["v01", "v05"], weight="pm"),
    ):
        np.testing.assert_array_equal(found.numpy(), wanted)
    hops = stored.with_weight("hops")
    stored.graph()
    assert stored.with_weight("hops").graph().col_indices is stored.graph().col_indices
    np.testing.assert_array_equal(hops.graph().weights, 1)


def refusal(call) -> tuple[str, str | None]:
    with pytest.raises(InputError) as caught:
        call()
    return caught.value.message, caught.value.hint


def test_a_store_with_several_weights_asks_for_one():
    sp.ingest("roads.csv", "graph", weight="am", weights=several()["weights"])
    one = sp.ingest("roads.csv", "one", weights={"column": "am"})
    names = "am, pm, cost, hops"
    asks = (
        f"the graph store `graph` has several weights: {names}",
        'name one of them, in Python `weight="am"`',
    )
    assert refusal(lambda: sp.open_store("graph")) == asks
    assert refusal(lambda: sp.solve("graph", ["v01"])) == asks
    unknown = "the graph store `graph` has no weight `pn`", f"It has: {names}"
    assert refusal(lambda: sp.solve("graph", ["v01"], weight="pn")) == unknown
    unnamed = "the graph store `one` has one weight without a name, not `am`", "leave out the name"
    for given in (one, "one"):
        assert refusal(lambda given=given: sp.solve(given, ["v01"], weight="am")) == unnamed
    single, weights = {"column": "am"}, several()["weights"]
    of_one = data_of({"input": "roads.csv", "weights": single})
    for call, message, hint in (
        (lambda: sp.solve("graph", ["v01"], weight=None),
         "`weight` cannot be set for a graph store, where `ingest` has set it", "leave out `weight`"),
        (lambda: sp.ingest("roads.csv", "graph", weights=weights),
         f"`weight` is None, and the graph has the weights {names}", 'write `weight="am"`'),
        (lambda: sp.ingest("roads.csv", "one", weights=single, weight="am"),
         "`weight` is 'am', and the graph has one weight without a name", "leave out `weight`"),
        (lambda: sp.run(data_of(several())),
         "the workflow has several weights, and `run` returns one run", "call `sp.run_each`"),
        (lambda: sp.run_each(of_one), "the workflow has one weight without a name",
         "call `sp.run`, or list the weights in `graph.weights.several`"),
        (lambda: sp.run({**of_one, "solve": {"weights": ["am"]}}),
         "workflow: `solve.weights` chooses among several weights, and the graph has one",
         "remove it, or list the weights in `graph.weights.several`"),
    ):  # fmt: skip
        assert refusal(call) == (message, hint)


# ---- what is refused ----


def refused(entries, rows: str | None = None, solve=None, unit=None, **graph) -> tuple[str, str | None]:
    if rows is not None:
        Path("roads.csv").write_text(rows)
    weights = {"several": entries, "unit": unit}
    data = data_of({**several(**graph), "weights": weights}, solve=solve or {})
    found = refusal(lambda: sp.run_each(data))
    assert not Path("out").exists()
    assert not Path("graph/manifest.json").exists()
    return found


AM, PM = {"name": "am"}, {"name": "pm", "column": "evening"}


@pytest.mark.parametrize(
    ("weights", "options", "message"),
    [
        ([AM, {"name": "nope"}], {}, "weight `nope`: `roads.csv` line 1: unknown column `nope`"),
        ([AM, AM], {}, "workflow: two weights are called `am`"),
        ([AM, {"name": "x", "column": "am"}], {}, "workflow: the weights `am` and `x` are the same column `am`"),
        ([AM, {"name": "x", "column": 3}], {}, "weight `x`: its column `am` is also the column of the weight `am`"),
        ([AM, {"name": "a b"}], {}, "workflow: `graph.weights.several[1].name` is `a b`, wanted text such as `time`"),
        ([AM, {"name": ".."}], {}, "workflow: `graph.weights.several[1].name` is `..`, wanted text such as `time`"),
        ([], {}, "workflow: `graph.weights.several` is an empty list, wanted a list that is not empty or `null`"),
        ([AM, PM], {"unit": "s"}, "workflow: `graph.weights.unit` belongs to a single weight"),
        ([AM, {**PM, "input": "roads.csv"}], {"duplicates": "keep-all"}, "workflow: `keep-all` keeps parallel edges"),
        ([AM, PM], {"duplicates": "keep-all", "unreadable": "skip"}, "workflow: `unreadable: skip` may leave out"),
        ([AM, {**PM, "scale": 10, "dtype": "float32"}], {}, "workflow: `scale` computes with integers"),
        ([AM, PM], {"solve": {"weights": ["om"]}}, "workflow: `solve.weights` has `om`, which the graph lacks"),
        ([AM, PM], {"solve": {"weights": ["am", "am"]}}, "workflow: `solve.weights` has `am` twice"),
        ([AM, {**PM, "dtype": "uint32"}], {}, "weight `pm`: `roads.csv`: edge 1, from "),
        ([AM, {**PM, "input": "gone.csv"}], {}, "`gone.csv` does not exist"),
    ],
)  # fmt: skip
def test_workflows_that_are_refused(weights, options, message):
    found, hint = refused(weights, **options)
    assert found.startswith(message)
    assert hint


EVERY_ROW = "every row of the input gives one edge and a value for each weight"


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ("a,b,5,\n", {}, "weight `pm`: `roads.csv` line 2: `` is not a weight"),
        ("a,b,5,6\nb,c,5,x\n", {}, "weight `pm`: `roads.csv` line 3: `x` is not a weight"),
        ("a,b,5,6\nb,c,5,\n", {"unreadable": "skip"}, "weight `pm`: 2 vertices, and 3 of the weight `am`"),
        ("a,b,1,1\nb,a,1,1\na,a,1,\n", {"unreadable": "skip", "self_loops": "keep"},
         "weight `pm`: it has no edge from `a` to `a`, and the weight `am` has one"),
        ("a,b,1,1\nb,a,1,1\na,a,,1\n", {"unreadable": "skip", "self_loops": "keep"},
         "weight `pm`: it has an edge from `a` to `a`, and the weight `am` has none"),
        ("a,b,1,1\na,b,2,\n", {"unreadable": "skip"}, "weight `pm`: 1 edges read, and 2 of the weight `am`"),
    ],
)  # fmt: skip
def test_rows_without_a_value_for_each_weight(rows, options, message):
    found, hint = refused([AM, PM], "from,to,am,evening\n" + rows, **options)
    assert found == message
    assert (hint == EVERY_ROW) == ("unreadable" in options)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("v01", "v0", "weight `hops`: it has the vertex `v0` where the weight `am` has `v01`"),
        ("v03,1", "v02,1", "weight `hops`: it has no edge from `v02` to `v03`, and the weight `am` has one"),
        ("5", "6", "weight `am`: `roads.csv` has changed while it was read: it was written again"),
        ("v03,2", "v02,2", "weight `hops`: it has 3 edges from `v01` to `v02`, and the weight `am` has 2"),
    ],
    ids=["vertices", "edges", "weights", "parallel edges"],
)
def test_an_input_that_changes_between_two_reads_is_refused(monkeypatch, old, new, message):
    read_edges = edge_reader.read_edges

    @contextmanager
    def change_after(*given, **named):
        with read_edges(*given, **named) as found:
            Path("roads.csv").write_text(Path("roads.csv").read_text().replace(old, new))
            yield found

    monkeypatch.setattr(edge_reader, "read_edges", change_after)
    rows = "from,to,am\nv01,v02,5\nv02,v03,1\nv03,v02,1\nv02,v01,1\n"
    rows += "v01,v02,7\nv01,v03,2\nv01,v03,4\n"
    entries = [AM, {"name": "hops", "column": "none"}]
    assert refused(entries, rows, self_loops="keep", duplicates="keep-all")[0] == message


def test_inputs_with_other_edges():
    dimacs("d.gr", [(1, 2, 5), (2, 3, 6), (3, 4, 1), (1, 3, 20)])
    dimacs("t.gr", [(1, 2, 5), (2, 3, 6), (3, 4, 1), (1, 4, 20)])
    weights = [{"name": "d", "column": "auto"}, {"name": "t", "column": "auto", "input": "t.gr"}]
    found = refused(weights, input="d.gr")
    assert found == ("weight `t`: it has no edge from `1` to `3`, and the weight `d` has one", EVERY_ROW)


@pytest.mark.medium
def test_rows_without_ids_are_skipped_once():
    Path("roads.csv").write_text("from,to,am,evening\na,b,5,6\nb,,7,8\n")
    weights = {"am": {}, "pm": {"column": "evening"}}
    assert_same_as_alone(several(weights, unreadable="skip"), weights=weights, sources={"all": True})
    assert read_newest("graph").by_weight["pm"].counts.rows_skipped == 1
    assert len(Path("graph/skipped.txt").read_text().splitlines()) == 1


def test_a_store_with_other_weights_is_refused():
    sp.ingest("roads.csv", "graph", weight="am", weights={"several": [AM, PM]})
    for name, weights, here in (
        ("am", {"several": [AM]}, "the weights `am`"),
        (None, {"column": "am"}, "one weight without a name"),
    ):
        given = {"weights": weights, "weight": name}
        message, hint = refusal(lambda given=given: sp.ingest("roads.csv", "graph", **given))
        assert message == f"`graph` holds another graph: it has the weights `am`, `pm`, not {here}"
        assert hint.startswith("name another `graph.store`")
    weights = {"several": [AM, {**PM, "unit": "s"}]}
    message, _ = refusal(lambda: sp.ingest("roads.csv", "graph", weights=weights, weight="am"))
    change = "`graph.weights.unit` is `null` there and `s` here for the weight `pm`"
    assert message == f"`graph` holds another graph: {change}"


def test_a_path_that_is_too_long_names_the_weight():
    Path("roads.csv").write_text("from,to,am,evening\na,b,5,3000000000\nb,c,5,3000000000\n")
    weights = {"am": {}, "pm": {"column": "evening", "dtype": "uint32"}}
    with pytest.raises(PathTooLongError) as caught:
        sp.run_each(data_of(several(weights), sources={"all": True}))
    message = "weight `pm`: the shortest path from `a` to `c` is longer than uint32 holds"
    assert caught.value.message == message
    assert "entry `pm` of `graph.weights.several`" in caught.value.hint
    assert Path("out/am/run.json").exists()
    assert not Path("out/pm").exists()


def test_a_damaged_manifest_is_refused(reseal):
    sp.ingest("roads.csv", "graph", weight="am", weights={"several": [AM, PM]})
    file = Path("graph/manifest.json")
    whole = json.loads(file.read_text())
    for name, change, problem in (
        ("edge_weights", None, "the weight am has no parts"),
        ("edge_weights", [], "the parts of edge_weights do not fit those of edges"),
    ):
        damaged = json.loads(json.dumps(whole))
        damaged["graphs"]["am"][name] = change
        reseal(file, damaged)
        assert problem in refusal(lambda: read_newest("graph"))[0]
    damaged = json.loads(json.dumps(whole))
    damaged["graphs"]["am"]["edges"][0]["crc32"] += 1
    reseal(file, damaged)
    assert "the weight pm has other edges" in refusal(lambda: read_newest("graph"))[0]
