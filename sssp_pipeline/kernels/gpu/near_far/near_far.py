"""Near-Far on one GPU: two piles, a fixed delta, one persistent kernel; `near_far.cu` explains it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import CsrGraph, GraphTraits
from sssp_pipeline.kernels.contract.forecast import Forecast, gpu_source_s
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.gpu.common.cuda.compile import Unit, cupy_module
from sssp_pipeline.kernels.gpu.common.cuda.struct_types import struct_type
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import DeviceGraph, free_bytes
from sssp_pipeline.kernels.gpu.common.rows.device_rows import SearchCounts
from sssp_pipeline.kernels.gpu.common.rows.distance_bits import bits_type, delta_bits
from sssp_pipeline.kernels.gpu.common.solvers.gpu_solver import GpuSearch, largest_grid
from sssp_pipeline.kernels.gpu.common.solvers.pausing import BarrierSolver, PausingSearch

#: Delta in units of mean weight over mean degree. No factor is the best on all graphs; this one is the least bad
#: (`benchmarks/results/gpu_solvers.jsonl`).
DELTA_FACTOR = 64.0
#: Blocks of 512 threads on a multiprocessor, the best or nearly so on every graph measured
#: (`benchmarks/kernel_constants.md`).
BLOCKS_PER_SM = 2
#: Searches that share the GPU if there are as many sources: one search on a road graph cannot fill it. CUDA runs 8
#: streams at once by default (CUDA_DEVICE_MAX_CONNECTIONS), and more searches were not faster.
SOURCES_AT_ONCE = 8

_KERNEL = "near_far_search_kernel"
#: As in `near_far.cu`.
_HUB_EDGES, _CHUNK_EDGES = 512, 256
#: Room for the state of a search.
_STATE_BYTES = 4096
_STATE = struct_type(Path(__file__).with_name("near_far.cu"), "State")


@dataclass(kw_only=True, eq=False)
class NearFar(BarrierSolver):
    """Near-Far over the whole GPU."""

    #: Use no more blocks than this for a source; None takes all that fit.
    most_blocks: int | None = None
    #: How many sources of one call share the GPU in equal parts; fewer where memory is short.
    sources_at_once: int = SOURCES_AT_ONCE

    name = "near-far"
    summary = (
        "Delta-stepping with two piles and a fixed delta; one source over a whole GPU, or eight that share it"
    )

    @property
    def units(self) -> tuple[Unit, ...]:
        macros = ("SSSP_THREADS", self.block_size), ("SSSP_BLOCKS_PER_SM", BLOCKS_PER_SM)
        return (Unit("near_far", (_KERNEL,), macros, cooperative=True),)

    def forecast(self, traits: GraphTraits, n_sources: int) -> Forecast:
        at_once = max(1, min(n_sources, SOURCES_AT_ONCE))
        scratch = traits.n_vertices * (2 * traits.weight_dtype.itemsize + 17) + traits.n_edges // 16
        return Forecast(gpu_source_s(traits, 7e-6, 62e-12, at_once=at_once), scratch, at_once)

    def start(self, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions) -> GpuSearch:
        return _NearFarSearch(self, graph, on_device, options, 1)

    def start_many(
        self, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions, n_sources: int
    ) -> list[GpuSearch]:
        fitting = free_bytes() // 2 // (self.forecast(graph.traits, 1).source_bytes + _STATE_BYTES)
        count = max(1, min(n_sources, self.sources_at_once, fitting))
        return [_NearFarSearch(self, graph, on_device, options, count) for _ in range(count)]


def pick_delta(graph: CsrGraph) -> float:
    """Return delta: a fixed factor times mean weight over mean degree.

    References
    ----------
    Davidson, Baxter, Garland, Owens, IPDPS 2014, as described in Wang, Fussell, Lin, PPoPP 2021, section 4.3.
    """
    traits = graph.traits
    return DELTA_FACTOR * traits.mean_weight * graph.n_vertices / max(graph.n_edges, 1)


class _NearFarSearch(PausingSearch[NearFar]):
    state_type = _STATE

    def __init__(
        self, solver: NearFar, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions, n_searches: int
    ) -> None:
        super().__init__(solver, graph, on_device, options)
        cupy = cupy_module()
        self.grid = largest_grid(self.kernel, solver.block_size, solver.most_blocks, n_searches)
        delta = pick_delta(graph) if options.delta is None else float(options.delta)
        self._delta_bits, self._delta = delta_bits(on_device.dtype, delta)
        n_vertices, n_edges = on_device.n_vertices, on_device.n_edges
        n_chunks = n_edges // _CHUNK_EDGES + n_edges // _HUB_EDGES + 1
        self._processed = cupy.empty(n_vertices, bits_type(on_device.dtype))
        self._near_piles = cupy.empty(2 * n_vertices, np.uint32)
        self._far_piles = cupy.empty(2 * n_vertices, np.uint32)
        self._marks = cupy.empty(2 * (n_vertices // 32 + 1), np.uint32)
        self._hub_chunks = cupy.empty(2 * n_chunks, np.uint32)

    def arguments(self, until: int) -> tuple[Any, ...]:
        del until  # it takes no negative weights, so it never pauses
        source, n_vertices = np.uint32(self._source), np.uint32(self._on_device.n_vertices)
        of_search = source, self._limit, self._delta_bits, self._distances, self._processed
        piles = self._near_piles, self._far_piles, self._marks, self._hub_chunks
        return (*self._on_device.args, n_vertices, *of_search, *piles, *self.state_arguments)

    def progress(self, state: np.void) -> str:
        return f"far pile {state['far_count'].max()}"

    def counts(self, state: np.void) -> SearchCounts:
        return replace(super().counts(state), delta_first=self._delta, delta_last=self._delta)
