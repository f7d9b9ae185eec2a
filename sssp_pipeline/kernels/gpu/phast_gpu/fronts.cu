// The arcs above the chunks of a band, by min-plus products, and the matrices of these chunks.
//
// Idea: `customize.cu` looks up an arc for each way between two upper neighbours of each vertex. The boundary of a chunk
// is the same for all its own vertices, or nearly so. So the chunk is eliminated as a whole:
//   1. front_arcs_kernel: its arcs become dense matrices.
//   2. close_kernel: the distances between own vertices inside the chunk, by Floyd and Warshall. The top is larger, so
//      shorten_kernel does it there, a launch for each vertex.
//   3. bound_kernel and panel_kernel bound the length of all ways over the chunk.
//   4. panel_kernel: the distances between own vertices and the boundary.
//   5. update_kernel: the least way over own vertices between each two boundary vertices, and one look-up of their arc.
// The matrices are those that the sweep reads. The top has no boundary, so it ends with 3.
//
// Needs: matrices of kInfinity; arcs that are final but for the ways over these chunks; a chunk with one root, so that
//     there is an arc between any two boundary vertices.
// Keeps
//     I1. A word only falls, and only to the length of a real path. So panel_kernel may read what it lowers.
//     I2. `largest` is at least every finite word of the matrices to and from a boundary.
// Memory order: relaxed; launches follow each other on one stream.

#include "sweep_words.cuh"

constexpr word32 kTile = 8;

// The matrices of all chunks.
struct Matrices {
    sweep_word* from_boundary;
    sweep_word* to_boundary;
    sweep_word* from_own;
};

__device__ __forceinline__ word64 boundary_word(const Chunk& chunk, word32 boundary, word32 own) {
    return chunk.boundary_words + own / kTile * (word64{kTile} * chunk.n_boundary) + boundary * kTile + own % kTile;
}

// A block for each place from `first_place` on.
extern "C" __global__ void front_arcs_kernel(const Chunk* chunks, const word32* chunks_of_places, word32 first_place,
                                             const word32* ranks_at, const word32* arc_offsets,
                                             const word32* local_heads, const sweep_word* up, const sweep_word* down,
                                             const Matrices into) {
    const word32 place = first_place + blockIdx.x;
    const Chunk chunk = chunks[chunks_of_places[place]];
    const word32 own = place - chunk.first_place;
    const word32 v = ranks_at[place];
    sweep_word* from_own = into.from_own + chunk.own_words;
    if (threadIdx.x == 0) {
        from_own[own * word64{chunk.n_own} + own] = 0;
    }
    for (word32 arc = arc_offsets[v] + threadIdx.x; arc < arc_offsets[v + 1]; arc += blockDim.x) {
        const word32 head = local_heads[arc];
        if (head < chunk.n_boundary) {
            into.from_boundary[boundary_word(chunk, head, own)] = down[arc];
            into.to_boundary[boundary_word(chunk, head, own)] = up[arc];
        } else {
            const word64 above = head - chunk.n_boundary;
            from_own[own * word64{chunk.n_own} + above] = up[arc];
            from_own[above * chunk.n_own + own] = down[arc];
        }
    }
}

// Threads side by side and in rows, and the columns and rows of the words that each of them has.
constexpr word32 kCloseAcross = 32;
constexpr word32 kCloseDown = SSSP_WORD_BITS == 64 ? 16 : 32;
constexpr word32 kCloseBlock = kCloseAcross * kCloseDown;
constexpr word32 kCloseColumns = 4;
constexpr word32 kCloseRows = 128 / kCloseDown;
// The most own vertices of a chunk that is not the top.
constexpr word32 kMostOwn = kCloseAcross * kCloseColumns;
static_assert(kMostOwn == kCloseDown * kCloseRows);

// A block for each chunk from `first_chunk` on. Its threads have the matrix in registers.
extern "C" __global__ void __launch_bounds__(kCloseBlock)
close_kernel(const Chunk* chunks, word32 first_chunk, sweep_word* from_own, word32* is_too_large) {
    __shared__ sweep_word columns[2][kMostOwn];
    __shared__ sweep_word rows[2][kMostOwn];
    const Chunk chunk = chunks[first_chunk + blockIdx.x];
    const word32 n = chunk.n_own;
    const word32 x = threadIdx.x % kCloseAcross;
    const word32 y = threadIdx.x / kCloseAcross;
    sweep_word* d = from_own + chunk.own_words;
    sweep_word words[kCloseRows][kCloseColumns];
#pragma unroll
    for (word32 i = 0; i < kCloseRows; ++i) {
#pragma unroll
        for (word32 j = 0; j < kCloseColumns; ++j) {
            const word32 row = y + i * kCloseDown;
            const word32 column = x + j * kCloseAcross;
            words[i][j] = row < n && column < n ? d[row * n + column] : kInfinity;
        }
    }
    word32 is_large = 0;
    for (word32 middle = 0; middle < n; ++middle) {
        sweep_word* column_of_middle = columns[middle % 2];
        sweep_word* row_of_middle = rows[middle % 2];
#pragma unroll
        for (word32 i = 0; i < kCloseRows; ++i) {
#pragma unroll
            for (word32 j = 0; j < kCloseColumns; ++j) {
                if (x + j * kCloseAcross == middle) {
                    column_of_middle[y + i * kCloseDown] = words[i][j];
                }
                if (y + i * kCloseDown == middle) {
                    row_of_middle[x + j * kCloseAcross] = words[i][j];
                }
            }
        }
        __syncthreads();
#pragma unroll
        for (word32 i = 0; i < kCloseRows; ++i) {
            const sweep_word to = column_of_middle[y + i * kCloseDown];
#pragma unroll
            for (word32 j = 0; j < kCloseColumns; ++j) {
                words[i][j] = min(words[i][j], length(to, row_of_middle[x + j * kCloseAcross], &is_large));
            }
        }
    }
    if (is_large != 0) {
        *is_too_large = 1;
    }
#pragma unroll
    for (word32 i = 0; i < kCloseRows; ++i) {
#pragma unroll
        for (word32 j = 0; j < kCloseColumns; ++j) {
            const word32 row = y + i * kCloseDown;
            const word32 column = x + j * kCloseAcross;
            if (row < n && column < n) {
                d[row * n + column] = words[i][j];
            }
        }
    }
}

// Lowers every way of a matrix (n, n) to the one through `middle`.
extern "C" __global__ void shorten_kernel(sweep_word* matrix, word32 n, word32 middle, word32* is_too_large) {
    for (word32 i = blockIdx.x * blockDim.x + threadIdx.x; i < n * n; i += gridDim.x * blockDim.x) {
        matrix[i] = min(matrix[i], length(matrix[i / n * n + middle], matrix[middle * n + i % n], is_too_large));
    }
}

// Bounds of the length of ways: (V,) by rank, of any way up to a vertex, and down from it; and of any way at all.
struct Longest {
    word64* up;
    word64* down;
    word64* of_all;
};

// A block for each chunk from `first_chunk` on: bounds the ways whose highest vertices are in the chunk.
extern "C" __global__ void bound_kernel(const Chunk* chunks, word32 first_chunk, const word32* ranks_at,
                                        const sweep_word* from_own, const Longest longest) {
    __shared__ word64 most[3];
    const Chunk chunk = chunks[first_chunk + blockIdx.x];
    const sweep_word* d = from_own + chunk.own_words;
    if (threadIdx.x < 3) {
        most[threadIdx.x] = 0;
    }
    __syncthreads();
    word64 inside = 0;
    for (word32 i = threadIdx.x; i < chunk.n_own * chunk.n_own; i += blockDim.x) {
        inside = d[i] < kInfinity ? max(inside, static_cast<word64>(d[i])) : inside;
    }
    atomicMax(&most[0], inside);
    for (word32 own = threadIdx.x; own < chunk.n_own; own += blockDim.x) {
        const word32 v = ranks_at[chunk.first_place + own];
        atomicMax(&most[1], longest.up[v]);
        atomicMax(&most[2], longest.down[v]);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicMax(longest.of_all, saturated(saturated(most[1], most[0]), most[2]));
    }
}

constexpr word32 kPanelBlock = 128;

// Blocks for the tiles of each chunk, and for each kPanelBlock of its boundary vertices; a thread has one of these.
extern "C" __global__ void __launch_bounds__(kPanelBlock)
panel_kernel(const Chunk* chunks, word32 first_chunk, word32 n_tiles, word32 n_groups, const word32* ranks_at,
             const word32* boundary_ranks, const Matrices into, const Longest longest, word64* largest,
             word32* is_too_large) {
    __shared__ word64 largest_of_block;
    const Chunk chunk = chunks[first_chunk + blockIdx.x / n_groups / n_tiles];
    const word32 first = blockIdx.x / n_groups % n_tiles * kTile;
    const word32 boundary = blockIdx.x % n_groups * kPanelBlock + threadIdx.x;
    const sweep_word* from_own = into.from_own + chunk.own_words;
    const word32 n_own = chunk.n_own;
    if (threadIdx.x == 0) {
        largest_of_block = 0;
    }
    __syncthreads();
    if (boundary < chunk.n_boundary && first < n_own) {
        sweep_word most = 0;
        const word32* ranks = ranks_at + chunk.first_place;
        const word32 above = boundary_ranks[chunk.first_boundary + boundary];
        const auto lower_panel = [&](sweep_word* panel, bool is_up, bool is_down) {
            sweep_word least[kTile];
#pragma unroll
            for (word32 i = 0; i < kTile; ++i) {
                least[i] = kInfinity;
            }
            for (word32 own = 0; own < n_own; ++own) {
                const sweep_word here = panel[boundary_word(chunk, boundary, own)];
#pragma unroll
                for (word32 i = 0; i < kTile; ++i) {
                    const word64 mine = min(first + i, n_own - 1);
                    const sweep_word inside = from_own[is_down ? own * word64{n_own} + mine : mine * n_own + own];
                    least[i] = min(least[i], length(here, inside, is_too_large));
                }
            }
            word64 most_up = 0;
            word64 most_down = 0;
#pragma unroll
            for (word32 i = 0; i < kTile; ++i) {
                if (first + i < n_own) {
                    panel[boundary_word(chunk, boundary, first + i)] = least[i];
                    if (least[i] < kInfinity) {
                        most = max(most, least[i]);
                        most_up = max(most_up, saturated(longest.up[ranks[first + i]], least[i]));
                        most_down = max(most_down, saturated(longest.down[ranks[first + i]], least[i]));
                    }
                }
            }
            if (is_up) {
                atomicMax(&longest.up[above], most_up);
            }
            if (is_down) {
                atomicMax(&longest.down[above], most_down);
            }
        };
        const bool is_symmetric = into.to_boundary == into.from_boundary;
        lower_panel(into.from_boundary, is_symmetric, true);
        if (!is_symmetric) {
            lower_panel(into.to_boundary, true, false);
        }
        atomicMax(&largest_of_block, static_cast<word64>(most));
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicMax(largest, largest_of_block);
    }
}

constexpr word32 kSide = 64;
constexpr word32 kEach = 4;
constexpr word32 kAcross = kSide / kEach;
constexpr word32 kUpdateBlock = kAcross * kAcross;

// A block for each square of kSide by kSide boundary vertices of each chunk; `n_squares` squares are side by side.
// Sets `is_too_large` if a sum of two words may not be below kInfinity.
extern "C" __global__ void __launch_bounds__(kUpdateBlock)
update_kernel(const Chunk* chunks, word32 first_chunk, word32 n_squares, const word32* boundary_ranks,
              const Matrices made, const word32* arc_offsets, const word32* heads, sweep_word* up, sweep_word* down,
              const word64* largest, word32* is_too_large) {
    __shared__ sweep_word from[kTile][kSide + 1];
    __shared__ sweep_word to[kTile][kSide + 1];
    const Chunk chunk = chunks[first_chunk + blockIdx.x / n_squares / n_squares];
    const word32 first_from = blockIdx.x / n_squares % n_squares * kSide;
    const word32 first_to = blockIdx.x % n_squares * kSide;
    const word32 n = chunk.n_boundary;
    if (blockIdx.x == 0 && threadIdx.x == 0 && *largest >= kInfinity - *largest) {
        *is_too_large = 1;
    }
    if (first_from >= n || first_to >= n) {
        return;
    }
    const word32 x = threadIdx.x % kAcross * kEach;
    const word32 y = threadIdx.x / kAcross * kEach;
    sweep_word least[kEach][kEach];
#pragma unroll
    for (word32 i = 0; i < kEach; ++i) {
#pragma unroll
        for (word32 j = 0; j < kEach; ++j) {
            least[i][j] = kInfinity;
        }
    }
    for (word32 own = 0; own < chunk.n_own; own += kTile) {
        for (word32 word = threadIdx.x; word < kTile * kSide; word += kUpdateBlock) {
            const word32 side = word / kTile;
            const word32 k = word % kTile;
            const auto word_of = [&](const sweep_word* panel, word32 boundary) {
                // Places without a vertex are kInfinity.
                return boundary < n ? panel[boundary_word(chunk, boundary, own + k)] : kInfinity;
            };
            from[k][side] = word_of(made.from_boundary, first_from + side);
            to[k][side] = word_of(made.to_boundary, first_to + side);
        }
        __syncthreads();
#pragma unroll
        for (word32 k = 0; k < kTile; ++k) {
#pragma unroll
            for (word32 i = 0; i < kEach; ++i) {
#pragma unroll
                for (word32 j = 0; j < kEach; ++j) {
                    least[i][j] = lower(least[i][j], from[k][y + i], to[k][x + j]);
                }
            }
        }
        __syncthreads();
    }
    const bool is_symmetric = up == down;
    const word32* ranks = boundary_ranks + chunk.first_boundary;
#pragma unroll
    for (word32 i = 0; i < kEach; ++i) {
#pragma unroll
        for (word32 j = 0; j < kEach; ++j) {
            if (least[i][j] == kInfinity || first_from + y + i == first_to + x + j) {
                continue;
            }
            const word32 here = ranks[first_from + y + i];
            const word32 there = ranks[first_to + x + j];
            if (is_symmetric && here > there) {
                continue;
            }
            const word32 arc = find_arc(arc_offsets, heads, min(here, there), max(here, there));
            sweep_word* weight = (here < there ? up : down) + arc;
            if (least[i][j] < *weight) {
                atomicMin(weight, least[i][j]);
            }
        }
    }
}
