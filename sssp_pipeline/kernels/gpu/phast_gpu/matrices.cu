// The matrices of the chunks below the top.
//
// Returns, for a chunk with boundary (B,) and own vertices (O,):
//   from_boundary  the least length of a way down from each boundary vertex to each own one, in tiles: own vertices
//                  8 t to 8 t + 7 have the words t * 8 * B to (t + 1) * 8 * B, eight for each boundary vertex
//   to_boundary    the same for ways up from own vertices to the boundary; the same array if the graph is symmetric
//   from_own       (O, O), the least length of a way up and then down between own vertices, inside the chunk
//
// Idea: a thread does what the sweep of one source does, with the boundary vertex or own vertex as its source. It needs
// nothing from other threads.
//
// Keeps
//     I1. Places without a vertex are kInfinity.

#include "sweep_words.cuh"

constexpr word32 kTile = 8;

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
