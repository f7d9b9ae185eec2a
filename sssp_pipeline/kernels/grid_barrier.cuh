// A barrier for all blocks of a cooperative launch, which a missing block cannot turn into a hang.
//
// Idea: one counter that only rises. A block adds one and waits until all blocks of its round have; rounds are
// counted by each block for itself, so that nothing is ever reset.
//
// Needs: every block of the grid resident at once (`_compile.Kernel.resident_blocks` computes how many can be);
//     arrived and poison zero at launch.
// Memory order
//     B1. add_release (after __syncthreads) pairs with load_acquire in every other block: what any thread wrote
//         before the barrier is seen by every thread after it.
// Ends: a wait longer than `patience_ns` sets poison; every waiting block sees it within kPolls polls and returns
//     false, and so does every later barrier. The caller must then leave the kernel.
// NOTE: a poisoned block may still lead others to write: results of a poisoned run mean nothing.
#pragma once

#include "memory_order.cuh"

// Between looks at clock and poison: about 0.1 ms of polling.
constexpr word32 kPolls = 128;

struct BarrierWords {
    word32 arrived;
    word32 poison;  // 0, or the round that did not come about, plus one
};

struct GridBarrier {
    BarrierWords* words;
    word32 n_blocks;
    word64 patience_ns;
    word32 round;

    // Returns false, to all threads of the block alike, if the run was given up.
    __device__ bool wait() {
        __shared__ bool is_complete;
        __syncthreads();
        round += 1;
        if (threadIdx.x == 0) {
            is_complete = all_come();
        }
        __syncthreads();
        return is_complete;
    }

    // As wait(), and tells all threads what some words are after the barrier. One access a block: what all warps of a
    // GPU ask one address for, they wait in line for.
    template <typename Word, int n>
    __device__ bool wait(const Word* const (&asked)[n], Word (&told)[n]) {
        __shared__ bool is_complete;
        __shared__ Word words_then[n];
        __syncthreads();
        round += 1;
        if (threadIdx.x == 0) {
            is_complete = all_come();
#pragma unroll
            for (int i = 0; i < n; ++i) {
                words_then[i] = load_relaxed(asked[i]);
            }
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < n; ++i) {
            told[i] = words_then[i];
        }
        return is_complete;
    }

private:
    // Comes to the barrier of this round, for the block; returns whether all blocks have come, not that one gave up.
    __device__ bool all_come() {
        const word32 goal = round * n_blocks;
        add_release(&words->arrived, 1);  // B1
        word64 began = 0;
        for (word32 polls = 0; static_cast<int>(load_acquire(&words->arrived) - goal) < 0; ++polls) {  // B1
            if (polls % kPolls != kPolls - 1) {
                continue;
            }
            const word64 now = clock_ns();
            began = began == 0 ? now : began;
            if (now - began > patience_ns) {
                atomicCAS(&words->poison, 0u, round + 1);
            }
            if (load_relaxed(&words->poison) != 0) {
                return false;
            }
        }
        return true;
    }
};
