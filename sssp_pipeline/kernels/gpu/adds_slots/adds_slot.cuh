// A slot of `adds-slots`: one source on one thread block, from the first superstep to the last split.
//
// Idea: delta-stepping with two piles, as in near_far.cu. What may look odd:
//   - Every lowering makes one entry: a vertex with its new distance. An entry is stale if its vertex has another
//     distance by now, because a later lowering made another entry. So nothing is marked, a vertex is processed once
//     for each distance, and splitting the far pile reads no distances.
//   - Piles may be too small. If an entry finds no place in the near pile, it is dropped, and the next superstep sweeps
//     over the whole row for distances of the current bucket. If it finds no place in the far pile, the next split
//     sweeps for distances beyond the threshold (I2, I3). A sweep reads 32 distances with one access, so it is no
//     slower than a pile of that length.
//   - Rows of up to kPacked edges are copied into one aligned record each (SSSP_PACKED). The record is read together
//     with the distance. Without it, offsets and edges would be two accesses, one after the other. Random accesses
//     limit the speed on large lattices.
//   - The threads of a warp share longer rows edge by edge. The whole block shares rows of more than kHubEdges edges.
// docs/design/0004-many-sources.md has the measurements.
//
// Needs: all threads of the block together; weights >= 0; SSSP_THREADS a multiple of 32; places for n_far and
//     2 * n_spilled entries; `packed` as adds_slots_pack_kernel makes it, if SSSP_PACKED.
// Keeps
//     I1. A vertex with a distance d below `limit` that was not processed with d has an entry with d: in the near pile
//         of this or the next superstep if d is below the threshold, else in the far pile.
//     I2. Or, if d is below the threshold and not below `low`: more entries were pushed to that near pile than it has
//         places.
//     I3. Or, if d is not below the threshold: more entries were pushed to the far pile than it has places.
//     I4. far_min (over the threads) is at most the least distance of the far pile's live entries, and distances below
//         the threshold before the last are final. So a split always takes the least distance there is.
//     I5. Of three near counters used in turn, one is read, one is added to, and the third is set to zero. Of two hub
//         counters, one is added to before a barrier and read after it. The same holds for is_late. So one barrier for
//         each superstep is enough.
// Memory order: a row of distances and a slot's piles belong to one block, so __syncthreads orders everything. A thread
//     may or may not see a lowering of the same superstep: its entry is in the next superstep either way.
// Ends: a superstep processes what was lowered since, distances take finitely many values, and each split moves the
//     threshold beyond the least distance that waits. Or when the search is older than deadline_ns.
#pragma once

#include "device_graph.cuh"
#include "stopwatch.cuh"
#include "warp.cuh"

// Entries of a near pile in shared memory: two piles take at most 32 KB.
constexpr word32 kNear = (SSSP_THREADS < 512 ? 4 * SSSP_THREADS : 2048) * 32 / SSSP_BITS;
// All threads of the block share a row of more edges.
constexpr word32 kHubEdges = 1024;
constexpr word32 kHubs = 64;
// Edges that a thread relaxes at a time, so that their accesses overlap.
constexpr int kTogether = 4;
// Edges of a packed row.
constexpr int kPacked = 4;
// More entries than any pile has places. A counter that reaches it is kept there, so that it cannot wrap around.
constexpr word32 kVeryMany = 1u << 31;
constexpr word32 kNoVertex = 0xffffffffu;
constexpr word32 kWarps = SSSP_THREADS / 32;
constexpr distance_bits kNone = ~distance_bits{0};
// Supersteps and splits between two reads of the clock.
constexpr word32 kStepsPerLook = 64;

struct alignas(2 * sizeof(distance_bits)) Entry {
    distance_bits length;
    word32 vertex;
};

struct Hub {
    edge_index begin;
    edge_index end;
    distance_bits length;
};

// A row of up to kPacked edges, kNoVertex after the last target; so 32-bit weights need one access of 32 bytes. A row
// of more edges begins with kNoVertex and a weight of zero, an empty one with kNoVertex and a weight of one.
struct alignas(SSSP_BITS == 32 ? 32 : 16) PackedRow {
    word32 targets[kPacked];
    distance_bits weights[kPacked];
};

struct Counts {
    word64 vertices_processed;
    word64 edges_relaxed;
};

struct Shared {
    Entry near[2][kNear];
    Hub hubs[2][kHubs];
    Counts counts;
    Stopwatch age;
    distance_bits far_min;
    word32 near_count[3];
    word32 hub_count[2];
    word32 far_count;
    word32 nth;
    word32 is_late[2];
};

__device__ __forceinline__ bool is_too_long(const PackedRow& row) {
    return row.targets[0] == kNoVertex && row.weights[0] == 0;
}

struct Slot {
    DeviceGraph graph;
    const PackedRow* packed;  // (n_vertices,), if SSSP_PACKED
    bool is_beyond_l2;        // packed rows would push the distances out of the cache
    word32 n_vertices;
    distance_bits limit;
    distance_bits delta;
    Entry* far;        // (n_far,)
    Entry* spilled;    // (2, n_spilled), the near piles beyond kNear
    word32 n_far;
    word32 n_spilled;
    word64 deadline_ns;
    distance_bits* distances;
    Shared* shared;
    distance_bits low;        // every smaller distance is final
    distance_bits threshold;
    distance_bits far_min;    // the least distance this thread pushed far
    word32 step;
    word32 vertices_processed;
    word64 edges_relaxed;

    __device__ __forceinline__ void push_near(Entry entry) {
        const word32 place = atomicAdd(&shared->near_count[(step + 1) % 3], 1);
        if (place < kNear) {
            shared->near[(step + 1) % 2][place] = entry;
        } else if (place - kNear < n_spilled) {
            spilled[((step + 1) % 2) * static_cast<word64>(n_spilled) + place - kNear] = entry;
        } else if (place >= kVeryMany) {  // I2
            shared->near_count[(step + 1) % 3] = kVeryMany;
        }
    }

    __device__ __forceinline__ void push_far(Entry entry) {
        far_min = min(far_min, entry.length);
        const word32 place = atomicAdd(&shared->far_count, 1);
        if (place < n_far) {
            far[place] = entry;
        } else if (place >= kVeryMany) {  // I3
            shared->far_count = kVeryMany;
        }
    }

    __device__ __forceinline__ void push(Entry entry) {
        if (entry.length < threshold) {
            push_near(entry);
        } else {
            push_far(entry);
        }
    }

    __device__ __forceinline__ PackedRow packed_row(word32 v) const {
        constexpr int kWords = sizeof(PackedRow) / sizeof(uint4);
        const uint4* const from = reinterpret_cast<const uint4*>(packed + v);
        uint4 words[kWords];
#pragma unroll
        for (int i = 0; i < kWords; ++i) {
            words[i] = is_beyond_l2 ? __ldcs(from + i) : __ldg(from + i);
        }
        PackedRow row;
        memcpy(&row, words, sizeof(row));
        return row;
    }

    __device__ __forceinline__ Entry near_entry(word32 place) const {
        return place < kNear ? shared->near[step % 2][place]
                             : spilled[(step % 2) * static_cast<word64>(n_spilled) + place - kNear];
    }

    // Lowers kTogether distances to the candidates that are less; kNone is no candidate.
    __device__ __forceinline__ void lower(const word32* targets, const distance_bits* candidates) {
        distance_bits seen[kTogether];
#pragma unroll
        for (int i = 0; i < kTogether; ++i) {
            seen[i] = candidates[i] < limit ? distances[targets[i]] : 0;
        }
#pragma unroll
        for (int i = 0; i < kTogether; ++i) {
            if (candidates[i] < seen[i] && lower_distance(distances, targets[i], candidates[i], false).lowered) {
                push({candidates[i], targets[i]});
            }
        }
    }

    // Relaxes the edges of a packed row.
    __device__ __forceinline__ void relax_packed(const PackedRow& row, distance_bits d) {
        static_assert(kPacked == kTogether, "lower takes as many");
        distance_bits candidates[kPacked];
        word32 n_edges = 0;
#pragma unroll
        for (int i = 0; i < kPacked; ++i) {
            candidates[i] = row.targets[i] == kNoVertex ? kNone : sum_of(d, row.weights[i]);
            n_edges += row.targets[i] != kNoVertex;
        }
        edges_relaxed += n_edges;
        lower(row.targets, candidates);
    }

    // Relaxes the row of each thread of the warp: `degree` edges from `begin` on, of a vertex at distance d.
    __device__ __forceinline__ void relax_rows(edge_index begin, edge_index degree, distance_bits d) {
        const word32 thread_of_warp = threadIdx.x % 32;
        const edge_index ends = prefix_sum(degree);
        const edge_index n_edges = __shfl_sync(kWholeWarp, ends, 31);
        for (edge_index some = 0; some < n_edges; some += 32 * kTogether) {
            word32 targets[kTogether];
            distance_bits candidates[kTogether];
#pragma unroll
            for (int i = 0; i < kTogether; ++i) {
                const edge_index k = some + 32 * i + thread_of_warp;
                targets[i] = 0;
                candidates[i] = kNone;
                if (some + 32 * i >= n_edges) {
                    continue;
                }
                const word32 owner = find_owner(ends, k);
                const edge_index row = __shfl_sync(kWholeWarp, begin - (ends - degree), owner);
                const distance_bits from = __shfl_sync(kWholeWarp, d, owner);
                if (k < n_edges) {
                    const Edge edge = graph.edge(row + k);
                    targets[i] = edge.target;
                    candidates[i] = sum_of(from, edge.weight);
                }
            }
            lower(targets, candidates);
        }
    }

    // Relaxes every edge of a hub, by all threads of the block.
    __device__ __forceinline__ void relax_hub(const Hub& hub) {
        for (edge_index first = hub.begin; first < hub.end; first += kTogether * SSSP_THREADS) {
            word32 targets[kTogether];
            distance_bits candidates[kTogether];
#pragma unroll
            for (int i = 0; i < kTogether; ++i) {
                const edge_index e = first + i * SSSP_THREADS + threadIdx.x;
                const Edge edge = e < hub.end ? graph.edge(e) : Edge{0, 0};
                targets[i] = edge.target;
                candidates[i] = e < hub.end ? sum_of(hub.length, edge.weight) : kNone;
            }
            lower(targets, candidates);
        }
    }

    // The near pile, or the whole row if entries were dropped: `n_near` is how many were pushed.
    __device__ __forceinline__ void superstep(word32 n_near) {
        const bool is_sweep = n_near > kNear + n_spilled;  // I2
        const word32 n_entries = is_sweep ? n_vertices : n_near;
        // A warp takes few entries if there are few, so that all warps have some.
        const word32 fair = (n_entries + kWarps - 1) / kWarps;
        const word32 n_taken = fair >= 32 || SSSP_PACKED ? 32 : 1u << (32 - __clz(fair - 1));
        const word32 thread_of_warp = threadIdx.x % 32;
        for (word64 first = threadIdx.x / 32 * n_taken; first < n_entries; first += kWarps * n_taken) {
            const word64 i = first + thread_of_warp;
            const bool has_entry = thread_of_warp < n_taken && i < n_entries;
            word32 v = 0;
            distance_bits d = 0;
            edge_index begin = 0;
            edge_index degree = 0;
            if (has_entry) {
                bool is_live;
                if (is_sweep) {
                    v = static_cast<word32>(i);
                    d = distances[v];
                    is_live = low <= d && d < threshold;
                } else {
                    const Entry entry = near_entry(static_cast<word32>(i));
                    v = entry.vertex;
                    d = entry.length;
                    is_live = distances[v] == d;
                }
                // Of a pile most entries are live, so the row is asked for before it is known.
                if (!is_sweep || is_live) {
#if SSSP_PACKED
                    const PackedRow row = packed_row(v);
                    if (is_live && is_too_long(row)) {
                        begin = graph.first_edge(v);
                        degree = graph.first_edge(v + 1) - begin;
                    } else if (is_live) {
                        relax_packed(row, d);
                    }
#else
                    begin = graph.first_edge(v);
                    degree = is_live ? graph.first_edge(v + 1) - begin : 0;
#endif
                    vertices_processed += is_live;
                    edges_relaxed += degree;
                }
                if (degree > kHubEdges) {
                    const word32 place = atomicAdd(&shared->hub_count[step % 2], 1);
                    if (place < kHubs) {
                        shared->hubs[step % 2][place] = {begin, begin + degree, d};
                        degree = 0;
                    }
                }
            }
            if (!SSSP_PACKED || __any_sync(kWholeWarp, degree > 0)) {
                relax_rows(begin, degree, d);
            }
        }
        __syncthreads();
        const word32 n_hubs = min(shared->hub_count[step % 2], kHubs);  // I5
        if (n_hubs == 0) {
            return;
        }
        for (word32 i = 0; i < n_hubs; ++i) {
            relax_hub(shared->hubs[step % 2][i]);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            shared->hub_count[step % 2] = 0;
        }
    }

    // Moves the threshold beyond the least distance that waits; returns false if there is none.
    __device__ __forceinline__ bool split() {
        far_min = minimum_over_warp(far_min);
        if (threadIdx.x % 32 == 0 && far_min != kNone) {
            atomicMin(&shared->far_min, far_min);
        }
        __syncthreads();
        const word32 n_waiting = shared->far_count;
        if (n_waiting == 0) {
            return false;
        }
        low = threshold;
        threshold = end_of_bucket(shared->far_min, delta);  // I4
        far_min = kNone;
        __syncthreads();
        if (threadIdx.x == 0) {
            shared->far_count = 0;
            shared->far_min = kNone;
        }
        if (n_waiting > n_far) {  // I3
            __syncthreads();
            for (word64 v = threadIdx.x; v < n_vertices; v += SSSP_THREADS) {
                const distance_bits d = distances[v];
                if (low <= d && d < limit) {
                    push({d, static_cast<word32>(v)});
                }
            }
        } else {
            // In place: kept entries move down, over entries that were read before the barrier.
            for (word32 first = 0; first < n_waiting; first += kTogether * SSSP_THREADS) {
                Entry entries[kTogether];
#pragma unroll
                for (int i = 0; i < kTogether; ++i) {
                    const word32 place = first + i * SSSP_THREADS + threadIdx.x;
                    entries[i] = place < n_waiting ? far[place] : Entry{kNone, 0};
                }
                __syncthreads();
#pragma unroll
                for (int i = 0; i < kTogether; ++i) {
                    if (first + i * SSSP_THREADS + threadIdx.x < n_waiting) {
                        push(entries[i]);
                    }
                }
            }
        }
        __syncthreads();
        return true;
    }

    // Returns whether the search ended before its deadline; otherwise distances mean nothing.
    __device__ __forceinline__ bool solve(word32 source, Counts* counts) {
        // ---- Start: nothing is reached but the source, which is near ----
        for (word64 v = threadIdx.x; v < n_vertices; v += SSSP_THREADS) {
            distances[v] = v == source ? 0 : limit;
        }
        if (threadIdx.x == 0) {
            shared->near[0][0] = {0, source};
            shared->near_count[0] = 1;
            shared->near_count[1] = 0;
            shared->hub_count[0] = 0;
            shared->hub_count[1] = 0;
            shared->far_count = 0;
            shared->far_min = kNone;
            shared->counts = {0, 0};
            shared->is_late[0] = shared->is_late[1] = 0;
            shared->age.start();
        }
        low = 0;
        threshold = end_of_bucket(0, delta);
        far_min = kNone;
        vertices_processed = 0;
        edges_relaxed = 0;
        __syncthreads();

        // ---- Supersteps, and a split whenever the near pile is empty ----
        for (step = 0;; ++step) {
            if (shared->is_late[step % 2] != 0) {
                return false;
            }
            if (threadIdx.x == 0) {
                shared->near_count[(step + 2) % 3] = 0;  // I5
                if (step % kStepsPerLook == 0 && shared->age.look() > deadline_ns) {
                    shared->is_late[(step + 1) % 2] = 1;
                }
            }
            const word32 n_near = shared->near_count[step % 3];
            if (n_near > 0) {
                superstep(n_near);
            } else if (!split()) {
                break;
            }
        }

        // ---- End: the counts ----
        add_counts(vertices_processed, edges_relaxed, &shared->counts.vertices_processed,
                   &shared->counts.edges_relaxed);
        __syncthreads();
        if (threadIdx.x == 0) {
            *counts = shared->counts;
        }
        return true;
    }
};
