// What one warp does in a pass of `adds-lanes`: it reads edges for all lanes at once, and lowers their targets.
//
// Idea: a pass pulls or pushes.
//   - Pulling goes over all edges, ordered by target. Edges whose source did not change are filtered out, the minimum
//     of a target stays in registers, and its line is written once. Reading lines is three times as fast as atomic
//     minima of lines (docs/design/0005-lanes.md), and lines of hubs come from the cache.
//   - Pushing goes along the rows of the vertices that changed, by atomics.
//   - A warp takes a chunk of kChunk edges, wherever rows begin and end, so hubs need no extra care. In a pull, only
//     the first and last row of a chunk may have edges elsewhere; these are lowered by atomics (L1).
//
// Needs: whole warps; no thread writes `active_words` while a pass reads them (I2 of adds_lanes.cu).
// Keeps: I1 and I5 of adds_lanes.cu when it lowers a vertex; L1 of lane_words.cuh.
// Memory order: relaxed; a grid barrier ends a pass.
#pragma once

#include "device_graph.cuh"
#include "lane_words.cuh"

// Edges of a chunk, which one warp takes.
constexpr word32 kChunk = 256;
// Edges of a chunk that are filtered at a time.
constexpr word32 kFiltered = 128;
// Edges whose lines a warp reads at a time; 8 were no faster.
constexpr int kTogether = 4;
constexpr word32 kNoSource = 0xffffffffu;
constexpr word32 kNoKey = 0xffffffffu;

struct alignas(16) HeldEdge {
    word32 source;
    word32 target;
    lane_word weight;
};

// ---- Priorities: floats, in an order that unsigned integers have too ----

__device__ __forceinline__ float as_float(distance_bits d) {
#if SSSP_FLOATING && SSSP_BITS == 32
    return __uint_as_float(d);
#elif SSSP_FLOATING
    return static_cast<float>(__longlong_as_double(static_cast<long long>(d)));
#else
    return static_cast<float>(d);
#endif
}

__device__ __forceinline__ word32 key_of(float priority) {
    const word32 bits = __float_as_uint(priority);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

__device__ __forceinline__ float priority_of(word32 key) {
    return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

struct Lanes {
    lane_word* lines;
    lane_mask* changed;
    word32* keys;
    float offsets[kLanesEach];   // of this thread's lanes: their distances less this are their priorities
    distance_bits most;          // a larger distance leaves no room for one more edge
    word32* is_wide;

    __device__ __forceinline__ lane_word* word(word32 v) const {
        return lines + (static_cast<word64>(v) * 32 + threadIdx.x % 32);
    }

    // Lowers a vertex to `candidates`, for the whole warp; `seen` was read from its line. `is_alone`: see L1.
    __device__ __forceinline__ void lower(word32 v, lane_word candidates, lane_word seen, bool is_alone) const {
        const lane_word lowered = lesser_of(candidates, seen);
        const lane_word difference = lowered ^ seen;
        const lane_mask mask = lanes_that_differ(difference);
        if (mask == 0) {
            return;
        }
        word32 key = kNoKey;
#pragma unroll
        for (int i = 0; i < kLanesEach; ++i) {
            const distance_bits d = lane_of(lowered, i);
            if (lane_differs(difference, i)) {
                key = min(key, key_of(as_float(d) - offsets[i]));
                if (d > most) {
                    atomicMax(is_wide, 1u);  // I5
                }
            }
        }
        if (difference != 0) {
            lower_word(word(v), lowered, seen, is_alone);
        }
        key = minimum_over_warp(key);
        if (threadIdx.x % 32 == 0) {
            atomicOr(&changed[v], mask);
            atomicMin(&keys[v], key);  // I1
        }
    }
};

// Relaxes a chunk of the edges by target: those whose source was just taken.
__device__ void pull_chunk(const Lanes& lanes, const DeviceGraph& incoming, const word32* targets,
                           edge_index n_edges, edge_index first, const word32* active_words, HeldEdge* held) {
    const word32 thread_of_warp = threadIdx.x % 32;
    const edge_index last = min(first + kChunk, n_edges);
    const word32 row_before = first > 0 ? __ldg(targets + first - 1) : kNoSource;
    const word32 row_after = last < n_edges ? __ldg(targets + last) : kNoSource;
    word32 row = kNoSource;
    lane_word candidates = kNoCandidate;
    for (edge_index some = first; some < last; some += kFiltered) {
        // ---- Filter ----
        Edge edges[kFiltered / 32];
        bool is_active[kFiltered / 32];
#pragma unroll
        for (word32 i = 0; i < kFiltered / 32; ++i) {
            const edge_index e = some + 32 * i + thread_of_warp;
            edges[i] = e < last ? incoming.edge(e) : Edge{kNoSource, 0};
        }
#pragma unroll
        for (word32 i = 0; i < kFiltered / 32; ++i) {
            const word32 u = edges[i].target;  // where the edge comes from: rows are by target here
            is_active[i] = u != kNoSource && (active_words[u / 32] >> (u % 32) & 1) != 0;
        }
        word32 count = 0;
#pragma unroll
        for (word32 i = 0; i < kFiltered / 32; ++i) {
            const word32 found = __ballot_sync(kWholeWarp, is_active[i]);
            if (is_active[i]) {
                held[count + rank_in(found)] = {edges[i].target, __ldg(targets + some + 32 * i + thread_of_warp),
                                                       word_of(edges[i].weight)};
            }
            count += __popc(found);
        }
        __syncwarp();
        // ---- Walk: at the end the last edge stands in for those that are missing, which changes no minimum ----
        for (word32 k = 0; k < count; k += kTogether) {
            HeldEdge edge[kTogether];
            lane_word line[kTogether];
#pragma unroll
            for (int j = 0; j < kTogether; ++j) {
                edge[j] = held[min(k + j, count - 1)];
                line[j] = *lanes.word(edge[j].source);
            }
#pragma unroll
            for (int j = 0; j < kTogether; ++j) {
                if (edge[j].target != row) {
                    if (row != kNoSource) {
                        lanes.lower(row, candidates, *lanes.word(row), row != row_before && row != row_after);
                    }
                    row = edge[j].target;
                    candidates = kNoCandidate;
                }
                candidates = lesser_of(candidates, sums_of(line[j], edge[j].weight));
            }
        }
        __syncwarp();
    }
    if (row != kNoSource) {
        lanes.lower(row, candidates, *lanes.word(row), row != row_before && row != row_after);
    }
}

// Relaxes chunk number `nth` of the row of u, a vertex just taken.
__device__ void push_chunk(const Lanes& lanes, const DeviceGraph& graph, word32 u, word32 nth) {
    const word32 thread_of_warp = threadIdx.x % 32;
    const edge_index first = graph.first_edge(u) + static_cast<edge_index>(nth) * kChunk;
    const edge_index last = min(first + kChunk, graph.first_edge(u + 1));
    const lane_word line = *lanes.word(u);
    for (edge_index some = first; some < last; some += 32) {
        const word32 count = static_cast<word32>(min(last - some, static_cast<edge_index>(32)));
        const Edge own = graph.edge(some + min(thread_of_warp, count - 1));
        for (word32 k = 0; k < count; k += kTogether) {
            word32 targets[kTogether];
            lane_word seen[kTogether];
#pragma unroll
            for (int j = 0; j < kTogether; ++j) {
                targets[j] = __shfl_sync(kWholeWarp, own.target, k + j);  // at the end, the last edge again
                seen[j] = *lanes.word(targets[j]);
            }
#pragma unroll
            for (int j = 0; j < kTogether; ++j) {
                const distance_bits weight = __shfl_sync(kWholeWarp, own.weight, k + j);
                lanes.lower(targets[j], sums_of(line, word_of(weight)), seen[j], false);
            }
        }
    }
}
