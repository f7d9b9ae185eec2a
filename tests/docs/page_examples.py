"""Runs the examples of a Markdown page, one after the other, in one folder that starts with a copy of `workflows/`.

What is done with a fenced block depends on its language and on its first line:

- The first line is `# NAME.EXT` and nothing else: the block is written to that file. This holds for every language.
- ``console``: lines that begin with `$ ` are commands for bash, the lines below are what a terminal shows then. A
  command must succeed, unless the page shows an `error:`.
- ``python``: the blocks of a page share their names. The comment behind an expression, or on the lines below it, is its
  value, or what it prints.
- ``sql``: DuckDB runs each statement, which must find at least one row.
- ``yaml``: sections of a workflow. A workflow with this section, and else the least that it needs, must load.
- ``text``: is shown, not run.

The line `<!-- not run: REASON -->` before a block says why it is not run; such commands are ``sh``, without `$ `, to be
copied. `…` stands for what the page leaves out: alone on a line for any lines, within a line for any text.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib.util
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

import duckdb

from sssp_pipeline.workflow.yaml_file import load_workflow

_spec = importlib.util.spec_from_file_location("terminal", Path(__file__).parents[1] / "terminal.py")
_terminal = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_terminal)
_spec = importlib.util.spec_from_file_location("entry_points", Path(__file__).parents[1] / "entry_points.py")
_entry_points = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_entry_points)

ROOT = Path(__file__).parents[2]

#: What differs from run to run or from machine to machine. A page shows it as it once was.
VARIES = [
    (r"^compiling, once: .*\n", ""),  # only the first run on a machine says so
    (r'"time": "[^"]+"', '"time": TIME'),
    (r'("\w+_s"): [\d.e-]+', r"\1: SECONDS"),
    (r'"bytes": \d+', '"bytes": BYTES'),  # metrics hold times, and so have not always the same size
    (r'"worker": "[^"]+"', '"worker": WORKER'),
    (r"(under |about )?\b[\d.,]+ (ms|s|min|milli-seconds)\b", "TIME"),
    (r"\b[\d.,]+/s\b", "RATE"),
    (r"\b(CPU|GPU) \[[^\]]+\]", "DEVICE"),
    (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S*", "DATE"),
    (r" +$", ""),
    (r" {2,}", "  "),  # columns are as wide as what varies in them
]

#: The least that a workflow needs.
SECTIONS = {
    "graph": "graph: {input: edges.txt}",
    "sources": "sources: {ids: [0]}",
    "output": "output: {path: results}",
}

#: Seconds after which a command of a page is ended.
TIME_LIMIT_S = 120


@dataclass(frozen=True)
class Block:
    """A fenced block; `where` is its page and line, `not_run` the reason that the page gives."""

    where: str
    language: str
    text: str
    not_run: str | None

    @property
    def file_name(self) -> str | None:
        """The file that the block is, if its first line names one."""
        named = re.fullmatch(r"# ([\w./-]+\.\w+)", self.text.partition("\n")[0])
        return named and named[1]


def blocks_of(page: Path) -> list[Block]:
    """Return the fenced blocks of a page in their order, without the indentation of lists."""
    text = page.read_text(encoding="utf-8")
    fence = re.compile(
        r"(?:<!-- not run: (?P<reason>[^\n]+) -->\n)?"
        r"^(?P<indent> *)```(?P<language>[^\n]*)\n(?P<body>.*?)^(?P=indent)```$",
        re.MULTILINE | re.DOTALL,
    )
    return [
        Block(
            f"{page.name} line {text.count(chr(10), 0, found.start('indent')) + 1}",
            found["language"],
            textwrap.dedent(found["body"]),
            found["reason"],
        )
        for found in fence.finditer(text)
    ]


class Examples:
    """Runs blocks in `folder`, an empty one.

    Every method that runs something raises `AssertionError`, with page and line, where it is not as the page says.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        #: The process that runs the Python blocks, and what it writes to standard error.
        self._python: subprocess.Popen[bytes] | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # until `close`
        shutil.copytree(ROOT / "workflows", folder / "workflows")
        self._environment = _environment(folder.with_name(f"{folder.name}-commands"))

    def run(self, block: Block) -> None:
        """Do with a block what its language says."""
        if block.not_run is not None:
            return
        if name := block.file_name:
            (self._folder / name).write_text(block.text, encoding="utf-8")
            return
        kinds = {
            "console": self._console,
            "python": self._python_block,
            "sql": self._sql,
            "yaml": self._yaml,
            "text": lambda block: None,
        }
        assert block.language in kinds, f"{block.where}: `{block.language}` is none of {', '.join(kinds)}"
        with contextlib.chdir(self._folder):
            kinds[block.language](block)

    def _console(self, block: Block) -> None:
        before, *sessions = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
        assert not before, f"{block.where}: the first line begins with `$ `, a command"
        for session in sessions:
            command, _, expected = session.partition("\n")
            where = f"{block.where}: {command}"
            exit_code, shown = in_a_terminal(command, self._environment)
            assert_same(where, expected, shown)
            assert (exit_code != 0) == ("error: " in expected), f"{where}\nexit code {exit_code}\n{shown}"

    def _python_block(self, block: Block) -> None:
        if self._python is None:
            self._python = subprocess.Popen(
                [sys.executable, Path(__file__).with_name("run_python.py")],
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
            )
        self._python.stdin.write(json.dumps(block.text).encode() + b"\n")
        self._python.stdin.flush()
        is_done, _, _ = select.select([self._python.stdout], [], [], TIME_LIMIT_S)
        answer = self._python.stdout.readline() if is_done else b""
        self._errors.seek(0)
        assert answer, f"{block.where}\n{self._errors.read().decode()}"
        for code, expected, value in json.loads(answer):
            assert_same(f"{block.where}: {code}", expected, value)

    def close(self) -> None:
        """End the process of the Python blocks."""
        if self._python is not None:
            with self._python:  # closes its pipes and waits for its end
                self._python.kill()
        self._errors.close()

    def _sql(self, block: Block) -> None:
        with duckdb.connect() as connection:
            for statement in connection.extract_statements(block.text):
                where = f"{block.where}: {statement.query.strip()}"
                try:
                    rows = connection.execute(statement).fetchall()
                except duckdb.Error as error:
                    raise AssertionError(f"{where}\n{error}") from error
                assert rows, f"{where}\nfinds no rows"

    def _yaml(self, block: Block) -> None:
        for section in re.split(r"^(?=\w)", block.text, flags=re.MULTILINE):
            key, colon, _ = section.partition(":")
            if not colon:
                continue
            workflow = Path("section-of-a-page.yaml")
            workflow.write_text("\n".join((SECTIONS | {key: section}).values()), encoding="utf-8")
            try:
                load_workflow(str(workflow))
            except Exception as error:
                raise AssertionError(f"{block.where}: {section}\n{error}") from error


def _environment(commands: Path) -> dict[str, str]:
    """Return an environment whose `sssp-pipeline`, `python` and `duckdb` are those of this interpreter."""
    programs = {
        # A worker process imports the program again, which must not start it again.
        "sssp-pipeline": "from sssp_pipeline.cli import main\nif __name__ == '__main__':\n    main()",
        # DuckDB's command line is no Python package. The package answers the same queries.
        "duckdb": "import sys, duckdb\nassert sys.argv[1] == '-c', sys.argv\nduckdb.sql(sys.argv[2]).show()",
    }
    commands.mkdir()
    for name, code in programs.items():
        (commands / name).write_text(f"#!{sys.executable}\n{code}\n", encoding="utf-8")
        (commands / name).chmod(0o755)
    _entry_points.install_entry_points(site := commands.with_name(f"{commands.name}-site"))
    kept = {name: value for name, value in os.environ.items() if name != "SSSP_LOG_FORMAT"}
    return kept | {
        "PATH": os.pathsep.join([str(commands), str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join([str(site), str(ROOT)]),
        "TERM": "xterm",
        "COLUMNS": "100",
    }


def in_a_terminal(command: str, environment: dict[str, str]) -> tuple[int, str]:
    """Return the exit code of a command for bash, and what a terminal shows of it when it has ended."""
    ours, theirs = pty.openpty()
    chunks = []
    with subprocess.Popen(
        ["bash", "-c", command],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    ) as process:
        os.close(theirs)
        ends = time.monotonic() + TIME_LIMIT_S
        # Reading fails once every process has closed the other side.
        with contextlib.suppress(OSError):
            while select.select([ours], [], [], max(0.0, ends - time.monotonic()))[0]:
                chunks.append(os.read(ours, 1 << 16))
        os.close(ours)
        if time.monotonic() >= ends:
            os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, "\n".join(_terminal.screen(b"".join(chunks).decode()))


def assert_same(where: str, expected: str, shown: str) -> None:
    """Raise `AssertionError` unless `shown` is what a page expects, but for what varies and for `…`."""
    expected, shown = _settled(expected), _settled(shown)
    pattern = "".join(
        r"(?:.*\n)*?" if line == "…\n" else re.escape(line).replace("…", ".*")
        for line in expected.splitlines(keepends=True)
    )
    difference = "\n".join(difflib.ndiff(expected.splitlines(), shown.splitlines()))
    assert re.fullmatch(pattern, shown), f"{where}\nis not as the page says (- page, + here):\n{difference}"


def _settled(text: str) -> str:
    for pattern, stand_in in VARIES:
        text = re.sub(pattern, stand_in, text, flags=re.MULTILINE)
    return text.strip() + "\n"
