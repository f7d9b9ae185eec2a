"""Bellman and Ford's algorithm with a queue, one source a thread; `queue_search.py` explains it."""

from __future__ import annotations

from sssp_pipeline.base.csr import CsrGraph, GraphTraits
from sssp_pipeline.kernels.contract.forecast import Forecast, core_s
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.cpu.cpu_solver import CpuSolver
from sssp_pipeline.kernels.host.queue_search import QueueSearch
from sssp_pipeline.kernels.host.search import Search


class QueueBellmanFord(CpuSolver):
    """Fast only with few negative edges; takes any finite weights."""

    name = "queue-bellman-ford"
    summary = "Bellman and Ford's algorithm with a queue; one source a thread; takes negative weights"
    no_delta = "it has no buckets and takes no delta"
    takes_negative = True

    def forecast(self, traits: GraphTraits, n_sources: int) -> Forecast:
        # Between roads and R-MAT the time for an edge differs by a factor above 100.
        return Forecast(core_s(400.0, 400.0, traits), off_by=30.0)

    def start(self, graph: CsrGraph, options: SolveOptions) -> Search:
        return QueueSearch(graph)
