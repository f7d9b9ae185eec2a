"""The first stage: an edge list becomes a graph store."""
