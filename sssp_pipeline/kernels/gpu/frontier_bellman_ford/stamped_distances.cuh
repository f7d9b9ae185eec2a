// Distances with the superstep in which they last fell. They keep a vertex from entering a frontier twice.
//
// Idea: the thread that lowers the distance of a vertex enters the vertex in the next frontier, unless it is there
// already. Each superstep has a stamp, larger than those before, and a lowering writes it beside the distance. Of all
// threads that lower a vertex in a superstep, exactly one finds an older stamp, and that one enters it.
//   32-bit weights  distance and stamp are one word, the distance in the upper half (the paper's figure 4). One 64-bit
//                   atomic minimum changes both. A candidate equal to the distance has a stamp at least as large, so it
//                   changes nothing. The row of distances is filled when the search stops or pauses.
//   64-bit weights  no atomic minimum spans both, so the stamp is a word of its own, exchanged after a lowering.
//   SSSP_REMOVE_DUPLICATES 0   no stamps: every lowering enters the vertex.
//
// Needs: `stamps` of stamp_word (V,), or null without stamps.
// Keeps
//     S1. lower() returns true for one lowering of a vertex in a superstep; without stamps for every lowering.
//     S2. A vertex for which look() returns is_entered is in the next frontier, or will be before the superstep ends.
// Memory order: relaxed, like relax.cuh. look() may miss a lowering of the same superstep: it costs work.
// Paper: Busato, Bombieri, IEEE TPDS 2015, section 4.2.
#pragma once

#include "relax.cuh"

#if SSSP_REMOVE_DUPLICATES && SSSP_BITS == 32
#define SSSP_PACKED 1
using stamp_word = word64;
#else
#define SSSP_PACKED 0
using stamp_word = word32;
#endif

// Reads what others write. With SSSP_CACHE_HINTS it does so past the L1 cache, where a distance is rarely found again.
template <typename Word>
__device__ __forceinline__ Word read_shared(const Word* address) {
#if SSSP_CACHE_HINTS
    return __ldcg(address);
#else
    return *address;
#endif
}

struct Seen {
    distance_bits distance;
    bool is_entered;
};

struct StampedDistances {
    distance_bits* distances;
    stamp_word* stamps;

#if SSSP_PACKED
    static __device__ __forceinline__ word64 packed(distance_bits d, word32 stamp) {
        return static_cast<word64>(d) << 32 | stamp;
    }
#endif

    __device__ __forceinline__ void start(word64 v, distance_bits d) const {
#if SSSP_PACKED
        stamps[v] = packed(d, 0);
#else
        distances[v] = d;
#if SSSP_REMOVE_DUPLICATES
        stamps[v] = 0;
#endif
#endif
    }

    __device__ __forceinline__ distance_bits distance(word32 v) const {
#if SSSP_PACKED
        return static_cast<distance_bits>(read_shared(stamps + v) >> 32);
#else
        return read_shared(distances + v);
#endif
    }

    // The distance of v, and whether v fell in the superstep of this stamp.
    __device__ __forceinline__ Seen look(word32 v, word32 stamp) const {
#if SSSP_PACKED
        const word64 both = read_shared(stamps + v);
        return {static_cast<distance_bits>(both >> 32), static_cast<word32>(both) == stamp};
#elif SSSP_REMOVE_DUPLICATES
        return {read_shared(distances + v), read_shared(stamps + v) == stamp};
#else
        return {read_shared(distances + v), false};
#endif
    }

    // Lowers the distance of v to `candidate` if that is less; returns whether the caller is to enter v (S1).
    __device__ __forceinline__ bool lower(word32 v, distance_bits candidate, word32 stamp) const {
#if SSSP_PACKED
        const word64 before = atomicMin(&stamps[v], packed(candidate, stamp));
        return candidate < static_cast<distance_bits>(before >> 32) && static_cast<word32>(before) != stamp;
#elif SSSP_REMOVE_DUPLICATES
        return lower_distance(distances, v, candidate, false).lowered && atomicExch(&stamps[v], stamp) != stamp;
#else
        return lower_distance(distances, v, candidate, false).lowered;
#endif
    }

#if SSSP_REMOVE_DUPLICATES
    // The same for a candidate that is less, where nobody else lowers v in this superstep.
    __device__ __forceinline__ void set(word32 v, distance_bits candidate, word32 stamp) const {
#if SSSP_PACKED
        store_relaxed(&stamps[v], packed(candidate, stamp));
#else
        set_distance(distances, v, candidate);
        store_relaxed(&stamps[v], stamp);
#endif
    }
#endif

    // Leaves the distance of v in `distances`.
    __device__ __forceinline__ void finish(word64 v) const {
#if SSSP_PACKED
        distances[v] = static_cast<distance_bits>(stamps[v] >> 32);
#endif
    }
};
