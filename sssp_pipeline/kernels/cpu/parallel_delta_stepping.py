"""Delta-stepping on all cores at once, one source after another: the CPU baseline of the ADDS paper.

`parallel_search.py` explains the search.
"""

from __future__ import annotations

import threading
from contextlib import nullcontext

import numpy as np

from sssp_pipeline.base.csr import CsrGraph, GraphTraits
from sssp_pipeline.kernels.contract.forecast import Forecast, core_s, depth
from sssp_pipeline.kernels.contract.solver import SolveOptions, SourceMetrics
from sssp_pipeline.kernels.cpu.cpu_solver import CpuSolver
from sssp_pipeline.kernels.cpu.delta_stepping import pick_delta
from sssp_pipeline.kernels.cpu.parallel_search import SharedSearch
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.kernels.host.search import Search

#: Held by the search that uses the cores. Two searches at once would wait for threads that have no core.
CORES_LOCK = threading.Lock()
#: Edges of the graph for each thread. One thread relaxes fewer edges than this before another thread is awake.
EDGES_A_THREAD = 50_000
#: Delta over the delta of `delta-stepping`. A larger delta needs fewer barriers, which cost more with more threads
#: (`benchmarks/kernel_constants.md`).
DELTA_TIMES = 2.0


class ParallelDeltaStepping(CpuSolver):
    """The papers' baseline: one source after another, each on all cores."""

    name = "parallel-delta-stepping"
    summary = "Delta-stepping on all cores at once, one source after another; the papers' CPU baseline"

    def forecast(self, traits: GraphTraits, n_sources: int) -> Forecast:
        # Fitted to six graphs with 16 threads (`benchmarks/results/parallel_cpu.jsonl`).
        barrier_s = 1.7e-6 * depth(traits)
        return Forecast(
            core_s(30.0, 4.2, traits), most_cores=threads_for(traits.n_edges), barrier_s=barrier_s
        )

    def start(self, graph: CsrGraph, options: SolveOptions) -> Search:
        delta = DELTA_TIMES * pick_delta(graph) if options.delta is None else float(options.delta)
        return SharedSearch(graph, delta, min(usable_cores(), threads_for(graph.n_edges)))

    def solve_source(
        self, graph: CsrGraph, search: Search, source: int, distances: np.ndarray, options: SolveOptions
    ) -> SourceMetrics:
        assert isinstance(search, SharedSearch)
        with CORES_LOCK if search.n_threads > 1 else nullcontext():
            return super().solve_source(graph, search, source, distances, options)


def threads_for(n_edges: int) -> int:
    """Return how many threads at most share a source on a graph of `n_edges` edges."""
    return max(1, n_edges // EDGES_A_THREAD)
