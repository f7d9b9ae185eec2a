// Distances on the device. This is the only place where a distance changes.
//
// Idea: a distance is a word whose unsigned order is the order of the lengths. So one unsigned atomic minimum serves
// all types. For numbers of zero or more, the word is the bits themselves. With negative weights (SSSP_SIGNED) the sign
// bit is inverted, and all bits of a negative float; `search_graph.py` turns the words into numbers again. The types differ in
// how a sum is formed, and in which words mean "unreached" and "zero". Weights are kept as their bits.
//
// Needs (guaranteed by `GpuSolver.supports` and `compile.kernel_options`): finite weights, of zero or more unless
//     SSSP_SIGNED; SSSP_FLOATING and SSSP_SIGNED 0 or 1; SSSP_BITS 32 or 64; SSSP_UNREACHED the bits of
//     `csr.unreached_distance`.
// Keeps
//     R1. A distance only falls, and only to the length of a real path. Every change goes through lower_distance, or
//         through set_distance where no other thread can change it meanwhile.
//     R2. A sum too large for the type compares as unreached or beyond, so it lowers nothing. A sum too small for the
//         type is kTooLow and stays; the host finds it and refuses the path.
//     R3. Sums are rounded as numpy rounds them: to nearest, subnormals kept, never fused.
// Memory order: relaxed. A stale read of a distance is too large (R1): it costs work, never a wrong result. A thread
//     that must see the new distance learns of it from the queue to which the vertex is pushed.
// NOTE: CuPy compiles with -ftz=true, which turns subnormal sums into zero. The PTX `add.rn` below is not affected.
//     A weight of -0.0 is harmless: 0.0 + -0.0 is 0.0.
#pragma once

#include "memory_order.cuh"

#if SSSP_BITS == 32
using distance_bits = word32;
#elif SSSP_BITS == 64
using distance_bits = word64;
#else
#error "SSSP_BITS is 32 or 64"
#endif

constexpr distance_bits kSign = distance_bits{1} << (SSSP_BITS - 1);

#if SSSP_SIGNED
constexpr distance_bits kUnreached = static_cast<distance_bits>(SSSP_UNREACHED) ^ kSign;
constexpr distance_bits kAtSource = kSign;
constexpr distance_bits kTooLow = SSSP_FLOATING ? ~(static_cast<distance_bits>(SSSP_UNREACHED) | kSign) : 0;
#else
constexpr distance_bits kUnreached = static_cast<distance_bits>(SSSP_UNREACHED);
constexpr distance_bits kAtSource = 0;
#endif

#if SSSP_FLOATING
__device__ __forceinline__ distance_bits to_bits(distance_bits word) {
#if SSSP_SIGNED
    return (word & kSign) != 0 ? word ^ kSign : ~word;
#else
    return word;
#endif
}

__device__ __forceinline__ distance_bits to_word(distance_bits bits) {
#if SSSP_SIGNED
    return (bits & kSign) != 0 ? ~bits : bits ^ kSign;
#else
    return bits;
#endif
}
#endif

// Length d of a path plus the weight w of an edge (unless SSSP_SIGNED, also the sum of any two lengths).
__device__ __forceinline__ distance_bits sum_of(distance_bits d, distance_bits w) {
#if SSSP_FLOATING && SSSP_BITS == 32
    float sum;
    asm("add.rn.f32 %0, %1, %2;" : "=f"(sum) : "f"(__uint_as_float(to_bits(d))), "f"(__uint_as_float(w)));
    return to_word(__float_as_uint(sum));
#elif SSSP_FLOATING
    double sum;
    asm("add.rn.f64 %0, %1, %2;"
        : "=d"(sum)
        : "d"(__longlong_as_double(static_cast<long long>(to_bits(d)))),
          "d"(__longlong_as_double(static_cast<long long>(w))));
    return to_word(static_cast<distance_bits>(__double_as_longlong(sum)));
#elif SSSP_SIGNED
    const distance_bits sum = d + w;
    if ((w & kSign) != 0) {
        return sum > d ? kTooLow : sum;  // wrapped
    }
    return sum < d ? ~distance_bits{0} : sum;
#else
    const distance_bits sum = d + w;
    return sum < d ? ~distance_bits{0} : sum;  // wrapped
#endif
}

// End of a bucket of `width` that begins at `threshold`. It is at least the next length after threshold, so no bucket
// is empty.
__device__ __forceinline__ distance_bits end_of_bucket(distance_bits threshold, distance_bits width) {
    const distance_bits end = sum_of(threshold, width);
    return end > threshold ? end : threshold + 1;
}

// Result of lower_distance: it lowered the distance iff candidate < before.
struct Lowering {
    distance_bits before;
    bool lowered;
};

// Lowers distances[v] to `candidate` if that is less. With `look_first` it reads before it writes. That saves most
// atomics if most edges lower nothing, but takes one more memory access.
__device__ __forceinline__ Lowering
lower_distance(distance_bits* distances, word32 v, distance_bits candidate, bool look_first) {
    if (look_first) {
        const distance_bits seen = distances[v];
        if (candidate >= seen) {
            return {seen, false};
        }
    }
    const distance_bits before = atomicMin(&distances[v], candidate);
    return {before, candidate < before};
}

// Sets distances[v] to `distance`, which must be less. No other thread may write it between the same two barriers.
__device__ __forceinline__ void set_distance(distance_bits* distances, word32 v, distance_bits distance) {
    distances[v] = distance;
}
