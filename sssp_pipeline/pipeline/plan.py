"""The plan: which solver and why, how the sources are cut into batches, and what that needs.

The size of a batch depends on the graph, the sources and the workflow alone, never on the machines, so that the
same workflow writes the same files everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sssp_pipeline.csr import GraphTraits
from sssp_pipeline.errors import InputError
from sssp_pipeline.kernels import SOLVERS, solver_named
from sssp_pipeline.kernels.solver import SolveOptions, Solver
from sssp_pipeline.workflow import Output, Solve

#: Distances of one batch: large enough that a task's overhead does not show, small enough to be held per thread.
BATCH_BYTES = 32 * 2**20
#: No batch is made smaller than this for the sake of their number: tiny files cost more than they share.
SMALL_BATCH_BYTES = 2**20
#: Batches to aim at where that allows it, so that many workers share the work and little is lost with one of them.
BATCHES = 64


@dataclass(frozen=True, eq=False)
class Plan:
    """What a run will do.

    Attributes
    ----------
    solver, solver_reason
        Name in the registry, and why it was chosen.
    batches
        The sources (n,) uint32 of each batch.
    graph_bytes
        Host memory of the graph on each worker.
    batch_bytes
        Host memory of the distances (and predecessors) of one batch on each thread.
    written_bytes
        About how much the distances take on storage, before compression.
    """

    solver: str
    solver_reason: str
    batches: list[np.ndarray]
    graph_bytes: int
    batch_bytes: int
    written_bytes: int


def solve_options(spec: Solve) -> SolveOptions:
    """Return the solver's options that the workflow's `solve` asks for."""
    delta = None if spec.delta == "auto" else float(spec.delta)
    return SolveOptions(delta, spec.cutoff, spec.predecessors, spec.trace_every_us)


def choose_solver(name: str, traits: GraphTraits, options: SolveOptions) -> tuple[Solver, str]:
    """Return the solver called `name`, or the first registered one that can when `name` is "auto", and why.

    Raises
    ------
    InputError
        The solver is unknown or cannot solve such a graph, or none can.
    """
    if name != "auto":
        solver = solver_named(name)
        if reason := solver.supports(traits, options):
            raise InputError(
                f"solver `{name}` cannot solve this: {reason}", hint=_others(name, traits, options)
            )
        return solver, "asked for"
    refused: dict[str, list[str]] = {}
    for solver in SOLVERS.values():
        reason = solver.supports(traits, options)
        if reason is None:
            why_not = [f"not {' nor '.join(names)}: {why}" for why, names in refused.items()]
            return solver, "; ".join([*why_not, "the first that supports this graph on this machine"])
        refused.setdefault(reason, []).append(solver.name)
    why_not = [f"{', '.join(names)}: {why}" for why, names in refused.items()]
    raise InputError("no solver can solve this: " + "; ".join(why_not))


def _others(name: str, traits: GraphTraits, options: SolveOptions) -> str:
    able = [s.name for s in SOLVERS.values() if s.name != name and s.supports(traits, options) is None]
    return "these can: " + ", ".join(able) if able else "no other solver can either"


def make_plan(traits: GraphTraits, sources: np.ndarray, solve: Solve, output: Output) -> Plan:
    """Return the plan for `sources` (S,) on such a graph; raises `InputError` as `choose_solver`."""
    solver, reason = choose_solver(solve.solver, traits, solve_options(solve))
    per_source = traits.n_vertices * (traits.weight_dtype.itemsize + 4 * solve.predecessors)
    if solve.batch == "auto":
        largest, smallest = (n // max(per_source, 1) for n in (BATCH_BYTES, SMALL_BATCH_BYTES))
        size = max(1, min(largest, max(smallest, -(-len(sources) // BATCHES))))
    else:
        size = solve.batch
    batches = [sources[i : i + size] for i in range(0, len(sources), size)]
    # In the long layout an id takes no more than a few bits a row; in the wide one it stands once a batch.
    vertex_columns = 8 * traits.n_vertices * len(batches) if output.layout == "wide" else 0
    return Plan(
        solver=solver.name,
        solver_reason=reason,
        batches=batches,
        graph_bytes=8 * (traits.n_vertices + 1) + traits.n_edges * (4 + traits.weight_dtype.itemsize),
        batch_bytes=size * per_source,
        written_bytes=len(sources) * per_source + vertex_columns,
    )
