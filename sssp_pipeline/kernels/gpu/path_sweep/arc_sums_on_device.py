"""Sums along the shortest paths of the parts of a call over a hierarchy, on the current device.

`hierarchy/arc_sums.py` does the same on a CPU. Values differ by rounding.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.kernels.contract.path_sums_asked import PathSumsAsked
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import DeviceGraph
from sssp_pipeline.kernels.gpu.common.solvers.gpu_solver import GPU_LOCK, Holding, graph_on_device
from sssp_pipeline.kernels.gpu.path_sweep.path_sweep_on_device import (
    ArcsOnDevice,
    PartOfSweep,
    PathSweepOnDevice,
)
from sssp_pipeline.kernels.hierarchy.arc_sums import too_many_paths, usable_counts
from sssp_pipeline.kernels.hierarchy.sweeps.path_counts import PathCounts
from sssp_pipeline.kernels.hierarchy.sweeps.path_sweep import spread
from sssp_pipeline.kernels.host.kept_with_graph import kept_with_graph
from sssp_pipeline.kernels.host.search import search_limit


def passing_of_parts(
    graph: CsrGraph, sources: np.ndarray, ends: Sequence[int], asked: PathSumsAsked, options: SolveOptions
) -> list[PartOfSweep]:
    """Return what passes on the paths from `sources` (S,) uint32, in parts that end at `ends`.

    It raises the errors of `ArcSums` and of `PathSweepOnDevice.run`, and `OutOfMemoryError` of CuPy.
    """
    counts = usable_counts(graph)
    limit = counts.hierarchy.up.weights.dtype.type(search_limit(graph, options.cutoff))
    with GPU_LOCK:
        while Holding.n_calls:  # rows take all the memory that is free
            Holding.given_back.wait()
        sweep = PathSweepOnDevice(_arcs_on_device(graph_on_device(graph), counts), asked)
        parts = sweep.run(sources, ends, limit, options.deadline_s)
    if parts is None:
        raise too_many_paths()
    return parts


def part_words(graph: CsrGraph, asked: PathSumsAsked, part: PartOfSweep) -> np.ndarray:
    """Return the words (P, W) uint64 of a part."""
    return np.concatenate(spread(graph, usable_counts(graph), part.passing(), asked))


@kept_with_graph
def _arcs_on_device(on_device: DeviceGraph, counts: PathCounts) -> ArcsOnDevice:
    return ArcsOnDevice(counts)
