"""Searches in supersteps that pause, so that the host can look for a negative cycle.

With a negative cycle in reach, such a search would never end.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.errors import DeadlineError
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.gpu.common.cuda.compile import cupy_module, load_kernels
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import DeviceGraph
from sssp_pipeline.kernels.gpu.common.rows.device_rows import SearchCounts
from sssp_pipeline.kernels.gpu.common.rows.distance_bits import search_limit
from sssp_pipeline.kernels.gpu.common.solvers.gpu_solver import (
    PAST_DEADLINE,
    GpuSearch,
    GpuSearchSolver,
)
from sssp_pipeline.kernels.gpu.common.solvers.stalled import StalledError
from sssp_pipeline.kernels.host.queue_search import finished_distances
from sssp_pipeline.kernels.host.search_graph import bits_of_distances, distances_of_bits

#: The superstep of the first pause. The interval doubles after each pause, so that the pauses cost little.
FIRST_PAUSE = 256
_NO_PAUSE = 2**32 - 1
_BARRIER_BYTES = 8


@dataclass(kw_only=True, eq=False)
class BarrierSolver(GpuSearchSolver):
    """A solver with one cooperative kernel, whose blocks wait for each other."""

    #: Threads of a block.
    block_size: int = 512
    #: A search in which a block waits longer than this at a barrier is given up. The longest superstep takes far less.
    barrier_timeout_s: float = 30.0
    #: For tests: the barrier waits for this many blocks more than there are.
    absent_blocks: int = 0


S = TypeVar("S", bound=BarrierSolver)


class PausingSearch(GpuSearch, Generic[S]):
    """A search by one cooperative kernel, whose state stays on the device between launches.

    With negative weights, `launch` waits for the device.
    """

    #: The layout of the kernel's `State`. It begins with the two words of the barrier, and has `supersteps`.
    state_type: np.dtype
    #: The number of the kernel's blocks, set by the subclass.
    grid: int

    def __init__(
        self,
        solver: S,
        graph: CsrGraph,
        on_device: DeviceGraph,
        options: SolveOptions,
        kernel: str | None = None,
    ) -> None:
        """Load `kernel`, or else the first one of the solver."""
        self.signed = graph.traits.min_weight < 0
        self._solver, self._graph, self._on_device, self._options = solver, graph, on_device, options
        unit, wide_offsets = solver.units[0], on_device.wide_offsets
        kernels = load_kernels(unit, on_device.dtype, wide_offsets=wide_offsets, signed=self.signed)
        self.kernel = kernels[kernel or unit.kernels[0]]
        self._limit = search_limit(on_device.dtype, options.cutoff, self.signed)
        self._left_ns = options.deadline_ns
        self._state_words = cupy_module().empty(self.state_type.itemsize, np.uint8)
        self._distances: Any = None
        self._source = 0

    @abstractmethod
    def arguments(self, until: int) -> tuple[Any, ...]:
        """Return the kernel's arguments for a launch that pauses at superstep `until`."""

    @property
    def state_arguments(self) -> tuple[Any, ...]:
        """The state, the blocks that the barrier waits for, its timeout, and the time left until the deadline."""
        timeout_ns = np.uint64(1e9 * self._solver.barrier_timeout_s)
        return self._state_words, np.uint32(self._n_blocks), timeout_ns, np.uint64(self._left_ns)

    @property
    def _n_blocks(self) -> int:
        return self.grid + self._solver.absent_blocks

    def progress(self, state: np.void) -> str:
        """Return how far a search came that was given up, for the message."""
        return f"earlier launches did {state['supersteps']} supersteps"

    def counts(self, state: np.void) -> SearchCounts:
        """Return the counts in the `state` of a search that is over."""
        return SearchCounts(
            vertices_processed=int(state["vertices_processed"]),
            edges_relaxed=int(state["edges_relaxed"]),
            supersteps=int(state["supersteps"]),
        )

    def begin(self, distances: Any, source: int) -> None:
        """Enqueue the initialisation of a search from `source`."""
        self._distances, self._source = distances, source
        self._left_ns = self._options.deadline_ns
        self._state_words.data.memset_async(0, self.state_type.itemsize)

    def advance(self, until: int) -> None:
        """Enqueue one launch. It runs until the search is over or superstep `until` is reached."""
        self._state_words.data.memset_async(0, _BARRIER_BYTES)
        self._launch_until(until)

    def _launch_until(self, until: int) -> None:
        self.kernel(self.grid, self._solver.block_size, self.arguments(until))

    def state(self) -> np.void:
        """Wait for the stream and return the kernel's `State`, a record of `state_type`."""
        record: np.void = self._state_words.get().view(self.state_type)[0]
        return record

    def is_over(self) -> bool:
        """Wait for the device; return whether the search is over."""
        state = self.state()
        return bool(state["is_over"] or state["poison"])

    def finish(self) -> SearchCounts:
        state = self.state()
        if state["poison"] == PAST_DEADLINE:
            raise self._late()
        if state["poison"]:
            timeout_s = self._solver.barrier_timeout_s
            raise StalledError(
                f"`{self._solver.name}` gave up source {self._source}: after {timeout_s:g} s at barrier "
                f"{state['poison'] - 1}, some of the {self._n_blocks} blocks had not arrived; {self.progress(state)}"
            )
        return self.counts(state)

    def _late(self) -> DeadlineError:
        return DeadlineError(self._solver.name, self._source, self._options.deadline_s)

    def launch(self, distances: Any, source: int) -> None:
        self.begin(distances, source)
        if not self.signed:
            self._launch_until(_NO_PAUSE)
            return
        until = FIRST_PAUSE
        ends_ns = time.monotonic_ns() + self._options.deadline_ns
        self._launch_until(until)
        while not self.is_over():
            row = distances_of_bits(distances.get(), self._graph.weight_dtype)
            if finished_distances(self._graph, source, row):
                distances.set(bits_of_distances(row))
                return
            self._left_ns = ends_ns - time.monotonic_ns()
            if self._left_ns <= 0:
                raise self._late()
            until = min(2 * until, _NO_PAUSE)
            self.advance(until)
