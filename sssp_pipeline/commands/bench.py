"""The commands that measure solvers: `bench run` and `bench report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sssp_pipeline.commands.options import Log
from sssp_pipeline.commands.session import print_answer, reporting


def run(
    file: Annotated[str, typer.Argument(metavar="BENCH", help="Path or URL of the bench file.")],
    output: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder of the lines and of the graph stores.")
    ] = Path("bench"),
    graphs: Annotated[
        list[str], typer.Option("--graph", metavar="NAME", help="Take only this graph; may be repeated.")
    ] = [],  # noqa: B006
    overrides: Annotated[
        list[str],
        typer.Option("--set", metavar="KEY=VALUE", help="Replace a value of the bench file: runs=3."),
    ] = [],  # noqa: B006
    again: Annotated[bool, typer.Option("--again", help="Measure what is measured already, too.")] = False,
    prepare: Annotated[
        bool, typer.Option("--prepare", help="Read or make the graphs, store them, and stop there.")
    ] = False,
    log: Log = "text",
) -> None:
    """Check and time every solver on every graph. A second run continues where the first one stopped."""
    with reporting(log) as progress:
        from sssp_pipeline.bench.matrix import run_bench
        from sssp_pipeline.bench.variants import load_bench

        spec = load_bench(file, overrides)
        progress.about(run=str(output), name=spec.name)
        written = run_bench(spec, output, progress, graphs=graphs, again=again, prepare_only=prepare)
        print_answer(str(written))


def report(
    lines: Annotated[list[str], typer.Argument(metavar="LINES…", help="Files that `bench run` wrote.")],
    output: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder of the page, its tables and its figures.")
    ],
    baseline: Annotated[
        str | None, typer.Option(metavar="VARIANT", help="Over which speed-ups are given.")
    ] = None,
    subject: Annotated[
        str | None, typer.Option(metavar="VARIANT", help="Which is compared with each other one.")
    ] = None,
    log: Log = "text",
) -> None:
    """Make tables and figures like those of the papers from lines: a Markdown page, CSV and, with matplotlib, SVG."""
    with reporting(log) as progress:
        from sssp_pipeline.bench.report import write_report

        written = write_report(lines, output, progress, baseline=baseline, subject=subject)
        print_answer(str(written))
