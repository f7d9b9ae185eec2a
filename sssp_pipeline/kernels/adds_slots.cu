// Distances from many sources at once: a thread block is a slot, and takes one source after another.
//
// Returns: `rows`, each lowered to the true distances from its source (bits of `limit` where there is no path shorter
// than that), and what each took in `counts`.
//
// Idea: one source leaves most of a GPU idle, since near vertices are few and the steps between them many; many sources
// need not wait for each other at all. So a source has one block, whose only barrier is __syncthreads, and delta can be
// small, since what is parallel is the sources (delta-stepping with two piles, as in near_far.cu). What may look odd:
//   - Every lowering makes one entry, a vertex with its new distance. An entry whose distance is no longer that of
//     its vertex is stale: a later lowering made another. So nothing is marked, a vertex is processed once a distance,
//     and splitting the far pile reads no distances.
//   - Piles may be too small. What finds no place in the near pile is dropped, and the next superstep sweeps over the
//     whole row for distances of the bucket at hand instead; what finds none in the far pile makes the next split a
//     sweep for distances beyond the threshold (I2, I3). A sweep reads 32 distances with one access, so when a
//     pile is as long as that it is no loss.
//   - A group of SSSP_GROUP lanes shares a row, with kTogether edges a lane under way; a warp walks a row longer than
//     kLongRow together, and the block one longer than kHubEdges.
//
// Needs (AddsSlots guarantees it): weights >= 0; sources < n_vertices; *next_source zero; SSSP_THREADS a multiple of 32,
//     SSSP_GROUP a power of two up to 32; places for n_far and 2 * n_spilled entries a block.
// Keeps
//     I1. A vertex whose distance d is below `limit` and with which it was not processed has an entry with d: in the near
//         pile of this or the next superstep if d is below the threshold, else in the far pile.
//     I2. Or, if d is below the threshold and not below `low`: more entries were pushed to that near pile than it holds.
//     I3. Or, if d is not below the threshold: more entries were pushed to the far pile than it holds.
//     I4. far_min (over the threads) is at most the least distance of the far pile's live entries, and distances below
//         the threshold before the last are final. So a split always takes the least distance there is.
//     I5. Of three near counters used in turn, one is read, one is added to, and the third is set to zero; of two hub
//         counters one is added to before a barrier and read after it. So one barrier a superstep is enough.
// Memory order: a row and a slot's piles belong to one block, so __syncthreads orders everything but the counter of
//     sources, which is relaxed. A lowering of this superstep may or may not be seen: its entry comes next either way.
// Launch: SSSP_THREADS threads a block, any number of blocks; none waits for another.
// Ends: a superstep processes what was lowered since, distances take finitely many values, and each split moves the
//     threshold beyond the least distance that waits.
// NOTE: beside a row, 8 bytes an entry (16 for 64-bit weights); `adds_slots.py` says how many.

#include "device_graph.cuh"

// Entries of a near pile in shared memory.
constexpr word32 kNear = SSSP_NEAR;
// A group of lanes walks a row of up to so many edges.
constexpr word32 kLongRow = 8 * SSSP_GROUP;
// A warp walks a row of up to so many edges; those of longer ones are for the whole block.
constexpr word32 kHubEdges = 1024;
constexpr word32 kHubs = 64;
// Edges whose accesses a lane has under way together.
constexpr int kTogether = 4;
constexpr word32 kWholeWarp = 0xffffffffu;
constexpr word32 kWarps = SSSP_THREADS / 32;
constexpr distance_bits kNone = ~distance_bits{0};

struct alignas(2 * sizeof(distance_bits)) Entry {
    distance_bits length;
    word32 vertex;
};

struct Hub {
    edge_index begin;
    edge_index end;
    distance_bits length;
};

struct Counts {
    word64 vertices_processed;
    word64 edges_relaxed;
};

struct Shared {
    Entry near[2][kNear];
    Hub hubs[2][kHubs];
    Counts counts;
    distance_bits far_min;
    word32 near_count[3];
    word32 hub_count[2];
    word32 far_count;
    word32 nth;
};

struct Slot {
    DeviceGraph graph;
    word32 n_vertices;
    distance_bits limit;
    distance_bits delta;
    Entry* far;        // (n_far,)
    Entry* spilled;    // (2, n_spilled), the near piles beyond kNear
    word32 n_far;
    word32 n_spilled;
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
        }  // else I2
    }

    __device__ __forceinline__ void push_far(Entry entry) {
        far_min = min(far_min, entry.length);
        const word32 place = atomicAdd(&shared->far_count, 1);
        if (place < n_far) {
            far[place] = entry;
        }  // else I3
    }

    __device__ __forceinline__ void push(Entry entry) {
        if (entry.length < threshold) {
            push_near(entry);
        } else {
            push_far(entry);
        }
    }

    __device__ __forceinline__ Entry near_entry(word32 place) const {
        return place < kNear ? shared->near[step % 2][place]
                             : spilled[(step % 2) * static_cast<word64>(n_spilled) + place - kNear];
    }

    // Relaxes the edges first, first + stride, ... before `end`, of a vertex at distance d.
    __device__ __forceinline__ void relax(edge_index first, edge_index end, word32 stride, distance_bits d) {
        for (edge_index e = first; e < end; e += kTogether * stride) {
            word32 targets[kTogether];
            distance_bits candidates[kTogether];
            bool lowers[kTogether];
#pragma unroll
            for (int i = 0; i < kTogether; ++i) {
                lowers[i] = e + i * stride < end;
                const Edge edge = lowers[i] ? graph.edge(e + i * stride) : Edge{0, 0};
                targets[i] = edge.target;
                candidates[i] = sum_of(d, edge.weight);
                lowers[i] = lowers[i] && candidates[i] < limit;
            }
            distance_bits seen[kTogether];
#pragma unroll
            for (int i = 0; i < kTogether; ++i) {
                seen[i] = lowers[i] ? distances[targets[i]] : 0;
            }
#pragma unroll
            for (int i = 0; i < kTogether; ++i) {
                if (candidates[i] < seen[i] && lower_distance(distances, targets[i], candidates[i], false).lowered) {
                    push({candidates[i], targets[i]});
                }
            }
        }
    }

    // The near pile, or the whole row if entries were dropped: `n_near` is how many were pushed.
    __device__ __forceinline__ void superstep(word32 n_near) {
        const bool is_sweep = n_near > kNear + n_spilled;  // I2
        const word32 n_entries = is_sweep ? n_vertices : n_near;
        constexpr word32 kGroups = 32 / SSSP_GROUP;
        const word32 lane = threadIdx.x % 32;
        const word32 in_group = lane % SSSP_GROUP;
        for (word64 first = threadIdx.x / 32 * kGroups; first < n_entries; first += kWarps * kGroups) {
            const word64 i = first + lane / SSSP_GROUP;
            const bool has_entry = i < n_entries;
            distance_bits d = 0;
            edge_index begin = 0;
            edge_index end = 0;
            bool is_live = false;
            if (has_entry && is_sweep) {
                d = distances[i];
                is_live = low <= d && d < threshold;
                if (is_live) {
                    begin = graph.first_edge(static_cast<word32>(i));
                    end = graph.first_edge(static_cast<word32>(i) + 1);
                }
            } else if (has_entry) {
                const Entry entry = near_entry(static_cast<word32>(i));
                d = entry.length;
                begin = graph.first_edge(entry.vertex);
                end = graph.first_edge(entry.vertex + 1);
                is_live = distances[entry.vertex] == d;
            }
            const edge_index degree = is_live ? end - begin : 0;
            if (is_live && in_group == 0) {
                ++vertices_processed;
                edges_relaxed += degree;
            }
            const bool is_long = degree > kLongRow;
            if (!is_long) {
                relax(begin + in_group, begin + degree, SSSP_GROUP, d);
            }
            for (word32 rest = __ballot_sync(kWholeWarp, is_long && in_group == 0); rest != 0; rest &= rest - 1) {
                const int whose = __ffs(rest) - 1;
                const Hub hub{__shfl_sync(kWholeWarp, begin, whose), __shfl_sync(kWholeWarp, end, whose),
                              __shfl_sync(kWholeWarp, d, whose)};
                word32 place = kHubs;
                if (hub.end - hub.begin > kHubEdges) {
                    place = lane == 0 ? atomicAdd(&shared->hub_count[step % 2], 1) : 0;
                    place = __shfl_sync(kWholeWarp, place, 0);
                }
                if (place >= kHubs) {
                    relax(hub.begin + lane, hub.end, 32, hub.length);
                } else if (lane == 0) {
                    shared->hubs[step % 2][place] = hub;
                }
            }
        }
        __syncthreads();
        const word32 n_hubs = min(shared->hub_count[step % 2], kHubs);  // I5
        if (n_hubs == 0) {
            return;
        }
        for (word32 i = 0; i < n_hubs; ++i) {
            const Hub hub = shared->hubs[step % 2][i];
            relax(hub.begin + threadIdx.x, hub.end, SSSP_THREADS, hub.length);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            shared->hub_count[step % 2] = 0;
        }
    }

    // Moves the threshold beyond the least distance that waits; returns false if there is none.
    __device__ __forceinline__ bool split() {
        for (int by = 16; by > 0; by /= 2) {
            far_min = min(far_min, __shfl_xor_sync(kWholeWarp, far_min, by));
        }
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
            // In place: what is kept moves down, over entries that were read before the barrier.
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

    __device__ __forceinline__ void solve(word32 source, Counts* counts) {
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
        }
        low = 0;
        threshold = end_of_bucket(0, delta);
        far_min = kNone;
        vertices_processed = 0;
        edges_relaxed = 0;
        __syncthreads();

        // ---- Supersteps, and a split whenever the near pile is empty ----
        for (step = 0;; ++step) {
            const word32 n_near = shared->near_count[step % 3];
            if (threadIdx.x == 0) {
                shared->near_count[(step + 2) % 3] = 0;  // I5
            }
            if (n_near > 0) {
                superstep(n_near);
            } else if (!split()) {
                break;
            }
        }

        // ---- End: the counts ----
        for (int by = 16; by > 0; by /= 2) {
            vertices_processed += __shfl_down_sync(kWholeWarp, vertices_processed, by);
            edges_relaxed += __shfl_down_sync(kWholeWarp, edges_relaxed, by);
        }
        if (threadIdx.x % 32 == 0) {
            atomicAdd(&shared->counts.vertices_processed, static_cast<word64>(vertices_processed));
            atomicAdd(&shared->counts.edges_relaxed, edges_relaxed);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            *counts = shared->counts;
        }
    }
};

extern "C" __global__ void __launch_bounds__(SSSP_THREADS, SSSP_BLOCKS_PER_SM)
adds_slots_kernel(const edge_index* row_offsets, const edge_word* edges, const distance_bits* weights,
                  word32 n_vertices, const word32* sources, word32 n_sources, distance_bits limit,
                  distance_bits delta, distance_bits* rows, Entry* far, word32 n_far, Entry* spilled,
                  word32 n_spilled, word32* next_source, Counts* counts) {
    __shared__ Shared shared;
    Slot slot;
    slot.graph = {row_offsets, edges, weights};
    slot.n_vertices = n_vertices;
    slot.limit = limit;
    slot.delta = delta;
    slot.far = far + blockIdx.x * static_cast<word64>(n_far);
    slot.spilled = spilled + blockIdx.x * 2 * static_cast<word64>(n_spilled);
    slot.n_far = n_far;
    slot.n_spilled = n_spilled;
    slot.shared = &shared;
    for (;;) {
        if (threadIdx.x == 0) {
            shared.nth = atomicAdd(next_source, 1);
        }
        __syncthreads();
        const word32 nth = shared.nth;
        if (nth >= n_sources) {
            return;
        }
        slot.distances = rows + nth * static_cast<word64>(n_vertices);
        slot.solve(sources[nth], counts + nth);
    }
}
