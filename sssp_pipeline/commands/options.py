"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from sssp_pipeline.commands.console import LogFormat


def _completions(incomplete: str) -> list[str]:
    from sssp_pipeline.commands.shell_completion import overrides

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
