"""Bellman-Ford on one GPU: every edge in every superstep; `bellman_ford.cu` explains it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.contract.tunable import Tunable
from sssp_pipeline.kernels.gpu.common.cuda.compile import Unit
from sssp_pipeline.kernels.gpu.common.cuda.struct_types import struct_type
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import DeviceGraph
from sssp_pipeline.kernels.gpu.common.graphs.edge_lists import TRANSPOSE, edges_by_source, edges_by_target
from sssp_pipeline.kernels.gpu.common.rows.device_rows import SearchCounts
from sssp_pipeline.kernels.gpu.common.solvers.edge_parallel import (
    BLOCK_COUNT,
    BLOCK_SIZE,
    SYNC,
    EdgeParallelSearch,
    EdgeParallelSolver,
)
from sssp_pipeline.kernels.gpu.common.solvers.gpu_solver import GpuSearch

_SEARCH, _SEGMENTS = "bellman_ford_search_kernel", "bellman_ford_segments_kernel"


@dataclass(kw_only=True, eq=False)
class BellmanFord(EdgeParallelSolver):
    """Bellman-Ford by edges over the whole GPU; its fields are explained by their tunables.

    Raises
    ------
    InputError
        `segment_minimum` is given without `order: destination`, or without `sync: out-of-core`.
    """

    order: str = "source"
    segment_minimum: bool = False

    name = "bellman-ford"
    summary = "Every edge in every superstep, divided evenly among warps; one source over a whole GPU; negative weights"
    fitted = 13e-6, 80e-12
    tunables = (
        SYNC,
        Tunable("order", "source", "The end by which the edges are ordered.", ("source", "destination")),
        Tunable(
            "segment_minimum",
            False,
            "Whether a warp finds the least candidate of each destination before it uses an atomic; "
            "only with `order: destination` and `sync: out-of-core`.",
            (False, True),
        ),
        BLOCK_SIZE,
        BLOCK_COUNT,
    )

    def __post_init__(self) -> None:
        if self.segment_minimum and (self.order, self.sync) != ("destination", "out-of-core"):
            raise InputError(
                f"option `segment_minimum` of solver `{self.name}` does not go with `order: {self.order}` and "
                f"`sync: {self.sync}`",
                hint="set `order: destination` and `sync: out-of-core`, or leave it out",
            )

    @property
    def units(self) -> tuple[Unit, ...]:
        macros = (("SSSP_THREADS", self.block_size),)
        return Unit("bellman_ford", (_SEARCH, _SEGMENTS), macros, cooperative=True), TRANSPOSE

    def start(self, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions) -> GpuSearch:
        return _BellmanFordSearch(self, graph, on_device, options)


class _BellmanFordSearch(EdgeParallelSearch):
    state_type = struct_type(Path(__file__).with_name("bellman_ford.cu"), "State")

    def __init__(
        self, solver: BellmanFord, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions
    ) -> None:
        super().__init__(solver, _SEGMENTS if solver.segment_minimum else _SEARCH, graph, on_device, options)
        self._by_target = solver.order == "destination"
        self._list = edges_by_target(on_device) if self._by_target else edges_by_source(on_device)

    def first_arguments(self) -> tuple[Any, ...]:
        graph, by_target = self._list.graph, np.uint32(self._by_target)
        return (*graph.args, self._list.rows, by_target, *graph.sizes, *self.row_arguments)

    def counts(self, state: np.void) -> SearchCounts:
        supersteps = int(state["supersteps"])
        return SearchCounts(
            vertices_processed=supersteps * self._graph.n_vertices,
            edges_relaxed=supersteps * self._graph.n_edges,
            supersteps=supersteps,
        )
