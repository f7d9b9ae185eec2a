// The frontier that a superstep fills: an array and a counter, written through shared memory.
//
// Idea: a warp collects the vertices that its threads enter; a ballot assigns the places, without atomics. At the end
//     of a superstep the warps of a block write out together what they hold, each the same share. A warp that is full
//     writes out alone. Writing out a vertex looks up its row, so that the next superstep finds everything about it in
//     one place. A row of more than `cut_above` edges is cut into chunks, each with an entry of its own: of
//     2^chunk_bits edges, or of more if that would be too many chunks. So the warps of the whole GPU share such a row,
//     without another kernel (section 5.3) and without another barrier.
//
// An entry is four words, so that it is one access:
//   x     the vertex
//   y     bits 0-30 its edges; bit 31: whether it is a chunk of a row, but not the first
//   z, w  the first of these edges
// The counter is the arrival word of the barrier that ends the superstep (grid_barrier.cuh). It counts entries. Its
// free bits count vertices of more than kThinEdges edges, modulo 2^8. So if there are fewer than 2^8 entries and these
// bits are zero, there is no such vertex.
//
// Needs: SSSP_THREADS, a multiple of 32; kThinEdges and 2^chunk_bits <= cut_above < 2^26; a call of enter_held() before
//     the barrier that ends the superstep; fewer than 2^40 entries.
// Keeps
//     F1. After the barrier the counter is the number of entries. Those below `capacity` are in `frontiers`. Those
//         beyond are lost.
// Paper: Busato, Bombieri, IEEE TPDS 2015, section 5.1 and figure 5.
#pragma once

#include "device_graph.cuh"
#include "grid_barrier.cuh"
#include "warp.cuh"

constexpr word32 kWarps = SSSP_THREADS / 32;
// Vertices that a warp can hold. It writes them out before the edges it relaxes next may enter more.
constexpr word32 kHeld = 192;
// A frontier is left to one block only if no vertex has more edges.
constexpr word32 kThinEdges = 64;

// One warp writes all chunks of a row: fewer than twice this many.
constexpr word32 kLogMostChunks = 10;
constexpr word32 kLaterChunk = 1u << 31;

// Which edges the entries of a frontier have.
//   kAllEdges     all that leave the vertex
//   kLightEdges   the light ones that leave it: the first ones of its row
//   kHeavyInto    the heavy ones that lead to it (`light_edges.cu`)
constexpr word32 kAllEdges = 0;
constexpr word32 kLightEdges = 1;
constexpr word32 kHeavyInto = 2;
// Without SSSP_LIGHT_FIRST every entry has all edges, and the compiler leaves out what is for the other two.
constexpr bool kLightFirst = SSSP_LIGHT_FIRST;

struct Row {
    edge_index begin;
    edge_index degree;
};

// The rows of a graph, and what `light_edges.cu` makes of them if light edges come first. Else the pointers are null.
struct Rows {
    DeviceGraph graph;
    const edge_index* light_ends;
    DeviceGraph into;

    __device__ __forceinline__ Row row_of(word32 v, word32 part) const {
        if (!kLightFirst) {  // other ways to write this gave other code for the whole kernel
            const edge_index first = graph.first_edge(v);
            return {first, graph.first_edge(v + 1) - first};
        }
        const edge_index* const begins = (part == kHeavyInto ? into : graph).row_offsets + v;
        const edge_index begin = __ldg(begins);
        return {begin, __ldg(part == kLightEdges ? light_ends + v : begins + 1) - begin};
    }
};

// Vertices that the warps of a block hold, in shared memory.
struct Held {
    word32 vertices[kWarps][kHeld];
    word32 counts[kWarps];
    distance_bits least;  // in the first frontier that relaxes light edges
};

// The frontier after the one numbered `turn`.
struct NextFrontier {
    Rows rows;
    Held* held;
    word32 capacity;
    word32 cut_above;
    word32 chunk_bits;
    uint4* frontiers;  // (2, capacity)
    word64* counters;  // (3,)
    word32 turn;
    word32 n_held;  // of this warp
    word32 part;  // which edges its entries have

    // Makes room for `n` vertices. All threads of the warp call it together.
    __device__ __forceinline__ void make_room(word32 n) {
        if (n_held + n <= kHeld) {
            return;
        }
        __syncwarp();
        const word32 thread_of_warp = threadIdx.x % 32;
        for (word32 k = thread_of_warp; k - thread_of_warp < n_held; k += 32) {
            write_out(k < n_held, held->vertices[threadIdx.x / 32][k]);
        }
        n_held = 0;
        __syncwarp();
    }

    // Enters v for each thread with `is_entered`. There must be room. All threads of the warp call it together.
    __device__ __forceinline__ void enter(bool is_entered, word32 v) {
        const word32 who = __ballot_sync(kWholeWarp, is_entered);
        if (is_entered) {
            held->vertices[threadIdx.x / 32][n_held + rank_in(who)] = v;
        }
        n_held += __popc(who);
    }

    // Writes out what the warps still hold. All threads of the block call it together.
    __device__ __forceinline__ void enter_held() {
        const word32 thread_of_warp = threadIdx.x % 32;
        if (thread_of_warp == 0) {
            held->counts[threadIdx.x / 32] = n_held;
        }
        if (__syncthreads_or(n_held > 0) == 0) {
            return;
        }
        n_held = 0;
        const word32 ends = prefix_sum(thread_of_warp < kWarps ? held->counts[thread_of_warp] : 0);
        const word32 n_all = __shfl_sync(kWholeWarp, ends, 31);
        for (word32 k = threadIdx.x; k - thread_of_warp < n_all; k += SSSP_THREADS) {
            const word32 warp = find_owner(ends, k);
            const word32 before = __shfl_sync(kWholeWarp, ends, (warp + 31) % 32);
            write_out(k < n_all, k < n_all ? held->vertices[warp][k - (warp == 0 ? 0 : before)] : 0);
        }
    }

private:
    __device__ __forceinline__ void put(word64 place, word32 v, edge_index begin, word32 n_edges, word32 is_later) {
        if (place < capacity) {  // F1
            const word64 first = begin;
            frontiers[(turn + 1) % 2 * word64{capacity} + place] =
                {v, n_edges | is_later, static_cast<word32>(first), static_cast<word32>(first >> 32)};
        }
    }

    // Writes out v for each thread with `has_one`. All threads of the warp call it together.
    __device__ __forceinline__ void write_out(bool has_one, word32 v) {
        const word32 thread_of_warp = threadIdx.x % 32;
        const Row whole = has_one ? rows.row_of(v, part) : Row{0, 0};
        const edge_index begin = whole.begin;
        const edge_index degree = whole.degree;
        const bool is_cut = degree > cut_above;
        const word32 log_degree = 63 - __clzll(degree | 1);
        const word32 bits = max(chunk_bits + kLogMostChunks, log_degree) - kLogMostChunks;
        const word32 n_chunks = is_cut ? static_cast<word32>((degree - 1) >> bits) + 1 : has_one;
        const word64 n_long = __popc(__ballot_sync(kWholeWarp, degree > kThinEdges));
        const word32 ends = prefix_sum(n_chunks);
        word64 place = thread_of_warp == 31 ? atomicAdd(&counters[(turn + 1) % 3], n_long << kFreeBits | ends) : 0;
        place = __shfl_sync(kWholeWarp, place, 31) & kCountMask;
        if (!__any_sync(kWholeWarp, is_cut)) {
            if (has_one) {
                put(place + ends - 1, v, begin, static_cast<word32>(degree), 0);
            }
            return;
        }
        // The threads share the chunks of all cut rows: going through the rows one by one would take far
        // longer.
        const word32 n_all = __shfl_sync(kWholeWarp, ends, 31);
        for (word32 k = thread_of_warp; k - thread_of_warp < n_all; k += 32) {
            const word32 whose = find_owner(ends, k);
            const word32 number = k - __shfl_sync(kWholeWarp, ends - n_chunks, whose);
            const word32 cut = __shfl_sync(kWholeWarp, v, whose);
            const edge_index row = __shfl_sync(kWholeWarp, begin, whose);
            const edge_index n_edges = __shfl_sync(kWholeWarp, degree, whose);
            const edge_index n_most = __shfl_sync(kWholeWarp, is_cut ? edge_index{1} << bits : degree, whose);
            const edge_index skipped = number * n_most;
            if (k < n_all) {
                put(place + k, cut, row + skipped, static_cast<word32>(min(n_most, n_edges - skipped)),
                    number == 0 ? 0 : kLaterChunk);
            }
        }
    }
};
