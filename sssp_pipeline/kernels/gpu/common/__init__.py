"""What GPU solvers share. `headers/` holds the device code that kernels include, one idea a file."""
