"""Checks of a run before its graph is read, so that a run does not fail after an hour of ingest.

Whatever needs the graph (memory, vertex ids, the weights' type where the input decides it) is checked later.
"""

from __future__ import annotations

from typing import get_args

import numpy as np

from sssp_pipeline.csr import GraphTraits
from sssp_pipeline.kernels import SOLVERS, solver_named
from sssp_pipeline.kernels.gpu.common.cupy_setup import gpu_missing
from sssp_pipeline.kernels.solver import SolveOptions, Solver
from sssp_pipeline.pipeline.graph_store.store import MANIFEST
from sssp_pipeline.pipeline.planning.plan import check_choice, solve_options
from sssp_pipeline.pipeline.results.distance_files import check_unreached
from sssp_pipeline.pipeline.results.run_folder import RUN_FILE, RunFolder
from sssp_pipeline.pipeline.solving.workers.local import check_gpus
from sssp_pipeline.pipeline.storage import files
from sssp_pipeline.progress import Progress
from sssp_pipeline.workflow.cluster import Cluster
from sssp_pipeline.workflow.models import Dtype, Workflow

_HERE = ("auto", "local-cpu", "local-cuda")


def check_before_ingest(
    workflow: Workflow, progress: Progress, *, cluster: bool = True, overwrite: bool = False
) -> None:
    """Raise `InputError` for what makes a run of `workflow` fail whatever its graph is; leave nothing behind.

    A finished run needs neither solver nor cluster, unless `overwrite` says that it will be removed and solved again.
    `cluster` False leaves out the cluster, for which a plan need not wait.
    """
    folder = RunFolder(workflow.output.path)
    if not folder.is_begun():
        files.check_writable(folder.url)
    if not files.exists(files.join(workflow.store, MANIFEST)):
        files.check_writable(workflow.store)
    for chosen in (workflow.sources, workflow.output.targets):
        if chosen is not None and chosen.file is not None:
            files.expand([chosen.file])
            files.open_read(chosen.file).close()
    _check_types(workflow)
    if files.exists(folder.path(RUN_FILE)) and not overwrite:
        return
    _check_solver(workflow)
    if cluster:
        _check_cluster(workflow.cluster, progress)


def _check_types(workflow: Workflow) -> None:
    dtype = workflow.graph.weights.dtype
    if dtype != "auto":
        check_unreached(workflow.output.unreached, np.dtype(dtype))


def _check_solver(workflow: Workflow) -> None:
    """Check the solver that is named, its options, and what every solver refuses of any graph."""
    name, dtype = workflow.solve.solver, workflow.graph.weights.dtype
    if name != "auto":
        solver_named(name, workflow.solve.options)
    options = solve_options(workflow.solve)
    dtypes = get_args(Dtype) if dtype == "auto" else (dtype,)
    no_gpu = gpu_missing() if workflow.cluster.kind in _HERE else None
    refused: dict[str, str] = {}
    for solver in SOLVERS.values():
        reason = _refusal(solver, dtypes, options)
        if reason is None and solver.device == "gpu":
            reason = no_gpu
        if reason is not None:
            refused[solver.name] = reason
    check_choice(name, refused, options)


def _refusal(solver: Solver, dtypes: tuple[str, ...], options: SolveOptions) -> str | None:
    """Return why `solver` refuses even the smallest graph of every one of these types, None if it takes one."""
    smallest = [GraphTraits(1, 0, np.dtype(dtype), 0, 0, 0, 1) for dtype in dtypes]
    reasons = [solver.supports(traits, options) for traits in smallest]
    return reasons[0] if all(reason is not None for reason in reasons) else None


def _check_cluster(spec: Cluster, progress: Progress) -> None:
    if spec.kind == "local-cuda":
        check_gpus(spec)
    starts_dask = spec.kind not in ("auto", "local-cpu") or spec.is_secured or spec.memory_limit != "auto"
    if not starts_dask:
        return
    # Dask takes as long to import as a small graph to ingest.
    from sssp_pipeline.pipeline.solving.workers import cluster, memory

    memory.check_limit(spec.memory_limit)
    cluster.check_startable(spec)
    if spec.kind == "address":
        progress.stage(f"wait for the scheduler at {spec.address}")
        cluster.wait_for_scheduler(spec)
