"""Exit codes where the surroundings are odd: streams that are closed or full, a locale without UTF-8, long paths."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sssp_pipeline.cli import app

pytestmark = pytest.mark.medium

PYTHON = f"{sys.executable} -m sssp_pipeline.cli"
RUN = "run edges.txt --from 0 --out results"
LONG = "x" * 300


@pytest.fixture
def at(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("edges.txt").write_text("0 1 5\n1 2 6\n2 0 1\n")
    return tmp_path


def shell(words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Call the command with `words`, in which bash finds redirections."""
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{PYTHON} {words}"],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "Traceback" not in done.stderr + done.stdout
    assert "Exception ignored" not in done.stderr
    return done


@pytest.mark.parametrize(
    ("redirection", "exit_code"),
    [
        ("<&- >&- 2>&-", 0),
        ("2>/dev/full", 0),
        (">/dev/full", 1),
        *(
            pytest.param(redirection, exit_code, marks=pytest.mark.slow)
            for redirection, exit_code in {
                "2>&-": 0,
                ">&-": 0,
                ">&- 2>&-": 0,
                ">/dev/full 2>/dev/full": 1,
            }.items()
        ),
    ],
)
def test_a_run_does_its_work_whatever_its_streams_are(at, redirection, exit_code):
    done = shell(f"{RUN} {redirection}")
    assert done.returncode == exit_code
    assert Path("results/run.json").exists()
    if redirection == ">/dev/full":
        assert done.stderr.endswith(
            "error: standard output cannot be written: No space left on device\n\n"
            "hint: send standard output elsewhere, and run the same command again\n"
        )
    # A file that was opened while a stream was closed must not hold what belongs into the stream.
    json.loads(Path("results/run.json").read_text())
    assert CliRunner().invoke(app, ["verify", "results"]).exit_code == 0


def test_a_closed_standard_error_loses_messages_and_no_exit_code(at):
    assert shell("run nowhere.yaml 2>&-").returncode == 2
    assert shell("run nowhere.yaml 2>/dev/full").returncode == 2
    assert shell("run --nonsense 2>/dev/full").returncode == 2
    assert json.loads(shell("run nowhere.yaml --json 2>&-").stdout)["exit_code"] == 2


def test_a_reader_that_has_seen_enough_is_no_failure(at):
    assert CliRunner().invoke(app, RUN.split()).exit_code == 0
    done = shell("inspect results | head -1")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["kind", "run"]
    # `true` has gone before there is anything to read.
    assert shell(f"{RUN} | true").returncode == 0
    assert shell("--help | true").returncode == 0
    assert shell("--help >/dev/full").returncode == 1


def test_the_c_locale_takes_names_in_utf8(at):
    Path("arêtes.csv").write_text("from,to,km\nÉvry,Orly,3\nOrly,Évry,4\n", encoding="utf-8")
    done = shell("run arêtes.csv --from Évry --out résultats", LC_ALL="C")
    assert done.returncode == 0, done.stderr
    assert Path("résultats/run.json").exists()


def test_a_locale_that_knows_no_utf8_is_an_error_that_says_so(at):
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = shell("run edges.txt --from 0 --out résultats", **locale)
    assert done.returncode == 2, done.stderr
    assert "is not UTF-8 in this locale" in done.stderr
    assert "export LC_ALL=C.UTF-8" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        f"run {LONG}.yaml",
        f"run {LONG} --from 0 --out r",
        f"run edges.txt --from 0 --out {LONG}",
        f"run edges.txt --from 0 --out r --set graph.store={LONG}",
        f"run edges.txt --from {LONG}.txt --out r",
        f"run edges.txt --from file:{LONG} --out r",
        f"run edges.txt --from 0 --out r --save-workflow {LONG}.yaml",
        f"plan edges.txt --from 0 --out {LONG}",
        f"inspect {LONG}",
        f"verify {LONG}",
        f"init {LONG}.yaml",
    ],
)
def test_a_path_of_300_characters_is_unusable_input(at, words):
    done = CliRunner().invoke(app, words.split())
    assert done.exit_code == 2, done.stderr
    assert done.stderr.startswith("error: ")
    assert LONG in done.stderr
    assert "\n\nhint: " in done.stderr
    assert [path.name for path in at.iterdir()] == ["edges.txt"], "nothing is left behind"


@pytest.mark.parametrize(
    "value",
    ["x", "=", "=3", ".", "..=1", "a.b.c=[", "solve.=3", "graph=5", "solve.delta", "graph.input=[]", "é=1",
     "sources={a", "output.path=", "sources.ids.0=3", "graph.input.x=1", "solve.delta=.nan", "a=!!x y", "a=*b",
     "graph.input=${NOT_SET}", "solve=[1, 2]", "sources=random", "cluster.kind=slurmm", f"{LONG}={LONG}",
     "solve.batch=99999999999999999999999999", "graph.weights.column=0", "name="],
)  # fmt: skip
def test_a_value_that_makes_no_sense_is_unusable_input(at, value):
    done = CliRunner().invoke(app, [*RUN.split(), "--set", value])
    assert done.exit_code == (0 if value.startswith("solve.batch") else 2), done.stderr
    if done.exit_code:
        assert done.stderr.startswith("error: ")
        assert [path.name for path in at.iterdir()] == ["edges.txt"]


def test_a_command_that_fails_does_not_wait_for_threads(at):
    program = (
        "import sys, threading, time\n"
        "from sssp_pipeline.cli import main\n"
        "threading.Thread(target=time.sleep, args=(60,)).start()\n"
        "sys.argv[1:] = ['inspect', 'nowhere']\n"
        "main()\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
