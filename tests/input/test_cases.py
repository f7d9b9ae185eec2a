"""Every case of the table: the stored graph, or one clear error and nothing left behind."""

from __future__ import annotations

import gzip
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
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
from writers import csv, parquet_of, zipped

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
    """A folder for the case; temporary files go to one of their own beside it."""
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
        kept = report.read_text().splitlines()
        for number in case.skipped:
            assert any(re.search(rf"\b{number}\b", line) for line in kept), f"{number} is not in {kept}"


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.edges is None and c.in_process], ids=lambda case: case.name
)
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


def command(
    *words: str, stdin: bytes | None = None, environment: dict[str, str] | None = None, timeout: float = 60
) -> subprocess.CompletedProcess:
    """Run the command line as a user does."""
    return subprocess.run(
        [sys.executable, "-c", "from sssp_pipeline.cli import main; main()", *words],
        input=stdin,
        stdin=None if stdin is not None else subprocess.DEVNULL,
        capture_output=True,
        timeout=timeout,
        check=False,
        env=os.environ | {"NO_COLOR": "1", "COLUMNS": "400"} | (environment or {}),
    )


def in_process(*words: str) -> subprocess.CompletedProcess:
    """Return what `command` returns, without the second that the start of a process takes."""
    result = CliRunner(env={"NO_COLOR": "1", "COLUMNS": "400"}).invoke(app, words)
    return subprocess.CompletedProcess(words, result.exit_code, result.stdout_bytes, result.stderr_bytes)


def told(result: subprocess.CompletedProcess, code: int = 2) -> tuple[str, str]:
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


BY_COMMAND = [
    "numbers and names: csv",
    "a late leading zero: csv-gz",
    "two columns may be the weight",
    "no ends",
    "comma or semicolon",
    "a decimal comma that is not announced",
    "latin-1 not named",
    "two members: zip",
    "cut short: csv-gz",
    "random bytes",
    "offsets of names that lead outside: arrow",
    "empty",
    "an edge without its reverse: metis",
    "dimacs without its p line",
    "a dimacs header of 21 digits",
    "names of columns that are not UTF-8: parquet",
    "weight nan: text",
    "weight 1e400: csv",
    "a null weight: parquet",
    "not square: npz",
    "a target that is no vertex: galois",
    "the id of an edge first: csv",
    "a header or an edge",
    "an unknown format",
    "an unknown encoding",
    "one row without a weight: networkx",
    "lines that end as on old Macs",
    "a third decimal place of two: csv",
    "too many vertices: dimacs",
]


@pytest.mark.parametrize("name", BY_COMMAND)
def test_refused_by_the_command_line(name, folder):
    case = next(case for case in CASES if case.name == name)
    (folder / case.file).write_bytes(case.content)
    workflow_file(folder, {"input": case.file, **case.graph})
    message, hint = told(in_process("run", "workflow.yaml"))
    for fragment in [case.file] * case.names_file + list(case.says):
        assert any(shown(each) in message for each in alternatives(fragment)), (fragment, message)
    for fragment in case.hint:
        assert shown(fragment) in hint
    assert files_below(folder) == sorted([case.file, "workflow.yaml"])


def run_distances(folder: Path) -> list[dict]:
    return [
        row
        for path in sorted((folder / "run" / "distances").rglob("*.parquet"))
        for row in pq.read_table(path).to_pylist()
    ]


def test_standard_input(folder):
    workflow_file(folder, {"input": "-"})
    result = command("run", "workflow.yaml", stdin=b"from,to,km\n007,010,5\n")
    assert result.returncode == 0, result.stderr.decode()
    (manifest,) = folder.glob("**/manifest.json")
    assert json.loads(manifest.read_text())["n_edges"] == 1


def test_standard_input_that_is_empty(folder):
    workflow_file(folder, {"input": "-"})
    assert "empty" in told(command("run", "workflow.yaml", stdin=b""))[0]


def test_a_pipe_from_another_process(folder):
    read_end, write_end = os.pipe()
    os.write(write_end, b"1 2 5\n2 3 6\n")
    os.close(write_end)
    workflow_file(folder, {"input": f"/dev/fd/{read_end}"})
    result = subprocess.run(
        [sys.executable, "-c", "from sssp_pipeline.cli import main; main()", "run", "workflow.yaml"],
        pass_fds=[read_end],
        capture_output=True,
        timeout=60,
        check=False,
    )
    os.close(read_end)
    assert result.returncode == 0, result.stderr.decode()


def test_a_fifo_without_a_writer(folder):
    os.mkfifo("edges.txt")
    workflow_file(folder, {"input": "edges.txt"})
    assert "edges.txt" in told(command("run", "workflow.yaml"))[0]


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("ftp://127.0.0.1:9/edges.txt", 1),
        ("http://127.0.0.1:9/edges.txt", 1),
        ("http://no-such-host.invalid/edges.txt", 1),
    ],
)
def test_a_server_that_does_not_answer(folder, url, code):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = url.replace(":9/", f":{free.getsockname()[1]}/")
    workflow_file(folder, {"input": url})
    began = time.perf_counter()
    result = command("run", "workflow.yaml")
    assert result.returncode in (1, 2)
    assert "edges.txt" in told(result, result.returncode)[0]
    assert time.perf_counter() - began < 20


@pytest.mark.parametrize("url", ["x" * 300, "missing.csv", ".", "no/such/*.csv", "s4://bucket/edges.csv"])
def test_inputs_that_are_not_there(folder, url):
    workflow_file(folder, {"input": url})
    assert url.split("/")[-1] in told(in_process("run", "workflow.yaml"))[0]


@pytest.mark.parametrize("strict", [False, True], ids=["C", "C without UTF-8"])
def test_names_that_the_locale_cannot_spell(folder, strict):
    locale = {"LC_ALL": "C", **({"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"} if strict else {})}
    (folder / "arêtes.csv").write_bytes(csv([("1", "2", "5")]))
    workflow_file(folder, {"input": "arêtes.csv"}, output={"path": "résultats"})
    result = command("run", "workflow.yaml", environment=locale)
    assert b"Traceback" not in result.stderr
    if strict and result.returncode:
        told(result)
    else:
        assert result.returncode == 0, result.stderr.decode()


# Sources and targets.

ROAD = csv([(str(i), str(i + 1), "5") for i in range(10, 40)])
#: Files that name the vertices 12 and 10; `{}` is the name of the column.
VERTEX_FILES: dict[str, tuple[str, Callable[[str], bytes]]] = {
    "a line each": ("v.txt", lambda _: b"# depots\n12\n10\n"),
    "windows": ("v.txt", lambda _: b"\xef\xbb\xbf12\r\n10\r\n"),
    "csv with a header": ("v.csv", lambda name: f"{name},town\n12,Ulm\n10,Bonn\n".encode()),
    "csv of one column": ("v.csv", lambda name: f"{name}\n12\n10\n".encode()),
    "quotes": ("v.csv", lambda name: f'"{name}","town"\n"12","Ulm, Donau"\n"10","Bonn"\n'.encode()),
    "gzip": ("v.csv.gz", lambda name: gzip.compress(f"{name}\n12\n10\n".encode())),
    "zip": ("v.zip", lambda _: zipped(b"12\n10\n", "v.txt")),
    "parquet": ("v.parquet", lambda name: parquet_of(pa.table({"town": ["Ulm", "Bonn"], name: [12, 10]}))),
    "utf-16": ("v.txt", lambda _: b"\xff\xfe" + "12\n10\n".encode("utf-16-le")),
}


def road_with(folder: Path, **sections: object) -> Path:
    (folder / "road.csv").write_bytes(ROAD)
    return workflow_file(folder, {"input": "road.csv"}, **sections)


def record_of(folder: Path) -> dict:
    (record,) = folder.glob("run/**/run.json")
    return json.loads(record.read_text())


@pytest.mark.parametrize("name", VERTEX_FILES)
@pytest.mark.parametrize("part", ["sources", "targets"])
def test_files_of_vertices(folder, name, part):
    file, content = VERTEX_FILES[name]
    (folder / file).write_bytes(content(part[:-1]))
    if part == "sources":
        road_with(folder, sources={"file": file})
    else:
        road_with(folder, sources={"ids": [10]}, output={"path": "run", "targets": {"file": file}})
    result = CliRunner().invoke(app, ["run", "workflow.yaml"])
    assert result.exit_code == 0, result.stderr
    record = record_of(folder)
    assert (record["sources"] if part == "sources" else record["targets"]) == 2


@pytest.mark.parametrize(
    ("content", "says", "hints"),
    [
        (b"12\nx\n", ("s.txt", "line 2", "`x`"), ()),
        (b"12\n-5\n", ("s.txt", "line 2", "`-5`"), ()),
        (b"9" * 5000 + b"\n", ("s.txt", "999"), ()),
        (b"12\n12\n", ("`12`",), ()),
        (b"", ("s.txt",), ()),
        (b"\x80\x81\xff", ("s.txt",), ()),
        (
            b"".join(b"%d\n" % i for i in range(1000, 2900)),
            ("s.txt", "1,900", "`1000`", "`1009`"),
            ("unknown: skip",),
        ),
        (b"from,to\n12,13\n", ("s.txt", "from", "to"), ()),
    ],
    ids=["a name", "negative", "5,000 digits", "twice", "empty", "bytes", "1,900 unknown", "two columns"],
)
def test_files_of_sources_that_cannot_be_used(folder, content, says, hints):
    (folder / "s.txt").write_bytes(content)
    road_with(folder, sources={"file": "s.txt"})
    message, hint = told(in_process("run", "workflow.yaml"))
    for fragment in says:
        assert fragment in message
    for fragment in hints:
        assert fragment in hint


def test_unknown_sources_can_be_skipped(folder):
    (folder / "s.txt").write_bytes(b"12\n1000\n10\n1001\n")
    road_with(folder, sources={"file": "s.txt", "unknown": "skip"})
    result = command("run", "workflow.yaml")
    assert result.returncode == 0, result.stderr.decode()
    assert record_of(folder)["sources"] == 2
    assert "2 " in result.stderr.decode()
    assert "`1000`" in result.stderr.decode()


def test_sources_that_are_all_unknown_cannot_be_skipped(folder):
    (folder / "s.txt").write_bytes(b"1000\n1001\n")
    road_with(folder, sources={"file": "s.txt", "unknown": "skip"})
    assert "s.txt" in told(command("run", "workflow.yaml"))[0]


def test_sources_with_leading_zeros(folder):
    (folder / "stops.csv").write_bytes(csv([("007", "7", "5"), ("7", "010", "6")]))
    (folder / "s.csv").write_bytes(b"source\n007\n")
    workflow_file(folder, {"input": "stops.csv"}, sources={"file": "s.csv"})
    result = command("run", "workflow.yaml")
    assert result.returncode == 0, result.stderr.decode()
    assert {row["source"] for row in run_distances(folder) if "source" in row} <= {"007"}
