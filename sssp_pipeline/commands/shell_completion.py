"""Completion of the command line in bash, zsh and fish.

Typer completes commands, options and choices. This module adds the values of `--set`, and what bash needs for them.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

import typer.completion

from sssp_pipeline.base.errors import InputError

#: Typer has no types for these functions.
_typer: Any = typer.completion


def script(shell: str, program: str) -> str:
    """Return the shell lines that set up completion of `program`."""
    lines: str = _typer.get_completion_script(prog_name=program, complete_var=_variable(program), shell=shell)
    # Otherwise bash adds a space after `--set solve.solver=`.
    no_space = "    [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace\n    return 0"
    return lines.replace("    return 0", no_space) if shell == "bash" else lines


def install(shell: str, program: str) -> str:
    """Add the lines of `script` to the start-up files of `shell`; return a message about it.

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
    except (OSError, RuntimeError) as error:  # RuntimeError means that there is no home folder
        raise InputError(
            f"completion cannot be installed for {shell}: {error}",
            hint=f"`{program} --show-completion {shell}` prints the lines to put where {shell} reads them",
        ) from error
    return f"installed {path}; it is read when {shell} starts again"


def _variable(program: str) -> str:
    return f"_{program.replace('-', '_').upper()}_COMPLETE"


def answer(app: Callable[..., Any], program: str) -> str:
    """Return the completions that the shell requests through the environment variables of `script`."""
    _typer.completion_init()
    before = _join_words()
    output = io.StringIO()
    with redirect_stdout(output), suppress(SystemExit):
        app(prog_name=program)
    return "\n".join(line.removeprefix(before) for line in output.getvalue().splitlines())


def _join_words() -> str:
    """Join the words that bash split at `=`; return the part of the last word before its completion.

    Bash splits `--set solve.solver=dij` into four words and expects completions of the last one.
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
    """Return the completions of `--set`: keys of the workflow, or the values of a key."""
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
    """Return the keys of all values in the section `part`, with dots."""
    from sssp_pipeline.workflow.schema import properties

    found: list[str] = []
    for name, inner in properties(part).items():
        found += _keys(inner, f"{prefix}{name}.") or [prefix + name]
    return found
