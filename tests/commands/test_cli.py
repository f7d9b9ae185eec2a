"""The command line as a user meets it."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from sssp_pipeline import __version__, cli
from sssp_pipeline.base.progress import in_bytes, plural
from sssp_pipeline.cli import BENCH_COMMANDS, COMMANDS, app
from sssp_pipeline.commands.console import TextConsole, console, duration
from sssp_pipeline.commands.tables import columns, table
from sssp_pipeline.pipeline.planning import machine
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.workflow.yaml_file import load_workflow

WORKFLOW = """\
graph: {input: "generated:grid?rows=30&cols=30&keep=0.8&seed=3", store: graph}
sources: {random: {count: 10}}
output: {path: run}
"""
COMMAND = [sys.executable, "-m", "sssp_pipeline.cli"]


def invoke(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture
def at(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("w.yaml").write_text(WORKFLOW)
    return tmp_path


def test_run_then_look_at_everything(at):
    result = invoke("run", "w.yaml")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == (
        "results: run\n"
        "query: duckdb -c \"SELECT source, avg(distance) FROM 'run/distances/*.parquet' "
        'GROUP BY source ORDER BY source"\n'
    )
    # Where numba has compiled nothing yet, it says so, and a slow machine tells of a long stage.
    told = [
        line for line in result.stderr.splitlines() if re.search("graph: |solver: |solved|verified", line)
    ]
    assert re.fullmatch(r"graph: 900 vertices, [0-9,]+ edges, uint32 weights in graph", told[0])
    assert re.fullmatch(r"solver: delta-stepping \(`sssp-pipeline plan` compares \d+\)", told[1])
    assert told[2:] == [
        "solved 10 sources x 900 vertices with 1 thread",
        "verified 8 sources (sample): every distance is exact",
    ]

    facts = json.loads(invoke("inspect", "graph", "--json").stdout)
    assert (facts["kind"], facts["n_vertices"]) == ("graph store", 900)
    facts = json.loads(invoke("inspect", "run", "--json").stdout)
    assert (facts["kind"], facts["sources"], facts["verify"]["refuted"]) == ("run", 10, None)
    assert "graph.n_vertices" in invoke("inspect", "run").stdout

    verdict = json.loads(invoke("verify", "run", "--certificate", "--json").stdout)
    assert (verdict["mode"], verdict["checked_sources"], verdict["refuted"]) == ("certificate", 10, None)
    assert invoke("verify", "run").stdout == "every checked distance is exact\n"

    facts = json.loads(invoke("plan", "w.yaml", "--json").stdout)
    assert (facts["sources"], facts["solver"]) == (10, "delta-stepping")
    assert "solve_core_s" in invoke("plan", "w.yaml").stdout


def test_stage_by_stage(at):
    assert invoke("solve", "w.yaml").exit_code == 2  # nothing is ingested yet
    assert invoke("ingest", "w.yaml").stdout == "graph\n"
    assert json.loads(invoke("ingest", "w.yaml", "--json").stdout)["n_vertices"] == 900
    record = json.loads(invoke("solve", "w.yaml", "--json").stdout)
    assert record["verify"] is None
    assert not Path("run/report.html").exists()
    assert invoke("verify", "run").exit_code == 0


def test_a_refuted_distance_ends_with_3(at, recorded_anew):
    invoke("run", "w.yaml")
    (batch,) = Path("run/distances").iterdir()
    rows = pq.read_table(batch)
    values = rows.to_pylist()
    values[5]["distance"] = 1
    pq.write_table(rows.from_pylist(values, rows.schema), batch)
    recorded_anew(RunFolder("run"))
    result = invoke("verify", "run", "--json")
    assert result.exit_code == 3
    expected = (
        r"error: source `\d+`, vertex `5`: stored distance 1, true distance \d+\n\n"
        r"hint: `sssp-pipeline run WORKFLOW --overwrite` solves it anew"
    )
    assert re.search(expected, result.stderr)
    answer = json.loads(result.stdout)
    assert answer["exit_code"] == 3
    assert result.stderr.startswith(f"error: {answer['error']}\n\nhint: {answer['hint']}")


def test_solvers_are_listed():
    rows = json.loads(invoke("solvers", "--json").stdout)
    assert {"delta-stepping", "dijkstra"} <= {row["name"] for row in rows}
    assert len(invoke("solvers").stdout.splitlines()) == len(rows)


def test_doctor_tells_what_is_there():
    result = invoke("doctor", "--json")
    checks = {check["name"]: check for check in json.loads(result.stdout)}
    names = {"python", "packages", "numba", "gpu", "cupy", "nvrtc", "kernels", "storage", "temporary"}
    assert checks.keys() == names
    assert result.exit_code == (1 if any(c["state"] == "broken" for c in checks.values()) else 0)
    assert "numba" in invoke("doctor").stdout


def test_init_writes_a_workflow_that_loads(at):
    assert invoke("init", "mine.yaml").exit_code == 0
    assert load_workflow("mine.yaml").sources.random.count == 64
    result = invoke("init", "mine.yaml")
    assert result.exit_code == 2
    assert result.stderr == "error: `mine.yaml` exists already\n\nhint: name another file\n"
    assert invoke("init", "no/such/folder.yaml").exit_code == 2


def test_version_and_help_are_quick_to_find():
    assert invoke("--version").stdout == invoke("-V").stdout == f"{__version__}\n"
    assert "run" in invoke("--help").stdout
    assert invoke("nonsense").exit_code == 2


SLOW = WORKFLOW.replace("rows=30&cols=30", "rows=200&cols=200")
FIRST_FINISHED = "the batches under way are finished first; Ctrl-C again ends at once\n"
GO_ON = "interrupted; what is committed is kept. To go on:\n\n    sssp-pipeline run w.yaml"


def interrupted_by(sign: signal.Signals, workers: str, *marks: pytest.MarkDecorator) -> object:
    return pytest.param(sign, workers, marks=marks, id=f"{sign.name}-{workers}")


@pytest.mark.medium
@pytest.mark.parametrize(
    ("sign", "workers"),
    [
        interrupted_by(signal.SIGINT, "auto"),
        interrupted_by(signal.SIGTERM, "1"),
        interrupted_by(signal.SIGTERM, "auto", pytest.mark.slow),
        interrupted_by(signal.SIGINT, "1", pytest.mark.slow),
    ],
)
def test_an_interrupted_run_says_how_to_go_on_and_does(at, sign, workers, wait_until):
    Path("w.yaml").write_text(SLOW.replace("10", "400"))
    options = ["--set", "solve.batch=2", "--set", f"cluster.workers={workers}"]
    command = [*COMMAND, "run", "w.yaml", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    wait_until(lambda: list(Path().glob("run/distances/batch-*")))
    # A terminal sends Ctrl-C to the whole process group, workers included.
    os.killpg(process.pid, sign) if sign == signal.SIGINT else process.send_signal(sign)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert (FIRST_FINISHED in told) == (workers == "auto")
    assert told.endswith(f"{GO_ON} {' '.join(options)}\n")
    assert "Traceback" not in told
    files = {p.name for p in Path("run/distances").iterdir()}
    done = {name for name in files if name.startswith("batch-")}
    assert 0 < len(done) < 200
    assert workers != "auto" or files == done, "threads of this process finish what they write"
    again = invoke("run", "w.yaml", "--set", "solve.batch=2")
    assert again.exit_code == 0
    assert "batches are committed already" in again.stderr
    assert len(list(Path("run/distances").iterdir())) == 200


@pytest.mark.medium
def test_a_second_interrupt_does_not_wait_for_the_batches_under_way(at, wait_until):
    Path("w.yaml").write_text(SLOW.replace("count: 10", "count: 4000"))
    invoke("ingest", "w.yaml")
    command = [*COMMAND, "run", "w.yaml", "-v", "--set", "solve={batch: 2000, solver: dijkstra}"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: list(Path().glob("run/_run/started.json")))
    busy = psutil.Process(process.pid)
    begun_s = busy.cpu_times().user
    wait_until(lambda: busy.cpu_times().user > begun_s + 0.2)  # a batch is under way
    process.send_signal(signal.SIGINT)
    assert any(FIRST_FINISHED in line for line in process.stderr)
    main_thread = Path(f"/proc/{process.pid}/task/{process.pid}/stat")
    wait_until(lambda: all(") S " in main_thread.read_text() for _ in range(100)))  # it waits for the batches
    assert process.poll() is None, "a batch takes longer than that"
    process.send_signal(signal.SIGINT)
    pressed = time.monotonic()
    _, told = process.communicate(timeout=60)
    assert time.monotonic() - pressed < 2
    assert process.returncode == 130
    assert f"{GO_ON} -v --set " in told
    assert "Traceback" not in told
    assert not list(Path().glob("run/distances/batch-*"))


def on_a_terminal(command: list[str]) -> tuple[int, bytes]:
    """Return the exit code of `command`, and what it writes to a terminal that is its standard error."""
    main, terminal = pty.openpty()
    process = subprocess.Popen(command, stderr=terminal, stdout=subprocess.DEVNULL)
    os.close(terminal)
    written = b""
    with suppress(OSError):  # the terminal's other end is closed
        while read := os.read(main, 65536):
            written += read
    os.close(main)
    return process.wait(), written


@pytest.mark.medium
def test_a_terminal_gets_a_moving_line_that_is_gone_in_the_end(at, screen):
    code, written = on_a_terminal([*COMMAND, "run", "w.yaml"])
    assert code == 0
    assert "solve" in written.decode()
    assert not [line for line in screen(written.decode()) if line.startswith(("⠋", "⠙", "⠹", "⠸", "⠼", "⠴"))]


def test_other_lines_stand_above_the_moving_line(screen):
    program = """
import sys
from sssp_pipeline.commands.console import console
with console("text") as shown:
    shown.stage("solve")
    for done in (100, 400, 700):
        shown.advance(done, 1000, "batches")
        shown.say(f"after {done} batches [no markup]")
    print("from a library", file=sys.stderr)
    shown.advance(900, 1000, "batches")
"""
    code, written = on_a_terminal([sys.executable, "-c", program])
    assert code == 0
    assert "solve: 900 of 1,000 batches" in written.decode()
    lines = [f"after {done} batches [no markup]" for done in (100, 400, 700)]
    assert [line for line in screen(written.decode()) if line] == [*lines, "from a library"]


class Recorder(list):
    """A stream that is no terminal."""

    def write(self, text: str) -> None:
        self.append(text)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return False


def test_progress_tells_rate_and_time_left():
    times = iter([0.0, 0.0, 0.0, 12.0, 30.0])
    stream = Recorder()
    shown = TextConsole(stream, clock=lambda: next(times))
    shown.stage("solve")
    shown.advance(100, 1000, "batches")  # an earlier run's work says nothing about the rate
    shown.advance(160, 1000, "batches")
    shown.advance(1000, 1000, "batches")
    assert stream == [
        "solve: 160 of 1,000 batches, 5/s, 2m 48s left\n",
        "solve: 1,000 of 1,000 batches, 30/s\n",
    ]


@pytest.mark.medium
def test_a_stage_gets_a_line_only_if_it_takes_long(monkeypatch, wait_until):
    monkeypatch.setattr("sssp_pipeline.commands.console.LONG_STAGE_S", 0.2)
    stream = Recorder()
    with console("text", stream) as shown:
        shown.stage("short")
        shown.advance(1, 1, "batches")
        shown.stage("long")
        wait_until(lambda: stream)
        shown.stage("short too")
    wait_until(lambda: not any(isinstance(thread, threading.Timer) for thread in threading.enumerate()))
    assert stream == ["long\n"]


def test_quiet_shows_errors_and_verbose_shows_details():
    shown = {}
    for loudness in ("quiet", "normal", "verbose"):
        for form in ("text", "json"):
            stream = Recorder()
            with console(form, stream, loudness) as told:
                told.say("a detail", level="detail")
                told.say("a line")
                told.say("a warning", level="warning")
                told.say("an error", level="error")
                told.failed("it failed", None, 2)
            shown[loudness, form] = "".join(stream)
    assert shown["quiet", "text"] == "an error\nerror: it failed\n"
    assert shown["normal", "text"] == "a line\na warning\nan error\nerror: it failed\n"
    assert shown["verbose", "text"] == "a detail\n" + shown["normal", "text"]
    events = [json.loads(line)["level"] for line in shown["normal", "json"].splitlines()]
    assert events == ["info", "info", "warning", "error", "error"]
    assert len(shown["quiet", "json"].splitlines()) == 2


def test_columns_begin_at_the_same_place():
    rows = [("ok", "parallel-delta-stepping", "one"), ("absent", "x", "two\nhint: three")]
    assert columns(rows) == (
        "ok      parallel-delta-stepping  one\n"
        "absent  x                        two\n"
        "                                 hint: three"
    )
    begins = {line.index(line.split(maxsplit=2)[2]) for line in invoke("solvers").stdout.splitlines()}
    assert len(begins) == 1


def test_doctor_warns_of_a_python_whose_workers_may_stand_still(monkeypatch):
    releases = ((3, 11, 0), (3, 11, 8), (3, 11, 9), (3, 12, 0), (3, 12, 2), (3, 12, 3), (3, 13, 0))
    deadlocks = [release for release in releases if machine.profiler_may_deadlock(release)]
    assert deadlocks == [(3, 11, 0), (3, 11, 8), (3, 12, 0), (3, 12, 2)]
    for locks, state in ((True, "warning"), (False, "ok")):
        monkeypatch.setattr(machine, "profiler_may_deadlock", lambda locks=locks: locks)
        checks = {check["name"]: check for check in json.loads(invoke("doctor", "--json").stdout)}
        assert checks["python"]["state"] == state
        assert ("PROFILE__ENABLED=False" in (checks["python"]["hint"] or "")) == locks


@pytest.mark.medium
def test_every_command_has_an_example():
    of_bench = [["bench"], *(["bench", command.__name__] for command, _ in BENCH_COMMANDS)]
    for words in ([], *([command.__name__] for command, _ in COMMANDS), *of_bench):
        shown = " ".join(invoke(*words, "--help").stdout.split())
        assert f"Example: sssp-pipeline {' '.join(words)}".strip() in shown, words


@pytest.mark.medium
def test_a_failure_is_an_object_where_json_is_asked_for(at):
    for command in ("run", "solve", "ingest", "plan", "verify", "inspect"):
        result = invoke(command, "nowhere.yaml", "--json")
        answer = json.loads(result.stdout)
        assert answer.keys() == {"error", "hint", "exit_code"}
        assert answer["exit_code"] == result.exit_code == 2
        assert answer["error"] in result.stderr, "people read it there"


@pytest.mark.medium
@pytest.mark.parametrize(
    "words",
    [
        "path r --from 1 --to 5 --to=6",
        "run e.txt --from 1 --out 5 --out 6",
        "verify r --store 5 --store 6",
        "bench report l --output 5 --output 6",
    ],
)
def test_an_option_of_one_value_that_is_given_twice_is_refused(words):
    result = invoke(*words.split())
    assert result.exit_code == 2
    option = words.split()[-2]
    option = "--to" if option == "5" else option
    assert f"`{option} 5` and `{option} 6`: only one `{option}` is allowed" in re.sub(
        "[ │\n]+", " ", result.stderr
    )


def test_a_misspelled_command_is_answered_with_the_nearest_one():
    result = invoke("veryfy", "run")
    assert (result.exit_code, "Did you mean 'verify'?" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    "words",
    [*([command.__name__, "--help"] for command, _ in COMMANDS), [], ["-V"], ["rum"], ["bench", "run"]],
    ids=" ".join,
)
def test_a_process_prepares_the_command_that_was_typed(monkeypatch, words):
    every = typer.main.get_command(app).commands
    for name in ("registered_commands", "registered_groups"):
        monkeypatch.setattr(app, name, getattr(app, name))
    cli._keep_only(words)
    kept = typer.main.get_command(app).commands
    assert kept.keys() == ({words[0]} if words[1:] == ["--help"] else every.keys())
    help_of = {name: kept[name].get_help(typer.Context(kept[name])) for name in kept}
    assert help_of == {name: every[name].get_help(typer.Context(every[name])) for name in kept}


def test_quiet_leaves_the_answer_out_and_json_keeps_it(at):
    result = invoke("run", "w.yaml", "-q")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    assert invoke("verify", "run", "-q").stdout == ""
    assert json.loads(invoke("run", "w.yaml", "-q", "--json").stdout)["sources"] == 10
    result = invoke("run", "w.yaml", "-q", "-v")
    assert result.exit_code == 2
    assert "contradict each other" in result.stderr


def test_verbose_compares_the_solvers(at):
    assert "expected to take" not in invoke("run", "w.yaml").stderr
    result = invoke("run", "w.yaml", "-v", "--set", "output.path=again")
    assert "delta-stepping: expected to take" in result.stderr
    assert "solving with 1 thread of this process" in result.stderr


@pytest.mark.medium
def test_worker_processes_need_no_dashboard(at, monkeypatch):
    monkeypatch.setitem(sys.modules, "bokeh", None)
    result = invoke("run", "w.yaml", "--set", "cluster.workers=1")
    assert result.exit_code == 0
    assert "cluster: 1 worker, 1 thread, no dashboard without the extra `dashboard`\n" in result.stderr


def test_plan_ingests_what_is_not_ingested(at):
    result = invoke("plan", "w.yaml", "--json")
    assert json.loads(result.stdout)["n_vertices"] == 900
    assert Path("graph/manifest.json").exists()
    assert not Path("run").exists()


def test_small_words():
    spoken = " ".join(duration(s).replace(" ", "_") for s in (4.4, 59.7, 61, 7199, 7200))
    assert spoken == "4s 1m_00s 1m_01s 1h_59m 2h_00m"
    assert (plural(1, "source"), plural(2000, "source")) == ("1 source", "2,000 sources")
    assert (plural(1, "batch"), plural(2, "batch")) == ("1 batch", "2 batches")
    assert (plural(1, "vertex"), plural(0, "vertex")) == ("1 vertex", "0 vertices")
    assert (in_bytes(400_000), in_bytes(999e6)) == ("0.4 MB", "999.0 MB")
    assert (in_bytes(1e9), in_bytes(1.2e12)) == ("1.0 GB", "1,200.0 GB")
    assert table({"a": True, "bb": {"c": None, "d": 1234567, "e": 0.25}}) == (
        "a     yes\nbb.c  -\nbb.d  1,234,567\nbb.e  0.25"
    )
