"""Checks of a run before its graph is read, so that a run does not fail after an hour of ingest.

Checks that need the graph come later: memory, vertex ids, and a weight type that depends on the input.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import numpy as np

from sssp_pipeline.base.csr import GraphTraits
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.progress import Progress
from sssp_pipeline.kernels import SOLVERS, WITH_HIERARCHY, solver_named
from sssp_pipeline.kernels.answers.reductions import Reductions
from sssp_pipeline.kernels.answers.trip_sums import TripSumsAsked
from sssp_pipeline.kernels.contract.kept import EveryVertex, KeptOfRow
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.gpu.common.cuda.cupy_setup import gpu_missing
from sssp_pipeline.kernels.host.solver import Solver
from sssp_pipeline.pipeline.graph_store.store import MANIFEST
from sssp_pipeline.pipeline.planning.choice import check_choice
from sssp_pipeline.pipeline.planning.work import solve_options
from sssp_pipeline.pipeline.results.answers.betweenness import Betweenness
from sssp_pipeline.pipeline.results.folder.distance_files import check_unreached
from sssp_pipeline.pipeline.results.folder.run_files import RUN_FILE
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.pipeline.solving.workers.certificates import check_certificates
from sssp_pipeline.pipeline.solving.workers.local import ThisMachine
from sssp_pipeline.storage import files
from sssp_pipeline.workflow.cluster import Cluster
from sssp_pipeline.workflow.contradictions import files_read
from sssp_pipeline.workflow.graph import Dtype
from sssp_pipeline.workflow.models import Solve, Workflow


def check_before_ingest(
    workflow: Workflow, progress: Progress, *, cluster: bool = True, overwrite: bool = False
) -> None:
    """Raise `InputError` if a run of `workflow` would fail with every graph. Nothing is written.

    Parameters
    ----------
    workflow
        The workflow of the run.
    progress
        Gets the wait for a scheduler.
    cluster
        Whether to check the cluster, which may mean to wait for a scheduler.
    overwrite
        Whether a finished run will be removed and solved again. Otherwise a finished run needs no solver and no
        cluster, and only the name and the options of the solver are checked.
    """
    folder = RunFolder(workflow.output.path)
    if not folder.is_begun():
        files.check_writable(folder.url)
    if not files.exists(files.join(workflow.store, MANIFEST)):
        files.check_writable(workflow.store)
    for path, url in files_read(workflow.model_dump()):
        if path[0] != "graph":
            files.expand([url])
            files.open_read(url).close()
    if (dtype := workflow.graph.weights.dtype) != "auto":
        check_unreached(workflow.output.unreached, np.dtype(dtype))
    if workflow.solve.solver != "auto":
        solver_named(workflow.solve.solver, workflow.solve.options)
    if files.exists(folder.path(RUN_FILE)) and not overwrite:
        return
    refusal_of = _refusal_of(workflow)
    check_choice(workflow.solve.solver, refusal_of, solve_options(workflow.solve, _kept(workflow)))
    _check_hierarchy(workflow.solve, refusal_of)
    if cluster:
        _check_cluster(workflow.cluster, progress)


def check_before_making_hierarchy(workflow: Workflow) -> None:
    """Raise `InputError` if `ingest --hierarchy` would fail with every graph."""
    if workflow.solve.hierarchy == "off":
        raise InputError("`solve.hierarchy` is `off`, and `--hierarchy` makes one", hint="remove one of them")
    if (reason := _no_hierarchy(_refusal_of(workflow))) is not None:
        raise InputError(f"no solver can use a hierarchy: {reason}", hint="leave out `--hierarchy`")


def _refusal_of(workflow: Workflow) -> Callable[[str], str | None]:
    """Return a function that returns why the solver with a name cannot solve any graph with this workflow, or None."""
    dtype, options = workflow.graph.weights.dtype, solve_options(workflow.solve, _kept(workflow))
    dtypes = get_args(Dtype) if dtype == "auto" else (dtype,)
    no_gpu = gpu_missing() if workflow.cluster.is_here else None

    def refusal_of(name: str) -> str | None:
        if no_gpu is not None and SOLVERS.device_of(name) == "gpu":
            return no_gpu  # before its module is imported
        return _refusal(SOLVERS[name], dtypes, options)

    return refusal_of


def _kept(workflow: Workflow) -> KeptOfRow:
    """Return what solvers keep of a row, as far as they may refuse it."""
    own = workflow.output.own
    if own["flows"] is not None:
        return Reductions(paths=TripSumsAsked())
    passed = own["reduce"] and Betweenness.asked_by(own["reduce"], is_sample=False, compression="none")
    return Reductions(paths=passed.asked) if passed else EveryVertex()


def _no_hierarchy(refusal_of: Callable[[str], str | None]) -> str | None:
    """Return why no solver can use a hierarchy, or None."""
    reasons = [refusal_of(name) for name in WITH_HIERARCHY]
    return None if None in reasons else reasons[-1]


def _check_hierarchy(solve: Solve, refusal_of: Callable[[str], str | None]) -> None:
    """Raise `InputError` if `solve.hierarchy` does not fit the solver, or no solver that uses one can run."""
    if solve.hierarchy == "off" and solve.solver in WITH_HIERARCHY:
        raise InputError(
            f"`solve.hierarchy` is `off`, and solver `{solve.solver}` needs a hierarchy",
            hint="remove one of them",
        )
    if solve.hierarchy != "build":
        return
    if solve.solver not in ("auto", *WITH_HIERARCHY):
        raise InputError(
            f"`solve.hierarchy` is `build`, and solver `{solve.solver}` uses no hierarchy",
            hint=f"name a solver that does ({', '.join(WITH_HIERARCHY)}), or set `solve.hierarchy: off`",
        )
    if (reason := _no_hierarchy(refusal_of)) is not None:
        raise InputError(
            f"`solve.hierarchy` is `build`, and no solver can use a hierarchy: {reason}",
            hint="set `solve.hierarchy: auto`",
        )


def _refusal(solver: Solver, dtypes: tuple[str, ...], options: SolveOptions) -> str | None:
    """Return why `solver` refuses the smallest graph of each of these types; None if it accepts one."""
    smallest = [GraphTraits(1, 0, np.dtype(dtype), 0, 0, 0, 1) for dtype in dtypes]
    reasons = [solver.supports(traits, options) for traits in smallest]
    return reasons[0] if all(reason is not None for reason in reasons) else None


def _check_cluster(spec: Cluster, progress: Progress) -> None:
    if spec.kind == "local-cuda":
        ThisMachine(spec)  # raises if there are too few GPUs
    is_local = spec.kind in ("auto", "local-cpu")
    if is_local and spec.tls is not True and spec.workers == spec.memory_limit == "auto":
        return  # it starts no Dask
    if not is_local or spec.memory_limit != "auto":
        # The import of Dask takes as long as the ingest of a small graph.
        from sssp_pipeline.pipeline.solving.workers import clusters, memory

        memory.check_limit(spec.memory_limit)
        clusters.check_startable(spec)
    if spec.is_secured:
        check_certificates()
    if spec.kind == "address":
        from sssp_pipeline.pipeline.solving.workers import address

        progress.stage(f"wait for the scheduler at {spec.address}")
        address.wait_for_scheduler(spec)
