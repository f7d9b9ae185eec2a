"""The throughput of solving on one, two and four GPUs of one machine, and the losses, for docs/scaling.md.

    python benchmarks/gpus.py --cache FOLDER [--data FOLDER] [--graphs ne,grid-4096,rmat-22] [--sources 1024,4096]
        [--gpus 1,2,4] [--targets 1000] [--rounds 3] [--folder .bench]

A graph of `graphs.py` is ingested. A worker for each GPU is started as `cluster.kind: local-cuda` starts it. It
solves the same workflow several times; the first run loads the graph and compiles. The time is that of the whole of
`scatter`, from the first task submitted to the last task done, with its committed files. The run writes the
distances to random targets, or with `--targets 0` only metrics. The bytes must be those that one GPU wrote.

A line has for each number of GPUs the seconds of that span, the device seconds of all GPUs, and those of the
busiest GPU. Three losses explain the speed-up: `slower`, because smaller calls take longer for a source; `unequal`,
because the others wait for the busiest GPU; and `idle`, the rest of the span, in which the busiest GPU does not
solve.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import graphs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from record import record

from sssp_pipeline.base.progress import Level, Quiet
from sssp_pipeline.kernels.gpu.common.cuda.cupy_setup import gpu_count
from sssp_pipeline.pipeline.graph_store.loading import load_graph, load_ids
from sssp_pipeline.pipeline.graph_store.store import read_manifest
from sssp_pipeline.pipeline.ingest.into_store import ingest
from sssp_pipeline.pipeline.run.conductor import run
from sssp_pipeline.pipeline.solving.workers import local_cluster
from sssp_pipeline.workflow.cluster import Cluster
from sssp_pipeline.workflow.graph import Graph
from sssp_pipeline.workflow.models import Workflow

#: Threads of a worker: as many as `local-cuda` gives it where a call has several batches.
THREADS = 3


class Clock(Quiet):
    """Notes when the first task is submitted, and when the last one is done."""

    began = ended = 0.0

    def say(self, line: str, event: str = "note", *, level: Level = "info", **facts: Any) -> None:
        if event == "workers":
            self.began = time.perf_counter()

    def advance(self, done: int, total: int | None, unit: str) -> None:
        if unit == "batches":
            self.ended = time.perf_counter()


def stored(name: str, cache: Path, data: Path | None, folder: Path) -> str:
    """Return the store of a graph of `graphs.py`, ingested from an edge list in Parquet."""
    store, edges = folder / f"{name}-graph", folder / f"{name}.parquet"
    if not store.exists():
        graph = graphs.load(name, data, cache)
        sources = np.repeat(np.arange(graph.n_vertices, dtype=np.uint32), np.diff(graph.row_offsets))
        columns = {"source": sources, "target": graph.col_indices, "weight": graph.weights}
        pq.write_table(pa.table(columns), edges, compression="none", use_dictionary=False)
        ingest(Graph(input=str(edges), store=str(store), self_loops="keep"), str(store), Quiet())
        edges.unlink()
    return str(store)


def sources_of(store: str, count: int) -> str:
    """Return a file of `count` random vertices with edges; a run that draws its sources would load the graph."""
    file = Path(f"{store}-{count}.txt")
    if not file.exists():
        manifest = read_manifest(store)
        degrees = np.diff(load_graph(store, manifest).row_offsets)
        drawn = np.random.default_rng(1).choice(np.flatnonzero(degrees), count, replace=False)
        ids = load_ids(store, manifest).originals(drawn.astype(np.uint32))
        np.savetxt(file, ids.to_numpy(zero_copy_only=False), "%d")
    return str(file)


def solved(workflow: Workflow, folder: Path) -> tuple[dict[str, float], str, dict[str, Any]]:
    """Return the seconds of one run, a digest of its distances, and its record."""
    shutil.rmtree(folder, ignore_errors=True)
    clock = Clock()
    run_folder, outcome = run(workflow, clock, may_ingest=False, finish=False)
    metrics = run_folder.read_metrics()
    _, worker = np.unique(metrics["worker"].to_numpy(zero_copy_only=False), return_inverse=True)
    device_s = np.bincount(worker, metrics["solve_s"].to_numpy())
    digest = hashlib.sha256()
    for file in sorted((folder / "distances").glob("*")):
        digest.update(file.read_bytes())
    seconds = {
        "span_s": clock.ended - clock.began,
        "device_s": float(device_s.sum()),
        "busiest_s": float(device_s.max()),
    }
    return seconds, digest.hexdigest(), outcome


def speedup(one: dict[str, float], many: dict[str, float], n_gpus: int) -> dict[str, float]:
    """Return how many times as fast `many` is as `one`, and the three losses as shares."""
    slower = one["device_s"] / many["device_s"]
    unequal = many["device_s"] / n_gpus / many["busiest_s"]
    idle = (many["busiest_s"] / many["span_s"]) / (one["busiest_s"] / one["span_s"])
    shares = {"slower": 1 - slower, "unequal": 1 - unequal, "idle": 1 - idle}
    return {"times": round(one["span_s"] / many["span_s"], 3)} | {k: round(v, 3) for k, v in shares.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--graphs", default="ne,grid-4096,rmat-22")
    parser.add_argument("--sources", default="1024,4096")
    parser.add_argument("--gpus", default="1,2,4")
    parser.add_argument("--targets", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path(".bench"))
    given = parser.parse_args()
    numbers = [int(n) for n in given.gpus.split(",")]
    if numbers[0] != 1 or max(numbers) > gpu_count():
        sys.exit(f"--gpus begins with 1 and goes up to the {gpu_count()} there are, not {given.gpus}")
    given.folder.mkdir(exist_ok=True, parents=True)
    stores = {name: stored(name, given.cache, given.data, given.folder) for name in given.graphs.split(",")}
    kept = (
        {"targets": {"random": {"count": given.targets, "seed": 1}}}
        if given.targets
        else {"distances": "none"}
    )
    found: dict[tuple[str, int], dict[int, dict[str, float]]] = {}
    digests: dict[tuple[str, int], str] = {}
    solver: dict[tuple[str, int], str] = {}
    for n_gpus in numbers:
        with local_cluster.started_here(Cluster(kind="local-cuda"), n_gpus, THREADS, 0) as client:
            address = {"kind": "address", "address": client.scheduler.address}
            for name, store in stores.items():
                for n_sources in map(int, given.sources.split(",")):
                    folder = given.folder / "gpus-run"
                    workflow = Workflow.model_validate(
                        {
                            "graph": {"input": "ingested", "store": store},
                            "sources": {"file": sources_of(store, n_sources)},
                            "output": {"path": str(folder), **kept},
                            "cluster": address,
                            "verify": "off",
                            "report": False,
                        }
                    )
                    rounds = []
                    case = name, n_sources
                    for _ in range(1 + given.rounds):
                        seconds, digest, outcome = solved(workflow, folder)
                        rounds.append(seconds)
                        if digests.setdefault(case, digest) != digest:
                            sys.exit(f"{name}, {n_sources} sources: {n_gpus} GPUs wrote other bytes")
                    solver[case] = outcome["solver"]
                    timed = sorted(rounds[1:], key=lambda r: r["span_s"])[given.rounds // 2]
                    found.setdefault(case, {})[n_gpus] = timed
    for (name, n_sources), by_gpus in found.items():
        record(
            "gpus",
            graph=name,
            sources=n_sources,
            targets=given.targets,
            rounds=given.rounds,
            solver=solver[name, n_sources],
            gpus={n: {k: round(v, 5) for k, v in seconds.items()} for n, seconds in by_gpus.items()},
            speedup={n: speedup(by_gpus[1], seconds, n) for n, seconds in by_gpus.items()},
        )
    shutil.rmtree(given.folder / "gpus-run")


if __name__ == "__main__":
    main()
