"""Whether a hierarchy pays: the forecast of the whole run with it, and without it.

The answer gets better with each step. At first only the numbers of vertices and edges are known, and the graph may be a
road network. If a run would gain on roads, a look at the graph takes some milliseconds, and shows about how wide its
separators are. Then METIS orders the graph, and the arcs are counted. So `why_not` is asked before each step. A step
that may be for nothing must be cheap compared with the run.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from sssp_pipeline.base.compile_children import wait_for
from sssp_pipeline.base.csr import CsrGraph, GraphTraits
from sssp_pipeline.base.progress import in_bytes, plural
from sssp_pipeline.kernels import SOLVERS, WITH_HIERARCHY
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.hierarchy.compile_ahead import LOOK
from sssp_pipeline.kernels.hierarchy.completion import costs
from sssp_pipeline.kernels.hierarchy.dividing.look import width_of
from sssp_pipeline.pipeline.planning.choice import expected_s, has_hierarchy, refusals, seconds_text
from sssp_pipeline.pipeline.planning.machine import Machine
from sssp_pipeline.pipeline.planning.work import Work

#: A hierarchy must save this share of the run and these seconds, as forecasts go. Before arcs are counted, it must save
#: the larger share.
_LEAST_SHARE, _LEAST_UNCOUNTED, LEAST_S = 0.1, 0.25, 0.3
#: A look may take this share of a run. An order that probably is for nothing may take the second one.
_LOOK_SHARE, _ORDER_SHARE = 0.005, 0.01
#: Separators may be this many times as narrow as a look shows, so that there is an eighth of the triangles.
_NARROWER = 2


def why_never(
    traits: GraphTraits, options: SolveOptions, free_bytes: int, *, for_gpu: bool = False
) -> str | None:
    """Return why no solver can use a hierarchy of this graph, or why it cannot be made here; None if it can.

    Parameters
    ----------
    free_bytes
        The memory for making it.
    for_gpu
        Whether a GPU computes the weights of the arcs, so that a CPU need not.
    """
    traits = replace(traits, width=None)  # a guess rules nothing out
    names = [name for name in WITH_HIERARCHY if SOLVERS[name].weighs_arcs] if for_gpu else WITH_HIERARCHY
    # From the one on the CPU on: another one is imported only if it refuses.
    reasons = (SOLVERS[name].supports(traits, options) for name in reversed(names))
    if (reason := next(reasons)) is not None and None not in reasons:
        return reason
    if has_hierarchy(traits, SOLVERS[names[0]] if for_gpu else None):
        return None
    known = traits.hierarchy
    if known is not None:
        reason = costs.too_many_arcs(traits.n_vertices, known.n_arcs, free_bytes)
        if not for_gpu:
            reason = reason or costs.too_long(traits)
        if reason is not None:
            return reason
    if (needed := costs.build_bytes(traits, on_gpu=for_gpu)) > free_bytes:
        return f"making a hierarchy takes about {in_bytes(needed)} of memory, and {in_bytes(free_bytes)} are free"
    return None


def why_not(work: Work, machine: Machine, free_bytes: int) -> str | None:
    """Return why a run is not expected to gain from making a hierarchy, or None to take the next step.

    `work.traits` has what is known: the width after a look, the hierarchy once its arcs are counted.
    """
    traits = work.traits
    for_gpu = leaves_weights(work, machine)
    if (reason := why_never(traits, work.options, free_bytes, for_gpu=for_gpu)) is not None:
        return reason
    with_s, without_s = expected_with_and_without(work, machine)
    if with_s == inf:
        return refusals(work, machine)[WITH_HIERARCHY[-1]]
    least_share = _LEAST_UNCOUNTED if traits.hierarchy is None else _LEAST_SHARE

    def pays(with_s: float) -> bool:
        return with_s <= without_s - LEAST_S and with_s <= (1 - least_share) * without_s

    if pays(with_s):
        return None
    is_guess = traits.hierarchy is None and traits.width is not None
    if is_guess and costs.order_s(traits) <= _ORDER_SHARE * without_s:
        assert traits.width is not None
        at_best_s, _ = expected_with_and_without(work.with_width(traits.width // _NARROWER), machine)
        if pays(at_best_s):
            return None
    shown = f"separators have about {traits.width:,} vertices, as a look shows: " if is_guess else ""
    sources, prepare_s = plural(work.n_sources, "source"), costs.left_s(traits, on_gpu=for_gpu)
    return (
        f"{shown}making a hierarchy does not pay for {sources}: expected to take {seconds_text(with_s)} with it, "
        f"of which {seconds_text(prepare_s)} make it, and {seconds_text(without_s)} without"
    )


def look_at(graph: CsrGraph, work: Work, machine: Machine) -> int:
    """Return the width of a graph (`GraphTraits.width`), from a look that takes a small share of a run.

    It ends where separators are so wide that no hierarchy can pay.
    """
    _, without_s = expected_with_and_without(work, machine)
    wait_for(LOOK)
    most_width = costs.width_of_triangles(without_s, on_gpu=leaves_weights(work, machine))
    return width_of(graph, costs.steps_of_look(_LOOK_SHARE * without_s), _NARROWER * most_width)


def expected_with_and_without(work: Work, machine: Machine) -> tuple[float, float]:
    """Return the seconds of a run with a hierarchy and without one; infinite where no solver can do this."""

    def least_s(work: Work, *, uses_hierarchy: bool) -> float:
        refused = refusals(work, machine)
        left = [SOLVERS[name] for name in SOLVERS if name not in refused]
        able = [s for s in left if s.uses_hierarchy == uses_hierarchy and not s.is_exhibit]
        return min((expected_s(s, work, machine) for s in able), default=inf)

    return least_s(work, uses_hierarchy=True), least_s(work.instead or work, uses_hierarchy=False)


def leaves_weights(work: Work, machine: Machine) -> bool:
    """Return whether the fastest solver of a hierarchy for this work computes the weights of the arcs itself.

    Sums along paths need weights that a CPU has made.
    """
    if work.sums_on_hierarchy:
        return False
    refused = refusals(work, machine)
    able = [SOLVERS[name] for name in WITH_HIERARCHY if name not in refused]
    return bool(able) and min(able, key=lambda solver: expected_s(solver, work, machine)).weighs_arcs
