// The manager of `adds`: one thread block that sweeps over the buckets and the workers' flags and hands words out.
//
// Idea: every hop of a path through the queue waits for one to two sweeps, so a sweep is kept short: all warps look at
// once, with all accesses under way together; warp 0 alone plans, the others then write the flags, while warp 0 goes on
// to what can wait: number of head buckets, delta, progress. An H200 takes 5.7 us a sweep if all that is done in turn.
//
// Needs: one block of at least 64 threads; at most kFlagsEach * (SSSP_THREADS - 32) workers.
// Keeps: I1 to I7 and I9 of docs/design/0002-adds-queue.md.
// Memory order: F2, F3 and F6 here, F7 in bucket_queue.cuh.
// Ends: after two empty sweeps (I6), or when the run is given up: at the deadline, without progress, or without a
//     free block (I7).
#pragma once

#include "bucket_queue.cuh"
#include "grid_barrier.cuh"

// One in so many head switches takes every word as it is: a static delta far too small must not go round for ever.
constexpr word32 kRebinRest = 64;
// Sweeps between two looks at the clock.
constexpr word32 kSweepsPerClock = 16;
// Flags that a thread looks at; warp 0 has none, it plans.
constexpr int kFlagsEach = 6;
// Most head buckets. As in `adds.py`.
constexpr int kMostHeads = 4;
constexpr word32 kWarps = SSSP_THREADS / 32;
constexpr int kBucketsEach = (kBuckets + kWarps - 1) / kWarps;
static_assert(kWarps >= 2 && kWarps <= 32, "warp 0 plans, the others write flags");

struct Tuning {
    double delta;        // the first
    double least_delta, most_delta;  // never beyond, unless words are clipped
    float low, high;     // limits of the mean share of busy workers
    float clipped;       // share of the queue in the last bucket that is clipping
    word32 is_dynamic;
    word32 n_buckets;    // 2 to 32
    word32 first_heads, most_heads;
    word32 settling;     // head switches between two changes of delta
    word32 least_words, most_words;  // in an assignment
    word32 chain;        // vertices a worker keeps for itself, at most kMostChain
    word32 look_first;
    word32 n_traces, trace_every_ns;
    word64 patience_ns, deadline_ns;
};

struct Report {
    BarrierWords barrier;
    word64 vertices_processed;
    word64 edges_relaxed;
    double delta_last;
    word32 delta_changes;
    word32 head_switches;
    word32 sweeps;
    word32 blocks_used;
    word64 words_reserved;
    word32 n_traces;
    word32 n_busy;       // at the end
    word32 queued;       // at the end
    word32 head;
    word32 n_heads;
    float busy_share;    // of the workers, the mean over all sweeps
};

static_assert(sizeof(Tuning) == 96 && sizeof(Report) == 80, "as `adds.py` lays them out");

struct Trace {
    word32 time_ns;
    word32 busy;         // workers
    word32 queued;       // words
    word32 n_heads;
    double delta;
};

struct Manager {
    Tuning tuning;
    Bucket buckets[kBuckets];
    Pool pool;
    word32 idle_before[32];        // workers idle in the warps before
    word32 plan_rank[kMostHeads];  // of the idle workers, which first takes from the k-th head bucket
    uint2 plan_places[kMostHeads]; // in the pool: what rank 0 would take there, were its words as many; the end
    word32 words_each;
    word32 n_given;                // assignments
    word32 head;
    word32 is_stopped;
    word32 is_over;

    __device__ __forceinline__ Bucket& from_head(word32 nth) { return buckets[(head + nth) & (kBuckets - 1)]; }
};

__device__ __forceinline__ distance_bits bits_of(double x) {
#if SSSP_FLOATING && SSSP_BITS == 32
    return __float_as_uint(static_cast<float>(x));
#elif SSSP_FLOATING
    return static_cast<distance_bits>(__double_as_longlong(x));
#else
    constexpr double kEnd = SSSP_BITS == 32 ? 4294967296.0 : 18446744073709551616.0;
    return x >= kEnd ? ~distance_bits{0} : static_cast<distance_bits>(x);
#endif
}

// What only warp 0 of the manager knows; the same in all its lanes.
struct Control {
    double base;
    double delta;
    double least_delta;
    float per_delta;     // 1 / delta
    word64 busy_sum;     // since delta was last looked at
    word64 all_busy;
    word32 busy_count;
    word32 head;
    word32 n_heads;
    word32 switches;
    word32 settled_at;
    word32 delta_changes;
    word32 empty_sweeps;
    word32 sweeps;
    word64 began;
    word64 progressed;
    word64 traced;
    word64 signature;
    word32 n_traces;
    bool is_new;
    bool did_rebin;

    __device__ __forceinline__ void set_delta(double to) {
        delta = to;
        per_delta = static_cast<float>(1.0 / to);
        is_new = true;
    }

    // Tells everybody, if there is something new to tell.
    __device__ void show(const Queue& queue, const Tuning& tuning, bool may_rebin) {
        if (!is_new && may_rebin == did_rebin) {
            return;
        }
        is_new = false;
        did_rebin = may_rebin;
        if ((threadIdx.x & 31) == 0) {
            constexpr word32 kInfinity = 0x7f800000u;
            const float least_nth = static_cast<float>(tuning.most_heads + 1);
            store_relaxed(queue.schedule, bits_of(base));
            store_relaxed(queue.schedule + 1, bits_of(base + n_heads * delta));
            store_relaxed(queue.schedule + 2, may_rebin ? __float_as_uint(least_nth) : kInfinity);
            store_relaxed(queue.schedule + 3,
                          (static_cast<word64>(head) << 32) | __float_as_uint(per_delta));
        }
    }
};

__device__ __forceinline__ word32 warp_sum(word32 x) {
#if __CUDA_ARCH__ >= 800
    return __reduce_add_sync(kWholeWarp, x);
#else
    for (int by = 16; by > 0; by /= 2) {
        x += __shfl_xor_sync(kWholeWarp, x, by);
    }
    return x;
#endif
}

__device__ __forceinline__ word32 warp_sum_before(word32 x) {
    const word32 lane = threadIdx.x & 31;
    word32 sum = x;
    for (int by = 1; by < 32; by *= 2) {
        const word32 others = __shfl_up_sync(kWholeWarp, sum, by);
        sum += lane >= static_cast<word32>(by) ? others : 0;
    }
    return sum - x;
}

// The i-th worker that this thread, which is not of warp 0, looks after.
__device__ __forceinline__ word32 flag_of(int i) { return threadIdx.x - 32 + i * (SSSP_THREADS - 32); }

// What a plan leaves to be done, the same in all lanes but for `queued_here`: words waiting in the lane's bucket.
struct Outlook {
    word32 queued_here;
    word32 queued;
    word32 n_there;      // words that could be assigned
    word32 n_assigned;   // words that are
    word32 n_idle;
    word32 n_busy;
    bool is_over;
};

// Warp 0: where the head is and what is handed out.
__device__ __forceinline__ Outlook plan(const Queue& queue, Manager& m, Control& c, word32 n_workers) {
    const Tuning& tuning = m.tuning;
    const word32 lane = threadIdx.x & 31;
    const word32 idle_here = lane < kWarps ? m.idle_before[lane] : 0;
    const word32 finished = __ballot_sync(kWholeWarp, m.from_head(lane).has_finished != 0);
    const word32 idle_before = warp_sum_before(idle_here);
    Outlook seen;
    seen.n_idle = warp_sum(idle_here);
    m.idle_before[lane] = idle_before;

    // ---- the head moves over buckets all of whose work is done (I5) ----
    const word32 moves = finished == kWholeWarp ? 0 : __ffs(~finished) - 1;
#if SSSP_CHECK
    if (lane < moves) {
        SSSP_ASSERT(queue, 5, load_relaxed(queue.working + ((m.head + lane) & (kBuckets - 1))) == 0);
        SSSP_ASSERT(queue, 5, m.from_head(lane).assigned == m.from_head(lane).reserved);
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

    // ---- assignments: best bucket first, the words of each cut evenly (I2) ----
    Bucket& bucket = m.from_head(lane);
    const word32 there = lane < c.n_heads ? assignable(bucket) : 0;
    seen.n_there = warp_sum(there);
    const word32 each =
        max(tuning.least_words, min(tuning.most_words, (seen.n_there + seen.n_idle) / (seen.n_idle + 1)));
    const word32 pieces = (there + each - 1) / each;
    const word32 rank = warp_sum_before(pieces);
    const word32 given = min(pieces, seen.n_idle - min(seen.n_idle, rank));
    const word32 words_given = min(there, given * each);
    if (lane < kMostHeads) {
        m.plan_rank[lane] = rank;
        const word32 begin = (bucket.assigned_block << kBlockBits) | (bucket.assigned & (kBlockWords - 1));
        m.plan_places[lane] = {begin - rank * each, begin + words_given};
    }
    const word32 assigned = bucket.assigned + words_given;
    if ((assigned >> kBlockBits) != (bucket.assigned >> kBlockBits) && (assigned >> kBlockBits) < bucket.n_mapped) {
        bucket.assigned_block = mapped_block(queue, (c.head + lane) & (kBuckets - 1), assigned >> kBlockBits);
    }
    bucket.assigned = assigned;
    seen.queued_here = bucket.reserved - assigned;
    seen.queued = warp_sum(seen.queued_here);
    seen.n_assigned = warp_sum(words_given);
    const word32 n_given = warp_sum(given);
    seen.n_busy = n_workers - seen.n_idle + n_given;

    // ---- the end: two sweeps in which nobody worked and nothing was left (I6) ----
    const bool is_empty = seen.n_idle == n_workers && seen.queued == 0 && seen.n_assigned == 0;
    c.empty_sweeps = is_empty ? c.empty_sweeps + 1 : 0;
    seen.is_over = c.empty_sweeps == 2 || m.is_stopped != 0;
    if (lane == 0) {
        m.words_each = each;
        m.n_given = seen.is_over ? 0 : n_given;
        m.is_over = seen.is_over;
    }
    return seen;
}

// Warp 0, while the others hand out: how many head buckets, what delta should be, and whether there is progress.
__device__ __forceinline__ void control(const Queue& queue, Manager& m, Control& c, const Outlook& seen,
                                        word32 n_workers, Trace* traces) {
    const Tuning& tuning = m.tuning;
    // ---- quick control: how many head buckets ----
    if (seen.n_assigned < seen.n_there) {
        c.is_new = c.is_new || c.n_heads > 1;
        c.n_heads = max(c.n_heads, 2u) - 1;
    } else if (seen.n_busy * 2 < n_workers && c.n_heads < tuning.most_heads) {
        c.is_new = true;
        ++c.n_heads;
    }

    // ---- slow control: delta, after some head switches ----
    ++c.sweeps;
    c.busy_sum += seen.n_busy;
    c.all_busy += seen.n_busy;
    ++c.busy_count;
    if (tuning.is_dynamic && c.switches - c.settled_at >= tuning.settling) {
        const word32 last = __shfl_sync(kWholeWarp, seen.queued_here, tuning.n_buckets - 1);
        const float busy = static_cast<float>(c.busy_sum) / (static_cast<float>(c.busy_count) * n_workers);
        double wanted = c.delta;
        if (last > n_workers && last > tuning.clipped * seen.queued) {
            wanted = c.delta * 2;
            c.least_delta = wanted;
        } else if (busy < tuning.low) {
            wanted = fmin(c.delta * 2, fmax(tuning.most_delta, c.delta));
        } else if (busy > tuning.high) {
            wanted = fmin(c.delta, fmax(c.delta / 2, c.least_delta));
        }
        c.settled_at = c.switches;
        c.busy_sum = 0;
        c.busy_count = 0;
        if (wanted != c.delta && wanted < 1e300) {
            c.set_delta(wanted);
            ++c.delta_changes;
        }
    }
    c.show(queue, tuning, seen.queued > 4 * n_workers && c.switches % kRebinRest != 0);

    // ---- never a hang (I7) ----
    word64 now = 0;
    if (tuning.n_traces > 0 || c.sweeps % kSweepsPerClock == 0) {
        now = clock_ns();
        const word32 n_reserved = warp_sum(m.buckets[threadIdx.x & 31].reserved);
        const word64 signature = (static_cast<word64>(n_reserved) << 32) ^ (seen.queued * 64ull + seen.n_idle);
        if (signature != c.signature) {
            c.signature = signature;
            c.progressed = now;
        }
        if (now > c.progressed + tuning.patience_ns) {
            queue.give_up(kStalled);
        } else if (now > c.began + tuning.deadline_ns) {
            queue.give_up(kDeadline);
        }
    }
    if (c.n_traces < tuning.n_traces && (now - c.traced >= tuning.trace_every_ns || seen.is_over)) {
        c.traced = now;
        if (threadIdx.x == 0) {
            traces[c.n_traces] =
                Trace{static_cast<word32>(now - c.began), seen.n_busy, seen.queued, c.n_heads, c.delta};
        }
        ++c.n_traces;
    }
}

// Warp 0, at the end.
__device__ void tell(const Queue& queue, Manager& m, const Control& c, const Outlook& seen, word32 n_workers,
                     Report* report) {
    const word32 n_reserved = warp_sum(m.buckets[threadIdx.x & 31].reserved);
    if (threadIdx.x == 0) {
        report->delta_last = c.delta;
        report->delta_changes = c.delta_changes;
        report->head_switches = c.switches;
        report->sweeps = c.sweeps;
        report->blocks_used = min(m.pool.n_fresh, queue.n_blocks);
        report->n_traces = c.n_traces;
        report->n_busy = seen.n_busy;
        report->queued = seen.queued;
        report->words_reserved = n_reserved;
        report->head = c.head;
        report->n_heads = c.n_heads;
        report->busy_share = static_cast<float>(static_cast<double>(c.all_busy) / c.sweeps / n_workers);
    }
}

// All warps but the first: writes the flags of the workers that the plan gives something.
__device__ __forceinline__ void hand_out(const Queue& queue, const Manager& m, const word32 (&idle)[kFlagsEach]) {
    const word32 lane = threadIdx.x & 31;
    word32 rank_here = m.idle_before[threadIdx.x / 32];
    const word32 n_given = m.n_given;
    const word32 each = m.words_each;
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
        const word32 rank = rank_here + __popc(idle[i] & ((1u << lane) - 1));
        rank_here += __popc(idle[i]);
        if ((idle[i] >> lane & 1) == 0 || rank >= n_given) {
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
    const word32 lane = threadIdx.x & 31;
    const word32 warp = threadIdx.x / 32;
    const Tuning& tuning = m.tuning;
    Control c{};
    if (warp == 0) {
        c.began = c.progressed = c.traced = clock_ns();
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
        Glance seen[kBucketsEach];
#pragma unroll
        for (int i = 0; i < kBucketsEach; ++i) {
            const word32 b = warp + i * kWarps;
            if (b < kBuckets) {
                const Bucket& bucket = m.buckets[b];
                const bool is_head = ((b - m.head) & (kBuckets - 1)) < tuning.most_heads;
                seen[i].look(queue, bucket, is_head || bucket.known < bucket.reserved);
            }
        }
#pragma unroll
        for (int i = 0; i < kBucketsEach; ++i) {
            const word32 b = warp + i * kWarps;
            if (b < kBuckets) {
                seen[i].look_on(queue, m.buckets[b]);
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
        if (lane == 0) {
            m.idle_before[warp] = n_idle;
        }
        if (threadIdx.x == 0) {
            m.is_stopped = load_relaxed(queue.stop);
        }
#pragma unroll
        for (int i = 0; i < kBucketsEach; ++i) {
            const word32 b = warp + i * kWarps;
            if (b < kBuckets) {
                note(queue, m.buckets[b], b, seen[i], m.pool);
            }
        }
        __syncthreads();
        // ---- plan, then hand out ----
        Outlook outlook{};
        if (warp == 0) {
            outlook = plan(queue, m, c, n_workers);
        } else if (n_idle > 0) {
            fence_acq_rel();  // F3, for the stores below: nothing they need is read between the two barriers
        }
        __syncthreads();
        if (warp > 0) {
            hand_out(queue, m, idle);
        } else {
            control(queue, m, c, outlook, n_workers, traces);
        }
        if (m.is_over) {
            if (warp == 0) {
                tell(queue, m, c, outlook, n_workers, report);
            }
            break;
        }
        for (word32 b = warp; b < kBuckets; b += kWarps) {
            map_ahead(queue, m.buckets[b], b, m.pool);
        }
        __syncthreads();  // blocks are freed by the next sweep, and not while others take some
    }
    for (word32 w = threadIdx.x; w < n_workers; w += SSSP_THREADS) {
        store_relaxed(queue.flags + w, kLeave);
    }
}
