"""What shells are told of the rest of a command."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from sssp_pipeline.cli import app
from sssp_pipeline.commands import shell_completion

COMMAND = [sys.executable, "-m", "sssp_pipeline.cli"]
VARIABLE = "_SSSP_PIPELINE_COMPLETE"


def asked(shell: str, *words: str) -> dict[str, str]:
    """Return the variables by which `shell` asks for completions of the last of `words`."""
    line = ["sssp-pipeline", *words]
    if shell == "bash":
        cut = [part for word in line for part in _as_bash_cuts(word)]
        more = {"COMP_WORDS": "\n".join(cut), "COMP_CWORD": str(len(cut) - 1)}
    else:
        more = {"_TYPER_COMPLETE_ARGS": " ".join(line), "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    return {VARIABLE: f"complete_{shell}", **more}


def _as_bash_cuts(word: str) -> list[str]:
    before, equals, after = word.partition("=")
    return [before, "=", after] if after else [before, "="] if equals else [word]


def test_shells_complete_commands_options_solvers_and_formats(monkeypatch):
    def complete(*words: str) -> list[str]:
        for name, value in asked(*words).items():
            monkeypatch.setenv(name, value)
        return shell_completion.answer(app, "sssp-pipeline").split()

    assert complete("bash", "run", "--save") == ["--save-workflow"]
    assert complete("bash", "run", "w.yaml", "--set", "graph.form") == ["graph.format="]
    # Bash has the word up to `=` already.
    assert complete("bash", "run", "w.yaml", "--set", "solve.solver=dij") == ["dijkstra"]
    assert "metis" in complete("bash", "run", "w.yaml", "--set", "graph.format=")
    assert complete("bash", "run", "w.yaml", "--set", "a=1", "--set", "output.layout=w") == ["wide"]
    assert complete("fish", "run", "w.yaml", "--set", "solve.solver=dij") == ["solve.solver=dijkstra"]
    assert '"solve.solver=dijkstra"' in complete("zsh", "run", "w.yaml", "--set", "solve.solver=dij")[-1]
    assert complete("bash", "run", "w.yaml", "--set", "no.such.key=") == []


@pytest.mark.medium
def test_the_command_answers_the_shell():
    done = subprocess.run(
        COMMAND,
        env=os.environ | asked("bash", "insp"),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "inspect\n"


def test_completion_is_installed_without_a_shell_in_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("SHELL", raising=False)
    for shell, place in (
        ("bash", ".bash_completions"),
        ("zsh", ".zfunc"),
        ("fish", ".config/fish/completions"),
    ):
        home = tmp_path / shell
        home.mkdir()
        monkeypatch.setenv("HOME", str(home))
        shown = CliRunner().invoke(app, ["--show-completion", shell])
        assert VARIABLE in shown.stdout, shown.stderr
        done = CliRunner().invoke(app, ["--install-completion", shell])
        assert done.exit_code == 0, done.stderr
        (installed,) = [path for path in (home / place).iterdir() if path.is_file()]
        assert installed.read_text().strip() == shown.stdout.strip()
        assert str(installed) in done.stdout
    monkeypatch.setenv("HOME", "/proc/nowhere")
    done = CliRunner().invoke(app, ["--install-completion", "fish"])
    assert done.exit_code == 2
    assert "--show-completion fish" in done.stderr
