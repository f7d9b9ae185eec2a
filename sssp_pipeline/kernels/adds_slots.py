"""Many sources at once on one GPU, a thread block for each; `adds_slots.cu` tells how and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sssp_pipeline.csr import CsrGraph
from sssp_pipeline.kernels._compile import Unit, cupy_module, load_kernels
from sssp_pipeline.kernels._device_graph import DeviceGraph
from sssp_pipeline.kernels._gpu import SearchCounts, delta_bits, limit_bits
from sssp_pipeline.kernels._gpu_batch import BatchNeeds, BatchSearch, GpuBatchSolver
from sssp_pipeline.kernels.solver import SolveOptions

#: Delta is this many times the mean weight over the mean degree.
DELTA_FACTOR = 8.0
#: Entries of a near pile in shared memory, two piles a block.
NEAR = 512
#: A device batch is full with so many sources for each slot: the last ones leave slots empty.
SOURCES_A_SLOT = 4

_KERNEL = "adds_slots_kernel"
_COUNTS = np.dtype([("vertices_processed", "u8"), ("edges_relaxed", "u8")])


@dataclass(frozen=True)
class Shape:
    """How the sources share the GPU.

    Attributes
    ----------
    threads
        Of a block, and so of a source; a multiple of 32.
    blocks_per_sm
        Slots on a multiprocessor.
    group
        Lanes that share a row, a power of two up to 32.
    """

    threads: int
    blocks_per_sm: int
    group: int


#: All that `pick_shape` picks from.
SHAPES = (Shape(256, 4, 1), Shape(256, 4, 4))


def pick_shape(graph: CsrGraph) -> Shape:
    """Return the shape that suits the graph."""
    return SHAPES[graph.n_edges > 6 * graph.n_vertices]


def pick_delta(graph: CsrGraph) -> float:
    """Return a fixed factor times mean weight over mean degree."""
    return DELTA_FACTOR * graph.traits.mean_weight * graph.n_vertices / max(graph.n_edges, 1)


class AddsSlots(GpuBatchSolver):
    """Delta-stepping from hundreds of sources at once, each on a thread block of its own.

    Parameters
    ----------
    shape
        How the sources share the GPU; None picks it from the graph.
    near
        Entries of a near pile in shared memory.
    far_entries, spilled_entries
        Places in global memory for the far pile and for either near pile, for each slot; None takes a quarter and a
        thirty-second of the vertices. More are not lost: they cost sweeps over all distances.
    """

    name = "adds-slots"
    summary = "Delta-stepping from hundreds of sources at once, each on a thread block of its own"

    def __init__(
        self,
        *,
        shape: Shape | None = None,
        near: int = NEAR,
        far_entries: int | None = None,
        spilled_entries: int | None = None,
    ) -> None:
        self.shape = shape
        self.near = near
        self.far_entries = far_entries
        self.spilled_entries = spilled_entries

    @property
    def units(self) -> tuple[Unit, ...]:
        return tuple(self.unit(shape) for shape in ([self.shape] if self.shape else SHAPES))

    def unit(self, shape: Shape) -> Unit:
        """Return what is compiled for blocks of this shape."""
        macros = (
            ("SSSP_THREADS", shape.threads),
            ("SSSP_BLOCKS_PER_SM", shape.blocks_per_sm),
            ("SSSP_GROUP", shape.group),
            ("SSSP_NEAR", self.near),
        )
        return Unit("adds_slots", (_KERNEL,), macros)

    def shape_for(self, graph: CsrGraph) -> Shape:
        return self.shape or pick_shape(graph)

    def piles(self, n_vertices: int) -> tuple[int, int]:
        """Return how many entries a slot has in global memory: of its far pile, of either near pile."""
        far = n_vertices // 4 + 1 if self.far_entries is None else self.far_entries
        spilled = n_vertices // 32 + 1 if self.spilled_entries is None else self.spilled_entries
        return far, spilled

    def needs(self, graph: CsrGraph, on_device: DeviceGraph, n_sources: int) -> BatchNeeds:
        far, spilled = self.piles(graph.n_vertices)
        slots = _load(self, graph, on_device).resident_blocks(self.shape_for(graph).threads)
        return BatchNeeds(
            fixed_bytes=0,
            bytes_a_source=(far + 2 * spilled) * 2 * graph.weight_dtype.itemsize,
            full=SOURCES_A_SLOT * slots,
        )

    def start_batch(
        self, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions, n_sources: int
    ) -> BatchSearch:
        return _SlotsSearch(self, graph, on_device, options, n_sources)


def _load(solver: AddsSlots, graph: CsrGraph, on_device: DeviceGraph) -> Any:
    unit = solver.unit(solver.shape_for(graph))
    return load_kernels(unit, on_device.dtype, wide_offsets=on_device.wide_offsets)[_KERNEL]


class _SlotsSearch(BatchSearch):
    def __init__(
        self,
        solver: AddsSlots,
        graph: CsrGraph,
        on_device: DeviceGraph,
        options: SolveOptions,
        n_sources: int,
    ) -> None:
        cupy = cupy_module()
        self._graph = on_device
        self._kernel = _load(solver, graph, on_device)
        self._threads = solver.shape_for(graph).threads
        self._slots = min(n_sources, self._kernel.resident_blocks(self._threads))
        delta = pick_delta(graph) if options.delta is None else float(options.delta)
        self._delta_bits, self._delta = delta_bits(on_device.dtype, delta)
        self._limit = limit_bits(on_device.dtype, options.cutoff)
        self._n_far, self._n_spilled = solver.piles(on_device.n_vertices)
        entry_bytes = 2 * on_device.dtype.itemsize
        self._far = cupy.empty(self._slots * self._n_far * entry_bytes, np.uint8)
        self._spilled = cupy.empty(self._slots * 2 * self._n_spilled * entry_bytes, np.uint8)
        self._next_source = cupy.empty(1, np.uint32)
        self._sources = cupy.empty(n_sources, np.uint32)
        self._counts = cupy.empty(n_sources * _COUNTS.itemsize, np.uint8)
        self._n_sources = 0

    def launch(self, rows: Any, sources: np.ndarray) -> None:
        self._n_sources = len(sources)
        self._sources[: self._n_sources].set(sources)
        self._next_source.data.memset_async(0, self._next_source.nbytes)
        args = (
            *self._graph.args,
            np.uint32(self._graph.n_vertices),
            self._sources,
            np.uint32(self._n_sources),
            self._limit,
            self._delta_bits,
            rows,
            self._far,
            np.uint32(self._n_far),
            self._spilled,
            np.uint32(self._n_spilled),
            self._next_source,
            self._counts,
        )
        self._kernel(min(self._slots, self._n_sources), self._threads, args)

    def finish(self) -> list[SearchCounts]:
        counts = self._counts[: self._n_sources * _COUNTS.itemsize].get().view(_COUNTS)
        return [
            SearchCounts(int(vertices), int(edges), delta_first=self._delta, delta_last=self._delta)
            for vertices, edges in counts.tolist()
        ]
