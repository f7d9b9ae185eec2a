"""Bellman-Ford by a frontier on one GPU (H-BF), negative weights too; `frontier_bellman_ford.cu` explains it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import CsrGraph, GraphTraits
from sssp_pipeline.kernels.contract.forecast import Forecast, gpu_source_s, graph_device_bytes, levels
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.contract.tunable import Tunable
from sssp_pipeline.kernels.gpu.common.cuda.compile import Unit, cupy_module
from sssp_pipeline.kernels.gpu.common.cuda.struct_types import struct_type
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import DeviceGraph, free_bytes
from sssp_pipeline.kernels.gpu.common.rows.distance_bits import bits_type
from sssp_pipeline.kernels.gpu.common.solvers.gpu_solver import GpuSearch, largest_grid
from sssp_pipeline.kernels.gpu.common.solvers.pausing import BarrierSolver, PausingSearch
from sssp_pipeline.kernels.gpu.frontier_bellman_ford.edge_classes import (
    EDGE_CLASSES,
    MOST_VERTICES,
    classified_edges,
)
from sssp_pipeline.kernels.gpu.frontier_bellman_ford.light_edges import LIGHT_EDGES, light_edges
from sssp_pipeline.kernels.gpu.near_far.near_far import SOURCES_AT_ONCE

#: Threads a block.
BLOCK_SIZE = 512
#: All blocks share a vertex with more edges than this: the paper's T_DP (section 5.3).
WHOLE_BLOCKS = 64

#: So few threads on a multiprocessor that each has 64 registers, and none are spilled.
_THREADS_PER_SM = 1024
#: Places in a frontier for each vertex if duplicates are not removed.
_DUPLICATES = 8
#: From this `GraphTraits.degree_skew` on, a graph has hubs. R-MAT graphs have 40 and more.
_HUBS_SKEW = 8.0
_KERNEL = "frontier_bellman_ford_kernel"
#: As in `frontier.cuh`: the 32-bit words of an entry, and the edges that it may have at most.
_ENTRY_WORDS = 4
_MOST_EDGES = 2**26 - 1
_STATE = struct_type(Path(__file__).with_name("frontier_bellman_ford.cu"), "State")
#: A frontier with more entries than this is replaced by all vertices.
_MOST_ENTRIES = 2**32 - 1


@dataclass(kw_only=True, eq=False)
class FrontierBellmanFord(BarrierSolver):
    """Bellman-Ford by a frontier over the whole GPU; the first fields are explained by their tunables.

    References
    ----------
    Busato, Bombieri, "An efficient implementation of the Bellman-Ford algorithm for Kepler GPU architectures",
    IEEE TPDS 2015.
    """

    edge_classes: bool = True
    remove_duplicates: bool = True
    virtual_warps: str | int = "dynamic"
    whole_blocks: str | int = WHOLE_BLOCKS
    cache_hints: bool = False
    #: Whether one block continues alone while the frontier has at most one vertex for each of its warps.
    goes_alone: bool = True
    light_first: bool = True
    #: Graphs with fewer edges have no light edges, and graphs with fewer edges a vertex: first with hubs, then without.
    #: Their supersteps do not take long, or few of their first frontiers are wide.
    light_from: tuple[int, float, float] = (2**21, 9.0, 32.0)
    #: How many sources of one call share the GPU in equal parts; fewer where memory is short.
    sources_at_once: int = SOURCES_AT_ONCE
    #: Use no more blocks than this for a source; None takes all that fit.
    most_blocks: int | None = None

    name = "frontier-bellman-ford"
    summary = "Bellman-Ford by a frontier of the vertices whose distance fell (H-BF); negative weights too"
    takes_negative = True
    tunables = (
        Tunable(
            "edge_classes",
            True,
            "Whether to skip self-loops, relax edges into leaves last, and use no atomics where one edge leads in.",
            choices=(True, False),
        ),
        Tunable(
            "remove_duplicates",
            True,
            "Whether a vertex enters a frontier only once, by atomics over distance and superstep.",
            choices=(True, False),
        ),
        Tunable(
            "virtual_warps",
            "dynamic",
            "How many threads share a vertex. `dynamic`: the threads of a warp share the edges of all its vertices.",
            choices=("dynamic", 1, 2, 4, 8, 16, 32),
        ),
        Tunable(
            "whole_blocks",
            WHOLE_BLOCKS,
            "All thread blocks share a vertex with more edges than this, instead of dynamic parallelism.",
            choices=("off",),
            least=64,
            most=_MOST_EDGES,
        ),
        Tunable(
            "cache_hints",
            False,
            "Whether distances, and data that is read once, bypass the L1 cache.",
            choices=(True, False),
        ),
        Tunable(
            "light_first",
            True,
            "Whether wide frontiers relax light edges first, and heavy edges later and only where they may lower.",
            choices=(True, False),
        ),
        Tunable("block_size", BLOCK_SIZE, "Threads of a block.", least=64, most=1024, multiple_of=32),
    )

    @property
    def units(self) -> tuple[Unit, ...]:
        macros = (
            ("SSSP_THREADS", self.block_size),
            ("SSSP_BLOCKS_PER_SM", _THREADS_PER_SM // self.block_size),
            ("SSSP_EDGE_CLASSES", int(self.edge_classes)),
            ("SSSP_REMOVE_DUPLICATES", int(self.remove_duplicates)),
            ("SSSP_CACHE_HINTS", int(self.cache_hints)),
            ("SSSP_ALONE", int(self.goes_alone)),
        )
        light, plain = (
            Unit("frontier_bellman_ford", (_KERNEL,), (*macros, ("SSSP_LIGHT_FIRST", n)), cooperative=True)
            for n in (1, 0)
        )
        if not self.edge_classes:
            return (plain,)
        return (light, plain, EDGE_CLASSES, LIGHT_EDGES) if self.light_first else (plain, EDGE_CLASSES)

    def uses_light_edges(self, traits: GraphTraits) -> bool:
        """Return whether wide frontiers of a graph relax light edges first, if its weights allow it."""
        least_edges, with_hubs, without_hubs = self.light_from
        least_degree = with_hubs if _has_hubs(traits) else without_hubs
        return (
            self.light_first
            and self.edge_classes
            and traits.n_edges >= max(least_edges, least_degree * traits.n_vertices)
            and 0 <= traits.min_weight < traits.max_weight
        )

    def supports(self, graph: GraphTraits, options: SolveOptions) -> str | None:
        """Return None, or the reason why not: as the others, or too many vertices to mark edges."""
        if self.edge_classes and graph.n_vertices > MOST_VERTICES:
            return (
                f"it marks edges in two bits of their target and so takes up to {MOST_VERTICES:,} vertices, and there "
                f"are {graph.n_vertices:,} (`edge_classes: false` takes them)"
            )
        return super().supports(graph, options)

    def forecast(self, traits: GraphTraits, n_sources: int) -> Forecast:
        n_vertices, n_edges = traits.n_vertices, traits.n_edges
        at_once = max(1, min(n_sources, SOURCES_AT_ONCE))
        marked = n_edges * (8 if traits.weight_dtype.itemsize == 4 else 4)
        # The longer the paths, the more often it reads an edge.
        source_s = gpu_source_s(traits, 2.8e-6, 19e-12 * sqrt(levels(traits)), at_once=at_once)
        light = 2 * graph_device_bytes(traits) if self.uses_light_edges(traits) else 0
        return Forecast(source_s, n_vertices * 40 + n_edges // 2, at_once, marked, light)

    def start(self, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions) -> _FrontierSearch:
        # Without the code for light edges, supersteps of other graphs take 4 % less.
        solver = self if self.uses_light_edges(graph.traits) else replace(self, light_first=False)
        return _FrontierSearch(solver, graph, on_device, options)

    def start_many(
        self, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions, n_sources: int
    ) -> list[GpuSearch]:
        searches = [self.start(graph, on_device, options)]
        fitting = 1 + free_bytes() // 2 // searches[0].device_bytes
        for _ in range(1, min(n_sources, self.sources_at_once, fitting)):
            searches.append(self.start(graph, on_device, options))
        for search in searches:
            search.take_share(len(searches))
        return list(searches)


def _has_hubs(traits: GraphTraits) -> bool:
    return traits.degree_skew >= _HUBS_SKEW


class _FrontierSearch(PausingSearch[FrontierBellmanFord]):
    state_type = _STATE

    def __init__(
        self, solver: FrontierBellmanFord, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions
    ) -> None:
        super().__init__(solver, graph, on_device, options)
        cupy = cupy_module()
        dtype, n_vertices, n_edges = on_device.dtype, on_device.n_vertices, on_device.n_edges
        self.take_share(1)
        self._cut_above = _MOST_EDGES if solver.whole_blocks == "off" else int(solver.whole_blocks)
        self._piece_bits = self._cut_above.bit_length() - 1
        self._edges, self._leaves = on_device, (None, None, np.uint64(0), np.uint32(0))
        if solver.edge_classes:
            classified = classified_edges(on_device, signed=self.signed)
            self._edges = classified.graph
            self._leaves = (
                classified.leaf_ends,
                classified.leaf_weights,
                np.uint64(len(classified.leaf_ends)),
                np.uint32(classified.rows_ascend),
            )
        self._light: tuple[Any, ...] = (None, bits_type(dtype).type(0), np.uint32(0), None, None, None)
        if solver.uses_light_edges(graph.traits):
            light = light_edges(on_device, self._edges, has_hubs=_has_hubs(graph.traits))
            if light is not None:
                self._edges = light.graph
                self._light = (light.light_ends, light.bound, light.wide_entries, *light.into.args)
        self._stamps = None
        if solver.remove_duplicates:
            self._stamps = cupy.empty(n_vertices, np.uint64 if dtype.itemsize == 4 else np.uint32)
        n_entered = n_vertices * (1 if solver.remove_duplicates else _DUPLICATES)
        self._capacity = min(n_entered + (n_edges >> self._piece_bits), _MOST_ENTRIES)
        self._frontiers = cupy.empty(2 * _ENTRY_WORDS * self._capacity, np.uint32)

    def take_share(self, n_searches: int) -> None:
        """Use as many blocks as each of `n_searches` searches can have at once."""
        self.grid = largest_grid(self.kernel, self._solver.block_size, self._solver.most_blocks, n_searches)

    @property
    def device_bytes(self) -> int:
        """Scratch memory and one row of distances."""
        arrays = (self._stamps, self._frontiers, self._state_words)
        row = self._edges.n_vertices * self._edges.dtype.itemsize
        return row + sum(array.nbytes for array in arrays if array is not None)

    def arguments(self, until: int) -> tuple[Any, ...]:
        virtual_warps = self._solver.virtual_warps
        n_lanes = np.uint32(0 if virtual_warps == "dynamic" else virtual_warps)
        source, n_vertices = np.uint32(self._source), np.uint32(self._edges.n_vertices)
        of_search = source, self._limit, np.uint32(until), n_lanes
        pieces = np.uint32(self._cut_above), np.uint32(self._piece_bits)
        memory = self._distances, self._stamps, self._frontiers, np.uint32(self._capacity)
        of_graph = *self._edges.args, n_vertices
        return (*of_graph, *of_search, *pieces, *self._leaves, *self._light, *memory, *self.state_arguments)
