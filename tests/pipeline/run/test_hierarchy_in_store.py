"""Runs, plans and ingests with a hierarchy in the graph store."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import sssp_pipeline as sp
from sssp_pipeline.base.csr import csr_from_edges
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.generators import grid
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.cli import app
from sssp_pipeline.kernels.hierarchy import shared
from sssp_pipeline.kernels.hierarchy.ordering import metis_processes
from sssp_pipeline.pipeline.graph_store import hierarchies
from sssp_pipeline.pipeline.graph_store.hierarchy_record import RECORD, read_record
from sssp_pipeline.pipeline.planning import hierarchy
from sssp_pipeline.pipeline.run import hierarchy_stage, hierarchy_steps
from sssp_pipeline.pipeline.run.conductor import run, run_each
from sssp_pipeline.pipeline.run.plan_facts import describe_plan
from sssp_pipeline.workflow.models import Workflow


def made(tmp_path: Path, name: str = "run", **sections) -> Workflow:
    """Return a workflow on a generated grid of 2,400 vertices, with `sections` merged into it."""
    data = {
        "graph": {"input": "generated:grid?rows=60&cols=40&seed=3", "store": str(tmp_path / "graph")},
        "sources": {"random": {"count": 40, "seed": 1}},
        "output": {"path": str(tmp_path / name)},
        "report": False,
    }
    for key, value in sections.items():
        data[key] = {**data.get(key, {}), **value} if isinstance(value, dict) and key != "sources" else value
    return Workflow.model_validate(data)


def distances(folder: Path) -> list[np.ndarray]:
    files = sorted(Path(folder, "distances").glob("*.parquet"))
    return [pq.ParquetFile(file).read()["distance"].to_numpy() for file in files]


@pytest.fixture
def pays(monkeypatch):
    """Have `auto` find that a hierarchy pays."""
    monkeypatch.setattr(hierarchy, "why_not", lambda *_: None)


@pytest.fixture
def never_made(monkeypatch):
    """Fail if this process makes a hierarchy."""
    makers = (hierarchy_stage, "neighbours_of"), (shared, "completion_of"), (shared, "customize")
    for module, name in makers:
        monkeypatch.setattr(module, name, lambda *_, **__: pytest.fail("a hierarchy is made"))


@pytest.mark.medium
def test_a_named_solver_has_its_hierarchy_made_once_and_kept(tmp_path, monkeypatch, listener):
    progress = listener()
    run(made(tmp_path, solve={"solver": "phast"}), progress)
    (made_one,) = progress.named("hierarchy")
    assert made_one["arcs"] > 2400
    assert read_record(str(tmp_path / "graph")).graphs
    # `phast` compiles itself with one edge, so `shared` may still be asked for that.
    monkeypatch.setattr(hierarchy_stage, "neighbours_of", lambda *_: pytest.fail("it is made again"))
    again = listener()
    run(made(tmp_path, "again", solve={"solver": "phast"}), again)
    assert again.named("hierarchy") == []
    run(made(tmp_path, "other", solve={"solver": "dijkstra"}), Quiet())
    for one, two in zip(distances(tmp_path / "again"), distances(tmp_path / "other"), strict=True):
        np.testing.assert_array_equal(one, two)


def test_auto_makes_what_pays_and_a_later_plan_finds_it(tmp_path, pays):
    _, record = run(made(tmp_path), Quiet())
    assert record["solver"] == "phast"
    facts = describe_plan(made(tmp_path, "other"), 2, Quiet())
    assert (facts["solver"], facts["hierarchy"]["state"]) == ("phast", "stored")
    assert facts["hierarchy"]["arcs"] > 2400
    assert "phast" in facts["solve_s_per_source"]


def test_auto_makes_none_for_a_small_run_and_says_why(tmp_path, never_made, listener):
    progress = listener()
    _, record = run(made(tmp_path), progress)
    assert record["solver"] != "phast"
    assert "not phast: making a hierarchy does not pay for 40 sources" in record["solver_reason"]
    assert not Path(tmp_path, "graph", RECORD).exists()


def test_build_makes_one_that_does_not_pay_and_off_reads_none(tmp_path, monkeypatch):
    run(made(tmp_path, solve={"hierarchy": "build"}), Quiet())
    assert read_record(str(tmp_path / "graph")).graphs
    monkeypatch.setattr(hierarchy_stage, "read_record", lambda _: pytest.fail("the record is read"))
    _, record = run(made(tmp_path, "off", solve={"hierarchy": "off"}), Quiet())
    assert "; not phast: `solve.hierarchy` is off" in record["solver_reason"]


def test_in_memory_a_gpu_needs_no_weights_of_arcs_either(never_made):
    edges = grid(20, 20)
    graph = csr_from_edges(edges.src, edges.dst, edges.weights, edges.n_vertices)
    for _ in range(2):
        traits, reason = hierarchy_steps.make_in_memory(graph, lambda _: None, Quiet(), lambda _: True)
        assert reason is None
        known = traits.hierarchy
        assert (known.is_completed, known.is_customized) == (True, False)
        assert known.largest_front >= 19


@pytest.mark.medium
def test_a_resumed_run_counts_the_sources_that_are_left(tmp_path, monkeypatch):
    class Ending(Quiet):
        def advance(self, done, total, unit):
            if unit == "batches":
                raise MemoryError

    asked = []
    never = "it does not pay"
    monkeypatch.setattr(hierarchy, "why_not", lambda work, *_: asked.append(work.n_sources) or never)
    workflow = made(tmp_path, solve={"batch": 1})
    with pytest.raises(MemoryError):
        run(workflow, Ending())
    run(workflow, Quiet())
    assert asked[0] == 40
    assert 0 < asked[1] < 40


@pytest.mark.skipif(metis_processes.package() is None, reason="`pymetis` is not installed")
def test_a_failure_of_metis_does_not_end_a_run_that_did_not_ask_for_it(tmp_path, pays, monkeypatch, listener):
    monkeypatch.setattr(metis_processes.sys, "executable", "/bin/false")
    progress = listener()
    _, record = run(made(tmp_path), progress)
    assert record["solver"] != "phast"
    assert any(line.startswith("without a hierarchy: METIS does not start") for line in progress.lines)


@pytest.mark.medium
def test_damage_ends_a_run_with_an_error(tmp_path, pays):
    run(made(tmp_path), Quiet())
    record = Path(tmp_path, "graph", RECORD)
    part = Path(tmp_path, "graph", read_record(str(tmp_path / "graph")).parts[0].path)
    part.write_bytes(part.read_bytes()[:-1])
    with pytest.raises(InputError, match=f"`{part}` has [0-9]+ bytes, the manifest says [0-9]+"):
        run(made(tmp_path, "second"), Quiet())
    record.write_text("{")
    for work in (run, lambda workflow, progress: describe_plan(workflow, 0, progress)):
        with pytest.raises(InputError, match=f"`{record}` is damaged") as caught:
            work(made(tmp_path, "third"), Quiet())
        assert "solve.hierarchy: off" in caught.value.hint
    run(made(tmp_path, "fourth", solve={"hierarchy": "off"}), Quiet())
    shutil.rmtree(record.parent)
    _, done = run(made(tmp_path, "fifth"), Quiet())
    assert done["solver"] == "phast"


@pytest.mark.medium
def test_a_store_that_cannot_be_written_has_none_made_by_auto(tmp_path, pays, monkeypatch, listener):
    run(made(tmp_path, solve={"hierarchy": "off"}), Quiet())

    def refuse(url):
        if url == str(tmp_path / "graph"):
            raise InputError(f"`{url}` cannot be written", hint="choose another folder")

    monkeypatch.setattr(hierarchy_stage.files, "check_writable", refuse)
    progress = listener()
    run(made(tmp_path, "second"), progress)
    assert f"without a hierarchy: `{tmp_path / 'graph'}` cannot be written" in progress.lines
    progress = listener()
    _, record = run(made(tmp_path, "third", solve={"solver": "phast"}), progress)
    assert record["solver"] == "phast"
    assert any("each process makes the hierarchy for itself" in line for line in progress.lines)
    with pytest.raises(InputError, match="cannot be written"):
        run(made(tmp_path, "fourth", solve={"hierarchy": "build"}), Quiet())


@pytest.mark.medium
def test_workers_read_the_hierarchy_of_the_store(tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    monkeypatch.setenv("SSSP_GRAPH_CACHE", str(cache))
    cluster = {"workers": 2, "threads_per_worker": 1}
    solve = {"solver": "phast", "batch": 2}
    _, record = run(made(tmp_path, solve=solve, cluster=cluster, verify="certificate"), Quiet())
    assert record["verify"]["mode"] == "certificate"
    # Both workers map the same files: one entry of the completion, one of its weights, and one of the graph.
    (of_user,) = cache.iterdir()
    wanted = ["ranks", "up_weights", "weights"]
    assert sorted(file.name for file in of_user.glob("*/*") if file.name in wanted) == wanted


@pytest.mark.medium
def test_several_weights_share_the_order(tmp_path, monkeypatch):
    rng = np.random.default_rng(1)
    edges = [(v, v + 1) for v in range(900) if v % 30 != 29] + [(v, v + 30) for v in range(870)]
    lines = [f"{u},{v},{rng.integers(1, 9)},{rng.integers(1, 99)}" for u, v in edges]
    Path(tmp_path, "roads.csv").write_text("source,target,length,time\n" + "\n".join(lines) + "\n")
    ordered = []
    original = hierarchy_steps.ordered
    monkeypatch.setattr(hierarchy_steps, "ordered", lambda core, _: ordered.append(core) or original(core))
    several = {"weights": {"several": [{"name": "length"}, {"name": "time"}]}, "directed": False}
    workflow = made(
        tmp_path, graph={"input": str(tmp_path / "roads.csv"), **several}, solve={"solver": "phast"}
    )
    runs = run_each(workflow, Quiet())
    assert [record["solver"] for _, record in runs.values()] == ["phast", "phast"]
    assert len(ordered) == 1
    record = read_record(str(tmp_path / "graph"))
    assert (len(record.edges), len(record.graphs)) == (1, 2)


def test_python_takes_a_hierarchy_that_is_stored(tmp_path, pays):
    run(made(tmp_path), Quiet())
    store, sources = str(tmp_path / "graph"), list(range(40))
    found = sp.solve(store, sources)
    assert set(found.metrics["solver"].to_pylist()) == {"phast"}
    expected = sp.solve(store, sources, solver="dijkstra")
    np.testing.assert_array_equal(found.numpy(), expected.numpy())
    Path(store, RECORD).write_text("{")  # then `auto` uses none
    again = sp.solve(store, sources)
    assert "phast" not in again.metrics["solver"].to_pylist()


# ---- plan ----


def test_a_plan_shows_whether_a_hierarchy_is_made_and_why(tmp_path, never_made):
    for solve, why in (
        ({}, "making a hierarchy does not pay for 40 sources: expected to take "),
        ({"hierarchy": "off"}, "`solve.hierarchy` is off"),
        ({"solver": "dijkstra"}, "`dijkstra` uses no hierarchy"),
    ):
        facts = describe_plan(made(tmp_path, solve=solve), 0, Quiet())["hierarchy"]
        assert facts["state"] == "none"
        assert facts["why"].startswith(why)


def test_a_plan_counts_the_arcs_and_writes_nothing(tmp_path, monkeypatch, pays):
    monkeypatch.setattr(hierarchy_stage, "fill", lambda *_: pytest.fail("a hierarchy is made"))
    workflow = made(tmp_path)
    facts = describe_plan(workflow, 2, Quiet())
    assert facts["hierarchy"]["state"] == "would be made"
    assert facts["hierarchy"]["arcs"] > 2400
    assert facts["hierarchy"]["make_bytes"] > 10**8
    assert not read_record(workflow.store).edges
    assert "phast" not in facts["solve_s_per_source"]


# ---- ingest ----


def invoke(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, list(arguments))
    return done.exit_code, done.stdout, done.stderr


GRID = ("generated:grid?rows=30&cols=20", "--from", "0", "--out", "run", "--set", "graph.store=graph")


def test_ingest_makes_a_hierarchy_if_it_is_told_to(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert invoke("ingest", *GRID)[0] == 0
    assert not Path(RECORD).exists()
    code, out, err = invoke("ingest", *GRID, "--hierarchy")
    assert (code, out) == (0, "graph\n")
    assert "hierarchy: " in err
    assert " arcs, " in err
    monkeypatch.setattr(hierarchies.HierarchyWriter, "__init__", None)
    assert invoke("ingest", *GRID, "--hierarchy")[0] == 0
    code, out, _ = invoke("inspect", "graph", "--json")
    assert code == 0
    assert json.loads(out)["hierarchy"]["state"] == "stored"


# ---- refusals ----


def refusal(*arguments: str) -> tuple[str, str]:
    code, _, err = invoke(*arguments)
    assert code == 2, err
    message, _, hint = err.strip().partition("\n\nhint: ")
    return message.rpartition("error: ")[2], hint


@pytest.mark.parametrize(
    ("settings", "message", "hint"),
    [
        (("solve.solver=phast", "solve.hierarchy=off"),
         "`solve.hierarchy` is `off`, and solver `phast` needs a hierarchy", "remove one of them"),
        (("solve.solver=dijkstra", "solve.hierarchy=build"),
         "`solve.hierarchy` is `build`, and solver `dijkstra` uses no hierarchy",
         "name a solver that does (phast-gpu, phast), or set `solve.hierarchy: off`"),
        (("graph.weights.dtype=float32", "solve.hierarchy=build"),
         "`solve.hierarchy` is `build`, and no solver can use a hierarchy: it adds weights in another order than "
         "along the path, which rounds float32 differently; `delta-stepping` takes floats, and "
         "`graph.weights.scale` makes integers of decimal weights", "set `solve.hierarchy: auto`"),
    ],
)  # fmt: skip
def test_contradictions_are_refused_before_the_graph_is_read(tmp_path, monkeypatch, settings, message, hint):
    monkeypatch.chdir(tmp_path)
    given = [word for setting in settings for word in ("--set", setting)]
    assert refusal("run", *GRID, *given) == (message, hint)
    assert not list(tmp_path.iterdir())


@pytest.mark.medium
def test_without_pymetis_auto_makes_one_too_and_stores_it(tmp_path, pays, monkeypatch):
    with monkeypatch.context() as without:
        without.setattr(metis_processes, "package", lambda: None)
        without.setattr(metis_processes, "Metis", lambda: pytest.fail("METIS is started"))
        _, record = run(made(tmp_path), Quiet())
    assert record["solver"] == "phast"
    # A machine with METIS reads what was ordered without it.
    monkeypatch.setattr(hierarchy_stage, "neighbours_of", lambda *_: pytest.fail("it is made again"))
    run(made(tmp_path, "again", solve={"solver": "phast"}), Quiet())
    run(made(tmp_path, "other", solve={"solver": "dijkstra"}), Quiet())
    for folder in ("run", "again"):
        for one, two in zip(distances(tmp_path / folder), distances(tmp_path / "other"), strict=True):
            np.testing.assert_array_equal(one, two)


def test_ingest_with_a_hierarchy_that_is_off_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert refusal("ingest", *GRID, "--hierarchy", "--set", "solve.hierarchy=off") == (
        "`solve.hierarchy` is `off`, and `--hierarchy` makes one",
        "remove one of them",
    )


def test_floats_that_are_found_by_ingest_have_no_hierarchy(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("roads.csv").write_text("source,target,length\na,b,1.5\nb,c,2.25\n")
    settings = ("--set", "graph.store=graph", "--set", "graph.weights.scale=null")
    edges = ("roads.csv", "--from", "a", "--out", "run", *settings)
    message, hint = refusal("ingest", *edges, "--hierarchy")
    assert message.startswith("no hierarchy of this graph can be made: it adds weights in another order")
    assert hint.startswith("set `solve.hierarchy: auto` and `solve.solver: auto`; with `ingest`, leave out")
    assert Path("graph/manifest.json").exists()
    assert not Path("graph/hierarchy").exists()
    assert invoke("run", *edges)[0] == 0
