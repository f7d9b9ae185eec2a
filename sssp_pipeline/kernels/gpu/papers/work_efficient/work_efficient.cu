// Distances from one source by relaxing, in each superstep, the edges of the vertices that the last one changed; over
// the whole GPU.
//
// Returns: `distances` lowered to the true ones (`limit` where there is no shorter path), and counts and the time of
// filtering in `State`.
//
// Idea: an edge whose source did not change cannot lower anything. So a superstep first filters, then computes (the
// paper's section 2). Filtering lists the edges to process in the order of all edges. The list is divided evenly among
// the warps, as all edges are in bellman_ford.cu. There are two ways to make the list:
//   - by edges: each warp goes through its range of all edges twice. First it counts those whose source changed, by
//     ballot. A prefix sum over the warps (prefix_sum.cuh) gives its place in the list. Then it writes them there.
//   - by vertices: each warp goes through its range of all vertices twice. First it counts those that changed and have
//     edges, and these edges. Two prefix sums give its place in the list of these vertices, and its first edge. Each
//     vertex has a range of the list of edges. This list is divided evenly, and bisection finds the vertex of each
//     place.
// What may look odd:
//   - The paper's prefix sum is a kernel of one block for at most 64 warps. An H200 holds 8,448 at once.
//   - `stamps[v]` is the superstep in which v's edges are to be processed. So no marks have to be cleared, and both
//     passes of the filter, between two barriers, find the same edges.
//
// Needs (WorkEfficient guarantees it): no reachable negative cycle, or a host that ends the search at a pause; source
//     < n_vertices; SSSP_THREADS a multiple of 32; all blocks resident at once; State zero before the first launch and
//     its barrier before each; edges by source; `others` null (in-core) or another row; changed_vertices and
//     first_places for the by_vertices kernel.
// Keeps
//     I1. stamps[v] is s + 1 iff v's distance last fell in superstep s, or the thread that lowered it is about to write
//         s + 1. Stamps are written while a superstep computes, and read while one filters.
//     I2. At the start of superstep s, every edge that could lower something has a source with stamp s. Let r be the
//         superstep in which the source's distance last fell; it got stamp r + 1. Superstep r + 1 processed its edges
//         with that distance. In-core it may have used a lower one, of superstep r + 1 itself; then the stamp is r + 2.
//     I3. Out-of-core, at the start of superstep s, `from` contains the distances after s supersteps and `to` those
//         after s - 1. They differ where the stamp is s. There to[v] is lowered to from[v] while edges lower it as
//         well. A thread that finds stamp s + 1 instead may skip v: another thread lowers to[v] below from[v].
//     I4. An edge is in the list once, and the list has room for all edges. The same holds for the lists of vertices.
// Memory order: relaxed. Barriers order counting, writing and computing (B1 in grid_barrier.cuh). In-core, a reader may
//     or may not see a lowering of the same superstep (I2).
// Launch: SSSP_THREADS threads a block; as many blocks as can be resident, or fewer; the same in each launch of a
//     search.
// Ends: when the list is empty: then no edge can lower anything (I2). Out-of-core, that superstep still takes over what
//     the last one lowered, so that both arrays are equal. Or, to continue later, before superstep `until`: then
//     `distances` contains what the last superstep left, or the one before it.
// NOTE: filtering by edges reads 8 bytes an edge twice a superstep, by vertices 4 bytes a vertex. So filtering takes
//     most of the time on long, thin graphs. The clock ticks about once a microsecond.
// Papers: "CS 515 Project 2: Parallelizing Single Source Shortest Path", sections 2 and 3.

#include "edge_list.cuh"
#include "grid_barrier.cuh"
#include "prefix_sum.cuh"

struct State {
    BarrierWords barrier;
    word32 supersteps;  // done
    word32 is_over;
    word64 vertices_processed;
    word64 edges_relaxed;
    word64 filter_ns;
};

static_assert(sizeof(State) == 40, "work_efficient.py reads it by these offsets");

// No superstep has this number.
constexpr word32 kNever = 0xffffffffu;

struct Filter {
    EdgeList list;
    word32 n_vertices;
    edge_index n_edges;
    const word32* stamps;
    edge_index* to_process;     // (E,)
    word32* changed_vertices;   // (V,), by vertices
    edge_index* first_places;   // (V,) where in to_process the edges of each begin, by vertices
    word64* block_sums;         // (2, n_blocks)

    __device__ __forceinline__ word32 thread_of_warp() const { return threadIdx.x % 32; }
    __device__ __forceinline__ word32 warp() const { return (blockIdx.x * blockDim.x + threadIdx.x) / 32; }
    __device__ __forceinline__ word32 n_warps() const { return gridDim.x * blockDim.x / 32; }

    // Finds which edges from `first` on are to be processed: a mask for each 32 edges.
    __device__ __forceinline__ void find_changed(word32 (&masks)[kTogether], word64 first, word64 end,
                                                 word32 step) const {
        word32 sources[kTogether];
#pragma unroll
        for (int i = 0; i < kTogether; ++i) {
            const word64 e = first + 32 * i + thread_of_warp();
            sources[i] = e < end ? __ldg(list.rows + e) : kNoVertex;
        }
#pragma unroll
        for (int i = 0; i < kTogether; ++i) {
            masks[i] = __ballot_sync(kWholeWarp, sources[i] != kNoVertex && stamps[sources[i]] == step);
        }
    }

    // Fills to_process and sets n_listed, the same in all threads. Returns false if the run was given up.
    __device__ __forceinline__ bool by_edges(GridBarrier& barrier, word32 step, word64& n_listed) const {
        const Range range = even_part(n_edges, warp(), n_warps());
        WarpPrefixSum edges_found{block_sums, 0};
        word32 masks[kTogether];
        word64 count = 0;
        for (word64 first = range.begin; first < range.end; first += 32 * kTogether) {
            find_changed(masks, first, range.end, step);
#pragma unroll
            for (int i = 0; i < kTogether; ++i) {
                count += __popc(masks[i]);
            }
        }
        edges_found.give(count);
        if (!barrier.wait()) {
            return false;
        }
        const Sums sums = edges_found.take();
        word64 place = sums.before;
        const word64 own_end = place + count;
        for (word64 first = range.begin; first < range.end && place < own_end; first += 32 * kTogether) {
            find_changed(masks, first, range.end, step);
#pragma unroll
            for (int i = 0; i < kTogether; ++i) {
                if ((masks[i] >> thread_of_warp() & 1) != 0) {
                    to_process[place + rank_in(masks[i])] =
                        static_cast<edge_index>(first + 32 * i + thread_of_warp());
                }
                place += __popc(masks[i]);
            }
        }
        n_listed = sums.total;
        return barrier.wait();
    }

    // Number of edges of v, or 0 if v did not change.
    __device__ __forceinline__ edge_index changed_degree(word64 v, word64 end, word32 step) const {
        if (v >= end || stamps[v] != step) {
            return 0;
        }
        return list.graph.first_edge(static_cast<word32>(v) + 1) - list.graph.first_edge(static_cast<word32>(v));
    }

    // As by_edges.
    __device__ __forceinline__ bool by_vertices(GridBarrier& barrier, word32 step, word64& n_listed) const {
        const Range range = even_part(n_vertices, warp(), n_warps());
        WarpPrefixSum vertices_found{block_sums, 0};
        WarpPrefixSum edges_found{block_sums + gridDim.x, 0};
        word64 count = 0;
        word64 own_edges = 0;
        for (word64 first = range.begin; first < range.end; first += 32) {
            const edge_index degree = changed_degree(first + thread_of_warp(), range.end, step);
            count += __popc(__ballot_sync(kWholeWarp, degree > 0));
            own_edges += degree;
        }
        vertices_found.give(count);
        edges_found.give(sum_over_warp(own_edges));
        if (!barrier.wait()) {
            return false;
        }

        // ---- The vertices that changed, and where the edges of each begin ----
        const Sums vertices = vertices_found.take();
        const Sums edges = edges_found.take();
        word64 row = vertices.before;
        const word64 own_end = row + count;
        edge_index place = static_cast<edge_index>(edges.before);
        for (word64 first = range.begin; first < range.end && row < own_end; first += 32) {
            const edge_index degree = changed_degree(first + thread_of_warp(), range.end, step);
            const word32 mask = __ballot_sync(kWholeWarp, degree > 0);
            const edge_index ends = prefix_sum(degree);
            if (degree > 0) {
                const word64 own = row + rank_in(mask);
                changed_vertices[own] = static_cast<word32>(first + thread_of_warp());
                first_places[own] = place + ends - degree;
            }
            row += __popc(mask);
            place += __shfl_sync(kWholeWarp, ends, 31);
        }
        n_listed = edges.total;
        if (!barrier.wait()) {
            return false;
        }

        // ---- Their edges: the last vertex that begins at or before a place owns it ----
        const Range places = even_part(n_listed, warp(), n_warps());
        word64 low = 0;
        for (word64 k = places.begin + thread_of_warp(); k < places.end; k += 32) {
            word64 high = vertices.total;
            while (high - low > 1) {
                const word64 middle = low + (high - low) / 2;
                if (first_places[middle] <= k) {
                    low = middle;
                } else {
                    high = middle;
                }
            }
            to_process[k] =
                list.graph.first_edge(changed_vertices[low]) + static_cast<edge_index>(k - first_places[low]);
        }
        return barrier.wait();
    }
};

template <bool kByVertices>
__device__ __forceinline__ void search(const Filter& filter, word32 source, distance_bits limit,
                                       distance_bits* distances, distance_bits* others, word32* stamps, State* state,
                                       word32 until, GridBarrier barrier) {
    const word32 thread = blockIdx.x * blockDim.x + threadIdx.x;
    const word32 n_threads = gridDim.x * blockDim.x;
    const word32 n_vertices = filter.n_vertices;

    // Thread 0 writes it again at the end of this launch, after a barrier that every block passes after this read.
    word32 step = load_relaxed(&state->supersteps);
    if (load_relaxed(&state->is_over) != 0 || step >= until) {
        return;
    }

    // ---- Start: nothing is reached but the source, which has changed ----
    word64 n_changed = 0;
    if (step == 0) {
        for (word64 v = thread; v < n_vertices; v += n_threads) {
            const bool is_source = v == source;
            const distance_bits d = is_source ? kAtSource : limit;
            distances[v] = d;
            if (others != nullptr) {
                others[v] = d;
            }
            stamps[v] = is_source ? 0 : kNever;
            n_changed += is_source ? 1 : 0;
        }
        if (!barrier.wait()) {
            return;
        }
    }

    word64 n_relaxed = 0;
    __shared__ Stopwatch filtering;  // thread 0's, so that it takes no registers
    if (thread == 0) {
        filtering.start();
    }
    bool is_over = false;
    for (;;) {
        // ---- Filter: the edges whose source the last superstep changed ----
        if (thread == 0) {
            filtering.go_on();
        }
        word64 n_listed = 0;
        if (!(kByVertices ? filter.by_vertices(barrier, step, n_listed) : filter.by_edges(barrier, step, n_listed))) {
            return;
        }
        if (thread == 0) {
            filtering.look();
        }
        n_relaxed += n_listed;

        // ---- Compute: out-of-core, what the last superstep lowered is taken over ----
        const Distances now = distances_of(distances, others, step);
        if (others != nullptr) {
            for (word64 v = thread; v < n_vertices; v += n_threads) {
                if (stamps[v] == step) {  // I3
                    lower_distance(now.to, static_cast<word32>(v), now.from[v], false);
                }
            }
        }

        // ---- Compute: a warp walks its range of the list ----
        const Range range = even_part(n_listed, filter.warp(), filter.n_warps());
        for (word64 first = range.begin + filter.thread_of_warp(); first < range.end; first += 32 * kTogether) {
            Candidate found[kTogether];
            distance_bits seen[kTogether];
#pragma unroll
            for (int i = 0; i < kTogether; ++i) {
                const word64 k = first + 32 * i;
                found[i] = k < range.end ? filter.list.candidate(filter.to_process[k], now.from, limit)
                                         : Candidate{kNoVertex, kNoDistance};
            }
#pragma unroll
            for (int i = 0; i < kTogether; ++i) {
                seen[i] = found[i].distance < limit ? now.from[found[i].target] : distance_bits{0};
            }
#pragma unroll
            for (int i = 0; i < kTogether; ++i) {
                const word32 v = found[i].target;
                if (found[i].distance < seen[i] && lower_distance(now.to, v, found[i].distance, false).lowered) {
                    n_changed += stamps[v] != step + 1 && atomicExch(&stamps[v], step + 1) != step + 1 ? 1 : 0;
                }
            }
        }
        if (n_listed == 0) {
            is_over = true;
            break;
        }
        ++step;
        if (!barrier.wait()) {
            return;
        }
        if (step == until) {
            break;
        }
    }

    // ---- End: the counts ----
    n_changed = sum_over_warp(n_changed);
    if (filter.thread_of_warp() == 0 && n_changed > 0) {
        atomicAdd(&state->vertices_processed, n_changed);
    }
    if (thread == 0) {
        state->edges_relaxed += n_relaxed;
        state->filter_ns += filtering.elapsed_ns;
        state->supersteps = step;
        state->is_over = is_over ? 1 : 0;
    }
}

extern "C" __global__ void __launch_bounds__(SSSP_THREADS, 1)
work_efficient_by_edges_kernel(const edge_index* row_offsets, const edge_word* edges, const distance_bits* weights,
                               const word32* rows, word32 n_vertices, edge_index n_edges, word32 source,
                               distance_bits limit, distance_bits* distances, distance_bits* others, word32* stamps,
                               edge_index* to_process, word32* changed_vertices, edge_index* first_places,
                               word64* block_sums, State* state, word32 until, word32 n_blocks,
                               word64 patience_ns, word64 deadline_ns) {
    const Filter filter{{{row_offsets, edges, weights}, rows, false},
                        n_vertices, n_edges, stamps, to_process, changed_vertices, first_places, block_sums};
    search<false>(filter, source, limit, distances, others, stamps, state, until,
                  {&state->barrier, n_blocks, patience_ns, deadline_ns});
}

extern "C" __global__ void __launch_bounds__(SSSP_THREADS, 1)
work_efficient_by_vertices_kernel(const edge_index* row_offsets, const edge_word* edges, const distance_bits* weights,
                                  const word32* rows, word32 n_vertices, edge_index n_edges, word32 source,
                                  distance_bits limit, distance_bits* distances, distance_bits* others, word32* stamps,
                                  edge_index* to_process, word32* changed_vertices, edge_index* first_places,
                                  word64* block_sums, State* state, word32 until, word32 n_blocks,
                                  word64 patience_ns, word64 deadline_ns) {
    const Filter filter{{{row_offsets, edges, weights}, rows, false},
                        n_vertices, n_edges, stamps, to_process, changed_vertices, first_places, block_sums};
    search<true>(filter, source, limit, distances, others, stamps, state, until,
                  {&state->barrier, n_blocks, patience_ns, deadline_ns});
}
