"""Delta-stepping within one thread; `bucket_search.py` explains it. Parallelism comes from several sources at once."""

from __future__ import annotations

import sys

import numpy as np

from sssp_pipeline.csr import CsrGraph, GraphTraits
from sssp_pipeline.kernels.cpu.bucket_search import BucketSearch
from sssp_pipeline.kernels.cpu.cpu_solver import CpuSolver
from sssp_pipeline.kernels.forecast import Forecast, core_s
from sssp_pipeline.kernels.host.search import Search
from sssp_pipeline.kernels.solver import SolveOptions

#: Delta in units of typical weight over mean degree. Factors from 2 to 8 differ little
#: (`benchmarks/kernel_constants.md`).
DELTA_FACTOR = 4.0
#: `pick_delta` reads about this many weights to find the typical one.
SAMPLED_WEIGHTS = 65536


class DeltaStepping(CpuSolver):
    """The fastest CPU solver for many sources."""

    name = "delta-stepping"
    summary = "Delta-stepping with a window of buckets; one source a thread; the fast one without a GPU"

    def forecast(self, traits: GraphTraits, n_sources: int) -> Forecast:
        del n_sources
        return Forecast(core_s(8.0, traits))

    def start(self, graph: CsrGraph, options: SolveOptions) -> Search:
        return BucketSearch(graph, pick_delta(graph) if options.delta is None else float(options.delta))


def pick_delta(graph: CsrGraph) -> float:
    """Return the bucket width for `graph`, in the unit of its weights.

    It is `DELTA_FACTOR` times the typical weight over the mean degree. A delta that is too small costs a walk over
    empty buckets. One that is too large makes the search process vertices many times. The typical weight is the lesser
    of mean and median, since a few huge weights raise the mean alone. A median of zero is ignored.
    """
    if graph.traits.max_weight <= 0:
        return 1.0
    sample = graph.weights[:: max(1, graph.n_edges // SAMPLED_WEIGHTS)].astype(np.float64)
    # The sum of float64 weights near the largest value overflows, and so does the mean.
    typical = float(min(graph.traits.mean_weight, graph.traits.max_weight))
    median = float(np.partition(sample, len(sample) // 2)[len(sample) // 2])
    if median > 0:
        typical = min(typical, median)
    delta = typical * (DELTA_FACTOR * graph.n_vertices / graph.n_edges)
    return min(max(delta, sys.float_info.min), sys.float_info.max)
