// A barrier for all blocks of a cooperative launch. A missing block ends the run, it cannot make it hang.
//
// Idea: one counter that only rises. A block adds one and waits until all blocks of its round have added theirs. Each
// block counts the rounds itself, so nothing is ever reset. A barrier can also use an arrival word, which contains a
// count that all blocks need next. Then the last poll of the barrier reads this count too, which saves a memory access.
//
// An arrival word:
//   bits 0-39    a count, free to use
//   bits 40-55   how many times a block has arrived since the word was zero
//   bits 56-63   free to use; an overflow is lost
//
// Needs: every block of the grid resident at once (`compile.Kernel.resident_blocks` computes how many can be);
//     `arrived` and `poison` zero at launch. An arrival word is zero before any block counts in it, and blocks arrive
//     at it less than 2^16 times.
// Memory order
//     B1. add_release (after __syncthreads) pairs with load_acquire in every other block: what any thread wrote
//         before the barrier is visible to every thread after it. So is what any thread counted.
// Ends: a wait longer than `patience_ns` sets poison, and so does a search older than `deadline_ns`. Every waiting
//     block sees poison within kPolls polls and returns false, and so does every later barrier. The caller must then
//     leave the kernel. Each waiting block checks the deadline. Block 0 checks it in every kRoundsPerLook-th round even
//     if it does not wait. A search begins at its first barrier.
// NOTE: a poisoned block may still cause others to write. Results of a poisoned run mean nothing.
#pragma once

#include "stopwatch.cuh"

constexpr word64 kCountMask = (word64{1} << 40) - 1;
constexpr word64 kOneBlock = kCountMask + 1;
constexpr word64 kBlocksMask = 0xffff * kOneBlock;
constexpr int kFreeBits = 56;

// Polls between two reads of clock and poison: about 0.1 ms.
constexpr word32 kPolls = 128;
// Rounds between two checks of the deadline by block 0, a power of two.
constexpr word32 kRoundsPerLook = 64;
// Deadline of a search that other code ends.
constexpr word64 kNoDeadline = ~word64{0};
// `poison` of a search past its deadline. As in `gpu_solver.py`.
constexpr word32 kPastDeadline = 0xffffffffu;

struct BarrierWords {
    word32 arrived;
    word32 poison;  // 0, or the number of the round that failed plus one, or kPastDeadline
};

struct GridBarrier {
    BarrierWords* words;
    word32 n_blocks;
    word64 patience_ns;
    word64 deadline_ns;
    word32 round = 0;
    word32 goal = 0;  // value of `arrived` when all blocks have arrived

    // Waits for all blocks. Returns false to all threads of the block if the run was given up.
    __device__ bool wait() {
        __shared__ bool is_complete;
        __syncthreads();
        round += 1;
        if (threadIdx.x == 0) {
            is_complete = all_arrive();
        }
        __syncthreads();
        return is_complete;
    }

    // As wait(), at an arrival word, for the `times`-th time since it was zero. Sets `value` to the word without its
    // number of arrivals. One thread of the block calls read_more(value), and `more` is its result. All threads of the
    // block get both.
    template <typename ReadMore>
    __device__ __forceinline__ bool wait_at(word64* word, word32 times, const ReadMore& read_more, word64& value,
                                            word32& more) {
        __shared__ bool is_complete;
        __shared__ word64 word_then;
        __shared__ word32 more_then;
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
            more_then = read_more(seen);
        }
        __syncthreads();
        value = word_then;
        more = more_then;
        return is_complete;
    }

    // As wait(). Sets `values` to the words at `addresses` after the barrier. One thread reads them for the block: if
    // all warps of a GPU read one address, they wait in line.
    template <typename Word, int n>
    __device__ bool wait(const Word* const (&addresses)[n], Word (&values)[n]) {
        __shared__ bool is_complete;
        __shared__ Word words_then[n];
        __syncthreads();
        round += 1;
        if (threadIdx.x == 0) {
            is_complete = all_arrive();
#pragma unroll
            for (int i = 0; i < n; ++i) {
                words_then[i] = load_relaxed(addresses[i]);
            }
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < n; ++i) {
            values[i] = words_then[i];
        }
        return is_complete;
    }

private:
    // Arrives for the block at the barrier of this round. Returns whether all blocks arrived; false if one gave up.
    __device__ bool all_arrive() {
        goal += n_blocks;
        add_release(&words->arrived, 1);  // B1
        return holds_in_time([&] { return static_cast<int>(load_acquire(&words->arrived) - goal) >= 0; });  // B1
    }

    // The age of the search. Only one thread of the block uses it.
    static __device__ __forceinline__ Stopwatch& age() {
        __shared__ Stopwatch age_then;
        return age_then;
    }

    // Polls until holds() returns true. Returns false if a block gave up.
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
