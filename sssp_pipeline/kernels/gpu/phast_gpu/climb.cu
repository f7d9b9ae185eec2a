// The ways up from the sources of a batch, and the seeds that they leave in the chunks on them.
//
// Idea:
//   1. climb_kernel: a block follows its source from chunk to chunk up to the top. In a chunk it knows distances of
//      some own vertices, its entries. Distances of the boundary follow by the matrix to the boundary; some of them are
//      the entries of the next chunk. All are ancestors of the source, so one distance is kept for each depth.
//   2. seed_kernel: the least ways over entries to the own vertices of a chunk are its seeds, by `from_own`.
// Where bands have few chunks with long boundaries, every source would read the same large matrices. So climb_kernel
// leaves what it knows in the rows of such chunks (`n_shared`). From there on up_kernel climbs for all sources together,
// a launch for each band, from the lowest one up: a product with the rows of a chunk lowers the rows of its boundary,
// and those of its own vertices to their seeds.
//
// Keeps
//     I1. What a way up knows of vertices above a chunk is in the boundary of that chunk, since upper neighbours of a
//         vertex are also upper neighbours of its parent, or the parent.
//     I2. Rows of shared chunks are kInfinity before climb_kernel (`n_cleared`). A row only falls, and only to the length
//         of a real path, so up_kernel may read it while it falls.
// Memory order: relaxed; launches follow each other on one stream.

#include "call.cuh"

// Where a matrix to the boundary of a chunk has the words of a boundary vertex, and there those of an own vertex.
__device__ __forceinline__ const sweep_word* column_of(const sweep_word* matrix, word32 boundary) {
    return matrix + boundary * kTile;
}

__device__ __forceinline__ word64 in_column(const Chunk& chunk, word32 own) {
    return own / kTile * (word64{kTile} * chunk.n_boundary) + own % kTile;
}

constexpr word32 kMostThreads = 1024;
constexpr word32 kMostEntries = 512;

// Clears the rows that several warps lower.
extern "C" __global__ void clear_kernel(const Call call) {
    for (word64 i = blockIdx.x * static_cast<word64>(blockDim.x) + threadIdx.x; i < call.n_cleared;
         i += static_cast<word64>(gridDim.x) * blockDim.x) {
        call.rows[i] = kInfinity;
    }
}

// A block for each source, of any number of warps. All of them together clear `seeded` and `near`. The top is near.
extern "C" __global__ void __launch_bounds__(kMostThreads) climb_kernel(const Call call) {
    extern __shared__ sweep_word shared[];
    __shared__ word32 locals[kMostEntries];
    __shared__ sweep_word distances[kMostEntries];
    __shared__ word32 n_next;
    const word32 thread = threadIdx.x;
    const word32 n_segments = call.n_segments;
    const word64 from = static_cast<word64>(blockIdx.x) * call.n_depths;
    sweep_word* d = call.is_shared ? shared : call.kept + from;
    word32* entry_places = call.entry_places + from;
    sweep_word* entry_distances = call.entry_distances + from;
    Segment* segments = call.segments + static_cast<word64>(blockIdx.x) * n_segments;

    const word32 n_seeded = call.n_chunks * (call.n_lanes / 32);
    for (word32 i = blockIdx.x * blockDim.x + thread; i < n_seeded; i += gridDim.x * blockDim.x) {
        call.seeded[i] = 0;
        if (call.near != nullptr) {
            call.near[i] = i < call.n_lanes / 32;
        }
    }
    word32 place = call.places[call.sources[blockIdx.x]];
    word32 c = call.chunks_of_places[place];
    Chunk chunk = call.shapes[c];
    for (word32 i = thread; i < n_segments; i += blockDim.x) {
        segments[i] = {0, 0, 0, 0};
    }
    for (word32 depth = thread; depth < call.n_depths; depth += blockDim.x) {
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
        if (c < call.n_shared) {  // then so is every chunk above it
            if (i == 0 && thread == 0) {
                call.rows[static_cast<word64>(place) * call.n_lanes + blockIdx.x] = 0;
            }
            break;
        }
        for (word32 entry = thread; entry < n; entry += blockDim.x) {
            entry_places[n_entries + entry] = locals[entry];
            entry_distances[n_entries + entry] = distances[entry];
        }
        if (thread == 0) {
            segments[c == 0 ? n_segments - 1 : i] = {c, n_entries, n_entries + n, 0};
        }
        n_entries += n;
        const word32 next = c == 0 ? kNoVertex : call.next_chunks[place];
        if (next == kNoVertex) {
            break;
        }
        n_words += static_cast<word64>(n) * chunk.n_boundary;
        const Chunk above = call.shapes[next];
        const sweep_word* matrix = call.to_boundary + chunk.boundary_words;
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
            atomicMin(&d[call.marks[chunk.first_boundary + b].x], least);
        }
        __syncthreads();
        for (word32 b = thread; b < chunk.n_boundary; b += blockDim.x) {
            const uint2 mark = call.marks[chunk.first_boundary + b];
            const sweep_word least = d[mark.x];
            // The first chunk may have several roots. Vertices above the others have depths of ancestors too.
            const bool is_above = i > 0 || column_of(matrix, b)[in_column(chunk, local)] < kInfinity;
            if (least == kInfinity || !is_above) {
                continue;
            }
            if (next < call.n_shared) {
                const word64 above_place = call.boundary[chunk.first_boundary + b];
                call.rows[above_place * call.n_lanes + blockIdx.x] = least;
            } else if (mark.y == next) {
                const word32 entry = atomicAdd(&n_next, 1);
                locals[entry] = call.boundary[chunk.first_boundary + b] - above.first_place;
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
        call.climbed[blockIdx.x] = {n_entries, n_words};
    }
}

// Threads of a block: kSeedParts for each of kAcross own vertices, which share the entries.
constexpr word32 kAcross = 128;
constexpr word32 kSeedParts = 4;
constexpr word32 kSeedBlock = kAcross * kSeedParts;
// Blocks that make the seeds of the top.
constexpr word32 kTopBlocks = 4;

// Blocks for the segments of each lane, the last kTopBlocks for the top, if it is not shared. Source s is lane s. The lanes that are left
// have no entries, so their rows are kInfinity.
//
// Writes the seeds of its chunk to `rows`, or to low_seeds (n_lanes, kMostLow) if it is `first_low` or a later chunk,
// and sets the bit of the chunk and the lane.
extern "C" __global__ void __launch_bounds__(kSeedBlock) seed_kernel(const Call call) {
    __shared__ word32 places[kMostEntries];
    __shared__ sweep_word distances[kMostEntries];
    __shared__ sweep_word seeds[kAcross];
    const word32 n_segments = call.n_segments;
    const word32 n_lanes = call.n_lanes;
    const word32 n_blocks = n_segments - 1 + kTopBlocks;
    const word32 lane = blockIdx.x / n_blocks;
    const word32 part = blockIdx.x % n_blocks;
    const bool is_top = part >= n_segments - 1;
    if (is_top && call.n_shared > 0) {
        return;
    }
    Segment segment{0, 0, 0, 0};
    if (lane < call.n_sources) {
        segment = call.segments[static_cast<word64>(lane) * n_segments + min(part, n_segments - 1)];
    }
    if (segment.first == segment.end && !is_top) {
        return;
    }
    const Chunk chunk = call.shapes[segment.chunk];
    const sweep_word* from_own = call.from_own + chunk.own_words;
    const word64 from = static_cast<word64>(lane) * call.n_depths + segment.first;
    const word32 n = segment.end - segment.first;
    for (word32 i = threadIdx.x; i < n; i += kSeedBlock) {
        places[i] = call.entry_places[from + i];
        distances[i] = call.entry_distances[from + i];
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
            if (segment.chunk >= call.first_low) {
                call.low_seeds[lane * kMostLow + own] = seeds[x];
            } else {
                call.rows[static_cast<word64>(chunk.first_place + own) * n_lanes + lane] = seeds[x];
            }
        }
    }
    if (threadIdx.x == 0) {
        atomicOr(&call.seeded[segment.chunk * (n_lanes / 32) + lane / 32], 1u << lane % 32);
    }
}

constexpr word32 kUpBlock = 256;
constexpr word32 kUpWarps = kUpBlock / 32;
// Own vertices that a warp reads together.
constexpr word32 kOwnBatch = 2;

// Lowers the rows of boundary and own vertices of `first_chunk` and later chunks of its band. A warp has kTile of these
// vertices and 32 * kEach lanes. A chunk has blocks for `n_groups` groups of such tiles, and `n_parts` blocks share the
// own vertices whose rows are read.
template <int kEach>
__device__ __forceinline__ void climb_together(const Call& call, word32 first_chunk, word32 n_groups, word32 n_parts) {
    const word32 n_lanes = call.n_lanes;
    const word32 blocks_of_lanes = n_lanes / (32 * kEach);
    const word32 lane = (blockIdx.x % blocks_of_lanes * 32 + threadIdx.x % 32) * kEach;
    const word32 item = blockIdx.x / blocks_of_lanes;
    const word32 part = item % n_parts;
    const Chunk chunk = call.shapes[first_chunk + item / n_parts / n_groups];
    const word32 tile = item / n_parts % n_groups * kUpWarps + threadIdx.x / 32;
    const word32 boundary_tiles = (chunk.n_boundary + kTile - 1) / kTile;
    const bool is_own = tile >= boundary_tiles;
    const word32 first = (is_own ? tile - boundary_tiles : tile) * kTile;
    const word32 n_into = is_own ? chunk.n_own : chunk.n_boundary;
    if (first >= n_into) {
        return;
    }
    const sweep_word* to_boundary = call.to_boundary + chunk.boundary_words;
    const sweep_word* from_own = call.from_own + chunk.own_words;
    sweep_word least[kTile][kEach];
#pragma unroll
    for (int i = 0; i < kTile; ++i) {
#pragma unroll
        for (int p = 0; p < kEach; ++p) {
            least[i][p] = kInfinity;
        }
    }
    const word32 n_each = (chunk.n_own + kOwnBatch * n_parts - 1) / (kOwnBatch * n_parts) * kOwnBatch;
    const word32 end = min(part * n_each + n_each, chunk.n_own);
    for (word32 own = part * n_each; own < end; own += kOwnBatch) {
        Lanes<kEach> here[kOwnBatch];
        bool is_any = false;
#pragma unroll
        for (word32 j = 0; j < kOwnBatch; ++j) {
            const word64 place = chunk.first_place + min(own + j, chunk.n_own - 1);
            here[j] = *reinterpret_cast<const Lanes<kEach>*>(call.rows + place * n_lanes + lane);
#pragma unroll
            for (int p = 0; p < kEach; ++p) {
                is_any |= here[j].words[p] < kInfinity;
            }
        }
        if (!__any_sync(kWholeWarp, is_any)) {
            continue;
        }
        // A last tile, and a last batch, that is too short repeats its last vertex.
#pragma unroll
        for (int i = 0; i < kTile; ++i) {
            const word32 into = min(first + i, n_into - 1);
            sweep_word weights[kOwnBatch];
#pragma unroll
            for (word32 j = 0; j < kOwnBatch; ++j) {
                const word32 from = min(own + j, chunk.n_own - 1);
                weights[j] = is_own ? from_own[static_cast<word64>(from) * chunk.n_own + into]
                                    : column_of(to_boundary, into)[in_column(chunk, from)];
            }
#pragma unroll
            for (word32 j = 0; j < kOwnBatch; ++j) {
#pragma unroll
                for (int p = 0; p < kEach; ++p) {
                    least[i][p] = lower(least[i][p], here[j].words[p], weights[j]);
                }
            }
        }
    }
#pragma unroll
    for (int i = 0; i < kTile; ++i) {
        if (first + i < n_into) {
            const word64 place = is_own ? chunk.first_place + first + i : call.boundary[chunk.first_boundary + first + i];
            sweep_word* row = call.rows + place * n_lanes + lane;
#pragma unroll
            for (int p = 0; p < kEach; ++p) {
                if (least[i][p] < kInfinity) {
                    atomicMin(row + p, least[i][p]);
                }
            }
        }
    }
}

#define SSSP_UP(lanes_each)                                                                         \
    extern "C" __global__ void __launch_bounds__(kUpBlock, 2)                                       \
    up_##lanes_each##_kernel(const Call call, word32 first_chunk, word32 n_groups, word32 n_parts) { \
        climb_together<lanes_each>(call, first_chunk, n_groups, n_parts);                           \
    }

SSSP_UP(1)
#if SSSP_WIDE
SSSP_UP(2)
#else
SSSP_UP(4)
#endif
