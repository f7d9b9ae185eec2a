"""Bellman-Ford on one GPU, over only those edges that can lower a distance; `work_efficient.cu` explains it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import CsrGraph, GraphTraits
from sssp_pipeline.kernels.contract.forecast import MOST_EDGES_IN_32_BITS
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.contract.tunable import Tunable
from sssp_pipeline.kernels.gpu.common.cuda.compile import Unit, cupy_module
from sssp_pipeline.kernels.gpu.common.cuda.struct_types import struct_type
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import DeviceGraph
from sssp_pipeline.kernels.gpu.common.graphs.edge_lists import TRANSPOSE, edges_by_source
from sssp_pipeline.kernels.gpu.common.rows.device_rows import SearchCounts
from sssp_pipeline.kernels.gpu.common.solvers.edge_parallel import (
    BLOCK_COUNT,
    BLOCK_SIZE,
    SYNC,
    EdgeParallelSearch,
    EdgeParallelSolver,
)
from sssp_pipeline.kernels.gpu.common.solvers.gpu_solver import GpuSearch

_KERNELS = {"edges": "work_efficient_by_edges_kernel", "vertices": "work_efficient_by_vertices_kernel"}


@dataclass(kw_only=True, eq=False)
class WorkEfficient(EdgeParallelSolver):
    """Bellman-Ford over the whole GPU. Each superstep first filters the edges."""

    filter: str = "edges"

    name = "work-efficient"
    summary = (
        "Edges of the vertices that the last superstep changed, listed by a prefix sum, then divided evenly; "
        "one source over a whole GPU; negative weights"
    )
    fitted = 14e-6, 80e-12
    tunables = (
        SYNC,
        Tunable(
            "filter",
            "edges",
            "How these edges are found: by reading all `edges`, or by reading all `vertices` and listing their edges.",
            ("edges", "vertices"),
        ),
        BLOCK_SIZE,
        BLOCK_COUNT,
    )

    @property
    def units(self) -> tuple[Unit, ...]:
        macros = (("SSSP_THREADS", self.block_size),)
        return Unit("work_efficient", tuple(_KERNELS.values()), macros, cooperative=True), TRANSPOSE

    def scratch_bytes(self, traits: GraphTraits) -> int:
        per_offset = 4 if traits.n_edges <= MOST_EDGES_IN_32_BITS else 8
        return 4 * traits.n_vertices + per_offset * traits.n_edges

    def start(self, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions) -> GpuSearch:
        return _WorkEfficientSearch(self, graph, on_device, options)


class _WorkEfficientSearch(EdgeParallelSearch):
    state_type = struct_type(Path(__file__).with_name("work_efficient.cu"), "State")

    def __init__(
        self, solver: WorkEfficient, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions
    ) -> None:
        super().__init__(solver, _KERNELS[solver.filter], graph, on_device, options)
        cupy = cupy_module()
        n_vertices, n_edges = on_device.n_vertices, on_device.n_edges
        offset_type = on_device.row_offsets.dtype.type
        self._list = edges_by_source(on_device)
        self._stamps = cupy.empty(n_vertices, np.uint32)
        self._to_process = cupy.empty(n_edges, offset_type)
        by_vertices = solver.filter == "vertices"
        self._changed_vertices = cupy.empty(n_vertices, np.uint32) if by_vertices else None
        self._first_places = cupy.empty(n_vertices, offset_type) if by_vertices else None
        self._block_sums = cupy.empty(2 * self.grid, np.uint64)

    def first_arguments(self) -> tuple[Any, ...]:
        graph = self._list.graph
        memory = self._stamps, self._to_process, self._changed_vertices, self._first_places, self._block_sums
        return (*graph.args, self._list.rows, *graph.sizes, *self.row_arguments, *memory)

    def counts(self, state: np.void) -> SearchCounts:
        return replace(super().counts(state), filter_s=float(state["filter_ns"]) / 1e9)
