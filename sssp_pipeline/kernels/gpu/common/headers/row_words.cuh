// The words of a row in the order of `reductions.py`: numbers that several kernels make of a row of distances.
#pragma once

#include "memory_order.cuh"

// Vertices that a warp reads together.
constexpr word32 kSegment = 1024;

// Counts of the limits follow, then the sums of the amounts by limit, and words of other kernels.
enum Word : word32 { kReached, kLargest, kMagnitude, kLower, kUpper, kHarmonic, kWithin };

// Vertices of a segment that a thread reads before it uses the first one, each 32 behind the one before.
constexpr word32 kAhead = 8;
static_assert(kSegment % (32 * kAhead) == 0, "a segment is read in whole steps");

// Reads `values` of the vertices v, v + 32, v + 64, …; `missing` stands for those from n_vertices on. A load behind a
// condition of its own is not issued before the load ahead of it is used, so there is one condition for all.
template <typename Value>
__device__ __forceinline__ void read_ahead(const Value* values, word64 v, word32 n_vertices, Value missing,
                                           Value (&into)[kAhead]) {
    if (v + 32 * (kAhead - 1) < n_vertices) {
#pragma unroll
        for (word32 i = 0; i < kAhead; ++i) {
            into[i] = __ldg(values + v + 32 * i);
        }
    } else {
#pragma unroll
        for (word32 i = 0; i < kAhead; ++i) {
            into[i] = v + 32 * i < n_vertices ? values[v + 32 * i] : missing;
        }
    }
}
