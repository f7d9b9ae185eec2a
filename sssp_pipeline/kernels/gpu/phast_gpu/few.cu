// The rows of few sources: what `phast_gpu.cu` does for many, where most lanes of a warp would be empty.
//
// Idea: with few sources, time is the latency of reads that follow each other. So threads share the boundary of a tile, not
// the lanes: thread `row` of `part` takes each n_parts-th boundary vertex, for one row and kLanes sources. A thread reads the
// words of several boundary vertices together, so a tile takes three reads one after the other, or two more for each
// further window of boundary vertices.
//   1. sweep_kernel: all tiles of a band. Tiles of fronts are among them. Where tiles are few, up to 32 warps share one.
//   2. last_kernel: the tiles of the last band, and the counts over all rows. Boundaries are short there, so a warp has up
//      to four tiles.
//   3. rows_kernel: from rows by place to rows by source.
// Nothing is left out with a cutoff. The rows are the same.
//
// Needs and keeps: as `phast_gpu.cu`. Groups of kLanes sources are apart. Lanes after the last group are not read.
// Memory order: relaxed; launches follow each other on one stream.

#include "call.cuh"

constexpr word32 kFewBlock = 256;
constexpr word32 kWarps = kFewBlock / 32;
// The most threads of a block of sweep_kernel, and parts of a boundary in a warp.
constexpr word32 kMostBlock = 1024;
constexpr word32 kParts = 32 / kTile;
// Boundary vertices that a thread reads together; more take too many registers.
template <int kLanes>
constexpr word32 kSteps = (kLanes == 1 ? 32 : 16) / sizeof(sweep_word);

// One row as it is in memory, and in registers, for each source.
template <int kLanes>
using Row = Words<stored_word, kLanes>;
template <int kLanes>
using Lengths = Words<sweep_word, kLanes>;

// The words of the sources from `lane` on.
template <int kLanes>
__device__ __forceinline__ Row<kLanes>& row_at(const Call& call, word64 place, word32 lane) {
    return *reinterpret_cast<Row<kLanes>*>(call.rows + place * call.n_lanes + lane);
}

template <int kLanes>
__device__ __forceinline__ Lengths<kLanes> unreached() {
    Lengths<kLanes> lengths;
#pragma unroll
    for (int p = 0; p < kLanes; ++p) {
        lengths.words[p] = kInfinity;
    }
    return lengths;
}

template <int kLanes>
__device__ __forceinline__ void lower_to(Lengths<kLanes>& least, const Lengths<kLanes>& other) {
#pragma unroll
    for (int p = 0; p < kLanes; ++p) {
        least.words[p] = min(least.words[p], other.words[p]);
    }
}

// The seeds of a row of a tile. `is_low` if the tile is in the last band.
template <int kLanes>
__device__ __forceinline__ Lengths<kLanes> seeds(const Call& call, const Tile& tile, word32 row, word32 lane,
                                                 word32 seeded, bool is_low) {
    Lengths<kLanes> least = unreached<kLanes>();
    // Where sources climb together, seeds have no bits (`front_rows.cu`).
    if (call.climbs_together != nullptr && call.climbs_together[tile.chunk] != 0) {
        seeded = ~0u;
    }
#pragma unroll
    for (int p = 0; p < kLanes; ++p) {
        if ((seeded >> (lane + p) & 1) != 0) {
            least.words[p] = is_low ? call.low_seeds[(lane + p) * kMostLow + tile.first_local + row]
                                    : call.rows[(tile.first_place + row) * word64{call.n_lanes} + lane + p];
        }
    }
    return least;
}

// A row of a tile, as far as it follows from part `part` of n_parts of the boundary; the first part has the seeds.
template <int kLanes>
__device__ __forceinline__ Lengths<kLanes> product(const Call& call, const Tile& tile, word32 row, word32 lane,
                                                   word32 part, word32 n_parts, bool is_low) {
    constexpr word32 steps = kSteps<kLanes>;
    const word32 seeded = call.seeded[tile.chunk * (call.n_lanes / 32)];
    const stored_word* matrix = call.from_boundary + tile.matrix + row;
    Lengths<kLanes> least = unreached<kLanes>();
    for (word32 first = part; first < max(tile.n_boundary, 1u); first += steps * n_parts) {
        word32 places[steps];
        sweep_word weights[steps];
        Row<kLanes> above[steps];
#pragma unroll
        for (word32 i = 0; i < steps; ++i) {
            const word32 b = first + i * n_parts;
            if (b < tile.n_boundary) {
                places[i] = call.boundary[tile.first_boundary + b];
                weights[i] = matrix[b * kTile];
            }
        }
        if (first == 0 && row < tile.n_rows) {
            least = seeds<kLanes>(call, tile, row, lane, seeded, is_low);
        }
#pragma unroll
        for (word32 i = 0; i < steps; ++i) {
            if (first + i * n_parts < tile.n_boundary) {
                above[i] = row_at<kLanes>(call, places[i], lane);
            }
        }
#pragma unroll
        for (word32 i = 0; i < steps; ++i) {
            if (first + i * n_parts < tile.n_boundary) {
#pragma unroll
                for (int p = 0; p < kLanes; ++p) {
                    least.words[p] = lower(least.words[p], above[i].words[p], weights[i]);
                }
            }
        }
    }
    return least;
}

// Lowers the row of a thread by those of the other parts in its warp, n_parts of them; all threads call it.
template <int kLanes>
__device__ __forceinline__ void lower_by_warp(Lengths<kLanes>& least, word32 n_parts) {
    for (word32 apart = kTile; apart < kTile * n_parts; apart *= 2) {
#pragma unroll
        for (int p = 0; p < kLanes; ++p) {
            least.words[p] = min(least.words[p], __shfl_xor_sync(kWholeWarp, least.words[p], apart));
        }
    }
}

template <int kLanes>
__device__ __forceinline__ void write_row(const Call& call, word64 place, word32 lane, const Lengths<kLanes>& least) {
    Row<kLanes> row;
#pragma unroll
    for (int p = 0; p < kLanes; ++p) {
        row.words[p] = static_cast<stored_word>(least.words[p]);
    }
    row_at<kLanes>(call, place, lane) = row;
}

// Takes the tiles of `swept` from `first` to `end` - 1, for one group of sources. `n_warps` share a tile.
template <int kLanes>
__device__ __forceinline__ void sweep(const Call& call, word32 first, word32 end, word32 n_warps) {
    __shared__ Lengths<kLanes> of_warps[kMostBlock / 32][kTile];
    const word32 n_groups = (call.n_sources + kLanes - 1) / kLanes;
    const word32 lane = blockIdx.x % n_groups * kLanes;
    const word32 warp = threadIdx.x / 32;
    const word32 row = threadIdx.x % kTile;
    const word32 t = first + blockIdx.x / n_groups * (blockDim.x / 32 / n_warps) + warp / n_warps;
    const word32 part = warp % n_warps * kParts + threadIdx.x % 32 / kTile;
    Tile tile{};
    Lengths<kLanes> least = unreached<kLanes>();
    if (t < end) {
        tile = call.swept[t];
        least = product<kLanes>(call, tile, row, lane, part, n_warps * kParts, first >= call.first_low_tile);
    }
    lower_by_warp<kLanes>(least, kParts);
    if (n_warps > 1) {
        if (threadIdx.x % 32 < kTile) {
            of_warps[warp][row] = least;
        }
        __syncthreads();
        if (part == 0) {
            for (word32 other = 1; other < n_warps; ++other) {
                lower_to<kLanes>(least, of_warps[warp + other][row]);
            }
        }
    }
    if (part == 0 && row < tile.n_rows) {
        write_row<kLanes>(call, tile.first_place + row, lane, least);
    }
}

// Adds what a warp has found to a summary.
__device__ __forceinline__ void add_up(Summary* summary, word32 unreached, word64 edges_of_unreached, sweep_word largest,
                                       word64 lower, word64 upper) {
#pragma unroll
    for (word32 apart = 1; apart < 32; apart *= 2) {
        unreached += __shfl_xor_sync(kWholeWarp, unreached, apart);
        edges_of_unreached += __shfl_xor_sync(kWholeWarp, edges_of_unreached, apart);
        largest = max(largest, __shfl_xor_sync(kWholeWarp, largest, apart));
        lower += __shfl_xor_sync(kWholeWarp, lower, apart);
        upper += __shfl_xor_sync(kWholeWarp, upper, apart);
    }
    if (threadIdx.x % 32 == 0) {
        atomicAdd(&summary->reached, word64{0} - unreached);
        atomicAdd(&summary->edges_of_reached, word64{0} - edges_of_unreached);
        atomicMax(&summary->max_distance, static_cast<word64>(largest));
        atomicAdd(&summary->sum_lower, lower);
        atomicAdd(&summary->sum_upper, upper);
    }
}

// Takes the tiles of the last band, and counts what is below the limit in the rows of all tiles. The rows of the other
// bands are read. `n_parts` of a boundary share a row, at most kParts.
template <int kLanes>
__device__ __forceinline__ void sweep_last(const Call& call, word32 n_parts) {
    __shared__ Summary totals[kLanes];
    for (word32 i = threadIdx.x; i < sizeof(totals) / sizeof(word64); i += kFewBlock) {
        reinterpret_cast<word64*>(totals)[i] = 0;
    }
    __syncthreads();
    const word32 n_groups = (call.n_sources + kLanes - 1) / kLanes;
    const word32 lane = blockIdx.x % n_groups * kLanes;
    const sweep_word limit = static_cast<sweep_word>(call.limit);
    const word32 row = threadIdx.x % kTile;
    const word32 part = threadIdx.x % 32 / kTile % n_parts;
    const word32 tiles_of_warp = kParts / n_parts;
    word32 n_unreached[kLanes] = {};
    word64 edges_of_unreached[kLanes] = {};
    sweep_word largest[kLanes] = {};
    word64 lower[kLanes] = {};
    word64 upper[kLanes] = {};
    const word32 step = gridDim.x / n_groups * kWarps * tiles_of_warp;
    const word32 of_warp = threadIdx.x % 32 / kTile / n_parts;
    word32 first = (blockIdx.x / n_groups * kWarps + threadIdx.x / 32) * tiles_of_warp;
    Tile next = first + of_warp < call.n_tiles ? call.tiles[first + of_warp] : Tile{};
    for (; first < call.n_tiles; first += step) {
        const Tile tile = next;
        const word32 t = first + of_warp;
        next = t + step < call.n_tiles ? call.tiles[t + step] : Tile{};
        const bool is_low = t >= call.first_low_tile;
        Lengths<kLanes> least = unreached<kLanes>();
        if (is_low) {
            least = product<kLanes>(call, tile, row, lane, part, n_parts, true);
        } else if (row < tile.n_rows) {
            const Row<kLanes> stored = row_at<kLanes>(call, tile.first_place + row, lane);
#pragma unroll
            for (int p = 0; p < kLanes; ++p) {
                least.words[p] = stored.words[p];
            }
        }
        lower_by_warp<kLanes>(least, n_parts);
        if (part == 0 && row < tile.n_rows) {
            if (is_low && call.writes) {
                write_row<kLanes>(call, tile.first_place + row, lane, least);
            }
            const word64* edges_before = call.edges_before + tile.first_place + row;
#pragma unroll
            for (int p = 0; p < kLanes; ++p) {
                const sweep_word d = least.words[p];
                if (d < limit) {
                    lower[p] += static_cast<word32>(d);
#if SSSP_WORD_BITS == 64
                    upper[p] += d >> 32;
#endif
                    largest[p] = max(largest[p], d);
                } else {
                    n_unreached[p] += 1;
                    edges_of_unreached[p] += edges_before[1] - edges_before[0];
                }
            }
        }
    }
#pragma unroll
    for (int p = 0; p < kLanes; ++p) {
        add_up(&totals[p], n_unreached[p], edges_of_unreached[p], largest[p], lower[p], upper[p]);
    }
    __syncthreads();
    if (threadIdx.x < kLanes && lane + threadIdx.x < call.n_sources) {
        Summary* const summary = call.summaries + lane + threadIdx.x;
        const Summary& found = totals[threadIdx.x];
        const bool is_first = blockIdx.x < n_groups;
        atomicAdd(&summary->reached, (is_first ? call.n_vertices : 0) + found.reached);
        atomicAdd(&summary->edges_of_reached,
                  (is_first ? call.edges_before[call.n_vertices] : 0) + found.edges_of_reached);
        atomicMax(&summary->max_distance, found.max_distance);
        atomicAdd(&summary->sum_lower, found.sum_lower);
        atomicAdd(&summary->sum_upper, found.sum_upper);
    }
}

// Returns the distances to the vertices of `columns`, a thread for each and a group of sources.
template <int kLanes>
__device__ __forceinline__ void return_rows(const Call& call) {
    const word32 n_groups = (call.n_sources + kLanes - 1) / kLanes;
    const word32 lane = blockIdx.x % n_groups * kLanes;
    const word32 v = blockIdx.x / n_groups * kFewBlock + threadIdx.x;
    if (v >= call.n_columns) {
        return;
    }
    const sweep_word limit = static_cast<sweep_word>(call.limit);
    const Row<kLanes> row = row_at<kLanes>(call, call.columns[v], lane);
#pragma unroll
    for (int p = 0; p < kLanes; ++p) {
        const sweep_word d = row.words[p];
        if (lane + p < call.n_sources) {
            call.rows_by_source[static_cast<word64>(lane + p) * call.n_columns + v] =
                d < limit ? static_cast<distance_bits>(d) : static_cast<distance_bits>(call.beyond);
        }
    }
}

#define SSSP_FEW(lanes)                                                                \
    extern "C" __global__ void __launch_bounds__(kMostBlock)                           \
    few_sweep_##lanes##_kernel(const Call call, word32 first, word32 end, word32 n_warps) { \
        sweep<lanes>(call, first, end, n_warps);                                       \
    }                                                                                  \
    extern "C" __global__ void __launch_bounds__(kFewBlock)                            \
    few_last_##lanes##_kernel(const Call call, word32 n_parts) {                       \
        sweep_last<lanes>(call, n_parts);                                              \
    }                                                                                  \
    extern "C" __global__ void __launch_bounds__(kFewBlock)                            \
    few_rows_##lanes##_kernel(const Call call) {                                       \
        return_rows<lanes>(call);                                                      \
    }

SSSP_FEW(1)
SSSP_FEW(4)
