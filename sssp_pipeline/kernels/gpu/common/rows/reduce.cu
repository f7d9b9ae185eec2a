// Reductions of rows of distances: counts and sums within radii, and the harmonic sum. All GPU solvers share it.
//
// Returns
//     reduce_kernel    for each row the words of `reductions.py`: those of its Summary, how many distances are below each
//                      limit, and the sums of the amounts of these vertices. With SSSP_HARMONIC also the partial sums of
//                      each segment.
//     harmonic_kernel  the harmonic sum, from the partial sums
//
// Idea: counts and amounts are integers, so warps may add them in any order. The harmonic sum is of floats: a warp adds a
//     segment in the order that `reductions.py` defines.
// Needs: distances of zero or more, so their bits have the order of the distances; the words of each row zero; the
//     Summary of each row. SSSP_RADII, SSSP_AMOUNTS: how many limits and amounts there are. Each gives every thread
//     counters in registers; where there are too many, the compiler moves them to local memory.
// Launch: reduce_kernel with blocks_a_row blocks for each row, blocks of a multiple of 32 threads; harmonic_kernel with a
//     block of 32 threads for each row, after reduce_kernel.
// NOTE: CuPy compiles with -ftz=true, which concerns float32 alone. Distances are never subnormal.

#include "relax.cuh"
#include "summary.cuh"
#include "warp.cuh"

#if SSSP_RADII || SSSP_HARMONIC
constexpr word32 kSegment = 1024;  // vertices
#endif
[[maybe_unused]] constexpr word32 kRadii = SSSP_RADII;
[[maybe_unused]] constexpr word32 kAmounts = SSSP_AMOUNTS;

// Words of a row, in the order of `reductions.py`. Counts of the limits follow, then the sums of the amounts by limit, and
// words of other kernels.
enum Word : word32 { kReached, kLargest, kMagnitude, kLower, kUpper, kHarmonic, kWithin };

#if SSSP_HARMONIC
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

extern "C" __global__ void harmonic_kernel(word64 n_segments, double* partials, word64* words, word32 n_words) {
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
#endif

extern "C" __global__ void reduce_kernel(const distance_bits* rows, word32 n_vertices, word32 blocks_a_row,
                                         const distance_bits* limits, const word64* amounts, const Summary* summaries,
                                         double* partials, word64* words, word32 n_words) {
    const word32 row = blockIdx.x / blocks_a_row;
    const word32 block_of_row = blockIdx.x % blocks_a_row;
    word64* const of_row = words + static_cast<word64>(row) * n_words;
    if (block_of_row == 0 && threadIdx.x == 0) {
        of_row[kReached] = summaries[row].reached;
        of_row[kLargest] = summaries[row].max_distance;
        of_row[kMagnitude] = summaries[row].max_distance;
        of_row[kLower] = summaries[row].sum_lower;
        of_row[kUpper] = summaries[row].sum_upper;
    }

#if SSSP_RADII || SSSP_HARMONIC
    const distance_bits* const distances = rows + static_cast<word64>(row) * n_vertices;
    const word32 lane = threadIdx.x % 32;
    const word64 n_segments = (static_cast<word64>(n_vertices) + kSegment - 1) / kSegment;
    const word64 n_warps = static_cast<word64>(blocks_a_row) * (blockDim.x / 32);
    const word64 first = static_cast<word64>(block_of_row) * (blockDim.x / 32) + threadIdx.x / 32;
#if SSSP_RADII
    distance_bits limit[kRadii];
    word32 counts[kRadii] = {};
#if SSSP_AMOUNTS
    word64 sums[kRadii][kAmounts] = {};
#endif
#pragma unroll
    for (word32 r = 0; r < kRadii; ++r) {
        limit[r] = limits[r];
    }
#endif
    for (word64 segment = first; segment < n_segments; segment += n_warps) {
        [[maybe_unused]] double harmonic = 0.0;
#pragma unroll 8
        for (word32 j = 0; j < kSegment; j += 32) {
            const word64 v = segment * kSegment + j + lane;
            const distance_bits d = v < n_vertices ? distances[v] : kUnreached;
#if SSSP_RADII
#pragma unroll
            for (word32 r = 0; r < kRadii; ++r) {
                counts[r] += d < limit[r];
            }
#if SSSP_AMOUNTS
            if (d < limit[kRadii - 1]) {  // limits rise
#pragma unroll
                for (word32 a = 0; a < kAmounts; ++a) {
                    const word64 amount = __ldg(amounts + static_cast<word64>(a) * n_vertices + v);
#pragma unroll
                    for (word32 r = 0; r < kRadii; ++r) {
                        sums[r][a] += d < limit[r] ? amount : 0;
                    }
                }
            }
#endif
#endif
#if SSSP_HARMONIC
            harmonic = __dadd_rn(harmonic, reciprocal(d));
#endif
        }
#if SSSP_HARMONIC
        harmonic = sum_of_lanes(harmonic);
        if (lane == 0) {
            partials[row * n_segments + segment] = harmonic;
        }
#endif
    }
#if SSSP_RADII
#pragma unroll
    for (word32 r = 0; r < kRadii; ++r) {
        const word32 count = sum_over_warp(counts[r]);
        if (lane == 0 && count > 0) {
            atomicAdd(of_row + kWithin + r, static_cast<word64>(count));
        }
#if SSSP_AMOUNTS
#pragma unroll
        for (word32 a = 0; a < kAmounts; ++a) {
            const word64 sum = sum_over_warp(sums[r][a]);
            if (lane == 0 && sum != 0) {
                atomicAdd(of_row + kWithin + kRadii + r * kAmounts + a, sum);
            }
        }
#endif
    }
#endif
#endif
}
