"""Every case of the table: the stored graph, or one clear error and nothing left behind."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from cases import CASES, Case
from reference_graph import Refused, stored_edges, weight_types
from reference_reader import understood
from stored import Stored, ingested
from typer.testing import CliRunner
from writers import csv, zipped

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.cli import app
from sssp_pipeline.workflow.yaml_file import load_workflow

pytestmark = pytest.mark.medium

#: No case may use more time of the processor; the wall time also depends on what else the machine does.
LIMIT_S = 5.0


def workflow_file(folder: Path, graph: dict, **sections: object) -> Path:
    path = folder / "workflow.yaml"
    data = {"graph": graph, "sources": {"top_degree": 1}, "output": {"path": str(folder / "run")}, **sections}
    path.write_text(yaml.safe_dump(data, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return path


def alternatives(fragment: str | tuple[str, ...]) -> tuple[str, ...]:
    return (fragment,) if isinstance(fragment, str) else fragment


def files_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def shown(text: str) -> str:
    return re.sub(r"\s+", " ", text)


@pytest.fixture(scope="session", autouse=True)
def _compiled(tmp_path_factory) -> None:
    """What is compiled at its first call is compiled before the first case."""
    folder = tmp_path_factory.mktemp("compiled")
    for name, content in {
        "a.txt": "1 2 5\nx",
        "b.txt": "Ulm Bonn 0.1\n",
        "c.graph": "2 1\n2\n1\n",
        "d.csv": "1,2,3\n",
        "e.txt": "1 2 4294967295\n",
        "f.txt": "1 2 -2147483649\n",
    }.items():
        (folder / name).write_text(content)
        try:
            ingested(folder / name, {}, folder / f"{name}-graph")
        except InputError:
            continue


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A folder for the case; temporary files go to another one."""
    (tmp_path / "tmp").mkdir()
    (tmp_path / "case").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.chdir(tmp_path / "case")
    yield tmp_path / "case"
    assert not files_below(tmp_path / "tmp"), "temporary files are left"


def run_case(case: Case, folder: Path) -> Stored:
    (folder / case.file).write_bytes(case.content)
    loaded = load_workflow(str(workflow_file(folder, {"input": case.file, **case.graph})))
    return ingested(
        case.file, loaded.graph.model_dump(exclude={"input"}, exclude_unset=True), folder / "graph"
    )


@pytest.mark.parametrize("case", [c for c in CASES if c.edges is not None], ids=lambda case: case.name)
def test_accepted(case, folder):
    began = time.process_time()
    stored = run_case(case, folder)
    assert time.process_time() - began < LIMIT_S
    assert stored.edges == case.edges
    assert {type(end) for edge in stored.edges for end in edge[:2]} == {
        type(end) for edge in case.edges for end in edge[:2]
    }
    assert case.dtype in (None, stored.dtype)
    report = folder / "graph" / "skipped.txt"
    assert report.exists() == bool(case.skipped)
    if case.skipped:
        lines = report.read_text().splitlines()
        for number in case.skipped:
            assert any(re.search(rf"\b{number}\b", line) for line in lines), f"{number} is not in {lines}"


@pytest.mark.parametrize("case", [c for c in CASES if c.edges is None], ids=lambda case: case.name)
def test_refused(case, folder):
    began = time.process_time()
    with pytest.raises(InputError) as caught:
        run_case(case, folder)
    assert time.process_time() - began < LIMIT_S
    error = caught.value
    assert error.exit_code == 2
    assert error.message.strip()
    # A fault of the workflow says in its message what is wanted.
    assert (error.hint or "").strip() or (not case.names_file and "wanted" in error.message), (
        "nothing to do is named"
    )
    for fragment in [case.file] * case.names_file + list(case.says):
        assert any(each in error.message for each in alternatives(fragment)), (fragment, error.message)
    for fragment in case.hint:
        assert fragment in error.hint, error.hint
    assert files_below(folder) == sorted([case.file, "workflow.yaml"])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_reference_reader_agrees_with_the_table(case):
    meant = understood(case.content, case.file, case.graph)
    if case.edges is None:
        if case.names_file:
            assert isinstance(meant, Refused)
        return
    assert not isinstance(meant, Refused), meant
    dtypes = weight_types(meant, case.graph)
    assert case.dtype is None or case.dtype in dtypes
    lightest: dict[tuple, float] = {}
    for u, v, w in stored_edges(meant, case.graph, case.dtype or dtypes[0]):
        if u != v:
            lightest[u, v] = min(w, lightest.get((u, v), w))
    assert sorted((u, v, w) for (u, v), w in lightest.items()) == case.edges
    assert meant.skipped == len(case.skipped)


def test_the_table_is_long_enough():
    assert len({case.name.partition(":")[0] for case in CASES}) >= 120


# The command line.


def in_process(*words: str) -> subprocess.CompletedProcess:
    """Return what the command line gives, without the second that the start of a process takes."""
    result = CliRunner(env={"NO_COLOR": "1", "COLUMNS": "400"}).invoke(app, words)
    return subprocess.CompletedProcess(words, result.exit_code, result.stdout_bytes, result.stderr_bytes)


def error_of(result: subprocess.CompletedProcess, code: int = 2) -> tuple[str, str]:
    """Return message and hint of a command that failed, after checking the shape that every error has."""
    stderr = result.stderr.decode()
    assert result.returncode == code, stderr
    assert "Traceback" not in stderr
    assert result.stdout == b""
    assert len(re.findall(r"^error: ", stderr, re.MULTILINE)) == 1, stderr
    message, blank, hint = stderr[stderr.index("error: ") + 7 :].partition("\n\nhint: ")
    assert blank, stderr
    assert message.strip()
    assert hint.strip()
    return shown(message), shown(hint)


@pytest.mark.parametrize(
    "name",
    [
        "numbers and names: csv",
        "cut short: csv-gz",
        "random bytes",
        "a null weight: parquet",
        "an unknown format",
    ],
)
def test_refused_by_the_command_line(name, folder):
    case = next(case for case in CASES if case.name == name)
    (folder / case.file).write_bytes(case.content)
    workflow_file(folder, {"input": case.file, **case.graph})
    message, hint = error_of(in_process("run", "workflow.yaml"))
    for fragment in [case.file] * case.names_file + list(case.says):
        assert any(shown(each) in message for each in alternatives(fragment)), (fragment, message)
    for fragment in case.hint:
        assert shown(fragment) in hint
    assert files_below(folder) == sorted([case.file, "workflow.yaml"])


@pytest.mark.parametrize("host", ["ftp://127.0.0.1:9", "http://127.0.0.1:9", "http://no-such-host.invalid"])
def test_a_server_that_does_not_answer(folder, host):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = host.replace(":9", f":{free.getsockname()[1]}") + "/edges.txt"
    workflow_file(folder, {"input": url})
    began = time.perf_counter()
    result = in_process("run", "workflow.yaml")
    assert result.returncode in (1, 2)
    assert "edges.txt" in error_of(result, result.returncode)[0]
    assert time.perf_counter() - began < 20


@pytest.mark.parametrize("url", ["x" * 300, "missing.csv", ".", "no/such/*.csv", "s4://bucket/edges.csv"])
def test_inputs_that_are_not_there(folder, url):
    workflow_file(folder, {"input": url})
    assert url.split("/")[-1] in error_of(in_process("run", "workflow.yaml"))[0]


@pytest.mark.parametrize(("part", "file"), [("sources", "v.zip"), ("targets", "v.parquet")])
def test_files_of_vertices(folder, part, file):
    (folder / "v.zip").write_bytes(zipped(b"12\n10\n", "v.txt"))
    pq.write_table(pa.table({"town": ["Ulm", "Bonn"], "target": [12, 10]}), folder / "v.parquet")
    (folder / "road.csv").write_bytes(csv([(str(i), str(i + 1), "5") for i in range(10, 40)]))
    chosen = {"sources": {"file": file}}
    if part == "targets":
        chosen = {"sources": {"ids": [10]}, "output": {"path": "run", "targets": {"file": file}}}
    workflow_file(folder, {"input": "road.csv"}, **chosen)
    result = in_process("run", "workflow.yaml")
    assert result.returncode == 0, result.stderr
    (record,) = folder.glob("run/**/run.json")
    assert json.loads(record.read_text())[part] == 2


def test_a_file_of_sources_that_cannot_be_used(folder):
    (folder / "s.txt").write_bytes(b"1\nx\n")
    (folder / "e.txt").write_bytes(b"1 2 5\n")
    workflow_file(folder, {"input": "e.txt"}, sources={"file": "s.txt"})
    message, _ = error_of(in_process("run", "workflow.yaml"))
    assert message.startswith("`s.txt` line 2: `x` is not a vertex id")
