// The rows of few sources: what `phast_gpu.cu` does for many, where most lanes of a warp would be empty.
//
// Idea: with few sources, time is the latency of reads that follow each other. So the threads of a warp share the boundary
// of a tile, not the lanes: thread `row` of `part` takes each fourth boundary vertex, for one row and all sources. The
// words of a window of boundary vertices are read together, in lines of 128 bytes.
//   1. sweep_kernel: the tiles of a band.
//   2. last_kernel: those of the last band, and the counts over all rows.
//   3. rows_kernel: from rows by place to rows by source.
// Nothing is left out with a cutoff. The rows are the same.
//
// Needs and keeps: as `phast_gpu.cu`; at most kLanes sources. Other lanes are not read.
// Memory order: relaxed; launches follow each other on one stream.

#include "call.cuh"

constexpr word32 kFewBlock = 256;
constexpr word32 kWarps = kFewBlock / 32;
constexpr word32 kParts = 32 / kTile;
// Boundary vertices that a thread reads together; with more of them, words of four sources take too many registers.
template <int kLanes>
constexpr word32 kSteps = kLanes == 1 ? 8 : 4;

// One row as it is in memory, and in registers, for each source.
template <int kLanes>
using Row = Words<stored_word, kLanes>;
template <int kLanes>
using Lengths = Words<sweep_word, kLanes>;

template <int kLanes>
__device__ __forceinline__ Row<kLanes>& row_at(const Call& call, word64 place) {
    return *reinterpret_cast<Row<kLanes>*>(call.rows + place * call.n_lanes);
}

// Row `threadIdx.x % kTile` of a tile; all threads of the warp call it. `is_low` if the tile is in the last band.
template <int kLanes>
__device__ __forceinline__ Lengths<kLanes> product(const Call& call, const Tile& tile, bool is_low) {
    const word32 thread = threadIdx.x % 32;
    const word32 row = thread % kTile;
    const word32 part = thread / kTile;
    Lengths<kLanes> least;
#pragma unroll
    for (int p = 0; p < kLanes; ++p) {
        least.words[p] = kInfinity;
    }
    const word32 seeded = call.seeded[tile.chunk * (call.n_lanes / 32)];
    const stored_word* matrix = call.from_boundary + tile.matrix + thread;
    constexpr word32 steps = kSteps<kLanes>;
    constexpr word32 window = steps * kParts;
    for (word32 first = 0; first < tile.n_boundary; first += window) {
        const word32 n = min(tile.n_boundary - first, window);
        const word32 mine = thread < n ? call.boundary[tile.first_boundary + first + thread] : 0;
        sweep_word weights[steps];
        Row<kLanes> above[steps];
#pragma unroll
        for (word32 i = 0; i < steps; ++i) {
            weights[i] = i * kParts + part < n ? matrix[(first + i * kParts) * kTile] : kInfinity;
        }
#pragma unroll
        for (word32 i = 0; i < steps; ++i) {
            const word32 place = __shfl_sync(kWholeWarp, mine, i * kParts + part);
            if (i * kParts + part < n) {
                above[i] = row_at<kLanes>(call, place);
            }
        }
#pragma unroll
        for (word32 i = 0; i < steps; ++i) {
            if (i * kParts + part < n) {
#pragma unroll
                for (int p = 0; p < kLanes; ++p) {
                    least.words[p] = lower(least.words[p], above[i].words[p], weights[i]);
                }
            }
        }
    }
#pragma unroll
    for (int p = 0; p < kLanes; ++p) {
#pragma unroll
        for (word32 apart = kTile; apart < 32; apart *= 2) {
            least.words[p] = min(least.words[p], __shfl_xor_sync(kWholeWarp, least.words[p], apart));
        }
        if (row < tile.n_rows && (seeded >> p & 1) != 0) {
            const sweep_word seed = is_low ? call.low_seeds[p * kMostLow + tile.first_local + row]
                                           : row_at<kLanes>(call, tile.first_place + row).words[p];
            least.words[p] = min(least.words[p], seed);
        }
    }
    return least;
}

template <int kLanes>
__device__ __forceinline__ void write_row(const Call& call, const Tile& tile, const Lengths<kLanes>& least) {
    if (threadIdx.x % 32 < tile.n_rows) {
        Row<kLanes> row;
#pragma unroll
        for (int p = 0; p < kLanes; ++p) {
            row.words[p] = static_cast<stored_word>(least.words[p]);
        }
        row_at<kLanes>(call, tile.first_place + threadIdx.x % 32) = row;
    }
}

// Takes the tiles of `swept` from `first` to `end` - 1, a warp for each.
template <int kLanes>
__device__ __forceinline__ void sweep(const Call& call, word32 first, word32 end) {
    const word32 t = first + blockIdx.x * kWarps + threadIdx.x / 32;
    if (t < end) {
        const Tile tile = call.swept[t];
        write_row<kLanes>(call, tile, product<kLanes>(call, tile, first >= call.first_low_tile));
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
// bands are read.
template <int kLanes>
__device__ __forceinline__ void sweep_last(const Call& call) {
    __shared__ Summary totals[kLanes];
    for (word32 i = threadIdx.x; i < sizeof(totals) / sizeof(word64); i += kFewBlock) {
        reinterpret_cast<word64*>(totals)[i] = 0;
    }
    __syncthreads();
    const sweep_word limit = static_cast<sweep_word>(call.limit);
    const word32 row = threadIdx.x % 32;
    word32 unreached[kLanes] = {};
    word64 edges_of_unreached[kLanes] = {};
    sweep_word largest[kLanes] = {};
    word64 lower[kLanes] = {};
    word64 upper[kLanes] = {};
    const word32 step = gridDim.x * kWarps;
    for (word32 t = blockIdx.x * kWarps + threadIdx.x / 32; t < call.n_tiles; t += step) {
        const Tile tile = call.tiles[t];
        const bool is_low = t >= call.first_low_tile;
        Lengths<kLanes> least;
        if (is_low) {
            least = product<kLanes>(call, tile, true);
            if (call.writes) {
                write_row<kLanes>(call, tile, least);
            }
        } else if (row < tile.n_rows) {
            const Row<kLanes> stored = row_at<kLanes>(call, tile.first_place + row);
#pragma unroll
            for (int p = 0; p < kLanes; ++p) {
                least.words[p] = stored.words[p];
            }
        }
        if (row < tile.n_rows) {
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
                    unreached[p] += 1;
                    edges_of_unreached[p] += edges_before[1] - edges_before[0];
                }
            }
        }
    }
#pragma unroll
    for (int p = 0; p < kLanes; ++p) {
        add_up(&totals[p], unreached[p], edges_of_unreached[p], largest[p], lower[p], upper[p]);
    }
    __syncthreads();
    if (threadIdx.x < min(call.n_sources, word32{kLanes})) {
        Summary* const summary = call.summaries + threadIdx.x;
        const Summary& found = totals[threadIdx.x];
        const bool is_first = blockIdx.x == 0;
        atomicAdd(&summary->reached, (is_first ? call.n_vertices : 0) + found.reached);
        atomicAdd(&summary->edges_of_reached,
                  (is_first ? call.edges_before[call.n_vertices] : 0) + found.edges_of_reached);
        atomicMax(&summary->max_distance, found.max_distance);
        atomicAdd(&summary->sum_lower, found.sum_lower);
        atomicAdd(&summary->sum_upper, found.sum_upper);
    }
}

// Returns the distances to the vertices of `columns`, a thread for each.
template <int kLanes>
__device__ __forceinline__ void return_rows(const Call& call) {
    const word32 v = blockIdx.x * kFewBlock + threadIdx.x;
    if (v >= call.n_columns) {
        return;
    }
    const sweep_word limit = static_cast<sweep_word>(call.limit);
    const Row<kLanes> row = row_at<kLanes>(call, call.columns[v]);
#pragma unroll
    for (int p = 0; p < kLanes; ++p) {
        const sweep_word d = row.words[p];
        if (p < call.n_sources) {
            call.rows_by_source[static_cast<word64>(p) * call.n_columns + v] =
                d < limit ? static_cast<distance_bits>(d) : static_cast<distance_bits>(call.beyond);
        }
    }
}

#define SSSP_FEW(lanes)                                                           \
    extern "C" __global__ void __launch_bounds__(kFewBlock)                       \
    few_sweep_##lanes##_kernel(const Call call, word32 first, word32 end) {       \
        sweep<lanes>(call, first, end);                                           \
    }                                                                             \
    extern "C" __global__ void __launch_bounds__(kFewBlock)                       \
    few_last_##lanes##_kernel(const Call call) {                                  \
        sweep_last<lanes>(call);                                                  \
    }                                                                             \
    extern "C" __global__ void __launch_bounds__(kFewBlock)                       \
    few_rows_##lanes##_kernel(const Call call) {                                  \
        return_rows<lanes>(call);                                                 \
    }

SSSP_FEW(1)
SSSP_FEW(4)
