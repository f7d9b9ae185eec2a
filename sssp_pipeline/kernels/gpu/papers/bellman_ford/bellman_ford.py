"""Bellman-Ford on one GPU: every edge in every superstep; `bellman_ford.cu` explains it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import CsrGraph, GraphTraits
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.kernels.contract.forecast import LAUNCH_S, Forecast, one_source_s, skew
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
    is_exhibit = True
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

    def forecast(self, traits: GraphTraits, n_sources: int) -> Forecast:
        del n_sources
        n_vertices, n_edges = max(traits.n_vertices, 1), max(traits.n_edges, 1)
        times = 0.16 * n_vertices**0.44 * n_edges**-0.15 * skew(traits) ** -0.34
        row_bytes = traits.n_vertices * traits.weight_dtype.itemsize
        source_s = max(times * one_source_s(traits), LAUNCH_S + 25e-12 * traits.n_edges)
        return Forecast(source_s, row_bytes, fixed_bytes=4 * traits.n_edges)

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
        graph = self._list.graph
        return (
            *graph.args,
            self._list.rows,
            np.uint32(self._by_target),
            np.uint32(graph.n_vertices),
            graph.row_offsets.dtype.type(graph.n_edges),
            *self.row_arguments,
        )

    def counts(self, state: np.void) -> SearchCounts:
        supersteps = int(state["supersteps"])
        return SearchCounts(
            vertices_processed=supersteps * self._graph.n_vertices,
            edges_relaxed=supersteps * self._graph.n_edges,
            supersteps=supersteps,
        )
