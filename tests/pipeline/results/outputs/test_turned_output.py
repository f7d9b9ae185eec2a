"""Runs that search from the targets write the same distances as runs that search from the sources."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from turned_runs import EDGES, N, checked_both, distances_of, run_of, stopped_after, write_edges

import sssp_pipeline as sp
from sssp_pipeline.base.errors import InputError, PathTooLongError, RefutedError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.pipeline.results.outputs import turned_output
from sssp_pipeline.pipeline.run import direction_of_run
from sssp_pipeline.pipeline.run.completed_run import verify_run
from sssp_pipeline.pipeline.run.inspect import describe
from sssp_pipeline.pipeline.run.plan_facts import describe_plan
from sssp_pipeline.workflow.yaml_file import load_workflow

#: Out of order, and one stands on the vertex that nothing reaches.
TARGETS = [17, 3, N, 5, 40, 41]

WORKFLOW = f"""\
graph: {{input: edges.csv, store: graph, self_loops: keep, isolated: keep, weights: {{column: weight}}}}
sources: {{all: true}}
solve: {{batch: 7, direction: backward}}
output: {{path: run, targets: {{ids: {TARGETS}}}}}
"""


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    write_edges()
    Path("w.yaml").write_text(WORKFLOW.replace("isolated: keep, ", ""))


@pytest.mark.parametrize(
    "overrides",
    [
        (),
        ("output.layout=wide",),
        ("output.layout=wide", "solve.batch=auto", "output.columns_per_file=9"),
        ("graph.directed=false",),
        ("solve.cutoff=9",),
        ("output.unreached=-1", "graph.weights.dtype=int32"),
        ("output.compression=zstd",),
        ("solve.batch=1",),
        ("solve.solver=phast",),
        ("cluster.kind=local-cpu",),
        ('sources={"all": null, "ids": [50, 3, 17, 60, 4, 9, 2, 1, 0]}',),
    ],
    ids=lambda o: " ".join(o) or "plain",
)
def test_both_directions_write_the_same_bytes(overrides, monkeypatch):
    # So that rows are turned, and files are made, in several steps.
    monkeypatch.setattr(turned_output, "TURNED_BYTES", 100)
    monkeypatch.setattr(turned_output, "READ_BYTES", 400)
    checked_both(*overrides)


@pytest.mark.parametrize("layout", ["long", "wide"])
@pytest.mark.parametrize("scale", [0.1, 2**33], ids=["scaled", "uint64"])
def test_other_weights(layout, scale):
    write_edges(scale)
    forward, backward = checked_both(f"output.layout={layout}", f"solve.cutoff={17 * scale}")
    assert forward["graph"] == backward["graph"]


@pytest.mark.parametrize("layout", ["long", "wide"])
def test_ids_that_are_names(layout):
    write_edges(name="v{:02}".format)
    names = json.dumps([f"v{v:02}" for v in TARGETS])
    checked_both(f"output.targets={{ids: {names}}}", f"output.layout={layout}")
    run = sp.open_run("backward")
    assert run.sources.to_pylist() == [f"v{v:02}" for v in range(N + 1)]
    assert run.metrics["target"].to_pylist() == sorted(f"v{v:02}" for v in TARGETS)


@pytest.mark.parametrize("layout", ["long", "wide"])
def test_points_have_their_own_ids(layout):
    # Several points are at one vertex, among the sources and among the targets, in no order.
    edges = [f"a {v + 1} {w + 1} {weight}" for v, w, weight in EDGES]
    Path("g.gr").write_text("\n".join([f"p sp {N + 1} {len(edges)}", *edges, ""]))
    Path("g.co").write_text(
        "\n".join(
            [f"p aux sp co {N + 1}", *(f"v {v + 1} {10_000_000 + 1000 * v} 0" for v in range(N + 1)), ""]
        )
    )
    rng = np.random.default_rng(3)
    for name, n in (("from.csv", 40), ("to.csv", 9)):
        rows = [f"{name[0]}{i},{10 + 0.001 * rng.integers(0, N // 3):.4f},0" for i in range(n)]
        Path(name).write_text("\n".join(["id,lon,lat", *rows, ""]))
    Path("w.yaml").write_text(
        """\
graph: {input: g.gr, store: points, coordinates: g.co}
sources: {points: {file: from.csv}}
solve: {batch: 7}
output: {path: run, targets: {points: {file: to.csv}}}
"""
    )
    checked_both(f"output.layout={layout}")
    run = sp.open_run("backward")
    assert run.sources.to_pylist() == [f"f{i}" for i in range(40)]
    assert run.distances("f7").equals(sp.open_run("forward").distances("f7"))
    assert run.metrics.num_rows < 9
    assert run.metrics["target"].type == pa.int64()


def test_what_is_read_of_a_run():
    forward, backward = checked_both()
    assert forward["sources"] == backward["sources"] == N + 1
    assert forward["batches"] == backward["batches"]
    assert forward["overall"]
    assert backward["overall"] == {}
    one, other = sp.open_run("forward"), sp.open_run("backward")
    assert one.distances().equals(other.distances())
    assert one.distances([5, 60], [3]).equals(other.distances([5, 60], [3]))
    assert one.sources.equals(other.sources)
    assert one.metrics["source"].to_pylist() == list(range(N + 1))
    assert "source" not in other.metrics.column_names
    assert other.metrics["target"].to_pylist() == sorted(TARGETS)
    # A row counts the vertices that reach the target.
    rows = {row["target"]: row for row in other.metrics.to_pylist()}
    table = one.distances().to_pandas().dropna().groupby("vertex").distance
    assert {v: row["reached"] for v, row in rows.items()} == table.count().to_dict()
    assert {v: row["max_distance"] for v, row in rows.items()} == table.max().to_dict()
    for run, path in ((one, "one.npy"), (other, "other.npy")):
        run.export(path, unreached=9999)
    np.testing.assert_array_equal(np.load("one.npy"), np.load("other.npy"))
    assert describe("backward")["direction"] == "backward"
    assert "backward: a search for each different target" in Path("backward/report.html").read_text()
    assert not [name for name in Path("backward").rglob("*") if name.name.startswith("turned-")]
    assert pq.read_table("backward/sources.parquet")["batch"].to_pylist() == [v // 7 for v in range(N + 1)]


def test_the_output_says_the_direction(listener):
    said = listener()
    run_of(progress=said)
    assert (
        "direction: backward, from 6 targets; the metrics have a row for each (`solve.direction`)"
        in said.lines
    )
    assert "solved 6 targets x 61 sources with" in "\n".join(said.lines)


# ---- runs that are continued ----


@pytest.mark.parametrize(("n", "name"), [(2, "write"), (3, "_rows")])
@pytest.mark.parametrize("direction", ["backward", "auto"])
def test_a_run_that_stops_goes_on_in_its_direction(n, name, direction, monkeypatch, listener):
    run_of("solve.direction=forward", "solve.batch=2", "output.path=forward")
    stopped_after(monkeypatch, n, name)
    if name == "_rows":
        assert len(distances_of("backward")) >= 2
        Path("backward/distances/batch-00000.parquet").write_bytes(b"half")
    said = listener()
    # `auto` would go forward now: the graph is small.
    record = run_of(f"solve.direction={direction}", "solve.batch=2", "output.path=backward", progress=said)
    assert record["direction"] == "backward"
    assert said.named("going_on")
    assert distances_of("forward") == distances_of("backward")
    assert record["verify"]["refuted"] is None


def test_auto_keeps_the_direction_of_a_run_whose_identity_is_damaged(monkeypatch, listener):
    stopped_after(monkeypatch, 3, "_rows")
    Path("backward/_run/identity.json").write_bytes(b"{")
    said = listener()
    record = run_of("solve.direction=auto", "solve.batch=2", "output.path=backward", progress=said)
    assert record["direction"] == "backward"
    assert said.named("going_on")


def test_auto_keeps_a_run_forward(monkeypatch, run_interrupted):
    run_interrupted(load_workflow("w.yaml", ["solve.direction=forward"]))
    monkeypatch.setattr(direction_of_run, "_pays", lambda *_: pytest.fail("the run was begun"))
    for _ in range(2):
        assert run_of("solve.direction=auto")["direction"] == "forward"


def test_another_direction_is_another_run():
    run_of()
    with pytest.raises(InputError, match="holds another run: it differs in direction"):
        run_of("solve.direction=forward")
    assert run_of("solve.direction=auto")["direction"] == "backward"


def test_a_damaged_part_is_solved_again(run_interrupted, monkeypatch):
    run_of("solve.direction=forward", "solve.batch=2", "output.path=forward")
    run_interrupted(load_workflow("w.yaml", ["solve.batch=2", "output.path=backward"]))
    part = Path("backward/_run/turned-00001.bin")
    part.write_bytes(bytes(len(part.read_bytes())))
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "damaged_batches", lambda *_: {})
        with pytest.raises(InputError, match=r"`backward/_run/turned-00001\.bin` was altered"):
            run_of("solve.batch=2", "output.path=backward")
    run_of("solve.batch=2", "output.path=backward")
    assert distances_of("forward") == distances_of("backward")


@pytest.mark.parametrize("name", ["distances/batch-00001.parquet", "sources.parquet", "metrics.parquet"])
def test_verify_finds_damage_and_run_repairs_it(name):
    run_of()
    whole, before = Path("run", name).read_bytes(), distances_of("run")
    Path("run", name).write_bytes(whole[:-9] + b"123456789")
    with pytest.raises(InputError, match=rf"`run/{name}` was altered"):
        verify_run("run", None, "sample", Quiet())
    run_of()
    assert distances_of("run") == before
    assert verify_run("run", None, "sample", Quiet())["verify"]["refuted"] is None


def test_verify_refutes_a_wrong_distance(recorded_anew):
    run_of('sources={"all": null, "ids": [5, 6, 7]}')  # so `verify` checks all of them
    path = Path("run/distances/batch-00000.parquet")
    table = pq.read_table(path)
    wrong = table["distance"].to_pylist()
    place = next(i for i, distance in enumerate(wrong) if distance)
    wrong[place] += 1
    column = pa.array(wrong, table.schema.field("distance").type)
    pq.write_table(table.set_column(2, "distance", column), path)
    recorded_anew(RunFolder("run"))
    with pytest.raises(
        RefutedError, match=f"stored distance {wrong[place]}, true distance {wrong[place] - 1}"
    ):
        verify_run("run", None, "sample", Quiet())


# ---- the choice ----


@pytest.fixture
def all_runs_pay(monkeypatch):
    monkeypatch.setattr(direction_of_run, "LEAST_S", 0.0)
    monkeypatch.setattr(direction_of_run, "gains", lambda *_, **__: True)


def test_auto_goes_backward_if_it_gains(all_runs_pay):
    assert (
        describe_plan(load_workflow("w.yaml", ["solve.direction=auto"]), 0, Quiet())["direction"]
        == "backward"
    )
    assert run_of("solve.direction=auto")["direction"] == "backward"


def test_auto_stays_forward(all_runs_pay, monkeypatch):
    assert run_of("solve.direction=auto", "output.targets=null", "output.path=all")["direction"] == "forward"
    assert (
        run_of("solve.direction=auto", 'sources={"all": null, "ids": [1, 2, 3]}', "output.path=few")[
            "direction"
        ]
        == "forward"
    )
    # A path of 61 edges of this weight is too long for 32 bits; a cutoff forbids it.
    write_edges(2**27)
    options = "solve.direction=auto", "graph.store=heavy", "graph.weights.dtype=uint32"
    with pytest.raises(PathTooLongError):
        run_of(*options, "output.path=too-long")
    assert run_of(*options, "solve.cutoff=2000000000", "output.path=limited")["direction"] == "backward"
    write_edges(1.1**30)
    assert (
        run_of("solve.direction=auto", "graph.store=floats", "output.path=forward")["direction"] == "forward"
    )


def test_a_small_run_stays_forward():
    assert run_of("solve.direction=auto")["direction"] == "forward"
    assert "direction" not in RunFolder("run").read_run()["identity"]


@pytest.mark.parametrize(("scale", "what"), [(1.1**30, "float64"), (-1, "negative weights")])
def test_weights_that_have_no_way_backward(scale, what):
    write_edges(scale)
    with pytest.raises(InputError) as caught:
        run_of()
    assert caught.value.message == f"`solve.direction` is `backward`, and the graph has {what}"
    assert (
        caught.value.hint
        == "searches backward need integer weights of zero or more: remove `solve.direction`"
    )
    assert not Path("run").exists()


@pytest.mark.parametrize(
    ("overrides", "message", "hint"),
    [
        (["output.targets=null"], "`solve.direction: backward` searches from the targets, and none are named",
         "name `output.targets`, or remove `solve.direction`"),
        (["output.targets=null", "output.distances=reached"],
         "`solve.direction: backward` goes with `output.distances: full` and `nearest`, not with `reached`",
         "remove `solve.direction`"),
        (["output.targets=null", "sources=null", "output.distances=pairs", "output.pairs=pairs.csv"],
         "`solve.direction: backward` goes with `output.distances: full` and `nearest`, not with `pairs`",
         "set `output.pairs.direction: backward`, and remove `solve.direction`"),
        (["solve.predecessors=true"], "`solve.direction: backward` finds no predecessors",
         "remove `solve.direction`, or set `solve.predecessors: false`"),
    ],
)  # fmt: skip
def test_contradictions(overrides, message, hint):
    with pytest.raises(InputError) as caught:
        load_workflow("w.yaml", overrides)
    text = f"{caught.value.message}\n{caught.value.hint}"
    assert message in text
    assert hint in text
    assert not Path("graph").exists()
