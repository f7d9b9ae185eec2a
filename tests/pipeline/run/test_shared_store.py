"""Runs without `graph.store`: those whose results lie in one folder share the graph of the same input."""

from __future__ import annotations

from pathlib import Path

import pytest

import sssp_pipeline as sp
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.pipeline.run.completed_run import verify_run
from sssp_pipeline.pipeline.run.conductor import run
from sssp_pipeline.workflow.yaml_file import workflow_from_dict

ROADS = "1 2 4000000000\n2 3 4000000000\n"


@pytest.fixture
def at(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("runs").mkdir()
    Path("roads.txt").write_text(ROADS)
    return tmp_path


def solved(source: int, output: str, progress=None, overwrite: bool = False, **graph) -> dict:
    given = {
        "graph": {"input": "roads.txt"} | graph,
        "sources": {"ids": [source]},
        "output": {"path": output},
    }
    return run(workflow_from_dict(given), progress or Quiet(), overwrite=overwrite)[1]


def stores() -> list[str]:
    return sorted(str(path.parent) for path in Path().rglob("manifest.json"))


@pytest.mark.medium
def test_runs_in_one_folder_share_a_store_from_wherever_they_start(at, listener, monkeypatch):
    solved(2, "runs/a")
    (store,) = stores()
    manifest = Path(store, "manifest.json").read_bytes()
    heard = listener()
    solved(2, "runs/b", heard)
    monkeypatch.chdir("runs")
    solved(2, str(at / "runs" / "c"), heard, input="../roads.txt")
    solved(3, "a", heard, overwrite=True, input=str(at / "roads.txt"))
    monkeypatch.chdir(at)
    unchanged = [line for line in heard.lines if line.endswith("(unchanged, not ingested again)")]
    assert len(unchanged) == 3
    assert Path(store, "manifest.json").read_bytes() == manifest
    solved(2, "runs/both", directed=False)
    solved(2, "other")
    assert len(stores()) == 3
    assert verify_run("runs/c", None, "certificate", Quiet())["verify"]["refuted"] is None


@pytest.mark.medium
def test_wider_weights_for_one_run_leave_the_others_as_they_are(at, listener):
    first = solved(2, "runs/a")
    assert solved(1, "runs/b")["graph"]["weights"]["dtype"] == "uint64"
    heard = listener()
    again = solved(2, "runs/a", heard)
    assert again == first
    assert "runs/a is finished already, nothing to solve" in heard.lines
    assert len(stores()) == 1
    assert sp.open_run("runs/a").path(2, 3) == [2, 3]
    Path("roads.txt").write_text(ROADS.replace("4", "3"))
    with pytest.raises(sp.InputError, match="holds another run: it differs in graph"):
        solved(2, "runs/a")
    assert verify_run("runs/a", None, "certificate", Quiet())["verify"]["refuted"] is None
