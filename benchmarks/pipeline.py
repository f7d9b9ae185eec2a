"""From a stored graph to distances in Parquet: sources per second by workers or solver, and where the time goes.

    python benchmarks/pipeline.py [--input generated:road?vertices=262144&seed=7] [--sources 512] [--folder .bench]
        [--layout long] [--rounds 3] [--solvers auto,adds-slots] [--targets 1000]

The rate is that between the first and the last committed batch, so that starting Dask and compiling do not count.
The configurations take turns, so that a machine that slows down slows all of them; they give one line.

With `--solvers` nothing but the solver differs, and each gives a line in `pipeline_solvers.jsonl`; the time between the
first and the last commit is then also compared with what the GPU and the writing threads did. With `--targets` only
the distances to so many random vertices are written, with 0 of them metrics alone: then nothing tells when a batch was
committed, and the whole stage that solves is taken, with starting and compiling. `--sources all` takes every vertex.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from record import record

from sssp_pipeline.kernels import solver_named
from sssp_pipeline.pipeline.graph_store import read_manifest
from sssp_pipeline.pipeline.progress import Quiet
from sssp_pipeline.pipeline.results import RunFolder
from sssp_pipeline.pipeline.run import plan_stage
from sssp_pipeline.pipeline.stored_graph import StoredGraph
from sssp_pipeline.workflow import Graph
from sssp_pipeline.workflow_loading import load_workflow

#: Dask workers x threads, and threads of the command's own process; one process with two threads holds the graph once.
CONFIGURATIONS = {"1x1": (1, 1), "2x1": (2, 1), "1x2": (1, 2), "own": ("auto", 2)}


#: Of a round: name and value of each number.
Measured = dict[str, float | None]


def run_command(workflow: Path, run: Path, **given: str | int) -> tuple[float, dict[str, Any]]:
    """Return the seconds of the command and what it told; `run` holds what it wrote, and nothing from before."""
    shutil.rmtree(run, ignore_errors=True)
    command = [sys.executable, "-m", "sssp_pipeline.cli", "run", str(workflow), "--json"]
    options = [
        word for key, value in given.items() for word in ("--set", f"{key.replace('__', '.')}={value}")
    ]
    began = time.perf_counter()
    told = subprocess.run(
        [*command, *options], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ).stdout
    return time.perf_counter() - began, json.loads(told)


def by_workers(workflow: Path, run: Path, workers: int | str, threads: int) -> Measured:
    """Return the command's seconds, sources per second, and the threads' milliseconds a source by kind of work."""
    command_s, outcome = run_command(
        workflow, run, cluster__workers=workers, cluster__threads_per_worker=threads
    )
    times = sorted(p.stat().st_mtime for p in (run / "distances").iterdir())
    # The first round of batches, one a thread, pays for loading and compiling; the rate begins where it ends.
    warm = times[(1 if workers == "auto" else workers) * threads :]
    per_batch = outcome["sources"] / outcome["batches"]
    return {
        "command_s": command_s,
        "sources_per_s": (len(warm) - 1) * per_batch / (warm[-1] - warm[0]),
        "solve_ms": 1e3 * outcome["thread_s"]["solve"] / outcome["sources"],
        "write_ms": 1e3 * outcome["thread_s"]["write"] / outcome["sources"],
    }


def by_solver(workflow: Path, run: Path, solver: str) -> tuple[str, Measured]:
    """Return the solver that ran, and the command's seconds, what was done a second, how busy GPU and cores were."""
    command_s, outcome = run_command(workflow, run, solve__solver=solver)
    metrics = RunFolder(str(run)).read_metrics()
    solve_s = np.bincount(metrics["batch"].to_numpy(), metrics["solve_s"].to_numpy())
    files = sorted((run / "distances").glob("*"))
    if files:
        times = np.array([file.stat().st_mtime for file in files])
        if times.min() == times.max():
            sys.exit("the batches were committed all at once: set more --sources")
        span_s, share = (
            float(times.max() - times.min()),
            1 - 1 / len(files),
        )  # all batches but the first committed
        # What the first call solved, it had solved before the first commit.
        spec = load_workflow(str(workflow), [f"solve.solver={solver}"])
        stored = StoredGraph(spec.store, read_manifest(spec.store))
        solved_s = float(solve_s[plan_stage(spec, stored, Quiet()).together :].sum())
    else:
        files = [run / "metrics.parquet"]
        span_s, share, solved_s = outcome["timings"]["solve"], 1.0, float(solve_s.sum())
    on_gpu = solver_named(outcome["solver"]).device == "gpu"
    return outcome["solver"], {
        "command_s": command_s,
        "span_s": span_s,
        "sources_per_s": outcome["sources"] * share / span_s,
        "written_mb_per_s": sum(file.stat().st_size for file in files) * share / span_s / 1e6,
        "solve_ms": 1e3 * float(solve_s.sum()) / outcome["sources"],
        "gpu_busy": solved_s / span_s if on_gpu else None,
        "cores_writing": outcome["thread_s"]["write"] * share / span_s,
    }


def medians(rounds: list[Measured]) -> Measured:
    """Return the median of each number that the rounds gave."""
    return {
        key: None if rounds[0][key] is None else round(median(r[key] for r in rounds), 3) for key in rounds[0]
    }


def compare_workers(workflow: Path, run: Path, rounds: int, **about: Any) -> None:
    """Record one line about all `CONFIGURATIONS`."""
    taken: dict[str, list[Measured]] = {name: [] for name in CONFIGURATIONS}
    for _ in range(rounds):
        for name, (workers, threads) in CONFIGURATIONS.items():
            taken[name].append(by_workers(workflow, run, workers, threads))
    found = {name: medians(measured) for name, measured in taken.items()}
    one = found["1x1"]["sources_per_s"]
    speedup = {name: round(of["sources_per_s"] / one, 2) for name, of in found.items()}
    record("pipeline", **about, rounds=rounds, configurations=found, speedup=speedup)


def compare_solvers(workflow: Path, run: Path, rounds: int, solvers: list[str], **about: Any) -> None:
    """Record a line for each of `solvers`."""
    taken: dict[str, list[Measured]] = {name: [] for name in solvers}
    ran = {}
    for _ in range(rounds):
        for name in solvers:
            ran[name], measured = by_solver(workflow, run, name)
            taken[name].append(measured)
    for name in solvers:
        record(
            "pipeline_solvers",
            **about,
            rounds=rounds,
            asked_for=name,
            solver=ran[name],
            **medians(taken[name]),
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--input", default="generated:road?vertices=262144&seed=7")
    parser.add_argument("--sources", default="512", help="how many, or `all`")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layout", choices=("long", "wide"), default="long")
    parser.add_argument("--folder", type=Path, default=Path(".bench"))
    parser.add_argument("--solvers", help="compare these, `auto` among them, instead of workers")
    parser.add_argument("--targets", type=int, help="write the distances to so many alone; 0: metrics alone")
    given = parser.parse_args()
    given.folder.mkdir(exist_ok=True)
    workflow, run = given.folder / "pipeline.yaml", given.folder / "pipeline-run"
    store = str(given.folder / f"pipeline-graph-{Graph(input=given.input).digest}")
    kept: dict[str, Any] = {}
    if given.targets is not None:
        kept = (
            {"targets": {"random": {"count": given.targets, "seed": 1}}}
            if given.targets
            else {"distances": "none"}
        )
    workflow.write_text(
        json.dumps(
            {
                "graph": {"input": given.input, "store": store},
                "sources": {"all": True}
                if given.sources == "all"
                else {"random": {"count": int(given.sources)}},
                "solve": {} if given.solvers else {"batch": 4},
                "output": {"path": str(run), "layout": given.layout, **kept},
                "verify": "off",
                "report": False,
            }
        )
    )
    ingest = [sys.executable, "-m", "sssp_pipeline.cli", "ingest", str(workflow)]
    subprocess.run(ingest, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    about = {
        "input": given.input.rpartition("/")[2],
        "n_vertices": (n_vertices := read_manifest(store).n_vertices),
        "sources": n_vertices if given.sources == "all" else int(given.sources),
        "targets": given.targets,
        "layout": given.layout,
    }
    if given.solvers:
        compare_solvers(workflow, run, given.rounds, given.solvers.split(","), **about)
    else:
        compare_workers(workflow, run, given.rounds, **about)
    shutil.rmtree(run)


if __name__ == "__main__":
    main()
