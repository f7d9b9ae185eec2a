"""The only registry of the solvers: what stands here is offered, documented, tested and measured."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sssp_pipeline.errors import InputError, did_you_mean
from sssp_pipeline.kernels.adaptive_threads import AdaptiveThreads
from sssp_pipeline.kernels.adds import Adds
from sssp_pipeline.kernels.adds_lanes import AddsLanes
from sssp_pipeline.kernels.adds_slots import AddsSlots
from sssp_pipeline.kernels.bellman_ford import BellmanFord
from sssp_pipeline.kernels.delta_stepping import DeltaStepping
from sssp_pipeline.kernels.dijkstra import Dijkstra
from sssp_pipeline.kernels.frontier_bellman_ford import FrontierBellmanFord
from sssp_pipeline.kernels.near_far import NearFar
from sssp_pipeline.kernels.parallel_delta_stepping import ParallelDeltaStepping
from sssp_pipeline.kernels.queue_bellman_ford import QueueBellmanFord
from sssp_pipeline.kernels.solver import Solver
from sssp_pipeline.kernels.tuning import Value, tuned
from sssp_pipeline.kernels.work_efficient import WorkEfficient

#: `forecast.py` says what each takes; `auto` goes by that.
SOLVERS: dict[str, Solver] = {
    solver.name: solver
    for solver in (
        NearFar(),
        Adds(),
        AddsSlots(),
        AddsLanes(),
        FrontierBellmanFord(),
        BellmanFord(),
        WorkEfficient(),
        AdaptiveThreads(),
        DeltaStepping(),
        ParallelDeltaStepping(),
        Dijkstra(),
        QueueBellmanFord(),
    )
}


def solver_named(name: str, options: Mapping[str, Value] = MappingProxyType({})) -> Solver:
    """Return the solver registered as `name`, set up with `options` of its own.

    Raises
    ------
    InputError
        There is none of that name; or as `tuned`.
    """
    if name not in SOLVERS:
        raise InputError(
            f"unknown solver `{name}`",
            hint=did_you_mean(name, sorted(SOLVERS)) + "Solvers: " + ", ".join(sorted(SOLVERS)),
        )
    return tuned(SOLVERS[name], options)
