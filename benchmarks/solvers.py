"""Milliseconds a source of every CPU solver beside SciPy's, taking turns in one run.

All are called by one thread and use no other, but `parallel-delta-stepping`, which takes every core.

    python benchmarks/solvers.py [--graphs ny,wave,rmat-18,grid] [--data FOLDER] [--sources 10]
        [--rounds 5] [--dtype uint32] [--solvers delta-stepping,dijkstra]

Each graph gives one line: the median over the rounds of the wall time of one call with all sources, divided by
their number. Every distance is compared with SciPy's before anything is timed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from graphs import GRAPHS, checked_names, load
from record import record
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra

from sssp_pipeline.csr import WEIGHT_DTYPES, CsrGraph, unreached_distance
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.solver import SolveOptions, Solver

#: A source counts only if it reaches this share of the vertices.
LARGE_REACH = 1 / 3


def far_reaching_sources(matrix: csr_matrix, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return `count` random sources with a large reach, and SciPy's distances from them."""
    n_vertices = matrix.shape[0]
    sources, rows = [], []
    for source in np.random.default_rng(1).permutation(n_vertices):
        row = dijkstra(matrix, indices=source)
        if np.isfinite(row).sum() >= LARGE_REACH * n_vertices:
            sources.append(source)
            rows.append(row)
        if len(sources) == count:
            break
    return np.array(sources), np.array(rows)


def seconds(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def measure(name: str, graph: CsrGraph, solvers: list[Solver], n_sources: int, rounds: int) -> None:
    """Record the median time a source of SciPy and of each solver; exits if a distance differs."""
    index = np.int32 if graph.n_edges < 2**31 else np.int64
    matrix = csr_matrix(
        (graph.weights.astype(np.float64), graph.col_indices.astype(index), graph.row_offsets.astype(index)),
        shape=(graph.n_vertices, graph.n_vertices),
    )
    sources, reference = far_reaching_sources(matrix, n_sources)
    work, delta = {}, {}
    for solver in solvers:
        solution = solver.solve(graph, sources, SolveOptions())
        found = solution.distances.astype(np.float64)
        found[solution.distances == unreached_distance(graph.weight_dtype)] = np.inf
        if not np.array_equal(found, reference):
            sys.exit(f"{name}: {solver.name} and SciPy differ")
        work[solver.name] = np.mean([m.vertices_processed / m.reached for m in solution.metrics])
        delta[solver.name] = solution.metrics[0].delta_first
    calls: dict[str, Callable[[], Any]] = {"scipy": lambda: dijkstra(matrix, indices=sources)}
    for solver in solvers:
        calls[solver.name] = partial(solver.solve, graph, sources, SolveOptions())
    taken = [{who: seconds(call) / len(sources) for who, call in calls.items()} for _ in range(rounds)]
    medians = {who: float(np.median([t[who] for t in taken])) for who in calls}
    record(
        "solvers",
        graph=name,
        n_vertices=graph.n_vertices,
        n_edges=graph.n_edges,
        weight_dtype=graph.weight_dtype.name,
        sources=len(sources),
        rounds=rounds,
        delta=delta,
        load_1min=os.getloadavg()[0],
        ms_a_source={who: round(1e3 * s, 2) for who, s in medians.items()},
        times_as_fast_as_scipy={s.name: round(medians["scipy"] / medians[s.name], 2) for s in solvers},
        processed_a_reached_vertex={who: round(float(w), 3) for who, w in work.items()},
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--graphs", default="ny,wave,rmat-18,grid,road", help="of " + ", ".join(GRAPHS))
    parser.add_argument(
        "--data", type=Path, default=os.environ.get("SSSP_TEST_DATA"), help="where ny and wave are"
    )
    parser.add_argument("--sources", type=int, default=10, help="sources with a large reach to take")
    parser.add_argument("--rounds", type=int, default=5, help="how often all of them are solved")
    parser.add_argument("--dtype", default="uint32", choices=[d.name for d in WEIGHT_DTYPES])
    on_cpu = {name: solver for name, solver in SOLVERS.items() if solver.device == "cpu"}
    parser.add_argument("--solvers", default=",".join(on_cpu), help="of " + ", ".join(on_cpu))
    given = parser.parse_args()
    wanted = given.solvers.split(",")
    if unknown := [name for name in wanted if name not in on_cpu]:
        parser.error(f"unknown solver `{unknown[0]}`; --solvers takes {', '.join(on_cpu)}")
    for name in checked_names(parser, given.graphs, given.data):
        graph = load(name, given.data)
        typed = CsrGraph(graph.row_offsets, graph.col_indices, graph.weights.astype(given.dtype))
        measure(name, typed, [on_cpu[w] for w in wanted], given.sources, given.rounds)


if __name__ == "__main__":
    main()
