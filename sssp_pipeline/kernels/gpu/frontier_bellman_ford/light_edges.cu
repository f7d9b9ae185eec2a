// A graph whose rows begin with their light edges, and the heavy edges by target.
//
// Returns
//     heavy_degrees_kernel   into_degrees[v]: heavy edges into v
//     place_edges_kernel     `placed`: the edges, in each row the light ones first. light_ends[u]: where the light edges
//                            of u end. into_edges: the heavy edges by target, each with the vertex where it begins.
//                            The order of the light ones, and of the heavy ones, is not determined
//
// An edge is light if its weight is at most `bound`. No list by target has self-loops and edges into leaves, because a
// search relaxes these in another way (`edge_classes.cuh`).
//
// Needs: marked edges; into_degrees zero. For the second kernel light_ends[u] and heavy_begins[u] are the begin and the
//     end of the row of u, and into_places[v] is where the heavy edges into v begin.
// Launch: any grid; blocks of a multiple of 32 threads.

#include "edge_classes.cuh"
#include "edge_rows.cuh"

// A weight of -0.0 has other bits than 0, so the length of the edge is compared.
__device__ __forceinline__ bool is_light(const Edge& edge, distance_bits bound) {
    return sum_of(kAtSource, edge.weight) <= bound;
}

__device__ __forceinline__ bool is_pulled(const Edge& edge) {
    const word32 its_class = edge.target >> kClassShift;
    return its_class == kOrdinary || its_class == kSingle;
}

extern "C" __global__ void heavy_degrees_kernel(const edge_index* row_offsets, const edge_word* edges,
                                                const distance_bits* weights, edge_index n_edges, distance_bits bound,
                                                word32* into_degrees) {
    const DeviceGraph graph{row_offsets, edges, weights};
    for (word64 e = blockIdx.x * static_cast<word64>(blockDim.x) + threadIdx.x; e < n_edges;
         e += static_cast<word64>(gridDim.x) * blockDim.x) {
        const Edge edge = graph.edge(static_cast<edge_index>(e));
        if (!is_light(edge, bound) && is_pulled(edge)) {
            atomicAdd(&into_degrees[edge.target & kTargetMask], 1);
        }
    }
}

__device__ __forceinline__ void put(edge_index place, word32 target, distance_bits weight, edge_word* edges,
                                    distance_bits* weights) {
#if SSSP_BITS == 32
    edges[place] = make_uint2(target, weight);
#else
    edges[place] = target;
    weights[place] = weight;
#endif
}

extern "C" __global__ void place_edges_kernel(const edge_index* row_offsets, const edge_word* edges,
                                              const distance_bits* weights, word32 n_vertices, edge_index n_edges,
                                              distance_bits bound, edge_index* light_ends, edge_index* heavy_begins,
                                              edge_index* into_places, edge_word* placed,
                                              distance_bits* placed_weights, edge_word* into_edges,
                                              distance_bits* into_weights) {
    const DeviceGraph graph{row_offsets, edges, weights};
    for_every_edge(graph, n_vertices, n_edges, [&](edge_index e, word32 source) {
        const Edge edge = graph.edge(e);
        if (is_light(edge, bound)) {
            put(atomicAdd(&light_ends[source], edge_index{1}), edge.target, edge.weight, placed, placed_weights);
            return;
        }
        const edge_index place = atomicAdd(&heavy_begins[source], ~edge_index{0}) - 1;
        put(place, edge.target, edge.weight, placed, placed_weights);
        if (is_pulled(edge)) {
            put(atomicAdd(&into_places[edge.target & kTargetMask], edge_index{1}), source, edge.weight, into_edges,
                into_weights);
        }
    });
}
