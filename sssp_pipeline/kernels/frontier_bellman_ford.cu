// Distances from one source by a frontier, over the whole GPU; negative weights too.
//
// Returns: `distances` lowered to the true ones (`limit` where there is no path shorter than that) when State says
// is_over, else as they are by then; and what it took in `State`.
//
// Idea: Bellman and Ford's algorithm over the vertices whose distance fell: those that fell in one superstep are the
// frontier of the next. That is H-BF (Busato and Bombieri), whose kernels are supersteps of one persistent kernel here:
// a grid barrier takes 1 us, a launch 3. What may look odd:
//   - Duplicates (section 4.2): `stamped_distances.cuh` lets one of those that lower a vertex enter it. So a frontier
//     of n_vertices places suffices. The stamp tells more: a vertex of this frontier that fell in this superstep stands
//     in the next one anyway and is left to it, so that its edges are relaxed once, not twice.
//   - Without duplicate removal a frontier may hold more entries than any memory has room for. When it is full, its
//     count alone goes on, and the next superstep takes every vertex instead, which is a superset (I3).
//   - Edge classes (section 4.1): see `edge_classes.cuh`. A single edge and, while nothing but the source has a
//     distance, the source's edges need no atomic (I5): but the latter only where no two of them lead to one vertex.
//     Edges into leaves are listed apart and relaxed when the search is over: a shortest path leads through a leaf only
//     if it begins there, so by then the distances that a leaf's own is made of are final, and one pass gives the same
//     minimum as any order would.
//   - Virtual warps (section 5.2): a warp takes up to 32 entries, and 2^k lanes share a vertex, more of them the fewer
//     entries there are: resident threads over entries, from 4 to 32. Beyond the paper, a vertex with more than
//     kRounds edges for each of these lanes gets the whole warp, or three in four lanes would wait for it.
//   - Vertices with more than `large_above` edges are cut into chunks for all warps, after a barrier that is paid in
//     supersteps with such a vertex only. The paper launches kernels for them from the device (section 5.3): that takes
//     longer than a barrier, and a kernel launched so cannot be cooperative, nor find room beside this one.
//   - Each warp collects what it enters in shared memory (section 5.1, `frontier.cuh`).
//   - Where most edges lower nothing a lane looks at the distance before it goes for the atomic.
//
// Needs (FrontierBellmanFord guarantees it): source < n_vertices; SSSP_THREADS a multiple of 32; all blocks resident at once; at the first launch every word of State zero, at later ones `barrier`; edges marked
//     and their list made if SSSP_EDGE_CLASSES, else no list; `lanes` a power of two to 32, or 0 to let it be chosen.
// Keeps
//     I1. When a superstep begins, a vertex whose edges have not been relaxed with its present distance stands in the
//         frontier, unless it is unreached or the edges lead into leaves: who lowers it enters it (S1), and who takes it from the frontier
//         relaxes its edges with a distance read afterwards, or leaves it to the next one, where it stands (S2).
//     I2. With duplicate removal a frontier holds a vertex once (S1).
//     I3. A count of entries above `capacity` says that the frontier is all vertices; else all entries are there (F1).
//     I4. Of three counters used in turn, one is read, one is added to, and the third is set to zero. It was last
//         read before the barrier that opened this superstep.
//     I5. One thread alone may change a distance by a plain store, and once in a superstep: by I2 the vertex that the
//         edge leaves is taken once, and no other edge leads to the same vertex, or none whose source has a distance.
//         So with duplicates all stores are atomic.
//     I6. With duplicate removal n_edges / kChunkEdges + n_edges / large_above chunks suffice. Without, a vertex for
//         which there is no room left is not cut.
// Memory order: relaxed everywhere; supersteps are ordered by the barrier (B1 in grid_barrier.cuh), launches by the
//     stream. A lowering in a superstep may or may not be seen by a reader of the same superstep (I1 allows both).
// Launch: SSSP_THREADS threads a block; as many blocks as can be resident, or fewer, the same number each time.
// Ends: a superstep has a next one only if it lowers a distance, and without a negative cycle distances take finitely
//     many values. With one, the host does not go on after a pause at superstep `until`.
// NOTE: for 32-bit weights 16 bytes a vertex beside the distances (distance with stamp, two frontiers), for 64-bit ones
//     12; 64 without duplicate removal. Chunks take 0.03 bytes an edge, marked edges as much as the unmarked ones.
// Paper: Busato, Bombieri, "An efficient implementation of the Bellman-Ford algorithm for Kepler GPU architectures",
//     IEEE TPDS 2015.

#include "device_graph.cuh"
#include "edge_classes.cuh"
#include "frontier.cuh"
#include "grid_barrier.cuh"
#include "stamped_distances.cuh"

constexpr word32 kNoVertex = 0xffffffffu;
constexpr word32 kChunkEdges = 256;
constexpr word32 kRounds = 16;
constexpr word32 kFewestLanes = 4;
// Edges whose accesses a lane has under way together.
constexpr int kTogether = 2;

struct State {
    BarrierWords barrier;
    word32 supersteps;
    word32 is_over;
    word64 entries[3];
    word64 chunks[2];
    word64 vertices_processed;
    word64 edges_relaxed;
};

static_assert(sizeof(State) == 72, "frontier_bellman_ford.py reads it by these offsets");

// One vertex whose edges are to be relaxed by some lanes.
struct Row {
    edge_index begin;
    edge_index degree;
    distance_bits d;
};

__device__ __forceinline__ Row shuffled(const Row& row, word32 from) {
    return {__shfl_sync(kWholeWarp, row.begin, from), __shfl_sync(kWholeWarp, row.degree, from),
            __shfl_sync(kWholeWarp, row.d, from)};
}

template <typename Word>
__device__ __forceinline__ Word read_once(const Word* address) {
#if SSSP_CACHE_HINTS
    return __ldcs(address);
#else
    return *address;
#endif
}

struct Search {
    DeviceGraph graph;
    StampedDistances tentative;
    distance_bits limit;
    word32 stamp;
    bool look_first;
    bool all_single;  // whether this superstep's edges lead to vertices that no other edge leads to
    NextFrontier next;

    __device__ __forceinline__ Row row_of(word32 v) const {
#if SSSP_CACHE_HINTS
        const edge_index begin = __ldcs(graph.row_offsets + v);
        return {begin, __ldcs(graph.row_offsets + v + 1) - begin, 0};
#else
        const edge_index begin = graph.first_edge(v);
        return {begin, graph.first_edge(v + 1) - begin, 0};
#endif
    }

    __device__ __forceinline__ Edge edge(edge_index e) const {
#if SSSP_CACHE_HINTS && SSSP_BITS == 32
        const uint2 both = __ldcg(graph.edges + e);
        return {both.x, both.y};
#elif SSSP_CACHE_HINTS
        return {__ldcg(graph.edges + e), __ldcg(graph.weights + e)};
#else
        return graph.edge(e);
#endif
    }

    // Relaxes up to kTogether edges a lane, all from a vertex at distance d. For all lanes of the warp together.
    __device__ __forceinline__ void relax(const edge_index* e, const bool* there, distance_bits d) {
        word32 targets[kTogether];
        distance_bits candidates[kTogether];
        bool wanted[kTogether];
        bool single[kTogether];
#pragma unroll
        for (int i = 0; i < kTogether; ++i) {
            const Edge one = there[i] ? edge(e[i]) : Edge{0, 0};
            targets[i] = one.target;
            candidates[i] = sum_of(d, one.weight);
            wanted[i] = there[i] && candidates[i] < limit;
            single[i] = false;
#if SSSP_EDGE_CLASSES
            const word32 its_class = one.target >> kClassShift;
            targets[i] = one.target & kTargetMask;
            wanted[i] = wanted[i] && (its_class == kOrdinary || its_class == kSingle);
            single[i] = SSSP_REMOVE_DUPLICATES && (all_single || its_class == kSingle);
#endif
        }
#pragma unroll
        for (int i = 0; i < kTogether; ++i) {
            if (wanted[i] && (look_first || single[i])) {
                wanted[i] = candidates[i] < tentative.distance(targets[i]);
            }
        }
#pragma unroll
        for (int i = 0; i < kTogether; ++i) {
            if (!wanted[i]) {
                continue;
            }
#if SSSP_EDGE_CLASSES && SSSP_REMOVE_DUPLICATES
            if (single[i]) {  // I5
                tentative.set(targets[i], candidates[i], stamp);
                continue;
            }
#endif
            wanted[i] = tentative.lower(targets[i], candidates[i], stamp);
        }
#pragma unroll
        for (int i = 0; i < kTogether; ++i) {
            next.enter(wanted[i], targets[i]);
        }
    }

    // Relaxes a row's edges by `lanes` lanes, of which this is the one numbered `own`. For all lanes of the warp
    // together, which may have different rows.
    __device__ __forceinline__ void relax_row(const Row& row, word32 own, word32 lanes) {
        for (edge_index k = own; __any_sync(kWholeWarp, k < row.degree); k += kTogether * lanes) {
            edge_index e[kTogether];
            bool there[kTogether];
#pragma unroll
            for (int i = 0; i < kTogether; ++i) {
                e[i] = row.begin + k + i * lanes;
                there[i] = k + i * lanes < row.degree;
            }
            relax(e, there, row.d);
        }
    }
};

// How many lanes share a vertex: the largest power of two at most threads over entries, from kFewestLanes to 32.
__device__ __forceinline__ word32 virtual_warp(word32 n_threads, word64 n_entries) {
    const word64 share = n_threads / n_entries;
    return share >= 32 ? 32 : share <= kFewestLanes ? kFewestLanes : 1u << (31 - __clz(static_cast<word32>(share)));
}

extern "C" __global__ void __launch_bounds__(SSSP_THREADS, SSSP_BLOCKS_PER_SM)
frontier_bellman_ford_kernel(const edge_index* row_offsets, const edge_word* edges, const distance_bits* weights,
                             word32 n_vertices, word32 source, distance_bits limit, word32 until, word32 fixed_lanes,
                             word64 large_above, const uint2* leaf_ends, const distance_bits* leaf_weights,
                             word64 n_leaf_edges, word32 rows_ascend, distance_bits* distances, stamp_word* stamps,
                             word32* frontiers, word64 capacity, uint2* chunks, word64 chunk_capacity, State* state,
                             word32 n_blocks, word64 patience_ns) {
    __shared__ Held held;
    GridBarrier barrier{&state->barrier, n_blocks, patience_ns, 0};
    Search search{{row_offsets, edges, weights}, {distances, stamps}, limit, 0, false, false,
                  {&held, 0, nullptr, nullptr, capacity}};

    const word32 thread = blockIdx.x * blockDim.x + threadIdx.x;
    const word32 n_threads = gridDim.x * blockDim.x;
    const word32 lane = threadIdx.x % 32;
    const word32 warp = thread / 32;
    const word32 n_warps = n_threads / 32;
    word64 vertices_processed = 0;
    word64 edges_relaxed = 0;
    word32 step = load_relaxed(&state->supersteps);

    if (step == 0) {
        // ---- Start: nothing is reached but the source ----
        for (word64 v = thread; v < n_vertices; v += n_threads) {
            search.tentative.start(v, v == source ? kAtSource : limit);
        }
        if (thread == 0) {
            frontiers[0] = source;
            store_relaxed(&state->entries[0], 1);
        }
        if (!barrier.wait()) {
            return;
        }
    }

    word64 entries = load_relaxed(&state->entries[step % 3]);
    for (; entries != 0 && step != until; ++step) {
        const bool is_all = entries > capacity;  // I3
        const word64 n_entries = is_all ? n_vertices : entries;
        const word32* const frontier = frontiers + (step % 2) * capacity;
        search.next.vertices = frontiers + ((step + 1) % 2) * capacity;
        search.next.count = &state->entries[(step + 1) % 3];
        search.stamp = step + 1;
        search.all_single = step == 0 && rows_ascend != 0;
        if (thread == 0) {  // I4
            store_relaxed(&state->entries[(step + 2) % 3], 0);
            store_relaxed(&state->chunks[(step + 1) % 2], 0);
        }

        // ---- Superstep: a warp takes K entries at a time, 2^k of its lanes share one ----
        const word32 lanes = fixed_lanes != 0 ? fixed_lanes : virtual_warp(n_threads, n_entries);
        const word64 wide_above = fixed_lanes != 0 || lanes == 32 ? ~word64{0} : word64{lanes} * kRounds;
        const word64 fair = (n_entries + n_warps - 1) / n_warps;
        const word32 fair_power = fair >= 32 ? 32 : 1u << (32 - __clz(static_cast<word32>(fair) - 1));
        const word32 n_taken = max(fair_power, 32 / lanes);
        // Few entries: latency counts, so go for the atomic at once. Many: most edges lower nothing, so look first.
        search.look_first = n_entries > n_warps;
        for (word64 first = static_cast<word64>(warp) * n_taken; first < n_entries;
             first += static_cast<word64>(n_warps) * n_taken) {
            Row row{0, 0, 0};
            word32 v = 0;
            if (lane < n_taken && first + lane < n_entries) {
                v = is_all ? static_cast<word32>(first) + lane : read_once(frontier + first + lane);
                row = search.row_of(v);
                const Seen seen = search.tentative.look(v, search.stamp);
                row.d = seen.distance;
                if (seen.is_entered || seen.distance >= limit) {  // I1
                    row.degree = 0;
                } else {
                    ++vertices_processed;
                    edges_relaxed += row.degree;
                }
            }
            for (word32 larges = __ballot_sync(kWholeWarp, row.degree > large_above); larges != 0;
                 larges &= larges - 1) {
                const word32 whose = __ffs(larges) - 1;
                const word32 large = __shfl_sync(kWholeWarp, v, whose);
                const edge_index degree = __shfl_sync(kWholeWarp, row.degree, whose);
                const word32 n_chunks = static_cast<word32>((degree + kChunkEdges - 1) / kChunkEdges);
                word64 place = lane == 0 ? atomicAdd(&state->chunks[step % 2], word64{n_chunks}) : 0;
                place = __shfl_sync(kWholeWarp, place, 0);
                const bool fits = place + n_chunks <= chunk_capacity;  // I6
                for (word64 i = lane; i < n_chunks && place + i < chunk_capacity; i += 32) {
                    chunks[place + i] = make_uint2(fits ? large : kNoVertex, static_cast<word32>(i));
                }
                if (fits && lane == whose) {
                    row.degree = 0;
                }
            }
            const bool is_wide = row.degree > wide_above;
            for (word32 wides = __ballot_sync(kWholeWarp, is_wide); wides != 0; wides &= wides - 1) {
                search.relax_row(shuffled(row, __ffs(wides) - 1), lane, 32);
            }
            if (is_wide) {
                row.degree = 0;
            }
            for (word32 taken = 0; taken < n_taken; taken += 32 / lanes) {
                search.relax_row(shuffled(row, taken + lane / lanes), lane % lanes, lanes);
            }
        }
        search.next.enter_held();
        if (!barrier.wait()) {
            return;
        }

        // ---- Large vertices: every warp takes chunks ----
        const word64 n_chunks = min(load_relaxed(&state->chunks[step % 2]), chunk_capacity);
        entries = load_relaxed(search.next.count);  // at the same time: most supersteps have no chunks
        if (n_chunks == 0) {
            continue;
        }
        search.look_first = true;
        for (word64 i = warp; i < n_chunks; i += n_warps) {
            const uint2 chunk = chunks[i];
            if (chunk.x == kNoVertex) {
                continue;
            }
            const Row whole = search.row_of(chunk.x);
            const edge_index skipped = static_cast<edge_index>(chunk.y) * kChunkEdges;
            const edge_index degree = min(static_cast<edge_index>(kChunkEdges), whole.degree - skipped);
            search.relax_row({whole.begin + skipped, degree, search.tentative.distance(chunk.x)}, lane, 32);
        }
        search.next.enter_held();
        if (!barrier.wait()) {
            return;
        }
        entries = load_relaxed(search.next.count);
    }

    // ---- End: the row of distances, and leaves ----
    for (word64 v = thread; v < n_vertices; v += n_threads) {
        search.tentative.finish(v);
    }
    const bool is_over = entries == 0;
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
            ++edges_relaxed;
            const distance_bits candidate = sum_of(d, read_once(leaf_weights + i));
            if (candidate >= limit) {
                continue;
            }
            const Lowering change = lower_distance(distances, ends.y, candidate, true);
            if (change.lowered && change.before == limit) {
                ++vertices_processed;
                edges_relaxed += search.row_of(ends.y).degree;
            }
        }
    }

    // ---- The counts ----
    for (int by = 16; by > 0; by /= 2) {
        vertices_processed += __shfl_down_sync(kWholeWarp, vertices_processed, by);
        edges_relaxed += __shfl_down_sync(kWholeWarp, edges_relaxed, by);
    }
    if (lane == 0 && vertices_processed + edges_relaxed > 0) {
        atomicAdd(&state->vertices_processed, vertices_processed);
        atomicAdd(&state->edges_relaxed, edges_relaxed);
    }
    if (thread == 0) {
        state->supersteps = step;
        state->is_over = is_over ? 1 : 0;
    }
}
