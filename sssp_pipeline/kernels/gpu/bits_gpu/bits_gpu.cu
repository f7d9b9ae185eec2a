// Breadth-first searches from up to kLanes sources together, a bit for each source and vertex, in one launch.
//
// Returns
//     search_kernel   counts: how many vertices are new to each source at each depth; rows of distances if wanted;
//                     `visited`: the bits of all that is reached; State
//     edges_kernel    the edges of the vertices that each source reaches
//     starts_kernel   the edges by target, made once for each graph
//
// Idea: all weights are equal, so all vertices at one depth have one distance, and all searches go from depth to depth
// in step. A row has the bits of a vertex for all sources: 128 bytes for 1,024 sources. One access reads it, and one
// operation merges it. What may look odd:
//   - All depths pull: the row of a vertex is made from the rows of the vertices with edges into it (bit_pull.cuh). No
//     row is written by two warps, so there are no atomics on rows, and nothing has to be zero before.
//   - If few edges leave the frontier, they are followed first to mark the vertices that they reach. Only these are
//     pulled then. Marks are bits, so the frontier is pushed without reading rows.
//   - The edges into a vertex are ordered by the edges into their starts, the hubs first. Hubs are reached early and by
//     most sources, so rows are full sooner.
//   - Rows of `fronts` are not cleared. A bitmap tells which of them are of this depth.
//   - A bit in `visited` is set for lanes without a source. So a row is full if all its bits are set.
//   - The counts of a depth are counts of bits by column (lane_counts.cuh). The metrics and most answers follow from
//     them, on the host.
//   - If the memory for counts is full, a launch stops. The next one goes on from `State`.
// docs/design/0034-equal-weights.md has the reasons.
//
// Needs (bits_gpu.py guarantees it): equal weights above zero; sources < n_vertices; all blocks resident at once; State
//     and counts zero, when a search is resumed only State's barrier and the counts.
// Keeps
//     I1. A row of fronts is of depth k only if its bit of active[k % 3] is set. active[(k + 2) % 3] is set to zero
//         while depth k is pulled, and touched[(k + 1) % 2] too.
//     I2. A row of `visited` changes only while its vertex is pulled, by the warp that has all its edges, or the last
//         part of them. It is only read by that warp, and by the parts of that hub.
//     I3. Of three counters used in turn, one is read, one is added to, and the third is set to zero. The third was
//         last read before the barrier that opened this depth.
//     I4. `open` has every vertex with an edge into it whose row is not full. It may have others.
// Memory order: relaxed. The barrier orders depths (B1 in grid_barrier.cuh); M1 of bit_pull.cuh orders the parts of a
//     hub.
// Launch: search_kernel SSSP_THREADS threads a block, as many blocks as can be resident; the others any grid.
// Ends: a depth follows only if edges leave the frontier. Every vertex is new to a source at most once.
// NOTE: 3 rows a vertex, and 1 byte. A search from one source moves rows for kLanes.
// Papers: M. Then et al., "The more the merrier: efficient multi-source graph traversal", VLDB 2014; S. Beamer,
//     K. Asanović, D. Patterson, "Direction-optimizing breadth-first search", SC 2012.

#include "bit_pull.cuh"
#include "edge_rows.cuh"

struct Shared {
    word32 counts[kLanes];
    word64 n_edges;
    EdgeList lists[SSSP_THREADS / 32];
};

// Marks a vertex that an edge of the frontier reaches.
__device__ __forceinline__ void mark(const Call& call, word32 target, word32* touched) {
    if (has_bit(call.open, target) && !has_bit(touched, target)) {
        atomicOr(&touched[target / 32], 1u << (target % 32));
    }
}

// Marks the vertices that edges of the frontier reach, if some source has not reached them.
__device__ void mark_touched(const Call& call, const word32* active, word32* touched) {
    const DeviceGraph graph{call.row_offsets, call.edges, call.weights};
    const word32 thread = threadIdx.x % 32;
    const word32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    const word32 n_warps = gridDim.x * blockDim.x / 32;
    // ---- Rows of many edges, in chunks ----
    for (word32 i = warp; i < call.n_marked; i += n_warps) {
        const uint2 chunk = __ldg(call.marked + i);
        if (has_bit(active, chunk.x)) {
            const edge_index first = graph.first_edge(chunk.x) + static_cast<edge_index>(chunk.y) * kItemEdges;
            const edge_index end = min(first + kItemEdges, graph.first_edge(chunk.x + 1));
            for (edge_index e = first + thread; e < end; e += 32) {
                mark(call, graph.edge(e).target, touched);
            }
        }
    }
    // ---- The other rows, 32 together ----
    for (word32 word = warp; word < call.n_words(); word += n_warps) {
        const word32 bits = active[word];
        if (bits == 0) {
            continue;
        }
        const word32 v = word * 32 + thread;
        bool is_wanted = (bits >> thread & 1) != 0;
        is_wanted = is_wanted && graph.first_edge(v + 1) - graph.first_edge(v) <= kItemEdges;
        const EdgesOfRows edges(call.row_offsets, v, is_wanted);
        for (word32 some = 0; some < edges.total; some += 32) {
            word32 owner;
            const edge_index e = edges.find(some + thread, owner);
            if (some + thread < edges.total) {
                mark(call, graph.edge(e).target, touched);
            }
        }
    }
}

// The bits that some thread of the warp has, returned to all its threads.
__device__ __forceinline__ word32 bits_of_warp(word32 bits) {
#if __CUDA_ARCH__ >= 800
    return __reduce_or_sync(kWholeWarp, bits);
#else
    for (int by = 16; by > 0; by /= 2) {
        bits |= __shfl_xor_sync(kWholeWarp, bits, by);
    }
    return bits;
#endif
}

// Writes the distance of the frontier to the rows of the sources that it is new to.
__device__ void write_rows(const Call& call, const word32* active, word32* front, distance_bits distance) {
    const word32 thread = threadIdx.x % 32;
    const word32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    const word32 n_warps = gridDim.x * blockDim.x / 32;
    if (call.targets != nullptr) {
        for (word32 column = warp; column < call.n_columns; column += n_warps) {
            const word32 v = call.targets[column];
            if (!has_bit(active, v)) {
                continue;
            }
            const Part part = *part_of(front, v);
#pragma unroll
            for (word32 i = 0; i < kEach; ++i) {
                for (word32 bits = part.words[i]; bits != 0; bits &= bits - 1) {
                    const word32 lane = (thread * kEach + i) * 32 + __ffs(bits) - 1;
                    call.rows[static_cast<word64>(lane) * call.n_columns + column] = distance;
                }
            }
        }
        return;
    }
    const word32 n_row_words = (call.n_sources + 31) / 32;
    for (word32 word = warp; word < call.n_words(); word += n_warps) {
        const word32 bits = active[word];
        if (bits == 0) {
            continue;
        }
        const word32 v = word * 32 + thread;
        const bool is_new = (bits >> thread & 1) != 0;
        for (word32 w = 0; w < n_row_words; ++w) {
            const word32 mine = is_new ? front[static_cast<word64>(v) * kRowWords + w] : 0;
            for (word32 left = bits_of_warp(mine); left != 0; left &= left - 1) {
                const word32 bit = __ffs(left) - 1;
                if ((mine >> bit & 1) != 0) {
                    call.rows[static_cast<word64>(w * 32 + bit) * call.n_vertices + v] = distance;
                }
            }
        }
    }
}

// Nothing is reached but the sources. Returns false if the run was given up.
__device__ bool start(const Call& call, GridBarrier& barrier) {
    const word64 thread = blockIdx.x * static_cast<word64>(blockDim.x) + threadIdx.x;
    const word64 n_threads = static_cast<word64>(gridDim.x) * blockDim.x;
    const word32 n_words = call.n_words();
    Part no_source;
#pragma unroll
    for (word32 i = 0; i < kEach; ++i) {
        const word32 first_lane = (threadIdx.x % 32 * kEach + i) * 32;
        const word32 n = call.n_sources > first_lane ? call.n_sources - first_lane : 0;
        no_source.words[i] = n >= 32 ? 0 : ~word32{0} << n;
    }
    for (word64 v = thread / 32; v < call.n_vertices; v += n_threads / 32) {
        *part_of(call.visited, static_cast<word32>(v)) = no_source;
    }
    for (word64 i = thread; i < static_cast<word64>(call.n_hubs) * kRowWords; i += n_threads) {
        call.hub_rows[i] = 0;
    }
    for (word64 i = thread; i < call.n_hubs; i += n_threads) {
        call.hub_parts[i] = 0;
    }
    for (word64 i = thread; i < n_words; i += n_threads) {
        call.active[i] = call.active[i + n_words] = call.active[i + 2 * static_cast<word64>(n_words)] = 0;
        call.touched[i] = call.touched[i + n_words] = 0;
        call.open[i] = call.into_words[i];
    }
    if (call.rows != nullptr) {
        const word64 n = static_cast<word64>(call.n_sources) * call.n_columns;
        for (word64 i = thread; i < n; i += n_threads) {
            call.rows[i] = static_cast<distance_bits>(call.nothing);
        }
    }
    for (word64 i = thread / 32; i < call.n_sources; i += n_threads / 32) {
        *part_of(call.fronts, call.sources[i]) = same_words(0);
    }
    if (!barrier.wait()) {
        return false;
    }
    for (word64 lane = thread; lane < call.n_sources; lane += n_threads) {
        const word32 v = call.sources[lane];
        const word64 word = static_cast<word64>(v) * kRowWords + lane / 32;
        atomicOr(&call.visited[word], 1u << (lane % 32));
        atomicOr(&call.fronts[word], 1u << (lane % 32));
        atomicAdd(&call.counts[slot_of(static_cast<word32>(lane))], 1u);
        const word32 before = atomicOr(&call.active[v / 32], 1u << (v % 32));
        if ((before >> (v % 32) & 1) == 0) {
            const word64 degree = call.row_offsets[v + 1] - call.row_offsets[v];
            atomicAdd(&call.state->edges_of_frontier[0], degree);
        }
    }
    return true;
}

extern "C" __global__ void __launch_bounds__(SSSP_THREADS, SSSP_BLOCKS_PER_SM)
bits_gpu_search_kernel(const Call call) {
    __shared__ Shared shared;
    State* state = call.state;
    GridBarrier barrier{&state->barrier, call.n_blocks, call.patience_ns, call.deadline_ns};
    const word64 thread = blockIdx.x * static_cast<word64>(blockDim.x) + threadIdx.x;
    const word64 n_threads = static_cast<word64>(gridDim.x) * blockDim.x;
    const word32 n_words = call.n_words();
    word32 depth = state->depth;
    distance_bits distance = static_cast<distance_bits>(state->distance);
    word32 n_counted = call.resumes ? 0 : 1;
    bool is_over = false;

    for (word32 i = threadIdx.x; i < kLanes; i += blockDim.x) {
        shared.counts[i] = 0;
    }
    if (threadIdx.x == 0) {
        shared.n_edges = 0;
    }
    if (!call.resumes && !start(call, barrier)) {
        return;
    }
    for (;;) {
        word64 totals[2];
        if (!barrier.wait({&state->edges_of_frontier[depth % 3], &state->n_closed}, totals)) {
            return;
        }
        const word64 n_edges = totals[0];
        if (call.rows != nullptr) {
            write_rows(call, call.active_at(depth), call.front(depth), distance);
        }
        const bool has_targets = call.target_words == nullptr || totals[1] < call.n_targets;
        const distance_bits next_distance = sum_of(distance, static_cast<distance_bits>(call.weight));
        const bool is_beyond = next_distance >= static_cast<distance_bits>(call.limit);
        if (n_edges == 0 || !has_targets || (is_beyond && call.is_limited)) {
            is_over = true;
            break;
        }
        if (call.most_counted != 0 && n_counted == call.most_counted) {
            break;
        }

        // ---- Mark ----
        const bool is_marked = n_edges < call.n_edges / kMarkShare;
        if (is_marked) {
            mark_touched(call, call.active_at(depth), call.touched_at(depth));
            if (!barrier.wait()) {
                return;
            }
        }

        // ---- Pull ----
        for (word64 i = thread; i < n_words; i += n_threads) {
            call.active_at(depth + 2)[i] = 0;   // I1
            call.touched_at(depth + 1)[i] = 0;  // I1
        }
        if (thread == 0) {
            store_relaxed(&state->edges_of_frontier[(depth + 2) % 3], word64{0});  // I3
            store_relaxed(&state->n_taken[(depth + 1) % 3], word32{0});            // I3
        }
        Pull pull{call, depth, is_marked, &shared.lists[threadIdx.x / 32], &shared.n_edges};
        pull.counts.start(shared.counts);
        for (;;) {
            word32 item = 0;
            if (threadIdx.x % 32 == 0) {
                item = atomicAdd(&state->n_taken[depth % 3], call.together);
            }
            item = __shfl_sync(kWholeWarp, item, 0);
            if (item >= call.n_items) {
                break;
            }
            for (const word32 end = min(item + call.together, call.n_items); item < end; ++item) {
                pull.pull_item(__ldg(call.items + item));
            }
        }
        pull.counts.empty();

        // ---- Count ----
        __syncthreads();
        if (threadIdx.x == 0) {
            if (const word64 edges = atomicExch(&shared.n_edges, word64{0}); edges != 0) {
                atomicAdd(&state->edges_of_frontier[(depth + 1) % 3], edges);
            }
        }
        word32* counts = call.counts + (call.most_counted != 0 ? static_cast<word64>(n_counted) * kLanes : 0);
        for (word32 i = threadIdx.x; i < kLanes; i += blockDim.x) {
            if (shared.counts[i] != 0) {
                atomicAdd(&counts[i], shared.counts[i]);
                shared.counts[i] = 0;
            }
        }
        n_counted += 1;
        depth += 1;
        distance = next_distance;
        if (is_beyond) {
            is_over = true;
            break;
        }
    }
    if (thread == 0) {
        state->depth = depth;
        state->distance = distance;
        state->n_counted = n_counted;
        state->is_over = is_over ? 1 : 0;
    }
}

// Adds to `edges` (kRowWords / 32, 32 bits, 32 words), zero, the edges of the vertices whose bits are set.
extern "C" __global__ void bits_gpu_edges_kernel(const word32* visited, const edge_index* row_offsets,
                                                 word32 n_vertices, word64* edges) {
    const word32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    const word32 n_warps = gridDim.x * blockDim.x / 32;
    const word32 part = warp % kEach;
    word64* into = edges + part * 1024 + threadIdx.x % 32;
    word64 of_all = 0;
    word32 sums[32] = {};
    word64 most = 0;  // no sum is larger
    const auto empty = [&] {
#pragma unroll
        for (word32 bit = 0; bit < 32; ++bit) {
            if (sums[bit] + of_all != 0) {
                atomicAdd(&into[bit * 32], sums[bit] + of_all);
            }
            sums[bit] = 0;
        }
        most = of_all = 0;
    };
    for (word64 v = warp / kEach; v < n_vertices; v += n_warps / kEach) {
        const word64 degree = row_offsets[v + 1] - row_offsets[v];
        const word32 bits = visited[v * kRowWords + part * 32 + threadIdx.x % 32];
        if (degree == 0 || !__any_sync(kWholeWarp, bits != 0)) {
            continue;
        }
        if (__all_sync(kWholeWarp, bits == ~word32{0})) {
            of_all += degree;
            continue;
        }
        if (most + degree > 0xffffffffu) {
            empty();
        }
        most += degree;
#pragma unroll
        for (word32 bit = 0; bit < 32; ++bit) {
            sums[bit] += (bits >> bit & 1) != 0 ? static_cast<word32>(degree) : 0;
        }
    }
    empty();
}

// Writes where edges into each vertex start. Takes the starts that have at least `least` and less than `most` edges into
// them. `places` begins as into_offsets.
extern "C" __global__ void bits_gpu_starts_kernel(const edge_index* row_offsets, const edge_word* edges,
                                                  const distance_bits* weights, word32 n_vertices, edge_index n_edges,
                                                  const edge_index* into_offsets, word32 least, word32 most,
                                                  edge_index* places, word32* starts) {
    const DeviceGraph graph{row_offsets, edges, weights};
    for_every_edge(graph, n_vertices, n_edges, [&](edge_index e, word32 start) {
        const edge_index degree = __ldg(into_offsets + start + 1) - __ldg(into_offsets + start);
        if (degree >= least && degree < most) {
            starts[atomicAdd(&places[graph.edge(e).target], edge_index{1})] = start;
        }
    });
}
