"""Compiles what a run may need while its input is read.

Children compile the kernels of a hierarchy. With many cores, threads of this process compile those of a GPU by NVRTC.
"""

from __future__ import annotations

import numpy as np

from sssp_pipeline.base import compile_children
from sssp_pipeline.base.compile_children import KernelGroup
from sssp_pipeline.kernels import SOLVERS, WITH_HIERARCHY
from sssp_pipeline.kernels.gpu.common.cuda.cupy_setup import gpu_missing
from sssp_pipeline.kernels.hierarchy.compile_ahead import (
    LOOK,
    MANY_CHILDREN,
    SWEEPS,
    groups_after_order,
    n_children,
    order_groups,
)
from sssp_pipeline.pipeline.results.answers.betweenness import Betweenness
from sssp_pipeline.pipeline.run.first_run import MANY_SOURCES, has_many_sources
from sssp_pipeline.pipeline.run.hierarchy_stage import is_free, kernels_of, why_not_wanted
from sssp_pipeline.workflow.models import Workflow


def compile_for_run(workflow: Workflow) -> None:
    """Have children compile what numba's cache lacks for the hierarchy of a run, if there may be one."""
    solve = workflow.solve
    if why_not_wanted(solve) is None and (not is_free(solve) or has_many_sources(workflow)):
        of_solver = kernels_of(solve.solver, solve.solver == "auto" and gpu_missing() is None)
        # Not at the top: a run with another solver does not import those.
        from sssp_pipeline.kernels.cpu.compile_ahead import ORACLE, SEARCHES

        before_order = [SEARCHES, LOOK] if is_free(solve) else []
        _compile(workflow, before_order, of_solver, [ORACLE] if workflow.verify == "sample" else [])
    if n_children() >= MANY_CHILDREN and (summed := _summed_on_gpu(workflow)) is not None:
        _load_sums(workflow, summed)


def _summed_on_gpu(workflow: Workflow) -> Betweenness | None:
    """Return what a GPU of this machine may sum along paths, as far as the workflow tells; None if it sums nothing."""
    asked, solver = workflow.output.own["reduce"], workflow.solve.solver
    is_on_gpu = (
        asked is not None
        and workflow.cluster.kind == "auto"
        and (solver == "auto" or SOLVERS.device_of(solver) == "gpu")
        and has_many_sources(workflow)
        and gpu_missing() is None
    )
    is_sample = workflow.sources is not None and workflow.sources.random is not None
    return Betweenness.asked_by(asked, is_sample, compression="none") if is_on_gpu else None


def _load_sums(workflow: Workflow, summed: Betweenness) -> None:
    """Have threads of this process load the kernels that sum along paths. NVRTC compiles without Python's lock."""
    # Not at the top: a run on the CPU does not import what a GPU needs.
    from sssp_pipeline.kernels.gpu.common.cuda.compile import load_ahead
    from sssp_pipeline.kernels.gpu.common.rows.path_sums_on_device import path_sums_unit
    from sssp_pipeline.kernels.gpu.path_sweep.path_sweep_on_device import PATH_SWEEP

    dtype = _weight_dtype(workflow)
    load_ahead([path_sums_unit(summed.asked)], dtype)
    if dtype.kind != "f" and not summed.has_decay and why_not_wanted(workflow.solve) is None:
        load_ahead([PATH_SWEEP], _searched(dtype))


def wait_until_compiled(solver: str, dtype: np.dtype) -> None:
    """Return when no child compiles what `solver` needs for weights of `dtype`; then end the children.

    The time of the first batches does not include the wait, and workers find the kernels in the cache.
    """
    if solver in WITH_HIERARCHY:
        group = kernels_of(solver, has_gpu=False)
        compile_children.wait_for(group, _searched(dtype))
    compile_children.stop()


def compile_for_hierarchy(workflow: Workflow) -> None:
    """Have children compile what numba's cache lacks for a hierarchy."""
    _compile(workflow, [], SWEEPS, [])


def _compile(
    workflow: Workflow, groups: list[KernelGroup], of_solver: KernelGroup, afterwards: list[KernelGroup]
) -> None:
    """Have children compile `groups`, what makes a hierarchy, `of_solver`, and `afterwards` if there are many cores."""
    dtype = _weight_dtype(workflow)
    if dtype.kind == "f":
        return
    needed, seldom_needed = groups_after_order(of_solver)
    groups = [*groups, *order_groups(), *needed]
    if (n_processes := n_children()) > 1:  # one child has more to do than this process
        # Not at the top: a run on a stored graph loads no readers.
        from sssp_pipeline.pipeline.formats.parsing.compile_ahead import DIGITS
        from sssp_pipeline.pipeline.ingest.rows.compile_ahead import GATHERING, GROUPING, ROWS

        groups = [DIGITS, GROUPING, GATHERING, ROWS, *groups]
    has_cores = n_processes >= len(groups)
    # Only a process that is done takes what few runs need. More processes would take time from the others.
    n_processes = min(n_processes, len(groups) + len(afterwards))
    others = [*afterwards, *seldom_needed] if has_cores else []
    compile_children.start([*groups, *others], _searched(dtype), n_processes)
    if of_solver is not SWEEPS and has_cores and workflow.cluster.is_here and has_many_sources(workflow):
        # Not at the top: a run on the CPU does not import the solvers of a GPU.
        from sssp_pipeline.kernels.gpu.phast_gpu.phast_gpu import load_for_calls

        cutoff = workflow.solve.cutoff is not None
        load_for_calls(dtype, MANY_SOURCES, cutoff=cutoff, are_short=True)


def _weight_dtype(workflow: Workflow) -> np.dtype:
    """Return the type of the weights.

    Until the input is read, `auto` stands for what most graphs get. If that is wrong, what compiles for the right type
    starts when the graph is read.
    """
    named = next(iter(workflow.graph.by_weight.values())).weights.dtype
    return np.dtype("uint32" if named == "auto" else named)


def _searched(dtype: np.dtype) -> np.dtype:
    """Return the type of the weights of arcs in a hierarchy of a graph with weights of `dtype`, which are integers."""
    return np.dtype(f"u{dtype.itemsize}")
