// Facts about each segment of rows on the device: the least and the largest value, and the remainder of the bytes, from
// which the host makes CRC-32 checksums. Segments with unreached vertices can be packed: a bit for each value says
// whether its vertex is reached, and the values of reached vertices move to the front. All GPU solvers of many sources
// share it.
//
// Returns: facts (n, segments_a_row), by rows. `pack_kernel` also returns bits (n, words_a_row), the lowest bit first.
//     Segments without unreached vertices get no bits, and no remainder of bits. The remainder of the others is that of
//     the bits and of zeros behind them, as many as fill a word of the size of a value.
// Idea
//     Remainder: the bytes of a segment are a polynomial over {0, 1}. A thread takes every 256th value. It multiplies
//     its remainder by x to the number of bits between two of its values, with four look-ups, and adds the next value.
//     At the end it multiplies by x to the number of bits behind its last value. The sum of all threads is the
//     remainder.
//     Packing: a block walks through its segment tile by tile. A ballot is a word of bits, and its bits also give the
//     new places. Values move in place, because no value moves backwards: a tile is read before it is written, and it
//     is written to places at or before its own.
// Needs: distances are not negative, so their bits have the order of the distances. Tables as `facts_on_device.py` makes
//     them. A segment starts at a multiple of 32 values.
// Launch: a block for each segment; kThreads threads, or kPackThreads. First `row_facts_kernel` with `is_packed` 0, then
//     `pack_kernel`, then `row_facts_kernel` with `is_packed` 1, which looks at packed segments only.
//
// References: `host/crc32.py` explains the arithmetic.

#include "device_graph.cuh"
#include "warp.cuh"

constexpr word32 kThreads = 256;
constexpr word32 kPackThreads = 512;
constexpr word32 kPackWarps = kPackThreads / 32;
constexpr word32 kBallots = 8;  // of a warp, in a tile
constexpr word32 kTile = kPackThreads * kBallots;
constexpr word32 kWords = SSSP_BITS / 32;  // of a value

struct Facts {
    word64 least;  // bits of a distance
    word64 largest;
    word32 remainder;
    word32 n_present;  // values, those of unreached vertices left out once the segment is packed
    word32 bit_remainder;
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

// The part of this thread of the remainder of n values; `read` gives the value with a number.
template <typename Read>
__device__ __forceinline__ word32 remainder_part(word32 n, const word32 (*stride)[256], const word32 (*word)[256],
                                                 const Tables* tables, Read read) {
    word32 remainder = 0;
    word32 last = 0;
    for (word32 i = threadIdx.x; i < n; i += kThreads) {
        const distance_bits value = read(i);
        remainder = looked_up(stride, remainder);
        if constexpr (kWords == 2) {
            remainder ^= looked_up(word, static_cast<word32>(value));
        }
        remainder ^= static_cast<word32>(static_cast<word64>(value) >> (SSSP_BITS - 32));
        last = i;
    }
    return threadIdx.x < n ? product(remainder, tables->behind[n - 1 - last]) : 0;
}

extern "C" __global__ void __launch_bounds__(kThreads)
    row_facts_kernel(const distance_bits* rows, word64 n_columns, word32 segments_a_row, word32 segment_size,
                     word32 is_packed, const Tables* tables, const word32* bits, word64 words_a_row, Facts* facts) {
    if (is_packed && facts[blockIdx.x].largest != kUnreached) {
        return;
    }
    __shared__ word32 stride[4][256];
    __shared__ word32 word[4][256];
    for (word32 i = threadIdx.x; i < 4 * 256; i += kThreads) {
        stride[i / 256][i % 256] = tables->stride[i / 256][i % 256];
        word[i / 256][i % 256] = tables->word[i / 256][i % 256];
    }
    __syncthreads();

    const word64 row = blockIdx.x / segments_a_row;
    const word64 begin = static_cast<word64>(blockIdx.x % segments_a_row) * segment_size;
    const word32 length = static_cast<word32>(min(static_cast<word64>(segment_size), n_columns - begin));
    const word32 n = is_packed ? facts[blockIdx.x].n_present : length;
    const distance_bits* const values = rows + row * n_columns + begin;
    word64 least = ~word64{0};
    word64 largest = 0;
    word32 remainder = remainder_part(n, stride, word, tables, [&](word32 i) {
        const distance_bits value = values[i];
        least = min(least, static_cast<word64>(value));
        largest = max(largest, static_cast<word64>(value));
        return value;
    });
    word32 bit_remainder = 0;
    if (is_packed) {
        const word32* const words = bits + row * words_a_row + begin / 32;
        const word32 n_words = (length + 31) / 32;
        bit_remainder = remainder_part((n_words + kWords - 1) / kWords, stride, word, tables, [&](word32 i) {
            word64 value = words[kWords * i];
            if (kWords == 2 && kWords * i + 1 < n_words) {
                value |= static_cast<word64>(words[kWords * i + 1]) << 32;
            }
            return static_cast<distance_bits>(value);
        });
    }

    for (int by = 16; by > 0; by /= 2) {
        least = min(least, __shfl_down_sync(0xffffffffu, least, by));
        largest = max(largest, __shfl_down_sync(0xffffffffu, largest, by));
        remainder ^= __shfl_down_sync(0xffffffffu, remainder, by);
        bit_remainder ^= __shfl_down_sync(0xffffffffu, bit_remainder, by);
    }
    __shared__ Facts of_warps[kThreads / 32];
    if (threadIdx.x % 32 == 0) {
        of_warps[threadIdx.x / 32] = {least, largest, remainder, n, bit_remainder, 0};
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (word32 warp = 1; warp < kThreads / 32; ++warp) {
            least = min(least, of_warps[warp].least);
            largest = max(largest, of_warps[warp].largest);
            remainder ^= of_warps[warp].remainder;
            bit_remainder ^= of_warps[warp].bit_remainder;
        }
        facts[blockIdx.x] = {least, largest, remainder, n, bit_remainder, 0};
    }
}

extern "C" __global__ void __launch_bounds__(kPackThreads)
    pack_kernel(distance_bits* rows, word64 n_columns, word32 segments_a_row, word32 segment_size, word64 words_a_row,
                Facts* facts, word32* bits) {
    if (facts[blockIdx.x].largest != kUnreached) {
        return;
    }
    __shared__ word32 of_warps[kPackWarps];
    const word64 row = blockIdx.x / segments_a_row;
    const word64 begin = static_cast<word64>(blockIdx.x % segments_a_row) * segment_size;
    const word32 n = facts[blockIdx.x].n_present;
    distance_bits* const values = rows + row * n_columns + begin;
    word32* const words = bits + row * words_a_row + begin / 32;
    const word32 warp = threadIdx.x / 32;
    const word32 lane = threadIdx.x % 32;
    word32 n_packed = 0;
    for (word32 tile = 0; tile < n; tile += kTile) {
        const word32 first = tile + warp * 32 * kBallots;
        distance_bits value[kBallots];
        word32 present[kBallots];
        word32 n_of_warp = 0;
#pragma unroll
        for (word32 k = 0; k < kBallots; ++k) {
            const word32 i = first + 32 * k + lane;
            value[k] = i < n ? values[i] : kUnreached;
            present[k] = __ballot_sync(kWholeWarp, value[k] != kUnreached);
            if (lane == 0 && i < n) {
                words[i / 32] = present[k];
            }
            n_of_warp += __popc(present[k]);
        }
        if (lane == 0) {
            of_warps[warp] = n_of_warp;
        }
        __syncthreads();  // the whole tile is read
        word32 place = n_packed;
        for (word32 w = 0; w < kPackWarps; ++w) {
            place += w < warp ? of_warps[w] : 0;
            n_packed += of_warps[w];
        }
#pragma unroll
        for (word32 k = 0; k < kBallots; ++k) {
            if (present[k] >> lane & 1) {
                values[place + rank_in(present[k])] = value[k];
            }
            place += __popc(present[k]);
        }
        __syncthreads();  // `of_warps` is read
    }
    if (threadIdx.x == 0) {
        facts[blockIdx.x].n_present = n_packed;
    }
}
