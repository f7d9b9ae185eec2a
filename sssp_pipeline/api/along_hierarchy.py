"""Sums along the shortest paths of a call by the hierarchy of the graph, on all cores or a GPU, without rows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

import numpy as np

from sssp_pipeline.api.calls import result_of, solver_of_call
from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.host_memory import free_memory_bytes
from sssp_pipeline.kernels.answers.path_sums import PathWords
from sssp_pipeline.kernels.contract.path_sums_asked import PathSumsAsked
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.gpu.path_sweep.path_sweep_on_device import PathSweepOnDevice
from sssp_pipeline.kernels.hierarchy import costs
from sssp_pipeline.kernels.hierarchy.arc_sums import shared_counts
from sssp_pipeline.kernels.hierarchy.path_counts import PathCounts
from sssp_pipeline.kernels.hierarchy.path_sweep import GROUP, Passing, PathSweep, n_bytes_of, spread
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.kernels.host.search import search_limit
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.planning.choice import has_hierarchy

#: Seconds of a core for each edge and source with rows: to search and to scan. They take 6 to 40 ns, more on roads.
_EDGE_S = 15e-9
#: To search a row and to scan it takes about this many times as long as the search alone.
_SEARCHES = 3
#: The share of the free memory that the threads may take.
_MEMORY_SHARE = 0.5


def sums_on_hierarchy(
    graph: CsrGraph,
    sources: np.ndarray,
    asked: PathSumsAsked,
    options: SolveOptions,
    solver: str,
    stored: StoredGraph | None,
) -> PathWords | None:
    """Return what is `asked` over the shortest paths from `sources` (S,) uint32.

    The other parameters, and the errors, are those of `solve_sources`.

    Returns
    -------
    PathWords or None
        None if rows give it sooner or with less memory, or if a vertex has too many paths. That vertex may be beyond
        the cutoff.
    """
    if asked.squares or graph.weight_dtype.kind == "f":
        return None
    chosen, work, _ = solver_of_call(graph, sources, options, solver, stored, _SEARCHES * len(sources))
    known = work.traits.hierarchy
    if known is None or not (chosen.uses_hierarchy and has_hierarchy(work.traits, chosen)):
        return None
    saved_s = (_EDGE_S * graph.n_edges - costs.pass_s(work.traits)) * len(sources) / usable_cores()
    if saved_s < 2 * costs.unpack_s(work.traits):
        return None
    counts = shared_counts(graph)
    if isinstance(counts, str):
        return None  # rows may be counted, and a solver may find no distance that is too long
    limit = counts.hierarchy.up.weights.dtype.type(search_limit(graph, options.cutoff))
    if chosen.device == "gpu" and PathSweepOnDevice.fits(counts):
        passing = _on_device(counts, sources, asked, limit)
    else:
        passing = _on_cores(counts, sources, asked, limit)
    return None if passing is None else spread(graph, counts, passing, asked)


def _on_device(
    counts: PathCounts, sources: np.ndarray, asked: PathSumsAsked, limit: np.generic
) -> Passing | None:
    sweep = PathSweepOnDevice(counts, asked)
    return sweep.words() if sweep.add(sources, limit) else None


def _on_cores(
    counts: PathCounts, sources: np.ndarray, asked: PathSumsAsked, limit: np.generic
) -> Passing | None:
    most = int(_MEMORY_SHARE * free_memory_bytes() / n_bytes_of(counts))
    groups = [sources[first : first + GROUP] for first in range(0, len(sources), GROUP)]
    n_threads = min(usable_cores(), len(groups), most)
    if not n_threads:
        return None
    every = [PathSweep(counts, asked.is_target, asked.endpoints) for _ in range(n_threads)]
    idle: SimpleQueue[PathSweep] = SimpleQueue()
    for sweep in every:
        idle.put(sweep)

    def add(group: np.ndarray) -> bool:
        sweep = idle.get()
        try:
            return sweep.add(group, limit) is not None
        finally:
            idle.put(sweep)

    pool = ThreadPoolExecutor(n_threads, "sssp-paths")
    try:
        can_count = all(map(result_of, [pool.submit(add, group) for group in groups]))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    for sweep in every[1:]:
        every[0].merge(sweep)
    return every[0].words() if can_count else None
