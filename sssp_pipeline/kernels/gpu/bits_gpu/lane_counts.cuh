// Counts of bits by lane: how many of the rows that a warp adds have a bit in each column.
//
// Idea: the low bits of the counts of a word's 32 lanes are a word, and so are their second bits, and so on: planes. A
//     row is added to 32 counts by a few logical instructions. Before the planes can overflow, they are added to the
//     counts of the block.
// Needs: whole warps; the block's totals zero before the first row; make_room() after at most kItemRows rows.
#pragma once

#include "bit_call.cuh"

// Rows that planes can count: 2^kPlanes - 1.
constexpr word32 kPlanes = 6;
// Rows that an item adds at most.
constexpr word32 kItemRows = 32;

struct LaneCounts {
    word32* totals;  // shared memory, (kLanes,) by slot_of
    Part planes[kPlanes];
    word32 n_rows;

    __device__ __forceinline__ void start(word32* of_block) {
        totals = of_block;
        n_rows = 0;
#pragma unroll
        for (word32 p = 0; p < kPlanes; ++p) {
            planes[p] = same_words(0);
        }
    }

    __device__ __forceinline__ void add(Part row) {
#pragma unroll
        for (word32 p = 0; p < kPlanes; ++p) {
#pragma unroll
            for (word32 i = 0; i < kEach; ++i) {
                const word32 carry = planes[p].words[i] & row.words[i];
                planes[p].words[i] ^= row.words[i];
                row.words[i] = carry;
            }
        }
        n_rows += 1;
    }

    __device__ __forceinline__ void make_room() {
        if (n_rows + kItemRows >= 1u << kPlanes) {
            empty();
        }
    }

    // Adds the planes to the totals.
    __device__ __forceinline__ void empty() {
        if (n_rows == 0) {
            return;
        }
        n_rows = 0;
#pragma unroll
        for (word32 i = 0; i < kEach; ++i) {
#pragma unroll 4
            for (word32 bit = 0; bit < 32; ++bit) {
                word32 count = 0;
#pragma unroll
                for (word32 p = 0; p < kPlanes; ++p) {
                    count |= (planes[p].words[i] >> bit & 1) << p;
                }
                if (count != 0) {
                    atomicAdd(&totals[(i * 32 + bit) * 32 + threadIdx.x % 32], count);
                }
            }
        }
#pragma unroll
        for (word32 p = 0; p < kPlanes; ++p) {
            planes[p] = same_words(0);
        }
    }
};
