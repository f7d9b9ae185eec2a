"""CuPy and the compiler: whether they work here, and the kernels that they make."""
