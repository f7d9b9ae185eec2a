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

// Edges of a chunk of a pull, which one warp takes.
constexpr word32 kChunk = 256;
// Edges of a chunk of a push. With longer ones, most warps have none where few vertices changed.
constexpr word32 kPushChunk = 32;
// Edges of a chunk that are filtered at a time.
constexpr word32 kFiltered = 128;
// Edges whose lines a warp reads at a time; 8 were slower, as registers are spilled.
constexpr int kTogether = sizeof(lane_word) > 4 ? 2 : 4;
constexpr word32 kNoSource = 0xffffffffu;
constexpr word32 kNoKey = 0xffffffffu;

struct alignas(16) HeldEdge {
    word32 source;
    word32 target;
    lane_word weight;
};

// ---- Priorities: floats, in an order that unsigned integers have too ----

// Narrow lanes are integers.
#define SSSP_LANES_FLOAT (SSSP_FLOATING && !SSSP_NARROW)

// CuPy compiles with -ftz=true: a subnormal float becomes zero, which is no bound. This or its negative takes its place.
constexpr float kLeastNormal = 1.17549435e-38f;

// A float of at most d, and one of at least d.
__device__ __forceinline__ float float_below(distance_bits d) {
#if SSSP_LANES_FLOAT && SSSP_BITS == 32
    return __uint_as_float(d);
#elif SSSP_LANES_FLOAT
    return __double2float_rd(__longlong_as_double(static_cast<long long>(d)));
#elif SSSP_BITS == 32
    return __uint2float_rd(d);
#else
    return __ull2float_rd(d);
#endif
}

__device__ __forceinline__ float float_above(distance_bits d) {
#if SSSP_LANES_FLOAT
#if SSSP_BITS == 32
    const float above = __uint_as_float(d);
#else
    const float above = __double2float_ru(__longlong_as_double(static_cast<long long>(d)));
#endif
    return d != 0 && above < kLeastNormal ? kLeastNormal : above;
#elif SSSP_BITS == 32
    return __uint2float_ru(d);
#else
    return __ull2float_ru(d);
#endif
}

// A float of at most a + b, and one of at least a - b. Sums of integers are never subnormal.
__device__ __forceinline__ float sum_below(float a, float b) {
    const float sum = __fadd_rd(a, b);
    return SSSP_LANES_FLOAT && sum == 0.0f && a < -b ? -kLeastNormal : sum;
}

__device__ __forceinline__ float difference_above(float a, float b) {
    return -sum_below(b, -a);
}

__device__ __forceinline__ word32 key_of(float priority) {
    const word32 bits = __float_as_uint(priority);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

__device__ __forceinline__ float priority_of(word32 key) {
    return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

__device__ __forceinline__ float infinity() {
    return __uint_as_float(0x7f800000u);
}

struct Lanes {
    lane_word* lines;
    lane_mask* changed;
    word32* keys;
    float* lowest;               // of each vertex taken: at most the priority of any lane that changed
    float* highest;              // of each vertex: at least the priority of any aligned lane
    float offsets[kLanesEach];   // of this thread's lanes: their distances less this are their priorities
    bool is_aligned[kLanesEach];  // whether the source of the lane is in use and reaches the hub
    distance_bits most;          // a larger distance leaves no room for one more edge
    word32* is_wide;

    __device__ __forceinline__ lane_word* word(word32 v) const {
        return lines + (static_cast<word64>(v) * 32 + threadIdx.x % 32);
    }

    // Whether an edge to v, from a vertex whose `lowest` is given, may lower v in some lane (I6).
    __device__ __forceinline__ bool may_lower(word32 v, float lowest_of_source, distance_bits weight) const {
        return sum_below(lowest_of_source, float_below(weight)) < highest[v];
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
        word32 highest_key = 0;
#pragma unroll
        for (int i = 0; i < kLanesEach; ++i) {
            const distance_bits d = lane_of(lowered, i);
            if (is_aligned[i]) {
                highest_key = max(highest_key, key_of(difference_above(float_above(d), offsets[i])));
            }
            if (lane_differs(difference, i)) {
                key = min(key, key_of(sum_below(float_below(d), -offsets[i])));
                if (d > most) {
                    atomicMax(is_wide, 1u);  // I5
                }
            }
        }
        if (difference != 0) {
            lower_word(word(v), lowered, seen, is_alone);
        }
        key = minimum_over_warp(key);
        highest_key = maximum_over_warp(highest_key);
        if (threadIdx.x % 32 == 0) {
            if (highest_key != 0) {
                highest[v] = priority_of(highest_key);
            }
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
    lane_word seen = 0;  // of the line of `row`
    lane_word candidates = kNoCandidate;
    for (edge_index some = first; some < last; some += kFiltered) {
        // ---- Filter ----
        Edge edges[kFiltered / 32];
        word32 edge_targets[kFiltered / 32];
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
#pragma unroll
        for (word32 i = 0; i < kFiltered / 32; ++i) {
            if (is_active[i]) {
                edge_targets[i] = __ldg(targets + some + 32 * i + thread_of_warp);
                is_active[i] = lanes.may_lower(edge_targets[i], lanes.lowest[edges[i].target], edges[i].weight);
            }
        }
        word32 count = 0;
#pragma unroll
        for (word32 i = 0; i < kFiltered / 32; ++i) {
            const word32 found = __ballot_sync(kWholeWarp, is_active[i]);
            if (is_active[i]) {
                held[count + rank_in(found)] = {edges[i].target, edge_targets[i], word_of(edges[i].weight)};
            }
            count += __popc(found);
        }
        __syncwarp();
        // ---- Walk: at the end the last edge stands in for those that are missing, which changes no minimum ----
        for (word32 k = 0; k < count; k += kTogether) {
            HeldEdge edge[kTogether];
            lane_word line[kTogether];
            lane_word line_of_row[kTogether];
#pragma unroll
            for (int j = 0; j < kTogether; ++j) {
                edge[j] = held[min(k + j, count - 1)];
                line[j] = *lanes.word(edge[j].source);
            }
#pragma unroll
            for (int j = 0; j < kTogether; ++j) {
                // All reads are on their way before one is waited for.
                line_of_row[j] = 0;
                if (edge[j].target != (j == 0 ? row : edge[j - 1].target)) {
                    line_of_row[j] = *lanes.word(edge[j].target);
                }
            }
#pragma unroll
            for (int j = 0; j < kTogether; ++j) {
                if (edge[j].target != row) {
                    if (row != kNoSource) {
                        lanes.lower(row, candidates, seen, row != row_before && row != row_after);
                    }
                    row = edge[j].target;
                    seen = line_of_row[j];
                    candidates = kNoCandidate;
                }
                candidates = lesser_of(candidates, sums_of(line[j], edge[j].weight));
            }
        }
        __syncwarp();
    }
    if (row != kNoSource) {
        lanes.lower(row, candidates, seen, row != row_before && row != row_after);
    }
}

// Relaxes chunk number `nth` of the row of u, a vertex just taken.
__device__ void push_chunk(const Lanes& lanes, const DeviceGraph& graph, word32 u, word32 nth) {
    const word32 thread_of_warp = threadIdx.x % 32;
    const edge_index first = graph.first_edge(u) + static_cast<edge_index>(nth) * kPushChunk;
    const bool has_edge = first + thread_of_warp < graph.first_edge(u + 1);
    const lane_word line = *lanes.word(u);
    const Edge own = graph.edge(has_edge ? first + thread_of_warp : first);
    const bool is_useful = has_edge && lanes.may_lower(own.target, lanes.lowest[u], own.weight);
    for (word32 left = __ballot_sync(kWholeWarp, is_useful); left != 0;) {
        word32 owners[kTogether];
        word32 targets[kTogether];
        lane_word seen[kTogether];
#pragma unroll
        for (int j = 0; j < kTogether; ++j) {
            owners[j] = left != 0 ? __ffs(left) - 1 : owners[j - 1];  // at the end, the last edge again
            left &= left - 1;
            targets[j] = __shfl_sync(kWholeWarp, own.target, owners[j]);
            seen[j] = *lanes.word(targets[j]);
        }
#pragma unroll
        for (int j = 0; j < kTogether; ++j) {
            const distance_bits weight = __shfl_sync(kWholeWarp, own.weight, owners[j]);
            lanes.lower(targets[j], sums_of(line, word_of(weight)), seen[j], false);
        }
    }
}
