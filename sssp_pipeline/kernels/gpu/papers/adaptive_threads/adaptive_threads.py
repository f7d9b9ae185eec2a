"""A thread for each vertex or for each updated one, by the measured time; `adaptive_threads.cu` explains it."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import CsrGraph, GraphTraits
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.kernels.contract.forecast import Forecast, gpu_source_s
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.contract.tunable import Tunable
from sssp_pipeline.kernels.gpu.common.cuda.compile import Unit, cupy_module
from sssp_pipeline.kernels.gpu.common.cuda.struct_types import struct_type
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import DeviceGraph
from sssp_pipeline.kernels.gpu.common.rows.device_rows import SearchCounts
from sssp_pipeline.kernels.gpu.common.rows.distance_bits import bits_type
from sssp_pipeline.kernels.gpu.common.solvers.gpu_solver import GpuSearch, largest_grid
from sssp_pipeline.kernels.gpu.common.solvers.pausing import BarrierSolver, PausingSearch

#: Threads of a block. A multiprocessor gets enough blocks for `_THREADS_PER_SM` threads, which was best for `near-far`.
BLOCK_SIZE = 512
_THREADS_PER_SM = 1024

_KERNEL = "adaptive_threads_search_kernel"
#: As in `adaptive_threads.cu`. `alternating` is for tests.
_MODES = {"adaptive": 0, "all": 1, "listed": 2, "alternating": 3}
_STATE = struct_type(Path(__file__).with_name("adaptive_threads.cu"), "State")

#: Measured thresholds in nanoseconds, by threads of a block and number of blocks. Guarded by `GPU_LOCK`.
_measured: weakref.WeakKeyDictionary[DeviceGraph, dict[tuple[int, int], int]] = weakref.WeakKeyDictionary()


@dataclass(kw_only=True, eq=False)
class AdaptiveThreads(BarrierSolver):
    """Bellman-Ford over the whole GPU, over all vertices or the updated ones.

    Raises
    ------
    InputError
        A threshold is given for a mode that never switches.

    References
    ----------
    Suzuki, Kan, Hayashi, Yoshikawa, "Accelerating SSSP algorithm on GPU with adaptive thread creation".
    """

    #: As in `tunables`. Tests may also set the mode `alternating`, which switches after each superstep.
    mode: str = "adaptive"
    threshold_us: float | str = "auto"
    #: Use no more blocks than this; None takes all that fit.
    most_blocks: int | None = None
    #: One thread may take long for the edges of the largest hub.
    barrier_timeout_s: float = 120.0

    name = "adaptive-threads"
    summary = "Bellman-Ford with a thread for every vertex or for the updated ones, whichever was faster"
    takes_negative = True
    is_exhibit = True
    no_delta = "it has no buckets"
    tunables = (
        Tunable(
            "mode",
            "adaptive",
            "Whether a superstep goes over all vertices or over a list of the updated ones; `adaptive` switches.",
            ("adaptive", "all", "listed"),
        ),
        Tunable(
            "threshold_us",
            "auto",
            "Microseconds of a superstep. Longer supersteps go over all vertices, shorter ones over a list. `auto` is"
            " 1.5 times the measured time to read all vertices.",
            ("auto",),
            least=0.5,
            most=1e9,
        ),
        Tunable("block_size", BLOCK_SIZE, "Threads of a block.", least=64, most=1024, multiple_of=32),
    )

    def __post_init__(self) -> None:
        if self.threshold_us != "auto" and self.mode != "adaptive":
            raise InputError(
                f"option `threshold_us` of solver `{self.name}` is {self.threshold_us}, and `mode` is `{self.mode}`",
                hint="leave one of them out: only mode `adaptive` has a threshold",
            )

    @property
    def units(self) -> tuple[Unit, ...]:
        blocks_per_sm = _THREADS_PER_SM // self.block_size
        macros = ("SSSP_THREADS", self.block_size), ("SSSP_BLOCKS_PER_SM", blocks_per_sm)
        return (Unit("adaptive_threads", (_KERNEL,), macros, cooperative=True),)

    def forecast(self, traits: GraphTraits, n_sources: int) -> Forecast:
        del n_sources
        # More skew than this makes no difference.
        times = 2.4 * min(traits.degree_skew, 200.0) ** 0.6
        scratch = traits.n_vertices * (2 * traits.weight_dtype.itemsize + 9)
        return Forecast(times * gpu_source_s(traits, 2.2e-6, 40e-12, 0.4e-9), scratch)

    def start(self, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions) -> GpuSearch:
        return _AdaptiveSearch(self, graph, on_device, options)


class _AdaptiveSearch(PausingSearch[AdaptiveThreads]):
    state_type = _STATE

    def __init__(
        self, solver: AdaptiveThreads, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions
    ) -> None:
        super().__init__(solver, graph, on_device, options)
        cupy = cupy_module()
        self.grid = largest_grid(self.kernel, solver.block_size, solver.most_blocks)
        n_vertices = on_device.n_vertices
        self._tentative = cupy.empty(n_vertices, bits_type(on_device.dtype))
        self._marks = cupy.empty(n_vertices, np.uint8)
        self._lists = cupy.empty(2 * n_vertices, np.uint32)

    @property
    def threshold_ns(self) -> int:
        """The threshold, given or measured; 0 before it is measured."""
        if isinstance(self._solver.threshold_us, str):
            return _measured.get(self._on_device, {}).get((self._solver.block_size, self.grid), 0)
        return round(1e3 * self._solver.threshold_us)

    def arguments(self, until: int) -> tuple[Any, ...]:
        source, n_vertices = np.uint32(self._source), np.uint32(self._on_device.n_vertices)
        mode, threshold_ns = np.uint32(_MODES[self._solver.mode]), np.uint64(self.threshold_ns)
        of_search = source, self._limit, mode, threshold_ns, np.uint32(until)
        memory = self._distances, self._tentative, self._marks, self._lists
        return (*self._on_device.args, n_vertices, *of_search, *memory, *self.state_arguments)

    def is_over(self) -> bool:
        state = self.state()
        return bool(state["poison"] or state["last_marking"] != state["supersteps"])

    def counts(self, state: np.void) -> SearchCounts:
        if self._solver.mode == "adaptive" and self._solver.threshold_us == "auto":
            key = self._solver.block_size, self.grid
            _measured.setdefault(self._on_device, {})[key] = int(state["threshold_ns"])
        return super().counts(state)
