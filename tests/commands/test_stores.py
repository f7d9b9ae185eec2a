"""`sssp-pipeline stores`: what it lists, and what it removes and leaves."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

import sssp_pipeline as sp
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.cli import app
from sssp_pipeline.pipeline.graph_store import stores
from sssp_pipeline.pipeline.graph_store.stores import find_stores, remove_store
from sssp_pipeline.pipeline.run.conductor import run
from sssp_pipeline.storage import files
from sssp_pipeline.storage.lease import exclusive
from sssp_pipeline.workflow.yaml_file import workflow_from_dict


def invoke(*arguments: str):
    return CliRunner().invoke(app, ["stores", *arguments])


def refused(*arguments: str) -> tuple[str, str]:
    done = invoke(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    message, _, hint = done.stderr.partition("\n\nhint: ")
    return message.removeprefix("error: "), hint.strip()


@pytest.fixture
def at(tmp_path, monkeypatch):
    """Make the stores `one` and `below/two`, and folders that are no stores."""
    monkeypatch.chdir(tmp_path)
    Path("roads.csv").write_text("from,to,km\n1,2,4\n2,3,5\n")
    sp.ingest("roads.csv", "one")
    sp.ingest("roads.csv", "below/two", directed=False)
    Path("foreign").mkdir()
    Path("foreign/manifest.json").write_text('{"format": "of something else"}')
    return tmp_path


def test_stores_are_listed_with_input_size_and_last_use(at):
    os.utime("one/row_offsets", (1_000_000_000, 1_000_000_000))
    done = invoke()
    assert done.stderr.strip() == "2 graph stores, 0.0 MB"
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["store", "below/two", "one"]
    assert re.fullmatch(r"one +0\.0 MB +2001-09-09 \d\d:46 +roads\.csv", done.stdout.splitlines()[2])
    _, one = json.loads(invoke("--json").stdout)
    assert one == {
        "store": "one",
        "bytes": sum(file.stat().st_size for file in Path("one").rglob("*.*")),
        "last_used": "2001-09-09T01:46:40+00:00",
        "in_use": False,
        "inputs": ["roads.csv"],
        "fault": None,
    }
    of_run = {"input": "roads.csv", "store": "one"}
    sp.run({"graph": of_run, "sources": {"ids": [1]}, "output": {"path": "run"}})
    assert find_stores("one")[0].last_used.year > 2001
    assert [store.store for store in find_stores(str(at / "below"))] == [str(at / "below" / "two")]
    assert invoke("foreign").stderr.strip() == "no graph store here"
    assert refused("nowhere") == ("`nowhere` does not exist", "name a folder with graph stores")


def test_chosen_stores_are_removed_and_other_files_stay(at):
    Path("one/mine.txt").touch()
    manifest = Path("below/two/manifest.json")
    manifest.write_text(manifest.read_text().replace("n_edges", "n_edgs"))
    assert "is damaged" in find_stores("below")[0].fault
    done = invoke("--remove", "one", "--remove", "below/two")
    assert done.stdout == "removed one: 0.0 MB\nremoved below/two: 0.0 MB\n"
    left = [str(file.relative_to(at)) for file in sorted(at.rglob("*"))]
    assert left == ["below", "foreign", "foreign/manifest.json", "one", "one/mine.txt", "roads.csv"]


@pytest.mark.parametrize("other", ["foreign", "roads.csv", "below", "nowhere"])
def test_what_is_no_store_is_not_removed(at, other):
    hint = "`sssp-pipeline stores FOLDER` lists the graph stores below a folder"
    assert refused("--remove", "one", "--remove", other) == (
        f"`{other}` is not a graph store, and nothing was removed",
        hint,
    )
    assert len(find_stores(".")) == 2
    assert refused("below", "--remove", "one")[0] == "`below` is given beside `--remove`"


class RemovingMeanwhile(Quiet):
    """Tries to remove the store `one` when the solver is known."""

    seen: str | None = None

    def say(self, line, event="note", **facts):
        if event == "solver":
            assert invoke().stdout.splitlines()[-1].endswith("roads.csv (in use)")
            self.seen = refused("--remove", "one")[0]


@pytest.mark.medium
def test_a_store_in_use_is_not_removed(at):
    of_run = {"graph": {"input": "roads.csv", "store": "one"}, "sources": {"ids": [1]}}
    progress = RemovingMeanwhile()
    run(workflow_from_dict(of_run | {"output": {"path": "run"}}), progress)
    assert progress.seen == "`one` is in use by a run, and was not removed"
    with exclusive("one"):
        assert "is writing to `one`" in refused("--remove", "one")[0]
        assert [store.in_use for store in find_stores(".")] == [False, True]
    assert invoke("--remove", "one").exit_code == 0


def test_an_interrupted_removal_can_be_continued_or_made_good(at, monkeypatch):
    def killed(url: str) -> None:
        if url == "one/manifest.json":
            raise InterruptedError
        remove(url)

    remove = files.remove
    with monkeypatch.context() as patch:
        patch.setattr(stores.files, "remove", killed)
        with pytest.raises(InterruptedError):
            remove_store("one")
    shutil.copytree("one", "copy")
    assert remove_store("copy") > 0
    assert not Path("copy").exists()
    assert sp.solve(sp.ingest("roads.csv", "one"), 1, predecessors=True).path(1, 3) == [1, 2, 3]


def test_a_store_in_an_object_store_is_found_and_removed():
    sp.ingest("generated:star?vertices=4", "memory://stores/star")
    (found,) = find_stores("memory://stores")
    assert (found.store, found.inputs) == ("memory://stores/star", ["generated:star?vertices=4"])
    assert remove_store(found.store) == found.bytes
    assert find_stores("memory://stores") == []
    with pytest.raises(InputError):
        remove_store(found.store)
