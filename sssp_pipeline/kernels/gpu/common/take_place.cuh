// A place in an array for each lane that asks: one atomic for all lanes of a warp that ask together.
//
// Idea: of the lanes that are here, the first adds how many they are to the counter, and each takes as many places on
// as lanes are here before it. Compilers do that by themselves where they see that all lanes ask the same counter, but
// whether they see it changes with code far away: a pile whose counter each lane asked took 1.35 times the run.
//
// Needs: a counter in global memory that is the same for all lanes of the warp.
#pragma once

#include "memory_order.cuh"

template <typename Word>
__device__ __forceinline__ Word take_place(Word* counter) {
    const word32 here = __activemask();
    const word32 before = here & ((1u << threadIdx.x % 32) - 1);
    const Word first = before == 0 ? atomicAdd(counter, static_cast<Word>(__popc(here))) : 0;
    return __shfl_sync(here, first, __ffs(here) - 1) + __popc(before);
}
