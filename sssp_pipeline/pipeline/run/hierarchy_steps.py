"""The steps that make a hierarchy: for a graph in memory all of them, for a stored graph those before its arrays.

A function decides before each step whether to go on, from what is known of the graph then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from sssp_pipeline.base.compile_children import wait_for
from sssp_pipeline.base.csr import CsrGraph, GraphTraits, HierarchyTraits
from sssp_pipeline.base.progress import Progress, plural
from sssp_pipeline.kernels.hierarchy import shared
from sssp_pipeline.kernels.hierarchy.compile_ahead import COUNTS, order_groups
from sssp_pipeline.kernels.hierarchy.completion.arc_completion import Counted, count, fill
from sssp_pipeline.kernels.hierarchy.ordering.metis_processes import Metis
from sssp_pipeline.kernels.hierarchy.ordering.order import core_of, neighbours_of, ordered
from sssp_pipeline.pipeline.planning.choice import has_hierarchy

#: Returns why the next step is not taken, or None. It gets what is known of the graph.
WhyNot = Callable[[GraphTraits], str | None]
#: Returns whether the weights of the arcs are left to a GPU, from what is known of the graph.
LeavesWeights = Callable[[GraphTraits], bool]
#: As `order.neighbours_of` returns them.
Neighbours = tuple[np.ndarray, np.ndarray]
#: The neighbours of a graph, and the counted arcs of its hierarchy.
Found = tuple[Neighbours, Counted]
#: Waits for what another thread has begun to find, and returns it; None if it finds nothing, or there is no thread.
#: Calls its argument when that thread waits for METIS, or at once without a thread.
CountedAhead = Callable[[Callable[[], None]], Found | None]


def nothing_ahead(meanwhile: Callable[[], None]) -> None:
    """Do what a `CountedAhead` does without a thread."""
    meanwhile()


def count_arcs(around: Neighbours, progress: Progress, metis: Metis | None = None) -> Counted:
    """Return the counted arcs of the hierarchy of a graph with these neighbours; `metis` is as for `ordered`."""
    progress.stage("hierarchy: eliminate low degrees")
    core = core_of(*around)
    progress.stage(f"hierarchy: order {plural(len(core.vertices), 'vertex')}")
    for group in order_groups():
        wait_for(group)
    order = ordered(core, metis)
    progress.stage("hierarchy: count arcs")
    wait_for(COUNTS)
    return count(*around, order)


def ask_why_not(counted: Counted, traits: GraphTraits, why_not: WhyNot) -> tuple[HierarchyTraits, str | None]:
    """Return what is known of the hierarchy of a graph with these `traits`, and why it is not to be made or None."""
    known = HierarchyTraits(counted.n_arcs, counted.n_triangles, largest_front=counted.largest_front)
    # An order that is there is free.
    return known, why_not(replace(traits, hierarchy=replace(known, is_completed=True)))


def make_in_memory(
    graph: CsrGraph, why_not: WhyNot, progress: Progress, leaves_weights: LeavesWeights
) -> tuple[GraphTraits, str | None]:
    """Make what `graph` lacks of its hierarchy, as long as `why_not` agrees, and keep it with the graph.

    Returns
    -------
    traits : GraphTraits
        Of the graph and its hierarchy, afterwards.
    reason : str or None
        Why the hierarchy is not there; None if it is.

    Raises
    ------
    InputError
        The graph is too large for METIS.
    SsspError
        METIS failed.
    """
    traits = replace(graph.traits, hierarchy=shared.known_hierarchy(graph))
    if has_hierarchy(traits) or (reason := why_not(traits)) is not None:
        return traits, None if has_hierarchy(traits) else reason
    if traits.hierarchy is None or not traits.hierarchy.is_completed:
        around = neighbours_of(graph)
        counted = count_arcs(around, progress)
        known, reason = ask_why_not(counted, traits, why_not)
        shared.note_traits(graph, known)
        if reason is not None:
            return replace(traits, hierarchy=known), reason
        shared.share_completion(graph, fill(*around, counted))
        traits = replace(traits, hierarchy=shared.known_hierarchy(graph))
    # If weights are negative, each solver reweights the graph, and finds the weights of the arcs.
    if graph.traits.min_weight >= 0 and not leaves_weights(traits):
        shared.shared_hierarchy(graph)
    return replace(traits, hierarchy=shared.known_hierarchy(graph)), None
