"""Milliseconds a source of the GPU solvers: device time of one source over the whole GPU, or its share among many.

    python benchmarks/gpu_solvers.py [--graphs ny,ne,wave,cnr,grid-4096,rmat-20,rmat-22] [--data FOLDER]
        [--cache FOLDER] [--solvers near-far] [--sources 2] [--rounds 7] [--many 64]
        [--dtype uint32] [--delta-factors 8,32]

Every distance is compared with the CPU's delta-stepping. Each graph and solver gives one line: the median over the
rounds, after one that warms up, of the device time of a source by CUDA events (initialisation and search; distances
stay on the device), each source in a call of its own, and the work done. With `--many`, also a source's share of the
device time of a call with so many, and of its wall time, each the median over the rounds; a solver of many sources at
once is measured in this way alone. The sources are those with a large reach, again and again. With `--delta-factors`,
delta is so many times mean weight over mean degree, a line for each.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from graphs import checked_names, load
from record import record

from sssp_pipeline.csr import WEIGHT_DTYPES, CsrGraph, unreached_distance
from sssp_pipeline.kernels import SOLVERS, solver_named
from sssp_pipeline.kernels.gpu.common.batch_solver import GpuBatchSolver
from sssp_pipeline.kernels.solver import Solution, SolveOptions, SourceMetrics

#: A source counts only if it reaches this share of the vertices.
LARGE_REACH = 1 / 3
#: Most sources tried for each one wanted; R-MAT vertices without edges reach nothing.
TRIED = 32


def far_reaching_sources(graph: CsrGraph, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return `count` random sources with a large reach, and the distances from them that a CPU solver finds."""
    candidates = np.random.default_rng(1).permutation(graph.n_vertices)[: TRIED * count]
    sources, rows = [], []
    for solution in solved_by_cpu(graph, candidates):
        if solution.metrics[0].reached >= LARGE_REACH * graph.n_vertices:
            sources.append(solution.metrics[0].source)
            rows.append(solution.distances[0])
        if len(sources) == count:
            return np.array(sources), np.array(rows)
    sys.exit(f"of {len(candidates)} vertices only {len(sources)} have a large reach")


def solved_by_cpu(graph: CsrGraph, sources: np.ndarray) -> Iterator[Solution]:
    """Yield the solution of each source in turn, found on every core."""
    oracle = solver_named("delta-stepping")
    n_threads = len(os.sched_getaffinity(0))
    with ThreadPoolExecutor(n_threads) as pool:
        for first in range(0, len(sources), n_threads):
            part = sources[first : first + n_threads, None]
            yield from pool.map(lambda source: oracle.solve(graph, source, SolveOptions()), part)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--graphs", default="ny,ne,wave,cnr,grid-4096,rmat-20,rmat-22")
    parser.add_argument("--data", type=Path, default=os.environ.get("SSSP_TEST_DATA"))
    parser.add_argument("--cache", type=Path, help="folder in which prepared graphs are kept")
    parser.add_argument("--solvers", default=",".join(s.name for s in SOLVERS.values() if s.device == "gpu"))
    parser.add_argument("--sources", type=int, default=2, help="sources with a large reach to take")
    parser.add_argument("--rounds", type=int, default=7, help="timed runs of each source")
    parser.add_argument("--many", type=int, default=0, help="solve so many sources in one call, too")
    parser.add_argument("--dtype", default="uint32", choices=[d.name for d in WEIGHT_DTYPES])
    parser.add_argument("--delta-factors", help="deltas to try, as multiples of mean weight / mean degree")
    given = parser.parse_args()
    for solver in given.solvers.split(","):
        if isinstance(solver_named(solver), GpuBatchSolver) and not given.many:
            parser.error(f"solver `{solver}` takes many sources at once: set --many")
    factors = [float(f) for f in given.delta_factors.split(",")] if given.delta_factors else [None]
    for name in checked_names(parser, given.graphs, given.data):
        stored = load(name, given.data, given.cache)
        graph = CsrGraph(stored.row_offsets, stored.col_indices, stored.weights.astype(given.dtype))
        sources, reference = far_reaching_sources(graph, given.sources)
        for solver in given.solvers.split(","):
            for factor in factors:
                measure(name, graph, solver, sources, reference, given.rounds, factor, given.many)


def measure(
    name: str,
    graph: CsrGraph,
    solver_name: str,
    sources: np.ndarray,
    reference: np.ndarray,
    rounds: int,
    factor: float | None,
    many: int,
) -> None:
    """Record one solver on one graph; exits if a distance differs."""
    solver = solver_named(solver_name)
    scale = graph.traits.mean_weight * graph.n_vertices / graph.n_edges
    options = SolveOptions(delta=None if factor is None else factor * scale)

    def alone(i: int) -> SourceMetrics:
        solution = solver.solve(graph, sources[i : i + 1], options)
        if not np.array_equal(solution.distances[0], reference[i]):
            sys.exit(f"{name}: {solver_name} and delta-stepping differ")
        return solution.metrics[0]

    # Sources of a large reach again and again: what matters is that they are many in one call.
    repeated = np.resize(sources, many)

    def together() -> tuple[float, list[SourceMetrics]]:
        began = time.perf_counter()
        solution = solver.solve(graph, repeated, options)
        wall_s = (time.perf_counter() - began) / many
        for i, row in enumerate(solution.distances):
            if not np.array_equal(row, reference[i % len(sources)]):
                sys.exit(f"{name}: {solver_name} and delta-stepping differ")
        return wall_s, solution.metrics

    runs = []
    if not isinstance(solver, GpuBatchSolver):
        for i in range(len(sources)):
            alone(i)  # compiles, uploads, warms up
        runs = [[alone(i) for i in range(len(sources))] for _ in range(rounds)]
    many_runs = [together() for _ in range(rounds + 1)][1:] if many else []
    taken = np.array([[m.solve_s for m in run] for run in runs])
    shares = [float(np.mean([m.solve_s for m in run])) for _, run in many_runs]
    metrics = [m for run in runs for m in run] or many_runs[0][1]
    unreached = unreached_distance(graph.weight_dtype)
    record(
        "gpu_solvers",
        graph=name,
        solver=solver_name,
        n_vertices=graph.n_vertices,
        n_edges=graph.n_edges,
        weight_dtype=graph.weight_dtype.name,
        sources=sources.tolist(),
        rounds=rounds,
        delta=metrics[0].delta_first,
        delta_over_mean_weight_by_degree=round((metrics[0].delta_first or 0) / scale, 2),
        ms=round(1e3 * float(np.median(taken)), 4) if runs else None,
        ms_of_each_source=[round(1e3 * float(t), 4) for t in np.median(taken, axis=0)] if runs else None,
        ms_least=round(1e3 * float(taken.min()), 4) if runs else None,
        many=many,
        ms_of_many=round(1e3 * float(np.median(shares)), 4) if many else None,
        ms_of_many_least=round(1e3 * min(shares), 4) if many else None,
        ms_of_many_with_copy_back=(
            round(1e3 * float(np.median([wall_s for wall_s, _ in many_runs])), 4) if many else None
        ),
        processed_a_reached_vertex=round(
            float(np.mean([m.vertices_processed / m.reached for m in metrics])), 3
        ),
        gteps=round(float(np.median([m.teps for m in metrics])) / 1e9, 3),
        reached=[int((row != unreached).sum()) for row in reference],
    )


if __name__ == "__main__":
    main()
