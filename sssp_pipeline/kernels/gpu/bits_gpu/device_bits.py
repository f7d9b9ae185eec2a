"""The scratch memory of searches in bits on one device, and their launches."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import CsrGraph, largest_distance, unreached_distance
from sssp_pipeline.base.errors import DeadlineError
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.gpu.bits_gpu.bit_edges import bit_edges, bitmap_of
from sssp_pipeline.kernels.gpu.common.cuda.compile import Unit, cupy_module, load_kernels
from sssp_pipeline.kernels.gpu.common.cuda.struct_types import struct_type
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import DeviceGraph
from sssp_pipeline.kernels.gpu.common.rows.distance_bits import bits_type, limit_bits
from sssp_pipeline.kernels.gpu.common.rows.transfers import Sent, fetch
from sssp_pipeline.kernels.gpu.common.solvers.gpu_solver import PAST_DEADLINE, largest_grid
from sssp_pipeline.kernels.gpu.common.solvers.stalled import StalledError

#: Items that a warp takes at once, at most. It takes fewer if each warp would get fewer than `_TURNS` times.
_MOST_TOGETHER, _TURNS = 8, 16
#: Sources for each word of a row that a thread has.
LANES = 1024
_EDGES_BLOCK, _VERTICES_OF_BLOCK = 256, 2048
_BARRIER_BYTES = 8
_HEADER = Path(__file__).with_name("bit_call.cuh")
CALL, STATE = struct_type(_HEADER, "Call"), struct_type(_HEADER, "State")


@dataclass(frozen=True)
class Settings:
    """What is set for the kernels, as fields of `BitsGpu`."""

    name: str
    unit: Unit
    threads: int
    words_each: int
    item_edges: int
    most_counted: int
    barrier_timeout_s: float
    absent_blocks: int
    most_blocks: int | None

    @property
    def n_lanes(self) -> int:
        """How many sources are searched together at most."""
        return LANES * self.words_each


def scratch_bytes(settings: Settings, graph: DeviceGraph, n_hubs: int) -> dict[str, int]:
    """Return the bytes of each scratch array, by their names in `Call`."""
    row, bitmap = settings.n_lanes // 8, -(-graph.n_vertices // 32) * 4
    return {
        "visited": graph.n_vertices * row,
        "fronts": 2 * graph.n_vertices * row,
        "hub_rows": n_hubs * row,
        "hub_parts": n_hubs * 4,
        "active": 3 * bitmap,
        "touched": 2 * bitmap,
        "open": bitmap,
    }


class DeviceBits:
    """Searches from up to `Settings.n_lanes` sources together, one after the other on one stream.

    Parameters
    ----------
    is_counted
        Whether the new vertices of each depth are counted for themselves. Without, all depths are counted together.
    """

    def __init__(
        self,
        settings: Settings,
        graph: CsrGraph,
        on_device: DeviceGraph,
        options: SolveOptions,
        *,
        is_counted: bool,
    ) -> None:
        cupy = cupy_module()
        edges = bit_edges(on_device, settings.unit, settings.item_edges)
        kernels = load_kernels(settings.unit, on_device.dtype, wide_offsets=on_device.wide_offsets)
        self._settings, self._graph, self._edges, self._kernels = settings, on_device, edges, kernels
        self._deadline_s, self._left_ns = options.deadline_s, options.deadline_ns
        self._grid = largest_grid(kernels["bits_gpu_search_kernel"], settings.threads, settings.most_blocks)
        self._edges_grid = max(
            1,
            min(
                kernels["bits_gpu_edges_kernel"].resident_blocks(_EDGES_BLOCK),
                on_device.n_vertices // _VERTICES_OF_BLOCK,
            ),
        )
        sizes = scratch_bytes(settings, on_device, edges.n_hubs)
        self._scratch = {name: cupy.empty(n, np.uint8) for name, n in sizes.items()}
        self._most_counted = settings.most_counted if is_counted else 0
        #: (depths, lanes) uint32 by `slot_of`.
        self._counts = cupy.empty((max(self._most_counted, 1), settings.n_lanes), np.uint32)
        self._edges_of_reached = cupy.empty(settings.n_lanes, np.uint64)
        self._state = cupy.empty(STATE.itemsize, np.uint8)
        n_warps = self._grid * settings.threads // 32
        dtype = graph.weight_dtype
        unsigned = bits_type(dtype)
        is_limited = options.cutoff is not None and options.cutoff <= largest_distance(dtype)
        limit = limit_bits(dtype, options.cutoff)
        pointers = {
            **dict(zip(("row_offsets", "edges", "weights"), on_device.args, strict=True)),
            **{name: getattr(edges, name) for name in ("into_offsets", "starts", "items", "marked")},
            "into_words": edges.into_words,
            **self._scratch,
            "counts": self._counts,
            "state": self._state,
        }
        self._call = np.zeros(1, CALL)
        for name, array in pointers.items():
            self._call[name] = 0 if array is None else array.data.ptr
        numbers = {
            "n_edges": on_device.n_edges,
            "weight": graph.weights[:1].view(unsigned).sum(),
            "limit": limit,
            # Rows that are counted afterwards have the limit where there is no path.
            "nothing": unreached_distance(dtype).view(unsigned) if is_counted else limit,
            "patience_ns": int(1e9 * settings.barrier_timeout_s),
            "n_vertices": on_device.n_vertices,
            "n_items": edges.n_items,
            "n_marked": edges.n_marked,
            "n_hubs": edges.n_hubs,
            "together": min(max(edges.n_items // (_TURNS * n_warps), 1), _MOST_TOGETHER),
            "n_blocks": self._grid + settings.absent_blocks,
            "most_counted": self._most_counted,
            "is_limited": is_limited or not is_counted,
        }
        for name, number in numbers.items():
            self._call[name] = number
        self._ends: Sent | None = None

    def end_at(self, targets: np.ndarray, sources: np.ndarray) -> None:
        """Let the next launch from `sources` end when all of them have reached `targets` (T,)."""
        if (sources == sources[0]).all():
            targets = targets[targets != sources[0]]
        words = bitmap_of(targets, self._graph.n_vertices) & self._edges.host_words
        self._ends = Sent(words)
        self._call["target_words"] = self._ends.on_device.data.ptr
        self._call["n_targets"] = np.bitwise_count(words).sum()

    def launch(
        self, sources: np.ndarray, sent: Any, rows: Any = None, targets: Any = None, n_columns: int = 0
    ) -> Launched:
        """Enqueue a search from `sources`, which are `sent` (device memory).

        `rows` (n, n_columns) on the device gets the distances, of `targets` (n_columns,) on the device or of all.
        """
        pointers = {"sources": sent, "rows": rows, "targets": targets}
        for name, array in pointers.items():
            self._call[name] = 0 if array is None else array.data.ptr
        self._call["n_sources"], self._call["n_columns"] = len(sources), n_columns
        self._state.data.memset_async(0, STATE.itemsize)
        return self._enqueue(len(sources), resumes=False, left_ns=self._left_ns)

    def resume(self, launched: Launched, left_ns: int) -> Launched:
        """Enqueue the next depths of a search that stopped; nothing else was launched since."""
        self._state.data.memset_async(0, _BARRIER_BYTES)
        return self._enqueue(launched.n_sources, resumes=True, left_ns=left_ns)

    def _enqueue(self, n_sources: int, *, resumes: bool, left_ns: int) -> Launched:
        call, edges = self._call, self._edges_of_reached
        call["resumes"], call["deadline_ns"] = resumes, left_ns
        self._counts.data.memset_async(0, self._counts.nbytes)
        edges.data.memset_async(0, edges.nbytes)
        # CuPy lists the fields of a record at every launch, but not of bytes.
        search = self._kernels["bits_gpu_search_kernel"]
        search(self._grid, self._settings.threads, (call.view(f"V{CALL.itemsize}"),))
        of_graph = self._graph.row_offsets, np.uint32(self._graph.n_vertices)
        args = (self._scratch["visited"], *of_graph, edges)
        self._kernels["bits_gpu_edges_kernel"](self._edges_grid, _EDGES_BLOCK, args)
        few = self._counts[: Launched.AHEAD]
        fetched = fetch(few.reshape(-1).view(np.uint8)), fetch(edges.view(np.uint8)), fetch(self._state)
        return Launched(self, n_sources, *fetched)

    @property
    def n_counts(self) -> int:
        """How many rows of counts a launch may write."""
        return len(self._counts)

    def more_counts(self, n_depths: int) -> np.ndarray:
        """Return the first counts of the last launch, (n_depths, lanes) by `slot_of`, after waiting for it."""
        counts: np.ndarray = self._counts[:n_depths].get()
        return counts

    def by_lane(self, counts: np.ndarray) -> np.ndarray:
        """Return `counts` (n, lanes) by `slot_of` in the order of the lanes."""
        each = self._settings.words_each
        return counts.reshape(-1, each, 32, 32).transpose(0, 3, 1, 2).reshape(len(counts), -1)

    def edges_by_lane(self, edges: np.ndarray) -> np.ndarray:
        """Return what `edges_kernel` wrote in the order of the lanes."""
        return edges.reshape(-1, 32, 32).transpose(0, 2, 1).reshape(-1)

    def raise_if_given_up(self, state: np.void, which: str) -> None:
        """Raise `DeadlineError` or `StalledError` if the search ended so; `which` names its sources."""
        settings = self._settings
        if state["poison"] == PAST_DEADLINE:
            raise DeadlineError(settings.name, which, self._deadline_s)
        if state["poison"]:
            raise StalledError(
                f"`{settings.name}` gave up {which}: after {settings.barrier_timeout_s:g} s at barrier "
                f"{state['poison'] - 1}, only {state['arrived'] % self._grid} of {self._grid} blocks had arrived"
            )


class Launched:
    """What a launch found, in host memory once the launch is over."""

    #: Depths of which the counts are fetched in any case.
    AHEAD = 64

    def __init__(
        self, search: DeviceBits, n_sources: int, counts: np.ndarray, edges: np.ndarray, state: np.ndarray
    ) -> None:
        self._search, self.n_sources = search, n_sources
        self._counts, self._edges, self._state = counts, edges, state

    def state(self) -> np.void:
        """Return the kernel's `State`."""
        found: np.void = self._state.view(STATE)[0]
        return found

    def counts(self) -> np.ndarray:
        """Return how many vertices are new at each depth of this launch, (D, n_sources) uint32.

        More than `AHEAD` depths are fetched only as long as nothing else was launched.
        """
        n = min(int(self.state()["n_counted"]), self._search.n_counts)
        few = self._counts.view(np.uint32).reshape(-1, len(self._edges) // 8)
        of_slots = few[:n] if n <= len(few) else self._search.more_counts(n)
        return np.ascontiguousarray(self._search.by_lane(of_slots)[:, : self.n_sources])

    def edges_of_reached(self) -> np.ndarray:
        """Return how many edges leave the vertices that each source reaches, (n_sources,) uint64."""
        return self._search.edges_by_lane(self._edges.view(np.uint64))[: self.n_sources]


def named(sources: np.ndarray) -> str:
    """Return how messages name `sources` (n,) that are searched together."""
    return f"source {sources[0]}" if len(sources) == 1 else f"sources {sources[0]} to {sources[-1]} together"
