"""Second costs of rows on the device (`second_costs.cu`)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import CsrGraph, unreached_distance
from sssp_pipeline.kernels.answers.nearest import NearestOfRow
from sssp_pipeline.kernels.contract.kept import KeptOfRow
from sssp_pipeline.kernels.gpu.common.cuda.compile import Unit, cupy_module, load_kernels
from sssp_pipeline.kernels.gpu.common.cuda.struct_types import struct_type
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import DeviceGraph, free_bytes, upload
from sssp_pipeline.kernels.gpu.common.graphs.pinned_upload import copy_to_device
from sssp_pipeline.kernels.gpu.common.rows.path_sums_on_device import PassSize
from sssp_pipeline.kernels.gpu.common.rows.transfers import Sent, fetch
from sssp_pipeline.kernels.host.kept_with_graph import kept_with_graph
from sssp_pipeline.kernels.host.second_costs import (
    GPU_SPACING,
    GPU_WALK_BYTES,
    SecondCosts,
    SharedCosts,
    n_walks,
)

#: Threads of a block. With fewer, more rows share the cache: with 512, a row of New York took 1.1 times as long.
_THREADS = (1024,)
#: The slots take at most 1 / `_SHARE` of the free memory, or up to half of it for a single one. Rows and searches need
#: the rest.
_SHARE = 4

SECOND_COSTS = Unit("second_costs", ("second_costs_kernel",), (("SSSP_SPACING", GPU_SPACING),))
_CALL = struct_type(Path(__file__).with_name("second_costs.cu"), "Call")


@dataclass(frozen=True, eq=False)
class SummedRows:
    """Rows whose second costs are enqueued. What it returns is valid when the launch is over."""

    #: Kept as long as the launch reads them.
    sources: Sent
    #: The fetched bytes of the state.
    state: np.ndarray

    def left(self) -> np.ndarray:
        """Return the places of rows without sums: a vertex has no tight edge from a nearer vertex."""
        return np.flatnonzero(self.state.view(np.uint32)[1:])


class SecondCostsOnDevice:
    """The second costs of rows on the current device. Its launches follow each other on one stream.

    Parameters
    ----------
    on_device
        The copy of the graph, whose weights are above zero.
    costs
        The second costs, which are integers.
    kept
        What is kept of a row. `takes_costs` is true.
    n_rows
        The most rows of a launch.
    """

    def __init__(self, on_device: DeviceGraph, costs: SecondCosts, kept: KeptOfRow, n_rows: int) -> None:
        self._dtypes = costs.dtypes
        self._edges = _edges(on_device, costs.shared)
        self._kernel = load_kernels(SECOND_COSTS, on_device.dtype, wide_offsets=on_device.wide_offsets)[
            "second_costs_kernel"
        ]
        self._resident = {threads: self._kernel.resident_blocks(threads) for threads in _THREADS}
        n_vertices = on_device.n_vertices
        self.n_columns = kept.n_costs(n_vertices)
        self._n_walks = n_walks(n_vertices, kept)
        self._is_nearest = isinstance(kept, NearestOfRow)
        self._targets: Sent | None = None
        if not (kept.is_whole_row or self._is_nearest):
            assert kept.read_vertices is not None, "these are the vertices of the columns"
            self._targets = Sent(kept.read_vertices)
        #: The memory of a slot.
        self.slot_bytes = 12 * n_vertices + GPU_WALK_BYTES * self._n_walks
        #: How many slots there are; None if not even one fits, and then nothing can be summed.
        self.size = PassSize.fitting(n_rows, self._resident, self.slot_bytes, 0, _room(self.slot_bytes))
        if self.size is None:
            return
        cupy, n_slots = cupy_module(), self.size.n_slots
        graph = self._edges.graph
        held = {
            **dict(zip(("row_offsets", "edges", "weights"), graph.args, strict=True)),
            "targets": None if self._targets is None else self._targets.on_device,
            "owners": cupy.empty(n_slots * n_vertices, np.uint32),
            "passed": cupy.empty(n_slots * n_vertices, np.uint64),
            "links": cupy.empty(n_slots * 2 * self._n_walks, np.uint32),
            "totals": cupy.empty(n_slots * 2 * self._n_walks, np.uint64),
        }
        #: Device memory that is used by launches.
        self._held = held
        self._call = np.zeros(1, _CALL)
        self._set(held)
        sizes = {"n_vertices": n_vertices, "n_columns": self.n_columns, "n_walks": self._n_walks}
        for name, number in sizes.items():
            self._call[name] = number

    def empty_sums(self, n_rows: int) -> list[Any]:
        """Return device memory (n_rows, columns) for each second cost."""
        shape = n_rows, self.n_columns
        return [cupy_module().empty(shape, dtype) for dtype in self._dtypes]

    def add(self, rows: Any, sources: np.ndarray, kept: Any, sums: list[Any]) -> SummedRows:
        """Enqueue the second costs of `rows` (n, V) on the device.

        Parameters
        ----------
        sources
            (n,) uint32: where the rows begin.
        kept
            (n, columns) on the device: what is kept of the rows.
        sums
            As `empty_sums` made it; its first n rows are filled.
        """
        assert self.size is not None, "there is no memory for a slot"
        n_rows, sent = len(sources), Sent(sources)
        # For each second cost, the next row, and whether each row is left. All leave the same rows.
        state = cupy_module().empty((len(sums), 1 + n_rows), np.uint32)
        state.data.memset_async(0, state.nbytes)
        self._set({"rows": rows, "sources": sent.on_device})
        self._call["n_rows"] = n_rows
        if self._is_nearest:
            self._call["nearest"] = kept.data.ptr + kept.itemsize * self.n_columns
        n_blocks, threads = min(self.size.n_slots, n_rows), self.size.threads_for(n_rows, self._resident)
        for costs, of_each, into in zip(self._edges.costs, state, sums, strict=True):
            self._set({"costs": costs, "sums": into, "next_row": of_each, "left": of_each[1:]})
            self._call["unreached"] = unreached_distance(into.dtype)
            if self.n_columns:
                self._kernel(n_blocks, threads, (self._call.view(f"V{_CALL.itemsize}"),))
        return SummedRows(sent, fetch(state[0].view(np.uint8)))

    def _set(self, arrays: dict[str, Any]) -> None:
        for name, array in arrays.items():
            self._call[name] = 0 if array is None else array.data.ptr


@dataclass(frozen=True, eq=False)
class _Edges:
    """The edges into each vertex and their second costs, on a device."""

    of: SharedCosts
    graph: DeviceGraph
    #: (E,) uint64 each.
    costs: tuple[Any, ...]


@kept_with_graph
def _last_edges(on_device: DeviceGraph) -> list[_Edges]:
    """Return the list with the `_Edges` of the last call on a graph."""
    return []


def _room(slot_bytes: int) -> int:
    """Return the memory that the slots may take."""
    free = free_bytes()
    return max(free // _SHARE, min(slot_bytes, free // 2))


def _edges(on_device: DeviceGraph, shared: SharedCosts) -> _Edges:
    """Return the edges for second costs. They are kept as long as the graph, or until it has other second costs."""
    last = _last_edges(on_device)
    if not last or last[0].of is not shared:
        last.clear()  # frees their memory
        by_end, cupy = shared.edges, cupy_module()
        # Vertices with the edges into them in place of those from them.
        turned = CsrGraph(by_end.offsets.view(np.int64), by_end.starts, by_end.weights.view(on_device.dtype))
        costs = tuple(cupy.empty(on_device.n_edges, np.uint64) for _ in shared.costs)
        for of_edges, into in zip(shared.costs, costs, strict=True):
            kind = of_edges.dtype.kind
            copy_to_device(of_edges.astype(f"{kind}8", copy=False).view(np.uint64), into)
        last.append(_Edges(shared, upload(turned, wide_offsets=on_device.wide_offsets), costs))
    return last[0]
