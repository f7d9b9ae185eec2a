"""The last stage: stored distances are read back on the workers and compared with true ones."""
