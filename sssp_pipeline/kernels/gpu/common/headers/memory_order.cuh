// Loads, stores and fences with their memory order.
//
// Idea: ordinary CUDA accesses order nothing between thread blocks. Code that shares a word between blocks uses the
// functions below. A comment at each call names the call that it pairs with. All functions have the scope of one GPU.
//   relaxed  reads or writes the whole word; orders nothing else
//   acquire  what the writer did before its release is visible after this
//   release  what this thread did before is visible to every thread that acquires; after a __syncthreads this
//            holds for the whole block
//
// Needs: sm_70 or newer; words aligned to their size, in global memory.
// NOTE: this is inline PTX because <cuda/atomic> takes seconds to compile and needs headers that NVRTC does not bring.
// Paper: "A formal analysis of the NVIDIA PTX memory consistency model", Lustig, Sahasrabuddhe, Giroux, ASPLOS 2019.
#pragma once

using word32 = unsigned int;
using word64 = unsigned long long;

static_assert(sizeof(word32) == 4 && sizeof(word64) == 8, "words have the sizes that their names say");

__device__ __forceinline__ word32 load_relaxed(const word32* address) {
    word32 value;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
    return value;
}

__device__ __forceinline__ word64 load_relaxed(const word64* address) {
    word64 value;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
    return value;
}

// Loads four consecutive words, the first at a multiple of 16 bytes. Each word is whole; nothing orders them.
__device__ __forceinline__ void load_relaxed(word32 (&values)[4], const word32* address) {
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(values[0]), "=r"(values[1]), "=r"(values[2]), "=r"(values[3])
                 : "l"(address)
                 : "memory");
}

__device__ __forceinline__ word32 load_acquire(const word32* address) {
    word32 value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
    return value;
}

__device__ __forceinline__ word64 load_acquire(const word64* address) {
    word64 value;
    asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
    return value;
}

__device__ __forceinline__ void store_relaxed(word32* address, word32 value) {
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" : : "l"(address), "r"(value) : "memory");
}

__device__ __forceinline__ void store_relaxed(word64* address, word64 value) {
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" : : "l"(address), "l"(value) : "memory");
}

__device__ __forceinline__ void store_release(word32* address, word32 value) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" : : "l"(address), "r"(value) : "memory");
}

__device__ __forceinline__ void store_release(word64* address, word64 value) {
    asm volatile("st.release.gpu.global.u64 [%0], %1;" : : "l"(address), "l"(value) : "memory");
}

// Adds and returns the old value.
__device__ __forceinline__ word32 add_release(word32* address, word32 value) {
    word32 old;
    asm volatile("atom.add.release.gpu.global.u32 %0, [%1], %2;" : "=r"(old) : "l"(address), "r"(value) : "memory");
    return old;
}

__device__ __forceinline__ word64 add_release(word64* address, word64 value) {
    word64 old;
    asm volatile("atom.add.release.gpu.global.u64 %0, [%1], %2;" : "=l"(old) : "l"(address), "l"(value) : "memory");
    return old;
}

__device__ __forceinline__ word32 add_acq_rel(word32* address, word32 value) {
    word32 old;
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;" : "=r"(old) : "l"(address), "r"(value) : "memory");
    return old;
}

// Orders every access before it against every access after it; pairs with another fence or an acquire/release.
__device__ __forceinline__ void fence_acq_rel() {
    asm volatile("fence.acq_rel.gpu;" : : : "memory");
}

// Nanoseconds of the GPU's own clock; it ticks about once a microsecond, and may step back (stopwatch.cuh).
__device__ __forceinline__ word64 clock_ns() {
    word64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
#if SSSP_CLOCK_RUNS_BACK  // for tests
    now = ~now;
#endif
    return now;
}
