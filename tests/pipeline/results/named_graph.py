"""A small graph of named vertices in the present folder, and runs on it: what the tests of several outputs share."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.pipeline.run.completed_run import verify_run
from sssp_pipeline.pipeline.run.conductor import run
from sssp_pipeline.workflow.yaml_file import load_workflow

N_VERTICES = 40
NAMES = [f"v{v:02}" for v in range(N_VERTICES)]
#: Vertex 39 has no path from or to any other vertex.
EDGES = [(v, w, 4 + (7 * v + w) % 9) for v in range(39) for w in (v + 1, (3 * v) % 39) if w < 39 and v != w]


def write_edges(scale: float = 1) -> None:
    """Write `edges.csv`; `scale` multiplies the weights."""
    lines = [f"{NAMES[v]},{NAMES[w]},{weight * scale}" for v, w, weight in [*EDGES, (39, 39, 1)]]
    Path("edges.csv").write_text("\n".join(["source,target,weight", *lines, ""]))


def run_of(*overrides: str, **options):
    """Run `w.yaml` with `overrides`, and return the run folder and the content of its run.json."""
    return run(load_workflow("w.yaml", ["graph.self_loops=keep", *overrides]), Quiet(), **options)


def table_of(*overrides: str, **options):
    """Return what `run_of` stores in `distances`."""
    return pq.read_table(run_of(*overrides, **options)[0].path("distances"))


def verdict_of(path: str = "run", mode: str = "sample", progress=None) -> dict:
    """Verify a run, and return its verdict."""
    return verify_run(path, None, mode, progress or Quiet())["verify"]
