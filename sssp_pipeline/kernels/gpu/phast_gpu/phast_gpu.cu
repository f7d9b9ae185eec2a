// Distances from many sources by a hierarchy that is cut into chunks (`chunks.py`), without a search.
//
// Returns: rows (n, V), source by source, the distances in the order of the graph.
//
// Idea:
//   1. `climb.cu` finds the seeds of the chunks on the way up from each source.
//   2. sweep_kernel, a launch for each band, from the top down: the rows of a chunk are the least of its seeds and of
//      the min-plus product of `from_boundary` with the rows of the boundary. A warp computes 8 rows of 32 to 256
//      lanes in registers. There is no order inside a band, so nothing waits. The rows of chunks with long boundaries are
//      computed by blocks (`front_rows.cu`).
//   3. last_kernel does the same for the last band, which has most vertices, and counts over all rows. If nothing is
//      counted, sweep_kernel takes the last band too, and only tiles that the wanted rows follow from are launched.
//   4. rows_kernel: from rows by place, with a lane for each source, to rows by source.
//   With a cutoff (SSSP_CUTOFF), a tile is not computed if nothing of its boundary is below the limit (`near`).
// docs/design/0021-phast-gpu.md has the measurements.
//
// Needs: rows by place (V, n_lanes); n_lanes a multiple of 32 times the lanes of a thread.
// Keeps
//     I1. The rows of the boundary of a chunk are final before its band is launched.
//     I2. A bit of `seeded` is set for a chunk and a lane if there are seeds. Other seeds are not read.
//     I3. If `near` of a chunk that is not in the last band is 0 for 32 lanes, its rows are at the limit or above it
//         there. Then so is every row that follows from them and has no seeds.
// Memory order: relaxed; launches follow each other on one stream.

#include "call.cuh"
#include "warm_up.cuh"

// Eight distances below this have a sum of 32 bits.
constexpr sweep_word kSmall = 1u << 29;

// The sums of the lower 32 bits of some packed words, in each lane.
class Sums {
  public:
    __device__ __forceinline__ void add(packed_word packed) {
        all_ += static_cast<word32>(packed);
#if SSSP_WORD_BITS == 16
        upper_ += packed >> 16;
#endif
    }

    __device__ __forceinline__ word32 of(word32 i) const {
#if SSSP_WORD_BITS == 16
        return i == 0 ? all_ - (upper_ << 16) : upper_;
#else
        return all_;
#endif
    }

  private:
    word32 all_ = 0;
#if SSSP_WORD_BITS == 16
    word32 upper_ = 0;
#endif
};

__device__ __forceinline__ bool all_below(packed_word packed, sweep_word limit) {
#if SSSP_WORD_BITS == 16
    return (packed & 0xffff) < limit && packed >> 16 < limit;
#else
    return packed < limit;
#endif
}

// What a thread has found of its lanes, kPacked in each of kEach packed words.
template <int kEach>
struct Found {
    word32 unreached[kEach * kPacked] = {};
    word64 edges_of_unreached[kEach * kPacked] = {};
    packed_word largest[kEach] = {};
    word64 lower[kEach * kPacked] = {};
    word64 upper[kEach * kPacked] = {};

    // The rows from `n` on are changed.
    __device__ __forceinline__ void add(packed_word (&rows)[kTile][kEach], word32 n, const word64* edges_before,
                                        sweep_word limit) {
        if (n < kTile) {
#pragma unroll
            for (int i = 1; i < kTile; ++i) {
#pragma unroll
                for (int p = 0; p < kEach; ++p) {
                    rows[i][p] = i < n ? rows[i][p] : 0;
                }
            }
        }
#pragma unroll
        for (int p = 0; p < kEach; ++p) {
            packed_word most = 0;
            Sums sums;
#pragma unroll
            for (int i = 0; i < kTile; ++i) {
                most = larger_of_lanes(most, rows[i][p]);
                sums.add(rows[i][p]);
            }
            if (all_below(most, min(limit, kSmall))) {
#pragma unroll
                for (word32 half = 0; half < kPacked; ++half) {
                    lower[p * kPacked + half] += sums.of(half);
                }
                largest[p] = larger_of_lanes(largest[p], most);
                continue;
            }
#pragma unroll
            for (word32 half = 0; half < kPacked; ++half) {
                sweep_word least = kInfinity;
#pragma unroll
                for (int i = 0; i < kTile; ++i) {
                    least = i < n ? min(least, word_of(rows[i][p], half)) : least;
                }
                if (least >= limit) {
                    unreached[p * kPacked + half] += n;
                    edges_of_unreached[p * kPacked + half] += edges_before[n] - edges_before[0];
                } else {
                    packed_word found = 0;
                    set_word(found, half, add_one_by_one(rows, p, half, n, edges_before, limit));
                    largest[p] = larger_of_lanes(largest[p], found);
                }
            }
        }
    }

    // Returns the largest row below `limit`.
    __device__ __forceinline__ sweep_word add_one_by_one(const packed_word (&rows)[kTile][kEach], int p, word32 half,
                                                         word32 n, const word64* edges_before, sweep_word limit) {
        sweep_word most = 0;
        const word32 lane = p * kPacked + half;
#pragma unroll
        for (int i = 0; i < kTile; ++i) {
            const sweep_word row = word_of(rows[i][p], half);
            if (i < n && row < limit) {
                lower[lane] += static_cast<word32>(row);
#if SSSP_WORD_BITS == 64
                upper[lane] += row >> 32;
#endif
                most = max(most, row);
            } else if (i < n) {
                unreached[lane] += 1;
                edges_of_unreached[lane] += edges_before[i + 1] - edges_before[i];
            }
        }
        return most;
    }
};

// What the warps of a block have found of their lanes together.
template <word32 kLanes>
struct Totals {
    word64 unreached[kLanes];
    word64 edges_of_unreached[kLanes];
    word64 largest[kLanes];
    word64 lower[kLanes];
    word64 upper[kLanes];
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
        bits = call.seeded[tile.chunk * (call.n_lanes / 32) + lane / 32] >> lane % 32 & ((1u << kEach * kPacked) - 1);
#if SSSP_CUTOFF
        if (!is_near<kEach>(call, lane)) {
            tile.n_boundary = 0;  // nothing is below the limit in any lane of the warp
        }
#endif
    }

#if SSSP_CUTOFF
    template <int kEach>
    __device__ __forceinline__ bool is_near(const Call& call, word32 lane) const {
        constexpr word32 n_words = kEach * kPacked;  // of the lanes of the warp
        const word32 first_word = lane / (32 * n_words) * n_words;
        bool found = bits != 0;
        for (word32 i = threadIdx.x % 32; i < tile.n_boundary; i += 32) {
            const word32 chunk = call.chunks_of_places[call.boundary[tile.first_boundary + i]];
            const word32* words = call.near + chunk * (call.n_lanes / 32) + first_word;
#pragma unroll
            for (int p = 0; p < n_words; ++p) {
                found |= words[p] != 0;
            }
        }
        return __any_sync(kWholeWarp, found);
    }
#endif
};

// Lowers the rows of a tile by those of the boundary vertices `first` to `first` + kCount - 1 of 32 whose places the warp
// has. All loads are under way together.
template <int kEach, word32 kCount>
__device__ __forceinline__ void lower_by(const stored_word* rows, word32 row_bytes, const stored_word* matrix,
                                         word32 mine, word32 first, packed_word (&least)[kTile][kEach]) {
    constexpr word32 n_reads = kTile / kPacked / 4;
    Lanes<kEach> above[kCount];
    Words<packed_word, 4> weights[kCount][n_reads];
    const auto* words = reinterpret_cast<const Words<packed_word, 4>*>(matrix + first * kTile);
    const char* row_of[kCount];
#pragma unroll
    for (word32 j = 0; j < kCount; ++j) {
        const word64 place = __shfl_sync(kWholeWarp, mine, first + j);
        row_of[j] = reinterpret_cast<const char*>(rows) + place * row_bytes;
    }
#pragma unroll
    for (word32 j = 0; j < kCount; ++j) {
        above[j] = *reinterpret_cast<const Lanes<kEach>*>(row_of[j]);
#pragma unroll
        for (word32 i = 0; i < n_reads; ++i) {
            weights[j][i] = words[n_reads * j + i];
        }
    }
#pragma unroll
    for (word32 j = 0; j < kCount; ++j) {
#pragma unroll
        for (int i = 0; i < kTile; ++i) {
            const word32 word = i / kPacked;
            const packed_word weight = for_each_lane(weights[j][word / 4].words[word % 4], i % kPacked);
#pragma unroll
            for (int p = 0; p < kEach; ++p) {
                least[i][p] = lower_lanes(least[i][p], above[j].words[p], weight);
            }
        }
    }
}

// The same for the vertices from `first` to `n` - 1, at most kMost.
template <int kEach, word32 kMost>
__device__ __forceinline__ void lower_by_rest(const stored_word* rows, word32 row_bytes, const stored_word* matrix,
                                              word32 mine, word32 first, word32 n, packed_word (&least)[kTile][kEach]) {
    if constexpr (kMost > 0) {
        if (n - first == kMost) {
            lower_by<kEach, kMost>(rows, row_bytes, matrix, mine, first, least);
        } else {
            lower_by_rest<kEach, kMost - 1>(rows, row_bytes, matrix, mine, first, n, least);
        }
    }
}

// The rows of a tile; `is_low` if it is in the last band.
template <int kEach, word32 kBatch>
__device__ __forceinline__ void product(const Call& call, const Ahead& ahead, word32 lane, bool is_low,
                                        packed_word (&least)[kTile][kEach]) {
    const Tile& tile = ahead.tile;
    const word32 n_lanes = call.n_lanes;
#pragma unroll
    for (int i = 0; i < kTile; ++i) {
#pragma unroll
        for (int p = 0; p < kEach; ++p) {
            least[i][p] = kInfinities;
        }
    }
    if (ahead.bits != 0) {
#pragma unroll
        for (int i = 0; i < kTile; ++i) {
#pragma unroll
            for (int p = 0; p < kEach * kPacked; ++p) {
                if (i < tile.n_rows && (ahead.bits >> p & 1) != 0) {
                    const sweep_word seed = is_low
                                                ? call.low_seeds[(lane + p) * kMostLow + tile.first_local + i]
                                                : call.rows[static_cast<word64>(tile.first_place + i) * n_lanes + lane + p];
                    set_word(least[i][p / kPacked], p % kPacked, seed);
                }
            }
        }
    }
    const stored_word* rows = call.rows + lane;
    const word32 row_bytes = n_lanes * sizeof(stored_word);
    const stored_word* matrix = call.from_boundary + tile.matrix;
    constexpr word32 window = 32 / kBatch * kBatch;
    for (word32 first = 0; first < tile.n_boundary; first += window) {
        const word32 n = min(tile.n_boundary - first, window);
        word32 mine = ahead.boundary;
        if (first > 0) {
            mine = threadIdx.x % 32 < n ? call.boundary[tile.first_boundary + first + threadIdx.x % 32] : 0;
        }
        word32 begin = 0;
        for (; begin + kBatch <= n; begin += kBatch) {
            lower_by<kEach, kBatch>(rows, row_bytes, matrix, mine, begin, least);
        }
        lower_by_rest<kEach, kBatch - 1>(rows, row_bytes, matrix, mine, begin, n, least);
        matrix += window * kTile;
    }
}

template <int kEach>
__device__ __forceinline__ void write_rows(const Call& call, const Tile& tile, word32 lane,
                                           const packed_word (&least)[kTile][kEach]) {
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
                                          const packed_word (&least)[kTile][kEach]) {
    constexpr word32 n_words = kEach * kPacked;  // of the lanes of the warp
    bool found = false;
#pragma unroll
    for (int i = 0; i < kTile; ++i) {
#pragma unroll
        for (int p = 0; p < kEach; ++p) {
            found |= i < tile.n_rows && any_below(least[i][p], static_cast<sweep_word>(call.limit));
        }
    }
    if (__any_sync(kWholeWarp, found) && threadIdx.x % 32 < n_words) {
        const word32 word = lane / (32 * n_words) * n_words + threadIdx.x % 32;
        atomicOr(&call.near[tile.chunk * (call.n_lanes / 32) + word], 1u);
    }
}
#endif

constexpr word32 kWarps = kSweepBlock / 32;

// Takes the tiles of `swept` from `first` to `end` - 1, and counts nothing. A block has kEach packed words of 32 threads,
// and its warps have tiles that follow each other: these share most of their boundary.
template <int kEach>
__device__ __forceinline__ void sweep(const Call& call, word32 first, word32 end) {
    const word32 blocks_of_lanes = call.n_lanes / (32 * kEach * kPacked);
    const word32 lane = (blockIdx.x % blocks_of_lanes * 32 + threadIdx.x % 32) * kEach * kPacked;
    const word32 t = first + blockIdx.x / blocks_of_lanes * kWarps + threadIdx.x / 32;
    if (t < end) {
        constexpr word32 batch = kEach == 4 ? 3 : 4;
        Ahead ahead{call.swept[t]};
        ahead.read<kEach>(call, lane);
        warm_up_boundary<kEach>(call.rows + lane, call.n_lanes * sizeof(stored_word), call.from_boundary + ahead.tile.matrix,
                                min(ahead.tile.n_boundary, 32u), ahead.boundary);
        packed_word least[kTile][kEach];
        const bool is_low = first >= call.first_low_tile;
        product<kEach, batch>(call, ahead, lane, is_low, least);
        write_rows<kEach>(call, ahead.tile, lane, least);
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
    constexpr word32 lanes_of_block = 32 * kEach * kPacked;
    __shared__ Totals<lanes_of_block> totals;
    for (word32 i = threadIdx.x; i < sizeof(totals) / sizeof(word64); i += kSweepBlock) {
        reinterpret_cast<word64*>(&totals)[i] = 0;
    }
    __syncthreads();
    const word32 blocks_of_lanes = call.n_lanes / lanes_of_block;
    const sweep_word limit = static_cast<sweep_word>(call.limit);
    const word32 lane_of_block = threadIdx.x % 32 * kEach * kPacked;
    const word32 lane = blockIdx.x % blocks_of_lanes * lanes_of_block + lane_of_block;
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
        packed_word least[kTile][kEach];
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
    for (int p = 0; p < kEach * kPacked; ++p) {
        atomicAdd(&totals.unreached[lane_of_block + p], static_cast<word64>(found.unreached[p]));
        atomicAdd(&totals.edges_of_unreached[lane_of_block + p], found.edges_of_unreached[p]);
        atomicMax(&totals.largest[lane_of_block + p], static_cast<word64>(word_of(found.largest[p / kPacked], p % kPacked)));
        atomicAdd(&totals.lower[lane_of_block + p], found.lower[p]);
        atomicAdd(&totals.upper[lane_of_block + p], found.upper[p]);
    }
    __syncthreads();
    const word32 source = blockIdx.x % blocks_of_lanes * lanes_of_block + threadIdx.x;
    if (threadIdx.x < lanes_of_block && source < call.n_sources) {
        Summary* const summary = call.summaries + source;
        const bool is_first = blockIdx.x < blocks_of_lanes;  // of those that share the lanes
        atomicAdd(&summary->reached, (is_first ? call.n_vertices : 0) - totals.unreached[threadIdx.x]);
        atomicAdd(&summary->edges_of_reached,
                  (is_first ? call.edges_before[call.n_vertices] : 0) - totals.edges_of_unreached[threadIdx.x]);
        atomicMax(&summary->max_distance, totals.largest[threadIdx.x]);
        atomicAdd(&summary->sum_lower, totals.lower[threadIdx.x]);
        atomicAdd(&summary->sum_upper, totals.upper[threadIdx.x]);
    }
}

#define SSSP_SWEEP(each)                                                             \
    extern "C" __global__ void __launch_bounds__(kSweepBlock)                        \
    sweep_##each##_kernel(const Call call, word32 first, word32 end) {               \
        sweep<each>(call, first, end);                                               \
    }                                                                                \
    extern "C" __global__ void __launch_bounds__(kSweepBlock)                        \
    last_##each##_kernel(const Call call) {                                          \
        sweep_last<each>(call);                                                      \
    }

SSSP_SWEEP(1)
SSSP_SWEEP(2)
#if SSSP_WORD_BITS != 64
SSSP_SWEEP(4)
#endif

// Lanes and vertices of a square, and the words that a thread reads together.
constexpr word32 kLanesSide = 256 / sizeof(stored_word);
constexpr word32 kSide = 128;
constexpr word32 kRowsBlock = 256;
constexpr word32 kTogether = 16 / sizeof(stored_word);

// Returns the distances to the vertices of `columns`. A block has a square of kLanesSide lanes and kSide vertices.
extern "C" __global__ void __launch_bounds__(kRowsBlock) rows_kernel(const Call call) {
    __shared__ stored_word square[kLanesSide][kSide + 1];
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
    using Read = Words<stored_word, kTogether>;
    Read read[kSide / rows_at_once] = {};
#pragma unroll
    for (word32 i = 0; i < kSide / rows_at_once; ++i) {
        const word64 v = first + row + i * rows_at_once;
        if (v < n && first_lane + lane < call.n_lanes) {
            const word64 place = call.columns[v];
            read[i] = *reinterpret_cast<const Read*>(call.rows + place * call.n_lanes + first_lane + lane);
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
