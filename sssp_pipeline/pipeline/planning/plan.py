"""The plan of a run: its solver and why, and the memory and time that its batches take."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sssp_pipeline.base.csr import GraphTraits
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.contract.forecast import graph_device_bytes
from sssp_pipeline.kernels.hierarchy.completion import costs
from sssp_pipeline.kernels.host import reweighting, second_costs
from sssp_pipeline.pipeline.planning.choice import choose_solver, expected_s, is_reweighted
from sssp_pipeline.pipeline.planning.machine import Machine
from sssp_pipeline.pipeline.planning.work import Work, row_bytes, work_of
from sssp_pipeline.pipeline.results.outputs.outputs import RowOutput
from sssp_pipeline.workflow.models import Solve

#: Seconds that a run takes besides solving and writing, and those of each batch, mostly in Python, so that cores do not
#: share them: runs of 1 to 256 batches on a graph of 400 vertices took 8 to 10 ms and 0.9 to 1.4 ms.
RUN_S, BATCH_S = 8e-3, 1.2e-3


@dataclass(frozen=True)
class GpuShare:
    """The memory of a GPU that a run takes."""

    #: Memory that was free when the plan was made.
    free_bytes: int
    #: Memory of the graph on the device.
    graph_bytes: int
    #: Memory that the solver takes however many sources there are.
    fixed_bytes: int
    #: Memory of each source under way, with its row of distances.
    source_bytes: int
    #: How many sources are under way together.
    sources_at_once: int

    @property
    def least_bytes(self) -> int:
        """Memory that a GPU must have free: for one source at a time."""
        return self.graph_bytes + self.fixed_bytes + self.source_bytes


@dataclass(frozen=True, eq=False)
class RunPlan:
    """What a run will do."""

    #: What the plan was made for.
    work: Work
    machine: Machine
    #: Name in the registry, and why it was chosen.
    solver: str
    solver_reason: str
    #: The other solvers that could do this, on the same device and with its cores shared in the same way. Empty if the
    #: workflow names the solver.
    others: tuple[str, ...]
    #: How many solvers could do this; 1 if the workflow names the solver.
    n_compared: int
    #: Estimated seconds to solve and write on this machine, once the graph is loaded.
    expected_s: float
    #: The sources (n,) uint32 of each batch.
    batches: list[np.ndarray]
    #: What is stored of each row.
    output: RowOutput
    #: The most batches of a call. Among `solver` and `others`, the solver that gains most from many sources sets it.
    batches_per_call: int
    #: Host memory of each worker for the graph, and for other data that a worker holds once.
    graph_bytes: int
    #: Host memory of the distances (and predecessors and second costs) of one batch on each thread, of the one whole
    #: row that a CPU solver holds if it does not keep whole rows, and the batch's share of what a call of the solver
    #: takes.
    batch_bytes: int
    #: Estimated bytes of the distances in storage, before compression.
    written_bytes: int
    #: The memory of the GPU; None for a solver on the CPU.
    gpu: GpuShare | None


def make_plan(
    traits: GraphTraits,
    batches: list[np.ndarray],
    solve: Solve,
    output: RowOutput,
    machine: Machine,
    no_hierarchy: str | None = Work.no_hierarchy,
) -> RunPlan:
    """Return the plan for `batches`, which `cut` returned, and for an `output` that stores some values of each row.

    `no_hierarchy` is the field of `Work`. Raises the errors of `choose_solver`.
    """
    n_sources, kept = sum(map(len, batches)), output.kept
    work = replace(work_of(traits, batches, solve, output), no_hierarchy=no_hierarchy)
    solver, reason, others, n_compared = choose_solver(solve.solver, work, machine)
    graph_bytes = 8 * (traits.n_vertices + 1) + traits.n_edges * (4 + traits.weight_dtype.itemsize)
    if is_reweighted(solver, traits):
        graph_bytes += reweighting.host_bytes(traits)
    of_a_call = work.of_a_call(solver.name)
    graph_bytes += output.held_bytes(traits) + of_a_call.host_bytes
    sums_bytes = 0
    if work.sums_on_hierarchy:
        graph_bytes += costs.counts_bytes(traits)
        sums_bytes = costs.pass_bytes(traits)
    holds_a_row = solver.device == "cpu" and not kept.is_whole_row
    stored_bytes = output.value_bytes(n_sources, work.source_bytes, traits.weight_dtype)
    stored_bytes += output.id_bytes(traits.n_vertices, n_sources, len(batches))
    along_bytes = 0
    if along := output.form.along:
        # On a GPU, only rows of floats may be left to the host. A run may change to one of the others.
        is_on_gpu = traits.weight_dtype.kind != "f" and all(
            SOLVERS[name].sums_costs_of(traits, work.cost_dtypes) for name in (solver.name, *others)
        )
        graph_bytes += second_costs.process_bytes(traits, len(along))
        n_threads = machine.cores if solver.device == "gpu" else 1
        n_rows = work.batch * work.batches_per_call(solver.name)
        if not is_on_gpu:
            along_bytes = second_costs.call_bytes(traits, kept, len(along), n_rows, n_threads)
    return RunPlan(
        work=work,
        machine=machine,
        solver=solver.name,
        solver_reason=reason,
        others=others,
        n_compared=n_compared,
        expected_s=RUN_S + BATCH_S * len(batches) + expected_s(solver, work, machine),
        batches=batches,
        output=output,
        batches_per_call=max(work.batches_per_call(name) for name in (solver.name, *others)),
        graph_bytes=graph_bytes,
        batch_bytes=work.batch_bytes
        + kept.held_part_bytes(traits, solver.device)
        + along_bytes
        + sums_bytes
        + (row_bytes(traits) if holds_a_row else 0)
        + of_a_call.call_bytes // work.batches_per_call(solver.name),
        written_bytes=stored_bytes + len(batches) * kept.stored_part_bytes(traits),
        gpu=_gpu_share(work, machine, solver.name) if solver.device == "gpu" else None,
    )


def _gpu_share(work: Work, machine: Machine, solver: str) -> GpuShare:
    graph_bytes = graph_device_bytes(work.traits)
    expected = work.of_a_call(solver)
    fixed_bytes = expected.fixed_bytes + work.kept_fixed_bytes
    source_bytes = expected.source_bytes + work.kept_device_bytes
    free = machine.gpu_free_bytes or 0
    left = free - graph_bytes - fixed_bytes
    if 2 * expected.optional_bytes <= left:
        left -= expected.optional_bytes
    fit = left // max(source_bytes, 1)
    at_once = max(1, min(expected.at_once, fit))
    return GpuShare(free, graph_bytes, fixed_bytes, source_bytes, at_once)
