"""Binary: arrays of numbers, as Galois and SciPy write them."""
