"""Matrices: the distances of a run with a row for each source."""
