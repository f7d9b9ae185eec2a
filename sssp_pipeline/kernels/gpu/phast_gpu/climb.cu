// The ways up from the sources of a batch, and the seeds that they leave in the chunks on them.
//
// Idea:
//   1. climb_kernel: a block follows its source from chunk to chunk up to the top. In a chunk it knows distances of
//      some own vertices, its entries. Distances of the boundary follow by the matrix to the boundary; some of them are
//      the entries of the next chunk. All are ancestors of the source, so one distance is kept for each depth.
//   2. seed_kernel: the least ways over entries to the own vertices of a chunk are its seeds, by `from_own`.
// Where many ways lead over the same large matrices, each source would read them. So climb_kernel leaves what it knows in
// the rows of such chunks (`climbs_together`), which are near the root. From there on up_kernel climbs for all sources
// (`front_rows.cu`).
//
// Keeps
//     I1. What a way up knows of vertices above a chunk is in the boundary of that chunk, since upper neighbours of a
//         vertex are also upper neighbours of its parent, or the parent.
//     I2. Above a chunk that sources climb together, all chunks are. Their rows are kInfinity before (`n_cleared`).
// Memory order: relaxed; launches follow each other on one stream.

#include "call.cuh"

constexpr word32 kMostThreads = 1024;
// The most own vertices of a chunk, and of one that is not the top.
constexpr word32 kMostEntries = 512;
constexpr word32 kMostOwn = 128;
// Tiles whose words a thread reads together.
constexpr word32 kTogether = 4;
// The words of 16 bytes of a matrix.
constexpr word32 kRead = 16 / sizeof(stored_word);

// The least way over a boundary vertex: over the own vertices of the tiles in `tiles`, a bit for each. `matrix` has the
// words of the boundary vertex in the first tile, and `distances` those of own vertices. Threads `part` of `n_parts`
// share the tiles.
__device__ __forceinline__ sweep_word least_way(const stored_word* matrix, word32 n_boundary, word32 tiles, word32 part,
                                                word32 n_parts, const sweep_word* distances) {
    sweep_word least = kInfinity;
    for (word32 first = part; first < kMostOwn / kTile && tiles >> first != 0; first += kTogether * n_parts) {
        sweep_word words[kTogether][kTile];
#pragma unroll
        for (word32 t = 0; t < kTogether; ++t) {
            const word32 tile = first + t * n_parts;
            const bool has_entries = tile < 32 && (tiles >> tile & 1) != 0;
            const stored_word* of_tile = matrix + word64{tile} * kTile * n_boundary;
#pragma unroll
            for (word32 i = 0; i < kTile; i += kRead) {
                Words<stored_word, kRead> read{};
                if (has_entries) {
                    read = *reinterpret_cast<const Words<stored_word, kRead>*>(of_tile + i);
                }
#pragma unroll
                for (word32 j = 0; j < kRead; ++j) {
                    words[t][i + j] = has_entries ? read.words[j] : kInfinity;
                }
            }
        }
#pragma unroll
        for (word32 t = 0; t < kTogether; ++t) {
            const word32 tile = min(first + t * n_parts, kMostOwn / kTile - 1);
#pragma unroll
            for (word32 i = 0; i < kTile; ++i) {
                least = lower(least, distances[tile * kTile + i], words[t][i]);
            }
        }
    }
    return least;
}

// Clears the rows that several warps lower.
extern "C" __global__ void clear_kernel(const Call call) {
    auto* rows = reinterpret_cast<packed_word*>(call.rows);
    for (word64 i = blockIdx.x * static_cast<word64>(blockDim.x) + threadIdx.x; i < call.n_cleared / kPacked;
         i += static_cast<word64>(gridDim.x) * blockDim.x) {
        rows[i] = kInfinities;
    }
}

// A block for each source, of any number of warps. All of them together clear `seeded` and `near`. The top is near.
extern "C" __global__ void __launch_bounds__(kMostThreads) climb_kernel(const Call call) {
    extern __shared__ sweep_word shared[];
    __shared__ word32 locals[kMostEntries];
    __shared__ sweep_word distances[kMostEntries];
    __shared__ sweep_word by_own[kMostOwn];
    __shared__ word32 n_next;
    __shared__ word32 tiles;
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
        if (call.climbs_together != nullptr && call.climbs_together[c] != 0) {
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
        const bool is_left = call.climbs_together != nullptr && call.climbs_together[next] != 0;
        const stored_word* matrix = call.to_boundary + chunk.boundary_words;
        for (word32 own = thread; own < kMostOwn; own += blockDim.x) {
            by_own[own] = kInfinity;
        }
        if (thread == 0) {
            tiles = 0;
        }
        __syncthreads();
        if (thread == 0) {
            n_next = 0;
        }
        for (word32 entry = thread; entry < n; entry += blockDim.x) {
            by_own[locals[entry]] = distances[entry];
            atomicOr(&tiles, 1u << locals[entry] / kTile);
        }
        __syncthreads();
        // Threads for each boundary vertex share the tiles.
        const word32 n_across = min((chunk.n_boundary + 31) / 32 * 32, blockDim.x);
        const word32 n_parts = blockDim.x / n_across;
        for (word32 b = thread % n_across; b < chunk.n_boundary && thread / n_across < n_parts; b += n_across) {
            const sweep_word least = least_way(matrix + b * kTile, chunk.n_boundary, tiles, thread / n_across, n_parts,
                                               by_own);
            atomicMin(&d[call.marks[chunk.first_boundary + b].x], least);
        }
        __syncthreads();
        for (word32 b = thread; b < chunk.n_boundary; b += blockDim.x) {
            const uint2 mark = call.marks[chunk.first_boundary + b];
            const sweep_word least = d[mark.x];
            // The first chunk may have several roots. Vertices above the others have depths of ancestors too.
            const word64 word = (word64{local / kTile} * chunk.n_boundary + b) * kTile + local % kTile;
            const bool is_above = i > 0 || matrix[word] < kInfinity;
            if (least == kInfinity || !is_above) {
                continue;
            }
            if (is_left) {
                const word64 above_place = call.boundary[chunk.first_boundary + b];
                call.rows[above_place * call.n_lanes + blockIdx.x] = static_cast<stored_word>(least);
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

// Own vertices that a block takes at a time, with a thread each, or several that share the entries.
constexpr word32 kAcross = 128;
// The most threads of a block.
constexpr word32 kSeedBlock = 4 * kAcross;
// Blocks that make the seeds of the top.
constexpr word32 kTopBlocks = 4;

// Blocks for the segments of each lane, the last kTopBlocks for the top, if sources do not climb there together. Source s
// is lane s. The lanes that are left have no entries, so their rows are kInfinity.
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
    if (is_top && call.climbs_together != nullptr) {
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
    const stored_word* from_own = call.from_own + chunk.own_words;
    const word64 from = static_cast<word64>(lane) * call.n_depths + segment.first;
    const word32 n = segment.end - segment.first;
    for (word32 i = threadIdx.x; i < n; i += blockDim.x) {
        places[i] = call.entry_places[from + i];
        distances[i] = call.entry_distances[from + i];
    }
    const word32 x = threadIdx.x % kAcross;
    const word32 n_parts = blockDim.x / kAcross;
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
            for (word32 i = threadIdx.x / kAcross; i < n; i += n_parts) {
                least = lower(least, distances[i], from_own[places[i] * chunk.n_own + own]);
            }
            atomicMin(&seeds[x], least);
        }
        __syncthreads();
        if (threadIdx.x < kAcross && own < chunk.n_own) {
            if (segment.chunk >= call.first_low) {
                call.low_seeds[lane * kMostLow + own] = seeds[x];
            } else {
                const word64 place = chunk.first_place + own;
                call.rows[place * n_lanes + lane] = static_cast<stored_word>(seeds[x]);
            }
        }
    }
    if (threadIdx.x == 0) {
        atomicOr(&call.seeded[segment.chunk * (n_lanes / 32) + lane / 32], 1u << lane % 32);
    }
}
