"""Sources with a large reach, and the true distances from them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.kernels import solver_named
from sssp_pipeline.kernels.contract.solver import Solution, SolveOptions

#: A source counts only if it reaches this share of the vertices.
LARGE_REACH = 1 / 3
#: Candidates for each source; many vertices of R-MAT reach nothing.
CANDIDATES = 32


def far_reaching_sources(graph: CsrGraph, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return `count` random sources with a large reach, and the distances from them that a CPU solver finds."""
    candidates = np.random.default_rng(1).permutation(graph.n_vertices)[: CANDIDATES * count]
    sources, rows = [], []
    for solution in solved_by_cpu(graph, candidates):
        if solution.metrics[0].reached >= LARGE_REACH * graph.n_vertices:
            sources.append(solution.metrics[0].source)
            rows.append(solution.distances[0])
        if len(sources) == count:
            return np.array(sources), np.array(rows)
    sys.exit(f"only {len(sources)} of {len(candidates)} vertices have a large reach")


def solved_by_cpu(graph: CsrGraph, sources: np.ndarray) -> Iterator[Solution]:
    """Yield the solution of each source in turn, found on every core."""
    oracle = solver_named("delta-stepping")
    n_threads = len(os.sched_getaffinity(0))
    with ThreadPoolExecutor(n_threads) as pool:
        for first in range(0, len(sources), n_threads):
            part = sources[first : first + n_threads, None]
            yield from pool.map(lambda source: oracle.solve(graph, source, SolveOptions()), part)
