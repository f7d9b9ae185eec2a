"""From all vertices of made roads to some targets, as runs and as a call from Python: seconds and the direction.

    python benchmarks/to_targets.py [--vertices 24000000] [--targets 100] [--nearest 1000] [--forward 512]
        [--solver auto] [--folder .bench/to_targets]

The roads are `generated:road`. A line of `results/to_targets.jsonl` has

- `run`: a run that writes the distances from every vertex to `--targets` random vertices. `timings` are its stages.
  Some sources are verified forward.
- `nearest_run`: a run that writes the 3 nearest of these vertices for every vertex.
- `nearest`: `sp.nearest` with the graph in the store: the 3 nearest of `--nearest` vertices, for every vertex.
- `forward`: the same for `--forward` random sources, searched forward, after a first call. The answers must agree.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from ingest import measured
from record import record

import sssp_pipeline as sp

#: How many nearest targets are asked for.
K = 3
COMMAND = [sys.executable, "-m", "sssp_pipeline.cli"]


def workflow(given: argparse.Namespace, store: Path, output: dict[str, Any]) -> Path:
    """Write a workflow with this `output`, and return its path."""
    path = given.folder / "to_targets.yaml"
    data = {
        "graph": {"input": f"generated:road?vertices={given.vertices}&seed=7", "store": str(store)},
        "sources": {"all": True},
        "solve": {"solver": given.solver},
        "output": {"path": str(given.folder / "run"), **output},
        "verify": "sample",
    }
    path.write_text(json.dumps(data))
    return path


def ingest(given: argparse.Namespace, store: Path) -> dict[str, Any]:
    """Return the facts of the ingest."""
    used, printed = measured([*COMMAND, "ingest", str(workflow(given, store, {})), "--json"])
    manifest = json.loads(printed)
    return {"n_vertices": manifest["n_vertices"], "n_edges": manifest["n_edges"], "ingest": used}


def run(given: argparse.Namespace, store: Path, output: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of the run with this `output`."""
    path = given.folder / "run"
    used, printed = measured([*COMMAND, "run", str(workflow(given, store, output)), "--json"])
    done = json.loads(printed)
    n_bytes = sum(file.stat().st_size for file in (path / "distances").iterdir())
    shutil.rmtree(path)
    return used | {
        "n_targets": given.targets,
        "solver": done["solver"],
        "direction": done["direction"],
        "timings": {stage: round(s, 3) for stage, s in done["timings"].items()},
        "distance_bytes": n_bytes,
        "verified_sources": done["verify"]["checked_sources"],
    }


def nearest(given: argparse.Namespace, store: Path, n_vertices: int) -> dict[str, Any]:
    """Return the facts of the calls from Python."""
    random = np.random.default_rng(1)
    targets = random.choice(n_vertices, given.nearest, replace=False)

    def call(sources: np.ndarray, **options: Any) -> tuple[pa.Table, float]:
        began = time.perf_counter()
        found = sp.nearest(str(store), sources, K, targets=targets, solver=given.solver, **options)
        return found, round(time.perf_counter() - began, 3)

    some = random.choice(n_vertices, given.forward, replace=False)
    call(some[:8], direction="forward")  # compiles and loads
    wanted, forward_s = call(some, direction="forward")
    found, wall_s = call(np.arange(n_vertices))
    if not found.take((some[:, None] * K + np.arange(K)).ravel()).equals(wanted):
        sys.exit("the nearest vertices backward and forward differ")
    return {
        "nearest": {"n_targets": given.nearest, "k": K, "wall_s": wall_s},
        "forward": {"n_sources": given.forward, "wall_s": forward_s},
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vertices", type=int, default=24_000_000)
    parser.add_argument("--targets", type=int, default=100, help="vertices to which distances are written")
    parser.add_argument("--nearest", type=int, default=1000, help="vertices of which the nearest are found")
    parser.add_argument("--forward", type=int, default=512, help="sources that are also searched forward")
    parser.add_argument("--solver", default="auto")
    parser.add_argument("--folder", type=Path, default=Path(".bench/to_targets"))
    given = parser.parse_args()
    shutil.rmtree(given.folder, ignore_errors=True)
    given.folder.mkdir(parents=True)
    store = given.folder / "graph"
    facts = ingest(given, store)
    targets = {"random": {"count": given.targets, "seed": 1}}
    facts["run"] = run(given, store, {"targets": targets})
    facts["nearest_run"] = run(given, store, {"distances": "nearest", "nearest": {"k": K, "of": targets}})
    facts |= nearest(given, store, facts["n_vertices"])
    record("to_targets", cores=len(os.sched_getaffinity(0)), **facts)
    shutil.rmtree(given.folder)


if __name__ == "__main__":
    main()
