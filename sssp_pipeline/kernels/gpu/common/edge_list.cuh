// Edges one after the other, each with both of its ends, and what solvers do that share edges out instead of vertices.
//
// Idea: what the edges are ordered by decides which end is read, or written, in order: by source neighbouring lanes
// read the same distance, by target they lower the same one.
//
// Needs (`edge_lists.py` makes it): rows[e] the vertex whose row of the graph holds edge e.
// Memory order: relaxed; what a superstep reads of the one before is ordered by the barrier (B1 in grid_barrier.cuh).
#pragma once

#include "device_graph.cuh"
#include "warp.cuh"

// Edges whose accesses a lane has under way together.
constexpr int kTogether = 2;

// A distance that an edge offers its target; one of all ones lowers nothing.
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

// The part of `count` things in a row that falls to one of `n_parts`; all parts but the last are as large.
__device__ __forceinline__ Range even_part(word64 count, word32 part, word32 n_parts) {
    const word64 load = (count + n_parts - 1) / n_parts;
    const word64 begin = min(load * part, count);
    return {begin, min(begin + load, count)};
}

// What a superstep reads and what it lowers: the same array in-core, two that change places out-of-core.
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
