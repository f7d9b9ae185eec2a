"""`sssp-pipeline path`: what it prints, and its errors."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sssp_pipeline.cli import app

ROADS = "from,to,km,minutes\nAyr,Bude,4,9\nAyr,Cork,4,1\nBude,Deal,3,7\nCork,Deal,3,8\nElgin,Ayr,1,1\n"
DIMACS = "p sp 4 3\na 1 2 5\na 2 3 6\na 4 1 2\n"
CO = "p aux sp co 4\nv 1 -73530767 41085396\nv 2 -73530538 41086098\nv 3 -73519366 41048796\nv 4 0 0\n"


def invoke(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


def done(*arguments: str) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 0, result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Give a folder with a run by km, a run of numbered vertices with coordinates, and a graph store of minutes."""
    folder = tmp_path_factory.mktemp("made")
    with contextlib.chdir(folder):
        Path("roads.csv").write_text(ROADS)
        Path("g.gr").write_text(DIMACS)
        Path("g.co").write_text(CO)
        by_km = ("--set", "graph.weights={column: km, unit: km}", "--set", "graph.store=km")
        by_minutes = ("--set", "graph.weights={column: minutes, unit: min}", "--set", "graph.store=minutes")
        done("run", "roads.csv", "--from", "Ayr", "--out", "run", *by_km)
        done("ingest", "roads.csv", "--from", "Ayr", "--out", "none", *by_minutes)
        coordinates = ("--set", "graph.coordinates=g.co", "--set", "graph.store=dimacs")
        done("run", "g.gr", "--from", "1", "--to", "2", "--out", "numbered", *coordinates)
    return folder


@pytest.fixture
def at(made, tmp_path, monkeypatch) -> None:
    """Work in a copy of the folder `made`."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)


def test_text(at):
    assert done("path", "run", "--from", "Ayr", "--to", "Deal", "--cost", "minutes") == (
        "from    Ayr\nto      Deal\nlength  7 km\ncost    16 min\nedges   2\npath    Ayr -> Bude -> Deal\n"
    )
    assert done("path", "numbered", "--from", "1", "--to", "3") == (
        "from    1\nto      3\nlength  11\nedges   2\npath    1 -> 2 -> 3\n"
    )


@pytest.mark.medium
def test_json(at):
    assert json.loads(done("path", "run", "--from", "Ayr", "--to", "Deal", "--json", "--cost", "minutes")) == {
        "from": "Ayr", "to": "Deal", "length": 7, "unit": "km", "cost": 16, "cost_unit": "min", "edges": 2,
        "ids": ["Ayr", "Bude", "Deal"],
    }  # fmt: skip


@pytest.mark.medium
def test_geojson(at):
    result = invoke("path", "numbered", "--from", "1", "--to", "3", "--geojson")
    assert result.stderr == "coordinates read as longitude and latitude in microdegrees\n"
    feature = json.loads(result.stdout)
    assert feature["geometry"]["type"] == "LineString"
    assert feature["geometry"]["coordinates"][0] == [-73.530767, 41.085396]
    assert feature["properties"]["ids"] == [1, 2, 3]
    result = invoke(
        "path", "numbered", "--from", "1", "--to", "3", "--geojson", "--coordinates", "microdegrees"
    )
    assert (json.loads(result.stdout), result.stderr) == (feature, "")


@pytest.mark.medium
def test_a_graph_store_that_has_moved(at):
    Path("km").rename("moved")
    assert "length  7 km" in done("path", "run", "--from", "Ayr", "--to", "Deal", "--store", "moved")


@pytest.mark.medium
@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        ("run --from Elgin --to Ayr", "source `Elgin` is not in the run `run`", "its sources are `Ayr`"),
        (
            "run --from Ayr --to Deel",
            "target `Deel` is not in the graph",
            "the 5 ids of the graph run from 'Ayr' to 'Elgin'",
        ),
        (
            "run --from Ayr --to Elgin",
            "no path leads from `Ayr` to `Elgin`",
            "name two vertices that a path connects; where edges lead one way, try the way back",
        ),
        (
            "numbered --from 01 --to 2",
            "the ids `01` are not those of the run `numbered`, whose ids are integers",
            "its sources are `1`",
        ),
        ("km --from Ayr --to Deal", "`km` is not a run", "name the folder of a run"),
        (
            "numbered --from 1 --to 3 --geojson --json",
            "`--json` and `--geojson` contradict each other",
            "leave one of them out",
        ),
        (
            "numbered --from 1 --to 3 --coordinates degrees",
            "`--coordinates` goes with `--geojson`",
            "add `--geojson`, or leave it out",
        ),
    ],
)
def test_what_is_refused(at, arguments, message, hint):
    result = invoke("path", *arguments.split())
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {message}")
    assert result.stderr.endswith(f"\n\nhint: {hint}\n")
    if "--json" not in arguments:
        assert result.stdout == ""


@pytest.mark.medium
def test_an_unfinished_run_is_refused(at):
    Path("run/run.json").unlink()
    shutil.copytree("run", "left")
    Path("left/_run").mkdir()
    Path("left/_run/identity.json").write_text("{}")
    result = invoke("path", "left", "--from", "Ayr", "--to", "Deal")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "error: `left` is an unfinished run\n\nhint: finish it by the same `sssp-pipeline run` command\n"
    )


@pytest.mark.medium
def test_the_cutoff_of_the_run(at):
    done("run", "roads.csv", "--from", "Ayr", "--out", "near", "--set", "solve.cutoff=5",
         "--set", "graph.weights.column=km")  # fmt: skip
    result = invoke("path", "near", "--from", "Ayr", "--to", "Deal", "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout) == {
        "error": "no path leads from `Ayr` to `Deal` within the cutoff of the run, 5",
        "hint": "run it with a larger `solve.cutoff`, or without one",
        "exit_code": 2,
    }
