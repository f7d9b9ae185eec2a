// Distances from one source by asynchronous delta-stepping with a delta that adapts, over the whole GPU.
//
// Returns: `distances` lowered to the true ones (bits of `limit` where there is no shorter path), and counts in
// `Report`.
//
// Idea: supersteps cost a road graph its parallelism: the few vertices of one superstep wait for the slowest. So here
// nothing waits for a superstep. Block 0, the manager, hands out entries of the first buckets as they arrive. Every
// other warp is a worker: it relaxes the edges of its entries and writes what it lowered straight into the buckets
// (section 5). What may look odd:
//   - A worker is a warp, not a block: warps run on their own, and no barrier makes one wait for another.
//   - An entry is a vertex without its distance. The worker reads the distance when it takes the entry. `processed` is
//     the distance with which a vertex was last relaxed, so other entries of the same vertex are skipped (I8).
//
// Needs (guaranteed by `adds.py`): weights of zero or more; n_vertices + n_chunks < 2^32 - 1; every block of the
//     grid resident at once, two or more; no more workers than the manager's threads have flags for; control words
//     zero; SSSP_THREADS a multiple of 32, 64 to 1024.
// Keeps: I1 to I9 of docs/design/0002-adds-queue.md, R1 to R3 of relax.cuh.
// Memory order: F1 to F7, in the headers.
// Launch: cooperative; block 0 is the manager.
// Ends: distances take finitely many values and only fall. Every entry is taken in the end (I9). It goes back without
//     being relaxed at most once in each round of kRebinRest head switches. Then the manager ends the run.
// Paper: Wang, Fussell, Lin, "A fast work-efficient SSSP algorithm for GPUs", PPoPP 2021.

#include "adds_manager.cuh"
#include "adds_worker.cuh"

union Shared {
    Held held[kWarps];
    Manager manager;
};

extern "C" __global__ void __launch_bounds__(SSSP_THREADS, 1)
adds_search_kernel(const edge_index* row_offsets, const edge_word* edges, const distance_bits* weights,
                   word32 n_vertices, word32 n_chunks, const uint2* chunks, const word32* hub_vertices,
                   const word32* hub_chunks, word32 n_hubs, word32 source, distance_bits limit,
                   distance_bits* distances, distance_bits* processed, word32* entries, word32* counters,
                   word32 n_pages, word32 n_mappings, word64* control, const Tuning* tuning, Report* report,
                   Trace* traces, word64 patience_ns) {
    __shared__ Shared shared;
    __shared__ word64 cache[kBuckets];
    const word32 warp = threadIdx.x / 32;
    const word32 n_workers = (gridDim.x - 1) * kWarps;

    // counters: written, completed, free pages, owners. control: as `adds.py` lays it out.
    Queue queue;
    queue.entries = entries;
    queue.written = counters;
    queue.completed = queue.written + static_cast<word64>(n_pages) * kSegments;
    word32* const free_pages = queue.completed + n_pages;
    queue.owners = free_pages + n_pages;
    queue.schedule = control;
    queue.poison = reinterpret_cast<word32*>(control + 16);
    queue.stop = queue.poison + kLine;
    queue.working = queue.stop + kLine;
    queue.steps = queue.working + kLine;
    queue.reserved = queue.steps + kLine;
    queue.tables = reinterpret_cast<word64*>(queue.reserved + kBuckets * kLine);
    queue.flags = queue.tables + static_cast<word64>(kBuckets) * n_mappings;
    queue.n_pages = n_pages;
    queue.n_mappings = n_mappings;

    // ---- start: nothing is reached but the source, which is the first entry of the head bucket ----
    const word64 n_threads = static_cast<word64>(gridDim.x) * SSSP_THREADS;
    const word64 n_processed = static_cast<word64>(n_vertices) + n_chunks;
    for (word64 i = blockIdx.x * static_cast<word64>(SSSP_THREADS) + threadIdx.x; i < n_processed; i += n_threads) {
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
            m.tuning = *tuning;
            m.pool = Pool{free_pages, 0, 0};
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
            const word32 page = m.buckets[0].known_page;
            store_relaxed(queue.entries + (static_cast<word64>(page) << kPageBits), source);
            store_relaxed(queue.written + page * kSegments, 1);
            store_relaxed(queue.reserved, 1);
            Control c{};
            c.set_delta(m.tuning.delta);
            c.n_heads = m.tuning.first_heads;
            c.publish(queue, m.tuning, false);
        }
    }
    GridBarrier barrier{&report->barrier, gridDim.x, patience_ns, kNoDeadline};
    if (!barrier.wait()) {
        return;
    }
    if (blockIdx.x == 0) {
        manage(queue, shared.manager, n_workers, report, traces);
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
                  tuning->n_buckets,
                  tuning->chain,
                  tuning->look_first != 0,
                  &shared.held[warp],
                  cache,
                  0,
                  0,
                  Schedule{},
                  0,
                  0};
    worker.run(queue.flags + (blockIdx.x - 1) * kWarps + warp);

    // ---- end: the counts ----
    add_counts(worker.vertices_processed, worker.edges_relaxed, &report->vertices_processed, &report->edges_relaxed);
}
