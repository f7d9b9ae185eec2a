// Rows of distances in one of two layouts, for the kernels that reduce rows.
//
//   SSSP_LANE_BITS 0        by source: each row in the order of the graph, one after the other, as searches leave them. The
//                           threads of a warp have vertices of one row.
//   SSSP_LANE_BITS 16, 32, 64
//                           by place: each vertex has a word of so many bits for each source, its lane. The sweep over
//                           a hierarchy leaves them so (`phast_gpu.cu`). The threads of a warp have neighbouring lanes,
//                           and read a vertex together.
//
// Vertices have the order of the graph in both. So results that depend on it, and amounts of vertices, are the same.
#pragma once

#include "relax.cuh"
#include "warp.cuh"

// Vertices that a thread reads before it uses the first one.
constexpr word32 kAhead = 8;

// Reads `values` of the vertices v, v + step, v + 2 * step, …; `missing` stands for those from n_vertices on. A load
// behind a condition of its own is not issued before the load ahead of it is used, so there is one condition for all.
template <typename Value>
__device__ __forceinline__ void read_ahead(const Value* values, word64 v, word32 step, word32 n_vertices, Value missing,
                                           Value (&into)[kAhead]) {
    if (v + static_cast<word64>(step) * (kAhead - 1) < n_vertices) {
#pragma unroll
        for (word32 i = 0; i < kAhead; ++i) {
            into[i] = __ldg(values + v + step * i);
        }
    } else {
#pragma unroll
        for (word32 i = 0; i < kAhead; ++i) {
            into[i] = v + step * i < n_vertices ? values[v + step * i] : missing;
        }
    }
}

#if SSSP_LANE_BITS
#if SSSP_LANE_BITS == 16
using lane_word = unsigned short;
#elif SSSP_LANE_BITS == 32
using lane_word = word32;
#else
using lane_word = word64;
#endif

// How many rows a warp has, and how far apart the vertices of a thread are.
constexpr word32 kRowsOfWarp = 32;
constexpr word32 kStep = 1;

struct Rows {
    const lane_word* words;  // (V, n_lanes)
    const word32* places;    // (V,): the place of each vertex
    word64 limit;            // a word of at least this is "unreached"
    word32 n_lanes;
    word32 n_rows;           // the first lanes; the others are empty

    // Where the distances of a vertex begin.
    __device__ __forceinline__ word64 at(word64 v) const { return static_cast<word64>(places[v]) * n_lanes; }

    __device__ __forceinline__ distance_bits distance(word32 row, word32, word64 at) const {
        const lane_word d = __ldg(words + at + row);
        return d < limit ? static_cast<distance_bits>(d) : kUnreached;
    }

    // Reads the distances of the vertices v, v + step, v + 2 * step, … in a row.
    __device__ __forceinline__ void read_ahead(word32 row, word32 n_vertices, word64 v, word32 step,
                                               distance_bits (&into)[kAhead]) const {
        word32 place[kAhead];
        ::read_ahead(places, v, step, n_vertices, word32{0}, place);
#pragma unroll
        for (word32 i = 0; i < kAhead; ++i) {
            into[i] = distance(row, n_vertices, static_cast<word64>(place[i]) * n_lanes);
        }
#pragma unroll
        for (word32 i = 0; i < kAhead; ++i) {
            into[i] = v + static_cast<word64>(step) * i < n_vertices ? into[i] : kUnreached;
        }
    }
};

#else
constexpr word32 kRowsOfWarp = 1;
constexpr word32 kStep = 32;

struct Rows {
    const distance_bits* distances;  // (n, V)

    __device__ __forceinline__ word64 at(word64 v) const { return v; }

    __device__ __forceinline__ distance_bits distance(word32 row, word32 n_vertices, word64 at) const {
        return distances[at + static_cast<word64>(row) * n_vertices];
    }

    __device__ __forceinline__ void read_ahead(word32 row, word32 n_vertices, word64 v, word32 step,
                                               distance_bits (&into)[kAhead]) const {
        ::read_ahead(distances + static_cast<word64>(row) * n_vertices, v, step, n_vertices, kUnreached, into);
    }
};
#endif

// Vertices that a warp reads together.
constexpr word32 kTogether = kAhead * kStep;

// What a thread has of the rows. A block has `rows_of_block` rows, which is 1 by source. Each row has `blocks_a_row`
// blocks.
struct Share {
    word32 first_row;  // of the block
    word32 row;
    bool is_row;       // by place, the last lanes may be empty; `row` is then another one
    word32 block;      // of the blocks of this row

    __device__ __forceinline__ Share(const Rows& rows, word32 blocks_a_row, [[maybe_unused]] word32 rows_of_block) {
#if SSSP_LANE_BITS
        // Blocks that run together have the same vertices and other lanes, which are neighbours in memory.
        const word32 n_groups = gridDim.x / blocks_a_row;
        first_row = blockIdx.x % n_groups * rows_of_block;
        row = min(first_row + threadIdx.x % rows_of_block, rows.n_rows - 1);
        is_row = row == first_row + threadIdx.x % rows_of_block;
        block = blockIdx.x / n_groups;
#else
        first_row = row = blockIdx.x / blocks_a_row;
        is_row = true;
        block = blockIdx.x % blocks_a_row;
#endif
    }
};
