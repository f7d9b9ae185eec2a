// The words in which a hierarchy keeps weights and distances: unsigned integers that saturate.
//
//   SSSP_WIDE 0   32 bits; kInfinity is the largest half of them, so a sum of two words never wraps
//   SSSP_WIDE 1   64 bits; a sum that wraps is kInfinity
//
// Keeps
//     W1. Every word is at most kInfinity, which means "no path, or none that is short enough". A minimum with
//         kInfinity as its first value bounds sums.
#pragma once

#include "relax.cuh"

#if SSSP_WIDE
using sweep_word = word64;
constexpr sweep_word kInfinity = ~word64{0};
#else
using sweep_word = word32;
constexpr sweep_word kInfinity = 0x7fffffff;
#endif

__device__ __forceinline__ sweep_word plus(sweep_word a, sweep_word b) {
#if SSSP_WIDE
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
