"""Betweenness on a GPU: seconds of a call, how search and pass share them, and the pass on a CPU.

    python benchmarks/betweenness_gpu.py --data FOLDER [--cache FOLDER] [--graphs ny,ne,rmat-20]
        [--sources all,16384,4096] [--solver auto] [--threads 256,512,1024] [--edges] [--rounds 3]

Each graph has its own number of sources, all different. There is a line for each graph and each number of threads of a
block; 0 leaves that to the package. `first_s` is the first call, which compiles and perhaps makes a hierarchy.
`search_s` and `pass_s` are wall times of later calls, medians of `--rounds`. `cpu_pass_us` is the processor time of a
source on one core, of 16 rows. Their words must be the same on both; if not, the program ends. `n_left` counts rows
that the GPU left to the CPU.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from graphs import checked_names, load
from record import record

from sssp_pipeline.api.calls.along_paths import sums_along_paths
from sssp_pipeline.api.calls.calls import solve_sources
from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.answers.path_sums import PathSums
from sssp_pipeline.kernels.contract.path_sums_asked import PathSumsAsked
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.gpu.common.rows import path_sums_on_device
from sssp_pipeline.kernels.gpu.common.rows.path_sums_on_device import AddedRows, PassSize, PathSumsOnDevice

#: Rows that the CPU adds too.
COMPARED = 16
OPTIONS = SolveOptions(metrics=False)


class Timed:
    """One call: seconds of the searches and of the rest, the solver, and the size of the pass."""

    def __init__(self, graph: CsrGraph, sources: np.ndarray, asked: PathSumsAsked, solver: str) -> None:
        self.search_s, self.n_left = 0.0, 0
        self.solver = ""
        self.size: PassSize | None = None
        real = PathSumsOnDevice.add

        def add(sums: PathSumsOnDevice, rows: Any, some: np.ndarray) -> AddedRows:
            added = real(sums, rows, some).wait()
            self.n_left += len(added.left())
            self.size = sums.size
            return added

        def solve(*args: Any, **options: Any) -> Sequence[Any]:
            began = time.perf_counter()
            metrics = solve_sources(graph, *args, **options)
            self.search_s += time.perf_counter() - began
            self.solver = metrics[0].solver
            return metrics

        PathSumsOnDevice.add = add  # type: ignore[method-assign]
        began = time.perf_counter()
        try:
            self.sums = sums_along_paths(graph, sources, asked, OPTIONS, solver, solve).words
        finally:
            PathSumsOnDevice.add = real  # type: ignore[method-assign]
        self.wall_s = time.perf_counter() - began


def cpu_pass_us(graph: CsrGraph, sources: np.ndarray, asked: PathSumsAsked, solver: str) -> float:
    """Return how many microseconds a source takes on the CPU. It raises if the sums differ from those of the GPU."""
    rows = SOLVERS["delta-stepping"].solve(graph, sources, OPTIONS).distances
    PathSums(graph, asked).add(rows[:1], sources[:1])  # compiles
    sums = PathSums(graph, asked)
    began = time.process_time()
    sums.add(rows, sources)
    took = time.process_time() - began
    found = Timed(graph, sources, asked, solver).sums
    for words, expected in zip(found, sums.words, strict=True):
        np.testing.assert_array_equal(words, expected)
    return 1e6 * took / len(sources)


def measure(
    name: str, graph: CsrGraph, n_sources: int, solver: str, threads: int, edges: bool, rounds: int
) -> None:
    """Record a line."""
    drawn = np.random.default_rng(1).choice(graph.n_vertices, n_sources, replace=False)
    sources = np.sort(drawn).astype(np.uint32)
    asked = PathSumsAsked(vertices=not edges, edges=edges, squares=n_sources < graph.n_vertices)
    usual = path_sums_on_device._THREADS
    path_sums_on_device._THREADS = (threads,) if threads else usual
    try:
        first = Timed(graph, sources, asked, solver)
        calls = [Timed(graph, sources, asked, solver) for _ in range(rounds)]
        some = np.ascontiguousarray(sources[:: -(-n_sources // COMPARED)])
        cpu_us = cpu_pass_us(graph, some, asked, solver)
    finally:
        path_sums_on_device._THREADS = usual
    size = calls[0].size
    assert size is not None, f"{name}: `auto` took a solver for the CPU"
    wall_s, search_s = median(call.wall_s for call in calls), median(call.search_s for call in calls)
    record(
        "betweenness_gpu",
        graph=name,
        n_vertices=graph.n_vertices,
        n_edges=graph.n_edges,
        n_sources=n_sources,
        of_edges=edges,
        solver=calls[0].solver,
        threads=size.threads,
        n_slots=size.n_slots,
        n_rows=size.n_rows,
        n_left=calls[0].n_left,
        first_s=round(first.wall_s, 3),
        wall_s=round(wall_s, 3),
        search_s=round(search_s, 3),
        pass_s=round(wall_s - search_s, 3),
        source_us=round(1e6 * wall_s / n_sources, 2),
        pass_us=round(1e6 * (wall_s - search_s) / n_sources, 2),
        cpu_pass_us=round(cpu_us, 1),
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("SSSP_TEST_DATA"))
    parser.add_argument("--cache", type=Path, help="folder in which prepared graphs are kept")
    parser.add_argument("--graphs", default="ny,ne,rmat-20")
    parser.add_argument(
        "--sources", default="all,16384,4096", help="the sources of each graph, or of all graphs"
    )
    parser.add_argument("--solver", default="auto")
    parser.add_argument("--threads", default="0", help="threads of a block")
    parser.add_argument("--edges", action="store_true", help="sums of edges, and not of vertices")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    names = checked_names(parser, given.graphs, given.data)
    counts = given.sources.split(",")
    if len(counts) not in (1, len(names)):
        parser.error(f"{len(names)} graphs, and {len(counts)} numbers of sources")
    for name, count in zip(names, counts * (len(names) if len(counts) == 1 else 1), strict=True):
        graph = load(name, given.data, given.cache)
        n_sources = graph.n_vertices if count == "all" else min(int(count), graph.n_vertices)
        for threads in given.threads.split(","):
            measure(name, graph, n_sources, given.solver, int(threads), given.edges, given.rounds)


if __name__ == "__main__":
    main()
