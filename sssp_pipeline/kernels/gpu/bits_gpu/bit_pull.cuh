// How a warp pulls: it merges the rows of the frontier along the edges into some vertices, and settles these vertices.
//
// Idea: an item is up to 32 vertices of one word of the bitmaps, or a part of the edges into a hub.
//   - First the warp looks at the edges of an item, 32 at a time. It lists those that begin in the frontier, in shared
//     memory. Then it walks along the list. A row is one access of the whole warp, and the rows of
//     kTogether edges are under way at once.
//   - What a vertex needs stays in registers while its edges are walked. So its row is read and written once a depth.
//   - A vertex whose row is full is done, and its other edges are not walked. It is closed for all later depths.
//   - The parts of a hub collect their bits in a row of its own. The part that is done last settles the hub.
//
// Needs: whole warps; items that cover the vertices with edges into them, each edge once; hub_rows and hub_parts zero at
//     depth 0. Later the row of a hub has bits that the hub has too.
// Keeps: I1 to I4 of bits_gpu.cu.
// Memory order
//     M1. The parts of a hub add their bits by atomics, then add one to its count (add_acq_rel). The part that finds
//         all others counted sees their bits.
#pragma once

#include "lane_counts.cuh"

// Edges that are filtered at a time.
constexpr word32 kFiltered = 128;
// Rows that a warp reads at a time.
constexpr word32 kTogether = kEach == 1 ? 8 : 4;
constexpr word32 kNoPlace = 32;

// Edges of an item that begin in the frontier, in shared memory of a warp.
struct EdgeList {
    word32 starts[kFiltered];      // the vertex where each edge begins
    word32 places[kFiltered / 4];  // four in a word: the vertex where it ends, in the item
};

// The edges of up to 32 consecutive rows, one row a thread, numbered over the rows that are wanted.
struct EdgesOfRows {
    edge_index before;  // an edge of this thread's row is `before` plus its number
    word32 end;         // the number after the last edge of the row
    word32 total;

    __device__ __forceinline__ EdgesOfRows(const edge_index* offsets, word32 v, bool is_wanted) {
        const edge_index first = is_wanted ? __ldg(offsets + v) : 0;
        const word32 degree = is_wanted ? static_cast<word32>(__ldg(offsets + v + 1) - first) : 0;
        end = prefix_sum(degree);
        before = first + degree - end;
        total = __shfl_sync(kWholeWarp, end, 31);
    }

    // Finds edge number k for each thread, and the thread that has its row. All threads call it together.
    __device__ __forceinline__ edge_index find(word32 k, word32& owner) const {
        owner = find_owner(end, k);
        return __shfl_sync(kWholeWarp, before, owner) + k;
    }
};

// What a warp knows of the depth that it pulls.
struct Pull {
    const Call& call;
    word32 depth;           // of the frontier
    bool is_marked;         // whether only vertices that are touched are pulled
    EdgeList* list;
    word64* n_edges;        // shared memory of the block: the edges of the next frontier
    LaneCounts counts;

    // The vertex whose edges are walked.
    word32 place;
    Part visited;
    Part found;
    bool is_done;           // the same in all threads
    // By place: vertices that are new to some source, and vertices that are full.
    word32 is_new;
    word32 is_closed;

    __device__ __forceinline__ void settle(word32 first) {
        if (place == kNoPlace) {
            return;
        }
        const Part all = both(visited, found);
        if (has_bits(found)) {
            *part_of(call.visited, first + place) = all;  // I2
            *part_of(call.front(depth + 1), first + place) = found;
            is_new |= 1u << place;
            counts.add(found);
        }
        is_closed |= is_full(all) ? 1u << place : 0;
    }

    // Walks along the first `count` edges of the list, into vertices from `first` on.
    __device__ __forceinline__ void walk(word32 first, word32 count) {
        for (word32 k = 0; k < count; k += kTogether) {
            // Places of 8 bits, so that few registers are taken.
            word32 places[kTogether / 4];
            Part row[kTogether];
            Part seen[kTogether];
#pragma unroll
            for (word32 i = 0; i < kTogether / 4; ++i) {
                places[i] = list->places[k / 4 + i];
            }
            const auto place_of = [&](word32 j, word32 last) {  // behind the last edge comes nothing new
                return k + j < count ? places[j / 4] >> (j % 4 * 8) & 0xff : last;
            };
            word32 last = place;
#pragma unroll
            for (word32 j = 0; j < kTogether; ++j) {
                const word32 its = place_of(j, last);
                row[j] = seen[j] = same_words(0);
                if (k + j < count && (!is_done || its != place)) {
                    row[j] = *part_of(call.front(depth), list->starts[k + j]);
                }
                if (its != last) {
                    seen[j] = *part_of(call.visited, first + its);
                }
                last = its;
            }
#pragma unroll
            for (word32 j = 0; j < kTogether; ++j) {
                const word32 its = place_of(j, place);
                if (its != place) {
                    settle(first);
                    place = its;
                    visited = seen[j];
                    found = same_words(0);
                }
                found = both(found, without(row[j], visited));
            }
            is_done = is_full(both(visited, found));
        }
    }

    // Lists the edges that begin in the frontier, and walks along the list.
    __device__ __forceinline__ void pull(const EdgesOfRows& edges, word32 first, word32 wanted) {
        for (word32 some = 0; some < edges.total; some += kFiltered) {
            word32 starts[kFiltered / 32];
            word32 places[kFiltered / 32];
            bool is_active[kFiltered / 32];
#pragma unroll
            for (word32 i = 0; i < kFiltered / 32; ++i) {
                const word32 k = some + 32 * i + threadIdx.x % 32;
                const edge_index e = edges.find(k, places[i]);
                is_active[i] = k < edges.total && (is_closed >> places[i] & 1) == 0 && !(is_done && places[i] == place);
                starts[i] = is_active[i] ? __ldg(call.starts + e) : 0;
            }
#pragma unroll
            for (word32 i = 0; i < kFiltered / 32; ++i) {
                is_active[i] = is_active[i] && has_bit(call.active_at(depth), starts[i]);
            }
            word32 count = 0;
#pragma unroll
            for (word32 i = 0; i < kFiltered / 32; ++i) {
                const word32 listed = __ballot_sync(kWholeWarp, is_active[i]);
                if (is_active[i]) {
                    const word32 k = count + rank_in(listed);
                    list->starts[k] = starts[i];
                    reinterpret_cast<unsigned char*>(list->places)[k] = static_cast<unsigned char>(places[i]);
                }
                count += __popc(listed);
            }
            __syncwarp();
            walk(first, count);
            __syncwarp();
            if (is_done && (wanted & ~is_closed & ~(1u << place)) == 0) {
                return;
            }
        }
    }

    // Publishes what is new and what is closed among the vertices of an item, which are in one word.
    __device__ __forceinline__ void end_item(word32 first) {
        const word32 word = first / 32;
        if (threadIdx.x % 32 == 0) {
            if (is_new != 0) {
                atomicOr(&call.active_at(depth + 1)[word], is_new << (first % 32));
            }
            if (is_closed != 0) {
                atomicAnd(&call.open[word], ~(is_closed << (first % 32)));
                if (call.target_words != nullptr) {
                    const word32 reached = call.target_words[word] & (is_closed << (first % 32));
                    if (reached != 0) {
                        atomicAdd(&call.state->n_closed, static_cast<word64>(__popc(reached)));
                    }
                }
            }
        }
        if (is_new != 0) {
            const word32 v = first + threadIdx.x % 32;
            const bool has_edges = (is_new >> (threadIdx.x % 32) & 1) != 0;
            const edge_index degree = has_edges ? __ldg(call.row_offsets + v + 1) - __ldg(call.row_offsets + v) : 0;
            const word64 total = sum_over_warp(static_cast<word64>(degree));
            if (threadIdx.x % 32 == 0) {
                atomicAdd(n_edges, total);
            }
        }
    }

    // Which of the vertices from `first` on, all in one word, are to be pulled.
    __device__ __forceinline__ word32 wanted_from(word32 first) const {
        word32 wanted = call.open[first / 32];
        if (is_marked) {
            wanted &= call.touched_at(depth)[first / 32];
        }
        return wanted >> (first % 32);
    }

    // Takes the part of a hub that `item` names of its edges, and the bits that other parts have found.
    __device__ __forceinline__ void begin_part(const uint4& item, EdgesOfRows& edges) {
        const word32 before = item.w * kItemEdges;
        edges.before += before;
        edges.end = edges.total = min(edges.total - before, kItemEdges);
        place = 0;
        visited = *part_of(call.visited, item.x);
        const word32* collected = part_of(call.hub_rows, item.z)->words;
#pragma unroll
        for (word32 i = 0; i < kEach; ++i) {
            visited.words[i] |= load_relaxed(collected + i);
        }
        is_done = is_full(visited);
    }

    // Adds what a part of a hub found. Returns whether it is the last part of n_parts: then it has what all found.
    __device__ __forceinline__ bool end_part(const uint4& item, word32 n_parts) {
        word32* collected = part_of(call.hub_rows, item.z)->words;
#pragma unroll
        for (word32 i = 0; i < kEach; ++i) {
            if (found.words[i] != 0) {
                atomicOr(collected + i, found.words[i]);  // M1
            }
        }
        __syncwarp();
        word32 n_done = 0;
        if (threadIdx.x % 32 == 0) {
            n_done = add_acq_rel(&call.hub_parts[item.z], 1) + 1;  // M1
        }
        if (__shfl_sync(kWholeWarp, n_done, 0) != n_parts) {
            return false;
        }
        __syncwarp();  // M1: the first thread acquired for all
        visited = *part_of(call.visited, item.x);
#pragma unroll
        for (word32 i = 0; i < kEach; ++i) {
            found.words[i] = load_relaxed(collected + i) & ~visited.words[i];
        }
        if (threadIdx.x % 32 == 0) {
            call.hub_parts[item.z] = 0;
        }
        return true;
    }

    __device__ __forceinline__ void pull_item(const uint4& item) {
        const word32 first = item.x;
        const bool is_part = item.y == 0;
        // All parts of a hub find the same, since only the last one closes the hub.
        const word32 wanted = wanted_from(first) & (is_part ? 1 : item.y);
        if (wanted == 0) {
            return;
        }
        const bool is_wanted = (wanted >> threadIdx.x % 32 & 1) != 0;
        place = kNoPlace;
        visited = found = same_words(0);
        is_done = false;
        is_new = is_closed = 0;
        EdgesOfRows edges(call.into_offsets, first + threadIdx.x % 32, is_wanted);
        const word32 n_parts = (edges.total + kItemEdges - 1) / kItemEdges;
        if (is_part) {
            begin_part(item, edges);
        }
        if (!is_done) {
            pull(edges, first, wanted);
        }
        if (is_part && !end_part(item, n_parts)) {
            return;
        }
        settle(first);
        end_item(first);
        counts.make_room();
    }
};
