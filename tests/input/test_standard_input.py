"""The command line with standard input, pipes and `<(commands)` in the place of files."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from sssp_pipeline.cli import app
from sssp_pipeline.storage import pipes

pytestmark = pytest.mark.medium

EDGES = "0 1 5\n1 2 3\n2 7 1\n"
COMMAND = f"{sys.executable} -m sssp_pipeline.cli run"


@pytest.fixture
def at(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("edges.txt").write_text(EDGES)
    return tmp_path


def workflow(edges: str = "edges.txt", sources: str = "{ids: [0, 7]}", output: str = "run") -> str:
    return f"{{graph: {{input: '{edges}'}}, sources: {sources}, output: {{path: '{output}'}}}}\n"


def ran(*arguments: str, given: str | None = None) -> Result:
    """Run a workflow in this process, with `given` on standard input."""
    return CliRunner().invoke(app, ["run", *arguments], input=given)


def ran_by_bash(script: str, **environment: str) -> subprocess.CompletedProcess:
    done = subprocess.run(
        ["bash", "-c", script],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


def test_a_graph_from_standard_input_is_read_again_only_if_it_changes(at):
    Path("w.yaml").write_text(workflow(edges="-"))
    for told in ("graph: 4 vertices, 3 edges, uint32 weights in run-graph-", "unchanged, not ingested again"):
        done = ran("w.yaml", given=EDGES)
        assert done.exit_code == 0
        assert told in done.stderr
    changed = ran("w.yaml", given=EDGES + "7 9 1\n")
    assert changed.exit_code == 2
    assert "graph: 5 vertices, 4 edges" in changed.stderr


def test_a_workflow_and_sources_from_standard_input(at):
    assert ran("-", given=workflow()).exit_code == 0
    Path("w.yaml").write_text(workflow(sources="{file: '-'}", output="other"))
    assert ran("w.yaml", given="source\n0\n7\n").exit_code == 0
    names = [sorted(p.name for p in Path(run, "distances").iterdir()) for run in ("run", "other")]
    assert names[0] == names[1]
    for name in names[0]:
        assert Path("run/distances", name).read_bytes() == Path("other/distances", name).read_bytes()


def test_substituted_commands(at):
    text = workflow(edges="/dev/fd/8", sources="{file: /dev/fd/9}")
    script = f'{COMMAND} <(echo "$WORKFLOW") 8< <(cat edges.txt) 9< <(echo 0; sleep 0.3; echo 7)'
    done = ran_by_bash(script, WORKFLOW=text)
    assert "solved 2 sources x 4 vertices" in done.stderr
    assert json.loads(Path("run/run.json").read_text())["name"] == "pipe"


def test_with_from_standard_input_and_pipes_are_edge_lists(at):
    ran_by_bash(f"cat edges.txt | {COMMAND} - --from 0 --out piped")
    ran_by_bash(f"{COMMAND} <(cat edges.txt) --from 0 --out substituted")
    os.mkfifo("fifo")
    with subprocess.Popen(["cp", "edges.txt", "fifo"]):
        named = ran("fifo", "--from", "0", "--out", "named")
    assert named.exit_code == 0, named.stderr
    found = {
        Path(run, "distances/batch-00000.parquet").read_bytes() for run in ("piped", "substituted", "named")
    }
    assert len(found) == 1


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (
            ["-", "--out", "run"],
            "`standard input` is a workflow file without `--from`, and `--out` belongs to edge lists",
            "for an edge list add `--from ID`; with a workflow file, write `--set 'output.path=FOLDER'`",
        ),
        (
            ["-", "edges.txt"],
            "`standard input` is a workflow file without `--from`, and it is one of 2 inputs",
            "for an edge list add `--from ID`; name one workflow file; `graph.input` in it may list several edge "
            "lists",
        ),
    ],
)
def test_what_contradicts_a_workflow_from_standard_input(at, arguments, message, hint):
    done = ran(*arguments, given=EDGES)
    assert done.exit_code == 2
    assert done.stderr == f"error: {message}\n\nhint: {hint}\n"


@pytest.mark.parametrize(
    ("argument", "text", "message"),
    [
        (
            "-",
            workflow(edges="-"),
            "`standard input` line 1: `graph.input` is `-`, and standard input is the workflow",
        ),
        (
            "w.yaml",
            workflow(edges="-", sources="{file: '-'}"),
            "`w.yaml` line 1: `graph.input` and `sources.file` are both `-`, and standard input can be read once",
        ),
        (
            "w.yaml",
            "graph:\n  input: -\n",
            "`w.yaml` line 2: not valid YAML: sequence entries are not allowed here",
        ),
        ("w.yaml", workflow(edges="/dev/zero"), "`/dev/zero` is a device, not a file"),
        (
            "w.yaml",
            workflow(edges="-", output="http://host.invalid/run"),
            "`output.path` is `http://host.invalid/run`",
        ),
        ("w.yaml", workflow(output="-"), "`output.path` is `standard input`, which cannot be written"),
    ],
)
def test_what_cannot_be_is_refused(at, argument, text, message):
    Path("w.yaml").write_text(text)
    done = ran(argument, given=text)
    assert done.exit_code == 2
    assert message in done.stderr
    assert "\nhint: " in done.stderr


def test_standard_input_may_be_empty(at):
    Path("w.yaml").write_text(workflow(edges="-"))
    done = ran("w.yaml", given="")
    assert done.exit_code == 2
    assert "`standard input` is empty" in done.stderr


@pytest.mark.parametrize("place", ["workflow", "input", "sources"])
def test_a_pipe_without_a_writer_is_waited_for(at, place, monkeypatch):
    monkeypatch.setattr(pipes, "WRITER_WAIT_S", 0.2)
    os.mkfifo("silent")
    text = workflow(edges="silent") if place == "input" else workflow(sources="{file: silent}")
    Path("w.yaml").write_text(text)
    done = ran("silent" if place == "workflow" else "w.yaml")
    assert done.exit_code == 2
    assert "error: `silent` is a pipe, and no process wrote to it in 0.2 s" in done.stderr
