"""A call of the API: the sources of one graph in memory, solved on all cores or on the GPU of this machine.

The sources are cut into parts. Threads of this process solve them, since the solvers release Python's lock. The caller
waits in its own thread, so that Ctrl-C stops the call at once: parts that have not begun are dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from sssp_pipeline.base.compile_notice import log_compilation, on_first_compilation
from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.host_memory import free_memory_bytes
from sssp_pipeline.base.progress import in_bytes, plural
from sssp_pipeline.kernels.contract.solver import Solution, SolveOptions, SourceMetrics
from sssp_pipeline.kernels.gpu.common.cuda.cupy_setup import gpu_missing
from sssp_pipeline.kernels.hierarchy.shared import offered_traits
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.pipeline.planning.choice import choose_solver
from sssp_pipeline.pipeline.planning.machine import Machine, this_machine
from sssp_pipeline.pipeline.planning.work import Work, batch_size
from sssp_pipeline.workflow.models import Solve

#: A call that is expected to take less runs in the thread of the caller. Starting threads takes about 0.1 ms.
_DIRECT_S = 0.002
#: The expected seconds of a part on a CPU. After Ctrl-C, parts under way go on for about this long.
_PART_S = 0.25
#: A result of this size is made without a look at the free memory, which takes as long as a small search.
_SMALL_BYTES = 1 << 28

_default_solve = cache(Solve)

#: Gets the place of the first source of a part, and the solution of the part. Several threads call it.
Take = Callable[[int, Solution], None]


@on_first_compilation(log_compilation)
def solve_sources(
    graph: CsrGraph, sources: np.ndarray, options: SolveOptions, solver: str, take: Take
) -> list[SourceMetrics]:
    """Return the metrics of all `sources` (S,), in their order.

    Parameters
    ----------
    graph, sources, options
        As for `Solver.solve`.
    solver
        The name of a solver, or "auto".
    take
        Gets the solution of each part.

    Raises
    ------
    InputError
        The solver is unknown, cannot solve this, or there is none that can; or as `Solver.solve`.
    SsspError
        As `Solver.solve`.
    """
    batch = batch_size(graph.traits, len(sources), _default_solve(), options.kept)
    traits = replace(graph.traits, hierarchy=offered_traits(graph))
    work = Work(traits, options, max(len(sources), 1), batch)
    machine = _machine()
    chosen, *_ = choose_solver(solver, work, machine)
    forecast = work.of_a_call(chosen.name)
    on_all_cores = chosen.device == "cpu" and not forecast.is_shared
    if chosen.device == "cpu":
        size = max(forecast.at_once, min(batch, int(_PART_S / max(forecast.wall_s(machine.cores), 1e-9))))
    else:
        size = batch * work.batches_per_call(chosen.name)

    def solve_part(first: int) -> list[SourceMetrics]:
        some = sources[first : first + size]
        into = options.into
        of_part = options if into is None else replace(options, into=into[first : first + size])
        metrics: list[SourceMetrics] = []
        # The rows of a GPU come in batches, so that little pinned memory is taken.
        ends = [*range(batch, len(some), batch), len(some)] if chosen.device == "gpu" else [len(some)]
        with closing(chosen.solve_parts(graph, some, of_part, ends)) as solutions:
            for solution in solutions:
                take(first + len(metrics), solution)
                metrics += solution.metrics
        return metrics

    firsts = range(0, len(sources), size)
    if len(firsts) <= 1 and len(sources) * forecast.source_s < _DIRECT_S:
        return solve_part(0) if len(sources) else []
    pool = ThreadPoolExecutor(machine.cores if on_all_cores else 1, "sssp-call")
    try:
        return [metrics for part in pool.map(solve_part, firsts) for metrics in part]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def check_memory(n_rows: int, n_columns: int, bytes_each: int, hint: str) -> None:
    """Raise `InputError` if a result (n_rows, n_columns) with `bytes_each` per element is above the free memory."""
    needed = n_rows * n_columns * bytes_each
    if needed > _SMALL_BYTES and needed > (free := free_memory_bytes()):
        raise InputError(
            f"{plural(n_rows, 'source')} x {plural(n_columns, 'value')} take {in_bytes(needed)}, "
            f"and {in_bytes(free)} of memory are free",
            hint=hint,
        )


def filling(*arrays: tuple[Any, Callable[[Any], Any]]) -> Take:
    """Return what fills whole arrays (S, …) part by part; an array that is None is not wanted.

    With each array is given what makes the rows of a part from its solution.
    """

    def take(first: int, solution: Solution) -> None:
        part = slice(first, first + len(solution.distances))
        for whole, rows_of in arrays:
            if whole is not None:
                whole[part] = rows_of(solution)

    return take


def _machine() -> Machine:
    """Return the hardware of this machine, with the memory that is free on its GPU now."""
    without_gpu = _machine_without_gpu()
    return this_machine() if without_gpu is None else without_gpu


@cache
def _machine_without_gpu() -> Machine | None:
    """Return the hardware of this machine if it has no usable GPU; looking takes longer than a small search."""
    reason = gpu_missing()
    return None if reason is None else Machine(usable_cores(), None, reason)
