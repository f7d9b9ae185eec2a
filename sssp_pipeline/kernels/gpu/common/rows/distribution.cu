// How the distances of a row are distributed: a histogram, of rows of either layout, and quantiles, of rows by source.
// All GPU solvers share it.
//
// Returns
//     histogram_kernel  for each row and bucket b, how many distances d have limits[b] <= d < limits[b + 1]
//     quantile_kernel   for each row and share q, the bits of the smallest distance d such that at least q times the
//                       number of reached vertices are at most d away
//
// Idea of the quantiles: radix selection. All ranks are sought at once, from the top bits of the largest distance down.
//     A pass counts the next 8 bits of the distances that begin with the bits found so far. Shares whose bits are equal
//     so far have one group of counters.
// Needs: distances of zero or more, so their bits have the order of the distances; the Summary of each row; limits rise,
//     n_limits from 2 to kMostLimits; numerators of kUnit rise, n_shares from 1 to kMostShares. The words of the histogram
//     are zero. A row has n_words words; its results begin at the word `first`.
// Launch: histogram_kernel with blocks_a_row blocks of kThreads for each row, or by place for each `copies` rows;
//     quantile_kernel with a block of kThreads for each row. `copies` is a power of two up to 32 such that those of all
//     buckets fit kCounters.
// NOTE: one block reads a row for its quantiles, once for each 8 bits of the largest distance. A call with few sources on a
//     graph of many million vertices waits for it.

#include "row_layout.cuh"
#include "summary.cuh"

constexpr word32 kThreads = 512;
constexpr word32 kMostLimits = 1025;
constexpr word32 kMostShares = 32;
constexpr word64 kUnit = 1000000000000000000ull;  // the numerator of the share 1
constexpr word32 kDigitBits = 8;
constexpr word32 kDigits = 1u << kDigitBits;
constexpr word32 kCounters = 8192;  // of a block
constexpr word32 kEach = 4;         // distances that a thread reads at once for a quantile

// A bucket has `copies` counters. By source, neighbouring threads count in different copies, in different banks. By
// place, each copy is that of a row.
extern "C" __global__ void __launch_bounds__(kThreads)
    histogram_kernel(const Rows rows, word32 n_vertices, word32 blocks_a_row, word32 copies,
                     const distance_bits* limits, word32 n_limits, word64* words, word32 n_words, word32 first) {
    __shared__ distance_bits limit[kMostLimits];
    __shared__ word32 counters[kCounters];
    const Share share(rows, blocks_a_row, copies);
    const word32 n_buckets = n_limits - 1;
    for (word32 i = threadIdx.x; i < n_limits; i += kThreads) {
        limit[i] = limits[i];
    }
    for (word32 i = threadIdx.x; i < copies * n_buckets; i += kThreads) {
        counters[i] = 0;
    }
    __syncthreads();

    const word32 threads_of_row = SSSP_LANE_BITS ? kThreads / copies : kThreads;
    const word32 thread_of_row = SSSP_LANE_BITS ? threadIdx.x / copies : threadIdx.x;
    const word32 copy = threadIdx.x % copies;
    const word64 together = static_cast<word64>(threads_of_row) * kAhead;
    const distance_bits least = limit[0];
    const distance_bits beyond = limit[n_buckets];
    const word64 end = share.is_row ? n_vertices : 0;
    for (word64 v = share.block * together + thread_of_row; v < end; v += blocks_a_row * together) {
        distance_bits ahead[kAhead];
        rows.read_ahead(share.row, n_vertices, v, threads_of_row, ahead);
#pragma unroll
        for (word32 i = 0; i < kAhead; ++i) {
            const distance_bits d = ahead[i];
            if (d < least || d >= beyond) {
                continue;
            }
            word32 low = 0;  // limit[low] <= d < limit[high]
            for (word32 high = n_buckets; high - low > 1;) {
                const word32 middle = (low + high) / 2;
                (d < limit[middle] ? high : low) = middle;
            }
            atomicAdd(counters + low * copies + copy, 1u);
        }
    }
    __syncthreads();

    const word32 rows_of_block = SSSP_LANE_BITS ? copies : 1;
    const word32 copies_of_row = copies / rows_of_block;
    for (word32 i = threadIdx.x; i < n_buckets * rows_of_block; i += kThreads) {
        const word32 b = i / rows_of_block;
        const word32 row = i % rows_of_block;
        word64 count = 0;
        for (word32 j = 0; j < copies_of_row; ++j) {
            count += counters[b * copies + row + (b + j) % copies_of_row];
        }
        if (count > 0) {
            atomicAdd(words + static_cast<word64>(share.first_row + row) * n_words + first + b, count);
        }
    }
}

// The smallest rank from 1 to n whose part of n is at least numerator / kUnit.
__device__ word32 rank_of(word64 numerator, word64 n) {
    const word64 high = __umul64hi(numerator, n);
    const word64 low = numerator * n;
    word64 least = 1;
    for (word64 most = n; least < most;) {
        const word64 middle = (least + most) / 2;
        const word64 middle_high = __umul64hi(middle, kUnit);
        const bool suffices = middle_high > high || (middle_high == high && middle * kUnit >= low);
        (suffices ? most : least) = suffices ? middle : middle + 1;
    }
    return static_cast<word32>(least);
}

extern "C" __global__ void __launch_bounds__(kThreads)
    quantile_kernel(const distance_bits* rows, word32 n_vertices, const Summary* summaries, const word64* numerators,
                    word32 n_shares, word64* words, word32 n_words, word32 first) {
    __shared__ word32 counters[kMostShares][kDigits];
    __shared__ distance_bits found[kMostShares];   // the bits found so far of each share
    __shared__ word32 rank[kMostShares];           // among the distances that begin with them
    __shared__ word32 group_of[kMostShares];
    __shared__ distance_bits begins[kMostShares];  // the bits found so far of each group, rising
    __shared__ word32 n_groups;
    const distance_bits* const row = rows + static_cast<word64>(blockIdx.x) * n_vertices;
    const distance_bits largest = static_cast<distance_bits>(summaries[blockIdx.x].max_distance);
    if (threadIdx.x < n_shares) {
        found[threadIdx.x] = 0;
        rank[threadIdx.x] = rank_of(numerators[threadIdx.x], summaries[blockIdx.x].reached);
    }

    for (word32 n_left = 64 - __clzll(static_cast<long long>(largest)); n_left > 0;) {
        __syncthreads();
        if (threadIdx.x == 0) {
            n_groups = 0;
            for (word32 q = 0; q < n_shares; ++q) {
                if (q == 0 || found[q] != found[q - 1]) {
                    begins[n_groups++] = found[q];
                }
                group_of[q] = n_groups - 1;
            }
        }
        __syncthreads();
        const word32 groups = n_groups;
        const word32 bits = min(kDigitBits, n_left);
        const word32 shift = n_left - bits;
        for (word32 i = threadIdx.x; i < groups * kDigits; i += kThreads) {
            counters[i / kDigits][i % kDigits] = 0;
        }
        __syncthreads();
        for (word64 begin = 0; begin < n_vertices; begin += kEach * kThreads) {
            distance_bits d[kEach];
#pragma unroll
            for (word32 j = 0; j < kEach; ++j) {
                const word64 v = begin + j * kThreads + threadIdx.x;
                d[j] = v < n_vertices ? row[v] : kUnreached;
            }
#pragma unroll
            for (word32 j = 0; j < kEach; ++j) {
                if (d[j] > largest) {
                    continue;  // unreached
                }
                const distance_bits begun = d[j] >> shift >> bits;  // each shift is below the width of the type
                for (word32 g = 0; g < groups; ++g) {
                    if (begins[g] == begun) {
                        atomicAdd(&counters[g][(d[j] >> shift) % (1u << bits)], 1u);
                    }
                }
            }
        }
        __syncthreads();
        if (threadIdx.x < n_shares) {
            const word32* const of_group = counters[group_of[threadIdx.x]];
            word32 digit = 0;
            while (rank[threadIdx.x] > of_group[digit]) {
                rank[threadIdx.x] -= of_group[digit++];
            }
            found[threadIdx.x] = found[threadIdx.x] << bits | digit;
        }
        n_left = shift;
    }
    if (threadIdx.x < n_shares) {
        words[static_cast<word64>(blockIdx.x) * n_words + first + threadIdx.x] = found[threadIdx.x];
    }
}
