// The k nearest vertices, or targets, of each row of distances. All GPU solvers share it.
//
// Returns: words (n, 2k): for each row k distances in rising order, then their vertices. Equal distances have rising
//     vertices. Where fewer are reached, the rest is kUnreached and kNoVertex.
// Idea: a block keeps the best k so far, sorted, and their last one as the limit. It collects what is below the limit,
//     and sorts both together when no more candidates fit. Most of a row is above the limit and costs one comparison.
// Needs: distances of zero or more; targets (T,) rise, or null for every vertex; k from 1 to kMost. Rows have a distance
//     of every vertex, or of every target.
// Launch: a block of kThreads for each row.
// NOTE: one block reads a row. A call with few sources on a graph of many million vertices waits for it.

#include "relax.cuh"

constexpr word32 kThreads = 256;
constexpr word32 kMost = 1024;
constexpr word32 kNoVertex = 0xffffffffu;
constexpr word32 kEach = 4;  // candidates of a thread in a step
constexpr word32 kStep = kEach * kThreads;
constexpr word32 kPlaces = kMost + kStep;  // a power of two

__device__ __forceinline__ bool is_nearer(distance_bits d, word32 v, distance_bits than, word32 than_v) {
    return d < than || (d == than && v < than_v);
}

// Sorts all places by distance and vertex (Batcher's bitonic sort).
__device__ void sort(distance_bits* distances, word32* vertices) {
    for (word32 size = 2; size <= kPlaces; size *= 2) {
        for (word32 by = size / 2; by > 0; by /= 2) {
            __syncthreads();
            for (word32 pair = threadIdx.x; pair < kPlaces / 2; pair += kThreads) {
                const word32 low = 2 * pair - (pair & (by - 1));
                const word32 high = low + by;
                const bool rises = (low & size) == 0;
                const distance_bits d = distances[low];
                const word32 v = vertices[low];
                if (is_nearer(distances[high], vertices[high], d, v) == rises) {
                    distances[low] = distances[high];
                    vertices[low] = vertices[high];
                    distances[high] = d;
                    vertices[high] = v;
                }
            }
        }
    }
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(kThreads)
    nearest_kernel(const distance_bits* rows, word32 n_columns, const word32* targets, word32 n_candidates, word32 k,
                   word64* words) {
    __shared__ distance_bits distances[kPlaces];
    __shared__ word32 vertices[kPlaces];
    __shared__ word32 n_used;
    const distance_bits* const row = rows + static_cast<word64>(blockIdx.x) * n_columns;
    for (word32 place = threadIdx.x; place < kPlaces; place += kThreads) {
        distances[place] = kUnreached;
        vertices[place] = kNoVertex;
    }
    if (threadIdx.x == 0) {
        n_used = k;
    }
    __syncthreads();

    distance_bits limit = kUnreached;
    word32 limit_vertex = 0;  // nothing unreached is nearer
    for (word64 first = 0; first < n_candidates; first += kStep) {
        distance_bits d[kEach];
        word32 v[kEach];
        bool has_any = false;
#pragma unroll
        for (word32 j = 0; j < kEach; ++j) {
            const word64 i = first + j * kThreads + threadIdx.x;
            v[j] = i >= n_candidates ? kNoVertex : targets == nullptr ? static_cast<word32>(i) : targets[i];
            d[j] = i >= n_candidates ? kUnreached : row[n_columns == n_candidates ? i : v[j]];
            has_any |= is_nearer(d[j], v[j], limit, limit_vertex);
        }
        const word32 n_before = n_used;  // the last step ended with a barrier, so all threads read the same
        if (!__syncthreads_or(has_any)) {
            continue;
        }
        if (n_before > kPlaces - kStep) {
            sort(distances, vertices);
            limit = distances[k - 1];
            limit_vertex = limit < kUnreached ? vertices[k - 1] : 0;
            __syncthreads();
            for (word32 place = k + threadIdx.x; place < kPlaces; place += kThreads) {
                distances[place] = kUnreached;
                vertices[place] = kNoVertex;
            }
            if (threadIdx.x == 0) {
                n_used = k;
            }
            __syncthreads();
        }
#pragma unroll
        for (word32 j = 0; j < kEach; ++j) {
            if (is_nearer(d[j], v[j], limit, limit_vertex)) {
                const word32 place = atomicAdd(&n_used, 1u);
                distances[place] = d[j];
                vertices[place] = v[j];
            }
        }
        __syncthreads();
    }

    sort(distances, vertices);
    for (word32 rank = threadIdx.x; rank < k; rank += kThreads) {
        word64* const of_row = words + static_cast<word64>(blockIdx.x) * 2 * k;
        of_row[rank] = distances[rank];
        of_row[k + rank] = vertices[rank];
    }
}
