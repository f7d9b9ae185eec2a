"""Whether a hierarchy pays: the forecast of the whole run with it, and without it.

The answer gets better with each step. At first only the numbers of vertices and edges are known, and the graph may be a
road network. Then low degrees are eliminated, which takes about as long as five sources. Then METIS orders the rest,
and the arcs are counted. So `why_not` is asked before each step. A step that may be for nothing must be cheap compared
with the run.
"""

from __future__ import annotations

from sssp_pipeline.base.csr import GraphTraits
from sssp_pipeline.base.progress import in_bytes, plural
from sssp_pipeline.kernels import SOLVERS, WITH_HIERARCHY
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.hierarchy import costs
from sssp_pipeline.pipeline.planning.choice import expected_s, has_hierarchy, refusals, seconds_text
from sssp_pipeline.pipeline.planning.machine import Machine
from sssp_pipeline.pipeline.planning.work import Work

#: A hierarchy must save this share of the run and these seconds, as forecasts go.
_LEAST_SHARE, LEAST_S = 0.1, 0.3
#: To look at the core may take this share of a run, unless the graph looks like roads. An order may take the second
#: one, unless the core looks as if it had small separators. Both are likely to be for nothing then.
_CORE_SHARE, _ORDER_SHARE = 0.024, 0.02
#: The first share is divided by the skew of the degrees, up to this: graphs with hubs rarely have small separators.
_MOST_SKEW = 5.0


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
    names = [name for name in WITH_HIERARCHY if SOLVERS[name].weighs_arcs] if for_gpu else WITH_HIERARCHY
    # From the one on the CPU on: another one is imported only if it refuses.
    reasons = (SOLVERS[name].supports(traits, options) for name in reversed(names))
    if (reason := next(reasons)) is not None and None not in reasons:
        return reason
    if has_hierarchy(traits, SOLVERS[names[0]] if for_gpu else None):
        return None
    known = traits.hierarchy
    if known is not None and known.n_arcs is not None:
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

    `work.traits.hierarchy` says what is known of it.
    """
    traits = work.traits
    for_gpu = leaves_weights(work, machine)
    if (reason := why_never(traits, work.options, free_bytes, for_gpu=for_gpu)) is not None:
        return reason
    refused = refusals(work, machine)
    left = [SOLVERS[name] for name in SOLVERS if name not in refused]
    able = [expected_s(s, work, machine) for s in left if s.uses_hierarchy]
    others = [expected_s(s, work, machine) for s in left if not s.uses_hierarchy and not s.is_exhibit]
    if not able or not others:
        return None if able else refused[WITH_HIERARCHY[-1]]
    with_s, without_s = min(able), min(others)
    prepare_s = costs.left_s(traits, on_gpu=for_gpu)
    if without_s - with_s < max(LEAST_S, _LEAST_SHARE * without_s):
        sources = plural(work.n_sources, "source")
        return (
            f"making a hierarchy does not pay for {sources}: expected to take {seconds_text(with_s)} with it, "
            f"of which {seconds_text(prepare_s)} make it, and {seconds_text(without_s)} without"
        )
    if traits.hierarchy is None:
        look_s, share, is_likely = (
            costs.core_s(traits),
            _CORE_SHARE / min(traits.degree_skew, _MOST_SKEW),
            costs.looks_like_roads(traits),
        )
    else:
        look_s, share, is_likely = (
            costs.order_s(traits),
            _ORDER_SHARE,
            costs.may_have_small_separators(traits),
        )
    if is_likely or look_s <= share * without_s:
        return None
    return (
        "the graph does not look as if it had small separators, and to find out would take "
        f"{seconds_text(look_s)} of about {seconds_text(without_s)}"
    )


def leaves_weights(work: Work, machine: Machine) -> bool:
    """Return whether the fastest solver of a hierarchy for this work computes the weights of the arcs itself."""
    refused = refusals(work, machine)
    able = [SOLVERS[name] for name in WITH_HIERARCHY if name not in refused]
    return bool(able) and min(able, key=lambda solver: expected_s(solver, work, machine)).weighs_arcs
