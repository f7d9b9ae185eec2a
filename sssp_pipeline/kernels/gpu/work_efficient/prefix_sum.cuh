// How much the warps before this one have, and all together: an exclusive prefix sum over the warps of a grid.
//
// Idea: two levels, with one grid barrier between them. Before it, a block adds up its own warps and publishes one
// word. After it, every block reads all those words and adds up the ones before its own: hundreds of words that are
// read by all cost less than one block that scans while the others wait for it, and another barrier. It holds for any
// number of blocks, and nothing has to be reset.
//
// Needs: blocks of a multiple of 32 threads, 1,024 at most; give() and take() called by all threads of all blocks,
//     with a GridBarrier between them, and another before the next give().
// Keeps
//     P1. of_blocks[b] is written by block b in give() alone, so between give()s it does not change.
//     P2. What is in shared memory is read only between the two __syncthreads after it was written; the first of each
//         function stands before its writes.
#pragma once

#include "edge_list.cuh"

struct Sums {
    word64 before;
    word64 total;
};

struct WarpPrefixSum {
    word64* of_blocks;  // (n_blocks,)
    word64 before_in_block;

    // Takes what this warp has, from any lane.
    __device__ void give(word64 own) {
        __shared__ word64 of_warps[32];
        const word32 lane = threadIdx.x % 32;
        const word32 warp = threadIdx.x / 32;
        __syncthreads();  // P2
        if (lane == 0) {
            of_warps[warp] = own;
        }
        __syncthreads();
        const word64 word = lane < blockDim.x / 32 ? of_warps[lane] : word64{0};
        before_in_block = sum_over_warp(lane < warp ? word : word64{0});
        const word64 total = sum_over_warp(word);
        if (threadIdx.x == 0) {
            of_blocks[blockIdx.x] = total;
        }
    }

    // Returns the sums to all threads of the warp.
    __device__ Sums take() const {
        __shared__ Sums of_warps[32];
        const word32 lane = threadIdx.x % 32;
        Sums sums{0, 0};
        for (word32 b = threadIdx.x; b < gridDim.x; b += blockDim.x) {
            const word64 word = of_blocks[b];
            sums.before += b < blockIdx.x ? word : 0;
            sums.total += word;
        }
        sums = {sum_over_warp(sums.before), sum_over_warp(sums.total)};
        __syncthreads();  // P2
        if (lane == 0) {
            of_warps[threadIdx.x / 32] = sums;
        }
        __syncthreads();
        sums = lane < blockDim.x / 32 ? of_warps[lane] : Sums{0, 0};
        return {sum_over_warp(sums.before) + before_in_block, sum_over_warp(sums.total)};
    }
};
