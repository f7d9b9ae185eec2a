// Distances from many sources at once: each thread block is a slot and takes one source after another.
//
// Returns: `rows`, each lowered to the true distances from its source (bits of `limit` where there is no shorter path),
// and the counts of each search in `counts`. If a search passes its deadline, `progress` contains its number.
//
// Idea: one source leaves most of a GPU idle, because few vertices are near and there are many steps between them. Many
// sources need not wait for each other. So a source has one block, whose only barrier is __syncthreads. Delta can be
// small, because the sources give enough parallel work. `adds_slot.cuh` is the search of one block.
//
// Needs (AddsSlots guarantees it): weights >= 0; sources < n_vertices; *progress zero; SSSP_THREADS a multiple of 32;
//     places for n_far and 2 * n_spilled entries a block; `packed` as adds_slots_pack_kernel makes it.
// Keeps: I1 to I5 of adds_slot.cuh.
// Memory order: the counter of sources is relaxed. Blocks share nothing else.
// Launch: SSSP_THREADS threads a block, any number of blocks; no block waits for another.
// Ends: when no source is left; each search ends (adds_slot.cuh). A search that is late takes all remaining sources
//     away.
// NOTE: beside a row, 8 bytes an entry (16 for 64-bit weights); `adds_slots.py` computes how many entries.

#include "adds_slot.cuh"

// Threads that a multiprocessor of any kind named in the tests holds: asking for more is a warning.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 750
constexpr int kMostThreads = 1024;
#else
constexpr int kMostThreads = 1536;
#endif
constexpr int kBlocksPerSm =
    SSSP_THREADS * SSSP_BLOCKS_PER_SM <= kMostThreads ? SSSP_BLOCKS_PER_SM : kMostThreads / SSSP_THREADS;

struct Progress {
    word32 next_source;
    word32 late;  // 0, or the number of a source whose search passed its deadline, plus one
};

extern "C" __global__ void __launch_bounds__(SSSP_THREADS, kBlocksPerSm)
adds_slots_kernel(const edge_index* row_offsets, const edge_word* edges, const distance_bits* weights,
                  const PackedRow* packed, word32 is_beyond_l2, word32 n_vertices, const word32* sources,
                  word32 n_sources, distance_bits limit, distance_bits delta, distance_bits* rows, Entry* far,
                  word32 n_far, Entry* spilled, word32 n_spilled, word64 deadline_ns, Progress* progress,
                  Counts* counts) {
    __shared__ Shared shared;
    Slot slot;
    slot.graph = {row_offsets, edges, weights};
    slot.packed = packed;
    slot.is_beyond_l2 = is_beyond_l2 != 0;
    slot.n_vertices = n_vertices;
    slot.limit = limit;
    slot.delta = delta;
    slot.far = far + blockIdx.x * static_cast<word64>(n_far);
    slot.spilled = spilled + blockIdx.x * 2 * static_cast<word64>(n_spilled);
    slot.n_far = n_far;
    slot.n_spilled = n_spilled;
    slot.deadline_ns = deadline_ns;
    slot.shared = &shared;
    for (;;) {
        if (threadIdx.x == 0) {
            shared.nth = atomicAdd(&progress->next_source, 1);
        }
        __syncthreads();
        const word32 nth = shared.nth;
        if (nth >= n_sources) {
            return;
        }
        slot.distances = rows + nth * static_cast<word64>(n_vertices);
        if (!slot.solve(sources[nth], counts + nth)) {
            if (threadIdx.x == 0) {
                store_relaxed(&progress->late, nth + 1);
                atomicMax(&progress->next_source, n_sources);
            }
            return;
        }
    }
}

// Lays out `packed` (n_vertices,) from the rows. Launch: a thread for each vertex.
extern "C" __global__ void adds_slots_pack_kernel(const edge_index* row_offsets, const edge_word* edges,
                                                  const distance_bits* weights, word32 n_vertices,
                                                  PackedRow* packed) {
    const DeviceGraph graph{row_offsets, edges, weights};
    const word32 v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= n_vertices) {
        return;
    }
    const edge_index begin = graph.first_edge(v);
    const edge_index degree = graph.first_edge(v + 1) - begin;
    PackedRow row;
#pragma unroll
    for (int i = 0; i < kPacked; ++i) {
        const bool is_edge = degree <= kPacked && i < degree;
        const Edge edge = is_edge ? graph.edge(begin + i) : Edge{kNoVertex, degree <= kPacked};
        row.targets[i] = edge.target;
        row.weights[i] = edge.weight;
    }
    packed[v] = row;
}
