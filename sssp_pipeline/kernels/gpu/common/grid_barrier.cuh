// A barrier for all blocks of a cooperative launch, which a missing block cannot turn into a hang.
//
// Idea: one counter that only rises. A block adds one and waits until all blocks of its round have; rounds are
// counted by each block for itself, so that nothing is ever reset. What all want to know after the barrier can stand in
// the word that they poll: then who sees that all have come knows it, a memory access sooner than by asking.
//
// A word that blocks come to:
//   bits 0-39    what they count
//   bits 40-55   how often blocks have come since it was zero
//   bits 56-63   as the kernel likes; what overflows them is lost
//
// Needs: every block of the grid resident at once (`_compile.Kernel.resident_blocks` computes how many can be);
//     arrived and poison zero at launch. A word that blocks come to is zero before any of them counts in it, and they
//     come to it less than 2^16 times.
// Memory order
//     B1. add_release (after __syncthreads) pairs with load_acquire in every other block: what any thread wrote
//         before the barrier is seen by every thread after it. So is what any thread counted.
// Ends: a wait longer than `patience_ns` sets poison, and so does a search that is older than `deadline_ns`; every
//     waiting block sees it within kPolls polls and returns false, and so does every later barrier. The caller must
//     then leave the kernel. Each block that waits looks at the deadline, and block 0 in every kRoundsPerLook-th round
//     even if it does not wait. A search begins at its first barrier.
// NOTE: a poisoned block may still lead others to write: results of a poisoned run mean nothing.
#pragma once

#include "stopwatch.cuh"

constexpr word64 kCountMask = (word64{1} << 40) - 1;
constexpr word64 kOneBlock = kCountMask + 1;
constexpr word64 kBlocksMask = 0xffff * kOneBlock;
constexpr int kFreeBits = 56;

// Between looks at clock and poison: about 0.1 ms of polling.
constexpr word32 kPolls = 128;
// Rounds between two looks of block 0 at the deadline, a power of two.
constexpr word32 kRoundsPerLook = 64;
// For a search that is given up by other means.
constexpr word64 kNoDeadline = ~word64{0};
// `poison` of a search past its deadline. As in `gpu_solver.py`.
constexpr word32 kPastDeadline = 0xffffffffu;

struct BarrierWords {
    word32 arrived;
    word32 poison;  // 0; or the round that did not come about, plus one; or kPastDeadline
};

struct GridBarrier {
    BarrierWords* words;
    word32 n_blocks;
    word64 patience_ns;
    word64 deadline_ns;
    word32 round = 0;
    word32 goal = 0;  // what `arrived` is when all blocks have come

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

    // As wait(), at a word that the blocks come to, for the `times`-th time since it was zero. Tells all threads what it
    // holds then, but how many have come, and what `ask`, called with that by one thread of a block, returns.
    template <typename Ask>
    __device__ __forceinline__ bool wait_at(word64* word, word32 times, const Ask& ask, word64& told,
                                            word32& answer) {
        __shared__ bool is_complete;
        __shared__ word64 word_then;
        __shared__ word32 its_answer;
        __syncthreads();
        round += 1;
        if (threadIdx.x == 0) {
            const word64 all = word64{times} * n_blocks * kOneBlock;
            word64 seen = 0;
            add_release(word, kOneBlock);  // B1
            is_complete = holds_in_time([&] {
                seen = load_acquire(word);  // B1
                return (seen & kBlocksMask) >= all;
            });
            seen &= ~kBlocksMask;
            word_then = seen;
            its_answer = ask(seen);
        }
        __syncthreads();
        told = word_then;
        answer = its_answer;
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
        goal += n_blocks;
        add_release(&words->arrived, 1);  // B1
        return holds_in_time([&] { return static_cast<int>(load_acquire(&words->arrived) - goal) >= 0; });  // B1
    }

    // The age of the search, for one thread of the block.
    static __device__ __forceinline__ Stopwatch& age() {
        __shared__ Stopwatch age_then;
        return age_then;
    }

    // Polls until `holds` does; returns whether it did, not that a block gave up.
    template <typename Holds>
    __device__ __forceinline__ bool holds_in_time(const Holds& holds) {
        if (round == 1) {
            age().start();
        }
        word64 began = 0;
        for (word32 polls = blockIdx.x == 0 && round % kRoundsPerLook == 0 ? kPolls : 1;; ++polls) {
            if (polls % kPolls == 0) {
                const word64 now = age().look();
                began = polls == kPolls ? now : began;
                if (now > deadline_ns || now - began > patience_ns) {
                    atomicCAS(&words->poison, 0u, now > deadline_ns ? kPastDeadline : round + 1);
                }
                if (load_relaxed(&words->poison) != 0) {
                    return false;
                }
            }
            if (holds()) {
                return true;
            }
        }
    }
};
