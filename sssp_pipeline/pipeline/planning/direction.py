"""Direction: distances from many sources to few targets are those from the targets in the reversed graph.

`auto` goes backward if that is expected to take at most half of the time. The distances are the same integers. Floats
stay forward: backward, sums are rounded in another order. So do graphs where a path might be too long for the type of
the weights. A search from a source finds such a path, wherever it leads. A search from a target may not meet it.
"""

from __future__ import annotations

import math
import threading
import weakref
from dataclasses import replace

import numpy as np

from sssp_pipeline.base.csr import CsrGraph, largest_distance, unreached_distance
from sssp_pipeline.base.errors import InputError, PathTooLongError
from sssp_pipeline.base.host_memory import free_memory_bytes
from sssp_pipeline.base.progress import in_bytes
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.contract.kept import EveryVertex, Targets
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.hierarchy import shared
from sssp_pipeline.pipeline.ingest.rows.sorted_rows import reversal_bytes, reversed_graph
from sssp_pipeline.pipeline.planning import hierarchy
from sssp_pipeline.pipeline.planning.choice import choose_solver, expected_s, has_hierarchy
from sssp_pipeline.pipeline.planning.machine import Machine
from sssp_pipeline.pipeline.planning.work import Work, batch_size
from sssp_pipeline.workflow.models import Solve

#: How many times as fast the way backward must be.
LEAST_GAIN = 2
#: Seconds to reverse an edge.
_REVERSE_S = 60e-9

#: The reversed graph of a graph; None stands for the graph itself.
_reversed: weakref.WeakKeyDictionary[CsrGraph, CsrGraph | None] = weakref.WeakKeyDictionary()
#: Whether no path of a graph is too long for its type, where that is known.
_fits: weakref.WeakKeyDictionary[CsrGraph, bool] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def kept_reversed(graph: CsrGraph, *, is_symmetric: bool = False) -> CsrGraph:
    """Return `graph` with all edges in the other direction, which is made once and kept as long as `graph`.

    Both share one hierarchy. If every edge has its reverse, it is `graph` itself; `is_symmetric` says that this is
    known.

    Raises
    ------
    InputError
        The memory is too small.
    """
    if is_symmetric:
        return graph
    with _lock:
        if graph not in _reversed:
            needed, free = reversal_bytes(graph.traits), free_memory_bytes()
            if needed > free:
                raise InputError(
                    f"reversing the graph takes {in_bytes(needed)}, and {in_bytes(free)} of memory are free",
                    hint="search from the sources: the direction `forward` needs no reversed graph",
                )
            found = reversed_graph(graph)
            _reversed[graph] = None if _is_same(found, graph) else found
        if (found_or_same := _reversed[graph]) is None:
            return graph
    shared.share_reversed(graph, found_or_same)
    return found_or_same


def _is_same(one: CsrGraph, other: CsrGraph) -> bool:
    names = ("row_offsets", "col_indices", "weights")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def turned_options(options: SolveOptions, sources: np.ndarray, n_vertices: int) -> SolveOptions:
    """Return the options of searches from targets, which keep the distances to `sources` (S,)."""
    is_every = len(sources) == n_vertices and np.array_equal(sources, np.arange(n_vertices))
    return replace(options, kept=EveryVertex() if is_every else Targets(sources), metrics=False)


def turned(work: Work, sources: np.ndarray, n_targets: int) -> Work:
    """Return the work of searches from `n_targets` targets, which keep the distances to `sources` (S,)."""
    options = turned_options(work.options, sources, work.traits.n_vertices)
    batch = batch_size(work.traits, n_targets, Solve(), options.kept)
    return replace(work, options=options, n_sources=n_targets, batch=batch)


def gains(
    solver: str,
    forward: Work,
    backward: Work,
    machine: Machine,
    *,
    is_reversed: bool,
    more_s: float = 0.0,
) -> bool:
    """Return whether `backward` is expected to take at most half of the time of `forward`.

    `is_reversed` says that the reversed graph is there. `more_s` are seconds that only the way backward takes.
    """
    if LEAST_GAIN * backward.n_sources > forward.n_sources:
        return False
    free_bytes, traits = free_memory_bytes(), forward.traits
    reverse_s = 0.0 if is_reversed else _REVERSE_S * traits.n_edges
    if not is_reversed and reversal_bytes(traits) > free_bytes:
        return False
    forward_s, backward_s = (_least_s(solver, work, machine, free_bytes) for work in (forward, backward))
    return LEAST_GAIN * (backward_s + reverse_s + more_s) <= forward_s


def _least_s(solver: str, work: Work, machine: Machine, free_bytes: int) -> float:
    """Return about how many seconds `work` takes with the solver of this name; infinity if none can do it."""
    if solver == "auto" and not has_hierarchy(work.traits):
        work = replace(work, no_hierarchy=hierarchy.why_not(work, machine, free_bytes))
    try:
        chosen, *_ = choose_solver(solver, work, machine)
    except InputError:
        return math.inf
    return expected_s(chosen, work, machine)


def fits_every_path(graph: CsrGraph, options: SolveOptions, *, is_symmetric: bool = False) -> bool:
    """Return whether no path is too long for the type of the weights, which are integers of zero or more.

    `is_symmetric` says that every edge is known to have its reverse.
    """
    largest = int(largest_distance(graph.weight_dtype))
    if (options.cutoff is not None and options.cutoff <= largest) or graph.n_edges == 0:
        return True
    if graph not in _fits:
        _fits[graph] = _heaviest_path(graph, None) < largest / 2 or _fits_by_searches(graph, is_symmetric)
    return _fits[graph]


def _fits_by_searches(graph: CsrGraph, is_symmetric: bool) -> bool:
    """Return whether searches from one vertex and to it show that no path is too long.

    A shortest path from a vertex that reaches it to a vertex that it reaches is not longer than the way over it. Any
    other path does not leave the vertices that do not reach it, or those that it does not reach.
    """
    largest = int(largest_distance(graph.weight_dtype))
    hub = np.array([np.argmax(np.diff(graph.row_offsets))], np.uint32)
    ways = [graph] if is_symmetric else [graph, kept_reversed(graph)]
    longest = []
    for way in ways:
        try:
            row = SOLVERS["parallel-delta-stepping"].solve(way, hub, SolveOptions()).distances[0]
        except PathTooLongError:
            return False
        is_reached = row != unreached_distance(row.dtype)
        if _heaviest_path(graph, is_reached) >= largest / 2:
            return False
        longest.append(int(row[is_reached].max()))
    return longest[0] + longest[-1] <= largest


def _heaviest_path(graph: CsrGraph, is_left_out: np.ndarray | None) -> float:
    """Return a bound of the distances along other vertices than these: a shortest path leaves no vertex twice."""
    has_edges = np.diff(graph.row_offsets) > 0
    heaviest = np.maximum.reduceat(graph.weights, graph.row_offsets[:-1][has_edges])
    if is_left_out is not None:
        heaviest = heaviest[~is_left_out[has_edges]]
    return float(heaviest.sum(dtype=np.float64))
