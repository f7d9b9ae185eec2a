"""Searches in supersteps that pause, so that the host can look for a negative cycle.

With a negative cycle in reach, such a search would never end.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from sssp_pipeline.csr import CsrGraph
from sssp_pipeline.errors import DeadlineError, SsspError
from sssp_pipeline.kernels.gpu.common.cuda.compile import Kernel, cupy_module
from sssp_pipeline.kernels.gpu.common.solvers.gpu_solver import PAST_DEADLINE, GpuSearch
from sssp_pipeline.kernels.host.queue_search import finished_distances
from sssp_pipeline.kernels.host.search_graph import bits_of_distances, distances_of_bits
from sssp_pipeline.kernels.solver import SolveOptions

#: The superstep of the first pause. The interval doubles after each pause, so that the pauses cost little.
FIRST_PAUSE = 256
_NO_PAUSE = 2**32 - 1
_BARRIER_BYTES = 8


class PausingSolver(Protocol):
    """What a `PausingSearch` needs of its solver.

    Attributes
    ----------
    name
        As in the registry.
    block_size
        Threads of a block.
    barrier_timeout_s
        Seconds that a block waits at a barrier.
    absent_blocks
        For tests: the barrier waits for this many blocks more than there are.
    """

    name: str
    block_size: int
    barrier_timeout_s: float
    absent_blocks: int


S = TypeVar("S", bound=PausingSolver)


class PausingSearch(GpuSearch, Generic[S]):
    """A search by one cooperative kernel, whose state stays on the device between launches.

    With negative weights, `launch` waits for the device.

    Attributes
    ----------
    state_type
        The layout of the kernel's `State`. It begins with the two words of the barrier, and has `supersteps`.
    kernel
        The search kernel, set by the subclass.
    grid
        The number of its blocks, set by the subclass.
    """

    state_type: np.dtype
    kernel: Kernel
    grid: int

    def __init__(self, solver: S, graph: CsrGraph, options: SolveOptions) -> None:
        self.signed = graph.traits.min_weight < 0
        self._solver = solver
        self._graph = graph
        self._options = options
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

    def begin(self, distances: Any, source: int) -> None:
        """Enqueue the initialisation of a search from `source`."""
        self._distances, self._source = distances, source
        self._left_ns = self._options.deadline_ns
        self._state_words.data.memset_async(0, self.state_type.itemsize)

    def advance(self, until: int) -> None:
        """Enqueue one launch. It runs until the search is over or superstep `until` is reached."""
        self._state_words.data.memset_async(0, _BARRIER_BYTES)
        self.kernel(self.grid, self._solver.block_size, self.arguments(until))

    def state(self) -> np.void:
        """Wait for the stream and return the kernel's `State`, a record of `state_type`."""
        record: np.void = self._state_words.get().view(self.state_type)[0]
        return record

    def is_over(self) -> bool:
        """Wait for the device; return whether the search is over."""
        state = self.state()
        return bool(state["is_over"] or state["poison"])

    def ended(self) -> np.void:
        """Return the state of a search that is over.

        Raises
        ------
        SsspError
            The search was given up, by its deadline or by a barrier.
        """
        state = self.state()
        if state["poison"] == PAST_DEADLINE:
            raise self._late()
        if state["poison"]:
            timeout_s = self._solver.barrier_timeout_s
            raise SsspError(
                f"`{self._solver.name}` gave up source {self._source}: after {timeout_s:g} s at barrier "
                f"{state['poison'] - 1}, some of the {self._n_blocks} blocks had not arrived; earlier launches did "
                f"{state['supersteps']} supersteps",
                hint="the GPU is free again; if this repeats, report it with the graph, and use another solver",
            )
        return state

    def _late(self) -> SsspError:
        return DeadlineError(self._solver.name, self._source, self._options.deadline_s)

    def launch(self, distances: Any, source: int) -> None:
        self.begin(distances, source)
        if not self.signed:
            self.advance(_NO_PAUSE)
            return
        until = FIRST_PAUSE
        ends_ns = time.monotonic_ns() + self._options.deadline_ns
        self.advance(until)
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
