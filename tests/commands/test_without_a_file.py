"""Runs that the command line describes without a workflow file."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from sssp_pipeline.cli import app
from sssp_pipeline.commands.command_line import resume_command

EDGES = "".join(f"{i} {(i + 1) % 30} {i + 1}\n{i} {(i + 7) % 30} 9\n" for i in range(30))
WHERE = "check the path, or the bucket and key"


def invoke(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture
def at(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("edges.txt").write_text(EDGES)
    Path("named.csv").write_text("from,to,km\nA,B,1\nB,C,2\nC,A,3\n7,A,1\n")
    Path("depots.txt").write_text("3\n5\n")
    return tmp_path


def refused(*arguments: str) -> tuple[str, str]:
    result = invoke(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    message, _, hint = result.stderr.partition("\n\nhint: ")
    return message.removeprefix("error: ").strip(), hint.strip()


def test_an_edge_list_runs_and_saves_the_workflow_that_does_the_same(at):
    options = ["edges.txt", "--from", "17", "--from", "4", "--to", "depots.txt", "--out", "results"]
    result = invoke("run", *options, "--set", "solve.solver=dijkstra", "--save-workflow", "saved.yaml")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("results: results\n")
    rows = pq.read_table("results/distances").to_pylist()
    assert {(row["source"], row["vertex"]) for row in rows} == {(s, t) for s in (4, 17) for t in (3, 5)}
    again = invoke("run", "saved.yaml", "--json")
    assert "results is finished already" in again.stderr, "the file means the same run"
    record = json.loads(again.stdout)
    assert record["solver"] == "dijkstra"
    assert record["name"] == "edges"
    assert refused("run", *options, "--save-workflow", "saved.yaml")[0] == "`saved.yaml` exists already"


def test_plan_ingest_and_solve_take_the_same_words(at):
    options = ["edges.txt", "--from", "random:4", "--out", "results"]
    assert json.loads(invoke("plan", *options, "--json").stdout)["sources"] == 4
    assert re.fullmatch(r"edges-graph-[0-9a-f]{8}\n", invoke("ingest", *options).stdout)
    assert json.loads(invoke("solve", *options, "--json").stdout)["sources"] == 4


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (
            "edges.txt",
            "`edges.txt` is no workflow file by its name, and no `--from` says where paths begin",
            "for an edge list add `--from ID`; the name of a workflow file ends in .yaml or .yml",
        ),
        (
            "w.yaml --from 1",
            "`w.yaml` is a workflow file by its name, and `--from` belongs to edge lists",
            "with a workflow file, write `--set 'sources={ids: [17]}'`",
        ),
        (
            "W.YML --out r",
            "`W.YML` is a workflow file by its name, and `--out` belongs to edge lists",
            "with a workflow file, write `--set 'output.path=FOLDER'`",
        ),
        (
            "https://host/w.yaml?token=x edges.txt",
            "`https://host/w.yaml` is a workflow file by its name, and it is one of 2 inputs",
            "name one workflow file; `graph.input` in it may list several edge lists",
        ),
        ("nowhere.txt --from 1 --out r", "`nowhere.txt` does not exist", WHERE),
        ("edges.txt --from 1 2 --out r", "`2` does not exist", "if it is an id, write `--from 2`"),
        (
            "edges.txt --from 1 --out r --set cutoff=5",
            "`--set cutoff`: unknown key `cutoff`",
            "did you mean `solve.cutoff`? "
            "Keys: version, name, graph, sources, solve, cluster, output, storage, verify, report",
        ),
        (
            "edges.txt --from=1 --out=r --set=output.distances=reduced --set=output.reduce.within=5,10",
            "`--set output.reduce.within`: `output.reduce.within` is `5,10`, wanted a list",
            "write a list: `[5,10]`",
        ),
        ("edges.txt --from 1", "no folder is named for the results", "add `--out results`"),
        (
            "edges.txt --from 17 --out r",
            "`--from 17` could be an id, and there is a file of this name",
            "write `--from file:17` for the file, `--from id:17` for the id",
        ),
        (
            "edges.txt --from all --out r",
            "`--from all` could be a choice of vertices, and there is a file of this name",
            "write `--from file:all` for the file",
        ),
        (
            "edges.txt --from 1 --to depot.txt --out r",
            "`--to depot.txt`: the file `depot.txt` does not exist",
            "check the path; if it is an id, write `--to id:depot.txt`",
        ),
        (
            "edges.txt --from random:many --out r",
            "`--from random:many`: `many` is no number of vertices",
            "write `--from random:64`",
        ),
        (
            "edges.txt --from 1 --from random:3 --out r",
            "`--from random:3` is given beside 1 more `--from`",
            "only ids may be repeated: give ids alone, or one `--from` of another kind",
        ),
        (
            "edges.txt --from 1 --from '' --out r",
            "`--from`: `sources.ids[1]` is empty, wanted an integer of at least 0 or text",
            "correct `sources.ids[1]`: write an integer of at least 0 or text",
        ),
        (
            "edges.txt --from 1 --out r --set =3",
            "`--set =3` names no key",
            "write `--set KEY=VALUE`: `--set solve.delta=500`",
        ),
        (
            "edges.txt --from 1 --out r --set sources.ids=[2]",
            "`--from 1` and `--set sources.ids=[2]` both set `sources.ids`",
            "leave one of them out",
        ),
        (
            "edges.txt --from 1 --out r --set 'sources={all: true}'",
            "`--from 1` and `--set sources={all: true}` both set `sources`",
            "leave one of them out",
        ),
        (
            "edges.txt --from 1 --out r --to 3 --set output.targets.ids=[2]",
            "`--to 3` and `--set output.targets.ids=[2]` both set `output.targets.ids`",
            "leave one of them out",
        ),
        (
            "edges.txt --from 1 --out r --set output.path=s",
            "`--out r` and `--set output.path=s` both set `output.path`",
            "leave one of them out",
        ),
        (
            "edges.txt --from 1 --out r --set solve.batch=2 --set solve.batch=2",
            "`--set solve.batch=2` and `--set solve.batch=2` both set `solve.batch`",
            "leave one of them out",
        ),
        (
            "edges.txt --from 1 --out r --save-workflow saved.txt",
            "`saved.txt` would not be taken for a workflow file",
            "name it with .yaml at its end",
        ),
    ],
)
def test_what_could_be_meant_in_two_ways_is_refused(at, words, message, hint):
    Path("17").write_text("3\n")
    Path("all").write_text("3\n")
    told, advice = refused("run", *shlex.split(words))
    assert (told.rpartition("error: ")[2], advice) == (message, hint)
    assert not Path("saved.txt").exists()


def test_ids_are_text_in_a_graph_of_names_and_numbers_in_one_of_numbers(at):
    assert invoke("run", "named.csv", "--from", "A", "--from", "7", "--out", "r", "-q",
                  "--set", "graph.ids=string", "--set", "graph.weights.column=km").exit_code == 0  # fmt: skip
    assert set(pq.read_table("r/metrics.parquet")["source"].to_pylist()) == {"A", "7"}
    assert invoke("run", "edges.txt", "--from", "7", "--out", "n", "-q").exit_code == 0
    assert pq.read_table("n/metrics.parquet")["source"].to_pylist() == [7]
    message, _ = refused("run", "edges.txt", "--from", "07", "--out", "m", "-q")
    assert message == "source `07` is not in the graph, whose ids are integers"


def test_several_edge_lists_are_one_graph(at):
    Path("more.txt").write_text("29 30 1\n")
    record = json.loads(invoke("run", "edges.txt", "more.txt", "--from", "0", "--out", "r", "--json").stdout)
    assert record["graph"]["n_vertices"] == 31
    assert record["workflow"]["graph"]["input"] == ["edges.txt", "more.txt"]


@pytest.mark.medium
def test_what_goes_on_is_the_same_command_without_what_was_for_once(at):
    Path("slow.py").write_text(
        "import sys\n"
        "from sssp_pipeline import cli\n"
        "from sssp_pipeline.pipeline.run import conductor\n"
        "def interrupted(*_, **__):\n    raise KeyboardInterrupt\n"
        "conductor.run_each = interrupted\n"
        "cli.main()\n"
    )
    words = ["run", "edges.txt", "--from", "1", "--out", "a b", "--set", "solve.batch=1", "--json"]
    command = [sys.executable, "slow.py", *words, "--save-workflow", "s.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 130
    go_on = "sssp-pipeline run edges.txt --from 1 --out 'a b' --set solve.batch=1 --json"
    assert done.stderr.endswith(f"    {go_on}\n")
    assert json.loads(done.stdout)["exit_code"] == 130
    for once in (["--save-workflow=t.yaml"], ["--overwrite"], ["--overwrite", "--save-workflow", "t.yaml"]):
        assert resume_command("sssp-pipeline", [words[0], *once, *words[1:]], None) == go_on
