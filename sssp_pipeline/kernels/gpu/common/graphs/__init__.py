"""Graphs in device memory, and lists of their edges."""
