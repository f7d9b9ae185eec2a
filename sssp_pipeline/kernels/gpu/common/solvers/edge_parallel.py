"""The base of solvers that divide edges evenly among the warps of a grid: their options and launches."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from sssp_pipeline.csr import CsrGraph, GraphTraits
from sssp_pipeline.errors import InputError
from sssp_pipeline.kernels.gpu.common.cuda.compile import Kernel, cupy_module, load_kernels
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import DeviceGraph
from sssp_pipeline.kernels.gpu.common.rows.distance_bits import bits_type, search_limit
from sssp_pipeline.kernels.gpu.common.solvers.gpu_solver import GpuSearchSolver
from sssp_pipeline.kernels.gpu.common.solvers.pausing import PausingSearch
from sssp_pipeline.kernels.options import Tunable
from sssp_pipeline.kernels.solver import SolveOptions

#: Seconds that a block waits at a barrier. The longest superstep takes far less.
BARRIER_TIMEOUT_S = 30.0

SYNC = Tunable(
    "sync",
    "in-core",
    "`in-core`: an edge reads distances that the same superstep lowered; `out-of-core`: those of the superstep before.",
    ("in-core", "out-of-core"),
)
BLOCK_SIZE = Tunable("block_size", 512, "Threads of a block.", least=32, most=1024, multiple_of=32)
BLOCK_COUNT = Tunable(
    "block_count",
    "auto",
    "Thread blocks. `auto`: as many as the GPU holds at once, which is also the maximum.",
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
    barrier_timeout_s
        A search in which a block waits longer than this at a barrier is given up.
    absent_blocks
        For tests: the barrier waits for this many blocks more than there are.
    """

    takes_negative = True

    def __init__(
        self,
        *,
        sync: str = "in-core",
        block_size: int = 512,
        block_count: int | str = "auto",
        barrier_timeout_s: float = BARRIER_TIMEOUT_S,
        absent_blocks: int = 0,
    ) -> None:
        self.sync = sync
        self.block_size = block_size
        self.block_count = block_count
        self.barrier_timeout_s = barrier_timeout_s
        self.absent_blocks = absent_blocks

    def supports(self, graph: GraphTraits, options: SolveOptions) -> str | None:
        """Return None, or the reason why not: a delta is given, or a reason that all GPU solvers share."""
        if options.delta is not None:
            return f"it has no buckets, and delta is {options.delta}"
        return super().supports(graph, options)

    def grid(self, kernel: Kernel) -> int:
        """Return how many blocks a launch of `kernel` has.

        Raises
        ------
        InputError
            `block_count` is more than the GPU holds at once.
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


class EdgeParallelSearch(PausingSearch[EdgeParallelSolver]):
    """A search over edges. Its kernel takes the superstep at which to pause after the state, before the barrier."""

    def __init__(
        self,
        solver: EdgeParallelSolver,
        kernel: str,
        graph: CsrGraph,
        on_device: DeviceGraph,
        options: SolveOptions,
    ) -> None:
        super().__init__(solver, graph, options)
        dtype = on_device.dtype
        self._n_vertices, self._n_edges = on_device.n_vertices, on_device.n_edges
        unit = next(unit for unit in solver.units if kernel in unit.kernels)
        wide, signed = on_device.wide_offsets, self.signed
        self.kernel = load_kernels(unit, dtype, wide_offsets=wide, signed=signed)[kernel]
        self.grid = solver.grid(self.kernel)
        self._limit = search_limit(dtype, options.cutoff, signed)
        is_two_rows = solver.sync == "out-of-core"
        self._others = cupy_module().empty(on_device.n_vertices, bits_type(dtype)) if is_two_rows else None

    @abstractmethod
    def first_arguments(self) -> tuple[Any, ...]:
        """Return the kernel's arguments up to the state."""

    @property
    def row_arguments(self) -> tuple[Any, ...]:
        """The source, the limit, the row of distances, and the second row of `out-of-core`."""
        return np.uint32(self._source), self._limit, self._distances, self._others

    def arguments(self, until: int) -> tuple[Any, ...]:
        state, *waiting = self.state_arguments
        return (*self.first_arguments(), state, np.uint32(until), *waiting)
