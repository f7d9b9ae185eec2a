// The near and far piles of `near-far`, and how a superstep pushes to them: through shared memory, block by block.
//
// Idea: a block collects its entries in `Held`, and reserves places in the piles once a superstep. An entry that finds
//     no room there takes a place by itself.
//
// Needs: the piles and counters of `State`; push_held(), by all threads of the block, before the barrier that ends the
//     superstep.
// Keeps: I2 of near_far.cu. near_far.cu keeps I3: it pushes to the far pile only a vertex that is reached first.
#pragma once

#include "grid_barrier.cuh"
#include "relax.cuh"
#include "take_place.cuh"

// Entries that a block holds for each pile before it pushes them one by one. The number leaves room for two blocks in
// the shared memory of the smallest GPU, 64 KiB.
constexpr word32 kHeld = 3584;

constexpr distance_bits kNoDistance = ~distance_bits{0};

struct Piles {
    word32* near_piles;    // (2, V)
    word32* far_piles;     // (2, V)
    word32* marks;         // (2, V / 32 + 1) vertices in the near pile, by the parity of the superstep
    uint2* hub_chunks;     // {vertex, number of the chunk in its row}
};

// Entries that one block collects in shared memory before it pushes them.
struct Held {
    word32 near[kHeld];
    word32 far[kHeld];
    word32 near_count;
    word32 far_count;
    word32 near_place;
    word32 far_place;
    distance_bits far_min;

    // For one thread of the block.
    __device__ __forceinline__ void clear() {
        near_count = 0;
        far_count = 0;
        far_min = kNoDistance;
    }
};

// The piles that this superstep pushes to.
struct Target {
    word32* near;
    word64* near_counted;
    word32* near_marks;
    word32* far;
    word32* far_count;
    word64* far_min_complement;
};

__device__ __forceinline__ void push_near(Held& held, const Target& to, word32 v) {
    const word32 bit = 1u << (v & 31);
    if ((atomicOr(&to.near_marks[v >> 5], bit) & bit) != 0) {  // I2
        return;
    }
    const word32 place = atomicAdd(&held.near_count, 1);
    if (place < kHeld) {
        held.near[place] = v;
    } else {
        to.near[take_place(to.near_counted) & kCountMask] = v;
    }
}

__device__ __forceinline__ void push_far(Held& held, const Target& to, word32 v) {
    const word32 place = atomicAdd(&held.far_count, 1);
    if (place < kHeld) {
        held.far[place] = v;
    } else {
        to.far[take_place(to.far_count)] = v;
    }
}

// Moves the held entries to the piles. All threads of the block call it together; a barrier must follow.
__device__ void push_held(Held& held, const Target& to, distance_bits far_min) {
    if (far_min != kNoDistance) {
        atomicMin(&held.far_min, far_min);
    }
    __syncthreads();
    const word32 near_count = min(held.near_count, kHeld);
    const word32 far_count = min(held.far_count, kHeld);
    if (threadIdx.x == 0 && near_count > 0) {
        held.near_place = static_cast<word32>(atomicAdd(to.near_counted, word64{near_count}) & kCountMask);
    }
    if (threadIdx.x == 32 % blockDim.x) {
        if (far_count > 0) {
            held.far_place = atomicAdd(to.far_count, far_count);
        }
        if (held.far_min != kNoDistance) {
            atomicMax(to.far_min_complement, ~static_cast<word64>(held.far_min));
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        held.clear();
    }
    for (word32 i = threadIdx.x; i < near_count; i += blockDim.x) {
        to.near[held.near_place + i] = held.near[i];
    }
    for (word32 i = threadIdx.x; i < far_count; i += blockDim.x) {
        to.far[held.far_place + i] = held.far[i];
    }
}
