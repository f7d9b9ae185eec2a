// Reads that begin before a warp needs what they bring to the L1 cache. No register waits for them.
#pragma once

#include "call.cuh"

constexpr word32 kSweepBlock = 256;

// Begins to read the sector of 32 bytes around `place`: copies 4 bytes of it to shared memory, where nothing reads them. GPUs
// before sm_80 do nothing.
__device__ __forceinline__ void warm_up([[maybe_unused]] const void* place) {
#if __CUDA_ARCH__ >= 800
    __shared__ word32 copies[kSweepBlock];
    const word32 into = static_cast<word32>(__cvta_generic_to_shared(copies + threadIdx.x));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" : : "r"(into), "l"(place));
#endif
}

// Begins to read the weights and the rows of `n` boundary vertices, at most 32, in the lanes of a warp. `rows` and `weights`
// are those of place 0 and of the first vertex. Thread i has the place of vertex i.
//
// It is a call: inlined, it costs a warp four registers, and a multiprocessor a third of its warps.
template <int kEach>
__device__ __noinline__ void warm_up_boundary(const stored_word* rows, word32 row_bytes, const stored_word* weights, word32 n,
                                              word32 place) {
    constexpr word32 sectors = kEach * sizeof(packed_word);  // of a row: 32 threads, sectors of 32 bytes
    constexpr word32 rows_at_once = 32 / sectors;
    const word32 thread = threadIdx.x % 32;
    if (thread < n) {
        warm_up(weights + thread * kTile);
    }
    const char* first_sector = reinterpret_cast<const char*>(rows - thread * kEach * kPacked);
    for (word32 first = 0; first < n; first += rows_at_once) {
        const word64 row = __shfl_sync(kWholeWarp, place, min(first + thread / sectors, n - 1));
        warm_up(first_sector + row * row_bytes + thread % sectors * 32);
    }
}
