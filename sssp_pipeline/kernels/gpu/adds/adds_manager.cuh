// The manager of `adds`: one thread block that sweeps over the buckets and the workers' flags and hands entries out.
//
// Idea: a path through the queue waits for one to two sweeps at every hop, so sweeps must be short. All warps read
// flags and buckets together, with all accesses under way at once. Warp 0 alone plans. Then the other warps write the
// flags, while warp 0 continues with what can wait (`adds_control.cuh`).
//
// Needs: one block of at least 64 threads; at most kFlagsEach * (SSSP_THREADS - 32) workers.
// Keeps: I1 to I6 and I9 of docs/design/0002-adds-queue.md.
// Memory order: F2, F3 and F6 here, F7 in bucket_queue.cuh.
// Ends: after two empty sweeps (I6), or when the run is given up (I7).
#pragma once

#include "adds_control.cuh"

// Flags that a thread reads. Warp 0 plans and reads none.
constexpr int kFlagsEach = 6;
constexpr int kBucketsEach = (kBuckets + kWarps - 1) / kWarps;
static_assert(kWarps >= 2 && kWarps <= 32, "warp 0 plans, the others write flags");

// The i-th worker that this thread, which is not of warp 0, looks after.
__device__ __forceinline__ word32 flag_of(int i) { return threadIdx.x - 32 + i * (SSSP_THREADS - 32); }

// Warp 0: where the head is and what is handed out.
__device__ __forceinline__ SweepSummary plan(const Queue& queue, Manager& m, Control& c, word32 n_workers) {
    const Tuning& tuning = m.tuning;
    const word32 thread_of_warp = threadIdx.x % 32;
    const word32 idle_here = thread_of_warp < kWarps ? m.idle_before[thread_of_warp] : 0;
    const word32 finished = __ballot_sync(kWholeWarp, m.from_head(thread_of_warp).has_finished != 0);
    const word32 idle_before = prefix_sum(idle_here) - idle_here;
    SweepSummary seen;
    seen.n_idle = sum_over_warp(idle_here);
    m.idle_before[thread_of_warp] = idle_before;

    // ---- the head moves over buckets all of whose work is done (I5) ----
    const word32 moves = finished == kWholeWarp ? 0 : __ffs(~finished) - 1;
#if SSSP_CHECK
    if (thread_of_warp < moves) {
        SSSP_ASSERT(queue, 5, load_relaxed(queue.working + ((m.head + thread_of_warp) & (kBuckets - 1))) == 0);
        SSSP_ASSERT(queue, 5, m.from_head(thread_of_warp).assigned == m.from_head(thread_of_warp).reserved);
    }
#endif
    __syncwarp();
    if (moves > 0) {
        c.head = (c.head + moves) & (kBuckets - 1);
        c.base += moves * c.delta;
        c.switches += moves;
        c.is_new = true;
        m.head = c.head;
        __syncwarp();
    }

    // ---- assignments: best bucket first, the entries of each cut evenly (I2) ----
    Bucket& bucket = m.from_head(thread_of_warp);
    const word32 there = thread_of_warp < c.n_heads ? assignable(bucket) : 0;
    seen.n_there = sum_over_warp(there);
    const word32 each =
        max(tuning.least_entries, min(tuning.most_entries, (seen.n_there + seen.n_idle) / (seen.n_idle + 1)));
    const word32 parts = (there + each - 1) / each;
    const word32 rank = prefix_sum(parts) - parts;
    const word32 given = min(parts, seen.n_idle - min(seen.n_idle, rank));
    const word32 entries_given = min(there, given * each);
    if (thread_of_warp < kMostHeads) {
        m.plan_rank[thread_of_warp] = rank;
        const word32 begin = (bucket.assigned_page << kPageBits) | (bucket.assigned & (kPageEntries - 1));
        m.plan_places[thread_of_warp] = {begin - rank * each, begin + entries_given};
    }
    const word32 assigned = bucket.assigned + entries_given;
    if ((assigned >> kPageBits) != (bucket.assigned >> kPageBits) && (assigned >> kPageBits) < bucket.n_mapped) {
        bucket.assigned_page = mapped_page(queue, (c.head + thread_of_warp) & (kBuckets - 1), assigned >> kPageBits);
    }
    bucket.assigned = assigned;
    seen.queued_here = bucket.reserved - assigned;
    seen.queued = sum_over_warp(seen.queued_here);
    seen.n_assigned = sum_over_warp(entries_given);
    const word32 n_given = sum_over_warp(given);
    seen.n_busy = n_workers - seen.n_idle + n_given;

    // ---- the end: two sweeps in which nobody worked and nothing was left (I6) ----
    const bool is_empty = seen.n_idle == n_workers && seen.queued == 0 && seen.n_assigned == 0;
    c.empty_sweeps = is_empty ? c.empty_sweeps + 1 : 0;
    seen.is_over = c.empty_sweeps == 2 || m.is_stopped != 0;
    if (thread_of_warp == 0) {
        m.entries_each = each;
        m.n_given = seen.is_over ? 0 : n_given;
        m.is_over = seen.is_over;
    }
    return seen;
}

// All warps but the first: writes the flags of the workers that the plan gives something.
__device__ __forceinline__ void hand_out(const Queue& queue, const Manager& m, const word32 (&idle)[kFlagsEach]) {
    const word32 thread_of_warp = threadIdx.x % 32;
    word32 rank_here = m.idle_before[threadIdx.x / 32];
    const word32 n_given = m.n_given;
    const word32 each = m.entries_each;
    if (rank_here >= n_given) {
        return;
    }
    word32 ranks[kMostHeads];
#pragma unroll
    for (int k = 0; k < kMostHeads; ++k) {
        ranks[k] = m.plan_rank[k];
    }
#pragma unroll
    for (int i = 0; i < kFlagsEach; ++i) {
        const word32 rank = rank_here + rank_in(idle[i]);
        rank_here += __popc(idle[i]);
        if ((idle[i] >> thread_of_warp & 1) == 0 || rank >= n_given) {
            continue;
        }
        word32 k = 0;
#pragma unroll
        for (int j = 1; j < kMostHeads; ++j) {
            k += ranks[j] <= rank ? 1 : 0;
        }
        const uint2 places = m.plan_places[k];
        const word32 place = places.x + rank * each;
        const word32 count = min(each, places.y - place);
        store_relaxed(queue.flags + flag_of(i), (static_cast<word64>(count) << 32) | place);
    }
}

__device__ void manage(const Queue& queue, Manager& m, word32 n_workers, Report* report, Trace* traces) {
    const word32 thread_of_warp = threadIdx.x % 32;
    const word32 warp = threadIdx.x / 32;
    const Tuning& tuning = m.tuning;
    Control c{};
    if (warp == 0) {
        c.age.start();
        c.set_delta(tuning.delta);
        c.least_delta = tuning.least_delta;
        c.n_heads = tuning.first_heads;
    }
    for (;;) {
        // ---- look at the flags and the buckets ----
        word64 flags[kFlagsEach];
#pragma unroll
        for (int i = 0; i < kFlagsEach; ++i) {
            flags[i] = warp > 0 && flag_of(i) < n_workers ? load_relaxed(queue.flags + flag_of(i)) : kLeave;
        }
        BucketReading seen[kBucketsEach];
#pragma unroll
        for (int i = 0; i < kBucketsEach; ++i) {
            const word32 b = warp + i * kWarps;
            if (b < kBuckets) {
                const Bucket& bucket = m.buckets[b];
                const bool is_head = ((b - m.head) & (kBuckets - 1)) < tuning.most_heads;
                seen[i].start(queue, bucket, is_head || bucket.known < bucket.reserved);
            }
        }
#pragma unroll
        for (int i = 0; i < kBucketsEach; ++i) {
            const word32 b = warp + i * kWarps;
            if (b < kBuckets) {
                seen[i].read_further(queue, m.buckets[b]);
            }
        }
        fence_acq_rel();  // F2, F6
#pragma unroll
        for (int i = 0; i < kBucketsEach; ++i) {
            const word32 b = warp + i * kWarps;
            if (b < kBuckets) {
                seen[i].reserved = load_relaxed(queue.reserved + b * kLine);
            }
        }
        word32 idle[kFlagsEach];
        word32 n_idle = 0;
#pragma unroll
        for (int i = 0; i < kFlagsEach; ++i) {
            idle[i] = __ballot_sync(kWholeWarp, flags[i] == 0);
            n_idle += __popc(idle[i]);
        }
        if (thread_of_warp == 0) {
            m.idle_before[warp] = n_idle;
        }
        if (threadIdx.x == 0) {
            m.is_stopped = load_relaxed(queue.stop);
        }
#pragma unroll
        for (int i = 0; i < kBucketsEach; ++i) {
            const word32 b = warp + i * kWarps;
            if (b < kBuckets) {
                record_reading(queue, m.buckets[b], b, seen[i], m.pool);
            }
        }
        __syncthreads();
        // ---- plan, then hand out ----
        SweepSummary summary{};
        if (warp == 0) {
            summary = plan(queue, m, c, n_workers);
        } else if (n_idle > 0) {
            fence_acq_rel();  // F3, for the stores below: nothing they need is read between the two barriers
        }
        __syncthreads();
        if (warp > 0) {
            hand_out(queue, m, idle);
        } else {
            control(queue, m, c, summary, n_workers, traces);
        }
        if (m.is_over) {
            if (warp == 0) {
                write_report(queue, m, c, summary, n_workers, report);
            }
            break;
        }
        for (word32 b = warp; b < kBuckets; b += kWarps) {
            map_ahead(queue, m.buckets[b], b, m.pool);
        }
        __syncthreads();  // so that the next sweep frees no page while other warps take some
    }
    for (word32 w = threadIdx.x; w < n_workers; w += SSSP_THREADS) {
        store_relaxed(queue.flags + w, kLeave);
    }
}
