// The classes of a graph's edges: the number of edges of each class, marked edges, and a list of edges into leaves.
//
// Returns
//     edge_degrees_kernel   in_degrees[v]: edges into v. loops[v]: self-loops of v that can lower nothing; no degree
//                           counts these. *parallel: 1 if a row is not strictly ascending. Rows are sorted, so then two
//                           edges of a row lead to the same vertex
//     count_classes_kernel  counts[class]
//     mark_edges_kernel     `marked`: the edges with their class in the top bits of the target; leaf_ends {u, v} and
//                           leaf_weights: the edges into leaves, in no determined order
//
// Needs: all counts zero at the start; in_degrees and loops of the first kernel for the others; room for
//     counts[kIntoLeaf] edges in the list, and its counter zero.
// Launch: any grid; blocks of a multiple of 32 threads.

#include "edge_classes.cuh"
#include "edge_rows.cuh"

__device__ __forceinline__ bool is_negative(distance_bits weight) {
#if SSSP_SIGNED
    return sum_of(kAtSource, weight) < kAtSource;
#else
    return false;
#endif
}

__device__ __forceinline__ word32 class_of(const DeviceGraph& graph, const word32* in_degrees, const word32* loops,
                                           word32 source, const Edge& edge) {
    if (edge.target == source && !is_negative(edge.weight)) {
        return kSelfLoop;
    }
    const edge_index begin = graph.first_edge(edge.target);
    const edge_index degree = graph.first_edge(edge.target + 1) - begin;
    if (degree == loops[edge.target]) {
        return kIntoLeaf;
    }
    if (in_degrees[edge.target] != 1) {
        return kOrdinary;
    }
    if (degree == 1 && !is_negative(edge.weight)) {
        const Edge other = graph.edge(begin);
        return other.target == source && !is_negative(other.weight) ? kIntoLeaf : kSingle;
    }
    return kSingle;
}

extern "C" __global__ void edge_degrees_kernel(const edge_index* row_offsets, const edge_word* edges,
                                               const distance_bits* weights, word32 n_vertices, edge_index n_edges,
                                               word32* in_degrees, word32* loops, word32* parallel) {
    const DeviceGraph graph{row_offsets, edges, weights};
    for_every_edge(graph, n_vertices, n_edges, [&](edge_index e, word32 source) {
        const Edge edge = graph.edge(e);
        const bool is_loop = edge.target == source && !is_negative(edge.weight);
        atomicAdd(is_loop ? &loops[source] : &in_degrees[edge.target], 1);
        if (e + 1 < graph.first_edge(source + 1) && graph.edge(e + 1).target <= edge.target) {
            store_relaxed(parallel, 1);
        }
    });
}

extern "C" __global__ void count_classes_kernel(const edge_index* row_offsets, const edge_word* edges,
                                                const distance_bits* weights, word32 n_vertices, edge_index n_edges,
                                                const word32* in_degrees, const word32* loops, word64* counts) {
    const DeviceGraph graph{row_offsets, edges, weights};
    word64 own[kSingle + 1] = {};
    for_every_edge(graph, n_vertices, n_edges, [&](edge_index e, word32 source) {
        const word32 its_class = class_of(graph, in_degrees, loops, source, graph.edge(e));
#pragma unroll
        for (word32 k = 0; k <= kSingle; ++k) {
            own[k] += its_class == k ? 1 : 0;
        }
    });
#pragma unroll
    for (word32 k = 0; k <= kSingle; ++k) {
        if (own[k] > 0) {
            atomicAdd(&counts[k], own[k]);
        }
    }
}

extern "C" __global__ void mark_edges_kernel(const edge_index* row_offsets, const edge_word* edges,
                                             const distance_bits* weights, word32 n_vertices, edge_index n_edges,
                                             const word32* in_degrees, const word32* loops, edge_word* marked,
                                             word64* n_listed, uint2* leaf_ends, distance_bits* leaf_weights) {
    const DeviceGraph graph{row_offsets, edges, weights};
    for_every_edge(graph, n_vertices, n_edges, [&](edge_index e, word32 source) {
        const Edge edge = graph.edge(e);
        const word32 its_class = class_of(graph, in_degrees, loops, source, edge);
        const word32 target = edge.target | its_class << kClassShift;
#if SSSP_BITS == 32
        marked[e] = make_uint2(target, edge.weight);
#else
        marked[e] = target;
#endif
        if (its_class == kIntoLeaf) {
            const word64 place = atomicAdd(n_listed, word64{1});
            leaf_ends[place] = make_uint2(source, edge.target);
            leaf_weights[place] = edge.weight;
        }
    });
}
