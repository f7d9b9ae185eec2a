// What the host gives to the kernels of `bits-gpu`, and what they give back.
#pragma once

#include "device_graph.cuh"
#include "grid_barrier.cuh"
#include "warp.cuh"

// Words of a row that each thread of a warp has.
constexpr word32 kEach = SSSP_WORDS_EACH;
constexpr word32 kRowWords = 32 * kEach;
constexpr word32 kLanes = 32 * kRowWords;
// Edges of an item of a pull, or of a chunk of a hub that is marked: one warp takes them.
constexpr word32 kItemEdges = SSSP_ITEM_EDGES;
// Edges of the frontier are marked if they are less than this part of all edges. Else every open vertex is pulled.
constexpr word32 kMarkShare = SSSP_MARK_SHARE;

struct State {
    BarrierWords barrier;
    word64 edges_of_frontier[3];  // by depth modulo 3
    word64 n_closed;              // targets that all sources have reached
    word64 distance;              // of the frontier
    word32 n_taken[3];            // items, by depth modulo 3
    word32 depth;                 // of the frontier
    word32 n_counted;             // rows of counts that this launch wrote
    word32 is_over;
};

// What a launch gets. One argument takes less of the host's time than forty.
struct Call {
    // The graph by source.
    const edge_index* row_offsets;
    const edge_word* edges;
    const distance_bits* weights;
    // The graph by target.
    const edge_index* into_offsets;  // (V+1,)
    const word32* starts;            // (E,): where the edges into each vertex begin
    const uint4* items;              // (n_items,): first vertex, its vertices or 0, hub, part of it
    const uint2* marked;             // (n_marked,): vertex and chunk of the rows of more than kItemEdges edges
    const word32* into_words;        // (n_words,): a bit for each vertex with an edge into it
    // Scratch memory. A row is kRowWords words, a bitmap n_words words.
    word32* visited;      // (V, row)
    word32* fronts;       // (2, V, row): by depth modulo 2
    word32* hub_rows;     // (n_hubs, row): what the parts of a hub found at this depth
    word32* hub_parts;    // (n_hubs,): how many of them are done
    word32* active;       // (3, bitmap): the vertices with a row in `fronts`, by depth modulo 3
    word32* touched;      // (2, bitmap): the vertices that edges of the frontier reach, by depth modulo 2
    word32* open;         // bitmap: the vertices with edges into them that some source has not reached
    // Sources and results.
    const word32* sources;       // (n_sources,)
    word32* counts;              // (most_counted, kLanes) by slot_of, zero: how many vertices are new at each depth
    distance_bits* rows;         // (n_sources, n_columns), or null
    const word32* targets;       // (n_columns,): the vertices of the columns; null for all
    const word32* target_words;  // bitmap: targets that end the search; null if all vertices are wanted
    State* state;
    word64 n_targets;    // the bits of target_words
    word64 n_edges;
    word64 weight;       // its bits
    word64 limit;        // a distance from here on is not wanted
    word64 nothing;      // what rows get where there is no distance
    word64 patience_ns;
    word64 deadline_ns;
    word32 n_vertices;
    word32 n_sources;
    word32 n_items;
    word32 n_marked;
    word32 n_hubs;
    word32 n_columns;
    word32 together;      // items that a warp takes at once
    word32 n_blocks;
    word32 most_counted;  // 0: all depths are counted together
    word32 is_limited;    // whether vertices beyond the limit are left out; else one depth more is counted
    word32 resumes;       // whether an earlier launch stopped, with its counts full

    __device__ __forceinline__ word32 n_words() const { return n_vertices / 32 + (n_vertices % 32 != 0 ? 1 : 0); }

    // The rows and the bitmaps of a depth.
    __device__ __forceinline__ word32* front(word32 depth) const {
        return fronts + (depth % 2 != 0 ? static_cast<word64>(n_vertices) * kRowWords : 0);
    }

    __device__ __forceinline__ word32* active_at(word32 depth) const {
        return active + static_cast<word64>(depth % 3) * n_words();
    }

    __device__ __forceinline__ word32* touched_at(word32 depth) const {
        return touched + (depth % 2 != 0 ? n_words() : 0);
    }
};

// The part of a row that one thread has.
struct alignas(4 * SSSP_WORDS_EACH) Part {
    word32 words[kEach];
};

__device__ __forceinline__ Part* part_of(word32* rows, word32 v) {
    return reinterpret_cast<Part*>(rows + static_cast<word64>(v) * kRowWords) + threadIdx.x % 32;
}

__device__ __forceinline__ Part same_words(word32 word) {
    Part made;
#pragma unroll
    for (word32 i = 0; i < kEach; ++i) {
        made.words[i] = word;
    }
    return made;
}

// The bits of a part that another one does not have.
__device__ __forceinline__ Part without(const Part& part, const Part& other) {
    Part made;
#pragma unroll
    for (word32 i = 0; i < kEach; ++i) {
        made.words[i] = part.words[i] & ~other.words[i];
    }
    return made;
}

__device__ __forceinline__ Part both(const Part& part, const Part& other) {
    Part made;
#pragma unroll
    for (word32 i = 0; i < kEach; ++i) {
        made.words[i] = part.words[i] | other.words[i];
    }
    return made;
}

// Whether any thread of the warp has a bit.
__device__ __forceinline__ bool has_bits(const Part& part) {
    word32 bits = 0;
#pragma unroll
    for (word32 i = 0; i < kEach; ++i) {
        bits |= part.words[i];
    }
    return __any_sync(kWholeWarp, bits != 0);
}

__device__ __forceinline__ bool is_full(const Part& part) {
    word32 bits = ~word32{0};
#pragma unroll
    for (word32 i = 0; i < kEach; ++i) {
        bits &= part.words[i];
    }
    return __all_sync(kWholeWarp, bits == ~word32{0});
}

__device__ __forceinline__ bool has_bit(const word32* bitmap, word32 v) { return (bitmap[v / 32] >> (v % 32) & 1) != 0; }

// Where the count of a lane is: neighbouring threads of a warp have neighbouring slots.
__device__ __forceinline__ word32 slot_of(word32 lane) {
    const word32 word = lane / 32;
    return (word % kEach * 32 + lane % 32) * 32 + word / kEach;
}
