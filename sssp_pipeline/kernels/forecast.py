"""What a solver is expected to take: seconds and device memory of a source, by formulas fitted to measurements.

Each solver has its formula, `Solver.forecast`. GPU times are those of an H200, CPU times those of one core of an AMD
EPYC (`benchmarks/results`), or two that share a source; what more than two take was not measured.

Vertices, edges and degrees do not tell how many steps a search takes one after the other: a road network and a random
graph may have the same. So a formula can be far off, and says by how much; `auto` measures those that may be the best.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from sssp_pipeline.csr import GraphTraits

#: A row offset on a GPU takes 32 bits up to this many edges.
MOST_EDGES_IN_32_BITS = 2**32 - 2**20
#: Until the first source can be solved on a GPU, beside what it takes to know that there is one: upload, pinned memory,
#: kernels (0.03 s a solver from CuPy's cache, 0.4 s when they must be compiled).
GPU_START_S = 0.3
#: Of a byte of distances from a GPU to pinned memory.
COPY_S_PER_BYTE = 1 / 50e9
#: The least time of a source whose search is launched and waited for by itself.
LAUNCH_S = 0.15e-3
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
    most_cores, barrier_s
        How many cores share a source at most, and the seconds that each of them adds by meeting the others. Where they
        are several, one source is under way at a time.
    off_by
        How wrong `source_s` may be: the true time lies between `source_s / off_by` and `source_s * off_by`.
    most_in_search
        The most sources that one search has; a deadline is that of a search.
    """

    source_s: float
    source_bytes: int = 0
    at_once: int = 1
    fixed_bytes: int = 0
    most_cores: int = 1
    barrier_s: float = 0.0
    off_by: float = 3.0
    most_in_search: int = 2**32

    @property
    def is_shared(self) -> bool:
        """Whether cores share a source."""
        return self.most_cores > 1

    def wall_s(self, cores: int) -> float:
        """Return the seconds until a source is solved on a machine with so many cores."""
        sharing = min(cores, self.most_cores)
        if sharing <= 1:
            return self.source_s
        return self.source_s / sharing**CORES_EXPONENT + sharing * self.barrier_s


#: What negative integers take for a solver that gets reweighted edges: potentials, for each vertex and edge of the
#: graph, on one core (21 to 34 ns measured); and turning back a distance.
POTENTIALS_S_PER_ELEMENT = 30e-9
TURN_BACK_S_PER_VERTEX = 5e-9


def graph_device_bytes(traits: GraphTraits) -> int:
    """Return the device memory of a graph (`device_graph.cuh`)."""
    per_offset = 4 if traits.n_edges <= MOST_EDGES_IN_32_BITS else 8
    per_edge = 8 if traits.weight_dtype.itemsize == 4 else 12
    return per_offset * (traits.n_vertices + 1) + per_edge * traits.n_edges


def depth(traits: GraphTraits) -> float:
    """Return a measure of how many steps a search takes one after the other: V / sqrt(E).

    Time over this measure varied by a factor of 2.5 for `adds` over eight graphs from roads to R-MAT.
    """
    return traits.n_vertices / sqrt(max(traits.n_edges, 1))


def one_source_s(traits: GraphTraits) -> float:
    """Return what `adds` takes for a source: the others that give one source the whole GPU take a multiple of it.

    The multiples were fitted to 27 graphs (`papers.jsonl`), and are right within a factor of 1.6.
    """
    return LAUNCH_S + 5.5e-6 * depth(traits)


def skew(traits: GraphTraits) -> float:
    """Return the skew of the degrees; more than 200 makes no difference to a solver."""
    return min(traits.degree_skew, 200.0)


def core_s(ns_per_element: float, traits: GraphTraits) -> float:
    """Return what a source takes on one core, so long for each vertex and edge."""
    return 1e-9 * ns_per_element * (traits.n_vertices + traits.n_edges)
