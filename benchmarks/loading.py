"""A stored graph into host memory: MB/s and parts/s, for one process alone and through the machine's cache.

    python benchmarks/loading.py [--input generated:rmat?scale=22&seed=1] [--folder .bench] [--rounds 5] [--sources 4]

Each round has three ways: `private` loads into memory of the process; `first` loads into an empty cache; `mapped`
finds the graph in the cache, and then reads all of it. The store has just been read, so nothing waits for a disk.
Then `--sources` sources are solved on one thread, in turn on the graph in private memory and on the mapped graph.
Their seconds are CPU time.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
from record import record

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.kernels import solver_named
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.pipeline.graph_store.loading import load_graph
from sssp_pipeline.pipeline.graph_store.machine_cache import GraphCache
from sssp_pipeline.pipeline.graph_store.manifest import Manifest
from sssp_pipeline.pipeline.graph_store.store import read_manifest
from sssp_pipeline.pipeline.ingest.into_store import ingest
from sssp_pipeline.workflow.graph import Graph

SOLVER = "delta-stepping"


def seconds(work: Callable[..., object], *arguments: object) -> float:
    began = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - began


def read_through(graph: CsrGraph) -> None:
    for array in (graph.row_offsets, graph.col_indices, graph.weights):
        array.max()


def load_seconds(store: str, manifest: Manifest, folder: Path, rounds: int) -> dict[str, float]:
    """Return the median seconds of each way."""
    taken: dict[str, list[float]] = {"private": [], "first": [], "mapped": [], "mapped_read": []}
    load_graph(store, manifest)  # compiles nothing, but brings the store into memory
    for _ in range(rounds):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        cache = GraphCache(folder)
        taken["private"].append(seconds(load_graph, store, manifest))
        taken["first"].append(seconds(cache.graph, store, manifest))
        taken["mapped"].append(seconds(cache.graph, store, manifest))
        mapped, _ = cache.graph(store, manifest)
        taken["mapped_read"].append(seconds(read_through, mapped))
    return {way: median(times) for way, times in taken.items()}


def solve_seconds(graphs: dict[str, CsrGraph], n_sources: int, rounds: int) -> dict[str, float]:
    """Return the median CPU seconds a source on each graph, after a round that is not counted."""
    solve = solver_named(SOLVER).solve
    degrees = np.diff(next(iter(graphs.values())).row_offsets)
    sources = np.argsort(degrees, kind="stable")[-n_sources:]
    taken: dict[str, list[float]] = {name: [] for name in graphs}
    for _ in range(rounds + 1):
        for name, graph in graphs.items():
            began = time.process_time()  # one thread, which others of the machine do not slow down so
            solve(graph, sources, SolveOptions())
            taken[name].append((time.process_time() - began) / n_sources)
    return {name: median(times[1:]) for name, times in taken.items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--input", default="generated:rmat?scale=22&seed=1")
    parser.add_argument("--folder", type=Path, default=Path(".bench"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sources", type=int, default=4)
    given = parser.parse_args()
    given.folder.mkdir(exist_ok=True)
    graph, cache = Graph(input=given.input), given.folder / "loading-cache"
    store = str(given.folder / f"loading-graph-{graph.digest_in(str(given.folder))}")
    ingest(graph, store, Quiet())
    manifest = read_manifest(store)
    n_parts = len(manifest.row_offsets) + len(manifest.edges)
    load_s = load_seconds(store, manifest, cache, given.rounds)
    graphs = {
        "private": load_graph(store, manifest),
        "mapped": GraphCache(cache).graph(store, manifest)[0],
    }
    solve_s = solve_seconds(graphs, given.sources, given.rounds)
    record(
        "loading",
        input=given.input,
        n_vertices=manifest.n_vertices,
        n_edges=manifest.n_edges,
        graph_bytes=manifest.graph_bytes,
        n_parts=n_parts,
        rounds=given.rounds,
        load_s={way: round(s, 4) for way, s in load_s.items()},
        mb_per_s={way: round(manifest.graph_bytes / s / 1e6) for way, s in load_s.items() if way != "mapped"},
        parts_per_s={way: round(n_parts / load_s[way], 1) for way in ("private", "first")},
        solver=SOLVER,
        sources=given.sources,
        solve_cpu_s_per_source={name: round(s, 4) for name, s in solve_s.items()},
        solve_mapped_over_private=round(solve_s["mapped"] / solve_s["private"], 3),
    )
    shutil.rmtree(cache)


if __name__ == "__main__":
    main()
