"""The command line: parse, call, print.

A command imports what it needs when it runs, so that `--help` is instant and needs no GPU.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sssp_pipeline import __version__, cli_of_runs, interrupts
from sssp_pipeline.cli_options import (
    From,
    Inputs,
    Json,
    Log,
    MovedStore,
    Out,
    Overrides,
    Overwrite,
    Quiet,
    Run,
    SaveWorkflow,
    To,
    Verbose,
)
from sssp_pipeline.cli_session import (
    PROGRAM,
    prepare_imports,
    print_answer,
    process,
    reporting,
    stdout_failure,
)
from sssp_pipeline.console import Console, columns, open_streams, table
from sssp_pipeline.pipeline.storage.redaction import redacted

if TYPE_CHECKING:
    from sssp_pipeline.pipeline.run_each import Runs
    from sssp_pipeline.workflow.models import Workflow

app = typer.Typer(
    name=PROGRAM,
    help="Exact shortest paths from many sources over big graphs: edge lists in, distances in Parquet out.",
    epilog="Example: sssp-pipeline run roads.csv --from 17 --out results",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # Typer's own options guess the shell. The options of `_top` name it.
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
bench = typer.Typer(
    help="Measure solvers on graphs, and make tables and figures like those of the papers.",
    epilog="Example: sssp-pipeline bench run bench.yaml --output measured",
    no_args_is_help=True,
)
app.add_typer(bench, name="bench")


@app.callback(invoke_without_command=True)
def _top(
    version: Annotated[bool, typer.Option("-V", "--version", help="Print the release and exit.")] = False,
    install_completion: Annotated[
        Literal["bash", "zsh", "fish"] | None,
        typer.Option(metavar="bash|zsh|fish", help="Let this shell complete commands, options and values."),
    ] = None,
    show_completion: Annotated[
        Literal["bash", "zsh", "fish"] | None,
        typer.Option(metavar="bash|zsh|fish", help="Print what --install-completion would install."),
    ] = None,
) -> None:
    if version:
        print_answer(__version__)
        raise typer.Exit
    if install_completion or show_completion:
        from sssp_pipeline import completion

        if install_completion:
            with reporting("text"):
                print_answer(completion.install(install_completion, PROGRAM))
        if show_completion:
            print_answer(completion.script(show_completion, PROGRAM))
        raise typer.Exit


@app.command(epilog="Example: sssp-pipeline run roads.csv --from 17 --from 42 --to depots.txt --out results")
def run(
    inputs: Inputs,
    sources: From = [],  # noqa: B006
    targets: To = [],  # noqa: B006
    out: Out = None,
    overrides: Overrides = [],  # noqa: B006
    overwrite: Overwrite = False,
    save_workflow: SaveWorkflow = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    log: Log = "text",
    as_json: Json = False,
) -> None:
    """Run all stages: ingest, solve, verify, report. A second run continues where the first one stopped."""
    with reporting(log, quiet, verbose, as_json) as progress:
        workflow = _load(inputs, sources, targets, out, overrides, save_workflow, progress, solves=True)
        from sssp_pipeline.pipeline.run_each import run_each

        _show_runs(run_each(workflow, progress, overwrite=overwrite, began=process.began), quiet, as_json)


@app.command(epilog="Example: sssp-pipeline solve workflow.yaml --set solve.solver=dijkstra")
def solve(
    inputs: Inputs,
    sources: From = [],  # noqa: B006
    targets: To = [],  # noqa: B006
    out: Out = None,
    overrides: Overrides = [],  # noqa: B006
    overwrite: Overwrite = False,
    save_workflow: SaveWorkflow = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    log: Log = "text",
    as_json: Json = False,
) -> None:
    """Solve on an existing graph store, without verify and report."""
    with reporting(log, quiet, verbose, as_json) as progress:
        workflow = _load(
            inputs, sources, targets, out, overrides, save_workflow, progress, needs_input=False, solves=True
        )
        from sssp_pipeline.pipeline.run_each import run_each

        runs = run_each(
            workflow, progress, may_ingest=False, finish=False, overwrite=overwrite, began=process.began
        )
        _show_runs(runs, quiet, as_json)


@app.command(epilog="Example: sssp-pipeline ingest workflow.yaml --set graph.directed=false")
def ingest(
    inputs: Inputs,
    sources: From = [],  # noqa: B006
    targets: To = [],  # noqa: B006
    out: Out = None,
    overrides: Overrides = [],  # noqa: B006
    remove_old_versions: Annotated[
        bool, typer.Option("--remove-old-versions", help="Keep the newest version of the graph alone.")
    ] = False,
    hierarchy: Annotated[
        bool, typer.Option("--hierarchy", help="Make the hierarchy that `phast` and `phast-gpu` need, too.")
    ] = False,
    save_workflow: SaveWorkflow = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    log: Log = "text",
    as_json: Json = False,
) -> None:
    """Convert the edge lists of the workflow into a graph store, and stop."""
    with reporting(log, quiet, verbose, as_json) as progress:
        workflow = _load(inputs, sources, targets, out, overrides, save_workflow, progress)
        from sssp_pipeline.pipeline.ingest_workflow import ingest_all
        from sssp_pipeline.pipeline.solving.workers.source import OneCluster

        with OneCluster(workflow.cluster) as cluster:
            manifest = ingest_all(
                workflow,
                progress,
                remove_old_versions=remove_old_versions,
                hierarchy=hierarchy,
                cluster=cluster,
            )
        if as_json:
            print_answer(manifest.model_dump_json())
        elif not quiet:
            print_answer(redacted(workflow.store))


@app.command(epilog="Example: sssp-pipeline plan roads.csv --from random:1000 --out results")
def plan(
    inputs: Inputs,
    sources: From = [],  # noqa: B006
    targets: To = [],  # noqa: B006
    out: Out = None,
    overrides: Overrides = [],  # noqa: B006
    save_workflow: SaveWorkflow = None,
    probe: Annotated[
        int, typer.Option(min=0, help="Sources to solve for the estimate of time; 0 for none.")
    ] = 2,
    quiet: Quiet = False,
    verbose: Verbose = False,
    log: Log = "text",
    as_json: Json = False,
) -> None:
    """Show what a run would do and about how long it would take. Ingests the graph if the store does not hold it."""
    with reporting(log, quiet, verbose, as_json) as progress:
        workflow = _load(inputs, sources, targets, out, overrides, save_workflow, progress)
        from sssp_pipeline.pipeline.run_each import plan_each

        facts = plan_each(workflow, probe, progress)
        print_answer(json.dumps(facts) if as_json else table(facts))


@app.command(epilog="Example: sssp-pipeline verify results --certificate")
def verify(
    run_folder: Run,
    certificate: Annotated[
        bool, typer.Option("--certificate", help="Prove every distance of every source, instead of a sample.")
    ] = False,
    store: MovedStore = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="WHERE",
            help="`here` for threads of this process, or the address of a Dask scheduler, "
            "in place of the workflow's cluster.",
        ),
    ] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    log: Log = "text",
    as_json: Json = False,
) -> None:
    """Read the distances of a finished run and check them. The exit code is 3 if one is wrong."""
    with reporting(log, quiet, verbose, as_json) as progress:
        prepare_imports()
        from sssp_pipeline.pipeline.completed_run import verify_run
        from sssp_pipeline.pipeline.results.outputs import recorded_output
        from sssp_pipeline.workflow.cluster import cluster_named

        progress.about(run=redacted(run_folder))
        where = None if cluster is None else cluster_named(cluster)
        record = verify_run(run_folder, store, "certificate" if certificate else "sample", progress, where)
        what = recorded_output(record).judged
        if as_json or not quiet:
            print_answer(json.dumps(record["verify"]) if as_json else f"every checked {what} is exact")


app.command(epilog="Example: sssp-pipeline export results skims.parquet --columns otaz,dtaz,TIME")(
    cli_of_runs.export
)
app.command(epilog="Example: sssp-pipeline path results --from 17 --to 42 --geojson")(cli_of_runs.path)
app.command(epilog="Example: sssp-pipeline isochrones results areas.parquet --limits 600,1200")(
    cli_of_runs.isochrones
)


@app.command(epilog="Example: sssp-pipeline inspect results")
def inspect(
    url: Annotated[
        str,
        typer.Argument(metavar="STORE|RUN|EDGES", help="A graph store, a run folder, or an edge list."),
    ],
    overrides: Overrides = [],  # noqa: B006
    log: Log = "text",
    as_json: Json = False,
) -> None:
    """Show the content of a graph store or a run folder, or how an edge list would be read. --set is for edge lists."""
    with reporting(log, as_json=as_json):
        from sssp_pipeline.pipeline.inspect import describe

        facts = describe(url, overrides)
        print_answer(json.dumps(facts) if as_json else table(facts))


@app.command(epilog="Example: sssp-pipeline solvers")
def solvers(as_json: Json = False) -> None:
    """List the solvers."""
    with reporting("text", as_json=as_json):
        from sssp_pipeline.kernels import SOLVERS

        rows = [{"name": s.name, "device": s.device, "summary": s.summary} for s in SOLVERS.values()]
        print_answer(json.dumps(rows) if as_json else columns([tuple(row.values()) for row in rows]))


@app.command(epilog="Example: sssp-pipeline doctor")
def doctor(as_json: Json = False) -> None:
    """Show what works on this machine, what does not, and how to fix it. The exit code is 1 if something is broken."""
    with reporting("text", as_json=as_json):
        from dataclasses import asdict

        from sssp_pipeline.pipeline.machine import diagnose

        checks = diagnose()
        if as_json:
            print_answer(json.dumps([asdict(c) for c in checks]))
        else:
            rows = [(c.state, c.name, c.detail + (f"\nhint: {c.hint}" if c.hint else "")) for c in checks]
            print_answer(columns(rows))
    if any(c.state == "broken" for c in checks):
        raise typer.Exit(1)


@app.command(epilog="Example: sssp-pipeline init roads.yaml")
def init(
    path: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("workflow.yaml"),
) -> None:
    """Write a commented workflow file to start from."""
    with reporting("text"):
        from sssp_pipeline.workflow.inputs import check_workflow_name, write_new

        check_workflow_name(path)
        template = resources.files("sssp_pipeline").joinpath("workflow/template.yaml").read_text()
        write_new(path, template)
        print_answer(
            f"wrote {path}; set graph.input and output.path in it, then: sssp-pipeline run {shlex.quote(str(path))}"
        )


@bench.command("run", epilog="Example: sssp-pipeline bench run bench.yaml --graph roads --set runs=3")
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
    """Check and time every solver on every graph. A second run continues where the first one stopped."""
    with reporting(log) as progress:
        from sssp_pipeline.bench.matrix import run_bench
        from sssp_pipeline.bench.variants import load_bench

        spec = load_bench(file, overrides)
        progress.about(run=str(output), name=spec.name)
        written = run_bench(spec, output, progress, graphs=graphs, again=again, prepare_only=prepare)
        print_answer(str(written))


@bench.command("report", epilog="Example: sssp-pipeline bench report bench/lines.jsonl --output page")
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
    """Make tables and figures like those of the papers from lines: a Markdown page, CSV and, with matplotlib, SVG."""
    with reporting(log) as progress:
        from sssp_pipeline.bench.report import write_report

        written = write_report(lines, output, progress, baseline=baseline, subject=subject)
        print_answer(str(written))


def main() -> None:
    """Run the command line and exit with a code that the README documents."""
    import gc

    process.is_own, process.began = True, time.perf_counter()
    sys.unraisablehook = interrupts.unraisable
    # Imports make 250,000 objects that live on. Fewer collections save a tenth of a second.
    gc.set_threshold(300_000, 20, 20)
    # Otherwise pydantic searches all installed packages for plugins.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # Otherwise NumPy starts a thread on each core for its linear algebra, which no command uses.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    open_streams()
    if f"_{PROGRAM.replace('-', '_').upper()}_COMPLETE" in os.environ:
        from sssp_pipeline import completion

        print_answer(completion.answer(app, PROGRAM))
        return
    exit_code: int | str | None = 0
    try:
        app(prog_name=PROGRAM)
    except SystemExit as ended:
        exit_code = ended.code
    sys.stdout.flush()
    # Frozen objects are skipped by the last collection, which would take a third of a second.
    gc.freeze()
    sys.exit(exit_code or (1 if stdout_failure() else 0))


def _load(
    inputs: list[str],
    sources: list[str],
    targets: list[str],
    out: str | None,
    overrides: list[str],
    save_as: Path | None,
    progress: Console,
    needs_input: bool = True,
    solves: bool = False,
) -> Workflow:
    """Return the workflow of a command, and write it to `save_as` if that is given. Then imports are prepared.

    If the command `solves`, worker processes on this machine prepare their imports at the same time.
    """
    from sssp_pipeline.workflow.inputs import check_workflow_name, workflow_of, write_new

    if save_as is not None:
        check_workflow_name(save_as)
    workflow = workflow_of(inputs, sources, targets, out, overrides, needs_input=needs_input)
    if workflow.is_dated:
        process.resume_options.extend(["--set", f"output.path={workflow.resolved()['output']['path']}"])
    progress.about(run=redacted(workflow.output.path), name=workflow.name)
    if save_as is not None:
        from sssp_pipeline.workflow.yaml_text import workflow_yaml

        write_new(save_as, workflow_yaml(workflow))
    if solves and process.is_own:
        from sssp_pipeline.pipeline.solving.workers import fork_server

        fork_server.start_for(workflow.cluster)
    prepare_imports()
    return workflow


def _show_runs(runs: Runs, quiet: bool, as_json: bool) -> None:
    if as_json:
        records = {name: record for name, (_, record) in runs.items()}
        print_answer(json.dumps(records.get(None, records)))
    elif not quiet:
        from sssp_pipeline.pipeline.results.outputs import recorded_output

        rows = []
        for name, (folder, record) in runs.items():
            url = redacted(folder.url).rstrip("/")
            rows += [("results", url), ("query", f'duckdb -c "{recorded_output(record).query(url)}"')]
            if name is not None:
                rows[-2:-2] = [("weight", _weight_text(name, record))]
        print_answer("\n".join(f"{key}: {text}" for key, text in rows))


def _weight_text(name: str, record: dict[str, Any]) -> str:
    """Return in one line what became of a weight in a run of several."""
    unit, verdict = record["graph"]["weights"]["unit"], record["verify"]
    parts = [f"{name} ({unit})" if unit else name, record["solver"]]
    if (solve_s := record["timings"].get("solve")) is not None:
        parts.append(f"solved in {solve_s:.2f} s")
    parts.append("not verified" if verdict is None else f"verified ({verdict['mode']})")
    return ", ".join(parts)


if __name__ == "__main__":
    main()
