// The frontier that a superstep fills: an array and a counter in global memory, written through shared memory.
//
// Idea: a warp collects the vertices that its lanes enter, places handed out by a ballot, not by atomics. When it holds
//     about kHeld it reserves places for them with one atomic and writes them in a row; what the warps of a block are
//     left with at the end takes one reservation together.
//
// Needs: SSSP_THREADS, a multiple of 32; enter() called by all lanes of a warp, enter_held() by all threads of a block,
//     before the barrier that ends the superstep.
// Keeps
//     F1. After the barrier *count is how many entries there were; if that is at most `capacity`, all stand in
//         `vertices`, and if it is more, those beyond are lost.
// Paper: Busato, Bombieri, IEEE TPDS 2015, section 5.1 and figure 5.
#pragma once

#include "memory_order.cuh"

constexpr word32 kWholeWarp = 0xffffffffu;
constexpr word32 kWarps = SSSP_THREADS / 32;
// Vertices that a warp can hold back; it writes them out when another ballot may not fit.
constexpr word32 kHeld = 128;

// What the warps of a block hold back, in shared memory.
struct Held {
    word32 vertices[kWarps][kHeld];
    word32 counts[kWarps];
    word64 places[kWarps];
};

struct NextFrontier {
    Held* held;
    word32 n_held;  // of this warp
    word32* vertices;
    word64* count;
    word64 capacity;

    // Enters v in the lanes that say so. For all lanes of the warp together.
    __device__ __forceinline__ void enter(bool is_entered, word32 v) {
        const word32 who = __ballot_sync(kWholeWarp, is_entered);
        if (who == 0) {
            return;
        }
        const word32 lane = threadIdx.x % 32;
        if (n_held + 32 > kHeld) {
            word64 place = lane == 0 ? atomicAdd(count, word64{n_held}) : 0;
            place = __shfl_sync(kWholeWarp, place, 0);
            __syncwarp();
            write_out(place);
            __syncwarp();
        }
        if (is_entered) {
            held->vertices[threadIdx.x / 32][n_held + __popc(who & ((1u << lane) - 1))] = v;
        }
        n_held += __popc(who);
    }

    // Writes out what the warps still hold. For all threads of the block together.
    __device__ __forceinline__ void enter_held() {
        const word32 warp = threadIdx.x / 32;
        const word32 lane = threadIdx.x % 32;
        if (lane == 0) {
            held->counts[warp] = n_held;
        }
        if (__syncthreads_or(n_held > 0) == 0) {
            return;
        }
        if (warp == 0) {
            const word32 own = lane < kWarps ? held->counts[lane] : 0;
            word32 ends = own;
#pragma unroll
            for (int by = 1; by < 32; by *= 2) {
                const word32 before = __shfl_up_sync(kWholeWarp, ends, by);
                ends += lane >= static_cast<word32>(by) ? before : 0;
            }
            word64 place = lane == 31 ? atomicAdd(count, word64{ends}) : 0;
            place = __shfl_sync(kWholeWarp, place, 31);
            if (lane < kWarps) {
                held->places[lane] = place + (ends - own);
            }
        }
        __syncthreads();
        write_out(held->places[warp]);
    }

private:
    __device__ __forceinline__ void write_out(word64 place) {
        for (word32 i = threadIdx.x % 32; i < n_held; i += 32) {
            if (place + i < capacity) {  // F1
                vertices[place + i] = held->vertices[threadIdx.x / 32][i];
            }
        }
        n_held = 0;
    }
};
