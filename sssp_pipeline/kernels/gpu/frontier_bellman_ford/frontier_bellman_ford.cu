// Distances from one source by a frontier, over the whole GPU; negative weights too.
//
// Returns: `distances` lowered to the true ones (`limit` where there is no shorter path) when State says is_over, else
// the distances so far; and counts in `State`.
//
// Idea: Bellman and Ford's algorithm over the vertices whose distance fell. Those that fell in one superstep are the
// frontier of the next. This is H-BF (Busato and Bombieri). Its kernels are supersteps of one persistent kernel here,
// because a grid barrier takes a third of the time of a launch. What may look odd:
//   - Duplicates (section 4.2): with `stamped_distances.cuh` only one of the threads that lower a vertex enters it. So
//     n_vertices places suffice for a frontier, and some more for chunks. A vertex of this frontier that fell in this
//     superstep is in the next frontier anyway. It is left to that one, so that its edges are relaxed once, not twice.
//   - Without duplicate removal a frontier may have more entries than any memory has room for. When it is full, only
//     its counter goes on, and the next superstep takes every vertex instead, which is a superset (I3).
//   - Edge classes (section 4.1): see `edge_classes.cuh`. A single edge needs no atomic, and neither do the source's
//     edges while only the source has a distance (I5), if no two of them lead to one vertex. Edges into leaves are in a
//     list of their own and are relaxed when the search is over. A shortest path leads through a leaf only if it begins
//     there, so the distances that a leaf depends on are final by then. One pass gives the same minimum as any order.
//   - `relax_rows.cuh` decides which threads relax which edges, and when one block continues alone.
//   - A row of more than `cut_above` edges becomes several entries (`frontier.cuh`). The paper launches kernels from
//     the device for such rows (section 5.3).
//   - Light edges first, which is not in the paper. The first paths to most vertices are not the shortest, so rows of
//     hubs are read several times. So from the first wide frontier on only light edges are relaxed, until none of them
//     lowers a distance. Most vertices are then nearer than any path with a heavy edge (I7). The other vertices pull:
//     they read the heavy edges into them. The supersteps that follow relax all edges of what was lowered. A search
//     of an R-MAT graph reads less than half of its edges. Delta-stepping has light and heavy edges too (Meyer and
//     Sanders), and a pull of heavy ones (Chakaravarthy et al.), but for each bucket.
//
// Needs (FrontierBellmanFord guarantees it): source < n_vertices; SSSP_THREADS a multiple of 32; all blocks resident at
//     once; at the first launch every word of State zero, at later ones `barrier`; edges marked and their list made if
//     SSSP_EDGE_CLASSES, else no list; `light_ends` null, or else no negative weights, no pause, and the arrays and the
//     bound of `light_edges.cu`; `threads_each` a power of two to 32, or 0; cut_above as frontier.cuh needs it, so that
//     32 bits can count the edges of 32 entries; with SSSP_REMOVE_DUPLICATES `capacity` at least n_vertices + n_edges /
//     2^chunk_bits.
// Keeps
//     I1. When a superstep begins, a vertex whose edges have not been relaxed with its present distance is in the
//         frontier with all its chunks, unless it is unreached or the edges lead into leaves. The thread that lowers
//         the vertex enters it (S1). The warp that takes a chunk relaxes its edges with a distance read afterwards, or
//         leaves it to the next frontier, which has it too (S2).
//     I2. With duplicate removal a frontier contains a vertex, or each chunk of it, once (S1).
//     I3. A count of entries above `capacity` means that the frontier is all vertices. Else all entries are there (F1).
//     I4. Of three counters used in turn, one is read, one is added to, and the third is set to zero. The third was
//         last read before the barrier that opened this superstep.
//     I5. A plain store changes a distance only if no other thread changes it in the same superstep: by I2 the edge is
//         taken once, and no other edge leads to the same vertex from a source that has a distance. So with duplicates
//         all changes are atomic.
//     I6. The superstep at which a block alone left off is written before the barrier in which the others wait, and
//         read after it. It is written again after the next barrier at the earliest, at which all blocks arrive after
//         they have read it.
//     I7. From the first frontier of light edges on, I1 does not hold for heavy edges. These leave vertices that were in
//         such a frontier, whose distances are at least the least one in the first (`least_complement`). So they lower
//         no distance up to that plus `light_bound`, and the vertices beyond read all of them. One that misses a
//         distance that falls in the same superstep gets it in the next: what fell is in that frontier, with all edges.
// Memory order: relaxed everywhere. The barrier orders supersteps (B1 in grid_barrier.cuh), __syncthreads those of one
//     block alone, and the stream orders launches. A reader may or may not see a lowering of the same superstep (I1
//     allows both).
// Launch: SSSP_THREADS threads a block; as many blocks as can be resident, or fewer, the same number each time.
// Ends: a superstep has a next one only if it lowers a distance, and without a negative cycle distances take finitely
//     many values. With one, the host does not continue after a pause at superstep `until`.
// NOTE: for 32-bit weights 40 bytes a vertex beside the distances (distance with stamp, two frontiers), for 64-bit ones
//     36; 256 without duplicate removal. Chunks take 32 / 2^chunk_bits bytes an edge, marked edges as much as unmarked
//     ones, and heavy edges as much again.
// Papers: Busato, Bombieri, "An efficient implementation of the Bellman-Ford algorithm for Kepler GPU architectures",
//     IEEE TPDS 2015; Meyer, Sanders, "Delta-stepping: a parallelizable shortest path algorithm", Journal of Algorithms
//     49, 2003; Chakaravarthy, Checconi, Petrini, Sabharwal, "Scalable single source shortest path algorithms for
//     massively parallel systems", IPDPS 2014.

#include "grid_barrier.cuh"
#include "relax_rows.cuh"

// With at most this many entries, a warp reads their edges before it knows whether they are needed.
constexpr word32 kMostEarly = 4;

// A frontier is wide only up to this superstep: on a deep graph, the light edges would take many supersteps.
constexpr word32 kLatestSplit = 8;

struct State {
    BarrierWords barrier;
    word32 supersteps;
    word32 is_over;
    word64 turn;     // between launches: the number of the frontier; its parity selects the array
    word64 counted;  // between launches: its counter
    word64 next_counted[3];  // arrival words
    word32 left_off[2];  // the superstep at which a block alone left off
    word64 vertices_processed;
    word64 edges_relaxed;
    word64 least_complement;  // ~least distance in the first frontier that relaxes light edges
};

static_assert(sizeof(State) == 88, "frontier_bellman_ford.py reads it by these offsets");

extern "C" __global__ void __launch_bounds__(SSSP_THREADS, SSSP_BLOCKS_PER_SM)
frontier_bellman_ford_kernel(const edge_index* row_offsets, const edge_word* edges, const distance_bits* weights,
                             word32 n_vertices, word32 source, distance_bits limit, word32 until, word32 threads_each,
                             word32 cut_above, word32 chunk_bits, const uint2* leaf_ends,
                             const distance_bits* leaf_weights, word64 n_leaf_edges, word32 rows_ascend,
                             const edge_index* light_ends, distance_bits light_bound, word32 wide_entries,
                             const edge_index* into_offsets, const edge_word* into_edges,
                             const distance_bits* into_weights, distance_bits* distances, stamp_word* stamps,
                             uint4* frontiers, word32 capacity, State* state, word32 n_blocks, word64 patience_ns,
                             word64 deadline_ns) {
    __shared__ Held held;
    GridBarrier barrier{&state->barrier, n_blocks, patience_ns, deadline_ns};
    const DeviceGraph graph{row_offsets, edges, weights};
    Search search{graph, {distances, stamps}, limit, 0, false, false,
                  {{graph, light_ends, {into_offsets, into_edges, into_weights}}, &held, capacity, cut_above,
                   chunk_bits, frontiers, state->next_counted, 0, 0, kAllEdges}};

    const word32 thread = blockIdx.x * blockDim.x + threadIdx.x;
    const word32 n_threads = gridDim.x * blockDim.x;
    const word32 thread_of_warp = threadIdx.x % 32;
    const word32 n_warps = n_threads / 32;
    // Counts of each thread, in shared memory: they change once an entry, and registers are scarce.
    __shared__ word32 vertices_of[SSSP_THREADS];
    __shared__ word64 edges_of[SSSP_THREADS];
    vertices_of[threadIdx.x] = 0;
    edges_of[threadIdx.x] = 0;
    if (kLightFirst && threadIdx.x == 0) {
        held.least = ~distance_bits{0};
    }
    // Thread 0 writes them again at the end of this launch, after a barrier that every block passes after this read.
    word64 counted = state->counted;
    word32 step = state->supersteps;
    search.next.turn = static_cast<word32>(state->turn);

    if (step == 0) {
        // ---- Start: nothing is reached but the source ----
        for (word64 v = thread; v < n_vertices; v += n_threads) {
            search.tentative.start(v, v == source ? kAtSource : limit);
        }
        if (thread < 32) {
            search.next.enter(thread_of_warp == 0, source);
        }
        search.next.turn = ~0u;  // so that it is entered in frontier 0
    }

    bool is_thin = false;
    bool may_split = kLightFirst && light_ends != nullptr;  // whether light edges may still come first
    for (bool has_entered = step == 0;; has_entered = true) {
        // ---- The end of a superstep ----
        if (has_entered) {
            search.next.enter_held();
            ++search.next.turn;
            word64* const now = &state->next_counted[search.next.turn % 3];
            const auto left_off = [&](word64) {
                return is_thin ? load_relaxed(&state->left_off[search.next.turn % 2]) : step;
            };
            if (!barrier.wait_at(now, 1, left_off, counted, step)) {
                return;
            }
        }
        const bool is_pull = kLightFirst && search.next.part == kHeavyInto;
        const bool lists_pull = kLightFirst && counted == 0 && search.next.part == kLightEdges;
        if ((counted == 0 && !lists_pull) || step == until) {
            break;
        }
        const word32 turn = search.next.turn;
        const uint4* const frontier = frontiers + turn % 2 * word64{capacity};
        if (thread == 0) {
            store_relaxed(&state->next_counted[(turn + 2) % 3], 0);  // I4
        }

        // ---- Light edges are done: the next frontier is what heavy edges may lower ----
        if (lists_pull) {
            search.next.part = kHeavyInto;
            if (threadIdx.x == 0) {
                held.least = static_cast<distance_bits>(~load_relaxed(&state->least_complement));
            }
            __syncthreads();
            const distance_bits reach = sum_of(held.least, light_bound);
            for (word64 first = thread - thread_of_warp; first < n_vertices; first += n_threads) {
                const word64 v = first + thread_of_warp;
                search.next.make_room(32);
                search.next.enter(v < n_vertices && search.tentative.distance(v) > reach &&
                                      into_offsets[v] < into_offsets[v + 1],
                                  static_cast<word32>(v));  // I7
            }
            is_thin = false;
            ++step;
            continue;
        }

        // ---- Few vertices of few edges: one block continues alone, the others wait ----
        is_thin = !is_pull && counted <= min(kMostThin, capacity);
        if (is_thin) {
            if (blockIdx.x == 0) {
                step = search.alone(frontier, static_cast<word32>(counted), step, until, rows_ascend != 0,
                                    vertices_of[threadIdx.x], edges_of[threadIdx.x]);
                if (threadIdx.x == 0) {
                    store_relaxed(&state->left_off[(turn + 1) % 2], step);  // I6
                }
            }
            continue;
        }

        // ---- Superstep: a warp takes up to 32 entries at a time ----
        const word64 entries = counted & kCountMask;
        const bool is_all = entries > capacity;  // I3
        const bool begins_light = kLightFirst && may_split && step <= kLatestSplit && entries > wide_entries;
        if (begins_light || is_pull) {
            search.next.part = is_pull ? kAllEdges : kLightEdges;
            may_split = false;
        }
        const word32 n_entries = is_all ? n_vertices : static_cast<word32>(entries);
        const word32 fair = n_entries <= n_warps ? 1 : (n_entries - 1) / n_warps + 1;
        const word32 n_taken = min(fair, 32u);
        // Entries are dealt to the warps one by one while there is a thread for each, so that chunks of a row go to
        // different warps. If there are long rows, neighbouring entries go to different blocks. Else it is better if
        // few blocks fill the next frontier.
        const bool has_long = counted > kCountMask;
        const word32 warp = has_long ? threadIdx.x / 32 * gridDim.x + blockIdx.x : thread / 32;
        const word32 to_next_thread = n_taken < 32 ? n_warps : 1;
        search.looks_first = n_taken > 1 || has_long;
        search.stamp = step + 1;
        search.all_single = step == 0 && rows_ascend != 0;
        for (word32 first = n_taken < 32 ? warp : warp * 32; first < n_entries; first += n_warps * n_taken) {
            const word32 place = first + thread_of_warp * to_next_thread;
            Row row{0, 0};
            distance_bits d = limit;
            word32 n_vertices_here = 0;
            word32 v = place;
            if (thread_of_warp < n_taken && place < n_entries && place >= first) {
                n_vertices_here = 1;
                if (is_all) {
                    row = search.next.rows.row_of(v, search.next.part);
                } else {
                    const uint4 entry = read_once(frontier + place);
                    v = entry.x;
                    row = {static_cast<edge_index>(word64{entry.w} << 32 | entry.z), entry.y & ~kLaterChunk};
                    n_vertices_here = (entry.y & kLaterChunk) == 0 ? 1 : 0;
                    if (begins_light) {  // the entry was written with all edges
                        const edge_index end = light_ends[v];
                        row.degree = end > row.begin ? min(row.degree, end - row.begin) : 0;
                    }
                }
                const Seen seen = search.tentative.look(v, search.stamp);
                d = seen.is_entered && !is_pull ? limit : seen.distance;  // I1
                if (begins_light && d < held.least) {
                    atomicMin(&held.least, d);
                }
            }
            if (is_pull) {
                search.pull_rows(row, v, d);
                n_vertices_here = 0;
            } else {
                if (n_taken > kMostEarly && d >= limit) {
                    row.degree = 0;
                }
                search.relax_rows(row, d, n_taken, threads_each);
            }
            if (d < limit || is_pull) {
                vertices_of[threadIdx.x] += n_vertices_here;
                edges_of[threadIdx.x] += row.degree;
            }
            if (n_entries - first <= n_warps * n_taken) {
                break;
            }
        }
        if (begins_light) {
            __syncthreads();
            if (threadIdx.x == 0) {
                atomicMax(&state->least_complement, ~static_cast<word64>(held.least));
            }
        }
        ++step;
    }

    // ---- End: the row of distances, and leaves ----
    for (word64 v = thread; v < n_vertices; v += n_threads) {
        search.tentative.finish(v);
    }
    const bool is_over = counted == 0;
    if (is_over && n_leaf_edges > 0) {
        if (!barrier.wait()) {
            return;
        }
        for (word64 i = thread; i < n_leaf_edges; i += n_threads) {
            const uint2 ends = read_once(leaf_ends + i);
            const distance_bits d = distances[ends.x];
            if (d >= limit) {
                continue;
            }
            ++edges_of[threadIdx.x];
            const distance_bits candidate = sum_of(d, read_once(leaf_weights + i));
            if (candidate >= limit) {
                continue;
            }
            const Lowering change = lower_distance(distances, ends.y, candidate, true);
            if (change.lowered && change.before == limit) {
                ++vertices_of[threadIdx.x];
                edges_of[threadIdx.x] += search.next.rows.row_of(ends.y, kAllEdges).degree;
            }
        }
    }

    // ---- The counts ----
    add_counts(vertices_of[threadIdx.x], edges_of[threadIdx.x], &state->vertices_processed, &state->edges_relaxed);
    if (thread == 0) {
        state->turn = search.next.turn;
        state->counted = counted;
        state->supersteps = step;
        state->is_over = is_over ? 1 : 0;
    }
}
