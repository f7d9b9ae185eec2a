// Counts over the distances of a search, and a check for paths that are too long. All GPU solvers share it.
//
// Returns
//     summary_kernel   for each row: the number of reached vertices, their edges, the largest distance, and the sums of
//                      integer distances; it also writes kUnreached over distances at the limit
//     sum_kernel       for each row of floating distances: the sums that give the mean distance (`mean.py` defines them);
//                      it needs the largest distance
//     too_long_kernel  for one row: the first edge from a reached to an unreached vertex
//
// Needs: all words of each Summary zero before summary_kernel; summary_kernel before sum_kernel; first_edge all ones
// before too_long_kernel.
// Launch: blocks of a multiple of 32 threads; summary_kernel and sum_kernel with blocks_a_row blocks for each row,
// too_long_kernel with any grid.

#include "device_graph.cuh"
#include "summary.cuh"

extern "C" __global__ void summary_kernel(const edge_index* row_offsets, word32 n_vertices, distance_bits limit,
                                          word32 blocks_a_row, distance_bits* rows, Summary* summaries) {
    const word32 row = blockIdx.x / blocks_a_row;
    distance_bits* const distances = rows + static_cast<word64>(row) * n_vertices;
    Summary* const summary = summaries + row;
    word64 reached = 0;
    word64 edges = 0;
    word64 furthest = 0;
    word64 lower = 0;
    word64 upper = 0;
    for (word64 v = (blockIdx.x % blocks_a_row) * static_cast<word64>(blockDim.x) + threadIdx.x; v < n_vertices;
         v += static_cast<word64>(blocks_a_row) * blockDim.x) {
        const distance_bits d = distances[v];
        if (d < limit) {
            reached += 1;
            edges += row_offsets[v + 1] - row_offsets[v];
            furthest = max(furthest, static_cast<word64>(d));
            lower += d & 0xffffffffu;
            upper += static_cast<word64>(d) >> 32;
        } else if (limit != kUnreached) {
            distances[v] = kUnreached;
        }
    }
    for (int by = 16; by > 0; by /= 2) {
        reached += __shfl_down_sync(0xffffffffu, reached, by);
        edges += __shfl_down_sync(0xffffffffu, edges, by);
        furthest = max(furthest, __shfl_down_sync(0xffffffffu, furthest, by));
#if !SSSP_FLOATING
        lower += __shfl_down_sync(0xffffffffu, lower, by);
        upper += __shfl_down_sync(0xffffffffu, upper, by);
#endif
    }
    if (threadIdx.x % 32 == 0 && reached > 0) {
        atomicAdd(&summary->reached, reached);
        atomicAdd(&summary->edges_of_reached, edges);
        atomicMax(&summary->max_distance, furthest);
#if !SSSP_FLOATING
        atomicAdd(&summary->sum_lower, lower);
        atomicAdd(&summary->sum_upper, upper);
#endif
    }
}

#if SSSP_FLOATING
constexpr word32 kMantissa = SSSP_BITS == 32 ? 23 : 52;

// The mantissa of d in 63 bits, shifted by how far its exponent is below the largest distance's, `top`.
__device__ __forceinline__ word64 summand(distance_bits d, word64 top) {
    const word64 exponent = static_cast<word64>(d) >> kMantissa;
    const word64 hidden = exponent > 0 ? word64{1} << kMantissa : 0;
    const word64 mantissa = (static_cast<word64>(d) & ((word64{1} << kMantissa) - 1)) | hidden;
    return (mantissa << (62 - kMantissa)) >> min(top - max(exponent, word64{1}), word64{63});
}

extern "C" __global__ void sum_kernel(word32 n_vertices, word32 blocks_a_row, const distance_bits* rows,
                                      Summary* summaries) {
    const word32 row = blockIdx.x / blocks_a_row;
    const distance_bits* const distances = rows + static_cast<word64>(row) * n_vertices;
    Summary* const summary = summaries + row;
    const word64 top = max(summary->max_distance >> kMantissa, word64{1});
    word64 lower = 0;
    word64 upper = 0;
    for (word64 v = (blockIdx.x % blocks_a_row) * static_cast<word64>(blockDim.x) + threadIdx.x; v < n_vertices;
         v += static_cast<word64>(blocks_a_row) * blockDim.x) {
        const distance_bits d = distances[v];
        if (d >= kUnreached) {
            continue;
        }
        const word64 added = summand(d, top);
        lower += added & 0xffffffffu;
        upper += added >> 32;
    }
    for (int by = 16; by > 0; by /= 2) {
        lower += __shfl_down_sync(0xffffffffu, lower, by);
        upper += __shfl_down_sync(0xffffffffu, upper, by);
    }
    if (threadIdx.x % 32 == 0) {
        atomicAdd(&summary->sum_lower, lower);
        atomicAdd(&summary->sum_upper, upper);
    }
}
#endif

extern "C" __global__ void too_long_kernel(const edge_index* row_offsets, const edge_word* edges,
                                           const distance_bits* weights, word32 n_vertices,
                                           const distance_bits* distances, Summary* summary) {
    const DeviceGraph graph{row_offsets, edges, weights};
    const word64 thread_of_warp = threadIdx.x % 32;
    const word64 n_warps = static_cast<word64>(gridDim.x) * blockDim.x / 32;
    for (word64 u = (blockIdx.x * static_cast<word64>(blockDim.x) + threadIdx.x) / 32; u < n_vertices; u += n_warps) {
        if (distances[u] >= kUnreached) {
            continue;
        }
        const edge_index end = graph.first_edge(static_cast<word32>(u) + 1);
        for (edge_index e = graph.first_edge(static_cast<word32>(u)) + thread_of_warp; e < end; e += 32) {
            if (distances[graph.edge(e).target] == kUnreached) {
                atomicMin(&summary->first_edge, static_cast<word64>(e));
            }
        }
    }
}
