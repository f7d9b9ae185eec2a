"""Completion of the command line in bash, zsh and fish.

Typer completes commands, options and choices. Here are the values of `--set`, and what makes them work in bash.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

import typer.completion

from sssp_pipeline.errors import InputError

#: Typer gives no types for what of it is used here.
_typer: Any = typer.completion


def script(shell: str, program: str) -> str:
    """Return the lines that make `shell` complete `program`."""
    lines: str = _typer.get_completion_script(prog_name=program, complete_var=_variable(program), shell=shell)
    # Bash would put a space after `--set solve.solver=`.
    no_space = "    [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace\n    return 0"
    return lines.replace("    return 0", no_space) if shell == "bash" else lines


def install(shell: str, program: str) -> str:
    """Add these lines to the files that `shell` reads when it starts; return what was done, for a person.

    Raises
    ------
    InputError
        The files cannot be written.
    """
    try:
        _, path = _typer.install(shell=shell, prog_name=program, complete_var=_variable(program))
        path = Path(path)
        if shell == "bash":
            path.write_text(script(shell, program) + "\n", encoding="utf-8")
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home folder
        raise InputError(
            f"completion cannot be installed for {shell}: {error}",
            hint=f"`{program} --show-completion {shell}` prints the lines to put where {shell} reads them",
        ) from error
    return f"installed {path}; it is read when {shell} starts again"


def _variable(program: str) -> str:
    return f"_{program.replace('-', '_').upper()}_COMPLETE"


def answer(app: Callable[..., Any], program: str) -> str:
    """Return how a command line goes on, as the shell wants it that asks by the variables of Typer's lines."""
    _typer.completion_init()
    before = _join_words()
    answered = io.StringIO()
    with redirect_stdout(answered), suppress(SystemExit):
        app(prog_name=program)
    return "\n".join(line.removeprefix(before) for line in answered.getvalue().splitlines())


def _join_words() -> str:
    """Join the words that bash cut at `=`; return the part that bash has typed already.

    Bash would have `--set solve.solver=dij` be four words, and wants to be told how the last one goes on.
    """
    words, current = os.environ.get("COMP_WORDS", "").split("\n"), int(os.environ.get("COMP_CWORD", 0))
    joined: list[str] = []
    for i, word in enumerate(words[: current + 1]):
        if i > 0 and joined and (word == "=" or words[i - 1] == "="):
            joined[-1] += word
        else:
            joined.append(word)
    if len(joined) > current:
        return ""
    os.environ["COMP_WORDS"], os.environ["COMP_CWORD"] = "\n".join(joined), str(len(joined) - 1)
    return joined[-1].rpartition("=")[0] + "=" if "=" in words[max(0, current - 1) : current + 1] else ""


def overrides(incomplete: str) -> list[str]:
    """Return the completions of `--set`: keys of the workflow, and the values that a key allows."""
    from sssp_pipeline.kernels import SOLVERS
    from sssp_pipeline.workflow.schema import choices, schema_at, whole

    key, equals, _ = incomplete.partition("=")
    if not equals:
        return [f"{name}=" for name in _keys(whole(), "")]
    try:
        names = choices(schema_at(tuple(key.split("."))))
    except (KeyError, IndexError, StopIteration):
        return []
    if key == "solve.solver":
        names = ["auto", *sorted(SOLVERS)]
    return [f"{key}={name}" for name in names]


def _keys(part: dict[str, Any], prefix: str) -> list[str]:
    """Return the dotted keys of all values below a section."""
    from sssp_pipeline.workflow.schema import properties

    found: list[str] = []
    for name, inner in properties(part).items():
        found += _keys(inner, f"{prefix}{name}.") or [prefix + name]
    return found
