"""What shells are told of the rest of a command."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

COMMAND = [sys.executable, "-m", "sssp_pipeline.cli"]


def complete(shell: str, *words: str) -> list[str]:
    """Return what `shell` is told after `words`, the last of which is not complete."""
    environment = {**os.environ, "_SSSP_PIPELINE_COMPLETE": f"complete_{shell}"}
    line = ["sssp-pipeline", *words]
    if shell == "bash":
        cut = [part for word in line for part in _as_bash_cuts(word)]
        environment |= {"COMP_WORDS": "\n".join(cut), "COMP_CWORD": str(len(cut) - 1)}
    else:
        environment |= {"_TYPER_COMPLETE_ARGS": " ".join(line), "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    done = subprocess.run(COMMAND, env=environment, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.split()


def _as_bash_cuts(word: str) -> list[str]:
    before, equals, after = word.partition("=")
    return [before, "=", after] if after else [before, "="] if equals else [word]


@pytest.mark.medium
def test_shells_complete_commands_options_solvers_and_formats():
    assert complete("bash", "insp") == ["inspect"]
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
def test_completion_is_installed_without_a_shell_in_the_environment(tmp_path):
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    for shell, place in (
        ("bash", ".bash_completions"),
        ("zsh", ".zfunc"),
        ("fish", ".config/fish/completions"),
    ):
        home = tmp_path / shell
        home.mkdir()
        environment = {**kept, "HOME": str(home)}

        def called(*words, environment=environment):
            return subprocess.run(
                [*COMMAND, *words], env=environment, capture_output=True, text=True, timeout=60, check=False
            )

        shown = called("--show-completion", shell)
        assert "_SSSP_PIPELINE_COMPLETE" in shown.stdout, shown.stderr
        done = called("--install-completion", shell)
        assert done.returncode == 0, done.stderr
        (installed,) = [path for path in (home / place).iterdir() if path.is_file()]
        assert installed.read_text().strip() == shown.stdout.strip()
        assert str(installed) in done.stdout
    environment["HOME"] = "/proc/nowhere"
    done = called("--install-completion", "fish", environment=environment)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "--show-completion fish" in done.stderr
