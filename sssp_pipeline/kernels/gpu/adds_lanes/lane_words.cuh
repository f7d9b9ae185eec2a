// The distances of one vertex from all lanes: one word for each thread, a line for each warp. They change only here.
//
//   SSSP_NARROW 0   thread t has lane t: the bits of its distance
//   SSSP_NARROW 1   thread t has lane t in the low half of a 32-bit word and lane t + 32 in the high half. 15 bits of
//                   each half are used, so one addition makes two sums and never carries over
//
// Needs: all 32 threads of a warp together in functions that take a whole line; narrow: integer weights of at most
//     kLaneLimit, and a limit of at most that.
// Keeps
//     R1, R2, R3 of relax.cuh, for every lane.
//     L1. A warp writes a word without an atomic only if no other warp writes this line between the same two grid
//         barriers, and if it read the line between them.
// Memory order: relaxed, as in relax.cuh. A stale read is too large: it costs work, never a wrong result.
#pragma once

#include "relax.cuh"
#include "warp.cuh"

#if SSSP_NARROW
using lane_word = word32;
using lane_mask = word64;  // a bit a lane
constexpr int kLanesEach = 2;
constexpr lane_word kLowestLane = 0xffff;
// Also "unreached".
constexpr distance_bits kLaneLimit = 0x7fff;
#else
using lane_word = distance_bits;
using lane_mask = word32;
constexpr int kLanesEach = 1;
constexpr lane_word kLowestLane = ~lane_word{0};
constexpr distance_bits kLaneLimit = kUnreached;
#endif

constexpr word32 kLanes = 32 * kLanesEach;
// No candidate yet.
constexpr lane_word kNoCandidate = ~lane_word{0};

// The word whose lanes all hold d.
__device__ __forceinline__ lane_word word_of(distance_bits d) {
#if SSSP_NARROW
    return static_cast<word32>(d) * 0x10001u;
#else
    return d;
#endif
}

// The i-th lane of a word.
__device__ __forceinline__ distance_bits lane_of(lane_word word, int i) {
#if SSSP_NARROW
    return (word >> (16 * i)) & 0xffffu;
#else
    return word;
#endif
}

// Every lane lengthened by an edge, whose weight is given as a word.
__device__ __forceinline__ lane_word sums_of(lane_word word, lane_word weight) {
#if SSSP_NARROW
    return word + weight;
#else
    return sum_of(word, weight);
#endif
}

__device__ __forceinline__ lane_word lesser_of(lane_word a, lane_word b) {
#if SSSP_NARROW
    return __vminu2(a, b);
#else
    return min(a, b);
#endif
}

// Lowers a word; `seen` was read from it, and some lane of `candidate` is less, none more. `is_alone`: as L1 has it.
__device__ __forceinline__ void lower_word(lane_word* word, lane_word candidate, lane_word seen, bool is_alone) {
    if (is_alone) {
        *word = candidate;
        return;
    }
#if SSSP_NARROW
    for (;;) {
        const lane_word wanted = lesser_of(candidate, seen);
        if (wanted == seen) {
            return;
        }
        const lane_word found = atomicCAS(word, seen, wanted);
        if (found == seen) {
            return;
        }
        seen = found;
    }
#else
    atomicMin(word, candidate);
#endif
}

// Whether the i-th lane differs, for two words that were xored.
__device__ __forceinline__ bool lane_differs(lane_word difference, int i) {
#if SSSP_NARROW
    return ((difference >> (16 * i)) & 0xffffu) != 0;
#else
    return difference != 0;
#endif
}

// The lanes that differ, as a mask for the whole warp.
__device__ __forceinline__ lane_mask lanes_that_differ(lane_word difference) {
#if SSSP_NARROW
    const word64 low = __ballot_sync(kWholeWarp, lane_differs(difference, 0));
    const word64 high = __ballot_sync(kWholeWarp, lane_differs(difference, 1));
    return high << 32 | low;
#else
    return __ballot_sync(kWholeWarp, lane_differs(difference, 0));
#endif
}
