"""The only registry of the solvers. Every solver in it is offered, documented, tested and measured."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sssp_pipeline.base.errors import InputError, did_you_mean
from sssp_pipeline.kernels.contract.tunable import Value
from sssp_pipeline.kernels.cpu.delta_stepping import DeltaStepping
from sssp_pipeline.kernels.cpu.dijkstra import Dijkstra
from sssp_pipeline.kernels.cpu.parallel_delta_stepping import ParallelDeltaStepping
from sssp_pipeline.kernels.cpu.phast import Phast
from sssp_pipeline.kernels.cpu.queue_bellman_ford import QueueBellmanFord
from sssp_pipeline.kernels.gpu.adds.adds import Adds
from sssp_pipeline.kernels.gpu.adds_lanes.adds_lanes import AddsLanes
from sssp_pipeline.kernels.gpu.adds_slots.adds_slots import AddsSlots
from sssp_pipeline.kernels.gpu.frontier_bellman_ford.frontier_bellman_ford import FrontierBellmanFord
from sssp_pipeline.kernels.gpu.near_far.near_far import NearFar
from sssp_pipeline.kernels.gpu.papers.adaptive_threads.adaptive_threads import AdaptiveThreads
from sssp_pipeline.kernels.gpu.papers.bellman_ford.bellman_ford import BellmanFord
from sssp_pipeline.kernels.gpu.papers.work_efficient.work_efficient import WorkEfficient
from sssp_pipeline.kernels.gpu.phast_gpu.phast_gpu import PhastGpu
from sssp_pipeline.kernels.host.solver import Solver, tuned

#: The solvers by name. `auto` chooses by their forecasts.
SOLVERS: dict[str, Solver] = {
    solver.name: solver
    for solver in (
        NearFar(),
        Adds(),
        AddsSlots(),
        AddsLanes(),
        PhastGpu(),
        FrontierBellmanFord(),
        BellmanFord(),
        WorkEfficient(),
        AdaptiveThreads(),
        DeltaStepping(),
        ParallelDeltaStepping(),
        Phast(),
        Dijkstra(),
        QueueBellmanFord(),
    )
}


def solver_named(name: str, options: Mapping[str, Value] = MappingProxyType({})) -> Solver:
    """Return the solver registered as `name`, with its options set to `options`.

    Raises
    ------
    InputError
        No solver has that name; or as `tuned`.
    """
    if name not in SOLVERS:
        raise InputError(
            f"unknown solver `{name}`",
            hint=did_you_mean(name, sorted(SOLVERS)) + "Solvers: " + ", ".join(sorted(SOLVERS)),
        )
    return tuned(SOLVERS[name], options)
