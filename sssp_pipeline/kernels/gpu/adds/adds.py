"""ADDS on one GPU: asynchronous delta-stepping with a delta that adapts; `adds.cu` explains it."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import CsrGraph, GraphTraits
from sssp_pipeline.base.error_text import Either, Text
from sssp_pipeline.base.errors import DeadlineError, SsspError
from sssp_pipeline.kernels.contract.forecast import Forecast, gpu_source_s
from sssp_pipeline.kernels.contract.solver import TRACE, SolveOptions
from sssp_pipeline.kernels.gpu.adds.hub_chunks import CHUNK_EDGES, hub_chunks
from sssp_pipeline.kernels.gpu.common.cuda.compile import Unit, cupy_module, load_kernels
from sssp_pipeline.kernels.gpu.common.cuda.struct_types import struct_type
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import DeviceGraph, drop_others, free_bytes
from sssp_pipeline.kernels.gpu.common.rows.device_rows import SearchCounts
from sssp_pipeline.kernels.gpu.common.rows.distance_bits import bits_type, limit_bits
from sssp_pipeline.kernels.gpu.common.solvers.gpu_solver import GpuSearch, GpuSearchSolver, largest_grid
from sssp_pipeline.kernels.gpu.common.solvers.stalled import FREE_AGAIN, StalledError

#: The first delta, in units of mean weight over mean degree, for graphs with many edges a vertex and no hubs.
DELTA_FACTOR = 16.0
#: Threads of a block. Each warp of every block but the first is a worker. With more threads, registers are spilled.
THREADS = 640
#: A search without progress for this long is given up.
STALL_TIMEOUT_S = 20.0

_KERNEL = "adds_search_kernel"
#: As in `bucket_queue.cuh`, `adds_worker.cuh`, `adds_manager.cuh` and `adds_control.cuh`.
_MOST_CHAIN, _MOST_HEADS, _FLAGS_EACH = 16, 4, 6
_BUCKETS, _PAGE_ENTRIES, _SEGMENTS = 32, 65536, 2048
#: Pages whose entries 32 bits can number.
_MOST_PAGES = 2**32 // _PAGE_ENTRIES
#: 64-bit words of control memory before the tables: schedule, poison, stop, working, steps, reserved.
#: `_POISON_WORD` is the position of poison.
_CONTROL_WORDS = 16 + 4 * 16 + _BUCKETS * 16
_POISON_WORD = 16
_CONTROL = Path(__file__).with_name("adds_control.cuh")
_TUNING, _REPORT = struct_type(_CONTROL, "Tuning"), struct_type(_CONTROL, "Report")
#: A moment of a trace as the kernel writes it; `time_ns` wraps around.
_MOMENT = struct_type(_CONTROL, "Trace")
#: At most this many moments of one search are recorded.
_MOST_MOMENTS = 200_000
_POISON = {2: "nothing moved for {timeout_s:g} s", 4: "more than 2^32 entries were made in one bucket"}
_NOT_STARTED, _POOL_EXHAUSTED, _NOTHING_MOVED, _DEADLINE, _INVARIANT = 0, 1, 2, 3, 100


@dataclass(frozen=True)
class Tuning:
    """Settings of `adds` for experiments; its defaults were the fastest (`benchmarks/adds_delta_tried.md`)."""

    #: Whether delta adapts. False is the paper's "static delta".
    is_dynamic: bool = True
    #: Buckets in use, 2 to 32. Two and a static delta are the paper's "2 buckets".
    n_buckets: int = _BUCKETS
    #: Delta stays as it is while the mean share of busy workers is between these.
    low: float = 0.2
    high: float = 0.95
    #: Delta grows if the last bucket holds more than this share of the waiting entries.
    clipped: float = 0.65
    #: Delta stays within this factor of the first delta, unless entries are clipped.
    growth: float = 4.0
    #: Head switches between two changes of delta.
    settling: int = 8
    #: Buckets from which work is taken at first.
    first_heads: int = 2
    #: Buckets from which work is taken at most, up to 4.
    most_heads: int = 4
    #: Limits of the entries in one assignment.
    least_entries: int = 1
    most_entries: int = 128
    #: How many near vertices a worker keeps and expands itself, 0 to 16. With 0 all of them go through the queue.
    chain: int = 8
    #: Whether a distance is read before the atomic minimum. None decides by the degrees.
    look_first: bool | None = None
    #: Whether to compile assertions of the invariants.
    checked: bool = False
    #: Threads of a block, 64 or more.
    threads: int = THREADS
    #: The first delta in units of mean weight over mean degree. None takes it from the degrees.
    delta_factor: float | None = None


class Adds(GpuSearchSolver):
    """Asynchronous dynamic delta-stepping, one source over the whole GPU.

    Parameters
    ----------
    tuning
        See `Tuning`; the ablations of the paper's section 6 are `STATIC_DELTA` and `TWO_BUCKETS`.
    stall_timeout_s
        A search without progress for this long is given up.
    pool_pages
        Pages of 65,536 entries in the worklist at first. None takes the usual number for the graph. An exhausted pool
        is doubled, up to 65,536 pages, and the search from this source starts again.

    References
    ----------
    Wang, Fussell, Lin, "A fast work-efficient SSSP algorithm for GPUs", PPoPP 2021, section 5.
    """

    name = "adds"
    summary = "Asynchronous delta-stepping with a delta that adapts; one source over a whole GPU"
    records_traces = True

    def __init__(
        self,
        tuning: Tuning | None = None,
        *,
        stall_timeout_s: float = STALL_TIMEOUT_S,
        pool_pages: int | None = None,
    ) -> None:
        self.tuning = tuning or Tuning()
        self.stall_timeout_s = stall_timeout_s
        self.pool_pages = pool_pages
        self.last_report: Any = None
        #: Pages of each graph whose pool was exhausted.
        self.grown: weakref.WeakKeyDictionary[CsrGraph, int] = weakref.WeakKeyDictionary()

    @property
    def units(self) -> tuple[Unit, ...]:
        """What is compiled."""
        macros = (("SSSP_THREADS", self.tuning.threads), ("SSSP_CHECK", int(self.tuning.checked)))
        return (Unit("adds", (_KERNEL,), macros, cooperative=True),)

    def supports(self, graph: GraphTraits, options: SolveOptions) -> str | None:
        if graph.n_vertices + graph.n_edges // CHUNK_EDGES * 2 >= 2**32 - 64:
            return f"it numbers vertices and chunks of edges in 32 bits, and there are {graph.n_vertices} vertices"
        return super().supports(graph, options)

    def pool_for(self, graph: CsrGraph, n_entries: int) -> int:
        """Return the pages of a new worklist: two a bucket and four entries a vertex, or as many as it grew to."""
        usual = self.pool_pages or 2 * _BUCKETS + 4 * -(-n_entries // _PAGE_ENTRIES)
        return min(self.grown.get(graph, usual), _MOST_PAGES)

    def forecast(self, traits: GraphTraits, n_sources: int) -> Forecast:
        del n_sources
        # Two arrays of distances, and pages for four entries a vertex and two pages a bucket.
        scratch = 18 * 10**6 + traits.n_vertices * (2 * traits.weight_dtype.itemsize + 17)
        return Forecast(gpu_source_s(traits, 2.2e-6, 40e-12, 0.4e-9), scratch)

    def start(self, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions) -> GpuSearch:
        return _AddsSearch(self, graph, on_device, options)


#: The ablations of the paper's section 6.5.
STATIC_DELTA = Tuning(is_dynamic=False)
TWO_BUCKETS = Tuning(is_dynamic=False, n_buckets=2, first_heads=1, most_heads=1)


def pick_delta(graph: CsrGraph, factor: float | None = None) -> float:
    """Return the first delta: mean weight over mean degree, as in the paper's section 4.3, times a factor.

    One factor for all graphs is far from the best on most graphs, as section 4.3 says too. So `delta_factor` picks it
    unless it is given.
    """
    traits = graph.traits
    if factor is None:
        factor = delta_factor(graph)
    delta = factor * traits.mean_weight * graph.n_vertices / max(graph.n_edges, 1)
    return min(max(delta, least_delta(graph.weight_dtype)), 1e300)


def delta_factor(graph: CsrGraph) -> float:
    """Return the first delta in units of mean weight over mean degree, made from the degrees.

    With few edges a vertex, few vertices are in work at a time, so delta must be larger. With hubs, very many are, so
    delta may be smaller. The formula was fitted to the best static factor of each graph
    (`benchmarks/kernel_constants.md`).
    """
    degree = graph.n_edges / max(graph.n_vertices, 1)
    sparse = min(max((8 / max(degree, 1e-9)) ** 2, 1.0), 8.0)
    skewed = min(max(graph.traits.degree_skew / 32, 1.0), 8.0)
    return DELTA_FACTOR * sparse / skewed


def least_delta(dtype: np.dtype) -> float:
    """Return the least delta that makes sense for weights of `dtype`."""
    return float(np.finfo(dtype).tiny) if dtype.kind == "f" else 1.0


def trace_of(moments: np.ndarray) -> np.ndarray:
    """Return the kernel's records (M,) of `_MOMENT` as (M,) of `TRACE`.

    The kernel's clock has 32 bits and wraps around every 4.3 s. Two moments are never that far apart, so their
    difference in 32 bits is right.
    """
    trace = np.empty(len(moments), TRACE)
    steps_ns = np.diff(moments["time_ns"], prepend=np.uint32(0))
    trace["time_us"] = np.cumsum(steps_ns, dtype=np.uint64) / 1e3
    for name, kernels in (("busy_workers", "busy"), ("words_queued", "queued"), ("head_buckets", "n_heads")):
        trace[name] = moments[kernels]
    trace["delta"] = moments["delta"]
    return trace


class _AddsSearch(GpuSearch):
    def __init__(self, solver: Adds, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions) -> None:
        cupy = cupy_module()
        self._solver = solver
        self._graph, self._host_graph = on_device, graph
        tuning = solver.tuning
        (unit,) = solver.units
        self._kernel = load_kernels(unit, on_device.dtype, wide_offsets=on_device.wide_offsets)[_KERNEL]
        self._threads = tuning.threads
        most_workers = _FLAGS_EACH * (self._threads - 32)
        self._grid = largest_grid(self._kernel, self._threads, 1 + most_workers // (self._threads // 32))
        if self._grid < 2:
            raise SsspError(
                "`adds` needs room for two blocks at once, and this GPU has room for one",
                hint=Text(
                    Either("set fewer threads a block among `solve.options`, or "), "take another solver"
                ),
            )
        self._hubs = hub_chunks(on_device, graph)
        self._limit = limit_bits(on_device.dtype, options.cutoff)
        n_entries = on_device.n_vertices + self._hubs.n_chunks
        self._processed = cupy.empty(n_entries, bits_type(on_device.dtype))
        self._make_pool(solver.pool_for(graph, n_entries))
        self._delta = (
            pick_delta(graph, tuning.delta_factor) if options.delta is None else float(options.delta)
        )
        self._n_traces = 0 if options.trace_every_us is None else _MOST_MOMENTS
        self._tuning = cupy.asarray(self._settings(graph, options).view(np.uint8))
        self._report = cupy.empty(_REPORT.itemsize, np.uint8)
        self._traces = cupy.empty(max(self._n_traces, 1) * _MOMENT.itemsize, np.uint8)
        self._deadline_s = options.deadline_s
        self._source = 0
        self._known_poison: int | None = None

    def _settings(self, graph: CsrGraph, options: SolveOptions) -> np.ndarray:
        """Return the kernel's `Tuning`, (1,) of `_TUNING`."""
        tuning, dtype = self._solver.tuning, graph.weight_dtype
        settings = np.zeros(1, _TUNING)
        for name in _TUNING.names or ():
            if hasattr(tuning, name) and getattr(tuning, name) is not None:
                settings[name] = getattr(tuning, name)
        if tuning.look_first is None:
            settings["look_first"] = graph.n_edges > 8 * graph.n_vertices and graph.traits.degree_skew > 2
        settings["most_heads"] = min(tuning.most_heads, tuning.n_buckets - 1, _MOST_HEADS)
        settings["first_heads"] = min(tuning.first_heads, settings["most_heads"][0])
        settings["chain"] = min(tuning.chain, _MOST_CHAIN)
        settings["delta"] = self._delta
        settings["least_delta"] = max(self._delta / tuning.growth, min(least_delta(dtype), self._delta))
        settings["most_delta"] = min(self._delta * tuning.growth, 1e300)
        settings["n_traces"] = self._n_traces
        settings["trace_every_ns"] = 1000 * (options.trace_every_us or 0)
        settings["patience_ns"] = int(1e9 * self._solver.stall_timeout_s)
        settings["deadline_ns"] = options.deadline_ns
        return settings

    def _make_pool(self, n_pages: int) -> None:
        cupy = cupy_module()
        self._n_pages, self._n_mappings = n_pages, 1 << n_pages.bit_length()
        n_workers = (self._grid - 1) * self._threads // 32
        self._entries = cupy.empty(n_pages * _PAGE_ENTRIES, np.uint32)
        self._counters = cupy.empty(n_pages * (_SEGMENTS + 3), np.uint32)
        self._control = cupy.empty(_CONTROL_WORDS + _BUCKETS * self._n_mappings + n_workers, np.uint64)

    @property
    def _poison(self) -> int:
        """The code of why the last launch was given up, or 0. That launch must be over."""
        if self._known_poison is None:
            self._known_poison = int(self._control[_POISON_WORD : _POISON_WORD + 1].get()[0] & 0xFFFFFFFF)
        return self._known_poison

    def launch(self, distances: Any, source: int) -> None:
        self._source, self._known_poison = source, None
        self._control.data.memset_async(0, self._control.nbytes)
        self._report.data.memset_async(0, _REPORT.itemsize)
        n_vertices, _ = self._graph.sizes
        of_search = np.uint32(source), self._limit, distances, self._processed
        pool = self._entries, self._counters, np.uint32(self._n_pages), np.uint32(self._n_mappings)
        state = self._control, self._tuning, self._report, self._traces
        timeout_ns = np.uint64(1e9 * self._solver.stall_timeout_s)
        args = (*self._graph.args, n_vertices, *self._hubs.args, *of_search, *pool, *state, timeout_ns)
        self._kernel(self._grid, self._threads, args)

    def grow(self) -> bool:
        if self._poison != _POOL_EXHAUSTED:
            return False
        n_pages, wanted = self._n_pages, min(2 * self._n_pages, _MOST_PAGES)
        if wanted == n_pages:
            raise _too_few(n_pages, "that is the most there can be")
        while True:
            self._entries = self._counters = self._control = None  # frees their memory
            try:
                self._make_pool(wanted)
            except cupy_module().cuda.memory.OutOfMemoryError as error:
                if not drop_others(self._host_graph):
                    needed = wanted * (_PAGE_ENTRIES + _SEGMENTS) * 4 / 2**20
                    lacking = (
                        f"{wanted} need {needed:,.0f} MiB, of which {free_bytes() / 2**20:,.0f} are free"
                    )
                    raise _too_few(n_pages, lacking) from error
            else:
                self._solver.grown[self._host_graph] = wanted
                return True

    def finish(self) -> SearchCounts:
        report = self._report.get().view(_REPORT)[0]
        self._solver.last_report = report
        if self._poison or report["poison"]:
            raise self._given_up(report)
        return SearchCounts(
            vertices_processed=int(report["vertices_processed"]),
            edges_relaxed=int(report["edges_relaxed"]),
            delta_first=self._delta,
            delta_last=float(report["delta_last"]),
            delta_changes=int(report["delta_changes"]),
            trace=self._trace(int(report["n_traces"])) if self._n_traces else None,
        )

    def _trace(self, count: int) -> np.ndarray:
        return trace_of(self._traces[: count * _MOMENT.itemsize].get().view(_MOMENT))

    def _given_up(self, report: np.void) -> SsspError:
        what, poison = f"source {self._source}", self._poison
        state = (
            f"; {report['n_busy']} workers busy, {report['queued']} entries waiting, head bucket {report['head']} "
            f"after {report['head_switches']} switches, delta {report['delta_last']:g}, {report['pages_used']} of "
            f"{self._n_pages} pages used"
        )
        if poison == _DEADLINE:
            return DeadlineError(self._solver.name, self._source, self._deadline_s, state)
        if poison == _NOT_STARTED:
            reason = f"some of its {self._grid} blocks did not start"
        elif poison > _INVARIANT:
            reason = f"invariant I{poison - _INVARIANT} does not hold"
        else:
            reason = _POISON[poison].format(timeout_s=self._solver.stall_timeout_s)
        message = f"`{self._solver.name}` gave up {what}: {reason}{state}"
        if poison in (_NOT_STARTED, _NOTHING_MOVED):
            return StalledError(message)
        return SsspError(message, hint=FREE_AGAIN)


def _too_few(n_pages: int, why: str) -> SsspError:
    return SsspError(
        f"the worklist of `adds` is full: its {n_pages:,} pages are too few, and {why}",
        hint="use `near-far`, whose worklist does not grow",
    )
