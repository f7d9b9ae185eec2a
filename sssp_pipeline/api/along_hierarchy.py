"""Sums along the shortest paths of a call by the hierarchy of the graph, on all cores or a GPU, without rows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from queue import SimpleQueue

import numpy as np

from sssp_pipeline.api.calls import result_of, solver_of_call
from sssp_pipeline.base.csr import CsrGraph, GraphTraits
from sssp_pipeline.base.host_memory import free_memory_bytes
from sssp_pipeline.kernels import SOLVERS, WITH_HIERARCHY
from sssp_pipeline.kernels.answers.path_sums import PathWords
from sssp_pipeline.kernels.answers.reductions import Reductions
from sssp_pipeline.kernels.contract.forecast import CORES_EXPONENT
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
from sssp_pipeline.pipeline.planning.choice import choose_solver, expected_s, has_hierarchy
from sssp_pipeline.pipeline.planning.machine import Machine
from sssp_pipeline.pipeline.planning.work import Work

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
    has_decay = asked.amounts is not None and asked.amounts.decay > 0
    if asked.squares or has_decay or graph.weight_dtype.kind == "f":
        return None
    chosen, work, machine = solver_of_call(graph, sources, options, solver, stored, _SEARCHES * len(sources))
    names = WITH_HIERARCHY if solver == "auto" else (chosen.name,)
    devices = [SOLVERS.device_of(name) for name in names if _is_ready(name, work.traits, machine)]
    devices = [device for device in devices if device == "cpu" or asked.is_for_gpus]
    expected = {device: _seconds(device, work.traits, len(sources), machine) for device in devices}
    if not expected or min(expected.values()) >= _seconds_along_rows(
        work, len(sources), asked, solver, machine
    ):
        return None
    device = min(expected, key=expected.__getitem__)
    counts = shared_counts(graph)
    if isinstance(counts, str):
        return None  # rows may be counted, and a solver may find no distance that is too long
    limit = counts.hierarchy.up.weights.dtype.type(search_limit(graph, options.cutoff))
    if device == "gpu" and PathSweepOnDevice.fits(counts):
        passing = _on_device(counts, sources, asked, limit)
    else:
        passing = _on_cores(counts, sources, asked, limit)
    return None if passing is None else spread(graph, counts, passing, asked)


def options_of_rows(options: SolveOptions, asked: PathSumsAsked) -> SolveOptions:
    """Return `options` for the choice of a solver whose rows are summed and not copied."""
    return replace(options, kept=Reductions(paths=asked, facts=False))


def _seconds_along_rows(
    work: Work, n_sources: int, asked: PathSumsAsked, solver: str, machine: Machine
) -> float:
    """Return the expected seconds of the sums along rows."""
    of_rows = replace(work, options=options_of_rows(work.options, asked), n_sources=n_sources)
    chosen, *_ = choose_solver(solver, of_rows, machine)
    return expected_s(chosen, of_rows, machine)


def _is_ready(name: str, traits: GraphTraits, machine: Machine) -> bool:
    """Return whether the solver called `name` uses a hierarchy that is there, and can run here."""
    if SOLVERS.device_of(name) == "gpu" and machine.gpu_free_bytes is None:
        return False  # before its module is imported
    return SOLVERS[name].uses_hierarchy and has_hierarchy(traits, SOLVERS[name])


def _seconds(device: str, traits: GraphTraits, n_sources: int, machine: Machine) -> float:
    """Return the expected seconds of the sums over a hierarchy."""
    if device == "gpu":
        source_s = costs.gpu_pass_s(traits)
    else:
        source_s = costs.pass_s(traits) / min(machine.cores, -(-n_sources // GROUP)) ** CORES_EXPONENT
    return n_sources * source_s + 2 * costs.unpack_s(traits)


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
    every = [PathSweep(counts, asked) for _ in range(n_threads)]
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
