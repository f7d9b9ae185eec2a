"""Many sources at once on one GPU, a thread block for each; `adds_slots.cu` explains it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import CsrGraph, GraphTraits
from sssp_pipeline.base.errors import DeadlineError
from sssp_pipeline.kernels.contract.forecast import Forecast, depth, levels
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.gpu.common.cuda.compile import Kernel, Unit, cupy_module, load_kernels
from sssp_pipeline.kernels.gpu.common.cuda.struct_types import struct_type
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import DeviceGraph
from sssp_pipeline.kernels.gpu.common.rows.device_rows import SearchCounts
from sssp_pipeline.kernels.gpu.common.rows.distance_bits import delta_bits, limit_bits
from sssp_pipeline.kernels.gpu.common.rows.transfers import Sent, fetch
from sssp_pipeline.kernels.gpu.common.solvers.batch_search import BatchNeeds, BatchSearch
from sssp_pipeline.kernels.gpu.common.solvers.batch_solver import GpuBatchSolver

#: Delta is `DELTA_FACTOR` times mean weight over mean degree, times the harmonic mean of the degrees to the power
#: `DELTA_POWER`. See `pick_delta`.
DELTA_FACTOR, DELTA_POWER = 40.0, -1.25
#: Degrees more skewed than this make delta smaller.
SKEWED = 6.0
#: The least delta, in units of mean weight over mean degree. A split reads every waiting vertex, and from the middle of
#: a star all vertices wait.
LEAST_FACTOR = 1.0
#: `pick_delta` reads the degrees of at most this many vertices.
SAMPLE = 2**16
#: Sources for each slot in a full device batch. Several, because the last sources of a batch leave slots empty.
SOURCES_A_SLOT = 4

_KERNEL, _PACK_KERNEL = "adds_slots_kernel", "adds_slots_pack_kernel"
#: As in `adds_slot.cuh`.
_PACKED_EDGES = 4
_PACK_BLOCK = 256
#: Larger packed rows are read past the L2 cache, so that distances stay in it. That is slower where both fit
#: (`benchmarks/kernel_constants.md`).
_CACHED_BYTES = 2**25
_PROGRESS = struct_type(Path(__file__).with_name("adds_slots.cu"), "Progress")
_COUNTS = struct_type(Path(__file__).with_name("adds_slot.cuh"), "Counts")


@dataclass(frozen=True)
class Shape:
    """How the sources share the GPU."""

    #: Threads of a block, and so of a source; a multiple of 32.
    threads: int
    #: Slots on a multiprocessor.
    blocks_per_sm: int
    #: Whether rows of up to four edges are copied into rows of equal length: 32 bytes for 32-bit weights.
    packed: bool


#: The shapes that `pick_shape` picks from: as many blocks as fit with 64 registers a thread, and one with 56. Each was
#: the fastest on a graph of its kind (`benchmarks/kernel_constants.md`).
SHAPES = (Shape(128, 8, True), Shape(512, 2, True), Shape(1024, 1, True), Shape(384, 3, False))


def pick_shape(graph: CsrGraph) -> Shape:
    """Return the shape for the graph: more threads for more vertices, since frontiers grow with the graph."""
    if graph.n_edges > (_PACKED_EDGES + 1) * graph.n_vertices:
        return SHAPES[3]
    return SHAPES[0] if graph.n_vertices < 2**19 else SHAPES[1] if graph.n_vertices < 2**22 else SHAPES[2]


def pick_delta(graph: CsrGraph) -> float:
    """Return delta from weights and degrees: larger where most vertices have few edges, smaller where hubs have most.

    Only degrees above zero count. Their harmonic mean estimates the edges of a typical vertex. The mean of their
    squares over the square of their mean is their skew. The formula was fitted to the best delta of each graph
    (`benchmarks/kernel_constants.md`).
    """
    if graph.n_edges == 0:
        return 1.0
    offsets = graph.row_offsets
    looked_at = np.arange(0, graph.n_vertices, -(-graph.n_vertices // SAMPLE))
    degrees = (offsets[looked_at + 1] - offsets[looked_at]).astype(np.float64)
    degrees = degrees[degrees > 0] if degrees.any() else np.ones(1)
    harmonic = 1 / np.mean(1 / degrees)
    skew = np.mean(degrees**2) / np.mean(degrees) ** 2
    mean_degree = graph.n_edges / graph.n_vertices
    factor = DELTA_FACTOR * harmonic**DELTA_POWER / max(1.0, skew / SKEWED)
    # Python's floats overflow to infinity without a warning. `delta_bits` takes infinity for the largest delta.
    return float(max(factor, LEAST_FACTOR)) * graph.traits.mean_weight / mean_degree


@dataclass(kw_only=True, eq=False)
class AddsSlots(GpuBatchSolver):
    """Delta-stepping from hundreds of sources at once, each on a thread block of its own."""

    #: How the sources share the GPU; None picks it from the graph.
    shape: Shape | None = None
    #: Use no more slots than this; None takes all that fit.
    most_slots: int | None = None
    #: Entries in global memory of each slot's far pile, and of each of its two near piles. None takes a quarter and a
    #: thirty-second of the vertices. Entries that do not fit are not lost: they cost sweeps over all distances.
    far_entries: int | None = None
    spilled_entries: int | None = None

    name = "adds-slots"
    summary = "Delta-stepping from hundreds of sources at once, each on a thread block of its own"

    @property
    def units(self) -> tuple[Unit, ...]:
        return tuple(self.unit(shape) for shape in ([self.shape] if self.shape else SHAPES))

    def unit(self, shape: Shape) -> Unit:
        """Return what is compiled for blocks of this shape."""
        size = ("SSSP_THREADS", shape.threads), ("SSSP_BLOCKS_PER_SM", shape.blocks_per_sm)
        return Unit("adds_slots", (_KERNEL, _PACK_KERNEL), (*size, ("SSSP_PACKED", int(shape.packed))))

    def shape_for(self, graph: CsrGraph) -> Shape:
        return self.shape or pick_shape(graph)

    def piles(self, n_vertices: int) -> tuple[int, int]:
        """Return how many entries a slot has in global memory, for its far pile and for each near pile."""
        far = n_vertices // 4 + 1 if self.far_entries is None else self.far_entries
        spilled = n_vertices // 32 + 1 if self.spilled_entries is None else self.spilled_entries
        return far, spilled

    def kernels(self, graph: CsrGraph, on_device: DeviceGraph) -> dict[str, Kernel]:
        unit = self.unit(self.shape_for(graph))
        return load_kernels(unit, on_device.dtype, wide_offsets=on_device.wide_offsets)

    def slots(self, graph: CsrGraph, on_device: DeviceGraph) -> int:
        """Return how many sources are solved at once, one a block."""
        fits = self.kernels(graph, on_device)[_KERNEL].resident_blocks(self.shape_for(graph).threads)
        return min(fits, self.most_slots or fits)

    def forecast(self, traits: GraphTraits, n_sources: int) -> Forecast:
        at_once = max(1, min(n_sources, 1024))
        itemsize = traits.weight_dtype.itemsize
        n_elements = traits.n_vertices + traits.n_edges
        # A row, a far pile of a quarter of the vertices and two near piles of a thirty-second. All share packed rows.
        source_bytes = traits.n_vertices * itemsize * 13 // 8
        fixed = traits.n_vertices * 4 * (4 + itemsize) if traits.n_edges <= 5 * traits.n_vertices else 0
        one_slot_s = 24e-6 * depth(traits) + 1.7e-6 * levels(traits) + 2.5e-9 * n_elements
        # With hundreds of slots the GPU is the limit. Hubs keep a block waiting.
        full_s = (39e-12 if traits.degree_skew > 32 else 13e-12) * n_elements
        return Forecast(one_slot_s / at_once + full_s, source_bytes, at_once, fixed)

    def needs(
        self, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions, n_sources: int
    ) -> BatchNeeds:
        del options, n_sources
        far, spilled = self.piles(graph.n_vertices)
        return BatchNeeds(
            fixed_bytes=_packed_bytes(on_device) if self.shape_for(graph).packed else 0,
            bytes_a_source=(far + 2 * spilled) * 2 * graph.weight_dtype.itemsize,
            full=SOURCES_A_SLOT * self.slots(graph, on_device),
        )

    def start_batch(
        self, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions, n_sources: int
    ) -> BatchSearch:
        return _SlotsSearch(self, graph, on_device, options, n_sources)


def _packed_bytes(graph: DeviceGraph) -> int:
    return graph.n_vertices * _PACKED_EDGES * (4 + graph.dtype.itemsize)


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
        kernels = solver.kernels(graph, on_device)
        self._kernel = kernels[_KERNEL]
        shape = solver.shape_for(graph)
        self._threads = shape.threads
        self._slots = min(n_sources, solver.slots(graph, on_device))
        delta = pick_delta(graph) if options.delta is None else float(options.delta)
        self._delta_bits, self._delta = delta_bits(on_device.dtype, delta)
        self._limit = limit_bits(on_device.dtype, options.cutoff)
        self._n_far, self._n_spilled = solver.piles(on_device.n_vertices)
        entry_bytes = 2 * on_device.dtype.itemsize
        self._far = cupy.empty(self._slots * self._n_far * entry_bytes, np.uint8)
        self._spilled = cupy.empty(self._slots * 2 * self._n_spilled * entry_bytes, np.uint8)
        #: `_PROGRESS`, then `_COUNTS` of each source.
        self._words = cupy.empty(_PROGRESS.itemsize + n_sources * _COUNTS.itemsize, np.uint8)
        self._name, self._deadline_s = solver.name, options.deadline_s
        self._deadline_ns = np.uint64(options.deadline_ns)
        self._packed = None
        if shape.packed:
            self._packed = cupy.empty(_packed_bytes(on_device), np.uint8)
            args = (*on_device.args, np.uint32(on_device.n_vertices), self._packed)
            kernels[_PACK_KERNEL](-(-on_device.n_vertices // _PACK_BLOCK), _PACK_BLOCK, args)

    def launch(self, rows: Any, sources: np.ndarray, summaries: Any) -> Callable[[], SearchCounts]:
        del summaries
        sent = Sent(sources)
        self._words.data.memset_async(0, _PROGRESS.itemsize)
        graph, is_past_cache = self._graph, np.uint32(_packed_bytes(self._graph) > _CACHED_BYTES)
        of_graph = *graph.args, self._packed, is_past_cache, np.uint32(graph.n_vertices)
        of_search = sent.on_device, np.uint32(len(sources)), self._limit, self._delta_bits, rows
        piles = self._far, np.uint32(self._n_far), self._spilled, np.uint32(self._n_spilled)
        counts = self._words[_PROGRESS.itemsize :]
        args = (*of_graph, *of_search, *piles, self._deadline_ns, self._words, counts)
        self._kernel(min(self._slots, len(sources)), self._threads, args)
        words = fetch(self._words[: _PROGRESS.itemsize + len(sources) * _COUNTS.itemsize])
        return lambda: self._counts(sent, sources, words)

    def _counts(self, sent: Sent, sources: np.ndarray, words: np.ndarray) -> SearchCounts:
        del sent  # it had to be kept until here
        if late := int(words[: _PROGRESS.itemsize].view(_PROGRESS)[0]["late"]):
            raise DeadlineError(self._name, int(sources[late - 1]), self._deadline_s)
        counts = words[_PROGRESS.itemsize :].view(_COUNTS)
        vertices, edges = (counts[name] for name in _COUNTS.names or ())
        return SearchCounts(vertices, edges, self._delta, self._delta)
