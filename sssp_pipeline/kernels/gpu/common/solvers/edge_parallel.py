"""The base of solvers that divide edges evenly among the warps of a grid: their options and launches."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sssp_pipeline.base.csr import CsrGraph, GraphTraits
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.kernels.contract.forecast import Forecast, gpu_source_s
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.contract.tunable import Tunable
from sssp_pipeline.kernels.gpu.common.cuda.compile import Kernel, cupy_module
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import DeviceGraph
from sssp_pipeline.kernels.gpu.common.rows.distance_bits import bits_type
from sssp_pipeline.kernels.gpu.common.solvers.pausing import BarrierSolver, PausingSearch

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


@dataclass(kw_only=True, eq=False)
class EdgeParallelSolver(BarrierSolver):
    """A solver that divides edges evenly among warps; its fields are explained by their tunables."""

    sync: str = "in-core"
    block_count: int | str = "auto"

    takes_negative = True
    is_exhibit = True
    no_delta = "it has no buckets"
    #: The seconds of each level and of each edge, as `gpu_source_s` takes them.
    fitted: ClassVar[tuple[float, float]]

    def scratch_bytes(self, traits: GraphTraits) -> int:
        """Return the device memory of a search in addition to the row of distances."""
        del traits
        return 0

    def forecast(self, traits: GraphTraits, n_sources: int) -> Forecast:
        del n_sources
        row_bytes = traits.n_vertices * traits.weight_dtype.itemsize
        source_s = gpu_source_s(traits, *self.fitted)
        return Forecast(source_s, row_bytes + self.scratch_bytes(traits), fixed_bytes=4 * traits.n_edges)

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
        super().__init__(solver, graph, on_device, options, kernel)
        self.grid = solver.grid(self.kernel)
        is_two_rows, bits = solver.sync == "out-of-core", bits_type(on_device.dtype)
        self._others = cupy_module().empty(on_device.n_vertices, bits) if is_two_rows else None

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
