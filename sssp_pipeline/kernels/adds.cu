// Distances from one source by asynchronous delta-stepping with a delta that adapts, over the whole GPU.
//
// Returns: `distances` lowered to the true ones (bits of `limit` where there is no path shorter than that), and
// what it took in `Report`.
//
// Idea: supersteps cost a road graph its parallelism, since the few vertices of one wait for its slowest. So nobody
// waits: block 0, the manager, hands out words of the first buckets as they come in, and every other warp is a
// worker that relaxes what it was given and writes what it lowered straight into the buckets (section 5). What may
// look odd:
//   - A worker is a warp, not a block: warps run on their own, and no barrier makes one wait for another.
//   - A word is a vertex without its distance: the worker reads the distance as it is by then. `processed` holds
//     the distance a vertex was last relaxed with, so the other words of the same vertex are skipped (I8).
//   - A worker expands up to `chain` of the near vertices it lowers itself, at once: a hop over the queue costs a road
//     graph three times as long. A chain belongs to the assignment that began it (I3).
//   - What a worker pushes it first holds back in shared memory: one reservation serves all words for a bucket.
//   - A hub is a word that spawns words: numbers from n_vertices on are chunks of hubs' rows.
//
// Needs (guaranteed by `adds.py`): weights of zero or more; n_vertices + n_chunks < 2^32 - 1; every block of the
//     grid resident at once, 2 to 257 of them; control words zero; SSSP_THREADS a multiple of 32, at most 1024.
// Keeps: I1 to I9 of docs/design/0002-adds-queue.md, R1 to R3 of relax.cuh.
// Memory order: F1 to F7, in bucket_queue.cuh and here.
// Launch: cooperative; block 0 manages.
// Ends: distances take finitely many values and only fall; every word is taken in the end (I9), and goes back without
//     being relaxed at most once in each round of kRebinRest head switches. The manager ends the run after two
//     empty sweeps (I6), or gives it up at the deadline, without progress, or without a free block (I7).
// Paper: Wang, Fussell, Lin, "A fast work-efficient SSSP algorithm for GPUs", PPoPP 2021.

#include "bucket_queue.cuh"
#include "device_graph.cuh"
#include "grid_barrier.cuh"

// A row longer than kHubEdges is cut into chunks of kChunkEdges, each a word of its own. As in `adds.py`.
constexpr word32 kHubEdges = 512;
constexpr word32 kChunkEdges = 256;
// Words a warp holds back, and vertices it keeps for itself: as many as fit 48 KB a block.
constexpr word32 kHeld = SSSP_BITS == 32 ? 96 : 64;
constexpr word32 kMostChain = 16;
// Edges whose accesses a lane has under way together.
constexpr int kTogether = 2;
// Steps of a chain between two looks at the schedule.
constexpr word32 kStepsPerLook = 4;
// Polls of a flag between two looks at `stop`.
constexpr word32 kPollsPerLook = 64;
// One in so many head switches takes every word as it is: a static delta far too small must not go round for ever.
constexpr word32 kRebinRest = 64;
// Sweeps of the manager between two looks at the clock.
constexpr word32 kSweepsPerClock = 16;
// Flags that each thread of the manager looks at: at most 8 * SSSP_THREADS workers.
constexpr int kFlagsEach = 8;
constexpr word64 kLeave = ~word64{0};

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

struct Held {
    distance_bits lengths[kHeld];
    // The chain: vertices that were just lowered, with what is known of them, so that the next step need not ask.
    distance_bits chain_lengths[kMostChain];
    edge_index chain_begins[kMostChain];
    word32 chain_degrees[kMostChain];
    word32 chain[kMostChain];
    word32 words[kHeld];
};

struct Manager {
    Bucket buckets[kBuckets];
    Pool pool;
    word32 idle_before[32];   // workers idle in the warps before
    word32 plan_rank[kBuckets];   // of the idle workers, which first takes from the k-th head bucket
    word32 plan_begin[kBuckets];  // place in the pool
    word32 plan_count[kBuckets];  // words
    word32 words_each;
    word32 n_given;           // assignments
    word32 head;
    word32 is_stopped;
    word32 is_over;
};

union Shared {
    Held held[SSSP_THREADS / 32];
    Manager manager;
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

// ---- the worker ----

struct Worker {
    DeviceGraph graph;
    Queue queue;
    distance_bits* distances;
    distance_bits* processed;      // (n_vertices + n_chunks,)
    const uint2* chunks;           // (n_chunks,): vertex, number of the chunk
    const word32* hub_vertices;    // (n_hubs,) ascending
    const word32* hub_chunks;      // (n_hubs,): first chunk
    word32 n_hubs;
    word32 n_vertices;
    distance_bits limit;
    word32 n_buckets;
    word32 chain;
    bool look_first;
    Held* held;
    word64* cache;
    word32 n_held;
    word32 n_chain;
    Schedule now;
    word64 vertices_processed;
    word64 edges_relaxed;

    __device__ __forceinline__ word32 rank_in(word32 mask) const {
        return __popc(mask & ((1u << (threadIdx.x & 31)) - 1));
    }

    // Publishes what is held back.
    __device__ void flush() {
        const word32 lane = threadIdx.x & 31;
        __syncwarp();
        for (word32 first = 0; first < n_held; first += 32) {
            const bool has = first + lane < n_held;
            word32 word = 0;
            word32 bucket = 0;
            if (has) {
                word = held->words[first + lane];
                bucket = bucket_of(now, held->lengths[first + lane], n_buckets);
            }
            publish(queue, cache, has, bucket, word);
        }
        n_held = 0;
        __syncwarp();
    }

    __device__ __forceinline__ void hold(bool has, word32 word, distance_bits d) {
        const word32 mask = __ballot_sync(kWholeWarp, has);
        if (mask == 0) {
            return;
        }
        if (n_held + __popc(mask) > kHeld) {
            flush();
        }
        if (has) {
            const word32 place = n_held + rank_in(mask);
            held->words[place] = word;
            held->lengths[place] = d;
        }
        n_held += __popc(mask);
    }

    // Enters lowered vertices: near ones in the chain as far as it has room, the others in the queue.
    __device__ __forceinline__ void enter(bool has, word32 v, distance_bits d, edge_index begin, edge_index end) {
        const bool is_near = has && d < now.near_end && end - begin <= kHubEdges;
        const word32 near = __ballot_sync(kWholeWarp, is_near);
        const word32 place = n_chain + rank_in(near);
        const bool stays = is_near && place < chain;
        if (stays) {
            held->chain[place] = v;
            held->chain_lengths[place] = d;
            held->chain_begins[place] = begin;
            held->chain_degrees[place] = static_cast<word32>(end - begin);
        }
        n_chain = min(n_chain + __popc(near), max(n_chain, chain));
        hold(has && !stays, v, d);
    }

    __device__ void push_chunks(word32 hub, distance_bits d, edge_index degree) {
        const word32 lane = threadIdx.x & 31;
        word32 low = 0;
        word32 high = n_hubs;
        while (high - low > 1) {
            const word32 middle = (low + high) / 2;
            if (__ldg(hub_vertices + middle) <= hub) {
                low = middle;
            } else {
                high = middle;
            }
        }
        const word32 first = n_vertices + __ldg(hub_chunks + low);
        const word32 n_chunks = static_cast<word32>((degree + kChunkEdges - 1) / kChunkEdges);
        for (word32 i = 0; i < n_chunks; i += 32) {
            hold(i + lane < n_chunks, first + i + lane, d);
        }
    }

    // Relaxes the edges of the chain's vertices, one a lane, and of `n_fresh` words from place `first` on.
    __device__ void step(word32 first, word32 n_fresh) {
        const word32 lane = threadIdx.x & 31;
        const bool is_old = lane < n_chain;
        const bool is_fresh = !is_old && lane < n_chain + n_fresh;
        word32 word = kNoWord - lane;
        distance_bits d = 0;
        distance_bits before = 0;
        edge_index begin = 0;
        edge_index degree = 0;
        bool goes_back = false;
        bool is_chunk = false;
        if (is_old) {
            word = held->chain[lane];
            d = held->chain_lengths[lane];
            begin = held->chain_begins[lane];
            degree = held->chain_degrees[lane];
            before = load_relaxed(processed + word);
        } else if (is_fresh) {
            word = load_relaxed(queue.words + first + (lane - n_chain));
            SSSP_ASSERT(queue, 1, word != kNoWord);
            before = load_relaxed(processed + word);
            word32 v = word;
            word32 nth = 0;
            is_chunk = word >= n_vertices;
            if (is_chunk) {
                const uint2 chunk = __ldg(chunks + (word - n_vertices));
                v = chunk.x;
                nth = chunk.y;
            }
            d = load_relaxed(distances + v);
            begin = graph.first_edge(v);
            edge_index end = graph.first_edge(v + 1);
            if (is_chunk) {
                begin += static_cast<edge_index>(nth) * kChunkEdges;
                end = min(begin + kChunkEdges, end);
            }
            degree = d < before ? end - begin : 0;
            goes_back = d < before && buckets_on(now, d) >= __uint_as_float(static_cast<word32>(now.rebin_nth));
        }
        __syncwarp();
        n_chain = 0;
        // Of those that stand here twice, one is relaxed, unless another has the lesser distance: that may be the
        // only word for it.
        const word32 twins = __match_any_sync(kWholeWarp, word);
        const distance_bits of_first = __shfl_sync(kWholeWarp, d, __ffs(twins) - 1);
        const bool is_first = rank_in(twins) == 0 || d < of_first;
        const bool is_hub = is_fresh && !is_chunk && !goes_back && is_first && degree > kHubEdges;
        hold(goes_back, word, d);
        for (word32 hubs = __ballot_sync(kWholeWarp, is_hub); hubs != 0; hubs &= hubs - 1) {
            const int whose = __ffs(hubs) - 1;
            push_chunks(__shfl_sync(kWholeWarp, word, whose), __shfl_sync(kWholeWarp, d, whose),
                        __shfl_sync(kWholeWarp, degree, whose));
        }
        // Prefix sum over the lanes: `ends` is how many edges this lane and those before it have.
        const word32 own = is_hub || goes_back || !is_first ? 0 : static_cast<word32>(degree);
        word32 ends = own;
#pragma unroll
        for (int by = 1; by < 32; by *= 2) {
            const word32 others = __shfl_up_sync(kWholeWarp, ends, by);
            ends += lane >= static_cast<word32>(by) ? others : 0;
        }
        const word32 n_edges = __shfl_sync(kWholeWarp, ends, 31);
        bool is_settled = false;
        word32 some = 0;
        do {
            Edge edges[kTogether];
            distance_bits candidates[kTogether];
            word32 owners[kTogether];
            bool there[kTogether];
#pragma unroll
            for (int i = 0; i < kTogether; ++i) {
                const word32 k = some + 32 * i + lane;
                there[i] = k < n_edges;
                // The owner is the first lane whose `ends` exceeds k.
                word32 owner = 0;
#pragma unroll
                for (int half = 16; half > 0; half /= 2) {
                    const word32 probe = __shfl_sync(kWholeWarp, ends, owner + half - 1);
                    owner += probe <= k ? half : 0;
                }
                const word32 before_owner = __shfl_sync(kWholeWarp, ends - own, owner);
                const edge_index row = __shfl_sync(kWholeWarp, begin, owner);
                owners[i] = owner;
                edges[i] = there[i] ? graph.edge(row + (k - before_owner)) : Edge{0, 0};
            }
            if (!is_settled) {
                // Only now, with edges under way, look whether the vertex was relaxed like this before (I8).
                is_settled = true;
                if ((is_old || is_fresh) && !goes_back && is_first && d < before) {
                    store_relaxed(processed + word, d);
                    if (!is_chunk) {
                        ++vertices_processed;
                        edges_relaxed += degree;
                    }
                } else {
                    d = kUnreached;
                }
            }
            edge_index begins[kTogether];
            edge_index row_ends[kTogether];
            bool lowered[kTogether];
#pragma unroll
            for (int i = 0; i < kTogether; ++i) {
                const distance_bits from = __shfl_sync(kWholeWarp, d, owners[i]);
                candidates[i] = sum_of(from, edges[i].weight);
                lowered[i] = there[i] && from != kUnreached && candidates[i] < limit;
                if (look_first && lowered[i]) {
                    lowered[i] = candidates[i] < distances[edges[i].target];
                }
            }
#pragma unroll
            for (int i = 0; i < kTogether; ++i) {
                begins[i] = row_ends[i] = 0;
                if (lowered[i]) {
                    if (chain > 0 && candidates[i] < now.near_end) {
                        begins[i] = graph.first_edge(edges[i].target);
                        row_ends[i] = graph.first_edge(edges[i].target + 1);
                    }
                    lowered[i] = lower_distance(distances, edges[i].target, candidates[i], false).lowered;
                }
            }
#pragma unroll
            for (int i = 0; i < kTogether; ++i) {
                enter(lowered[i], edges[i].target, candidates[i], begins[i], row_ends[i]);
            }
            some += 32 * kTogether;
        } while (some < n_edges);
    }

    // Works until the manager says there is no more.
    __device__ void run(word64* flag) {
        const word32 lane = threadIdx.x & 31;
        for (;;) {
            word64 assignment = 0;
            for (word32 polls = 1;; ++polls) {
                assignment = load_relaxed(flag);
                assignment = __shfl_sync(kWholeWarp, assignment, 0);
                if (assignment != 0) {
                    break;
                }
                if (polls % kPollsPerLook == 0 && __shfl_sync(kWholeWarp, load_relaxed(queue.stop), 0) != 0) {
                    assignment = kLeave;  // I7
                    break;
                }
            }
            if (assignment == kLeave) {
                return;
            }
            fence_acq_rel();  // F4
            const word32 place = static_cast<word32>(assignment);
            const word32 count = static_cast<word32>(assignment >> 32);
            const word32 block = place >> kBlockBits;
            now = read_schedule(queue);
#if SSSP_CHECK
            const word32 owner = load_relaxed(queue.owners + block);
            if (lane == 0) {
                atomicAdd(queue.working + owner, count);
            }
#endif
            word32 taken = 0;
            for (word32 steps = 1; taken < count || n_chain > 0; ++steps) {
                // The chain first, then as many new words as there are lanes left.
                const word32 n_fresh = min(count - taken, 32 - n_chain);
                if (steps % kStepsPerLook == 0) {
                    now = read_schedule(queue);
                    if (__shfl_sync(kWholeWarp, load_relaxed(queue.stop), 0) != 0) {
                        return;  // I7
                    }
                }
                step(place + taken, n_fresh);
                taken += n_fresh;
                __syncwarp();
                // More near words than the chain holds: others should have them soon.
                if (n_held >= 32 || (n_chain == chain && n_held > 0)) {
                    flush();
                }
            }
            flush();
#if SSSP_CHECK
            if (lane == 0) {
                atomicSub(queue.working + owner, count);
            }
#endif
            __syncwarp();
            fence_acq_rel();  // F5
            if (lane == 0) {
                atomicAdd(queue.completed + block, count);
                store_relaxed(flag, 0);
            }
        }
    }
};

// ---- the manager ----

// What only warp 0 of the manager knows; the same in all its lanes.
struct Control {
    double base;
    double delta;
    double least_delta;
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
                          (static_cast<word64>(head) << 32) | __float_as_uint(static_cast<float>(1.0 / delta)));
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

// Between two barriers of the manager, warp 0: what to hand out, where the head is, what delta should be.
__device__ void decide(const Queue& queue, const Tuning& tuning, Manager& m, Control& c, word32 n_workers,
                       Report* report, Trace* traces) {
    const word32 lane = threadIdx.x & 31;
    const word32 n_warps = SSSP_THREADS / 32;
    const word32 idle_here = lane < n_warps ? m.idle_before[lane] : 0;
    const word32 idle_before = warp_sum_before(idle_here);
    const word32 n_idle = warp_sum(idle_here);
    m.idle_before[lane] = idle_before;
    ++c.sweeps;

    // ---- the head moves over buckets all of whose work is done (I5) ----
    const word32 finished = __ballot_sync(kWholeWarp, m.buckets[(c.head + lane) & (kBuckets - 1)].has_finished != 0);
    const word32 moves = finished == kWholeWarp ? 0 : __ffs(~finished) - 1;
#if SSSP_CHECK
    if (lane < moves) {
        const word32 bucket = (c.head + lane) & (kBuckets - 1);
        SSSP_ASSERT(queue, 5, load_relaxed(queue.working + bucket) == 0);
        SSSP_ASSERT(queue, 5, m.buckets[bucket].assigned == m.buckets[bucket].reserved);
    }
#endif
    if (moves > 0) {
        c.head = (c.head + moves) & (kBuckets - 1);
        c.base += moves * c.delta;
        c.switches += moves;
        c.is_new = true;
    }
    Bucket& bucket = m.buckets[(c.head + lane) & (kBuckets - 1)];

    // ---- assignments: best bucket first, the words of each cut evenly (I2) ----
    const word32 there = lane < c.n_heads ? assignable(bucket) : 0;
    const word32 n_there = warp_sum(there);
    const word32 each = max(tuning.least_words, min(tuning.most_words, (n_there + n_idle) / (n_idle + 1)));
    const word32 pieces = (there + each - 1) / each;
    const word32 rank = warp_sum_before(pieces);
    const word32 given = min(pieces, n_idle - min(n_idle, rank));
    const word32 words_given = min(there, given * each);
    m.plan_rank[lane] = rank;
    m.plan_begin[lane] = (bucket.assigned_block << kBlockBits) | (bucket.assigned & (kBlockWords - 1));
    m.plan_count[lane] = words_given;
    const word32 assigned = bucket.assigned + words_given;
    if ((assigned >> kBlockBits) != (bucket.assigned >> kBlockBits) && (assigned >> kBlockBits) < bucket.n_mapped) {
        bucket.assigned_block = mapped_block(queue, (c.head + lane) & (kBuckets - 1), assigned >> kBlockBits);
    }
    bucket.assigned = assigned;
    const word32 queued_here = bucket.reserved - assigned;
    const word32 queued = warp_sum(queued_here);
    const word32 all_given = warp_sum(words_given);
    const word32 n_given = warp_sum(given);
    const word32 n_busy = n_workers - n_idle + n_given;

    // ---- the end: two sweeps in which nobody worked and nothing was left (I6) ----
    c.empty_sweeps = n_idle == n_workers && queued == 0 && all_given == 0 ? c.empty_sweeps + 1 : 0;
    bool is_over = c.empty_sweeps == 2;

    // ---- quick control: how many head buckets ----
    if (all_given < n_there) {
        c.is_new = c.is_new || c.n_heads > 1;
        c.n_heads = max(c.n_heads, 2u) - 1;
    } else if (n_busy * 2 < n_workers && c.n_heads < tuning.most_heads) {
        c.is_new = true;
        ++c.n_heads;
    }

    // ---- slow control: delta, after some head switches ----
    c.busy_sum += n_busy;
    c.all_busy += n_busy;
    ++c.busy_count;
    if (tuning.is_dynamic && c.switches - c.settled_at >= tuning.settling) {
        const word32 last = __shfl_sync(kWholeWarp, queued_here, tuning.n_buckets - 1);
        const float busy = static_cast<float>(c.busy_sum) / (static_cast<float>(c.busy_count) * n_workers);
        double wanted = c.delta;
        if (last > n_workers && last > tuning.clipped * queued) {
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
            c.delta = wanted;
            ++c.delta_changes;
            c.is_new = true;
        }
    }
    c.show(queue, tuning, queued > 4 * n_workers && c.switches % kRebinRest != 0);

    // ---- never a hang (I7) ----
    word64 now = 0;
    if (tuning.n_traces > 0 || c.sweeps % kSweepsPerClock == 0) {
        now = clock_ns();
        const word32 n_reserved = warp_sum(bucket.reserved);
        const word64 signature = (static_cast<word64>(n_reserved) << 32) ^ (queued * 64ull + n_idle);
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
    is_over = is_over || m.is_stopped != 0;

    if (c.n_traces < tuning.n_traces && (now - c.traced >= tuning.trace_every_ns || is_over)) {
        c.traced = now;
        if (lane == 0) {
            traces[c.n_traces] = Trace{static_cast<word32>(now - c.began), n_busy, queued, c.n_heads, c.delta};
        }
        ++c.n_traces;
    }
    const word32 all_reserved = is_over ? warp_sum(bucket.reserved) : 0;
    if (lane == 0) {
        m.words_each = each;
        m.n_given = is_over ? 0 : n_given;
        m.head = c.head;
        m.is_over = is_over;
        if (is_over) {
            report->delta_last = c.delta;
            report->delta_changes = c.delta_changes;
            report->head_switches = c.switches;
            report->sweeps = c.sweeps;
            report->blocks_used = min(m.pool.n_fresh, queue.n_blocks);
            report->n_traces = c.n_traces;
            report->n_busy = n_busy;
            report->queued = queued;
            report->words_reserved = all_reserved;
            report->head = c.head;
            report->n_heads = c.n_heads;
            report->busy_share = static_cast<float>(static_cast<double>(c.all_busy) / c.sweeps / n_workers);
        }
    }
}

__device__ void manage(const Queue& queue, const Tuning& tuning, Manager& m, word32 n_workers, Report* report,
                       Trace* traces) {
    const word32 lane = threadIdx.x & 31;
    const word32 warp = threadIdx.x / 32;
    constexpr word32 kWarps = SSSP_THREADS / 32;
    Control c{};
    if (warp == 0) {
        c.began = c.progressed = c.traced = clock_ns();
        c.delta = tuning.delta;
        c.least_delta = tuning.least_delta;
        c.n_heads = tuning.first_heads;
    }
    const word32 n_heads = tuning.most_heads;
    for (;;) {
        // ---- sweep: flags, then what the buckets hold ----
        word64 flags[kFlagsEach];
#pragma unroll
        for (int i = 0; i < kFlagsEach; ++i) {
            const word32 w = threadIdx.x + i * SSSP_THREADS;
            flags[i] = kLeave;
            if (w < n_workers) {
                flags[i] = load_relaxed(queue.flags + w);
            }
        }
        for (word32 b = warp; b < kBuckets; b += kWarps) {
            const bool is_head = ((b - m.head) & (kBuckets - 1)) < n_heads || m.buckets[b].known < m.buckets[b].reserved;
            scan_bucket(queue, m.buckets[b], b, is_head, m.pool);  // F2, F6
        }
        word32 idle = 0;
#pragma unroll
        for (int i = 0; i < kFlagsEach; ++i) {
            idle |= (flags[i] == 0 ? 1u : 0u) << i;
        }
        const word32 mine = __popc(idle);
        const word32 before = warp_sum_before(mine);
        if (lane == 31) {
            m.idle_before[warp] = before + mine;
        }
        if (threadIdx.x == SSSP_THREADS - 1) {
            m.is_stopped = load_relaxed(queue.stop);
        }
        __syncthreads();
        if (warp == 0) {
            decide(queue, tuning, m, c, n_workers, report, traces);
        }
        __syncthreads();
        if (m.is_over) {
            break;
        }
        // ---- hand out ----
        word32 rank = m.idle_before[warp] + before;
        if (idle != 0 && rank < m.n_given) {
            fence_acq_rel();  // F3
        }
        for (word32 i = 0; (idle >> i) != 0 && rank < m.n_given; ++i) {
            if ((idle >> i & 1) == 0) {
                continue;
            }
            word32 k = 0;
            while (k + 1 < kBuckets && m.plan_rank[k + 1] <= rank) {
                ++k;
            }
            const word32 first = (rank - m.plan_rank[k]) * m.words_each;
            const word32 count = min(m.words_each, m.plan_count[k] - first);
            store_relaxed(queue.flags + threadIdx.x + i * SSSP_THREADS,
                          (static_cast<word64>(count) << 32) | (m.plan_begin[k] + first));
            ++rank;
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

extern "C" __global__ void __launch_bounds__(SSSP_THREADS, 1)
adds_search_kernel(const edge_index* row_offsets, const edge_word* edges, const distance_bits* weights,
                   word32 n_vertices, word32 n_chunks, const uint2* chunks, const word32* hub_vertices,
                   const word32* hub_chunks, word32 n_hubs, word32 source, distance_bits limit,
                   distance_bits* distances, distance_bits* processed, word32* words, word32* counters,
                   word32 n_blocks, word32 n_slots, word64* control, const Tuning* tuning_at, Report* report,
                   Trace* traces, word64 patience_ns) {
    __shared__ Shared shared;
    __shared__ word64 cache[kBuckets];
    const word32 lane = threadIdx.x & 31;
    const word32 warp = threadIdx.x / 32;
    constexpr word32 kWarps = SSSP_THREADS / 32;
    const word32 n_workers = (gridDim.x - 1) * kWarps;

    // counters: written, completed, free blocks, owners. control: as `adds.py` lays it out.
    Queue queue;
    queue.words = words;
    queue.written = counters;
    queue.completed = queue.written + static_cast<word64>(n_blocks) * kSegments;
    word32* const free_blocks = queue.completed + n_blocks;
    queue.owners = free_blocks + n_blocks;
    queue.schedule = control;
    queue.poison = reinterpret_cast<word32*>(control + 16);
    queue.stop = queue.poison + kLine;
    queue.working = queue.stop + kLine;
    queue.reserved = queue.working + kLine;
    queue.tables = reinterpret_cast<word64*>(queue.reserved + kBuckets * kLine);
    queue.flags = queue.tables + static_cast<word64>(kBuckets) * n_slots;
    queue.n_blocks = n_blocks;
    queue.n_slots = n_slots;
    const Tuning tuning = *tuning_at;

    // ---- start: nothing is reached but the source, which is the first word of the head bucket ----
    const word64 n_threads = static_cast<word64>(gridDim.x) * SSSP_THREADS;
    const word64 n_words = static_cast<word64>(n_vertices) + n_chunks;
    for (word64 i = blockIdx.x * static_cast<word64>(SSSP_THREADS) + threadIdx.x; i < n_words; i += n_threads) {
        processed[i] = limit;
        if (i < n_vertices) {
            distances[i] = i == source ? 0 : limit;
        }
    }
    if (threadIdx.x < kBuckets) {
        cache[threadIdx.x] = 0;
    }
    if (blockIdx.x == 0) {
        Manager& m = shared.manager;
        if (threadIdx.x < kBuckets) {
            m.buckets[threadIdx.x] = Bucket{};
        }
        if (threadIdx.x == 0) {
            m.pool = Pool{free_blocks, 0, 0};
            m.head = 0;
            m.is_stopped = 0;
            m.is_over = 0;
        }
        __syncthreads();
        for (word32 b = warp; b < kBuckets; b += kWarps) {
            map_ahead(queue, m.buckets[b], b, m.pool);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            const word32 block = m.buckets[0].known_block;
            store_relaxed(queue.words + (static_cast<word64>(block) << kBlockBits), source);
            store_relaxed(queue.written + block * kSegments, 1);
            store_relaxed(queue.reserved, 1);
            Control c{};
            c.delta = tuning.delta;
            c.n_heads = tuning.first_heads;
            c.is_new = true;
            c.show(queue, tuning, false);
        }
    }
    GridBarrier barrier{&report->barrier, gridDim.x, patience_ns, 0};
    if (!barrier.wait()) {
        return;
    }
    if (blockIdx.x == 0) {
        manage(queue, tuning, shared.manager, n_workers, report, traces);
        return;
    }

    Worker worker{{row_offsets, edges, weights},
                  queue,
                  distances,
                  processed,
                  chunks,
                  hub_vertices,
                  hub_chunks,
                  n_hubs,
                  n_vertices,
                  limit,
                  tuning.n_buckets,
                  tuning.chain,
                  tuning.look_first != 0,
                  &shared.held[warp],
                  cache,
                  0,
                  0,
                  Schedule{},
                  0,
                  0};
    worker.run(queue.flags + (blockIdx.x - 1) * kWarps + warp);

    // ---- end: the counts ----
    word64 vertices_processed = worker.vertices_processed;
    word64 edges_relaxed = worker.edges_relaxed;
    for (int by = 16; by > 0; by /= 2) {
        vertices_processed += __shfl_down_sync(kWholeWarp, vertices_processed, by);
        edges_relaxed += __shfl_down_sync(kWholeWarp, edges_relaxed, by);
    }
    if (lane == 0 && vertices_processed > 0) {
        atomicAdd(&report->vertices_processed, vertices_processed);
        atomicAdd(&report->edges_relaxed, edges_relaxed);
    }
}
