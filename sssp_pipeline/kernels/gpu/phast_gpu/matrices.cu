// The matrices of the chunks below the top.
//
// Returns, for a chunk with boundary (B,) and own vertices (O,):
//   from_boundary  the least length of a way down from each boundary vertex to each own one, in tiles: own vertices
//                  8 t to 8 t + 7 have the words t * 8 * B to (t + 1) * 8 * B, eight for each boundary vertex
//   to_boundary    the same for ways up from own vertices to the boundary; the same array if the graph is symmetric
//   from_own       (O, O), the least length of a way up and then down between own vertices, inside the chunk
// and for some tiles a boundary of their own, with its words of `from_boundary`.
//
// Idea: a thread does what the sweep of one source does, with the boundary vertex or own vertex as its source. It needs
// nothing from other threads.
//
// A row of a tile does not need boundary vertex a if the way over an arc from a to another boundary vertex b is not longer
// than the way from a. The distance of b is final. So it is at most the distance of a plus the arc. If no row of a tile
// needs a boundary vertex, the boundary of the tile leaves it out. On roads this is every seventh one, on webs five of six.
//
// Keeps
//     I1. Places without a vertex are kInfinity.
//     I2. If a row leaves out a for b, the way from b is shorter than that from a, or it is as long and b is listed first. So
//         a row that leaves out vertices needs another one.

#include "call.cuh"

// The arcs of the vertices of a chunk; `ranks` names them.
struct Arcs {
    const word32* ranks;
    const word32* offsets;
    const word32* local_heads;
};

// Lowers row(own), for each own vertex from the last to the first, to the ways over arcs that lead up from it.
template <typename Row>
__device__ __forceinline__ void lower_from_above(const Arcs& arcs, const sweep_word* weights, const Chunk& chunk,
                                                 word32 boundary, Row row) {
    for (word32 i = 0; i < chunk.n_own; ++i) {
        const word32 own = chunk.n_own - 1 - i;
        const word32 v = arcs.ranks[own];
        sweep_word least = row(own);
        for (word32 arc = arcs.offsets[v]; arc < arcs.offsets[v + 1]; ++arc) {
            const word32 head = arcs.local_heads[arc];
            if (head >= chunk.n_boundary) {
                least = lower(least, row(head - chunk.n_boundary), weights[arc]);
            } else if (head == boundary) {
                least = min(least, weights[arc]);
            }
        }
        row(own) = least;
    }
}

// Copies words, which fit 16 bits if they are finite. kInfinity becomes that of the smaller words.
extern "C" __global__ void narrow_kernel(const sweep_word* words, word64 n, word16* into) {
    for (word64 i = blockIdx.x * static_cast<word64>(blockDim.x) + threadIdx.x; i < n;
         i += static_cast<word64>(gridDim.x) * blockDim.x) {
        into[i] = static_cast<word16>(min(words[i], sweep_word{kShortInfinity}));
    }
}

extern "C" __global__ void matrices_kernel(const Chunk* chunks, word32 first_chunk, word32 n_chunks,
                                           const word32* ranks_at, const word32* arc_offsets,
                                           const word32* local_heads, const sweep_word* up, const sweep_word* down,
                                           sweep_word* all_from_boundary, sweep_word* all_to_boundary,
                                           sweep_word* all_from_own) {
    for (word32 c = first_chunk + blockIdx.x; c < n_chunks; c += gridDim.x) {
        const Chunk chunk = chunks[c];
        const Arcs arcs{ranks_at + chunk.first_place, arc_offsets, local_heads};
        const word32 n_tiled = (chunk.n_own + kTile - 1) / kTile * kTile;
        for (word32 lane = threadIdx.x; lane < chunk.n_boundary + chunk.n_own; lane += blockDim.x) {
            if (lane < chunk.n_boundary) {
                const auto fill = [&](sweep_word* matrix, const sweep_word* weights) {
                    sweep_word* words = matrix + chunk.boundary_words + lane * word64{kTile};
                    const auto row = [&](word32 own) -> sweep_word& {
                        return words[own / kTile * (word64{kTile} * chunk.n_boundary) + own % kTile];
                    };
                    for (word32 own = 0; own < n_tiled; ++own) {
                        row(own) = kInfinity;  // I1
                    }
                    lower_from_above(arcs, weights, chunk, lane, row);
                };
                fill(all_from_boundary, down);
                if (all_to_boundary != all_from_boundary) {
                    fill(all_to_boundary, up);
                }
                continue;
            }
            const word32 self = lane - chunk.n_boundary;
            sweep_word* words = all_from_own + chunk.own_words + self * static_cast<word64>(chunk.n_own);
            for (word32 own = 0; own < chunk.n_own; ++own) {
                words[own] = own == self ? 0 : kInfinity;
            }
            for (word32 own = self; own < chunk.n_own; ++own) {
                const sweep_word here = words[own];
                const word32 v = arcs.ranks[own];
                for (word32 arc = here < kInfinity ? arc_offsets[v] : arc_offsets[v + 1]; arc < arc_offsets[v + 1];
                     ++arc) {
                    const word32 head = local_heads[arc];
                    if (head >= chunk.n_boundary && up[arc] < kInfinity) {
                        words[head - chunk.n_boundary] = lower(words[head - chunk.n_boundary], here, up[arc]);
                    }
                }
            }
            lower_from_above(arcs, down, chunk, kNoVertex, [&](word32 own) -> sweep_word& { return words[own]; });
        }
    }
}

// The arcs of a hierarchy; vertices are ranks.
struct WeighedArcs {
    const word32* offsets;
    const word32* heads;
    const sweep_word* up;
    const sweep_word* down;
};

// The length of the arc between two vertices, or kInfinity if there is none.
__device__ __forceinline__ sweep_word arc_length(const WeighedArcs& arcs, word32 from, word32 to) {
    const word32 low = min(from, to);
    const word32 high = max(from, to);
    if (arcs.offsets[low] == arcs.offsets[low + 1]) {
        return kInfinity;
    }
    const word32 arc = find_arc(arcs.offsets, arcs.heads, low, high);
    return arcs.heads[arc] != high ? kInfinity : from == low ? arcs.up[arc] : arcs.down[arc];
}

// Returns which rows of a tile need boundary vertex `a` of its chunk, a bit for each. `places` is the boundary of the
// chunk, and `words` has the ways from there to the rows.
__device__ __forceinline__ word32 rows_that_need(word32 a, const word32* places, word32 n_boundary, const word32* ranks_at,
                                                 const WeighedArcs& arcs, const sweep_word* words) {
    sweep_word ways[kTile];
    word32 rows = 0;
#pragma unroll
    for (word32 i = 0; i < kTile; ++i) {
        ways[i] = words[a * kTile + i];
        rows |= static_cast<word32>(ways[i] < kInfinity) << i;
    }
    for (word32 b = 0; b < n_boundary && rows != 0; ++b) {
        const sweep_word arc = a == b ? kInfinity : arc_length(arcs, ranks_at[places[a]], ranks_at[places[b]]);
        if (arc == kInfinity) {
            continue;
        }
        const bool is_first = arc > 0 || b < a;  // I2
#pragma unroll
        for (word32 i = 0; i < kTile; ++i) {
            const sweep_word way = plus(arc, words[b * kTile + i]);
            rows &= ~(static_cast<word32>(way < ways[i] || (way == ways[i] && is_first)) << i);
        }
    }
    return rows;
}

// Makes the boundaries of tiles that have places for one of their own, behind those of chunks, and their words behind those
// of chunks. A warp takes a tile.
extern "C" __global__ void tile_boundaries_kernel(Tile* tiles, word32 n_tiles, const Chunk* chunks, const word32* ranks_at,
                                                  const word32* arc_offsets, const word32* heads, const sweep_word* up,
                                                  const sweep_word* down, word32* boundary, sweep_word* from_boundary) {
    const WeighedArcs arcs{arc_offsets, heads, up, down};
    const word32 thread = threadIdx.x % 32;
    const word32 n_warps = gridDim.x * blockDim.x / 32;
    for (word32 t = (blockIdx.x * blockDim.x + threadIdx.x) / 32; t < n_tiles; t += n_warps) {
        const Tile tile = tiles[t];
        const Chunk chunk = chunks[tile.chunk];
        if (tile.first_boundary == chunk.first_boundary) {
            continue;  // it has that of its chunk
        }
        const word32* places = boundary + chunk.first_boundary;
        const sweep_word* words = from_boundary + chunk.boundary_words + tile.first_local * word64{chunk.n_boundary};
        word32 n_kept = 0;
        for (word32 first = 0; first < chunk.n_boundary; first += 32) {
            const word32 a = first + thread;
            const bool is_kept = a < chunk.n_boundary &&
                                 rows_that_need(a, places, chunk.n_boundary, ranks_at, arcs, words) != 0;
            const word32 kept = __ballot_sync(kWholeWarp, is_kept);
            if (is_kept) {
                const word32 place = n_kept + __popc(kept & ((1u << thread) - 1));
                boundary[tile.first_boundary + place] = places[a];
#pragma unroll
                for (word32 i = 0; i < kTile; ++i) {
                    from_boundary[tile.matrix + place * kTile + i] = words[a * kTile + i];
                }
            }
            n_kept += __popc(kept);
        }
        if (thread == 0) {
            tiles[t].n_boundary = n_kept;
        }
    }
}
