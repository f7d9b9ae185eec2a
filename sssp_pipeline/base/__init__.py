"""What all layers use: the graph in memory, ids, errors, progress."""
