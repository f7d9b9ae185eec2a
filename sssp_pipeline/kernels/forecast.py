"""What each solver is expected to take: seconds and device memory of a source, by formulas fitted to measurements.

`auto` and `plan` go by them. They are meant to be right within a factor of two, which is what a choice needs. GPU
times are those of an H200, CPU times those of one core of an AMD EPYC (`benchmarks/results`), or two that share a
source; what more than two take was not measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

from sssp_pipeline.csr import GraphTraits
from sssp_pipeline.kernels._compile import MOST_EDGES_IN_32_BITS
from sssp_pipeline.kernels.near_far import TOGETHER
from sssp_pipeline.kernels.parallel_delta_stepping import threads_for

#: Until the first source can be solved on a GPU, beside what it takes to know that there is one: upload, pinned memory,
#: kernels (0.03 s a solver from CuPy's cache, 0.4 s when they must be compiled).
GPU_START_S = 0.3
#: Of a byte of distances from a GPU to pinned memory.
COPY_S_PER_BYTE = 1 / 50e9
#: What many cores do together over what one does, as a power of their number: 2 did 1.74 times, 16 (threads of 8 real
#: ones) 9.2 times as much, each with sources of its own. Two that shared a source did 1.6 to 1.9 times as much.
CORES_EXPONENT = 0.8


@dataclass(frozen=True)
class Forecast:
    """What one source is expected to take.

    Attributes
    ----------
    source_s
        Seconds of the GPU, the distances left there, or of one core.
    source_bytes, fixed_bytes
        Device memory beside the graph: for a source under way, its row of distances included, and for all together;
        0 on a CPU.
    at_once
        How many sources of a call are under way together.
    most_cores, meeting_s
        How many cores share a source at most, and the seconds that each of them adds by meeting the others. Where they
        are several, one source is under way at a time.
    """

    source_s: float
    source_bytes: int
    at_once: int
    fixed_bytes: int = 0
    most_cores: int = 1
    meeting_s: float = 0.0

    @property
    def is_shared(self) -> bool:
        """Whether cores share a source."""
        return self.most_cores > 1

    def wall_s(self, cores: int) -> float:
        """Return the seconds until a source is solved on a machine with so many cores."""
        sharing = min(cores, self.most_cores)
        if sharing <= 1:
            return self.source_s
        return self.source_s / sharing**CORES_EXPONENT + sharing * self.meeting_s


#: What negative integers take for a solver that gets reweighted edges: potentials, for each vertex and edge of the
#: graph, on one core (21 to 34 ns measured); and turning back a distance.
POTENTIALS_S_PER_ELEMENT = 30e-9
TURN_BACK_S_PER_VERTEX = 5e-9


def forecast(solver: str, traits: GraphTraits, n_sources: int) -> Forecast:
    """Return the forecast for a call of `n_sources` of the solver registered as `solver`, as for weights above zero."""
    return _FORECASTS[solver](traits, n_sources)


def graph_device_bytes(traits: GraphTraits) -> int:
    """Return the device memory of a graph (`device_graph.cuh`)."""
    per_offset = 4 if traits.n_edges <= MOST_EDGES_IN_32_BITS else 8
    per_edge = 8 if traits.weight_dtype.itemsize == 4 else 12
    return per_offset * (traits.n_vertices + 1) + per_edge * traits.n_edges


def _depth(traits: GraphTraits) -> float:
    """Return a measure of how many steps a search takes one after the other: V / sqrt(E).

    Time over this measure varied by a factor of 2.5 for `adds` over eight graphs from roads to R-MAT.
    """
    return traits.n_vertices / sqrt(max(traits.n_edges, 1))


def _near_far(traits: GraphTraits, n_sources: int) -> Forecast:
    at_once = max(1, min(n_sources, TOGETHER))
    itemsize = traits.weight_dtype.itemsize
    scratch = traits.n_vertices * (2 * itemsize + 17) + traits.n_edges // 16
    # What several at once share is the waiting; on R-MAT 22 and 24 reading edges takes longer than that.
    return Forecast(18e-6 / at_once * _depth(traits) + 40e-12 * traits.n_edges, scratch, at_once)


def _frontier_bellman_ford(traits: GraphTraits, n_sources: int) -> Forecast:
    n_vertices, n_edges = traits.n_vertices, traits.n_edges
    marked = n_edges * (8 if traits.weight_dtype.itemsize == 4 else 4)
    # Not fitted: it is a baseline, which processes vertices of deep graphs many times.
    source_s = 10 * _near_far(traits, 1).source_s
    return Forecast(source_s, n_vertices * 40 + n_edges // 2, max(1, min(n_sources, TOGETHER)), marked)


def _adds(traits: GraphTraits, n_sources: int) -> Forecast:
    del n_sources
    # Two arrays of distances, and blocks for four words a vertex and two blocks a bucket.
    scratch = 18 * 10**6 + traits.n_vertices * (2 * traits.weight_dtype.itemsize + 17)
    return Forecast(5.5e-6 * _depth(traits), scratch, 1)


def _adds_slots(traits: GraphTraits, n_sources: int) -> Forecast:
    at_once = max(1, min(n_sources, 1024))
    itemsize = traits.weight_dtype.itemsize
    n_elements = traits.n_vertices + traits.n_edges
    # A row, a far pile of a quarter of the vertices and two near piles of a thirty-second; rows packed for all.
    source_bytes = traits.n_vertices * itemsize * 13 // 8
    fixed = traits.n_vertices * 4 * (4 + itemsize) if traits.n_edges <= 5 * traits.n_vertices else 0
    one_slot_s = 24e-6 * _depth(traits) + 2.5e-9 * n_elements
    # With hundreds of slots the GPU is what is short; hubs keep a block waiting.
    full_s = (36e-12 if traits.degree_skew > 32 else 12e-12) * n_elements
    return Forecast(one_slot_s / at_once + full_s, source_bytes, at_once, fixed)


def _adds_lanes(traits: GraphTraits, n_sources: int) -> Forecast:
    at_once = max(1, min(n_sources, 256))
    n_vertices, n_edges, itemsize = traits.n_vertices, traits.n_edges, traits.weight_dtype.itemsize
    # The graph by target with the other end of each edge and the distances to a hub; a line of 32 lanes a vertex.
    fixed = graph_device_bytes(traits) + 4 * n_edges + n_vertices * (33 * itemsize + 12) + n_edges * 2 // 5
    # 3 to 4 ps an element on R-MAT 20 to 24 (skew above 100), 85 on a web graph (5), 1,460 on roads (1.1).
    lane_s = 3.5e-12 * max(1.0, 32 / traits.degree_skew) ** 1.8 * (n_vertices + n_edges)
    empty_lanes = -(-at_once // 64) * 64 / at_once
    return Forecast(lane_s * empty_lanes, n_vertices * itemsize, at_once, fixed)


def _bellman_ford(traits: GraphTraits, n_sources: int) -> Forecast:
    return _baseline(traits, n_sources, 50, 4 * traits.n_edges, 0)


def _work_efficient(traits: GraphTraits, n_sources: int) -> Forecast:
    per_offset = 4 if traits.n_edges <= MOST_EDGES_IN_32_BITS else 8
    scratch = 4 * traits.n_vertices + per_offset * traits.n_edges
    return _baseline(traits, n_sources, 20, 4 * traits.n_edges, scratch)


def _baseline(
    traits: GraphTraits, n_sources: int, times: float, fixed_bytes: int, scratch_bytes: int
) -> Forecast:
    """Return the forecast of a solver that is there to be compared with: so many times what `near-far` takes alone.

    That is not fitted to anything, only more than any of them takes where another can do it.
    """
    del n_sources
    row_bytes = traits.n_vertices * traits.weight_dtype.itemsize
    return Forecast(times * _near_far(traits, 1).source_s, row_bytes + scratch_bytes, 1, fixed_bytes)


def _adaptive_threads(traits: GraphTraits, n_sources: int) -> Forecast:
    del n_sources
    # Not fitted: it is a baseline, which `auto` is not to pick.
    scratch = traits.n_vertices * (2 * traits.weight_dtype.itemsize + 9)
    return Forecast(10 * _near_far(traits, 1).source_s, scratch, 1)


def _on_a_core(ns_per_element: float) -> Callable[[GraphTraits, int], Forecast]:
    """Return the forecast of a CPU solver that takes so long for each vertex and edge."""

    def forecast(traits: GraphTraits, n_sources: int) -> Forecast:
        del n_sources
        return Forecast(1e-9 * ns_per_element * (traits.n_vertices + traits.n_edges), 0, 1)

    return forecast


def _over_cores(traits: GraphTraits, n_sources: int) -> Forecast:
    del n_sources
    alone_s = 9.5e-9 * (traits.n_vertices + traits.n_edges)
    # With 16 threads, 1.2 to 3.9 us on six graphs (`parallel_cpu.jsonl`); 1.7 is within 1.6 times of what each took.
    meeting_s = 1.7e-6 * _depth(traits)
    return Forecast(alone_s, 0, 1, most_cores=threads_for(traits.n_edges), meeting_s=meeting_s)


_FORECASTS: dict[str, Callable[[GraphTraits, int], Forecast]] = {
    "near-far": _near_far,
    "adds": _adds,
    "frontier-bellman-ford": _frontier_bellman_ford,
    "adds-slots": _adds_slots,
    "adds-lanes": _adds_lanes,
    "bellman-ford": _bellman_ford,
    "work-efficient": _work_efficient,
    "adaptive-threads": _adaptive_threads,
    "delta-stepping": _on_a_core(8.0),
    "parallel-delta-stepping": _over_cores,
    "dijkstra": _on_a_core(25.0),
    # 13 on R-MAT 18, 290 on a mesh, 1,900 on roads.
    "queue-bellman-ford": _on_a_core(400.0),
}
