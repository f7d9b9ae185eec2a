"""What those who operate runs rely on: logs for programs, metrics for Prometheus, `inspect` of unfinished runs."""

import fcntl
import importlib.util
import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
import warnings
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from distributed import LocalCluster
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.cli import app
from sssp_pipeline.commands.console import JsonConsole, console
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.pipeline.run import inspect
from sssp_pipeline.pipeline.run.inspect import describe
from sssp_pipeline.pipeline.solving import worker_metrics
from sssp_pipeline.pipeline.solving.solve_task import SolveTask, solve_task
from sssp_pipeline.pipeline.solving.task import TaskDone
from sssp_pipeline.storage.lease import exclusive, is_held

WORKFLOW = """\
graph: {input: "generated:grid?rows=30&cols=30&keep=0.8&seed=3", store: graph}
sources: {random: {count: 10}}
solve: {batch: 4}
output: {path: run}
"""
#: 200 batches that take some seconds.
SLOW = WORKFLOW.replace("rows=30&cols=30", "rows=200&cols=200").replace("10", "799")
GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "operations.md"
COMMAND = [sys.executable, "-m", "sssp_pipeline.cli"]


@pytest.fixture
def at(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("w.yaml").write_text(WORKFLOW)
    return tmp_path


def invoke(*arguments: str, env: dict[str, str] | None = None):
    return CliRunner().invoke(app, list(arguments), env=env)


def entries(text: str) -> list[dict]:
    """Return the log as objects; each line is one."""
    return [json.loads(line) for line in text.splitlines()]


def test_the_log_of_a_run_is_an_object_a_line(at):
    result = invoke("run", "w.yaml", "--log-format", "json")
    assert result.exit_code == 0
    assert result.stdout.startswith("results: run\n")
    log = entries(result.stderr)
    for entry in log:
        assert list(entry)[:3] == ["time", "level", "event"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", entry["time"])
        assert (entry["level"], entry["run"], entry["name"]) == ("info", "run", "w")
    stages = [entry["stage"] for entry in log if entry["event"] == "stage"]
    assert stages == ["read edges", "build rows", "write graph store", "plan", "solve", "verify"]
    solved = sorted((e for e in log if e["event"] == "solved"), key=lambda e: e["batches"])
    assert [entry["batches"] for entry in solved] == [[0], [1], [2]]
    assert [entry["sources"] for entry in solved] == [4, 4, 2]
    assert {entry["stage"] for entry in solved} == {"solve"}
    assert {entry["done"] for entry in solved} == {1, 2, 3}
    assert {entry["worker"] for entry in solved} == set(
        pq.read_table("run/metrics.parquet")["worker"].to_pylist()
    )
    assert all(e["solve_s"] > 0 and e["write_s"] > 0 and e["bytes"] > 0 and e["attempt"] == 1 for e in solved)
    for event in ("graph", "solver", "solver_reason", "workers", "started", "all_solved", "verified"):
        (entry,) = (e for e in log if e["event"] == event)
        assert entry["message"]
    (started,) = (e for e in log if e["event"] == "started")
    steps = ("imports", "ingest", "plan", "workers", "first_batch")
    assert [key for key in started if key.endswith("_s")] == [f"{step}_s" for step in steps]
    assert log.index(started) < log.index(solved[0])
    seconds = ", ".join(rf"\d\.\d\d s {step}" for step in (*steps[:-1], "first batch"))
    assert re.fullmatch(f"start-up: {seconds}", started["message"])
    assert (log[-1]["event"], log[-1]["exit_code"]) == ("succeeded", 0)


def test_the_environment_chooses_the_format_and_errors_have_it_too(at):
    result = invoke("run", "nowhere.yaml", env={"SSSP_LOG_FORMAT": "json"})
    (entry,) = entries(result.stderr)
    assert result.exit_code == entry["exit_code"] == 2
    assert (entry["level"], entry["event"]) == ("error", "failed")
    assert entry["message"] == "`nowhere.yaml` does not exist"
    assert entry["hint"].startswith("check the path; ")
    assert invoke("run", "w.yaml", env={"SSSP_LOG_FORMAT": "xml"}).exit_code == 2


def test_no_password_comes_into_the_log(at):
    place = "output.path=ftp://me:geheim@127.0.0.1:9/run"
    result = invoke("run", "w.yaml", "--set", place, "--log-format", "json")
    assert result.exit_code == 1
    assert entries(result.stderr)[-1]["run"] == "ftp://127.0.0.1:9/run"
    assert "geheim" not in result.stderr


def test_a_defect_is_an_object_with_its_traceback(at, monkeypatch):
    def broken(*_, **__):
        raise ValueError("no such thing")

    monkeypatch.setattr(inspect, "describe", broken)
    result = invoke("inspect", "run", "--log-format", "json")
    (entry,) = entries(result.stderr)
    assert (result.exit_code, entry["event"], entry["exit_code"]) == (1, "crashed", 1)
    assert entry["message"] == "ValueError: no such thing"
    assert "in broken" in entry["traceback"]
    assert isinstance(invoke("inspect", "run").exception, ValueError)  # of which Python shows the traceback


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("can't start new thread"),
        ImportError("libz.so: failed to map segment from shared object"),
        OSError(12, "Cannot allocate memory"),
    ],
)
def test_a_system_without_more_memory_is_no_defect(at, monkeypatch, error):
    def broken(*_, **__):
        raise error

    monkeypatch.setattr(inspect, "describe", broken)
    result = invoke("inspect", "run")
    assert result.exit_code == 1
    assert f"error: the system gives no more memory or threads: {error}" in result.stderr
    assert "Traceback" not in result.stderr


def test_what_libraries_log_and_warn_of_is_an_object(capsys):
    with console("json") as told, warnings.catch_warnings():
        warnings.simplefilter("always")
        assert isinstance(told, JsonConsole)
        logging.getLogger("some.library").warning("held by %s", "another")
        logging.getLogger("some.library").info("of no interest")
        warnings.warn("old", stacklevel=1)
    logging.getLogger("some.library").warning("afterwards")
    first, second = entries(capsys.readouterr().err)
    assert (first["logger"], first["level"]) == ("some.library", "warning")
    assert first["message"] == "held by another"
    assert "old" in second["message"]


def test_progress_for_programs(capsys):
    clock = iter([0.0, 0.0, 0.0, 0.0, 12.0, 15.0])
    told = JsonConsole(sys.stderr, clock=lambda: next(clock))
    told.about(run="s3://b/run")
    told.stage("solve")
    for done in (100, 160, 190):
        told.advance(done, 1000, "batches")
    stage, progress = entries(capsys.readouterr().err)
    assert (stage["event"], stage["stage"]) == ("stage", "solve")
    expected = {"event": "progress", "run": "s3://b/run", "stage": "solve", "done": 160, "total": 1000}
    assert progress.items() >= {**expected, "unit": "batches", "per_s": 5.0, "left_s": 168.0}.items()


@pytest.mark.medium
def test_inspect_of_a_run_that_goes_on_then_of_a_dead_one_then_interrupted(at, wait_until):
    Path("w.yaml").write_text(SLOW)
    assert invoke("ingest", "w.yaml").exit_code == 0
    run = [*COMMAND, "run", "w.yaml", "--log-format", "json"]
    with Path("log").open("w") as log:
        process = subprocess.Popen([*run, "--set", "cluster.workers=1"], stderr=log)
    try:
        wait_until(lambda: list(Path().glob("run/distances/batch-0000*")))
        going = wait_until(lambda: (facts := describe("run"))["batches_left"] is not None and facts)
        going = wait_until(lambda: (facts := describe("run"))["batches_committed"] > 1 and facts)
        with urllib.request.urlopen(going["dashboard"].replace("/status", "/health"), timeout=10) as answer:
            assert answer.read() == b"ok"
    finally:
        process.kill()
        process.wait()
    assert (going["kind"], going["driver"]) == ("unfinished run", "alive")
    assert going["driver_process"].endswith(f":{process.pid}")
    (told,) = (e for e in entries(Path("log").read_text()) if e["event"] == "workers")
    expected = {"workers": 1, "scheduler": going["scheduler"], "dashboard": going["dashboard"]}
    assert told.items() >= expected.items()
    assert going["next"] == "nothing: it goes on"
    assert going["batches"] == going["batches_committed"] + going["batches_left"] == 200
    assert going["left_s"] == pytest.approx(going["batches_left"] / going["batches_per_s"])
    assert 0 <= going["last_commit_s_ago"] < 60

    dead = json.loads(invoke("inspect", "run", "--json").stdout)
    assert (dead["driver"], dead["scheduler"], dead["dashboard"]) == ("none", None, None)
    assert dead["next"] == "the same `sssp-pipeline run` command goes on where it stopped"
    committed = {int(p.stem[6:]) for p in Path("run/_run").glob("batch-*.commit")}
    assert dead["batches_committed"] == len(committed) >= going["batches_committed"]
    # The last batch has three sources, all others four.
    assert dead["sources_left"] == 799 - 4 * len(committed) + (199 in committed)
    newest = max(p.stat().st_mtime for p in Path("run/_run").glob("batch-*.commit"))
    last = datetime.fromisoformat(dead["last_commit"]).timestamp()
    assert last == pytest.approx(newest, abs=0.002)
    took = last - datetime.fromisoformat(dead["began"]).timestamp()
    assert dead["batches_per_s"] == pytest.approx(len(committed) / took, rel=0.01)
    assert "batches_left" in invoke("inspect", "run").stdout

    # It goes on; what an earlier start had done says nothing of this one's rate.
    process = subprocess.Popen(run, stderr=subprocess.PIPE, text=True)
    again = wait_until(lambda: (f := describe("run"))["driver"] == "alive" and f["batches_before"] and f)
    assert again["batches_before"] == len(committed)
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=60)
    last = entries(log)[-1]
    assert process.returncode == last["exit_code"] == 130
    assert (last["event"], last["level"]) == ("interrupted", "warning")
    assert last["hint"] == "to go on, run the same command again"
    assert describe("run")["driver"] == "none"


def test_a_run_that_nobody_has_begun_to_solve_has_no_rate(at):
    RunFolder("run").begin({"graph": "a"})
    facts = describe("run")
    assert (facts["batches_committed"], facts["batches_left"], facts["left_s"]) == (0, None, None)


def test_a_look_keeps_nobody_from_a_folder(at):
    Path("run").mkdir()
    Path("run/file").touch()
    assert is_held("run") is False
    with exclusive("run"):
        assert is_held("run") is True
        with pytest.raises(InputError, match="another process is writing to `run`"), exclusive("run"):
            pass
    look = os.open("run", os.O_RDONLY)
    fcntl.flock(look, fcntl.LOCK_SH)
    threading.Timer(0.01, os.close, [look]).start()
    with exclusive("run"):
        assert is_held("run") is True
    assert is_held("nowhere") is None
    assert is_held("memory://run") is None


@pytest.mark.medium
def test_a_worker_counts_for_prometheus_what_it_does(at):
    """On a scheduler that runs already; where a worker answers is asked as the guide says."""
    with LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL
    ) as cluster:
        address = f"cluster={{kind: address, address: '{cluster.scheduler_address}'}}"
        assert invoke("run", "w.yaml", "--set", address, "--set", "solve.solver=dijkstra").exit_code == 0
        with cluster.get_client() as client:
            batch = 0, np.zeros(1, np.uint32)
            given = "nowhere", "id", "run", {}, (batch,), "dijkstra", SolveOptions(), None
            lost = SolveTask(*given, attempt=2)
            assert isinstance(client.submit(solve_task, lost).exception(), InputError)
        targets = re.search(r"```python\n(# targets.py\n.*?)```", GUIDE.read_text(), re.DOTALL)[1]
        asked = [sys.executable, "-c", targets, cluster.scheduler_address]
        ((worker,),) = (e["targets"] for e in json.loads(subprocess.check_output(asked, timeout=60)))
        with urllib.request.urlopen(f"http://{worker}/metrics", timeout=10) as answer:
            text = answer.read().decode()
    found = {
        (sample.name, sample.labels.get("solver")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    counted = {name.removeprefix("sssp_"): value for (name, _), value in found.items()}
    assert found["sssp_sources_solved_total", "dijkstra"] == 10
    assert counted["batches_committed_total"] == 3
    assert (counted["task_attempts_total"], counted["task_retries_total"]) == (4, 1)
    assert counted["tasks_failed_total"] == 1
    metrics = pq.read_table("run/metrics.parquet")
    took = sum(metrics["solve_s"].to_pylist())
    assert found["sssp_solve_seconds_total", "dijkstra"] == pytest.approx(took)
    distances = sum(p.stat().st_size for p in Path("run/distances").iterdir())
    assert distances < counted["written_bytes_total"] < distances + 3 * 20_000
    assert counted["write_seconds_total"] > 0
    assert counted["load_seconds_total"] > 0
    assert ("dask_worker_threads", None) in found


def test_nothing_is_counted_where_prometheus_is_not_installed(monkeypatch):
    registry = pytest.importorskip("prometheus_client").REGISTRY
    importlib.import_module("distributed")  # only Dask workers count

    def counts():
        samples = [sample for family in registry.collect() for sample in family.samples]
        return [sample for sample in samples if sample.name.startswith("sssp_")]

    before = counts()
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    spec = importlib.util.spec_from_file_location("without", worker_metrics.__file__)
    without = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(without)
    done = TaskDone("dijkstra", (0,), "worker", 1, 0.0, 1.0, 0.5, n_sources=4, source_s=0.25, n_bytes=9)
    with pytest.raises(RuntimeError, match="it fails"), without.counted(2):
        without.add(done)
        raise RuntimeError("it fails")
    assert counts() == before
