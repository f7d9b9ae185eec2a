"""Writing: the parts of a graph store, cut from a stream of rows and committed with a manifest."""
