// What is accumulated for each vertex over the sources of several rows, of either layout. All GPU solvers share it.
//
// Returns: words (W, V) in the order of `over_sources.py`, to which the rows are added: how many sources reach the vertex,
//     the nearest of them, the exact sum of the distances in limbs, and how many of them are within each radius.
// Idea: a thread has a vertex. It reads the vertex's distance in each row, so neighbouring threads read neighbouring words,
//     and it keeps what it adds in registers. By place, where the distances of a vertex are neighbours, a warp has a
//     vertex. Everything is an integer, so no order of rows changes a bit.
// Needs: distances of zero or more, so their bits have the order of the distances; at least one row; limits rise.
//     SSSP_NEAREST 0 or 1; SSSP_LIMBS 0 to 3; SSSP_RADII: how many limits there are.
// Launch: any grid, blocks of a multiple of 32 threads. Launches on the same words follow each other.

#include "row_layout.cuh"

constexpr word32 kLimbs = SSSP_LIMBS;
constexpr word32 kRadii = SSSP_RADII;
constexpr word32 kNoVertex = 0xffffffffu;

// Words of a vertex, in the order of `over_sources.py`.
constexpr word32 kReachedBy = 0;
constexpr word32 kNearest = 1;  // the bits of the distance, then the source
constexpr word32 kSum = kNearest + 2 * SSSP_NEAREST;
constexpr word32 kWithin = kSum + kLimbs;
constexpr word32 kWords = kWithin + kRadii;

#if SSSP_LIMBS
// Adds the distance d to `limbs`. A float is an integer times a power of two; `low` is the exponent field of a float whose
// mantissa is not shifted.
__device__ __forceinline__ void add_to_limbs(distance_bits d, [[maybe_unused]] long long low, word64* limbs) {
#if SSSP_FLOATING
    constexpr word32 kMantissa = SSSP_BITS == 32 ? 23 : 52;
    const long long exponent = static_cast<long long>(d >> kMantissa);
    const word64 hidden = exponent > 0 ? word64{1} << kMantissa : 0;
    const word64 mantissa = (static_cast<word64>(d) & ((word64{1} << kMantissa) - 1)) | hidden;
    const long long shift = max(exponent, 1ll) - low;
    if (shift < 0) {
        const word64 kept = shift > -64 ? mantissa >> -shift : 0;
        limbs[0] += kept & 0xffffffffu;
        limbs[1] += kept >> 32;
        return;
    }
    const word32 bits = shift % 32;
    const word64 lower = mantissa << bits;
    const word64 upper = bits > 0 ? mantissa >> (64 - bits) : 0;
    const word64 parts[3] = {lower & 0xffffffffu, lower >> 32, upper};
#pragma unroll
    for (word32 limb = 0; limb < kLimbs; ++limb) {
#pragma unroll
        for (word32 part = 0; part <= limb; ++part) {
            limbs[limb] += limb - part == shift / 32 ? parts[part] : 0;
        }
    }
#elif SSSP_BITS == 32
    limbs[0] += d;
#else
    limbs[0] += d & 0xffffffffu;
    limbs[1] += d >> 32;
#endif
}
#endif

// Combines what the threads of a vertex have found. By source these are one thread, by place a warp.
template <typename Word>
__device__ __forceinline__ Word total(Word amount) {
    return SSSP_LANE_BITS ? sum_over_warp(amount) : amount;
}

template <typename Word>
__device__ __forceinline__ Word least(Word value) {
    return SSSP_LANE_BITS ? minimum_over_warp(value) : value;
}

extern "C" __global__ void over_sources_kernel(const Rows rows, word32 n_rows, word32 n_vertices, const word32* sources,
                                               const distance_bits* limits, long long low, word64* words) {
    const word64 n_threads = static_cast<word64>(gridDim.x) * blockDim.x / kRowsOfWarp;
    const word64 thread = blockIdx.x * static_cast<word64>(blockDim.x) + threadIdx.x;
    const word32 lane = threadIdx.x % kRowsOfWarp;
    for (word64 v = thread / kRowsOfWarp; v < n_vertices; v += n_threads) {
        const word64 at = rows.at(v);
        word32 reached_by = 0;
#if SSSP_NEAREST
        distance_bits nearest = static_cast<distance_bits>(words[kNearest * static_cast<word64>(n_vertices) + v]);
        word32 source = static_cast<word32>(words[(kNearest + 1) * static_cast<word64>(n_vertices) + v]);
#endif
#if SSSP_LIMBS
        word64 limbs[kLimbs] = {};
#endif
#if SSSP_RADII
        word32 within[kRadii] = {};
#endif
#pragma unroll 4
        for (word32 row = lane; row < n_rows; row += kRowsOfWarp) {
            const distance_bits d = rows.distance(row, n_vertices, at);
            if (d >= kUnreached) {
                continue;
            }
            ++reached_by;
#if SSSP_NEAREST
            if (d < nearest || (d == nearest && sources[row] < source)) {
                nearest = d;
                source = sources[row];
            }
#endif
#if SSSP_LIMBS
            add_to_limbs(d, low, limbs);
#endif
#if SSSP_RADII
#pragma unroll
            for (word32 r = 0; r < kRadii; ++r) {
                within[r] += d < limits[r];
            }
#endif
        }
        const auto add = [&](word32 word, word64 amount) {
            if (lane == 0) {
                words[word * static_cast<word64>(n_vertices) + v] += amount;
            }
        };
        add(kReachedBy, total(reached_by));
#if SSSP_NEAREST
        const distance_bits of_all = least(nearest);
        source = least(nearest == of_all ? source : kNoVertex);
        if (lane == 0) {
            words[kNearest * static_cast<word64>(n_vertices) + v] = of_all;
            words[(kNearest + 1) * static_cast<word64>(n_vertices) + v] = source;
        }
#endif
#if SSSP_LIMBS
#pragma unroll
        for (word32 limb = 0; limb < kLimbs; ++limb) {
            add(kSum + limb, total(limbs[limb]));
        }
#endif
#if SSSP_RADII
#pragma unroll
        for (word32 r = 0; r < kRadii; ++r) {
            add(kWithin + r, total(within[r]));
        }
#endif
    }
}

// Makes the words (W, V) those of no source.
extern "C" __global__ void no_sources_kernel(word32 n_vertices, word64* words) {
    const word64 n_words = static_cast<word64>(kWords) * n_vertices;
    const word64 n_threads = static_cast<word64>(gridDim.x) * blockDim.x;
    for (word64 i = blockIdx.x * static_cast<word64>(blockDim.x) + threadIdx.x; i < n_words; i += n_threads) {
        const word64 word = i / n_vertices;
        words[i] = SSSP_NEAREST && word == kNearest ? kUnreached : SSSP_NEAREST && word == kNearest + 1 ? kNoVertex : 0;
    }
}
