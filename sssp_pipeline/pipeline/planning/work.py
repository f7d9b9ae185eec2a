"""The work of a run: its sources in batches, and calls of a solver that take several batches.

The size of a batch depends on the graph, the sources and the workflow, never on the machines. So the same workflow
writes the same files everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from sssp_pipeline.base.csr import GraphTraits, HierarchyTraits
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.contract.forecast import COPY_S_PER_BYTE, CORES_EXPONENT, Forecast
from sssp_pipeline.kernels.contract.kept import EveryVertex, KeptOfRow
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.hierarchy.completion import costs
from sssp_pipeline.kernels.host import second_costs
from sssp_pipeline.kernels.host.solver import Solver
from sssp_pipeline.pipeline.graph_store.units import scaled_limit
from sssp_pipeline.pipeline.planning.machine import Machine
from sssp_pipeline.pipeline.results.outputs.outputs import RowOutput
from sssp_pipeline.workflow.models import Solve

#: The most bytes of distances in a batch, so that each thread can hold them. Batches of half the size are written at
#: two thirds of the rate, because each batch waits some times for Python's lock. With larger ones, pinning memory takes
#: longer than it saves (docs/design/0012-assembled-pages.md).
BATCH_BYTES = 2**26
#: The same for batches whose sources are columns. Readers join files, so there should be few of them. But of larger
#: batches fewer are on the host together (`needs.most_under_way`), and fewer threads write.
WIDE_BATCH_BYTES = 2**27
#: The most columns of such a batch. The footer of a file describes each of them.
WIDE_BATCH_SOURCES = 512
#: `BATCHES` makes no batch smaller than this: the overhead of tiny files would outweigh the gain.
SMALL_BATCH_BYTES = 2**20
#: If a batch keeps something of each vertex, its rows take at least this multiple of these bytes.
ROWS_A_PART = 8
#: The least number of batches of a sample over a hierarchy: its standard error comes from their differences. With 16,
#: this error is right to about 18 %.
GROUPS = 16
#: The least number of sources of such a batch. A small sample has batches of this size, and fewer than `GROUPS`.
SOURCES_A_GROUP = 64
#: The most sources of a batch. If few distances are kept of each source, this bounds the work lost with a batch. A GPU
#: solves at most this many sources together.
BATCH_SOURCES = 4096
#: Batches of a size that the workflow names have a file each, up to this number. More of them are joined, until there
#: are no more than this or each has `SMALL_BATCH_BYTES`. So a lost batch costs little of a run.
SMALL_BATCHES = 2000
#: The number of batches to aim at, so that many workers share the work and little is lost with one batch.
BATCHES = 64
#: The same for batches whose sources are columns, and for batches that sum along rows: each has a part with many words.
WIDE_BATCHES, SUMMED_BATCHES = 32, 32
#: The most bytes of distances in one call of a solver that solves many sources together. A call has several batches.
#: They lie on the GPU, and come to the host one by one.
CALL_BYTES = 2**33
#: The least number of calls: one is written while another is solved, and several GPUs share them.
CALLS = 4
#: The same on one GPU that sums along paths: it copies no rows, and waits longest for the last sources of a call.
SUMMED_CALLS = 2
#: If the host sums second costs, a call takes several batches only if they have about this many sources together. The
#: thread of the call sums the costs on one core. A sweep of 16 sources takes about as long as one of 2.
ALONG_SOURCES = 16
#: If whole rows are not copied, a call on a single GPU has this multiple of the sources that a solver takes together.
#: The GPU waits for the last sources of each call, so fewer calls are faster.
ROUNDS = 4

#: The sources that a GPU sums over a hierarchy at once: 32 in each of two blocks of a multiprocessor.
SWEPT_AT_ONCE = 8192

#: Core-seconds to write a byte of distances (benchmarks/results/distances.jsonl, long layout).
WRITE_S_PER_BYTE = 1 / 1.6e9


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
    limit_s = float(spec.deadline_s)
    return SolveOptions(delta, cutoff, spec.predecessors, spec.trace_every_us, kept, limit_s, limit_s)


def batch_size(
    traits: GraphTraits,
    n_sources: int,
    solve: Solve,
    kept: KeptOfRow,
    columns: int | Literal["auto"] | None = None,
) -> int:
    """Return how many of `n_sources` a batch has, whatever the machines.

    `columns` is `output.columns_per_file` of the workflow; None if sources are no columns.
    """
    if isinstance(columns, int):
        return columns
    per_source = source_bytes(traits, kept, solve.predecessors, len(solve.along))
    if solve.batch != "auto":
        n_given = -(-n_sources // solve.batch)
        n_joined = min(-(-n_given // SMALL_BATCHES), SMALL_BATCH_BYTES // max(per_source * solve.batch, 1))
        return max(1, n_joined) * solve.batch
    most_bytes, most, wanted = BATCH_BYTES, BATCH_SOURCES, BATCHES
    if columns is not None:
        most_bytes, most, wanted = WIDE_BATCH_BYTES, WIDE_BATCH_SOURCES, WIDE_BATCHES
    largest = min(most_bytes // max(per_source, 1), most)
    # Whatever is kept of a row, the solver computes the whole row.
    smallest = SMALL_BATCH_BYTES // max(row_bytes(traits), per_source, 1)
    # Each batch also writes what it has of each vertex and edge: a small share of the work.
    part_bytes = kept.part_bytes(traits.n_vertices, traits.weight_dtype)
    smallest = max(smallest, ROWS_A_PART * part_bytes // max(row_bytes(traits), 1))
    if kept.paths is not None:
        smallest = max(smallest, kept.paths.sources_a_part)
        if kept.paths.squares_groups:
            smallest = min(smallest, max(SOURCES_A_GROUP, -(-n_sources // GROUPS)))
        wanted = SUMMED_BATCHES if kept.paths.is_for_gpus and not kept.paths.on_hierarchy else wanted
    return max(1, min(largest, max(smallest, -(-n_sources // wanted))))


def cut(
    traits: GraphTraits,
    sources: np.ndarray,
    solve: Solve,
    kept: KeptOfRow,
    columns: int | Literal["auto"] | None = None,
) -> list[np.ndarray]:
    """Return `sources` (S,) as batches of `batch_size`."""
    size = batch_size(traits, len(sources), solve, kept, columns)
    return [sources[i : i + size] for i in range(0, len(sources), size)]


def row_bytes(traits: GraphTraits) -> int:
    """Return the bytes of a row of distances."""
    return traits.n_vertices * traits.weight_dtype.itemsize


def source_bytes(traits: GraphTraits, kept: KeptOfRow, predecessors: bool, n_costs: int) -> int:
    """Return the bytes that are kept of each source, with `n_costs` second costs."""
    n_columns = kept.n_columns(traits.n_vertices)
    return n_columns * (kept.dtype(traits.weight_dtype).itemsize + 4 * predecessors + 8 * n_costs)


@dataclass(frozen=True)
class Work:
    """What there is to solve: the sources of a run, in batches, on one graph."""

    #: The properties of the graph.
    traits: GraphTraits
    #: The options of the workflow's `solve`.
    options: SolveOptions
    #: Sources in all, and in each batch.
    n_sources: int
    batch: int
    #: Why no hierarchy will be made for the run; None if one will be.
    no_hierarchy: str | None = "no hierarchy of the graph is stored"
    #: The types of the second costs that are summed along each path.
    cost_dtypes: tuple[np.dtype, ...] = ()
    #: What is done without a hierarchy, if it is other work: sums along paths are then made of rows.
    instead: Work | None = None

    @property
    def n_costs(self) -> int:
        """How many second costs are summed along each path."""
        return len(self.cost_dtypes)

    @property
    def source_bytes(self) -> int:
        """Host memory of the values that a run keeps of each source, with their predecessors and second costs."""
        return source_bytes(self.traits, self.options.kept, self.options.predecessors, self.n_costs)

    @property
    def kept_device_bytes(self) -> int:
        """Device memory that two buffers of `options.kept` take for each source, with sums along paths."""
        kept, (n_vertices, n_edges) = self.options.kept, (self.traits.n_vertices, self.traits.n_edges)
        along_rows = None if self.sums_on_hierarchy else kept.paths
        of_paths = 0 if along_rows is None else along_rows.slot_device_bytes(n_vertices, n_edges)
        of_costs = second_costs.gpu_source_bytes(self.traits, kept, self.cost_dtypes)
        return 2 * (kept.device_bytes(n_vertices, self.traits.weight_dtype) + of_paths) + of_costs

    @property
    def kept_fixed_bytes(self) -> int:
        """Device memory that two buffers of `options.kept` take for any number of sources, with sums along paths."""
        kept, (n_vertices, n_edges) = self.options.kept, (self.traits.n_vertices, self.traits.n_edges)
        if self.sums_on_hierarchy:
            return 2 * kept.fixed_device_bytes(n_vertices) + costs.gpu_pass_bytes(self.traits)
        of_paths = 0 if kept.paths is None else kept.paths.fixed_device_bytes(n_vertices, n_edges)
        of_costs = second_costs.gpu_graph_bytes(self.traits, self.cost_dtypes)
        return 2 * (kept.fixed_device_bytes(n_vertices) + of_paths) + of_costs

    @property
    def batch_bytes(self) -> int:
        """Host memory of the values that a run keeps of a batch."""
        return self.batch * self.source_bytes

    @property
    def sums_on_hierarchy(self) -> bool:
        """Whether sums along paths are made over a hierarchy."""
        paths = self.options.kept.paths
        return paths is not None and paths.on_hierarchy

    @property
    def n_batches(self) -> int:
        return -(-self.n_sources // self.batch)

    def batches_per_call(self, solver: str) -> int:
        """Return how many batches one call of `solver` takes: as many as it solves together, within bounds.

        With predecessors it is one. The thread of a call makes them on one core, which takes far longer than solving.
        Small calls let all cores work. `ALONG_SOURCES` bounds a call whose second costs the host sums.
        """
        if self.options.predecessors:
            return 1
        together = SOLVERS[solver].forecast(self.traits, self.n_sources).at_once
        if self.n_costs and not SOLVERS[solver].sums_costs_of(self.traits, self.cost_dtypes):
            together = min(together, ALONG_SOURCES)
        if self.sums_on_hierarchy and SOLVERS.device_of(solver) == "gpu":
            together = max(together, SWEPT_AT_ONCE)
        wanted = -(-together // self.batch)
        return max(1, min(wanted, CALL_BYTES // max(self.batch_bytes, 1), self.n_batches // CALLS))

    def batches_of_one_gpu(self, batches_per_call: int) -> int:
        """Return how many batches a call has if there is only one GPU."""
        if self.options.kept.is_whole_row:
            return batches_per_call
        calls = CALLS if self.options.kept.paths is None or self.sums_on_hierarchy else SUMMED_CALLS
        return max(batches_per_call, min(ROUNDS * batches_per_call, self.n_batches // calls))

    def source_wall_s(
        self, solver: Solver, source_s: float, machine: Machine, is_shared: bool = False
    ) -> float:
        """Return the seconds by which a source lengthens the work.

        Parameters
        ----------
        solver
            What solves it.
        source_s
            Seconds to solve it: of the GPU, of one core, or of all cores if `is_shared`.
        machine
            Its cores and GPUs work at the same time.
        is_shared
            Whether all cores work on one source. Otherwise each core has a source of its own.
        """
        kept = self.options.kept
        write_s = WRITE_S_PER_BYTE * (self.source_bytes + kept.stored_part_bytes(self.traits) / self.batch)
        costs_on_gpu = self.n_costs > 0 and solver.sums_costs_of(self.traits, self.cost_dtypes)
        if self.n_costs and not costs_on_gpu:
            write_s += second_costs.row_s(self.traits, self.n_costs)
        cores = max(1, min(self.n_batches, machine.cores)) ** CORES_EXPONENT
        if solver.device == "gpu":
            gpus = max(1, min(self.n_batches, machine.n_gpus))
            if self.sums_on_hierarchy:
                source_s += costs.gpu_pass_s(self.traits)
                write_s += costs.unpack_s(self.traits) / self.batch
            gpu_s = source_s + kept.sum_s(self.traits, "gpu") + COPY_S_PER_BYTE * self.source_bytes
            if costs_on_gpu:
                gpu_s += self.n_costs * second_costs.gpu_row_s(self.traits, kept)
            return max(gpu_s / gpus, write_s / cores)
        reduce_s = kept.reduce_s * self.traits.n_vertices + kept.sum_s(self.traits, "cpu")
        if self.sums_on_hierarchy:
            reduce_s *= kept.reads_rows
            reduce_s += costs.pass_s(self.traits) + costs.unpack_s(self.traits) / self.batch
        return (source_s if is_shared else source_s / cores) + (write_s + reduce_s) / cores

    def at_pace(self, pace: float) -> Work:
        """Return this work, and what may be done instead, with the `GraphTraits.pace` that was measured."""
        instead = None if self.instead is None else self.instead.at_pace(pace)
        return replace(self, traits=replace(self.traits, pace=pace), instead=instead)

    def with_reach(self, reach: float) -> Work:
        """Return this work, and what may be done instead, with the `GraphTraits.reach` that was measured."""
        instead = None if self.instead is None else self.instead.with_reach(reach)
        return replace(self, traits=replace(self.traits, reach=reach), instead=instead)

    def with_hierarchy(self, known: HierarchyTraits | None) -> Work:
        """Return this work on the graph with the hierarchy that is `known`."""
        return replace(self, traits=replace(self.traits, hierarchy=known))

    def with_width(self, width: int) -> Work:
        """Return this work with the `GraphTraits.width` that a look has shown."""
        return replace(self, traits=replace(self.traits, width=width))

    def of_a_call(self, solver: str) -> Forecast:
        """Return the forecast for a source in a call of `solver`."""
        n_sources = min(self.batches_per_call(solver) * self.batch, self.n_sources)
        return SOLVERS[solver].forecast(self.traits, n_sources)


def work_of(traits: GraphTraits, batches: list[np.ndarray], solve: Solve, output: RowOutput) -> Work:
    """Return the work of `batches`, as `cut` returns them, for `output`."""
    n_sources, batch = sum(map(len, batches)), len(batches[0]) if batches else 1
    costs_of = tuple(np.dtype(cost.dtype) for cost in output.form.along)
    return Work(traits, solve_options(solve, output.kept), n_sources, batch, cost_dtypes=costs_of)
