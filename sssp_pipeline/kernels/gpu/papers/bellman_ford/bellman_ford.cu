// Distances from one source by relaxing every edge in every superstep, over the whole GPU.
//
// Returns: `distances` lowered to the true ones (`limit` where there is no shorter path), and the number of supersteps
// in `State`.
//
// Idea: Bellman and Ford's algorithm, as the paper's first implementation (section 1, listing 2). The edges are divided
// evenly. Each warp has one range of them and goes through it 32 edges at a time. What may look odd:
//   - The paper launches a kernel for each superstep. This kernel stays, and a grid barrier ends a superstep.
//   - In-core, edges read and lower the same array, so a lowered distance can be used at once. Out-of-core, a superstep
//     reads one array and lowers another; then the two change places. So the lowered array is two supersteps old and
//     lacks what the last superstep lowered. The paper's listing would lose this. Here every vertex also offers its
//     own last distance (I2), in the same superstep. A minimum does not depend on order, so no extra barrier is needed.
//   - With kSegmentMinimum, the edges are ordered by target. A segmented scan finds the least candidate of each target
//     among 32 edges, and only the last edge of a segment uses an atomic. The paper scans in shared memory. Here the
//     warp shuffles registers, which needs neither shared memory nor a __syncthreads.
//
// Needs (BellmanFord guarantees it): no reachable negative cycle, or a host that ends the search at a pause; source
//     < n_vertices; SSSP_THREADS a multiple of 32; all blocks resident at once; State zero before the first launch and
//     its barrier before each; `others` null (in-core) or another row; edges by target for the segments kernel.
// Keeps
//     I1. At the start of superstep s, `from` contains the distances after s supersteps. Out-of-core, `to` contains
//         those after s - 1, because nothing wrote to it while it was `from`.
//     I2. At the end of superstep s, to[v] is the minimum of from[v] and of what the edges into v offered: each came by
//         an atomic minimum. So it contains the distances after s + 1 supersteps.
//     I3. Of three words used in turn, `changed` of superstep s is zero at its start. A thread that lowers something
//         sets it, and it is read after the barrier. It is set to zero in superstep s + 2: all threads have read it
//         before they arrive at the barrier of s + 1.
//     I4. An edge lowered something in superstep s iff the distances after it differ. A candidate below from[v] finds
//         to[v] at from[v] or older, and lowers it, or another candidate has lowered it already.
// Memory order: relaxed. The barrier orders supersteps (B1 in grid_barrier.cuh). In-core, a reader may or may not see a
//     lowering of the same superstep. The thread that lowered it has set `changed`, so another superstep follows.
// Launch: SSSP_THREADS threads a block; as many blocks as can be resident, or fewer; the same in each launch of a
//     search.
// Ends: after a superstep that lowered nothing. Then no edge can lower anything, and out-of-core both arrays are equal
//     (I2). Without a negative cycle this is superstep n_vertices at the latest. Or, to continue later, before
//     superstep `until`: then `distances` contains what the last superstep left, or the one before it.
// NOTE: every superstep reads all edges: 12 bytes each (16 for 64-bit weights), and a distance at both ends.
// Papers: "CS 515 Project 2: Parallelizing Single Source Shortest Path", sections 1 and 4.

#include "edge_list.cuh"
#include "grid_barrier.cuh"

struct State {
    BarrierWords barrier;
    word32 supersteps;  // done
    word32 is_over;
    word32 changed[3];
};

static_assert(sizeof(State) == 28, "bellman_ford.py reads it by these offsets");

// Keeps the least candidate of each target, in the last thread that has one for it. Equal targets are neighbours.
__device__ __forceinline__ Candidate least_of_segment(Candidate own, word32 thread_of_warp) {
#pragma unroll
    for (int by = 1; by < 32; by *= 2) {
        const word32 target = __shfl_up_sync(kWholeWarp, own.target, by);
        const distance_bits distance = __shfl_up_sync(kWholeWarp, own.distance, by);
        if (thread_of_warp >= static_cast<word32>(by) && target == own.target) {
            own.distance = min(own.distance, distance);
        }
    }
    const word32 next = __shfl_down_sync(kWholeWarp, own.target, 1);
    return thread_of_warp < 31 && next == own.target ? Candidate{own.target, kNoDistance} : own;
}

template <bool kSegmentMinimum>
__device__ __forceinline__ void search(const EdgeList& list, word32 n_vertices, edge_index n_edges, word32 source,
                                       distance_bits limit, distance_bits* distances, distance_bits* others,
                                       State* state, word32 until, GridBarrier barrier) {
    const word32 thread = blockIdx.x * blockDim.x + threadIdx.x;
    const word32 n_threads = gridDim.x * blockDim.x;
    const word32 thread_of_warp = threadIdx.x % 32;

    // Thread 0 writes it again at the end of this launch, after a barrier that every block passes after this read.
    word32 step = load_relaxed(&state->supersteps);
    if (load_relaxed(&state->is_over) != 0 || step >= until) {
        return;
    }

    // ---- Start: nothing is reached but the source ----
    if (step == 0) {
        for (word64 v = thread; v < n_vertices; v += n_threads) {
            const distance_bits d = v == source ? kAtSource : limit;
            distances[v] = d;
            if (others != nullptr) {
                others[v] = d;
            }
        }
        if (!barrier.wait()) {
            return;
        }
    }

    const Range range = even_part(n_edges, thread / 32, n_threads / 32);
    bool is_over = false;
    do {
        const Distances now = distances_of(distances, others, step);
        if (thread == 0) {
            store_relaxed(&state->changed[(step + 1) % 3], 0);  // I3
        }

        // ---- Out-of-core: what the last superstep lowered is taken over ----
        if (others != nullptr) {
            for (word64 v = thread; v < n_vertices; v += n_threads) {
                lower_distance(now.to, static_cast<word32>(v), now.from[v], true);  // I2
            }
        }

        // ---- Edges: a warp walks its range ----
        bool has_lowered = false;
        for (word64 first = range.begin; first < range.end; first += 32 * kTogether) {
            Candidate found[kTogether];
            distance_bits seen[kTogether];
#pragma unroll
            for (int i = 0; i < kTogether; ++i) {
                const word64 e = first + 32 * i + thread_of_warp;
                found[i] = e < range.end ? list.candidate(static_cast<edge_index>(e), now.from, limit)
                                         : Candidate{kNoVertex, kNoDistance};
            }
            if (kSegmentMinimum) {
#pragma unroll
                for (int i = 0; i < kTogether; ++i) {
                    found[i] = least_of_segment(found[i], thread_of_warp);
                }
            }
#pragma unroll
            for (int i = 0; i < kTogether; ++i) {
                seen[i] = found[i].distance < limit ? now.from[found[i].target] : distance_bits{0};
            }
#pragma unroll
            for (int i = 0; i < kTogether; ++i) {
                if (found[i].distance < seen[i]) {
                    has_lowered |= lower_distance(now.to, found[i].target, found[i].distance, false).lowered;  // I4
                }
            }
        }
        if (__any_sync(kWholeWarp, has_lowered) && thread_of_warp == 0) {
            store_relaxed(&state->changed[step % 3], 1);  // I3
        }
        const word32* const addresses[] = {&state->changed[step % 3]};
        word32 changed[1];
        if (!barrier.wait(addresses, changed)) {
            return;
        }
        is_over = changed[0] == 0;
        ++step;
    } while (!is_over && step < until);

    if (thread == 0) {
        state->supersteps = step;
        state->is_over = is_over ? 1 : 0;
    }
}

extern "C" __global__ void __launch_bounds__(SSSP_THREADS, 1)
bellman_ford_search_kernel(const edge_index* row_offsets, const edge_word* edges, const distance_bits* weights,
                           const word32* rows, word32 by_target, word32 n_vertices, edge_index n_edges, word32 source,
                           distance_bits limit, distance_bits* distances, distance_bits* others, State* state,
                           word32 until, word32 n_blocks, word64 patience_ns, word64 deadline_ns) {
    search<false>({{row_offsets, edges, weights}, rows, by_target != 0}, n_vertices, n_edges, source, limit, distances,
                  others, state, until, {&state->barrier, n_blocks, patience_ns, deadline_ns});
}

extern "C" __global__ void __launch_bounds__(SSSP_THREADS, 1)
bellman_ford_segments_kernel(const edge_index* row_offsets, const edge_word* edges, const distance_bits* weights,
                             const word32* rows, word32 by_target, word32 n_vertices, edge_index n_edges,
                             word32 source, distance_bits limit, distance_bits* distances, distance_bits* others,
                             State* state, word32 until, word32 n_blocks, word64 patience_ns, word64 deadline_ns) {
    search<true>({{row_offsets, edges, weights}, rows, by_target != 0}, n_vertices, n_edges, source, limit, distances,
                 others, state, until, {&state->barrier, n_blocks, patience_ns, deadline_ns});
}
