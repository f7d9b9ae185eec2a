"""Many sources at once that share each edge scan, 32 or 64 lanes a group; `adds_lanes.cu` tells how and why."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sssp_pipeline.csr import CsrGraph, GraphTraits
from sssp_pipeline.errors import DeadlineError, SsspError
from sssp_pipeline.kernels.forecast import Forecast, depth, graph_device_bytes
from sssp_pipeline.kernels.gpu.adds_lanes.incoming import incoming_edges
from sssp_pipeline.kernels.gpu.common.batch_solver import BatchNeeds, BatchSearch, GpuBatchSolver
from sssp_pipeline.kernels.gpu.common.compile import (
    Kernel,
    Unit,
    cupy_module,
    load_kernels,
)
from sssp_pipeline.kernels.gpu.common.device_graph import DeviceGraph
from sssp_pipeline.kernels.gpu.common.device_rows import SearchCounts
from sssp_pipeline.kernels.gpu.common.distance_bits import limit_bits
from sssp_pipeline.kernels.gpu.common.edge_lists import TRANSPOSE
from sssp_pipeline.kernels.gpu.common.gpu_solver import PAST_DEADLINE
from sssp_pipeline.kernels.solver import SolveOptions

#: Delta begins at this many times the mean weight over the mean degree: of 0.3, 1 and 3, all within 4 % of each other
#: on R-MAT 20 and 22 on an H200.
DELTA_FACTOR = 1.0
#: It is multiplied by this whenever the threshold moves on. On R-MAT 20, 1 took 1.36 times as long, 1.5 1.03 times,
#: 4 0.94 times (R-MAT 22: 0.96); R-MAT 24 was not tried.
DELTA_GROWTH = 2.0
#: Threads a block, and blocks on a multiprocessor: 3 times 512 and 4 times 256 took 2 to 3 % longer on R-MAT 20.
THREADS = 512
BLOCKS_PER_SM = 2
#: How long a block waits for the others before it gives the run up; the longest pass takes far less.
BARRIER_TIMEOUT_S = 30.0
#: Sources of a device batch: enough groups that what the host does between batches hardly counts.
_FULL = 256
#: Weights up to which narrow lanes are tried: a path of 32 such edges fits.
_MOST_TRIED = 1023

_SEARCH, _ROWS = "adds_lanes_search_kernel", "adds_lanes_rows_kernel"
_ROWS_BLOCK = 256
#: As in `adds_lanes.cu`, `lane_passes.cuh` and `lane_words.cuh`.
_NARROW_LIMIT = 0x7FFF
_CHUNK, _PUSH_SHARE = 256, 20
_NO_SOURCE = 2**32 - 1


class AddsLanes(GpuBatchSolver):
    """Groups of sources that share each edge scan, a group over the whole GPU.

    Parameters
    ----------
    threads, blocks_per_sm
        Shape of the launch.
    narrow
        Whether distances are tried in 16 bits where they may fit.
    barrier_timeout_s
        A run in which a block waits longer than this for the others is given up.
    absent_blocks
        For tests: wait for so many blocks that are not there.
    """

    name = "adds-lanes"
    summary = "32 or 64 sources share each edge scan; many sources on graphs with hubs and short paths"

    def __init__(
        self,
        *,
        threads: int = THREADS,
        blocks_per_sm: int = BLOCKS_PER_SM,
        narrow: bool = True,
        barrier_timeout_s: float = BARRIER_TIMEOUT_S,
        absent_blocks: int = 0,
    ) -> None:
        self.threads = threads
        self.blocks_per_sm = blocks_per_sm
        self.narrow = narrow
        self.barrier_timeout_s = barrier_timeout_s
        self.absent_blocks = absent_blocks

    def unit(self, *, narrow: bool) -> Unit:
        macros = (
            ("SSSP_THREADS", self.threads),
            ("SSSP_BLOCKS_PER_SM", self.blocks_per_sm),
            ("SSSP_NARROW", int(narrow)),
        )
        return Unit("adds_lanes", (_SEARCH, _ROWS), macros, cooperative=True)

    @property
    def units(self) -> tuple[Unit, ...]:
        return TRANSPOSE, self.unit(narrow=False), self.unit(narrow=True)

    def forecast(self, traits: GraphTraits, n_sources: int) -> Forecast:
        # Calls of 1,024 take up to 18 % less than calls of 256.
        at_once = max(1, min(n_sources, 1024))
        n_lanes = min(at_once, 256)
        n_vertices, n_edges, itemsize = traits.n_vertices, traits.n_edges, traits.weight_dtype.itemsize
        # The graph by target with the other end of each edge and the distances to a hub; a line of 32 lanes a vertex.
        fixed = (
            graph_device_bytes(traits) + 4 * n_edges + n_vertices * (33 * itemsize + 12) + n_edges * 2 // 5
        )
        # What the lanes share depends on how long the paths are. 3 to 4 ps an element on R-MAT 20 to 24 (skew above
        # 100), 8 on random graphs (1.1), 85 on a web graph (5), 160 on a mesh, 500 to 1,300 on roads and lattices.
        degree = n_edges / max(n_vertices, 1)
        longer = 200.0 if degree < 4.5 else 60.0 if degree < 16 else 8.0
        lane_s = 3.5e-12 * min(max(1.0, 32 / traits.degree_skew) ** 1.8, longer) * (n_vertices + n_edges)
        empty_lanes = -(-n_lanes // 64) * 64 / n_lanes
        waiting_s = 12e-6 * depth(traits) / n_lanes
        return Forecast(
            lane_s * empty_lanes + waiting_s,
            n_vertices * itemsize,
            at_once,
            fixed,
            off_by=30.0 if degree < 16 else 8.0,
            most_in_search=64,
        )

    def needs(self, graph: CsrGraph, on_device: DeviceGraph, n_sources: int) -> BatchNeeds:
        del n_sources
        incoming_edges(on_device, graph)  # like the graph, it is there before the rest is counted
        return BatchNeeds(sum(_scratch_bytes(on_device).values()), 64, _FULL)

    def start_batch(
        self, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions, n_sources: int
    ) -> BatchSearch:
        return _LanesSearch(self, graph, on_device, options, n_sources)


def pick_delta(graph: CsrGraph) -> float:
    """Return the delta to begin with, a fixed factor times mean weight over mean degree."""
    return DELTA_FACTOR * graph.traits.mean_weight * graph.n_vertices / max(graph.n_edges, 1)


def fits_narrow(dtype: np.dtype, max_weight: float, limit: int) -> bool:
    """Return whether 16 bits a distance are worth trying: they are sure to do, or paths of 32 edges fit."""
    if dtype.kind == "f" or max_weight > _NARROW_LIMIT:
        return False
    return limit <= _NARROW_LIMIT or max_weight <= _MOST_TRIED


def _scratch_bytes(graph: DeviceGraph) -> dict[str, int]:
    """Return the bytes of each array that a group of lanes takes, by the kernel's name for it."""
    pieces = graph.n_edges // _PUSH_SHARE
    return {
        "lines": graph.n_vertices * 32 * graph.dtype.itemsize,
        "changed": graph.n_vertices * 8,
        "keys": graph.n_vertices * 4,
        "active_words": (graph.n_vertices // 32 + 1) * 4,
        "pieces": (pieces + pieces // _CHUNK + 1) * 8,
    }


@dataclass(frozen=True)
class _Width:
    """The kernels for lanes of one width, and what they are launched with."""

    n_lanes: int
    kernels: dict[str, Kernel]
    grid: int
    limit: np.generic
    #: A distance beyond this leaves no room for one more edge.
    most: np.generic
    state: np.dtype


@dataclass(frozen=True)
class _Run:
    """One launch of the search: its lanes are the sources from `first` on, its state stands at `place`."""

    width: _Width
    first: int
    n_rows: int
    place: int


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
        #: Set by the first group whose distances do not fit; the others then begin with whole words.
        self._is_wide = cupy.empty(1, np.uint32)
        self._is_wide.set(np.array([not is_narrow], np.uint32))

        self._scratch = {name: cupy.empty(n, np.uint8) for name, n in _scratch_bytes(on_device).items()}
        most_lanes = self._widths[0].n_lanes
        self._sources = cupy.empty(math.ceil(n_sources / most_lanes) * most_lanes, np.uint32)
        self._states = cupy.empty(sum(r.width.state.itemsize for r in self._runs_for(n_sources)), np.uint8)
        self._runs: list[_Run] = []
        self._n_sources = 0

    def _width(self, is_narrow: bool, limit: np.generic, most: np.generic) -> _Width:
        n_lanes = 64 if is_narrow else 32
        unit = self._solver.unit(narrow=is_narrow)
        kernels = load_kernels(unit, self._graph.dtype, wide_offsets=self._graph.wide_offsets)
        grid = kernels[_SEARCH].resident_blocks(self._solver.threads)
        return _Width(n_lanes, kernels, grid, limit, most, _state(n_lanes))

    def _runs_for(self, n_sources: int) -> list[_Run]:
        """Return the launches for so many sources: for each group one narrow, then the same lanes whole."""
        runs: list[_Run] = []
        place = 0
        group = self._widths[0].n_lanes
        for begin in range(0, n_sources, group):
            for width in self._widths:
                for first in range(begin, min(begin + group, n_sources), width.n_lanes):
                    runs.append(_Run(width, first, min(width.n_lanes, n_sources - first), place))
                    place += width.state.itemsize
        return runs

    def launch(self, rows: Any, sources: np.ndarray) -> None:
        lanes = np.full(self._sources.size, _NO_SOURCE, np.uint32)
        lanes[: len(sources)] = sources
        self._sources.set(lanes)
        self._states.data.memset_async(0, self._states.nbytes)
        self._n_sources, self._runs = len(sources), self._runs_for(len(sources))
        graph, incoming, scratch = self._graph, self._incoming, self._scratch
        n_vertices = np.uint32(graph.n_vertices)
        for run in self._runs:
            width = run.width
            args = (
                *graph.args,
                incoming.graph.edges,
                incoming.graph.weights,
                incoming.targets,
                n_vertices,
                graph.row_offsets.dtype.type(graph.n_edges),
                self._sources[run.first :],
                incoming.to_hub,
                width.limit,
                width.most,
                np.float32(self._delta),
                np.float32(self._growth),
                *(scratch[name] for name in ("lines", "changed", "keys", "active_words", "pieces")),
                self._is_wide,
                self._states[run.place :],
                np.uint32(width.grid + self._solver.absent_blocks),
                np.uint64(1e9 * self._solver.barrier_timeout_s),
                self._deadline_ns,
            )
            width.kernels[_SEARCH](width.grid, self._solver.threads, args)
            into = rows[run.first : run.first + run.n_rows]
            args = scratch["lines"], n_vertices, np.uint32(run.n_rows), self._limit, self._is_wide, into
            kernel = width.kernels[_ROWS]
            kernel(kernel.resident_blocks(_ROWS_BLOCK), _ROWS_BLOCK, args)

    def finish(self) -> SearchCounts:
        states = self._states.get()
        vertices, edges = (np.zeros(self._n_sources, np.uint64) for _ in range(2))
        delta_last = np.full(self._n_sources, self._delta)
        delta_changes = np.zeros(self._n_sources, np.int64)
        for run in self._runs:
            state = states[run.place : run.place + run.width.state.itemsize].view(run.width.state)[0]
            which = f"sources {run.first} to {run.first + run.n_rows - 1} of a batch"
            if state["poison"] == PAST_DEADLINE:
                raise DeadlineError(self._solver.name, which, self._deadline_s)
            if state["poison"]:
                grid, timeout_s = run.width.grid, self._solver.barrier_timeout_s
                raise SsspError(
                    f"`adds-lanes` gave up {which}: after {timeout_s:g} s at barrier {state['poison'] - 1}, only "
                    f"{state['arrived'] % grid} of {grid} blocks had arrived",
                    hint="the GPU is free again; if this repeats, report it with the graph, and use another solver",
                )
            if state["sweeps"] == 0:
                continue  # its sources were left to the other width
            changes = int(state["sweeps"]) - int(state["pulls"]) - int(state["pushes"])
            part = slice(run.first, run.first + run.n_rows)
            vertices[part] += state["vertices_processed"][: run.n_rows]
            edges[part] += state["edges_relaxed"][: run.n_rows]
            delta_last[part] = state["delta"]
            delta_changes[part] = changes if self._growth != 1 else 0
        return SearchCounts(vertices, edges, self._delta, delta_last, delta_changes)


def _state(n_lanes: int) -> np.dtype:
    """Return the kernel's `State`."""
    return np.dtype(
        [
            ("arrived", "u4"),
            ("poison", "u4"),
            ("least_key_complement", "u4", 3),
            ("n_pieces", "u4"),
            ("n_edges", "u8", 3),
            ("sweeps", "u4"),
            ("pulls", "u4"),
            ("pushes", "u4"),
            ("delta", "f4"),
            ("vertices_processed", "u8", n_lanes),
            ("edges_relaxed", "u8", n_lanes),
        ]
    )
