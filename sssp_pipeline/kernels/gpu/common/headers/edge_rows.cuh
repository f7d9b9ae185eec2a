// Every edge of a graph with the row that contains it: for kernels that prepare a graph, once.
//
// Idea: a warp takes kEdgesTogether consecutive edges and finds the rows of the first and the last of them. Then each
//     thread searches for the row of its edge between these two only.
// Launch: any grid; blocks of a multiple of 32 threads.
#pragma once

#include "device_graph.cuh"

// Edges that a warp takes at a time: few enough that their rows are few and the search in them is short.
constexpr word32 kEdgesTogether = 512;

// Returns the row that contains edge e, searching from row `low` to row `high`.
__device__ __forceinline__ word32 row_of(const DeviceGraph& graph, edge_index e, word32 low, word32 high) {
    while (low < high) {
        const word32 middle = low + (high - low) / 2;
        if (graph.first_edge(middle + 1) > e) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

// Calls visit(number of the edge, its row) once for each edge. All threads of the grid share the edges.
template <typename Visit>
__device__ __forceinline__ void for_every_edge(const DeviceGraph& graph, word32 n_vertices, edge_index n_edges,
                                               const Visit& visit) {
    const word64 thread = blockIdx.x * static_cast<word64>(blockDim.x) + threadIdx.x;
    const word64 n_warps = static_cast<word64>(gridDim.x) * blockDim.x / 32;
    for (word64 first = thread / 32 * kEdgesTogether; first < n_edges; first += n_warps * kEdgesTogether) {
        const word64 last = min(first + kEdgesTogether, static_cast<word64>(n_edges)) - 1;
        const word32 lowest = row_of(graph, static_cast<edge_index>(first), 0, n_vertices - 1);
        const word32 highest = row_of(graph, static_cast<edge_index>(last), lowest, n_vertices - 1);
        for (word64 e = first + threadIdx.x % 32; e <= last; e += 32) {
            visit(static_cast<edge_index>(e), row_of(graph, static_cast<edge_index>(e), lowest, highest));
        }
    }
}
