// Both ends of each edge of a graph, ordered by source (as the graph has them) or by target.
//
// Returns
//     rows_kernel   rows[e]: the vertex whose row contains edge e
//     count_kernel  in_degrees[v]: the number of edges into v
//     place_kernel  incoming_edges {source, weight} (64-bit weights: sources, and weights apart) and incoming_targets;
//                   the order within a row is not determined
//
// Needs: in_degrees zero; places[v] = where the edges into v begin. place_kernel moves it to where they end.
// Launch: any grid; blocks of a multiple of 32 threads.

#include "edge_rows.cuh"

extern "C" __global__ void count_kernel(const edge_index* row_offsets, const edge_word* edges,
                                        const distance_bits* weights, edge_index n_edges, word32* in_degrees) {
    const DeviceGraph graph{row_offsets, edges, weights};
    for (word64 e = blockIdx.x * static_cast<word64>(blockDim.x) + threadIdx.x; e < n_edges;
         e += static_cast<word64>(gridDim.x) * blockDim.x) {
        atomicAdd(&in_degrees[graph.edge(static_cast<edge_index>(e)).target], 1);
    }
}

extern "C" __global__ void rows_kernel(const edge_index* row_offsets, const edge_word* edges,
                                       const distance_bits* weights, word32 n_vertices, edge_index n_edges,
                                       word32* rows) {
    for_every_edge({row_offsets, edges, weights}, n_vertices, n_edges,
                   [=](edge_index e, word32 row) { rows[e] = row; });
}

extern "C" __global__ void place_kernel(const edge_index* row_offsets, const edge_word* edges,
                                        const distance_bits* weights, word32 n_vertices, edge_index n_edges,
                                        edge_index* places, edge_word* incoming_edges,
                                        distance_bits* incoming_weights, word32* incoming_targets) {
    const DeviceGraph graph{row_offsets, edges, weights};
    for_every_edge(graph, n_vertices, n_edges, [&](edge_index e, word32 source) {
        const Edge edge = graph.edge(e);
        const edge_index place = atomicAdd(&places[edge.target], edge_index{1});
#if SSSP_BITS == 32
        incoming_edges[place] = make_uint2(source, edge.weight);
#else
        incoming_edges[place] = source;
        incoming_weights[place] = edge.weight;
#endif
        incoming_targets[place] = edge.target;
    });
}
