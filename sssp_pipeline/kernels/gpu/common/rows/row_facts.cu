// Facts about each segment of rows on the device: the least and the largest value, and the remainder of the bytes, from
// which the host makes CRC-32 checksums. All GPU solvers of many sources share it.
//
// Returns: facts (n, segments_a_row), by rows.
// Idea: the bytes of a segment are a polynomial over {0, 1}. A thread takes every 256th value. It multiplies its
//     remainder by x to the number of bits between two of its values, with four look-ups, and adds the next value. At
//     the end it multiplies by x to the number of bits behind its last value. The sum of all threads is the remainder.
// Needs: distances are not negative, so their bits have the order of the distances. Tables as `row_facts.py` makes them.
// Launch: 256 threads a block, a block for each segment.
//
// References: `host/crc32.py` explains the arithmetic.

#include "device_graph.cuh"

constexpr word32 kThreads = 256;
constexpr word32 kWords = SSSP_BITS / 32;  // of a value

struct Facts {
    word64 least;  // bits of a distance
    word64 largest;
    word32 remainder;
    word32 unused;
};

// Multipliers, in the order of `row_facts.py`.
struct Tables {
    word32 stride[4][256];    // from a value of a thread to its next
    word32 word[4][256];      // by one word of 32 bits
    word32 behind[kThreads];  // [i]: by i values and one word
};

__device__ __forceinline__ word32 looked_up(const word32 (*table)[256], word32 remainder) {
    return table[0][remainder & 255] ^ table[1][remainder >> 8 & 255] ^ table[2][remainder >> 16 & 255] ^
           table[3][remainder >> 24];
}

// The product of two remainders; bit 31 is the coefficient of x^0.
__device__ __forceinline__ word32 product(word32 a, word32 b) {
    word32 sum = 0;
    for (int i = 0; i < 32; ++i) {
        sum ^= a >> 31 ? b : 0;
        a <<= 1;
        b = (b >> 1) ^ (b & 1 ? 0xedb88320u : 0);
    }
    return sum;
}

extern "C" __global__ void __launch_bounds__(kThreads)
    row_facts_kernel(const distance_bits* rows, word64 n_columns, word32 segments_a_row, word32 segment_size,
                     const Tables* tables, Facts* facts) {
    __shared__ word32 stride[4][256];
    __shared__ word32 word[4][256];
    for (word32 i = threadIdx.x; i < 4 * 256; i += kThreads) {
        stride[i / 256][i % 256] = tables->stride[i / 256][i % 256];
        word[i / 256][i % 256] = tables->word[i / 256][i % 256];
    }
    __syncthreads();

    const word64 row = blockIdx.x / segments_a_row;
    const word64 begin = static_cast<word64>(blockIdx.x % segments_a_row) * segment_size;
    const word32 n = static_cast<word32>(min(static_cast<word64>(segment_size), n_columns - begin));
    const distance_bits* const values = rows + row * n_columns + begin;
    word64 least = ~word64{0};
    word64 largest = 0;
    word32 remainder = 0;
    word32 last = 0;
    for (word32 i = threadIdx.x; i < n; i += kThreads) {
        const distance_bits value = values[i];
        least = min(least, static_cast<word64>(value));
        largest = max(largest, static_cast<word64>(value));
        remainder = looked_up(stride, remainder);
        if constexpr (kWords == 2) {
            remainder ^= looked_up(word, static_cast<word32>(value));
        }
        remainder ^= static_cast<word32>(static_cast<word64>(value) >> (SSSP_BITS - 32));
        last = i;
    }
    if (threadIdx.x < n) {
        remainder = product(remainder, tables->behind[n - 1 - last]);
    }

    for (int by = 16; by > 0; by /= 2) {
        least = min(least, __shfl_down_sync(0xffffffffu, least, by));
        largest = max(largest, __shfl_down_sync(0xffffffffu, largest, by));
        remainder ^= __shfl_down_sync(0xffffffffu, remainder, by);
    }
    __shared__ Facts of_warps[kThreads / 32];
    if (threadIdx.x % 32 == 0) {
        of_warps[threadIdx.x / 32] = {least, largest, remainder, 0};
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (word32 warp = 1; warp < kThreads / 32; ++warp) {
            least = min(least, of_warps[warp].least);
            largest = max(largest, of_warps[warp].largest);
            remainder ^= of_warps[warp].remainder;
        }
        facts[blockIdx.x] = {least, largest, remainder, 0};
    }
}
