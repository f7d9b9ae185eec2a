"""The commands that a workflow describes: `run`, `solve`, `ingest` and `plan`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sssp_pipeline.base.shown import duckdb_command
from sssp_pipeline.commands.console import Console
from sssp_pipeline.commands.options import (
    From,
    Inputs,
    Json,
    Log,
    Out,
    Overrides,
    Overwrite,
    Quiet,
    SaveWorkflow,
    To,
    Verbose,
)
from sssp_pipeline.commands.session import prepare_imports, print_answer, process, reporting
from sssp_pipeline.commands.tables import table
from sssp_pipeline.storage.redaction import redacted

if TYPE_CHECKING:
    from sssp_pipeline.pipeline.run.conductor import Runs
    from sssp_pipeline.workflow.models import Workflow


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
        from sssp_pipeline.pipeline.run.conductor import run_each

        _show_runs(run_each(workflow, progress, overwrite=overwrite, began=process.began), quiet, as_json)


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
        from sssp_pipeline.pipeline.run.conductor import run_each

        runs = run_each(
            workflow, progress, may_ingest=False, finish=False, overwrite=overwrite, began=process.began
        )
        _show_runs(runs, quiet, as_json)


def ingest(
    inputs: Inputs,
    sources: From = [],  # noqa: B006
    targets: To = [],  # noqa: B006
    out: Out = None,
    overrides: Overrides = [],  # noqa: B006
    remove_old_versions: Annotated[
        bool, typer.Option("--remove-old-versions", help="Keep only the newest version of the graph.")
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
        from sssp_pipeline.pipeline.run.ingest_workflow import ingest_all
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
            print_answer(json.dumps(manifest.content))
        elif not quiet:
            print_answer(redacted(workflow.store))


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
        from sssp_pipeline.pipeline.run.plan_facts import describe_plan

        facts = describe_plan(workflow, probe, progress)
        print_answer(json.dumps(facts) if as_json else table(facts))


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

    If the command `solves`, worker processes on this machine prepare their imports at the same time, and a thread
    prepares its GPU. A run that reads its input may also have a process that loads a compiler.
    """
    from sssp_pipeline.workflow.inputs import check_workflow_name, workflow_of, write_new

    if save_as is not None:
        check_workflow_name(save_as)
    workflow = workflow_of(inputs, sources, targets, out, overrides, needs_input=needs_input)
    if workflow.is_dated:
        process.dated_folder = workflow.resolved()["output"]["path"]
    progress.about(run=redacted(workflow.output.path), name=workflow.name)
    if save_as is not None:
        from sssp_pipeline.workflow.yaml_text import workflow_yaml

        write_new(save_as, workflow_yaml(workflow))
    if solves and process.is_own:
        from sssp_pipeline.pipeline.solving.workers import fork_server

        fork_server.start_for(workflow.cluster)
        if workflow.cluster.is_here:
            from sssp_pipeline.kernels.gpu.common.cuda.cupy_setup import prepare_gpu

            prepare_gpu()
        if needs_input:
            from sssp_pipeline.pipeline.run.first_run import prepare_to_compile

            prepare_to_compile(workflow)
    prepare_imports()
    return workflow


def _show_runs(runs: Runs, quiet: bool, as_json: bool) -> None:
    if as_json:
        records = {name: record for name, (_, record) in runs.items()}
        print_answer(json.dumps(records.get(None, records)))
    elif not quiet:
        from sssp_pipeline.pipeline.results.outputs.outputs import recorded_output

        rows = []
        for name, (folder, record) in runs.items():
            url = redacted(folder.url).rstrip("/")
            rows += [("results", url), ("query", duckdb_command(recorded_output(record).query, url))]
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
