"""From a stored graph to distances in Parquet: sources per second by workers, and where the threads' time goes.

    python benchmarks/pipeline.py [--vertices 262144] [--sources 512] [--folder .bench]

The rate is that between the first and the last committed batch, so that starting Dask and compiling do not count.
The configurations take turns, so that a machine that slows down slows all of them.
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

from record import record

#: Dask workers x threads, and threads of the command's own process; one process with two threads holds the graph once.
CONFIGURATIONS = {"1x1": (1, 1), "2x1": (2, 1), "1x2": (1, 2), "own": ("auto", 2)}


def measure(workflow: Path, run: Path, workers: int | str, threads: int) -> dict[str, float]:
    """Return the command's seconds, sources per second, and the threads' milliseconds a source by kind of work."""
    shutil.rmtree(run, ignore_errors=True)
    given = [f"cluster.workers={workers}", f"cluster.threads_per_worker={threads}"]
    command = [sys.executable, "-m", "sssp_pipeline.cli", "run", str(workflow), "--json"]
    options = [word for pair in given for word in ("--set", pair)]
    began = time.perf_counter()
    told = subprocess.run(
        [*command, *options], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ).stdout
    command_s = time.perf_counter() - began
    outcome = json.loads(told)
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


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--vertices", type=int, default=262_144)
    parser.add_argument("--sources", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layout", choices=("long", "wide"), default="long")
    parser.add_argument("--folder", type=Path, default=Path(".bench"))
    given = parser.parse_args()
    given.folder.mkdir(exist_ok=True)
    workflow, run = given.folder / "pipeline.yaml", given.folder / "pipeline-run"
    workflow.write_text(
        json.dumps(
            {
                "graph": {
                    "input": f"generated:road?vertices={given.vertices}&seed=7",
                    "store": str(given.folder / "pipeline-graph"),
                },
                "sources": {"random": {"count": given.sources}},
                "solve": {"batch": 4},
                "output": {"path": str(run), "layout": given.layout},
                "verify": "off",
                "report": False,
            }
        )
    )
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in CONFIGURATIONS}
    for _ in range(given.rounds):
        for name, (workers, threads) in CONFIGURATIONS.items():
            rounds[name].append(measure(workflow, run, workers, threads))
    medians = {
        name: {key: round(median(r[key] for r in found), 3) for key in found[0]}
        for name, found in rounds.items()
    }
    one = medians["1x1"]["sources_per_s"]
    record(
        "pipeline",
        n_vertices=given.vertices,
        sources=given.sources,
        layout=given.layout,
        rounds=given.rounds,
        configurations=medians,
        speedup={name: round(found["sources_per_s"] / one, 2) for name, found in medians.items()},
    )
    shutil.rmtree(run)


if __name__ == "__main__":
    main()
