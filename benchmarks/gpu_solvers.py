"""Milliseconds a source of the GPU solvers: device time of one source over the whole GPU.

    python benchmarks/gpu_solvers.py [--graphs ny,ne,wave,cnr,grid-4096,rmat-20,rmat-22] [--data FOLDER]
        [--cache FOLDER] [--solvers near-far] [--sources 2] [--rounds 7] [--many 64]
        [--dtype uint32] [--delta-factors 8,32]

Every distance is compared with the CPU's delta-stepping. Each graph and solver gives one line: the median over the
rounds, after one that warms up, of the device time of a source by CUDA events (initialisation and search; distances
stay on the device), each source in a call of its own, and the work done. With `--many`, also a source's share of the
device time of calls with so many, and of their wall time; solvers of many sources at once are measured by that alone.
With `--delta-factors`, delta is so many times mean weight over mean degree, a line for each.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import numpy as np
from graphs import FROM_FILES, GRAPHS, load
from numpy.typing import ArrayLike
from record import record

from sssp_pipeline.csr import WEIGHT_DTYPES, CsrGraph, unreached_distance
from sssp_pipeline.kernels import SOLVERS, solver_named
from sssp_pipeline.kernels._gpu_batch import GpuBatchSolver
from sssp_pipeline.kernels.solver import SolveOptions, SourceMetrics

#: A source counts only if it reaches this share of the vertices.
LARGE_REACH = 1 / 3
#: Most vertices tried for each source wanted; R-MAT vertices without edges reach nothing.
TRIED = 16


def far_reaching_sources(graph: CsrGraph, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return `count` random sources with a large reach, and the distances from them that a CPU solver finds."""
    oracle = solver_named("delta-stepping")
    sources, rows = [], []
    tried = np.random.default_rng(1).permutation(graph.n_vertices)[: TRIED * count]
    for first in range(0, len(tried), count):
        solution = oracle.solve(graph, tried[first : first + count], SolveOptions())
        for row, metrics in zip(solution.distances, solution.metrics, strict=True):
            if metrics.reached >= LARGE_REACH * graph.n_vertices:
                sources.append(metrics.source)
                rows.append(row.copy())
        if len(sources) >= count:
            return np.array(sources[:count]), np.array(rows[:count])
    sys.exit(f"of {len(tried)} vertices only {len(sources)} have a large reach")


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
    parser.add_argument(
        "--many", type=int, default=64, help="solve so many sources in one call, too; 0: do not"
    )
    parser.add_argument("--dtype", default="uint32", choices=[d.name for d in WEIGHT_DTYPES])
    parser.add_argument("--delta-factors", help="deltas to try, as multiples of mean weight / mean degree")
    given = parser.parse_args()
    for solver in given.solvers.split(","):
        if isinstance(solver_named(solver), GpuBatchSolver) and not given.many:
            parser.error(f"`{solver}` solves many sources at once: set --many")
    factors = [float(f) for f in given.delta_factors.split(",")] if given.delta_factors else [None]
    for name in given.graphs.split(","):
        if name not in GRAPHS:
            parser.error(f"unknown graph `{name}`; graphs: {', '.join(GRAPHS)}")
        if name in FROM_FILES and given.data is None:
            parser.error(f"graph `{name}` is read from a file: set --data or SSSP_TEST_DATA")
        stored = load(name, given.data, given.cache)
        graph = CsrGraph(stored.row_offsets, stored.col_indices, stored.weights.astype(given.dtype))
        sources, reference = far_reaching_sources(graph, given.sources)
        for solver in given.solvers.split(","):
            for factor in factors:
                measure(name, graph, solver, sources, reference, given.rounds, factor, given.many)


def milliseconds(seconds: ArrayLike) -> float | None:
    """Return the median of `seconds` in milliseconds; None if there are none."""
    values = np.asarray(seconds)
    return None if values.size == 0 else round(1e3 * float(np.median(values)), 4)


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

    metrics: list[SourceMetrics] = []
    taken = np.empty((0, 0))
    if not isinstance(solver, GpuBatchSolver):
        for i in range(len(sources)):
            alone(i)  # compiles, uploads, warms up
        runs = [[alone(i) for i in range(len(sources))] for _ in range(rounds)]
        taken = np.array([[m.solve_s for m in run] for run in runs])
        metrics = [m for run in runs for m in run]
    shares, walls = [], []
    # Sources of a large reach again and again: what matters is that they are many in one call.
    repeated = np.resize(sources, many)
    for _ in range(1 + rounds if many else 0):
        began = time.perf_counter()
        together = solver.solve(graph, repeated, options)
        walls.append((time.perf_counter() - began) / many)
        shares.append(float(np.mean([m.solve_s for m in together.metrics])))
        metrics = metrics or together.metrics
        if not all(
            np.array_equal(row, reference[i % len(sources)]) for i, row in enumerate(together.distances)
        ):
            sys.exit(f"{name}: {solver_name} and delta-stepping differ")
        del together
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
        ms=milliseconds(taken),
        ms_of_each_source=[milliseconds(t) for t in taken.T],
        ms_least=milliseconds(np.sort(taken, axis=None)[:1]),
        many=many,
        ms_of_many=milliseconds(shares[1:]),
        ms_of_many_with_copy_back=milliseconds(walls[1:]),
        processed_a_reached_vertex=round(
            float(np.mean([m.vertices_processed / m.reached for m in metrics])), 3
        ),
        gteps=round(float(np.median([m.teps for m in metrics])) / 1e9, 3),
        reached=[int((row != unreached).sum()) for row in reference],
    )


if __name__ == "__main__":
    main()
