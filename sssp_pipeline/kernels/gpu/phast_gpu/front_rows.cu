// The rows of fronts: chunks with long boundaries, or that most ways up lead through.
//
// Idea: a front has up to 128 own vertices, so its part of the sweep is a product as large as those of matrices. A block
// computes 128 rows of 32 to 256 lanes in registers, and shares what it reads: 8 boundary vertices at a time, the next ones
// while these are used.
//   1. down_kernel: rows of own vertices from those of the boundary. A launch takes the fronts of a band. Several blocks
//      share a long boundary.
//   2. up_kernel: all ways up over some fronts. Rows of own vertices lower those of the boundary by `to_boundary`, and
//      those of own vertices to their seeds by `from_own`. A launch for each band, from the lowest one up.
//
// Needs: rows that are kInfinity or the length of a real path (`n_cleared`, `climb.cu`).
// Keeps
//     I1. A row only falls, and only to the length of a real path. So blocks lower the same rows, by atomic minima, and
//         up_kernel may read a row while it falls.
// Memory order: relaxed; launches follow each other on one stream.

#include "call.cuh"

constexpr word32 kFrontBlock = 256;
// Rows of a block; a thread has kRowsEach of them.
constexpr word32 kRows = 128;
constexpr word32 kRowsEach = 8;
// Threads side by side, over the lanes.
constexpr word32 kAcross = kFrontBlock / (kRows / kRowsEach);
// How many vertices are read at a time: a tile of own ones, or so many of a boundary.
constexpr word32 kDepth = kTile;
// Keeps threads that write a tile apart in shared memory.
constexpr word32 kStride = kRows + 32 / sizeof(packed_word);

// What a block reads at a time. Each weight is there for each lane of a packed word.
template <int kEach>
struct Step {
    alignas(16) packed_word weights[kDepth][kStride];
    alignas(16) packed_word rows[kDepth][kAcross * kEach];
};

// Where the weights of a product are.
enum class From { kBoundary, kOwnToBoundary, kOwnToOwn };

// A product: rows of `into` are lowered by rows of `from`.
template <From kKind>
struct Product {
    const stored_word* weights;
    Chunk chunk;
    word32 first_row;  // of the block, among those of `into`
    word32 n_rows;     // how many the block has
    word32 begin;      // of `from`
    word32 end;

    __device__ __forceinline__ word64 from_place(const Call& call, word32 k) const {
        return kKind == From::kBoundary ? call.boundary[chunk.first_boundary + k] : chunk.first_place + k;
    }

    __device__ __forceinline__ word64 into_place(const Call& call, word32 row) const {
        return kKind == From::kOwnToBoundary ? call.boundary[chunk.first_boundary + first_row + row]
                                            : chunk.first_place + first_row + row;
    }
};

// As many words of a matrix as a Vector has packed words.
using Weights = Words<stored_word, kVector>;

template <typename Word>
__device__ __forceinline__ Words<Word, kVector> filled(Word word) {
    Words<Word, kVector> words;
#pragma unroll
    for (word32 i = 0; i < kVector; ++i) {
        words.words[i] = word;
    }
    return words;
}

// What a thread reads of the next step.
template <int kEach>
struct Ahead {
    static constexpr word32 kPackedAcross = kAcross * kEach;
    static constexpr word32 kRowVectors = kDepth * kPackedAcross / kVector;
    static constexpr word32 kReadRows = (kRowVectors + kFrontBlock - 1) / kFrontBlock;
    static constexpr word32 kReadWeights = kDepth * kRows / kVector / kFrontBlock;
    static_assert(kDepth * kRows / kVector % kFrontBlock == 0);
    Vector rows[kReadRows];
    Weights weights[kReadWeights];

    template <From kKind>
    __device__ __forceinline__ void read(const Call& call, const Product<kKind>& product, word32 first, word32 lane) {
#pragma unroll
        for (word32 i = 0; i < kReadRows; ++i) {
            const word32 item = threadIdx.x + i * kFrontBlock;
            const word32 k = first + item / (kPackedAcross / kVector);
            rows[i] = filled(kInfinities);
            if (item < kRowVectors && k < product.end) {
                const stored_word* row = call.rows + product.from_place(call, k) * call.n_lanes;
                const word32 part = item % (kPackedAcross / kVector) * kVector * kPacked;
                rows[i] = *reinterpret_cast<const Vector*>(row + lane + part);
            }
        }
        read_weights(product, first);
    }

    // A matrix to or from a boundary has 8 words for each tile and boundary vertex, those of the own vertices of the tile.
    template <From kKind>
    __device__ __forceinline__ void read_weights(const Product<kKind>& product, word32 first) {
        const Chunk& chunk = product.chunk;
#pragma unroll
        for (word32 i = 0; i < kReadWeights; ++i) {
            const word32 item = threadIdx.x + i * kFrontBlock;
            weights[i] = filled(static_cast<stored_word>(kInfinity));
            if constexpr (kKind == From::kOwnToOwn) {
                const word32 row = item % kRows;
#pragma unroll
                for (word32 j = 0; j < kVector; ++j) {
                    const word32 k = first + item / kRows * kVector + j;
                    if (k < product.end && row < product.n_rows) {
                        weights[i].words[j] = product.weights[word64{k} * chunk.n_own + product.first_row + row];
                    }
                }
            } else {
                const word32 one = item / (kTile / kVector);
                const bool is_down = kKind == From::kBoundary;
                const word32 tile = is_down ? one / kDepth : first / kTile;
                const word32 boundary = is_down ? first + one % kDepth : product.first_row + one;
                const bool is_there = is_down ? boundary < product.end && tile * kTile < product.n_rows
                                              : one < product.n_rows;
                if (is_there) {
                    const word64 word = (word64{tile} * chunk.n_boundary + boundary) * kTile;
                    weights[i] =
                        *reinterpret_cast<const Weights*>(product.weights + word + item % (kTile / kVector) * kVector);
                }
            }
        }
    }

    // Whether a row that the thread has read is below `limit`.
    __device__ __forceinline__ bool is_near(sweep_word limit) const {
        bool found = false;
#pragma unroll
        for (word32 i = 0; i < kReadRows; ++i) {
#pragma unroll
            for (word32 j = 0; j < kVector; ++j) {
                found |= any_below(rows[i].words[j], limit);
            }
        }
        return found;
    }

    template <From kKind>
    __device__ __forceinline__ void write(Step<kEach>& step) const {
#pragma unroll
        for (word32 i = 0; i < kReadRows; ++i) {
            const word32 item = threadIdx.x + i * kFrontBlock;
            if (item < kRowVectors) {
                const word32 word = item % (kPackedAcross / kVector) * kVector;
                *reinterpret_cast<Vector*>(&step.rows[item / (kPackedAcross / kVector)][word]) = rows[i];
            }
        }
#pragma unroll
        for (word32 i = 0; i < kReadWeights; ++i) {
            const word32 item = threadIdx.x + i * kFrontBlock;
            const word32 part = item % (kTile / kVector) * kVector;
            const word32 one = item / (kTile / kVector);
            if constexpr (kKind == From::kBoundary) {
                Vector for_lanes;
#pragma unroll
                for (word32 j = 0; j < kVector; ++j) {
                    for_lanes.words[j] = for_each_lane(weights[i].words[j], 0);
                }
                *reinterpret_cast<Vector*>(&step.weights[one % kDepth][one / kDepth * kTile + part]) = for_lanes;
            } else {
                const bool is_own = kKind == From::kOwnToOwn;
#pragma unroll
                for (word32 j = 0; j < kVector; ++j) {
                    const word32 k = is_own ? item / kRows * kVector + j : part + j;
                    step.weights[k][is_own ? item % kRows : one] = for_each_lane(weights[i].words[j], 0);
                }
            }
        }
    }
};

// A thread lowers so many packed words side by side in one operation.
template <int kEach>
constexpr word32 kGroup = SSSP_WORD_BITS != 16 ? 1 : kEach < 4 ? kEach : 4;

// Where packed word `p` of a thread is. Its groups are kAcross apart: so threads side by side lower words side by side.
template <int kEach>
__device__ __forceinline__ word32 packed_place(word32 p) {
    constexpr word32 group = kGroup<kEach>;
    return (p / group * kAcross + threadIdx.x % kAcross) * group + p % group;
}

template <int kEach>
__device__ __forceinline__ void multiply(const Step<kEach>& step, packed_word (&least)[kRowsEach][kEach]) {
#pragma unroll
    for (word32 k = 0; k < kDepth; ++k) {
        Vector weights[kRowsEach / kVector];
        Words<packed_word, kGroup<kEach>> rows[kEach / kGroup<kEach>];
#pragma unroll
        for (word32 i = 0; i < kRowsEach / kVector; ++i) {
            weights[i] =
                *reinterpret_cast<const Vector*>(&step.weights[k][threadIdx.x / kAcross * kRowsEach + i * kVector]);
        }
#pragma unroll
        for (word32 p = 0; p < kEach; p += kGroup<kEach>) {
            const auto* row = &step.rows[k][packed_place<kEach>(p)];
            rows[p / kGroup<kEach>] = *reinterpret_cast<const Words<packed_word, kGroup<kEach>>*>(row);
        }
#pragma unroll
        for (word32 i = 0; i < kRowsEach; ++i) {
#pragma unroll
            for (word32 p = 0; p < kEach; ++p) {
                const packed_word row = rows[p / kGroup<kEach>].words[p % kGroup<kEach>];
                least[i][p] = lower_lanes(least[i][p], row, weights[i / kVector].words[i % kVector]);
            }
        }
    }
}

#if SSSP_WORD_BITS == 16
// Lowers words of 16 bits in memory, two in each of `least`.
template <word32 kWords>
__device__ __forceinline__ void lower_pairs(packed_word* into, const packed_word (&least)[kWords]) {
    // Words are compared as bfloat16, which have the same order.
    if constexpr (kWords == 4) {
        asm volatile("red.relaxed.gpu.global.min.noftz.v4.bf16x2 [%0], {%1, %2, %3, %4};"
                     :
                     : "l"(into), "r"(least[0]), "r"(least[1]), "r"(least[2]), "r"(least[3])
                     : "memory");
    } else {
        static_assert(kWords == 2);
        asm volatile("red.relaxed.gpu.global.min.noftz.v2.bf16x2 [%0], {%1, %2};"
                     :
                     : "l"(into), "r"(least[0]), "r"(least[1])
                     : "memory");
    }
}
#endif

// Some packed words side by side.
template <word32 kWords>
struct Group : Words<packed_word, kWords> {
    __device__ __forceinline__ bool is_below(sweep_word limit) const {
        bool found = false;
#pragma unroll
        for (word32 i = 0; i < kWords; ++i) {
            found |= any_below(this->words[i], limit);
        }
        return found;
    }

    // Lowers what is in memory to these words.
    __device__ __forceinline__ void lower(packed_word* memory) const {
#if SSSP_WORD_BITS == 16
        lower_pairs(memory, this->words);
#else
        atomicMin(memory, this->words[0]);
#endif
    }

    // The same, and whether a word in memory is then below `limit`. Words of 16 bits are read before they are lowered. So
    // what another thread lowers meanwhile may be missed, but that thread knows of it.
    __device__ __forceinline__ bool lower_to_below(packed_word* memory, sweep_word limit) const {
#if SSSP_WORD_BITS == 16
        const auto before = *reinterpret_cast<const Group*>(memory);
        if (is_below(kInfinity)) {
            lower(memory);
        }
        return before.is_below(limit) || is_below(limit);
#else
        const packed_word before = is_below(kInfinity) ? atomicMin(memory, this->words[0]) : *memory;
        return min(before, this->words[0]) < limit;
#endif
    }
};

// Lowers the rows of a product in the lanes from `lane` on. Rows at `limit` or above it are left out.
// If `near` is not null, it is set where a row is below `limit` then: one word for each 32 lanes.
template <int kEach, From kKind>
__device__ __forceinline__ void lower_rows(const Call& call, const Product<kKind>& product, word32 lane,
                                           sweep_word limit, word32* near, Step<kEach>* steps) {
    constexpr word32 group = kGroup<kEach>;
    packed_word least[kRowsEach][kEach];
#pragma unroll
    for (word32 i = 0; i < kRowsEach; ++i) {
#pragma unroll
        for (word32 p = 0; p < kEach; ++p) {
            least[i][p] = kInfinities;
        }
    }
    const word32 row = threadIdx.x / kAcross * kRowsEach;
    const bool has_rows = threadIdx.x / 32 * (32 / kAcross * kRowsEach) < product.n_rows;  // the same in a warp
    Ahead<kEach> ahead;
    ahead.read(call, product, product.begin, lane);
    word32 which = 0;
    for (word32 first = product.begin; first < product.end; first += kDepth) {
        ahead.template write<kKind>(steps[which]);
        const bool is_any = __syncthreads_or(ahead.is_near(limit));
        if (first + kDepth < product.end) {
            ahead.read(call, product, first + kDepth, lane);
        }
        if (is_any && has_rows) {
            multiply<kEach>(steps[which], least);
        }
        which ^= 1;
    }
#pragma unroll
    for (word32 i = 0; i < kRowsEach; ++i) {
        if (row + i < product.n_rows) {
            const word64 at = product.into_place(call, row + i) * call.n_lanes + lane;
            packed_word* into = reinterpret_cast<packed_word*>(call.rows + at);
#pragma unroll
            for (word32 p = 0; p < kEach; p += group) {
                Group<group> words;
#pragma unroll
                for (word32 j = 0; j < group; ++j) {
                    words.words[j] = least[i][p + j];
                }
                const word32 place = packed_place<kEach>(p);
                packed_word* memory = into + place;
                if (near != nullptr) {
                    const bool is_below = words.lower_to_below(memory, limit);
                    word32* is_near = near + (lane + place * kPacked) / 32;
                    if (is_below && *is_near == 0) {
                        atomicOr(is_near, 1u);
                    }
                } else if (words.is_below(kInfinity)) {
                    words.lower(memory);
                }
            }
        }
    }
}

__device__ __forceinline__ sweep_word limit_of(const Call& call) {
    return call.near == nullptr ? kInfinity : static_cast<sweep_word>(call.limit);
}

// Lowers the own rows of some fronts of a band, which are listed. `n_parts` blocks share a boundary: each has `n_each`
// vertices of it, if there are so many.
template <int kEach>
__device__ __forceinline__ void down(const Call& call, const word32* fronts, word32 n_parts, word32 n_each) {
    __shared__ Step<kEach> steps[2];
    constexpr word32 lanes_of_block = kAcross * kEach * kPacked;
    const word32 blocks_of_lanes = call.n_lanes / lanes_of_block;
    const word32 lane = blockIdx.x % blocks_of_lanes * lanes_of_block;
    const word32 item = blockIdx.x / blocks_of_lanes;
    const word32 front = fronts[item / n_parts];
    const Chunk chunk = call.shapes[front];
    const word32 begin = min(item % n_parts * n_each, chunk.n_boundary);
    const word32 end = min(begin + n_each, chunk.n_boundary);
    word32* near = call.near == nullptr ? nullptr : call.near + front * (call.n_lanes / 32);
    // A front without a boundary has seeds that may be near.
    if (begin < end || item % n_parts == 0) {
        const Product<From::kBoundary> product{call.from_boundary + chunk.boundary_words, chunk, 0, chunk.n_own,
                                               begin, end};
        lower_rows<kEach>(call, product, lane, limit_of(call), near, steps);
    }
}

// Climbs over some fronts of a band, which are listed. A front has `n_groups` groups of rows, first those of its
// boundary, and `n_parts` blocks share its own vertices, with `n_each` of them.
template <int kEach>
__device__ __forceinline__ void up(const Call& call, const word32* fronts, word32 n_groups, word32 n_parts,
                                   word32 n_each) {
    __shared__ Step<kEach> steps[2];
    constexpr word32 lanes_of_block = kAcross * kEach * kPacked;
    const word32 blocks_of_lanes = call.n_lanes / lanes_of_block;
    const word32 lane = blockIdx.x % blocks_of_lanes * lanes_of_block;
    const word32 item = blockIdx.x / blocks_of_lanes;
    const Chunk chunk = call.shapes[fronts[item / n_parts / n_groups]];
    const word32 group = item / n_parts % n_groups;
    const word32 boundary_groups = (chunk.n_boundary + kRows - 1) / kRows;
    const bool is_own = group >= boundary_groups;
    const word32 first = (is_own ? group - boundary_groups : group) * kRows;
    const word32 n_into = is_own ? chunk.n_own : chunk.n_boundary;
    const word32 begin = min(item % n_parts * n_each, chunk.n_own);
    const word32 end = min(begin + n_each, chunk.n_own);
    if (first >= n_into || begin >= end) {
        return;
    }
    const word32 n_rows = min(kRows, n_into - first);
    if (is_own) {
        const Product<From::kOwnToOwn> product{call.from_own + chunk.own_words, chunk, first, n_rows, begin, end};
        lower_rows<kEach>(call, product, lane, limit_of(call), nullptr, steps);
    } else {
        const stored_word* weights = call.to_boundary + chunk.boundary_words;
        const Product<From::kOwnToBoundary> product{weights, chunk, first, n_rows, begin, end};
        lower_rows<kEach>(call, product, lane, limit_of(call), nullptr, steps);
    }
}

// Both kernels get the same arguments, so that the host launches them in one way.
#define SSSP_FRONTS(each)                                                                      \
    extern "C" __global__ void __launch_bounds__(kFrontBlock, 2)                               \
    down_##each##_kernel(const Call call, const word32* fronts, word32, word32 n_parts,        \
                         word32 n_each) {                                                      \
        down<each>(call, fronts, n_parts, n_each);                                             \
    }                                                                                          \
    extern "C" __global__ void __launch_bounds__(kFrontBlock, 2)                               \
    up_##each##_kernel(const Call call, const word32* fronts, word32 n_groups, word32 n_parts, \
                       word32 n_each) {                                                        \
        up<each>(call, fronts, n_groups, n_parts, n_each);                                     \
    }

SSSP_FRONTS(2)
#if SSSP_WORD_BITS != 32
SSSP_FRONTS(4)
#endif
#if SSSP_WORD_BITS != 64
SSSP_FRONTS(8)
#endif
