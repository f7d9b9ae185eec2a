// What passes each vertex and each edge on the shortest paths of many rows, in the integers of `path_sums.py`.
//
// Returns: vertex_words and edge_words of several sets: each row is added to one set; totals, what each row added to all
//     vertices and to all edges; and refused, which marks rows that were not added, because a number of paths is 2^127 or more
//     or a weight is lost in a float. The CPU takes these.
// Idea: a block has one row at a time, and its own scratch memory: a slot. It lists the tight edges as bits, counts paths
//     away from the source in rounds, and goes back through the same rounds. Only the threads of a block wait for each other,
//     and all slots are at different places. Rows that share each round, as lanes, would meet at a barrier of
//     the whole GPU in each of a thousand rounds (docs/design/0035-along-the-paths.md).
//
// Phases of a row
//     1. Find: a thread has an edge. The bits of 32 edges are one word. Each vertex gets the number of tight edges into it.
//     2. Count: a round takes the vertices whose tight edges are all counted, and adds their numbers of paths to their
//        neighbours. Whoever counts the last edge into a vertex appends it to the next round.
//     3. Add: the rounds are taken backward. The rate of a vertex is pulled over its tight edges in their order, and what
//        passes is added to 128-bit integers by atomics.
//
// Needs: weights above zero; rows are true distances, "unreached" beyond a cutoff; row r is from sources[r]; `next_row`,
//     `refused` and `totals` zero. SSSP_SQUARES 0 or 1: whether words of squares follow. SSSP_AMOUNTS 0 or 1:
//     whether paths count by amounts.
// Keeps
//     P1. Numbers of paths and sums are integers of two words. Whoever makes the lower word wrap carries into the upper
//         word. So the order of rows, vertices and threads changes no bit. A row whose numbers of paths do not fit is refused
//         before phase 3.
//     P2. A number of paths is rounded to float64 as on the CPU, and so is each step of phase 3, in the order of the edges.
//         Products are never fused. So each dependency is that of the CPU, to the last bit.
//     P3. From its round on, no thread changes `waiting` of a vertex. That of the first vertex of a round then
//         tells where the round before begins.
//     P4. In phase 3 the rate of a vertex takes the place of its number of paths, which nothing reads afterwards.
// Memory order: __syncthreads ends a phase and a round. Slots share only words that atomics change.
// Launch: any grid of at most as many blocks as there are slots; blocks of a multiple of 32 threads, with 32 bytes of shared
//     memory for each thread.
// Ends: a round takes at least one vertex, and no vertex is taken twice.
// References: as in `path_sums.py`.

#include "device_graph.cuh"
#include "warp.cuh"

constexpr word32 kMostThreads = 1024;
// Edges whose distances a thread reads at a time.
constexpr word32 kTogether = 4;
// A vertex with more edges than this is taken by a whole warp.
constexpr word32 kFew = 16;
constexpr double kTwoTo64 = 18446744073709551616.0;
#if SSSP_SQUARES
constexpr double kPerSquareUnit = 1.0 / 4294967296.0;
#endif
// Words of a vertex or an edge.
constexpr word32 kWords = SSSP_SQUARES ? 4 : 2;

#include "packed_words.cuh"

// An integer of two words.
struct alignas(16) Wide {
    word64 lower;
    word64 upper;
};

struct Call {
    // The graph by source.
    const edge_index* row_offsets;
    const edge_word* edges;
    const distance_bits* weights;
    const word32* starts;         // (E,): where each edge begins
    // What is added.
    const distance_bits* rows;    // (n_rows, V)
    const word32* sources;        // (n_rows,)
    const word32* sets;           // (n_rows,): to which sums each row is added
    const word32* target_words;   // a bit for each vertex whose paths count; null for all
    const double* source_amounts; // (n_rows,), and
    const double* target_amounts; // (V,): what a path counts, if SSSP_AMOUNTS
    // Scratch memory of each slot.
    word32* waiting;              // (n_slots, V): the tight edges into each vertex that are not counted yet
    Wide* paths;                  // (n_slots, V): numbers of paths, then rates in the place of the lower words
    word32* order;                // (n_slots, V): the vertices, round after round
    word32* tight;                // (n_slots, ceil(E / 32)): a bit for each tight edge
    // Results.
    word64* vertex_words;         // (V, kWords) of each set, or null
    word64* edge_words;           // (E, kWords) of each set, or null
    word64* totals;               // (n_rows, 6): integers for all vertices, for all edges, and for what all paths count
    word32* refused;              // (n_rows,): 1 if the row was not added
    word32* next_row;
    word64 n_edges;
    word64 set_words;             // words in a set
    double decay;                 // makes a path of length d count exp(-decay * d) times as much
    word32 n_vertices;
    word32 n_rows;
    word32 counts_ends;           // whether a path passes its source and its target too
};

struct Shared {
    word64* vertex_words;         // of the set of the row, or null
    word64* edge_words;
    word32 row;
    word32 n_ordered;
    word32 is_refused;
};

// Adds to an integer of two words; returns whether it is too small for the sum.
__device__ __forceinline__ bool add_wide(word64* words, Wide more) {
    word64 upper = more.upper;
    if (more.lower != 0 && atomicAdd(words, more.lower) + more.lower < more.lower) {
        upper += 1;  // P1
    }
    return upper != 0 && atomicAdd(words + 1, upper) + upper < upper;
}

// The number as the CPU rounds it.
__device__ __forceinline__ double as_double(Wide number) {
    return __dadd_rn(__dmul_rn(__ull2double_rn(number.upper), kTwoTo64), __ull2double_rn(number.lower));
}

// The same of a sum, which has 64 bits behind the point.
__device__ __forceinline__ double sum_as_double(Wide number) {
    return __dadd_rn(__ull2double_rn(number.upper), __ull2double_rn(number.lower) / kTwoTo64);
}

// A float of zero or more as an integer; bits below the last are cut.
__device__ __forceinline__ Wide as_wide(double value) {
    const word64 whole = __double2ull_rz(value);
    const double fraction = __dadd_rn(value, -__ull2double_rn(whole));
    return {__double2ull_rz(__dmul_rn(fraction, kTwoTo64)), whole};
}

// Adds `value`, and perhaps its square, to the sums of a vertex or an edge; and `value` to the total of this thread.
__device__ __forceinline__ void add(word64* words, word64 place, double value, Wide& total) {
    if (value == 0.0) {
        return;
    }
    const Wide added = as_wide(value);
    add_wide(words + place * kWords, added);
    total.lower += added.lower;
    total.upper += added.upper + (total.lower < added.lower ? 1 : 0);
#if SSSP_SQUARES
    add_wide(words + place * kWords + 2, as_wide(__dmul_rn(value, value) * kPerSquareUnit));
#endif
}

#if SSSP_AMOUNTS
// exp(-x) of an `x` of zero or more, to the last bit as `decayed` of `path_sums.py`, which explains the numbers.
__device__ double decayed(double x) {
    constexpr double kNoShare = 745.0;
    constexpr double kLn2 = 0.6931471805599453, kLn2High = 0.6931471803691238, kLn2Low = 1.9082149292705877e-10;
    constexpr double kFactorials[] = {87178291200.0, 6227020800.0, 479001600.0, 39916800.0, 3628800.0,
                                      362880.0,      40320.0,      5040.0,      720.0,      120.0,
                                      24.0,          6.0,          2.0,         1.0,        1.0};
    if (!(x < kNoShare)) {
        return 0.0;
    }
    const double n_halvings = floor(__dadd_rn(x / kLn2, 0.5));
    const double rest = __dadd_rn(__dadd_rn(__dmul_rn(n_halvings, kLn2High), -x), __dmul_rn(n_halvings, kLn2Low));
    double power = 0.0;
#pragma unroll
    for (const double factorial : kFactorials) {
        power = __dadd_rn(__dmul_rn(power, rest), 1.0 / factorial);
    }
    return ldexp(power, -static_cast<int>(n_halvings));
}

// A distance; none is float32.
__device__ __forceinline__ double length_of(distance_bits d) {
#if SSSP_FLOATING && SSSP_BITS == 64
    return __longlong_as_double(static_cast<long long>(d));
#else
    return __ull2double_rn(d);
#endif
}
#endif

// Who takes a vertex: one thread, or the 32 threads of a warp.
struct Alone {
    static constexpr word32 kThreads = 1;
    static __device__ __forceinline__ word32 thread() { return 0; }
    static __device__ __forceinline__ double sum_of_present(double before, double value, bool is_present) {
        return is_present ? __dadd_rn(before, value) : before;
    }
};

struct Warp {
    static constexpr word32 kThreads = 32;
    static __device__ __forceinline__ word32 thread() { return threadIdx.x % 32; }
    // Adds one value after the other, in the order of the threads.
    static __device__ __forceinline__ double sum_of_present(double before, double value, bool is_present) {
        for (word32 left = __ballot_sync(kWholeWarp, is_present); left != 0; left &= left - 1) {
            before = __dadd_rn(before, __shfl_sync(kWholeWarp, value, __ffs(left) - 1));
        }
        return before;
    }
};

struct Slot {
    const Call& call;
    Shared& shared;
    const DeviceGraph graph;
    word32* waiting;
    Wide* paths;
    word32* order;
    word32* tight;

    __device__ Slot(const Call& of, Shared& with) : call(of), shared(with), graph{of.row_offsets, of.edges, of.weights} {
        const word64 first = static_cast<word64>(blockIdx.x) * call.n_vertices;
        waiting = call.waiting + first;
        paths = call.paths + first;
        order = call.order + first;
        tight = call.tight + blockIdx.x * ((call.n_edges + 31) / 32);
    }

    // What this thread adds of a row to all vertices, and to all edges. In registers, fewer blocks would be resident.
    __device__ __forceinline__ static Wide* totals() {
        extern __shared__ Wide of_threads[];
        return of_threads + threadIdx.x;
    }
    __device__ __forceinline__ static Wide& of_vertices() { return totals()[0]; }
    __device__ __forceinline__ static Wide& of_edges() { return totals()[blockDim.x]; }

    // ---- 1. Find ----

    // Refuses the row if a weight is lost in a sum.
    __device__ void find_tight(const distance_bits* distances) {
        for (word64 v = threadIdx.x; v < call.n_vertices; v += blockDim.x) {
            waiting[v] = 0;
            paths[v] = {0, 0};
        }
        __syncthreads();
        const word32 lane = threadIdx.x % 32;
        for (word64 some = threadIdx.x; some - lane < call.n_edges; some += kTogether * blockDim.x) {
            Edge edges[kTogether];
            distance_bits from[kTogether], to[kTogether];
#pragma unroll
            for (word32 i = 0; i < kTogether; ++i) {
                const word64 e = min(some + i * blockDim.x, call.n_edges - 1);
                edges[i] = graph.edge(static_cast<edge_index>(e));
                from[i] = __ldg(distances + __ldg(call.starts + e));
            }
#pragma unroll
            for (word32 i = 0; i < kTogether; ++i) {
                to[i] = __ldg(distances + edges[i].target);
            }
#pragma unroll
            for (word32 i = 0; i < kTogether; ++i) {
                const word64 e = some + i * blockDim.x;
                const bool is_reached = e < call.n_edges && from[i] != kUnreached && to[i] != kUnreached;
                const bool is_equal = is_reached && sum_of(from[i], edges[i].weight) == to[i];
                const bool is_tight = is_equal && from[i] < to[i];
                const word32 bits = __ballot_sync(kWholeWarp, is_tight);
                if (lane == 0 && e < call.n_edges) {
                    tight[e / 32] = bits;
                }
                if (is_tight) {
                    atomicAdd(&waiting[edges[i].target], 1u);
                }
                if (is_equal && !is_tight) {
                    shared.is_refused = 1;
                }
            }
        }
        __syncthreads();
    }

    __device__ __forceinline__ bool is_tight(edge_index e) const { return (tight[e / 32] >> (e % 32) & 1) != 0; }

    __device__ __forceinline__ word32 target(edge_index e) const { return graph.edge(e).target; }

    // Calls visit(who, u, first edge, end of its edges) for each vertex u from `begin` to before `end` of the order.
    template <typename Visit>
    __device__ __forceinline__ void for_vertices(word32 begin, word32 end, const Visit& visit) const {
        for (word32 some = begin + threadIdx.x / 32 * 32; some < end; some += blockDim.x) {
            const word32 at = some + threadIdx.x % 32;
            word32 u = 0;
            edge_index first = 0, last = 0;
            if (at < end) {
                u = order[at];
                first = graph.first_edge(u);
                last = graph.first_edge(u + 1);
            }
            const bool is_wide = last - first > kFew;
            if (at < end && !is_wide) {
                visit(Alone{}, u, first, last);
            }
            for (word32 wide = __ballot_sync(kWholeWarp, is_wide); wide != 0; wide &= wide - 1) {
                const int owner = __ffs(wide) - 1;
                visit(Warp{}, __shfl_sync(kWholeWarp, u, owner), __shfl_sync(kWholeWarp, first, owner),
                      __shfl_sync(kWholeWarp, last, owner));
            }
        }
    }

    // ---- 2. Count ----

    // Sets `begin` and `end` to the last round. Refuses the row if a number is 2^127 or more.
    __device__ void count_paths(word32 source, word32& begin, word32& end) {
        if (threadIdx.x == 0) {
            order[0] = source;
            paths[source] = {1, 0};
            shared.n_ordered = 1;
        }
        begin = 0;
        end = 1;
        for (;;) {
            __syncthreads();
            for_vertices(begin, end, [&](auto who, word32 u, edge_index first, edge_index last) {
                push_paths(who, u, first, last);
            });
            __syncthreads();
            const word32 next_end = shared.n_ordered;
            if (next_end == end || shared.is_refused != 0) {
                return;
            }
            if (threadIdx.x == 0) {
                waiting[order[end]] = begin;  // P3
            }
            begin = end;
            end = next_end;
        }
    }

    template <typename Who>
    __device__ __forceinline__ void push_paths(Who, word32 u, edge_index first, edge_index last) {
        const Wide to_u = paths[u];
        if (to_u.upper >> 63 != 0) {
            shared.is_refused = 1;
        }
        for (edge_index e = first + Who::thread(); e < last; e += Who::kThreads) {
            if (!is_tight(e)) {
                continue;
            }
            const word32 v = target(e);
            if (add_wide(&paths[v].lower, to_u)) {
                shared.is_refused = 1;
            }
            if (atomicAdd(&waiting[v], ~word32{0}) == 1) {
                order[atomicAdd(&shared.n_ordered, 1u)] = v;
            }
        }
    }

    // ---- 3. Add ----

    // Takes the rounds backward; the last one is from `begin` to before `end`.
    __device__ void add_dependencies(word32 begin, word32 end) {
        of_vertices() = of_edges() = {0, 0};
        for (;;) {
            for_vertices(begin, end, [&](auto who, word32 u, edge_index first, edge_index last) {
                const double to_u = as_double(paths[u]);
                const double rate = rate_behind(who, to_u, first, last);
                if (who.kThreads > 1) {
                    __syncwarp();  // every thread has read paths[u]
                }
                if (who.thread() == 0) {
                    add_vertex(u, to_u, rate, begin == 0);
                }
            });
            if (begin == 0) {
                return;
            }
            __syncthreads();
            end = begin;
            begin = waiting[order[begin]];  // P3
        }
    }

    __device__ __forceinline__ double rate_of(word32 v) const {
        return __longlong_as_double(static_cast<long long>(paths[v].lower));
    }

    // Returns the sum of the rates behind the tight edges of a vertex, and adds what passes these edges.
    template <typename Who>
    __device__ __forceinline__ double rate_behind(Who, double to_u, edge_index first, edge_index last) {
        double rate = 0.0;
        for (edge_index some = first; some < last; some += Who::kThreads) {
            const edge_index e = some + Who::thread();
            const bool is_present = e < last && is_tight(e);
            const double of_end = is_present ? rate_of(target(e)) : 0.0;
            if (is_present && shared.edge_words != nullptr) {
                add(shared.edge_words, e, __dmul_rn(to_u, of_end), of_edges());
            }
            rate = Who::sum_of_present(rate, of_end, is_present);
        }
        return rate;
    }

    // What all paths of the row count: an integer of two words.
    __device__ __forceinline__ word64* ends() const { return call.totals + shared.row * word64{6} + 4; }

    // What the paths to `u` count.
    __device__ __forceinline__ double amount_of(word32 u) const {
#if SSSP_AMOUNTS
        const double amount = __dmul_rn(call.target_amounts[u], call.source_amounts[shared.row]);
        if (call.decay > 0.0 && amount > 0.0) {
            const distance_bits d = call.rows[static_cast<word64>(shared.row) * call.n_vertices + u];
            return __dmul_rn(amount, decayed(__dmul_rn(call.decay, length_of(d))));
        }
        return amount;
#else
        return call.target_words == nullptr || (call.target_words[u / 32] >> (u % 32) & 1) != 0 ? 1.0 : 0.0;
#endif
    }

    __device__ __forceinline__ void add_vertex(word32 u, double to_u, double rate, bool is_source) {
        double passes = 0.0;
        if (is_source) {
            if (call.counts_ends != 0) {  // all other rounds are over
                passes = sum_as_double({atomicAdd(ends(), word64{0}), atomicAdd(ends() + 1, word64{0})});
            }
        } else {
            const double amount = amount_of(u);
            if (call.counts_ends != 0) {
                add_wide(ends(), as_wide(amount));
            }
            const double dependency = __dmul_rn(to_u, rate);
            const double with_end = __dadd_rn(dependency, amount);
            paths[u].lower = static_cast<word64>(__double_as_longlong(with_end / to_u));  // P4
            passes = call.counts_ends != 0 ? with_end : dependency;
        }
        if (shared.vertex_words != nullptr) {
            add(shared.vertex_words, u, passes, of_vertices());
        }
    }
};

extern "C" __global__ void __launch_bounds__(kMostThreads, 1) path_sums_kernel(const Call call) {
    __shared__ Shared shared;
    Slot slot(call, shared);
    for (;;) {
        __syncthreads();
        if (threadIdx.x == 0) {
            const word32 taken = atomicAdd(call.next_row, 1u);
            const word64 first = taken < call.n_rows ? call.sets[taken] * call.set_words : 0;
            shared = {call.vertex_words == nullptr ? nullptr : call.vertex_words + first,
                      call.edge_words == nullptr ? nullptr : call.edge_words + first, taken, 0, 0};
        }
        __syncthreads();
        const word32 row = shared.row;
        if (row >= call.n_rows) {
            return;
        }
#if SSSP_AMOUNTS
        if (call.source_amounts[row] == 0.0) {
            continue;
        }
#endif
        slot.find_tight(call.rows + static_cast<word64>(row) * call.n_vertices);
        if (shared.is_refused == 0) {
            word32 begin, end;
            slot.count_paths(call.sources[row], begin, end);
            if (shared.is_refused == 0) {
                slot.add_dependencies(begin, end);
                add_wide(call.totals + row * word64{6}, slot.of_vertices());
                add_wide(call.totals + row * word64{6} + 2, slot.of_edges());
                continue;
            }
        }
        if (threadIdx.x == 0) {
            call.refused[row] = 1;
        }
    }
}
