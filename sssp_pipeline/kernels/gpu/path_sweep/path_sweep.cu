// What passes each arc of a hierarchy, and each vertex, on the shortest paths from many sources.
//
// Idea: as `path_sweep.py`, a block for each 32 sources, its lanes. A warp has a vertex of all lanes, and blocks never wait
// for each other. All vertices of the same depth of the elimination tree are taken together; arcs lead to lower depths.
//   1. climb: each warp follows a lane up the tree. The vertices above a source have different depths, so what is
//      known of them is kept by depth.
//   2. sweep: depth by depth from the roots, a vertex takes the least distance over its arcs, and the numbers of paths
//      of the arcs that give it.
//   3. back: depth by depth from the leaves, the rate of a vertex is the sum over the arcs that lead down from it. It takes
//      the place of the number of paths.
//   4. climb_back: depth by depth from the roots, rates go down the climbs. Lanes with the same vertex share a warp.
//
// Keeps
//     I1. What passes an arc is a sum over the lanes of a block in one order. It is added to an integer of 128 bits, and
//         integers may be added in any order. So the sums do not depend on the number of blocks.
//     I2. A block has sources of one part only. So the sums of a part do not depend on other parts.
//     I3. A total of a source is a float64, and so is what ends on its paths. Each warp adds what it finds, and the sums of
//         warps are added in order. So both depend on the sources of the block and on the number of warps.
//     I4. No product and sum are one instruction (`times`). So the bits do not depend on the compiler.
// Needs: weights above zero; no distance that a word cannot hold, which would be kInfinity.
// Memory order: blocks share only the sums, by atomics.

#include "warp.cuh"

#if SSSP_BITS == 64
using path_word = word64;
#else
using path_word = word32;
#endif
constexpr path_word kInfinity = ~path_word{0};
constexpr word32 kNone = 0xffffffffu;
// Arcs whose rows a warp reads together.
constexpr word32 kTogether = 4;
constexpr double kFraction = 18446744073709551616.0;  // 2^64

// Arcs by one of their ends.
struct PathArcs {
    // (V+1,): the arcs of an end; (A,): their other ends.
    const word32* offsets;
    const word32* ends;
    const path_word* weights;
    const double* paths;
    // (A,): the mean number of vertices between the ends of the paths of an arc.
    const double* inner;
};

struct PathCall {
    // (V,): the parent of a vertex in the elimination tree, and its depth; vertices by depth, and where each depth begins.
    const word32* parents;
    const word32* depths;
    const word32* by_depth;
    const word32* depth_offsets;
    // (V,): what ends at a vertex from a source of amount 1.
    const double* amounts;
    // (S,): the ranks of the sources, and their amounts. (G+1,): where the sources of each block begin. (G,): the part of
    // each block.
    const word32* sources;
    const double* source_amounts;
    const word32* group_offsets;
    const word32* group_parts;
    // (V, 32) for each block: distances; numbers of paths, then rates.
    path_word* distances;
    double* values;
    // (D, 32) for each block: of the vertex of a depth above a lane its rank, distance, number of paths and rate.
    word32* chain;
    path_word* climbed;
    double* climbed_paths;
    double* climbed_rates;
    // (n, 2) for each part: sums for the arcs up, for those down by their upper end, and for vertices.
    word64* up_words;
    word64* down_words;
    word64* through_words;
    // (S, 2): what the paths from a source pass, of vertices and of edges.
    double* totals;
    // Set if a number of paths is above `most_paths`.
    word32* is_crowded;
    word64 limit;
    double most_paths;
    // By what `amounts` are multiplied where they are added to what passes their vertex, and the source.
    double at_end;
    word32 n_up;
    word32 n_down;
    word32 n_vertices;
    word32 n_depths;
};

__device__ __forceinline__ path_word plus(path_word a, path_word b) {
    const path_word sum = a + b;
    return sum < a ? kInfinity : sum;
}

__device__ __forceinline__ double times(double a, double b) { return __dmul_rn(a, b); }

__device__ __forceinline__ double sum_of_lanes(double value) {
#pragma unroll
    for (int by = 16; by > 0; by /= 2) {
        value += __shfl_xor_sync(kWholeWarp, value, by);
    }
    return value;
}

// Adds a number of zero or more to the integer of 128 bits at `words`, 64 of them behind the point; the rest is cut.
__device__ __forceinline__ void add_wide(word64* words, double value) {
    if (!(value > 0.0)) {
        return;
    }
    const word64 whole = static_cast<word64>(value);
    const word64 fraction = static_cast<word64>(times(value - static_cast<double>(whole), kFraction));
    const word64 before = atomicAdd(words, fraction);
    const word64 more = whole + (before + fraction < before ? 1 : 0);
    if (more != 0) {
        atomicAdd(words + 1, more);
    }
}

// What the threads of a warp know of a block's work.
struct Block {
    // The arcs up and down by their lower end, and those down by their upper end.
    const PathArcs& up;
    const PathArcs& down;
    const PathArcs& by_upper;
    const PathCall& call;
    word32 lane, warp, n_warps;
    // Its sources are `first_source` to `end_source` - 1.
    word32 first_source, end_source;
    word64* up_words;
    word64* down_words;
    word64* through_words;
    path_word* distances;
    double* values;
    word32* chain;
    path_word* climbed;
    double* climbed_paths;
    double* climbed_rates;

    __device__ Block(const PathArcs& up_arcs, const PathArcs& down_arcs, const PathArcs& by_upper_end, const PathCall& of)
        : up(up_arcs), down(down_arcs), by_upper(by_upper_end), call(of) {
        lane = threadIdx.x % 32;
        warp = threadIdx.x / 32;
        n_warps = blockDim.x / 32;
        first_source = call.group_offsets[blockIdx.x];
        end_source = call.group_offsets[blockIdx.x + 1];
        const word64 part = call.group_parts[blockIdx.x];
        up_words = call.up_words + part * call.n_up * 2;
        down_words = call.down_words + part * call.n_down * 2;
        through_words = call.through_words + part * call.n_vertices * 2;
        const word64 rows = word64{blockIdx.x} * call.n_vertices * 32;
        const word64 cells = word64{blockIdx.x} * call.n_depths * 32;
        distances = call.distances + rows;
        values = call.values + rows;
        chain = call.chain + cells;
        climbed = call.climbed + cells;
        climbed_paths = call.climbed_paths + cells;
        climbed_rates = call.climbed_rates + cells;
    }

    // Returns the sum of what the warps have of this thread's lane, in the order of the warps.
    __device__ double sum_of_warps(const double (*of_warps)[32]) const {
        double sum = 0.0;
        for (word32 of = 0; of < n_warps; ++of) {
            sum += of_warps[of][lane];
        }
        return sum;
    }
};

// Follows the source of lane `of` up. All threads of a warp call it.
__device__ void climb(const Block& block, word32 of) {
    const PathCall& call = block.call;
    const word32 source = block.first_source + of;
    for (word32 depth = block.lane; depth < call.n_depths; depth += 32) {
        block.chain[depth * 32 + of] = kNone;
        block.climbed[depth * 32 + of] = kInfinity;
        block.climbed_paths[depth * 32 + of] = 0.0;
    }
    __syncwarp();
    word32 v = source < block.end_source ? call.sources[source] : kNone;
    word32 depth = v == kNone ? 0 : call.depths[v];
    if (v != kNone && block.lane == 0) {
        block.climbed[depth * 32 + of] = 0;
        block.climbed_paths[depth * 32 + of] = 1.0;
    }
    __syncwarp();
    while (v != kNone) {
        const path_word here = block.climbed[depth * 32 + of];
        const double to_here = block.climbed_paths[depth * 32 + of];
        const word32 end = block.up.offsets[v + 1];
        for (word32 arc = block.up.offsets[v] + block.lane; here != kInfinity && arc < end; arc += 32) {
            // The arcs of a vertex have different upper ends, so no other thread has this cell.
            const word32 cell = call.depths[block.up.ends[arc]] * 32 + of;
            const path_word there = plus(here, block.up.weights[arc]);
            const double more = times(to_here, block.up.paths[arc]);
            if (there < block.climbed[cell]) {
                block.climbed[cell] = there;
                block.climbed_paths[cell] = more;
            } else if (there == block.climbed[cell]) {
                block.climbed_paths[cell] += more;
            }
        }
        if (block.lane == 0) {
            block.chain[depth * 32 + of] = v;
        }
        __syncwarp();
        v = call.parents[v];
        --depth;
    }
}

// Calls `take(j, arc, row, weight, paths)` for the arcs `first` to `end` - 1 of one end, with what `read(row)` gives of
// its other end. Thread `j` also calls `finish(arc)` for the same arc.
template <typename Read, typename Take, typename Finish>
__device__ __forceinline__ void for_arcs(const PathArcs& arcs, word32 first, word32 end, word32 lane, Read read, Take take,
                                         Finish finish) {
    for (; first < end; first += 32) {
        const word32 n = min(end - first, 32u);
        const word32 mine = lane < n ? arcs.ends[first + lane] : 0;
        const path_word weight = lane < n ? arcs.weights[first + lane] : 0;
        const double paths = lane < n ? arcs.paths[first + lane] : 0.0;
        for (word32 j = 0; j < n; j += kTogether) {
            decltype(read(0)) rows[kTogether];
#pragma unroll
            for (word32 i = 0; i < kTogether; ++i) {
                const word32 row = __shfl_sync(kWholeWarp, mine, min(j + i, n - 1));
                rows[i] = read(row);
            }
#pragma unroll
            for (word32 i = 0; i < kTogether; ++i) {
                const path_word weight_of = __shfl_sync(kWholeWarp, weight, (j + i) % 32);
                const double paths_of = __shfl_sync(kWholeWarp, paths, (j + i) % 32);
                if (j + i < n) {
                    take(j + i, first + j + i, rows[i], weight_of, paths_of);
                }
            }
        }
        if (lane < n) {
            finish(first + lane);
        }
    }
}

struct Row {
    path_word distance;
    double value;
};

// Computes the row of `v` from those of lower depth.
__device__ void sweep(const Block& block, word32 v, word32 depth) {
    const word32 lane = block.lane;
    const auto read = [&](word32 row) {
        return Row{block.distances[word64{row} * 32 + lane], block.values[word64{row} * 32 + lane]};
    };
    const bool is_above = block.chain[depth * 32 + lane] == v;
    path_word least = is_above ? block.climbed[depth * 32 + lane] : kInfinity;
    double total = is_above ? block.climbed_paths[depth * 32 + lane] : 0.0;
    const auto take = [&](word32, word32, const Row& row, path_word weight, double paths) {
        const path_word there = plus(row.distance, weight);
        const double more = times(row.value, paths);
        total = there < least ? more : there == least ? total + more : total;
        least = min(least, there);
    };
    for_arcs(block.down, block.down.offsets[v], block.down.offsets[v + 1], lane, read, take, [](word32) {});
    block.distances[word64{v} * 32 + lane] = least;
    block.values[word64{v} * 32 + lane] = total;
}

// What a thread has found of its lane.
struct Found {
    double amounts = 0.0;
    // What the paths pass, of vertices and of edges.
    double vertices = 0.0;
    double edges = 0.0;
};

// Computes the rates of `v` from those of higher depth. Adds to the sums of its arcs and of `v` what passes them.
__device__ void back(const Block& block, word32 v, Found& found) {
    const PathCall& call = block.call;
    const word32 lane = block.lane;
    const word64 own = word64{v} * 32 + lane;
    const path_word distance = block.distances[own];
    const double to_here = block.values[own];
    if (!(to_here <= call.most_paths)) {
        *call.is_crowded = 1;
    }
    const auto read = [&](word32 row) {
        return Row{block.distances[word64{row} * 32 + lane], block.values[word64{row} * 32 + lane]};
    };
    const PathArcs& arcs = block.by_upper;
    double rate = 0.0;
    double within = 0.0;
    double passing = 0.0;
    const auto take = [&](word32 j, word32 arc, const Row& row, path_word weight, double paths) {
        const double part = plus(distance, weight) == row.distance ? times(paths, row.value) : 0.0;
        rate += part;
        within += times(part, arcs.inner[arc]);
        const double sum = sum_of_lanes(times(to_here, part));
        passing = lane == j ? sum : passing;
    };
    const auto finish = [&](word32 arc) { add_wide(block.down_words + word64{arc} * 2, passing); };
    for_arcs(arcs, arcs.offsets[v], arcs.offsets[v + 1], lane, read, take, finish);
    const bool is_end = distance < call.limit && distance != 0;
    // A lane without a source ends nowhere.
    const double amount = is_end ? times(call.amounts[v], call.source_amounts[block.first_source + lane]) : 0.0;
    block.values[own] = is_end ? rate + amount / to_here : rate;
    const double over = times(to_here, rate);
    const double through = (distance != 0 ? over : 0.0) + times(amount, call.at_end);
    within = times(to_here, within);
    found.amounts += amount;
    found.vertices += within + through;
    found.edges += within + over;
    const double sum = sum_of_lanes(through);
    if (lane == 0) {
        add_wide(block.through_words + word64{v} * 2, sum);
    }
}

// Takes the rates of `v`, which is above `lanes`, a bit for each, down the climbs. `ended` are sums of amounts.
__device__ void climb_back(const Block& block, word32 v, word32 depth, word32 lanes, const double* ended,
                           Found& found) {
    const PathCall& call = block.call;
    const word32 lane = block.lane;
    const word32 own = depth * 32 + lane;
    double rate = 0.0;
    double within = 0.0;
    const word32 end = block.up.offsets[v + 1];
    for (word32 first = block.up.offsets[v]; first < end; first += 32) {
        const word32 arc = min(first + lane, end - 1);
        const path_word weight = block.up.weights[arc];
        const double paths = first + lane < end ? block.up.paths[arc] : 0.0;
        const double inner = block.up.inner[arc];
        const word32 cell = call.depths[block.up.ends[arc]] * 32;
        double passing = 0.0;
        for (word32 left = lanes; left != 0; left &= left - 1) {
            const word32 of = __ffs(left) - 1;
            const path_word here = block.climbed[depth * 32 + of];
            const bool is_tight = here != kInfinity && plus(here, weight) == block.climbed[cell + of];
            const double part = is_tight ? times(paths, block.climbed_rates[cell + of]) : 0.0;
            passing += times(block.climbed_paths[depth * 32 + of], part);
            const double sum = sum_of_lanes(part);
            const double inside = sum_of_lanes(times(part, inner));
            rate += lane == of ? sum : 0.0;
            within += lane == of ? inside : 0.0;
        }
        if (first + lane < end) {
            add_wide(block.up_words + word64{arc} * 2, passing);
        }
    }
    const bool is_mine = (lanes >> lane & 1) != 0 && block.climbed[own] != kInfinity;
    double through = 0.0;
    if (is_mine) {
        const word64 row = word64{v} * 32 + lane;
        const bool is_source = block.climbed[own] == 0;
        const bool is_least = block.distances[row] == block.climbed[own];
        block.climbed_rates[own] = rate + (is_least ? block.values[row] : 0.0);
        const double over = times(block.climbed_paths[own], rate);
        within = times(block.climbed_paths[own], within);
        through = is_source ? times(ended[lane], call.at_end) : over;
        found.vertices += within + through;
        found.edges += within + over;
    }
    through = sum_of_lanes(through);
    if (lane == 0) {
        add_wide(block.through_words + word64{v} * 2, through);
    }
}

extern "C" __global__ void __launch_bounds__(1024) path_sweep_kernel(const PathArcs up, const PathArcs down,
                                                                      const PathArcs by_upper, const PathCall call) {
    __shared__ double ended[32];
    __shared__ double of_warps[2][32][32];
    const Block block(up, down, by_upper, call);
    for (word32 of = block.warp; of < 32; of += block.n_warps) {
        climb(block, of);
    }
    __syncthreads();
    for (word32 depth = 0; depth < call.n_depths; ++depth) {
        const word32 end = call.depth_offsets[depth + 1];
        for (word32 i = call.depth_offsets[depth] + block.warp; i < end; i += block.n_warps) {
            sweep(block, call.by_depth[i], depth);
        }
        __syncthreads();
    }
    Found found;
    for (word32 depth = call.n_depths; depth-- > 0;) {
        const word32 end = call.depth_offsets[depth + 1];
        for (word32 i = call.depth_offsets[depth] + block.warp; i < end; i += block.n_warps) {
            back(block, call.by_depth[i], found);
        }
        __syncthreads();
    }
    of_warps[0][block.warp][block.lane] = found.amounts;
    __syncthreads();
    if (block.warp == 0) {
        ended[block.lane] = block.sum_of_warps(of_warps[0]);
    }
    __syncthreads();
    for (word32 depth = 0; depth < call.n_depths; ++depth) {
        const word32 mine = block.chain[depth * 32 + block.lane];
        for (word32 of = block.warp; of < 32; of += block.n_warps) {
            const word32 v = __shfl_sync(kWholeWarp, mine, of);
            const word32 lanes = __ballot_sync(kWholeWarp, mine == v);
            if (v != kNone && lanes % (word64{1} << of) == 0) {
                climb_back(block, v, depth, lanes, ended, found);
            }
        }
        __syncthreads();
    }
    of_warps[0][block.warp][block.lane] = found.vertices;
    of_warps[1][block.warp][block.lane] = found.edges;
    __syncthreads();
    const word32 source = block.first_source + block.lane;
    for (word32 total = block.warp; total < 2 && source < block.end_source; total += block.n_warps) {
        call.totals[word64{source} * 2 + total] = block.sum_of_warps(of_warps[total]);
    }
}
