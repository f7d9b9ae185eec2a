// The harmonic sum of rows of distances, of either layout: of 1 / d over the reached vertices, the source left out. All GPU solvers share it.
//
// Returns
//     harmonic_partials_kernel  the sum of each segment of each row
//     harmonic_total_kernel     the word `kHarmonic` of each row, from the sums of its segments
//
// Idea: the sum is of floats, so a warp adds a segment in the order that `reductions.py` defines.
// Needs: distances of zero or more, so their bits have the order of the distances.
// Launch: harmonic_partials_kernel with blocks_a_row blocks for each row, blocks of a multiple of 32 threads; or by place
//     for each 32 rows. Then harmonic_total_kernel with a block of 32 threads for each row.
// NOTE: CuPy compiles with -ftz=true, which concerns float32 alone. Distances are never subnormal.

#include "row_layout.cuh"
#include "row_words.cuh"

// 1 / d; 0 for a vertex that does not count.
__device__ __forceinline__ double reciprocal(distance_bits d) {
    if (d == 0 || d >= kUnreached) {
        return 0.0;
    }
#if SSSP_FLOATING && SSSP_BITS == 32
    return __drcp_rn(static_cast<double>(__uint_as_float(d)));
#elif SSSP_FLOATING
    return __drcp_rn(__longlong_as_double(static_cast<long long>(d)));
#else
    return __drcp_rn(__ull2double_rn(d));
#endif
}

// Sum over the lanes of a warp: lane i adds that of i + 16, then i + 8, 4, 2, 1. It is returned to lane 0.
__device__ __forceinline__ double sum_of_lanes(double sum) {
    for (int by = 16; by > 0; by /= 2) {
        sum = __dadd_rn(sum, __shfl_down_sync(kWholeWarp, sum, by));
    }
    return sum;
}

static_assert(kSegment % (32 * kAhead) == 0, "a segment is read in whole steps");

// One lane of the sum of a segment of a row: over its vertices v, v + 32, v + 64, …
__device__ __forceinline__ double lane_of_sum(const Rows& rows, word32 row, word32 n_vertices, word64 v) {
    double sum = 0.0;
    for (word32 j = 0; j < kSegment; j += 32 * kAhead) {
        distance_bits ahead[kAhead];
        rows.read_ahead(row, n_vertices, v + j, 32, ahead);
#pragma unroll
        for (word32 i = 0; i < kAhead; ++i) {
            sum = __dadd_rn(sum, reciprocal(ahead[i]));
        }
    }
    return sum;
}

// By source, a warp has a segment, and a thread a lane of its sum. By place, a block has a segment of 32 rows; a warp
// has a lane of all sums, then another one, and afterwards all lanes of a row.
constexpr word32 kMostThreads = SSSP_LANE_BITS ? 512 : 256;

extern "C" __global__ void __launch_bounds__(kMostThreads)
    harmonic_partials_kernel(const Rows rows, word32 n_vertices, word32 blocks_a_row, double* partials) {
    const Share share(rows, blocks_a_row, kRowsOfWarp);
    const word32 thread = threadIdx.x % 32;
    const word32 warp = threadIdx.x / 32;
    const word32 n_warps = blockDim.x / 32;
    const word64 n_segments = (static_cast<word64>(n_vertices) + kSegment - 1) / kSegment;
#if SSSP_LANE_BITS
    __shared__ double sums[32][33];
    for (word64 segment = share.block; segment < n_segments; segment += blocks_a_row) {
        for (word32 lane = warp; lane < 32; lane += n_warps) {
            sums[lane][thread] = lane_of_sum(rows, share.row, n_vertices, segment * kSegment + lane);
        }
        __syncthreads();
        for (word32 row = warp; row < min(32u, rows.n_rows - share.first_row); row += n_warps) {
            const double sum = sum_of_lanes(sums[thread][row]);
            if (thread == 0) {
                partials[(share.first_row + row) * n_segments + segment] = sum;
            }
        }
        __syncthreads();  // `sums` is read
    }
#else
    for (word64 segment = static_cast<word64>(share.block) * n_warps + warp; segment < n_segments;
         segment += static_cast<word64>(blocks_a_row) * n_warps) {
        const double sum = sum_of_lanes(lane_of_sum(rows, share.row, n_vertices, segment * kSegment + thread));
        if (thread == 0) {
            partials[share.row * n_segments + segment] = sum;
        }
    }
#endif
}

extern "C" __global__ void harmonic_total_kernel(word64 n_segments, double* partials, word64* words, word32 n_words) {
    double* const of_row = partials + blockIdx.x * n_segments;
    for (word64 n_left = n_segments; n_left > 1;) {
        const word64 n_sums = (n_left + kSegment - 1) / kSegment;
        for (word64 segment = 0; segment < n_sums; ++segment) {
            double sum = 0.0;
            for (word32 j = 0; j < kSegment; j += 32) {
                const word64 i = segment * kSegment + j + threadIdx.x;
                sum = __dadd_rn(sum, i < n_left ? of_row[i] : 0.0);
            }
            sum = sum_of_lanes(sum);
            if (threadIdx.x == 0) {
                of_row[segment] = sum;  // no later segment reads it
            }
        }
        __syncwarp();
        n_left = n_sums;
    }
    if (threadIdx.x == 0) {
        words[static_cast<word64>(blockIdx.x) * n_words + kHarmonic] = __double_as_longlong(of_row[0]);
    }
}
