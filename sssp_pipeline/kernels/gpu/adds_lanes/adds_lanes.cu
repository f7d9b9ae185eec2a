// Distances from up to 32 or 64 sources, its lanes, at a time, over the whole GPU, in one launch.
//
// Returns: search_kernel lowers `lines` to the true distances, vertex by vertex (lane_words.cuh), and writes counts to
// State. rows_kernel writes the distances source by source.
//
// Idea: a line of 128 bytes contains the distances of a vertex from all lanes. A random read of a line costs as much as
// a read of 4 bytes of it. So 32 or 64 searches cost as much as one, if they need the same edges at the same time. On a
// graph with hubs they do. What may look odd:
//   - Most work is pulled: a pass over all edges, ordered by target, reads the lines of the sources that changed, and
//     writes the line of each target once. If few edges leave the changed vertices, their rows are pushed instead.
//     `lane_passes.cuh` has both.
//   - A vertex is taken for all lanes, even if only one lane changed. So for each vertex one word is enough to decide:
//     the least priority of its changed lanes (`keys`). `changed` is used for the counts only.
//   - The priority of a lane is its distance less the distance from its source to a hub (`to_hub`). Sources that are
//     far from everything begin earlier, and all lanes pass the hub together.
//   - The threshold begins at the hub and moves on by delta, which grows. Close behind the hub are the other hubs,
//     which own most edges and should be read once. Further out passes are cheap, and few of them are better.
//   - Lanes that pass the hub together have nearly the same priority at a vertex. So two floats of each vertex, the
//     least priority of the lanes that changed and the greatest of all, show that most edges lower no lane. Of such an
//     edge no line is read.
//   - Narrow lanes (16 bits, 64 lanes): a distance that leaves no room for one more edge ends the run and sets
//     `is_wide`. The kernels launched after this one then search the same sources with whole words.
//   - A run that is given up sets `is_wide` to kGivenUp, and the kernels launched after it end at once.
// docs/design/0005-lanes.md has the measurements.
//
// Needs (AddsLanes guarantees it): weights >= 0, narrow: at most kLaneLimit; sources < n_vertices, or kNoSource
//     for unused lanes; all blocks resident at once; every word of State zero; n_vertices lines, keys, masks.
// Keeps
//     I1. A vertex that a lane lowered since its edges were last read has a key: at most the least priority of those
//         lanes. The pass that lowers writes the key. The sweep after the pass takes it if it is within the threshold,
//         and then the next pass reads all edges of the vertex.
//     I2. keys, changed and active_words are written in passes, or in sweeps by the thread that owns the vertex. A grid
//         barrier separates the two.
//     I3. Of three counters used in turn, one is read, one is added to, and the third is set to zero. The third was
//         last read before the barrier that opened this sweep.
//     I4. A pass pushes only below n_edges / kPushShare edges, so n_edges / kPushShare * (1 + 1 / kPushChunk) + 1 places
//         (n_places) suffice for its chunks. A sweep that takes more lists a part of them, and the pass pulls.
//     I5. is_wide is written in passes, and read after the barrier that ends them: all blocks leave together.
//     I6. If `lowest` of a vertex plus the weight of an edge is not below `highest` of its target, the edge lowers no
//         lane: floats are rounded to the side on which the edge is read, and never to zero. Lines only fall, so an old
//         `highest` is too high. `lowest` is minus infinity if a lane changed that is not aligned, as `highest` knows
//         aligned lanes only.
// Memory order: relaxed. The barrier orders passes and sweeps (B1 in grid_barrier.cuh).
// Launch: SSSP_THREADS threads a block, as many blocks as can be resident; rows_kernel: any grid, 256 threads.
// Ends: a pass follows only if a lane was lowered, and distances take finitely many values. A threshold is at least the
//     least key, so a sweep that raises it takes a vertex.
// NOTE: 148 bytes a vertex (276 with 64-bit weights) for all lanes together; 12 bytes an edge for the edges by
//     target (16 with 64-bit weights), 0.4 for the chunks.

#include "grid_barrier.cuh"
#include "lane_passes.cuh"

// A pass pushes if it would read less than this part of all edges. A pushed edge costs more than a pulled one, but the
// other edges cost nothing (benchmarks/kernel_constants.md).
constexpr word32 kPushShare = 20;
// Words of `active_words` that a warp makes at a time: 1 and 4 were slower.
constexpr word32 kWords = 2;
constexpr float kLargestFloat = 3.402823466e38f;

struct State {
    BarrierWords barrier;
    word32 least_key_complement[3];  // ~least key that waits, so that zero means "none"
    word32 n_chunks[3];              // of the rows of the vertices taken
    word64 n_edges[3];               // of the vertices taken
    word32 sweeps;
    word32 pulls;
    word32 pushes;
    float delta;
    word64 vertices_processed[kLanes];
    word64 edges_relaxed[kLanes];
};

static_assert(sizeof(State) == 72 + 16 * kLanes, "adds_lanes.py reads it by these offsets");

// Shared memory of a block.
struct Shared {
    HeldEdge edges[SSSP_THREADS / 32][kFiltered];
    // Of the lanes of each thread. In registers, others would be spilled.
    word32 vertices_processed[kLanesEach][SSSP_THREADS];
    word64 edges_relaxed[kLanesEach][SSSP_THREADS];
    word32 aligned[kLanesEach];  // a bit a lane
    word64 n_edges;
    word32 least_key;
};

constexpr word32 kGivenUp = 2;

__device__ __forceinline__ bool all_arrive(GridBarrier& barrier, word32* is_wide) {
    if (barrier.wait()) {
        return true;
    }
    atomicMax(is_wide, kGivenUp);
    return false;
}

// Chunks of a push of a row of so many edges.
__device__ __forceinline__ word32 n_chunks_of(edge_index degree) {
    return static_cast<word32>((degree + kPushChunk - 1) / kPushChunk);
}

// Lists the chunks of the rows of the vertices that this warp took, n_own of them in this thread, while there is room.
__device__ void list_chunks(const DeviceGraph& graph, word32 n_own, word32 warp, word32 n_warps, word64 n_words,
                            const word32* active_words, uint2* row_chunks, word64 n_places, word32* n_chunks) {
    const word32 thread_of_warp = threadIdx.x % 32;
    const word32 last = prefix_sum(n_own);
    const word32 n_of_warp = __shfl_sync(kWholeWarp, last, 31);
    if (n_of_warp == 0) {
        return;
    }
    word32 begin = thread_of_warp == 0 ? atomicAdd(n_chunks, n_of_warp) : 0;
    begin = __shfl_sync(kWholeWarp, begin, 0);
    if (begin + word64{n_of_warp} > n_places) {
        return;
    }
    word32 place = begin + last - n_own;
    __syncwarp();  // the first thread wrote active_words
    for (word64 word = warp; word < n_words && n_own > 0; word += n_warps) {
        if (active_words[word] >> thread_of_warp & 1) {
            const word32 v = static_cast<word32>(word * 32) + thread_of_warp;
            const word32 count = n_chunks_of(graph.first_edge(v + 1) - graph.first_edge(v));
            for (word32 i = 0; i < count; ++i) {
                row_chunks[place + i] = make_uint2(v, i);
            }
            place += count;
        }
    }
}

extern "C" __global__ void __launch_bounds__(SSSP_THREADS, SSSP_BLOCKS_PER_SM)
adds_lanes_search_kernel(const edge_index* row_offsets, const edge_word* edges, const distance_bits* weights,
                         const edge_word* incoming_edges, const distance_bits* incoming_weights,
                         const word32* incoming_targets, word32 n_vertices, edge_index n_edges, const word32* sources,
                         const distance_bits* to_hub, distance_bits limit, distance_bits most, float delta,
                         float growth, lane_word* lines, lane_mask* changed, word32* keys, float* lowest,
                         float* highest, word32* active_words, uint2* row_chunks, word64 n_places, word32* is_wide,
                         State* state, word32 n_blocks, word64 patience_ns, word64 deadline_ns) {
    __shared__ Shared shared;
    if (const word32 width = load_relaxed(is_wide); width == kGivenUp || (width != 0) != (SSSP_NARROW == 0)) {
        return;  // the sources are searched by the kernel of the other width, or by none after one was given up
    }
    const DeviceGraph graph{row_offsets, edges, weights};
    const DeviceGraph incoming{nullptr, incoming_edges, incoming_weights};
    Lanes lanes{lines, changed, keys, lowest, highest, {}, {}, most, is_wide};
    GridBarrier barrier{&state->barrier, n_blocks, patience_ns, deadline_ns};

    const word32 thread = blockIdx.x * blockDim.x + threadIdx.x;
    const word32 n_threads = gridDim.x * blockDim.x;
    const word32 thread_of_warp = threadIdx.x % 32;
    const word32 warp = thread / 32;
    const word32 n_warps = n_threads / 32;
    const word32 n_words = (n_vertices + 31) / 32;

    // ---- Start: nothing is reached but the sources ----
    const lane_word nothing = word_of(limit);
    for (word64 i = thread; i < 32 * static_cast<word64>(n_vertices); i += n_threads) {
        lines[i] = nothing;
    }
    for (word64 v = thread; v < n_vertices; v += n_threads) {
        keys[v] = kNoKey;
        changed[v] = 0;
        highest[v] = infinity();
    }
#pragma unroll
    for (int i = 0; i < kLanesEach; ++i) {
        const word32 source = sources[thread_of_warp + 32 * i];
        const distance_bits d = source == kNoSource ? kUnreached : to_hub[source];
        const float offset = float_below(d);
        lanes.is_aligned[i] = d < kUnreached && offset < infinity();
        lanes.offsets[i] = lanes.is_aligned[i] ? offset : 0.0f;
        shared.vertices_processed[i][threadIdx.x] = 0;
        shared.edges_relaxed[i][threadIdx.x] = 0;
        const word32 of_warp = __ballot_sync(kWholeWarp, lanes.is_aligned[i]);
        if (threadIdx.x == 0) {
            shared.aligned[i] = of_warp;  // the same in all warps
        }
    }
    if (threadIdx.x == 0) {
        shared.n_edges = 0;
        shared.least_key = kNoKey;
    }
    if (!all_arrive(barrier, is_wide)) {
        return;
    }
    if (warp == 0) {
#pragma unroll
        for (int i = 0; i < kLanesEach; ++i) {
            const word32 source = sources[thread_of_warp + 32 * i];
            if (source != kNoSource) {
                *lanes.word(source) &= ~(kLowestLane << (16 * i));
                atomicOr(&changed[source], lane_mask{1} << (thread_of_warp + 32 * i));
                atomicMin(&keys[source], key_of(0.0f - lanes.offsets[i]));
            }
        }
    }
    if (!all_arrive(barrier, is_wide)) {
        return;
    }

    word32 threshold = key_of(0.0f) - 1;  // whatever lies before the hub
    word32 sweep = 0;
    word32 pulls = 0;
    word32 pushes = 0;
    for (;; ++sweep) {
        // ---- Sweep: take the vertices whose key is within the threshold ----
        word64 n_taken_edges = 0;
        word32 n_own_chunks = 0;
        word32 least_key = kNoKey;
        if (thread == 0) {
            store_relaxed(&state->least_key_complement[(sweep + 1) % 3], 0);  // I3
            store_relaxed(&state->n_edges[(sweep + 1) % 3], word64{0});
            store_relaxed(&state->n_chunks[(sweep + 1) % 3], 0);
        }
        for (word64 first = warp; first < n_words; first += word64{n_warps} * kWords) {
            // All keys are read before one is waited for.
            word32 key[kWords];
            word32 taken[kWords];
            lane_mask mask[kWords];
            edge_index degree[kWords];
#pragma unroll
            for (word32 i = 0; i < kWords; ++i) {
                const word64 v = (first + i * n_warps) * 32 + thread_of_warp;
                key[i] = v < n_vertices ? keys[v] : kNoKey;
            }
#pragma unroll
            for (word32 i = 0; i < kWords; ++i) {
                const word64 word = first + i * n_warps;
                const word32 v = static_cast<word32>(word * 32) + thread_of_warp;
                const bool is_taken = key[i] != kNoKey && key[i] <= threshold;
                taken[i] = __ballot_sync(kWholeWarp, is_taken);
                least_key = is_taken ? least_key : min(least_key, key[i]);
                if (thread_of_warp == 0 && word < n_words) {
                    active_words[word] = taken[i];
                }
                mask[i] = is_taken ? changed[v] : 0;
                degree[i] = is_taken ? graph.first_edge(v + 1) - graph.first_edge(v) : 0;
                if (is_taken) {
                    keys[v] = kNoKey;
                    changed[v] = 0;
                }
            }
#pragma unroll
            for (word32 i = 0; i < kWords; ++i) {
                if (taken[i] >> thread_of_warp & 1) {
                    const word64 v = (first + i * n_warps) * 32 + thread_of_warp;
                    word32 unaligned = 0;
#pragma unroll
                    for (int lane = 0; lane < kLanesEach; ++lane) {
                        unaligned |= static_cast<word32>(mask[i] >> (32 * lane)) & ~shared.aligned[lane];
                    }
                    lowest[v] = unaligned == 0 ? priority_of(key[i]) : -infinity();
                    n_taken_edges += degree[i];
                    n_own_chunks += n_chunks_of(degree[i]);
                }
                if (taken[i] == 0) {
                    continue;
                }
                word32 vertices[kLanesEach] = {};
                edge_index edges_of_lane[kLanesEach] = {};
                for (word32 left = taken[i]; left != 0; left &= left - 1) {
                    const lane_mask one = __shfl_sync(kWholeWarp, mask[i], __ffs(left) - 1);
                    const edge_index its = __shfl_sync(kWholeWarp, degree[i], __ffs(left) - 1);
#pragma unroll
                    for (int lane = 0; lane < kLanesEach; ++lane) {
                        const bool has_changed = (static_cast<word32>(one >> (32 * lane)) >> thread_of_warp & 1) != 0;
                        vertices[lane] += has_changed ? 1 : 0;
                        edges_of_lane[lane] += has_changed ? its : 0;
                    }
                }
#pragma unroll
                for (int lane = 0; lane < kLanesEach; ++lane) {
                    shared.vertices_processed[lane][threadIdx.x] += vertices[lane];
                    shared.edges_relaxed[lane][threadIdx.x] += edges_of_lane[lane];
                }
            }
        }
        list_chunks(graph, n_own_chunks, warp, n_warps, n_words, active_words, row_chunks, n_places,
                    &state->n_chunks[sweep % 3]);
        for (int by = 16; by > 0; by /= 2) {
            n_taken_edges += __shfl_down_sync(kWholeWarp, n_taken_edges, by);
            least_key = min(least_key, __shfl_down_sync(kWholeWarp, least_key, by));
        }
        if (thread_of_warp == 0) {
            atomicAdd(&shared.n_edges, n_taken_edges);
            atomicMin(&shared.least_key, least_key);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            if (shared.n_edges > 0) {
                atomicAdd(&state->n_edges[sweep % 3], shared.n_edges);
            }
            if (shared.least_key != kNoKey) {
                atomicMax(&state->least_key_complement[sweep % 3], ~shared.least_key);
            }
            shared.n_edges = 0;
            shared.least_key = kNoKey;
        }
        if (!all_arrive(barrier, is_wide)) {
            return;
        }
        const word64 n_to_read = load_relaxed(&state->n_edges[sweep % 3]);
        if (n_to_read == 0) {
            const word32 least = ~load_relaxed(&state->least_key_complement[sweep % 3]);
            if (least == kNoKey) {
                break;
            }
            threshold = max(least, key_of(priority_of(least) + delta));
            delta = min(delta * growth, kLargestFloat);
            continue;
        }

        if (n_to_read < n_edges / kPushShare) {
            // ---- Push: along the rows of the vertices taken, cut into chunks ----
            const word32 n_chunks = load_relaxed(&state->n_chunks[sweep % 3]);
            uint2 next = warp < n_chunks ? row_chunks[warp] : make_uint2(0, 0);
            for (word32 i = warp; i < n_chunks; i += n_warps) {
                const uint2 chunk = next;
                if (n_chunks - i > n_warps) {
                    next = row_chunks[i + n_warps];
                }
                push_chunk(lanes, graph, chunk.x, chunk.y);
            }
            ++pushes;
        } else {
            // ---- Pull: over all edges by target ----
            for (word64 first = static_cast<word64>(warp) * kChunk; first < n_edges;
                 first += static_cast<word64>(n_warps) * kChunk) {
                pull_chunk(lanes, incoming, incoming_targets, n_edges, static_cast<edge_index>(first), active_words,
                           shared.edges[threadIdx.x / 32]);
            }
            ++pulls;
        }
        if (!all_arrive(barrier, is_wide)) {
            return;
        }
        if (SSSP_NARROW && load_relaxed(is_wide) != 0) {  // I5
            break;
        }
    }

    // ---- End: the counts ----
#pragma unroll
    for (int i = 0; i < kLanesEach; ++i) {
        atomicAdd(&state->vertices_processed[thread_of_warp + 32 * i],
                  word64{shared.vertices_processed[i][threadIdx.x]});
        atomicAdd(&state->edges_relaxed[thread_of_warp + 32 * i], shared.edges_relaxed[i][threadIdx.x]);
    }
    if (thread == 0) {
        state->sweeps = sweep;
        state->pulls = pulls;
        state->pushes = pushes;
        state->delta = delta;
    }
}

// Writes rows (n_rows, n_vertices): the distances of the first n_rows lanes, through tiles of 32 vertices.
extern "C" __global__ void adds_lanes_rows_kernel(const lane_word* lines, word32 n_vertices, word32 n_rows,
                                                  distance_bits limit, const word32* is_wide, distance_bits* rows) {
    __shared__ lane_word tile[32][33];
    if ((load_relaxed(is_wide) != 0) != (SSSP_NARROW == 0)) {
        return;
    }
    const word32 x = threadIdx.x % 32;
    for (word64 first = static_cast<word64>(blockIdx.x) * 32; first < n_vertices;
         first += static_cast<word64>(gridDim.x) * 32) {
        for (word32 y = threadIdx.x / 32; y < 32; y += blockDim.x / 32) {
            if (first + y < n_vertices) {
                tile[y][x] = lines[(first + y) * 32 + x];
            }
        }
        __syncthreads();
        if (first + x < n_vertices) {
            for (word32 row = threadIdx.x / 32; row < n_rows; row += blockDim.x / 32) {
                const distance_bits d = lane_of(tile[x][row % 32], static_cast<int>(row / 32));
                rows[static_cast<word64>(row) * n_vertices + first + x] = d < kLaneLimit ? d : limit;
            }
        }
        __syncthreads();
    }
}
