// The queue of `adds`: 32 circular buckets that many warps write and one thread block, the manager, reads.
//
// Idea: whoever has a word for a bucket reserves a place with one atomic addition and writes there; nobody else
// ever writes that place, so writers do not wait for each other. Only the manager reads, so readers do not race.
// What is left is to tell it which words are written (a counter a segment) and which are done (a counter a block).
// docs/design/0002-adds-queue.md holds the life of a word, the invariants I1 to I9 and the fences F1 to F7 cited
// here; model/adds_queue.pml checks them.
//
// Needs: the control words (Queue::control to the end of the tables) zero at launch; one manager.
// Memory order: F1 to F7, each at its place below.
// NOTE: places are numbered in 32 bits and never come round: 2^32 words in one bucket are kIndexSpent.
// Paper: Wang, Fussell, Lin, "A fast work-efficient SSSP algorithm for GPUs", PPoPP 2021, sections 5.1 to 5.4.
#pragma once

#include "relax.cuh"
#include "warp.cuh"

constexpr word32 kBuckets = 32;
constexpr word32 kBlockBits = 16;
constexpr word32 kBlockWords = 1u << kBlockBits;
constexpr word32 kSegmentWords = 32;
constexpr word32 kSegments = kBlockWords / kSegmentWords;
// Words of memory between two words that many warps change: a line each.
constexpr word32 kLine = 32;
constexpr word32 kNoWord = 0xffffffffu;
// The flag of a worker that may go home.
constexpr word64 kLeave = ~word64{0};

// Why a run was given up: `poison`. `adds.py` has the same numbers.
enum Poison : word32 {
    kPoolExhausted = 1,
    kStalled = 2,
    kDeadline = 3,
    kIndexSpent = 4,
    kInvariant = 100,  // + the invariant's number; only with SSSP_CHECK
};

// What the manager lets everybody know. Torn and stale reads only misplace a word (I9).
struct Schedule {
    word64 base;         // bits of the distance at which the head bucket begins
    word64 near_end;     // bits of the distance at which the head buckets end
    word64 rebin_nth;    // bits of a float: a word taken that belongs so many buckets on or more goes back there
    float per_delta;     // 1 / delta
    word32 head;
};
static_assert(sizeof(Schedule) == 32, "read as two pairs of 64-bit words");

struct Queue {
    word32* words;       // (n_blocks, 65536)
    word32* written;     // (n_blocks, 2048): words of each segment that are written
    word32* completed;   // (n_blocks,): words of each block that are done
    word32* reserved;    // (32, kLine): words ever reserved in each bucket
    word64* tables;      // (32, n_slots): number of the mapping + 1 in the high half, block in the low half
    word64* flags;       // (n_workers,): 0 is idle; else place in the low half, how many words in the high half
    word64* schedule;    // (4,): Schedule
    word32* poison;      // 0, or why the run was given up
    word32* stop;        // whether no more work comes
    word32* steps;       // grows while workers take steps, however few words they push
    word32* working;     // (32,) with SSSP_CHECK: words taken from each bucket and not done
    word32* owners;      // (n_blocks,) with SSSP_CHECK: bucket of each block
    word32 n_blocks;
    word32 n_slots;      // a power of two above n_blocks

    __device__ __forceinline__ word64* entry(word32 bucket, word32 nth) const {
        return tables + static_cast<word64>(bucket) * n_slots + (nth & (n_slots - 1));
    }

    __device__ __forceinline__ void give_up(word32 why) const {
        atomicCAS(poison, 0u, why);
        store_relaxed(stop, 1);
    }
};

#if SSSP_CHECK
#define SSSP_ASSERT(queue, number, claim)            \
    do {                                             \
        if (!(claim)) {                              \
            (queue).give_up(kInvariant + (number));  \
        }                                            \
    } while (0)
#else
#define SSSP_ASSERT(queue, number, claim) \
    do {                                  \
    } while (0)
#endif

__device__ __forceinline__ Schedule read_schedule(const Queue& queue) {
    Schedule now;
    word64 last;
    asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(now.base), "=l"(now.near_end) : "l"(queue.schedule) : "memory");
    asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(now.rebin_nth), "=l"(last) : "l"(queue.schedule + 2) : "memory");
    now.per_delta = __uint_as_float(static_cast<word32>(last));
    now.head = static_cast<word32>(last >> 32);
    return now;
}

// How far `d` is beyond `base`, as a number; 0 if it is not.
__device__ __forceinline__ float beyond(distance_bits d, distance_bits base) {
    if (d <= base) {
        return 0.0f;
    }
#if SSSP_FLOATING && SSSP_BITS == 32
    return __uint_as_float(d) - __uint_as_float(base);
#elif SSSP_FLOATING
    return static_cast<float>(__longlong_as_double(static_cast<long long>(d)) -
                              __longlong_as_double(static_cast<long long>(base)));
#else
    return static_cast<float>(d - base);
#endif
}

// How many buckets after the head distance `d` belongs.
__device__ __forceinline__ float buckets_on(const Schedule& now, distance_bits d) {
    return beyond(d, static_cast<distance_bits>(now.base)) * now.per_delta;
}

// The bucket for distance `d`: the last one takes all that lies beyond.
__device__ __forceinline__ word32 bucket_of(const Schedule& now, distance_bits d, word32 n_buckets) {
    const float nth = fminf(buckets_on(now, d), static_cast<float>(n_buckets - 1));
    return (now.head + static_cast<word32>(nth)) & (kBuckets - 1);
}

// The block of the pool that place `index` of `bucket` lies in; waits until it is mapped. kNoWord if the run was
// given up meanwhile. `cache` is the block's translation cache in shared memory: a pair is one 64-bit word.
__device__ __forceinline__ word32 translate(const Queue& queue, word64* cache, word32 bucket, word32 index) {
    const word32 nth = index >> kBlockBits;
    word64 pair = *const_cast<volatile word64*>(cache + bucket);
    while (static_cast<word32>(pair >> 32) != nth + 1) {
        pair = load_acquire(queue.entry(bucket, nth));  // F7's partner
        if (static_cast<word32>(pair >> 32) == nth + 1) {
            *const_cast<volatile word64*>(cache + bucket) = pair;
        } else if (load_relaxed(queue.stop) != 0) {  // I7
            return kNoWord;
        }
    }
    return static_cast<word32>(pair);
}

// Reserves, writes and publishes a word of every lane with `has`. For a whole warp together.
__device__ __forceinline__ void publish(const Queue& queue, word64* cache, bool has, word32 bucket, word32 word) {
    const word32 peers = __match_any_sync(kWholeWarp, has ? bucket : kBuckets);
    const word32 rank = rank_in(peers);
    const word32 count = __popc(peers);
    const int leader = __ffs(peers) - 1;
    word32 index = 0;
    if (has && rank == 0) {
        index = atomicAdd(queue.reserved + bucket * kLine, count);
    }
    index = __shfl_sync(kWholeWarp, index, leader) + rank;
    word32 block = kNoWord;
    if (has) {
        block = translate(queue, cache, bucket, index);
    }
    const word32 offset = index & (kBlockWords - 1);
    if (block != kNoWord) {
        store_relaxed(queue.words + (static_cast<word64>(block) << kBlockBits) + offset, word);
    }
    __syncwarp();
    fence_acq_rel();  // F1
    // The places of a group follow one another: the first lane of each segment counts for the segment.
    if (block != kNoWord && (rank == 0 || offset % kSegmentWords == 0)) {
        const word32 in_segment = min(count - rank, kSegmentWords - offset % kSegmentWords);
        atomicAdd(queue.written + block * kSegments + offset / kSegmentWords, in_segment);
    }
}

// ---- the manager's half ----

// One bucket, as only the manager knows it; in shared memory, written by lane 0 of the bucket's warp.
struct Bucket {
    word32 reserved;    // as last read
    word32 known;       // words before this are written (I1)
    word32 assigned;    // words before this are assigned (I2)
    word32 n_freed;     // mappings that are freed
    word32 n_mapped;    // mappings that were made
    word32 known_block, assigned_block, freed_block;  // the blocks in which those places lie
    word32 has_finished;                              // all that was reserved is completed (I5)
};

struct Pool {
    word32* free_blocks;  // (n_blocks,) in global memory: blocks that came back
    word32 n_free;
    word32 n_fresh;       // blocks never used
};

// Number of words of bucket `b` that can be assigned at once: up to the end of a block, so a flag never spans two.
__device__ __forceinline__ word32 assignable(const Bucket& b) {
    const word32 end_of_block = (b.assigned | (kBlockWords - 1)) + 1;  // 0 past the last block
    return min(b.known - b.assigned, end_of_block - b.assigned);
}

__device__ __forceinline__ word32 mapped_block(const Queue& queue, word32 bucket, word32 nth) {
    return static_cast<word32>(load_relaxed(queue.entry(bucket, nth)));
}

// What the manager reads of a bucket in one sweep: first all but `reserved`, then, behind F2 and F6, `reserved`. In
// steps, so that a warp has the accesses of several buckets under way together.
struct Glance {
    static constexpr int kEach = 4;                   // segments a lane reads with one access
    static constexpr word32 kWide = 32 * kEach;       // segments a warp reads with one access
    word32 segments[kEach];  // written words
    word32 first;            // segment of the block from which on lane 0 has read
    word32 completed;        // words of the oldest block
    word32 reserved;
    bool may_read;

    __device__ __forceinline__ void read(const Queue& queue, const Bucket& b) {
        const word32 nth = first + kEach * (threadIdx.x & 31);
        if (may_read && nth < kSegments) {
            load_relaxed(segments, queue.written + b.known_block * kSegments + nth);
        } else {
            segments[0] = segments[1] = segments[2] = segments[3] = 0;
        }
    }

    __device__ __forceinline__ void look(const Queue& queue, const Bucket& b, bool is_head) {
        completed = b.n_freed < b.n_mapped ? load_relaxed(queue.completed + b.freed_block) : 0;
        may_read = is_head && (b.known >> kBlockBits) < b.n_mapped;
        first = (b.known & (kBlockWords - 1)) / kSegmentWords & ~word32{kEach - 1};
        read(queue, b);
    }

    // Reads on while all that was read is full.
    __device__ __forceinline__ void look_on(const Queue& queue, const Bucket& b) {
        while (__all_sync(kWholeWarp, full() == kEach)) {
            first += kWide;
            read(queue, b);
        }
    }

    // Of the lane's segments, how many are full up to the first that is not.
    __device__ __forceinline__ word32 full() const {
        word32 n = 0;
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            n += n == i && segments[i] == kSegmentWords ? 1 : 0;
        }
        return n;
    }

    // How far the words of `b` are known to be written: full segments in a row, then perhaps one that is full as far
    // as it is reserved (I1).
    __device__ __forceinline__ word32 known(const Bucket& b) const {
        if (!may_read) {
            return b.known;
        }
        const word32 n = full();
        const int lane = __ffs(__ballot_sync(kWholeWarp, n < kEach)) - 1;
        const word32 nth = first + kEach * lane + __shfl_sync(kWholeWarp, n, lane);
        const word32 mine = n == 0 ? segments[0] : n == 1 ? segments[1] : n == 2 ? segments[2] : segments[3];
        const word32 next = __shfl_sync(kWholeWarp, mine, lane);
        const word32 end = (b.known & ~(kBlockWords - 1)) + nth * kSegmentWords;
        const bool is_last = nth < kSegments && end + next == reserved;
        return max(b.known, is_last ? reserved : end);
    }
};

// Enters what was seen of bucket `b`. For a warp.
__device__ __forceinline__ void note(const Queue& queue, Bucket& b, word32 bucket, const Glance& seen, Pool& pool) {
    const word32 known = seen.known(b);
    __syncwarp();
    if ((threadIdx.x & 31) == 0) {
        const word32 n_mapped = b.n_mapped;
        const word32 freed = b.n_freed;
        bool is_freed = false;
        if (seen.completed == kBlockWords) {
            // ---- I4: every word of the block is done ----
            pool.free_blocks[atomicAdd(&pool.n_free, 1)] = b.freed_block;
            b.n_freed = freed + 1;
            is_freed = true;
            if (freed + 1 < n_mapped) {
                b.freed_block = mapped_block(queue, bucket, freed + 1);
            }
        }
        b.has_finished = !is_freed && (freed << kBlockBits) + seen.completed == seen.reserved;
        SSSP_ASSERT(queue, 3, (freed << kBlockBits) + seen.completed <= b.assigned);
        SSSP_ASSERT(queue, 1, known <= seen.reserved);
        if ((known >> kBlockBits) != (b.known >> kBlockBits) && (known >> kBlockBits) < n_mapped) {
            b.known_block = mapped_block(queue, bucket, known >> kBlockBits);
        }
        b.known = known;
        b.reserved = seen.reserved;
    }
}

// Maps blocks until half a block lies free beyond what is reserved. For a warp.
__device__ __forceinline__ void map_ahead(const Queue& queue, Bucket& b, word32 bucket, Pool& pool) {
    const word32 lane = threadIdx.x & 31;
    for (;;) {
        const word32 nth = b.n_mapped;
        const word64 end = static_cast<word64>(nth) << kBlockBits;
        if (end >= static_cast<word64>(b.reserved) + kBlockWords / 2) {
            return;
        }
        if (nth == 0xffff) {
            queue.give_up(kIndexSpent);
            return;
        }
        word32 block = kNoWord;
        if (lane == 0) {
            const int left = static_cast<int>(atomicSub(&pool.n_free, 1)) - 1;
            if (left >= 0) {
                block = pool.free_blocks[left];
            } else {
                atomicAdd(&pool.n_free, 1);
                const word32 fresh = atomicAdd(&pool.n_fresh, 1);
                block = fresh < queue.n_blocks ? fresh : kNoWord;
            }
        }
        block = __shfl_sync(kWholeWarp, block, 0);
        if (block == kNoWord) {
            queue.give_up(kPoolExhausted);
            return;
        }
        for (word32 i = lane; i < kSegments; i += 32) {
            store_relaxed(queue.written + block * kSegments + i, 0);
        }
#if SSSP_CHECK
        for (word32 i = lane; i < kBlockWords; i += 32) {
            store_relaxed(queue.words + (static_cast<word64>(block) << kBlockBits) + i, kNoWord);
        }
#endif
        if (lane == 0) {
            store_relaxed(queue.completed + block, 0);
#if SSSP_CHECK
            store_relaxed(queue.owners + block, bucket);
#endif
        }
        __syncwarp();
        if (lane == 0) {
            store_release(queue.entry(bucket, nth), (static_cast<word64>(nth + 1) << 32) | block);  // F7
            if (b.known >> kBlockBits == nth) {
                b.known_block = block;
            }
            if (b.assigned >> kBlockBits == nth) {
                b.assigned_block = block;
            }
            if (b.n_freed == nth) {
                b.freed_block = block;
            }
            b.n_mapped = nth + 1;
        }
        __syncwarp();
    }
}
