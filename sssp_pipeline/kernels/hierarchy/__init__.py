"""The hierarchy of a graph with small separators: order, completion, customization, and the sweep over it."""
