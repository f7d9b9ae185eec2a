"""Closeness and a histogram of every vertex of a large graph as one task, in as many commands as are needed.

    python benchmarks/all_sources.py --folder FOLDER [--scale 22] [--seconds 500]

The graph is R-MAT with 16 edges a vertex and weights 1 to 100. The program interrupts a command after `--seconds`. The
next call of the program resumes the run. When the run is done, there is a line: the wall times of the commands, of
which `solve_s` is from the first task of a command to its last, and what the run found.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from record import record

#: The exit code of an interrupted run, which the next command resumes.
INTERRUPTED = 130
BOUNDS = [0, 25, 50, 75, 100, 150, 200, 300, 400]


def workflow_of(scale: int, folder: Path) -> dict[str, Any]:
    return {
        "graph": {"input": f"generated:rmat?scale={scale}&edge_factor=16", "store": str(folder / "store")},
        "sources": {"all": True},
        "output": {
            "path": str(folder / "run"),
            "distances": "reduced",
            "reduce": {"values": ["closeness"], "histogram": BOUNDS},
        },
    }


def measured(command: list[str], seconds: float) -> tuple[int, dict[str, float]]:
    """Run `command` for at most `seconds`; return its exit code and its seconds, whole and of solving."""
    began, events = time.time(), {}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    signal.signal(signal.SIGALRM, lambda *_: process.send_signal(signal.SIGINT))
    signal.alarm(max(1, int(seconds)))
    for line in process.stderr:
        try:
            event = json.loads(line)
        except ValueError:
            print(line, end="", file=sys.stderr)
            continue
        at = datetime.fromisoformat(event["time"]).timestamp() - began
        events[event["event"]] = at
        if event["event"] != "solved":
            print(f"{at:7.1f} s", {k: v for k, v in event.items() if k != "time"}, flush=True)
    code = process.wait()
    signal.alarm(0)
    ended = time.time() - began
    solved = events.get("all_solved", ended) - events.get("started", ended)
    return code, {"wall_s": round(ended, 2), "solve_s": round(solved, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--scale", type=int, default=22)
    parser.add_argument("--seconds", type=float, default=500)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    workflow, kept = given.folder / "workflow.yaml", given.folder / "commands.json"
    workflow.write_text(json.dumps(workflow_of(given.scale, given.folder)))
    commands = json.loads(kept.read_text()) if kept.exists() else []
    command = [sys.executable, "-m", "sssp_pipeline.cli", "run", str(workflow), "--log-format", "json"]
    code, took = measured(command, given.seconds)
    commands.append(took)
    kept.write_text(json.dumps(commands))
    if code == INTERRUPTED:
        print("interrupted: call it again to resume the run")
        return
    if code:
        raise SystemExit(code)
    run = json.loads((given.folder / "run" / "run.json").read_text())
    table = pq.read_table(given.folder / "run" / "distances")
    pairs = [
        int(table.column(name).to_numpy().sum()) for name in table.column_names if name.startswith("from_")
    ]
    metrics = pq.read_table(given.folder / "run" / "metrics.parquet", columns=["reached", "max_distance"])
    record(
        "all_sources",
        graph=f"rmat-{given.scale}",
        n_vertices=run["graph"]["n_vertices"],
        n_edges=run["graph"]["n_edges"],
        n_sources=run["sources"],
        solver=run["solver"],
        wall_s=round(sum(c["wall_s"] for c in commands), 1),
        solve_s=round(sum(c["solve_s"] for c in commands), 1),
        commands=commands,
        pairs_reached=int(metrics.column("reached").to_numpy().sum()),
        largest_distance=int(metrics.column("max_distance").to_numpy().max()),
        bounds=BOUNDS,
        pairs=pairs,
        verify=run["verify"],
    )


if __name__ == "__main__":
    main()
