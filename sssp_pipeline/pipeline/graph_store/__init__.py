"""The graph store: its manifest, how it is written, read and kept on a machine for several processes."""
