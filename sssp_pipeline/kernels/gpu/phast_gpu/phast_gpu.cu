// Distances from many sources by a hierarchy that is cut into chunks (`chunks.py`), without a search.
//
// Returns: rows (n, V), source by source, the distances in the order of the graph.
//
// Idea:
//   1. climb_kernel: a block follows its source from chunk to chunk up to the top. In a chunk it knows distances of
//      some own vertices, its entries. Distances of the boundary follow by the matrix to the boundary; some of them are
//      the entries of the next chunk. All are ancestors of the source, so one distance is kept for each depth.
//   2. seed_kernel: the least ways over entries to the own vertices of a chunk are its seeds, by `from_own`.
//   3. sweep_kernel, a launch for each band, from the top down: the rows of a chunk are the least of its seeds and of
//      the min-plus product of `from_boundary` with the rows of the boundary. A warp computes 8 rows of 32 to 128
//      lanes in registers. There is no order inside a band, so nothing waits.
//   4. last_kernel does the same for the last band, which has most vertices, and counts over all rows.
//   5. rows_kernel: from rows by place, with a lane for each source, to rows by source.
// docs/design/0021-phast-gpu.md has the measurements.
//
// Needs: rows by place (V, n_lanes); `seeded` of zero; n_lanes a multiple of 32 times the lanes of a thread.
// Keeps
//     I1. The rows of the boundary of a chunk are final before its band is launched.
//     I2. A bit of `seeded` is set for a chunk and a lane if there are seeds. Other seeds are not read.
//     I3. What a way up knows of vertices above a chunk is in the boundary of that chunk, since upper neighbours of a
//         vertex are also upper neighbours of its parent, or the parent.
// Memory order: relaxed; launches follow each other on one stream.

#include "summary.cuh"
#include "sweep_words.cuh"

constexpr word32 kWholeWarp = 0xffffffff;
constexpr word32 kTile = 8;

// The entries first to end - 1 of a source, in one chunk.
struct Segment {
    word32 chunk;
    word32 first;
    word32 end;
    word32 unused;
};

struct Tile {
    word64 matrix;  // its first word in from_boundary
    word32 first_boundary;
    word32 n_boundary;
    word32 chunk;
    word32 first_place;
    word32 first_local;  // first_place, counted from that of the chunk
    word32 n_rows;
};

// What a way up read: entries, and words of matrices.
struct Climbed {
    word64 entries;
    word64 words;
};

static_assert(sizeof(Segment) == 16 && sizeof(Tile) == 32 && sizeof(Climbed) == 16, "as Python reads and writes them");

// Where a matrix to the boundary of a chunk has the words of a boundary vertex, and there those of an own vertex.
__device__ __forceinline__ const sweep_word* column_of(const sweep_word* matrix, word32 boundary) {
    return matrix + boundary * kTile;
}

__device__ __forceinline__ word64 in_column(const Chunk& chunk, word32 own) {
    return own / kTile * (word64{kTile} * chunk.n_boundary) + own % kTile;
}

constexpr word32 kMostThreads = 1024;
constexpr word32 kMostEntries = 512;

// A block for each source, of any number of warps.
//
// entry_places and entry_distances (n, n_depths) get the entries, places counted from the first of the chunk; segments
// (n, n_segments) those of each chunk, the top last. depths_and_chunks has these of each boundary vertex, next_chunks
// (V,) the chunk above each place. `kept` (n, n_depths) is used if not is_shared.
extern "C" __global__ void __launch_bounds__(kMostThreads)
climb_kernel(const word32* sources, const word32* places, const word32* chunks_of_places, const word32* next_chunks,
             const Chunk* chunks, const word32* boundary, const uint2* depths_and_chunks,
             const sweep_word* to_boundary, word32 n_depths, word32 n_segments, word32 is_shared, sweep_word* kept,
             word32* entry_places, sweep_word* entry_distances, Segment* segments, Climbed* climbed) {
    extern __shared__ sweep_word shared[];
    __shared__ word32 locals[kMostEntries];
    __shared__ sweep_word distances[kMostEntries];
    __shared__ word32 n_next;
    const word32 thread = threadIdx.x;
    const word64 from = static_cast<word64>(blockIdx.x) * n_depths;
    sweep_word* d = is_shared ? shared : kept + from;
    entry_places += from;
    entry_distances += from;
    segments += static_cast<word64>(blockIdx.x) * n_segments;

    word32 place = places[sources[blockIdx.x]];
    word32 c = chunks_of_places[place];
    Chunk chunk = chunks[c];
    for (word32 i = thread; i < n_segments; i += blockDim.x) {
        segments[i] = {0, 0, 0, 0};
    }
    for (word32 depth = thread; depth < n_depths; depth += blockDim.x) {
        d[depth] = kInfinity;
    }
    if (thread == 0) {
        locals[0] = place - chunk.first_place;
        distances[0] = 0;
    }
    __syncthreads();
    const word32 local = place - chunk.first_place;
    word32 n = 1;
    word32 n_entries = 0;
    word64 n_words = 0;
    for (word32 i = 0;; ++i) {
        for (word32 entry = thread; entry < n; entry += blockDim.x) {
            entry_places[n_entries + entry] = locals[entry];
            entry_distances[n_entries + entry] = distances[entry];
        }
        if (thread == 0) {
            segments[c == 0 ? n_segments - 1 : i] = {c, n_entries, n_entries + n, 0};
        }
        n_entries += n;
        const word32 next = c == 0 ? kNoVertex : next_chunks[place];
        if (next == kNoVertex) {
            break;
        }
        n_words += static_cast<word64>(n) * chunk.n_boundary;
        const Chunk above = chunks[next];
        const sweep_word* matrix = to_boundary + chunk.boundary_words;
        __syncthreads();
        if (thread == 0) {
            n_next = 0;
        }
        // Threads for each boundary vertex share the entries.
        const word32 n_across = min((chunk.n_boundary + 31) / 32 * 32, blockDim.x);
        const word32 n_parts = blockDim.x / n_across;
        for (word32 b = thread % n_across; b < chunk.n_boundary && thread / n_across < n_parts; b += n_across) {
            sweep_word least = kInfinity;
            const sweep_word* column = column_of(matrix, b);
#pragma unroll 8
            for (word32 entry = thread / n_across; entry < n; entry += n_parts) {
                least = lower(least, distances[entry], column[in_column(chunk, locals[entry])]);
            }
            atomicMin(&d[depths_and_chunks[chunk.first_boundary + b].x], least);
        }
        __syncthreads();
        for (word32 b = thread; b < chunk.n_boundary; b += blockDim.x) {
            const uint2 mark = depths_and_chunks[chunk.first_boundary + b];
            const sweep_word least = d[mark.x];
            // The first chunk may have several roots. Vertices above the others have depths of ancestors too.
            const bool is_above = i > 0 || column_of(matrix, b)[in_column(chunk, local)] < kInfinity;
            if (mark.y == next && least < kInfinity && is_above) {
                const word32 entry = atomicAdd(&n_next, 1);
                locals[entry] = boundary[chunk.first_boundary + b] - above.first_place;
                distances[entry] = least;
            }
        }
        __syncthreads();
        n = n_next;
        c = next;
        chunk = above;
        place = above.first_place;
    }
    if (thread == 0) {
        climbed[blockIdx.x] = {n_entries, n_words};
    }
}

// Threads of a block: kSeedParts for each of kAcross own vertices, which share the entries.
constexpr word32 kAcross = 128;
constexpr word32 kSeedParts = 4;
constexpr word32 kSeedBlock = kAcross * kSeedParts;
// Blocks that make the seeds of the top.
constexpr word32 kTopBlocks = 4;
// The most vertices of a chunk of the last band.
constexpr word32 kMostLow = 64;

// Blocks for the segments of each source, the last kTopBlocks for the top. Source s is lane s.
//
// Writes the seeds of its chunk to `rows`, or to low_seeds (n_lanes, kMostLow) if it is `first_low` or a later chunk,
// and sets the bit of the chunk and the lane.
extern "C" __global__ void __launch_bounds__(kSeedBlock)
seed_kernel(const Segment* segments, word32 n_segments, const word32* entry_places, const sweep_word* entry_distances,
            word32 n_depths, const Chunk* chunks, const sweep_word* all_from_own, word32 first_low, word32 n_lanes,
            sweep_word* rows, sweep_word* low_seeds, word32* seeded) {
    __shared__ word32 places[kMostEntries];
    __shared__ sweep_word distances[kMostEntries];
    __shared__ sweep_word seeds[kAcross];
    const word32 n_blocks = n_segments - 1 + kTopBlocks;
    const word32 lane = blockIdx.x / n_blocks;
    const word32 part = blockIdx.x % n_blocks;
    const bool is_top = part >= n_segments - 1;
    const Segment segment = segments[static_cast<word64>(lane) * n_segments + min(part, n_segments - 1)];
    if (segment.first == segment.end && !is_top) {
        return;
    }
    const Chunk chunk = chunks[segment.chunk];
    const sweep_word* from_own = all_from_own + chunk.own_words;
    entry_places += static_cast<word64>(lane) * n_depths;
    entry_distances += static_cast<word64>(lane) * n_depths;
    const word32 n = segment.end - segment.first;
    for (word32 i = threadIdx.x; i < n; i += kSeedBlock) {
        places[i] = entry_places[segment.first + i];
        distances[i] = entry_distances[segment.first + i];
    }
    const word32 x = threadIdx.x % kAcross;
    for (word32 begin = is_top ? (part - (n_segments - 1)) * kAcross : 0; begin < chunk.n_own;
         begin += is_top ? kTopBlocks * kAcross : kAcross) {
        if (threadIdx.x < kAcross) {
            seeds[x] = kInfinity;
        }
        __syncthreads();
        const word32 own = begin + x;
        if (own < chunk.n_own) {
            sweep_word least = kInfinity;
#pragma unroll 8
            for (word32 i = threadIdx.x / kAcross; i < n; i += kSeedParts) {
                least = lower(least, distances[i], from_own[places[i] * chunk.n_own + own]);
            }
            atomicMin(&seeds[x], least);
        }
        __syncthreads();
        if (threadIdx.x < kAcross && own < chunk.n_own) {
            if (segment.chunk >= first_low) {
                low_seeds[lane * kMostLow + own] = seeds[x];
            } else {
                rows[static_cast<word64>(chunk.first_place + own) * n_lanes + lane] = seeds[x];
            }
        }
    }
    if (threadIdx.x == 0) {
        atomicOr(&seeded[segment.chunk * (n_lanes / 32) + lane / 32], 1u << lane % 32);
    }
}

template <int kEach>
struct alignas(sizeof(sweep_word) * kEach) Lanes {
    sweep_word words[kEach];
};

// What a thread has found of its lanes.
template <int kEach>
struct Found {
    word32 n_rows = 0;
    word64 n_edges = 0;
    word32 unreached[kEach] = {};
    word64 edges_of_unreached[kEach] = {};
    sweep_word largest[kEach] = {};
    word64 lower[kEach] = {};
    word64 upper[kEach] = {};

    __device__ __forceinline__ void add(const sweep_word (&rows)[kTile][kEach], word32 n, const word64* edges_before,
                                        sweep_word limit) {
        n_rows += n;
        n_edges += edges_before[n] - edges_before[0];
#pragma unroll
        for (int p = 0; p < kEach; ++p) {
            sweep_word most = 0;
#pragma unroll
            for (int i = 0; i < kTile; ++i) {
                most = i < n ? max(most, rows[i][p]) : most;
            }
            if (most < limit) {
#pragma unroll
                for (int i = 0; i < kTile; ++i) {
                    sum(p, i < n ? rows[i][p] : 0);
                }
            } else {
                most = 0;
#pragma unroll
                for (int i = 0; i < kTile; ++i) {
                    if (i < n) {
                        const bool is_reached = rows[i][p] < limit;
                        sum(p, is_reached ? rows[i][p] : 0);
                        most = is_reached ? max(most, rows[i][p]) : most;
                        unreached[p] += is_reached ? 0 : 1;
                        edges_of_unreached[p] += is_reached ? 0 : edges_before[i + 1] - edges_before[i];
                    }
                }
            }
            largest[p] = max(largest[p], most);
        }
    }

    __device__ __forceinline__ void sum(int p, sweep_word d) {
        lower[p] += static_cast<word32>(d);
#if SSSP_WIDE
        upper[p] += d >> 32;
#endif
    }

};

// What the warps of a block have found of their lanes together.
template <int kEach>
struct Totals {
    word64 reached[32 * kEach];
    word64 edges_of_reached[32 * kEach];
    word64 largest[32 * kEach];
    word64 lower[32 * kEach];
    word64 upper[32 * kEach];
};

// What a warp reads of a tile before its product: thread i has boundary vertex i, and the bits of its own lanes.
struct Ahead {
    Tile tile;
    word32 boundary;
    word32 bits;

    template <int kEach>
    __device__ __forceinline__ void read(const word32* all_boundary, const word32* seeded, word32 n_lanes, word32 lane) {
        const word32 i = threadIdx.x % 32;
        boundary = i < tile.n_boundary ? all_boundary[tile.first_boundary + i] : 0;
        bits = seeded[tile.chunk * (n_lanes / 32) + lane / 32] >> lane % 32 & ((1u << kEach) - 1);
    }
};

// The rows of a tile. `seeds` are those of its chunk, by lane if is_low, or else by place.
template <int kEach, word32 kBatch>
__device__ __forceinline__ void product(const Ahead& ahead, const word32* boundary, const sweep_word* from_boundary,
                                        const sweep_word* seeds, bool is_low, word32 n_lanes, word32 lane,
                                        const sweep_word* rows, sweep_word (&least)[kTile][kEach]) {
    const Tile& tile = ahead.tile;
#pragma unroll
    for (int i = 0; i < kTile; ++i) {
#pragma unroll
        for (int p = 0; p < kEach; ++p) {
            least[i][p] = kInfinity;
        }
    }
    if (ahead.bits != 0) {
#pragma unroll
        for (int i = 0; i < kTile; ++i) {
#pragma unroll
            for (int p = 0; p < kEach; ++p) {
                if (i < tile.n_rows && (ahead.bits >> p & 1) != 0) {
                    least[i][p] = is_low ? seeds[(lane + p) * kMostLow + tile.first_local + i]
                                         : seeds[static_cast<word64>(tile.first_place + i) * n_lanes + lane + p];
                }
            }
        }
    }
    for (word32 first = 0; first < tile.n_boundary; first += 32) {
        const word32 n = min(tile.n_boundary - first, 32u);
        word32 mine = ahead.boundary;
        if (first > 0) {
            mine = threadIdx.x % 32 < n ? boundary[tile.first_boundary + first + threadIdx.x % 32] : 0;
        }
        // All loads of a batch are under way together. A last batch that is too short repeats its last vertex.
        for (word32 begin = 0; begin < n; begin += kBatch) {
            Lanes<kEach> above[kBatch];
            Lanes<4> weights[kBatch][2];
#pragma unroll
            for (word32 j = 0; j < kBatch; ++j) {
                const word32 k = min(begin + j, n - 1);
                const word64 place = __shfl_sync(kWholeWarp, mine, k);
                const auto* matrix =
                    reinterpret_cast<const Lanes<4>*>(from_boundary + tile.matrix + (first + k) * kTile);
                above[j] = *reinterpret_cast<const Lanes<kEach>*>(rows + place * n_lanes + lane);
                weights[j][0] = matrix[0];
                weights[j][1] = matrix[1];
            }
#pragma unroll
            for (word32 j = 0; j < kBatch; ++j) {
#pragma unroll
                for (int i = 0; i < kTile; ++i) {
#pragma unroll
                    for (int p = 0; p < kEach; ++p) {
                        least[i][p] = lower(least[i][p], above[j].words[p], weights[j][i / 4].words[i % 4]);
                    }
                }
            }
        }
    }
}

template <int kEach>
__device__ __forceinline__ void write_rows(const Tile& tile, word32 n_lanes, word32 lane, sweep_word* rows,
                                           const sweep_word (&least)[kTile][kEach]) {
#pragma unroll
    for (int i = 0; i < kTile; ++i) {
        if (i < tile.n_rows) {
            Lanes<kEach> line;
#pragma unroll
            for (int p = 0; p < kEach; ++p) {
                line.words[p] = least[i][p];
            }
            *reinterpret_cast<Lanes<kEach>*>(rows + static_cast<word64>(tile.first_place + i) * n_lanes + lane) = line;
        }
    }
}

constexpr word32 kSweepBlock = 256;
constexpr word32 kWarps = kSweepBlock / 32;

// A block has 32 * kEach lanes, and its warps have tiles that follow each other: these share most of their boundary.
template <int kEach>
__device__ __forceinline__ void sweep(const Tile* tiles, word32 n_tiles, const word32* boundary,
                                      const sweep_word* from_boundary, const word32* seeded, word32 n_lanes,
                                      sweep_word* rows) {
    const word32 blocks_of_lanes = n_lanes / (32 * kEach);
    const word32 lane = (blockIdx.x % blocks_of_lanes * 32 + threadIdx.x % 32) * kEach;
    const word32 t = blockIdx.x / blocks_of_lanes * kWarps + threadIdx.x / 32;
    if (t < n_tiles) {
        constexpr word32 batch = kEach == 4 ? 3 : 8;
        Ahead ahead{tiles[t]};
        ahead.read<kEach>(boundary, seeded, n_lanes, lane);
        sweep_word least[kTile][kEach];
        product<kEach, batch>(ahead, boundary, from_boundary, rows, false, n_lanes, lane, rows, least);
        write_rows<kEach>(ahead.tile, n_lanes, lane, rows, least);
    }
}

// Takes the tiles from `first_low` on, and counts what is below `limit` in the rows of all tiles. The rows of earlier
// tiles are read, those of its own are written if `writes`.
//
// edges_before (V+1,): how many edges leave the vertices of lower places.
template <int kEach>
__device__ __forceinline__ void sweep_last(const Tile* tiles, word32 n_tiles, word32 first_low,
                                           const word32* boundary, const sweep_word* from_boundary,
                                           const word32* seeded, const sweep_word* low_seeds,
                                           const word64* edges_before, word32 n_sources, word32 n_lanes,
                                           sweep_word limit, word32 writes, sweep_word* rows, Summary* summaries) {
    __shared__ Totals<kEach> totals;
    for (word32 i = threadIdx.x; i < sizeof(totals) / sizeof(word64); i += kSweepBlock) {
        reinterpret_cast<word64*>(&totals)[i] = 0;
    }
    __syncthreads();
    const word32 blocks_of_lanes = n_lanes / (32 * kEach);
    const word32 lane_of_block = threadIdx.x % 32 * kEach;
    const word32 lane = blockIdx.x % blocks_of_lanes * 32 * kEach + lane_of_block;
    Found<kEach> found;
    const word32 step = gridDim.x / blocks_of_lanes * kWarps;
    word32 t = blockIdx.x / blocks_of_lanes * kWarps + threadIdx.x / 32;
    Ahead ahead{};
    if (t < n_tiles) {
        ahead.tile = tiles[t];
        ahead.read<kEach>(boundary, seeded, n_lanes, lane);
    }
    for (; t < n_tiles; t += step) {
        const Tile tile = ahead.tile;
        const Tile next = t + step < n_tiles ? tiles[t + step] : Tile{};
        sweep_word least[kTile][kEach];
        if (t < first_low) {
#pragma unroll
            for (int i = 0; i < kTile; ++i) {
                if (i < tile.n_rows) {
                    const auto row = *reinterpret_cast<const Lanes<kEach>*>(
                        rows + static_cast<word64>(tile.first_place + i) * n_lanes + lane);
#pragma unroll
                    for (int p = 0; p < kEach; ++p) {
                        least[i][p] = row.words[p];
                    }
                }
            }
        } else {
            constexpr word32 batch = kEach == 4 ? 3 : 4;
            product<kEach, batch>(ahead, boundary, from_boundary, low_seeds, true, n_lanes, lane, rows, least);
        }
        ahead.tile = next;
        ahead.read<kEach>(boundary, seeded, n_lanes, lane);
        if (t >= first_low && writes) {
            write_rows<kEach>(tile, n_lanes, lane, rows, least);
        }
        found.add(least, tile.n_rows, edges_before + tile.first_place, limit);
    }
#pragma unroll
    for (int p = 0; p < kEach; ++p) {
        atomicAdd(&totals.reached[lane_of_block + p], static_cast<word64>(found.n_rows - found.unreached[p]));
        atomicAdd(&totals.edges_of_reached[lane_of_block + p], found.n_edges - found.edges_of_unreached[p]);
        atomicMax(&totals.largest[lane_of_block + p], static_cast<word64>(found.largest[p]));
        atomicAdd(&totals.lower[lane_of_block + p], found.lower[p]);
        atomicAdd(&totals.upper[lane_of_block + p], found.upper[p]);
    }
    __syncthreads();
    const word32 source = blockIdx.x % blocks_of_lanes * 32 * kEach + threadIdx.x;
    if (threadIdx.x < 32 * kEach && source < n_sources) {
        Summary* const summary = summaries + source;
        atomicAdd(&summary->reached, totals.reached[threadIdx.x]);
        atomicAdd(&summary->edges_of_reached, totals.edges_of_reached[threadIdx.x]);
        atomicMax(&summary->max_distance, totals.largest[threadIdx.x]);
        atomicAdd(&summary->sum_lower, totals.lower[threadIdx.x]);
        atomicAdd(&summary->sum_upper, totals.upper[threadIdx.x]);
    }
}

#define SSSP_SWEEP(lanes_each)                                                                                      \
    extern "C" __global__ void __launch_bounds__(kSweepBlock) sweep_##lanes_each##_kernel(                          \
        const Tile* tiles, word32 n_tiles, const word32* boundary, const sweep_word* from_boundary,                 \
        const word32* seeded, word32 n_lanes, sweep_word* rows) {                                                   \
        sweep<lanes_each>(tiles, n_tiles, boundary, from_boundary, seeded, n_lanes, rows);                          \
    }                                                                                                               \
    extern "C" __global__ void __launch_bounds__(kSweepBlock) last_##lanes_each##_kernel(                           \
        const Tile* tiles, word32 n_tiles, word32 first_low, const word32* boundary,                                \
        const sweep_word* from_boundary, const word32* seeded, const sweep_word* low_seeds,                         \
        const word64* edges_before, word32 n_sources, word32 n_lanes, sweep_word limit, word32 writes,              \
        sweep_word* rows, Summary* summaries) {                                                                     \
        sweep_last<lanes_each>(tiles, n_tiles, first_low, boundary, from_boundary, seeded, low_seeds, edges_before, \
                               n_sources, n_lanes, limit, writes, rows, summaries);                                 \
    }

SSSP_SWEEP(1)
SSSP_SWEEP(2)
#if !SSSP_WIDE
SSSP_SWEEP(4)
#endif

// Lanes and vertices of a square, and the words that a thread reads together.
constexpr word32 kLanesSide = SSSP_WIDE ? 32 : 64;
constexpr word32 kSide = 128;
constexpr word32 kRowsBlock = 256;
constexpr word32 kTogether = 16 / sizeof(sweep_word);

// Writes rows_by_source (n_sources, n): the distances to the vertices of `places` (n,), at most `limit`. A block has a
// square of kLanesSide lanes and kSide vertices.
extern "C" __global__ void __launch_bounds__(kRowsBlock)
rows_kernel(const sweep_word* rows, const word32* places, word32 n, word32 n_sources, word32 n_lanes,
            sweep_word limit, distance_bits beyond, distance_bits* rows_by_source) {
    __shared__ sweep_word square[kLanesSide][kSide + 1];
    constexpr word32 threads_a_row = kLanesSide / kTogether;
    constexpr word32 rows_at_once = kRowsBlock / threads_a_row;
    const word32 n_across = (n_sources + kLanesSide - 1) / kLanesSide;
    const word32 first_lane = blockIdx.x % n_across * kLanesSide;
    const word64 first = static_cast<word64>(blockIdx.x / n_across) * kSide;
    const word32 lane = threadIdx.x % threads_a_row * kTogether;
    const word32 row = threadIdx.x / threads_a_row;
    Lanes<kTogether> read[kSide / rows_at_once] = {};
#pragma unroll
    for (word32 i = 0; i < kSide / rows_at_once; ++i) {
        const word64 v = first + row + i * rows_at_once;
        if (v < n && first_lane + lane < n_lanes) {
            read[i] = *reinterpret_cast<const Lanes<kTogether>*>(
                rows + static_cast<word64>(places[v]) * n_lanes + first_lane + lane);
        }
    }
#pragma unroll
    for (word32 i = 0; i < kSide / rows_at_once; ++i) {
#pragma unroll
        for (word32 p = 0; p < kTogether; ++p) {
            square[lane + p][row + i * rows_at_once] = read[i].words[p];
        }
    }
    __syncthreads();
    const word32 x = threadIdx.x % 32;
#pragma unroll
    for (word32 y = threadIdx.x / 32; y < kLanesSide; y += kRowsBlock / 32) {
        distance_bits* into = rows_by_source + static_cast<word64>(first_lane + y) * n + first;
        if (first_lane + y < n_sources) {
#pragma unroll
            for (word32 v = x; v < kSide; v += 32) {
                if (first + v < n) {
                    const sweep_word d = square[y][v];
                    into[v] = d < limit ? static_cast<distance_bits>(d) : beyond;
                }
            }
        }
    }
}
