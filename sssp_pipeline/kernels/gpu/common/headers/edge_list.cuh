// All edges in one list, each with both ends: for solvers that divide edges, not vertices, among warps.
//
// Idea: the order of the list decides which end is accessed in order. By source, neighbouring threads read the same
// distance. By target, they lower the same distance.
//
// Needs (`edge_lists.py` guarantees it): rows[e] is the vertex whose row contains edge e.
// Memory order: relaxed. The barrier orders a superstep after the one before (B1 in grid_barrier.cuh).
#pragma once

#include "device_graph.cuh"
#include "warp.cuh"

// Edges that a thread relaxes at a time, so that their accesses overlap.
constexpr int kTogether = 2;

// The distance that an edge offers its target. kNoDistance lowers nothing.
struct Candidate {
    word32 target;
    distance_bits distance;
};

// No vertex has this number (csr.NO_VERTEX).
constexpr word32 kNoVertex = 0xffffffffu;
constexpr distance_bits kNoDistance = ~distance_bits{0};

struct EdgeList {
    DeviceGraph graph;  // rows by source; by target, its edges lead back to their sources
    const word32* rows;
    bool by_target;

    __device__ __forceinline__ Candidate candidate(edge_index e, const distance_bits* from,
                                                   distance_bits limit) const {
        const word32 row = __ldg(rows + e);
        const Edge edge = graph.edge(e);
        const distance_bits d = from[by_target ? edge.target : row];
        return {by_target ? row : edge.target, d < limit ? sum_of(d, edge.weight) : kNoDistance};
    }
};

struct Range {
    word64 begin;
    word64 end;
};

// Returns part `part` of `count` consecutive items. All of the `n_parts` parts but the last have the same size.
__device__ __forceinline__ Range even_part(word64 count, word32 part, word32 n_parts) {
    const word64 load = (count + n_parts - 1) / n_parts;
    const word64 begin = min(load * part, count);
    return {begin, min(begin + load, count)};
}

// The array that a superstep reads and the array that it lowers. In-core they are the same; out-of-core they change
// places after each superstep.
struct Distances {
    const distance_bits* from;
    distance_bits* to;
};

__device__ __forceinline__ Distances distances_of(distance_bits* distances, distance_bits* others, word32 step) {
    if (others == nullptr) {
        return {distances, distances};
    }
    return step % 2 == 0 ? Distances{distances, others} : Distances{others, distances};
}
