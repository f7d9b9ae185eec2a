// Some columns of rows of distances, side by side. All GPU solvers share it.
//
// Returns: gathered (n, T): the distances to each of the targets (T,) in each of the rows (n, V). n_gathered is n times
// T.
// Launch: any grid.

#include "device_graph.cuh"

extern "C" __global__ void gather_kernel(const distance_bits* rows, word32 n_vertices, const word32* targets,
                                         word32 n_targets, word64 n_gathered, distance_bits* gathered) {
    for (word64 i = blockIdx.x * static_cast<word64>(blockDim.x) + threadIdx.x; i < n_gathered;
         i += static_cast<word64>(gridDim.x) * blockDim.x) {
        gathered[i] = rows[i / n_targets * n_vertices + targets[i % n_targets]];
    }
}
