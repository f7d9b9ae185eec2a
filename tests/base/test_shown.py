"""Text from outside has no effect on a terminal, and printed commands work for every name of a folder."""

import contextlib
import io
import json
import shlex
import subprocess
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from sssp_pipeline.base.shown import line_as_text, lines_as_text, shell_word
from sssp_pipeline.cli import app
from sssp_pipeline.commands.console import TextConsole
from sssp_pipeline.commands.tables import table

#: Colours, the title of a window, the bell, C1 controls, bidirectional text, separators, and a carriage return.
HOSTILE = "a\x1b[31mb\x1b]0;x\x07\x9b1m\u202e\u2066\u2028\r\x7f"


def test_control_characters_are_shown_as_text():
    assert line_as_text(HOSTILE + "\n") == (r"a\x1b[31mb\x1b]0;x\x07\x9b1m\u202e\u2066\u2028\r\x7f" + "\\n")
    assert lines_as_text("a\nb\tc é 道 🛣") == "a\nb\\tc é 道 🛣"


def test_messages_tables_and_answers_show_text():
    stream = io.StringIO()
    console = TextConsole(stream)
    console.say(f"one {HOSTILE}\nerror: forged")
    console.failed(f"two {HOSTILE}", f"three {HOSTILE}", 2)
    shown = stream.getvalue() + table({"id": HOSTILE + "\nforged  x"})
    assert not set(shown) - {"\n"} & set(HOSTILE) - set("a[31mb]0;x1m")
    assert "\nerror: forged" not in shown
    assert "\nforged" not in shown


@pytest.mark.medium
def test_ids_of_an_input_reach_no_terminal(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "x\x1b[31m\u202e"
    pq.write_table(pa.table({"from": [name, "b"], "to": ["b", "c"], "w": [1, 2]}), "edges.parquet")
    ran = CliRunner().invoke(app, ["run", "edges.parquet", "--from", name, "--out", "run"])
    path = CliRunner().invoke(app, ["path", "run", "--from", name, "--to", "c"])
    missing = CliRunner().invoke(app, ["path", "run", "--from", name + "!", "--to", "c"])
    assert (ran.exit_code, path.exit_code, missing.exit_code) == (0, 0, 2)
    for result in (ran, path, missing):
        assert "\x1b" not in result.output
        assert "\u202e" not in result.output
    assert r"x\x1b[31m\u202e -> b -> c" in path.output
    as_json = CliRunner().invoke(app, ["path", "run", "--from", name, "--to", "c", "--json"])
    assert json.loads(as_json.stdout)["ids"] == [name, "b", "c"]


FOLDERS = [
    *("plain", "a b", "a'b", 'a"b', "a$HOME", "a\\b", "a*b", "a?b", "a[b]c", "a]b", "~x", "-a", "a!b", "a`b"),
    *("a;b", "a&b", "a|b", "source=5", "a%b", "#x", "a\tb", "a\nb", "a\x1bb", "a\u202eb", "a''\"\"\\'b"),
]


@pytest.mark.medium
def test_the_printed_query_works_in_a_shell(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/duckdb"
    program.write_text('#!/bin/sh\n[ "$1" = -c ] && printf "%s\\0%s" "$PWD" "$2"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    Path("edges.csv").write_text("from,to,w\n1,2,2\n1,3,4\n")
    for folder in FOLDERS:
        words = ["run", "edges.csv", "--from", "1", f"--out={folder}", "--set", "graph.store=store"]
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, (folder, result.output)
        query = next(line for line in result.stdout.splitlines() if line.startswith("query: "))
        command = ["sh", "-c", query.removeprefix("query: ")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        place, _, asked = done.stdout.partition("\0")
        with contextlib.chdir(place):
            assert duckdb.sql(asked).fetchall() == [(1, 2.0)], (folder, query, done.stderr)


def test_a_word_of_a_shell_command():
    assert shell_word("SELECT 'x'") == "\"SELECT 'x'\""
    for word in ("a b", "it's $HOME", "`x`", 'a"b', "a\\'b", "!x'", ""):
        assert shlex.split(shell_word(word)) == [word]
