// An exclusive prefix sum over the warps of a grid, and the total.
//
// Idea: two levels, with one grid barrier between them. Before it, each block adds up its own warps and publishes one
// word. After it, every block reads all these words and adds up those of the blocks before it. That costs less than one
// block that scans while the others wait, plus a second barrier. It works for any number of blocks, and nothing has to
// be reset.
//
// Needs: blocks of a multiple of 32 threads, at most 1,024; all threads of all blocks call give() and take(), with a
//     GridBarrier between them, and another before the next give().
// Keeps
//     P1. Only block b writes of_blocks[b], in give(). So it does not change between calls of give().
//     P2. Shared memory is read only between the two __syncthreads around its use; the first one is before the writes.
#pragma once

#include "edge_list.cuh"

struct Sums {
    word64 before;
    word64 total;
};

struct WarpPrefixSum {
    word64* of_blocks;  // (n_blocks,)
    word64 before_in_block;

    // Adds the amount of this warp; all its threads pass the same.
    __device__ void give(word64 own) {
        __shared__ word64 of_warps[32];
        const word32 thread_of_warp = threadIdx.x % 32;
        const word32 warp = threadIdx.x / 32;
        __syncthreads();  // P2
        if (thread_of_warp == 0) {
            of_warps[warp] = own;
        }
        __syncthreads();
        const word64 word = thread_of_warp < blockDim.x / 32 ? of_warps[thread_of_warp] : word64{0};
        before_in_block = sum_over_warp(thread_of_warp < warp ? word : word64{0});
        const word64 total = sum_over_warp(word);
        if (threadIdx.x == 0) {
            of_blocks[blockIdx.x] = total;
        }
    }

    // Returns the sum over the warps before this one, and the total, to all threads of the warp.
    __device__ Sums take() const {
        __shared__ Sums of_warps[32];
        const word32 thread_of_warp = threadIdx.x % 32;
        Sums sums{0, 0};
        for (word32 b = threadIdx.x; b < gridDim.x; b += blockDim.x) {
            const word64 word = of_blocks[b];
            sums.before += b < blockIdx.x ? word : 0;
            sums.total += word;
        }
        sums = {sum_over_warp(sums.before), sum_over_warp(sums.total)};
        __syncthreads();  // P2
        if (thread_of_warp == 0) {
            of_warps[threadIdx.x / 32] = sums;
        }
        __syncthreads();
        sums = thread_of_warp < blockDim.x / 32 ? of_warps[thread_of_warp] : Sums{0, 0};
        return {sum_over_warp(sums.before) + before_in_block, sum_over_warp(sums.total)};
    }
};
