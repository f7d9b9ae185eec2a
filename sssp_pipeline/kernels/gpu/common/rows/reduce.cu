// Reductions of rows of distances: counts and sums within radii. All GPU solvers share it.
//
// Returns: for each row the words of `reductions.py`: those of its Summary, how many distances are below each limit, and
//     the sums of the amounts of these vertices.
// Idea: counts and amounts are integers, so warps may add them in any order. A thread reads several distances, and the
//     amounts of these vertices, before it uses the first (`read_ahead`): the kernel takes as long as its reads. So
//     amounts are read whether or not the vertex counts. Amounts of 32 bits halve the reads, and the registers of sums.
//     The harmonic sum has kernels of its own (`harmonic.cu`). One kernel for both reads the rows once.
//     It was slower: it takes more registers, so half as many blocks are resident.
// Needs: distances of zero or more, so their bits have the order of the distances; the words of each row zero; the
//     Summary of each row. SSSP_RADII, SSSP_AMOUNTS: how many limits and amounts there are. Each gives every thread
//     counters in registers; where there are too many, the compiler moves them to local memory. SSSP_AMOUNT_BITS: 64,
//     or 32 if amounts are zero or more, and all amounts of one kind together are below 2^32 (`Amounts`).
// Launch: blocks_a_row blocks for each row, blocks of a multiple of 32 threads.

#include "relax.cuh"
#include "row_words.cuh"
#include "summary.cuh"
#include "warp.cuh"

#if SSSP_RADII
constexpr word32 kRadii = SSSP_RADII;
#endif
#if SSSP_AMOUNTS
constexpr word32 kAmounts = SSSP_AMOUNTS;
#endif
#if SSSP_AMOUNT_BITS == 32
using amount_word = word32;
#else
using amount_word = word64;
#endif

extern "C" __global__ void reduce_kernel(const distance_bits* rows, word32 n_vertices, word32 blocks_a_row,
                                         const distance_bits* limits, const amount_word* amounts,
                                         const Summary* summaries, word64* words, word32 n_words) {
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

#if SSSP_RADII
    const distance_bits* const distances = rows + static_cast<word64>(row) * n_vertices;
    const word32 lane = threadIdx.x % 32;
    const word64 n_segments = (static_cast<word64>(n_vertices) + kSegment - 1) / kSegment;
    const word64 n_warps = static_cast<word64>(blocks_a_row) * (blockDim.x / 32);
    const word64 first = static_cast<word64>(block_of_row) * (blockDim.x / 32) + threadIdx.x / 32;
    distance_bits limit[kRadii];
    word32 counts[kRadii] = {};
#if SSSP_AMOUNTS
    amount_word sums[kRadii][kAmounts] = {};
#endif
#pragma unroll
    for (word32 r = 0; r < kRadii; ++r) {
        limit[r] = limits[r];
    }
    for (word64 segment = first; segment < n_segments; segment += n_warps) {
        for (word32 j = 0; j < kSegment; j += 32 * kAhead) {
            const word64 v = segment * kSegment + j + lane;
            distance_bits ahead[kAhead];
            read_ahead(distances, v, n_vertices, kUnreached, ahead);
#if SSSP_AMOUNTS
#pragma unroll
            for (word32 a = 0; a < kAmounts; ++a) {
                amount_word amount[kAhead];
                read_ahead(amounts + static_cast<word64>(a) * n_vertices, v, n_vertices, amount_word{0}, amount);
#pragma unroll
                for (word32 r = 0; r < kRadii; ++r) {
#pragma unroll
                    for (word32 i = 0; i < kAhead; ++i) {
                        sums[r][a] += ahead[i] < limit[r] ? amount[i] : 0;
                    }
                }
            }
#endif
#pragma unroll
            for (word32 r = 0; r < kRadii; ++r) {
#pragma unroll
                for (word32 i = 0; i < kAhead; ++i) {
                    counts[r] += ahead[i] < limit[r];
                }
            }
        }
    }
#pragma unroll
    for (word32 r = 0; r < kRadii; ++r) {
        const word32 count = sum_over_warp(counts[r]);
        if (lane == 0 && count > 0) {
            atomicAdd(of_row + kWithin + r, static_cast<word64>(count));
        }
#if SSSP_AMOUNTS
#pragma unroll
        for (word32 a = 0; a < kAmounts; ++a) {
            const amount_word sum = sum_over_warp(sums[r][a]);
            if (lane == 0 && sum != 0) {
                atomicAdd(of_row + kWithin + kRadii + r * kAmounts + a, static_cast<word64>(sum));
            }
        }
#endif
    }
#endif
}
