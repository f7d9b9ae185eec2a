// Distances from many sources by a hierarchy that is cut into chunks (`chunks.py`), without a search.
//
// Returns: rows (n, V), source by source, the distances in the order of the graph.
//
// Idea:
//   1. `climb.cu` finds the seeds of the chunks on the way up from each source.
//   2. sweep_kernel, a launch for each band, from the top down: the rows of a chunk are the least of its seeds and of
//      the min-plus product of `from_boundary` with the rows of the boundary. A warp computes 8 rows of 32 to 128
//      lanes in registers. There is no order inside a band, so nothing waits. A band of few chunks with long boundaries
//      would leave most of the GPU idle, so several warps share a tile there: each takes a part of the boundary.
//   3. last_kernel does the same for the last band, which has most vertices, and counts over all rows. If nothing is
//      counted, sweep_kernel takes the last band too, and only tiles that the wanted rows follow from are launched.
//   4. rows_kernel: from rows by place, with a lane for each source, to rows by source.
//   With a cutoff (SSSP_CUTOFF), a tile is not computed if nothing of its boundary is below the limit (`near`).
// docs/design/0021-phast-gpu.md has the measurements.
//
// Needs: rows by place (V, n_lanes); n_lanes a multiple of 32 times the lanes of a thread.
// Keeps
//     I1. The rows of the boundary of a chunk are final before its band is launched.
//     I2. A bit of `seeded` is set for a chunk and a lane if there are seeds. Other seeds are not read. Chunks that are
//         climbed by products (`n_shared`) have seeds in all lanes.
//     I3. If `near` of a chunk that is not in the last band is 0 for 32 lanes, its rows are at the limit or above it
//         there. Then so is every row that follows from them and has no seeds.
//     I4. Rows whose tiles are shared hold their seeds or kInfinity before their band is launched (`n_cleared`). Then
//         they only fall, by atomic minima, and only to the length of a real path.
// Memory order: relaxed; launches follow each other on one stream.

#include "call.cuh"

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
                sweep_word least = kInfinity;
#pragma unroll
                for (int i = 0; i < kTile; ++i) {
                    least = i < n ? min(least, rows[i][p]) : least;
                }
                most = 0;
                if (least >= limit) {
                    unreached[p] += n;
                    edges_of_unreached[p] += edges_before[n] - edges_before[0];
                    continue;
                }
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
    __device__ __forceinline__ void read(const Call& call, word32 lane) {
        const word32 i = threadIdx.x % 32;
        boundary = i < tile.n_boundary ? call.boundary[tile.first_boundary + i] : 0;
        const word32 all = (1u << kEach) - 1;
        bits = all;
        if (tile.chunk >= call.n_shared) {
            bits = call.seeded[tile.chunk * (call.n_lanes / 32) + lane / 32] >> lane % 32 & all;
        }
#if SSSP_CUTOFF
        if (!is_near<kEach>(call, lane)) {
            tile.n_boundary = 0;  // nothing is below the limit in any lane of the warp
        }
#endif
    }

#if SSSP_CUTOFF
    template <int kEach>
    __device__ __forceinline__ bool is_near(const Call& call, word32 lane) const {
        const word32 first_word = lane / (32 * kEach) * kEach;
        bool found = bits != 0;
        for (word32 i = threadIdx.x % 32; i < tile.n_boundary; i += 32) {
            const word32* words = call.near + call.marks[tile.first_boundary + i].y * (call.n_lanes / 32) + first_word;
#pragma unroll
            for (int p = 0; p < kEach; ++p) {
                found |= words[p] != 0;
            }
        }
        return __any_sync(kWholeWarp, found);
    }
#endif
};

// The rows of a tile; `is_low` if it is in the last band.
template <int kEach, word32 kBatch>
__device__ __forceinline__ void product(const Call& call, const Ahead& ahead, word32 lane, bool is_low,
                                        sweep_word (&least)[kTile][kEach]) {
    const Tile& tile = ahead.tile;
    const word32 n_lanes = call.n_lanes;
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
                    least[i][p] = is_low ? call.low_seeds[(lane + p) * kMostLow + tile.first_local + i]
                                         : call.rows[static_cast<word64>(tile.first_place + i) * n_lanes + lane + p];
                }
            }
        }
    }
    for (word32 first = 0; first < tile.n_boundary; first += 32) {
        const word32 n = min(tile.n_boundary - first, 32u);
        word32 mine = ahead.boundary;
        if (first > 0) {
            mine = threadIdx.x % 32 < n ? call.boundary[tile.first_boundary + first + threadIdx.x % 32] : 0;
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
                    reinterpret_cast<const Lanes<4>*>(call.from_boundary + tile.matrix + (first + k) * kTile);
                above[j] = *reinterpret_cast<const Lanes<kEach>*>(call.rows + place * n_lanes + lane);
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

// The warp's part of a tile whose boundary `n_parts` warps share. All parts have the rows of the whole tile.
__device__ __forceinline__ Tile part_of(Tile tile, word32 part, word32 n_parts) {
    const word32 most = (tile.n_boundary + n_parts - 1) / n_parts;
    const word32 begin = min(part * most, tile.n_boundary);
    tile.first_boundary += begin;
    tile.matrix += begin * kTile;
    tile.n_boundary = min(most, tile.n_boundary - begin);
    return tile;
}

// Lowers rows that other warps lower too.
template <int kEach>
__device__ __forceinline__ void lower_rows(const Call& call, const Tile& tile, word32 lane,
                                           const sweep_word (&least)[kTile][kEach]) {
#pragma unroll
    for (int i = 0; i < kTile; ++i) {
        if (i < tile.n_rows) {
            sweep_word* row = call.rows + static_cast<word64>(tile.first_place + i) * call.n_lanes + lane;
#pragma unroll
            for (int p = 0; p < kEach; ++p) {
                if (least[i][p] < kInfinity) {
                    atomicMin(row + p, least[i][p]);
                }
            }
        }
    }
}

template <int kEach>
__device__ __forceinline__ void write_rows(const Call& call, const Tile& tile, word32 lane,
                                           const sweep_word (&least)[kTile][kEach]) {
#pragma unroll
    for (int i = 0; i < kTile; ++i) {
        if (i < tile.n_rows) {
            Lanes<kEach> line;
#pragma unroll
            for (int p = 0; p < kEach; ++p) {
                line.words[p] = least[i][p];
            }
            const word64 place = tile.first_place + i;
            *reinterpret_cast<Lanes<kEach>*>(call.rows + place * call.n_lanes + lane) = line;
        }
    }
}

#if SSSP_CUTOFF
// Notes that a row of an upper tile is below the limit in a lane of the warp.
template <int kEach>
__device__ __forceinline__ void note_near(const Call& call, const Tile& tile, word32 lane,
                                          const sweep_word (&least)[kTile][kEach]) {
    bool found = false;
#pragma unroll
    for (int i = 0; i < kTile; ++i) {
#pragma unroll
        for (int p = 0; p < kEach; ++p) {
            found |= i < tile.n_rows && least[i][p] < call.limit;
        }
    }
    if (__any_sync(kWholeWarp, found) && threadIdx.x % 32 < kEach) {
        const word32 word = lane / (32 * kEach) * kEach + threadIdx.x % 32;
        atomicOr(&call.near[tile.chunk * (call.n_lanes / 32) + word], 1u);
    }
}
#endif

constexpr word32 kSweepBlock = 256;
constexpr word32 kWarps = kSweepBlock / 32;

// Takes the tiles from `first` to `end` - 1 of a band, and counts nothing. A block has 32 * kEach lanes, and its warps
// have tiles that follow each other: these share most of their boundary. `n_parts` blocks share these tiles.
template <int kEach>
__device__ __forceinline__ void sweep(const Call& call, word32 first, word32 end, word32 n_parts) {
    const word32 blocks_of_lanes = call.n_lanes / (32 * kEach);
    const word32 lane = (blockIdx.x % blocks_of_lanes * 32 + threadIdx.x % 32) * kEach;
    const word32 group = blockIdx.x / blocks_of_lanes;
    const word32 t = first + group / n_parts * kWarps + threadIdx.x / 32;
    if (t < end) {
        constexpr word32 batch = kEach == 4 ? 3 : 8;
        Ahead ahead{part_of(call.tiles[t], group % n_parts, n_parts)};
        ahead.read<kEach>(call, lane);
        sweep_word least[kTile][kEach];
        const bool is_low = first >= call.first_low_tile;
        product<kEach, batch>(call, ahead, lane, is_low, least);
        if (n_parts > 1) {
            lower_rows<kEach>(call, ahead.tile, lane, least);
        } else {
            write_rows<kEach>(call, ahead.tile, lane, least);
        }
#if SSSP_CUTOFF
        if (!is_low) {
            note_near<kEach>(call, ahead.tile, lane, least);
        }
#endif
    }
}

// Takes the tiles of the last band, and counts what is below the limit in the rows of all tiles. The rows of the other
// bands are read.
template <int kEach>
__device__ __forceinline__ void sweep_last(const Call& call) {
    __shared__ Totals<kEach> totals;
    for (word32 i = threadIdx.x; i < sizeof(totals) / sizeof(word64); i += kSweepBlock) {
        reinterpret_cast<word64*>(&totals)[i] = 0;
    }
    __syncthreads();
    const word32 blocks_of_lanes = call.n_lanes / (32 * kEach);
    const sweep_word limit = static_cast<sweep_word>(call.limit);
    const word32 lane_of_block = threadIdx.x % 32 * kEach;
    const word32 lane = blockIdx.x % blocks_of_lanes * 32 * kEach + lane_of_block;
    Found<kEach> found;
    const word32 step = gridDim.x / blocks_of_lanes * kWarps;
    word32 t = blockIdx.x / blocks_of_lanes * kWarps + threadIdx.x / 32;
    Ahead ahead{};
    if (t < call.n_tiles) {
        ahead.tile = call.tiles[t];
        ahead.read<kEach>(call, lane);
    }
    for (; t < call.n_tiles; t += step) {
        const Tile tile = ahead.tile;
        const Tile next = t + step < call.n_tiles ? call.tiles[t + step] : Tile{};
        sweep_word least[kTile][kEach];
        if (t < call.first_low_tile) {
#pragma unroll
            for (int i = 0; i < kTile; ++i) {
                if (i < tile.n_rows) {
                    const word64 place = tile.first_place + i;
                    const auto row = *reinterpret_cast<const Lanes<kEach>*>(call.rows + place * call.n_lanes + lane);
#pragma unroll
                    for (int p = 0; p < kEach; ++p) {
                        least[i][p] = row.words[p];
                    }
                }
            }
        } else {
            constexpr word32 batch = kEach == 4 ? 3 : 4;
            product<kEach, batch>(call, ahead, lane, true, least);
        }
        ahead.tile = next;
        ahead.read<kEach>(call, lane);
        if (t >= call.first_low_tile && call.writes) {
            write_rows<kEach>(call, tile, lane, least);
        }
        found.add(least, tile.n_rows, call.edges_before + tile.first_place, limit);
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
    if (threadIdx.x < 32 * kEach && source < call.n_sources) {
        Summary* const summary = call.summaries + source;
        atomicAdd(&summary->reached, totals.reached[threadIdx.x]);
        atomicAdd(&summary->edges_of_reached, totals.edges_of_reached[threadIdx.x]);
        atomicMax(&summary->max_distance, totals.largest[threadIdx.x]);
        atomicAdd(&summary->sum_lower, totals.lower[threadIdx.x]);
        atomicAdd(&summary->sum_upper, totals.upper[threadIdx.x]);
    }
}

#define SSSP_SWEEP(lanes_each)                                                       \
    extern "C" __global__ void __launch_bounds__(kSweepBlock)                        \
    sweep_##lanes_each##_kernel(const Call call, word32 first, word32 end,           \
                                word32 n_parts) {                                    \
        sweep<lanes_each>(call, first, end, n_parts);                                \
    }                                                                                \
    extern "C" __global__ void __launch_bounds__(kSweepBlock)                        \
    last_##lanes_each##_kernel(const Call call) {                                    \
        sweep_last<lanes_each>(call);                                                \
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

// Returns the distances to the vertices of `columns`. A block has a square of kLanesSide lanes and kSide vertices.
extern "C" __global__ void __launch_bounds__(kRowsBlock) rows_kernel(const Call call) {
    __shared__ sweep_word square[kLanesSide][kSide + 1];
    constexpr word32 threads_a_row = kLanesSide / kTogether;
    constexpr word32 rows_at_once = kRowsBlock / threads_a_row;
    const word32 n = call.n_columns;
    const sweep_word limit = static_cast<sweep_word>(call.limit);
    const distance_bits beyond = static_cast<distance_bits>(call.beyond);
    const word32 n_across = (call.n_sources + kLanesSide - 1) / kLanesSide;
    const word32 first_lane = blockIdx.x % n_across * kLanesSide;
    const word64 first = static_cast<word64>(blockIdx.x / n_across) * kSide;
    const word32 lane = threadIdx.x % threads_a_row * kTogether;
    const word32 row = threadIdx.x / threads_a_row;
    Lanes<kTogether> read[kSide / rows_at_once] = {};
#pragma unroll
    for (word32 i = 0; i < kSide / rows_at_once; ++i) {
        const word64 v = first + row + i * rows_at_once;
        if (v < n && first_lane + lane < call.n_lanes) {
            const word64 place = call.columns[v];
            read[i] = *reinterpret_cast<const Lanes<kTogether>*>(call.rows + place * call.n_lanes + first_lane + lane);
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
        distance_bits* into = call.rows_by_source + static_cast<word64>(first_lane + y) * n + first;
        if (first_lane + y < call.n_sources) {
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
