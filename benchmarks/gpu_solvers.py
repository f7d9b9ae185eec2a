"""Milliseconds a source of the GPU solvers: device time of one source over the whole GPU.

    python benchmarks/gpu_solvers.py [--graphs ny,ne,wave,cnr,grid-4096,rmat-20,rmat-22] [--data FOLDER]
        [--cache FOLDER] [--solvers near-far] [--sources 2] [--rounds 7] [--many 64]
        [--dtype uint32] [--delta-factors 8,32]

Every distance is compared with the CPU's delta-stepping. Each graph and solver gives one line: the median over the
rounds, after one that warms up, of the device time of a source by CUDA events (initialisation and search; distances
stay on the device), each source in a call of its own, and the work done. With `--many`, also a source's share of the
device time of one call with so many, and of its wall time. With `--delta-factors`, delta is so many times mean weight
over mean degree, a line for each.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import numpy as np
from graphs import checked_names, load
from record import record

from sssp_pipeline.csr import WEIGHT_DTYPES, CsrGraph, unreached_distance
from sssp_pipeline.kernels import SOLVERS, solver_named
from sssp_pipeline.kernels.solver import SolveOptions, SourceMetrics

#: A source counts only if it reaches this share of the vertices.
LARGE_REACH = 1 / 3
#: Most sources tried; R-MAT vertices without edges reach nothing.
TRIED = 64


def far_reaching_sources(graph: CsrGraph, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return `count` random sources with a large reach, and the distances from them that a CPU solver finds."""
    oracle = solver_named("delta-stepping")
    sources, rows = [], []
    for source in np.random.default_rng(1).permutation(graph.n_vertices)[:TRIED]:
        solution = oracle.solve(graph, np.array([source]), SolveOptions())
        if solution.metrics[0].reached >= LARGE_REACH * graph.n_vertices:
            sources.append(source)
            rows.append(solution.distances[0])
        if len(sources) == count:
            return np.array(sources), np.array(rows)
    sys.exit(f"of {TRIED} vertices only {len(sources)} have a large reach")


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

    for i in range(len(sources)):
        alone(i)  # compiles, uploads, warms up
    runs = [[alone(i) for i in range(len(sources))] for _ in range(rounds)]
    taken = np.array([[m.solve_s for m in run] for run in runs])
    metrics = [m for run in runs for m in run]
    wall_s, share_s = None, None
    if many:
        # Sources of a large reach again and again: what matters is that they are many in one call.
        repeated = np.resize(sources, many)
        solver.solve(graph, repeated, options)
        began = time.perf_counter()
        together = solver.solve(graph, repeated, options)
        wall_s = (time.perf_counter() - began) / many
        share_s = float(np.mean([m.solve_s for m in together.metrics]))
        if not np.array_equal(together.distances, reference[np.arange(many) % len(sources)]):
            sys.exit(f"{name}: {solver_name} and delta-stepping differ")
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
        ms=round(1e3 * float(np.median(taken)), 4),
        ms_of_each_source=[round(1e3 * float(t), 4) for t in np.median(taken, axis=0)],
        ms_least=round(1e3 * float(taken.min()), 4),
        many=many,
        ms_of_many=None if share_s is None else round(1e3 * share_s, 4),
        ms_of_many_with_copy_back=None if wall_s is None else round(1e3 * wall_s, 4),
        processed_a_reached_vertex=round(
            float(np.mean([m.vertices_processed / m.reached for m in metrics])), 3
        ),
        gteps=round(float(np.median([m.teps for m in metrics])) / 1e9, 3),
        reached=[int((row != unreached).sum()) for row in reference],
    )


if __name__ == "__main__":
    main()
