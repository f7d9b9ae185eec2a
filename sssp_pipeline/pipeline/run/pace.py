"""The pace of searches on the CPU: some sources of a run are searched before it, and timed.

Vertices and edges do not tell how many vertices a search reaches, how often it relaxes an edge, or what the caches of
this machine hold. A few searches tell all of it. If a GPU may solve, they tell only how many vertices sources reach.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from sssp_pipeline.base import compile_children
from sssp_pipeline.base.csr import CsrGraph, HierarchyTraits
from sssp_pipeline.base.errors import SsspError
from sssp_pipeline.base.host_memory import free_memory_bytes
from sssp_pipeline.kernels import SOLVERS, WITH_HIERARCHY, solver_named
from sssp_pipeline.kernels.contract.forecast import CORES_EXPONENT
from sssp_pipeline.kernels.contract.kept import Nothing
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.host.search_graph import as_searched
from sssp_pipeline.kernels.host.solver import Solver
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.planning import hierarchy
from sssp_pipeline.pipeline.planning.choice import choose_solver, has_hierarchy
from sssp_pipeline.pipeline.planning.machine import Machine
from sssp_pipeline.pipeline.planning.work import Work, solve_options
from sssp_pipeline.pipeline.run.hierarchy_stage import is_free, known_traits
from sssp_pipeline.workflow.models import Solve

#: Measuring may take this share of a run. A run that is expected to be shorter than the second number measures nothing.
_SHARE, _LONG_S = 0.015, 1.0
#: More sources than these hardly change the mean.
_MOST = 255
#: The same for the vertices that they reach, and the share of a run that this may take.
_MOST_REACHES, _REACH_SHARE = 16, 0.005
#: If the first four sources each reach half of the vertices, no more are searched: the others probably reach as much.
#: Searches that reach little are short, so none of them is left out.
_FEW_REACHES, _MOST_VERTICES = 4, 0.5


@dataclass(frozen=True)
class Pace:
    """What was measured."""

    solver: str
    #: How many sources were searched.
    sources: int
    #: `GraphTraits.pace`.
    pace: float


@dataclass(frozen=True)
class Searches:
    """Searches of which some can be timed."""

    #: Returns the graph.
    graph: Callable[[], CsrGraph]
    #: With the cutoff in the unit of the weights of the graph.
    options: SolveOptions
    #: The sources in some arrays, (n,) uint32 each.
    sources: list[np.ndarray]
    #: Returns what is known of the hierarchy of the graph.
    hierarchy: Callable[[], HierarchyTraits | None]

    @classmethod
    def of_run(cls, stored: StoredGraph, solve: Solve, batches: list[np.ndarray]) -> Searches:
        """Return the searches of some batches of a run."""
        options = solve_options(solve, scale=stored.manifest.weights.scale)
        return cls(stored.graph, options, batches, lambda: known_traits(stored).hierarchy)


def pace_of_run(searches: Searches, solve: Solve, work: Work, machine: Machine) -> Pace | None:
    """Return the pace if a run has to know it, or None: if `auto` may take a hierarchy for a long run on the CPU.

    `work` is what is left of the run.
    """
    if solve.solver != "auto" or solve.hierarchy == "off" or machine.gpu_free_bytes is not None:
        return None
    cores_times = machine.cores**CORES_EXPONENT
    source_s = SOLVERS["delta-stepping"].forecast(work.traits, 1).source_s
    run_s = work.n_sources * source_s / cores_times
    # A forecast does not know how far a search goes with a cutoff.
    least_s = _LONG_S if searches.options.cutoff is None else hierarchy.LEAST_S
    if run_s < least_s or source_s > _SHARE * run_s:
        return None
    if hierarchy.why_never(work.traits, work.options, free_memory_bytes()) is not None:
        return None
    return measured_pace(searches, solve, work, machine)


def reach_of_run(searches: Searches, solve: Solve, work: Work, machine: Machine) -> float:
    """Return the share of the vertices that some sources of a run reach, if its choice of a GPU's solver depends on it.

    Only a run that may use a hierarchy on a GPU asks. The searches take a small share of it, and are made on a CPU: how
    far a source reaches does not depend on the device. They end early if the others cannot change the choice. The share
    is 1 if no search can be made in this time, or one fails.
    """
    nothing = 1.0
    if not is_free(solve) or machine.gpu_free_bytes is None or not searches.sources:
        return nothing
    work = work.with_hierarchy(searches.hierarchy())
    if not _is_stored(work) and hierarchy.why_not(work, machine, free_memory_bytes()) is not None:
        return nothing
    _, run_s = hierarchy.expected_with_and_without(work, machine)
    solver = SOLVERS["delta-stepping"]
    left_s, source_s = _REACH_SHARE * run_s, solver.forecast(work.traits, 1).source_s
    options = replace(searches.options, kept=Nothing(), predecessors=False, into=None)
    if source_s > left_s or solver.supports(work.traits, options) is not None:
        return nothing
    tried = np.random.default_rng(0).permutation(np.concatenate(searches.sources))[:_MOST_REACHES]
    shares = list[float]()
    if _is_decided(work, machine, shares, len(tried)):
        return nothing
    graph = searches.graph()
    try:
        _load(solver, graph, tried[:1], options)
        for source in tried:
            began = time.thread_time()
            reached = solver.solve(graph, np.array([source]), options).metrics[0].reached
            source_s = time.thread_time() - began
            shares.append(reached / work.traits.n_vertices)
            left_s -= source_s
            if source_s > left_s or _is_decided(work, machine, shares, len(tried)):
                break
    except SsspError:
        return nothing  # the run meets the same error, and names the input's own ids
    return float(np.mean(shares))


def _is_stored(work: Work) -> bool:
    """Return whether a solver can use what is stored of a hierarchy."""
    return any(has_hierarchy(work.traits, SOLVERS[name]) for name in WITH_HIERARCHY)


def _is_decided(work: Work, machine: Machine, shares: list[float], n_sources: int) -> bool:
    """Return whether `auto` takes the same solver, whatever the rest of `n_sources` reaches after these `shares`.

    Without a stored hierarchy the choice also depends on the arcs, which are not counted yet.
    """
    if not _is_stored(work):
        return len(shares) >= _FEW_REACHES and min(shares) >= _MOST_VERTICES
    least, most = sum(shares) / n_sources, (sum(shares) + n_sources - len(shares)) / n_sources
    first, second = (choose_solver("auto", work.with_reach(reach), machine)[0] for reach in (least, most))
    return first is second


def measured_pace(
    searches: Searches, solve: Solve, work: Work, machine: Machine, least_s: float = 0.0
) -> Pace | None:
    """Return the pace of the solver that `solve` names, or else of `delta-stepping`.

    Calls grow up to the size of a batch. It is None if a GPU may solve, or if a search fails. Measuring takes at most a
    small share of the run, or about `least_s` seconds, but at least one source. The time is processor time, so other
    programs on this machine hardly change it.
    """
    solver = _timed(solve, machine)
    if solver is None or not searches.sources or solver.supports(work.traits, work.options) is not None:
        return None
    options = replace(searches.options, kept=Nothing(), predecessors=False, into=None)
    graph = searches.graph()
    tried = np.random.default_rng(0).permutation(np.concatenate(searches.sources))[:_MOST]
    size, n_done, all_s = 0, 0, 0.0
    try:
        _load(solver, graph, tried[:1], options)
        while n_done < len(tried):
            if size < work.batch:  # a call has a cost of its own, so only calls of the largest size count
                size, n_timed, timed_s = min(n_done + 1, work.batch), 0, 0.0
            some = tried[n_done : n_done + size]
            began = time.thread_time()
            solver.solve(graph, some, options)
            took_s = time.thread_time() - began
            n_done, all_s = n_done + len(some), all_s + took_s
            n_timed, timed_s = n_timed + len(some), timed_s + took_s
            source_s = timed_s / n_timed
            run_s = work.n_sources * source_s / machine.cores**CORES_EXPONENT
            next_s = source_s * min(n_done + 1, work.batch)
            if all_s + next_s > max(least_s, _SHARE * run_s):
                break
    except SsspError:
        return None  # the run meets the same error, and names the input's own ids
    expected_s = solver.forecast(work.traits, 1).source_s / work.traits.pace
    return Pace(solver.name, n_done, source_s / expected_s)


def _load(solver: Solver, graph: CsrGraph, source: np.ndarray, options: SolveOptions) -> None:
    """Load the compiled kernels of a solver, by a search that ends at its `source` (1,)."""
    if compile_children.are_running():
        # Not at the top: a run with another solver does not import this one.
        from sssp_pipeline.kernels.cpu.compile_ahead import SEARCHES

        compile_children.wait_for(SEARCHES, as_searched(graph, graph.weights).dtype)
    solver.solve(graph, source, replace(options, cutoff=0.0))


def _timed(solve: Solve, machine: Machine) -> Solver | None:
    """Return the solver whose searches are timed: one source after the other on one core; None if a GPU may solve."""
    if solve.solver == "auto":
        return SOLVERS["delta-stepping"] if machine.gpu_free_bytes is None else None
    named = solver_named(solve.solver, solve.options)
    if named.device == "gpu":
        return None
    of_one_core = named.name != "parallel-delta-stepping" and named.keeps_pace
    return named if of_one_core else SOLVERS["delta-stepping"]
