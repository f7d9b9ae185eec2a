"""Many sources at once on graphs with small separators, by min-plus products instead of searches.

`climb.cu` and `phast_gpu.cu` explain the kernels, `device_hierarchy.py` has what they read.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import CsrGraph, GraphTraits, largest_distance, unreached_distance
from sssp_pipeline.base.errors import DeadlineError
from sssp_pipeline.kernels.answers.nearest import NearestOfRow
from sssp_pipeline.kernels.contract.forecast import Forecast, graph_device_bytes
from sssp_pipeline.kernels.contract.kept import Nothing, Targets
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.gpu.common.cuda.compile import Unit, cupy_module, load_ahead, load_kernels
from sssp_pipeline.kernels.gpu.common.cuda.struct_types import struct_type
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import DeviceGraph
from sssp_pipeline.kernels.gpu.common.rows.device_rows import SearchCounts
from sssp_pipeline.kernels.gpu.common.rows.distance_bits import bits_type, limit_bits
from sssp_pipeline.kernels.gpu.common.rows.lane_rows import LaneRows
from sssp_pipeline.kernels.gpu.common.rows.transfers import Sent, fetch
from sssp_pipeline.kernels.gpu.common.solvers.batch_search import BatchNeeds, BatchSearch
from sssp_pipeline.kernels.gpu.common.solvers.batch_solver import GpuBatchSolver
from sssp_pipeline.kernels.gpu.phast_gpu.device_hierarchy import (
    MOST_NARROW,
    DeviceHierarchy,
    customize_unit,
    device_hierarchy,
    fronts_unit,
    matrices_unit,
)
from sssp_pipeline.kernels.gpu.phast_gpu.host_hierarchy import Band, HostHierarchy, host_hierarchy
from sssp_pipeline.kernels.gpu.phast_gpu.needed_tiles import NeededTiles, needed_tiles
from sssp_pipeline.kernels.hierarchy import costs
from sssp_pipeline.kernels.hierarchy.chunks import MOST_LOW, TILE
from sssp_pipeline.kernels.hierarchy.shared import why_not_solved

#: Sources of a full device batch.
_FULL = 1024
#: Threads of a block of the sweep and of the rows, and of the seeds; as in the `.cu` files.
_BLOCK, _SEED_BLOCK = 256, 512
#: How many lanes a thread may have, the most first; with words of 64 bits, at the second place.
LANES_EACH = ((4, 2, 1), (2, 1))
_WARPS = _BLOCK // 32
#: Calls of at most this many sources climb with 1,024 threads a source. In larger calls the other sources fill the GPU.
_FEW = 256
#: Warps that share a tile have at least this many boundary vertices each.
LEAST_PART = 128
#: From so many sources on they climb together, where the hierarchy has such bands.
LEAST_TOGETHER = 128
#: Own vertices of a part of a product on the way up.
_UP_PART = 128
#: Blocks of the seeds of the top.
_TOP_BLOCKS = 4
#: Vertices of a part of `rows_kernel`, and lanes; with words of 64 bits, the second.
_SIDE, _LANES_SIDE = 128, (64, 32)
#: The most shared memory of a block without asking for more.
_SHARED_BYTES = 40 * 2**10
#: Bytes of `Segment` and `Climbed`.
_SEGMENT_BYTES = 16
_CALL_HEADER = Path(__file__).with_name("call.cuh")
_CALL, _CLIMBED = struct_type(_CALL_HEADER, "Call"), struct_type(_CALL_HEADER, "Climbed")


def climb_unit(*, wide: bool) -> Unit:
    """Return the unit of the kernels that find seeds, with words of 64 bits if `wide`."""
    ups = tuple(f"up_{each}_kernel" for each in (1, LANES_EACH[wide][0]))
    return Unit("climb", ("clear_kernel", "climb_kernel", "seed_kernel", *ups), (("SSSP_WIDE", int(wide)),))


def sweep_unit(*, wide: bool, cutoff: bool) -> Unit:
    """Return the unit of the kernels that make rows of seeds, with words of 64 bits if `wide`."""
    sweeps = tuple(f"{name}_{each}_kernel" for name in ("sweep", "last") for each in LANES_EACH[wide])
    macros = ("SSSP_WIDE", int(wide)), ("SSSP_CUTOFF", int(cutoff))
    return Unit("phast_gpu", (*sweeps, "rows_kernel"), macros)


class PhastGpu(GpuBatchSolver):
    """The fastest solver for many sources on graphs with small separators, if the distances stay on the GPU."""

    name = "phast-gpu"
    summary = "Min-plus products over a hierarchy; the fastest on roads where rows stay on the GPU; integers"
    no_delta = "it has no buckets and takes no delta"
    uses_hierarchy = True
    weighs_arcs = True
    counts_arcs = True

    @property
    def units(self) -> tuple[Unit, ...]:
        return tuple(
            unit
            for wide in (False, True)
            for unit in (
                climb_unit(wide=wide),
                *(sweep_unit(wide=wide, cutoff=cutoff) for cutoff in (False, True)),
                customize_unit(wide=wide),
                fronts_unit(wide=wide),
                matrices_unit(wide=wide),
            )
        )

    def supports(self, graph: GraphTraits, options: SolveOptions) -> str | None:
        return super().supports(graph, options) or why_not_solved(graph.weight_dtype, "adds-slots")

    def forecast(self, traits: GraphTraits, n_sources: int) -> Forecast:
        at_once = max(1, min(n_sources, _FULL))
        n_lanes = lanes_for(at_once)
        row_bytes = traits.n_vertices * traits.weight_dtype.itemsize
        # What stays on the device, and what its making takes (`benchmarks/results/hierarchy_gpu.jsonl`).
        hierarchy_bytes = costs.gpu_bytes(traits)
        return Forecast(
            (1.05e-12 * row_bytes + costs.gpu_sweep_s(traits)) * n_lanes / at_once + 100e-6 / at_once,
            2 * row_bytes,
            at_once,
            graph_device_bytes(traits) + hierarchy_bytes + (n_lanes - at_once) * row_bytes,
            off_by=10.0,
            most_in_search=_FULL,
            start_s=costs.left_s(traits, on_gpu=True),
            host_bytes=costs.host_bytes(traits),
        )

    def _begin(self, graph: CsrGraph, sources: np.ndarray, options: SolveOptions, *args: Any) -> Any:
        wide = graph.weight_dtype.itemsize == 8  # otherwise narrow words are tried first
        sweep = sweep_unit(wide=wide, cutoff=options.cutoff is not None)  # takes longest
        others = climb_unit(wide=wide), matrices_unit(wide=wide), fronts_unit(wide=wide)
        load_ahead([sweep, *others], graph.weight_dtype)
        host_hierarchy(graph)  # takes seconds, without the GPU
        return super()._begin(graph, sources, options, *args)

    def needs(
        self, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions, n_sources: int
    ) -> BatchNeeds:
        hierarchy, work = self._work(graph, on_device, options)
        scratch = _scratch_bytes(hierarchy, work.n_rows)
        spare_lanes = min(lanes_for(min(n_sources, _FULL)), 128)
        fixed_bytes = spare_lanes * scratch
        if work.targets is not None and not work.writes_kept:  # in each of two buffers
            scratch += 2 * len(work.targets) * graph.weight_dtype.itemsize
        return BatchNeeds(fixed_bytes, scratch, _FULL, has_rows=work.targets is None)

    def start_batch(
        self, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions, n_sources: int
    ) -> BatchSearch:
        hierarchy, work = self._work(graph, on_device, options)
        return _Sweep(self.name, on_device, hierarchy, work, options, n_sources)

    def _work(
        self, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions
    ) -> tuple[DeviceHierarchy, _Work]:
        host = host_hierarchy(graph)
        hierarchy = device_hierarchy(on_device, host)
        of_options, work = _last_work.get(graph, (None, None))
        if work is None or of_options is not options:
            work = _Work.of(graph.traits, host, hierarchy, options)
            _last_work[graph] = options, work
        return hierarchy, work


def lanes_for(n_sources: int) -> int:
    """Return how many lanes a sweep from `n_sources` has: few empty ones, and a multiple of 128 for many."""
    step = 32 if n_sources <= 96 else 64 if n_sources <= 384 else 128
    return -(-n_sources // step) * step


@dataclass(frozen=True)
class _Work:
    """What a call wants of the rows."""

    #: How many rows by place there is memory for: all, or those above the last band, if that is only counted.
    n_rows: int
    #: The vertices whose distances are written, source by source; None for all.
    targets: np.ndarray | None = None
    #: Whether these are what is kept.
    writes_kept: bool = False
    #: Whether rows are left as the sweep makes them, and reduced there; there are no targets then.
    leaves_rows: bool = False
    #: What is computed if nothing is counted; None for all tiles.
    needed: NeededTiles | None = None

    @classmethod
    def of(
        cls, traits: GraphTraits, host: HostHierarchy, hierarchy: DeviceHierarchy, options: SolveOptions
    ) -> _Work:
        kept, none = options.kept, np.empty(0, np.uint32)
        n_all, n_upper = hierarchy.n_vertices, hierarchy.n_upper
        # A path that is too long for the type is searched in whole rows.
        is_safe = hierarchy.longest is not None and hierarchy.longest + traits.max_weight <= largest_distance(
            traits.weight_dtype
        )
        if is_safe and kept.takes_lanes:
            return cls(n_all if kept.reads_distances else n_upper, none, leaves_rows=True)
        if is_safe and kept.over_sources is None:
            if isinstance(kept, Nothing):
                return cls(n_upper, none, writes_kept=True)
            if isinstance(kept, Targets | NearestOfRow):
                work = cls(n_all, kept.read_vertices, writes_kept=isinstance(kept, Targets))
                if options.metrics or work.targets is None:
                    return work
                needed = needed_tiles(host, hierarchy.host_places[work.targets])
                return replace(work, n_rows=needed.n_rows, needed=needed)
        return cls(n_all)


#: The options of the last call on a graph, and what it wants. A call asks twice.
_last_work: weakref.WeakKeyDictionary[CsrGraph, tuple[SolveOptions, _Work]] = weakref.WeakKeyDictionary()


def _scratch_bytes(hierarchy: DeviceHierarchy, n_rows: int) -> int:
    """Return the device memory of a lane."""
    words = n_rows + hierarchy.n_depths + MOST_LOW
    return (
        words * hierarchy.word.itemsize
        + 4 * hierarchy.n_depths
        + hierarchy.n_chunks // 4
        + hierarchy.n_segments * _SEGMENT_BYTES
        + _CLIMBED.itemsize
    )


class _Sweep(BatchSearch):
    summarises = True

    def __init__(
        self,
        name: str,
        on_device: DeviceGraph,
        hierarchy: DeviceHierarchy,
        work: _Work,
        options: SolveOptions,
        n_sources: int,
    ) -> None:
        cupy = cupy_module()
        self._name, self._hierarchy = name, hierarchy
        self.n_columns = None if work.targets is None else len(work.targets)
        self.writes_kept = work.writes_kept
        self.lane_bits = 8 * hierarchy.word.itemsize if work.leaves_rows else 0
        self._deadline_s = options.deadline_s
        units = (
            climb_unit(wide=hierarchy.wide),
            sweep_unit(wide=hierarchy.wide, cutoff=options.cutoff is not None),
        )
        self._kernels = {
            name: kernel for unit in units for name, kernel in load_kernels(unit, on_device.dtype).items()
        }
        self._n_resident = {
            each: self._kernels[f"last_{each}_kernel"].resident_blocks(_BLOCK)
            for each in LANES_EACH[hierarchy.wide]
        }
        needed = self._needed = work.needed
        targets = None
        if work.targets is not None:
            places = hierarchy.host_places[work.targets] if needed is None else needed.places
            targets = Sent(places)
        self._sent_tiles = None if needed is None else Sent(needed.tiles.view(np.uint8))
        #: The bands that are swept without counts.
        self._bands = hierarchy.bands[1 : hierarchy.n_upper_bands] if needed is None else needed.bands
        n_marks = hierarchy.n_chunks * lanes_for(n_sources) // 32
        shared_bytes = hierarchy.n_depths * hierarchy.word.itemsize
        is_shared = shared_bytes <= _SHARED_BYTES
        self._shared_bytes = shared_bytes if is_shared else 0
        n_lanes, n_up, word = lanes_for(n_sources), n_sources * hierarchy.n_depths, hierarchy.word
        #: Device memory, by the names in `Call`.
        self._scratch: dict[str, Any] = {
            "kept": cupy.empty(0 if is_shared else n_up, word),
            "entry_places": cupy.empty(n_up, np.uint32),
            "entry_distances": cupy.empty(n_up, word),
            "segments": cupy.empty(n_sources * hierarchy.n_segments * _SEGMENT_BYTES, np.uint8),
            "climbed": cupy.empty(n_sources * _CLIMBED.itemsize, np.uint8),
            "seeded": cupy.empty(n_marks, np.uint32),
            "near": None if options.cutoff is None else cupy.empty(n_marks, np.uint32),
            "low_seeds": cupy.empty(n_lanes * MOST_LOW, word),
            "rows": cupy.empty(n_lanes * work.n_rows, word),
            "columns": hierarchy.places if targets is None else targets.on_device,
        }
        if self._sent_tiles is not None:
            self._scratch["tiles"] = self._sent_tiles.on_device
        self._sent_targets = targets
        limit = int(limit_bits(on_device.dtype, options.cutoff))
        self._call = np.zeros(1, _CALL)
        memory_and_counts = {
            name: getattr(hierarchy, name, None) for name in _CALL.names or ()
        } | self._scratch
        for name, value in memory_and_counts.items():
            if value is not None:
                self._call[name] = value if isinstance(value, int) else value.data.ptr
        for name, value in (
            ("limit", limit if hierarchy.wide else min(limit, MOST_NARROW + 1)),
            ("beyond", unreached_distance(on_device.dtype).view(bits_type(on_device.dtype))),
            ("n_columns", len(self._scratch["columns"])),
            ("is_shared", is_shared),
            (
                "first_low_tile",
                hierarchy.bands[hierarchy.n_upper_bands - 1].end if needed is None else needed.first_low,
            ),
            ("n_tiles", hierarchy.bands[-1].end),
            ("writes", work.n_rows > hierarchy.n_upper),
        ):
            self._call[name] = value

        #: What the kernels get. CuPy lists the fields of a record at every launch, but not of bytes.
        self._bytes = self._call.view(f"V{_CALL.itemsize}")

    def launch(self, rows: Any, sources: np.ndarray, summaries: Any) -> Callable[[], SearchCounts]:
        cupy = cupy_module()
        hierarchy, n_sources = self._hierarchy, len(sources)
        sent = Sent(sources)
        n_lanes = lanes_for(n_sources)
        bands = [(band, self._parts(band, n_lanes)) for band in self._bands]
        cleared = [band.end_place for band, n in bands if n > 1]
        together = hierarchy.together if n_sources >= LEAST_TOGETHER else []
        if together:
            cleared.append(hierarchy.n_together_places)
        for name, value in (
            ("sources", sent.on_device.data.ptr),
            ("summaries", summaries.data.ptr),
            ("rows_by_source", rows.data.ptr),
            ("n_sources", n_sources),
            ("n_lanes", n_lanes),
            ("n_cleared", n_lanes * max(cleared, default=0)),
            ("n_shared", together[-1].first_chunk + together[-1].n_chunks if together else 0),
        ):
            self._call[name] = value
        began, ended = cupy.cuda.Event(), cupy.cuda.Event()
        began.record()
        launched = np.array([(band.first, band.end, n) for band, n in bands], np.int64)
        hierarchy.launches.run(
            self._call.tobytes() + launched.tobytes(),
            lambda: self._enqueue(n_sources, n_lanes, launched.tolist(), rows.shape[1]),
        )
        if self.lane_bits:
            words, places, limit = self._scratch["rows"], hierarchy.places, int(self._call["limit"][0])
            self.left = LaneRows(words, places, limit, n_lanes, n_sources)
        ended.record()
        climbed = fetch(self._scratch["climbed"][: n_sources * _CLIMBED.itemsize])

        def counts(sent: Sent = sent) -> SearchCounts:  # `sent` has to be kept until here
            if cupy.cuda.get_elapsed_time(began, ended) / 1e3 > self._deadline_s:
                raise DeadlineError(self._name, f"sources 0 to {n_sources - 1} of a batch", self._deadline_s)
            found = climbed.view(_CLIMBED)
            swept = hierarchy if self._needed is None else self._needed
            n_products = swept.n_products + (hierarchy.n_together_products if together else 0)
            return SearchCounts(swept.n_vertices + found["entries"], n_products + found["words"])

        return counts

    def _parts(self, band: Band, n_lanes: int) -> int:
        """Return how many warps share each tile of a band, so that a few long boundaries fill the GPU."""
        if band.first >= self._call["first_low_tile"][0]:
            return 1
        each, blocks_of_lanes = self._lanes_each(n_lanes)
        n_blocks = blocks_of_lanes * -(-(band.end - band.first) // _WARPS)
        return max(1, min(self._n_resident[each] // n_blocks, band.most_boundary // LEAST_PART))

    def _lanes_each(self, n_lanes: int) -> tuple[int, int]:
        """Return how many lanes a thread has, and how many blocks have the lanes of a tile."""
        each = next(each for each in LANES_EACH[self._hierarchy.wide] if n_lanes % (32 * each) == 0)
        return each, n_lanes // (32 * each)

    def _enqueue(self, n_sources: int, n_lanes: int, bands: list[list[int]], n_columns: int) -> None:
        """Launch the kernels of a batch; `bands` has the first tile of each, the end and how many share a tile."""
        hierarchy = self._hierarchy
        if n_cleared := int(self._call["n_cleared"][0]):
            self._kernels["clear_kernel"](max(1, min(n_cleared // _BLOCK, 2**12)), _BLOCK, (self._bytes,))
        self._kernels["climb_kernel"](
            n_sources, 1024 if n_sources <= _FEW else 256, (self._bytes,), shared_bytes=self._shared_bytes
        )
        self._kernels["seed_kernel"](
            n_lanes * (hierarchy.n_segments - 1 + _TOP_BLOCKS), _SEED_BLOCK, (self._bytes,)
        )
        if self._call["n_shared"][0]:
            self._climb_together(n_lanes)
        self._sweep(n_lanes, bands)
        if n_columns:
            squares = -(-n_columns // _SIDE) * -(-n_sources // _LANES_SIDE[hierarchy.wide])
            self._kernels["rows_kernel"](squares, _BLOCK, (self._bytes,))

    def _climb_together(self, n_lanes: int) -> None:
        """Enqueue the ways up over bands of few chunks, from the lowest one up."""
        most = LANES_EACH[self._hierarchy.wide][0]
        each = most if n_lanes % (32 * most) == 0 else 1
        for first_chunk, n_chunks, n_tiles in reversed(self._hierarchy.together):
            n_groups = -(-n_tiles // _WARPS)
            # The top has no boundary, and more own vertices than others.
            n_parts = max(1, n_tiles * int(TILE) // _UP_PART) if first_chunk == 0 else 1
            n_blocks = n_lanes // (32 * each) * n_chunks * n_groups * n_parts
            args = (self._bytes, np.uint32(first_chunk), np.uint32(n_groups), np.uint32(n_parts))
            self._kernels[f"up_{each}_kernel"](n_blocks, _BLOCK, args)

    def _sweep(self, n_lanes: int, bands: list[list[int]]) -> None:
        """Enqueue the sweep of all bands from the top down."""
        each, blocks_of_lanes = self._lanes_each(n_lanes)
        for first, end, n_parts in bands:
            n_blocks = blocks_of_lanes * -(-(end - first) // _WARPS) * n_parts
            args = (self._bytes, np.uint32(first), np.uint32(end), np.uint32(n_parts))
            self._kernels[f"sweep_{each}_kernel"](n_blocks, _BLOCK, args)
        if self._needed is not None:
            return
        n_tiles = self._hierarchy.bands[-1].end
        n_groups = min(-(-n_tiles // _WARPS), max(1, self._n_resident[each] // blocks_of_lanes))
        self._kernels[f"last_{each}_kernel"](blocks_of_lanes * n_groups, _BLOCK, (self._bytes,))
