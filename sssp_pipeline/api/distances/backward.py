"""Calls that search from the targets, along reversed edges, because there are fewer targets than sources."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import get_args

import numpy as np

from sssp_pipeline.api.calls.calls import Filling, Take, goes_backward
from sssp_pipeline.api.graphs.graphs import NamedGraph
from sssp_pipeline.base.errors import InputError, UnsolvableError, did_you_mean
from sssp_pipeline.kernels.answers.nearest import NearestOfRow, merge_nearest, no_nearest, words_of
from sssp_pipeline.kernels.contract.solver import Solution, SolveOptions
from sssp_pipeline.kernels.host.kernel_threads import KernelThreads, usable_cores
from sssp_pipeline.pipeline.planning.direction import turned_options
from sssp_pipeline.workflow.section import Direction

#: A merge gives each thread at least this many sources.
_MERGED_SOURCES = 2**16
#: Why only searches from the sources give what an argument of a call asks for.
_FORWARD_ONLY = {
    "predecessors": "predecessors are found from the sources",
    "along": "the sums belong to paths from the sources",
    "metrics": "metrics count what a source reaches",
    "on_device": "the host turns the distances",
}


def is_backward(
    named: NamedGraph,
    sources: np.ndarray,
    targets: np.ndarray | None,
    options: SolveOptions,
    solver: str,
    direction: Direction,
    asked: Mapping[str, bool],
) -> bool:
    """Return whether a call searches from the targets.

    Parameters
    ----------
    named, sources, targets
        The graph, the sources (S,) and the targets (T,); None means every vertex.
    options, solver
        As for searches from the sources.
    direction
        As for `solve`.
    asked
        Whether each of the arguments in `_FORWARD_ONLY` is asked for.

    Raises
    ------
    InputError
        The direction is unknown, or it is "backward" and an argument or the graph makes that impossible.
    InputError, SsspError
        As `goes_backward`.
    """
    if direction not in get_args(Direction):
        known = list(get_args(Direction))
        hint = f"{did_you_mean(str(direction), known)}it is one of {', '.join(known)}"
        raise InputError(f"`direction` is {direction!r}", hint=hint)
    reason, hint = None, 'leave out `direction="backward"`'
    if wanted := next((name for name in _FORWARD_ONLY if asked.get(name)), None):
        reason, hint = _FORWARD_ONLY[wanted], f'leave out `{wanted}` or `direction="backward"`'
    elif targets is None:
        reason, hint = "no targets are given", 'give `targets`, or leave out `direction="backward"`'
    elif named.graph.weight_dtype.kind == "f":
        reason = f"sums of {named.graph.weight_dtype} are rounded differently backward"
    if reason is not None:
        if direction == "backward":
            raise InputError(f'`direction` is "backward", and {reason}', hint=hint)
        return False
    if direction != "auto":
        return direction == "backward"
    assert targets is not None
    return goes_backward(named.graph, sources, np.unique(targets), options, solver, named.stored)


def distances_backward(
    named: NamedGraph, sources: np.ndarray, targets: np.ndarray, options: SolveOptions, solver: str
) -> np.ndarray | None:
    """Return the distances (S, T) from `sources` to `targets`, found by searches from the targets.

    None means as for `_search_from`, and the errors are the same. The array is in Fortran order: to turn 6 GB took
    20 s, and the searches less than 1 s.
    """
    different, places = np.unique(targets, return_inverse=True)
    found = np.empty((len(different), len(sources)), named.graph.weight_dtype)
    take = Filling(found)
    if not _search_from(named, different, sources, options, solver, take):
        return None
    return (found if np.array_equal(places, np.arange(len(different))) else found[places]).T


def nearest_backward(
    named: NamedGraph, sources: np.ndarray, kept: NearestOfRow, options: SolveOptions, solver: str
) -> np.ndarray | None:
    """Return what `kept` keeps of the rows of `sources`, (S, 2k) words, found by searches from its targets.

    None means as for `_search_from`, and the errors are the same.
    """
    assert kept.targets is not None
    distances, vertices = no_nearest(len(sources), kept.k, named.graph.weight_dtype)
    merging = threading.Lock()
    targets = kept.targets
    threads = KernelThreads(min(usable_cores(), 1 + len(sources) // _MERGED_SOURCES))

    def take(first: int, solution: Solution) -> None:
        rows = solution.distances
        with merging:
            merge_nearest(rows, targets[first : first + len(rows)], distances, vertices, threads)

    is_found = _search_from(named, targets, sources, options, solver, take)
    return words_of(distances, vertices) if is_found else None


def _search_from(
    named: NamedGraph,
    targets: np.ndarray,
    sources: np.ndarray,
    options: SolveOptions,
    solver: str,
    take: Take,
) -> bool:
    """Search from `targets` (T,) and give `take` the distances to `sources` (S,). Return whether that is possible.

    It is not if a path to a target is too long for the type, or a negative cycle leads to one. Only searches from the
    sources tell whether a source has such a path. It raises the other errors of `NamedGraph.solve`.
    """
    turned = turned_options(options, sources, named.graph.n_vertices)
    try:
        named.solve(targets, turned, solver, take, is_backward=True)
    except UnsolvableError:
        return False
    return True
