"""Sums along the shortest paths of a call: by the hierarchy, or rows of distances go to threads that add them up."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from typing import Any

import numpy as np

from sssp_pipeline.api.along_hierarchy import sums_on_hierarchy
from sssp_pipeline.api.calls import Take
from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.host_memory import free_memory_bytes
from sssp_pipeline.base.progress import in_bytes
from sssp_pipeline.kernels.answers.path_sums import PathSums, PathWords
from sssp_pipeline.kernels.contract.path_sums_asked import PathSumsAsked
from sssp_pipeline.kernels.contract.solver import Solution, SolveOptions
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph

#: The share of the free memory that the sums of all threads may take. The solver needs the rest.
_MEMORY_SHARE = 0.5


def sums_along_paths(
    graph: CsrGraph,
    sources: np.ndarray,
    asked: PathSumsAsked,
    options: SolveOptions,
    solver: str,
    solve: Callable[[np.ndarray, SolveOptions, str, Take], Any],
    stored: StoredGraph | None = None,
) -> PathWords:
    """Return what is `asked` over the shortest paths from `sources` (S,) uint32.

    Parameters
    ----------
    options, solver, stored
        As in `solve_sources`.
    solve
        Solves sources, and gives each part of whole rows to its last argument.

    Raises
    ------
    InputError
        The sums are larger than the free memory. Also what `solve` raises.
    UncountablePathsError
        As `PathSums.add`.
    """
    words = sums_on_hierarchy(graph, sources, asked, options, solver, stored)
    return (
        _sums_of_rows(graph, sources, asked, partial(solve, sources, options, solver))
        if words is None
        else words
    )


def _sums_of_rows(
    graph: CsrGraph, sources: np.ndarray, asked: PathSumsAsked, solve: Callable[[Take], Any]
) -> PathWords:
    """Return what is `asked` by rows of distances; `solve` gives them to its argument."""
    n_bytes, free = max(1, asked.n_bytes(graph.traits)), free_memory_bytes()
    if n_bytes > free:
        raise InputError(
            f"what is summed along the paths takes {in_bytes(n_bytes)}, and {in_bytes(free)} of memory are free",
            hint="end other programs, or take a machine with more memory",
        )
    most = int(_MEMORY_SHARE * free / n_bytes)
    n_threads = max(1, min(usable_cores(), len(sources), most))
    every = [PathSums(graph, asked) for _ in range(n_threads)]
    idle: SimpleQueue[PathSums] = SimpleQueue()
    for sums in every:
        idle.put(sums)

    def add(rows: np.ndarray, some: np.ndarray) -> None:
        sums = idle.get()
        try:
            sums.add(rows, some)
        finally:
            idle.put(sums)

    # The solver may call `take` in one thread only.
    pool = ThreadPoolExecutor(n_threads, "sssp-paths")

    def take(first: int, solution: Solution) -> None:
        rows = solution.distances
        size = -(-len(rows) // n_threads)
        parts = [slice(at, min(at + size, len(rows))) for at in range(0, len(rows), size)]
        some = sources[first : first + len(rows)]
        for added in [pool.submit(add, rows[part], some[part]) for part in parts]:
            added.result()

    try:
        solve(take)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    total = every[0]
    for sums in every[1:]:
        total.merge(sums)
    return total.words
