"""The command line: parse, call, print.

Nothing heavy is imported before a command needs it, so that `--help` is instant and works anywhere.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sssp_pipeline import __version__
from sssp_pipeline.console import Console, LogFormat, console, table
from sssp_pipeline.errors import InputError, SsspError
from sssp_pipeline.pipeline import interrupts
from sssp_pipeline.pipeline.progress import plural

if TYPE_CHECKING:
    from sssp_pipeline.workflow import Workflow

#: What a shell reports for a command ended by Ctrl-C.
EXIT_INTERRUPTED = 130

app = typer.Typer(
    name="sssp-pipeline",
    help="Exact shortest paths from many sources over big graphs: edge lists in, distances in Parquet out.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
bench = typer.Typer(
    help="Measure solvers on graphs, and show what was measured as the papers do.", no_args_is_help=True
)
app.add_typer(bench, name="bench")

WorkflowFile = Annotated[str, typer.Argument(metavar="WORKFLOW", help="Path or URL of the workflow file.")]
Overrides = Annotated[
    list[str],
    typer.Option("--set", metavar="KEY=VALUE", help="Replace a value of the workflow: solve.delta=500."),
]
Overwrite = Annotated[
    bool,
    typer.Option("--overwrite", help="Remove the earlier run from the output folder first, other files not."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output, for programs.")]
Log = Annotated[
    LogFormat,
    typer.Option(
        "--log-format",
        metavar="text|json",
        envvar="SSSP_LOG_FORMAT",
        help="What goes to standard error: text, or a JSON object a line; also set by SSSP_LOG_FORMAT.",
    ),
]


@app.callback(invoke_without_command=True)
def _top(
    version: Annotated[bool, typer.Option("--version", help="Print the release and exit.")] = False,
) -> None:
    if version:
        print(__version__)
        raise typer.Exit


@app.command()
def run(
    workflow: WorkflowFile,
    overrides: Overrides = [],  # noqa: B006
    overwrite: Overwrite = False,
    log: Log = "text",
    as_json: Json = False,
) -> None:
    """Do all of it: ingest, solve, verify, report. Running it again goes on where it stopped."""
    with _told(["run", workflow], log, overrides) as progress:
        from sssp_pipeline.pipeline.run import run as run_pipeline

        folder, record = run_pipeline(_load(workflow, overrides, progress), progress, overwrite=overwrite)
        _show_run(folder.url, record, as_json)


@app.command()
def solve(
    workflow: WorkflowFile,
    overrides: Overrides = [],  # noqa: B006
    overwrite: Overwrite = False,
    log: Log = "text",
    as_json: Json = False,
) -> None:
    """Solve on a graph store that is there already, without verify and report."""
    with _told(["solve", workflow], log, overrides) as progress:
        from sssp_pipeline.pipeline.run import run as run_pipeline

        folder, record = run_pipeline(
            _load(workflow, overrides, progress),
            progress,
            may_ingest=False,
            finish=False,
            overwrite=overwrite,
        )
        _show_run(folder.url, record, as_json)


@app.command()
def ingest(
    workflow: WorkflowFile,
    overrides: Overrides = [],  # noqa: B006
    remove_old_versions: Annotated[
        bool, typer.Option("--remove-old-versions", help="Keep the newest version of the graph alone.")
    ] = False,
    log: Log = "text",
    as_json: Json = False,
) -> None:
    """Turn the workflow's edge lists into a graph store, and stop there."""
    with _told(["ingest", workflow], log, overrides) as progress:
        from sssp_pipeline.pipeline import storage
        from sssp_pipeline.pipeline.run import ingest_stage

        loaded = _load(workflow, overrides, progress)
        stored = ingest_stage(loaded, progress, remove_old_versions=remove_old_versions)
        if as_json:
            print(stored.manifest.model_dump_json())
        else:
            print(storage.redacted(stored.store))


@app.command()
def plan(
    workflow: WorkflowFile,
    overrides: Overrides = [],  # noqa: B006
    probe: Annotated[
        int, typer.Option(min=0, help="Sources to solve for the estimate of time; 0 for none.")
    ] = 2,
    log: Log = "text",
    as_json: Json = False,
) -> None:
    """Tell what a run would do, and about how long it would take; the graph must be ingested."""
    with _told(["plan", workflow], log, overrides) as progress:
        from sssp_pipeline.pipeline.run import outlook

        facts = outlook(_load(workflow, overrides, progress), probe, progress)
        print(json.dumps(facts) if as_json else table(facts))


@app.command()
def verify(
    run_folder: Annotated[str, typer.Argument(metavar="RUN", help="Folder (output.path) of a finished run.")],
    certificate: Annotated[
        bool, typer.Option("--certificate", help="Prove every distance of every source, instead of a sample.")
    ] = False,
    store: Annotated[
        str | None, typer.Option(help="Graph store, when it is not where the run found it.")
    ] = None,
    log: Log = "text",
    as_json: Json = False,
) -> None:
    """Read the distances of a finished run back and prove or refute them; exit code 3 when refuted."""
    with _told(["verify", run_folder], log) as progress:
        from sssp_pipeline.pipeline.finished import verify_run
        from sssp_pipeline.pipeline.results import judged
        from sssp_pipeline.pipeline.storage import redacted

        progress.about(run=redacted(run_folder))
        record = verify_run(run_folder, store, "certificate" if certificate else "sample", progress)
        what = judged(record.get("targets"))
        print(json.dumps(record["verify"]) if as_json else f"every checked {what} is exact")


@app.command()
def inspect(
    url: Annotated[str, typer.Argument(metavar="STORE|RUN", help="A graph store or a run folder.")],
    log: Log = "text",
    as_json: Json = False,
) -> None:
    """Show what is in a graph store or a run folder, and how far an unfinished run is."""
    with _told(["inspect", url], log):
        from sssp_pipeline.pipeline.inspect import describe

        facts = describe(url)
        print(json.dumps(facts) if as_json else table(facts))


@app.command()
def cs515(
    edges: Annotated[str, typer.Option("--input", "-input", help="Path or URL of the edge list.")],
    output: Annotated[str, typer.Option("--output", "-output", help="Where to write the distances.")],
    method: Annotated[
        Literal["bmf", "tpe", "opt"],
        typer.Option(
            "--method",
            "-method",
            metavar="bmf|tpe|opt",
            help="bmf: `bellman-ford`; tpe: `work-efficient`; opt: what `auto` takes, GPU or CPU.",
        ),
    ],
    sync: Annotated[
        Literal["incore", "outcore"] | None,
        typer.Option("--sync", "-sync", metavar="incore|outcore", help="Of bmf and tpe: in-core or not."),
    ] = None,
    block_size: Annotated[
        int | None, typer.Option("--bsize", "-bsize", help="Of bmf and tpe: threads of a block.")
    ] = None,
    block_count: Annotated[
        int | None, typer.Option("--bcount", "-bcount", help="Of bmf and tpe: blocks; else as many as fit.")
    ] = None,
    order: Annotated[
        Literal["source", "destination"] | None,
        typer.Option(metavar="source|destination", help="Of bmf: by which end the edges are ordered."),
    ] = None,
    segment_minimum: Annotated[
        bool, typer.Option("--segment-minimum", help="Of bmf by destination and out-of-core: segmented scan.")
    ] = False,
    source: Annotated[int, typer.Option(min=0, help="Id of the vertex to start from.")] = 0,
    log: Log = "text",
) -> None:
    """Do what the CS 515 assignment asks of its program: solve one source of an edge list and print the two times."""
    given = {
        "--input": edges,
        "--output": output,
        "--method": method,
        "--sync": sync,
        "--bsize": block_size,
        "--bcount": block_count,
        "--order": order,
        "--source": source,
    }
    words = [str(word) for name, value in given.items() if value is not None for word in (name, value)]
    with _told(["cs515", *words, *["--segment-minimum"] * segment_minimum], log) as progress:
        from sssp_pipeline.pipeline.cs515 import Variant, solve_file

        variant = Variant(method, sync, order, segment_minimum, block_size, block_count)
        for line in solve_file(edges, source, variant, output, progress):
            print(line)


@app.command()
def solvers(as_json: Json = False) -> None:
    """List the solvers."""
    from sssp_pipeline.kernels import SOLVERS

    rows = [{"name": s.name, "device": s.device, "summary": s.summary} for s in SOLVERS.values()]
    if as_json:
        print(json.dumps(rows))
    for row in rows if not as_json else []:
        print(f"{row['name']:<16} {row['device']:<4} {row['summary']}")


@app.command()
def doctor(as_json: Json = False) -> None:
    """Tell what works on this machine, what does not, and what to do about it; exit code 1 if something is broken."""
    from dataclasses import asdict

    from sssp_pipeline.pipeline.hardware import diagnose

    checks = diagnose()
    if as_json:
        print(json.dumps([asdict(c) for c in checks]))
    for check in checks if not as_json else []:
        print(f"{check.state:<7} {check.name:<10} {check.detail}")
        if check.hint:
            print(f"{'':<18} hint: {check.hint}")
    if any(c.state == "broken" for c in checks):
        raise typer.Exit(1)


@app.command()
def init(
    path: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("workflow.yaml"),
) -> None:
    """Write a commented workflow file to start from."""
    with _told(["init", str(path)], "text"):
        template = resources.files("sssp_pipeline").joinpath("template.yaml").read_text()
        try:
            with path.open("x") as file:
                file.write(template)
        except FileExistsError:
            raise InputError(f"`{path}` exists already", hint="name another file") from None
        except OSError as error:
            raise InputError(
                f"`{path}` cannot be written: {error.strerror}", hint="choose a place that may be written"
            ) from error
        print(
            f"wrote {path}; set graph.input and output.path in it, then: sssp-pipeline run {shlex.quote(str(path))}"
        )


@bench.command("run")
def bench_run(
    file: Annotated[str, typer.Argument(metavar="BENCH", help="Path or URL of the bench file.")],
    output: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder of the lines and of the graph stores.")
    ] = Path("bench"),
    graphs: Annotated[
        list[str], typer.Option("--graph", metavar="NAME", help="Take this graph alone; may be repeated.")
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
    """Check and time every solver on every graph. Running it again goes on where it stopped."""
    words = ["bench", "run", file, "--output", str(output), *(w for g in graphs for w in ("--graph", g))]
    words += ["--prepare"] * prepare
    with _told(words, log, overrides) as progress:
        from sssp_pipeline.bench.matrix import run_bench
        from sssp_pipeline.bench.variants import load_bench

        asked = load_bench(file, overrides)
        progress.about(run=str(output), name=asked.name)
        print(run_bench(asked, output, progress, graphs=graphs, again=again, prepare_only=prepare))


@bench.command("report")
def bench_report(
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
    """Make the papers' tables and figures from lines: a Markdown page, CSV and, with matplotlib, SVG."""
    with _told(["bench", "report", *lines, "--output", str(output)], log) as progress:
        from sssp_pipeline.bench.report import write_report

        print(write_report(lines, output, progress, baseline=baseline, subject=subject))


def main() -> None:
    """Run the command line."""
    app()


def _load(workflow: str, overrides: list[str], progress: Console) -> Workflow:
    from sssp_pipeline.pipeline.storage import redacted
    from sssp_pipeline.workflow_loading import load_workflow

    loaded = load_workflow(workflow, overrides)
    if loaded.is_dated:  # how to go on, which Ctrl-C tells, is in this folder
        overrides.append(f"output.path={loaded.resolved()['output']['path']}")
    progress.about(run=redacted(loaded.output.path), name=loaded.name)
    return loaded


@contextmanager
def _told(command: list[str], log: LogFormat, overrides: list[str] = []) -> Iterator[Console]:  # noqa: B006
    """Give a console; turn expected errors into messages and exit codes, and Ctrl-C into how to go on."""
    interrupts.install()
    told = console(log)
    try:
        with told:
            yield told
        told.succeeded()
    except SsspError as error:
        told.failed(error.message, error.hint, error.exit_code)
        raise typer.Exit(error.exit_code) from None
    except MemoryError as error:
        told.failed(
            f"not enough memory: {error or 'no more can be had'}",
            "a machine with more memory, or a smaller graph or batch",
            exit_code=1,
        )
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        options = [word for override in overrides for word in ("--set", override)]
        options += ["--log-format", log] * (log != "text")
        told.interrupted(shlex.join(["sssp-pipeline", *command, *options]), EXIT_INTERRUPTED)
        # A second Ctrl-C comes here while threads still solve: what they have not committed counts for nothing.
        os._exit(EXIT_INTERRUPTED)
    except Exception as error:
        told.crashed(error)
        raise typer.Exit(1) from None


def _show_run(url: str, record: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(record))
        return
    from sssp_pipeline.pipeline.results import METRICS_FILE
    from sssp_pipeline.pipeline.storage import redacted

    url = redacted(url).rstrip("/")
    glob = f"{url}/distances/*.parquet"
    vertices, targets = record["graph"]["n_vertices"], record.get("targets")
    to = plural(targets, "target") if targets else plural(vertices, "vertex")
    print(f"{plural(record['sources'], 'source')} x {to} solved with {record['solver']}: {url}")
    if targets == 0:
        query = f"SELECT source, reached, max_distance, mean_distance FROM '{url}/{METRICS_FILE}'"
    elif record["identity"]["layout"] == "long":
        query = f"SELECT source, avg(distance) FROM '{glob}' GROUP BY source"
    else:
        query = f"SELECT * FROM '{glob}' LIMIT 10"
    print(f'query: duckdb -c "{query}"')


if __name__ == "__main__":
    main()
