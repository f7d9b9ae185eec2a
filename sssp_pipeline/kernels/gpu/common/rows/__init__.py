"""Rows of distances in device memory: their bits, their counts, and what is kept of them."""
