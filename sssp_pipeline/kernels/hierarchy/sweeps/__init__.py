"""Sweeps over a hierarchy: distances, and numbers of paths."""
