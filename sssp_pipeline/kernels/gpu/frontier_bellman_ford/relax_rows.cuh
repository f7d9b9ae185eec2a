// Relaxes the edges of a frontier's vertices: by a warp, and by one block alone while the frontier is thin.
//
// Idea: the lanes of a warp take edges, not vertices, and relax some of them together, so that their accesses overlap.
//   - Virtual warps (section 5.2): with `lanes` given, as many lanes share a vertex. The paper's dynamic ones choose
//     that number by the size of the frontier, so that no lane idles while there are few vertices, nor while there are
//     many small ones. Without `lanes`, the same is done edge by edge: the lanes of a warp share the edges of all its
//     entries alike, whosever they are, and the entries are dealt out to the warps one by one.
//   - While the frontier is thin, as along a path, one block goes on alone: its frontier is in shared memory, a
//     superstep ends with a __syncthreads. The others wait in the grid barrier that ends this superstep of theirs, never
//     for long: after kLongestStay all meet again.
//   - Most edges lower nothing, so a look at the distance comes before the atomic. But in a superstep of few entries,
//     none of a vertex with many edges, it is latency that counts, and the atomics of few edges begin without a look. For
//     the same reason edges of few entries are read while the distance of the vertex that they leave is; in a superstep
//     of many a warp waits for that, which may spare it the edges.
//
// Needs: edges marked if SSSP_EDGE_CLASSES; SSSP_ALONE 0 or 1; `stamp`, `looks_first` and `all_single` set for the
//     superstep; the edges of 32 rows counted in an edge_index.
// Keeps: what I1 and I5 of frontier_bellman_ford.cu ask of who relaxes.
// Memory order: as there; supersteps of a block alone are ordered by __syncthreads.
// Paper: Busato, Bombieri, IEEE TPDS 2015, section 5.2.
#pragma once

#include "edge_classes.cuh"
#include "frontier.cuh"
#include "stamped_distances.cuh"

// A frontier is thin if there is a warp of one block for each vertex; so many supersteps it goes on alone at most.
constexpr word32 kMostThin = SSSP_ALONE ? kWarps : 0;
constexpr word32 kLongestStay = 1024;

// The frontier of a block alone.
struct ThinFrontier {
    word32 vertices[kWarps * kThinEdges];
    word32 counts[2];  // of this superstep and the next one, in turn
};

template <typename Word>
__device__ __forceinline__ Word read_once(const Word* address) {
#if SSSP_CACHE_HINTS
    return __ldcs(address);
#else
    return *address;
#endif
}

struct Row {
    edge_index begin;
    edge_index degree;
};

struct Search {
    DeviceGraph graph;
    StampedDistances tentative;
    distance_bits limit;
    word32 stamp;
    bool looks_first;  // at few edges, too
    bool all_single;  // whether this superstep's edges lead to vertices that no other edge leads to
    NextFrontier next;

    __device__ __forceinline__ Row row_of(word32 v) const {
        const edge_index begin = graph.first_edge(v);
        return {begin, graph.first_edge(v + 1) - begin};
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

    // Relaxes n edges a lane, those that are there, with room for as many vertices. Each leaves the vertex of the lane
    // that is its owner, at that one's distance d, unless this is the limit. For all lanes of the warp together.
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

    // Relaxes n edges a lane of the rows whose edges end at `ends`, counted through, from the one numbered `done` on:
    // each lane looks for whose edge it is.
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

    // Relaxes the edges of the rows of the first n_rows lanes. For all lanes of the warp together.
    __device__ __forceinline__ void relax_rows(const Row& row, distance_bits d, word32 n_rows, word32 lanes) {
        if (lanes != 0) {
            relax_row_by_row(row, d, n_rows, lanes);
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

    // The same, as many rows at a time as there are virtual warps.
    __device__ __forceinline__ void relax_row_by_row(const Row& row, distance_bits d, word32 n_rows, word32 lanes) {
        const word32 lane = threadIdx.x % 32;
        for (word32 rows_done = 0; rows_done < n_rows; rows_done += 32 / lanes) {
            const word32 owner = rows_done + lane / lanes;
            const edge_index degree = __shfl_sync(kWholeWarp, row.degree, owner);
            const edge_index begin = __shfl_sync(kWholeWarp, row.begin, owner);
            for (edge_index k = lane % lanes; __any_sync(kWholeWarp, k < degree); k += 2 * lanes) {
                next.make_room(64);
                relax<2>({begin + k, begin + k + lanes}, {k < degree, k + lanes < degree}, {owner, owner}, d);
            }
        }
    }

    // Relaxes the edges of frontiers from superstep `step` on while they are thin, the first of which is `entries`; then
    // enters what they left. Returns the superstep that is to come next. For all threads of one block together.
    __device__ __forceinline__ word32 alone(const uint4* entries, word32 n_entries, word32 step, word32 until,
                                            bool rows_ascend, word32& vertices_processed, word64& edges_relaxed) {
        __shared__ ThinFrontier thin;
        const word32 lane = threadIdx.x % 32;
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
                row = row_of(v);
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
                word32 place = lane == 0 && next.n_held > 0 ? atomicAdd(count, next.n_held) : 0;
                place = __shfl_sync(kWholeWarp, place, 0);
                for (word32 k = lane; k < next.n_held; k += 32) {
                    thin.vertices[place + k] = next.held->vertices[warp][k];
                }
                next.n_held = 0;
            }
            if (lane == 0 && d < limit) {
                ++vertices_processed;
                edges_relaxed += row.degree;
            }
            if (threadIdx.x == 0) {
                thin.counts[(stay + 1) % 2] = 0;
            }
            __syncthreads();
            n = thin.counts[stay % 2];
        }
        // No warp gets more of them than it can hold.
        for (word32 first = warp * 32; first < n; first += SSSP_THREADS) {
            next.enter(first + lane < n, first + lane < n ? thin.vertices[first + lane] : 0);
        }
        return step;
    }
};
