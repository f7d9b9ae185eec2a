// What the threads of a warp compute together. All 32 threads call each function together.
#pragma once

#include "memory_order.cuh"

constexpr word32 kWholeWarp = 0xffffffffu;

// Sum of `amount` over the warp, returned to all its threads.
__device__ __forceinline__ word64 sum_over_warp(word64 amount) {
#pragma unroll
    for (int by = 16; by > 0; by /= 2) {
        amount += __shfl_xor_sync(kWholeWarp, amount, by);
    }
    return amount;
}

__device__ __forceinline__ word32 sum_over_warp(word32 amount) {
#if __CUDA_ARCH__ >= 800
    return __reduce_add_sync(kWholeWarp, amount);
#else
    for (int by = 16; by > 0; by /= 2) {
        amount += __shfl_xor_sync(kWholeWarp, amount, by);
    }
    return amount;
#endif
}

// Minimum and maximum of `value` over the warp, returned to all its threads.
__device__ __forceinline__ word32 minimum_over_warp(word32 value) {
#if __CUDA_ARCH__ >= 800
    return __reduce_min_sync(kWholeWarp, value);
#else
    for (int by = 16; by > 0; by /= 2) {
        value = min(value, __shfl_xor_sync(kWholeWarp, value, by));
    }
    return value;
#endif
}

__device__ __forceinline__ word32 maximum_over_warp(word32 value) {
    return ~minimum_over_warp(~value);
}

template <typename Word>
__device__ __forceinline__ Word minimum_over_warp(Word value) {
    for (int by = 16; by > 0; by /= 2) {
        value = min(value, __shfl_xor_sync(kWholeWarp, value, by));
    }
    return value;
}

// Inclusive prefix sum of `amount` over the warp.
template <typename Word>
__device__ __forceinline__ Word prefix_sum(Word amount) {
    const word32 thread_of_warp = threadIdx.x % 32;
#pragma unroll
    for (int by = 1; by < 32; by *= 2) {
        const Word before = __shfl_up_sync(kWholeWarp, amount, by);
        amount += thread_of_warp >= static_cast<word32>(by) ? before : 0;
    }
    return amount;
}

// Finds the owner of item k: the first thread whose `ends` exceeds k, or the last thread if none does. `ends` is the
// prefix sum of the items that each thread owns.
template <typename Word>
__device__ __forceinline__ word32 find_owner(Word ends, Word k) {
    word32 owner = 0;
#pragma unroll
    for (int half = 16; half > 0; half /= 2) {
        const Word probe = __shfl_sync(kWholeWarp, ends, owner + half - 1);
        owner += probe <= k ? half : 0;
    }
    return owner;
}

// Counts the threads in `mask` that come before this thread in its warp.
__device__ __forceinline__ word32 rank_in(word32 mask) {
    return __popc(mask & ((1u << threadIdx.x % 32) - 1));
}

// Adds the sums of two counts over the warp to two totals in memory.
__device__ __forceinline__ void add_counts(word64 vertices, word64 edges, word64* total_vertices, word64* total_edges) {
    for (int by = 16; by > 0; by /= 2) {
        vertices += __shfl_down_sync(kWholeWarp, vertices, by);
        edges += __shfl_down_sync(kWholeWarp, edges, by);
    }
    if (threadIdx.x % 32 == 0 && vertices + edges > 0) {
        atomicAdd(total_vertices, vertices);
        atomicAdd(total_edges, edges);
    }
}
