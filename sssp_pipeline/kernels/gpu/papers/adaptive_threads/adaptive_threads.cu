// Distances from one source by a thread for each vertex, or for each updated vertex, whichever is faster.
//
// Returns: `distances` lowered to the true ones (`limit` where there is no shorter path), and counts in `State`.
//
// Idea: Bellman and Ford's algorithm in supersteps of two halves (algorithms 1 to 6 of the paper; its names in
// brackets). Relax: each marked vertex [M] lowers the tentative distances [U] of its neighbours, by an atomic minimum.
// Update: a vertex whose tentative distance is below its distance [C] takes it over and is marked. Each half goes over
// all vertices, or over a list [NR] that the relaxations before it made [NW]. A list costs atomics and scattered
// reads. All vertices cost reading them. The time of a superstep decides: if a list took longer than the threshold, the
// next superstep goes over all vertices; if all vertices took less, the next goes over a list made of the marks
// [SWITCH]. What may look odd:
//   - The paper launches a kernel for each half and times them on the host. This kernel stays on the GPU, because a
//     grid barrier takes a third of the time of a launch, and uses the GPU's clock. As in the paper, the time covers
//     relax and update, not the making of a list.
//   - "Not scheduled yet" needs no marks of its own: see I2.
//   - A vertex is entered if its tentative distance was lowered. The paper tests whether it now equals the candidate.
//     That also holds for ties, which update would find unchanged.
//   - U of the source begins at its distance, not at "unreached". So the paper's last line of update, U = C, has
//     nothing to do.
//
// Needs (AdaptiveThreads guarantees it): source < n_vertices; SSSP_THREADS a multiple of 32; all blocks resident at
//     once; at the first launch of a search every word of State zero, at the next ones its barrier's words; no other
//     writes in between. No negative cycle, or an end to the launches.
// Keeps, supersteps counted from zero as k
//     I1. Between supersteps tentative == distances. Relax only lowers tentative. Update only writes distances[v] and
//         marks[v], both by the one thread that handles v.
//     I2. So in relax exactly one lowering of v finds distances[v] as the tentative distance before it: the first. It
//         enters v. So a list contains a vertex once, and n_vertices places suffice.
//     I3. Between supersteps marks[v] is set iff v was updated and not relaxed since (or is the source, at first). If
//         the next superstep goes over a list, lists[k % 2] contains exactly these vertices.
//     I4. list_count[k % 2] is read when superstep k begins and set to zero after the barrier in it. Vertices are added
//         to it in relax of k - 1, or between k - 1 and k: a barrier separates this from both.
//     I5. `last_marking` is also written after that barrier, and `next` before the last one. Both are read after the
//         last barrier and before the next superstep's first. So all threads take the same branches.
// Memory order: relaxed. The barrier orders the halves (B1 in grid_barrier.cuh). A read of a tentative distance while
//     it falls may be stale, and costs an atomic.
// Launch: SSSP_THREADS threads a block; as many blocks as can be resident, or fewer; any number of launches, each up to
//     superstep `until`.
// Ends: a vertex is marked only if its distance fell, and without a negative cycle distances fall finitely often.
// NOTE: one thread walks all edges of a vertex, as in the paper, so a hub makes all other threads wait.
// Paper: Suzuki, Kan, Hayashi, Yoshikawa, "Accelerating SSSP algorithm on GPU with adaptive thread creation".

#include "device_graph.cuh"
#include "grid_barrier.cuh"
#include "take_place.cuh"
#include "warp.cuh"

// Edges that a thread relaxes at a time, so that their accesses overlap.
constexpr int kTogether = 4;
// The threshold is this many halves of the time of a superstep over all vertices with nothing to do. With 2 a list is
// never made again, because no superstep takes less. 3 is a judgement for graphs of more than a million vertices, which
// were not measured (benchmarks/kernel_constants.md).
constexpr word64 kAutoHalves = 3;
// Supersteps with nothing to do. The untimed ones fill the caches. The mean of the timed ones counts, because the clock
// ticks once a microsecond.
constexpr int kUntimed = 2;
constexpr int kTimed = 8;

// The vertices that a search goes over; kAlternating is for tests.
enum Mode : word32 { kAdaptive, kAll, kListed, kAlternating };

// The vertices that the next superstep goes over. With kOverMarks a list is made first.
enum Next : word32 { kOverAll, kOverList, kOverMarks };

struct State {
    BarrierWords barrier;
    word32 supersteps;
    word32 next;
    word32 list_count[2];
    word32 last_marking;  // the last superstep that marked a vertex, counted from one
    word32 switches;
    word64 threshold_ns;
    word64 vertices_processed;
    word64 edges_relaxed;
};

static_assert(sizeof(State) == 56, "adaptive_threads.py reads it by these offsets");

using Mark = unsigned char;

struct List {
    word32* vertices;
    word32* count;

    __device__ __forceinline__ void append(word32 v) const { vertices[take_place(count)] = v; }
};

struct Search {
    DeviceGraph graph;
    word32 n_vertices;
    distance_bits limit;
    distance_bits* distances;  // C
    distance_bits* tentative;  // U
    Mark* marks;               // M, (V,)
    word32* lists;             // NR and NW in turn, (2, V)
    State* state;
    word32 thread;
    word32 taker;  // its number for short lists: neighbouring warps are in different blocks
    word32 n_threads;
    word64 vertices_processed;
    word64 edges_relaxed;

    __device__ __forceinline__ List list(word32 step) const {
        return {lists + (step % 2) * static_cast<word64>(n_vertices), &state->list_count[step % 2]};
    }

    // Relaxes the edges of v, which is marked. With `enters`, enters each vertex that this is the first to lower.
    template <bool enters>
    __device__ __forceinline__ void relax(word32 v, bool look_first, const List& to) {
        marks[v] = 0;
        const distance_bits d = distances[v];
        const edge_index begin = graph.first_edge(v);
        const edge_index end = graph.first_edge(v + 1);
        vertices_processed += 1;
        edges_relaxed += end - begin;
        for (edge_index some = begin; some < end; some += kTogether) {
            Edge edges[kTogether];
            Lowering changes[kTogether];
#pragma unroll
            for (int i = 0; i < kTogether; ++i) {
                edges[i] = some + i < end ? graph.edge(some + i) : Edge{0, 0};
            }
#pragma unroll
            for (int i = 0; i < kTogether; ++i) {
                const distance_bits candidate = sum_of(d, edges[i].weight);
                changes[i] = Lowering{0, false};
                if (some + i < end && candidate < limit) {
                    changes[i] = lower_distance(tentative, edges[i].target, candidate, look_first);
                }
            }
            if constexpr (enters) {
#pragma unroll
                for (int i = 0; i < kTogether; ++i) {
                    if (changes[i].lowered && changes[i].before == distances[edges[i].target]) {  // I2
                        to.append(edges[i].target);
                    }
                }
            }
        }
    }

    // Takes over the tentative distance of v and marks v, if it fell. Returns whether it fell.
    __device__ __forceinline__ bool update(word32 v) {
        const distance_bits d = tentative[v];
        if (d >= distances[v]) {
            return false;
        }
        set_distance(distances, v, d);  // I1
        marks[v] = 1;
        return true;
    }

    // Runs a superstep without the barrier that ends it. Returns false if the run was given up.
    __device__ __forceinline__ bool superstep(GridBarrier& barrier, word32 step, bool is_listed, word32 n_listed) {
        const List from = list(step);
        const List to = list(step + 1);

        // ---- Relax ----
        if (is_listed) {
            // Few: latency counts, so use the atomic at once. Many: most edges lower nothing, so read first.
            const bool look_first = n_listed > n_threads;
            for (word64 i = taker; i < n_listed; i += n_threads) {
                relax<true>(from.vertices[i], look_first, to);
            }
        } else {
            for (word64 v = thread; v < n_vertices; v += n_threads) {
                if (marks[v] != 0) {
                    relax<false>(static_cast<word32>(v), true, to);
                }
            }
        }
        const word32* const addresses[] = {to.count};
        word32 n_entered[1];
        if (!barrier.wait(addresses, n_entered)) {
            return false;
        }

        // ---- Update ----
        bool is_marking = false;
        if (is_listed) {
            for (word64 i = taker; i < n_entered[0]; i += n_threads) {
                is_marking |= update(to.vertices[i]);
            }
        } else {
            for (word64 v = thread; v < n_vertices; v += n_threads) {
                is_marking |= update(static_cast<word32>(v));
            }
        }
        if (thread == 0) {
            store_relaxed(from.count, 0);  // I4
        }
        if (__syncthreads_or(is_marking) && threadIdx.x == 0) {
            store_relaxed(&state->last_marking, step + 1);  // I5
        }
        return true;
    }

    // Measures the threshold while nothing is marked, for thread 0. Returns false if the run was given up.
    __device__ bool calibrate(GridBarrier& barrier, word64& threshold_ns) {
        word64 took = 0;
        for (int i = 0; i < kUntimed + kTimed; ++i) {
            const word64 began = thread == 0 ? clock_ns() : 0;
            if (!superstep(barrier, 0, false, 0)) {
                return false;
            }
            if (thread == 0 && i >= kUntimed) {
                took += ns_between(began, clock_ns());
            }
            if (!barrier.wait()) {
                return false;
            }
        }
        threshold_ns = max(kAutoHalves * took / (2 * kTimed), word64{1});
        return true;
    }
};

// Whether to go over all vertices after a list, or the other way round.
__device__ __forceinline__ bool is_to_switch(word32 mode, bool is_listed, word64 took_ns, word64 threshold_ns) {
    if (mode == kAdaptive) {
        return is_listed ? took_ns > threshold_ns : took_ns < threshold_ns;
    }
    return mode == kAlternating;
}

extern "C" __global__ void __launch_bounds__(SSSP_THREADS, SSSP_BLOCKS_PER_SM)
adaptive_threads_search_kernel(const edge_index* row_offsets, const edge_word* edges, const distance_bits* weights,
                               word32 n_vertices, word32 source, distance_bits limit, word32 mode,
                               word64 threshold_ns, word32 until, distance_bits* distances,
                               distance_bits* tentative, Mark* marks, word32* lists, State* state, word32 n_blocks,
                               word64 patience_ns, word64 deadline_ns) {
    GridBarrier barrier{&state->barrier, n_blocks, patience_ns, deadline_ns};
    const word32 thread = blockIdx.x * blockDim.x + threadIdx.x;
    const word32 taker = (threadIdx.x / 32 * gridDim.x + blockIdx.x) * 32 + threadIdx.x % 32;
    const word32 n_threads = gridDim.x * blockDim.x;
    Search search{{row_offsets, edges, weights}, n_vertices, limit, distances, tentative, marks,
                  lists, state, thread, taker, n_threads, 0, 0};

    word32 step = load_relaxed(&state->supersteps);
    if (step == 0) {
        // ---- Start: nothing is reached but the source, which is marked when the threshold is known ----
        for (word64 v = thread; v < n_vertices; v += n_threads) {
            const distance_bits d = v == source ? kAtSource : limit;
            distances[v] = d;
            tentative[v] = d;
            marks[v] = 0;
        }
        const bool calibrates = mode == kAdaptive && threshold_ns == 0;
        if (calibrates && !(barrier.wait() && search.calibrate(barrier, threshold_ns))) {
            return;
        }
        if (thread == source % n_threads) {  // the thread that cleared its mark above
            marks[source] = 1;
            lists[0] = source;
            store_relaxed(&state->list_count[0], 1);
        }
        if (thread == 0) {
            store_relaxed(&state->threshold_ns, threshold_ns);
            store_relaxed(&state->next, mode == kAll ? kOverAll : kOverList);
        }
    }
    word32 next = kOverAll;
    word32 last_marking = 0;
    word32 n_listed = 0;
    const auto wait_for_superstep = [&](word32 k) {  // I5
        const word32* const addresses[] = {&state->next, &state->last_marking, search.list(k).count};
        word32 values[3];
        const bool is_complete = barrier.wait(addresses, values);
        next = values[0];
        last_marking = values[1];
        n_listed = values[2];
        return is_complete;
    };
    if (!wait_for_superstep(step)) {
        return;
    }
    threshold_ns = load_relaxed(&state->threshold_ns);

    word32 switches = 0;
    for (;; ++step) {
        const bool is_over = last_marking != step;
        if (is_over || step >= until) {
            break;
        }
        if (next == kOverMarks) {
            // ---- Switch: a list of the marked vertices (I3) ----
            const List list = search.list(step);
            for (word64 v = thread; v < n_vertices; v += n_threads) {
                if (marks[v] != 0) {
                    list.append(static_cast<word32>(v));
                }
            }
            const word32* const addresses[] = {list.count};
            word32 values[1];
            if (!barrier.wait(addresses, values)) {
                return;
            }
            n_listed = values[0];
        }
        const bool is_listed = next != kOverAll;
        const word64 began = thread == 0 ? clock_ns() : 0;
        if (!search.superstep(barrier, step, is_listed, n_listed)) {
            return;
        }
        // ---- Whether to switch: by the time of block 0, which has waited for all to relax ----
        if (thread == 0) {
            const bool switching = is_to_switch(mode, is_listed, ns_between(began, clock_ns()), threshold_ns);
            switches += switching;
            const word32 other = is_listed ? kOverAll : kOverMarks;
            store_relaxed(&state->next, switching ? other : is_listed ? kOverList : kOverAll);
        }
        if (!wait_for_superstep(step + 1)) {
            return;
        }
    }

    // ---- End, or pause: the counts ----
    add_counts(search.vertices_processed, search.edges_relaxed, &state->vertices_processed, &state->edges_relaxed);
    if (thread == 0) {
        state->supersteps = step;
        state->switches += switches;
    }
}
