"""Secrets are planted wherever a run takes one, and looked for in whatever a command prints or writes."""

from __future__ import annotations

import io
import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.cli import app
from sssp_pipeline.commands.console import TextConsole
from sssp_pipeline.workflow.models import Workflow
from sssp_pipeline.workflow.schema import properties, schema_at
from sssp_pipeline.workflow.yaml_file import load_workflow

#: The beginning of every secret that is planted here.
PLANTED = "planted0secret"
FILES = {
    "edges.gr": b"p sp 4 3\na 1 2 5\na 2 3 6\na 3 4 7\n",
    "edges.co": b"p aux sp co 4\nv 1 1 1\nv 2 2 2\nv 3 3 3\nv 4 4 4\n",
    "edges.txt": b"1 2 5\n2 3 6\n",
    "sources.txt": b"1\n2\n",
    "targets.txt": b"3\n4\n",
    "broken.txt": b"1 2 5\n2 x 6\n",
    "other.txt": b"77\n",
}


class Server(BaseHTTPRequestHandler):
    """Serves `FILES` by their last names, whatever the rest of the URL is."""

    def do_GET(self) -> None:
        content = FILES.get(self.path.partition("?")[0].rpartition("/")[2])
        if content is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", '"1"')
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """Make a folder the current one, and plant secrets in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in ("AWS_SECRET_ACCESS_KEY", "STORE_KEY", "GITHUB_PAT", "SESSION_TOKEN", "AZURE_STORAGE_KEY"):
        monkeypatch.setenv(name, f"{PLANTED}-{name.lower()}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "planted")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    return tmp_path


def signed(host: str, name: str, number: int) -> str:
    """Return a URL with secrets as user, password, part of the path, and signature."""
    user = f"{PLANTED}-user-{number}:{PLANTED}-password-{number}"
    return f"http://{user}@{host}/${{STORE_KEY}}/{name}?signature={PLANTED}-signature-{number}"


def write(name: str, data: dict) -> str:
    Path(name).write_text(yaml.safe_dump(data))
    return name


def told(caplog, *words: str) -> tuple[int, str]:
    """Return the exit code of a command and all that it prints and logs, after a search for what was planted."""
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="sssp_pipeline"):
        result = CliRunner().invoke(app, list(words))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    everything = result.stdout + result.stderr + "".join(caplog.messages)
    assert PLANTED not in everything, everything
    return result.exit_code, everything


def searched(folder: Path, *given: str) -> int:
    """Return how many files there are below `folder` beside those `given`, after a search of each of them."""
    found = [path for path in folder.rglob("*") if path.is_file() and path.name not in given]
    for path in found:
        assert PLANTED.encode() not in path.read_bytes(), path
        assert PLANTED not in str(path)
    return len(found)


@pytest.mark.medium
def test_a_run_and_all_that_looks_at_it_show_no_secret(folder, host, caplog):
    file = write(
        "w.yaml",
        {
            "name": "road ${GITHUB_PAT}",
            "graph": {
                "input": signed(host, "edges.gr", 1),
                "coordinates": signed(host, "edges.co", 2),
                "weights": {"unit": "${AZURE_STORAGE_KEY}"},
                "store": "store",
            },
            "sources": {"file": signed(host, "sources.txt", 3)},
            "output": {"path": "run", "targets": {"file": signed(host, "targets.txt", 4)}},
        },
    )
    inline = f"http://ada:{PLANTED}@{host}/edges.gr?signature={PLANTED}"
    for words in (
        ("plan", file, "--json", "-v"),
        ("ingest", file, "--json"),
        ("run", file, "-v"),
        ("run", file, "--log-format", "json"),
        ("run", file, "--json", "--overwrite"),
        ("verify", "run", "--json"),
        ("inspect", "run"),
        ("inspect", "run", "--json"),
        ("inspect", "store"),
        ("inspect", "store", "--json"),
        ("inspect", inline),
        ("inspect", inline, "--json"),
        ("run", inline, "--from", "1", "--out", "second"),
        ("run", file, "--set", "output.path=third", "--set", "solve.solver=dijkstra"),
        ("solve", file, "--set", "output.path=fourth"),
        ("doctor",),
        ("solvers", "--json"),
    ):
        code, _ = told(caplog, *words)
        assert code == 0 or words == ("doctor",), words
    assert searched(folder, "w.yaml") > 15


def test_a_workflow_is_saved_with_the_names_of_what_came_from_the_environment(folder, host, caplog):
    url = f"http://${{GITHUB_PAT}}:${{STORE_KEY}}@{host}/${{SESSION_TOKEN}}/edges.gr?signature=${{STORE_KEY}}"
    words = ("--set", f"graph.input={url}", "--from", "1", "--out", "run", "--save-workflow", "saved.yaml")
    assert told(caplog, "run", f"http://{host}/edges.gr", *words)[0] == 0
    assert url in Path("saved.yaml").read_text()
    assert searched(folder) > 5
    assert told(caplog, "run", "saved.yaml")[0] == 0


def test_a_workflow_is_not_saved_with_a_secret_in_it(folder, host, caplog):
    url = f"http://ada:{PLANTED}@{host}/edges.gr"
    code, said = told(caplog, "run", url, "--from", "1", "--out", "run", "--save-workflow", "saved.yaml")
    assert code == 2
    what = f"`graph.input` is `http://{host}/edges.gr` with a secret"
    assert f"error: {what}, and secrets do not belong into a file" in said
    assert "--set 'graph.input=${NAME}'" in said
    assert searched(folder) == 0


def test_a_command_with_a_secret_is_not_shown_to_be_repeated():
    stream = io.StringIO()
    TextConsole(stream).interrupted("sssp-pipeline run w.yaml", 130)
    assert stream.getvalue().endswith("To go on:\n\n    sssp-pipeline run w.yaml\n")
    TextConsole(stream).interrupted(f"sssp-pipeline run 'http://ada:{PLANTED}@host/x' --from 1", 130)
    assert stream.getvalue().endswith("To go on, run the same command again\n")


ODD = (
    f"S3://{PLANTED}:{PLANTED}@bucket/x",
    f"s3://{PLANTED}:{PLANTED}/{PLANTED}@bucket/x",
    f"s3://{PLANTED}:{PLANTED}@bucket/x",
    f"HTTP://{PLANTED}:{PLANTED}@127.0.0.1:9/x?signature={PLANTED}",
    f"http://{PLANTED}@127.0.0.1:9/x?signature={PLANTED}#{PLANTED}",
    f"abfs://container@account/x?sig={PLANTED}",
    f"zip://a::https://{PLANTED}:{PLANTED}@host/x?signature={PLANTED}",
    f"gopher://{PLANTED}:{PLANTED}@host/x",
    f"{PLANTED}:{PLANTED}@host:/x",
    f"{PLANTED}:{PLANTED}/{PLANTED}@host:x.csv",
    f"//{PLANTED}:{PLANTED}@host/x",
    "http://127.0.0.1:9/${SESSION_TOKEN}/x",
    "http://{host}/${SESSION_TOKEN}/missing.txt",
    "http://{host}/${SESSION_TOKEN}/broken.txt?signature=" + PLANTED,
)
KEYS = (
    *("graph.input", "graph.coordinates", "graph.store"),
    *("sources.file", "output.targets.file", "output.path", "cluster.address"),
)


@pytest.mark.medium
@pytest.mark.parametrize("url", ODD)
def test_no_error_about_a_url_shows_its_secrets(folder, host, caplog, url):
    url = url.replace("{host}", host)
    Path("edges.txt").write_bytes(FILES["edges.txt"])
    least = {"graph": {"input": "edges.txt"}, "sources": {"file": "sources.txt"}, "output": {"path": "run"}}
    Path("sources.txt").write_text("1\n")
    shown = []
    for key in KEYS:
        options = ["--set", f"{key}={url}"]
        if key == "cluster.address":
            options += ["--set", "cluster.kind=address", "--set", "cluster.wait_s=0"]
        shown.append(told(caplog, "run", write("w.yaml", least), *options)[1])
    for words in (
        *(("run", url), ("run", url, "--from", "1", "--out", "run"), ("verify", url)),
        ("run", "edges.txt", "--from", url, "--to", url, "--out", "run"),
        ("plan", url, "--log-format", "json"),
        *(("bench", "run", url), ("bench", "report", url), ("inspect", url, "--json")),
    ):
        shown.append(told(caplog, *words)[1])
    assert all(shown), "every command says something"
    assert searched(folder) >= 3, "the edges, the sources and the workflow"


def leaves(path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Give the keys of a workflow that are no sections."""
    for key in properties(schema_at(path, Workflow)):
        here = (*path, key)
        if properties(schema_at(here, Workflow)):
            yield from leaves(here)
        yield here


def with_value(path: tuple[str, ...], value: str) -> dict:
    data: dict = {"graph": {"input": "edges.txt"}, "sources": {"ids": [1]}, "output": {"path": "run"}}
    section = data
    for key in path[:-1]:
        section = section.setdefault(key, {})
    if path[0] == "sources":
        data["sources"].pop("ids", None)
    section[path[-1]] = value
    return data


@pytest.mark.parametrize(
    "value", [PLANTED, "4815162342", "-4815162342.5", f"tls://u:{PLANTED}@h", f"[{PLANTED}]"]
)
@pytest.mark.parametrize("quoted", [False, True])
def test_no_fault_of_a_workflow_shows_a_value_of_the_environment(folder, monkeypatch, value, quoted):
    """Whatever its name: `INNOCENT` says nothing of a secret."""
    monkeypatch.setenv("INNOCENT", value)
    messages = {}
    for path in leaves():
        data = with_value(path, "${INNOCENT}")
        if path[:2] == ("graph", "weights") and len(path) == 3:
            data["graph"]["weights"].setdefault("dtype", "uint32")
        if path[0] == "cluster" and len(path) == 2:
            data["cluster"].setdefault("kind", "address")
        text = yaml.safe_dump(data)
        Path("w.yaml").write_text(text.replace("${INNOCENT}", "'${INNOCENT}'") if quoted else text)
        try:
            load_workflow("w.yaml")
        except InputError as error:
            messages[path] = f"{error.message} {error.hint}"
    assert len(messages) > 30
    assert not [path for path, message in messages.items() if value in message]


@pytest.mark.medium
def test_no_error_shows_a_secret_of_the_environment_that_a_key_took(folder, caplog):
    Path("edges.txt").write_bytes(FILES["edges.txt"])
    shown = []
    for path in leaves():
        if path not in (("output", "path"), ("graph", "store")):  # local paths are shown
            shown.append(told(caplog, "run", write("w.yaml", with_value(path, "${STORE_KEY}")), "-v")[1])
    assert all(shown), "every command says something"
    assert searched(folder) >= 2, "the edges and the workflow"
