"""The only registry of the solvers. Every solver in it is offered, documented, tested and measured.

An entry names the class of a solver as "module:name". A run uses one solver or a few, so a module is imported when its
solver is first looked up.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from types import MappingProxyType
from typing import Literal

from sssp_pipeline.base.errors import InputError, did_you_mean
from sssp_pipeline.kernels.contract.tunable import Value
from sssp_pipeline.kernels.host.solver import Solver, tuned

_CPU, _GPU = "sssp_pipeline.kernels.cpu", "sssp_pipeline.kernels.gpu"


class Solvers(MutableMapping[str, Solver]):
    """The solvers by name, in the order of their entries."""

    def __init__(self, entries: Mapping[str, str]) -> None:
        self._found: dict[str, Solver | str] = dict(entries)
        self._making = threading.Lock()

    def __getitem__(self, name: str) -> Solver:
        found = self._found[name]
        if not isinstance(found, str):
            return found
        module, _, kind = found.partition(":")
        solver_class = getattr(import_module(module), kind)
        with self._making:
            if isinstance(self._found[name], str):
                self._found[name] = solver_class()
        return self[name]

    def __setitem__(self, name: str, solver: Solver) -> None:
        self._found[name] = solver

    def __delitem__(self, name: str) -> None:
        del self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __contains__(self, name: object) -> bool:
        return name in self._found

    def device_of(self, name: str) -> Literal["cpu", "gpu"]:
        """Return the device of the solver `name`, without an import of its module."""
        found = self._found[name]
        if not isinstance(found, str):
            return found.device
        return "gpu" if found.startswith(f"{_GPU}.") else "cpu"


#: The solvers by name. `auto` chooses by their forecasts.
SOLVERS = Solvers(
    {
        "near-far": f"{_GPU}.near_far.near_far:NearFar",
        "adds": f"{_GPU}.adds.adds:Adds",
        "adds-slots": f"{_GPU}.adds_slots.adds_slots:AddsSlots",
        "adds-lanes": f"{_GPU}.adds_lanes.adds_lanes:AddsLanes",
        "bits-gpu": f"{_GPU}.bits_gpu.bits_gpu:BitsGpu",
        "phast-gpu": f"{_GPU}.phast_gpu.phast_gpu:PhastGpu",
        "frontier-bellman-ford": f"{_GPU}.frontier_bellman_ford.frontier_bellman_ford:FrontierBellmanFord",
        "bellman-ford": f"{_GPU}.papers.bellman_ford.bellman_ford:BellmanFord",
        "work-efficient": f"{_GPU}.papers.work_efficient.work_efficient:WorkEfficient",
        "adaptive-threads": f"{_GPU}.papers.adaptive_threads.adaptive_threads:AdaptiveThreads",
        "bits": f"{_CPU}.bits:Bits",
        "delta-stepping": f"{_CPU}.delta_stepping:DeltaStepping",
        "parallel-delta-stepping": f"{_CPU}.parallel_delta_stepping:ParallelDeltaStepping",
        "phast": f"{_CPU}.phast:Phast",
        "dijkstra": f"{_CPU}.dijkstra:Dijkstra",
        "queue-bellman-ford": f"{_CPU}.queue_bellman_ford:QueueBellmanFord",
    }
)

#: The solvers that need a hierarchy. The last one is on the CPU.
WITH_HIERARCHY = ("phast-gpu", "phast")


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
