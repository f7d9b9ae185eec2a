"""Runs that find the nearest of some vertices backward write the same files as runs forward."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from turned_runs import EDGES, N, checked_both, distances_of, run_of, stopped_after, write_edges

import sssp_pipeline as sp
from sssp_pipeline.base.csr import unreached_distance
from sssp_pipeline.base.errors import InputError, PathTooLongError, RefutedError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.base.vertex_ids import VertexIds
from sssp_pipeline.kernels.answers.nearest import nearest_of
from sssp_pipeline.kernels.contract.solver import Solution
from sssp_pipeline.pipeline.results.folder.distance_files import DistanceFormat
from sssp_pipeline.pipeline.results.folder.run_files import turned_part
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.pipeline.results.outputs import turned_output
from sssp_pipeline.pipeline.results.outputs.table_output import NearestVertices
from sssp_pipeline.pipeline.results.outputs.turned_output import TurnedNearest
from sssp_pipeline.pipeline.run import direction_of_run
from sssp_pipeline.pipeline.run.completed_run import verify_run
from sssp_pipeline.pipeline.run.inspect import describe
from sssp_pipeline.pipeline.run.plan_facts import describe_plan
from sssp_pipeline.workflow.yaml_file import load_workflow

#: Out of order, and one is named twice. Nothing reaches vertex N. In batches of 7, two parts have the 3 nearest of each
#: source, and the last one has all distances.
OF = [17, 3, N, 5, 40, 41, 17, *range(20, 34)]

WORKFLOW = f"""\
graph: {{input: edges.csv, store: graph, self_loops: keep, weights: {{column: weight}}}}
sources: {{all: true}}
solve: {{batch: 7, direction: backward}}
output: {{path: run, distances: nearest, nearest: {{k: 3, of: {{ids: {OF}, repeated: drop}}}}}}
"""


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    write_edges()
    Path("w.yaml").write_text(WORKFLOW)


@pytest.fixture
def small_steps(monkeypatch):
    """Rows are turned, and files are made, in several steps."""
    monkeypatch.setattr(turned_output, "TURNED_BYTES", 100)
    monkeypatch.setattr(turned_output, "READ_BYTES", 400)


# ---- parts ----


@pytest.mark.parametrize("dtype", ["uint32", "int32", "uint64", "int64"])
def test_parts_are_merged_by_distance_and_then_by_vertex(dtype, numpy_answers, small_steps):
    random, dtype = np.random.default_rng(11), np.dtype(dtype)
    ids, form = VertexIds.numbered(500), DistanceFormat("long", None, "none", False, None, ())
    kinds = set()
    for k in (1, 2, 3, 8, 60):
        searched = np.sort(random.choice(500, 50, replace=False)).astype(np.uint32)
        n_sources = int(random.integers(1, 40))
        rows = random.integers(0, 12, (50, n_sources)).astype(dtype)  # many are equal
        rows[random.random(rows.shape) < 0.4] = unreached_distance(dtype)
        batches = np.split(searched, [1, 3, 9, 10, 30])
        sources = np.zeros(n_sources, np.uint32)
        turned = TurnedNearest.of(NearestVertices(form, "", searched, dtype.name, k), [sources], 0)
        run, first = RunFolder("run"), 0
        for number, batch in enumerate(batches):
            part = io.BytesIO()
            turned.write(part, batch, Solution(rows[first : first + len(batch)], None), ids)
            Path("run/_run").mkdir(parents=True, exist_ok=True)
            Path("run", turned_part(number)).write_bytes(part.getvalue())
            kinds.add(turned.row_of_part(len(batch), dtype).names)
            first += len(batch)
        n_bytes = sum(file.stat().st_size for file in Path("run/_run").iterdir())
        assert n_bytes == turned.parts_bytes(batches, dtype)
        distances, vertices = nearest_of(turned._rows(run, batches, 0, n_sources, dtype), dtype)
        for source in range(n_sources):
            row = np.full(500, unreached_distance(dtype))
            row[searched] = rows[:, source]
            wanted = numpy_answers.nearest(row, k, searched)
            np.testing.assert_array_equal((distances[source], vertices[source]), wanted)
    assert kinds == {("distances",), ("distances", "vertices")}


# ---- whole runs ----


@pytest.mark.parametrize(
    "overrides",
    [
        (),
        *(
            pytest.param(overrides, marks=pytest.mark.medium)
            for overrides in (
                ("graph.directed=false",),
                ("solve.cutoff=9", "output.nearest.k=1"),
                ("output.nearest.k=30", "graph.weights.dtype=int32"),
                (
                    "output.compression=zstd",
                    "solve.batch=1",
                    'sources={"all": null, "ids": [50, 3, 60, 4, 9, 2]}',
                ),
                ("solve.solver=phast", "solve.batch=30"),
                ("cluster.kind=local-cpu",),
            )
        ),
    ],
    ids=lambda o: " ".join(o) or "plain",
)
def test_both_directions_write_the_same_bytes(overrides, small_steps):
    checked_both(*overrides)


@pytest.mark.medium
@pytest.mark.parametrize("scale", [0.1, 2**33], ids=["scaled", "uint64"])
def test_other_weights(scale):
    write_edges(scale)
    checked_both(f"solve.cutoff={17 * scale}")


@pytest.mark.medium
def test_random_graphs_with_zero_weights_and_ties(small_steps):
    random = np.random.default_rng(5)
    for trial in range(6):
        n = int(random.integers(4, 40))
        edges = random.integers(0, n, (int(random.integers(n, 4 * n)), 2))
        weights = random.choice([0, 0, 1, 1, 2, 900], len(edges))
        lines = [f"{u},{v},{w}" for (u, v), w in zip(edges.tolist(), weights.tolist(), strict=True)]
        Path("edges.csv").write_text("\n".join(["source,target,weight", f"0,{n - 1},1", *lines, ""]))
        of = [0, *random.integers(0, n, int(random.integers(1, n))).tolist()]
        k, batch = int(random.integers(1, 5)), int(random.integers(1, 5))
        nearest = f'output.nearest={{"k": {k}, "of": {{"ids": {of}, "unknown": "skip", "repeated": "drop"}}}}'
        checked_both(f"graph.store=graph{trial}", nearest, f"solve.batch={batch}")


@pytest.mark.medium
def test_points_have_their_own_ids():
    # Several points are at one vertex, among the sources and among the vertices to choose from, in no order.
    edges = [f"a {v + 1} {w + 1} {weight}" for v, w, weight in EDGES]
    Path("g.gr").write_text("\n".join([f"p sp {N + 1} {len(edges)}", *edges, ""]))
    places = [f"v {v + 1} {10_000_000 + 1000 * v} 0" for v in range(N + 1)]
    Path("g.co").write_text("\n".join([f"p aux sp co {N + 1}", *places, ""]))
    random = np.random.default_rng(3)
    for name, n in (("from.csv", 40), ("to.csv", 30)):
        rows = [f"{name[0]}{i},{10 + 0.001 * random.integers(0, N // 3):.4f},0" for i in range(n)]
        Path(name).write_text("\n".join(["id,lon,lat", *rows, ""]))
    Path("w.yaml").write_text(
        """\
graph: {input: g.gr, store: points, coordinates: g.co}
sources: {points: {file: from.csv}}
solve: {batch: 7}
output: {path: run, distances: nearest, nearest: {k: 3, of: {points: {file: to.csv}}}}
"""
    )
    checked_both()
    run = sp.open_run("backward")
    assert run.sources.to_pylist() == [f"f{i}" for i in range(40)]
    assert run.answers("f7").equals(sp.open_run("forward").answers("f7"))


@pytest.mark.medium
def test_what_is_read_of_a_run_and_what_it_says(listener):
    write_edges(name="v{:02}".format)
    names = json.dumps([f"v{v:02}" for v in OF])
    forward, backward = checked_both(
        f'output.nearest={{"k": 3, "of": {{"ids": {names}, "repeated": "drop"}}}}'
    )
    assert backward["overall"] == {}
    assert (forward["batches"], forward["sources"]) == (backward["batches"], backward["sources"])
    one, other = sp.open_run("forward"), sp.open_run("backward")
    assert one.answers().equals(other.answers())
    assert other.answers()["source"].to_pylist()[:4] == ["v00", "v00", "v00", "v01"]
    assert one.sources.equals(other.sources)
    assert other.metrics["target"].to_pylist() == sorted({f"v{v:02}" for v in OF})
    assert "source" not in other.metrics.column_names
    assert pq.read_table("backward/sources.parquet")["batch"].to_pylist() == [v // 7 for v in range(N + 1)]
    assert describe("backward")["direction"] == "backward"
    assert "backward: a search for each different target" in Path("backward/report.html").read_text()
    assert not [name for name in Path("backward").rglob("*") if name.name.startswith("turned-")]
    said = listener()
    run_of("output.path=forward", "solve.direction=forward", f"output.nearest.of.ids={names}", progress=said)
    assert said.named("direction") == []
    said = listener()
    run_of("output.path=said", f"output.nearest.of.ids={names}", progress=said)
    line = "direction: backward, from 20 targets; the metrics have a row for each (`solve.direction`)"
    assert line in said.lines


# ---- runs that are continued ----


@pytest.mark.medium
@pytest.mark.parametrize(("n", "name"), [(2, "write"), (3, "_rows")])
def test_a_run_that_stops_goes_on_in_its_direction(n, name, monkeypatch, listener):
    run_of("solve.direction=forward", "solve.batch=2", "output.path=forward")
    stopped_after(monkeypatch, n, name, TurnedNearest)
    if name == "_rows":
        assert len(distances_of("backward")) >= 2
        Path("backward/distances/batch-00000.parquet").write_bytes(b"half")
    said = listener()
    # `auto` would go forward now: the graph is small.
    record = run_of("solve.direction=auto", "solve.batch=2", "output.path=backward", progress=said)
    assert record["direction"] == "backward"
    assert said.named("going_on")
    assert distances_of("forward") == distances_of("backward")
    assert record["verify"]["refuted"] is None


@pytest.mark.medium
def test_a_damaged_part_is_solved_again(run_interrupted, listener):
    run_of("solve.direction=forward", "output.path=forward")
    run_interrupted(load_workflow("w.yaml", ["output.path=backward"]))
    part, said = Path("backward/_run/turned-00001.bin"), listener()
    part.write_bytes(bytes(part.stat().st_size))
    run_of("output.path=backward", progress=said)
    assert said.named("damaged")
    assert distances_of("forward") == distances_of("backward")


@pytest.mark.medium
def test_another_k_or_direction_is_another_run():
    run_of()
    with pytest.raises(InputError, match="holds another run: it differs in nearest"):
        run_of("output.nearest.k=2")
    with pytest.raises(InputError, match="holds another run: it differs in direction"):
        run_of("solve.direction=forward")
    assert run_of("solve.direction=auto")["direction"] == "backward"


@pytest.mark.medium
@pytest.mark.parametrize("name", ["distances/batch-00001.parquet", "sources.parquet", "_output.u32"])
def test_verify_finds_damage_and_run_repairs_it(name):
    run_of()
    whole, before = Path("run", name).read_bytes(), distances_of("run")
    Path("run", name).write_bytes(whole[:-9] + b"123456789")
    with pytest.raises(InputError, match=rf"`run/{name}` was altered"):
        verify_run("run", None, "sample", Quiet())
    run_of()
    assert distances_of("run") == before
    assert verify_run("run", None, "sample", Quiet())["verify"]["refuted"] is None


def test_verify_refutes_a_wrong_vertex(recorded_anew):
    run_of('sources={"all": null, "ids": [5, 6, 7]}')  # so `verify` checks all of them
    path = Path("run/distances/batch-00000.parquet")
    table = pq.read_table(path)
    vertices = table["vertex"].to_pylist()
    vertices[0], vertices[1] = vertices[1], vertices[0]
    pq.write_table(table.set_column(2, "vertex", [vertices]), path)
    recorded_anew(RunFolder("run"))
    with pytest.raises(RefutedError, match=f"rank 1: stored vertex {vertices[0]}, true vertex {vertices[1]}"):
        verify_run("run", None, "sample", Quiet())


# ---- the choice ----


@pytest.mark.medium
def test_auto_goes_backward_if_it_gains(monkeypatch):
    assert run_of("solve.direction=auto", "output.path=small")["direction"] == "forward"
    monkeypatch.setattr(direction_of_run, "LEAST_S", 0.0)
    monkeypatch.setattr(direction_of_run, "gains", lambda *_, **__: True)
    auto = ("solve.direction=auto", "output.path=gains")
    assert describe_plan(load_workflow("w.yaml", [*auto]), 0, Quiet())["direction"] == "backward"
    assert run_of(*auto)["direction"] == "backward"
    every = run_of("solve.direction=auto", "output.path=every", "output.nearest.of=null")
    assert every["direction"] == "forward"
    # A path of 61 edges of this weight is too long for 32 bits; a cutoff forbids it.
    write_edges(2**27)
    heavy = "solve.direction=auto", "graph.store=heavy", "graph.weights.dtype=uint32"
    with pytest.raises(PathTooLongError):
        run_of(*heavy, "output.path=too-long")
    assert run_of(*heavy, "solve.cutoff=2000000000", "output.path=limited")["direction"] == "backward"


def test_the_merge_counts_for_the_choice(monkeypatch):
    more = []
    monkeypatch.setattr(direction_of_run, "LEAST_S", 0.0)
    monkeypatch.setattr(direction_of_run, "gains", lambda *_, more_s, **__: more.append(more_s))
    assert run_of("solve.direction=auto")["direction"] == "forward"
    # Two parts have 24 bytes for each source, and one has 6 distances. An answer has 3 distances and 3 vertices.
    n_bytes = (N + 1) * (2 * 24 + 6 * 4 + 6 * 8)
    assert more == [pytest.approx(n_bytes * direction_of_run.WRITE_S_PER_BYTE)]


def test_second_costs_stay_forward(monkeypatch):
    Path("two.csv").write_text("source,target,minutes,metres\n0,1,3,9\n1,2,4,8\n2,0,5,7\n")
    monkeypatch.setattr(direction_of_run, "_pays", lambda *_: True)
    options = [
        "graph.input=two.csv", "graph.store=two",
        'graph.weights={"several": [{"name": "minutes"}, {"name": "metres"}]}',
        'solve.weights=["minutes"]', 'solve.along=["metres"]', 'output.nearest={"k": 1, "of": {"ids": [1]}}',
    ]  # fmt: skip
    assert run_of("solve.direction=auto", *options)["direction"] == "forward"
    with pytest.raises(InputError, match=r"`solve\.along` needs paths from the sources"):
        run_of(*options)


@pytest.mark.parametrize(("scale", "what"), [(1.1**30, "float64"), (-1, "negative weights")])
def test_weights_that_have_no_way_backward(scale, what):
    write_edges(scale)
    with pytest.raises(InputError) as caught:
        run_of()
    assert caught.value.message == f"`solve.direction` is `backward`, and the graph has {what}"
    assert not Path("run").exists()


def test_backward_needs_some_vertices():
    with pytest.raises(InputError) as caught:
        load_workflow("w.yaml", ["output.nearest.of=null"])
    assert caught.value.message == (
        "`w.yaml` line 3: `solve.direction: backward` searches from the vertices of `output.nearest.of`, "
        "and none are named"
    )
    assert caught.value.hint == "name `output.nearest.of`, or remove `solve.direction`"
