"""Sums along the shortest paths of a call by the hierarchy of the graph, without a row of distances."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

import numpy as np

from sssp_pipeline.api.calls import result_of, takes_hierarchy
from sssp_pipeline.base.csr import CsrGraph, largest_distance
from sssp_pipeline.base.host_memory import free_memory_bytes
from sssp_pipeline.kernels.answers.path_sums import PathSumsAsked, PathWords, UncountablePathsError
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.hierarchy.path_counts import PathCounts
from sssp_pipeline.kernels.hierarchy.path_sweep import GROUP, PathSweep, n_bytes_of, spread
from sssp_pipeline.kernels.hierarchy.region import no_distance_above
from sssp_pipeline.kernels.hierarchy.shared import shared_hierarchy, traits_of
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.kernels.host.search import search_limit
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph

#: Seconds of a core for each edge and source with rows: to search and to scan. With a hierarchy for each arc and
#: source, and once for each triangle. Rows take 6 to 40 ns, more on roads; arcs 0.8 to 1.9.
_EDGE_S, _ARC_S, _TRIANGLE_S = 15e-9, 1.5e-9, 4e-9
#: A search and the scan of its row take as long as about so many searches.
_SEARCHES = 3
#: The share of the free memory that the threads may take.
_MEMORY_SHARE = 0.5


def path_counts_for(
    graph: CsrGraph,
    sources: np.ndarray,
    asked: PathSumsAsked,
    options: SolveOptions,
    solver: str,
    stored: StoredGraph | None,
) -> PathCounts | None:
    """Return the counts of the hierarchy of `graph` if it gives what is `asked` sooner than rows do, else None.

    The other parameters, and the errors, are those of `solve_sources`.
    """
    if asked.squares or graph.weight_dtype.kind == "f":
        return None
    n_expected = _SEARCHES * len(sources)
    if not takes_hierarchy(graph, sources, options, solver, stored=stored, n_expected=n_expected):
        return None
    known = traits_of(graph).hierarchy
    if known is None:
        return None
    saved_s = (_EDGE_S * graph.n_edges - _ARC_S * known.n_arcs) * len(sources) / usable_cores()
    if saved_s < _TRIANGLE_S * known.n_triangles:
        return None
    hierarchy = shared_hierarchy(graph)
    if no_distance_above(hierarchy) > largest_distance(graph.weight_dtype):
        return None  # a solver finds out whether there is such a distance
    return PathCounts.of(graph, hierarchy)


def sums_on_hierarchy(
    graph: CsrGraph, counts: PathCounts, sources: np.ndarray, asked: PathSumsAsked, options: SolveOptions
) -> PathWords | None:
    """Return what is `asked` over the shortest paths from `sources` (S,) uint32.

    Returns
    -------
    PathWords or None
        None if there is no memory for it, or a vertex has too many paths. That vertex may be beyond the cutoff.
    """
    most = int(_MEMORY_SHARE * free_memory_bytes() / n_bytes_of(counts))
    groups = [sources[first : first + GROUP] for first in range(0, len(sources), GROUP)]
    n_threads = min(usable_cores(), len(groups), most)
    if groups and not n_threads:
        return None
    limit = counts.hierarchy.up.weights.dtype.type(search_limit(graph, options.cutoff))
    every = [PathSweep(counts, asked.is_target, asked.endpoints) for _ in range(max(1, n_threads))]
    idle: SimpleQueue[PathSweep] = SimpleQueue()
    for sweep in every:
        idle.put(sweep)

    def add(group: np.ndarray) -> None:
        sweep = idle.get()
        try:
            sweep.add(group, limit)
        finally:
            idle.put(sweep)

    pool = ThreadPoolExecutor(len(every), "sssp-paths")
    try:
        for added in [pool.submit(add, group) for group in groups]:
            result_of(added)
    except UncountablePathsError:
        return None
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    for sweep in every[1:]:
        every[0].merge(sweep)
    return spread(graph, counts, every[0].words, asked)
