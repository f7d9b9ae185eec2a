// Targets and weights side by side: a part of a graph with 32-bit weights on its way to the device.
//
// Returns: edges[i] = {targets[i], weights[i]} for i < count.
// Launch: any grid.

#include "device_graph.cuh"

#if SSSP_BITS == 32
extern "C" __global__ void interleave_kernel(const word32* targets, const word32* weights, word64 count,
                                             uint2* edges) {
    for (word64 i = blockIdx.x * static_cast<word64>(blockDim.x) + threadIdx.x; i < count;
         i += static_cast<word64>(gridDim.x) * blockDim.x) {
        edges[i] = make_uint2(targets[i], weights[i]);
    }
}
#endif
