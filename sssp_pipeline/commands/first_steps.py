"""The commands that need no graph: `solvers`, `doctor` and `init`."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated

import typer

from sssp_pipeline.commands.options import Json
from sssp_pipeline.commands.session import print_answer, reporting
from sssp_pipeline.commands.tables import columns


def solvers(as_json: Json = False) -> None:
    """List the solvers."""
    with reporting("text", as_json=as_json):
        from sssp_pipeline.kernels import SOLVERS

        rows = [{"name": s.name, "device": s.device, "summary": s.summary} for s in SOLVERS.values()]
        print_answer(json.dumps(rows) if as_json else columns([tuple(row.values()) for row in rows]))


def doctor(as_json: Json = False) -> None:
    """Show what works on this machine, what does not, and how to fix it. The exit code is 1 if something is broken."""
    with reporting("text", as_json=as_json):
        from dataclasses import asdict

        from sssp_pipeline.pipeline.planning.machine import diagnose

        checks = diagnose()
        if as_json:
            print_answer(json.dumps([asdict(c) for c in checks]))
        else:
            rows = [(c.state, c.name, c.detail + (f"\nhint: {c.hint}" if c.hint else "")) for c in checks]
            print_answer(columns(rows))
    if any(c.state == "broken" for c in checks):
        raise typer.Exit(1)


def init(path: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("workflow.yaml")) -> None:
    """Write a commented workflow file to start from."""
    with reporting("text"):
        from importlib import resources

        from sssp_pipeline.workflow.inputs import check_workflow_name, write_new

        check_workflow_name(path)
        template = resources.files("sssp_pipeline").joinpath("workflow/template.yaml").read_text()
        write_new(path, template)
        print_answer(
            f"wrote {path}; set graph.input and output.path in it, then: sssp-pipeline run {shlex.quote(str(path))}"
        )
