"""A thread for each vertex or for each updated one, by the measured time; `adaptive_threads.cu` explains it."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from sssp_pipeline.csr import CsrGraph, GraphTraits
from sssp_pipeline.errors import InputError
from sssp_pipeline.kernels.forecast import Forecast, one_source_s, skew
from sssp_pipeline.kernels.gpu.common.cuda.compile import Unit, cupy_module, load_kernels
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import DeviceGraph
from sssp_pipeline.kernels.gpu.common.rows.device_rows import SearchCounts
from sssp_pipeline.kernels.gpu.common.rows.distance_bits import bits_type, search_limit
from sssp_pipeline.kernels.gpu.common.solvers.gpu_solver import GpuSearch, GpuSearchSolver, largest_grid
from sssp_pipeline.kernels.gpu.common.solvers.pausing import PausingSearch
from sssp_pipeline.kernels.options import Tunable
from sssp_pipeline.kernels.solver import SolveOptions

#: Threads of a block. A multiprocessor gets enough blocks for `_THREADS_PER_SM` threads, which was best for `near-far`.
BLOCK_SIZE = 512
_THREADS_PER_SM = 1024
#: Seconds that a block waits at a barrier. One thread may take long for the edges of the largest hub.
BARRIER_TIMEOUT_S = 120.0

_KERNEL = "adaptive_threads_search_kernel"
#: As in `adaptive_threads.cu`. `alternating` is for tests.
_MODES = {"adaptive": 0, "all": 1, "listed": 2, "alternating": 3}
_STATE = np.dtype(
    [
        ("arrived", "u4"),
        ("poison", "u4"),
        ("supersteps", "u4"),
        ("next", "u4"),
        ("list_count", "u4", 2),
        ("last_marking", "u4"),
        ("switches", "u4"),
        ("threshold_ns", "u8"),
        ("vertices_processed", "u8"),
        ("edges_relaxed", "u8"),
    ]
)

#: Measured thresholds in nanoseconds, by threads of a block and number of blocks. Guarded by `GPU_LOCK`.
_measured: weakref.WeakKeyDictionary[DeviceGraph, dict[tuple[int, int], int]] = weakref.WeakKeyDictionary()


class AdaptiveThreads(GpuSearchSolver):
    """Bellman-Ford over the whole GPU, over all vertices or the updated ones.

    Parameters
    ----------
    mode, threshold_us, block_size
        As in `tunables`. Tests may also set the mode `alternating`, which switches after each superstep.
    most_blocks
        Use no more blocks than this; None takes all that fit.
    barrier_timeout_s
        A search in which a block waits longer than this at a barrier is given up.
    absent_blocks
        For tests: the barrier waits for this many blocks more than there are.

    Raises
    ------
    InputError
        A threshold is given for a mode that never switches.

    References
    ----------
    Suzuki, Kan, Hayashi, Yoshikawa, "Accelerating SSSP algorithm on GPU with adaptive thread creation".
    """

    name = "adaptive-threads"
    summary = "Bellman-Ford with a thread for every vertex or for the updated ones, whichever was faster"
    takes_negative = True
    tunables: tuple[Tunable, ...] = (
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

    def __init__(
        self,
        *,
        mode: str = "adaptive",
        threshold_us: float | str = "auto",
        block_size: int = BLOCK_SIZE,
        most_blocks: int | None = None,
        barrier_timeout_s: float = BARRIER_TIMEOUT_S,
        absent_blocks: int = 0,
    ) -> None:
        if threshold_us != "auto" and mode != "adaptive":
            raise InputError(
                f"option `threshold_us` of solver `{self.name}` is {threshold_us}, and `mode` is `{mode}`",
                hint="leave one of them out: only mode `adaptive` has a threshold",
            )
        self.mode = mode
        self.threshold_us = threshold_us
        self.block_size = block_size
        self.most_blocks = most_blocks
        self.barrier_timeout_s = barrier_timeout_s
        self.absent_blocks = absent_blocks

    @property
    def units(self) -> tuple[Unit, ...]:
        blocks_per_sm = _THREADS_PER_SM // self.block_size
        macros = ("SSSP_THREADS", self.block_size), ("SSSP_BLOCKS_PER_SM", blocks_per_sm)
        return (Unit("adaptive_threads", (_KERNEL,), macros, cooperative=True),)

    def supports(self, graph: GraphTraits, options: SolveOptions) -> str | None:
        """Return None, or the reason why not: a delta is given, or a reason that all GPU solvers share."""
        if options.delta is not None:
            return f"it has no buckets, and delta is {options.delta}"
        return super().supports(graph, options)

    def forecast(self, traits: GraphTraits, n_sources: int) -> Forecast:
        del n_sources
        degree = max(traits.n_edges, 1) / max(traits.n_vertices, 1)
        times = 2.1 * degree**0.19 * skew(traits) ** 0.5
        scratch = traits.n_vertices * (2 * traits.weight_dtype.itemsize + 9)
        return Forecast(times * one_source_s(traits), scratch)

    def start(self, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions) -> GpuSearch:
        return _AdaptiveSearch(self, graph, on_device, options)


class _AdaptiveSearch(PausingSearch[AdaptiveThreads]):
    state_type = _STATE

    def __init__(
        self, solver: AdaptiveThreads, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions
    ) -> None:
        super().__init__(solver, graph, options)
        cupy = cupy_module()
        self._on_device = on_device
        (unit,) = solver.units
        kernels = load_kernels(unit, on_device.dtype, wide_offsets=on_device.wide_offsets, signed=self.signed)
        self.kernel = kernels[_KERNEL]
        self.grid = largest_grid(self.kernel, solver.block_size, solver.most_blocks)
        self._limit = search_limit(on_device.dtype, options.cutoff, self.signed)
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
        return (
            *self._on_device.args,
            np.uint32(self._on_device.n_vertices),
            np.uint32(self._source),
            self._limit,
            np.uint32(_MODES[self._solver.mode]),
            np.uint64(self.threshold_ns),
            np.uint32(until),
            self._distances,
            self._tentative,
            self._marks,
            self._lists,
            *self.state_arguments,
        )

    def is_over(self) -> bool:
        state = self.state()
        return bool(state["poison"] or state["last_marking"] != state["supersteps"])

    def finish(self) -> SearchCounts:
        state = self.ended()
        if self._solver.mode == "adaptive" and self._solver.threshold_us == "auto":
            key = self._solver.block_size, self.grid
            _measured.setdefault(self._on_device, {})[key] = int(state["threshold_ns"])
        return SearchCounts(
            vertices_processed=int(state["vertices_processed"]),
            edges_relaxed=int(state["edges_relaxed"]),
            supersteps=int(state["supersteps"]),
        )
