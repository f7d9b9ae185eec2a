"""What the solvers share that divide edges evenly among the warps of a grid: options, launches, and the end."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from sssp_pipeline.csr import CsrGraph, GraphTraits
from sssp_pipeline.errors import InputError, SsspError
from sssp_pipeline.kernels._compile import Kernel, cupy_module, load_kernels
from sssp_pipeline.kernels._device_graph import DeviceGraph
from sssp_pipeline.kernels._gpu import GpuSearchSolver, bits_type, search_limit
from sssp_pipeline.kernels._pausing import PausingSearch
from sssp_pipeline.kernels.solver import SolveOptions
from sssp_pipeline.kernels.tuning import Tunable

#: How long a block waits for the others before it gives the run up; the longest superstep takes far less.
PATIENCE_S = 30.0

SYNC = Tunable(
    "sync",
    "in-core",
    "`in-core`: an edge reads what others have lowered in the same superstep; `out-of-core`: what the one before left.",
    ("in-core", "out-of-core"),
)
BLOCK_SIZE = Tunable("block_size", 512, "Threads of a block.", least=32, most=1024, multiple_of=32)
BLOCK_COUNT = Tunable(
    "block_count",
    "auto",
    "Blocks; `auto`: as many as the GPU holds at once, which is also the most there may be.",
    ("auto",),
    least=1,
    most=65535,
    multiple_of=1,
)


class EdgeParallelSolver(GpuSearchSolver):
    """A solver that divides edges evenly among warps.

    Parameters
    ----------
    sync, block_size, block_count
        As their tunables say.
    patience_s
        A run in which a block waits longer than this for the others is given up.
    absent_blocks
        For tests: wait for so many blocks that are not there.
    """

    takes_negative = True

    def __init__(
        self,
        *,
        sync: str = "in-core",
        block_size: int = 512,
        block_count: int | str = "auto",
        patience_s: float = PATIENCE_S,
        absent_blocks: int = 0,
    ) -> None:
        self.sync = sync
        self.block_size = block_size
        self.block_count = block_count
        self.patience_s = patience_s
        self.absent_blocks = absent_blocks

    def supports(self, graph: GraphTraits, options: SolveOptions) -> str | None:
        """Return None, or the reason why not: as the others, or a delta."""
        if options.delta is not None:
            return f"it has no buckets, and delta is {options.delta}"
        return super().supports(graph, options)

    def grid(self, kernel: Kernel) -> int:
        """Return how many blocks a launch of `kernel` has.

        Raises
        ------
        InputError
            More are asked for than the GPU holds at once.
        """
        fits = kernel.resident_blocks(self.block_size)
        if self.block_count == "auto":
            return fits
        wanted = int(self.block_count)
        if wanted > fits:
            raise InputError(
                f"option `block_count` of solver `{self.name}` is {wanted}: this GPU holds {fits} blocks of "
                f"{self.block_size} threads at once",
                hint="the blocks of a search wait for each other: leave it at `auto`, or take fewer or smaller blocks",
            )
        return wanted


class EdgeParallelSearch(PausingSearch):
    """A search by one kernel that keeps all it must know in `state_type` between launches.

    `state_type` begins with the words of the barrier and has `supersteps` and `is_over`; the kernel's last arguments
    are the state, the superstep to pause before, the blocks to wait for, and patience.
    """

    state_type: np.dtype

    def __init__(
        self,
        solver: EdgeParallelSolver,
        kernel: str,
        graph: CsrGraph,
        on_device: DeviceGraph,
        options: SolveOptions,
    ) -> None:
        super().__init__(graph)
        cupy = cupy_module()
        dtype = on_device.dtype
        self._solver = solver
        self._n_vertices, self._n_edges = on_device.n_vertices, on_device.n_edges
        unit = next(unit for unit in solver.units if kernel in unit.kernels)
        wide, signed = on_device.wide_offsets, self.signed
        self._kernel = load_kernels(unit, dtype, wide_offsets=wide, signed=signed)[kernel]
        self._grid = solver.grid(self._kernel)
        self._limit = search_limit(dtype, options.cutoff, signed)
        self._distances: Any = None
        self._others = (
            cupy.empty(on_device.n_vertices, bits_type(dtype)) if solver.sync == "out-of-core" else None
        )
        self._state = cupy.empty(self.state_type.itemsize, np.uint8)
        self._source = 0

    @abstractmethod
    def arguments(self, source: np.uint32, limit: np.generic, distances: Any, others: Any) -> tuple[Any, ...]:
        """Return the kernel's arguments up to the state."""

    def begin(self, distances: Any, source: int) -> None:
        self._distances, self._source = distances, source
        self._state.data.memset_async(0, self.state_type.itemsize)

    def advance(self, until: int) -> None:
        self._state.data.memset_async(0, 8)  # the barrier's words
        arguments = self.arguments(np.uint32(self._source), self._limit, self._distances, self._others)
        waited_for = np.uint32(self._grid + self._solver.absent_blocks)
        patience_ns = np.uint64(1e9 * self._solver.patience_s)
        self._kernel(
            self._grid,
            self._solver.block_size,
            (*arguments, self._state, np.uint32(until), waited_for, patience_ns),
        )

    def is_over(self) -> bool:
        state = self._state.get().view(self.state_type)[0]
        return bool(state["is_over"] or state["poison"])

    def ended(self) -> np.void:
        """Return the state of a search that is over.

        Raises
        ------
        SsspError
            It was given up.
        """
        state = self._state.get().view(self.state_type)[0]
        if state["poison"]:
            raise SsspError(
                f"`{self._solver.name}` gave up source {self._source}: after {self._solver.patience_s:g} s at "
                f"barrier {state['poison'] - 1}, {state['arrived'] % self._grid} of {self._grid} blocks had come; "
                f"{state['supersteps']} supersteps in earlier launches",
                hint="the GPU is free again; if this repeats, report it with the graph, and use another solver",
            )
        return state
