// The weights of the arcs of a hierarchy.
//
// Returns: take_edges_kernel lowers each arc to the edges between its ends. lower_triangles_kernel lowers the arcs
// above some vertices to the ways through these: it takes the vertices of whole subtrees, `fronts.cu` the others.
// relax_kernel lowers distances from one vertex along all edges, for a bound of all distances.
//
// Idea: as `customization.py`, step by step up the tree. A vertex is visited when all below it have been; its own arcs
// are then final. Vertices of the same height are visited in one launch. Arcs that no shortest path needs are kept:
// that changes no distance.
//
// Needs: `up` and `down` of kInfinity; the same array twice if the graph is symmetric; heads that rise within a vertex.
// Keeps
//     I1. An arc only falls, and only to the length of a real path; every change is an atomic minimum.
//     I2. If `is_too_large` stays 0, no arc is kInfinity because its length does not fit a word.
// Memory order: relaxed; launches follow each other on one stream.

#include "device_graph.cuh"
#include "sweep_words.cuh"

extern "C" __global__ void take_edges_kernel(const edge_index* row_offsets, const edge_word* edges,
                                             const distance_bits* weights, word32 n_vertices, const word32* ranks,
                                             const word32* arc_offsets, const word32* heads, sweep_word* up,
                                             sweep_word* down, word32* is_too_large) {
    const DeviceGraph graph{row_offsets, edges, weights};
    for (word64 u = blockIdx.x * static_cast<word64>(blockDim.x) + threadIdx.x; u < n_vertices;
         u += static_cast<word64>(gridDim.x) * blockDim.x) {
        const word32 from = ranks[u];
        for (edge_index e = graph.first_edge(u); e < graph.first_edge(u + 1); ++e) {
            const Edge edge = graph.edge(e);
            const word32 to = ranks[edge.target];
            if (from == to) {
                continue;
            }
            if (edge.weight >= kInfinity) {
                *is_too_large = 1;
                continue;
            }
            const word32 arc = find_arc(arc_offsets, heads, min(from, to), max(from, to));
            atomicMin((from < to ? up : down) + arc, static_cast<sweep_word>(edge.weight));
        }
    }
}

// Sets `differs` if an arc does not have the same weight in both directions.
extern "C" __global__ void compare_kernel(const sweep_word* up, const sweep_word* down, word32 n_arcs,
                                          word32* differs) {
    for (word64 arc = blockIdx.x * static_cast<word64>(blockDim.x) + threadIdx.x; arc < n_arcs;
         arc += static_cast<word64>(gridDim.x) * blockDim.x) {
        if (up[arc] != down[arc]) {
            *differs = 1;
        }
    }
}

// Lowers arcs between the upper neighbours of each of `vertices`, with `n_blocks_each` blocks for each.
//
// longest_up and longest_down (V,) get bounds of the length of any way up to a vertex, or down from it.
extern "C" __global__ void lower_triangles_kernel(const word32* vertices, word32 n_blocks_each,
                                                  const word32* arc_offsets, const word32* heads, sweep_word* up,
                                                  sweep_word* down, word64* longest_up, word64* longest_down,
                                                  word32* is_too_large) {
    const bool is_symmetric = up == down;
    const word32 v = vertices[blockIdx.x / n_blocks_each];
    const word32 part = blockIdx.x % n_blocks_each;
    const word32 first = arc_offsets[v];
    const word32 last = arc_offsets[v + 1];
    const auto relax = [&](sweep_word* arcs, word32 arc, sweep_word a, sweep_word b) {
        if (a == kInfinity || b == kInfinity) {
            return;
        }
        const sweep_word sum = plus(a, b);
        if (sum >= kInfinity) {
            *is_too_large = 1;
        } else if (sum < arcs[arc]) {
            atomicMin(&arcs[arc], sum);
        }
    };
    for (word32 i = first + part; i < last; i += n_blocks_each) {
        const word32 x = heads[i];
        const sweep_word up_x = up[i];
        const sweep_word down_x = down[i];
        if (threadIdx.x == 0) {
            if (up_x < kInfinity) {
                atomicMax(&longest_up[x], saturated(longest_up[v], up_x));
            }
            if (down_x < kInfinity) {
                atomicMax(&longest_down[x], saturated(longest_down[v], down_x));
            }
        }
        for (word32 j = i + 1 + threadIdx.x; j < last; j += blockDim.x) {
            const word32 arc = find_arc(arc_offsets, heads, x, heads[j]);
            relax(up, arc, down_x, up[j]);
            if (!is_symmetric) {
                relax(down, arc, down[j], up_x);
            }
        }
    }
}

// `longest` becomes at least the length of every shortest path.
// A warp for each vertex. Sets `has_changed` if a distance fell.
extern "C" __global__ void relax_kernel(const edge_index* row_offsets, const edge_word* edges,
                                        const distance_bits* weights, word32 n_vertices, sweep_word* distances,
                                        word32* has_changed) {
    const DeviceGraph graph{row_offsets, edges, weights};
    const word64 n_warps = static_cast<word64>(gridDim.x) * (blockDim.x / 32);
    for (word64 u = blockIdx.x * static_cast<word64>(blockDim.x / 32) + threadIdx.x / 32; u < n_vertices; u += n_warps) {
        const sweep_word from = distances[u];
        if (from == kInfinity) {
            continue;
        }
        for (edge_index e = graph.first_edge(u) + threadIdx.x % 32; e < graph.first_edge(u + 1); e += 32) {
            const Edge edge = graph.edge(e);
            const sweep_word sum = plus(from, static_cast<sweep_word>(edge.weight));
            if (sum < distances[edge.target] && sum < atomicMin(&distances[edge.target], sum)) {
                *has_changed = 1;
            }
        }
    }
}

extern "C" __global__ void longest_kernel(const word64* longest_up, const word64* longest_down, word32 n_vertices,
                                          word64* longest) {
    for (word64 v = blockIdx.x * static_cast<word64>(blockDim.x) + threadIdx.x; v < n_vertices;
         v += static_cast<word64>(gridDim.x) * blockDim.x) {
        atomicMax(longest, saturated(longest_up[v], longest_down[v]));
    }
}
