"""From a stored graph to distances in Parquet: sources a second by solver, and how busy GPU and writing threads are.

    python benchmarks/pipeline.py [--input generated:road?vertices=262144&seed=7] [--sources 512] [--folder .bench]
        [--layout long] [--rounds 3] [--solvers auto,adds-slots] [--targets 1000] [--cutoff 1000000]
        [--gpus 2]

After each run, as many plain writes of 64 MiB as the run has bytes of distances are made into the same folder, by a
thread for each core with a buffer of its own: `plain_mb_per_s`. `of_plain` is the run's rate beside this.

The rate is that between the first and the last committed batch, so that it has neither the start of Dask nor
compiling. The solvers take turns, so that a machine that slows down slows all of them. Each solver gives a line in
`pipeline_solvers.jsonl`.

`--targets N` writes the distances to N random vertices only, and `--targets 0` only metrics. Then nothing says
when a batch was committed, and the time is that of the whole solve stage, with starting and compiling. `--sources
all` takes every vertex.

A batch is committed at the time of its file.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from record import record

from sssp_pipeline.kernels import solver_named
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.pipeline.graph_store.store import read_manifest
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.workflow.graph import Graph

_PLAIN_BYTES = 2**26
TOO_FEW = "the batches were committed all at once: set more --sources"

#: Of a round: name and value of each number.
Measured = dict[str, float | None]


@dataclass(frozen=True)
class Commit:
    """Some batches of a run, when they were committed, in seconds since 1970, and the bytes of their distances."""

    at_s: float
    n_batches: int
    n_bytes: int


@dataclass(frozen=True)
class Outcome:
    """What a command printed, its seconds, what the run committed, in the order of time, and the rest of `Log`."""

    command_s: float
    printed: dict[str, Any]
    commits: list[Commit]
    first_batches: list[int]


def run_command(workflow: Path, run: Path, solver: str) -> Outcome:
    """Return the outcome of a run; the folder `run` then holds only what this run wrote."""
    shutil.rmtree(run, ignore_errors=True)
    command = [sys.executable, "-m", "sssp_pipeline.cli", "run", str(workflow)]
    command += ["--json", "--log-format", "json", "--set", f"solve.solver={solver}"]
    began = time.perf_counter()
    done = subprocess.run(command, check=True, capture_output=True)
    command_s = time.perf_counter() - began
    log = read_log(done.stderr)
    if files := [file.stat() for file in (run / "distances").glob("batch-*")]:
        log = replace(log, commits=[Commit(file.st_mtime, 1, file.st_size) for file in files])
    commits = sorted(log.commits, key=lambda c: c.at_s)
    return Outcome(command_s, json.loads(done.stdout), commits, log.first_batches)


@dataclass(frozen=True)
class Log:
    """What the log of a run says of commits, and the batches of the call that ended first."""

    commits: list[Commit]
    first_batches: list[int]


def read_log(log: bytes) -> Log:
    """Return what the lines of `log` say of commits."""
    commits = []
    first_batches: list[int] = []
    for line in log.splitlines():
        if not line.startswith(b"{"):  # a Dask worker wrote it
            continue
        entry = json.loads(line)
        at_s = datetime.fromisoformat(entry["time"]).timestamp()
        if entry["event"] == "solved":
            first_batches = first_batches or entry["batches"]
            commits.append(Commit(at_s, len(entry["batches"]), entry["bytes"]))
    return Log(commits, first_batches)


def plain_mb_per_s(folder: Path, n_bytes: int) -> float:
    """Return the rate of writing `n_bytes` to new files below `folder`, by a thread for each core."""
    n_threads = usable_cores()
    n_files = max(1, n_bytes // _PLAIN_BYTES // n_threads)
    buffers = [np.full(_PLAIN_BYTES, i, np.uint8) for i in range(n_threads)]

    def write(thread: int) -> None:
        for i in range(n_files):
            descriptor = os.open(folder / f"plain-{thread}-{i}", os.O_CREAT | os.O_WRONLY)
            os.write(descriptor, buffers[thread])
            os.close(descriptor)

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    began = time.perf_counter()
    with ThreadPoolExecutor(n_threads) as threads:
        list(threads.map(write, range(n_threads)))
    seconds = time.perf_counter() - began
    shutil.rmtree(folder)
    return n_files * n_threads * _PLAIN_BYTES / seconds / 1e6


def by_solver(workflow: Path, run: Path, solver: str) -> tuple[str, Measured]:
    """Return the solver that ran, and the seconds and rates of the command, its GPU and its writing threads."""
    outcome = run_command(workflow, run, solver)
    printed, commits = outcome.printed, outcome.commits
    metrics = RunFolder(str(run)).read_metrics()
    solve_s = np.bincount(metrics["batch"].to_numpy(), metrics["solve_s"].to_numpy())
    span_s = commits[-1].at_s - commits[0].at_s
    if span_s == 0:
        sys.exit(TOO_FEW)
    # All batches but those of the first commit are written in the span.
    share = 1 - commits[0].n_batches / printed["batches"]
    n_bytes = sum(commit.n_bytes for commit in commits)
    # What the first call solved, it had solved before the first commit.
    solved_s = float(solve_s.sum() - solve_s[outcome.first_batches].sum())
    on_gpu = solver_named(printed["solver"]).device == "gpu"
    written, plain = n_bytes * share / span_s / 1e6, None
    if any((run / "distances").glob("*")):
        shutil.rmtree(run)
        plain = plain_mb_per_s(run, n_bytes)
    return printed["solver"], {
        "command_s": outcome.command_s,
        "span_s": span_s,
        "sources_per_s": printed["sources"] * share / span_s,
        "written_mb_per_s": written,
        "plain_mb_per_s": plain,
        "of_plain": None if plain is None else written / plain,
        "solve_ms": 1e3 * float(solve_s.sum()) / printed["sources"],
        "gpu_busy": solved_s / span_s if on_gpu else None,
        "cores_writing": printed["thread_s"]["write"] * share / span_s,
    }


def medians(rounds: list[Measured]) -> Measured:
    """Return the median of each number over the rounds."""
    return {
        key: None if rounds[0][key] is None else round(median(r[key] for r in rounds), 3) for key in rounds[0]
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--input", default="generated:road?vertices=262144&seed=7")
    parser.add_argument("--sources", default="512", help="how many, or `all`")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layout", choices=("long", "wide"), default="long")
    parser.add_argument("--folder", type=Path, default=Path(".bench"))
    parser.add_argument("--solvers", default="auto", help="names with commas, `auto` among them")
    parser.add_argument(
        "--targets", type=int, help="number of vertices to which distances are written; 0: only metrics"
    )
    parser.add_argument("--cutoff", type=float, help="distance beyond which vertices are unreached")
    parser.add_argument("--gpus", type=int, help="a Dask worker for each of so many GPUs; none: threads")
    given = parser.parse_args()
    given.folder.mkdir(exist_ok=True)
    workflow, run = given.folder / "pipeline.yaml", given.folder / "pipeline-run"
    store = str(given.folder / f"pipeline-graph-{Graph(input=given.input).digest_in(str(given.folder))}")
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
                "solve": {"cutoff": given.cutoff},
                "cluster": {"kind": "local-cuda", "workers": given.gpus} if given.gpus else {},
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
        "cutoff": given.cutoff,
        "gpus": given.gpus,
    }
    names = given.solvers.split(",")
    ran: dict[str, str] = {}
    rounds: dict[str, list[Measured]] = {name: [] for name in names}
    for _ in range(given.rounds):
        for name in names:
            ran[name], measured = by_solver(workflow, run, name)
            rounds[name].append(measured)
    for name in names:
        found = medians(rounds[name])
        record("pipeline_solvers", **about, rounds=given.rounds, asked_for=name, solver=ran[name], **found)
    shutil.rmtree(run, ignore_errors=True)


if __name__ == "__main__":
    main()
