"""What solvers on the CPU and on the GPU do on the host: searches, predecessors, reweighting, and tools for numba."""
