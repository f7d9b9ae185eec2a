// A worker of `adds`: a warp that relaxes the entries that the manager assigns, and publishes the vertices it lowers.
//
// Idea: a thread for each edge. The edges of up to 32 vertices are laid end to end and shared by the threads of the
// warp, so degrees do not matter. What may look odd:
//   - A worker expands up to `chain` of the near vertices that it lowers at once, without the queue. On a road graph a
//     hop through the queue takes three times as long. A chain belongs to the assignment that began it (I3).
//   - A worker first holds its pushes in shared memory. Then one reservation serves all entries for a bucket.
//   - An entry can stand for a chunk of a hub's row: these have numbers from n_vertices on. The entry of the hub itself
//     only pushes its chunks.
//
// Needs: whole warps; SSSP_THREADS a multiple of 32; weights of zero or more.
// Keeps: I3, I7, I8 of docs/design/0002-adds-queue.md, R1 to R3 of relax.cuh.
// Memory order: F4 and F5 here, F1 in bucket_queue.cuh.
#pragma once

#include "bucket_queue.cuh"
#include "device_graph.cuh"

// A row longer than kHubEdges is cut into chunks of kChunkEdges, each an entry of its own. As in `adds.py`.
constexpr word32 kHubEdges = 128;
constexpr word32 kChunkEdges = 128;
// Words a warp holds back, and vertices it keeps for itself: as many as fit 48 KB a block.
constexpr word32 kHeld = SSSP_BITS == 32 ? 96 : 64;
constexpr word32 kMostChain = 16;
// Edges that a thread relaxes at a time if there are more than 32 in all. With fewer, searching for the owners of edges
// that do not exist would cost a road graph a tenth.
constexpr int kTogether = 3;
// Steps of a chain between two reads of the schedule.
constexpr word32 kStepsPerLook = 4;
// Steps of a chain after which a worker counts in `steps`, a multiple of kStepsPerLook: about a millisecond.
constexpr word32 kStepsPerCount = 1024;
// Polls of a flag between two reads of `stop`.
constexpr word32 kPollsPerLook = 64;

struct Held {
    distance_bits lengths[kHeld];
    // The chain: vertices that were just lowered, with what is known of them, so that the next step need not ask.
    distance_bits chain_lengths[kMostChain];
    edge_index chain_begins[kMostChain];
    word32 chain_degrees[kMostChain];
    word32 chain[kMostChain];
    word32 entries[kHeld];
};

struct Worker {
    DeviceGraph graph;
    Queue queue;
    distance_bits* distances;
    distance_bits* processed;      // (n_vertices + n_chunks,)
    const uint2* chunks;           // (n_chunks,): vertex, number of the chunk
    const word32* hub_vertices;    // (n_hubs,) ascending
    const word32* hub_chunks;      // (n_hubs,): first chunk
    word32 n_hubs;
    word32 n_vertices;
    distance_bits limit;
    word32 n_buckets;
    word32 chain;
    bool look_first;
    Held* held;
    word64* cache;
    word32 n_held;
    word32 n_chain;
    Schedule now;
    word64 vertices_processed;
    word64 edges_relaxed;

    // Publishes what is held back.
    __device__ void flush() {
        const word32 thread_of_warp = threadIdx.x % 32;
        __syncwarp();
        for (word32 first = 0; first < n_held; first += 32) {
            const bool has = first + thread_of_warp < n_held;
            word32 entry = 0;
            word32 bucket = 0;
            if (has) {
                entry = held->entries[first + thread_of_warp];
                bucket = bucket_of(now, held->lengths[first + thread_of_warp], n_buckets);
            }
            publish(queue, cache, has, bucket, entry);
        }
        n_held = 0;
        __syncwarp();
    }

    __device__ __forceinline__ void hold(bool has, word32 entry, distance_bits d) {
        const word32 mask = __ballot_sync(kWholeWarp, has);
        if (mask == 0) {
            return;
        }
        if (n_held + __popc(mask) > kHeld) {
            flush();
        }
        if (has) {
            const word32 place = n_held + rank_in(mask);
            held->entries[place] = entry;
            held->lengths[place] = d;
        }
        n_held += __popc(mask);
    }

    // Enters lowered vertices: near ones in the chain as far as it has room, the others in the queue.
    __device__ __forceinline__ void enter(bool has, word32 v, distance_bits d, edge_index begin, edge_index end) {
        const bool is_near = has && d < now.near_end && end - begin <= kHubEdges;
        const word32 near = __ballot_sync(kWholeWarp, is_near);
        const word32 place = n_chain + rank_in(near);
        const bool stays = is_near && place < chain;
        if (stays) {
            held->chain[place] = v;
            held->chain_lengths[place] = d;
            held->chain_begins[place] = begin;
            held->chain_degrees[place] = static_cast<word32>(end - begin);
        }
        n_chain = min(n_chain + __popc(near), max(n_chain, chain));
        hold(has && !stays, v, d);
    }

    __device__ void push_chunks(word32 hub, distance_bits d, edge_index degree) {
        const word32 thread_of_warp = threadIdx.x % 32;
        word32 low = 0;
        word32 high = n_hubs;
        while (high - low > 1) {
            const word32 middle = (low + high) / 2;
            if (__ldg(hub_vertices + middle) <= hub) {
                low = middle;
            } else {
                high = middle;
            }
        }
        const word32 first = n_vertices + __ldg(hub_chunks + low);
        const word32 n_chunks = static_cast<word32>((degree + kChunkEdges - 1) / kChunkEdges);
        for (word32 i = 0; i < n_chunks; i += 32) {
            hold(i + thread_of_warp < n_chunks, first + i + thread_of_warp, d);
        }
    }

    // The row of one thread in a step: a vertex or a chunk of one.
    struct Row {
        word32 entry;
        distance_bits d;       // kUnreached once it is known that its edges need no relaxation
        distance_bits before;  // `processed`
        edge_index begin;
        word32 degree;         // 0 for a hub: others take its chunks
        word32 ends;           // inclusive prefix sum of `degree`
        bool is_open;          // whether I8 is still to be checked
        bool is_chunk;
    };

    // Relaxes 32 * kRounds of the `n_edges` edges, from number `first` on. The accesses of a thread's kRounds edges
    // overlap.
    template <int kRounds>
    __device__ __forceinline__ void relax(Row& row, word32 first, word32 n_edges) {
        const word32 thread_of_warp = threadIdx.x % 32;
        Edge edges[kRounds];
        word32 owners[kRounds];
        bool there[kRounds];
#pragma unroll
        for (int i = 0; i < kRounds; ++i) {
            const word32 k = first + 32 * i + thread_of_warp;
            there[i] = k < n_edges;
            const word32 owner = find_owner(row.ends, k);
            const word32 before_owner = __shfl_sync(kWholeWarp, row.ends - row.degree, owner);
            const edge_index begin = __shfl_sync(kWholeWarp, row.begin, owner);
            owners[i] = owner;
            edges[i] = there[i] ? graph.edge(begin + (k - before_owner)) : Edge{0, 0};
        }
        if (first == 0) {
            // Only now, with edges under way, look whether the vertex was relaxed like this before (I8).
            if (row.is_open && row.d < row.before) {
                store_relaxed(processed + row.entry, row.d);
                vertices_processed += row.is_chunk ? 0 : 1;
                edges_relaxed += row.degree;
            } else {
                row.d = kUnreached;
            }
        }
        distance_bits candidates[kRounds];
        edge_index begins[kRounds];
        edge_index row_ends[kRounds];
        bool lowered[kRounds];
#pragma unroll
        for (int i = 0; i < kRounds; ++i) {
            const distance_bits from = __shfl_sync(kWholeWarp, row.d, owners[i]);
            candidates[i] = sum_of(from, edges[i].weight);
            lowered[i] = there[i] && from != kUnreached && candidates[i] < limit;
            if (look_first && lowered[i]) {
                lowered[i] = candidates[i] < distances[edges[i].target];
            }
        }
#pragma unroll
        for (int i = 0; i < kRounds; ++i) {
            begins[i] = row_ends[i] = 0;
            if (lowered[i]) {
                if (chain > 0 && candidates[i] < now.near_end) {
                    begins[i] = graph.first_edge(edges[i].target);
                    row_ends[i] = graph.first_edge(edges[i].target + 1);
                }
                lowered[i] = lower_distance(distances, edges[i].target, candidates[i], false).lowered;
            }
        }
#pragma unroll
        for (int i = 0; i < kRounds; ++i) {
            enter(lowered[i], edges[i].target, candidates[i], begins[i], row_ends[i]);
        }
    }

    // Relaxes the edges of the chain's vertices, one a thread, and of `n_fresh` entries from place `first` on.
    __device__ void step(word32 first, word32 n_fresh) {
        const word32 thread_of_warp = threadIdx.x % 32;
        const bool is_old = thread_of_warp < n_chain;
        const bool is_fresh = !is_old && thread_of_warp < n_chain + n_fresh;
        word32 entry = kNoEntry - thread_of_warp;
        distance_bits d = 0;
        distance_bits before = 0;
        edge_index begin = 0;
        edge_index degree = 0;
        bool goes_back = false;
        bool is_chunk = false;
        if (is_old) {
            entry = held->chain[thread_of_warp];
            d = held->chain_lengths[thread_of_warp];
            begin = held->chain_begins[thread_of_warp];
            degree = held->chain_degrees[thread_of_warp];
            before = load_relaxed(processed + entry);
        } else if (is_fresh) {
            entry = load_relaxed(queue.entries + first + (thread_of_warp - n_chain));
            SSSP_ASSERT(queue, 1, entry != kNoEntry);
            before = load_relaxed(processed + entry);
            word32 v = entry;
            word32 nth = 0;
            is_chunk = entry >= n_vertices;
            if (is_chunk) {
                const uint2 chunk = __ldg(chunks + (entry - n_vertices));
                v = chunk.x;
                nth = chunk.y;
            }
            d = load_relaxed(distances + v);
            begin = graph.first_edge(v);
            edge_index end = graph.first_edge(v + 1);
            if (is_chunk) {
                begin += static_cast<edge_index>(nth) * kChunkEdges;
                end = min(begin + kChunkEdges, end);
            }
            degree = d < before ? end - begin : 0;
            goes_back = d < before && buckets_on(now, d) >= __uint_as_float(static_cast<word32>(now.rebin_nth));
        }
        __syncwarp();
        n_chain = 0;
        // If a vertex is here twice, the first one is relaxed. Another one is too if its distance is less: it may be
        // the only entry for that distance.
        const word32 twins = __match_any_sync(kWholeWarp, entry);
        const distance_bits of_first = __shfl_sync(kWholeWarp, d, __ffs(twins) - 1);
        const bool is_first = rank_in(twins) == 0 || d < of_first;
        const bool is_hub = is_fresh && !is_chunk && !goes_back && is_first && degree > kHubEdges;
        hold(goes_back, entry, d);
        for (word32 hubs = __ballot_sync(kWholeWarp, is_hub); hubs != 0; hubs &= hubs - 1) {
            const int whose = __ffs(hubs) - 1;
            push_chunks(__shfl_sync(kWholeWarp, entry, whose), __shfl_sync(kWholeWarp, d, whose),
                        __shfl_sync(kWholeWarp, degree, whose));
        }
        const word32 own = is_hub || goes_back || !is_first ? 0 : static_cast<word32>(degree);
        const word32 ends = prefix_sum(own);
        const word32 n_edges = __shfl_sync(kWholeWarp, ends, 31);
        Row row{entry, d, before, begin, own, ends, (is_old || is_fresh) && !goes_back && is_first, is_chunk};
        word32 done = 0;
        do {
            if (n_edges - done <= 32) {
                relax<1>(row, done, n_edges);
                done += 32;
            } else {
                relax<kTogether>(row, done, n_edges);
                done += 32 * kTogether;
            }
        } while (done < n_edges);
    }

    // Works until the manager says there is no more.
    __device__ void run(word64* flag) {
        const word32 thread_of_warp = threadIdx.x % 32;
        for (;;) {
            word64 assignment = 0;
            for (word32 polls = 1;; ++polls) {
                assignment = load_relaxed(flag);
                assignment = __shfl_sync(kWholeWarp, assignment, 0);
                if (assignment != 0) {
                    break;
                }
                if (polls % kPollsPerLook == 0 && __shfl_sync(kWholeWarp, load_relaxed(queue.stop), 0) != 0) {
                    assignment = kLeave;  // I7
                    break;
                }
            }
            if (assignment == kLeave) {
                return;
            }
            fence_acq_rel();  // F4
            const word32 place = static_cast<word32>(assignment);
            const word32 count = static_cast<word32>(assignment >> 32);
            const word32 page = place >> kPageBits;
            now = read_schedule(queue);
#if SSSP_CHECK
            const word32 owner = load_relaxed(queue.owners + page);
            if (thread_of_warp == 0) {
                atomicAdd(queue.working + owner, count);
            }
#endif
            word32 taken = 0;
            for (word32 steps = 1; taken < count || n_chain > 0; ++steps) {
                // The chain first, then as many new entries as there are threads left.
                const word32 n_fresh = min(count - taken, 32 - n_chain);
                if (steps % kStepsPerLook == 0) {
                    if (steps % kStepsPerCount == 0 && thread_of_warp == 0) {
                        atomicAdd(queue.steps, 1);  // I7
                    }
                    now = read_schedule(queue);
                    if (__shfl_sync(kWholeWarp, load_relaxed(queue.stop), 0) != 0) {
                        return;  // I7
                    }
                }
                step(place + taken, n_fresh);
                taken += n_fresh;
                __syncwarp();
                // More near entries than the chain holds: others should have them soon.
                if (n_held >= 32 || (n_chain == chain && n_held > 0)) {
                    flush();
                }
            }
            flush();
#if SSSP_CHECK
            if (thread_of_warp == 0) {
                atomicSub(queue.working + owner, count);
            }
#endif
            __syncwarp();
            fence_acq_rel();  // F5
            if (thread_of_warp == 0) {
                atomicAdd(queue.completed + page, count);
                store_relaxed(flag, 0);
            }
        }
    }
};
