// Packs the words of the places that have any; `packed_words.py` says what is packed.
//
// Idea: a block has kPlacesABlock places. First each block writes the bits of its places, and counts them. The host adds up
//     the counts, so it knows where the words of each block begin. A second kernel finds the rank of a place in its block
//     by the bits, and copies its words. It packs some blocks at a time, so the packed words take little memory.
// Needs: blocks of kPlacesABlock threads; `n_present` zero before. Each place has kWords words.
#pragma once

#include "warp.cuh"

constexpr word32 kPlacesABlock = 1024;

// Sets a bit for each place that has any words, and counts them for each block.
extern "C" __global__ void __launch_bounds__(kPlacesABlock)
    present_places_kernel(const word64* words, word64 n_places, word32* bits, word32* n_present) {
    const word64 place = blockIdx.x * word64{kPlacesABlock} + threadIdx.x;
    word64 any = 0;
    if (place < n_places) {
        for (word32 i = 0; i < kWords; ++i) {
            any |= words[place * kWords + i];
        }
    }
    const word32 mask = __ballot_sync(kWholeWarp, any != 0);
    if (threadIdx.x % 32 == 0 && place < n_places) {
        bits[place / 32] = mask;
        atomicAdd(n_present + blockIdx.x, static_cast<word32>(__popc(mask)));
    }
}

// Copies the words of all blocks from `first_block` on to the front of `packed`. The words of a block have rows from
// `starts` on, and `first_row` is the row of the first block.
extern "C" __global__ void __launch_bounds__(kPlacesABlock)
    pack_words_kernel(const word64* words, word64 n_places, const word32* bits, const word64* starts, word64 first_block,
                      word64 first_row, word64* packed) {
    const word64 block = first_block + blockIdx.x;
    const word64 place = block * kPlacesABlock + threadIdx.x;
    const word32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const bool is_there = place - lane < n_places;
    const word32* of_block = bits + block * (kPlacesABlock / 32);
    const word32 before = sum_over_warp(is_there && lane < warp ? static_cast<word32>(__popc(of_block[lane])) : word32{0});
    const word32 mask = is_there ? of_block[warp] : 0;
    if ((mask >> lane & 1) != 0) {
        const word64 row = starts[block] - first_row + before + rank_in(mask);
        for (word32 i = 0; i < kWords; ++i) {
            packed[row * kWords + i] = words[place * kWords + i];
        }
    }
}
