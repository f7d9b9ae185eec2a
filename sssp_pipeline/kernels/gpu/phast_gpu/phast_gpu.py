"""Many sources at once on graphs with small separators, by min-plus products instead of searches.

`climb.cu`, `front_rows.cu` and `phast_gpu.cu` explain the kernels, `device_hierarchy.py` has what they read.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import CsrGraph, GraphTraits, unreached_distance
from sssp_pipeline.base.errors import DeadlineError
from sssp_pipeline.kernels.contract.forecast import Forecast, graph_device_bytes
from sssp_pipeline.kernels.contract.path_sums_asked import PathSumsAsked
from sssp_pipeline.kernels.contract.solver import Parts, SolveOptions
from sssp_pipeline.kernels.gpu.common.cuda.compile import Unit, cupy_module, load_ahead, load_kernels
from sssp_pipeline.kernels.gpu.common.cuda.struct_types import struct_type
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import UPLOAD, DeviceGraph
from sssp_pipeline.kernels.gpu.common.rows.device_rows import SUMMARY, SearchCounts
from sssp_pipeline.kernels.gpu.common.rows.distance_bits import bits_type, limit_bits
from sssp_pipeline.kernels.gpu.common.rows.lane_rows import LaneRows
from sssp_pipeline.kernels.gpu.common.rows.transfers import Sent, fetch
from sssp_pipeline.kernels.gpu.common.solvers.batch_search import BatchNeeds, BatchSearch
from sssp_pipeline.kernels.gpu.common.solvers.batch_solver import GpuBatchSolver
from sssp_pipeline.kernels.gpu.common.solvers.gpu_solver import GPU_LOCK, graph_on_device
from sssp_pipeline.kernels.gpu.path_sweep.arc_sums_on_device import part_words, passing_of_parts
from sssp_pipeline.kernels.gpu.phast_gpu.device_hierarchy import (
    INFINITIES,
    PAIRS_ARCH,
    DeviceHierarchy,
    customize_unit,
    device_hierarchy,
    fronts_unit,
    lanes_for,
    matrices_unit,
    may_be_short,
    words_of,
)
from sssp_pipeline.kernels.gpu.phast_gpu.host_hierarchy import Sizes, host_hierarchy
from sssp_pipeline.kernels.gpu.phast_gpu.work import Work
from sssp_pipeline.kernels.hierarchy.completion import costs
from sssp_pipeline.kernels.hierarchy.completion.chunks import MOST_LOW
from sssp_pipeline.kernels.hierarchy.shared import why_not_solved
from sssp_pipeline.kernels.host.kernel_threads import usable_cores

#: Sources of a full device batch.
_FULL = 1024
#: Threads of a block of the sweep and of the rows; as in the `.cu` files.
_BLOCK = 256
#: By the bits of a word: how many packed words of lanes a thread may have, the most first.
LANES_EACH = {16: (4, 2, 1), 32: (4, 2, 1), 64: (2, 1)}
_WARPS = _BLOCK // 32
#: Threads of a block of the way up, and of one of the seeds. Calls of at most `_FEW` sources have more of them for each
#: source. In larger calls the other sources fill the GPU.
_FEW, _BLOCKS_OF_FEW, _BLOCKS_OF_MANY = 256, (1024, 512), (256, 256)
#: As `LANES_EACH` for the rows of fronts, how many threads are side by side there, and the rows of a block; as in
#: `front_rows.cu`.
_FRONT_LANES, _FRONT_ACROSS, _FRONT_ROWS = {16: (8, 4, 2), 32: (8, 2), 64: (4, 2)}, 16, 128
#: Blocks that share a front have at least this many of its vertices each. There are about so many times the blocks
#: that are resident, so that those with less work do not wait long for others.
LEAST_PART, MOST_WAVES = 32, 2
#: Parts of a call whose sums over the hierarchy are on the host at a time. They take about as much as the plan counts
#: for a task with four batches under way (`costs.pass_bytes`).
_SUMS_AT_ONCE = 16
#: The kernels of `few.cu` are for groups of so many sources. Calls of at most `FEW_SOURCES` take them.
FEW_LANES, FEW_SOURCES = (1, 4), 8
#: As in `few.cu`: parts of a boundary in a warp, and the most warps that share a tile.
_FEW_PARTS, _FEW_WARPS = 4, 32
#: Words of 32 bits that a thread reads together there of each source, by the sources of a group.
FEW_STEPS = {1: 8, 4: 4}
#: Blocks of the seeds of the top.
_TOP_BLOCKS = 4
#: Vertices of a part of `rows_kernel`, and lanes by the bits of a word.
_SIDE, _LANES_SIDE = 128, {16: 128, 32: 64, 64: 32}
#: The most shared memory of a block without asking for more.
_SHARED_BYTES = 40 * 2**10
#: Bytes of `Segment` and `Climbed`.
_SEGMENT_BYTES = 16
_CALL_HEADER = Path(__file__).with_name("call.cuh")
_CALL, _CLIMBED = struct_type(_CALL_HEADER, "Call"), struct_type(_CALL_HEADER, "Climbed")


def climb_unit(bits: int) -> Unit:
    """Return the unit of the kernels that find seeds, with words of so many bits."""
    return _unit("climb", ("clear_kernel", "climb_kernel", "seed_kernel"), bits)


def front_rows_unit(bits: int) -> Unit:
    """Return the unit of the kernels that compute the rows of fronts."""
    names = tuple(f"{name}_{each}_kernel" for name in ("down", "up") for each in _FRONT_LANES[bits])
    return _unit("front_rows", names, bits)


def sweep_unit(bits: int, *, cutoff: bool) -> Unit:
    """Return the unit of the kernels that make rows of seeds."""
    sweeps = tuple(f"{name}_{each}_kernel" for name in ("sweep", "last") for each in LANES_EACH[bits])
    return _unit("phast_gpu", (*sweeps, "rows_kernel"), bits, ("SSSP_CUTOFF", int(cutoff)))


def _unit(stem: str, names: tuple[str, ...], bits: int, *macros: tuple[str, int]) -> Unit:
    return Unit(stem, names, (*words_of(bits), *macros), least_arch=PAIRS_ARCH if bits == 16 else 0)


def few_unit(bits: int) -> Unit:
    """Return the unit of the kernels that make the rows of few sources."""
    names = tuple(f"few_{name}_{lanes}_kernel" for name in ("sweep", "last", "rows") for lanes in FEW_LANES)
    return _unit("few", names, bits)


class PhastGpu(GpuBatchSolver):
    """The fastest solver for many sources on graphs with small separators, if the distances stay on the GPU."""

    name = "phast-gpu"
    summary = "Min-plus products over a hierarchy; the fastest on roads where rows stay on the GPU; integers"
    no_delta = "it has no buckets and takes no delta"
    uses_hierarchy = True
    unites_sources = True
    weighs_arcs = True
    counts_arcs = True
    sums_on_arcs = True

    @property
    def units(self) -> tuple[Unit, ...]:
        of_calls = (
            unit
            for bits in (16, 32, 64)
            for unit in (
                climb_unit(bits),
                front_rows_unit(bits),
                *(sweep_unit(bits, cutoff=cutoff) for cutoff in (False, True)),
                few_unit(bits),
            )
        )
        of_graphs = (unit(bits) for bits in (32, 64) for unit in (customize_unit, fronts_unit, matrices_unit))
        return *of_calls, *of_graphs

    def supports(self, graph: GraphTraits, options: SolveOptions) -> str | None:
        return super().supports(graph, options) or why_not_solved(graph.weight_dtype, "adds-slots")

    def forecast(self, traits: GraphTraits, n_sources: int) -> Forecast:
        at_once = max(1, min(n_sources, _FULL))
        n_lanes = lanes_for(at_once)
        row_bytes = traits.n_vertices * traits.weight_dtype.itemsize
        start_s = 50e-6 if _few_lanes(at_once) else 100e-6
        # What stays on the device, and what its making takes (`benchmarks/results/hierarchy_gpu.jsonl`).
        hierarchy_bytes = costs.gpu_bytes(traits)
        return Forecast(
            (1.05e-12 * row_bytes + costs.gpu_sweep_s(traits)) * n_lanes / at_once + start_s / at_once,
            2 * row_bytes,
            at_once,
            graph_device_bytes(traits) + hierarchy_bytes + (n_lanes - at_once) * row_bytes,
            off_by=10.0,
            most_in_search=_FULL,
            start_s=costs.left_s(traits, on_gpu=True),
            host_bytes=costs.host_bytes(traits),
        )

    def _attempt(
        self, graph: CsrGraph, sources: np.ndarray, options: SolveOptions, ends: Sequence[int]
    ) -> Parts:
        asked = options.kept.paths
        if asked is None or not asked.on_hierarchy or not len(sources):
            yield from super()._attempt(graph, sources, options, ends)
            return
        begin = 0
        for first in range(0, len(ends), _SUMS_AT_ONCE):
            some = ends[first : first + _SUMS_AT_ONCE]
            of_some = sources[begin : some[-1]]
            yield from self._summed(graph, of_some, options, [end - begin for end in some], asked)
            begin = some[-1]

    def _summed(
        self,
        graph: CsrGraph,
        sources: np.ndarray,
        options: SolveOptions,
        ends: Sequence[int],
        asked: PathSumsAsked,
    ) -> Parts:
        """Do what `_attempt` does, with sums over the hierarchy."""
        swept = self._with_memory(graph, lambda: passing_of_parts(graph, sources, ends, asked, options))
        pool = ThreadPoolExecutor(usable_cores(), "sssp-unpack")
        try:
            unpacked = [pool.submit(part_words, graph, asked, part) for part in swept]
            # All parts: none holds memory of the GPU while it waits for its sums.
            solved = list(super()._attempt(graph, sources, options, ends))
            for part, passing, words in zip(solved, swept, unpacked, strict=True):
                totals = passing.totals[:, [asked.vertices, asked.edges]]
                part.distances[:, part.distances.shape[1] - totals.shape[1] :] = totals.view(np.uint64)
                yield replace(part, path_words=words.result())
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _begin(self, graph: CsrGraph, sources: np.ndarray, options: SolveOptions, *args: Any) -> Any:
        load_for_graph(graph.traits, len(sources), options)
        host_hierarchy(graph)  # takes seconds, without the GPU
        return super()._begin(graph, sources, options, *args)

    def needs(
        self, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions, n_sources: int
    ) -> BatchNeeds:
        hierarchy, work = self._work(graph, on_device, options)
        scratch = _scratch_bytes(hierarchy, work.n_rows)
        spare_lanes = min(hierarchy.n_lanes_for(min(n_sources, _FULL)), 128 * hierarchy.n_packed)
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
    ) -> tuple[DeviceHierarchy, Work]:
        host = host_hierarchy(graph)
        hierarchy = device_hierarchy(on_device, host, options.preparation_s)
        of_options, work = _last_work.get(graph, (None, None))
        if work is None or of_options is not options:
            work = Work.of(graph.traits, host, hierarchy, options)
            _last_work[graph] = options, work
        return hierarchy, work


#: The options of the last call on a graph, and what it wants. A call asks twice.
_last_work: weakref.WeakKeyDictionary[CsrGraph, tuple[SolveOptions, Work]] = weakref.WeakKeyDictionary()


def _scratch_bytes(hierarchy: DeviceHierarchy, n_rows: int) -> int:
    """Return the device memory of a lane."""
    return (
        n_rows * hierarchy.stored_word.itemsize
        + (hierarchy.n_depths + MOST_LOW) * hierarchy.word.itemsize
        + 4 * hierarchy.n_depths
        + hierarchy.n_chunks // 4
        + hierarchy.n_bands * _SEGMENT_BYTES
        + _CLIMBED.itemsize
    )


class _Sweep(BatchSearch):
    summarises = True

    def __init__(
        self,
        name: str,
        on_device: DeviceGraph,
        hierarchy: DeviceHierarchy,
        work: Work,
        options: SolveOptions,
        n_sources: int,
    ) -> None:
        cupy = cupy_module()
        self._name, self._hierarchy = name, hierarchy
        self.n_columns = None if work.targets is None else len(work.targets)
        self.writes_kept = work.writes_kept
        self.lane_bits = hierarchy.bits if work.leaves_rows else 0
        self._deadline_s = options.deadline_s
        units = (
            climb_unit(hierarchy.bits),
            front_rows_unit(hierarchy.bits),
            _rows_unit(n_sources, hierarchy.bits, cutoff=options.cutoff is not None),
        )
        self._few_lanes = _few_lanes(n_sources)
        self._kernels = {
            name: kernel for unit in units for name, kernel in load_kernels(unit, on_device.dtype).items()
        }
        self._n_resident = {
            name: kernel.resident_blocks(_BLOCK)
            for name, kernel in self._kernels.items()
            if name.startswith(("last", "few", "down", "up"))
        }
        needed = self._needed = work.needed
        swept = self._swept = hierarchy.swept if needed is None else needed.swept
        targets = None
        if work.targets is not None:
            targets = Sent(hierarchy.host_places[work.targets] if needed is None else needed.places)
        #: What a sweep takes of its own, in device memory.
        self._sent = () if needed is None else (Sent(swept.fronts), Sent(swept.tiles.view(np.uint8)))
        self._fronts, tiles = (
            (hierarchy.fronts, hierarchy.upper_tiles)
            if needed is None
            else (sent.on_device for sent in self._sent)
        )
        n_lanes, n_up, word = hierarchy.n_lanes_for(n_sources), n_sources * hierarchy.n_depths, hierarchy.word
        n_marks = hierarchy.n_chunks * n_lanes // 32
        shared_bytes = hierarchy.n_depths * word.itemsize
        is_shared = shared_bytes <= _SHARED_BYTES
        self._shared_bytes = shared_bytes if is_shared else 0
        #: Device memory, by the names in `Call`.
        self._scratch: dict[str, Any] = {
            "kept": cupy.empty(0 if is_shared else n_up, word),
            "entry_places": cupy.empty(n_up, np.uint32),
            "entry_distances": cupy.empty(n_up, word),
            "segments": cupy.empty(n_sources * hierarchy.n_bands * _SEGMENT_BYTES, np.uint8),
            "climbed": cupy.empty(n_sources * _CLIMBED.itemsize, np.uint8),
            "seeded": cupy.empty(n_marks, np.uint32),
            "near": None if options.cutoff is None else cupy.empty(n_marks, np.uint32),
            "low_seeds": cupy.empty(n_lanes * MOST_LOW, word),
            "rows": cupy.empty(n_lanes * work.n_rows, hierarchy.stored_word),
            "columns": hierarchy.places if targets is None else targets.on_device,
            "swept": tiles,
        }
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
            ("limit", min(limit, INFINITIES[hierarchy.bits])),
            ("beyond", unreached_distance(on_device.dtype).view(bits_type(on_device.dtype))),
            ("n_columns", len(self._scratch["columns"])),
            ("is_shared", is_shared),
            ("first_low_tile", hierarchy.first_low_tile if needed is None else needed.first_low),
            ("n_segments", hierarchy.n_bands),
            ("writes", work.n_rows > hierarchy.n_upper),
        ):
            self._call[name] = value

        #: What is launched, as far as `Call` does not say it.
        self._launched = f"{self._fronts.data.ptr} {swept.bands}".encode()
        #: What the kernels get. CuPy lists the fields of a record at every launch, but not of bytes.
        self._bytes = self._call.view(f"V{_CALL.itemsize}")

    def stage(self, rows: Any, sources: np.ndarray, summaries: Any) -> None:
        hierarchy, n_sources = self._hierarchy, len(sources)
        sent = self._sent_sources = Sent(sources)
        n_lanes = hierarchy.n_lanes_for(n_sources)
        end_place = 0 if self._few_lanes else self._swept.end_place
        for name, value in (
            ("sources", sent.on_device.data.ptr),
            ("summaries", summaries.data.ptr),
            ("rows_by_source", rows.data.ptr),
            ("n_sources", n_sources),
            ("n_lanes", n_lanes),
            ("n_cleared", n_lanes * max(end_place, hierarchy.shared.end_place)),
        ):
            self._call[name] = value

    def launch(self, rows: Any, sources: np.ndarray, summaries: Any) -> Callable[[], SearchCounts]:
        cupy = cupy_module()
        hierarchy, n_sources = self._hierarchy, len(sources)
        n_lanes = int(self._call["n_lanes"][0])
        arguments = self._call.tobytes() + self._launched
        began, ended = cupy.cuda.Event(), cupy.cuda.Event()
        began.record()
        hierarchy.launches.run(arguments, lambda: self._enqueue(n_sources, n_lanes, rows.shape[1]))
        if self.lane_bits:
            words, places, limit = self._scratch["rows"], hierarchy.places, int(self._call["limit"][0])
            self.left = LaneRows(words, places, limit, n_lanes, n_sources)
        ended.record()
        climbed = fetch(self._scratch["climbed"][: n_sources * _CLIMBED.itemsize])

        def counts(sent: Sent = self._sent_sources) -> SearchCounts:  # `sent` has to be kept until here
            if cupy.cuda.get_elapsed_time(began, ended) / 1e3 > self._deadline_s:
                raise DeadlineError(self._name, f"sources 0 to {n_sources - 1} of a batch", self._deadline_s)
            found = climbed.view(_CLIMBED)
            n_rows, n_products = hierarchy.n_vertices, hierarchy.n_products
            if self._needed is not None:
                n_rows, n_products = self._swept.n_rows, self._swept.n_products
            n_words = n_products + hierarchy.shared.n_products + found["words"]
            return SearchCounts(n_rows + found["entries"], n_words)

        return counts

    def _enqueue(self, n_sources: int, n_lanes: int, n_columns: int) -> None:
        """Launch the kernels of a batch."""
        hierarchy = self._hierarchy
        if n_cleared := int(self._call["n_cleared"][0]):
            self._kernels["clear_kernel"](max(1, min(n_cleared // _BLOCK, 2**12)), _BLOCK, (self._bytes,))
        climb_block, seed_block = _BLOCKS_OF_FEW if n_sources <= _FEW else _BLOCKS_OF_MANY
        self._kernels["climb_kernel"](n_sources, climb_block, (self._bytes,), shared_bytes=self._shared_bytes)
        few = self._few_lanes
        n_groups = -(-n_sources // few) if few else 0
        n_blocks = (n_groups * few or n_lanes) * (hierarchy.n_bands - 1 + _TOP_BLOCKS)
        self._kernels["seed_kernel"](n_blocks, seed_block, (self._bytes,))
        self._climb_together(n_lanes)
        if few:
            self._sweep_few(n_groups, n_columns)
            return
        self._sweep(n_lanes)
        if n_columns:
            squares = -(-n_columns // _SIDE) * -(-n_sources // _LANES_SIDE[hierarchy.bits])
            self._kernels["rows_kernel"](squares, _BLOCK, (self._bytes,))

    def _climb_together(self, n_lanes: int) -> None:
        """Enqueue the ways up over shared fronts, from the lowest band up."""
        shared = self._hierarchy.shared
        for first, end, most_boundary, own in reversed(shared.bands):
            n_groups = -(-most_boundary // _FRONT_ROWS) + -(-own.most // _FRONT_ROWS)
            fronts = self._hierarchy.shared_fronts[first:end]
            self._launch_fronts("up", n_lanes, fronts, n_groups, own)

    def _sweep(self, n_lanes: int) -> None:
        """Enqueue the sweep of all bands from the top down."""
        each, blocks_of_lanes = self._lanes_each(LANES_EACH, n_lanes)[0]
        for band in self._swept.bands:
            if band.first_front < band.end_front:
                fronts = self._fronts[band.first_front : band.end_front]
                self._launch_fronts("down", n_lanes, fronts, 1, band.boundary)
            first, end = band.first, band.first_of_fronts
            if first < end:
                n_blocks = blocks_of_lanes * -(-(end - first) // _WARPS)
                args = (self._bytes, np.uint32(first), np.uint32(end))
                self._kernels[f"sweep_{each}_kernel"](n_blocks, _BLOCK, args)
        if self._needed is not None:
            return
        name = f"last_{each}_kernel"
        n_groups = -(-self._hierarchy.n_tiles // _WARPS)
        n_groups = min(n_groups, max(1, self._n_resident[name] // blocks_of_lanes))
        self._kernels[name](blocks_of_lanes * n_groups, _BLOCK, (self._bytes,))

    def _sweep_few(self, n_groups: int, n_columns: int) -> None:
        """Enqueue the sweep of all bands for `n_groups` of few sources, and their rows."""
        hierarchy, each = self._hierarchy, self._few_lanes
        n_steps = 4 * FEW_STEPS[each] // hierarchy.word.itemsize
        sweep, last, rows = (f"few_{name}_{each}_kernel" for name in ("sweep", "last", "rows"))
        for band in self._swept.bands:
            n_tiles, n_warps = n_groups * (band.end - band.first), 1
            # Warps share a tile as long as one does not take its boundary at once, and others are idle.
            while (
                n_warps < _FEW_WARPS
                and n_warps * _FEW_PARTS * n_steps < band.most_boundary
                and 2 * n_warps * n_tiles <= self._n_resident[sweep] * _WARPS
            ):
                n_warps *= 2
            block = max(_BLOCK, 32 * n_warps)
            n_blocks = n_groups * -(-(band.end - band.first) * n_warps * 32 // block)
            args = (self._bytes, *map(np.uint32, (band.first, band.end, n_warps)))
            self._kernels[sweep](n_blocks, block, args)
        if self._needed is None:
            # A thread takes a part of a boundary in one or two steps.
            most = 1.5 * n_steps * hierarchy.n_vertices
            n_parts = next((n for n in (1, 2) if hierarchy.n_products <= n * most), _FEW_PARTS)
            n_blocks = -(-hierarchy.n_tiles * n_parts // (_WARPS * _FEW_PARTS))
            n_blocks = n_groups * min(n_blocks, max(1, self._n_resident[last] // n_groups))
            self._kernels[last](n_blocks, _BLOCK, (self._bytes, np.uint32(n_parts)))
        if n_columns:
            self._kernels[rows](n_groups * -(-n_columns // _BLOCK), _BLOCK, (self._bytes,))

    def _launch_fronts(self, way: str, n_lanes: int, fronts: Any, n_groups: int, by: Sizes) -> None:
        """Enqueue products that lower `n_groups` groups of rows for each front, by as many rows as `by` says."""
        for each, blocks_of_lanes in self._lanes_each(_FRONT_LANES, n_lanes, _FRONT_ACROSS):
            name = f"{way}_{each}_kernel"
            n_each = blocks_of_lanes * n_groups * by.total // (MOST_WAVES * self._n_resident[name])
            n_each = -(-max(LEAST_PART, n_each) // 8) * 8
            n_parts = max(1, -(-by.most // n_each))
            n_blocks = blocks_of_lanes * len(fronts) * n_groups * n_parts
            # With words of 16 bits, blocks are halved while there is less than one for each multiprocessor.
            if self._hierarchy.n_packed == 1 or n_blocks > self._n_resident[name] // 2:
                break
        counts = np.array([n_groups, n_parts, n_each], np.uint32)
        self._kernels[name](n_blocks, _BLOCK, (self._bytes, fronts, *counts))

    def _lanes_each(self, choices: dict[int, tuple[int, ...]], n_lanes: int, n_across: int = 32) -> Any:
        """Return how many packed words each of `n_across` threads may have, and how many blocks there are then."""
        n_words = n_lanes // self._hierarchy.n_packed // n_across
        return [(each, n_words // each) for each in choices[self._hierarchy.bits] if n_words % each == 0]


def _few_lanes(n_sources: int) -> int:
    """Return how many sources a group has in the kernels of `few.cu` that a call takes; 0 if it takes none of them."""
    if n_sources > FEW_SOURCES:
        return 0
    return next((lanes for lanes in FEW_LANES if n_sources <= lanes), FEW_LANES[-1])


def load_for_graph(graph: GraphTraits, n_sources: int, options: SolveOptions) -> None:
    """Do what `load_for_calls` does, for calls of `n_sources` over a graph."""
    cutoff, is_short = options.cutoff is not None, graph.max_weight < INFINITIES[16]
    load_for_calls(graph.weight_dtype, n_sources, cutoff=cutoff, are_short=is_short)


def load_for_calls(dtype: np.dtype, n_sources: int, *, cutoff: bool, are_short: bool) -> None:
    """Begin to load the kernels of calls of `n_sources` over weights of `dtype`, in threads of their own.

    If the weights `are_short`, the distances may fit words of 16 bits, which is not known yet.
    """
    bits = 8 * dtype.itemsize  # words of 32 bits are tried first if weights have 32
    of_calls = [16, bits] if are_short and may_be_short() else [bits]
    sweeps = [_rows_unit(n_sources, of, cutoff=cutoff) for of in of_calls]  # take longest
    others = [unit(of) for unit in (climb_unit, front_rows_unit) for of in of_calls]
    once = [customize_unit(bits), matrices_unit(bits), fronts_unit(bits), SUMMARY]
    if bits == 32:
        once.append(UPLOAD)  # targets and weights alternate only if both have 32 bits
    load_ahead([*sweeps, *others, *once], dtype)


def upload_ahead(graph: CsrGraph) -> None:
    """Upload a graph for the calls that follow. If that fails, a call tries again, and raises."""
    with suppress(Exception), GPU_LOCK:
        graph_on_device(graph)


def make_ahead(graph: CsrGraph, limit_s: float) -> None:
    """Make the hierarchy of a graph with its completion for the calls that follow, which wait for it.

    If that fails, or takes the GPU longer than `limit_s` seconds, a call tries again, and raises.
    """
    with suppress(Exception):
        host = host_hierarchy(graph)
        with GPU_LOCK:
            device_hierarchy(graph_on_device(graph), host, limit_s)


def _rows_unit(n_sources: int, bits: int, *, cutoff: bool) -> Unit:
    """Return the unit of the kernels that make the rows of a call of `n_sources`."""
    return few_unit(bits) if _few_lanes(n_sources) else sweep_unit(bits, cutoff=cutoff)
