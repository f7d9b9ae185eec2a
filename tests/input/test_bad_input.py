"""Bad input through the front door: one clear message, exit code 2, and nothing left behind."""

import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.cli import app
from sssp_pipeline.storage import files

WORKFLOW = "bad.yaml"


@pytest.fixture
def at(tmp_path, monkeypatch):
    """Work in an empty folder, so that messages hold no path of this machine."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def workflow(**changes) -> str:
    data = {"graph": {"input": "edges.txt"}, "sources": {"ids": [0]}, "output": {"path": "run"}}
    for dotted, value in changes.items():
        *sections, key = dotted.split("__")
        part = data
        for section in sections:
            part = part.setdefault(section, {})
        part[key] = value
    return yaml.safe_dump(data, sort_keys=False)


def state(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def refused(folder: Path, text: str, *arguments: str) -> tuple[str, str | None]:
    """Run the workflow `text`; return the message and the hint after checking all that every refusal promises."""
    Path(folder, WORKFLOW).write_text(text)
    before = state(folder)
    result = CliRunner().invoke(app, ["run", WORKFLOW, *arguments])
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert state(folder) == before
    # What the stages said before comes first; the error is one paragraph, the hint another.
    _, _, told = result.stderr.rpartition("error: ")
    message, _, hint = told.partition("\n\nhint: ")
    return message.strip(), hint.strip() or None


def made(name: str, content: str | bytes) -> None:
    Path(name).write_bytes(content.encode() if isinstance(content, str) else content)


@pytest.mark.parametrize(
    ("changes", "message", "hint"),
    [
        (
            {"graph__weights__dtype": "uint32"},
            "`edges.txt`: edge 2, from `1` to `2`: weight 5000000000 is too large for uint32",
            "set `graph.weights.dtype: uint64`",
        ),
        (
            {"output__path": "edges.txt/run"},
            "`edges.txt/run/run.json` cannot be read: Not a directory",
            "correct the path",
        ),
        (
            {"output__path": "/proc/run"},
            "`/proc/run` cannot be written: No such file or directory",
            "choose a place that may be written",
        ),
        (
            {"output__path": "s4://bucket/run"},
            "`s4://bucket/run` cannot be opened: Protocol not known: s4",
            "known schemes: abfs, file, ftp, gs, hdfs, http, https, memory, s3, sftp, zip",
        ),
    ],
)
def test_a_bad_workflow(at, changes, message, hint):
    made("edges.txt", "0 1 5\n1 2 5000000000\n")
    assert refused(at, workflow(**changes)) == (message, hint)


# These faults are found only when the graph is known. Its store is whole and stays, and the run leaves nothing.


def refused_after_ingest(folder: Path, text: str) -> tuple[str, str | None]:
    Path(WORKFLOW).write_text(text)
    assert CliRunner().invoke(app, ["ingest", WORKFLOW]).exit_code == 0
    return refused(folder, text)


def test_a_source_that_is_not_in_the_graph(at):
    made("edges.txt", "0 1 5\n")
    told = refused_after_ingest(at, workflow(sources__ids=[0, 7]))
    hint = "the 2 ids of the graph run from 0 to 1; `sources.unknown: skip` leaves out those that are not in the graph"
    assert told == ("source `7` is not in the graph", hint)


@pytest.mark.parametrize("solver", ["auto", "dijkstra", "queue-bellman-ford"])
def test_a_negative_cycle(at, solver):
    made("edges.txt", "70 71 5\n71 72 -6\n72 71 2\n72 70 9\n")
    told = refused_after_ingest(at, workflow(sources__ids=[70], solve__solver=solver))
    assert told == (
        "the cycle `71` -> `72` -> `71` of length -4, which can be reached from `70`, makes paths ever shorter",
        "remove an edge of it, or correct its weight",
    )


def test_a_path_that_overflows(at):
    made("edges.txt", "0 1 4000000000\n1 2 4000000000\n")
    told = refused_after_ingest(at, workflow(graph__weights={"dtype": "uint32"}))
    assert told == (
        "the shortest path from `0` to `2` is longer than uint32 holds",
        "set `graph.weights.dtype: uint64`, or a cutoff",
    )


@pytest.fixture
def with_store(at) -> str:
    """Ingest a graph into the folder `graph`; give the workflow that uses it."""
    made("edges.txt", "0 1 5\n")
    text = workflow(graph__store="graph")
    Path(WORKFLOW).write_text(text)
    assert CliRunner().invoke(app, ["ingest", WORKFLOW]).exit_code == 0
    return text


ANEW = "remove the folder of the graph store and make it again with `sssp-pipeline ingest` or `run`"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content.update(version=7), "of format 7, this release reads formats 1 and 2"),
        (
            lambda content: content.pop("degree_skew"),
            "of another release: its manifest.json lacks `degree_skew`",
        ),
        (
            lambda content: content["weights"].update(median=5),
            "of another release: its manifest.json has an unknown `weights.median`",
        ),
    ],
)
def test_a_store_of_another_release(at, with_store, reseal, change, message):
    manifest = Path("graph/manifest.json")
    content = json.loads(manifest.read_text())
    change(content)
    reseal(manifest, content)
    told = f"`graph` is a graph store {message}", f"{ANEW}, or use the release that wrote it"
    assert refused(at, with_store) == told


def test_a_part_of_the_store_altered_by_one_byte(at, with_store):
    (part,) = Path("graph/edges").iterdir()
    content = bytearray(part.read_bytes())
    content[40] ^= 1
    part.write_bytes(content)
    message, hint = refused(at, with_store)
    assert message.startswith(f"`{part}` was altered: its CRC-32 is ")
    assert hint == ANEW


def test_files_without_permission(tmp_path):
    """An unreadable input and an output below an unwritable folder, by a process that is not root."""
    folder = Path(tempfile.mkdtemp())
    try:
        folder.chmod(0o755)
        (folder / "edges.txt").write_text("0 1\n")
        (folder / "edges.txt").chmod(0)
        (folder / "locked").mkdir(mode=0o555)
        (folder / "closed").mkdir(mode=0)
        as_root = os.geteuid() == 0
        if as_root:
            os.seteuid(65534)
        try:
            with pytest.raises(InputError) as unreadable:
                files.read_bytes(str(folder / "edges.txt"))
            for url in (f"{folder}/closed/edges.txt", f"{folder}/closed/*.txt"):
                with pytest.raises(InputError) as closed:
                    files.expand([url])
                assert closed.value.message == f"`{url}` may not be read: Permission denied"
                assert closed.value.hint == "check its permissions, or the credentials"
            with pytest.raises(InputError) as unwritable:
                files.check_writable(str(folder / "locked" / "run"))
        finally:
            if as_root:
                os.seteuid(0)
    finally:
        shutil.rmtree(folder)
    assert unreadable.value.message == f"`{folder}/edges.txt` may not be read: Permission denied"
    assert unwritable.value.message == f"`{folder}/locked/run` cannot be written: Permission denied"


@pytest.mark.medium
def test_a_full_disk(tmp_path, small_disk):
    text = workflow(
        graph__input="generated:grid?rows=100&cols=100&keep=0.8&seed=1",
        graph__store=str(tmp_path / "graph"),
        sources={"random": {"count": 64}},
        solve__batch=4,
        output__path=str(small_disk / "run"),
    )
    (tmp_path / WORKFLOW).write_text(text)
    result = CliRunner().invoke(app, ["run", str(tmp_path / WORKFLOW)])
    assert result.exit_code == 1
    assert re.search(r"warning: up to 2\.\d MB will be written, [01]\.\d MB are free there", result.stderr)
    assert "cannot be written: No space left on device" in result.stderr
    assert "hint: free some space and run the same command again: what is committed is kept" in result.stderr
    committed = list(small_disk.glob("run/distances/*"))
    assert committed, "some batches fit"
    assert not list(small_disk.rglob(f"{files.TEMP_PREFIX}*"))
    subprocess.run(["mount", "-o", "remount,size=8m", str(small_disk)], check=True)
    assert CliRunner().invoke(app, ["run", str(tmp_path / WORKFLOW)]).exit_code == 0
