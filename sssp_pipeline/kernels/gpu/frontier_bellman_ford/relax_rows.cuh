// Relaxes the edges of a frontier's vertices: by a warp, and by one block alone while the frontier is thin.
//
// Idea: the threads of a warp take edges, not vertices, and relax several of them together, so that accesses overlap.
//   - Virtual warps (section 5.2): with `threads_each`, that many threads share a vertex. The paper's dynamic ones
//     choose this number by the size of the frontier, so that threads do not idle. Without `threads_each`, the threads
//     of a warp share the edges of all its entries evenly, and entries are dealt to the warps one by one.
//   - While the frontier is thin, as along a path, one block continues alone. Its frontier is in shared memory, and a
//     __syncthreads ends a superstep. The other blocks wait in the grid barrier. After kLongestStay supersteps all
//     blocks meet again.
//   - Most edges lower nothing, so a read of the distance comes before the atomic. But in a superstep of few entries
//     and no long row, latency matters most, so the atomics begin without a read. For the same reason the edges of few
//     entries are read together with the distance of their vertex. With many entries a warp reads the distance first,
//     which may save it the edges.
//
// Needs: edges marked if SSSP_EDGE_CLASSES; SSSP_ALONE 0 or 1; `stamp`, `looks_first` and `all_single` set for the
//     superstep; an edge_index that can count the edges of 32 rows.
// Keeps: I1, I5 and I7 of frontier_bellman_ford.cu when it relaxes.
// Memory order: as there. __syncthreads orders the supersteps of one block alone.
// Paper: Busato, Bombieri, IEEE TPDS 2015, section 5.2.
#pragma once

#include "edge_classes.cuh"
#include "frontier.cuh"
#include "stamped_distances.cuh"

// A frontier is thin if one block has a warp for each of its vertices.
constexpr word32 kMostThin = SSSP_ALONE ? kWarps : 0;
// Supersteps after which a block alone meets the others again.
constexpr word32 kLongestStay = 1024;

// The frontier of a block that continues alone.
struct ThinFrontier {
    word32 vertices[kWarps * kThinEdges];
    word32 counts[2];  // of this superstep and of the next, by turns
};

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
    bool looks_first;  // even with few edges
    bool all_single;  // whether no two edges of this superstep lead to the same vertex
    NextFrontier next;

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

    // Relaxes n edges of each thread: those with there[i]. An edge leaves the vertex of thread owners[i], whose
    // distance is d; nothing is relaxed if d is the limit. There must be room for n vertices of each thread. All
    // threads of the warp call it together.
    template <int n, bool looks = true>
    __device__ __forceinline__ void relax(const edge_index (&e)[n], const bool (&there)[n], const word32 (&owners)[n],
                                          distance_bits d) {
        Edge edges[n];
        word32 targets[n];
        distance_bits candidates[n];
        bool wanted[n];
        bool single[n];
#pragma unroll
        for (int i = 0; i < n; ++i) {
            edges[i] = there[i] ? edge(e[i]) : Edge{0, 0};
        }
#pragma unroll
        for (int i = 0; i < n; ++i) {
            const distance_bits from = __shfl_sync(kWholeWarp, d, owners[i]);
            targets[i] = edges[i].target;
            candidates[i] = sum_of(from, edges[i].weight);
            wanted[i] = there[i] && from < limit && candidates[i] < limit;
            single[i] = false;
#if SSSP_EDGE_CLASSES
            const word32 its_class = targets[i] >> kClassShift;
            targets[i] &= kTargetMask;
            wanted[i] = wanted[i] && (its_class == kOrdinary || its_class == kSingle);
            single[i] = SSSP_REMOVE_DUPLICATES && (all_single || its_class == kSingle);
#endif
        }
#pragma unroll
        for (int i = 0; i < n; ++i) {
            if (wanted[i] && (looks || single[i])) {
                wanted[i] = candidates[i] < tentative.distance(targets[i]);
            }
        }
#pragma unroll
        for (int i = 0; i < n; ++i) {
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
        for (int i = 0; i < n; ++i) {
            next.enter(wanted[i], targets[i]);
        }
    }

    // Relaxes n edges of each thread, from edge number `done` of the warp's rows on. `ends` is the prefix sum of the
    // rows' degrees. Each thread finds the owners of its edges.
    template <int n, bool looks = true>
    __device__ __forceinline__ void relax_some(edge_index done, edge_index ends, edge_index offset, bool is_one_row,
                                               edge_index n_edges, distance_bits d) {
        edge_index e[n];
        bool there[n];
        word32 owners[n];
#pragma unroll
        for (int i = 0; i < n; ++i) {
            const edge_index k = done + threadIdx.x % 32 + 32 * i;
            there[i] = k < n_edges;
            owners[i] = is_one_row ? 0 : find_owner(ends, k);
            e[i] = __shfl_sync(kWholeWarp, offset, owners[i]) + k;
        }
        relax<n, looks>(e, there, owners, d);
    }

    // Relaxes the edges of the rows that the first n_rows threads have. All threads of the warp call it together.
    __device__ __forceinline__ void relax_rows(const Row& row, distance_bits d, word32 n_rows, word32 threads_each) {
        if (threads_each != 0) {
            relax_row_by_row(row, d, n_rows, threads_each);
            return;
        }
        const bool is_one = n_rows == 1;
        const edge_index ends = is_one ? row.degree : prefix_sum(row.degree);
        const edge_index n_edges = __shfl_sync(kWholeWarp, ends, is_one ? 0 : 31);
        const edge_index offset = row.begin + row.degree - ends;
        edge_index done = 0;
        for (; n_edges - done > 64; done += min(n_edges - done, edge_index{128})) {
            next.make_room(128);
            relax_some<4>(done, ends, offset, is_one, n_edges, d);
        }
        next.make_room(64);
        if (n_edges - done > 32) {
            relax_some<2>(done, ends, offset, is_one, n_edges, d);
        } else if (n_edges - done > 0) {
            if (looks_first) {
                relax_some<1>(done, ends, offset, is_one, n_edges, d);
            } else {
                relax_some<1, false>(done, ends, offset, is_one, n_edges, d);
            }
        }
    }

    // The same, one row for each virtual warp at a time.
    __device__ __forceinline__ void relax_row_by_row(const Row& row, distance_bits d, word32 n_rows,
                                                     word32 threads_each) {
        const word32 thread_of_warp = threadIdx.x % 32;
        for (word32 rows_done = 0; rows_done < n_rows; rows_done += 32 / threads_each) {
            const word32 owner = rows_done + thread_of_warp / threads_each;
            const edge_index degree = __shfl_sync(kWholeWarp, row.degree, owner);
            const edge_index begin = __shfl_sync(kWholeWarp, row.begin, owner);
            for (edge_index k = thread_of_warp % threads_each; __any_sync(kWholeWarp, k < degree);
                 k += 2 * threads_each) {
                next.make_room(64);
                relax<2>({begin + k, begin + k + threads_each}, {k < degree, k + threads_each < degree}, {owner, owner},
                         d);
            }
        }
    }

    // Each thread has a vertex v at distance d. Its `row` has the heavy edges into v, and they may lower v. All threads of
    // the warp call it together.
    __device__ __forceinline__ void pull_rows(const Row& row, word32 v, distance_bits d) {
        constexpr int n = 2;
        const edge_index ends = prefix_sum(row.degree);
        const edge_index n_edges = __shfl_sync(kWholeWarp, ends, 31);
        const edge_index offset = row.begin + row.degree - ends;
        for (edge_index done = 0; done < n_edges; done += min(n_edges - done, edge_index{32 * n})) {
            next.make_room(32 * n);
            Edge edges[n];
            word32 targets[n];
            distance_bits bounds[n];
            bool wanted[n];
#pragma unroll
            for (int i = 0; i < n; ++i) {
                const edge_index k = done + threadIdx.x % 32 + 32 * i;
                const word32 owner = find_owner(ends, k);
                const edge_index e = __shfl_sync(kWholeWarp, offset, owner) + k;
                targets[i] = __shfl_sync(kWholeWarp, v, owner);
                bounds[i] = __shfl_sync(kWholeWarp, d, owner);
                wanted[i] = k < n_edges;
                edges[i] = wanted[i] ? next.rows.into.edge(e) : Edge{0, 0};
            }
#pragma unroll
            for (int i = 0; i < n; ++i) {
                wanted[i] = wanted[i] && sum_of(next.held->least, edges[i].weight) < bounds[i];
                const distance_bits from = wanted[i] ? tentative.distance(edges[i].target) : limit;
                edges[i].weight = sum_of(from, edges[i].weight);
                wanted[i] = from < limit && edges[i].weight < bounds[i];
            }
#pragma unroll
            for (int i = 0; i < n; ++i) {
                wanted[i] = wanted[i] && tentative.lower(targets[i], edges[i].weight, stamp);
                next.enter(wanted[i], targets[i]);
            }
        }
    }

    // Relaxes frontiers from superstep `step` on while they are thin; the first one is `entries`. Then enters the
    // vertices of the last one. Returns the number of the next superstep. All threads of one block call it together.
    __device__ __forceinline__ word32 alone(const uint4* entries, word32 n_entries, word32 step, word32 until,
                                            bool rows_ascend, word32& vertices_processed, word64& edges_relaxed) {
        __shared__ ThinFrontier thin;
        const word32 thread_of_warp = threadIdx.x % 32;
        const word32 warp = threadIdx.x / 32;
        if (threadIdx.x == 0) {
            thin.counts[0] = 0;
        }
        word32 n = n_entries;
        word32 stay = 0;
        for (; n > 0 && n <= kMostThin && step != until && stay < kLongestStay; ++step, ++stay) {
            Row row{0, 0};
            distance_bits d = limit;
            if (warp < n) {
                const word32 v = stay == 0 ? entries[warp].x : thin.vertices[warp];
                const Seen seen = tentative.look(v, step + 1);
                row = next.rows.row_of(v, next.part);
                d = seen.is_entered ? limit : seen.distance;  // I1
            }
            if (__syncthreads_or(row.degree > kThinEdges)) {
                break;
            }
            stamp = step + 1;
            all_single = step == 0 && rows_ascend;
            if (row.degree > 0) {
                relax_some<2, false>(0, row.degree, row.begin, true, row.degree, d);
                __syncwarp();
                word32* const count = &thin.counts[stay % 2];
                word32 place = thread_of_warp == 0 && next.n_held > 0 ? atomicAdd(count, next.n_held) : 0;
                place = __shfl_sync(kWholeWarp, place, 0);
                for (word32 k = thread_of_warp; k < next.n_held; k += 32) {
                    thin.vertices[place + k] = next.held->vertices[warp][k];
                }
                next.n_held = 0;
            }
            if (thread_of_warp == 0 && d < limit) {
                ++vertices_processed;
                edges_relaxed += row.degree;
            }
            if (threadIdx.x == 0) {
                thin.counts[(stay + 1) % 2] = 0;
            }
            __syncthreads();
            n = thin.counts[stay % 2];
        }
        // No warp gets more vertices than it can hold.
        for (word32 first = warp * 32; first < n; first += SSSP_THREADS) {
            const word32 k = first + thread_of_warp;
            next.enter(k < n, k < n ? thin.vertices[k] : 0);
        }
        return step;
    }
};
