// Reductions of rows of distances, of either layout: counts and sums within radii. All GPU solvers share it.
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
// Launch: blocks_a_row blocks for each row, or by place for each 32 rows; blocks of a multiple of 32 threads.

#include "row_layout.cuh"
#include "row_words.cuh"
#include "summary.cuh"

constexpr word32 kMostThreads = 256;

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

// Adds the `amount` of each thread to the word of its row, at the same place in all rows. All threads of a block call it.
template <typename Word>
__device__ __forceinline__ void add_to_row(Word amount, const Share& share, word64* word) {
#if SSSP_LANE_BITS
    __shared__ Word of_warps[kMostThreads / 32][32];
    of_warps[threadIdx.x / 32][threadIdx.x % 32] = amount;
    __syncthreads();
    if (threadIdx.x < 32 && share.is_row) {
        Word sum = 0;
        for (word32 warp = 0; warp < blockDim.x / 32; ++warp) {
            sum += of_warps[warp][threadIdx.x];
        }
        if (sum != 0) {
            atomicAdd(word, static_cast<word64>(sum));
        }
    }
    __syncthreads();  // `of_warps` is read
#else
    const Word sum = sum_over_warp(amount);
    if (threadIdx.x % 32 == 0 && sum != 0) {
        atomicAdd(word, static_cast<word64>(sum));
    }
#endif
}

extern "C" __global__ void __launch_bounds__(kMostThreads)
    reduce_kernel(const Rows rows, word32 n_vertices, word32 blocks_a_row, const distance_bits* limits,
                  const amount_word* amounts, const Summary* summaries, word64* words, word32 n_words) {
    const Share share(rows, blocks_a_row, kRowsOfWarp);
    word64* const of_row = words + static_cast<word64>(share.row) * n_words;
    if (share.block == 0 && threadIdx.x < kRowsOfWarp && share.is_row) {
        of_row[kReached] = summaries[share.row].reached;
        of_row[kLargest] = summaries[share.row].max_distance;
        of_row[kMagnitude] = summaries[share.row].max_distance;
        of_row[kLower] = summaries[share.row].sum_lower;
        of_row[kUpper] = summaries[share.row].sum_upper;
    }

#if SSSP_RADII
    const word32 n_warps = blocks_a_row * (blockDim.x / 32);
    const word64 warp = share.block * (blockDim.x / 32) + threadIdx.x / 32;
    distance_bits limit[kRadii];
    word32 counts[kRadii] = {};
#if SSSP_AMOUNTS
    amount_word sums[kRadii][kAmounts] = {};
#endif
#pragma unroll
    for (word32 r = 0; r < kRadii; ++r) {
        limit[r] = limits[r];
    }
    for (word64 first = warp * kTogether; first < n_vertices; first += static_cast<word64>(n_warps) * kTogether) {
        const word64 v = first + threadIdx.x % kStep;
        distance_bits ahead[kAhead];
        rows.read_ahead(share.row, n_vertices, v, kStep, ahead);
#if SSSP_AMOUNTS
#pragma unroll
        for (word32 a = 0; a < kAmounts; ++a) {
            amount_word amount[kAhead];
            read_ahead(amounts + static_cast<word64>(a) * n_vertices, v, kStep, n_vertices, amount_word{0}, amount);
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
#pragma unroll
    for (word32 r = 0; r < kRadii; ++r) {
        add_to_row(counts[r], share, of_row + kWithin + r);
#if SSSP_AMOUNTS
#pragma unroll
        for (word32 a = 0; a < kAmounts; ++a) {
            add_to_row(sums[r][a], share, of_row + kWithin + kRadii + r * kAmounts + a);
        }
#endif
    }
#endif
}
