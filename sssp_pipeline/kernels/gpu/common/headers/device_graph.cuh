// A graph in device memory: compressed sparse rows, as `device_graph.py` uploads them.
//
//   row_offsets  (V+1,) of 32 bits if that is enough for the number of edges, else 64: SSSP_OFFSET_BITS
//   edges        32-bit weights: (E,) of {target, weight}, so that an edge is one memory access
//                64-bit weights: (E,) targets
//   weights      64-bit weights: (E,); else null
//
// No solver writes to it while it runs, so reads may use the read-only cache.
#pragma once

#include "relax.cuh"

#if SSSP_OFFSET_BITS == 32
using edge_index = word32;
#elif SSSP_OFFSET_BITS == 64
using edge_index = word64;
#else
#error "SSSP_OFFSET_BITS is 32 or 64"
#endif

#if SSSP_BITS == 32
using edge_word = uint2;
#else
using edge_word = word32;
#endif

struct Edge {
    word32 target;
    distance_bits weight;
};

struct DeviceGraph {
    const edge_index* row_offsets;
    const edge_word* edges;
    const distance_bits* weights;

    __device__ __forceinline__ edge_index first_edge(word32 v) const { return __ldg(row_offsets + v); }

    __device__ __forceinline__ Edge edge(edge_index e) const {
#if SSSP_BITS == 32
        const uint2 both = __ldg(edges + e);
        return {both.x, both.y};
#else
        return {__ldg(edges + e), __ldg(weights + e)};
#endif
    }
};
