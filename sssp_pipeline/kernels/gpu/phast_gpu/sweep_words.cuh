// The words in which a hierarchy keeps weights and distances: unsigned integers that saturate.
//
//   SSSP_WORD_BITS 16   kInfinity is below 2^15, so a sum of two words never wraps. Words are kept in memory like that, and
//                       products take two lanes at a time. Elsewhere a word has 32 bits. This needs sm_90.
//   SSSP_WORD_BITS 32   kInfinity is the largest half of them, so a sum of two words never wraps
//   SSSP_WORD_BITS 64   a sum that wraps is kInfinity
//
// A product has neighbouring lanes of a row in a packed_word: kPacked of them.
//
// Keeps
//     W1. Every word is at most kInfinity, which means "no path, or none that is short enough". A minimum with
//         kInfinity as its first value bounds sums.
#pragma once

#include "relax.cuh"

using word16 = unsigned short;

// The infinity of words of 16 bits: that of bfloat16. So words have the order of the numbers with the same bits, which atomic
// minima compare.
constexpr word16 kShortInfinity = 0x7f80;

#if SSSP_WORD_BITS == 64
using sweep_word = word64;
using stored_word = word64;
using packed_word = word64;
constexpr sweep_word kInfinity = ~word64{0};
constexpr packed_word kInfinities = kInfinity;
#elif SSSP_WORD_BITS == 32
using sweep_word = word32;
using stored_word = word32;
using packed_word = word32;
constexpr sweep_word kInfinity = 0x7fffffff;
constexpr packed_word kInfinities = kInfinity;
#else
using sweep_word = word32;
using stored_word = word16;
using packed_word = word32;
constexpr sweep_word kInfinity = kShortInfinity;
constexpr packed_word kInfinities = 0x7f807f80;
#endif
constexpr word32 kPacked = sizeof(packed_word) / sizeof(stored_word);

__device__ __forceinline__ sweep_word plus(sweep_word a, sweep_word b) {
#if SSSP_WORD_BITS == 64
    const sweep_word sum = a + b;
    return sum < a ? kInfinity : sum;
#else
    return a + b;
#endif
}

// The least of `least` and the length of the way a, b.
__device__ __forceinline__ sweep_word lower(sweep_word least, sweep_word a, sweep_word b) {
    return min(least, plus(a, b));
}

// Word `i` of `packed`.
__device__ __forceinline__ sweep_word word_of(packed_word packed, [[maybe_unused]] word32 i) {
#if SSSP_WORD_BITS == 16
    return i == 0 ? packed & 0xffff : packed >> 16;
#else
    return packed;
#endif
}

// Sets word `i` of `packed`.
__device__ __forceinline__ void set_word(packed_word& packed, [[maybe_unused]] word32 i, sweep_word word) {
#if SSSP_WORD_BITS == 16
    packed = i == 0 ? (packed & 0xffff0000) | word : (packed & 0xffff) | word << 16;
#else
    packed = word;
#endif
}

// Word `i` of `packed` for each lane.
__device__ __forceinline__ packed_word for_each_lane(packed_word packed, [[maybe_unused]] word32 i) {
#if SSSP_WORD_BITS == 16
    return __byte_perm(packed, 0, i == 0 ? 0x1010 : 0x3232);
#else
    return packed;
#endif
}

// Whether a word of `packed` is below `limit`.
__device__ __forceinline__ bool any_below(packed_word packed, sweep_word limit) {
#if SSSP_WORD_BITS == 16
    return (packed & 0xffff) < limit || packed >> 16 < limit;
#else
    return packed < limit;
#endif
}

// As `lower`, in each lane.
__device__ __forceinline__ packed_word lower_lanes(packed_word least, packed_word a, packed_word b) {
#if SSSP_WORD_BITS == 16
    return __viaddmin_u16x2(a, b, least);
#else
    return lower(least, a, b);
#endif
}

__device__ __forceinline__ packed_word larger_of_lanes(packed_word a, packed_word b) {
#if SSSP_WORD_BITS == 16
    return __vmaxu2(a, b);
#else
    return max(a, b);
#endif
}

// The length of the way a, b. Sets `is_too_large` if there is one that does not fit a word.
__device__ __forceinline__ sweep_word length(sweep_word a, sweep_word b, word32* is_too_large) {
    if (a == kInfinity || b == kInfinity) {
        return kInfinity;
    }
    const sweep_word sum = plus(a, b);
    if (sum >= kInfinity) {
        *is_too_large = 1;
        return kInfinity;
    }
    return sum;
}

__device__ __forceinline__ word64 saturated(word64 a, word64 b) {
    return a + b < a ? ~word64{0} : a + b;
}

constexpr word32 kNoVertex = 0xffffffff;

// A chunk: its places are first_place to first_place + n_own - 1.
struct Chunk {
    word64 boundary_words;  // where its matrices from and to its boundary begin
    word64 own_words;       // where its matrix from own vertices begins
    word32 first_place;
    word32 n_own;
    word32 first_boundary;
    word32 n_boundary;
};

static_assert(sizeof(Chunk) == 32, "device_hierarchy.py writes it by these offsets");

// The arc from `low` up to `high`, which is there.
__device__ __forceinline__ word32
find_arc(const word32* arc_offsets, const word32* heads, word32 low, word32 high) {
    word32 first = arc_offsets[low];
    word32 last = arc_offsets[low + 1] - 1;
    while (first < last) {
        const word32 middle = (first + last) / 2;
        if (heads[middle] < high) {
            first = middle + 1;
        } else {
            last = middle;
        }
    }
    return first;
}
