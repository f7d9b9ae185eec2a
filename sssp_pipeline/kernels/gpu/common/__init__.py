"""What GPU solvers share: device code, one idea a file, and the Python that launches it."""
