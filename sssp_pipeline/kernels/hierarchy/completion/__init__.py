"""The arcs of a hierarchy in a given order: completed, weighted, and cut into chunks."""
