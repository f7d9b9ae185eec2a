"""Solvers on the GPU, a folder each: CUDA source, Python and a README."""
