"""Many sources at once on graphs with small separators, by min-plus products instead of searches.

`phast_gpu.cu` explains the kernels, `device_hierarchy.py` has what they read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sssp_pipeline.csr import CsrGraph, GraphTraits, unreached_distance
from sssp_pipeline.errors import DeadlineError
from sssp_pipeline.kernels.forecast import Forecast, graph_device_bytes
from sssp_pipeline.kernels.gpu.common.cuda.compile import Unit, cupy_module, load_kernels
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import DeviceGraph
from sssp_pipeline.kernels.gpu.common.rows.device_rows import SearchCounts
from sssp_pipeline.kernels.gpu.common.rows.distance_bits import bits_type, limit_bits
from sssp_pipeline.kernels.gpu.common.rows.transfers import Sent, fetch
from sssp_pipeline.kernels.gpu.common.solvers.batch_solver import BatchNeeds, BatchSearch, GpuBatchSolver
from sssp_pipeline.kernels.gpu.phast_gpu.device_hierarchy import (
    MOST_NARROW,
    TILE_BYTES,
    DeviceHierarchy,
    customize_unit,
    device_hierarchy,
    host_hierarchy,
    matrices_unit,
)
from sssp_pipeline.kernels.hierarchy import costs, metis
from sssp_pipeline.kernels.hierarchy.chunks import MOST_LOW
from sssp_pipeline.kernels.host.search_graph import largest_distance
from sssp_pipeline.kernels.kept import Nothing, Targets
from sssp_pipeline.kernels.solver import SolveOptions

#: Sources of a full device batch.
_FULL = 1024
#: Threads of a block of the sweep and of the rows, and of the seeds; as in `phast_gpu.cu`.
_BLOCK, _SEED_BLOCK = 256, 512
#: How many lanes a thread may have, the most first; with words of 64 bits, at the second place.
LANES_EACH = ((4, 2, 1), (2, 1))
_WARPS = _BLOCK // 32
#: Calls of at most this many sources climb with 1,024 threads a source. In larger calls the other sources fill the GPU.
_FEW = 256
#: Blocks of the seeds of the top.
_TOP_BLOCKS = 4
#: Vertices of a part of `rows_kernel`, and lanes; with words of 64 bits, the second.
_SIDE, _LANES_SIDE = 128, (64, 32)
#: The most shared memory of a block without asking for more.
_SHARED_BYTES = 40 * 2**10
#: Bytes of `Segment` and `Climbed`.
_SEGMENT_BYTES = 16
_CLIMBED = np.dtype([("entries", "u8"), ("words", "u8")])


def sweep_unit(*, wide: bool) -> Unit:
    """Return the unit of the kernels of a call, with words of 64 bits if `wide`."""
    sweeps = tuple(f"{name}_{each}_kernel" for name in ("sweep", "last") for each in LANES_EACH[wide])
    return Unit(
        "phast_gpu", ("climb_kernel", "seed_kernel", *sweeps, "rows_kernel"), (("SSSP_WIDE", int(wide)),)
    )


class PhastGpu(GpuBatchSolver):
    """The fastest solver for many sources on graphs with small separators, if the distances stay on the GPU."""

    name = "phast-gpu"
    summary = "Min-plus products over a hierarchy; the fastest on roads where rows stay on the GPU; integers"
    no_delta = "it has no buckets and takes no delta"
    uses_hierarchy = True
    counts_arcs = True

    @property
    def units(self) -> tuple[Unit, ...]:
        return tuple(
            unit(wide=wide) for wide in (False, True) for unit in (sweep_unit, customize_unit, matrices_unit)
        )

    def supports(self, graph: GraphTraits, options: SolveOptions) -> str | None:
        if (reason := super().supports(graph, options)) is not None:
            return reason
        if graph.weight_dtype.kind == "f":
            return (
                f"it adds weights in another order than along the path, which rounds {graph.weight_dtype} differently; "
                "`adds-slots` takes floats, and `graph.weights.scale` makes integers of decimal weights"
            )
        return metis.missing()

    def forecast(self, traits: GraphTraits, n_sources: int) -> Forecast:
        at_once = max(1, min(n_sources, _FULL))
        n_lanes = lanes_for(at_once)
        row_bytes = traits.n_vertices * traits.weight_dtype.itemsize
        # For roads: what stays on the device, and what its making takes (`benchmarks/results/hierarchy_gpu.jsonl`).
        hierarchy_bytes = 110 * traits.n_vertices + 60 * row_bytes
        return Forecast(
            1.05e-12 * row_bytes * n_lanes / at_once + 100e-6 / at_once,
            2 * row_bytes,
            at_once,
            graph_device_bytes(traits) + hierarchy_bytes + (n_lanes - at_once) * row_bytes,
            off_by=10.0,
            most_in_search=_FULL,
            start_s=costs.left_s(traits),
            host_bytes=costs.host_bytes(traits),
        )

    def _begin(self, graph: CsrGraph, *args: Any) -> Any:
        host_hierarchy(graph)  # takes seconds, without the GPU
        return super()._begin(graph, *args)

    def needs(
        self, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions, n_sources: int
    ) -> BatchNeeds:
        hierarchy = device_hierarchy(on_device, host_hierarchy(graph))
        work = _Work.of(graph.traits, hierarchy, options)
        scratch = _scratch_bytes(hierarchy, work.writes_all)
        spare_lanes = min(lanes_for(min(n_sources, _FULL)), 128)
        return BatchNeeds(spare_lanes * scratch, scratch, _FULL, has_rows=not work.writes_kept)

    def start_batch(
        self, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions, n_sources: int
    ) -> BatchSearch:
        hierarchy = device_hierarchy(on_device, host_hierarchy(graph))
        return _Sweep(
            self.name, on_device, hierarchy, _Work.of(graph.traits, hierarchy, options), options, n_sources
        )


def lanes_for(n_sources: int) -> int:
    """Return how many lanes a sweep from `n_sources` has: few empty ones, and a multiple of 128 for many."""
    step = 32 if n_sources <= 96 else 64 if n_sources <= 384 else 128
    return -(-n_sources // step) * step


@dataclass(frozen=True)
class _Work:
    """What a call wants of the rows."""

    #: Whether rows are reduced to what is kept before they are in the order of the graph.
    writes_kept: bool
    #: The vertices whose distances are written; None for all.
    targets: np.ndarray | None
    #: Whether the distances of the last band are needed beyond its counts.
    writes_all: bool

    @classmethod
    def of(cls, traits: GraphTraits, hierarchy: DeviceHierarchy, options: SolveOptions) -> _Work:
        kept = options.kept
        # A path that is too long for the type is searched in whole rows.
        is_safe = hierarchy.longest is not None and hierarchy.longest + traits.max_weight <= largest_distance(
            traits.weight_dtype
        )
        if is_safe and kept.over_sources is None:
            if isinstance(kept, Nothing):
                return cls(True, np.empty(0, np.uint32), False)
            if isinstance(kept, Targets):
                return cls(True, kept.vertices, True)
        return cls(False, None, True)


def _scratch_bytes(hierarchy: DeviceHierarchy, writes_all: bool) -> int:
    """Return the device memory of a lane."""
    n_rows = hierarchy.n_vertices if writes_all else hierarchy.n_upper
    words = n_rows + hierarchy.n_depths + MOST_LOW
    return (
        words * hierarchy.word.itemsize
        + 4 * hierarchy.n_depths
        + hierarchy.n_chunks // 8
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
        self._name, self._hierarchy, self._work = name, hierarchy, work
        self.writes_kept = work.writes_kept
        unreached = unreached_distance(on_device.dtype).view(bits_type(on_device.dtype))
        limit = int(limit_bits(on_device.dtype, options.cutoff))
        self._limit = hierarchy.word.type(limit if hierarchy.wide else min(limit, MOST_NARROW + 1))
        self._unreached = unreached
        self._deadline_s = options.deadline_s
        self._kernels = load_kernels(sweep_unit(wide=hierarchy.wide), on_device.dtype)
        self._n_resident = {
            each: self._kernels[f"last_{each}_kernel"].resident_blocks(_BLOCK)
            for each in LANES_EACH[hierarchy.wide]
        }
        self._targets = None if work.targets is None else Sent(hierarchy.host_places[work.targets])
        self._places = hierarchy.places if self._targets is None else self._targets.on_device
        self._shared_bytes = hierarchy.n_depths * hierarchy.word.itemsize
        self._is_shared = self._shared_bytes <= _SHARED_BYTES
        n_lanes, n_up, word = lanes_for(n_sources), n_sources * hierarchy.n_depths, hierarchy.word
        self._rows = cupy.empty(
            n_lanes * (hierarchy.n_vertices if work.writes_all else hierarchy.n_upper), word
        )
        self._low_seeds = cupy.empty(n_lanes * MOST_LOW, word)
        self._kept = cupy.empty(0 if self._is_shared else n_up, word)
        self._entry_places, self._entry_distances = cupy.empty(n_up, np.uint32), cupy.empty(n_up, word)
        self._segments = cupy.empty(n_sources * hierarchy.n_segments * _SEGMENT_BYTES, np.uint8)
        self._climbed = cupy.empty(n_sources * _CLIMBED.itemsize, np.uint8)
        self._seeded = cupy.empty(hierarchy.n_chunks * n_lanes // 32, np.uint32)

    def launch(self, rows: Any, sources: np.ndarray, summaries: Any) -> Callable[[], SearchCounts]:
        cupy = cupy_module()
        sent = Sent(sources)
        began, ended = cupy.cuda.Event(), cupy.cuda.Event()
        began.record()
        climbed = self._climb(sent)
        self._sweep(len(sources), summaries)
        n_columns = rows.shape[1]
        if n_columns:
            self._kernels["rows_kernel"](
                -(-n_columns // _SIDE) * -(-len(sources) // _LANES_SIDE[self._hierarchy.wide]),
                _BLOCK,
                (
                    self._rows,
                    self._places,
                    np.uint32(n_columns),
                    np.uint32(len(sources)),
                    np.uint32(lanes_for(len(sources))),
                    self._limit,
                    self._unreached,
                    rows,
                ),
            )
        ended.record()

        def counts(sent: Sent = sent) -> SearchCounts:  # `sent` has to be kept until here
            if cupy.cuda.get_elapsed_time(began, ended) / 1e3 > self._deadline_s:
                raise DeadlineError(
                    self._name, f"sources 0 to {len(sources) - 1} of a batch", self._deadline_s
                )
            found = climbed.view(_CLIMBED)
            hierarchy = self._hierarchy
            return SearchCounts(
                hierarchy.n_vertices + found["entries"], hierarchy.n_products + found["words"]
            )

        return counts

    def _climb(self, sources: Sent) -> np.ndarray:
        """Enqueue the climb from `sources` and its seeds; return the host memory that will hold what it counts."""
        hierarchy, n_sources = self._hierarchy, len(sources.on_device)
        n_lanes = lanes_for(n_sources)
        seeded = self._seeded[: hierarchy.n_chunks * n_lanes // 32]
        seeded.data.memset_async(0, seeded.nbytes)
        n_depths, n_segments = np.uint32(hierarchy.n_depths), np.uint32(hierarchy.n_segments)
        self._kernels["climb_kernel"](
            n_sources,
            1024 if n_sources <= _FEW else 256,
            (
                sources.on_device,
                hierarchy.places,
                hierarchy.chunks_of_places,
                hierarchy.next_chunks,
                hierarchy.shapes,
                hierarchy.boundary,
                hierarchy.marks,
                hierarchy.to_boundary,
                n_depths,
                n_segments,
                np.uint32(self._is_shared),
                self._kept,
                self._entry_places,
                self._entry_distances,
                self._segments,
                self._climbed,
            ),
            shared_bytes=self._shared_bytes if self._is_shared else 0,
        )
        self._kernels["seed_kernel"](
            n_sources * (hierarchy.n_segments - 1 + _TOP_BLOCKS),
            _SEED_BLOCK,
            (
                self._segments,
                n_segments,
                self._entry_places,
                self._entry_distances,
                n_depths,
                hierarchy.shapes,
                hierarchy.from_own,
                np.uint32(hierarchy.first_low),
                np.uint32(n_lanes),
                self._rows,
                self._low_seeds,
                seeded,
            ),
        )
        return fetch(self._climbed[: n_sources * _CLIMBED.itemsize])

    def _sweep(self, n_sources: int, summaries: Any) -> None:
        """Enqueue the sweep of all bands from the top down."""
        hierarchy, n_lanes = self._hierarchy, lanes_for(n_sources)
        each = next(each for each in LANES_EACH[hierarchy.wide] if n_lanes % (32 * each) == 0)
        blocks_of_lanes = n_lanes // (32 * each)
        for first, end in hierarchy.bands[1 : hierarchy.n_upper_bands]:
            self._kernels[f"sweep_{each}_kernel"](
                blocks_of_lanes * -(-(end - first) // _WARPS),
                _BLOCK,
                (
                    hierarchy.tiles[first * TILE_BYTES :],
                    np.uint32(end - first),
                    hierarchy.boundary,
                    hierarchy.from_boundary,
                    self._seeded,
                    np.uint32(n_lanes),
                    self._rows,
                ),
            )
        n_tiles = hierarchy.bands[-1][1]
        n_groups = min(-(-n_tiles // _WARPS), max(1, self._n_resident[each] // blocks_of_lanes))
        self._kernels[f"last_{each}_kernel"](
            blocks_of_lanes * n_groups,
            _BLOCK,
            (
                hierarchy.tiles,
                np.uint32(n_tiles),
                np.uint32(hierarchy.bands[hierarchy.n_upper_bands - 1][1]),
                hierarchy.boundary,
                hierarchy.from_boundary,
                self._seeded,
                self._low_seeds,
                hierarchy.edges_before,
                np.uint32(n_sources),
                np.uint32(n_lanes),
                self._limit,
                np.uint32(self._work.writes_all),
                self._rows,
                summaries,
            ),
        )
