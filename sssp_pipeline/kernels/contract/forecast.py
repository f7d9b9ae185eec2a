"""Forecasts: expected seconds and device memory of a source, by formulas that are fitted to measurements.

Each solver has its formula, `Solver.forecast`. GPU times are for an H200, CPU times for cores of an AMD EPYC
(`benchmarks/results`).

The levels of a breadth-first search tell about how many steps a search takes one after the other. Unequal weights may
need many more steps, and no forecast knows that. So a forecast can be far off, and it says by how much. `auto` measures
the solvers that may be the fastest.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from sssp_pipeline.base.csr import GraphTraits

#: Row offsets on a GPU have 32 bits up to this many edges.
MOST_EDGES_IN_32_BITS = 2**32 - 2**20
#: Seconds to prepare a GPU for the first source: upload, pinned memory, kernels.
GPU_START_S = 0.3
#: Seconds to copy a byte of distances from a GPU to pinned memory.
COPY_S_PER_BYTE = 1 / 50e9
#: The least seconds of a source whose search has its own launch.
LAUNCH_S = 0.15e-3
#: `n` cores do the work of `n ** CORES_EXPONENT` single cores (`benchmarks/kernel_constants.md`).
CORES_EXPONENT = 0.8


@dataclass(frozen=True)
class Forecast:
    """The expected cost of one source."""

    #: Seconds of the GPU, without copying distances from it; or seconds of one core.
    source_s: float
    #: Device memory of a source under way, with its row of distances; 0 on a CPU.
    source_bytes: int = 0
    #: How many sources of a call are under way at the same time.
    at_once: int = 1
    #: Device memory for all sources of a call, in addition to the graph; 0 on a CPU.
    fixed_bytes: int = 0
    #: Device memory that it takes too if that is at most half of what is free.
    optional_bytes: int = 0
    #: How many cores at most share a source. If several do, only one source is under way at a time.
    most_cores: int = 1
    #: Seconds that each sharing core adds to a source by waiting at barriers.
    barrier_s: float = 0.0
    #: The true time is expected between `source_s / off_by` and `source_s * off_by`.
    off_by: float = 3.0
    #: The most sources of one search. A deadline applies to a search.
    most_in_search: int = 2**32
    #: Seconds of each process before its first source, on one core.
    start_s: float = 0.0
    #: Host memory in addition to the graph: of each process, and of each call under way.
    host_bytes: int = 0
    call_bytes: int = 0

    @property
    def is_shared(self) -> bool:
        """Whether several cores share a source."""
        return self.most_cores > 1

    def wall_s(self, cores: int) -> float:
        """Return the seconds until a source is solved on a machine with `cores` cores."""
        sharing = min(cores, self.most_cores)
        if sharing <= 1:
            return self.source_s
        return self.source_s / sharing**CORES_EXPONENT + sharing * self.barrier_s


#: Costs of reweighting negative integers, on one core: the potentials for each vertex and edge of the graph, and the
#: conversion of each distance (`benchmarks/kernel_constants.md`).
POTENTIALS_S_PER_ELEMENT = 30e-9
TURN_BACK_S_PER_VERTEX = 5e-9


def graph_device_bytes(traits: GraphTraits) -> int:
    """Return the device memory of a graph (`device_graph.cuh`)."""
    per_offset = 4 if traits.n_edges <= MOST_EDGES_IN_32_BITS else 8
    per_edge = 8 if traits.weight_dtype.itemsize == 4 else 12
    return per_offset * (traits.n_vertices + 1) + per_edge * traits.n_edges


def depth(traits: GraphTraits) -> float:
    """Return V / sqrt(E), an estimate of how many steps a search takes one after the other, up to a factor."""
    return traits.n_vertices / sqrt(max(traits.n_edges, 1))


def levels(traits: GraphTraits) -> float:
    """Return about how many levels a breadth-first search has. If nothing is known of them, hubs mean short paths."""
    return depth(traits) / max(traits.degree_skew, 1.0) if traits.levels is None else traits.levels


def gpu_source_s(
    traits: GraphTraits, level_s: float, edge_s: float, vertex_s: float = 0.0, at_once: int = 1
) -> float:
    """Return the seconds of a GPU for a source. Of `at_once` sources, one waits while others go on.

    The seconds for each level, edge and vertex were fitted to 34 graphs (`benchmarks/kernel_constants.md`).
    """
    waiting_s = level_s * levels(traits) / at_once
    return LAUNCH_S + waiting_s + edge_s * traits.n_edges + vertex_s * traits.n_vertices


#: What an edge takes if all weights are equal, and if the distances are larger than the cache of a core, as shares of
#: what it takes else.
_EQUAL_SHARE, _BEYOND_CACHE = 0.43, 2.0
_CACHE_BYTES = 2**21


def core_s(ns_per_vertex: float, ns_per_edge: float, traits: GraphTraits) -> float:
    """Return the seconds of a search on one core that takes these nanoseconds, at the pace that was measured.

    With equal weights, hardly an edge is relaxed twice. If the distances are larger than a cache, an edge takes longer.
    """
    share = _EQUAL_SHARE if traits.min_weight == traits.max_weight else 1.0
    if traits.n_vertices * traits.weight_dtype.itemsize > _CACHE_BYTES:
        share *= _BEYOND_CACHE
    return 1e-9 * traits.pace * (ns_per_vertex * traits.n_vertices + share * ns_per_edge * traits.n_edges)
