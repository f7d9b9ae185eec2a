"""The choice of the solver: which solvers can do the work, and which one is expected to finish first."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from sssp_pipeline.base.csr import GraphTraits
from sssp_pipeline.base.error_text import Text
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.kernels import SOLVERS, solver_named
from sssp_pipeline.kernels.contract.forecast import (
    POTENTIALS_S_PER_ELEMENT,
    TURN_BACK_S_PER_VERTEX,
    graph_device_bytes,
)
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.hierarchy.completion import costs
from sssp_pipeline.kernels.host.solver import Solver
from sssp_pipeline.pipeline.planning.machine import Machine
from sssp_pipeline.pipeline.planning.work import Work

#: How many of the other solvers the reason of `auto` names with their times.
N_NAMED = 3


def choose_solver(name: str, work: Work, machine: Machine) -> tuple[Solver, str, tuple[str, ...], int]:
    """Return the solver for `work`, the reason for it, `RunPlan.others` and `RunPlan.n_compared`.

    It is the solver called `name`. If `name` is "auto", it is the one that is expected to finish first.

    Raises
    ------
    InputError
        The solver is unknown or cannot solve such a graph here, or none can.
    """
    if name != "auto":
        solver = solver_named(name)
        check_choice(name, partial(_refusal, work=work, machine=machine), work.options)
        return solver, "asked for" + _how(solver, work), (), 1
    refused = refusals(work, machine)
    refused = {n: why for n in SOLVERS if (why := refused.get(n) or _left_out(SOLVERS[n], work))}
    check_choice(name, refused.get, work.options)
    expected = {n: expected_s(SOLVERS[n], work, machine) for n in SOLVERS if n not in refused}

    def order(name: str) -> tuple[float, float]:
        # If writing takes longer than solving, all solvers finish together: then the fastest search comes first.
        return expected[name], work.of_a_call(name).wall_s(machine.cores)

    first, *rest = sorted(expected, key=order)
    compared = "".join(f", {other} {seconds_text(expected[other])}" for other in rest[:N_NAMED])
    why_not = "".join(f"; not {reason}" for reason in _by_reason(refused, " nor "))
    # Times of a source on one core and on all cores cannot be compared: both depend on how busy the cores are.
    alike = SOLVERS.device_of(first), work.of_a_call(first).is_shared
    others = tuple(o for o in rest if (SOLVERS.device_of(o), work.of_a_call(o).is_shared) == alike)
    how = _how(SOLVERS[first], work)
    reason = f"expected to take {seconds_text(expected[first])}{compared}{why_not}{how}"
    return SOLVERS[first], reason, others, len(expected)


def check_choice(name: str, refusal_of: Callable[[str], str | None], options: SolveOptions) -> None:
    """Raise `InputError` if the solver called `name` is refused, or with "auto" every solver is.

    `refusal_of` returns why the solver with a name is refused, or None.
    """
    if any(refusal_of(n) is None for n in (SOLVERS if name == "auto" else (name,))):
        return
    refused = {n: why for n in SOLVERS if (why := refusal_of(n)) is not None}
    if name != "auto":
        problem = Text(f"solver `{name}` cannot solve this: ", refused[name])
        raise InputError(problem, hint=_instead_of(name, refused))
    raise InputError(
        Text("no solver can solve this: ", Text.joined("; ", _by_reason(refused, ", "))),
        hint="leave out `solve.trace_every_us`, or see what `sssp-pipeline doctor` says of the GPU"
        if options.no_trace
        else "change the weights or the options that the reasons name",
    )


def _how(solver: Solver, work: Work) -> str:
    """Return what the reason says about negative weights; empty if the solver takes them or there are none."""
    return "; on reweighted edges, as some weights are negative" if is_reweighted(solver, work.traits) else ""


def is_reweighted(solver: Solver, traits: GraphTraits) -> bool:
    """Return whether `solver` gets edges without negative weights in place of the given ones."""
    return traits.min_weight < 0 and not solver.takes_negative


def expected_s(solver: Solver, work: Work, machine: Machine) -> float:
    """Return about how many seconds solving and writing would take, once the graph is loaded."""
    of_a_call = work.of_a_call(solver.name)
    start_s = of_a_call.start_s + (machine.gpu_start_s if solver.device == "gpu" else 0.0)
    if work.sums_on_hierarchy:
        start_s += costs.unpack_s(work.traits)  # to count the paths of the arcs takes as long
        known = work.traits.hierarchy
        if solver.weighs_arcs and not (known is not None and known.is_customized):
            start_s += costs.weights_s(*costs.expected_size(work.traits))  # the sums need those of a CPU
    source_s = of_a_call.wall_s(machine.cores)
    if not solver.unites_sources:  # a search ends where a source reaches little
        source_s *= work.traits.reach
    if is_reweighted(solver, work.traits):
        start_s += POTENTIALS_S_PER_ELEMENT * (work.traits.n_vertices + work.traits.n_edges)
        source_s += TURN_BACK_S_PER_VERTEX * work.traits.n_vertices
    wall_s = work.source_wall_s(solver, source_s, machine, of_a_call.is_shared)
    return start_s + work.n_sources * wall_s


def has_hierarchy(traits: GraphTraits, solver: Solver | None = None) -> bool:
    """Return whether a hierarchy of the graph is there, as far as one is kept; for `solver`, as far as it needs one.

    Each process reweights negative weights itself, so the weights of their arcs are not kept.
    """
    known = traits.hierarchy
    if known is None or known.is_customized:
        return known is not None
    weighs_arcs = solver is not None and solver.weighs_arcs
    return known.is_completed and (weighs_arcs or traits.min_weight < 0)


def _left_out(solver: Solver, work: Work) -> str | None:
    """Return why `auto` does not consider a solver that can do this work, or None."""
    if solver.is_exhibit:
        return "it reproduces a paper, and others are as fast"
    if (reason := solver.passed_over(work.options)) is not None:
        return reason
    if not solver.uses_hierarchy or has_hierarchy(work.traits, solver):
        return None
    return work.no_hierarchy


def refusals(work: Work, machine: Machine) -> dict[str, str]:
    """Return why solvers cannot do this work on this machine, by name."""
    return {name: why for name in SOLVERS if (why := _refusal(name, work, machine))}


def _refusal(name: str, work: Work, machine: Machine) -> str | None:
    """Return why the solver called `name` cannot do this work on this machine, or None."""
    is_on_gpu = SOLVERS.device_of(name) == "gpu"
    if is_on_gpu and machine.gpu_free_bytes is None:
        return machine.no_gpu  # before its module is imported
    solver = SOLVERS[name]
    if (reason := solver.supports(work.traits, work.options)) is not None:
        return reason
    if not is_on_gpu:
        return None
    assert machine.gpu_free_bytes is not None
    one = solver.forecast(work.traits, 1)
    needed = graph_device_bytes(work.traits) + one.fixed_bytes + one.source_bytes
    needed += work.kept_device_bytes + work.kept_fixed_bytes
    if needed <= machine.gpu_free_bytes:
        return None
    return f"it needs {needed / 2**30:.1f} GiB on the GPU, {machine.gpu_free_bytes / 2**30:.1f} are free"


def _instead_of(name: str, refused: dict[str, str]) -> str:
    """Return the hint for a refused solver: the solvers that can do the work, or why no other can."""
    if able := ", ".join(n for n in SOLVERS if n not in refused):
        return f"these can: {able}"
    clauses = _by_reason({n: why for n, why in refused.items() if why != refused[name]}, ", ")
    return "no other solver can either" + (": " + "; ".join(clauses) if clauses else "")


def _by_reason(refused: dict[str, str], between: str) -> list[Text]:
    """Return a clause for each reason, with the solvers that it holds for."""
    names: dict[str, list[str]] = {}
    for name, reason in refused.items():
        names.setdefault(reason, []).append(name)
    of_gpu = [name for name in SOLVERS if SOLVERS.device_of(name) == "gpu"]
    return [
        Text("the GPU solvers" if found == of_gpu else between.join(found), ": ", reason)
        for reason, found in names.items()
    ]


def seconds_text(seconds: float) -> str:
    """Return an expected time as people say it."""
    if seconds < 0.01:
        return "under 0.01 s"
    return f"{seconds:,.0f} s" if seconds >= 10 else f"{seconds:.2g} s"
