// A place in an array for each calling thread, with one atomic for all threads of a warp that call together.
//
// Idea: the first of these threads adds their number to the counter. Each thread takes the place at its rank among
// them. Compilers do this by themselves if they see that all threads use one counter. But whether they see it can
// change with code far away, and then a search takes a third longer.
//
// Needs: a counter in global memory, the same for all calling threads of the warp.
#pragma once

#include "memory_order.cuh"

template <typename Word>
__device__ __forceinline__ Word take_place(Word* counter) {
    const word32 here = __activemask();
    const word32 before = here & ((1u << threadIdx.x % 32) - 1);
    const Word first = before == 0 ? atomicAdd(counter, static_cast<Word>(__popc(here))) : 0;
    return __shfl_sync(here, first, __ffs(here) - 1) + __popc(before);
}
