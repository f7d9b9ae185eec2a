// The queue of `adds`: 32 circular buckets that many warps write and one thread block, the manager, reads.
//
// Idea: a warp reserves places in a bucket with one atomic addition and writes its entries there. No other warp writes
// these places, so writers do not wait for each other. Only the manager reads, so readers do not race. Counters tell
// the manager which entries are written (one for each segment) and which are done (one for each page).
// docs/design/0002-adds-queue.md has the life of an entry, the invariants I1 to I9 and the fences F1 to F7 cited
// here; model/adds_queue.pml checks them.
//
// Needs: the control words (Queue::schedule to the end of the tables) zero at launch; one manager.
// Memory order: F1 to F7, each at its place below.
// NOTE: places are numbered in 32 bits and do not wrap around. More entries than that in one bucket end the run with
//     kIndexSpent.
// Paper: Wang, Fussell, Lin, "A fast work-efficient SSSP algorithm for GPUs", PPoPP 2021, sections 5.1 to 5.4.
#pragma once

#include "relax.cuh"
#include "warp.cuh"

constexpr word32 kBuckets = 32;
constexpr word32 kPageBits = 16;
constexpr word32 kPageEntries = 1u << kPageBits;
constexpr word32 kSegmentEntries = 32;
constexpr word32 kSegments = kPageEntries / kSegmentEntries;
// Words of memory between two words that many warps change: each has a line of its own.
constexpr word32 kLine = 32;
constexpr word32 kNoEntry = 0xffffffffu;
constexpr word32 kNoPage = 0xffffffffu;
// The flag of a worker that must leave.
constexpr word64 kLeave = ~word64{0};

// Why a run was given up: `poison`. `adds.py` has the same numbers.
enum Poison : word32 {
    kPoolExhausted = 1,
    kStalled = 2,
    kDeadline = 3,
    kIndexSpent = 4,
    kInvariant = 100,  // + the invariant's number; only with SSSP_CHECK
};

// What the manager publishes for the workers. Torn and stale reads only misplace an entry (I9).
struct Schedule {
    word64 base;         // bits of the distance at which the head bucket begins
    word64 near_end;     // bits of the distance at which the head buckets end
    word64 rebin_nth;    // bits of a float n: a taken entry that belongs n or more buckets further on goes back there
    float per_delta;     // 1 / delta
    word32 head;
};
static_assert(sizeof(Schedule) == 32, "read as two pairs of 64-bit words");

struct Queue {
    word32* entries;     // (n_pages, 65536)
    word32* written;     // (n_pages, 2048): entries of each segment that are written
    word32* completed;   // (n_pages,): entries of each page that are done
    word32* reserved;    // (32, kLine): entries ever reserved in each bucket
    word64* tables;      // (32, n_mappings): number of the mapping + 1 in the high half, page in the low half
    word64* flags;       // (n_workers,): 0 is idle; else place in the low half, how many entries in the high half
    word64* schedule;    // (4,): Schedule
    word32* poison;      // 0, or why the run was given up
    word32* stop;        // whether no more work comes
    word32* steps;       // grows while workers take steps, however few entries they push
    word32* working;     // (32,) with SSSP_CHECK: entries taken from each bucket and not done
    word32* owners;      // (n_pages,) with SSSP_CHECK: bucket of each page
    word32 n_pages;
    word32 n_mappings;      // a power of two above n_pages

    __device__ __forceinline__ word64* mapping(word32 bucket, word32 nth) const {
        return tables + static_cast<word64>(bucket) * n_mappings + (nth & (n_mappings - 1));
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

// Returns d - base as a number; 0 if d is not beyond base.
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

// Number of buckets from the head to the one for distance `d`, with a fraction.
__device__ __forceinline__ float buckets_on(const Schedule& now, distance_bits d) {
    return beyond(d, static_cast<distance_bits>(now.base)) * now.per_delta;
}

// The bucket for distance `d`: the last one takes all that lies beyond.
__device__ __forceinline__ word32 bucket_of(const Schedule& now, distance_bits d, word32 n_buckets) {
    const float nth = fminf(buckets_on(now, d), static_cast<float>(n_buckets - 1));
    return (now.head + static_cast<word32>(nth)) & (kBuckets - 1);
}

// The page that contains place `index` of `bucket`; waits until it is mapped. kNoPage if the run was given up
// meanwhile. `cache` is the translation cache of the thread block, in shared memory: a pair is one 64-bit word.
__device__ __forceinline__ word32 translate(const Queue& queue, word64* cache, word32 bucket, word32 index) {
    const word32 nth = index >> kPageBits;
    word64 pair = *const_cast<volatile word64*>(cache + bucket);
    while (static_cast<word32>(pair >> 32) != nth + 1) {
        pair = load_acquire(queue.mapping(bucket, nth));  // F7's partner
        if (static_cast<word32>(pair >> 32) == nth + 1) {
            *const_cast<volatile word64*>(cache + bucket) = pair;
        } else if (load_relaxed(queue.stop) != 0) {  // I7
            return kNoPage;
        }
    }
    return static_cast<word32>(pair);
}

// Reserves, writes and publishes an entry of every thread with `has`. For a whole warp together.
__device__ __forceinline__ void publish(const Queue& queue, word64* cache, bool has, word32 bucket, word32 entry) {
    const word32 peers = __match_any_sync(kWholeWarp, has ? bucket : kBuckets);
    const word32 rank = rank_in(peers);
    const word32 count = __popc(peers);
    const int leader = __ffs(peers) - 1;
    word32 index = 0;
    if (has && rank == 0) {
        index = atomicAdd(queue.reserved + bucket * kLine, count);
    }
    index = __shfl_sync(kWholeWarp, index, leader) + rank;
    word32 page = kNoPage;
    if (has) {
        page = translate(queue, cache, bucket, index);
    }
    const word32 offset = index & (kPageEntries - 1);
    if (page != kNoPage) {
        store_relaxed(queue.entries + (static_cast<word64>(page) << kPageBits) + offset, entry);
    }
    __syncwarp();
    fence_acq_rel();  // F1
    // The places of a group follow one another: the first thread of each segment counts for the segment.
    if (page != kNoPage && (rank == 0 || offset % kSegmentEntries == 0)) {
        const word32 in_segment = min(count - rank, kSegmentEntries - offset % kSegmentEntries);
        atomicAdd(queue.written + page * kSegments + offset / kSegmentEntries, in_segment);
    }
}

// ---- the manager's half ----

// One bucket, as only the manager knows it; in shared memory, written by thread 0 of the bucket's warp.
struct Bucket {
    word32 reserved;    // as last read
    word32 known;       // entries before this are written (I1)
    word32 assigned;    // entries before this are assigned (I2)
    word32 n_freed;     // mappings that are freed
    word32 n_mapped;    // mappings that were made
    word32 known_page, assigned_page, freed_page;  // the pages that contain those places
    word32 has_finished;                              // all that was reserved is completed (I5)
};

struct Pool {
    word32* free_pages;  // (n_pages,) in global memory: pages that were freed
    word32 n_free;
    word32 n_fresh;       // pages never used
};

// Number of entries of bucket `b` that can be assigned at once: up to the end of a page, so a flag never spans two.
__device__ __forceinline__ word32 assignable(const Bucket& b) {
    const word32 end_of_page = (b.assigned | (kPageEntries - 1)) + 1;  // 0 past the last page
    return min(b.known - b.assigned, end_of_page - b.assigned);
}

__device__ __forceinline__ word32 mapped_page(const Queue& queue, word32 bucket, word32 nth) {
    return static_cast<word32>(load_relaxed(queue.mapping(bucket, nth)));
}

// What the manager reads of a bucket in one sweep: first everything but `reserved`; then, after F2 and F6, `reserved`.
// It has steps, so that a warp can overlap the accesses to several buckets.
struct BucketReading {
    static constexpr int kEach = 4;                   // segments a thread reads with one access
    static constexpr word32 kWide = 32 * kEach;       // segments a warp reads with one access
    word32 segments[kEach];  // written entries
    word32 first;            // segment of the page from which thread 0 read
    word32 completed;        // entries of the oldest page
    word32 reserved;
    bool may_read;

    __device__ __forceinline__ void read(const Queue& queue, const Bucket& b) {
        const word32 nth = first + kEach * (threadIdx.x % 32);
        if (may_read && nth < kSegments) {
            load_relaxed(segments, queue.written + b.known_page * kSegments + nth);
        } else {
            segments[0] = segments[1] = segments[2] = segments[3] = 0;
        }
    }

    __device__ __forceinline__ void start(const Queue& queue, const Bucket& b, bool is_head) {
        completed = b.n_freed < b.n_mapped ? load_relaxed(queue.completed + b.freed_page) : 0;
        may_read = is_head && (b.known >> kPageBits) < b.n_mapped;
        first = (b.known & (kPageEntries - 1)) / kSegmentEntries & ~word32{kEach - 1};
        read(queue, b);
    }

    // Reads further while all segments that were read are full.
    __device__ __forceinline__ void read_further(const Queue& queue, const Bucket& b) {
        while (__all_sync(kWholeWarp, full() == kEach)) {
            first += kWide;
            read(queue, b);
        }
    }

    // Number of this thread's segments that are full, up to the first that is not.
    __device__ __forceinline__ word32 full() const {
        word32 n = 0;
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            n += n == i && segments[i] == kSegmentEntries ? 1 : 0;
        }
        return n;
    }

    // How far the entries of `b` are known to be written: full segments in a row, then perhaps one that is full as far
    // as it is reserved (I1).
    __device__ __forceinline__ word32 known(const Bucket& b) const {
        if (!may_read) {
            return b.known;
        }
        const word32 n = full();
        const int thread_of_warp = __ffs(__ballot_sync(kWholeWarp, n < kEach)) - 1;
        const word32 nth = first + kEach * thread_of_warp + __shfl_sync(kWholeWarp, n, thread_of_warp);
        const word32 mine = n == 0 ? segments[0] : n == 1 ? segments[1] : n == 2 ? segments[2] : segments[3];
        const word32 next = __shfl_sync(kWholeWarp, mine, thread_of_warp);
        const word32 end = (b.known & ~(kPageEntries - 1)) + nth * kSegmentEntries;
        const bool is_last = nth < kSegments && end + next == reserved;
        return max(b.known, is_last ? reserved : end);
    }
};

// Records in bucket `b` what was read of it, and frees its oldest page if that is done. For a whole warp.
__device__ __forceinline__ void record_reading(const Queue& queue, Bucket& b, word32 bucket, const BucketReading& seen,
                                               Pool& pool) {
    const word32 known = seen.known(b);
    __syncwarp();
    if ((threadIdx.x % 32) == 0) {
        const word32 n_mapped = b.n_mapped;
        const word32 freed = b.n_freed;
        bool is_freed = false;
        if (seen.completed == kPageEntries) {
            // ---- I4: every entry of the page is done ----
            pool.free_pages[atomicAdd(&pool.n_free, 1)] = b.freed_page;
            b.n_freed = freed + 1;
            is_freed = true;
            if (freed + 1 < n_mapped) {
                b.freed_page = mapped_page(queue, bucket, freed + 1);
            }
        }
        b.has_finished = !is_freed && (freed << kPageBits) + seen.completed == seen.reserved;
        SSSP_ASSERT(queue, 3, (freed << kPageBits) + seen.completed <= b.assigned);
        SSSP_ASSERT(queue, 1, known <= seen.reserved);
        if ((known >> kPageBits) != (b.known >> kPageBits) && (known >> kPageBits) < n_mapped) {
            b.known_page = mapped_page(queue, bucket, known >> kPageBits);
        }
        b.known = known;
        b.reserved = seen.reserved;
    }
}

// Maps pages until half a page is free beyond the reserved places. For a whole warp.
__device__ __forceinline__ void map_ahead(const Queue& queue, Bucket& b, word32 bucket, Pool& pool) {
    const word32 thread_of_warp = threadIdx.x % 32;
    for (;;) {
        const word32 nth = b.n_mapped;
        const word64 end = static_cast<word64>(nth) << kPageBits;
        if (end >= static_cast<word64>(b.reserved) + kPageEntries / 2) {
            return;
        }
        if (nth == 0xffff) {
            queue.give_up(kIndexSpent);
            return;
        }
        word32 page = kNoPage;
        if (thread_of_warp == 0) {
            const int left = static_cast<int>(atomicSub(&pool.n_free, 1)) - 1;
            if (left >= 0) {
                page = pool.free_pages[left];
            } else {
                atomicAdd(&pool.n_free, 1);
                const word32 fresh = atomicAdd(&pool.n_fresh, 1);
                page = fresh < queue.n_pages ? fresh : kNoPage;
            }
        }
        page = __shfl_sync(kWholeWarp, page, 0);
        if (page == kNoPage) {
            queue.give_up(kPoolExhausted);
            return;
        }
        for (word32 i = thread_of_warp; i < kSegments; i += 32) {
            store_relaxed(queue.written + page * kSegments + i, 0);
        }
#if SSSP_CHECK
        for (word32 i = thread_of_warp; i < kPageEntries; i += 32) {
            store_relaxed(queue.entries + (static_cast<word64>(page) << kPageBits) + i, kNoEntry);
        }
#endif
        if (thread_of_warp == 0) {
            store_relaxed(queue.completed + page, 0);
#if SSSP_CHECK
            store_relaxed(queue.owners + page, bucket);
#endif
        }
        __syncwarp();
        if (thread_of_warp == 0) {
            store_release(queue.mapping(bucket, nth), (static_cast<word64>(nth + 1) << 32) | page);  // F7
            if (b.known >> kPageBits == nth) {
                b.known_page = page;
            }
            if (b.assigned >> kPageBits == nth) {
                b.assigned_page = page;
            }
            if (b.n_freed == nth) {
                b.freed_page = page;
            }
            b.n_mapped = nth + 1;
        }
        __syncwarp();
    }
}
