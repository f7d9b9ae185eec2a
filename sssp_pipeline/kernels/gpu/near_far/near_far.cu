// Distances from one source by two piles, over the whole GPU, in one launch.
//
// Returns: `distances` lowered to the true ones (`limit` where there is no shorter path), and counts in `State`.
//
// Idea: delta-stepping with two buckets (Davidson et al., section 4). A vertex whose distance fell below `threshold`
// waits in the near pile and is processed in the next superstep. The other reached vertices wait in the far pile. When
// the near pile is empty, the threshold moves to the least distance in the far pile plus delta, and the far pile is
// split again. What may look odd:
//   - The kernel stays on the GPU for the whole run: a grid barrier takes a third of the time of a launch.
//   - A vertex enters the far pile once in a run: when it is first reached, at or beyond the threshold. Later lowerings
//     find `before != limit` and know that it is there. So neither pile can overflow (I2, I3), and neither needs a
//     place for each edge.
//   - `processed[v]` is the distance with which v was last processed. It identifies stale entries, so the piles need
//     not store distances.
//   - A warp takes few entries if the pile is small. Its threads share the edges of all its entries evenly. A row of
//     more than kHubEdges edges is cut into chunks for all warps. These wait for a second barrier, which only
//     supersteps with such a row have.
//   - Each block collects its pushes in shared memory and reserves places in the piles once a superstep.
//
// Needs (NearFar guarantees it): weights >= 0; source < n_vertices; SSSP_THREADS a multiple of 32; all blocks
//     resident at once; every word of State zero.
// Keeps
//     I1. A vertex with distances[v] < processed[v] is in the near pile of this or the next superstep if the distance
//         is below the threshold, else in the far pile.
//     I2. The near pile of one superstep contains a vertex once: the thread that pushes it sets its bit in `marks`, and
//         the thread that takes it clears the bit. So n_vertices places suffice.
//     I3. The far pile contains a vertex once, as above. So n_vertices places suffice.
//     I4. far_min is at most the least distance of the far pile's live entries, and is exact after a split. So a
//         threshold beyond it takes at least one live vertex, at the second split at the latest.
//     I5. Of three counters used in turn, one is read, one is added to, and the third is set to zero. The third was
//         last read before the barrier that opened this superstep.
//     I6. A hub is cut at most once a superstep, so n_edges / kChunkEdges + n_edges / kHubEdges chunks suffice.
// Memory order: relaxed everywhere. The barrier orders supersteps (B1 in grid_barrier.cuh). A reader may or may not see
//     a lowering of the same superstep: the thread that lowers pushes the vertex for the next superstep in either case.
// Launch: SSSP_THREADS threads a block; as many blocks as can be resident, or fewer.
// Ends: a superstep processes a vertex only if its distance fell since, and distances take finitely many values.
//     Between supersteps the far pile is split; by I4 at most one split in a row takes no live vertex.
// NOTE: 24 bytes a vertex for 32-bit weights (distance, processed, two near and two far piles) and 2 bits; 0.05
//     bytes an edge for chunks of hubs.
// Papers: Davidson, Baxter, Garland, Owens, "Work-efficient parallel GPU methods for single-source shortest
//     paths", IPDPS 2014; its delta as told in Wang, Fussell, Lin, PPoPP 2021, section 4.3.

#include "device_graph.cuh"
#include "grid_barrier.cuh"
#include "piles.cuh"
#include "warp.cuh"

// A warp walks up to this many edges of one vertex by itself: 16 rounds of 32 edges.
constexpr word32 kHubEdges = 512;
constexpr word32 kChunkEdges = 256;
// From this mean number of edges a vertex, consecutive entries go to different blocks.
constexpr word32 kSpreadEdges = 8;
// Edges that a thread relaxes at a time, so that their accesses overlap.
constexpr int kTogether = 2;
// In the free bits of the near pile's count: this superstep has cut a hub.
constexpr word64 kHubIsCut = word64{1} << kFreeBits;

struct State {
    BarrierWords barrier;
    word64 near_counted[3];  // arrival words: entries pushed to the near pile
    word32 far_count[3];
    word32 hub_count[2];
    word32 supersteps;
    word32 splits;
    word64 far_min_complement[3];  // ~least distance, so that zero means "none"
    word64 vertices_processed;
    word64 edges_relaxed;
};

static_assert(sizeof(State) == 104, "near_far.py reads it by these offsets");

// An entry of the near pile, as the thread that took it sees it.
struct Taken {
    word32 v;
    distance_bits distance;
    edge_index begin;
    edge_index degree;  // 0 if there is nothing to relax
};

struct Search {
    DeviceGraph graph;
    distance_bits* distances;
    distance_bits* processed;
    Piles piles;
    State* state;
    word32 n_vertices;
    distance_bits limit;
    distance_bits delta;
    word32 thread;
    word32 n_threads;
    word32 warp;  // its number when warps take entries
    word32 n_warps;
    distance_bits threshold = 0;
    bool look_first = false;
    distance_bits far_min = kNoDistance;  // least distance that this thread pushed far
    word64 vertices_processed = 0;
    word64 edges_relaxed = 0;
    word32 splits = 0;
    word32 step = 0;
    word32 n_near = 0;
    word32 n_far = 0;         // known only if n_near is 0
    word32 n_hub_chunks = 0;

    __device__ __forceinline__ word32 n_mark_words() const { return n_vertices / 32 + 1; }

    // ---- Start: nothing is reached but the source, which is near ----
    __device__ __forceinline__ void start(Held& held, word32 source) {
        for (word64 v = thread; v < n_vertices; v += n_threads) {
            distances[v] = v == source ? 0 : limit;
            processed[v] = limit;
        }
        for (word64 i = thread; i < 2 * static_cast<word64>(n_mark_words()); i += n_threads) {
            piles.marks[i] = 0;
        }
        if (threadIdx.x == 0) {
            held.clear();
        }
        if (thread == 0) {
            piles.near_piles[0] = source;
            atomicAdd(&state->near_counted[0], word64{1});
        }
        threshold = end_of_bucket(0, delta);
    }

    // Waits for the `times`-th time in the superstep before `next`, and reads the counts that come next: chunks of hubs
    // that are left to relax; if there are none, the near pile of `next`; if that is empty, the far pile.
    __device__ __forceinline__ bool wait_for_counts(GridBarrier& barrier, word32 next, word32 times) {
        const auto has_chunks = [&](word64 counted) { return times == 1 && (counted & kHubIsCut) != 0; };
        const auto read_more = [&](word64 counted) {
            if (has_chunks(counted)) {
                return load_relaxed(&state->hub_count[(next + 1) % 2]);
            }
            return (counted & kCountMask) == 0 ? load_relaxed(&state->far_count[splits % 3]) : 0;
        };
        word64 counted;
        const bool is_complete = barrier.wait_at(&state->near_counted[next % 3], times, read_more, counted, n_far);
        n_near = static_cast<word32>(counted & kCountMask);
        n_hub_chunks = has_chunks(counted) ? n_far : 0;
        return is_complete;
    }

    // Returns the piles to push to, and clears the counters of the superstep after the next (I5).
    __device__ __forceinline__ Target prepare_superstep(bool is_split) {
        const word32 far_now = splits + (is_split ? 1 : 0);  // a split pushes to the next far pile
        const Target to{
            piles.near_piles + ((step + 1) % 2) * static_cast<word64>(n_vertices),
            &state->near_counted[(step + 1) % 3],
            piles.marks + ((step + 1) % 2) * static_cast<word64>(n_mark_words()),
            piles.far_piles + (far_now % 2) * static_cast<word64>(n_vertices),
            &state->far_count[far_now % 3],
            &state->far_min_complement[far_now % 3],
        };
        far_min = kNoDistance;
        if (thread == 0) {  // I5
            store_relaxed(&state->near_counted[(step + 2) % 3], 0);
            store_relaxed(&state->hub_count[(step + 1) % 2], 0);
            if (is_split) {
                store_relaxed(&state->far_count[(splits + 2) % 3], 0);
                store_relaxed(&state->far_min_complement[(splits + 2) % 3], 0);
            }
        }
        return to;
    }

    // ---- Split: the threshold moves on, and the far pile is divided by it ----
    __device__ __forceinline__ void split_far_pile(Held& held, const Target& to) {
        const word64 least = ~load_relaxed(&state->far_min_complement[splits % 3]);
        threshold = end_of_bucket(static_cast<distance_bits>(least), delta);  // I4
        const word32* const far = piles.far_piles + (splits % 2) * static_cast<word64>(n_vertices);
        for (word64 i = thread; i < n_far; i += n_threads) {
            const word32 v = far[i];
            const distance_bits d = distances[v];
            if (d == processed[v]) {
                continue;  // stale: it came near, and was processed there
            }
            if (d < threshold) {
                push_near(held, to, v);
            } else {
                far_min = min(far_min, d);
                push_far(held, to, v);
            }
        }
        push_held(held, to, far_min);
        ++splits;
    }

    // ---- Superstep: a warp takes up to 32 entries at a time, and its threads share the edges ----
    __device__ __forceinline__ void relax_near_pile(Held& held, const Target& to) {
        word32* const marks = piles.marks + (step % 2) * static_cast<word64>(n_mark_words());
        const word32* const near = piles.near_piles + (step % 2) * static_cast<word64>(n_vertices);
        const word32 fair = (n_near + n_warps - 1) / n_warps;
        const word32 n_entries = fair >= 32 ? 32 : 1u << (32 - __clz(max(fair, 1u) - 1));
        // Few entries: latency counts, so use the atomic at once. Many: most edges lower nothing, so read first.
        look_first = n_near > n_threads;
        for (word64 first = static_cast<word64>(warp) * n_entries; first < n_near;
             first += static_cast<word64>(n_warps) * n_entries) {
            const word32 thread_of_warp = threadIdx.x % 32;
            const bool has_entry = thread_of_warp < n_entries && first + thread_of_warp < n_near;
            Taken taken{0, 0, 0, 0};
            if (has_entry) {
                taken = take_entry(near[first + thread_of_warp], marks);
            }
            const bool is_hub = taken.degree > kHubEdges;
            cut_hubs(taken, is_hub, to);
            relax_rows(held, to, taken, is_hub ? 0 : static_cast<word32>(taken.degree));
        }
        push_held(held, to, far_min);
    }

    __device__ __forceinline__ Taken take_entry(word32 v, word32* marks) {
        atomicAnd(&marks[v >> 5], ~(1u << (v & 31)));  // I2
        const edge_index begin = graph.first_edge(v);
        edge_index degree = graph.first_edge(v + 1) - begin;
        const distance_bits d = distances[v];
        if (d == processed[v]) {
            degree = 0;  // stale: it fell in the same superstep that then processed it
        } else {
            processed[v] = d;
            ++vertices_processed;
            edges_relaxed += degree;
        }
        return {v, d, begin, degree};
    }

    // Lists the chunks of the hubs that the threads of the warp have taken.
    __device__ __forceinline__ void cut_hubs(const Taken& taken, bool is_hub, const Target& to) {
        const word32 thread_of_warp = threadIdx.x % 32;
        for (word32 hubs = __ballot_sync(kWholeWarp, is_hub); hubs != 0; hubs &= hubs - 1) {
            const int owner = __ffs(hubs) - 1;
            const word32 hub = __shfl_sync(kWholeWarp, taken.v, owner);
            const edge_index hub_degree = __shfl_sync(kWholeWarp, taken.degree, owner);
            const word32 n_chunks = static_cast<word32>((hub_degree + kChunkEdges - 1) / kChunkEdges);
            word32 place = 0;
            if (thread_of_warp == 0) {
                place = atomicAdd(&state->hub_count[step % 2], n_chunks);  // I6
                atomicOr(to.near_counted, kHubIsCut);
            }
            place = __shfl_sync(kWholeWarp, place, 0);
            for (word32 i = thread_of_warp; i < n_chunks; i += 32) {
                piles.hub_chunks[place + i] = make_uint2(hub, i);
            }
        }
    }

    // Relaxes `own` edges of each thread's entry; the threads of the warp share all of them evenly.
    __device__ __forceinline__ void relax_rows(Held& held, const Target& to, const Taken& taken, word32 own) {
        const word32 ends = prefix_sum(own);
        const word32 n_edges = __shfl_sync(kWholeWarp, ends, 31);
        for (word32 some = 0; some < n_edges; some += 32 * kTogether) {
            edge_index e[kTogether];
            distance_bits from[kTogether];
            bool there[kTogether];
#pragma unroll
            for (int i = 0; i < kTogether; ++i) {
                const word32 k = some + 32 * i + threadIdx.x % 32;
                there[i] = k < n_edges;
                const word32 owner = find_owner(ends, k);
                const word32 owner_ends = __shfl_sync(kWholeWarp, ends, owner);
                const word32 owner_degree = __shfl_sync(kWholeWarp, own, owner);
                const edge_index owner_begin = __shfl_sync(kWholeWarp, taken.begin, owner);
                from[i] = __shfl_sync(kWholeWarp, taken.distance, owner);
                e[i] = owner_begin + (k - (owner_ends - owner_degree));
            }
            relax(held, to, e, from, there);
        }
    }

    // ---- Hubs: every warp takes chunks ----
    __device__ __forceinline__ void relax_hub_chunks(Held& held, const Target& to) {
        far_min = kNoDistance;
        look_first = true;
        for (word64 i = warp; i < n_hub_chunks; i += n_warps) {
            const uint2 chunk = piles.hub_chunks[i];
            const distance_bits d = processed[chunk.x];
            const edge_index begin = graph.first_edge(chunk.x) + static_cast<edge_index>(chunk.y) * kChunkEdges;
            const edge_index end = min(begin + kChunkEdges, graph.first_edge(chunk.x + 1));
            for (edge_index some = begin; some < end; some += 32 * kTogether) {
                edge_index e[kTogether];
                distance_bits from[kTogether];
                bool there[kTogether];
#pragma unroll
                for (int k = 0; k < kTogether; ++k) {
                    e[k] = some + 32 * k + threadIdx.x % 32;
                    from[k] = d;
                    there[k] = e[k] < end;
                }
                relax(held, to, e, from, there);
            }
        }
        push_held(held, to, far_min);
    }

    // Relaxes up to kTogether edges of this thread, each with the distance of the vertex it leaves.
    __device__ __forceinline__ void relax(Held& held, const Target& to, const edge_index* e, const distance_bits* d,
                                          const bool* there) {
        Edge edges[kTogether];
        distance_bits candidates[kTogether];
        Lowering changes[kTogether];
#pragma unroll
        for (int i = 0; i < kTogether; ++i) {
            edges[i] = there[i] ? graph.edge(e[i]) : Edge{0, 0};
        }
#pragma unroll
        for (int i = 0; i < kTogether; ++i) {
            candidates[i] = sum_of(d[i], edges[i].weight);
            changes[i] = Lowering{0, false};
            if (there[i] && candidates[i] < limit) {
                changes[i] = lower_distance(distances, edges[i].target, candidates[i], look_first);
            }
        }
#pragma unroll
        for (int i = 0; i < kTogether; ++i) {
            enter(held, to, edges[i].target, candidates[i], changes[i]);
        }
    }

    // Pushes v to the pile in which its new distance belongs.
    __device__ __forceinline__ void enter(Held& held, const Target& to, word32 v, distance_bits d, Lowering change) {
        if (!change.lowered) {
            return;
        }
        if (d < threshold) {
            push_near(held, to, v);
            return;
        }
        far_min = min(far_min, d);
        if (change.before == limit) {  // I3
            push_far(held, to, v);
        }
    }

    // ---- End: the counts ----
    __device__ __forceinline__ void finish() {
        add_counts(vertices_processed, edges_relaxed, &state->vertices_processed, &state->edges_relaxed);
        if (thread == 0) {
            state->supersteps = step - splits;
            state->splits = splits;
        }
    }
};

extern "C" __global__ void __launch_bounds__(SSSP_THREADS, SSSP_BLOCKS_PER_SM)
near_far_search_kernel(const edge_index* row_offsets, const edge_word* edges, const distance_bits* weights,
                       word32 n_vertices, word32 source, distance_bits limit, distance_bits delta,
                       distance_bits* distances, distance_bits* processed, word32* near_piles, word32* far_piles,
                       word32* marks, uint2* hub_chunks, State* state, word32 n_blocks, word64 patience_ns,
                       word64 deadline_ns) {
    __shared__ Held held;
    GridBarrier barrier{&state->barrier, n_blocks, patience_ns, deadline_ns};
    const DeviceGraph graph{row_offsets, edges, weights};
    const word32 thread = blockIdx.x * blockDim.x + threadIdx.x;
    const word32 n_threads = gridDim.x * blockDim.x;
    // If entries have many edges, neighbouring warps of different blocks take them; else one block takes several.
    const bool is_spread = graph.first_edge(n_vertices) / kSpreadEdges >= n_vertices;
    const word32 warp = is_spread ? threadIdx.x / 32 * gridDim.x + blockIdx.x : thread / 32;
    Search search{graph, distances, processed, {near_piles, far_piles, marks, hub_chunks}, state, n_vertices,
                  limit, delta, thread, n_threads, warp, n_threads / 32};

    search.start(held, source);
    if (!search.wait_for_counts(barrier, 0, 1)) {
        return;
    }
    for (; search.n_near > 0 || search.n_far > 0; ++search.step) {
        const bool is_split = search.n_near == 0;
        const Target to = search.prepare_superstep(is_split);
        if (is_split) {
            search.split_far_pile(held, to);
            if (!search.wait_for_counts(barrier, search.step + 1, 1)) {
                return;
            }
            continue;
        }
        search.relax_near_pile(held, to);
        if (!search.wait_for_counts(barrier, search.step + 1, 1)) {
            return;
        }
        if (search.n_hub_chunks > 0) {
            search.relax_hub_chunks(held, to);
            if (!search.wait_for_counts(barrier, search.step + 1, 2)) {
                return;
            }
        }
    }
    search.finish();
}
