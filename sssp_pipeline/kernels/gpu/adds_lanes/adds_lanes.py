"""Many sources at once that share each edge scan, 32 or 64 lanes a group; `adds_lanes.cu` explains it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import CsrGraph, GraphTraits
from sssp_pipeline.base.errors import DeadlineError
from sssp_pipeline.kernels.contract.forecast import Forecast, graph_device_bytes, levels
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.gpu.adds_lanes.incoming import incoming_edges
from sssp_pipeline.kernels.gpu.common.cuda.compile import Kernel, Unit, cupy_module, load_kernels
from sssp_pipeline.kernels.gpu.common.cuda.struct_types import struct_type
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import DeviceGraph
from sssp_pipeline.kernels.gpu.common.graphs.edge_lists import TRANSPOSE
from sssp_pipeline.kernels.gpu.common.rows.device_rows import SearchCounts
from sssp_pipeline.kernels.gpu.common.rows.distance_bits import limit_bits
from sssp_pipeline.kernels.gpu.common.rows.transfers import Sent, fetch
from sssp_pipeline.kernels.gpu.common.solvers.batch_search import BatchNeeds, BatchSearch
from sssp_pipeline.kernels.gpu.common.solvers.batch_solver import GpuBatchSolver
from sssp_pipeline.kernels.gpu.common.solvers.gpu_solver import PAST_DEADLINE
from sssp_pipeline.kernels.gpu.common.solvers.stalled import StalledError

#: The first delta, in units of mean weight over mean degree. It matters little (`benchmarks/kernel_constants.md`).
DELTA_FACTOR = 1.0
#: Delta grows by this factor whenever the threshold moves on. Without growth a search takes about a third longer
#: (`benchmarks/kernel_constants.md`).
DELTA_GROWTH = 2.0
#: Threads of a block and blocks of a multiprocessor. Other shapes were slightly slower on R-MAT.
THREADS = 512
BLOCKS_PER_SM = 2
#: Sources of a full device batch. The host's work between two batches of this size hardly counts.
_FULL = 256
#: Narrow lanes are tried for weights up to this: a path of 32 such edges fits 15 bits.
_MOST_TRIED = 1023

_SEARCH, _ROWS = "adds_lanes_search_kernel", "adds_lanes_rows_kernel"
_ROWS_BLOCK = 256
#: As in `adds_lanes.cu`, `lane_passes.cuh` and `lane_words.cuh`.
_NARROW_LIMIT = 0x7FFF
_PUSH_CHUNK, _PUSH_SHARE = 32, 20
#: Of a place in the list of chunks.
_CHUNK_BYTES = 8
_NO_SOURCE = 2**32 - 1


@dataclass(kw_only=True, eq=False)
class AddsLanes(GpuBatchSolver):
    """Groups of sources that share each edge scan, a group over the whole GPU."""

    #: Whether 16-bit distances are tried where they may fit.
    narrow: bool = True
    #: A search in which a block waits longer than this at a barrier is given up. The longest pass takes far less.
    barrier_timeout_s: float = 30.0
    #: For tests: the barrier waits for this many blocks more than there are.
    absent_blocks: int = 0

    name = "adds-lanes"
    summary = "32 or 64 sources share each edge scan; many sources on graphs with hubs and short paths"
    unites_sources = True

    def unit(self, *, narrow: bool) -> Unit:
        size = ("SSSP_THREADS", THREADS), ("SSSP_BLOCKS_PER_SM", BLOCKS_PER_SM)
        macros = (*size, ("SSSP_NARROW", int(narrow)))
        return Unit("adds_lanes", (_SEARCH, _ROWS), macros, cooperative=True)

    @property
    def units(self) -> tuple[Unit, ...]:
        return TRANSPOSE, self.unit(narrow=False), self.unit(narrow=True)

    def forecast(self, traits: GraphTraits, n_sources: int) -> Forecast:
        at_once = max(1, min(n_sources, 1024))
        n_vertices, n_edges, itemsize = traits.n_vertices, traits.n_edges, traits.weight_dtype.itemsize
        # The edges by target with both ends, the distances to the hub, and a line of 32 lanes for each vertex.
        fixed = (
            graph_device_bytes(traits) + 4 * n_edges + n_vertices * (33 * itemsize + 20) + n_edges * 2 // 5
        )
        # Up to 64 sources take as long as one. The longer the paths, the more often it reads an edge.
        n_levels = levels(traits)
        search_s = 1.1e-3 + 44e-6 * n_levels + 108e-12 * math.sqrt(n_levels) * (n_vertices + n_edges)
        return Forecast(
            search_s / min(at_once, 64),
            n_vertices * itemsize,
            at_once,
            fixed,
            off_by=8.0,
            most_in_search=64,
        )

    def needs(
        self, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions, n_sources: int
    ) -> BatchNeeds:
        del options, n_sources
        incoming_edges(on_device, graph)  # made before the free memory is counted, as the graph is
        return BatchNeeds(sum(_scratch_bytes(on_device).values()), 64, _FULL)

    def start_batch(
        self, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions, n_sources: int
    ) -> BatchSearch:
        return _LanesSearch(self, graph, on_device, options, n_sources)


def pick_delta(graph: CsrGraph) -> float:
    """Return the first delta, a fixed factor times mean weight over mean degree."""
    return DELTA_FACTOR * graph.traits.mean_weight * graph.n_vertices / max(graph.n_edges, 1)


def fits_narrow(dtype: np.dtype, max_weight: float, limit: int) -> bool:
    """Return whether to try 16-bit distances: all distances up to `limit` fit, or paths of 32 edges do."""
    if dtype.kind == "f" or max_weight > _NARROW_LIMIT:
        return False
    return limit <= _NARROW_LIMIT or max_weight <= _MOST_TRIED


def _scratch_bytes(graph: DeviceGraph) -> dict[str, int]:
    """Return the bytes of each scratch array of a group of lanes, in the order of the kernel's arguments."""
    n_pushed = graph.n_edges // _PUSH_SHARE
    return {
        "lines": graph.n_vertices * 32 * graph.dtype.itemsize,
        "changed": graph.n_vertices * 8,
        "keys": graph.n_vertices * 4,
        "lowest": graph.n_vertices * 4,
        "highest": graph.n_vertices * 4,
        "active_words": (graph.n_vertices // 32 + 1) * 4,
        "chunks": (n_pushed + n_pushed // _PUSH_CHUNK + 1) * _CHUNK_BYTES,
    }


@dataclass(frozen=True)
class _Width:
    """The kernels for lanes of one width, and the arguments that depend on it."""

    n_lanes: int
    kernels: dict[str, Kernel]
    grid: int
    limit: np.generic
    #: From a distance above this, one more edge may not fit the lane.
    most: np.generic
    state: np.dtype


@dataclass(frozen=True)
class _Launch:
    """One launch of the search kernel, for `n_sources` sources from `first` on, with its `State` at `state_offset`."""

    width: _Width
    first: int
    n_sources: int
    state_offset: int


class _LanesSearch(BatchSearch):
    def __init__(
        self,
        solver: AddsLanes,
        graph: CsrGraph,
        on_device: DeviceGraph,
        options: SolveOptions,
        n_sources: int,
    ) -> None:
        cupy = cupy_module()
        dtype = on_device.dtype
        self._solver, self._graph = solver, on_device
        self._incoming = incoming_edges(on_device, graph)
        delta = pick_delta(graph) if options.delta is None else float(options.delta)
        self._growth = DELTA_GROWTH if options.delta is None else 1.0
        info = np.finfo(np.float32)
        self._delta = float(np.float32(min(max(delta, float(info.tiny)), float(info.max))))
        self._limit = limit_bits(dtype, options.cutoff)
        self._deadline_s, self._deadline_ns = options.deadline_s, np.uint64(options.deadline_ns)

        whole = type(self._limit)
        none_too_long = ~whole(0)
        self._widths = [self._width(False, self._limit, none_too_long)]
        is_narrow = solver.narrow and fits_narrow(dtype, graph.traits.max_weight, int(self._limit))
        if is_narrow:
            is_sure = self._limit <= _NARROW_LIMIT
            most = none_too_long if is_sure else whole(_NARROW_LIMIT - 1 - int(graph.traits.max_weight))
            self._widths.insert(0, self._width(True, whole(min(int(self._limit), _NARROW_LIMIT)), most))
        #: Set by the first group whose distances do not fit narrow lanes. Later groups then skip the narrow kernel.
        self._is_wide = Sent(np.array([not is_narrow], np.uint32))

        self._scratch = {name: cupy.empty(n, np.uint8) for name, n in _scratch_bytes(on_device).items()}
        n_bytes = sum(launch.width.state.itemsize for launch in self._launches_for(n_sources))
        self._states = cupy.empty(n_bytes, np.uint8)

    def _width(self, is_narrow: bool, limit: np.generic, most: np.generic) -> _Width:
        n_lanes = 64 if is_narrow else 32
        unit = self._solver.unit(narrow=is_narrow)
        kernels = load_kernels(unit, self._graph.dtype, wide_offsets=self._graph.wide_offsets)
        grid = kernels[_SEARCH].resident_blocks(THREADS)
        return _Width(n_lanes, kernels, grid, limit, most, _state(n_lanes))

    def _launches_for(self, n_sources: int) -> list[_Launch]:
        """Return the launches for `n_sources` sources: for each group a narrow one if tried, then wide ones."""
        launches: list[_Launch] = []
        state_offset = 0
        group = self._widths[0].n_lanes
        for begin in range(0, n_sources, group):
            for width in self._widths:
                for first in range(begin, min(begin + group, n_sources), width.n_lanes):
                    n_lanes = min(width.n_lanes, n_sources - first)
                    launches.append(_Launch(width, first, n_lanes, state_offset))
                    state_offset += width.state.itemsize
        return launches

    def launch(self, rows: Any, sources: np.ndarray, summaries: Any) -> Callable[[], SearchCounts]:
        del summaries
        most_lanes = self._widths[0].n_lanes
        lanes = np.full(math.ceil(len(sources) / most_lanes) * most_lanes, _NO_SOURCE, np.uint32)
        lanes[: len(sources)] = sources
        sent = Sent(lanes)
        self._states.data.memset_async(0, self._states.nbytes)
        launches = self._launches_for(len(sources))
        graph, incoming = self._graph, self._incoming
        of_graph = *graph.args, incoming.graph.edges, incoming.graph.weights, incoming.targets, *graph.sizes
        deltas = np.float32(self._delta), np.float32(self._growth)
        timeout_ns = np.uint64(1e9 * self._solver.barrier_timeout_s)
        n_places = np.uint64(self._scratch["chunks"].nbytes // _CHUNK_BYTES)
        for launch in launches:
            width = launch.width
            lanes = sent.on_device[launch.first :], incoming.to_hub, width.limit, width.most, *deltas
            state = self._is_wide.on_device, self._states[launch.state_offset :]
            waiting = np.uint32(width.grid + self._solver.absent_blocks), timeout_ns, self._deadline_ns
            args = (*of_graph, *lanes, *self._scratch.values(), n_places, *state, *waiting)
            width.kernels[_SEARCH](width.grid, THREADS, args)
            into = rows[launch.first : launch.first + launch.n_sources]
            sizes = np.uint32(graph.n_vertices), np.uint32(launch.n_sources)
            args = (self._scratch["lines"], *sizes, self._limit, self._is_wide.on_device, into)
            kernel = width.kernels[_ROWS]
            kernel(kernel.resident_blocks(_ROWS_BLOCK), _ROWS_BLOCK, args)

        states = fetch(self._states)
        return lambda: self._counts(sent, len(sources), launches, states)

    def _counts(
        self, sent: Sent, n_sources: int, launches: list[_Launch], states: np.ndarray
    ) -> SearchCounts:
        del sent  # it had to be kept until here
        vertices, edges = (np.zeros(n_sources, np.uint64) for _ in range(2))
        delta_last = np.full(n_sources, self._delta)
        delta_changes = np.zeros(n_sources, np.int64)
        for launch in launches:
            record = launch.width.state
            state = states[launch.state_offset : launch.state_offset + record.itemsize].view(record)[0]
            if state["poison"]:
                raise self._given_up(launch, state)
            if state["sweeps"] == 0:
                continue  # the kernel of the other width solved these sources
            changes = int(state["sweeps"]) - int(state["pulls"]) - int(state["pushes"])
            part = slice(launch.first, launch.first + launch.n_sources)
            vertices[part] += state["vertices_processed"][: launch.n_sources]
            edges[part] += state["edges_relaxed"][: launch.n_sources]
            delta_last[part] = state["delta"]
            delta_changes[part] = changes if self._growth != 1 else 0
        return SearchCounts(vertices, edges, self._delta, delta_last, delta_changes)

    def _given_up(self, launch: _Launch, state: np.void) -> DeadlineError | StalledError:
        which = f"sources {launch.first} to {launch.first + launch.n_sources - 1} of a batch"
        if state["poison"] == PAST_DEADLINE:
            return DeadlineError(self._solver.name, which, self._deadline_s)
        grid, timeout_s = launch.width.grid, self._solver.barrier_timeout_s
        return StalledError(
            f"`adds-lanes` gave up {which}: after {timeout_s:g} s at barrier {state['poison'] - 1}, only "
            f"{state['arrived'] % grid} of {grid} blocks had arrived"
        )


def _state(n_lanes: int) -> np.dtype:
    """Return the type of the kernel's `State`."""
    return struct_type(Path(__file__).with_name("adds_lanes.cu"), "State", kLanes=n_lanes)
