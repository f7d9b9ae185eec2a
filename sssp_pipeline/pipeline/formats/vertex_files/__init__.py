"""Vertex files: tables about vertices, which are their ids, points or positions."""
