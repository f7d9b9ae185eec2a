"""Ids: numbers the vertices of an edge list, in memory and on disk."""
