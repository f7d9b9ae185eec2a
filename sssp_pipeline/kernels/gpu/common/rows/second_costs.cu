// A second cost, summed along the shortest paths of many rows. The integers of `second_costs.py` (kernels/host/).
//
// Returns: sums, for each row a sum for each vertex that is wanted; and left, which marks rows with a vertex that has no tight
//     edge from a nearer vertex. The sums of these rows are not written. The CPU makes them.
// Idea: a block has one row at a time, and its own scratch memory: a slot. A walk goes back from each wanted vertex over tight
//     edges. It claims the vertices that it passes, and ends where another walk was before. So each vertex is passed once,
//     however many paths lead over it. What is left is a tree of walks: each walk needs the sum of the walk that it met. If
//     all vertices are wanted, walks begin at some of them. The others are few edges away from a vertex that a walk passed.
//
// Phases of a row
//     1. Walk: a thread has a walk. The warp shares the edges into a vertex that has many.
//     2. Join: each walk adds the sum of the walk that it met, and then of the one that this walk had met: pointer jumping. The
//        number of rounds is the logarithm of the depth of the tree.
//     3. Write: the sums of walks; or of all vertices, each after a short walk to a vertex that phase 1 passed.
//
// Needs: weights above zero; rows are true distances, "unreached" beyond a cutoff; row r is from sources[r]; `next_row` and
//     `left` zero. Of parallel edges the best one is first. Sums fit 64 bits.
//     SSSP_SPACING: if all vertices are wanted, one in SSSP_SPACING begins a walk.
// Keeps
//     I1. A tight edge counts only if it comes from a nearer vertex. So walks and the tree of walks have no circles.
//     I2. Sums are integers that wrap, so a part of a path may be subtracted. Which walk claims a vertex changes no sum.
// Memory order: __syncthreads ends a phase and a round. `passed` of a vertex is read behind the barrier only.
// Launch: any grid of at most as many blocks as there are slots; blocks of a multiple of 32 threads.
// Ends: each step of a walk leads to a nearer vertex.
// NOTE: each second cost has a launch of its own, which walks anew.

#include "device_graph.cuh"
#include "warp.cuh"

constexpr word32 kMostThreads = 1024;
// Edges whose distances a thread reads at a time.
constexpr word32 kTogether = 4;
// The edges into a vertex are shared by the warp if they are more.
constexpr word32 kFew = 16;
// No vertex, or no walk. And what owns the source.
constexpr word32 kNone = 0xffffffffu;
constexpr word32 kRoot = 0xfffffffeu;

struct Call {
    // The edges into each vertex, by rising starts, and their second costs.
    const edge_index* row_offsets;
    const edge_word* edges;
    const distance_bits* weights;
    const word64* costs;        // (E,)
    const distance_bits* rows;  // (n_rows, V)
    const word32* sources;      // (n_rows,)
    // The wanted vertices: the same of each row, or others of each row, or all if both are null.
    const word32* targets;      // (n_columns,)
    const word64* nearest;      // (n_rows, 2 * n_columns) from the first vertex on: what `nearest.cu` writes
    // Scratch memory of each slot.
    word32* owners;             // (n_slots, V): the walk that claimed each vertex
    word64* passed;             // (n_slots, V): what this walk had summed up when it came there
    word32* links;              // (n_slots, 2, n_walks): where a walk ended, then the walk it still needs
    word64* totals;             // (n_slots, 2, n_walks): the sum of a walk without the walk it still needs
    // Results.
    word64* sums;               // (n_rows, n_columns)
    word32* left;               // (n_rows,): 1 if the row was left
    word32* next_row;
    word64 unreached;           // the sum where there is no path
    word32 n_vertices;
    word32 n_columns;
    word32 n_walks;
    word32 n_rows;
};

struct Shared {
    word32 row;
    word32 is_left;
};

struct Slot {
    const Call& call;
    Shared& shared;
    const DeviceGraph graph;
    word32* owners;
    word64* passed;
    word32* links;
    word64* totals;
    const distance_bits* distances;  // of the row
    word64* sums;

    __device__ Slot(const Call& of, Shared& with) : call(of), shared(with), graph{of.row_offsets, of.edges, of.weights} {
        const word64 slot = blockIdx.x;
        owners = call.owners + slot * call.n_vertices;
        passed = call.passed + slot * call.n_vertices;
        links = call.links + slot * 2 * call.n_walks;
        totals = call.totals + slot * 2 * call.n_walks;
    }

    __device__ void begin_row() {
        distances = call.rows + static_cast<word64>(shared.row) * call.n_vertices;
        sums = call.sums + static_cast<word64>(shared.row) * call.n_columns;
        const word32 source = call.sources[shared.row];
        for (word64 v = threadIdx.x; v < call.n_vertices; v += blockDim.x) {
            owners[v] = v == source ? kRoot : kNone;
        }
        if (threadIdx.x == 0) {
            passed[source] = 0;
        }
        __syncthreads();
    }

    // ---- 1. Walk ----

    // Where walk `i` begins; kNone if its vertex is unreached.
    __device__ __forceinline__ word32 start_of(word32 i) const {
        word32 v;
        if (call.targets != nullptr) {
            v = call.targets[i];
        } else if (call.nearest != nullptr) {
            v = static_cast<word32>(call.nearest[static_cast<word64>(shared.row) * 2 * call.n_columns + i]);
        } else {
            // Spread by a hash: the numbers of a path through a grid have equal differences.
            v = min(i * SSSP_SPACING + (i * 2654435769u >> 16) % SSSP_SPACING, call.n_vertices - 1);
        }
        return v == kNone || distances[v] == kUnreached ? kNone : v;
    }

    __device__ __forceinline__ bool is_tight(distance_bits from, distance_bits weight, distance_bits to) const {
        return from < to && sum_of(from, weight) == to;  // I1
    }

    // Sets `e` to the first tight edge into `v`, and returns whether there is one. All threads of a warp call it together;
    // a thread without a walk has no `v`.
    __device__ __forceinline__ bool find_edge(bool walks, word32 v, edge_index& e) const {
        edge_index first = 0, last = 0;
        distance_bits to = 0;
        bool is_found = false;
        if (walks) {
            first = graph.first_edge(v);
            last = graph.first_edge(v + 1);
            to = __ldg(distances + v);
        }
        const bool is_wide = last - first > kFew;
        for (edge_index some = first; some < last && !is_wide && !is_found; some += kTogether) {
            Edge edges[kTogether];
            distance_bits from[kTogether];
#pragma unroll
            for (word32 i = 0; i < kTogether; ++i) {
                edges[i] = graph.edge(min(some + i, last - 1));
            }
#pragma unroll
            for (word32 i = 0; i < kTogether; ++i) {
                from[i] = __ldg(distances + edges[i].target);
            }
#pragma unroll
            for (word32 i = kTogether; i-- > 0;) {
                if (is_tight(from[i], edges[i].weight, to)) {
                    e = min(some + i, last - 1);
                    is_found = true;
                }
            }
        }
        for (word32 wide = __ballot_sync(kWholeWarp, is_wide); wide != 0; wide &= wide - 1) {
            const int owner = __ffs(wide) - 1;
            const edge_index end = __shfl_sync(kWholeWarp, last, owner);
            const distance_bits distance = __shfl_sync(kWholeWarp, to, owner);
            for (edge_index some = __shfl_sync(kWholeWarp, first, owner); some < end; some += 32) {
                const edge_index mine = some + threadIdx.x % 32;
                const Edge edge = graph.edge(min(mine, end - 1));
                const distance_bits from = __ldg(distances + edge.target);
                const word32 tight = __ballot_sync(kWholeWarp, mine < end && is_tight(from, edge.weight, distance));
                if (tight != 0) {
                    if (static_cast<int>(threadIdx.x % 32) == owner) {
                        e = some + static_cast<edge_index>(__ffs(tight) - 1);
                        is_found = true;
                    }
                    break;
                }
            }
        }
        return is_found;
    }

    // Has the threads take walks in turn. `begin(i)` is where walk i begins, or kNone if it does not. `arrive(i, v, sum)`
    // is called at each vertex, with what was summed up, and returns whether the walk goes on.
    template <typename Begin, typename Arrive>
    __device__ __forceinline__ void walk_back(word32 n_walks, const Begin& begin, const Arrive& arrive) {
        word32 v = kNone;
        word64 sum = 0;
        bool walks = false;
        for (word64 i = threadIdx.x;;) {
            if (!walks && i < n_walks) {
                v = begin(static_cast<word32>(i));
                sum = 0;
                walks = v != kNone && arrive(static_cast<word32>(i), v, sum);
                i += walks ? 0 : blockDim.x;
            }
            if (__ballot_sync(kWholeWarp, walks || i < n_walks) == 0) {
                return;
            }
            edge_index e = 0;
            const bool is_found = find_edge(walks, v, e);
            if (walks) {
                if (is_found) {
                    sum += __ldg(call.costs + e);
                    v = graph.edge(e).target;
                    walks = arrive(static_cast<word32>(i), v, sum);
                } else {
                    shared.is_left = 1;
                    walks = false;
                }
                i += walks ? 0 : blockDim.x;
            }
        }
    }

    __device__ void walk() {
        walk_back(
            call.n_walks,
            [&](word32 i) {
                links[i] = kNone;
                totals[i] = call.unreached;
                return start_of(i);
            },
            [&](word32 i, word32 v, word64 sum) {
                if (atomicCAS(&owners[v], kNone, i) == kNone) {
                    passed[v] = sum;
                    return true;
                }
                links[i] = v;
                totals[i] = sum;
                return false;
            });
        __syncthreads();
    }

    // ---- 2. Join ----

    // Sums up all walks. Afterwards both halves of `totals` have the sums.
    __device__ void join() {
        for (word32 i = threadIdx.x; i < call.n_walks; i += blockDim.x) {
            const word32 v = links[i];
            if (v != kNone) {
                const word32 owner = owners[v];
                links[i] = owner == kRoot ? kNone : owner;
                totals[i] -= passed[v];  // I2
            }
            links[call.n_walks + i] = 0;  // its sum is not there yet
        }
        for (word32 from = 0;; from = call.n_walks - from) {
            __syncthreads();
            const word32 to = call.n_walks - from;
            bool has_more = false;
            for (word32 i = threadIdx.x; i < call.n_walks; i += blockDim.x) {
                const word32 other = links[from + i];
                if (other != kNone) {
                    totals[to + i] = totals[from + i] + totals[from + other];
                    links[to + i] = links[from + other];
                    has_more = true;
                } else if (links[to + i] != kNone) {
                    totals[to + i] = totals[from + i];
                    links[to + i] = kNone;
                }
            }
            if (!__syncthreads_or(has_more)) {
                return;
            }
        }
    }

    // ---- 3. Write ----

    __device__ void write() {
        if (call.targets != nullptr || call.nearest != nullptr) {
            for (word32 i = threadIdx.x; i < call.n_columns; i += blockDim.x) {
                sums[i] = totals[i];
            }
            return;
        }
        walk_back(
            call.n_vertices,
            [&](word32 v) {
                if (distances[v] != kUnreached) {
                    return v;
                }
                sums[v] = call.unreached;
                return kNone;
            },
            [&](word32 i, word32 v, word64 sum) {
                const word32 owner = owners[v];
                if (owner == kNone) {
                    return true;
                }
                sums[i] = sum - passed[v] + (owner == kRoot ? 0 : totals[owner]);
                return false;
            });
    }
};

extern "C" __global__ void __launch_bounds__(kMostThreads, 1) second_costs_kernel(const Call call) {
    __shared__ Shared shared;
    Slot slot(call, shared);
    for (;;) {
        __syncthreads();
        if (threadIdx.x == 0) {
            shared = {atomicAdd(call.next_row, 1u), 0};
        }
        __syncthreads();
        if (shared.row >= call.n_rows) {
            return;
        }
        slot.begin_row();
        slot.walk();
        if (shared.is_left == 0) {
            slot.join();
            slot.write();
        }
        __syncthreads();
        if (threadIdx.x == 0 && shared.is_left != 0) {
            call.left[shared.row] = 1;
        }
    }
}
