"""A call of the API: the sources of one graph in memory, solved on all cores or on the GPU of this machine.

The sources are cut into parts. Threads of this process solve them, since the solvers release Python's lock. The caller
waits in its own thread, so that Ctrl-C stops the call at once: what has not begun is dropped. A hierarchy is
made in the thread of the caller. Ctrl-C there ends the step under way and then the call; nothing of it is kept.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

import numpy as np

from sssp_pipeline.base.compile_notice import log_compilation, on_first_compilation
from sssp_pipeline.base.csr import CsrGraph, GraphTraits
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.host_memory import free_memory_bytes
from sssp_pipeline.base.progress import Level, Progress, in_bytes, plural
from sssp_pipeline.kernels.contract.solver import Solution, SolveOptions, SourceMetrics, joined_metrics
from sssp_pipeline.kernels.gpu.common.cuda.cupy_setup import gpu_missing
from sssp_pipeline.kernels.hierarchy.shared import traits_of
from sssp_pipeline.kernels.host.grouped_pairs import may_go_backward
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.kernels.host.solver import Solver
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.planning.choice import choose_solver, expected_s, has_hierarchy
from sssp_pipeline.pipeline.planning.direction import (
    LEAST_GAIN,
    fits_every_path,
    gains,
    kept_reversed,
    turned,
)
from sssp_pipeline.pipeline.planning.hierarchy import LEAST_S
from sssp_pipeline.pipeline.planning.machine import Machine, this_machine
from sssp_pipeline.pipeline.planning.work import Work, batch_size
from sssp_pipeline.pipeline.run.hierarchy_of_call import prepare_call
from sssp_pipeline.workflow.models import Solve

T = TypeVar("T")

_log = logging.getLogger(__name__)

#: A call that is expected to take less runs in the thread of the caller. Starting threads takes about 0.1 ms.
_DIRECT_S = 0.002
#: A call that is expected to take less searches from the sources. To compare both directions takes some milliseconds.
_TURNED_S = 0.05
#: The expected seconds of a part on a CPU. After Ctrl-C, parts under way go on for about this long.
_PART_S = 0.25
#: A part with twice the sources takes as long if it takes up to this multiple. A sweep has 16 lanes or more.
_AS_LONG = 1.1
#: Parts of a core if a part may have many sources.
_PARTS_A_CORE = 16
#: Seconds between two looks for Ctrl-C. Polars, for one, lets a system call that a signal interrupts begin again.
_LOOK_S = 0.2
#: A result of this size is made without a look at the free memory, which takes as long as a small search.
_SMALL_BYTES = 1 << 28

_default_solve = cache(Solve)

#: Gets the place of the first source of a part, and the solution of the part. Several threads call it.
Take = Callable[[int, Solution], None]


@on_first_compilation(log_compilation)
def solve_sources(
    graph: CsrGraph,
    sources: np.ndarray,
    options: SolveOptions,
    solver: str,
    take: Take,
    *,
    stored: StoredGraph | None = None,
    n_expected: int = 0,
    is_backward: bool = False,
) -> Sequence[SourceMetrics]:
    """Return the metrics of all `sources` (S,), in their order. A hierarchy of the graph is made if the call gains.

    Parameters
    ----------
    graph, sources, options
        As for `Solver.solve`.
    solver
        The name of a solver, or "auto".
    take
        Gets the solution of each part. A solver on a CPU writes to the rows of a `Filling` itself.
    stored
        Where the graph is stored, if it is. Its store keeps the hierarchy.
    n_expected
        How many sources this and the next calls solve, if that is known to be more than these.
    is_backward
        Whether the searches follow the edges backward.

    Raises
    ------
    InputError
        The solver is unknown, cannot solve this, or there is none that can.
    InputError, SsspError
        As `Solver.solve`, `prepare_call` and `kept_reversed`.
    """
    chosen, work, machine = solver_of_call(graph, sources, options, solver, stored, n_expected)
    batch = work.batch
    searched = kept_reversed(graph, is_symmetric=_is_symmetric(stored)) if is_backward else graph
    forecast = work.of_a_call(chosen.name)
    on_all_cores = chosen.device == "cpu" and not forecast.is_shared
    is_short = len(sources) * forecast.source_s < _DIRECT_S
    if chosen.device == "cpu":
        at_once = max(forecast.at_once, min(batch, int(_PART_S / max(forecast.wall_s(machine.cores), 1e-9))))
        if on_all_cores and not is_short:
            at_once = _for_each_core(chosen, work, at_once, len(sources), machine.cores)
        size = at_once
        if chosen.yields_reached(graph.traits, options):
            # To start the searches of a part takes long beside a search that reaches little.
            size = max(at_once, -(-len(sources) // (_PARTS_A_CORE * machine.cores)))
        if isinstance(take, Filling) and _writes_there(graph, options):
            options = replace(options, into=take.rows)
    else:
        # The rows of a GPU come in batches, so that little pinned memory is taken.
        at_once, size = batch, batch * work.batches_of_one_gpu(work.batches_per_call(chosen.name))
    is_stopped = threading.Event()

    def solve_part(first: int) -> Sequence[SourceMetrics]:
        some = sources[first : first + size]
        into = options.into
        of_part = options if into is None else replace(options, into=into[first : first + size])
        metrics: list[Sequence[SourceMetrics]] = []
        ends = [*range(at_once, len(some), at_once), len(some)]
        with closing(chosen.solve_parts(searched, some, of_part, ends)) as solutions:
            for begin, solution in zip([0, *ends], solutions, strict=False):
                take(first + begin, solution)
                metrics.append(solution.metrics)
                if is_stopped.is_set():
                    break
        return joined_metrics(metrics)

    firsts = range(0, len(sources), size)
    if len(firsts) <= 1 and is_short:
        return solve_part(0) if len(sources) else []
    pool = ThreadPoolExecutor(machine.cores if on_all_cores else 1, "sssp-call")
    try:
        return joined_metrics([result_of(part) for part in [pool.submit(solve_part, i) for i in firsts]])
    finally:
        is_stopped.set()
        pool.shutdown(wait=False, cancel_futures=True)


def _for_each_core(solver: Solver, work: Work, at_once: int, n_sources: int, n_cores: int) -> int:
    """Return how many sources a part has: up to `at_once`, fewer if cores would get no part.

    The parts of a solver that takes many sources together need more processor time then, but end sooner.
    """

    def part_s(n: int) -> float:
        return n * solver.forecast(work.traits, n).source_s

    size = max(1, -(-n_sources // n_cores))
    while size < at_once and part_s(2 * size) < _AS_LONG * part_s(size):
        size *= 2
    return min(size, at_once)


def solver_of_call(
    graph: CsrGraph,
    sources: np.ndarray,
    options: SolveOptions,
    solver: str,
    stored: StoredGraph | None,
    n_expected: int = 0,
) -> tuple[Solver, Work, Machine]:
    """Return the solver that `solve_sources` takes, with the work and the machine.

    If the call gains by a hierarchy, the graph has one afterwards. Parameters and errors are those of `solve_sources`.
    """
    batch = batch_size(graph.traits, len(sources), _default_solve(), options.kept)
    machine = machine_of_call()
    n_sources, costs = max(len(sources), n_expected, 1), tuple(each.dtype for each in options.along)
    work = Work(traits_for(machine, graph), options, n_sources, batch, cost_dtypes=costs)
    return *_choose(graph, stored, sources, solver, work, machine), machine


def result_of(part: Future[T]) -> T:
    """Return the result of `part`. Ctrl-C ends the wait within `_LOOK_S`, even if a signal does not interrupt it."""
    while True:
        try:
            return part.result(_LOOK_S)
        except TimeoutError:
            if part.done():
                raise


def make_hierarchy_of(graph: CsrGraph, stored: StoredGraph | None) -> None:
    """Make the hierarchy of `graph` if it has none; `stored` as in `solve_sources`. It raises as `prepare_call`."""
    work = Work(traits_of(graph), SolveOptions(), n_sources=1, batch=1)
    prepare_call(
        graph, stored, np.empty(0, np.uint32), Solve(hierarchy="build"), work, machine_of_call(), _LOGGED
    )


def _choose(
    graph: CsrGraph,
    stored: StoredGraph | None,
    sources: np.ndarray,
    solver: str,
    work: Work,
    machine: Machine,
) -> tuple[Solver, Work]:
    """Return the solver for `work`, and the work with the hierarchy of the graph, which is made if the call gains.

    The other parameters are as in `solve_sources`. It raises the errors of `choose_solver` and `prepare_call`.
    """
    chosen, *_ = choose_solver(solver, work, machine)
    if _may_gain(chosen, solver, work, machine):
        work = replace(work, traits=traits_with_hierarchy(graph, stored, sources, solver, work, machine))
        chosen, *_ = choose_solver(solver, work, machine)
    return chosen, work


def traits_with_hierarchy(
    graph: CsrGraph,
    stored: StoredGraph | None,
    sources: np.ndarray,
    solver: str,
    work: Work,
    machine: Machine,
) -> GraphTraits:
    """Return the traits of `graph` with its hierarchy, which is made if `work` gains, or if `solver` needs one.

    The other parameters are as in `solve_sources`. It raises the errors of `prepare_call`.
    """
    wanted = _default_solve() if solver == "auto" else Solve(solver=solver)
    traits, _ = prepare_call(graph, stored, sources, wanted, work, machine, _LOGGED)
    return traits


def _may_gain(chosen: Solver, asked: str, work: Work, machine: Machine) -> bool:
    """Return whether the graph may lack a hierarchy that is worth its time; if not, nothing else needs to be asked."""
    if has_hierarchy(work.traits, chosen) or work.traits.weight_dtype.kind == "f":
        return False
    return chosen.uses_hierarchy if asked != "auto" else expected_s(chosen, work, machine) > LEAST_S


def goes_backward(
    graph: CsrGraph,
    sources: np.ndarray,
    targets: np.ndarray,
    options: SolveOptions,
    solver: str,
    stored: StoredGraph | None,
) -> bool:
    """Return whether `auto` searches from `targets` (T,): in at most half of the time, and with the same answers.

    `targets` are different vertices. The other parameters are as in `solve_sources`. It raises the errors of
    `choose_solver`.
    """
    if LEAST_GAIN * len(targets) > len(sources) or not len(targets) or not may_go_backward(graph.traits):
        return False
    machine = machine_of_call()
    traits = traits_for(machine, graph)
    batch = batch_size(traits, len(sources), _default_solve(), options.kept)
    forward = Work(traits, options, len(sources), batch)
    chosen, *_ = choose_solver(solver, forward, machine)
    if expected_s(chosen, forward, machine) < _TURNED_S:
        return False
    backward = turned(forward, sources, len(targets))
    if not gains(solver, forward, backward, machine, is_reversed=_is_symmetric(stored)):
        return False
    return fits_every_path(graph, options, is_symmetric=_is_symmetric(stored))


def traits_for(machine: Machine, graph: CsrGraph) -> GraphTraits:
    """Return the traits of `graph`, with its levels if a GPU may solve."""
    return replace(traits_of(graph), levels=None if machine.gpu_free_bytes is None else graph.levels)


def _is_symmetric(stored: StoredGraph | None) -> bool:
    """Return whether a store says that every edge has its reverse."""
    return stored is not None and stored.manifest.symmetric


class _Logged(Progress):
    """Writes the lines about a hierarchy to the log."""

    def say(self, line: str, event: str = "note", *, level: Level = "info", **facts: Any) -> None:
        del event, level, facts
        _log.info("%s", line)


_LOGGED = _Logged()


def check_memory(n_rows: int, n_columns: int, bytes_each: int, hint: str) -> None:
    """Raise `InputError` if a result (n_rows, n_columns) with `bytes_each` per element is above the free memory."""
    needed = n_rows * n_columns * bytes_each
    if needed > _SMALL_BYTES and needed > (free := free_memory_bytes()):
        raise InputError(
            f"{plural(n_rows, 'source')} x {plural(n_columns, 'value')} take {in_bytes(needed)}, "
            f"and {in_bytes(free)} of memory are free",
            hint=hint,
        )


class Filling:
    """Fills whole arrays (S, …) part by part, as a `Take`; an array that is None is not wanted.

    Parameters
    ----------
    rows
        Contiguous: `Solution.distances` of all sources.
    others
        More arrays, each with what makes the rows of a part from its solution.
    """

    def __init__(self, rows: np.ndarray | None, *others: tuple[Any, Callable[[Any], Any]]) -> None:
        self.rows, self._others = rows, others

    def __call__(self, first: int, solution: Solution) -> None:
        part = slice(first, first + len(solution.distances))
        if self.rows is not None and not np.may_share_memory(self.rows, solution.distances):
            self.rows[part] = solution.distances
        for whole, rows_of in self._others:
            if whole is not None:
                whole[part] = rows_of(solution)


def _writes_there(graph: CsrGraph, options: SolveOptions) -> bool:
    """Return whether a solver on a CPU can write to the rows of a `Filling`, which then need no memory of their own."""
    return options.into is None and not options.needs_host_rows and graph.traits.min_weight >= 0


def machine_of_call() -> Machine:
    """Return the hardware of this machine, with the memory that is free on its GPU now."""
    without_gpu = _machine_without_gpu()
    return this_machine() if without_gpu is None else without_gpu


@cache
def _machine_without_gpu() -> Machine | None:
    """Return the hardware of this machine if it has no usable GPU; looking takes longer than a small search."""
    reason = gpu_missing()
    return None if reason is None else Machine(usable_cores(), None, reason)
