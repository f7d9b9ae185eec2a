"""The plan of a run: its solver and why, its batches, and the memory and time that they take.

The size of a batch depends on the graph, the sources and the workflow, never on the machines. So the same workflow
writes the same files everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sssp_pipeline.base.csr import GraphTraits
from sssp_pipeline.base.error_text import Text
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.kernels import SOLVERS, solver_named
from sssp_pipeline.kernels.contract.forecast import (
    COPY_S_PER_BYTE,
    CORES_EXPONENT,
    GPU_START_S,
    POTENTIALS_S_PER_ELEMENT,
    TURN_BACK_S_PER_VERTEX,
    Forecast,
    graph_device_bytes,
)
from sssp_pipeline.kernels.contract.kept import EveryVertex, KeptOfRow
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.host import reweighting
from sssp_pipeline.kernels.host.solver import Solver
from sssp_pipeline.pipeline.graph_store.units import scaled_limit
from sssp_pipeline.pipeline.planning.machine import Machine
from sssp_pipeline.pipeline.results.outputs import RowOutput
from sssp_pipeline.workflow.models import Solve

#: The most bytes of distances in a batch, so that each thread can hold them. Batches of half the size are written at
#: two thirds of the rate, because each batch waits some times for Python's lock. With larger ones, pinning memory takes
#: longer than it saves (docs/design/0012-assembled-pages.md).
BATCH_BYTES = 2**26
#: `BATCHES` makes no batch smaller than this: the overhead of tiny files would outweigh the gain.
SMALL_BATCH_BYTES = 2**20
#: If a batch keeps something of each vertex, its rows take at least this multiple of these bytes.
ROWS_A_PART = 8
#: The most sources of a batch. If few distances are kept of each source, this bounds the work lost with a batch. A GPU
#: solves at most this many sources together.
BATCH_SOURCES = 4096
#: Batches of a size that the workflow names have a file each, up to this number. More of them are joined, until there
#: are no more than this or each has `SMALL_BATCH_BYTES`. So a lost batch costs little of a run.
SMALL_BATCHES = 2000
#: The number of batches to aim at, so that many workers share the work and little is lost with one batch.
BATCHES = 64
#: The most bytes of distances in one call of a solver that solves many sources together. A call has several batches.
#: They lie on the GPU, and come to the host one by one.
CALL_BYTES = 2**33
#: The least number of calls: one is written while another is solved, and several GPUs share them.
CALLS = 4
#: If whole rows are not copied, a call on a single GPU has this multiple of the sources that a solver takes together.
#: The GPU waits for the last sources of each call, so fewer calls are faster.
ROUNDS = 4

#: Core-seconds to write a byte of distances (benchmarks/results/distances.jsonl, long layout).
WRITE_S_PER_BYTE = 1 / 1.6e9
#: How many of the other solvers the reason of `auto` names with their times.
N_NAMED = 3


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
class Plan:
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
    #: The most batches of a call. It suits that one of `solver` and `others` which gains most from many sources.
    batches_per_call: int
    #: Host memory on each worker of the graph, and of what else it holds once.
    graph_bytes: int
    #: Host memory of the distances (and predecessors) of one batch on each thread, of the one whole row that a CPU
    #: solver holds if it does not keep whole rows, and the batch's share of what a call of the solver takes.
    batch_bytes: int
    #: Estimated bytes of the distances in storage, before compression.
    written_bytes: int
    #: The memory of the GPU; None for a solver on the CPU.
    gpu: GpuShare | None


def solve_options(
    spec: Solve,
    kept: KeptOfRow = EveryVertex(),  # noqa: B008 - frozen
    scale: int | None = None,
) -> SolveOptions:
    """Return the options of the solver that the workflow's `solve` asks for.

    Lengths in `spec` are in the input's unit; the weights are `scale` times as large.
    """
    delta = None if spec.delta == "auto" else float(spec.delta) * (scale or 1)
    cutoff = scaled_limit(spec.cutoff, scale)
    return SolveOptions(delta, cutoff, spec.predecessors, spec.trace_every_us, kept, float(spec.deadline_s))


@dataclass(frozen=True)
class Work:
    """What there is to solve: the sources of a run, in batches, on one graph."""

    #: Of the graph.
    traits: GraphTraits
    #: Of the workflow's `solve`.
    options: SolveOptions
    #: Sources in all, and in each batch.
    n_sources: int
    batch: int
    #: Why no hierarchy will be made for the run; None if one will be.
    no_hierarchy: str | None = "no hierarchy of the graph is stored"

    @property
    def source_bytes(self) -> int:
        """Host memory of what is kept of each source, predecessors included."""
        return _source_bytes(self.traits, self.options.kept, self.options.predecessors)

    @property
    def kept_device_bytes(self) -> int:
        """Device memory that `options.kept` takes for each source, with that of a second buffer."""
        return 2 * self.options.kept.device_bytes(self.traits.n_vertices, self.traits.weight_dtype)

    @property
    def kept_fixed_bytes(self) -> int:
        """Device memory that `options.kept` takes for any number of sources, with that of a second buffer."""
        return 2 * self.options.kept.fixed_device_bytes(self.traits.n_vertices)

    @property
    def batch_bytes(self) -> int:
        """Host memory of what is kept of a batch."""
        return self.batch * self.source_bytes

    @property
    def n_batches(self) -> int:
        return -(-self.n_sources // self.batch)

    def batches_per_call(self, solver: str) -> int:
        """Return how many batches one call of `solver` takes: as many as it solves together, within bounds.

        With predecessors it is one. The thread of a call makes them on one core, which takes far longer than solving.
        Small calls let all cores work.
        """
        if self.options.predecessors:
            return 1
        wanted = -(-SOLVERS[solver].forecast(self.traits, self.n_sources).at_once // self.batch)
        return max(1, min(wanted, CALL_BYTES // max(self.batch_bytes, 1), self.n_batches // CALLS))

    def batches_of_one_gpu(self, batches_per_call: int) -> int:
        """Return how many batches a call has if there is only one GPU."""
        if self.options.kept.is_whole_row:
            return batches_per_call
        return max(batches_per_call, min(ROUNDS * batches_per_call, self.n_batches // CALLS))

    def source_wall_s(self, device: str, source_s: float, machine: Machine, is_shared: bool = False) -> float:
        """Return the seconds by which a source lengthens the work.

        Parameters
        ----------
        device
            "cpu" or "gpu".
        source_s
            Seconds to solve it: of the GPU, of one core, or of all cores if `is_shared`.
        machine
            Its cores and GPUs work at the same time.
        is_shared
            Whether all cores work on one source. Otherwise each core has a source of its own.
        """
        write_s = WRITE_S_PER_BYTE * self.source_bytes
        cores = max(1, min(self.n_batches, machine.cores)) ** CORES_EXPONENT
        if device == "gpu":
            gpus = max(1, min(self.n_batches, machine.n_gpus))
            return max((source_s + COPY_S_PER_BYTE * self.source_bytes) / gpus, write_s / cores)
        return (source_s if is_shared else source_s / cores) + write_s / cores

    def of_a_call(self, solver: str) -> Forecast:
        """Return the forecast for a source in a call of `solver`."""
        return SOLVERS[solver].forecast(
            self.traits, min(self.batches_per_call(solver) * self.batch, self.n_sources)
        )


def choose_solver(name: str, work: Work, machine: Machine) -> tuple[Solver, str, tuple[str, ...]]:
    """Return the solver for `work`, the reason for it, and `Plan.others`.

    It is the solver called `name`. If `name` is "auto", it is the one that is expected to finish first.

    Raises
    ------
    InputError
        The solver is unknown or cannot solve such a graph here, or none can.
    """
    refused = refusals(work, machine)
    if name != "auto":
        solver = solver_named(name)
        check_choice(name, refused, work.options)
        return solver, "asked for" + _how(solver, work), ()
    refused = {s.name: why for s in SOLVERS.values() if (why := refused.get(s.name) or _left_out(s, work))}
    check_choice(name, refused, work.options)
    expected = {s.name: expected_s(s, work, machine) for s in SOLVERS.values() if s.name not in refused}

    def order(name: str) -> tuple[float, float]:
        # If writing takes longer than solving, all solvers finish together: then the fastest search comes first.
        return expected[name], work.of_a_call(name).wall_s(machine.cores)

    first, *rest = sorted(expected, key=order)
    compared = "".join(f", {other} {seconds_text(expected[other])}" for other in rest[:N_NAMED])
    why_not = "".join(f"; not {reason}" for reason in _by_reason(refused, " nor "))
    # Times of a source on one core and on all cores cannot be compared: both depend on how busy the cores are.
    alike = SOLVERS[first].device, work.of_a_call(first).is_shared
    others = tuple(o for o in rest if (SOLVERS[o].device, work.of_a_call(o).is_shared) == alike)
    how = _how(SOLVERS[first], work)
    return SOLVERS[first], f"expected to take {seconds_text(expected[first])}{compared}{why_not}{how}", others


def check_choice(name: str, refused: dict[str, str], options: SolveOptions) -> None:
    """Raise `InputError` if the solver called `name` is among the `refused`, or with "auto" every solver is."""
    if name in refused:
        raise InputError(
            Text(f"solver `{name}` cannot solve this: ", refused[name]), hint=_instead_of(name, refused)
        )
    if name == "auto" and len(refused) == len(SOLVERS):
        raise InputError(
            Text("no solver can solve this: ", Text.joined("; ", _by_reason(refused, ", "))),
            hint="leave out `solve.trace_every_us`, or see what `sssp-pipeline doctor` says of the GPU"
            if options.no_trace
            else "change the weights or the options that the reasons name",
        )


def _how(solver: Solver, work: Work) -> str:
    """Return what the reason says about negative weights; empty if the solver takes them or there are none."""
    return (
        "; on reweighted edges, as some weights are negative" if _is_reweighted(solver, work.traits) else ""
    )


def _is_reweighted(solver: Solver, traits: GraphTraits) -> bool:
    return traits.min_weight < 0 and not solver.takes_negative


def expected_s(solver: Solver, work: Work, machine: Machine) -> float:
    """Return about how many seconds solving and writing would take, once the graph is loaded."""
    of_a_call = work.of_a_call(solver.name)
    start_s = of_a_call.start_s + (GPU_START_S if solver.device == "gpu" else 0.0)
    source_s = of_a_call.wall_s(machine.cores)
    if _is_reweighted(solver, work.traits):
        start_s += POTENTIALS_S_PER_ELEMENT * (work.traits.n_vertices + work.traits.n_edges)
        source_s += TURN_BACK_S_PER_VERTEX * work.traits.n_vertices
    wall_s = work.source_wall_s(solver.device, source_s, machine, of_a_call.is_shared)
    return start_s + work.n_sources * wall_s


def has_hierarchy(traits: GraphTraits) -> bool:
    """Return whether a hierarchy of the graph is there, as far as one is kept.

    Each process reweights negative weights itself, so the weights of their arcs are not kept.
    """
    known = traits.hierarchy
    return known is not None and (known.is_customized or (known.is_completed and traits.min_weight < 0))


def _left_out(solver: Solver, work: Work) -> str | None:
    """Return why `auto` does not consider a solver that can do this work, or None."""
    if solver.is_exhibit:
        return "it reproduces a paper, and others are as fast"
    if not solver.uses_hierarchy or has_hierarchy(work.traits):
        return None
    return work.no_hierarchy


def refusals(work: Work, machine: Machine) -> dict[str, str]:
    """Return why solvers cannot do this work on this machine, by name."""
    return {s.name: why for s in SOLVERS.values() if (why := _refusal(s, work, machine))}


def _n_compared(work: Work, machine: Machine) -> int:
    """Return how many solvers `auto` chooses from."""
    refused = refusals(work, machine)
    return sum(s.name not in refused and _left_out(s, work) is None for s in SOLVERS.values())


def _refusal(solver: Solver, work: Work, machine: Machine) -> str | None:
    """Return why `solver` cannot do this work on this machine, or None."""
    if (reason := solver.supports(work.traits, work.options)) is not None:
        return reason
    if solver.device != "gpu":
        return None
    if machine.gpu_free_bytes is None:
        return machine.no_gpu
    one = solver.forecast(work.traits, 1)
    needed = graph_device_bytes(work.traits) + one.fixed_bytes + one.source_bytes
    needed += work.kept_device_bytes + work.kept_fixed_bytes
    if needed <= machine.gpu_free_bytes:
        return None
    return f"it needs {needed / 2**30:.1f} GiB on the GPU, {machine.gpu_free_bytes / 2**30:.1f} are free"


def _instead_of(name: str, refused: dict[str, str]) -> str:
    """Return the hint beside the refusal of the solver called `name`: the solvers that can, or why no other can."""
    if able := ", ".join(n for n in SOLVERS if n not in refused):
        return f"these can: {able}"
    clauses = _by_reason({n: why for n, why in refused.items() if why != refused[name]}, ", ")
    return "no other solver can either" + (": " + "; ".join(clauses) if clauses else "")


def _by_reason(refused: dict[str, str], between: str) -> list[Text]:
    """Return a clause for each reason, with the solvers that it holds for."""
    names: dict[str, list[str]] = {}
    for name, reason in refused.items():
        names.setdefault(reason, []).append(name)
    of_gpu = [s.name for s in SOLVERS.values() if s.device == "gpu"]
    return [
        Text("the GPU solvers" if found == of_gpu else between.join(found), ": ", reason)
        for reason, found in names.items()
    ]


def seconds_text(seconds: float) -> str:
    """Return an expected time as people say it."""
    if seconds < 0.01:
        return "under 0.01 s"
    return f"{seconds:,.0f} s" if seconds >= 10 else f"{seconds:.2g} s"


def batch_size(traits: GraphTraits, n_sources: int, solve: Solve, kept: KeptOfRow) -> int:
    """Return how many of `n_sources` a batch has, whatever the machines."""
    per_source = _source_bytes(traits, kept, solve.predecessors)
    if solve.batch != "auto":
        n_given = -(-n_sources // solve.batch)
        n_joined = min(-(-n_given // SMALL_BATCHES), SMALL_BATCH_BYTES // max(per_source * solve.batch, 1))
        return max(1, n_joined) * solve.batch
    largest = min(BATCH_BYTES // max(per_source, 1), BATCH_SOURCES)
    # Whatever is kept of a row, the solver computes the whole row.
    smallest = SMALL_BATCH_BYTES // max(_row_bytes(traits), per_source, 1)
    # Each batch also writes what it has of each vertex: a small share of the rows that it solves.
    part_bytes = kept.part_bytes(traits.n_vertices, traits.weight_dtype)
    smallest = max(smallest, ROWS_A_PART * part_bytes // max(_row_bytes(traits), 1))
    return max(1, min(largest, max(smallest, -(-n_sources // BATCHES))))


def cut(traits: GraphTraits, sources: np.ndarray, solve: Solve, kept: KeptOfRow) -> list[np.ndarray]:
    """Return `sources` (S,) as batches of `batch_size`."""
    size = batch_size(traits, len(sources), solve, kept)
    return [sources[i : i + size] for i in range(0, len(sources), size)]


def _row_bytes(traits: GraphTraits) -> int:
    return traits.n_vertices * traits.weight_dtype.itemsize


def _source_bytes(traits: GraphTraits, kept: KeptOfRow, predecessors: bool) -> int:
    """Return the bytes that are kept of each source."""
    n_columns = kept.n_columns(traits.n_vertices)
    return n_columns * (kept.dtype(traits.weight_dtype).itemsize + 4 * predecessors)


def work_of(traits: GraphTraits, batches: list[np.ndarray], solve: Solve, kept: KeptOfRow) -> Work:
    """Return the work of `batches`, as `cut` returns them."""
    return Work(traits, solve_options(solve, kept), sum(map(len, batches)), len(batches[0]) if batches else 1)


def make_plan(
    traits: GraphTraits,
    batches: list[np.ndarray],
    solve: Solve,
    output: RowOutput,
    machine: Machine,
    no_hierarchy: str | None = Work.no_hierarchy,
) -> Plan:
    """Return the plan for `batches`, as `cut` returns them, of which `output` is stored.

    `no_hierarchy` is that of `Work`. Raises `InputError` as `choose_solver`.
    """
    n_sources, kept = sum(map(len, batches)), output.kept
    work = replace(work_of(traits, batches, solve, kept), no_hierarchy=no_hierarchy)
    solver, reason, others = choose_solver(solve.solver, work, machine)
    graph_bytes = 8 * (traits.n_vertices + 1) + traits.n_edges * (4 + traits.weight_dtype.itemsize)
    if _is_reweighted(solver, traits):
        graph_bytes += reweighting.host_bytes(traits)
    of_a_call = work.of_a_call(solver.name)
    graph_bytes += output.held_bytes(traits.n_vertices) + of_a_call.host_bytes
    holds_a_row = solver.device == "cpu" and not kept.is_whole_row
    id_bytes = output.id_bytes(traits.n_vertices, n_sources)
    part_bytes = kept.part_bytes(traits.n_vertices, traits.weight_dtype)
    return Plan(
        work=work,
        machine=machine,
        solver=solver.name,
        solver_reason=reason,
        others=others,
        n_compared=_n_compared(work, machine) if solve.solver == "auto" else 1,
        expected_s=expected_s(solver, work, machine),
        batches=batches,
        output=output,
        batches_per_call=max(work.batches_per_call(name) for name in (solver.name, *others)),
        graph_bytes=graph_bytes,
        batch_bytes=work.batch_bytes
        + part_bytes
        + (_row_bytes(traits) if holds_a_row else 0)
        + of_a_call.call_bytes // work.batches_per_call(solver.name),
        written_bytes=n_sources * work.source_bytes + id_bytes + len(batches) * part_bytes,
        gpu=_gpu_share(work, machine, solver.name) if solver.device == "gpu" else None,
    )


def _gpu_share(work: Work, machine: Machine, solver: str) -> GpuShare:
    graph_bytes = graph_device_bytes(work.traits)
    expected = work.of_a_call(solver)
    fixed_bytes = expected.fixed_bytes + work.kept_fixed_bytes
    source_bytes = expected.source_bytes + work.kept_device_bytes
    free = machine.gpu_free_bytes or 0
    fit = (free - graph_bytes - fixed_bytes) // max(source_bytes, 1)
    at_once = max(1, min(expected.at_once, fit))
    return GpuShare(free, graph_bytes, fixed_bytes, source_bytes, at_once)
