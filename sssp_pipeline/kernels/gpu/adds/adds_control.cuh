// What the manager of `adds` decides between sweeps, in warp 0: the number of head buckets, delta, and when to give up.
//
// Idea: the number of buckets that are handed out at once changes after every sweep. Delta changes after some head
// switches, by the share of workers that were busy (section 5.5). All this happens after the entries of a sweep have
// been handed out, so it delays no worker.
//
// Needs: all threads of warp 0 call together, with the same `Control`.
// Keeps: I7 of docs/design/0002-adds-queue.md.
// Ends: gives the run up at the deadline, or without progress. Without a free page the queue gives it up (I7).
// Paper: Wang, Fussell, Lin, "A fast work-efficient SSSP algorithm for GPUs", PPoPP 2021, section 5.5.
#pragma once

#include "bucket_queue.cuh"
#include "grid_barrier.cuh"

// One of this many head switches takes every entry as it is. Else a static delta far too small would rebin for ever.
constexpr word32 kRebinRest = 64;
// Sweeps between two reads of the clock.
constexpr word32 kSweepsPerClock = 16;
// Most head buckets. As in `adds.py`.
constexpr int kMostHeads = 4;
constexpr word32 kWarps = SSSP_THREADS / 32;

struct Tuning {
    double delta;        // the first
    double least_delta, most_delta;  // never beyond, unless entries are clipped
    float low, high;     // limits of the mean share of busy workers
    float clipped;       // share of the queue in the last bucket that is clipping
    word32 is_dynamic;
    word32 n_buckets;    // 2 to 32
    word32 first_heads, most_heads;
    word32 settling;     // head switches between two changes of delta
    word32 least_entries, most_entries;  // in an assignment
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
    word32 pages_used;
    word64 entries_reserved;
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
    word32 queued;       // entries
    word32 n_heads;
    double delta;
};

struct Manager {
    Tuning tuning;
    Bucket buckets[kBuckets];
    Pool pool;
    word32 idle_before[32];        // workers idle in the warps before
    word32 plan_rank[kMostHeads];  // of the idle workers, which first takes from the k-th head bucket
    uint2 plan_places[kMostHeads]; // in the pool: what rank 0 would take there, were its entries as many; the end
    word32 entries_each;
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

// State of warp 0 of the manager, the same in all its threads.
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
    Stopwatch age;
    word64 progressed_ns;  // ages
    word64 traced_ns;
    word64 signature;
    word32 n_traces;
    bool is_new;
    bool did_rebin;

    __device__ __forceinline__ void set_delta(double to) {
        delta = to;
        per_delta = static_cast<float>(1.0 / to);
        is_new = true;
    }

    // Publishes the schedule to the workers, if it changed.
    __device__ void publish(const Queue& queue, const Tuning& tuning, bool may_rebin) {
        if (!is_new && may_rebin == did_rebin) {
            return;
        }
        is_new = false;
        did_rebin = may_rebin;
        if ((threadIdx.x % 32) == 0) {
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

// Result of a sweep's plan, the same in all threads but for `queued_here`: entries that wait in this thread's bucket.
struct SweepSummary {
    word32 queued_here;
    word32 queued;
    word32 n_there;      // entries that can be assigned
    word32 n_assigned;   // entries that are assigned
    word32 n_idle;
    word32 n_busy;
    bool is_over;
};

// Warp 0, while the others hand out: how many head buckets, what delta should be, and whether there is progress.
__device__ __forceinline__ void control(const Queue& queue, Manager& m, Control& c, const SweepSummary& seen,
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
    c.publish(queue, tuning, seen.queued > 4 * n_workers && c.switches % kRebinRest != 0);

    // ---- never a hang (I7) ----
    word64 age_ns = 0;
    if (tuning.n_traces > 0 || c.sweeps % kSweepsPerClock == 0) {
        age_ns = c.age.look();
        const word32 n_reserved = sum_over_warp(m.buckets[threadIdx.x % 32].reserved);
        const word32 n_steps = __shfl_sync(kWholeWarp, load_relaxed(queue.steps), 0);
        const word64 signature =
            (static_cast<word64>(n_reserved + n_steps) << 32) ^ (seen.queued * 64ull + seen.n_idle);
        if (signature != c.signature) {
            c.signature = signature;
            c.progressed_ns = age_ns;
        }
        if (age_ns > c.progressed_ns + tuning.patience_ns) {
            queue.give_up(kStalled);
        } else if (age_ns > tuning.deadline_ns) {
            queue.give_up(kDeadline);
        }
    }
    if (c.n_traces < tuning.n_traces && (age_ns - c.traced_ns >= tuning.trace_every_ns || seen.is_over)) {
        c.traced_ns = age_ns;
        if (threadIdx.x == 0) {
            traces[c.n_traces] = Trace{static_cast<word32>(age_ns), seen.n_busy, seen.queued, c.n_heads, c.delta};
        }
        ++c.n_traces;
    }
}

// Warp 0, at the end.
__device__ void write_report(const Queue& queue, Manager& m, const Control& c, const SweepSummary& seen,
                             word32 n_workers, Report* report) {
    const word32 n_reserved = sum_over_warp(m.buckets[threadIdx.x % 32].reserved);
    if (threadIdx.x == 0) {
        report->delta_last = c.delta;
        report->delta_changes = c.delta_changes;
        report->head_switches = c.switches;
        report->sweeps = c.sweeps;
        report->pages_used = min(m.pool.n_fresh, queue.n_pages);
        report->n_traces = c.n_traces;
        report->n_busy = seen.n_busy;
        report->queued = seen.queued;
        report->entries_reserved = n_reserved;
        report->head = c.head;
        report->n_heads = c.n_heads;
        report->busy_share = static_cast<float>(static_cast<double>(c.all_busy) / c.sweeps / n_workers);
    }
}
