"""Options that several commands share, and the command line as it was typed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from sssp_pipeline.console import LogFormat
from sssp_pipeline.errors import InputError


def _completions(incomplete: str) -> list[str]:
    from sssp_pipeline.completion import overrides

    return overrides(incomplete)


Inputs = Annotated[
    list[str],
    typer.Argument(
        metavar="WORKFLOW|EDGES…",
        help="A workflow file, whose name ends in .yaml or .yml; or edge lists, with --from. `-` and pipes are a "
        "workflow file without --from, and an edge list with it.",
    ),
]
From = Annotated[
    list[str],
    typer.Option(
        "--from",
        metavar="SOURCES",
        help="The sources, for edge lists: an id (may be repeated), a file of ids, `all`, `random:64`, "
        "`top-degree:10`, or `points:FILE` for a file of longitudes and latitudes. `id:17` is always an id and "
        "`file:17` always a file.",
    ),
]
To = Annotated[
    list[str],
    typer.Option(
        "--to",
        metavar="TARGETS",
        help="The targets, in the same forms as --from. The default is every vertex.",
    ),
]
Out = Annotated[
    str | None, typer.Option("--out", metavar="FOLDER", help="Folder or URL of the results, for edge lists.")
]
SaveWorkflow = Annotated[
    Path | None,
    typer.Option(
        "--save-workflow",
        metavar="FILE",
        help="Also write a workflow file for the same run. FILE must not exist.",
    ),
]
Overrides = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Replace a value of the workflow: solve.delta=500.",
        autocompletion=_completions,
    ),
]
Overwrite = Annotated[
    bool,
    typer.Option(
        "--overwrite", help="First remove the earlier run from the output folder. Other files stay."
    ),
]
Run = Annotated[str, typer.Argument(metavar="RUN", help="Folder (output.path) of a finished run.")]
MovedStore = Annotated[
    str | None, typer.Option("--store", help="Graph store, when it is not where the run found it.")
]
Coordinates = Annotated[
    Literal["auto", "degrees", "microdegrees"],
    typer.Option(
        metavar="auto|degrees|microdegrees",
        help="Unit of the coordinates of the graph. `auto` takes the one that fits the numbers.",
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print JSON on standard output, for programs. Errors are JSON too.")
]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Show errors only.")]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Show more, such as how solvers compare.")]
Log = Annotated[
    LogFormat,
    typer.Option(
        "--log-format",
        metavar="text|json",
        envvar="SSSP_LOG_FORMAT",
        help="Format of standard error: text, or one JSON object per line. SSSP_LOG_FORMAT sets it too.",
    ),
]

#: Options that are done once the run has begun, and the number of their values. A command that continues lacks them.
_DONE_ONCE = {"--save-workflow": 1, "--overwrite": 0}


def resume_command(program: str, words: Sequence[str], more: Sequence[str]) -> str:
    """Return the shell command that continues a run: the typed `words` without options of one time, and `more`."""
    kept: list[str] = []
    n_values = 0
    for word in words:
        option, equals, _ = word.partition("=")
        if n_values:
            n_values -= 1
        elif option in _DONE_ONCE:
            n_values = 0 if equals else _DONE_ONCE[option]
        else:
            kept.append(word)
    return shlex.join([program, *kept, *more])


def check_words(words: Sequence[str]) -> None:
    """Raise `InputError` for a word that is not UTF-8: no file of this name could be opened."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            escaped = word.encode(errors="backslashreplace").decode()
            raise InputError(
                f"`{escaped}` is not UTF-8 in this locale", hint="use a UTF-8 locale: `export LC_ALL=C.UTF-8`"
            ) from None
